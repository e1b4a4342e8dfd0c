"""What turns clocks and fans by temperature: the kernel's step_wise governor, and a fan with its trips."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trip:
    celsius: float
    hysteresis_c: float


@dataclass(frozen=True, slots=True)
class StepWise:
    """One cooling device at one passive trip, a step a poll (drivers/thermal/gov_step_wise.c).

    Above the trip and rising: a step more. Below it and falling: a step less. What is above
    stays so until the temperature is below the trip by its hysteresis.
    """

    trip: Trip
    max_state: int
    state: int = 0  # 0: does nothing
    is_above: bool = False
    last_c: float | None = None  # None: nothing was polled yet

    def polled(self, celsius: float) -> "StepWise":
        threshold_c = self.trip.celsius - (self.trip.hysteresis_c if self.is_above else 0)
        is_above = celsius >= threshold_c
        last_c = celsius if self.last_c is None else self.last_c
        step = int(celsius > last_c) if is_above else -int(celsius < last_c)
        state = min(max(self.state + step, 0), self.max_state)
        return StepWise(self.trip, self.max_state, state, is_above, celsius)


def fan_level(level: int, celsius: float, trips: Sequence[Trip]) -> int:
    """The level of a fan that is at `level`: one for each active trip that is crossed (`trips` rising)."""
    rising = sum(celsius >= trip.celsius for trip in trips)
    falling = sum(celsius >= trip.celsius - trip.hysteresis_c for trip in trips)
    return max(rising, min(level, falling))
