"""How much of a slowdown lower clocks explain: those of CPU and GPU, and that of the memory.

A memory-bound model slows in step with the fall of the memory's clock. But a governor also lowers this clock because
less data moves, which is a consequence of a slowdown. Then the memory is no busier than before, and something else
explains the slowdown.
"""

import math
from collections.abc import Collection, Iterable

from edgetop.analysis.slowdowns.signals import LIMITS, MEMORY_CLOCK, Cause, Channel
from edgetop.analysis.slowdowns.tally import Tally

LEAST_LEVEL = 0.05  # Nepers; the part that a clock explains of a smaller slowdown is that of one of this size.
# Least share of a slowdown that a fallen clock must explain to be its cause. Choice. Larger: a clock change is missed
# for models that wait for memory; smaller: a clock that fell because others ran is the cause.
LEAST_CLOCK = 0.25
# Least rise of the memory's load, as a share of it, that shows that its clock fell first, and least fall that shows
# that the traffic did. Choice: loads fluctuate by less. Larger: a fall is the cause although traffic fell first;
# smaller: chance decides.
LOAD_MOVED = 0.1

Pairs = Iterable[tuple[Channel, Tally]]


def clock_part(pairs: Pairs, level: float, *, of_memory: bool | None = None) -> float | None:
    """Return the share of the slowdown that a lower clock explains, by the clock that fell most; None without one.

    `level`: the level of the slowdown, in nepers above the baseline. `of_memory`: whether only clocks of the memory
    count, or only all others; None for all clocks.
    """
    parts = [
        math.log(max(tally.median, 1.0) / max(tally.mean, 1.0)) / max(level, LEAST_LEVEL)
        for channel, tally in pairs
        if channel.role == "clock" and of_memory in (None, channel.cause == MEMORY_CLOCK)
        and tally.known and not math.isnan(tally.median) and (tally.beyond or not channel.is_blind)
    ]  # fmt: skip
    return min(1.0, max(0.0, *parts)) if parts else None


def weak_clocks(pairs: Pairs, level: float, causes: Collection[Cause]) -> frozenset[Cause]:
    """Return which of `clock-change` and `memory-clock` are no cause, although such a clock fell.

    `causes`: all causes that the evidence supports.
    """
    pairs = tuple(pairs)
    weak: set[Cause] = set()
    other, memory = (clock_part(pairs, level, of_memory=of_memory) or 0.0 for of_memory in (False, True))
    is_limited = not LIMITS.isdisjoint(causes)
    if is_limited or other < LEAST_CLOCK:
        weak.add("clock-change")
    rest = [cause for cause in causes if cause not in weak and cause != MEMORY_CLOCK]
    moved = _load_moved(pairs)
    is_consequence = moved < -LOAD_MOVED or (bool(rest) and (moved < LOAD_MOVED or other >= memory))
    if is_limited or memory < LEAST_CLOCK or is_consequence:
        weak.add(MEMORY_CLOCK)
    return frozenset(weak)


def _load_moved(pairs: Pairs) -> float:
    """Return by which share of its usual value the load of the memory changed; 0 if that is unknown."""
    moves = [
        tally.mean / tally.median - 1
        for channel, tally in pairs
        if channel.role == "load" and tally.known and tally.median > 0
    ]
    return moves[0] if moves else 0.0
