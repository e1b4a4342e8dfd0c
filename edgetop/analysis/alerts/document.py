"""Alerts in JSON, the same in the report and on the standard input of a hook."""

from typing import Any

from edgetop.analysis.alerts.alert import ENDED, Alert, AlertsView
from edgetop.analysis.rounding import rounded


def alert_document(alert: Alert) -> dict[str, Any]:
    figures = alert.figures
    return {
        "event": alert.name,
        "rule": alert.rule or None,
        "severity": alert.severity,
        "message": alert.text,
        "begin_s": rounded(alert.begin_ns / 1e9),
        "end_s": None if alert.end_ns is None else rounded(alert.end_ns / 1e9),
        "unit": figures.unit or None if figures else None,
        "min": rounded(figures.min) if figures else None,
        "mean": rounded(figures.mean) if figures else None,
        "max": rounded(figures.max) if figures else None,
    }


def alerts_document(view: AlertsView) -> list[dict[str, Any]]:
    """Oldest first. That a session ended is no alert there."""
    return [alert_document(alert) for alert in reversed(view.newest_first) if alert.name != ENDED]
