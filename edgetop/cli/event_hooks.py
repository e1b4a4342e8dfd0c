"""Watches a session for those who are not at its screen, and runs their commands: `--on-event`.

It stands between the conductor and the screen's feed, so that a session whose screen is closed is
watched as well. It has a thread and a fold of its own: neither the conductor nor the screen waits.
"""

import threading
from collections.abc import Mapping
from typing import Any

from edgetop.analysis.alerts.alert import ANY
from edgetop.analysis.alerts.document import alert_document
from edgetop.analysis.alerts.news import AlertNews
from edgetop.analysis.alerts.watch import AlertWatch
from edgetop.cli.tell import tell
from edgetop.feeds.live import LiveFeed
from edgetop.runner.conductor import BatchSink
from edgetop.runner.hooks import Hook, Hooks
from edgetop.runner.session_state import SessionState
from edgetop.session.batch import Batch
from edgetop.session.clock import Clock, format_utc
from edgetop.session.events import JsonValue, Severity

LOOK_EVERY_S = 1.0
EACH = ("throttled",)  # what the board says of itself is told each time
MOST_CHARACTERS = 4_000  # of a message: last words of an engine may be many


class EventHooks:
    """A sink of batches that looks at what it hands on."""

    def __init__(
        self,
        sink: BatchSink,
        hooks: tuple[Hook, ...],
        session_state: SessionState,
        clock: Clock,
        session: Mapping[str, Any],
    ) -> None:
        """`session`: what the hooks are told of it."""
        self._sink = sink
        self._tap = LiveFeed()
        self._session_state = session_state
        self._clock = clock
        self._session = session
        self._hooks = Hooks(hooks, self._tell, clock.monotonic_ns, any_event=ANY)
        self._alerts, self._news = AlertWatch(), AlertNews(each=EACH)
        self._closed = threading.Event()
        self._has_ended = False  # what is told from then on is in no recording
        self._told_late: list[str] = []
        self._thread = threading.Thread(target=self._watch, name="event-hooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Wait, but not for long, for what still runs; say what failed too late to be recorded."""
        self._end()
        self._thread.join()
        self._hooks.finish()
        for message in self._told_late:
            tell(f"edgetop: {message}", err=True)

    def put(self, batch: Batch) -> None:
        self._has_ended |= any(event.kind == "ended" for event in batch.events)
        self._sink.put(batch)
        self._tap.put(batch)

    def close(self) -> None:
        self._end()
        self._sink.close()

    def _end(self) -> None:
        self._tap.close()
        self._closed.set()

    def _watch(self) -> None:
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001  a defect of ours must not go unnoticed: nobody is told any more
            text = f"no event hook runs any more: internal error: {type(error).__name__}: {error}"
            self._tell("hook-failed", "warning", "hook", text)

    def _follow(self) -> None:
        while not self._tap.is_over:
            self._tap.arrived.wait()
            batch = self._tap.read()
            if batch is not None:
                self._alerts.fold(batch)
                self._look()
            self._closed.wait(LOOK_EVERY_S)

    def _look(self) -> None:
        for alert in self._news.look(self._alerts.view()):
            document = alert_document(alert)
            document["message"] = alert.text[:MOST_CHARACTERS]
            about = {"time_utc": format_utc(self._clock.utc()), "session": self._session}
            self._hooks.offer(alert.name, {**document, **about})

    def _tell(self, kind: str, severity: Severity, source: str, message: str, **data: JsonValue) -> None:
        """As an event of the session; once that is over, only what failed, when the screen is closed."""
        if not self._has_ended:
            self._session_state.tell(kind, severity, source, message, **data)
        elif severity != "info":
            self._told_late.append(message)
