"""The events of a session that happened but are not in a batch yet. Any thread may add events."""

import threading
from dataclasses import replace

from edgetop.session.clock import Clock
from edgetop.session.events import Body, Event, Severity

# Events that are repeated in the next session of a rotation, because they still hold for the same engine.
_STANDING = frozenset({
    "alert-rule", "assumed-shape", "assumed-signature",
    "calls-unseen", "data-dependent", "demo-model", "engine-loaded", "engine-memory",
    "engine-started", "fallback-reasons", "foreign-times", "model-misnamed", "no-sensors", "non-finite-outputs",
    "partly-accelerated",
    "profiler", "provider-dropped", "roofline", "sensor-missing", "stream", "streams-full",
})  # fmt: skip


class PendingEvents:
    """Collects events with their session times, until `take` returns them."""

    def __init__(self, clock: Clock, origin_ns: int) -> None:
        """Begin without events. `origin_ns` is time 0 of the session, in ns of CLOCK_MONOTONIC."""
        self._clock = clock
        self.origin_ns = origin_ns
        self._lock = threading.Lock()  # also protects the origin, which `follow` changes
        self._events: list[Event] = []
        self._standing: list[Event] = []

    def now_ns(self) -> int:
        return self._clock.monotonic_ns() - self.origin_ns

    def add(
        self, body: Body, severity: Severity, source: str, message: str, *, monotonic_ns: int | None = None
    ) -> None:
        """Add an event. `monotonic_ns` is when it happened, in ns of CLOCK_MONOTONIC; None means now.

        `source` says who reports the event, such as `engine`.
        """
        with self._lock:
            t_ns = self.now_ns() if monotonic_ns is None else monotonic_ns - self.origin_ns
            event = Event(t_ns, body, severity, source, message)
            self._events.append(event)
            if event.kind in _STANDING:
                self._standing.append(event)

    def extend(self, events: tuple[Event, ...]) -> None:
        """Add events whose times are already in session time."""
        with self._lock:
            self._events.extend(events)

    def take(self) -> tuple[Event, ...]:
        with self._lock:
            events, self._events = self._events, []
        return tuple(events)

    def follow(self, origin_ns: int) -> int:
        """Continue with the next session (`--rotate`), whose time 0 is at `origin_ns` of CLOCK_MONOTONIC.

        Return how many ns later this is than the present session's time 0. Events added since the last `take` belong to
        the next session.
        """
        with self._lock:
            shift_ns = origin_ns - self.origin_ns
            self.origin_ns = origin_ns
            late = [replace(event, t_ns=max(0, event.t_ns - shift_ns)) for event in self._events]
            self._events = [*(replace(event, t_ns=0) for event in self._standing), *late]
        return shift_ns
