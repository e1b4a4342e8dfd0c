"""Windows of a second, or of five inferences, with their exact medians; their scatter, however many come at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.analysis.slowdowns.levels import (
    ENOUGH,
    EVERY,
    LEAST_SIGMA,
    MAX_LEVELS,
    NEPER,
    SURE,
    Noise,
    WindowCutter,
    _estimate,
    known_latencies,
    levels,
)
from edgetop.analysis.slowdowns.serialization import fork
from edgetop.analysis.slowdowns.slow_span import CERTAIN
from edgetop.session.seconds import NS
from tests.support.correlated import normal
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


LEVELS = np.random.default_rng(0).normal(0, 20_000, 3 * MAX_LEVELS).astype(np.int64)


@given(sizes=st.lists(st.integers(0, 200), max_size=12), asks=st.booleans())
def test_it_makes_no_difference_how_many_windows_come_at_once(sizes: list[int], asks: bool) -> None:
    found, done = Noise(), 0
    for size in sizes:
        found.add(LEVELS[done : done + size])
        done = min(done + size, len(LEVELS))
        if asks:
            assert found.sigma >= LEAST_SIGMA
    estimated = done // EVERY * EVERY
    expected = (
        max(LEAST_SIGMA, _estimate(LEVELS[max(0, estimated - MAX_LEVELS) : estimated])) if estimated else LEAST_SIGMA
    )
    assert fork(found).sigma == found.sigma == expected
    assert found.since == done - estimated
    assert found.levels.tolist() == LEVELS[max(0, done - MAX_LEVELS) : done].tolist()


def test_a_step_is_certain_and_correlated_noise_is_not() -> None:
    """What was called certain before, a mean of 30 levels far over that of those before, chance makes in such noise."""
    none, by_chance, of_steps = np.empty(0, np.int64), [], []
    for seed in range(300):
        levels = (60_000 * normal(np.random.default_rng(seed), 180, 0.9)).astype(np.int64)
        noise = Noise()
        noise.add(levels[:150])
        by_chance.append(noise.rise_ratio(none, levels[150:]))
        of_steps.append(noise.rise_ratio(none, levels[150:] + 500_000))
    assert max(by_chance) < CERTAIN < min(of_steps)
    assert Noise().rise_ratio(none, LEVELS[:9]) == SURE


def test_what_is_dropped_does_not_enter_the_comparison() -> None:
    noise, rise = Noise(), LEVELS[:20] + 100_000
    noise.add(np.concatenate([LEVELS[20:120], rise[:5]]))
    polluted = noise.rise_ratio(LEVELS[:0], rise)
    noise.drop(5)
    assert noise.rise_ratio(LEVELS[:0], rise) > polluted > 0
