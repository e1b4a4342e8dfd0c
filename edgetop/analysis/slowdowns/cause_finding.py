"""Find the cause of a slowdown from the signals recorded during it, and how certain this cause is."""

import math
from collections.abc import Iterator
from dataclasses import replace

from edgetop.analysis.slowdowns.baseline import SLOWER
from edgetop.analysis.slowdowns.clock_parts import LEAST_CLOCK, clock_part, weak_clocks
from edgetop.analysis.slowdowns.clue import Clue, ClueKind
from edgetop.analysis.slowdowns.evidence import Evidence
from edgetop.analysis.slowdowns.levels import NEPER
from edgetop.analysis.slowdowns.signals import (
    CAUSES,
    LIMITS,
    LOAD_OF_OTHERS,
    MEMORY_CLOCK,
    OF_CLOCKS,
    OF_PROGRAM,
    Cause,
    Channel,
)
from edgetop.analysis.slowdowns.tally import Tally
from edgetop.frozen import frozen

# Least share of the slow time that a cause must explain, times how well it is proven. Choice. Larger: real causes
# that are seldom read give "unknown"; smaller: a coincidence is a cause.
LEAST_SCORE = 0.2
# Difference of the explained shares below which two causes explain as much. Choice: seconds at the border belong to
# both. Larger: the better proven cause wins although it explains less; smaller: the cause that is read more often
# wins.
AS_MUCH = 0.15
# Belief in a flag where no clock is visible beside it. Choice: a flag is set by the board itself. Larger: other
# causes never win against it; smaller: a throttled board is called unknown or contended.
PLAIN_FLAG = 0.9
# Belief in a power or voltage limit whose clock does not show the slowdown. Choice: such limits last milliseconds, so
# a mean clock hides them. Larger and smaller as for a flag. Larger: a flag without effect wins; smaller: a brown-out
# loses.
HIDDEN_FLAG = 0.81
# Least share of the slow time in which others took the CPU, as before the slowdown, to be its cause. Choice. Larger:
# contention that never stopped gives "unknown"; smaller: usual background load is a cause.
LEAST_STOOD = 0.6
# Belief in contention that did not begin with the slowdown. Choice: nothing rose with it. Larger: it is claimed too
# surely; smaller: it looks like a guess.
STANDING = 0.6
# Least share of the slow time, times belief, from which a cause outside of the program comes before what the program
# does. Choice: a signal that moves by chance at the same time explains less. Larger: a changed mix hides a real cause;
# smaller: chance hides a change of the mix.
BESIDE_PROGRAM = 0.4
# Highest power of the inputs' size with which the time of a model grows. Choice: that of attention. Larger: larger
# inputs hide a real slowdown; smaller: larger inputs are called a slowdown.
STEEPEST = 2.0
# Belief added for the cause that was named before. Choice. Larger: a wrong first cause stays; smaller: the named
# cause changes back and forth.
FOR_NAMED = 0.2
# Share of the usual evidence that suffices for the cause that was named before. Choice. Larger: the named cause
# changes back and forth; smaller: a wrong first cause stays.
EASE = 0.5
# Share of the second best cause's proof that is taken off the confidence in the best. Choice. Larger: two causes at
# once make a slowdown doubtful; smaller: a rival is not seen in the confidence.
DOUBT = 0.3
# Share of a slowdown that the clock of a limit must explain so that the limit is certain. Choice: a model that waits
# for memory slows less than its clock. Larger: real throttling looks doubtful; smaller: a clock that hardly fell
# proves a limit.
CLOCK_ENOUGH = 0.5
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.05, 0.99  # No cause is impossible, and none certain.
NOTHING_SEEN, ALL_SEEN = 0.3, 0.8  # Confidence in "unknown" if no cause could be seen, and if each could.
_STANDING = frozenset({"rate/run-queue-wait", "load/steal", "pressure/cpu-some", LOAD_OF_OTHERS})
_HIDDEN = frozenset({"power-cap", "under-voltage"})  # limits so short that no clock shows them


