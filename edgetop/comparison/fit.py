"""The fit: a line through the latencies of models on two machines, and its predictions for other models.

On logarithms, for models differ by factors and so do errors. The slope is Theil and Sen's, the median of the slopes of
all pairs (Sen 1968, Journal of the American Statistical Association 63), which one odd model does not turn; the
intercept is the median of what is left. The interval of a prediction is that of a straight line (Draper and Smith,
Applied Regression Analysis, 3rd ed., 1.4), with the scatter of the models about this one; `edgetop help fit` has how
often it holds.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from edgetop.analysis.timeline import Floats
from edgetop.comparison.student import LEVEL, quantile

LEAST_MODELS = 3
MOST_LOG = 300.0
SCATTER = 0.0142  # as the log: two runs of one thing differ by 1 % each, however well a line goes through them


@dataclass(frozen=True, slots=True)
class Kind:
    """The properties that models on one line share."""

    from_runtime: str
    on_runtime: str
    precision: str
    family: str = ""  # the label, where there is one

    @property
    def words(self) -> str:
        there = "" if self.on_runtime == self.from_runtime else f"{self.on_runtime} there"
        return ", ".join(filter(None, (self.from_runtime, there, self.precision, self.family)))


@dataclass(frozen=True, slots=True)
class Pair:
    """A model on both sides."""

    name: str
    sha256: str
    kind: Kind
    from_ms: float
    on_ms: float


@dataclass(frozen=True, slots=True)
class Line:
    kind: Kind
    pairs: tuple[Pair, ...]
    slope: float  # of the logarithms: 1 is a device that is slower by the same factor for all
    factor: float  # what a model of 1 ms takes there, in ms
    r2: float | None  # None: all take the same time there
    tau: float  # Kendall's tau-b between the two rankings
    left_out: tuple[float, ...]  # of each model: by what share the line of the others misses it
    scatter: float  # standard deviation about the line, as the log

    def at(self, from_ms: float) -> float:
        return _exp(math.log(self.factor) + self.slope * math.log(from_ms))

    @property
    def range_ms(self) -> tuple[float, float]:
        known = [pair.from_ms for pair in self.pairs]
        return min(known), max(known)

    def interval(self, from_ms: float, level: float = LEVEL) -> tuple[float, float]:
        """Return the interval in ms for the latency there of a model of this kind that takes `from_ms` here.

        It contains that latency with probability 1 - `level`.
        """
        x = np.log([pair.from_ms for pair in self.pairs])
        off = float((math.log(from_ms) - x.mean()) ** 2 / np.square(x - x.mean()).sum())
        half = quantile(level, len(x) - 2) * self.scatter * math.sqrt(1 + 1 / len(x) + off)
        middle = math.log(self.at(from_ms))
        return _exp(middle - half), _exp(middle + half)


def why_no_line(pairs: Sequence[Pair]) -> str:
    """Return why there is no line; "": there is one."""
    if len(pairs) < LEAST_MODELS:
        are = "model is" if len(pairs) == 1 else "models are"
        return f"{len(pairs)} {are} on both sides, and a line needs {LEAST_MODELS}"
    if len({pair.from_ms for pair in pairs}) < LEAST_MODELS:
        return "the models take the same time here, which tells nothing of others"
    return ""


def line(pairs: Sequence[Pair]) -> Line:
    """Through models of one kind, of which `why_no_line` says nothing."""
    ordered = tuple(sorted(pairs, key=lambda pair: pair.from_ms))
    x, y = np.log([pair.from_ms for pair in ordered]), np.log([pair.on_ms for pair in ordered])
    slope, base = theil_sen(x, y)
    rest = y - base - slope * x
    spread = float(np.square(y - y.mean()).sum())
    others = [theil_sen(np.delete(x, k), np.delete(y, k)) for k in range(len(x))]
    return Line(
        kind=ordered[0].kind,
        pairs=ordered,
        slope=slope,
        factor=_exp(base),
        r2=1 - float(np.square(rest).sum()) / spread if spread else None,
        tau=kendall(x, y),
        left_out=tuple(_exp(abs(float(y[k] - b - s * x[k]))) - 1 for k, (s, b) in enumerate(others)),
        scatter=max(math.sqrt(float(np.square(rest).sum()) / (len(x) - 2)), SCATTER),
    )  # fmt: skip


def _exp(log: float) -> float:
    """Models that take nearly the same time here can make a slope of any size."""
    return math.exp(min(max(log, -MOST_LOG), MOST_LOG))


def theil_sen(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept.

    >>> theil_sen(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 5.0, 7.0, 70.0]))
    (2.0, 1.0)
    """
    slopes = [(y[j] - y[i]) / (x[j] - x[i]) for i, j in combinations(range(len(x)), 2) if x[j] != x[i]]
    slope = float(np.median(slopes)) if slopes else 0.0
    return slope, float(np.median(y - slope * x))


def kendall(x: Floats, y: Floats) -> float:
    """Kendall's tau-b: 1 is the same order, -1 the reverse, 0 none; 0 as well where one of them is all ties.

    >>> kendall(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0]))
    0.6666666666666666
    """
    first, second = np.triu_indices(len(x), 1)
    signs = [np.sign(each[second] - each[first]) for each in (x, y)]
    untied = math.sqrt(float(np.abs(signs[0]).sum() * np.abs(signs[1]).sum()))
    return float((signs[0] * signs[1]).sum() / untied) if untied else 0.0
