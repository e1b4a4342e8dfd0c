"""The baseline: the median latency of the burst, with which everything later is compared.

The burst is the first steady 30 s of the measurement. It ends earlier if the latency rises, because this rise must be
reported as a slowdown. It begins later if the latency still falls, as it does while caches and governors settle.
"""

import math

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.levels import NEPER, OF_MEDIANS, Floats, Points, median
from edgetop.frozen import frozen

# Length of the burst. Choice: heat lowers clocks after half a minute or more. Larger: throttling falls into the
# burst; smaller: the level and the noise are known less well.
LENGTH_S = 30
# Shortest time that gives a baseline. Choice. Larger: short sessions have none; smaller: a start that still settles
# is one.
LEAST_S = 5
# Longest time for which a falling level is waited for. Choice. Larger: a model that keeps settling is long without a
# verdict; smaller: the baseline is taken while caches still fill.
PATIENCE_S = 120
# Least rise of the median over the burst that is a slowdown, as a share. Choice: seconds of a healthy board differ by
# less. Larger: a throttle by one clock step is missed; smaller: drift and noise become slowdowns.
SLOWER_SHARE = 0.08
SLOWER = round(np.log(1 + SLOWER_SHARE) * NEPER)  # The same rise as a level.
# Least sudden fall before which the burst was still settling. Choice: half of a slowdown. Larger: a slow start stays
# in the baseline and hides slowdowns; smaller: the burst begins anew at every dip.
FASTER = round(np.log(1.04) * NEPER)
# Largest change from the first half of the burst to the second that is steady. Choice. Larger: a baseline that still
# falls is too high; smaller: a healthy board waits longer for its burst.
DRIFT = round(np.log(1.025) * NEPER)
# The same for a rise, as a multiple. Choice: a rise may be the beginning of a slowdown, which must be reported.
# Larger: the slow half enters the baseline; smaller: half of a healthy burst is thrown away.
RISE_DRIFTS = 2.0
# The same in standard errors of the level, for a model that scatters. Statistics: one normal value in 370 is farther
# off. Larger: real drift passes as noise; smaller: noise passes as drift.
DRIFT_ERRORS = 3.0
# Log-likelihood ratio that proves a change within the burst. Measured: see the certainty of a slowdown, which is the
# same. Larger: a rise within the burst is averaged into it; smaller: noise cuts the burst short.
CERTAIN = 14.0
LEAST_SCATTER = 4_000
# Number of points from which their median absolute deviation is their spread. Statistics: two of three values agree by
# chance, and then the deviation is nearly 0. Larger: an outlier hides a change; smaller: chance is a change.
MANY_POINTS = 5
EDGE_POINTS, EDGE_S = 3, 2  # No change is searched nearer to the end: a median needs this many points and seconds.


@frozen
class Baseline:
    from_s: int
    to_s: int
    level: int  # In millionths of a neper.
    error: float  # Standard error of the level, in nepers.

    @property
    def p50_ns(self) -> float:
        """Return the median latency of the burst (the first steady 30 s) in ns."""
        return math.exp(self.level / NEPER)


def find_baseline(points: Points, until_s: int) -> tuple[Baseline | None, int]:
    """Return `(baseline, second)`: the baseline or None, and the first session second whose points are still needed.

    `points` has all latencies of the measured phase up to the session second `until_s`, in order, each with its session
    second. A latency is a natural logarithm, times a million. If the baseline is None, it cannot be found yet: call
    this again with later points, and without those before `second`.
    """
    if not len(points):
        return None, 0
    first_s = int(points["second"][0])
    baseline, wanted_s = _steady_baseline(points, first_s)
    if baseline is None and until_s - first_s > PATIENCE_S:
        baseline = partial_baseline(points)
    return baseline, wanted_s


