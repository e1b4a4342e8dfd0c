"""One alert, the names of all alerts, and their words and JSON: the same on screen, in the report and for hooks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetop.formatting import duration, rounded
from edgetop.session.events import Severity

if TYPE_CHECKING:
    from edgetop.session.manifest import Manifest  # the names of alerts complete options: without numpy

MAX_ALERTS = 200  # of each kind, the latest

RULE = "alert"
ENDED = "ended"
ANY = "any"
NEAR_TRIP = "near-trip"

# name -> its meaning: for `--on-event`, JSON, and the documentation (`edgetop help alerts`).
NAMES: Mapping[str, str] = {
    "throttled": "the board slows itself: heat, power, voltage",
    "slowed": "inferences take longer for another cause",
    NEAR_TRIP: "a zone is within 5 C of the temperature at which it throttles",
    "misses": "1 % of the last minute's inferences missed the deadline",
    "overloaded": "a paced load asks for more than the engine can do",
    "stalled": "an inference does not come back",
    "leak": "the engine's memory grows and does not level off",
    "recording-failed": "nothing is recorded: a full disk",
    "engine-died": "the engine ended by itself",
    "gate-failed": "a gate ended the session",
    RULE: "a rule of --alert holds",
    ENDED: "the session is over",
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The values while an alert lasted."""

    unit: str
    min: float
    mean: float
    max: float
    is_worst_low: bool = False

    @property
    def worst(self) -> float:
        return self.min if self.is_worst_low else self.max


@dataclass(frozen=True, slots=True)
class Alert:
    name: str  # one of NAMES
    severity: Severity
    begin_ns: int
    end_ns: int | None  # None: it continues, or did to the end of the session
    text: str  # the problem, in words
    rule: str = ""  # as it was written; "": edgetop's own
    figures: Figures | None = None  # None: it is not about a value
    is_once: bool = False  # only the first one is reported to a person
    repeat_ns: int | None = None  # while it continues, it is reported again after so long

    @property
    def key(self) -> tuple[str, str]:
        """Return the alert's identity: at most one alert with the same key is active at a time."""
        return self.name, self.rule

    @property
    def lasted(self) -> str:
        return "" if self.end_ns is None else duration(self.end_ns - self.begin_ns)


@dataclass(frozen=True, slots=True)
class AlertsView:
    newest_first: tuple[Alert, ...]  # by their beginnings
    now_ns: int
    missing: tuple[Alert, ...] = ()  # when the deadline was missed, oldest first: for the log, not for hooks


def began_words(alert: Alert) -> str:
    """Return the problem in words; for a rule, with the worst value so far."""
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
        return f"no zone is within 5 C of throttling any more, after {alert.lasted}"
    worst = f", {alert.figures.worst:.4g} {alert.figures.unit} at worst".replace("  ", " ") if alert.figures else ""
    return f"over after {alert.lasted}: {alert.text}{worst}"


def title_words(manifest: "Manifest | None") -> str:
    """Describe the session of an alert, for a person away from the screen."""
    if manifest is None:
        return "edgetop"
    return f"edgetop {manifest.name}{' SIMULATED' if manifest.board.simulated else ''}"


def alert_words(alert: Alert) -> str:
    """
    >>> alert_words(Alert("throttled", "critical", 0, None, "31 % slower: thermal"))
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
    """Return the alerts as JSON, oldest first, without the end of the session."""
    return [alert_document(alert) for alert in reversed(view.newest_first) if alert.name != ENDED]
