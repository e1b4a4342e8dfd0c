"""Computes how much of a slowdown follows from lower clocks of CPU, GPU and memory.

A memory-bound model slows in step with the memory's clock. But a governor may also lower this clock because a slower
model moves less data. Then the lower clock is a consequence of the slowdown, and the load of the memory has not risen.
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
    """Return the share (0..1) of a slowdown that follows from lower clocks, or None if no clock was read.

    Of several clocks, only the clock that fell most is used. `pairs` has `(signal, figures)` pairs: the figures before
    and during the slowdown. `level` is the size of the slowdown: the natural logarithm of its latency ratio.
    `of_memory` chooses the clocks: True for clocks of the memory, False for all others, None for all.
    """
    parts = [
        math.log(max(tally.median, 1.0) / max(tally.mean, 1.0)) / max(level, LEAST_LEVEL)
        for channel, tally in pairs
        if channel.role == "clock" and of_memory in (None, channel.cause == MEMORY_CLOCK)
        and tally.known and not math.isnan(tally.median) and (tally.beyond or not channel.is_blind)
    ]  # fmt: skip
    return min(1.0, max(0.0, *parts)) if parts else None


def weak_clocks(pairs: Pairs, level: float, causes: Collection[Cause]) -> frozenset[Cause]:
    """Return the rejected causes: `clock-change`, `memory-clock`, both or neither.

    A cause is rejected if its clock explains too little of the slowdown, or if another cause lowered the clock. `pairs`
    has `(signal, figures)` pairs: the figures before and during the slowdown. `level` is the size of the slowdown: the
    natural logarithm of its latency ratio. `causes` are all causes that the evidence supports.
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
    """Return the change of the memory's load in the slowdown, as a share of its usual value; 0 if it is unknown.

    For example, 0.2 means that the load rose by 20 %.
    """
    moves = [
        tally.mean / tally.median - 1
        for channel, tally in pairs
        if channel.role == "load" and tally.known and tally.median > 0
    ]
    return moves[0] if moves else 0.0
