"""Finds the times in which the board was slowed (spans), from the readings of its sensors.

A span has one cause. It begins with the first reading of a signal in force, and ends with the first reading of a signal
that is not in force. If a signal comes and goes faster than 2 s, it makes one span. If a signal is not read for 12 s
because its sensor was lost, the span ends with its last reading; this is known 12 s later. A flag that does not say why
belongs to the cause of another signal at that time. If there is no other signal, the flag belongs to heat if a zone is
at its trip point.

A flag since boot is about the past, and a fan that turns slows nothing: neither is a signal. A zone at the trip at
which it throttles, and a cap of a clock, are signals only together: heat lowered the cap.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.levels import NEPER, levels
from edgetop.analysis.slowdowns.signals import AT_TRIP_C, CAUSES, SET, Cause, cause_of_count, cause_of_flag, is_flag
from edgetop.analysis.tracks import HOLD_S, SECONDS, Bools, Floats, Ints, Tracks
from edgetop.frozen import frozen
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.records import Aggregates, Readings
from edgetop.session.seconds import NS
from edgetop.session.trips import OVER_CURRENT_PERCENT, trips_c, zones_of_interest

MAX_SPANS = 500  # the latest
# Longest gap within a throttling span. Choice: a limit that comes and goes faster is in force all the time. Larger:
# two throttles are one, and ends are shown later; smaller: one throttle is many.
FLICKER_S = 2
FLICKER_NS = FLICKER_S * NS
HOLD_NS = HOLD_S * NS
# Longest time between heat at the trip and its effect. Choice: zones are polled each second. Larger: a cap by a user
# is put down to heat; smaller: heat that is read late is missed.
NEAR_NS = 3 * NS
# Number of seconds at the beginning of a span whose lowest clock its first event reports. Choice: clocks are read
# each second. Larger: the event comes later; smaller: it reports the clock before the fall.
BEGIN_S = 3
# Number of seconds outside of spans with which a span's latency is compared. Choice: as long as the burst. Larger:
# the ratio of an early span includes heat; smaller: noise moves the ratio.
FREE = 30
# Share of a clock or of its cap that has not fallen. Choice: drivers round by less. Larger: rounding is a throttle;
# smaller: a cap of one small step is missed.
SAME_CLOCK = 0.99
MOST_LEVEL = 100 * NEPER
NEVER = -(2**61)

Rows = npt.NDArray[np.void]
ROW = np.dtype([("t_ns", "<i8"), ("p50_ns", "<i8")])


COUNTED = 1e-9  # of a rate: something was counted
_LEAST_COUNTS = {
    "rate/thermal-events": COUNTED, "rate/core-thermal-events": COUNTED, "pressure/over-current": OVER_CURRENT_PERCENT
}  # fmt: skip


def least_in_force(info: SensorInfo) -> float | None:
    """Return the lowest value of the sensor that means that the board is slowed, or None if no value means that."""
    if is_flag(info) or (info.kind == "cooling" and info.throttles):
        return SET
    return _LEAST_COUNTS.get(info.id)


def cause_of(info: SensorInfo) -> Cause | None:
    """Return the cause that the sensor reports, such as `thermal`, or None if it does not say why it is set."""
    return "thermal" if info.kind == "cooling" else cause_of_flag(info) or cause_of_count(info.id)


@frozen
class Board:
    """The sensors from which throttling is found, as indexes in the manifest's list of sensors.

    Arrays have an element for each sensor of the manifest.
    """

    infos: tuple[SensorInfo, ...]
    least: Floats  # for signals and zones: from which value on they are in force; NaN: neither
    is_signal: Bools
    is_flag: Bools
    is_cap: Bools
    trips_c: dict[int, float]  # of the zones that have one
    zones: tuple[int, ...]  # whose heat is reported: those with a trip, if there are any
    clocks: tuple[int, ...]  # of the CPUs that run the model, most likely
    clock: str  # their name in words
    clock_caps: tuple[int, ...]  # the caps of those
    is_of_spans: Bools  # the sensors that spans are made of


def board_of(manifest: Manifest) -> Board:
    infos = manifest.sensors
    trips = trips_c(manifest)
    least = np.array([np.nan if (value := least_in_force(info)) is None else value for info in infos], np.float64)
    is_signal = ~np.isnan(least)
    for place, trip_c in trips.items():
        least[place] = trip_c + AT_TRIP_C
    clocks, clock = _clocks(infos)
    labels = {infos[place].label for place in clocks} | ({"cpu0"} if clock == "cpu" else set())
    is_cap = np.array([info.kind == "freqcap" for info in infos], np.bool_)
    return Board(
        infos=infos,
        least=least,
        is_signal=is_signal,
        is_flag=np.array([is_flag(info) for info in infos], np.bool_),
        is_cap=is_cap,
        trips_c=trips,
        zones=tuple(trips) or tuple(map(infos.index, zones_of_interest(infos))),
        clocks=clocks,
        clock=clock,
        clock_caps=tuple(place for place in np.flatnonzero(is_cap).tolist() if infos[place].label in labels),
        is_of_spans=~np.isnan(least) | is_cap,
    )


def _clocks(infos: Sequence[SensorInfo]) -> tuple[tuple[int, ...], str]:
    """Return the indexes of the clocks to show, and their name: "cpu", or the label of another clock.

    The firmware's clock of a Raspberry Pi is shown. A board without this clock shows the clocks of the fastest CPUs. A
    board without CPU clocks shows its fastest clock. The name is "" if there is no clock.
    """
    places = [place for place, info in enumerate(infos) if info.kind == "freq"]
    by_firmware = [place for place in places if infos[place].label == "arm"]
    if by_firmware:
        return tuple(by_firmware), "cpu"
    cpus = [place for place in places if infos[place].label.startswith("cpu")]
    places = cpus or places
    if not places:
        return (), ""
    highest = max(infos[place].max or 0.0 for place in places)
    fastest = [place for place in places if (infos[place].max or 0.0) == highest]
    return (tuple(fastest), "cpu") if cpus else ((fastest[0],), infos[fastest[0]].label)


@dataclass(slots=True)
class Latency:
    """The mean latency of some seconds: the mean of the natural logarithms of their median latencies."""

    level_sum: int = 0  # of their logarithms, in millionths
    count: int = 0

    def add(self, level: Ints) -> None:
        self.level_sum += int(level.sum())
        self.count += len(level)

    @property
    def level(self) -> float:
        """Return the mean natural logarithm of the latency in ns; NaN if there are no seconds."""
        return self.level_sum / self.count / NEPER if self.count else math.nan


@dataclass(slots=True)
class Span:
    start_ns: int
    cause: Cause
    sensor: str  # that began it
    in_force: list[int]  # places of signals
    until_ns: int  # the last end of a signal
    begin_clock_mhz: float = math.nan  # the lowest in its first BEGIN_S
    begin_temp_c: float = math.nan  # the highest in them
    min_clock_mhz: float = math.nan
    max_temp_c: float = math.nan
    latency: Latency = field(default_factory=Latency)

    @property
    def end_ns(self) -> int | None:
        """Return the end in ns of session time, or None if the board is still slowed."""
        return None if self.in_force else self.until_ns

    def covers(self, t_ns: Ints) -> Bools:
        is_in: Bools = t_ns >= self.start_ns
        return is_in if self.in_force else is_in & (t_ns < self.until_ns)

    def touches(self, second: Ints) -> Bools:
        """Return an array that says for each session second in `second` whether the board was slowed during it."""
        is_in: Bools = second >= self.start_ns // NS
        return is_in if self.in_force else is_in & (second <= max(self.start_ns, self.until_ns - 1) // NS)


class Mark(NamedTuple):
    """A change of a sensor's value, at a time in ns of the session."""

    known_ns: int  # when the change became known
    t_ns: int  # when it happened
    rank: int  # the order of several at one time: ends, heat, causes, flags that do not say why
    place: int
    value: float  # NaN: it is not read any more


