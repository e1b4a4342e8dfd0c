"""An alert in words and in JSON, the same on the screen, in the report and where a hook or a person is told."""

from typing import Any

from edgetop.analysis.alerts.alert import ENDED, NEAR_TRIP, RULE, Alert, AlertsView
from edgetop.analysis.rounding import rounded
from edgetop.formatting import duration
from edgetop.session.manifest import Manifest


def lasted(alert: Alert) -> str:
    return "" if alert.end_ns is None else duration(alert.end_ns - alert.begin_ns)


def began_words(alert: Alert) -> str:
    """What is the matter: of a rule with the value that is its worst so far."""
    figures = alert.figures
    if figures is None or alert.name == "leak":
        return alert.text
    return f"{alert.text}: {figures.worst:.4g} {figures.unit}".rstrip()


def ended_words(alert: Alert) -> str:
    """
    >>> ended_words(Alert("stalled", "critical", 0, 40 * 10**9, "an inference has not come back"))
    'over after 40.0s: an inference has not come back'
    """
    if alert.name == NEAR_TRIP:
        return f"no zone is within 5 C of throttling any more, after {lasted(alert)}"
    worst = f", {alert.figures.worst:.4g} {alert.figures.unit} at worst".replace("  ", " ") if alert.figures else ""
    return f"over after {lasted(alert)}: {alert.text}{worst}"


def title_words(manifest: Manifest | None) -> str:
    """Which session it is about, where a person hears of it away from the screen."""
    if manifest is None:
        return "edgetop"
    return f"edgetop {manifest.name}{' SIMULATED' if manifest.board.simulated else ''}"


def told_words(alert: Alert) -> str:
    """
    >>> told_words(Alert("throttled", "critical", 0, None, "31 % slower: thermal"))
    'throttled: 31 % slower: thermal'
    """
    return began_words(alert) if alert.name in (RULE, ENDED) else f"{alert.name}: {began_words(alert)}"


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
