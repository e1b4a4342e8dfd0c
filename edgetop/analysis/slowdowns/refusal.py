"""Lists the causes of a slowdown that were examined and rejected, each with the reason.

The list tells the user, for example, why a slowdown is not due to heat.
"""

from typing import Literal, get_args

from edgetop.analysis.slowdowns.cause_finding import LEAST_SCORE, belief_in, part_of
from edgetop.analysis.slowdowns.clock_parts import LEAST_CLOCK
from edgetop.analysis.slowdowns.evidence import Evidence
from edgetop.analysis.slowdowns.signals import LIMITS, OF_CLOCKS, Cause
from edgetop.frozen import frozen

RefusalReason = Literal[
    "no-sensor",  # no sensor of this board reports the cause
    "not-in-force",  # the limit that would be the cause was not set
    "not-read",  # its sensors gave no reading in the slow time, or a CPU quota stopped the engine
    "no-change",  # its signals stayed in their usual range
    "began-before",  # its signals left their usual range before the slowdown
    "began-later",  # its signals left their usual range only after the slowdown had begun
    "clock-held",  # a limit was reached, but no clock fell with it
    "too-little",  # its signals began with the slowdown, but explain too little of it
    "outweighed",  # its signals explain the slowdown, but another cause explains more or is better proven
]
REASONS: tuple[RefusalReason, ...] = get_args(RefusalReason)


@frozen
class Refusal:
    cause: Cause
    # Share of the slow time that its signals explain or, if they did not begin with it, were out of their range.
    share: float
    reason: RefusalReason


def find_refusals(evidence: Evidence, level: float, chosen: Cause) -> tuple[Refusal, ...]:
    """Return the rejected causes of a slowdown, each with the reason why it was rejected.

    These are all causes that are possible in the session, except `chosen`, the reported cause. `level` is the size of
    the slowdown: the natural logarithm of its latency ratio.
    """
    if not evidence.seconds:
        return ()
    return tuple(_refusal(cause, evidence, level) for cause in evidence.possible if cause != chosen)


def _refusal(cause: Cause, evidence: Evidence, level: float) -> Refusal:
    pairs = [(channel, tally) for channel, tally in evidence.pairs if channel.cause == cause and channel.role != "load"]
    if explained := evidence.explained[cause]:
        share, clock = explained / evidence.seconds, part_of(cause, evidence, level)
        is_weak = belief_in(cause, evidence, clock) * share < LEAST_SCORE
        is_weak |= cause in OF_CLOCKS and (clock or 0.0) < LEAST_CLOCK
        return Refusal(cause, round(share, 4), "too-little" if is_weak else "outweighed")
    if not any(tally.known for _, tally in pairs):
        return Refusal(cause, 0.0, "not-read" if pairs else "not-in-force" if cause in evidence.unset else "no-sensor")
    beyond = [(channel, tally) for channel, tally in pairs if tally.beyond]
    if not beyond:
        return Refusal(cause, 0.0, "no-change")
    share = round(max(tally.beyond for _, tally in beyond) / evidence.seconds, 4)
    if cause in LIMITS and all(channel.role == "trip" for channel, _ in beyond):
        return Refusal(cause, share, "clock-held")
    return Refusal(cause, share, "began-before" if any(tally.was_beyond for _, tally in beyond) else "began-later")