@dataclass(slots=True)
class Spans:
    """The times in which the board was slowed, found from readings in the order of time.

    The times are the same however the readings were divided into batches.
    """

    spans: list[Span] = field(default_factory=list)  # The latest MAX_SPANS spans, in order of their beginnings.
    dropped: int = 0  # Number of earlier spans, which are no longer stored.
    dropped_measured: int = 0  # Number of dropped spans in the measured phase.
    dropped_ns: int = 0  # Time of the measured phase in dropped spans.
    dropped_until_ns: int = 0  # End of the last dropped span.
    settled_ns: int = NEVER  # Time up to which all signals are known.
    measured_s: int = 0  # Second up to which clocks and heat are known.
    row_ns: int = NEVER  # Start of the last second whose latency was counted.
    began_ns: int | None = None  # Start of the measured phase; None before it.
    free: Latency = field(default_factory=Latency)  # Latency of the first measured seconds outside of spans.
    best_mhz: float = math.nan  # Highest clock of the measured phase outside of spans.
    # By the place of a sensor. For signals: the last value, when it was read, and the value that was applied.
    last: list[float] = field(default_factory=list)
    last_ns: list[int] = field(default_factory=list)
    now: list[float] = field(default_factory=list)
    # For caps: the value before the last fall, and when it fell.
    above: list[float] = field(default_factory=list)
    fell_ns: list[int] = field(default_factory=list)

    def is_credible(self, board: Board) -> bool:
        """Whether this object, received from a remote board, has possible values.

        The types of its values must have been checked before.
        """
        by_place = [getattr(self, name) for name in _BY_PLACE]
        latencies = [self.free, *(span.latency for span in self.spans)]
        return (
            all(len(values) <= len(board.infos) for values in by_place)
            and all(0 <= one.count < 2**40 and abs(one.level_sum) <= one.count * MOST_LEVEL for one in latencies)
            and all(span.start_ns <= span.until_ns for span in self.spans)
            and all(a.start_ns <= b.start_ns for a, b in pairwise(self.spans))
        )

    def register(self, board: Board) -> None:
        for name, nothing in _BY_PLACE.items():
            values = getattr(self, name)
            values.extend([nothing] * (len(board.infos) - len(values)))

    def settle(self, readings: Readings, until_ns: int, board: Board) -> None:
        """Find the times in which the board was slowed, from `readings` up to the session time `until_ns`.

        The readings are from flags, thermal zones and clock caps. `board` says which sensors these are.
        """
        marks = sorted([*self._changes(readings, board), *self._silences(until_ns, board)])
        for mark in marks:
            self._apply(mark, board)
        self.settled_ns = until_ns

    def _changes(self, readings: Readings, board: Board) -> Iterator[Mark]:
        last_ns = np.array(self.last_ns, np.int64)
        readings = readings[readings["t_ns"] > last_ns[readings["sensor"]]]
        if not len(readings):
            return
        readings = readings[np.lexsort((readings["t_ns"], readings["sensor"]))]
        place, t_ns, value = readings["sensor"].astype(np.int64), readings["t_ns"].astype(np.int64), readings["value"]
        least = board.least[place]
        value = np.where(board.is_cap[place], value, value >= least).astype(np.float64)
        is_first = np.append(True, place[1:] != place[:-1])
        before = np.where(is_first, np.array(self.last)[place], np.roll(value, 1))
        before_ns = np.where(is_first, last_ns[place], np.roll(t_ns, 1))
        is_silent = (t_ns - before_ns > HOLD_NS) & ~np.isnan(before)
        for at in np.flatnonzero(is_silent | (value != before)).tolist():
            which = int(place[at])
            if is_silent[at] and before[at]:
                yield _mark(int(before_ns[at]) + HOLD_NS, int(before_ns[at]), which, math.nan, board)
            yield _mark(int(t_ns[at]), int(t_ns[at]), which, float(value[at]), board)
        for at in np.flatnonzero(np.append(is_first[1:], True)).tolist():
            self.last[int(place[at])], self.last_ns[int(place[at])] = float(value[at]), int(t_ns[at])

    def _silences(self, until_ns: int, board: Board) -> Iterator[Mark]:
        """Yield a change for each signal in force whose sensor has not been read for 12 s.

        The change says that the signal ended with its last reading.
        """
        for place, (value, t_ns) in enumerate(zip(self.last, self.last_ns, strict=True)):
            if value > 0 and until_ns - t_ns > HOLD_NS:
                self.last[place] = math.nan
                yield _mark(t_ns + HOLD_NS, t_ns, place, math.nan, board)

    def _apply(self, mark: Mark, board: Board) -> None:
        place, before = mark.place, self.now[mark.place]
        self.now[place] = mark.value
        if board.is_cap[place]:
            self._cap_moved(mark, before, board)
        elif not board.is_signal[place]:
            if mark.value > 0:
                self._follow_falls(mark.t_ns, board)
        elif mark.value > 0:
            self._open(mark.t_ns, place, cause_of(board.infos[place]), board)
        else:
            self._close(mark.t_ns, place)

    def _is_hot(self, board: Board) -> bool:
        return any(self.now[place] > 0 for place in board.trips_c if not board.is_signal[place])

    def _cap_moved(self, mark: Mark, before_mhz: float, board: Board) -> None:
        """Begin or end a span of throttling after a change of a clock's cap.

        A span begins if the cap falls while a thermal zone is at its trip point, and ends when the cap is back. `mark`
        is the change. `before_mhz` is the cap before the change. `board` has the sensors.
        """
        place = mark.place
        if any(place in span.in_force for span in self.spans):
            if not mark.value < SAME_CLOCK * self.above[place]:
                self._close(mark.t_ns, place)
        elif mark.value < SAME_CLOCK * before_mhz:
            self.above[place], self.fell_ns[place] = before_mhz, mark.t_ns
            if self._is_hot(board):
                self._open(mark.t_ns, place, "thermal", board)

    def _follow_falls(self, hot_ns: int, board: Board) -> None:
        """Attribute a fallen clock cap or a set flag to heat, if this began at most 3 s before `hot_ns`.

        `hot_ns` is when a thermal zone reached its trip point, in ns of session time.
        """
        for place in np.flatnonzero(board.is_cap).tolist():
            is_down = self.now[place] < SAME_CLOCK * self.above[place]
            if is_down and hot_ns - self.fell_ns[place] <= NEAR_NS and not self._holding(place):
                self._open(self.fell_ns[place], place, "thermal", board)
        unknown = self._going_on("unknown", hot_ns)
        if unknown and unknown.in_force and hot_ns - unknown.start_ns <= NEAR_NS:
            unknown.cause = "thermal"

    def _holding(self, place: int) -> Span | None:
        return next((span for span in reversed(self.spans) if place in span.in_force), None)

    def _open(self, t_ns: int, place: int, cause: Cause | None, board: Board) -> None:
        if self._holding(place):
            return
        if cause is None:
            active = [span for cause in (*CAUSES, "unknown") if (span := self._going_on(cause, t_ns))]
            span = min(active, key=lambda span: (not span.in_force, span.start_ns), default=None)
            cause = span.cause if span else "thermal" if self._is_hot(board) else "unknown"
        else:
            span = self._going_on(cause, t_ns) or self._going_on("unknown", t_ns)
        if span is None:
            span = Span(t_ns, cause, board.infos[place].id, [], t_ns)
            self.spans.insert(bisect_right(self.spans, t_ns, key=lambda span: span.start_ns), span)
            self._drop()
        span.cause = cause
        span.start_ns = min(span.start_ns, t_ns)
        span.in_force.append(place)

    def _going_on(self, cause: Cause, t_ns: int) -> Span | None:
        """Return the span of throttling with this cause that is in force at `t_ns`, or None if there is none.

        A span that ended less than 2 s before is still in force. `t_ns` is in ns of session time.
        """
        of_cause = (span for span in reversed(self.spans) if span.cause == cause)
        return next((span for span in of_cause if span.in_force or t_ns - span.until_ns < FLICKER_NS), None)

    def _close(self, t_ns: int, place: int) -> None:
        span = self._holding(place)
        if span:
            span.in_force.remove(place)
            span.until_ns = max(span.until_ns, t_ns)

    def _drop(self) -> None:
        """If there are too many spans, drop the oldest span that is over, and add its time to the totals.

        The time is not added if an earlier span still continues, because the dropped span lies within that span.
        """
        at = next((at for at, span in enumerate(self.spans) if not span.in_force), None)
        if len(self.spans) <= MAX_SPANS or at is None:
            return
        span = self.spans.pop(at)
        self.dropped += 1
        if self.began_ns is not None and span.until_ns > self.began_ns:
            self.dropped_measured += 1
            if at == 0:
                self.dropped_ns += max(0, span.until_ns - max(span.start_ns, self.began_ns, self.dropped_until_ns))
        if at == 0:
            self.dropped_until_ns = max(self.dropped_until_ns, span.until_ns)

    def cover(self, aggregates: Aggregates, board: Board) -> None:
        """Add a span of throttling for each of these aggregates in which the board was slowed.

        An aggregate sums up the readings of one sensor over a span of the distant past.
        """
        least = board.least[aggregates["sensor"]]
        is_up = board.is_signal[aggregates["sensor"]] & (aggregates["high"] >= least)
        for aggregate in aggregates[is_up][np.argsort(aggregates["t_ns"][is_up], kind="stable")].tolist():
            t_ns, until_ns, place = aggregate[:3]
            self._open(t_ns, place, cause_of(board.infos[place]), board)
            self._close(until_ns, place)

    def measure(self, tracks: Tracks, rows: Rows, until_ns: int, board: Board) -> None:
        """Add clocks, temperatures and latencies up to the session time `until_ns` to the slowed times.

        `tracks` has the sensor readings. `rows` are seconds of type ROW, in order of time. `board` says which sensors
        are clocks and thermal zones. Seconds in which the board was not slowed give its best clock and its usual
        latency.
        """
        self._measure_latency(rows[(rows["t_ns"] > self.row_ns) & (rows["t_ns"] + NS <= until_ns)])
        begin_s, end_s = max(self.measured_s, tracks.newest_s - SECONDS + 1), until_ns // NS
        if end_s <= begin_s:
            return
        self.measured_s = end_s
        end_s = max(begin_s, min(end_s, tracks.newest_s + HOLD_S + 1))  # later seconds are not known
        # Of several CPUs the fastest one at that time runs the model.
        clock = np.fmax.reduce(tracks.held(board.clocks, begin_s, end_s)[0], axis=0, initial=np.nan)
        second, spans = np.arange(begin_s, end_s), self._since(begin_s * NS)
        zones = board.zones if spans else ()
        heat = np.fmax.reduce(tracks.read(zones, begin_s, end_s), axis=0, initial=np.nan)
        is_free = np.full(len(second), self.began_ns is not None) & (second * NS >= (self.began_ns or 0))
        for span in spans:
            is_in = span.touches(second)
            is_early = is_in & (second < span.start_ns // NS + BEGIN_S)
            is_free &= ~is_in
            span.min_clock_mhz = float(np.fmin.reduce(clock[is_in], initial=span.min_clock_mhz))
            span.max_temp_c = float(np.fmax.reduce(heat[is_in], initial=span.max_temp_c))
            span.begin_clock_mhz = float(np.fmin.reduce(clock[is_early], initial=span.begin_clock_mhz))
            span.begin_temp_c = float(np.fmax.reduce(heat[is_early], initial=span.begin_temp_c))
        self.best_mhz = float(np.fmax.reduce(clock[is_free], initial=self.best_mhz))

    def _measure_latency(self, rows: Rows) -> None:
        """Add the latency of each second to the spans of throttling that contain the middle of the second."""
        if not len(rows):
            return
        level, is_free = levels(rows["p50_ns"]), np.ones(len(rows), np.bool_)
        for span in self._since(int(rows["t_ns"][0])):
            is_in = span.covers(rows["t_ns"] + NS // 2)
            is_free &= ~is_in
            span.latency.add(level[is_in])
        self.free.add(level[is_free][: max(0, FREE - self.free.count)])
        self.row_ns = int(rows["t_ns"][-1])

    def _since(self, t_ns: int) -> list[Span]:
        return [span for span in self.spans if span.in_force or span.until_ns >= t_ns]

    def time_ns(self, from_ns: int, until_ns: int) -> int:
        """Return for how many ns the board was slowed between the session times `from_ns` and `until_ns`.

        A time with several causes is added once.
        """
        total, reached = self.dropped_ns, max(from_ns, self.dropped_until_ns)
        for span in self.spans:
            end_ns = until_ns if span.end_ns is None else min(span.end_ns, until_ns)
            total += max(0, end_ns - max(span.start_ns, reached))
            reached = max(reached, end_ns)
        return total


def _mark(known_ns: int, t_ns: int, place: int, value: float, board: Board) -> Mark:
    if not value > 0:
        rank = 0
    elif board.is_cap[place]:
        rank = 2
    elif not board.is_signal[place]:
        rank = 1
    else:
        cause = cause_of(board.infos[place])  # of several signals the flag names the span
        rank = 3 + 2 * (CAUSES.index(cause) if cause else len(CAUSES)) + (not board.is_flag[place])
    return Mark(known_ns, t_ns, rank, place, value)


# The fields by the place of a sensor, and their values before it is read.
_BY_PLACE: dict[str, float | int] = {
    "last": math.nan, "last_ns": NEVER, "now": math.nan, "above": math.nan, "fell_ns": NEVER
}  # fmt: skip
