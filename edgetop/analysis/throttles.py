"""The times in which the board reported that it was slowed, whatever the latency did."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from edgetop.analysis.progress import measured_until
from edgetop.analysis.slowdowns.serialization import fork, from_json, to_json
from edgetop.analysis.slowdowns.signals import Cause
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.throttle_spans import FLICKER_NS, HOLD_NS, MAX_SPANS, ROW, Board, Rows, Span, Spans, board_of
from edgetop.analysis.tracks import Tracks, TracksReader, TrackView
from edgetop.session.batch import Batch
from edgetop.session.events import JsonValue
from edgetop.session.records import NO_READINGS
from edgetop.session.seconds import NS

LATE_NS = 4 * NS  # a reading may come so much later than others of its time
SETTLED_AT_ONCE_NS = 8 * NS  # at least: each settling costs the same
VERSION = 2  # of the exported state
GRAVEST_FIRST: tuple[Cause, ...] = ("under-voltage", "thermal", "power-cap", "unknown")


@dataclass(frozen=True, slots=True)
class ThrottleSpan:
    """A time in which something slowed the board, by signals of one cause."""

    start_ns: int
    end_ns: int | None  # None: in force now; in a session that is over, no later than its measurement
    cause: Cause
    sensor: str  # the id of the signal that began it
    min_clock_mhz: float | None
    max_temp_c: float | None
    latency_ratio: float | None  # of its seconds' p50 to that of the first 30 in no span; None: unknown
    begin_clock_mhz: float | None = None  # the lowest clock of its first seconds
    begin_temp_c: float | None = None  # the highest temperature of them
    was_cut: bool = False  # by the end of the measurement

    def overlaps(self, slowdown: Slowdown) -> bool:
        """Whether they have a time in common."""
        is_before = self.end_ns is not None and self.end_ns <= slowdown.start_ns
        return not is_before and (slowdown.end_ns is None or self.start_ns < slowdown.end_ns)


@dataclass(frozen=True, slots=True)
class ThrottlesView:
    spans: tuple[ThrottleSpan, ...]  # the latest MAX_SPANS, oldest first
    total: int
    measured_total: int  # of them in the measured phase
    throttled_ns: int  # of the measured phase, in all spans together
    measured_ns: int  # how long that phase is, so far
    has_flag: bool  # a flag has been read: without a span, nothing slowed the board
    # As of now.
    clock: str = ""  # "cpu", or the label of the clock that is shown; "": none
    clock_mhz: float | None = None
    best_mhz: float | None = None  # the highest in no span of the measured phase, else the allowed one
    temp_c: float | None = None  # of the zone nearest to its trip, else of the hottest
    zone: str = ""  # its id
    trip_c: float | None = None  # where it throttles

    @property
    def now(self) -> ThrottleSpan | None:
        """Return the gravest span in force; None: there is none."""
        in_force = [span for span in self.spans if span.end_ns is None]
        return min(in_force, key=lambda span: GRAVEST_FIRST.index(span.cause), default=None)

    @property
    def share(self) -> float | None:
        """Return the share of the measured phase that is in spans; None before it."""
        return self.throttled_ns / self.measured_ns if self.measured_ns > 0 else None


NO_THROTTLES = ThrottlesView((), 0, 0, 0, 0, has_flag=False)


@dataclass(frozen=True, slots=True)
class _State:
    version: int
    spans: Spans


class Throttles(TracksReader):
    """Folds batches. The time younger than LATE_NS is judged anew at each view: its readings may still come."""

    def __init__(self, tracks: Tracks | None = None) -> None:
        super().__init__(tracks)
        self._board: Board | None = None
        self._spans = Spans()
        self._signals = NO_READINGS  # not settled yet
        self._rows: Rows = np.empty(0, ROW)  # of seconds, not measured yet
        self._now_ns = 0
        self._ended_ns: int | None = None  # the measurement
        self._view: ThrottlesView | None = None

    def fold_part(self, batch: Batch) -> None:
        self._view = None
        self._now_ns = max(self._now_ns, batch.until_ns, int(batch.readings["t_ns"].max(initial=0)))
        if batch.manifest is not None:
            self._board = board_of(batch.manifest)
            self._spans.register(self._board)
        for event in batch.events:
            if event.kind == "phase" and event.data.get("phase") == "measure":
                self._spans.began_ns = event.t_ns
            elif self._ended_ns is None:
                self._ended_ns = measured_until(event)
        board = self._board
        if board is None or not board.is_of_spans.any():
            return
        if batch.judged is not None:
            self._import_state(batch.judged, board)
        counted = batch.seconds.rows[batch.seconds.rows["count"] > 0]
        if len(counted):
            self._rows = np.concatenate([self._rows, counted[list(ROW.names or ())].astype(ROW)])
        stretches = batch.stretches[batch.stretches["sensor"] < len(board.infos)]
        if len(stretches):
            self._spans.cover(stretches, board)
        readings = batch.readings[batch.readings["sensor"] < len(board.infos)]
        self._signals = np.concatenate([self._signals, readings[board.is_of_spans[readings["sensor"]]]])
        settled_ns = self._tracks.newest_s * NS - LATE_NS
        if settled_ns >= self._spans.settled_ns + SETTLED_AT_ONCE_NS:
            self._settle(self._spans, settled_ns, settled_ns - HOLD_NS, board)
            self._signals = self._signals[self._signals["t_ns"] > settled_ns]
            self._rows = self._rows[self._rows["t_ns"] > self._spans.row_ns]

    def _settle(self, spans: Spans, until_ns: int, measured_ns: int, board: Board) -> None:
        """Make spans of the signals up to `until_ns`, and measure what was in them up to `measured_ns`."""
        spans.settle(self._signals[self._signals["t_ns"] <= until_ns], until_ns, board)
        spans.measure(self._tracks, self._rows, measured_ns, board)

    def view(self) -> ThrottlesView:
        """Return the spans; it is the same object until the next batch."""
        if self._view is None:
            self._view = NO_THROTTLES if self._board is None else self._make_view(self._board)
        return self._view

    def _make_view(self, board: Board) -> ThrottlesView:
        spans = fork(self._spans)
        self._settle(spans, self._now_ns, self._now_ns + NS, board)
        views = tuple(self._span(span, spans.free.level) for span in spans.spans)
        until_ns = self._now_ns if self._ended_ns is None else self._ended_ns
        began_ns = until_ns if spans.began_ns is None else spans.began_ns
        measured = [  # a span of a single reading has a place in time as well
            span
            for span in views
            if spans.began_ns is not None and span.start_ns <= until_ns
            and (span.end_ns is None or span.end_ns >= began_ns)
        ]  # fmt: skip
        tracks = self._tracks.views()
        # The nearest to its trip, or the hottest without one.
        heat = {place: (tracks[place].value or 0.0) - board.trips_c.get(place, 0.0) for place in board.zones}
        zone = max(self._read_now(board.zones), key=lambda place: heat[place], default=None)
        clock_mhz = max((tracks[place].value or 0.0 for place in self._read_now(board.clocks)), default=None)
        return ThrottlesView(
            spans=views[-MAX_SPANS:],
            total=spans.dropped + len(views),
            measured_total=spans.dropped_measured + len(measured),
            throttled_ns=spans.time_ns(began_ns, until_ns),
            measured_ns=max(0, until_ns - began_ns),
            has_flag=any(tracks[place].count for place in np.flatnonzero(board.is_flag)),
            clock=board.clock,
            clock_mhz=clock_mhz,
            best_mhz=_best_mhz(spans, board, tracks, clock_mhz),
            temp_c=None if zone is None else tracks[zone].value,
            zone="" if zone is None else board.infos[zone].id,
            trip_c=None if zone is None else board.trips_c.get(zone),
        )

    def _read_now(self, places: Sequence[int]) -> list[int]:
        """Return the places of the sensors that were read in the last 12 s."""
        oldest_ns, tracks = self._now_ns - HOLD_NS, self._tracks.views()
        return [place for place in places if (read_ns := tracks[place].read_ns) is not None and read_ns >= oldest_ns]

    def _span(self, span: Span, free_level: float) -> ThrottleSpan:
        end_ns = span.end_ns
        if self._ended_ns is None:
            if end_ns is not None and self._now_ns - end_ns < FLICKER_NS:
                end_ns = None  # it may come again
        elif end_ns is None:
            end_ns = max(span.start_ns, self._ended_ns)
        ratio = math.exp(span.latency.level - free_level)
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

    def _import_state(self, document: Mapping[str, JsonValue], board: Board) -> None:
        """Continue from an exported state. One of another version is ignored: spans begin here."""
        with contextlib.suppress(ValueError):
            state = from_json(_State, document.get("throttles"))
            if state.version == VERSION and state.spans.is_credible(board):
                self._spans = state.spans
                self._spans.register(board)

    def export_state(self) -> dict[str, JsonValue]:
        """Return the settled spans as JSON, for a viewer that continues from here."""
        return {"throttles": to_json(_State(VERSION, self._spans))}


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _best_mhz(spans: Spans, board: Board, tracks: Sequence[TrackView], clock_mhz: float | None) -> float | None:
    """Return the highest clock seen outside spans, else the allowed one, but at least the present one."""
    limits = [board.infos[place].max for place in board.clocks[:1]]
    limits.append(max((mhz for place in board.clock_caps if (mhz := tracks[place].max) is not None), default=None))
    allowed = min((mhz for mhz in limits if mhz), default=None)
    best = allowed if math.isnan(spans.best_mhz) else spans.best_mhz
    return max((mhz for mhz in (best, clock_mhz) if mhz is not None), default=None)
