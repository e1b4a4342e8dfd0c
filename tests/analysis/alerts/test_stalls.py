"""Stalls that are over: told from slow models, from rests and from profiling."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.alerts.findings import Stalls
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from tests.support.sessions import MS, make_inferences, seconds_of


def spans(
    starts_s: list[int], latency_ms: float = 5, *, rest_s: int = 0, burst: tuple[int, int] | None = None
) -> list[tuple[int, int]]:
    stalls = Stalls()
    events: tuple[Event, ...] = ()
    if burst:
        data = {"duration_ns": burst[1] * NS}
        events = (Event(burst[0] * NS, "profile-burst", "info", "engine", "a burst", data),)
    inferences = make_inferences(np.array(starts_s) * NS, np.full(len(starts_s), int(latency_ms * MS)))
    stalls.fold(Batch(seconds=seconds_of(inferences), events=events), rest_s * NS)
    return [(begin // NS, end // NS) for begin, end in stalls.spans]


def test_many_seconds_without_an_inference_are_a_stall() -> None:
    assert spans([0, 1, 2, 9, 10]) == [(3, 9)]
    assert spans([0, 1, 2, 8, 9]) == []


def test_a_slow_model_is_not_stalled() -> None:
    assert spans([0, 1, 10, 19], latency_ms=900) == []
    assert spans([0, 1, 12], latency_ms=900) == [(2, 12)]


def test_an_inference_much_longer_than_before_is_a_stall() -> None:
    stalls = Stalls()
    inferences = make_inferences(np.array([0, 1, 2, 42]) * NS, np.array([5, 5, 40_000, 5]) * MS)
    stalls.fold(Batch(seconds=seconds_of(inferences)), 0)
    assert stalls.spans == ((3 * NS, 42 * NS),)


def test_rests_and_bursts_are_none() -> None:
    assert spans([0, 1, 9], rest_s=8) == []
    assert spans([0, 1, 9], burst=(2, 6)) == []


@given(cuts=st.lists(st.integers(0, 60), max_size=8))
@settings(max_examples=20, deadline=None)
def test_cut_anywhere_the_same_are_found(cuts: list[int]) -> None:
    starts = np.array([0, 1, 2, 9, 10, 30, 31, 32, 50, 51])
    seconds = seconds_of(make_inferences(starts * NS, np.arange(1, 11) * 100 * MS))
    stalls = Stalls()
    for begin, end in zip([0, *sorted(cuts)], [*sorted(cuts), 61], strict=True):
        second = seconds.rows["t_ns"] // NS
        stalls.fold(Batch(seconds=seconds.where((second >= begin) & (second < end))), 0)
    assert [(begin // NS, end // NS) for begin, end in stalls.spans] == [(3, 9), (11, 30), (33, 50)]


def test_seconds_that_were_not_recorded_are_no_stall() -> None:
    seconds = seconds_of(make_inferences(np.array([0, 1, 2, 20, 21]) * NS, np.full(5, 5 * MS)))
    second = seconds.rows["t_ns"] // NS
    stalls = Stalls()
    stalls.fold(Batch(seconds=seconds.where((second < 5) | (second > 15))), 0)
    assert stalls.spans == ()
