"""Slopes that a few wild points do not bend, and intervals for what is what it was before and a change."""

import numpy as np
import pytest

from edgetop.analysis.memory import LEAST_POINTS, robust_slope, slope_between

T = np.arange(24.0)


def test_the_slope_of_a_line_is_its_slope() -> None:
    slope = robust_slope(T, 3 * T + 7)
    assert slope is not None
    assert (slope.value, slope.low, slope.high) == (pytest.approx(3), pytest.approx(3), pytest.approx(3))
    assert slope_between(T, -2 * T) == pytest.approx(-2)


def test_it_is_the_one_of_sens_example() -> None:
    """Sen 1968, Estimates of the regression coefficient based on Kendall's tau, section 7."""
    t = np.array([1.0, 2, 3, 4, 10, 12, 18])
    assert slope_between(t, np.array([9.0, 15, 19, 20, 45, 55, 78])) == 4.0


def test_a_few_wild_points_do_not_bend_it() -> None:
    y = 3 * T
    y[[3, 11, 19]] += [500, -900, 700]
    assert slope_between(T, y) == pytest.approx(3, abs=0.2)


def test_of_few_points_nothing_is_told() -> None:
    few = np.arange(LEAST_POINTS - 1.0)
    assert robust_slope(few, few) is None


def test_a_single_step_is_no_sure_slope() -> None:
    slope = robust_slope(T, np.where(T < 12, 0.0, 50.0))
    assert slope is not None
    assert slope.low < 0 < slope.high


def test_a_slope_that_changes_a_little_is_sure() -> None:
    slope = robust_slope(T, np.where(T < 12, 7 * T, 84 + 5 * (T - 12)))
    assert slope is not None
    assert slope.low > 5


@pytest.mark.parametrize(("kept", "least", "most"), [(1.0, 0.92, 0.98), (0.9, 0.95, 1.0), (0.0, 0.99, 1.0)])
def test_the_interval_covers_the_truth_of_a_random_walk(kept: float, least: float, most: float) -> None:
    hits = []
    for seed in range(400):
        y = np.random.default_rng(seed).normal(0, 1, 24)
        for i in range(1, 24):
            y[i] += kept * y[i - 1]
        slope = robust_slope(T, y + 2 * T)
        assert slope is not None
        hits.append(slope.low <= 2 <= slope.high)
    assert least <= np.mean(hits) <= most
