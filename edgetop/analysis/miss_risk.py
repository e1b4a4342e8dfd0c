"""The risk that an inference misses its deadline, estimated even from a session without misses.

Latencies above a high threshold follow a generalized Pareto law (Pickands 1975, Statistical inference using extreme
order statistics, Annals of Statistics 3). It is fitted by probability-weighted moments (Hosking and Wallis 1987,
Parameter and quantile estimation for the generalized Pareto distribution, Technometrics 29), because these need only
sums over a histogram. A law is fitted above each of several thresholds, from the lowest threshold at which the law fits
the data. The estimate is the mean over these laws. The fit is tested by the statistic of Anderson and Darling (critical
values: Choulakian and Stephens 2001, Technometrics 43). The law's shape parameter is the least certain. So it is moved
towards a usual value: the fewer the data, the further (Martins and Stedinger 2000, Generalized maximum-likelihood
generalized extreme-value quantile estimators for hydrologic data, Water Resources Research 36).

Slow inferences come in groups. So the confidence interval of the risk comes from a bootstrap that draws whole blocks of
time (Künsch 1989, The jackknife and the bootstrap for general stationary observations, Annals of Statistics 17). The
test uses the number of independent inferences that would give the same precision.
"""

from typing import NamedTuple

import numpy as np

from edgetop.analysis.blocks import Floats, Ints
from edgetop.frozen import frozen
from edgetop.session import histogram

# Number of misses that are counted instead of extrapolated. Choice: their interval is narrow enough. Larger: a law is
# fitted where counting is better; smaller: a few misses decide.
COUNTED = 20
# Share of the inferences above the lowest threshold that is tried. Measured: over eight generated laws of 5,000 to
# 100,000 inferences, 95 % intervals from 2 % hold in nine of ten; from 5 %, in three of four for the worst. Larger:
# the law of usual latencies is taken for that of slow ones; smaller: long sessions have no estimate.
MOST_ABOVE = 0.02
SHARES = tuple(MOST_ABOVE / 2**halvings for halvings in range(4))  # Above the thresholds that are tried.
# Number of inferences above a threshold. Choice: the shape of an exponential law then has a standard
# error of 0.12. Larger: long sessions have no estimate; smaller: estimates are off by more than their intervals.
LEAST_ABOVE = 100
# The same in independent ones. Choice. Larger: sessions of a bursty model have no estimate; smaller: a few slow spells
# decide.
LEAST_INDEPENDENT = 25.0
# Statistic of Anderson and Darling above which the law does not fit. Measured: one of twenty samples of an exponential
# law exceeds it. Larger: two modes get an estimate; smaller: true laws get none.
NO_FIT = 0.8
# Number of buckets that must hold inferences. Choice. Larger: fast models have no estimate; smaller: the grid of the
# histogram is taken for the law.
LEAST_BUCKETS = 8
# Number of standard errors by which the share of slow inferences may differ between the halves of a session.
# Statistics: one normal value in 370 is farther off. Larger: a session that changes gets an estimate; smaller: chance
# refuses it.
DRIFT_ERRORS = 3.0
# Least ratio of the two shares of a session that changes. Choice: less matters little beside the interval. Larger: a
# session that changes gets an estimate; smaller: a long session is refused for a trifle.
DRIFT_RATIO = 1.5
MOST_SHAPE = 0.95  # From 1 on, a law has no mean.
LEAST_BLOCKS = 10  # Seconds at least.
RESAMPLES = 400
# Share of one in all inferences below which a bounded law is not believed. Choice: two orders beyond the data. Larger:
# wide intervals; smaller: a deadline just above the slowest inference is promised to hold for ever.
BEYOND = 0.01
# Usual shape of a law of slow events. Paper: Martins and Stedinger (2000). Larger: the risk of a short session is
# overestimated; smaller: it is underestimated if the tail is heavy.
USUAL_SHAPE = 0.1
# Standard deviation of shapes around the usual one. Paper: Martins and Stedinger (2000). Larger: the shape follows the
# chance in few inferences; smaller: the usual shape is taken for that of the model.
SHAPE_SPREAD = 0.122
ENDS = (0.025, 0.975)

Interval = tuple[float, float]


@frozen
class MissRisk:
    """The probability that an inference misses its deadline, or the reason why it is unknown."""

    per_inference: float | None
    ci95: Interval | None  # Of `per_inference`.
    # "" if it is known; otherwise "few-inferences", "few-independent", "slowdown", "drift" or "no-law".
    refused: str = ""
    wanted: int | None = None  # Number of inferences that an estimate needs, if there are too few.
    is_counted: bool = False  # Whether the misses were counted, and no law was fitted.


class _Fit(NamedTuple):
    """A Pareto law, fitted to the latencies above a threshold, with this threshold and its histogram buckets."""

    first: int  # Bucket of the threshold.
    above: int  # Number of inferences above it.
    independent: float  # Number of independent inferences that they are worth.
    over_ns: Floats  # By how much the middle of each bucket exceeds the threshold.
    width_ns: Floats  # Width of each bucket.
    shape: float
    scale: float


