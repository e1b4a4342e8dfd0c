"""The turns of an A/B session: when each of its two models runs.

First A runs alone, which shows how small a difference the board can distinguish (A/A). Then come quads: four turns,
ABBA or BAAB at random. A steady drift within a quad affects both sides alike. Because the order is random, a periodic
disturbance cannot favour one side.

When one file is loaded twice, the speed differs by some percent, because code and data lie elsewhere in memory. So both
models are loaded anew several times, each time in new processes. The quads are divided among these loads.
"""

import math
import random
from dataclasses import field
from typing import Any

from edgetop.frozen import frozen
from edgetop.session.seconds import NS

SIDES = "AB"
ALONE = 24  # turns in which A runs alone at the beginning
LEAST_QUADS = 8  # number of quads for which there must be time
# Length of a turn. In A/A trials beside other busy processes, half the interval of p50 after 48 s was 1.0 % with turns
# of 0.12 s, 1.3 % with 0.25 s, 1.8 % with 0.5 s and 4.6 % with 1 s. But a turn must hold enough runs.
SHORTEST_NS, LONGEST_NS = NS // 8, 2 * NS
RUNS_A_TURN = 50  # turns are made longer to hold this many runs, if there is time
LEAST_RUNS_A_TURN = 4
# Loads that a session makes room for, even if each then has only one quad. The interval of a ratio needs six.
WANTED_LOADS = 8


@frozen
class Plan:
    begin_ns: int
    turn_ns: int
    order: str  # sides of the turns after those of A alone, such as "ABBABAAB"
    # Number of turns in which A runs alone first: 0 after both were loaded anew.
    alone: int = field(default=ALONE, metadata={"is_written": lambda _, value: value != ALONE})
    loads: int = field(default=1, metadata={"is_written": lambda _, value: value != 1})  # planned for the session

    @property
    def quads(self) -> int:
        return len(self.order) // 4

    @property
    def quads_ns(self) -> int:
        """The time in ns at which A and B begin to alternate, after the turns in which A runs alone."""
        return self.begin_ns + self.alone * self.turn_ns

    @property
    def end_ns(self) -> int:
        return self.quads_ns + len(self.order) * self.turn_ns

    def spans(self, side: int) -> list[list[int]]:
        """Return the time spans in ns, each as `[begin, end]`, in which a side runs. `side` is 0 for A and 1 for B.

        Adjacent turns of a side are one span.
        """
        spans: list[list[int]] = []
        for number, letter in enumerate("A" * self.alone + self.order):
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


@frozen
class Planner:
    """Plans when A and B run, after each loading of both models. `duration_ns` is the time for all turns and loads."""

    duration_ns: int
    seed: int  # of the order of turns
    least_ns: int = SHORTEST_NS  # shortest turn, if there is time

    def first(self, begin_ns: int, latency_ns: int, reload_ns: int | None = None) -> Plan:
        """Return the turns after the models were loaded for the first time. The turns begin at `begin_ns`.

        `latency_ns` is the time of one inference, and `reload_ns` the time to load both models again; None if they
        cannot be loaded again. Raises ValueError if the session is too short; the message says how long it must be.
        """
        wanted = 1 if reload_ns is None else _wanted_loads(self.duration_ns, reload_ns, 0)
        turn_ns = self._turn_ns(self.duration_ns - (wanted - 1) * (reload_ns or 0), latency_ns)
        loads, quads = _divided(self.duration_ns - ALONE * turn_ns, reload_ns, turn_ns, 0)
        return Plan(begin_ns, turn_ns, self._order(0, quads), loads=loads)

    def after(self, first: Plan, load: int, begin_ns: int, reload_ns: int) -> Plan | None:
        """Return the turns after the models were loaded again, or None if the session's time is over.

        The turns begin at `begin_ns`. `first` is the plan that the method `first` gave. `load` is how often both models
        were loaded before, and `reload_ns` how long loading them took the last time.
        """
        left_ns = first.begin_ns + self.duration_ns - begin_ns
        if left_ns < 4 * first.turn_ns:
            return None
        loads, quads = _divided(left_ns, reload_ns, first.turn_ns, load)
        return Plan(begin_ns, first.turn_ns, self._order(load, quads), alone=0, loads=loads)

    def _turn_ns(self, measured_ns: int, latency_ns: int) -> int:
        most_ns, needed_ns = measured_ns // (ALONE + 4 * LEAST_QUADS), LEAST_RUNS_A_TURN * latency_ns
        wanted_ns = max(self.least_ns, RUNS_A_TURN * latency_ns)
        turn_ns = max(min(wanted_ns, max(self.least_ns, LONGEST_NS), most_ns), needed_ns)
        if turn_ns > most_ns:
            least_s = math.ceil((needed_ns * (ALONE + 4 * LEAST_QUADS) + self.duration_ns - measured_ns) / NS)
            raise ValueError(f"an inference takes {latency_ns / NS:.2g} s: give {least_s} s or more, for enough turns")
        return turn_ns

    def _order(self, load: int, quads: int) -> str:
        lot = random.Random(self.seed if load == 0 else f"{self.seed} {load}")  # noqa: S311  the same for a seed
        return "".join(lot.choice(("ABBA", "BAAB")) for _ in range(quads))


def _wanted_loads(left_ns: int, reload_ns: int, done: int) -> int:
    """Return how often both models are still to be loaded, the current load included: at most WANTED_LOADS in all.

    `done` is the number of earlier loads. Loading may take half of the remaining time `left_ns`.
    """
    return max(1, min(WANTED_LOADS - done, 1 + left_ns // 2 // max(reload_ns, 1)))


def _divided(left_ns: int, reload_ns: int | None, turn_ns: int, done: int) -> tuple[int, int]:
    """Return how often both models are loaded in the whole session, and how many quads follow the current load.

    A quad is four turns. `reload_ns` is the time to load both models, or None if they cannot be loaded again. `done` is
    the number of earlier loads.
    """
    quad_ns = 4 * turn_ns
    if reload_ns is None:
        return 1, left_ns // quad_ns
    load_ns = math.ceil(max(reload_ns, 1) / quad_ns) * quad_ns
    loads = max(_wanted_loads(left_ns, reload_ns, done), (left_ns + reload_ns) // (reload_ns + load_ns))
    return done + loads, max(1, (left_ns - (loads - 1) * reload_ns) // (loads * quad_ns))


def plan(begin_ns: int, latency_ns: int, *, duration_ns: int, seed: int, least_ns: int = SHORTEST_NS) -> Plan:
    """Return the turns of an A/B session in which each model is loaded once, beginning at `begin_ns`.

    `latency_ns` is the time of one inference, and `least_ns` the shortest turn. `seed` determines the random order.
    Raises ValueError if the session is too short.
    """
    return Planner(duration_ns, seed, least_ns).first(begin_ns, latency_ns)
