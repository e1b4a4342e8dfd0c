"""When the board was slowed, by what it says itself, whatever the latency did: the same live and from a recording."""

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetop.analysis.progress import measured_until
from edgetop.analysis.slowdowns.causes import Cause
from edgetop.analysis.slowdowns.judgement import Slowdown
from edgetop.analysis.slowdowns.plain import built, plain
from edgetop.analysis.throttle_signals import Board, board_of
from edgetop.analysis.throttle_spans import FLICKER_NS, HOLD_NS, KEPT, ROW, Rows, Span, Spans
from edgetop.session.batch import Batch
from edgetop.session.events import JsonValue
from edgetop.session.manifest import Manifest
from edgetop.session.records import NO_READINGS, Readings, Stretches, in_pieces
from edgetop.session.seconds import NS

LATE_NS = 4 * NS  # a reading may come so much later than others of its time
SETTLED_AT_ONCE_NS = 8 * NS  # at least: each time costs as much
GRAVEST_FIRST: tuple[Cause, ...] = ("under-voltage", "thermal", "power-cap", "unknown")


@dataclass(frozen=True, slots=True)
class ThrottleSpan:
    """A time in which something slowed the board, by signals of one cause."""

    start_ns: int
    end_ns: int | None  # None: in force now; of a session that is over, no later than its measurement
    cause: Cause
    sensor: str  # the id of the signal that began it
    min_clock_mhz: float | None
    max_temp_c: float | None
    latency_ratio: float | None  # of its seconds' median p50 to that of the first 30 in no span; None: unknown
    begin_clock_mhz: float | None = None  # the lowest clock of its first seconds
    begin_temp_c: float | None = None  # the highest temperature of them
    was_cut: bool = False  # by the end of the measurement


@dataclass(frozen=True, slots=True)
class ThrottlesView:
    spans: tuple[ThrottleSpan, ...]  # the latest KEPT, oldest first
    total: int
    measured_total: int  # of them in the measured phase
    throttled_ns: int  # of the measured phase, in all spans together
    measured_ns: int  # how long that phase is, so far
    tells: bool  # a flag has been read: that there is no span means that nothing slowed the board
    # As of now.
    clock: str = ""  # "cpu", or the label of the clock that is told; "": none
    clock_mhz: float | None = None
    best_mhz: float | None = None  # seen in no span of the measured phase, else what is allowed
    temp_c: float | None = None  # of the zone nearest to its trip, else of the hottest
    zone: str = ""  # its id
    trip_c: float | None = None  # where it throttles

    @property
    def now(self) -> ThrottleSpan | None:
        """The gravest of those in force."""
        in_force = [span for span in self.spans if span.end_ns is None]
        return min(in_force, key=lambda span: GRAVEST_FIRST.index(span.cause), default=None)

    @property
    def share(self) -> float | None:
        """Of the measured phase; None before it."""
        return self.throttled_ns / self.measured_ns if self.measured_ns > 0 else None


NO_THROTTLES = ThrottlesView((), 0, 0, 0, 0, tells=False)


