"""Which cause explains a slowdown, how surely, and the sentences that say so."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from edgetop.analysis.slowdowns.causes import CAUSES, LIMITS, Cause, Channel
from edgetop.analysis.slowdowns.evidence import Evidence, Tally
from edgetop.formatting import clock_time, percent, reading
from edgetop.session.seconds import NS

LEAST_EXPLAINED = 0.15  # of the slow seconds; less is chance
LEAST_SCORE = 0.2  # share of the time, times belief
AS_MUCH = 0.15  # of the time: causes that explain it so nearly as well are told apart by how well they are proven
LEAST_CLOCK = 0.25  # of the slowdown, that a fallen clock must explain to be its cause
PLAIN_FLAG = 0.9  # how far a flag is believed where no clock can be seen beside it
LEAST_STOOD = 0.6  # of the slow seconds, in which others took the CPU before it already
STANDING = 0.6  # how far that is believed, where nothing else is found
FOR_NAMED = 0.2  # of belief
_STANDING = frozenset({"rate/run-queue-wait", "load/steal", "pressure/cpu-some", "load of other processes"})
_HIDDEN = frozenset({"power-cap", "under-voltage"})  # limits so short that no clock shows them


@dataclass(frozen=True, slots=True)
class Finding:
    cause: Cause
    confidence: float  # 0 to 1
    sentences: tuple[str, ...]

    @property
    def proof(self) -> float:
        """How surely there is a cause."""
        return 0.0 if self.cause == "unknown" else self.confidence


def find_cause(evidence: Evidence, level: float, named: Cause = "unknown") -> Finding:
    """`level`: of the slowdown, in nepers over the baseline; `named`: the cause that was found before.

    What was named needs half as much to stay the cause: it is not lost while its evidence still stands.
    """
    if not evidence.seconds:
        return Finding("unknown", 0.0, ())
    shares = {cause: evidence.explained[cause] / evidence.seconds for cause in CAUSES}
    clock = _clock_part(evidence, level)
    beliefs = {
        cause: _belief(cause, evidence, clock)
        for cause in CAUSES
        if shares[cause] >= LEAST_EXPLAINED * _ease(cause, named)
    }
    beliefs = {
        cause: belief
        for cause, belief in beliefs.items()
        if belief * shares[cause] >= LEAST_SCORE * _ease(cause, named)
    }
    if any(cause in beliefs for cause in LIMITS) or (clock or 0.0) < LEAST_CLOCK:
        beliefs.pop("clock-change", None)
    if not beliefs:
        stands = evidence.stood >= LEAST_STOOD * _ease("contention", named) * evidence.seconds
        return _standing(evidence) if stands else _unknown(evidence)
    most = max(shares[cause] for cause in beliefs)
    as_much = [cause for cause in CAUSES if cause in beliefs and shares[cause] >= most - AS_MUCH]
    best = max(as_much, key=lambda cause: round(beliefs[cause] + (FOR_NAMED if cause == named else 0), 1))
    others = sorted((cause for cause in beliefs if cause != best), key=lambda cause: -shares[cause])
    doubt = max((beliefs[other] * shares[other] for other in others), default=0.0)
    confidence = beliefs[best] * shares[best] - 0.3 * doubt
    told = list(_sentences(best, evidence))
    for other in others:
        told += [
            f"also {other}, {percent(shares[other])} of the time: {sentence}"
            for sentence in list(_sentences(other, evidence))[:1]
        ]
    return Finding(best, round(min(max(confidence, 0.05), 0.99), 2), tuple(told))


def _ease(cause: Cause, named: Cause) -> float:
    return 0.5 if cause == named else 1.0


def _standing(evidence: Evidence) -> Finding:
    """Others took the CPU all along: nothing rose, and yet it explains the time."""
    share = evidence.stood / evidence.seconds
    told = [
        f"{channel.name} stood at {reading(tally.mean, channel.unit)} {channel.unit} before it and in it"
        for channel, tally in zip(evidence.channels, evidence.tallies, strict=True)
        if channel.cause == "contention" and tally.known and channel.name in _STANDING
    ]
    return Finding(
        "contention",
        round(STANDING * share, 2),
        (f"others took the CPU all along, in {percent(share)} of the slow time", *told),
    )


def _clock_part(evidence: Evidence, level: float) -> float | None:
    """How much of the slowdown the clock that fell most explains; None where no clock can be seen."""
    parts = [
        math.log(max(tally.median, 1.0) / max(tally.mean, 1.0)) / max(level, 0.05)
        for channel, tally in zip(evidence.channels, evidence.tallies, strict=True)
        if channel.role == "clock"
        and tally.known
        and not math.isnan(tally.median)
        and (tally.beyond or not channel.is_blind)
    ]
    return min(1.0, max(0.0, *parts)) if parts else None


def _belief(cause: Cause, evidence: Evidence, clock: float | None) -> float:
    """How far what was seen proves this cause: 0 to 1."""
    if cause in LIMITS or cause == "clock-change":
        if clock is None:
            return PLAIN_FLAG
        if cause in _HIDDEN and clock < LEAST_CLOCK:
            return PLAIN_FLAG * 0.9
        return 0.5 + 0.5 * min(1.0, clock / 0.5)
    doubt = 1.0
    for channel, tally in zip(evidence.channels, evidence.tallies, strict=True):
        if channel.cause == cause and channel.role == "proof" and evidence.began_with_it(tally):
            doubt *= 1 - channel.weight * min(1.0, tally.beyond / max(evidence.explained[cause], 1))
    return 1 - doubt


def _sentences(cause: Cause, evidence: Evidence) -> Iterator[str]:
    """What was seen of this cause, the clocks that it slowed included."""
    pairs = list(zip(evidence.channels, evidence.tallies, strict=True))
    for channel, tally in pairs:
        if channel.cause == cause and channel.role == "proof" and tally.beyond:
            if evidence.began_with_it(tally):
                yield _sentence(channel, tally)
            elif cause in LIMITS and evidence.held_at_it(tally):
                yield f"{channel.name} was in force already"
    if cause not in LIMITS and cause != "clock-change":
        return
    for channel, tally in pairs:
        if channel.role in ("clock", "cap") and evidence.began_with_it(tally) and tally.beyond:
            yield _sentence(channel, tally)
    for channel, tally in pairs:
        if channel.role == "trip" and channel.cause == cause and tally.beyond:
            yield f"a zone was {abs(tally.most):.1f} °C {'below' if tally.most < 0 else 'above'} its trip"


def _sentence(channel: Channel, tally: Tally) -> str:
    when = clock_time(tally.first_s * NS)
    if channel.name.startswith("throttle/"):
        return f"{channel.name} was set at {when}, and in {percent(tally.beyond / tally.known)} of the slow time"
    if channel.name.startswith("cooling/"):
        return f"{channel.name} went from state {tally.median:.0f} to {tally.most:.0f} at {when}"
    mean, does = tally.mean, "fell" if channel.falls else "rose"
    is_so = math.isnan(tally.median) or (mean < tally.median) == channel.falls
    if not is_so:  # beyond its fixed limit before and after, though nearer to it now
        return f"{channel.name} was {reading(mean, channel.unit)} {channel.unit} at {when}"
    usual = "" if math.isnan(tally.median) else f"from {reading(tally.median, channel.unit)} "
    return f"{channel.name} {does} {usual}to {reading(mean, channel.unit)} {channel.unit} at {when}"


def _unknown(evidence: Evidence) -> Finding:
    """What was looked at, and what this board does not tell."""
    seen = {channel.cause for channel, tally in zip(evidence.channels, evidence.tallies, strict=True) if tally.known}
    told = [_LOOKED_AT[cause] for cause in CAUSES if cause in seen]
    untold = [_LOOKED_AT[cause] for cause in CAUSES if cause not in seen]
    sentences = [f"nothing changed with it in {', '.join(told)}"] if told else []
    if untold:
        sentences.append(f"not told by this board: {', '.join(untold)}")
    return Finding("unknown", round(0.3 + 0.5 * len(seen) / len(CAUSES), 2), tuple(sentences))


_LOOKED_AT: dict[Cause, str] = {
    "under-voltage": "under-voltage flags and the input's voltage",
    "power-cap": "power limits and over-current events",
    "thermal": "thermal flags, cooling devices and trips",
    "cpu-quota": "the CPU quota of its cgroup",
    "contention": "run-queue wait, CPU pressure, steal and the load of others",
    "memory-pressure": "major faults, swap-in and memory pressure",
    "clock-change": "clocks and their caps",
}
