"""One alert, the names of all alerts, their words and JSON, and which of them to notify a person of.

They are the same on screen, in the report and for hooks.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgetop.formatting import duration, rounded
from edgetop.session.events import Severity

if TYPE_CHECKING:
    from edgetop.session.manifest import Manifest  # the names of alerts complete options: without numpy

MAX_ALERTS = 200  # of each kind, the latest
APART_NS = 60_000_000_000  # an alert that comes and goes is reported no more often
FRESH_NS = 60_000_000_000  # an alert that ended longer ago is not reported: the reader may have joined late

RULE, INTERNAL_ERROR = "alert", "internal-error"
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
    INTERNAL_ERROR: "a part of the analysis failed: an error of edgetop",
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
        **{name: rounded(getattr(figures, name)) if figures else None for name in ("min", "mean", "max")},
    }


def alerts_document(view: AlertsView) -> list[dict[str, Any]]:
    """Return the alerts as JSON, oldest first, without the end of the session."""
    return [alert_document(alert) for alert in reversed(view.newest_first) if alert.name != ENDED]


@dataclass(slots=True)
class _Reported:
    until_ns: int = -1  # an alert that began before has been reported
    at_ns: int | None = None


class AlertNews:
    """Selects the new alerts at each refresh: each once when it begins, and again if its rule says so."""

    def __init__(self, each: Collection[str] = ()) -> None:
        """`each`: names of alerts that are reported every time, however soon after another."""
        self._each = each
        self._now_ns = 0
        self._reported: dict[tuple[str, str], _Reported] = {}
        self._begins_ns: deque[int] = deque(maxlen=MAX_ALERTS)  # of those that are reported every time

    def due(self, view: AlertsView) -> list[Alert]:
        """Return the alerts to report now, oldest first, and count them as reported."""
        if view.now_ns < self._now_ns:  # another session, whose time begins anew
            self._reported, self._begins_ns = {}, deque(maxlen=MAX_ALERTS)
        self._now_ns = view.now_ns
        newest: dict[tuple[str, str], Alert] = {}
        for alert in view.newest_first:
            if alert.name not in self._each:
                newest.setdefault(alert.key, alert)
        due = [alert for alert in newest.values() if self._is_due(alert, view.now_ns)]
        due += [alert for alert in view.newest_first if alert.name in self._each and self._is_new(alert, view.now_ns)]
        return sorted(due, key=lambda alert: alert.begin_ns)

    def _is_new(self, alert: Alert, now_ns: int) -> bool:
        """Whether it is fresh and no reported alert began within it: beginnings may move. Counts it as reported."""
        end_ns = now_ns if alert.end_ns is None else alert.end_ns
        if now_ns - end_ns > FRESH_NS or any(alert.begin_ns <= begin_ns <= end_ns for begin_ns in self._begins_ns):
            return False
        self._begins_ns.append(alert.begin_ns)
        return True

    def _is_due(self, alert: Alert, now_ns: int) -> bool:
        last = self._reported.setdefault(alert.key, _Reported())
        since_ns = None if last.at_ns is None else now_ns - last.at_ns
        if alert.end_ns is not None and now_ns - alert.end_ns > FRESH_NS:
            is_due = False
        elif alert.begin_ns > last.until_ns:  # a beginning may still move a little
            if since_ns is not None and since_ns < APART_NS and not alert.is_once:
                return False  # later, if it still continues
            is_due = since_ns is None or not alert.is_once
        else:
            repeats = alert.end_ns is None and alert.repeat_ns is not None
            is_due = repeats and since_ns is not None and since_ns >= (alert.repeat_ns or 0)
        last.until_ns = max(last.until_ns, now_ns if alert.end_ns is None else alert.end_ns)
        if is_due:
            last.at_ns = now_ns
        return is_due
