"""What heats the virtual board and what cools it: thermal stages, the kernel's governor, and a fan with its trips.

Heat: two thermal RC stages in a row, from the die to its heatsink and on to the air.
A Foster network (JEDEC JESD51-14, annex): each stage has a resistance in K/W and a capacitance
in J/K, its temperature difference follows power with the time constant R·C, and the differences
add up to that between die and ambient. Under constant power a step is exact, however long.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Stage:
    """One RC element. `rise_c`: the temperature difference over it now."""

    capacitance_j_k: float
    rise_c: float = 0.0

    def after(self, seconds: float, watts: float, resistance_k_w: float) -> "Stage":
        steady_c = watts * resistance_k_w
        decay = math.exp(-seconds / (resistance_k_w * self.capacitance_j_k))
        return replace(self, rise_c=steady_c + (self.rise_c - steady_c) * decay)


@dataclass(frozen=True, slots=True)
class Heat:
    """A die on a heatsink; the heatsink's resistance to the air is the fan's business."""

    die: Stage
    sink: Stage
    die_resistance_k_w: float

    def after(self, seconds: float, watts: float, sink_resistance_k_w: float) -> "Heat":
        return replace(
            self,
            die=self.die.after(seconds, watts, self.die_resistance_k_w),
            sink=self.sink.after(seconds, watts, sink_resistance_k_w),
        )

    def settled(self, watts: float, sink_resistance_k_w: float) -> "Heat":
        """As after an infinite time."""
        return self.after(math.inf, watts, sink_resistance_k_w)

    def celsius(self, ambient_c: float) -> float:
        return ambient_c + self.die.rise_c + self.sink.rise_c


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
