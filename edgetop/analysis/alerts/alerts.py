"""The alerts of a session, found in its latencies by second, its sensor readings and its events.

A live session and its recording give the same alerts. Alerts are computed and not recorded, so a later version of
edgetop may find better alerts. Alerts come from rules, from other results of the analysis, from certain events, and
from seconds without inferences.
"""

import contextlib
import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter

import numpy as np

from edgetop.analysis.alerts.alert import MAX_ALERTS, Alert, AlertsView, Figures, Missed, Overloaded
from edgetop.analysis.alerts.alert_codes import ENDED, INTERNAL_ERROR, NEAR_TRIP, RULE
from edgetop.analysis.alerts.alert_rules import THROTTLED, AlertRule, Excursions, parse_rule
from edgetop.analysis.alerts.values import LATENCY_SERIES, MINUTE_S, InferenceValues, SensorValues
from edgetop.analysis.deadline import WORTH_REPORTING, MissCause, three_digits
from edgetop.analysis.faults import Fault
from edgetop.analysis.memory_use import GrowthView
from edgetop.analysis.overload import OverloadView
from edgetop.analysis.progress import STALLED_AFTER_LATENCIES, STALLED_AFTER_NS
from edgetop.analysis.slowdowns.slowdown import Slowdown, is_throttling
from edgetop.analysis.slowdowns.throttles import NO_THROTTLES, ThrottleAt, ThrottlesView
from edgetop.analysis.statistics import MOST_JUDGED
from edgetop.analysis.tracks import Tracks, TracksReader
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.by_stream import ByStream
from edgetop.session.engine_events import EngineDied, EngineFailed, ProfileBurst
from edgetop.session.event_kinds import (
    AlertRuleSet,
    GateFailed,
    RecordingCaughtUp,
    RecordingRestored,
    RecordingTrouble,
    SessionOver,
)
from edgetop.session.events import Event
from edgetop.session.generation_settings import FOR_EVER_NS
from edgetop.session.load_settings import Load
from edgetop.session.phases import Phases
from edgetop.session.seconds import NS, Seconds
from edgetop.session.trips import CLOSE_C

# Time for which a zone must be near its trip for an alert. Choice. Larger: the alert comes after the throttle;
# smaller: one odd reading is an alert.
NEAR_TRIP_FOR_S = 5
# Distance to the trip at which that alert ends. Choice: wider than a zone fluctuates. Larger: the alert lasts too
# long; smaller: it comes and goes.
COOL_AGAIN_C = 7.0
# Misses of the last minute, in % of its inferences, that are an alert. Choice: a tenth of what users notice. Larger:
# a bad minute passes; smaller: single misses are alerts.
MISSES_PCT = 1.0
# Misses at which that alert ends. Choice: half of it. Larger: it comes and goes; smaller: it lasts too long.
KEPT_AGAIN_PCT = 0.5
# Time for which misses must last for an alert. Choice: as long as "now". Larger: the alert comes late; smaller: one
# bad second is an alert.
MISSES_FOR_S = 10
# Edgetop's own rules, by the names of their alerts.
OWN = {
    NEAR_TRIP: AlertRule("", "headroom", "<", CLOSE_C, COOL_AGAIN_C, "C", for_s=NEAR_TRIP_FOR_S),
    "misses": AlertRule("", "misses%", ">", MISSES_PCT, KEPT_AGAIN_PCT, "%", for_s=MISSES_FOR_S),
}
# Judged over the last minute, so that isolated misses are one span.
MISSING = AlertRule("", "misses%", ">=", 100 * WORTH_REPORTING, 100 * WORTH_REPORTING, "%")
MAX_RULES = 100  # Most rules read from a recording.
ENDED_BY = {"engine-died": "engine-died", "slo": "gate-failed"}  # Maps the reason of the end to the alert.
MAX_BURSTS = 8  # Rounds of earlier batches that are stored, since the second that a round emptied comes after it.
NO_GROWTH = GrowthView()

Span = tuple[int, int | None]  # (from, until) in ns; the end is None while it continues.


@frozen
class Findings:
    """The results of the analysis from which alerts are made, such as slowdowns, throttling and stalls."""

    slowdowns: tuple[Slowdown, ...] = ()
    throttles: ThrottlesView = NO_THROTTLES
    overload: OverloadView | None = None
    overloads: tuple[Span, ...] = ()
    stalls: tuple[Span, ...] = ()
    growth: GrowthView = NO_GROWTH
    began_measuring_ns: int | None = None
    # Why the deadline was missed the last time, by stream number.
    why_missed: Mapping[int, MissCause] = field(default_factory=dict)
    names: Mapping[int, str] = field(default_factory=dict)  # Names by stream number, in a session with several streams.

    def named(self, number: int, alert: Alert) -> Alert:
        """Return a copy of `alert` that names the stream `number`. The name is "" if there is only one stream."""
        return replace(alert, stream=self.names.get(number, ""))


