"""Why inferences that are fast enough are late: a queue needs the proof that the one before was still running."""

import pytest

from edgetop.analysis.deadline import Late, MissCause, why_late
from edgetop.analysis.late_starts import LateStarts, find_late_starts
from edgetop.session.manifest import Load
from tests.support.sessions import MS, make_inferences

DEADLINE_NS = 33 * MS
LOAD = Load(mode="fixed", rate_hz=20.0, deadline_ns=DEADLINE_NS)


def starts_of(due_ms: list[float], wait_ms: list[float], latency_ms: list[float], streams: list[int]) -> LateStarts:
    start_ns = [int((due + wait) * MS) for due, wait in zip(due_ms, wait_ms, strict=True)]
    inferences = make_inferences(
        start_ns, [int(ms * MS) for ms in latency_ms], wait_ns=[int(ms * MS) for ms in wait_ms], stream=streams
    )
    found = find_late_starts(inferences, DEADLINE_NS)
    assert found is not None
    return found


def test_a_call_that_was_due_while_the_one_before_ran_waited_for_it() -> None:
    found = starts_of([0, 50, 100], [0, 40, 10], [90, 20, 20], [0, 0, 0])
    assert (found.queued_share, found.wait_ns, found.cause()) == (1.0, 40 * MS, "waiting")


def test_a_call_of_another_stream_holds_none_up() -> None:
    found = starts_of([0, 50, 100], [0, 40, 0], [90, 20, 20], [0, 1, 1])
    assert (found.queued_share, found.cause()) == (0.0, "unknown")


def test_a_long_call_before_the_last_one_is_still_running() -> None:
    """Two calls that overlap in one stream, as a program's threads make them."""
    assert starts_of([0, 20, 50], [0, 0, 30], [95, 5, 5], [0, 0, 0]).queued_share == 1.0


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
def test_seconds_alone_prove_a_queue_only_if_the_engine_is_hardly_idle(p50_ms: int, mean_ms: int, cause: str) -> None:
    """At 20 Hz, whose period is 50 ms."""
    found = why(None, p50_ms, mean_ms)
    assert (found.name, found.starts_late) == (cause, True)
