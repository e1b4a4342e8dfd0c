"""The alert rules of a user: the parser of their text, and the times in which the condition of a rule held.

    temp>80C for=30s until=75C repeat=10m

A rule has an expression, written like that of a gate (`edgetop help gates`), which is checked for each second of the
session. The options say for how long the expression must hold (`for`), at which value the alert ends (`until`), and how
often it is repeated (`repeat`).
"""

import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.analysis.alerts.alert import MAX_ALERTS, Alert, Figures
from edgetop.analysis.alerts.alert_codes import RULE
from edgetop.analysis.refused_rule import Flaw, RefusedRuleError
from edgetop.analysis.session_gates import Gate, parse_gate
from edgetop.formatting import parse_clock_time
from edgetop.frozen import frozen
from edgetop.session.seconds import NS

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Share of the limit by which a value must go back until an alert without `until=` is over. Choice: more than the noise
# of a value that stays at its limit. Larger: an alert goes on long after its reason; smaller: alerts come and go.
HYSTERESIS = 0.05
# The same for a temperature, because a share of a number in °C means nothing. Choice: zones vary by a degree. Larger:
# an alert goes on long after the board has cooled; smaller: alerts come and go.
HYSTERESIS_C = 2.0
SET = 1.0  # Least value that meets a condition without a comparison.
MAX_VALUE = 1e9  # Limit for the mean, so that the millionths of thousands of seconds fit into 64 bits.
_COMPARE: dict[str, Callable[[Floats, float], Bools]] = {
    ">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal,
}  # fmt: skip
THROTTLED = "throttled"  # Reported by the board in spans, not second by second.
ONCE = "once"
WORDS = ("for", "until", "repeat")
_WORD = re.compile(r"([A-Za-z]+)=([^=<>\s]+)")
_BUILT_IN = ("drift", "leak")  # edgetop reports these troubles without a rule.
# The gates with a value each second: see `values`.
PER_SECOND = (
    "p50", "p90", "p95", "p99", "p999", "mean", "max", "misses", "rss", "temp", "power", THROTTLED, "errors"
)  # fmt: skip


@frozen
class AlertRule:
    text: str  # The rule as it was written.
    series: str  # The values to check, such as `temp`, or `misses%` for a share.
    compare: str = ""  # "" if the name alone is the condition, as in `throttled`.
    limit: float = 0.0  # In `unit`.
    until: float = 0.0  # In `unit`: the alert is over at this value or beyond it.
    unit: str = ""
    scale: float = 1.0  # Size of one `unit`, in the values' own unit.
    for_s: int = 0
    is_once: bool = False
    repeat_ns: int | None = None

    @property
    def name(self) -> str:
        """Return the name of the checked value, such as `temp` or `misses`."""
        return self.series.removesuffix("%")

    def holds(self, values: Floats) -> Bools:
        """Return an array that says for each of `values` whether it meets the condition of the rule.

        The values are in the unit of the rule. An unknown value (NaN) does not meet the condition.
        """
        if not self.compare:
            return np.asarray(values >= SET)
        return np.asarray(_COMPARE[self.compare](values, self.limit))

    def is_over(self, values: Floats) -> Bools:
        if not self.compare:
            return np.asarray(values < SET)
        back = _COMPARE["<=" if self.compare[0] == ">" else ">="]
        return np.asarray(back(values, self.until)) & ~self.holds(values)

    def alert(self, begin_ns: int, end_ns: int | None, name: str = RULE, figures: Figures | None = None) -> Alert:
        """Return an alert of this rule that lasted from `begin_ns` to `end_ns`, in ns of session time.

        `end_ns` is None if the alert continues. `name`: the name of the alert, which is a built-in name for a built-in
        rule. `figures`: the lowest, mean and highest value during the alert.
        """
        rule = self.text if name == RULE else ""
        return Alert(name, "warning", begin_ns, end_ns, self.text, rule, figures, self.is_once, self.repeat_ns)


def parse_rule(text: str) -> AlertRule:
    """Return the rule that a text such as `temp>80C for=30s until=75C` describes.

    Raises RefusedRuleError if the text is no valid rule, and ValueError if a time in it cannot be read.
    """
    expression, words = _split(text)
    gate = parse_gate(" ".join(expression), PER_SECOND)
    if gate.name not in PER_SECOND:
        flaw = Flaw.BUILT_IN if gate.name in _BUILT_IN else Flaw.OF_WHOLE_SESSION
        raise RefusedRuleError(text, flaw, gate.name)
    if ONCE in words and "repeat" in words:
        raise RefusedRuleError(text, Flaw.ONCE_AND_REPEAT)
    is_share = gate.unit == "%" and gate.name in ("misses", "errors")
    return AlertRule(
        text=" ".join(text.split()),
        series=f"{gate.name}%" if is_share else gate.name,
        compare=gate.compare,
        limit=gate.limit,
        until=_until(text, gate, words.get("until")),
        unit=gate.unit,
        scale=1.0 if gate.unit in ("%", "") else gate.metric.units[gate.unit],
        for_s=math.ceil((_time(text, words, "for") or 0) / NS),
        is_once=ONCE in words,
        repeat_ns=_time(text, words, "repeat"),
    )


