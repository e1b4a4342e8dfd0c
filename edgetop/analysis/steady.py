"""The two steady spans of time in a session: the burst and the sustained span.

The burst is the first steady 30 s, at a speed that the board may not sustain. It is the baseline for slowdowns. The
sustained span is the last span, at most ten minutes long, in which the latency neither rises nor falls. Both are
computed only from the table with one row per second, because a replay of a day has no histogram for each second.
"""

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.baseline import Baseline
from edgetop.analysis.slowdowns.levels import ENOUGH, NEPER, OF_MEDIANS, known_latencies, levels
from edgetop.analysis.statistics import SETTLED_COUNTS, TOLD_PLACES, between_percentiles
from edgetop.frozen import frozen
from edgetop.session.median import median
from edgetop.session.seconds import NS, PERCENTILE_FIELDS

LENGTHS_S = (600, 300, 120, 60, 30)
# Shortest sustained span if the measurement ends less than thirty seconds after its burst. Choice: as the burst.
# Larger: short sessions have no sustained figures; smaller: a few seconds are called sustained.
LEAST_S = 5
STEP_S = 10  # An unsteady end is left out in steps of this length.
# Number of parts of a span that must have the same median. Choice. Larger: noise makes spans unsteady; smaller: a
# rise and fall within a span passes.
BLOCKS = 4
# Largest distance of a part's median from the middle. Choice: less than half of a slowdown. Larger: drift passes as
# sustained; smaller: noise makes healthy spans unsteady.
TOLERANCE = round(np.log(1.03) * NEPER)
# The same in standard errors of a part's median, for a model that scatters. Statistics: one normal value in 370 is
# farther off. Larger: drift passes in noise; smaller: noise makes healthy spans unsteady.
TOLERANCE_ERRORS = 3.0
LEVELS = 200  # Number of levels that represent the distribution within a second.


# Each level lies between two known percentiles: the number of the lower one, and the share of the way to the next.
_AT = between_percentiles((np.arange(LEVELS) + 0.5) / LEVELS)
_LOWER = np.searchsorted(TOLD_PLACES, _AT, side="right") - 1
_SHARE = (_AT - TOLD_PLACES[_LOWER]) / (TOLD_PLACES[_LOWER + 1] - TOLD_PLACES[_LOWER])

Rows = npt.NDArray[np.void]
Floats = npt.NDArray[np.float64]


@frozen
class SpanFigures:
    """The figures of all inferences in a span of time. Percentiles are accurate to a few percent."""

    from_s: int
    to_s: int
    count: int
    p50_ns: float
    p99_ns: float
    throughput_hz: float

    def is_settled(self, quantile: float) -> bool:
        """Whether the span has enough inferences to trust the percentile. `quantile` is a share, such as 0.99."""
        return self.count >= SETTLED_COUNTS[quantile]


def sustained(rows: Rows, burst: Baseline | None) -> SpanFigures | None:
    """Return the figures of the last steady span after the burst, or None if no span was steady.

    `rows`: the table with one row per second, for the last ten minutes. `burst`: the first steady 30 s; None if
    unknown.
    """
    rows = rows[rows["count"] > 0]
    if burst is not None:
        rows = rows[rows["t_ns"] >= burst.to_s * NS]
    if not len(rows):
        return None
    second = rows["t_ns"] // NS
    first_s, last_s = int(second[0]), int(second[-1]) + 1
    lengths = [length for length in LENGTHS_S if length <= last_s - first_s]
    for to_s in range(last_s, first_s, -STEP_S):
        for length in lengths or [last_s - first_s]:
            inside = (second >= to_s - length) & (second < to_s)
            if length >= LEAST_S and to_s - length >= first_s and _is_steady(levels(rows["p50_ns"][inside])):
                return figures(rows[inside], to_s - length, to_s)
    return None


def _is_steady(level: npt.NDArray[np.int64]) -> bool:
    if len(level) < BLOCKS:
        return False
    scatter = 1.4826 * float(median(np.abs(np.diff(level)))) / np.sqrt(2)
    tolerance: float = max(TOLERANCE, TOLERANCE_ERRORS * OF_MEDIANS * scatter / np.sqrt(len(level) / BLOCKS))
    middles = [float(median(block)) for block in np.array_split(level, BLOCKS)]
    return max(middles) - min(middles) <= 2 * tolerance and abs(middles[-1] - float(median(level))) <= tolerance


def figures(rows: Rows, from_s: int, to_s: int) -> SpanFigures | None:
    """Return the figures of the inferences in session seconds `from_s` to `to_s`, or None if there are no inferences.

    `rows`: one row for each of these seconds.
    """
    rows = rows[rows["count"] > 0]
    if not len(rows) or to_s <= from_s:
        return None
    is_sparse = rows["count"] < ENOUGH
    _, single = known_latencies(rows[is_sparse])
    dense = rows[~is_sparse]
    knots = np.stack([dense[name] for name in ("min_ns", *PERCENTILE_FIELDS, "max_ns")], axis=1).astype(np.float64)
    spread = knots[:, _LOWER] + np.diff(knots, axis=1)[:, _LOWER] * _SHARE
    values = np.concatenate([single.astype(np.float64), spread.ravel()])
    weights = np.concatenate([np.ones(len(single)), np.repeat(dense["count"] / LEVELS, LEVELS)])
    p50_ns, p99_ns = (_weighted_quantile(values, weights, quantile) for quantile in (0.5, 0.99))
    count = int(rows["count"].sum())
    return SpanFigures(from_s, to_s, count, p50_ns, p99_ns, count / (to_s - from_s))


def _weighted_quantile(values: Floats, weights: Floats, quantile: float) -> float:
    """Return the weighted quantile of `values`.

    The result is the least value up to which the weights add up to the share `quantile` (0 to 1) of all weights.
    """
    wanted, sorted_at_once, sample = quantile * float(weights.sum()), 1_000, 64
    while len(values) > sorted_at_once:
        pivot = median(values[:: len(values) // sample + 1])
        is_low = values <= pivot
        low = float(weights[is_low].sum())
        if is_low.all():  # many values are equal to the pivot, the greatest one
            is_low = values < pivot
            low = float(weights[is_low].sum())
            if low < wanted:
                return float(pivot)
        if low < wanted:
            wanted, is_low = wanted - low, ~is_low
        values, weights = values[is_low], weights[is_low]
    order = np.argsort(values)
    place = int(np.searchsorted(np.cumsum(weights[order]), wanted))
    return float(values[order[min(place, len(order) - 1)]])
