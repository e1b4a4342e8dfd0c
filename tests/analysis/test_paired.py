"""Hodges and Lehmann's estimate and Wilcoxon's interval, against their definitions and on generated quads."""

from itertools import product

import numpy as np
import pytest

from edgetop.analysis.paired import CONFIDENCE, Difference, difference, typical_ratio, undisturbed, wide_difference


def by_definition(values: list[float], level: float) -> tuple[float, float]:
    """The shifts that the signed-rank test does not reject, by all assignments of signs."""
    count = len(values)
    sums = [sum(rank for rank, sign in enumerate(signs, 1) if sign) for signs in product((0, 1), repeat=count)]
    averages = sorted((a + b) / 2 for i, a in enumerate(values) for b in values[i:])
    critical = max((w for w in range(count * count) if np.mean(np.array(sums) <= w) <= level / 2), default=-1)
    return averages[critical], averages[-1 - critical]


@pytest.mark.parametrize("count", [6, 8, 11])
def test_the_interval_is_what_the_test_does_not_reject(count: int) -> None:
    values = np.random.default_rng(count).normal(0, 1, count)
    found = difference(values, 0.95)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(by_definition(values.tolist(), 0.05))


def test_the_estimate_is_the_median_of_the_averages_of_all_pairs() -> None:
    found = difference(np.array([1.0, 2, 3, 4, 5, 100]))
    assert found is not None
    assert found.value == pytest.approx(3.5)


def test_of_many_pairs_the_interval_is_that_of_the_normal_law() -> None:
    values = np.random.default_rng(1).normal(0, 1, 100)
    found = difference(values, 0.95)
    assert found is not None
    assert found.half_width == pytest.approx(1.96 * values.std() / 10, rel=0.1)


@pytest.mark.parametrize("values", [[], [0.1] * 5, [0.1] * 9 + [float("inf")]])
def test_too_few_or_unknown_ones_give_nothing(values: list[float]) -> None:
    assert difference(np.array(values)) is None


def stopped_by_width(values: np.ndarray, until: float) -> Difference:
    """As a session stops: looked at after each quad from the twentieth on."""
    for count in range(20, len(values) + 1):
        found = difference(undisturbed(values[:count]))
        assert found is not None
        if found.half_width <= until:
            break
    return found


@pytest.mark.parametrize("law", ["normal", "heavy-tailed", "jumps"])
def test_who_stops_by_the_width_has_an_interval_that_covers(law: str) -> None:
    """To stop when the interval is narrow enough costs coverage, which the level of the interval makes up for."""
    random, covered = np.random.default_rng(7), 0
    for _ in range(400):
        scatter = {
            "normal": random.normal(0, 0.02, 80),
            "heavy-tailed": random.standard_t(3, 80) * 0.015,
            "jumps": random.normal(0, 0.01, 80) + (random.random(80) < 0.1) * random.normal(0, 0.1, 80),
        }[law]
        found = stopped_by_width(0.03 + scatter, 0.01)
        covered += found.low <= 0.03 <= found.high
    assert covered >= 0.93 * 400
    assert CONFIDENCE > 0.95


def test_a_5_percent_difference_is_found_in_a_noisy_minute() -> None:
    """240 turns of a quarter of a second, quads of which scatter by 5 %."""
    random = np.random.default_rng(3)
    found = [difference(np.log(1.05) + random.standard_t(3, 57) * 0.03) for _ in range(200)]
    assert sum(one is not None and one.low > 0 for one in found) >= 0.95 * 200


def test_what_lies_far_off_is_left_out_and_nothing_else() -> None:
    """Of quads, a third of which was disturbed: by as much as a CPU that is shared makes of a median."""
    random = np.random.default_rng(5)
    values = random.normal(0.05, 0.005, 60)
    values[::3] += random.choice([-1, 1], 20)
    kept = undisturbed(values)
    assert len(kept) == 40
    assert len(undisturbed(kept)) == 40
    wide, narrow = difference(values), difference(kept)
    assert wide
    assert narrow
    assert narrow.low <= 0.05 <= narrow.high
    assert narrow.half_width < 0.003 < wide.half_width
    assert len(undisturbed(np.full(30, 0.02))) == 30


@pytest.mark.parametrize(("far", "kept"), [(7.3, 23), (7.5, 21)])
def test_what_lies_five_deviations_off_was_disturbed(far: float, kept: int) -> None:
    """Of values whose median absolute deviation is 1."""
    assert len(undisturbed(np.array([*[-1.0, 1.0] * 10, 0.0, far, -far]))) == kept


def test_the_typical_ratio_is_the_median_over_all_pairs() -> None:
    assert typical_ratio(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == pytest.approx(np.sqrt(2 * 3))
    random = np.random.default_rng(2)
    many = random.lognormal(0, 0.2, 5000)  # thinned to quantiles
    assert typical_ratio(many, 1.1 * random.permutation(many)) == pytest.approx(1.1)


@pytest.mark.parametrize("pairs", [3, 4, 5])
def test_few_pairs_have_a_wide_interval_that_holds_the_truth(pairs: int) -> None:
    random = np.random.default_rng(pairs)
    found = [wide_difference(random.normal(0.1, 0.03, pairs)) for _ in range(2000)]
    held = [one.low <= 0.1 <= one.high for one in found if one]
    assert len(held) == 2000
    assert np.mean(held) == pytest.approx(CONFIDENCE, abs=0.012)


@pytest.mark.parametrize("values", [[0.1, 0.2], [0.1] * 6, [0.1, np.nan, 0.2]])
def test_other_numbers_of_pairs_have_no_such_interval(values: list[float]) -> None:
    assert wide_difference(np.array(values)) is None
