"""The difference between the means of two sides of a comparison, and its uncertainty.

The unit is the session, because successive inferences are similar. If a side has several sessions, their spread
decides, by Student's t test, or by that of Welch 1947 if the sides differ in size or spread (The generalization of
Student's problem when several population variances are involved, Biometrika 34). If each side has one session, the
spread between runs is unknown, so each session brings its own, cautious estimate.
"""

import bisect
import functools
import math
from collections.abc import Sequence

import numpy as np

from edgetop.frozen import frozen

# Probability of chance below which a difference is real. Choice: the usual one. Larger: chance is a regression;
# smaller: regressions are missed.
LEVEL = 0.05
# Ratio of variances within which both sides scatter alike. Computed: five sessions a side differ by less in 95 of 100
# cases. Larger: a side that scatters more is underestimated; smaller: regressions are missed, as there are fewer
# degrees of freedom.
ALIKE = 9.0
# Degrees of freedom for the quarters of two sessions. Computed: three of each. Larger: chance is a regression;
# smaller: regressions are missed.
LONE_FREEDOM = 6


@frozen
class Side:
    """One side of a comparison: the values of one figure in its sessions, on the scale on which they are compared."""

    values: Sequence[float]
    lone: float | None = None  # for a single session: standard deviation between such runs; None if unknown


@frozen
class Contrast:
    """The difference of two means, second side minus first side, with its uncertainty."""

    difference: float
    error: float  # standard error
    freedom: float

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return (low, high): the interval that contains the true difference with probability 1 - `level`."""
        half = self.error * quantile(level, self.freedom)
        return self.difference - half, self.difference + half

    def with_fixed(self, error: float) -> "Contrast":
        """Return a copy with one more standard error, which no number of sessions reduces.

        The degrees of freedom follow from the formula of Welch and Satterthwaite (JCGM 100:2008, G.4.1).
        """
        if not error:
            return self
        whole = math.hypot(self.error, error)
        freedom = self.freedom * (whole / self.error) ** 4 if self.error else math.inf
        return Contrast(self.difference, whole, min(freedom, _MOST_FREEDOM))

    @property
    def chance(self) -> float:
        """The two-sided p-value: the probability of a difference at least this large if there is none in truth."""
        if not self.error:
            return float(not self.difference)
        return tails(abs(self.difference) / self.error, self.freedom)


def contrast(first: Side, second: Side) -> Contrast | None:
    """Return the difference of the two sides' means with its uncertainty, or None if the uncertainty is unknown."""
    difference = float(np.mean(second.values)) - float(np.mean(first.values))
    sizes = len(first.values), len(second.values)
    if max(sizes) == 1:
        if first.lone is None or second.lone is None:
            return None
        return Contrast(difference, math.hypot(first.lone, second.lone), LONE_FREEDOM)
    if min(sizes) == 1:  # a single session is assumed to vary like the other side
        several = max(first, second, key=lambda side: len(side.values))
        return Contrast(difference, math.sqrt(_variance(several) * (1 + 1 / max(sizes))), max(sizes) - 1)
    parts = [_variance(side) / size for side, size in zip((first, second), sizes, strict=True)]
    whole = sum(parts)
    weight = sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    is_even = sizes[0] == sizes[1] and max(parts) <= ALIKE * min(parts)
    return Contrast(difference, math.sqrt(whole), sum(sizes) - 2.0 if is_even or not weight else whole**2 / weight)


def sessions_needed(spread: float, target: float, level: float = LEVEL) -> int | None:
    """Return how many sessions each side needs for an interval of at most plus or minus `target`; None for over 1,000.

    `spread` is the standard deviation between sessions of one side. `level` is the share of intervals that may miss the
    true value.

    >>> sessions_needed(0.01, 0.02), sessions_needed(0.01, 0.01), sessions_needed(1.0, 0.001)
    (4, 9, None)
    """

    def is_enough(sessions: int) -> bool:
        return quantile(level, 2.0 * (sessions - 1)) * spread * math.sqrt(2 / sessions) <= target

    if not is_enough(_MOST_SESSIONS):
        return None
    sessions = bisect.bisect_left(range(_LEAST_SESSIONS, _MOST_SESSIONS), True, key=is_enough)
    return _LEAST_SESSIONS + sessions


def _variance(side: Side) -> float:
    return float(np.var(side.values, ddof=1))


_LEAST_SESSIONS, _MOST_SESSIONS = 2, 1000
_PLACES = 20_001
_MOST_FREEDOM = 1e4


@functools.lru_cache(64)
def _beyond(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """Return values of t from 0 on, and for each the probability that |t| is greater, in Student's distribution."""
    freedom = min(max(freedom, 1.0), _MOST_FREEDOM)
    # With v degrees of freedom and t = sqrt(v) tan(u), the density is proportional to cos(u)^(v-1), which is smooth and
    # ends at pi/2.
    angle = np.linspace(0, np.pi / 2, _PLACES)
    density = np.cos(angle) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return np.sqrt(freedom) * np.tan(angle[:-1]), 1 - below[:-1] / below[-1]


def quantile(level: float, freedom: float) -> float:
    """Return the t that Student's |t| exceeds with probability `level`. `freedom` is the number of degrees of freedom.

    >>> [round(quantile(0.05, v), 3) for v in (1, 2, 8, 1e9)], round(quantile(0.01, 8), 3)
    ([12.706, 4.303, 2.306, 1.96], 3.355)
    """
    places, share = _beyond(freedom)
    return float(np.interp(-level, -share, places))


def tails(t: float, freedom: float) -> float:
    """Return the probability that Student's |t| exceeds `t`. `freedom` is the number of degrees of freedom.

    >>> round(tails(2.306, 8), 4), tails(0.0, 3)
    (0.05, 1.0)
    """
    places, share = _beyond(freedom)
    return float(np.interp(t, places, share))
