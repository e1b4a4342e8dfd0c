"""A board that is limited before anything was measured has no burst to compare with."""

import pytest

from edgetop.analysis.verdict_reasons import State, WasThrottled
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.support.slow_sessions import analysed, slowdowns_of, stretch, view_of

TEN = stretch((60, 10.0))
ON, OFF = stretch((60, 1.0)), stretch((60, 0.0))
BUSY = stretch((60, 97.0))

LIMITED = {
    "a thermal flag": ("thermal", {"throttle/thermal": ON}),
    "a power limit": ("power-cap", {"throttle/power-limit": ON}),
    "under-voltage that caps": ("under-voltage", {"throttle/under-voltage": ON, "throttle/freq-capped": ON}),
    "a cap that does not say why": ("unknown", {"throttle/freq-capped": ON}),
    "a clock far below": ("clock-change", {"freq/cpu0": stretch((60, 600)), "load/engine": BUSY}),
    "a clock that the firmware holds": (
        "clock-change", {"freq/arm": stretch((60, 600)), "freq/cpu0": stretch((60, 1800)), "load/engine": BUSY}),
    "a clock below at its trip": (
        "thermal", {"freq/cpu0": stretch((60, 1400)), "temp/cpu-thermal": stretch((60, 85.3)), "load/engine": BUSY}),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITED)
def test_it_is_throttled_from_the_start(name: str) -> None:
    cause, sensors = LIMITED[name]
    analysis = analysed(TEN, sensors)
    (found,) = analysis.slowdowns_view().slowdowns
    assert (found.start_ns, found.end_ns, found.cause, found.from_start) == (0, None, cause, True)
    assert found.latency_ratio is None
    assert found.evidence
    verdict = analysis.view(None).verdict
    assert (verdict.state, verdict.level) == (State.THROTTLED_FROM_START, "critical")
    assert report_document(analysis)["throttled"] is True


NOT_LIMITED = {
    "a sticky bit": {"throttle/thermal-sticky": ON, "throttle/thermal": OFF},
    "a low clock of an idle engine": {"freq/cpu0": stretch((60, 600)), "load/engine": stretch((60, 12.0))},
    "a low clock that is all that is allowed": {
        "freq/cpu0": stretch((60, 600)), "freqcap/cpu0": stretch((60, 600)), "load/engine": BUSY},
    "another core that idles": {
        "freq/cpu0": stretch((60, 1780)), "freq/cpu1": stretch((60, 400)), "load/engine": BUSY},
    "an all-core clock": {"freq/cpu0": stretch((60, 1260)), "load/engine": BUSY},
    "a warning of a low supply at full clock": {
        "throttle/under-voltage": ON, "freq/cpu0": stretch((60, 1800)), "load/engine": BUSY},
    "the kernel's own alarm": {"throttle/under-voltage-alarm": ON},
    "a flag that fell as it began": {"throttle/thermal": stretch((2, 1.0), (58, 0.0))},
    "a cooling device at rest at one": {"cooling/0-cpufreq-cpu0": ON},
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_LIMITED)
def test_it_is_not(name: str) -> None:
    view = view_of(TEN, NOT_LIMITED[name])
    assert view.slowdowns == ()
    assert view.burst is not None


def test_a_governor_that_chooses_low_clocks_limits_nothing() -> None:
    sensors = LIMITED["a clock far below"][1]
    assert view_of(TEN, sensors, governor="powersave").slowdowns == ()


def test_the_burst_after_a_limit_shows_how_much_slower_it_was() -> None:
    latency, flag = stretch((40, 14.0), (60, 10.0)), stretch((40, 1.0), (60, 0.0))
    view = view_of(latency, {"throttle/thermal": flag})
    (found,) = view.slowdowns
    assert (found.end_ns, found.cause, found.latency_ratio) == (40 * NS, "thermal", pytest.approx(1.4, rel=0.02))
    assert view.burst is not None
    assert view.burst.from_s == 40


def test_a_limit_that_flickers_is_one() -> None:
    flag = [float(second % 12 < 6) for second in range(100)]
    (found,) = slowdowns_of(stretch((100, 10.0)), {"throttle/thermal": flag})
    assert found.end_ns is None
    assert (found.evidence[0].kind, found.evidence[0].share) == ("set-from-start", 0.52)


def test_a_slowdown_after_it_is_judged_as_any_other() -> None:
    latency = stretch((20, 14.0), (60, 10.0), (30, 13.0))
    flag = stretch((20, 1.0), (60, 0.0), (30, 1.0))
    first, second = slowdowns_of(latency, {"throttle/thermal": flag})
    assert (first.from_start, second.from_start) == (True, False)
    assert (second.start_ns, second.cause) == (80 * NS, "thermal")


def test_a_limit_that_may_return_is_not_said_to_hold() -> None:
    analysis = analysed(stretch((30, 14.0), (5, 10.0)), {"throttle/thermal": stretch((30, 1.0), (5, 0.0))})
    verdict = analysis.view(None).verdict
    assert (verdict.state, verdict.past) == (
        State.MEASURING,
        (WasThrottled(1, ("thermal",), pytest.approx(0.86, abs=0.005)),),
    )
    (found,) = analysis.slowdowns_view().slowdowns
    assert found.end_ns == 30 * NS


SOON = stretch((2, 0.0), (30, 1.0), (60, 0.0))


@pytest.mark.parametrize(("slow_ms", "begins_s"), [(14.0, [2]), (10.2, [])])
def test_a_limit_before_the_burst_begins_with_its_flag(slow_ms: float, begins_s: list[int]) -> None:
    latency = stretch((2, 10.0), (30, slow_ms), (60, 10.0))
    during = analysed(latency[:20], {"throttle/thermal": SOON[:20]})
    verdict = during.view(None).verdict
    assert (verdict.state, verdict.since_ns) == (State.THROTTLING, 2.5 * NS)
    assert during.slowdowns_view().slowdowns == ()  # there is nothing yet that it could be slower than
    found = slowdowns_of(latency, {"throttle/thermal": SOON})
    assert [slowdown.start_ns / NS for slowdown in found] == begins_s
    assert not any(slowdown.from_start for slowdown in found)
