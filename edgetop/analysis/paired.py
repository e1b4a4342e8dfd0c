"""The difference between two things that were measured in pairs, with its interval.

The estimate is Hodges and Lehmann's: the median of the means of all pairs of differences (Walsh averages). Its interval
is what Wilcoxon's signed-rank test does not reject (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods,
3rd ed., 3.2 and 3.3). Neither assumes more than that the differences are symmetric about their middle.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen

Floats = npt.NDArray[np.float64]

CONFIDENCE = 0.96  # 95 % after stopping at a narrow enough interval (tests/analysis/test_paired.py)
LEAST_PAIRS = 6  # under them no interval is 95 % sure: 2 / 2^5 > 5 %
MOST_PAIRS = 200  # more are joined, neighbours with neighbours: the averages of all pairs grow with their square
FAR_OFF = 5 * 1.4826  # medians of absolute deviations: five standard deviations of a normal law
SMALLEST = 1e-6  # of these: where most are equal, nothing is far off
EXACT_PAIRS = 50  # up to which the distribution of ranks is counted out
MOST_OF_A_SIDE = 200  # more are thinned to as many quantiles: the pairs of two sides grow with their product


@frozen
class Difference:
    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def undisturbed(values: Floats) -> Floats:
    """Drop values so far off that something must have come between the two measurements of the pair.

    On a CPU that others want too, a median can jump to several times its value in one turn and not in the next. The
    limit is far enough out to leave 95 % intervals what they are, for heavy tails too (tests/analysis/test_paired.py).
    """
    if len(values) < 2 * LEAST_PAIRS:  # too few to tell what is far off
        return values
    off = np.abs(values - np.median(values))
    return np.asarray(values[off <= FAR_OFF * max(float(np.median(off)), SMALLEST)])


def typical_ratio(first: Floats, second: Floats) -> float:
    """Return the median ratio of `second` to `first` over all pairs (Hodges and Lehmann, of two samples).

    Where both have one shape, it is the ratio of their medians. But half of both may be held up by neighbours: then a
    median lies anywhere between the two levels, and that of the pairs, of which most are alike, does not.
    """
    sides = (np.log(_thinned(side)) for side in (first, second))
    return math.exp(float(np.median(np.subtract.outer(*reversed(list(sides))))))


def _thinned(values: Floats) -> Floats:
    if len(values) <= MOST_OF_A_SIDE:
        return values
    return np.quantile(values, (np.arange(MOST_OF_A_SIDE) + 0.5) / MOST_OF_A_SIDE)


def difference(values: Floats, confidence: float = CONFIDENCE) -> Difference | None:
    """Return the difference from paired differences. None: too few, or one is not finite."""
    if len(values) > MOST_PAIRS:
        values = np.array([part.mean() for part in np.array_split(values, MOST_PAIRS)])
    if len(values) < LEAST_PAIRS or not np.isfinite(values).all():
        return None
    first, second = np.triu_indices(len(values))
    averages = np.sort((values[first] + values[second]) / 2)
    cut = _rejected(len(values), 1 - confidence)
    return Difference(float(np.median(averages)), float(averages[cut]), float(averages[-1 - cut]))


@lru_cache
def _rejected(count: int, level: float) -> int:
    """Return how many averages at each end the two-sided test rejects at this level."""
    total = count * (count + 1) // 2
    if count > EXACT_PAIRS:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        from statistics import NormalDist  # noqa: PLC0415  of a long session alone

        return max(0, math.floor(total / 2 + NormalDist().inv_cdf(level / 2) * spread - 0.5) - 1)
    ways = np.zeros(total + 1)
    ways[0] = 1.0
    for rank in range(1, count + 1):
        ways[rank:] += ways[: total + 1 - rank].copy()
    below = np.cumsum(ways) / 2.0**count
    return max(0, int(np.searchsorted(below, level / 2, side="right")) - 1)