class Throttles:
    """Folds batches. What is younger than LATE_NS is judged anew at each view: readings of it may yet come."""

    def __init__(self) -> None:
        self._board: Board | None = None
        self._spans = Spans()
        self._signals = NO_READINGS  # not settled yet
        self._readings = NO_READINGS  # of clocks and zones, not measured yet
        self._rows: Rows = np.empty(0, ROW)
        self._now_ns = 0
        self._read_ns = 0  # the newest reading: a past that comes in pieces says of each how late it is now
        self._ended_ns: int | None = None  # the measurement
        self._tells = False
        self._view: ThrottlesView | None = None

    def fold(self, batch: Batch) -> None:
        self._view = None
        self._now_ns = max(self._now_ns, batch.until_ns)
        if batch.manifest is not None:
            self._know(batch.manifest)
        for event in batch.events:
            if event.kind == "phase" and event.data.get("phase") == "measure":
                self._spans.began_ns = event.t_ns
            elif self._ended_ns is None:
                self._ended_ns = measured_until(event)
        if self._board is None or not self._board.is_of_spans.any():
            return
        if batch.judged is not None:
            self._take_over(batch.judged)
        self._take_seconds(batch.seconds.rows)
        self._take_stretches(batch.stretches, self._board)
        for piece in in_pieces(batch.readings):
            self._take(piece, self._board)

    def _know(self, manifest: Manifest) -> None:
        self._board = board_of(manifest)
        self._spans.know(self._board)

    def _take_seconds(self, seconds: Rows) -> None:
        counted = seconds[seconds["count"] > 0]
        if len(counted):
            rows = np.empty(len(counted), ROW)
            rows["t_ns"], rows["p50_ns"] = counted["t_ns"], counted["p50_ns"]
            self._rows = np.concatenate([self._rows, rows])

    def _take_stretches(self, stretches: Stretches, board: Board) -> None:
        stretches = stretches[stretches["sensor"] < len(board.infos)]
        if len(stretches):
            self._tells |= bool(board.is_flag[stretches["sensor"]].any())
            self._spans.cover(stretches, board)

    def _take(self, readings: Readings, board: Board) -> None:
        """What matters of them, behind what is there; what is old enough is settled."""
        readings = readings[readings["sensor"] < len(board.infos)]
        if not len(readings):
            return
        self._read_ns = max(self._read_ns, int(readings["t_ns"].max()))
        self._now_ns = max(self._now_ns, self._read_ns)
        sensor = readings["sensor"]
        self._tells |= bool(board.is_flag[sensor].any())
        if len(signals := readings[board.is_of_spans[sensor]]):
            self._signals = np.concatenate([self._signals, signals])
        if len(figures := readings[board.is_of_figures[sensor]]):
            self._readings = np.concatenate([self._readings, figures])
        settled_ns = self._read_ns - LATE_NS
        if settled_ns >= self._spans.settled_ns + SETTLED_AT_ONCE_NS:
            self._settle(self._spans, settled_ns, settled_ns - HOLD_NS, board)
            self._signals = self._signals[self._signals["t_ns"] > settled_ns]
            self._readings = self._readings[self._readings["t_ns"] > self._spans.figured_ns]
            self._rows = self._rows[self._rows["t_ns"] > self._spans.row_ns]

    def _settle(self, spans: Spans, until_ns: int, measured_ns: int, board: Board) -> None:
        """Take in what makes a span up to then, and what was in it up to then, when it is known."""
        spans.settle(self._signals[self._signals["t_ns"] <= until_ns], until_ns, board)
        readings, t_ns = self._readings, self._readings["t_ns"]
        if (t_ns[1:] < t_ns[:-1]).any():
            readings = readings[np.argsort(t_ns, kind="stable")]
        spans.measure(readings, self._rows, measured_ns, board)

    def view(self) -> ThrottlesView:
        """The same object until something comes."""
        if self._view is None:
            self._view = self._viewed()
        return self._view

    def _viewed(self) -> ThrottlesView:
        board = self._board
        if board is None:
            return NO_THROTTLES
        spans = self._spans.copy()
        self._settle(spans, self._now_ns, self._now_ns, board)
        base_ns = spans.free.median_ns
        views = tuple(self._span(span, base_ns) for span in spans.spans)
        until_ns = self._now_ns if self._ended_ns is None else self._ended_ns
        began_ns = until_ns if spans.began_ns is None else spans.began_ns
        touching = [span for span in views if spans.began_ns is not None and _touches(span, began_ns, until_ns)]
        zone = spans.zone_now(board)
        clock_mhz = _known(spans.clock_now_mhz(board))
        return ThrottlesView(
            spans=views[-KEPT:],
            total=spans.dropped + len(views),
            measured_total=spans.dropped_measured + len(touching),
            throttled_ns=spans.time_ns(began_ns, until_ns),
            measured_ns=max(0, until_ns - began_ns),
            tells=self._tells,
            clock=board.clock,
            clock_mhz=clock_mhz,
            best_mhz=_best_mhz(spans, board, clock_mhz),
            temp_c=None if zone is None else spans.read[zone],
            zone="" if zone is None else board.infos[zone].id,
            trip_c=None if zone is None else board.trips_c.get(zone),
        )

    def _span(self, span: Span, base_ns: float) -> ThrottleSpan:
        end_ns = span.end_ns
        if self._ended_ns is None:
            if end_ns is not None and self._now_ns - end_ns < FLICKER_NS:
                end_ns = None  # it may come again
        elif end_ns is None:
            end_ns = max(span.start_ns, self._ended_ns)
        ratio = span.median_ns / base_ns
        return ThrottleSpan(
            start_ns=span.start_ns,
            end_ns=end_ns,
            cause=span.cause,
            sensor=span.sensor,
            min_clock_mhz=_known(span.min_clock_mhz),
            max_temp_c=_known(span.max_temp_c),
            latency_ratio=None if math.isnan(ratio) else round(ratio, 4),
            begin_clock_mhz=_known(span.begin_clock_mhz),
            begin_temp_c=_known(span.begin_temp_c),
            was_cut=self._ended_ns is not None and span.end_ns is None,
        )

    def export_state(self) -> dict[str, JsonValue]:
        """What is settled, for who goes on from here."""
        return {"throttles": plain(_ExportedState(VERSION, self._tells, self._spans))}

    def _take_over(self, document: Mapping[str, Any]) -> None:
        """Go on from what was found where all of the past was known."""
        with contextlib.suppress(ValueError):  # of another version: then what came must do
            export_state = built(_ExportedState, document.get("throttles"))
            if (
                export_state.version == VERSION
                and self._board is not None
                and export_state.spans.is_credible(self._board)
            ):
                self._tells, self._spans = export_state.tells, export_state.spans
                self._spans.know(self._board)


VERSION = 1


@dataclass(frozen=True, slots=True)
class _ExportedState:
    version: int
    tells: bool
    spans: Spans


def overlaps(span: ThrottleSpan, slowdown: Slowdown) -> bool:
    """Whether they have a time in common."""
    is_before = span.end_ns is not None and span.end_ns <= slowdown.start_ns
    return not is_before and (slowdown.end_ns is None or span.start_ns < slowdown.end_ns)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _touches(span: ThrottleSpan, began_ns: int, until_ns: int) -> bool:
    """A span of a single reading has a place in time as well."""
    return span.start_ns <= until_ns and (span.end_ns is None or span.end_ns >= began_ns)


def _best_mhz(spans: Spans, board: Board, clock_mhz: float | None) -> float | None:
    """What the clock could be."""
    highest = max((board.infos[place].max or math.nan for place in board.clocks[:1]), default=math.nan)
    allowed = np.fmin(highest, spans.cap_mhz)
    best = spans.best_mhz if not math.isnan(spans.best_mhz) else allowed
    return _known(float(np.fmax(best, math.nan if clock_mhz is None else clock_mhz)))