def _split(text: str) -> tuple[list[str], dict[str, str]]:
    """Split the text of a rule into the words of its expression, and a dict of its options.

    Raises RefusedRuleError for an unknown or repeated option.

    >>> _split("temp>80C for=30s")
    (['temp>80C'], {'for': '30s'})
    """
    words: dict[str, str] = {}
    expression = []
    for token in text.split():
        match = _WORD.fullmatch(token)
        if token != ONCE and match is None:
            expression.append(token)
            continue
        word, value = (match[1], match[2]) if match else (ONCE, "")
        if match and word not in WORDS:
            raise RefusedRuleError(text, Flaw.UNKNOWN_WORD, word, offered=WORDS)
        if word in words:
            raise RefusedRuleError(text, Flaw.GIVEN_TWICE, f"{word}=" if match else word)
        words[word] = value
    return expression, words


def _time(text: str, words: dict[str, str], word: str) -> int | None:
    """Return the duration in ns that the option `word` of an alert rule has, or None if the rule lacks this option.

    `text`: the whole rule. `words`: the values of all its options, by name. Raises ValueError if the value is not a
    duration, and RefusedRuleError if it is zero.
    """
    if word not in words:
        return None
    time_ns = parse_clock_time(words[word])
    if not time_ns:
        raise RefusedRuleError(text, Flaw.NO_TIME, word, words[word])
    return time_ns


def _until(text: str, gate: Gate, given: str | None) -> float:
    is_above = gate.compare[:1] == ">"
    if given is None:
        margin = HYSTERESIS_C if gate.name == "temp" else abs(gate.limit) * HYSTERESIS
        return gate.limit - margin if is_above else gate.limit + margin
    if not gate.compare:
        raise RefusedRuleError(text, Flaw.UNTIL_WITHOUT_LIMIT)
    until = parse_gate(f"{gate.name}{gate.compare}{given}")
    if until.unit != gate.unit:
        raise RefusedRuleError(text, Flaw.UNTIL_UNIT, value=gate.unit)
    if (until.limit > gate.limit) if is_above else (until.limit < gate.limit):
        raise RefusedRuleError(text, Flaw.UNTIL_SIDE, value=given)
    return until.limit


@dataclass(slots=True)
class Excursion:
    begin_s: int
    end_s: int | None = None  # None while it continues.
    is_alert: bool = False  # Whether it has held for long enough to be an alert.
    count: int = 0  # Number of seconds with a known value.
    # In the unit of the rule. Whole numbers, so that the sum does not depend on how seconds were batched.
    sum_millionths: int = 0
    low: float = np.inf
    high: float = -np.inf

    def add(self, values: Floats) -> None:
        known = values[~np.isnan(values)]
        if len(known):
            self.count += len(known)
            self.sum_millionths += int(np.rint(np.clip(known, -MAX_VALUE, MAX_VALUE) * 1e6).astype(np.int64).sum())
            self.low, self.high = min(self.low, float(known.min())), max(self.high, float(known.max()))


class Excursions:
    """Finds the spans of time in which the condition of one alert rule held, from one value per second."""

    def __init__(self, rule: AlertRule, name: str = RULE) -> None:
        self.rule = rule
        self._name = name
        self._next_s = 0
        self._open: Excursion | None = None
        self._closed: deque[Excursion] = deque(maxlen=MAX_ALERTS)

    def fold(self, first_s: int, values: Floats) -> None:
        """Take further values, one for each second from session second `first_s` on.

        The values are in the unit of their series, such as ms, and not in the unit of the rule.
        """
        if self._open and first_s > self._next_s and not self._open.is_alert:
            self._open = None  # The seconds in between are unknown.
        self._next_s = first_s + len(values)
        values = values / self.rule.scale
        holds = self.rule.holds(values)
        if self._open is None and not holds.any():
            return
        holding, not_holding, over = map(np.flatnonzero, (holds, ~holds, self.rule.is_over(values)))
        i = 0
        while i < len(values):  # Continue to the second in which the rule begins to hold, stops holding, or is over.
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
        """Return an alert for each span of time in which the rule's condition held for long enough, oldest first."""
        rule, alerts = self.rule, []
        for span in (*self._closed, *([self._open] if self._open and self._open.is_alert else [])):
            figures = None
            if rule.compare and span.count:
                mean = span.sum_millionths / 1e6 / span.count
                figures = Figures(rule.unit, span.low, mean, span.high, is_worst_low=rule.compare[0] == "<")
            end_ns = None if span.end_s is None else span.end_s * NS
            alerts.append(rule.alert(span.begin_s * NS, end_ns, self._name, figures))
        return alerts


def _next(places: npt.NDArray[np.intp], i: int, otherwise: int) -> int:
    """Return the first of the ascending numbers `places` that is at least `i`. If there is none, return `otherwise`.

    >>> _next(np.array([2, 5]), 3, 9), _next(np.array([2, 5]), 6, 9)
    (5, 9)
    """
    nth = int(np.searchsorted(places, i))
    return int(places[nth]) if nth < len(places) else otherwise
