"""The turns of an A/B session: when each of its two models runs.

First A runs alone, which shows how small a difference the board can distinguish (A/A). Then come quads of turns, ABBA
or BAAB at random. A drift that is even over a quad affects both sides alike, and no periodic disturbance can follow the
random order.
"""

import math
import random
from dataclasses import dataclass
from typing import Any

from edgetop.session.seconds import NS

SIDES = "AB"
ALONE = 24  # turns in which A runs alone at the beginning
LEAST_QUADS = 8  # number of quads for which there must be time
# Length of a turn. In A/A trials beside other busy processes, half the interval of p50 after 48 s was 1.0 % with turns
# of 0.12 s, 1.3 % with 0.25 s, 1.8 % with 0.5 s and 4.6 % with 1 s. But a turn must hold enough runs.
SHORTEST_NS, LONGEST_NS = NS // 8, 2 * NS
RUNS_A_TURN = 50  # turns are made longer to hold this many runs, if there is time
LEAST_RUNS_A_TURN = 4


@dataclass(frozen=True, slots=True)
class Plan:
    begin_ns: int
    turn_ns: int
    order: str  # sides of the turns after those of A alone, such as "ABBABAAB"

    @property
    def quads_ns(self) -> int:
        """When the quads begin, after the turns in which A runs alone."""
        return self.begin_ns + ALONE * self.turn_ns

    @property
    def end_ns(self) -> int:
        return self.quads_ns + len(self.order) * self.turn_ns

    def spans(self, side: int) -> list[list[int]]:
        """Return the beginning and end of each span in which a side runs. Adjacent turns are one span."""
        spans: list[list[int]] = []
        for number, letter in enumerate("A" * ALONE + self.order):
            begin_ns = self.begin_ns + number * self.turn_ns
            if letter != SIDES[side]:
                continue
            if spans and spans[-1][1] == begin_ns:
                spans[-1][1] += self.turn_ns
            else:
                spans.append([begin_ns, begin_ns + self.turn_ns])
        return spans

    def to_json(self) -> dict[str, Any]:
        return {"begin_ns": self.begin_ns, "turn_ns": self.turn_ns, "order": self.order}


def plan(begin_ns: int, latency_ns: int, *, duration_ns: int, seed: int, least_ns: int = SHORTEST_NS) -> Plan:
    """Plan turns within `duration_ns` for a model that takes `latency_ns`. A turn lasts `least_ns` or more if possible.

    The order follows from `seed`. Raises ValueError, which says how much time is needed, if there is too little time
    for enough turns.
    """
    most_ns, needed_ns = duration_ns // (ALONE + 4 * LEAST_QUADS), LEAST_RUNS_A_TURN * latency_ns
    turn_ns = max(min(max(least_ns, RUNS_A_TURN * latency_ns), max(least_ns, LONGEST_NS), most_ns), needed_ns)
    if turn_ns > most_ns:
        least_s = math.ceil(needed_ns * (ALONE + 4 * LEAST_QUADS) / NS)
        raise ValueError(f"an inference takes {latency_ns / NS:.2g} s: give {least_s} s or more, for enough turns")
    quads = (duration_ns // turn_ns - ALONE) // 4
    lot = random.Random(seed)  # noqa: S311  the order must be the same for a seed
    return Plan(begin_ns, turn_ns, "".join(lot.choice(("ABBA", "BAAB")) for _ in range(quads)))
