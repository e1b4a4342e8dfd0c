"""Heat: what physics says of it, whatever the numbers are."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.simulation.machine import Heat, Stage

WATTS = st.floats(0, 50)
RESISTANCE = st.floats(0.1, 20)
SECONDS = st.floats(0, 5000)


def cold() -> Heat:
    return Heat(Stage(12.0), Stage(120.0), 0.5)


def test_without_power_it_is_as_warm_as_the_air() -> None:
    assert cold().after(1000, 0.0, 4.0).celsius(25.0) == 25.0


@given(WATTS, RESISTANCE)
@settings(deadline=None, max_examples=30)
def test_it_settles_above_the_air_by_power_times_resistance(watts: float, resistance: float) -> None:
    expected = pytest.approx(25 + watts * (0.5 + resistance))
    assert cold().after(math.inf, watts, resistance).celsius(25.0) == expected
    assert cold().after(1e6, watts, resistance).celsius(25.0) == expected


def test_after_its_time_constant_a_stage_is_at_63_percent() -> None:
    assert Stage(100.0).after(400.0, 10.0, 4.0).rise_c == pytest.approx(40 * 0.6321, rel=1e-4)


@given(WATTS, RESISTANCE, SECONDS, SECONDS)
@settings(deadline=None, max_examples=50)
def test_two_steps_are_as_good_as_one(watts: float, resistance: float, one_s: float, other_s: float) -> None:
    begin = cold().after(math.inf, 3.0, 2.0)
    split = begin.after(one_s, watts, resistance).after(other_s, watts, resistance)
    assert split.celsius(0) == pytest.approx(begin.after(one_s + other_s, watts, resistance).celsius(0), abs=1e-6)


def test_the_die_follows_in_seconds_and_the_sink_in_minutes() -> None:
    heat = cold().after(30, 10.0, 4.0)
    assert heat.die.rise_c > 0.99 * 5.0
    assert heat.sink.rise_c < 0.1 * 40.0
