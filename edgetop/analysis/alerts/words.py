"""An alert in words, the same on the screen, in the report and where a person is told."""

from edgetop.analysis.alerts.alert import ENDED, RULE, Alert, Figures
from edgetop.formatting import duration
from edgetop.session.manifest import Manifest


def lasted(alert: Alert) -> str:
    return "" if alert.end_ns is None else duration(alert.end_ns - alert.begin_ns)


def figures_words(figures: Figures) -> str:
    """
    >>> figures_words(Figures("C", 80.12, 82.0, 84.31))
    '80.12 to 84.31 C, mean 82'
    """
    return f"{figures.min:.4g} to {figures.max:.4g} {figures.unit}, mean {figures.mean:.4g}".replace(" ,", ",")


def began_words(alert: Alert) -> str:
    """What is the matter: of a rule with the value that is its worst so far."""
    figures = alert.figures
    if figures is None or alert.name == "leak":
        return alert.text
    return f"{alert.text}: {figures.worst:.4g} {figures.unit}".rstrip()


def ended_words(alert: Alert) -> str:
    told = f" ({figures_words(alert.figures)})" if alert.figures and alert.name != "leak" else ""
    return f"over after {lasted(alert)}: {alert.text}{told}"


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