def _steady_baseline(points: Points, first_s: int) -> tuple[Baseline | None, int]:
    end_s = int(points["second"][-1]) + 1
    split, step = _best_split(points)
    if step >= SLOWER:
        return baseline_of(points[:split]), first_s
    if step <= -FASTER:
        return None, int(points["second"][split])
    if end_s - first_s < LENGTH_S:
        return None, first_s
    half = len(points) // 2
    drift = median(points["level"][half:]) - median(points["level"][:half])
    if drift < -max(DRIFT, DRIFT_ERRORS * _error(points)):
        return None, end_s - LENGTH_S + 1
    is_rising = drift > max(RISE_DRIFTS * DRIFT, DRIFT_ERRORS * _error(points))
    return baseline_of(points[:half] if is_rising else points), first_s


def partial_baseline(points: Points) -> Baseline | None:
    """Return the median latency of all `points` as the baseline, or None if they cover less than 5 s.

    The result stands in for the first steady 30 s if no time was steady. `points` has the latencies in order, each with
    its session second. A latency is a natural logarithm, times a million.
    """
    if not len(points) or int(points["second"][-1]) + 1 - int(points["second"][0]) < LEAST_S:
        return None
    return baseline_of(points)


def _best_split(points: Points) -> tuple[int, float]:
    """Return the index of the point at which a change of the latency is most certain, and the size of the change.

    The size is the change of the natural logarithm of the latency, times a million: above 0 for a rise. If the latency
    does not change, the result is (0, 0.0).
    """
    second, level = points["second"], points["level"].astype(np.float64)
    low = int(np.searchsorted(second, second[0] + LEAST_S))
    high = int(np.searchsorted(second, second[-1] - EDGE_S))
    splits = np.arange(max(low, EDGE_POINTS), min(high, len(points) - EDGE_POINTS) + 1)
    if not len(splits):
        return 0, 0.0
    is_before = np.arange(len(points)) < splits[:, None]
    (before, spread_before), (after, spread_after) = (_robust(level, part) for part in (is_before, ~is_before))
    change = after - before
    spread = np.maximum(np.maximum(spread_before, spread_after), LEAST_SCATTER)
    ratio = splits * (len(level) - splits) / len(level) * change * change / (2 * spread * spread)
    best = int(np.argmax(ratio))
    if ratio[best] <= CERTAIN:
        return 0, 0.0
    split = int(splits[best])
    wider = max(_spread(level[:split]) / float(spread[best]), 1.0)
    return (split, float(change[best])) if ratio[best] > CERTAIN * wider**2 else (0, 0.0)


def _robust(level: Floats, part: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return two arrays: the median and the spread of each of several selections of the values in `level`.

    `part` has a row for each selection, with True for each selected value. The spread is a standard deviation,
    estimated from the median absolute deviation.
    """
    size = part.sum(axis=1)
    row, low, high = np.arange(len(part)), (size - 1) // 2, size // 2

    def middle(values: Floats) -> Floats:
        ordered = np.sort(np.where(part, values, np.inf), axis=1)
        return np.asarray((ordered[row, low] + ordered[row, high]) / 2)

    middles = middle(level)
    return middles, 1.4826 * middle(np.abs(level - middles[:, None]))


def _spread(level: Floats) -> float:
    """Return the standard deviation of the values in `level`.

    For MANY_POINTS values or more, it is estimated from the median deviation, on which outliers have little effect.
    """
    apart = np.abs(level - median(level))
    if len(level) >= MANY_POINTS:
        return 1.4826 * median(apart)
    return math.sqrt(float((apart**2).sum()) / max(len(level) - 1, 1))


def _error(points: Points) -> float:
    return OF_MEDIANS * _spread(points["level"].astype(np.float64)) / math.sqrt(len(points))


def baseline_of(points: Points) -> Baseline:
    """Return the baseline of a steady time: the median of its latencies.

    `points` has these latencies in order, each with its session second. A latency is a natural logarithm, times a
    million. There must be at least one.
    """
    level = int(median(points["level"]))
    first_s, last_s = int(points["second"][0]), int(points["second"][-1])
    return Baseline(first_s, last_s + 1, level, _error(points) / NEPER)