def miss_risk(blocks: Ints, deadline_ns: int, misses: int, *, is_slowed: bool) -> MissRisk:
    """Return the probability that an inference takes longer than the deadline, or the reason why it is unknown.

    `blocks`: latency histograms of successive blocks of time, as an array of shape (blocks, buckets). `deadline_ns`:
    the deadline in ns. `misses`: how many inferences of `blocks` missed it. `is_slowed`: whether the model slowed down
    during the session. If it did, the risk is unknown, because the inferences follow no common law.
    """
    if is_slowed:
        return _refused("slowdown")
    weight = blocks.sum(axis=1)
    count = int(weight.sum())
    deadline = int(histogram.bucket_of(np.array([deadline_ns], np.int64))[0])
    if len(blocks) < LEAST_BLOCKS:
        return _refused("few-inferences")
    drawn = np.random.default_rng(0).multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)), RESAMPLES)
    if misses >= COUNTED:
        late = blocks[:, deadline:].sum(axis=1)  # All of the deadline's own bucket, a part of which is in time.
        if _differ(late, weight):
            return _refused("drift")
        of_late = misses / late.sum()
        return MissRisk(misses / count, _ends(of_late * (drawn @ late) / (drawn @ weight)), is_counted=True)
    if count < LEAST_ABOVE / MOST_ABOVE:
        return MissRisk(None, None, "few-inferences", round(LEAST_ABOVE / MOST_ABOVE))
    return _extrapolated(blocks, deadline, deadline_ns, drawn)


def _extrapolated(blocks: Ints, deadline: int, deadline_ns: int, drawn: Ints) -> MissRisk:
    """Return the risk of missing the deadline that follows from a law fitted to the slow inferences.

    `blocks`: latency histograms of successive blocks of time. `deadline`: the histogram bucket that contains the
    deadline of `deadline_ns` ns. `drawn`: how many times each resample of the bootstrap contains each block.
    """
    weight = blocks.sum(axis=1)
    count = int(weight.sum())
    fits, reason = _fits(blocks, deadline)
    if not fits:
        return _refused(reason)
    found = float(np.mean([_beyond(deadline_ns, fit) * fit.above / count for fit in fits]))
    is_beyond = found * count < BEYOND
    resampled = []
    for fit in fits:  # Their differences show how much the choice matters.
        held = np.maximum(drawn @ blocks[:, fit.first : fit.first + len(fit.over_ns)], 0).astype(np.float64)
        shape, scale = _law(held, fit)
        if is_beyond:
            shape, scale = np.maximum(shape, 0.0), np.where(shape < 0, _mean(held, fit), scale)
        share = held.sum(axis=1) / (drawn @ weight)
        resampled.append(share * _survival(deadline_ns - _edge(fit.first), shape, scale))
    low, high = _ends(np.concatenate(resampled))
    return MissRisk(found, (0.0 if is_beyond else min(low, found), max(high, found)))


def _fits(blocks: Ints, deadline: int) -> tuple[list[_Fit], str]:
    """Return `(laws, reason)`: a Pareto law for each usable threshold, and the reason if there are no laws.

    The law above the lowest threshold comes first. It fits the data well; the fit of the next laws is not tested.
    `reason` is meaningless if there are laws. `blocks`: latency histograms of successive blocks of time. `deadline`:
    the histogram bucket that contains the deadline.
    """
    whole, weight = blocks.sum(axis=0), blocks.sum(axis=1)
    count, last = int(weight.sum()), int(np.flatnonzero(whole)[-1])
    above = np.cumsum(whole[::-1])[::-1]
    fits: list[_Fit] = []
    reason = "no-law"
    for share in SHARES:
        first = int(np.searchsorted(-above, -share * count))
        held = whole[first : last + 1].astype(np.float64)
        if share * count < LEAST_ABOVE or first >= deadline or np.count_nonzero(held) < LEAST_BUCKETS:
            break
        slow = blocks[:, first:].sum(axis=1)
        expected = weight * (slow.sum() / count)
        alike = max(1.0, float(np.mean((slow - expected) ** 2 / np.maximum(expected, 1e-9))))
        independent = float(slow.sum()) / alike
        if independent < LEAST_INDEPENDENT:
            reason = "few-independent"
            break
        if _differ(slow, weight):
            reason = "drift"
            break
        edge = histogram.lower_edge_ns(np.arange(first, last + 2)).astype(np.float64)
        over_ns = (edge[1:] + edge[:-1]) / 2 - edge[0]
        fit = _Fit(first, int(slow.sum()), independent, over_ns, np.diff(edge), 0.0, 1.0)
        # The test of the fit is about the law that fits best, not about a usual one.
        shape, scale = _fitted(held[np.newaxis], fit)
        fit = fit._replace(shape=float(shape[0]), scale=float(scale[0]))
        if fits or _misfit(held, edge[1:] - edge[0], fit) * independent <= NO_FIT:
            shape, scale = _law(held[np.newaxis], fit)
            fits.append(fit._replace(shape=float(shape[0]), scale=float(scale[0])))
    return fits, reason


