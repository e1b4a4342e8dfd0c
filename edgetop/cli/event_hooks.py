"""Runs the user's commands at alerts: `--on-event`. Loaded while the engine loads its model."""

from collections.abc import Callable, Mapping
from typing import Any

from edgetop.analysis.alerts.alert import ANY, AlertNews, alert_document
from edgetop.analysis.analysis import Analysis
from edgetop.cli.output import print_text
from edgetop.runner.hooks import Hook, Hooks
from edgetop.runner.session_state import SessionState
from edgetop.session.clock import Clock, format_utc
from edgetop.session.events import JsonValue, Severity

EACH = ("throttled",)  # what the board says of itself is reported each time
MOST_CHARACTERS = 4_000  # of a message: last words of an engine may be many


class EventHooks:
    """Runs the user's commands at alerts, whether or not anybody is at the screen: `--on-event`."""

    def __init__(
        self,
        hooks: tuple[Hook, ...],
        session_state: SessionState,
        clock: Clock,
        session: Callable[[], Mapping[str, Any]],
    ) -> None:
        """`session`: what is passed to the hooks about it."""
        self._session_state = session_state
        self._clock = clock
        self._session = session
        self._hooks = Hooks(hooks, self._report, clock.monotonic_ns, any_event=ANY)
        self._news = AlertNews(each=EACH)
        self._late: list[str] = []  # messages that came too late to be recorded

    def observe(self, analysis: Analysis) -> None:
        for alert in self._news.due(analysis.alerts_view()):
            document = alert_document(alert)
            document["message"] = alert.text[:MOST_CHARACTERS]
            about = {"time_utc": format_utc(self._clock.utc()), "session": self._session()}
            self._hooks.offer(alert.name, {**document, **about})

    def finish(self) -> None:
        """Wait, but not for long, for what still runs; print what failed too late to be recorded."""
        self._hooks.finish()
        for message in self._late:
            print_text(f"edgetop: {message}", err=True)

    def _report(self, kind: str, severity: Severity, source: str, message: str, **data: JsonValue) -> None:
        """Report as an event of the session; once it is over, print only failures, after the screen has closed."""
        if not self._session_state.has_ended:
            self._session_state.add_event(kind, severity, source, message, **data)
        elif severity != "info":
            self._late.append(message)
