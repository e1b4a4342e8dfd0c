"""The parts of the machine: heat as physics has it, the step_wise governor poll by poll, the fan, and the timetable."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.simulation.board_physics import Heat, Stage, StepWise, Timetable, Trip, fan_level
from edgetop.simulation.scenarios import SCENARIOS

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


FAN = (Trip(50, 5), Trip(60, 5))


def states(*celsius: float, max_state: int = 3) -> list[int]:
    governor = StepWise(Trip(85.0, 2.0), max_state)
    found = []
    for value in celsius:
        governor = governor.polled(value)
        found.append(governor.state)
    return found


@pytest.mark.parametrize(
    ("celsius", "expected"),
    [
        ((80, 84.9, 84.99), [0, 0, 0]),  # below the trip
        ((84, 85, 86, 87), [0, 1, 2, 3]),  # a step a poll while it rises
        ((84, 85, 86, 87, 88, 89), [0, 1, 2, 3, 3, 3]),  # to the last state
        ((84, 86, 85.5, 85.2), [0, 1, 1, 1]),  # above and falling: as it is
        ((84, 86, 86, 86), [0, 1, 1, 1]),  # above and steady: as it is
        ((84, 86, 84, 83.1), [0, 1, 1, 1]),  # within the hysteresis it counts as above
        ((84, 86, 83.5, 84.5), [0, 1, 1, 2]),  # and is met like that when it rises again
        ((84, 86, 87, 82.9, 82, 81), [0, 1, 2, 1, 0, 0]),  # below it and falling: a step back a poll
        ((84, 86, 82, 82.5, 84.9), [0, 1, 0, 0, 0]),  # below again, and rising: as it is
        ((90, 91), [0, 1]),  # nothing is known of what was before the first poll
    ],
)
def test_the_kernel_s_rules(celsius: Sequence[float], expected: list[int]) -> None:
    assert states(*celsius) == expected


@pytest.mark.parametrize(
    ("level", "celsius", "expected"),
    [(0, 49, 0), (0, 50, 1), (0, 75, 2), (1, 46, 1), (1, 44.9, 0), (2, 56, 2), (2, 54, 1), (2, 40, 0)],
)
def test_a_fan_turns_up_at_its_trips_and_down_below_them(level: int, celsius: float, expected: int) -> None:
    assert fan_level(level, celsius, FAN) == expected


PLAIN = replace(SCENARIOS["power-cap"], calm_s=10.0, trouble_s=20.0, rest_s=30.0)


def spans(scenario, seconds, felt=lambda _: True):
    """Whether it is in trouble, as (state, how many seconds of it)."""
    timetable, found = Timetable(scenario), []
    for second in range(seconds):
        timetable = timetable.after(1.0, is_felt=felt(second))
        if found and found[-1][0] == timetable.is_troubled:
            found[-1] = (timetable.is_troubled, found[-1][1] + 1)
        else:
            found.append((timetable.is_troubled, 1))
    return found


def test_calm_then_trouble_then_rest_again_and_again():
    assert spans(PLAIN, 129)[:5] == [(False, 9), (True, 20), (False, 30), (True, 20), (False, 30)]


def test_trouble_lasts_from_when_it_is_felt():
    assert spans(PLAIN, 80, felt=lambda second: second >= 40)[:2] == [(False, 9), (True, 50)]


def test_what_was_felt_once_is_felt_until_it_ends():
    assert spans(PLAIN, 80, felt=lambda second: second in (12, 60))[:2] == [(False, 9), (True, 22)]


def test_the_second_trouble_waits_to_be_felt_again():
    felt = {10, 110}
    assert spans(PLAIN, 200, felt=felt.__contains__)[:4] == [(False, 9), (True, 20), (False, 30), (True, 70)]


def test_a_healthy_board_has_none():
    assert spans(SCENARIOS["healthy"], 5000) == [(False, 5000)]


def test_a_leak_is_for_ever():
    assert spans(SCENARIOS["leak"], 5000) == [(True, 5000)]
