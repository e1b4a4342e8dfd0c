"""The spans in which a rule held, second by second; the result does not depend on how seconds were batched."""

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.analysis.alerts.alert import MAX_ALERTS, RULE, Alert, Figures
from edgetop.analysis.alerts.rules import AlertRule, Floats
from edgetop.session.seconds import NS

MAX_VALUE = 1e9  # for the mean: the millionths of thousands of seconds fit into 64 bits


@dataclass(slots=True)
class Excursion:
    begin_s: int
    end_s: int | None = None  # None: it continues
    is_alert: bool = False  # it has held for long enough
    count: int = 0  # of seconds with a known value
    sum_millionths: int = 0  # in the unit of the rule; the same however the seconds are cut
    low: float = np.inf
    high: float = -np.inf

    def add(self, values: Floats) -> None:
        known = values[~np.isnan(values)]
        if len(known):
            self.count += len(known)
            self.sum_millionths += int(np.rint(np.clip(known, -MAX_VALUE, MAX_VALUE) * 1e6).astype(np.int64).sum())
            self.low, self.high = min(self.low, float(known.min())), max(self.high, float(known.max()))


class Excursions:
    def __init__(self, rule: AlertRule, name: str = RULE) -> None:
        """`name`: the name of the alerts. Edgetop's own rules have other names than the user's."""
        self.rule = rule
        self._name = name
        self._next_s = 0
        self._open: Excursion | None = None
        self._closed: deque[Excursion] = deque(maxlen=MAX_ALERTS)

    def fold(self, first_s: int, values: Floats) -> None:
        """Fold the values of successive seconds, in the unit of their series."""
        if self._open and first_s > self._next_s and not self._open.is_alert:
            self._open = None  # the seconds between are not known
        self._next_s = first_s + len(values)
        values = values / self.rule.scale
        holds = self.rule.holds(values)
        if self._open is None and not holds.any():
            return
        holding, not_holding, over = map(np.flatnonzero, (holds, ~holds, self.rule.is_over(values)))
        i = 0
        while i < len(values):  # on to where it begins to hold, no longer does, or is over
            span = self._open
            if span is None:
                i = _next(holding, i, len(values))
                self._open = Excursion(first_s + i) if i < len(values) else None
                continue
            stop = _next(over if span.is_alert else not_holding, i, len(values))
            span.add(values[i:stop])
            if not span.is_alert and first_s + stop - span.begin_s >= max(1, self.rule.for_s):
                span.is_alert = True
            elif stop < len(values):
                self._open = None
                if span.is_alert:
                    span.end_s = first_s + stop
                    self._closed.append(span)
            i = stop

    def alerts(self) -> list[Alert]:
        """Return the alerts, oldest first."""
        spans = [*self._closed, *([self._open] if self._open and self._open.is_alert else [])]
        return [self._alert(span) for span in spans]

    def _alert(self, span: Excursion) -> Alert:
        rule = self.rule
        figures = None
        if rule.compare and span.count:
            mean = span.sum_millionths / 1e6 / span.count
            figures = Figures(rule.unit, span.low, mean, span.high, is_worst_low=rule.compare[0] == "<")
        return Alert(
            name=self._name,
            severity="warning",
            begin_ns=span.begin_s * NS,
            end_ns=None if span.end_s is None else span.end_s * NS,
            text=rule.text,
            rule=rule.text if self._name == RULE else "",
            figures=figures,
            is_once=rule.is_once,
            repeat_ns=rule.repeat_ns,
        )


def _next(places: npt.NDArray[np.intp], i: int, otherwise: int) -> int:
    """Return the first of the places from `i` on; `otherwise` if there is none."""
    nth = int(np.searchsorted(places, i))
    return int(places[nth]) if nth < len(places) else otherwise
