"""Student's t by its tables, and intervals that hold the truth as often as they say."""

import math

import numpy as np
import pytest

from edgetop.comparison.student import Side, contrast, quantile, tails


@pytest.mark.parametrize(
    ("level", "freedom", "t"),
    [(0.05, 1, 12.706), (0.05, 4, 2.776), (0.05, 30, 2.042), (0.01, 8, 3.355), (0.001, 10, 4.587), (0.05, 1e9, 1.960)],
)
def test_it_is_that_of_the_tables(level: float, freedom: float, t: float) -> None:
    assert quantile(level, freedom) == pytest.approx(t, abs=6e-4)
    assert tails(t, freedom) == pytest.approx(level, rel=2e-3)


def test_95_of_100_intervals_of_one_law_contain_no_difference() -> None:
    random = np.random.default_rng(1)
    held = 0
    for _ in range(2_000):
        found = contrast(Side(random.normal(0, 1, 5)), Side(random.normal(0, 1, 5)))
        assert found
        low, high = found.interval()
        held += low <= 0 <= high
        assert (low <= 0 <= high) == (found.chance >= 0.05)
    assert 0.94 <= held / 2_000 <= 0.97


def test_a_single_session_is_taken_to_vary_as_the_other_side() -> None:
    found = contrast(Side([1.0, 2.0, 3.0]), Side([5.0]))
    assert found
    assert (found.difference, found.freedom) == (3.0, 2)
    assert found.error == pytest.approx(math.sqrt(1 + 1 / 3))


def test_one_session_each_needs_an_estimate_of_both() -> None:
    assert contrast(Side([1.0], 0.1), Side([2.0])) is None
    found = contrast(Side([1.0], 0.3), Side([2.0], 0.4))
    assert found
    assert found.error == pytest.approx(0.5)


def test_sides_without_spread_differ_or_match_with_certainty() -> None:
    same, other = contrast(Side([1.0, 1.0]), Side([1.0, 1.0])), contrast(Side([1.0, 1.0]), Side([2.0, 2.0]))
    assert same
    assert other
    assert (same.chance, other.chance) == (1.0, 0.0)
