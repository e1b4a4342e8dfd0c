"""Alerts in words and as JSON, the same on screen, in the report and for commands that run on an alert."""

from typing import Any

from edgetop.analysis.alerts.alert import Alert, AlertsView, Missed, Overloaded
from edgetop.analysis.alerts.alert_codes import ENDED, NEAR_TRIP, RULE
from edgetop.analysis.faults import Fault
from edgetop.analysis.memory_use import GrowthView
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttles import ThrottleAt
from edgetop.formatting import clean, duration, plain, rounded
from edgetop.session.manifest import Manifest
from edgetop.wording.fault_words import fault_words
from edgetop.wording.load_words import late_words, overload_words
from edgetop.wording.memory_words import leak_rate
from edgetop.wording.slowdown_words import slowdown_words
from edgetop.wording.throttle_words import throttle_words

_BY_NAME = {
    NEAR_TRIP: "a zone is within 5 C of throttling",
    "misses": "more than 1 % of the last minute missed the deadline",
    "overloaded": "a queue grows without end",
    "stalled": "an inference has not come back",
}


def problem_words(alert: Alert) -> str:
    """Return the problem of an alert in words, without measured values: `an inference has not come back`."""
    return f"{clean(alert.stream)}: {_problem(alert)}" if alert.stream else _problem(alert)


def _problem(alert: Alert) -> str:  # noqa: PLR0911  a sentence for each kind of problem
    match alert.about:
        case str(text):
            return text or _BY_NAME.get(alert.name, alert.name)
        case Slowdown() as slowdown:
            return slowdown_words(slowdown)
        case ThrottleAt() as throttle:
            return throttle_words(throttle)
        case Missed(deadline_ms, cause):
            return f"the deadline of {deadline_ms:g} ms is missed{f': {late_words(cause)}' if cause else ''}"
        case Overloaded(asked_hz, done_hz):
            return f"{_BY_NAME['overloaded']}: {overload_words(asked_hz, done_hz)}"
        case GrowthView() as growth:
            return f"the engine's memory grows by {leak_rate(growth)}, since the start, and does not level off"
        case Fault() as fault:
            return f"{fault.name}: {fault_words(fault)}"


def began_words(alert: Alert) -> str:
    """Return the message when the problem of an alert begins, such as `an inference has not come back`.

    If the alert is about a measured value, such as that of the rule `p99>33ms`, the worst value so far follows.
    """
    figures = alert.figures
    if figures is None or alert.name == "leak":
        return problem_words(alert)
    return f"{problem_words(alert)}: {plain(figures.worst)} {figures.unit}".rstrip()


def ended_words(alert: Alert) -> str:
    """Return the message when the problem of an alert is over: for how long it lasted, and the problem.

    >>> ended_words(Alert("stalled", "critical", 0, 40 * 10**9))
    'over after 40.0s: an inference has not come back'
    """
    if alert.name == NEAR_TRIP:
        return f"every zone is at least 5 C below throttling again, after {_lasted(alert)}"
    worst = f", {plain(alert.figures.worst)} {alert.figures.unit} at worst".replace("  ", " ") if alert.figures else ""
    return f"over after {_lasted(alert)}: {problem_words(alert)}{worst}"


def title_words(manifest: Manifest | None) -> str:
    """Return the title of an alert's message: `edgetop` and the session's name, for a reader away from the screen."""
    if manifest is None:
        return "edgetop"
    return f"edgetop {manifest.name}{' SIMULATED' if manifest.board.simulated else ''}"


def alert_words(alert: Alert) -> str:
    """Return an alert as one line: its name and its problem.

    >>> alert_words(Alert("engine-died", "critical", 0, 0, "killed by SIGSEGV"))
    'engine-died: killed by SIGSEGV'
    """
    return began_words(alert) if alert.name in (RULE, ENDED) else f"{alert.name}: {began_words(alert)}"


def alert_document(alert: Alert) -> dict[str, Any]:
    figures = alert.figures
    return {
        "event": alert.name,
        "rule": alert.rule or None,
        "severity": alert.severity,
        **({"stream": alert.stream} if alert.stream else {}),
        "message": problem_words(alert),
        "begin_s": rounded(alert.begin_ns / 1e9),
        "end_s": None if alert.end_ns is None else rounded(alert.end_ns / 1e9),
        "unit": figures.unit or None if figures else None,
        **{name: rounded(getattr(figures, name)) if figures else None for name in ("min", "mean", "max")},
    }


def alerts_document(view: AlertsView) -> list[dict[str, Any]]:
    """Return the alerts as JSON, oldest first, without the alert that only reports the end of the session."""
    return [alert_document(alert) for alert in reversed(view.newest_first) if alert.name != ENDED]


def met_again_words(missing: Alert) -> str:
    """Return the message that a deadline is no longer missed. `missing` is the alert about the missed deadlines."""
    worst = f": {missing.figures.max:.3g} % of a minute's inferences at worst" if missing.figures else ""
    return f"the deadline is met again, after {_lasted(missing)}{worst}"


def _lasted(alert: Alert) -> str:
    return "" if alert.end_ns is None else duration(alert.end_ns - alert.begin_ns)