def derived_alerts(findings: Findings) -> Iterator[Alert]:
    """Yield the alerts on slowdowns, throttling, overload, stalls and memory leaks, in any order."""
    yield from _slower(findings)
    for begin_ns, end_ns in findings.overloads:
        last = findings.overload if (begin_ns, end_ns) == findings.overloads[-1] else None
        about = Overloaded(last.asked_hz, three_digits(last.done_hz)) if last else ""
        yield Alert("overloaded", "critical", begin_ns, end_ns, about)
    for begin_ns, end_ns in findings.stalls:
        yield Alert("stalled", "critical", begin_ns, end_ns)
    growth, slope = findings.growth, findings.growth.mib_per_h
    if growth.is_leak and slope:
        figures = Figures("MiB/h", slope.low, slope.value, slope.high)
        yield Alert("leak", "warning", findings.began_measuring_ns or 0, None, growth, figures=figures)


def _slower(findings: Findings) -> Iterator[Alert]:
    """Yield an alert for each throttling that the board reported, and for each slowdown without such a report."""
    limited = [slowdown for slowdown in findings.slowdowns if is_throttling(slowdown)]
    for span in findings.throttles.spans:
        effect = next((slowdown for slowdown in limited if span.overlaps(slowdown)), None)
        about = effect or ThrottleAt(span, findings.throttles.clock)
        yield Alert("throttled", "critical", span.start_ns, span.end_ns, about)
    for slowdown in findings.slowdowns:
        if not is_throttling(slowdown):
            yield Alert("slowed", "warning", slowdown.start_ns, slowdown.end_ns, slowdown)
        elif not any(span.overlaps(slowdown) for span in findings.throttles.spans):
            yield Alert("throttled", "critical", slowdown.start_ns, slowdown.end_ns, slowdown)


def throttled_alerts(rule: AlertRule, throttles: ThrottlesView, now_ns: int) -> Iterator[Alert]:
    """Yield the alerts of `rule`, a rule with the condition `throttled`, oldest first.

    Throttlings that overlap in time make one alert, whatever their causes are. `now_ns`: the present session time.
    """
    joined: list[tuple[int, float]] = []
    for span in throttles.spans:
        end_ns = math.inf if span.end_ns is None else span.end_ns
        if joined and span.start_ns <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end_ns))
        else:
            joined.append((span.start_ns, end_ns))
    for begin_ns, end_ns in joined:
        if min(end_ns, now_ns) - begin_ns >= rule.for_s * NS:
            yield rule.alert(begin_ns, None if end_ns == math.inf else int(end_ns))


class Incidents:
    """Makes alerts from events: for the end of the session, and for each span of time in which the recording failed."""

    def __init__(self) -> None:
        self.alerts: deque[Alert] = deque(maxlen=MAX_ALERTS)  # Oldest first.
        self._why = ""

    def fold(self, events: tuple[Event, ...]) -> None:
        for event in events:
            is_open = bool(self.alerts) and self.alerts[-1].end_ns is None
            match event.body:
                case EngineDied() | EngineFailed() | GateFailed():
                    self._why = event.message
                case RecordingTrouble(why=why) if not is_open:
                    text = why or event.message
                    self.alerts.append(Alert("recording-failed", "critical", event.t_ns, None, text))
                case RecordingRestored() | RecordingCaughtUp() if is_open:
                    self.alerts[-1] = replace(self.alerts[-1], end_ns=event.t_ns)
                case SessionOver(reason=reason):
                    if name := ENDED_BY.get(reason or ""):
                        self.alerts.append(Alert(name, "critical", event.t_ns, event.t_ns, self._why or event.message))
                    if reason != "input-error":  # Nothing ran.
                        self.alerts.append(Alert(ENDED, "info", event.t_ns, event.t_ns, event.message))


