"""One alert, and the choice of the alerts that the user is notified of.

The screen, the report and the commands of `--on-event` get the same alerts.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from edgetop.analysis.deadline import MissCause
from edgetop.analysis.faults import Fault
from edgetop.analysis.memory_use import GrowthView
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttles import ThrottleAt
from edgetop.frozen import frozen
from edgetop.session.events import Severity

MAX_ALERTS = 200  # The latest of each kind are stored.
# Shortest time between two reports of an alert that comes and goes. Choice. Larger: a second failure is reported
# late; smaller: a person gets a message each second.
APART_NS = 60_000_000_000
# Time for which an alert that ended is still reported. Choice: the reader may have joined late. Larger: old troubles
# are reported as news; smaller: a short one is missed by a slow reader.
FRESH_NS = 60_000_000_000


@frozen
class Figures:
    """The lowest, mean and highest value of the measured quantity while an alert lasted, all in `unit`."""

    unit: str
    min: float
    mean: float
    max: float
    is_worst_low: bool = False

    @property
    def worst(self) -> float:
        return self.min if self.is_worst_low else self.max


@frozen
class Overloaded:
    """How many inferences per second were requested and done while a queue grew without end.

    `done_hz` is rounded to three digits.
    """

    asked_hz: float
    done_hz: float


@frozen
class Missed:
    """The deadline in ms that inferences missed, and the cause of the latest misses."""

    deadline_ms: float
    cause: MissCause | None = None  # None if unknown.


# A text is a rule as it was written, or the message of a recorded event. "" if the alert's name says everything.
About = str | Slowdown | ThrottleAt | Missed | Overloaded | GrowthView | Fault


@frozen
class Alert:
    name: str  # One of the names in `edgetop.wording.alert_names`.
    severity: Severity
    begin_ns: int
    end_ns: int | None  # None while it continues, or if it continued to the end of the session.
    about: About = ""  # What the alert is about.
    rule: str = ""  # The user's rule as it was written; "" for a built-in alert.
    figures: Figures | None = None  # None if the alert is not about a value.
    is_once: bool = False  # Whether only the first alert is reported to a person.
    repeat_ns: int | None = None  # Interval after which it is reported again while it continues.
    stream: str = ""  # Name of its stream, in a session with several streams.

    @property
    def key(self) -> tuple[str, ...]:
        """Return the identity of the alert: its name, its rule and its stream.

        At most one alert with this key is active at a time.
        """
        return self.name, self.rule, self.stream


@frozen
class AlertsView:
    newest_first: tuple[Alert, ...]  # In the order of their beginnings.
    now_ns: int
    # Past and present misses of the deadline, oldest first; for the log, not for hooks.
    missing: tuple[Alert, ...] = ()


@dataclass(slots=True)
class _Reported:
    until_ns: int = -1  # Alerts that began before have been reported.
    at_ns: int | None = None


class AlertNews:
    """Chooses the alerts to notify the user of, at each refresh of the screen.

    Each alert is chosen when it begins, and again while it continues if its rule asks for repetition.
    """

    def __init__(self, each: Collection[str] = ()) -> None:
        """Begin with no alert reported.

        `each`: the names of the alerts that are reported at every beginning. An alert with another name is reported at
        most once a minute, even if it begins more often.
        """
        self._each = each
        self._now_ns = 0
        self._reported: dict[tuple[str, ...], _Reported] = {}
        self._begins_ns: deque[int] = deque(maxlen=MAX_ALERTS)  # Beginnings of the alerts that are reported every time.

    def due(self, view: AlertsView) -> list[Alert]:
        """Return the alerts of `view` that the user must be notified of now, oldest first.

        The returned alerts are marked as reported, so the next call does not return them again.
        """
        if view.now_ns < self._now_ns:  # Another session began, whose time starts again.
            self._reported, self._begins_ns = {}, deque(maxlen=MAX_ALERTS)
        self._now_ns = view.now_ns
        newest: dict[tuple[str, ...], Alert] = {}
        for alert in view.newest_first:
            if alert.name not in self._each:
                newest.setdefault(alert.key, alert)
        due = [alert for alert in newest.values() if self._is_due(alert, view.now_ns)]
        due += [alert for alert in view.newest_first if alert.name in self._each and self._is_new(alert, view.now_ns)]
        return sorted(due, key=lambda alert: alert.begin_ns)

    def _is_new(self, alert: Alert, now_ns: int) -> bool:
        """Whether `alert` has not been reported yet and is recent. If so, mark the alert as reported.

        An alert that ended more than a minute before `now_ns`, the session time in ns, is not recent. A reported alert
        that began during `alert` is the same alert, whose beginning was corrected since.
        """
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
        elif alert.begin_ns > last.until_ns:  # A beginning may still move a little.
            if since_ns is not None and since_ns < APART_NS and not alert.is_once:
                return False  # It is reported later, if it still continues.
            is_due = since_ns is None or not alert.is_once
        else:
            repeats = alert.end_ns is None and alert.repeat_ns is not None
            is_due = repeats and since_ns is not None and since_ns >= (alert.repeat_ns or 0)
        last.until_ns = max(last.until_ns, now_ns if alert.end_ns is None else alert.end_ns)
        if is_due:
            last.at_ns = now_ns
        return is_due
