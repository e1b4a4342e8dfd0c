"""Slowdowns, throttling and alerts as events: derived from what was recorded, and shown among what happened."""

from collections.abc import Iterator

from edgetop.analysis.alerts.alert import RULE, Alert, AlertsView
from edgetop.analysis.alerts.words import ended_words
from edgetop.analysis.events import EventsView
from edgetop.analysis.slowdowns.events import SOURCE, slowdown_events
from edgetop.analysis.slowdowns.judgement import Slowdown, SlowdownsView
from edgetop.analysis.throttle_words import throttle_events
from edgetop.analysis.throttles import ThrottlesView
from edgetop.session.events import Event

# The others are told by events of their own.
LOGGED = frozenset({RULE, "near-trip", "misses", "overloaded", "stalled", "leak"})


class DerivedEvents:
    """Joins them; the same object until one changes, so that a pane can tell that nothing has."""

    def __init__(self) -> None:
        self._of: tuple[tuple[Slowdown, ...], list[Event]] = ((), [])  # slowdowns; the others
        self._events: EventsView | None = None
        self._joined: EventsView | None = None

    def joined(
        self, events: EventsView, slowdowns: SlowdownsView, throttles: ThrottlesView, alerts: AlertsView
    ) -> EventsView:
        told = [event for alert in alerts.newest_first if alert.name in LOGGED for event in _events(alert)]
        told += throttle_events(throttles)
        of = slowdowns.slowdowns, told
        if self._joined is None or self._events is not events or self._of != of:
            self._events, self._of = events, of
            derived = sorted([*slowdown_events(slowdowns), *told], key=lambda event: -event.t_ns)
            self._joined = events.with_derived(derived)
        return self._joined


def _events(alert: Alert) -> Iterator[Event]:
    """The newest first."""
    if alert.end_ns is not None:
        yield Event(alert.end_ns, "alert-ended", "info", SOURCE, ended_words(alert))
    yield Event(alert.begin_ns, "alert-began", alert.severity, SOURCE, alert.text, {"alert": alert.name})