class Stalls:
    """Finds the past stalls of a session.

    A stall is a series of seconds without inferences that is far longer than an inference takes.
    """

    def __init__(self) -> None:
        self._next_s = 0
        self._empty = 0  # Number of seconds since the last one with an inference.
        self._last_s: int | None = None  # Last second with an inference.
        self._least_ns = 0  # Shortest latency in that second, used if there was no inference before it.
        self._usual_ns = 0  # Longest latency before that second.
        self.longest_ns = 0  # Longest latency up to and including that second; 0 if there was no inference.
        # (from, until) in ns of profiling rounds, in which nothing is measured.
        self._bursts: list[tuple[int, int]] = []
        self.spans: deque[tuple[int, int]] = deque(maxlen=MAX_ALERTS)  # (begin, end) in ns, oldest first.

    def fold(self, batch: Batch, rest_ns: int) -> None:
        """Take a further batch of the session, and add the stalls that ended in it to `spans`.

        `rest_ns`: the longest planned pause of the load in ns. Only longer spans without inferences can be stalls.
        """
        for event in batch.events:
            match event.body:
                case ProfileBurst(duration_ns=took_ns):
                    self._bursts.append((event.t_ns, event.t_ns + took_ns))
        rows, tokens = batch.seconds.rows, batch.seconds.tokens
        first = int(np.searchsorted(rows["t_ns"], self._next_s * NS))
        rows = rows[first:]
        if not len(rows):
            return
        self._next_s = int(rows["t_ns"][-1]) // NS + 1
        generated = 0 if tokens is None else tokens.rows["tokens_out"][first:]  # A request may take minutes.
        ran = np.flatnonzero(rows["count"] + rows["errors"] + generated)
        if not len(ran):
            self._empty += len(rows)
            return
        second, max_ns, min_ns = rows["t_ns"][ran] // NS, rows["max_ns"][ran], rows["min_ns"][ran]
        before = np.concatenate([[second[0] - 1 if self._last_s is None else self._last_s], second[:-1]])
        empty = np.diff(ran, prepend=-1 - self._empty) - 1
        longest = np.maximum.accumulate(np.concatenate([[self.longest_ns], max_ns]))
        usual = np.concatenate([[self._usual_ns], longest[:-1]])
        least = np.concatenate([[self._least_ns], min_ns])
        limit = STALLED_AFTER_LATENCIES * np.where(usual > 0, usual, least)[:-1]
        is_long = empty * NS > np.maximum(STALLED_AFTER_NS, limit) + rest_ns
        is_complete = empty == second - before - 1  # Seconds that were not recorded prove nothing.
        for i in np.flatnonzero(is_long & is_complete).tolist():
            span = (int(before[i]) + 1) * NS, int(second[i]) * NS
            if not any(begin < span[1] and end > span[0] for begin, end in self._bursts):
                self.spans.append(span)
        self._empty = len(rows) - 1 - int(ran[-1])
        self._last_s, self._least_ns = int(second[-1]), int(least[-1])
        self._usual_ns, self.longest_ns = int(usual[-1]), int(longest[-1])
        self._bursts = self._bursts[-MAX_BURSTS:]


class StreamAlerts:
    """Finds the alerts of one stream (one model of a program), for all rules that check its inferences."""

    def __init__(self, rules: Iterable[tuple[AlertRule, str]]) -> None:
        """Begin with no data. `rules`: pairs of an alert rule and the name that its alerts get."""
        self.excursions = [Excursions(rule, name) for rule, name in rules]
        self.missing = Excursions(MISSING)
        self._values = InferenceValues()
        self._register()

    def add(self, rule: AlertRule) -> None:
        self.excursions.append(Excursions(rule))
        self._register()

    def _register(self) -> None:
        self._values.wanted = {excursions.rule.series for excursions in (*self.excursions, self.missing)}

    def fold(self, seconds: Seconds) -> None:
        for first_s, series in self._values.fold(seconds):
            for excursions in (*self.excursions, self.missing):
                excursions.fold(first_s, series[excursions.rule.series])

    def missing_spans(self) -> Sequence[Alert]:
        """Return an alert for each span of time in which inferences missed the deadline, oldest first.

        A span ends with its last missed deadline.
        """
        rest_ns = (MINUTE_S - 1) * NS  # After the last miss, which is still part of the last minute.
        return [
            span if span.end_ns is None else replace(span, end_ns=span.end_ns - rest_ns)
            for span in self.missing.alerts()
        ]


def is_of_inferences(rule: AlertRule) -> bool:
    """Whether the rule checks latency, misses or errors. Such a rule is checked for each stream separately."""
    return rule.series in (*LATENCY_SERIES, "misses", "misses%", "errors", "errors%")