def _law(held: Floats, fit: _Fit) -> tuple[Floats, Floats]:
    """Return two arrays with an entry for each row of `held`: the shape and the scale of the Pareto law.

    `held`: in each row, the number of inferences in each histogram bucket above the threshold. `fit`: the threshold and
    its buckets. The shape is the weighted mean of the fitted shape (`_fitted`) and the usual shape. The weights follow
    from the variances of the two. Near 0, the variance of a fitted shape is about 1 divided by the number of
    independent inferences (Hosking and Wallis 1987). The mean of the law is that of the data.
    """
    shape, _ = _fitted(held, fit)
    weight = SHAPE_SPREAD**2 / (SHAPE_SPREAD**2 + 1 / fit.independent)
    shape = weight * np.minimum(shape, MOST_SHAPE) + (1 - weight) * USUAL_SHAPE
    return shape, np.maximum(_mean(held, fit) * (1 - shape), 1e-9)


def _fitted(held: Floats, fit: _Fit) -> tuple[Floats, Floats]:
    """Return two arrays with an entry for each row of `held`: the shape and the scale of the Pareto law that fits best.

    A row of `held` has the number of inferences in each histogram bucket above the threshold. `fit`: the threshold and
    its buckets; its shape and scale are not used.
    """
    count = np.maximum(held.sum(axis=1, keepdims=True), 1e-12)
    below = (np.cumsum(held, axis=1) - held / 2) / count
    mean = _mean(held, fit)
    # Within a bucket, longer latencies have higher ranks. The last term takes that out.
    weighted = (held * (1 - below) * fit.over_ns / count).sum(axis=1) - ((held / count) ** 2 * fit.width_ns).sum(1) / 12
    apart = np.maximum(mean - 2 * weighted, 1e-9)
    return 2 - mean / apart, np.maximum(2 * mean * weighted / apart, 1e-9)


def _mean(held: Floats, fit: _Fit) -> Floats:
    return np.asarray((held @ fit.over_ns) / np.maximum(held.sum(axis=1), 1e-12))


def _survival(over_ns: float | Floats, shape: float | Floats, scale: float | Floats) -> Floats:
    """Return the probability that an inference above the threshold exceeds the threshold by more than `over_ns`.

    `shape` (without unit) and `scale` (in ns) are the parameters of the Pareto law.
    """
    is_exponential = np.abs(shape) < 1e-6
    power = np.where(is_exponential, 1.0, shape)
    left = np.maximum(1 + power * over_ns / scale, 1e-300)  # Beyond the end of a bounded law.
    with np.errstate(over="ignore", under="ignore"):
        bounded = np.where(left <= 1e-300, 0.0, np.exp(-np.log(left) / power))
        return np.asarray(np.where(is_exponential, np.exp(-np.asarray(over_ns / scale)), bounded))


def _beyond(deadline_ns: int, fit: _Fit) -> float:
    return float(_survival(deadline_ns - _edge(fit.first), fit.shape, fit.scale))


def _misfit(held: Floats, ends_ns: Floats, fit: _Fit) -> float:
    """Return how badly the law fits the data: the statistic of Anderson and Darling per inference.

    `held`: the number of inferences in each histogram bucket above the threshold. `ends_ns`: the distance of the end of
    each bucket from the threshold, in ns. `fit`: the law.
    """
    expected = 1 - _survival(ends_ns, fit.shape, fit.scale)
    is_inside = expected < 1 - 0.5 / held.sum()
    of_bucket = np.diff(expected, prepend=0.0)
    variance = np.clip(expected * (1 - expected), 1e-9, None)
    return float((((np.cumsum(held) / held.sum() - expected) ** 2 / variance) * of_bucket)[is_inside].sum())


def _differ(slow: Ints, weight: Ints) -> bool:
    """Whether the share of slow inferences differs significantly between the two halves of the session.

    `slow` and `weight`: the number of slow inferences, and of all inferences, in each block of time.
    """
    half = len(slow) // 2
    share, error = [], []
    for part in (slice(0, half), slice(half, None)):
        mean = float(slow[part].sum() / weight[part].sum())
        off = slow[part] - mean * weight[part]
        share.append(mean)
        error.append(float(np.sqrt(max(float((off**2).sum()), float(slow[part].sum()))) / weight[part].sum()))
    apart = abs(share[0] - share[1])
    return apart > DRIFT_ERRORS * float(np.hypot(error[0], error[1])) and max(share) > DRIFT_RATIO * min(share)


def _edge(bucket: int) -> float:
    return float(histogram.lower_edge_ns(np.array([bucket]))[0])


def _ends(values: Floats) -> Interval:
    low, high = np.quantile(values, ENDS).tolist()
    return low, high


def _refused(reason: str) -> MissRisk:
    return MissRisk(None, None, reason)
