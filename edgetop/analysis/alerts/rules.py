"""Alert rules of the user: an expression like that of a gate, and how long it must hold.

    temp>80C for=30s until=75C repeat=10m

The expression is that of `edgetop help gates`, judged second by second.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.analysis.gates import METRICS, Gate, parse_gate
from edgetop.formatting import parse_clock_time
from edgetop.nearest import nearest_hint

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

HYSTERESIS, HYSTERESIS_C = 0.05, 2.0  # of the limit; of a temperature
SET = 1.0  # the least value for a condition without a comparison
NS = 1_000_000_000

_COMPARE: dict[str, Callable[[Floats, float], Bools]] = {
    ">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal,
}  # fmt: skip
THROTTLED = "throttled"  # reported by the board: in spans, not second by second
ONCE = "once"
WORDS = ("for", "until", "repeat")
_WORD = re.compile(r"([A-Za-z]+)=([^=<>\s]+)")
_OF_SESSION = {
    "energy": "energy is known of a whole session; make it a gate: --fail-if",
    "drift": "edgetop tells by itself when it is slowed or throttled",
    "leak": "edgetop tells by itself of a leak",
}
_OFFERED = tuple(name for name in METRICS if name not in _OF_SESSION)


@dataclass(frozen=True, slots=True)
class AlertRule:
    text: str  # as it was written
    series: str  # which values it is about: `temp`, or `misses%` for a share
    compare: str = ""  # "": the name alone is the condition, as in `throttled`
    limit: float = 0.0  # in `unit`
    until: float = 0.0  # in `unit`: at it, or beyond, the alert is over
    unit: str = ""
    scale: float = 1.0  # how many of the values' own unit one `unit` is
    for_s: int = 0
    is_once: bool = False
    repeat_ns: int | None = None

    @property
    def name(self) -> str:
        """Return the name in the expression, as it was written."""
        return self.series.removesuffix("%")

    def holds(self, values: Floats) -> Bools:
        """Whether each of `values`, in `unit`, meets the condition. NaN, an unknown value, does not."""
        if not self.compare:
            return np.asarray(values >= SET)
        return np.asarray(_COMPARE[self.compare](values, self.limit))

    def is_over(self, values: Floats) -> Bools:
        if not self.compare:
            return np.asarray(values < SET)
        back = _COMPARE["<=" if self.compare[0] == ">" else ">="]
        return np.asarray(back(values, self.until)) & ~self.holds(values)


def parse_rule(text: str) -> AlertRule:
    """Parse a rule. Raises ValueError, which says how to write it."""
    expression, words = _split(text)
    gate = parse_gate(" ".join(expression), "a rule", _OFFERED)
    if gate.name in _OF_SESSION:
        raise ValueError(f"{text!r}: {_OF_SESSION[gate.name]}")
    if ONCE in words and "repeat" in words:
        raise ValueError(f"{text!r}: once and repeat= contradict each other")
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
    """Split into the words of the expression, and the words after it with their values."""
    words: dict[str, str] = {}
    expression = []
    for token in text.split():
        match = _WORD.fullmatch(token)
        if token != ONCE and match is None:
            expression.append(token)
            continue
        word, value = (match[1], match[2]) if match else (ONCE, "")
        if match and word not in WORDS:
            raise ValueError(f"{text!r}: {word}= is not known ({nearest_hint(word, WORDS)})")
        if word in words:
            raise ValueError(f"{text!r}: {word}{'=' if match else ''} is given twice")
        words[word] = value
    return expression, words


def _time(text: str, words: dict[str, str], word: str) -> int | None:
    """Parse a time to ns; None: it is not given."""
    if word not in words:
        return None
    time_ns = parse_clock_time(words[word])
    if not time_ns:
        raise ValueError(f"{text!r}: {word}={words[word]} is no time at all")
    return time_ns


def _until(text: str, gate: Gate, given: str | None) -> float:
    is_above = gate.compare[:1] == ">"
    if given is None:
        margin = HYSTERESIS_C if gate.name == "temp" else abs(gate.limit) * HYSTERESIS
        return gate.limit - margin if is_above else gate.limit + margin
    if not gate.compare:
        raise ValueError(f"{text!r}: until= needs a limit to come back from")
    until = parse_gate(f"{gate.name}{gate.compare}{given}", "a rule")
    if until.unit != gate.unit:
        raise ValueError(f"{text!r}: give until= in {gate.unit or 'no unit'}, as the limit")
    if (until.limit > gate.limit) if is_above else (until.limit < gate.limit):
        raise ValueError(f"{text!r}: until={given} lies on the wrong side of the limit")
    return until.limit
