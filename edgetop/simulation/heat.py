"""How hot a chip gets: two thermal RC stages in a row, from the die to its heatsink and on to the air.

A Foster network (JEDEC JESD51-14, annex): each stage has a resistance in K/W and a capacitance
in J/K, its temperature difference follows power with the time constant R·C, and the differences
add up to that between die and ambient. Under constant power a step is exact, however long.
"""

import math
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
