"""Alerts that follow from single events: how a session ended, and that it was not recorded."""

from collections import deque
from dataclasses import replace

from edgetop.analysis.alerts.alert import ENDED, KEPT, Alert
from edgetop.session.events import Event

NOT_RECORDED, RECORDED_AGAIN = ("recording-failed", "recording-behind"), ("recording-restored", "recording-caught-up")
ENDED_BY = {"engine-died": "engine-died", "slo": "gate-failed"}  # the reason of the end -> the alert
_TOLD_BEFORE = ("engine-died", "engine-failed", "gate-failed")


class Incidents:
    def __init__(self) -> None:
        self._alerts: deque[Alert] = deque(maxlen=KEPT)
        self._why = ""

    def fold(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._on_event(event)

    def _on_event(self, event: Event) -> None:
        if event.kind in _TOLD_BEFORE:
            self._why = event.message
        elif event.kind in NOT_RECORDED:
            if not self._is_open():
                text = str(event.data.get("why") or event.message)
                self._alerts.append(Alert("recording-failed", "critical", event.t_ns, None, text))
        elif event.kind in RECORDED_AGAIN and self._is_open():
            self._alerts[-1] = replace(self._alerts[-1], end_ns=event.t_ns)
        elif event.kind in ("ended", "recovered"):
            self._end(event)

    def _is_open(self) -> bool:
        return bool(self._alerts) and self._alerts[-1].end_ns is None

    def _end(self, event: Event) -> None:
        name = ENDED_BY.get(str(event.data.get("reason")))
        if name:
            why = self._why or event.message
            self._alerts.append(Alert(name, "critical", event.t_ns, event.t_ns, why))
        if event.data.get("reason") != "input-error":  # nothing ran
            self._alerts.append(Alert(ENDED, "info", event.t_ns, event.t_ns, event.message))

    def alerts(self) -> list[Alert]:
        """Oldest first."""
        return list(self._alerts)
