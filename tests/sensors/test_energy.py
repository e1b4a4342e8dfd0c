"""Watts from a counter of energy."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.counters import FIRST_ENERGY, MAX_COUNTED_W, EnergyCounter
from edgetop.sensors.sensor_protocol import Gap

RANGE_J = 65_712.999613


def test_the_second_count_gives_the_mean_between() -> None:
    counter = EnergyCounter()
    assert counter.watts(100.0, 10.0) is FIRST_ENERGY
    assert counter.watts(130.0, 12.0) == 15.0
    assert counter.watts(130.0, 14.0) == 0.0


def test_a_counter_that_wraps_goes_on() -> None:
    counter = EnergyCounter(RANGE_J)
    counter.watts(RANGE_J - 5, 0.0)
    assert counter.watts(10.0, 1.0) == pytest.approx(15.0)


def test_a_counter_of_unknown_range_that_goes_back_is_a_gap() -> None:
    counter = EnergyCounter()
    counter.watts(100.0, 0.0)
    assert isinstance(counter.watts(10.0, 1.0), Gap)
    assert counter.watts(30.0, 2.0) == 20.0


def test_a_counter_that_was_set_back_did_not_wrap() -> None:
    counter = EnergyCounter(RANGE_J)
    counter.watts(30_000.0, 0.0)
    gap = counter.watts(1.0, 1.0)
    assert isinstance(gap, Gap)
    assert "set back" in gap.reason


def test_when_it_may_have_wrapped_twice_there_is_a_gap() -> None:
    counter = EnergyCounter(RANGE_J)
    counter.watts(0.0, 0.0)
    gap = counter.watts(10.0, 2 * RANGE_J / MAX_COUNTED_W)
    assert isinstance(gap, Gap)
    assert "more than once" in gap.reason
    assert counter.watts(25.0, 2 * RANGE_J / MAX_COUNTED_W + 1) == pytest.approx(15.0)


def test_two_counts_at_one_time_give_nothing() -> None:
    counter = EnergyCounter()
    counter.watts(0.0, 1.0)
    assert counter.watts(9.0, 1.0) is FIRST_ENERGY


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.floats(0.01, 10), st.floats(0, 400)), min_size=1, max_size=50))
def test_whenever_it_is_read_the_energy_adds_up(steps: list[tuple[float, float]]) -> None:
    counter = EnergyCounter(RANGE_J)
    at_s = joules = told = 0.0
    counter.watts(0.0, 0.0)
    for passed_s, watts in steps:
        at_s, joules = at_s + passed_s, joules + watts * passed_s
        mean = counter.watts(joules % RANGE_J, at_s)
        assert isinstance(mean, float)
        told += mean * passed_s
    assert told == pytest.approx(joules, abs=1e-3)
