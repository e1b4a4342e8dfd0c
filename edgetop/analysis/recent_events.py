"""The latest events, newest first, and the events that cast doubt on the figures.

The analysis itself finds slowdowns, throttling and alerts. They are shown among the recorded events.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from edgetop.analysis.alerts.alert import Alert, AlertsView
from edgetop.analysis.alerts.alert_codes import NEAR_TRIP, RULE
from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.slowdowns.slowdown import Slowdown, SlowdownsView, slowdown_events
from edgetop.analysis.slowdowns.throttles import ThrottlesView, throttle_events
from edgetop.frozen import frozen
from edgetop.session.engine_events import OutputsKept, RecordsLost
from edgetop.session.event_kinds import AlertBegan, Remark
from edgetop.session.events import Event

MAX_EVENTS = 1_000
MAX_LASTING = 200
# Kinds that are not listed: they are shown elsewhere and would bury the rest, or the analysis derives them again.
QUIET = frozenset(
    {
        "profile-burst", "profile-bursts", "profile-burst-begins", "slow-inference", "garbage-collected", "sensor-slow",
        "competing", "gpu-competing", "memory-taken",
        "throttle-begin", "throttle-end", "ab-quad",
    }
)  # fmt: skip

# Kinds that are one trouble, however often they occur and whatever numbers their messages have. Events of other kinds
# are different troubles if their messages differ: they name an input or a provider.
RECURRING = frozenset(
    {
        "records-lost", "inference-failed", "recording-failed", "recording-behind", "governor-changed",
        "power-mode-changed", "cpus-changed", "cpu-quota", "memory-limit", "calls-unseen",
    }
)  # fmt: skip


@frozen
class Lasting:
    """A warning or an error that may occur repeatedly, with the number of its occurrences."""

    first: Event
    last_ns: int
    times: int = 1
    inferences: int = 0  # Number of inferences lost in all occurrences.

    def joined(self, other: "Lasting") -> "Lasting":
        """Return one warning or error with the occurrences of this one and of `other`.

        The result's `first` is the earlier of the two first events.
        """
        return Lasting(
            min(self.first, other.first, key=lambda event: (event.t_ns, event.message)),
            max(self.last_ns, other.last_ns),
            self.times + other.times,
            self.inferences + other.inferences,
        )


@frozen
class EventsView:
    newest_first: tuple[Event, ...]  # The last MAX_EVENTS events.
    lasting: tuple[Lasting, ...]  # Each trouble once, oldest first, without log lines.
    total: int
    warnings: int
    criticals: int


@frozen
class OutputFigures:
    """How many numbers the stored outputs of a session contain, and how many of them are NaN or infinite.

    In an A/B session, they are the outputs of both models.
    """

    elements: int
    non_finite: int  # NaN or infinite
    non_finite_share: float


class EventLog:
    def __init__(self) -> None:
        self._outputs = OutputsKept()
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._lasting: dict[tuple[str, str], Lasting] = {}
        self._total = self._warnings = self._criticals = 0
        self._view: EventsView | None = None

    def fold(self, events: tuple[Event, ...]) -> None:
        shown = [event for event in events if event.kind not in QUIET]
        for event in shown:
            self._events.appendleft(event)
            self._warnings += event.severity == "warning"
            self._criticals += event.severity == "critical"
            if event.severity != "info" and event.kind != "log":
                self._keep(event)
            if isinstance(event.body, OutputsKept):
                self._add_outputs(event.body)
        if shown:
            self._total += len(shown)
            self._view = None

    def _add_outputs(self, kept: OutputsKept) -> None:
        before = self._outputs
        if kept.elements and kept.non_finite is not None and 0 <= kept.non_finite <= kept.elements:
            self._outputs = OutputsKept(
                (before.elements or 0) + kept.elements, (before.non_finite or 0) + kept.non_finite
            )

    def outputs(self) -> OutputFigures | None:
        """Return how many numbers in the stored outputs are NaN or infinite, or None if no outputs were stored."""
        elements, bad = self._outputs.elements, self._outputs.non_finite
        return OutputFigures(elements, bad or 0, round((bad or 0) / elements, 9)) if elements else None

    def _keep(self, event: Event) -> None:
        key = (event.kind, "" if event.kind in RECURRING else event.message)
        lost = event.body.count if isinstance(event.body, RecordsLost) else 0
        lasting = Lasting(event, event.t_ns, inferences=lost)
        if before := self._lasting.get(key):
            self._lasting[key] = before.joined(lasting)
        elif len(self._lasting) < MAX_LASTING:
            self._lasting[key] = lasting

    def view(self) -> EventsView:
        """Return the latest events.

        Until the next event, the same object is returned, so that a screen need not draw it again.
        """
        if self._view is None:
            # Sorted by time, because a late event has another place in the recording than in the live run.
            newest_first = tuple(sorted(self._events, key=lambda event: -event.t_ns))
            lasting = tuple(sorted(self._lasting.values(), key=lambda lasting: lasting.first.t_ns))
            self._view = EventsView(newest_first, lasting, self._total, self._warnings, self._criticals)
        return self._view


# Alerts that are added to the events. All other alerts have events of their own.
LOGGED = frozenset({RULE, NEAR_TRIP, "overloaded", "stalled", "leak"})


class DerivedEvents:
    """Merges the recorded events with the events that the analysis found.

    Until an event is added, `joined` returns the same object, so that a screen need not draw it again.
    """

    def __init__(self) -> None:
        self._of: tuple[tuple[Slowdown, ...], list[Event]] = ((), [])  # The slowdowns, and all other derived events.
        self._events: EventsView | None = None
        self._joined: EventsView | None = None

    def joined(
        self, events: EventsView, slowdowns: SlowdownsView, throttles: ThrottlesView, alerts: AlertsView
    ) -> EventsView:
        of = slowdowns.slowdowns, _derived(throttles, alerts)
        if self._joined is None or self._events is not events or self._of != of:
            self._events, self._of = events, of
            derived = derived_events(slowdowns, throttles, alerts)
            newest_first = heapq.merge(events.newest_first, derived, key=lambda event: -event.t_ns)
            self._joined = replace(
                events,
                newest_first=tuple(newest_first)[:MAX_EVENTS],
                total=events.total + len(derived),
                warnings=events.warnings + sum(event.severity == "warning" for event in derived),
                criticals=events.criticals + sum(event.severity == "critical" for event in derived),
            )
        return self._joined


def derived_events(slowdowns: SlowdownsView, throttles: ThrottlesView, alerts: AlertsView) -> list[Event]:
    """Return the events that the analysis found in a session, such as beginnings of slowdowns, newest first."""
    return sorted([*slowdown_events(slowdowns), *_derived(throttles, alerts)], key=lambda event: -event.t_ns)


def _derived(throttles: ThrottlesView, alerts: AlertsView) -> list[Event]:
    of_alerts = [event for alert in alerts.newest_first if alert.name in LOGGED for event in _events(alert)]
    of_deadline = [event for span in alerts.missing for event in _misses(span)]
    return of_alerts + of_deadline + throttle_events(throttles)


def _misses(span: Alert) -> Iterator[Event]:
    if span.end_ns is not None:
        yield DerivedEvent(span.end_ns, Remark("deadline-end"), "info", about=span)
    yield DerivedEvent(span.begin_ns, Remark("deadline-begin"), "warning", about=span)


def _events(alert: Alert) -> Iterator[Event]:
    if alert.end_ns is not None:
        yield DerivedEvent(alert.end_ns, Remark("alert-ended"), "info", about=alert)
    yield DerivedEvent(alert.begin_ns, AlertBegan(alert.name), alert.severity, about=alert)
