"""What a person has not heard of yet: each alert once as it begins, and again where its rule says so."""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from edgetop.analysis.alerts.alert import KEPT, Alert, AlertsView

APART_NS = 60_000_000_000  # one that comes and goes is told no more often
FRESH_NS = 60_000_000_000  # what ended longer ago is no news: whoever joins a session late hears of what goes on


@dataclass(slots=True)
class _Told:
    until_ns: int = -1  # what began before has been told
    at_ns: int | None = None


class AlertNews:
    """To be asked again and again."""

    def __init__(self, each: Collection[str] = ()) -> None:
        """`each`: names of alerts of which every one is told, however soon after another."""
        self._each = each
        self._now_ns = 0
        self._told: dict[tuple[str, str], _Told] = {}
        self._begins_ns: deque[int] = deque(maxlen=KEPT)  # of those that are told each

    def look(self, view: AlertsView) -> list[Alert]:
        """The alerts that are to be told now, oldest first."""
        if view.now_ns < self._now_ns:  # another session, whose time begins anew
            self._told, self._begins_ns = {}, deque(maxlen=KEPT)
        self._now_ns = view.now_ns
        newest: dict[tuple[str, str], Alert] = {}
        each = []
        for alert in view.newest_first:
            if alert.name in self._each:
                each.append(alert)
            else:
                newest.setdefault(alert.key, alert)
        due = [alert for alert in newest.values() if self._is_due(alert, view.now_ns)]
        due += [alert for alert in each if self._is_new(alert, view.now_ns)]
        return sorted(due, key=lambda alert: alert.begin_ns)

    def _is_new(self, alert: Alert, now_ns: int) -> bool:
        """Of one that is told each. Its beginning may be judged anew, and move a little."""
        end_ns = now_ns if alert.end_ns is None else alert.end_ns
        if now_ns - end_ns > FRESH_NS or any(alert.begin_ns <= told_ns <= end_ns for told_ns in self._begins_ns):
            return False
        self._begins_ns.append(alert.begin_ns)
        return True

    def _is_due(self, alert: Alert, now_ns: int) -> bool:
        told = self._told.setdefault(alert.key, _Told())
        since_ns = None if told.at_ns is None else now_ns - told.at_ns
        if alert.end_ns is not None and now_ns - alert.end_ns > FRESH_NS:
            is_due = False
        elif alert.begin_ns > told.until_ns:  # a beginning may be judged anew, and move a little
            if since_ns is not None and since_ns < APART_NS and not alert.is_told_once:
                return False  # later, if it still goes on
            is_due = since_ns is None or not alert.is_told_once
        else:
            is_going_on = alert.end_ns is None and alert.repeat_ns is not None
            is_due = is_going_on and since_ns is not None and since_ns >= (alert.repeat_ns or 0)
        told.until_ns = max(told.until_ns, now_ns if alert.end_ns is None else alert.end_ns)
        if is_due:
            told.at_ns = now_ns
        return is_due