class Alerts(TracksReader):
    """Finds the alerts of a session.

    `rules`: the alert rules of the user who views the session. The rules with which the session was started arrive as
    events.
    """

    def __init__(
        self, rules: Sequence[AlertRule] = (), tracks: Tracks | None = None, phases: Phases | None = None
    ) -> None:
        super().__init__(tracks)
        self._phases = phases or Phases()
        self._rules = [*((rule, name) for name, rule in OWN.items()), *((rule, RULE) for rule in rules)]
        self._board = [Excursions(rule, name) for rule, name in self._rules if not is_of_inferences(rule)]
        self._by_stream: ByStream | None = None  # The seconds of the part that is folded, if they were divided before.
        self._streams = {0: self._stream()}  # By stream number.
        self._sensors = SensorValues(self._tracks)
        self.stalls = Stalls()
        self._rest_ns = 0
        self._incidents = Incidents()
        self._load = Load()
        self._now_ns = 0
        self._register()

    def _register(self) -> None:
        """Choose the series of sensor values to compute: only those that a rule checks."""
        # One series of a day takes as long to compute as all other analysis of that day.
        self._sensors.register({excursions.rule.series for excursions in self._board})

    def _stream(self) -> StreamAlerts:
        return StreamAlerts((rule, name) for rule, name in self._rules if is_of_inferences(rule))

    def missing_since(self) -> Mapping[int, int]:
        """Return the session time in ns since which each stream misses its deadline, as a dict by stream number.

        A stream that meets its deadline now has no entry.
        """
        last = ((number, span) for number, of in self._streams.items() for span in of.missing_spans()[-1:])
        return {number: span.begin_ns for number, span in last if span.end_ns is None}

    def _missing(self, findings: Findings) -> Iterator[Alert]:
        """Yield an alert for each span of time in which a stream missed its deadline.

        Only the last alert of each stream has a cause, which is taken from `findings`.
        """
        deadline_ms = (self._load.deadline_ns or 0) / 1e6
        for number, stream in self._streams.items():
            spans, why = stream.missing_spans(), findings.why_missed.get(number)
            for span in spans:
                about = Missed(deadline_ms, why if span is spans[-1] else None)
                yield findings.named(number, replace(span, about=about))

    def fold(self, batch: Batch, streams: ByStream | None = None) -> None:
        """Take a further batch of the session.

        `streams`: the seconds of the batch, divided by stream; if None, this method divides them.
        """
        self._by_stream = streams
        super().fold(batch)

    def fold_part(self, batch: Batch) -> None:
        self._now_ns = max(self._now_ns, batch.until_ns)
        if batch.manifest is not None:
            self._load, generation = batch.manifest.load, batch.manifest.generation
            self._rest_ns = FOR_EVER_NS if generation and generation.is_of_others else self._load.longest_rest_ns
            self._register()
        self._phases.fold(batch.events)
        for event in batch.events:
            match event.body:
                case AlertRuleSet(rule) if len(self._rules) < MAX_RULES:
                    with contextlib.suppress(ValueError):  # The rule is of another version or another program.
                        self._add(parse_rule(rule))
        self._incidents.fold(batch.events)
        self.stalls.fold(batch, self._rest_ns)
        streams, self._by_stream = self._by_stream or ByStream(batch.seconds), None
        for number in streams.numbers:
            if number not in self._streams and len(self._streams) < MOST_JUDGED:
                self._streams[number] = self._stream()
        for number, stream in self._streams.items():
            stream.fold(streams.of(number))
        for first_s, series in self._sensors.fold(self._phases.over_ns):
            for excursions in self._board:
                if excursions.rule.series in series:
                    excursions.fold(first_s, series[excursions.rule.series])

    def _add(self, rule: AlertRule) -> None:
        self._rules.append((rule, RULE))
        if is_of_inferences(rule):
            for stream in self._streams.values():
                stream.add(rule)
        else:
            self._board.append(Excursions(rule))
            self._register()

    def view(self, findings: Findings, faults: Iterable[Fault] = ()) -> AlertsView:
        """Return the latest 200 alerts of the session, and all older alerts that continue.

        `findings` are the other results of the analysis. `faults` are errors of the analysis itself.
        """
        alerts = [*derived_alerts(findings), *self._incidents.alerts]
        alerts += [Alert(INTERNAL_ERROR, "warning", of.t_ns, None, of) for of in faults]
        for excursions in self._board:
            if excursions.rule.series == THROTTLED:
                alerts += throttled_alerts(excursions.rule, findings.throttles, self._now_ns)
            else:
                alerts += excursions.alerts()
        for number, stream in self._streams.items():
            alerts += (findings.named(number, alert) for of in stream.excursions for alert in of.alerts())
        alerts.sort(key=attrgetter("begin_ns"), reverse=True)
        latest = tuple(alert for place, alert in enumerate(alerts) if place < MAX_ALERTS or alert.end_ns is None)
        missing = sorted(self._missing(findings), key=attrgetter("begin_ns"))
        return AlertsView(latest, self._now_ns, tuple(missing))
