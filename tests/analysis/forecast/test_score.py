"""A small part of `tests/benchmarks/test_forecast.py`, on other seeds."""

import pytest

from tests.support.heating import heating
from tests.support.heating_score import score

pytestmark = pytest.mark.slow

SEEDS = range(1_000, 1_040)


def test_most_forecasts_are_right_and_few_alarms_are_false() -> None:
    found = score(heating(seed) for seed in SEEDS)
    assert found.hits >= 10, found
    assert found.told_share >= 0.5, found
    assert found.right_share >= 0.75, found.faults
    assert found.wrong_never <= 1, found.faults
    assert found.false_alarms <= 0.05 * found.looks, found.faults
