"""Why inferences that are fast enough are late: a queue needs the proof that the one before was still running."""

import pytest

from edgetop.analysis.deadline import Late, MissCause, why_late
from edgetop.analysis.late_starts import LateStarts, find_late_starts
from edgetop.analysis.slowdowns.slow_inferences import SlowInference
from edgetop.session.load_settings import Load
from edgetop.wording.load_words import late_in_brief, late_words
from tests.support.sessions import MS, make_inferences, seconds_of

DEADLINE_NS = 33 * MS
LOAD = Load(mode="fixed", rate_hz=20.0, deadline_ns=DEADLINE_NS)


def starts_of(wait_ms: list[float], latency_ms: list[float], load: Load = LOAD) -> LateStarts | None:
    """Each is due 50 ms after the one before."""
    start_ns = [int((50 * place + wait) * MS) for place, wait in enumerate(wait_ms)]
    waits, latencies = ([int(ms * MS) for ms in values] for values in (wait_ms, latency_ms))
    inferences = make_inferences(start_ns, latencies, wait_ns=waits)
    return find_late_starts(seconds_of(inferences, DEADLINE_NS, is_paced=True), load)


def test_calls_that_were_due_while_the_one_before_ran_waited_for_it() -> None:
    found = starts_of([0, 40, 30, 20], [90, 40, 40, 20])
    assert found is not None
    assert (found.queued_share, found.wait_ns, found.cause()) == (1.0, 22 * MS, "waiting")


def test_calls_that_were_due_when_none_ran_woke_up_late() -> None:
    found = starts_of([30, 30, 30, 30], [10, 10, 10, 10])
    assert found == LateStarts(0.0, 30 * MS, 120.0)


def test_at_random_arrivals_it_is_unknown() -> None:
    assert starts_of([30, 30], [10, 10], Load(mode="poisson", rate_hz=20.0, deadline_ns=DEADLINE_NS)) is None
    assert starts_of([0, 0], [40, 40]) is None  # too slow by themselves


@pytest.mark.parametrize(
    ("late", "cause"),
    [
        (LateStarts(0.51, 30 * MS, 300.0), "waiting"),
        (LateStarts(0.5, 30 * MS, 300.0), "unknown"),
        (LateStarts(0.0, 30 * MS, 300.0, run_queue_ms=75.0), "scheduling"),
        (LateStarts(0.0, 30 * MS, 300.0, run_queue_ms=74.0), "unknown"),
        (LateStarts(0.0, 30 * MS, 300.0, run_queue_ms=75.0, stalled_ms=75.0), "cpu-quota"),
        (LateStarts(0.0, 30 * MS, 300.0, run_queue_ms=75.0, stalled_ms=74.0), "scheduling"),
        (LateStarts(0.0, 30 * MS, 300.0, pressure_pct=10.0), "scheduling"),
        (LateStarts(0.0, 30 * MS, 300.0, pressure_pct=9.0), "unknown"),
        (LateStarts(0.0, 30 * MS, 300.0, run_queue_ms=0.0, pressure_pct=50.0), "unknown"),
        (LateStarts(0.0, 1.0 * MS, 300.0), "scheduling"),
        (LateStarts(0.0, 1.1 * MS, 300.0), "unknown"),
    ],
)
def test_each_cause_of_a_late_start_has_its_evidence(late: LateStarts, cause: str) -> None:
    assert late.cause() == cause
    assert why(late).name == cause


def test_no_inference_waits_where_none_is_planned() -> None:
    """A program under `watch`: the histogram counts what is within 1 % of the deadline as fast enough."""
    late = Late(30.0 * MS, 10, 4, (), 30.0 * MS, None)
    assert not why_late(late, Load(deadline_ns=DEADLINE_NS), None).starts_late
    assert why_late(late, LOAD, None).starts_late


def why(starts: LateStarts | None, p50_ms: float = 10.0, mean_ms: float = 10.0) -> MissCause:
    return why_late(Late(p50_ms * MS, 100, 0, (), mean_ms * MS, starts), LOAD, None)


@pytest.mark.parametrize(
    ("p50_ms", "mean_ms", "cause"), [(10, 39, "unknown"), (10, 40, "waiting"), (31, 40, "waiting"), (10, 10, "unknown")]
)
def test_at_uneven_arrivals_only_a_busy_engine_proves_a_queue(p50_ms: int, mean_ms: int, cause: str) -> None:
    """At 20 Hz, whose period is 50 ms."""
    found = why(None, p50_ms, mean_ms)
    assert (found.name, found.starts_late) == (cause, True)


@pytest.mark.parametrize(("explained", "cause"), [(10, "sensor-read"), (9, "unknown"), (1, "unknown"), (0, "unknown")])
def test_the_cause_of_misses_explains_at_least_half_of_them(explained: int, cause: str) -> None:
    causes = ["sensor-read"] * explained + ["unexplained"] * (20 - explained)
    tail = tuple(SlowInference(place, 50 * MS, each) for place, each in enumerate(causes))
    found = why_late(Late(10 * MS, 100, 20, tail, 10 * MS, None), Load(deadline_ns=DEADLINE_NS), None)
    assert found.name == cause
    assert ("slow sensor reads" in late_in_brief(found)) == (explained == 10)
    # The parts are told, whichever of them is the largest.
    assert (f"{explained} during a slow read of a sensor" in late_words(found)) == (explained > 0)