@frozen
class Finding:
    cause: Cause
    confidence: float  # 0 to 1
    clues: tuple[Clue, ...]

    @property
    def proof(self) -> float:
        """Return how surely the cause of the slowdown is known, from 0 to 1.

        The result is 0 for an unknown cause, and for the causes `mix` and `inputs`, because these often change by
        chance.
        """
        return 0.0 if self.cause == "unknown" or self.cause in OF_PROGRAM else self.confidence


def find_cause(evidence: Evidence, level: float, named: Cause = "unknown") -> Finding:
    """Return the most probable cause of a slowdown, with its confidence.

    `evidence` has the signals that changed with the slowdown. `level` is the size of the slowdown: the natural
    logarithm of its latency ratio. `named` is the cause that was reported before, or "unknown". The named cause needs
    only half of the usual evidence, so that the reported cause does not change back and forth.
    """
    if not evidence.seconds:
        return Finding("unknown", 0.0, ())
    shares = {cause: evidence.explained[cause] / evidence.seconds for cause in CAUSES}
    beliefs: dict[Cause, float] = {}
    for cause, share in shares.items():
        ease = EASE if cause == named else 1.0
        belief = belief_in(cause, evidence, part_of(cause, evidence, level)) if share else 0.0
        if belief * share >= LEAST_SCORE * ease:
            beliefs[cause] = belief
    for cause in weak_clocks(evidence.pairs, level, beliefs):
        beliefs.pop(cause, None)
    if level > STEEPEST * evidence.growth + SLOWER / NEPER:
        beliefs.pop("inputs", None)
    if any(beliefs[cause] * shares[cause] >= BESIDE_PROGRAM for cause in beliefs if cause not in OF_PROGRAM):
        beliefs = {cause: belief for cause, belief in beliefs.items() if cause not in OF_PROGRAM}
    if not beliefs:
        ease = EASE if named == "contention" else 1.0
        return _standing(evidence) if evidence.stood >= LEAST_STOOD * ease * evidence.seconds else _unknown(evidence)
    most = max(shares[cause] for cause in beliefs)
    as_much = [cause for cause in CAUSES if cause in beliefs and shares[cause] >= most - AS_MUCH]
    if "memory-high" in as_much:  # above memory.high, the kernel itself makes the faults and the pressure
        as_much = [cause for cause in as_much if cause != "memory-pressure"]
    best = max(as_much, key=lambda cause: round(beliefs[cause] + (FOR_NAMED if cause == named else 0), 1))
    others = sorted((cause for cause in beliefs if cause != best), key=lambda cause: -shares[cause])
    doubt = max((beliefs[other] * shares[other] for other in others), default=0.0)
    confidence = beliefs[best] * shares[best] - DOUBT * doubt
    clues = list(_clues(best, evidence))
    for other in others:
        first = next(_clues(other, evidence), None)
        clues += [replace(first, also=other, also_share=shares[other])] if first else []
    return Finding(best, round(min(max(confidence, LEAST_CONFIDENCE), MOST_CONFIDENCE), 2), tuple(clues))


def _standing(evidence: Evidence) -> Finding:
    """Return the cause `contention`, for a slowdown before and during which other processes took the CPU."""
    share = evidence.stood / evidence.seconds
    clues = [Clue("all-along", share=share)] + [
        Clue("stood", channel.name, channel.unit, tally.mean)
        for channel, tally in evidence.pairs
        if channel.cause == "contention" and tally.known and channel.name in _STANDING
    ]
    return Finding("contention", round(STANDING * share, 2), tuple(clues))


def part_of(cause: Cause, evidence: Evidence, level: float) -> float | None:
    """Return the share (0..1) of a slowdown that lower clocks explain, or None if no such clock is read.

    For `memory-clock`, only the clocks of the memory are used; for `clock-change`, all others; for other causes, all
    clocks. `level` is the size of the slowdown: the natural logarithm of its latency ratio.
    """
    return clock_part(evidence.pairs, level, of_memory=cause == MEMORY_CLOCK if cause in OF_CLOCKS else None)


