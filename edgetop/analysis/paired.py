"""The difference between two things that were measured in pairs, and its confidence interval.

The estimate (Hodges-Lehmann) is the median of the means of any two differences (Walsh averages). Its interval contains
the values that Wilcoxon's signed-rank test accepts (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods,
3rd ed., 3.2 and 3.3). Both assume only that the differences are symmetric about their middle.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen

Floats = npt.NDArray[np.float64]

# Confidence of an interval that a session may stop for. Measured: sessions stop when it is narrow, so 96 % amounts to
# 95 % (tests/analysis/test_paired.py). Larger: sessions last longer; smaller: equal models differ.
CONFIDENCE = 0.96
# Number of pairs for an interval. Statistics: with fewer none reaches 95 %, as 2 / 2^5 > 5 %. Larger: short sessions
# have none; smaller: it promises too much.
LEAST_PAIRS = 6
# Number of pairs for an interval that takes the differences for normally distributed. Statistics: with two pairs,
# Student's t is 16. Larger: a session that was cut short has no interval; smaller: its interval says nothing.
FEWEST_PAIRS = 3
# Student's t that a normal mean exceeds to each side with probability (1 - CONFIDENCE) / 2, by the number of pairs.
STUDENT = {3: 4.849, 4: 3.482, 5: 2.999}
# More pairs are joined with their neighbours, because the number of pairwise averages grows with the square.
MOST_PAIRS = 200
# Distance of a pair from the middle, in medians of absolute deviations, from which it was disturbed. Statistics: five
# standard deviations of a normal distribution. Larger: a disturbed turn decides; smaller: heavy tails are cut, and
# intervals are too narrow.
FAR_OFF = 5 * 1.4826
SMALLEST = 1e-6  # Least median of absolute deviations: if most values are equal, small differences are not outliers.
EXACT_PAIRS = 50  # Up to this many pairs, the distribution of ranks is computed exactly.
# More values are reduced to this many quantiles, because the number of pairs grows with the product of both sides.
MOST_OF_A_SIDE = 200


@frozen
class Difference:
    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


def undisturbed(values: Floats) -> Floats:
    """Return `values` without outliers. If there are few values, all of them are returned.

    `values`: one difference for each pair of measurements. An outlier is a value far from the median of `values`. It
    arises if another program disturbed only one measurement of the pair. The limit is so far from the median that 95 %
    intervals stay correct, even with heavy tails (tests/analysis/test_paired.py).
    """
    if len(values) < 2 * LEAST_PAIRS:  # With so few values, outliers cannot be told.
        return values
    off = np.abs(values - np.median(values))
    return np.asarray(values[off <= FAR_OFF * max(float(np.median(off)), SMALLEST)])


def typical_ratio(first: Floats, second: Floats) -> float:
    """Return the typical ratio of a value in `second` to a value in `first`: the median over all pairs of values.

    This is the two-sample Hodges-Lehmann estimate. For distributions of one shape, it is the ratio of their medians. If
    other programs slow down half of the values in `first` and in `second`, each median may be a slow or a fast value,
    but the median over all pairs stays near the true ratio.
    """
    sides = (np.log(_thinned(side)) for side in (first, second))
    return math.exp(float(np.median(np.subtract.outer(*reversed(list(sides))))))


def _thinned(values: Floats) -> Floats:
    if len(values) <= MOST_OF_A_SIDE:
        return values
    return np.quantile(values, (np.arange(MOST_OF_A_SIDE) + 0.5) / MOST_OF_A_SIDE)


def difference(values: Floats, confidence: float = CONFIDENCE) -> Difference | None:
    """Return the typical difference between two things, with its confidence interval.

    `values`: the difference within each pair of measurements. `confidence`: the probability of the interval, such as
    0.95. The result is None if there are too few pairs, or if a value is infinite or NaN.
    """
    if len(values) > MOST_PAIRS:
        values = np.array([part.mean() for part in np.array_split(values, MOST_PAIRS)])
    if len(values) < LEAST_PAIRS or not np.isfinite(values).all():
        return None
    first, second = np.triu_indices(len(values))
    averages = np.sort((values[first] + values[second]) / 2)
    cut = _rejected(len(values), 1 - confidence)
    return Difference(float(np.median(averages)), float(averages[cut]), float(averages[-1 - cut]))


def wide_difference(values: Floats) -> Difference | None:
    """Return the mean of 3 to 5 differences with Student's interval; None for another number, or an infinite value.

    `values`: the difference within each pair of measurements. Unlike that of `difference`, the interval assumes that
    they are normally distributed. Heavy tails make it wider than needed (Cressie 1980, Relaxing assumptions in the one
    sample t-test, Australian Journal of Statistics 22).
    """
    times = STUDENT.get(len(values))
    if times is None or len(values) < FEWEST_PAIRS or not np.isfinite(values).all():
        return None
    middle, half = float(values.mean()), times * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Difference(middle, middle - half, middle + half)


@lru_cache
def _rejected(count: int, level: float) -> int:
    """Return how many of the sorted means of two differences lie outside of the confidence interval at each end.

    `count`: the number of differences. `level`: the significance level of the two-sided test, such as 0.05.
    """
    total = count * (count + 1) // 2
    if count > EXACT_PAIRS:
        spread = math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
        from statistics import NormalDist  # noqa: PLC0415  only long sessions need it

        return max(0, math.floor(total / 2 + NormalDist().inv_cdf(level / 2) * spread - 0.5) - 1)
    ways = np.zeros(total + 1)
    ways[0] = 1.0
    for rank in range(1, count + 1):
        ways[rank:] += ways[: total + 1 - rank].copy()
    below = np.cumsum(ways) / 2.0**count
    return max(0, int(np.searchsorted(below, level / 2, side="right")) - 1)
