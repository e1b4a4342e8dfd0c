"""The times in which the board reported that it was slowed (throttling), with their events and JSON.

These times count even if the latency did not rise. A run records the beginning and the end of each time as events, once
no late reading can change them. Every analysis, including that of the live screen, shows the recorded times. The
analysis finds more times in the readings: the latest throttling of a run that continues or has crashed, and all of a
session that another tool recorded.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.slowdowns.recorded_throttles import RecordedThrottle, RecordedThrottles
from edgetop.analysis.slowdowns.serialization import FORM, fork
from edgetop.analysis.slowdowns.signals import GRAVEST_FIRST, Cause
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttle_spans import (
    FLICKER_NS,
    HOLD_NS,
    MAX_SPANS,
    ROW,
    Board,
    Rows,
    Span,
    Spans,
    board_of,
)
from edgetop.analysis.tracks import LATE_S, Tracks, TracksReader, TrackView
from edgetop.formatting import rounded
from edgetop.frozen import frozen
from edgetop.session.batch import Batch, merge
from edgetop.session.event_kinds import SessionOver, ThrottleBegan, ThrottleEnded
from edgetop.session.events import Event
from edgetop.session.phases import Phases
from edgetop.session.records import NO_INFERENCES, NO_READINGS, NO_REQUESTS, READING
from edgetop.session.seconds import NS
from edgetop.session.typed_json import Document, JsonValue

SETTLED_AT_ONCE_NS = 8 * NS  # at least: each settling costs the same
VERSION = 2  # of the exported state
SETTLES_NS = LATE_S * NS  # after a beginning: then its first seconds have been read, and heat may have explained it
OVER_NS = FLICKER_NS + LATE_S * NS  # after an end: then it does not continue
# Interval of the checks for events, each of which costs the same. No event is due before SETTLES_NS; the screen, which
# tells throttling at once, has an analysis of its own. Larger: an event is recorded later, so more are lost with a kill
# and found in the readings instead; smaller: more CPU.
CHECK_EVERY_NS = 1_900_000_000
MAX_RECORDED = 64


@frozen
class ThrottleSpan:
    """A time in which the board was slowed, with its cause and its figures."""

    start_ns: int
    end_ns: int | None  # None while it is in force. In a session that is over, at most the end of the measurement.
    cause: Cause
    sensor: str  # Id of the sensor whose signal began it.
    min_clock_mhz: float | None
    max_temp_c: float | None
    # Median p50 of its seconds, divided by that of the first 30 seconds outside of spans. None if unknown.
    latency_ratio: float | None
    begin_clock_mhz: float | None = None  # Lowest clock of its first seconds.
    begin_temp_c: float | None = None  # Highest temperature of its first seconds.
    best_mhz: float | None = None  # Highest clock that was known when it began.
    was_cut: bool = False  # Whether the end of the measurement cut it.
    begin: Event | None = None  # The recorded beginning; None if it was not recorded.
    end: Event | None = None  # The recorded end; None if it was not recorded.

    def overlaps(self, slowdown: Slowdown) -> bool:
        """Whether the throttling and the slowdown have a time in common."""
        is_before = self.end_ns is not None and self.end_ns <= slowdown.start_ns
        return not is_before and (slowdown.end_ns is None or self.start_ns < slowdown.end_ns)


@frozen
class ThrottleAt:
    """A span in which the board was throttled, and which clock had fallen: screens and reports name this clock."""

    span: ThrottleSpan
    clock: str  # "cpu", or the label of the clock; "" if there is none


@frozen
class ThrottlesView:
    spans: tuple[ThrottleSpan, ...]  # The latest MAX_SPANS spans, oldest first.
    total: int  # Number of all spans.
    measured_total: int  # Number of spans in the measured phase.
    throttled_ns: int  # Time of the measured phase that is in spans.
    measured_ns: int  # Length of the measured phase so far.
    has_flag: bool  # Whether a flag was read. If so, no span means that nothing slowed the board.
    # The present state.
    clock: str = ""  # "cpu", or the label of the clock that is shown; "" if there is none.
    clock_mhz: float | None = None
    best_mhz: float | None = None  # Highest clock of the measured phase outside of spans, else the highest allowed.
    temp_c: float | None = None  # Temperature of the zone nearest to its trip, or of the hottest if no trip is known.
    zone: str = ""  # Id of that zone.
    trip_c: float | None = None  # Temperature at which that zone throttles; None if unknown.

    @property
    def now(self) -> ThrottleSpan | None:
        """Return the present throttling, or None. Of several causes, return the throttling with the gravest cause."""
        in_force = [span for span in self.spans if span.end_ns is None]
        return min(in_force, key=lambda span: GRAVEST_FIRST.index(span.cause), default=None)

    @property
    def share(self) -> float | None:
        """Return the share (0..1) of the measured phase in which the board was throttled; None before that phase."""
        return self.throttled_ns / self.measured_ns if self.measured_ns > 0 else None


NO_THROTTLES = ThrottlesView((), 0, 0, 0, 0, has_flag=False)


@frozen
class _State:
    version: int
    spans: Spans


class Throttles(TracksReader):
    """Finds the times of a session in which the board was throttled.

    The results of the last seconds are computed anew for each view, because readings of these seconds may still come.
    """

    def __init__(self, tracks: Tracks | None = None, phases: Phases | None = None) -> None:
        super().__init__(tracks)
        self._phases = phases or Phases()
        self._recorded = RecordedThrottles()
        self._board: Board | None = None
        self._spans = Spans()
        self._signals = NO_READINGS  # not settled yet
        self._rows: Rows = np.empty(0, ROW)  # of seconds, not measured yet
        self._is_mixed = False  # whether the session has several streams
        self._now_ns = 0
        self._view: ThrottlesView | None = None

    def fold_part(self, batch: Batch) -> None:
        self._view = None
        self._now_ns = max(self._now_ns, batch.until_ns, int(batch.readings["t_ns"].max(initial=0)))
        if batch.manifest is not None:
            self._board = board_of(batch.manifest)
            self._spans.register(self._board)
        self._phases.fold(batch.events)
        self._recorded.fold(batch.events)
        if self._phases.measured_from_ns is not None:
            self._spans.began_ns = self._phases.measured_from_ns
        board = self._board
        if board is None or not board.is_of_spans.any():
            return
        if batch.judged is not None:
            self._import_state(batch.judged, board)
        self._is_mixed |= batch.seconds.streams is not None
        counted = batch.seconds.rows[batch.seconds.rows["count"] > 0]
        if self._is_mixed:  # the medians of several models together tell nothing: the effect on latency is unknown
            self._rows = self._rows[:0]
        elif len(counted):
            self._rows = np.concatenate([self._rows, counted[list(ROW.names or ())].astype(ROW)], dtype=ROW)
        aggregates = batch.aggregates[batch.aggregates["sensor"] < len(board.infos)]
        if len(aggregates):
            self._spans.cover(aggregates, board)
        readings = batch.readings[batch.readings["sensor"] < len(board.infos)]
        signals = readings[board.is_of_spans[readings["sensor"]]]
        self._signals = np.concatenate([self._signals, signals], dtype=READING)
        settled_ns = self._tracks.newest_s * NS - LATE_S * NS
        if settled_ns >= self._spans.settled_ns + SETTLED_AT_ONCE_NS:
            self._settle(self._spans, settled_ns, settled_ns - HOLD_NS, board)
            self._signals = self._signals[self._signals["t_ns"] > settled_ns]
            self._rows = self._rows[self._rows["t_ns"] > self._spans.row_ns]

    def _settle(self, spans: Spans, until_ns: int, measured_ns: int, board: Board) -> None:
        """Find throttling in the readings up to `until_ns`, and measure clocks, heat and latency up to `measured_ns`.

        Both are session times in ns. The results are added to `spans`. `board` says which sensors are used.
        """
        spans.settle(self._signals[self._signals["t_ns"] <= until_ns], until_ns, board)
        spans.measure(self._tracks, self._rows, measured_ns, board)

    def record(self, events: Sequence[Event]) -> None:
        """Take throttling events that the run is about to record, before the batch with these events is folded."""
        self._view = None
        self._recorded.fold(events)

    def view(self) -> ThrottlesView:
        """Return the throttling found so far. The result is the same object until the next batch."""
        if self._view is None:
            self._view = NO_THROTTLES if self._board is None else self._make_view(self._board)
        return self._view

    @property
    def is_quiet(self) -> bool:
        """Whether nothing has slowed the board so far: no signal was in force, and no zone is at its trip point.

        A view then has no throttling, and takes a tenth of the time.
        """
        board, spans = self._board, self._spans
        if board is None:
            return True
        in_force = self._signals["value"] >= board.least[self._signals["sensor"]]
        is_settled_in_force = any(now > 0 and not is_cap for now, is_cap in zip(spans.now, board.is_cap, strict=True))
        return not (spans.spans or in_force.any() or is_settled_in_force)

    def _make_view(self, board: Board) -> ThrottlesView:
        if self.is_quiet:  # only the best clock may have changed
            spans = replace(self._spans)
            spans.measure(self._tracks, self._rows[:0], self._now_ns + NS, board)
        else:
            spans = fork(self._spans)
            self._settle(spans, self._now_ns, self._now_ns + NS, board)
        tracks = self._tracks.views()
        clock_mhz = max((tracks[place].value or 0.0 for place in self._read_now(board.clocks)), default=None)
        best_mhz = _best_mhz(spans, board, tracks, clock_mhz)
        views = tuple(
            _as_recorded(self._span(span, spans.free.level, best_mhz), recorded)
            for span, recorded in self._recorded.adopted(spans)
        )
        until_ns = self._now_ns if self._phases.measured_until_ns is None else self._phases.measured_until_ns
        began_ns = until_ns if spans.began_ns is None else spans.began_ns
        measured = [  # a span of a single reading has a place in time as well
            span
            for span in views
            if spans.began_ns is not None and span.start_ns <= until_ns
            and (span.end_ns is None or span.end_ns >= began_ns)
        ]  # fmt: skip
        # The nearest to its trip, or the hottest without one.
        heat = {place: (tracks[place].value or 0.0) - board.trips_c.get(place, 0.0) for place in board.zones}
        zone = max(self._read_now(board.zones), key=lambda place: heat[place], default=None)
        return ThrottlesView(
            spans=views[-MAX_SPANS:],
            total=spans.dropped + len(views),
            measured_total=spans.dropped_measured + len(measured),
            throttled_ns=spans.time_ns(began_ns, until_ns),
            measured_ns=max(0, until_ns - began_ns),
            has_flag=any(tracks[place].count for place in np.flatnonzero(board.is_flag)),
            clock=board.clock,
            clock_mhz=clock_mhz,
            best_mhz=best_mhz,
            temp_c=None if zone is None else tracks[zone].value,
            zone="" if zone is None else board.infos[zone].id,
            trip_c=None if zone is None else board.trips_c.get(zone),
        )

    def _read_now(self, places: Sequence[int]) -> list[int]:
        """Return the sensors in `places` (indexes of sensors in the manifest) that were read in the last 12 s."""
        oldest_ns, tracks = self._now_ns - HOLD_NS, self._tracks.views()
        return [place for place in places if (read_ns := tracks[place].read_ns) is not None and read_ns >= oldest_ns]

    def _span(self, span: Span, free_level: float, best_mhz: float | None) -> ThrottleSpan:
        end_ns = span.end_ns
        if self._phases.measured_until_ns is None:
            if end_ns is not None and self._now_ns - end_ns < FLICKER_NS:
                end_ns = None  # It may continue.
        elif end_ns is None:
            end_ns = max(span.start_ns, self._phases.measured_until_ns)
        ratio = round(math.exp(span.latency.level - free_level), 4)  # NaN: unknown
        figures = (span.min_clock_mhz, span.max_temp_c, ratio, span.begin_clock_mhz, span.begin_temp_c)
        mhz, heat_c, slower, begin_mhz, begin_c = (None if math.isnan(value) else value for value in figures)
        was_cut = self._phases.measured_until_ns is not None and span.end_ns is None
        return ThrottleSpan(
            span.start_ns, end_ns, span.cause, span.sensor, mhz, heat_c, slower, begin_mhz, begin_c, best_mhz, was_cut
        )  # fmt: skip

    def _import_state(self, document: Mapping[str, object], board: Board) -> None:
        """Continue from `document`, the results of `export_state` on a remote board. Other versions are ignored."""
        with contextlib.suppress(ValueError):
            state = FORM.read(_State, document.get("throttles"), "throttling")
            if state.version == VERSION and state.spans.is_credible(board):
                self._spans = state.spans
                self._spans.register(board)

    def export_state(self) -> dict[str, JsonValue]:
        """Return the final results as JSON, from which a remote viewer can continue."""
        return {"throttles": FORM.plain(_State(VERSION, self._spans))}


def _as_recorded(span: ThrottleSpan, recorded: RecordedThrottle | None) -> ThrottleSpan:
    """Return the throttling `span`, with its times and figures replaced by the recorded ones.

    `recorded` is None if nothing was recorded.
    """
    if recorded is None:
        return span
    began, ended = recorded.began, recorded.ended
    span = replace(
        span, begin_clock_mhz=began.clock_mhz, begin_temp_c=began.temp_c, best_mhz=began.best_mhz, begin=recorded.begin
    )
    if recorded.end is None or ended is None:
        return span
    return replace(
        span, end_ns=recorded.end.t_ns, min_clock_mhz=ended.min_clock_mhz, max_temp_c=ended.max_temp_c,
        latency_ratio=ended.latency_ratio, was_cut=False, end=recorded.end,
    )  # fmt: skip


def _best_mhz(spans: Spans, board: Board, tracks: Sequence[TrackView], clock_mhz: float | None) -> float | None:
    """Return the highest clock in MHz that the board has while it is not throttled, or None if unknown.

    This is the highest clock so far, which `spans` has or, if it is unknown, the highest allowed clock, from `board`
    and `tracks`. If the present clock `clock_mhz` is higher, `clock_mhz` is returned.
    """
    limits = [board.infos[place].max for place in board.clocks[:1]]
    limits.append(max((mhz for place in board.clock_caps if (mhz := tracks[place].max) is not None), default=None))
    allowed = min((mhz for mhz in limits if mhz), default=None)
    best = allowed if math.isnan(spans.best_mhz) else spans.best_mhz
    return max((mhz for mhz in (best, clock_mhz) if mhz is not None), default=None)


def throttle_events(view: ThrottlesView) -> list[Event]:
    """Return the events of each throttling, the newest throttling first: its end, then its beginning.

    Throttling that was cut by the end of the session has no end event.
    """
    events = []
    for span in reversed(view.spans):
        if span.end_ns is not None and not span.was_cut:
            events.append(span.end or _end(span, view.clock))
        events.append(span.begin or _begin(span, view.clock))
    return events


def _begin(span: ThrottleSpan, clock: str) -> Event:
    body = ThrottleBegan(*_as_it_began(span))
    return DerivedEvent(span.start_ns, body, "critical", about=ThrottleAt(span, clock))


def _end(span: ThrottleSpan, clock: str) -> Event:
    assert span.end_ns is not None
    mhz, heat_c = rounded(span.min_clock_mhz), rounded(span.max_temp_c)
    lasted_s = rounded((span.end_ns - span.start_ns) / NS)
    body = ThrottleEnded(*_as_it_began(span), mhz, heat_c, span.latency_ratio, lasted_s)
    return DerivedEvent(span.end_ns, body, "info", about=ThrottleAt(span, clock))


def _as_it_began(span: ThrottleSpan) -> tuple[Cause, str, float | None, float | None, float | None]:
    """Return the fields that the events at the beginning and at the end of a throttling have in common.

    They are the cause, the sensor, the clock at the beginning, the best clock (both in MHz), and the temperature at the
    beginning (°C).
    """
    figures = rounded(span.begin_clock_mhz), rounded(span.best_mhz), rounded(span.begin_temp_c)
    return span.cause, span.sensor, *figures


def throttles_document(view: ThrottlesView) -> list[Document]:
    """Return the throttling of a session as JSON: a list with a dict for each, oldest first."""
    return [
        {
            "start_s": rounded(span.start_ns / NS),
            "end_s": None if span.end_ns is None else rounded(span.end_ns / NS),
            "cause": span.cause,
            "sensor": span.sensor,
            "min_clock_mhz": rounded(span.min_clock_mhz),
            "max_temp_c": rounded(span.max_temp_c),
            "latency_ratio": span.latency_ratio,
        }
        for span in view.spans
    ]


class ThrottleEvents:
    """Makes the events that a run records: one for each beginning and one for each end of throttling."""

    def __init__(self) -> None:
        self._tracks = Tracks(has_timeline=False)
        self._throttles = Throttles(self._tracks)
        self._waiting: list[Batch] = []
        self._viewed_ns = 0

    def fold(self, batch: Batch) -> tuple[Event, ...]:
        """Take a further batch. Return the events of throttling that began or ended, each only once.

        Throttling that is cut by the end of the session has no end event.
        """
        self._waiting.append(replace(batch, inferences=NO_INFERENCES, requests=NO_REQUESTS, bursts=()))
        is_last = any(isinstance(event.body, SessionOver) for event in batch.events)
        if batch.until_ns - self._viewed_ns < CHECK_EVERY_NS and not is_last:
            return ()
        for part in self._tracks.parts(merge(self._waiting)):
            self._throttles.fold(part)
        self._waiting, self._viewed_ns = [], batch.until_ns
        if self._throttles.is_quiet:
            return ()
        news = tuple(self._news(self._throttles.view(), batch.until_ns, is_last=is_last))
        if news:
            self._throttles.record(news)
        return news

    def _news(self, view: ThrottlesView, now_ns: int, *, is_last: bool) -> Iterator[Event]:
        for span in view.spans[-MAX_RECORDED:]:
            if span.begin is None and not (is_last or now_ns - span.start_ns >= SETTLES_NS):
                continue
            if span.begin is None:
                yield _begin(span, view.clock)
            is_over = span.end_ns is not None and not span.was_cut
            if is_over and span.end is None and (is_last or now_ns - (span.end_ns or 0) >= OVER_NS):
                yield _end(span, view.clock)