def belief_in(cause: Cause, evidence: Evidence, clock: float | None) -> float:
    """Return how strongly the evidence proves the cause `cause`, from 0 to 1.

    `evidence` has the signals that changed with the slowdown. `clock` is the share (0..1) of the slowdown that lower
    clocks explain, as `part_of` returns it; None if no clock is read.
    """
    if cause in LIMITS or cause in OF_CLOCKS:
        if clock is None:
            return PLAIN_FLAG
        if cause in _HIDDEN and clock < LEAST_CLOCK:
            return HIDDEN_FLAG
        return 0.5 + 0.5 * min(1.0, clock / CLOCK_ENOUGH)
    doubt = 1.0
    for channel, tally in evidence.pairs:
        if channel.cause == cause and channel.role == "proof" and evidence.began_with_it(tally):
            doubt *= 1 - channel.weight * min(1.0, tally.beyond / max(evidence.explained[cause], 1))
    return 1 - doubt


def _clues(cause: Cause, evidence: Evidence) -> Iterator[Clue]:
    """Yield the observations that support the cause `cause`.

    For a cause that can lower clocks, such as `thermal`, these include the clocks that fell.
    """
    for channel, tally in evidence.pairs:
        if channel.cause == cause and channel.role == "proof" and tally.beyond:
            if evidence.began_with_it(tally):
                yield _clue(channel, tally)
            elif cause in LIMITS and evidence.held_at_it(tally):
                yield Clue("in-force", channel.name)
    if cause in LIMITS or cause in OF_CLOCKS:
        yield from _clock_clues(cause, evidence)


def _clock_clues(cause: Cause, evidence: Evidence) -> Iterator[Clue]:
    """Yield the clocks and the caps of clocks that fell with the slowdown, as observations that support `cause`.

    For `memory-clock`, yield the load of the memory as well, if it rose. For `thermal`, yield a thermal zone that was
    at its trip point as well.
    """
    for channel, tally in evidence.pairs:
        is_its = channel.role in ("clock", "cap") and (cause in LIMITS or channel.cause == cause)
        if is_its and evidence.began_with_it(tally) and tally.beyond:
            yield _clue(channel, tally)
    for channel, tally in evidence.pairs:
        if channel.role == "load" and cause == MEMORY_CLOCK and tally.mean_above_median:
            yield Clue("rose", channel.name, channel.unit, tally.mean, tally.median)
        if channel.role == "trip" and channel.cause == cause and tally.beyond:
            yield Clue("trip", value=tally.most)


def _clue(channel: Channel, tally: Tally) -> Clue:
    median = None if math.isnan(tally.median) else tally.median
    if channel.name.startswith("throttle/"):
        return Clue("set", channel.name, share=tally.beyond / tally.known, at_s=tally.first_s)
    if channel.name.startswith("cooling/"):
        return Clue("state", channel.name, value=tally.most, usual=median, at_s=tally.first_s)
    kind: ClueKind = "fell" if channel.falls else "rose"
    if median is not None and (tally.mean < median) != channel.falls:  # beyond a fixed limit before and after
        kind, median = "was", None
    return Clue(kind, channel.name, channel.unit, tally.mean, median, at_s=tally.first_s)


def _unknown(evidence: Evidence) -> Finding:
    """Return the cause `unknown`, with the possible causes that were examined and those that could not be examined.

    A cause was examined if its signals were read; they show nothing. It could not be examined if they were not read. A
    limit that is not set needs no examination.
    """
    seen = {channel.cause for channel, tally in evidence.pairs if tally.known and channel.role != "load"}
    possible = evidence.possible
    examined = tuple(cause for cause in possible if cause in seen)
    unset = tuple(cause for cause in possible if cause in evidence.unset and cause not in seen)
    missing = tuple(cause for cause in possible if cause not in seen and cause not in unset)
    clues = [Clue("unchanged", causes=examined)] if examined else []
    clues += [Clue("not-in-force", causes=unset)] if unset else []
    clues += [Clue("unreported", causes=missing)] if missing else []
    confidence = NOTHING_SEEN + (ALL_SEEN - NOTHING_SEEN) * (len(examined) + len(unset)) / len(possible)
    return Finding("unknown", round(confidence, 2), tuple(clues))
