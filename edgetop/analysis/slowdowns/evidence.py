"""Finds the sensor signals that changed together with a slowdown, and computes the most probable cause from them.

The usual range of a signal is its range in the half minute before the latency began to rise. A signal is evidence if it
left this range within 3 s of the start of the slowdown. A signal that had left the range before is no evidence: a flag
set long ago, or a hot zone. But such a signal can say what limits a clock that falls.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from edgetop.analysis.slowdowns.from_start import taken_of
from edgetop.analysis.slowdowns.serialization import fork
from edgetop.analysis.slowdowns.signals import CAUSES, LIMITS, OF_PROGRAM, Cause, Channel, Signals
from edgetop.analysis.slowdowns.slow_span import SlowWindow
from edgetop.analysis.slowdowns.tally import NEVER, Tally
from edgetop.analysis.tracks import Bools, Floats
from edgetop.session.typed_json import NOT_EXPORTED

# Longest time between a slowdown and a signal that begins with it. Choice: sensors are read each second, and an
# inference may lie between. Larger: coincidences are causes; smaller: causes that are read late are missed.
NEAR_S = 3
# Time before a slowdown that gives a signal's usual range. Choice: as long as the burst. Larger: values of long ago
# are usual; smaller: a few readings are.
BEFORE_S = 30
# Longest usual time between two readings of a sensor. Choice: slow sensors are read every 5 s. Larger: a stage has no
# evidence in its first seconds; smaller: the last value of the stage before counts.
STALE_S = 5
_HUGE = 1e12
# Number of seconds before a slowdown that show whether a signal was beyond its range already. If others took the CPU
# earlier, but not in these seconds, that contention is over and is no usual range. Choice. Larger: a flag that was over
# counts as set before; smaller: a flag that flickers counts as new.
JUST_BEFORE_S = 4
# Quantile below which a signal that falls has left its usual range. Choice. Larger: a usual dip counts; smaller: one
# odd reading hides a real fall.
LOW = 0.2
# Quantile above which a signal that rises has left its usual range. Choice. Larger: one odd reading hides a real
# rise; smaller: a usual peak counts.
HIGH = 0.9


class Onset(NamedTuple):
    """The time at which the latency rose, in seconds of the session."""

    start_s: int
    rise_s: int  # when it began to rise
    slack_s: int = 1  # by how much the start may be off
    after_s: int = 0  # when the slowdown before it was over
    late_s: int = 0  # by how much more it may be later


@dataclass(slots=True)
class Evidence:
    """Counts the seconds of one slowdown in which each signal was beyond its usual range.

    Each second is counted once, in order.
    """

    channels: tuple[Channel, ...] = field(default=(), kw_only=True, metadata=NOT_EXPORTED)
    # Causes that are limits which were not set, and have no sensor for this reason.
    unset: frozenset[Cause] = field(default=frozenset(), kw_only=True, metadata=NOT_EXPORTED)
    floor: int  # the level that it rose from, in millionths of a neper over the baseline
    start_s: int  # earlier seconds are not part of it
    until_s: int  # collected up to here
    near_s: int  # a signal that leaves its range later did not begin with it
    seconds: int = 0  # slow ones
    explained: dict[Cause, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))  # slow seconds
    tallies: list[Tally] = field(default_factory=list)
    stood: int = 0  # slow seconds in which others took the CPU, as they did before
    stands: bool = False  # others took the CPU before it
    late_s: int = 0  # by how much the beginning may be later than the latency shows

    @classmethod
    def begun(cls, onset: Onset, signals: Signals, floor: int = 0) -> "Evidence":
        """Return an object that counts the evidence of a slowdown that began at `onset`.

        It contains the usual range of each signal in the half minute before. `signals` gives the values of the sensors.
        `floor` is for a slowdown that rose out of another slowdown: the natural logarithm of (latency of the other
        slowdown / baseline), times a million. It is 0 if no other slowdown was in progress.
        """
        from_s = onset.rise_s - NEAR_S - onset.slack_s
        begin_s = max(0, from_s - BEFORE_S, min(onset.after_s + NEAR_S, from_s - NEAR_S))
        held, was_read = signals.of_channels(begin_s, max(from_s, begin_s + 1))
        contended = taken_of(signals.infos, held[: len(signals.infos)], signals.machine).is_contended
        stands = bool(np.count_nonzero(contended) * 2 > len(contended))
        is_over = not stands and not contended[-JUST_BEFORE_S:].any()  # A contention before the slowdown.
        return cls(
            channels=signals.channels,
            unset=signals.unset,
            floor=floor,
            start_s=onset.start_s,
            until_s=from_s,
            near_s=onset.start_s + NEAR_S + onset.slack_s + onset.late_s,
            late_s=onset.late_s,
            tallies=[
                _begin(
                    channel, held, was_read, begin_s, contended if is_over and channel.cause == "contention" else None
                )
                for channel in signals.channels
            ],
            stands=stands,
        )

    def resumed(self, at_s: int) -> "Evidence":
        """Return a copy with all counts at 0, to continue the same slowdown after a change of the latency.

        `at_s` is the session second of the change. The copy counts from a few seconds later on, because sensors that
        are read seldom still have old values.
        """
        other = replace(self, tallies=fork(self.tallies), explained=dict.fromkeys(CAUSES, 0), seconds=0, stood=0)
        other.until_s, other.start_s = at_s, at_s + STALE_S
        for tally in other.tallies:
            if tally.first_s == NEVER:
                tally.first_s = tally.before_s = max(at_s, self.near_s + 1)  # a later beginning was without it
            tally.beyond = tally.known = tally.sum_milli = 0
            tally.most = float("nan")
        return other

    def collect(self, windows: Sequence[SlowWindow], signals: Signals) -> None:
        """Count in how many of these slow seconds each signal was beyond its usual range.

        `windows` are slow windows (of about a second), and must follow the windows that were counted before. `signals`
        gives the values of the sensors.
        """
        self.follow(signals.channels)
        self.unset = signals.unset
        if not windows or not self.channels:
            return
        end_s = windows[-1].end_s
        is_slow = np.zeros(max(0, end_s - self.until_s), np.bool_)
        for begin, end, _ in windows:
            is_slow[max(0, max(begin, self.start_s) - self.until_s) : max(0, end - self.until_s)] = True
        if len(is_slow):
            held, was_read = signals.of_channels(self.until_s, end_s)
            self._count(held, was_read, is_slow)
            if self.stands:
                self.stood += int(
                    np.count_nonzero(
                        taken_of(signals.infos, held[: len(signals.infos)], signals.machine).is_contended & is_slow
                    )
                )
            self.until_s = end_s

    def follow(self, channels: tuple[Channel, ...]) -> None:
        """Count the signals `channels` from now on: the signals counted so far, and those of new sensors."""
        if len(self.channels) >= len(channels):
            return
        known = {channel.name: tally for channel, tally in self.pairs}
        self.channels, self.tallies = channels, [known.get(channel.name) or _unread(channel) for channel in channels]

    def _count(self, held: Floats, was_read: Bools, is_slow: Bools) -> None:
        """Count the seconds in `is_slow` in which each signal was beyond its usual range.

        All signals are compared in one array: a call of numpy takes a microsecond, however few the seconds are.
        """
        pairs = tuple(self.pairs)
        values = np.array([channel.values(held) for channel, _ in pairs])
        falls = np.array([[channel.falls] for channel, _ in pairs])
        threshold = np.array([[tally.threshold] for _, tally in pairs])  # NaN: never beyond it
        with np.errstate(invalid="ignore"):
            beyond = np.where(falls, values <= threshold, values >= threshold)
        known = is_slow & ~np.isnan(values)
        milli = np.rint(np.clip(np.where(known, values, 0.0), -_HUGE, _HUGE) * 1000).astype(np.int64).sum(axis=1)
        sign = np.where(falls, -1.0, 1.0)
        farthest = np.where(known, values * sign, -np.inf).max(axis=1, keepdims=True) * sign
        counts = np.stack([known.sum(axis=1), milli, (beyond & known).sum(axis=1)], axis=1).tolist()
        figures = zip(beyond.tolist(), counts, farthest.ravel().tolist(), strict=True)
        read = was_read.tolist()
        for (channel, tally), (of_signal, (count, added, is_beyond), far) in zip(pairs, figures, strict=True):
            rows = [read[row] for row in channel.rows]
            self._note_first(tally, of_signal, rows[0] if len(rows) == 1 else list(map(any, zip(*rows, strict=True))))
            if count:
                tally.known += count
                tally.sum_milli += added
                tally.beyond += is_beyond
                tally.most = far if math.isnan(tally.most) else (min if channel.falls else max)(tally.most, far)
        self.seconds += int(np.count_nonzero(is_slow))
        slow = _bits(is_slow[np.newaxis])[0]
        for cause, explains in self._explained(_bits(beyond)).items():
            self.explained[cause] += (explains & slow).bit_count()

    def _note_first(self, tally: Tally, beyond: list[bool], was_read: list[bool]) -> None:
        upto = len(beyond)
        if tally.first_s == NEVER and True in beyond:
            upto = beyond.index(True)
            tally.first_s = self.until_s + upto
        if tally.before_s == NEVER and tally.first_s != NEVER:
            last = _last(was_read[:upto])
            tally.before_s = tally.last_read_s if last is None else self.until_s + last
        last = _last(was_read)
        if last is not None:
            tally.last_read_s = self.until_s + last

    def began_with_it(self, tally: Tally) -> bool:
        """Whether the signal left its usual range within 3 s of the start of the slowdown.

        A sensor is read at intervals, so it is not known exactly when the signal left the range. Its last reading
        inside the range must be at most 3 s after the start of the slowdown. The result is False if the signal was out
        of the range long before. `tally` has the figures of the signal.
        """
        return tally.first_s != NEVER and not tally.was_beyond and tally.before_s <= self.near_s

    def held_at_it(self, tally: Tally) -> bool:
        """Whether the signal was beyond its usual range when the slowdown began, no matter since when.

        `tally` has the figures of the signal.
        """
        return tally.was_beyond or self.began_with_it(tally)

    @property
    def possible(self) -> tuple[Cause, ...]:
        """Return the causes that are possible in this session.

        The causes `mix` (of models) and `inputs` (larger ones) are possible only under `edgetop watch`.
        """
        own = {
            channel.cause
            for channel, tally in self.pairs
            if channel.cause in OF_PROGRAM and (tally.median > 0 or tally.sum_milli)
        }
        return tuple(cause for cause in CAUSES if cause not in OF_PROGRAM or cause in own)

    @property
    def growth(self) -> float:
        """Return by how much the inputs are larger than before the slowdown; 0.0 if their size is unknown.

        The result is the natural logarithm of the ratio of the sizes: 0.1 means larger by 10.5 %.
        """
        sizes = [tally for channel, tally in self.pairs if channel.cause == "inputs" and tally.known]
        return max((math.log(max(of.mean, 1.0) / of.median) for of in sizes if of.median > 0), default=0.0)

    @property
    def pairs(self) -> "Iterator[tuple[Channel, Tally]]":
        return zip(self.channels, self.tallies, strict=True)

    def begins_s(self, cause: Cause, rose_s: int) -> int:
        """Return the session second in which the slowdown begins, given its cause.

        Usually, the result is `rose_s`, the second in which the latency rose. If all signals of the cause were still in
        their usual range then, it is the second after the last reading within the range, of the signal that left its
        range first.
        """
        if self.floor or self.start_s != rose_s:  # a stage on top of another begins where that one ends
            return rose_s
        # Together with a limit, a clock that fell is proof too.
        clear_s = [
            tally.before_s
            for channel, tally in self.pairs
            if tally.beyond and self.began_with_it(tally) and channel.role != "load"
            and (channel.role == "clock" if cause in LIMITS and channel.role != "proof" else channel.cause == cause)
        ]  # fmt: skip
        return max(rose_s, min(clear_s, default=NEVER) + 1)

    def _explained(self, beyond: Sequence[int]) -> dict[Cause, int]:
        """Return which seconds each cause explains: a dict by cause, with a bit for each second.

        `beyond` has an integer for each signal. A bit is set if the signal is beyond its usual range in that second.
        """
        explained: dict[Cause, int] = dict.fromkeys(CAUSES, 0)
        limits: dict[Cause, int] = dict.fromkeys(CAUSES, 0)  # in force, no matter since when
        clock = cpu_caps = other_caps = 0
        of_clocks: dict[Cause, int] = {}
        for channel, tally, is_beyond in zip(self.channels, self.tallies, beyond, strict=True):
            fresh = is_beyond if self.began_with_it(tally) else 0
            held = is_beyond if self.held_at_it(tally) else 0
            if channel.role == "proof":
                explained[channel.cause] |= fresh
                limits[channel.cause] |= held
            elif channel.role == "trip":
                limits[channel.cause] |= held
            elif channel.role != "load":
                clock |= fresh
                of_clocks[channel.cause] = of_clocks.get(channel.cause, 0) | fresh
                if channel.role == "cap" and channel.name.startswith("freqcap/cpu"):
                    cpu_caps |= fresh
                elif channel.role == "cap":
                    other_caps |= fresh
        for cause in LIMITS:
            explained[cause] |= clock & limits[cause]
        # A power mode limits several units at once, a user or a governor one.
        explained["power-cap"] |= cpu_caps & other_caps
        return explained | of_clocks


def _bits(rows: Bools) -> list[int]:
    """Return each row of `rows` as an integer with a bit for each second, so that rows can be combined quickly."""
    return [int.from_bytes(row.tobytes(), "big") for row in np.packbits(rows, axis=1)]


def _last(of: list[bool]) -> int | None:
    """Return the index of the last True, or None if there is none."""
    return next((place for place in range(len(of) - 1, -1, -1) if of[place]), None)


def _begin(channel: Channel, held: Floats, was_read: Bools, begin_s: int, unusual: Bools | None = None) -> Tally:
    """Return the figures of the signal `channel`: its usual range, and counts of 0.

    `held` has the values of the sensors in each second from `begin_s` on. `was_read` says whether each sensor was read
    in that second. `unusual` says which seconds do not belong to the usual range; None means that all belong to it.
    """
    values = channel.values(held)
    read = np.flatnonzero(was_read[list(channel.rows)].any(axis=0))
    median, threshold = normal_range(channel, values if unusual is None else values[~unusual])
    last = values[-JUST_BEFORE_S:]
    with np.errstate(invalid="ignore"):
        beyond = last <= threshold if channel.falls else last >= threshold
    return Tally(
        median=median,
        threshold=threshold,
        was_beyond=bool(np.count_nonzero(beyond) * 2 > len(last)),
        last_read_s=begin_s + int(read[-1]) if len(read) else NEVER,
    )


def _unread(channel: Channel) -> Tally:
    """Return the figures of a signal whose sensor was not read before the slowdown."""
    median, threshold = normal_range(channel, np.empty(0))
    return Tally(median=median, threshold=threshold, was_beyond=False, last_read_s=NEVER)


def normal_range(channel: Channel, before: Floats) -> tuple[float, float]:
    """Return `(median, threshold)` of a signal, from its earlier values in `before`. NaN means unknown.

    The signal is out of its usual range beyond the threshold: below it for a signal whose fall is evidence, above it
    for any other signal. Without known values, the threshold is NaN for a signal whose fall is evidence, unless the
    signal has a fixed threshold.
    """
    known = np.sort(before[~np.isnan(before)])
    median = _quantile(known, 0.5)
    if channel.fixed is not None:
        return median, channel.fixed
    if channel.falls:
        low = _quantile(known, LOW)
        return median, min(low * (1 - channel.share), low - channel.least)
    high = _quantile(known, HIGH) if len(known) else 0.0
    return median, max(high * (1 + channel.share), high + channel.least)


def _quantile(in_order: Floats, share: float) -> float:
    """Return the quantile of ascending values by nearest rank, or NaN without values. `share` is 0 to 1."""
    return float(in_order[round(share * (len(in_order) - 1))]) if len(in_order) else float("nan")
