"""What happened: the last events, newest first, and the few that change what may be believed."""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetop.session.events import Event

KEPT = 1_000
KEPT_LASTING = 200
# Told elsewhere, and so often that it would bury the rest; or found anew by analysis, and shown as it finds them.
QUIET = frozenset(
    {
        "profile-burst", "profile-bursts", "profile-burst-begins", "slow-inference", "sensor-slow", "competing",
        "throttle-begin", "throttle-end",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class EventsView:
    newest_first: tuple[Event, ...]  # the last KEPT
    lasting: tuple[Event, ...]  # what went wrong, each thing once, oldest first; log lines left out
    total: int
    warnings: int
    criticals: int

    def with_derived(self, derived: Sequence[Event]) -> "EventsView":
        """Among what was recorded, newest first, what analysis makes of it, newest first as well."""
        if not derived:
            return self
        newest_first = heapq.merge(self.newest_first, derived, key=lambda event: -event.t_ns)
        return replace(
            self,
            newest_first=tuple(newest_first)[:KEPT],
            total=self.total + len(derived),
            warnings=self.warnings + sum(event.severity == "warning" for event in derived),
            criticals=self.criticals + sum(event.severity == "critical" for event in derived),
        )


class EventLog:
    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._lasting: dict[tuple[str, str], Event] = {}
        self._total = self._warnings = self._criticals = 0
        self._view: EventsView | None = None

    def fold(self, events: tuple[Event, ...]) -> None:
        heard = [event for event in events if event.kind not in QUIET]
        for event in heard:
            self._events.appendleft(event)
            self._warnings += event.severity == "warning"
            self._criticals += event.severity == "critical"
            if event.severity != "info" and event.kind != "log" and len(self._lasting) < KEPT_LASTING:
                self._lasting.setdefault((event.kind, event.message), event)
        if heard:
            self._total += len(heard)
            self._view = None

    def view(self) -> EventsView:
        """The same object until something happens, so that a pane can tell that nothing has."""
        if self._view is None:
            # By their times: one can be told late, and then comes in another place of a recording than of the live run.
            newest_first = tuple(sorted(self._events, key=lambda event: -event.t_ns))
            lasting = tuple(sorted(self._lasting.values(), key=lambda event: event.t_ns))
            self._view = EventsView(newest_first, lasting, self._total, self._warnings, self._criticals)
        return self._view
