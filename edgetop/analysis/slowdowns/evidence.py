"""Which signals left their usual range together with a slowdown, and in how much of its time.

What is usual is taken from the half minute before the level began to rise. A signal is
evidence where it left that range within 3 s of the slowdown; one that had left it before
(a flag of long ago, a hot zone) is not, but says what limits a clock that falls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from edgetop.analysis.slowdowns.causes import CAUSES, LIMITS, Cause, Channel
from edgetop.analysis.slowdowns.contention import taken_of
from edgetop.analysis.slowdowns.plain import NOT_EXPORTED
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.slowdowns.span import SlowWindow
from edgetop.analysis.tracks import Bools, Floats

NEAR_S = 3
BEFORE_S = 30  # before the time in question: what a signal is compared with
STALE_S = 5  # the longest that is usual between two readings
NEVER = -1
_HUGE = 1e12
_FEW = 4  # last seconds before: a signal that was beyond its range for most of them was so before


@dataclass(slots=True)
class Tally:
    """What is known of one channel during one slowdown."""

    median: float  # before; NaN: not known
    threshold: float  # beyond it the signal counts; NaN: there is none
    was_beyond: bool  # before the slowdown already
    last_read_s: int  # the last second in which it was read
    before_s: int = NEVER  # when it was last read before `first_s`
    first_s: int = NEVER  # since when it was beyond
    beyond: int = 0  # slow seconds
    known: int = 0  # slow seconds
    sum_milli: int = 0  # of the values over those, in whole thousandths: the same in any order
    most: float = float("nan")  # the farthest value in the direction that counts

    @property
    def mean(self) -> float:
        """Over the slow seconds. Raises ZeroDivisionError where it was never read in them."""
        return self.sum_milli / self.known / 1000


class Onset(NamedTuple):
    """When the latency rose, in seconds of the session."""

    start_s: int
    rise_s: int  # when it began to
    slack_s: int = 1  # by how much the start may be off
    after_s: int = 0  # when what was before it was over


@dataclass(slots=True)
class Evidence:
    """The tallies of one slowdown. Seconds are looked at once, in their order."""

    channels: tuple[Channel, ...] = field(default=(), kw_only=True, metadata=NOT_EXPORTED)
    floor: int  # the level that it rose from, in millionths of a neper over the baseline
    start_s: int  # earlier seconds are none of it
    looked_s: int
    near_s: int
    seconds: int = 0  # slow ones
    explained: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))  # slow seconds
    tallies: list[Tally] = field(default_factory=list)
    stood: int = 0  # slow seconds in which others took the CPU, as they did before
    stands: bool = False  # others took the CPU before it

    @classmethod
    def begun(cls, onset: Onset, signals: Signals, floor: int = 0) -> "Evidence":
        """Of a slowdown that began so, with what the signals were before it."""
        from_s = onset.rise_s - NEAR_S - onset.slack_s
        begin_s = max(0, from_s - BEFORE_S, min(onset.after_s + NEAR_S, from_s - NEAR_S))
        held, was_read = signals.held(begin_s, max(from_s, begin_s + 1))
        contended = taken_of(signals, held).is_contended
        return cls(
            channels=signals.channels,
            floor=floor,
            start_s=onset.start_s,
            looked_s=from_s,
            near_s=onset.start_s + NEAR_S + onset.slack_s,
            tallies=[_begin(channel, held, was_read, begin_s) for channel in signals.channels],
            stands=bool(np.count_nonzero(contended) * 2 > len(contended)),
        )

    def copy(self) -> "Evidence":
        return replace(self, explained=dict(self.explained), tallies=[replace(tally) for tally in self.tallies])

    def resumed(self, at_s: int) -> "Evidence":
        """The same signals from then on, as far as they began with what began then; nothing is counted yet.

        What is read every few seconds tells for as long what was before.
        """
        other = self.copy()
        other.looked_s, other.start_s = at_s, at_s + STALE_S
        other.seconds, other.stood, other.explained = 0, 0, dict.fromkeys(CAUSES, 0)
        for tally in other.tallies:
            if tally.first_s == NEVER:
                tally.first_s = tally.before_s = max(at_s, self.near_s + 1)  # what begins later began without it
            tally.beyond = tally.known = tally.sum_milli = 0
            tally.most = float("nan")
        return other

    def look(self, windows: Sequence[SlowWindow], signals: Signals) -> None:
        """At the seconds of windows that were found slow since."""
        if not windows or not self.channels:
            return
        end_s = windows[-1].end_s
        is_slow = np.zeros(max(0, end_s - self.looked_s), np.bool_)
        for begin, end, _ in windows:
            is_slow[max(0, max(begin, self.start_s) - self.looked_s) : max(0, end - self.looked_s)] = True
        if len(is_slow):
            held, was_read = signals.held(self.looked_s, end_s)
            self._count(held, was_read, is_slow)
            if self.stands:
                self.stood += int(np.count_nonzero(taken_of(signals, held).is_contended & is_slow))
            self.looked_s = end_s

    def _count(self, held: Floats, was_read: Bools, is_slow: Bools) -> None:
        beyond = np.zeros((len(self.channels), len(is_slow)), np.bool_)
        for place, (channel, tally) in enumerate(zip(self.channels, self.tallies, strict=True)):
            values = channel.values(held)
            with np.errstate(invalid="ignore"):  # of a threshold that there is not
                beyond[place] = values <= tally.threshold if channel.falls else values >= tally.threshold
            self._note_first(tally, beyond[place], np.logical_or.reduce(was_read[list(channel.rows)]))
            known = is_slow & ~np.isnan(values)
            if known.any():
                tally.known += int(np.count_nonzero(known))
                tally.sum_milli += int(np.rint(np.clip(values[known], -_HUGE, _HUGE) * 1000).astype(np.int64).sum())
                tally.beyond += int(np.count_nonzero(beyond[place] & known))
                farthest = float(values[known].min() if channel.falls else values[known].max())
                far = np.fmin if channel.falls else np.fmax
                tally.most = float(far(tally.most, farthest))
        self.seconds += int(np.count_nonzero(is_slow))
        for cause, explains in self._explained(beyond).items():
            self.explained[cause] += int(np.count_nonzero(explains & is_slow))

    def _note_first(self, tally: Tally, beyond: Bools, was_read: Bools) -> None:
        upto = len(beyond)
        if tally.first_s == NEVER and beyond.any():
            upto = int(np.argmax(beyond))
            tally.first_s = self.looked_s + upto
        read = np.flatnonzero(was_read[:upto])
        if tally.before_s == NEVER and tally.first_s != NEVER:
            tally.before_s = self.looked_s + int(read[-1]) if len(read) else tally.last_read_s
        read = np.flatnonzero(was_read)
        if len(read):
            tally.last_read_s = self.looked_s + int(read[-1])

    def began_with_it(self, tally: Tally) -> bool:
        """Whether the signal left its range within 3 s of the slowdown, as far as reading it now and then tells."""
        return tally.first_s != NEVER and not tally.was_beyond and tally.before_s <= self.near_s

    def begins_s(self, cause: Cause, found_s: int) -> int:
        """Not while each signal that proves the cause was read and still in its range. `found_s`: by the latency."""
        if self.floor or self.start_s != found_s:  # of a stage on another, whose beginning is the end of that
            return found_s
        clear_s = [
            tally.before_s
            for channel, tally in zip(self.channels, self.tallies, strict=True)
            if tally.beyond and self.began_with_it(tally) and _proves(channel, cause)
        ]
        return max(found_s, min(clear_s, default=NEVER) + 1)

    def held_at_it(self, tally: Tally) -> bool:
        """Whether it was so when the slowdown began, since when ever."""
        return tally.was_beyond or self.began_with_it(tally)

    def _explained(self, beyond: Bools) -> dict[Cause, Bools]:
        """The seconds that each cause explains."""
        nothing = np.zeros(beyond.shape[1], np.bool_)
        explained: dict[Cause, Bools] = dict.fromkeys(CAUSES, nothing)
        limits: dict[Cause, Bools] = dict.fromkeys(CAUSES, nothing)  # in force, since when ever
        clock, cpu_caps, other_caps = nothing, nothing, nothing
        for channel, tally, is_beyond in zip(self.channels, self.tallies, beyond, strict=True):
            fresh = is_beyond if self.began_with_it(tally) else nothing
            held = is_beyond if self.held_at_it(tally) else nothing
            if channel.role == "proof":
                explained[channel.cause] = explained[channel.cause] | fresh
                limits[channel.cause] = limits[channel.cause] | held
            elif channel.role == "trip":
                limits[channel.cause] = limits[channel.cause] | held
            else:
                clock = clock | fresh
                if channel.role == "cap" and channel.name.startswith("freqcap/cpu"):
                    cpu_caps = cpu_caps | fresh
                elif channel.role == "cap":
                    other_caps = other_caps | fresh
        for cause in LIMITS:
            explained[cause] = explained[cause] | (clock & limits[cause])
        # A power mode limits several units at once, a user or a governor one.
        explained["power-cap"] = explained["power-cap"] | (cpu_caps & other_caps)
        explained["clock-change"] = clock
        return explained


def _proves(channel: Channel, cause: Cause) -> bool:
    """Together with a limit, a clock that fell does too."""
    return channel.role == "clock" if cause in LIMITS and channel.role != "proof" else channel.cause == cause


def _begin(channel: Channel, held: Floats, was_read: Bools, begin_s: int) -> Tally:
    values = channel.values(held)
    read = np.flatnonzero(was_read[list(channel.rows)].any(axis=0))
    median, threshold = normal_range(channel, values)
    last = values[-_FEW:]
    with np.errstate(invalid="ignore"):
        beyond = last <= threshold if channel.falls else last >= threshold
    return Tally(
        median=median,
        threshold=threshold,
        was_beyond=bool(np.count_nonzero(beyond) * 2 > len(last)),
        last_read_s=begin_s + int(read[-1]) if len(read) else NEVER,
    )


def normal_range(channel: Channel, before: Floats) -> tuple[float, float]:
    """The median of what it was before, and the threshold from which on it counts. NaN where nothing is known."""
    known = np.sort(before[~np.isnan(before)])
    return _quantile(known, 0.5), _threshold(channel, known)


def _threshold(channel: Channel, known: Floats) -> float:
    if channel.fixed is not None:
        return channel.fixed
    if channel.falls:
        low = _quantile(known, 0.2)
        return min(low * (1 - channel.share), low - channel.least)
    high = _quantile(known, 0.9) if len(known) else 0.0
    return max(high * (1 + channel.share), high + channel.least)


def _quantile(in_order: Floats, share: float) -> float:
    """The value below which so many lie, nearest rank; NaN of none."""
    return float(in_order[round(share * (len(in_order) - 1))]) if len(in_order) else float("nan")
