"""The fold of seconds, readings and events into alerts, which are the same live and from a recording."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter

from edgetop.analysis.alerts.alert import MAX_ALERTS, Alert, AlertsView
from edgetop.analysis.alerts.excursions import Excursions
from edgetop.analysis.alerts.findings import Findings, Incidents, Stalls, derived_alerts, throttled_alerts
from edgetop.analysis.alerts.rules import THROTTLED, AlertRule, parse_rule
from edgetop.analysis.alerts.values import MINUTE_S, InferenceValues, Piece, SensorValues
from edgetop.analysis.deadline import WORTH_REPORTING
from edgetop.analysis.tracks import Tracks, TracksReader
from edgetop.session.batch import Batch
from edgetop.session.manifest import Load
from edgetop.session.seconds import NS

# Edgetop's own rules, by the names of their alerts. Each has a hysteresis wider than the usual fluctuation.
OWN = {
    "near-trip": AlertRule("a zone is within 5 C of throttling", "headroom", "<", 5.0, 7.0, "C", for_s=5),
    "misses": AlertRule(
        "more than 1 % of the last minute missed the deadline", "misses%", ">", 1.0, 0.5, "%", for_s=10
    ),
}
# In the last minute: isolated misses are one span.
MISSING = AlertRule("", "misses%", ">=", 100 * WORTH_REPORTING, 100 * WORTH_REPORTING, "%")
MAX_RULES = 100  # in a recording


class Alerts(TracksReader):
    """Folds batches into alerts. `rules` are the viewer's; those of the session come as events."""

    def __init__(self, rules: Sequence[AlertRule] = (), tracks: Tracks | None = None) -> None:
        super().__init__(tracks)
        self._rules = [Excursions(rule, name) for name, rule in OWN.items()] + [Excursions(rule) for rule in rules]
        self._missing = Excursions(MISSING)
        self._sensors = SensorValues(self._tracks)
        self._inferences = InferenceValues()
        self.stalls = Stalls()
        self._incidents = Incidents()
        self._load = Load()
        self._now_ns = 0
        self._ended_ns: int | None = None
        self._want()

    def _want(self) -> None:
        """Compute no series without a rule: for a day of readings that costs as much as the rest of the analysis."""
        series = {excursions.rule.series for excursions in (*self._rules, self._missing)}
        self._sensors.want(series)
        self._inferences.wanted = series

    def missing(self, why: str = "") -> tuple[Alert, ...]:
        """Return the times of missed deadlines, oldest first; a time ends at the last miss before a minute without one.

        `why`: the cause of the last one.
        """
        rest_ns = (MINUTE_S - 1) * NS  # after the last miss, which is still in the last minute
        text = f"the deadline of {(self._load.deadline_ns or 0) / 1e6:g} ms is missed"
        spans = self._missing.alerts()
        return tuple(
            replace(
                span,
                text=f"{text}: {why}" if why and span is spans[-1] else text,
                end_ns=None if span.end_ns is None else span.end_ns - rest_ns,
            )
            for span in spans
        )

    def fold_part(self, batch: Batch) -> None:
        self._now_ns = max(self._now_ns, batch.until_ns)
        if batch.manifest is not None:
            self._load = batch.manifest.load
            self._sensors.register()
        for event in batch.events:
            if event.kind == "alert-rule" and len(self._rules) < MAX_RULES:
                with contextlib.suppress(ValueError):  # of another version, or another program
                    self._rules.append(Excursions(parse_rule(str(event.data.get("rule")))))
                    self._want()
            elif event.kind in ("ended", "recovered") and self._ended_ns is None:
                self._ended_ns = event.t_ns
        self._incidents.fold(batch.events)
        self.stalls.fold(batch, self._load.longest_rest_ns)
        self._judge(self._inferences.fold(batch.seconds))
        self._judge(self._sensors.fold(self._ended_ns))

    def _judge(self, pieces: Iterable[Piece]) -> None:
        for first_s, series in pieces:
            for excursions in (*self._rules, self._missing):
                if excursions.rule.series in series:
                    excursions.fold(first_s, series[excursions.rule.series])

    def view(self, findings: Findings) -> AlertsView:
        """Return the latest alerts of the session, and all that continue."""
        alerts = [*derived_alerts(findings), *self._incidents.alerts]
        for excursions in self._rules:
            if excursions.rule.series == THROTTLED:
                alerts += throttled_alerts(excursions.rule, findings.throttles, self._now_ns)
            else:
                alerts += excursions.alerts()
        alerts.sort(key=attrgetter("begin_ns"), reverse=True)
        latest = tuple(alert for place, alert in enumerate(alerts) if place < MAX_ALERTS or alert.end_ns is None)
        return AlertsView(latest, self._now_ns, self.missing(findings.why_missed))
