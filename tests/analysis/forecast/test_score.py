"""A small part of `tests/benchmarks/test_forecast.py`, on other seeds."""

import pytest

from tests.support.generator.plans import generate
from tests.support.heating import heating, two_slow_parts
from tests.support.heating_score import announced, forecast_at, score

pytestmark = pytest.mark.slow

SEEDS = range(1_000, 1_040)


def test_most_forecasts_are_right_and_few_alarms_are_false() -> None:
    found = score(heating(seed) for seed in SEEDS)
    assert found.hits >= 10, found
    assert found.told_share >= 0.5, found
    assert found.right_share >= 0.75, found.faults
    assert found.wrong_never <= 1, found.faults
    assert found.false_alarms <= 0.05 * found.looks, found.faults


@pytest.mark.parametrize("seed", [305, 336, 348, 350, 377, 383, 537, 607])
def test_a_healthy_session_announces_no_trip(seed: int) -> None:
    """Their temperatures are settled some degrees below the trip, and move by a degree."""
    assert announced(generate(seed, "healthy")) is None


def test_a_board_with_two_slow_parts_is_not_promised_to_stay_below_a_trip_that_it_reaches() -> None:
    """A chip with its heat sink in a case: the case heats up for many minutes when the heat sink has settled."""
    boards = [two_slow_parts(seed) for seed in range(12)]
    views = [(board, forecast_at(board, at_s)) for board in boards for at_s in (300, 600, 1_200)]
    promised = [view.steady_c for board, view in views if board.hit_s and view.will_throttle is False]
    assert promised == []
    steady = [(view.steady_c, board.true_c[-1]) for board, view in views if view.steady_c]
    assert sum(of.high < true_c for of, true_c in steady) <= 0.2 * len(steady), steady
