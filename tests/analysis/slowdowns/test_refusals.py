"""Why a slowdown has no other cause: each reason by a session that has it."""

import pytest

from edgetop.analysis.slowdowns.judged_past import export_state, import_state
from edgetop.analysis.slowdowns.refusal import REASONS
from edgetop.analysis.slowdowns.signals import CAUSES, OF_PROGRAM, Cause
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.session.seconds import NS
from edgetop.wording.report_document import report_document
from tests.analysis.slowdowns.test_causes_and_traps import HEALTHY, NONE, SLOW, SLOWER, changing, the_one
from tests.support.slow_sessions import analysed, session_of, stretch

FLAG = {"throttle/thermal": changing(0, 1)}
# Its name; the cause that is refused, the share, and what is read.
REFUSED: dict[str, tuple[Cause, float, dict[str, list[float]]]] = {
    "no-sensor": ("memory-pressure", 0.0, FLAG),
    "not-in-force": ("cpu-quota", 0.0, FLAG),
    "not-read": ("memory-pressure", 0.0, {**FLAG, "rate/major-faults": stretch((30, 1), (80, NONE))}),
    "no-change": ("thermal", 0.0, {"throttle/thermal": changing(0, 0), "rate/major-faults": changing(0, 80)}),
    "began-before": ("thermal", 0.5, {"throttle/thermal": stretch((35, 0), (55, 1), (20, 0))}),
    "began-later": ("thermal", 0.625, {"throttle/thermal": stretch((HEALTHY + 15, 0), (25, 1))}),
    "clock-held": ("thermal", 1.0, {"temp/cpu-thermal": changing(86, 86), "freq/cpu0": changing(1800, 1800)}),
    "too-little": ("memory-pressure", 0.1, {"rate/major-faults": stretch((HEALTHY, 0), (4, 80), (36, 0))}),
    "outweighed": ("memory-pressure", 0.35, {**FLAG, "rate/major-faults": stretch((HEALTHY, 0), (14, 200), (26, 0))}),
}  # fmt: skip


UNSET = ("pressure/cpu-quota", "rate/cpu-throttled", "rate/memory-high-hits", "mem/cgroup-limit")


def test_a_limit_that_is_not_set_is_told_from_one_without_a_sensor() -> None:
    reasons = {one.cause: one.reason for one in the_one(FLAG, unset=UNSET).considered}
    assert reasons["cpu-quota"] == reasons["memory-high"] == "not-in-force"
    assert reasons["memory-pressure"] == reasons["clock-change"] == "no-sensor"
    quota = {**FLAG, "pressure/cpu-quota": changing(0, 0)}  # as if it had been set later
    assert {one.reason for one in the_one(quota, unset=UNSET).considered if one.cause == "cpu-quota"} == {"no-change"}
    looked, unset, untold = the_one({"freq/cpu0": changing(1800, 1800)}, unset=UNSET).evidence
    assert (looked.kind, unset.kind, untold.kind) == ("unchanged", "not-in-force", "unreported")
    assert set(unset.causes) == {"cpu-quota", "memory-high"}
    assert not {*unset.causes} & {*untold.causes}


def test_every_reason_is_tested() -> None:
    assert tuple(REFUSED) == REASONS


@pytest.mark.parametrize("reason", REFUSED)
def test_each_refused_cause_has_its_reason(reason: str) -> None:
    cause, share, sensors = REFUSED[reason]
    (found,) = [one for one in the_one(sensors, unset=UNSET).considered if one.cause == cause]
    assert found.reason == reason
    assert found.share == pytest.approx(share, abs=0.03)


def test_every_cause_is_either_the_one_or_considered() -> None:
    """What a program does is seen only where one is watched."""
    found = the_one(FLAG)
    assert {found.cause, *(one.cause for one in found.considered)} == set(CAUSES) - OF_PROGRAM


def test_the_report_has_them() -> None:
    (slowdown,) = report_document(analysed(SLOWER, REFUSED["clock-held"][2]))["slowdowns"]
    (heat,) = [one for one in slowdown["considered"] if one["cause"] == "thermal"]
    assert heat == {"cause": "thermal", "share": pytest.approx(1.0, abs=0.03), "reason": "clock-held"}


def test_a_remote_screen_gets_them() -> None:
    latency_ms = stretch((HEALTHY, 10.0), (SLOW, 14.0), (60, 10.0))
    session = session_of(latency_ms, {"throttle/thermal": [0.0] * 170}, unset=UNSET)
    fold = Slowdowns()
    fold.fold(session)
    document = fold.export_state()
    assert document is not None
    judgement = import_state(document, fold.signals.channels, session.until_ns)
    assert judgement.closed
    assert judgement.closed[0].considered == fold.view().slowdowns[0].considered
    assert export_state(judgement) == document
    assert judgement.until_s <= 170 * NS
