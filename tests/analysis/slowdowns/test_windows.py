"""Windows of a second, or of five inferences, with their exact medians."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.slowdowns.windows import ENOUGH, NEPER, WindowCutter, known_latencies, levels
from edgetop.session.seconds import NS
from tests.support.sessions import MS, make_inferences, seconds_of


def rows_of(*latencies_ms: list[float]) -> np.ndarray:
    """One second for each list."""
    start = [second * NS + i * 1000 for second, values in enumerate(latencies_ms) for i in range(len(values))]
    latency = [int(value * MS) for values in latencies_ms for value in values]
    return seconds_of(make_inferences(start, latency)).rows


def windows_of(*latencies_ms: list[float]) -> list[tuple[int, int, float]]:
    windows, _ = WindowCutter().add(rows_of(*latencies_ms))
    return [(int(w["begin_s"]), int(w["end_s"]), round(float(np.exp(w["level"] / NEPER)) / MS, 3)) for w in windows]


def test_a_second_with_enough_inferences_is_a_window() -> None:
    assert windows_of([10, 11, 12, 13, 14], [20] * 9) == [(0, 1, 12), (1, 2, 20)]


def test_sparse_seconds_are_joined_until_there_are_five() -> None:
    assert windows_of([10, 30], [20, 50, 40], [60] * 4, [70]) == [(0, 2, 30), (2, 4, 60)]


def test_what_is_not_whole_yet_is_no_window() -> None:
    assert windows_of([10, 20, 30]) == []


def test_a_dense_second_ends_a_sparse_window_that_is_not_whole() -> None:
    assert windows_of([10], [20] * 6, [30] * 3, [30] * 2) == [(1, 2, 20), (2, 4, 30)]


def test_seconds_without_inferences_are_passed_over() -> None:
    assert windows_of([10, 20], [], [], [30, 40, 50]) == [(0, 4, 30)]


@given(st.lists(st.lists(st.integers(1, 10**6), max_size=4), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_sparse_seconds_tell_each_of_their_latencies(latencies: list[list[int]]) -> None:
    rows = rows_of(*latencies)
    _, told = known_latencies(rows[rows["count"] > 0])
    assert sorted(told.tolist()) == sorted(value * MS for values in latencies for value in values)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=40), st.data())
@settings(max_examples=40, deadline=None)
def test_windows_do_not_depend_on_how_seconds_come(counts: list[int], data: st.DataObject) -> None:
    rows = rows_of(*([10.0 + second + i for i in range(count)] for second, count in enumerate(counts)))
    cut = data.draw(st.integers(0, len(rows)))
    whole, _ = WindowCutter().add(rows)
    cutter = WindowCutter()
    parts = [cutter.add(rows[:cut])[0], cutter.add(rows[cut:])[0]]
    assert np.array_equal(np.concatenate(parts), whole)
    assert all(window["end_s"] > window["begin_s"] for window in whole)
    assert len(whole) <= sum(counts) // ENOUGH or sum(counts) < ENOUGH


def test_levels_are_logarithms_in_millionths() -> None:
    assert levels(np.array([1, 0, MS])).tolist() == [0, 0, round(np.log(MS) * 1e6)]
