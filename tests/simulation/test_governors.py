"""The step_wise governor, poll by poll, and the fan."""

from collections.abc import Sequence

import pytest

from edgetop.simulation.machine import StepWise, Trip, fan_level

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
