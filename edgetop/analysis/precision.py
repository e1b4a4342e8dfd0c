"""The precision of a session's percentiles, and whether its two halves agree.

Successive latencies are alike, because a spell of heat or of a busy neighbour lasts longer than one inference. An
interval that treats inferences as independent would be far too narrow. So the session is cut into at most 64 blocks of
time. In each block, the share of inferences below a percentile is counted. The variance of this share is averaged over
its slowest cosine waves: over many waves if the blocks are independent, over at least four if they are correlated.
Student's t with as many degrees of freedom then says by how many ranks the percentile may be wrong. The latencies at
the two outermost ranks are the interval.

Woodruff 1952, Confidence intervals for medians and other position measures, Journal of the American Statistical
Association 47 (ranks); Lazarus, Lewis, Stock and Watson 2018, HAR inference: recommendations for practice, Journal of
Business and Economic Statistics 36(4) (cosines, and why few of them: their equation 10); Sokal 1997, Monte Carlo
methods in statistical mechanics, section 3 (correlation time, and the lag at which its sum is cut).
"""

import numpy as np

from edgetop.analysis.blocks import T_975, Floats, Ints
from edgetop.analysis.statistics import SETTLED_COUNTS, Statistics, that_ran
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.distinct import distinct
from edgetop.session.seconds import NS, QUANTILES, Seconds

MOST_BLOCKS = 64
LEAST_BLOCKS = 10  # Non-empty blocks needed, and so the least number of measured seconds.
LEAST_WAVES, MOST_WAVES = 4, 16
WAVES_A_BLOCK = 0.3  # Waves for each independent block. Correlated blocks count as fewer independent ones.
CUT = 2.5  # In correlation times: beyond this lag, the sum of correlations is noise.
# Number of independent inferences for an interval of the median. Statistics: two give a spread. Larger: slow models
# have no interval; smaller: an interval without a basis.
LEAST_INDEPENDENT = 2.0
# Number of independent inferences beyond any other percentile. Choice: from fewer their variation cannot be
# estimated. Larger: long sessions have no interval of p99.9; smaller: intervals are too narrow.
LEAST_BEYOND = 5.0
# Factor by which the variance must exceed that of independent inferences to be correlated. Computed: chance exceeds
# it in 1 of 10. Larger: correlated sessions get too narrow intervals; smaller: independent ones get too wide ones.
NOTICED = 2.3
COARSE = 0.1  # If one bucket holds this share of all inferences, positions within it are unknown.
ROWS_AT_ONCE = 4096  # Rows folded at once; their histograms have at most a million buckets.
LEAST_AGE_S, MOST_AGE_S = 8, 16  # While the session measures, an estimate is used for at least and at most this long.

Interval = tuple[float, float]


@frozen
class PrecisionView:
    intervals_ns: tuple[Interval | None, ...] = (None,) * len(QUANTILES)  # 95 % intervals, in the order of QUANTILES.
    # p99 of the first and of the second half; None if one half has too few inferences.
    p99_halves_ns: Interval | None = None
    # Whether the session is so long that a missing interval means too few independent inferences.
    is_judged: bool = False
    # Number of independent inferences that would give the same precision; None if not judged.
    independent: float | None = None

    def is_settled(self, quantile: float, session: Statistics) -> bool:
        """Whether the session has enough inferences to trust the percentile, although successive latencies are alike.

        `quantile`: the percentile as a share, such as 0.99. `session`: the latency statistics of the session.
        """
        is_lacking = self.is_judged and self.intervals_ns[QUANTILES.index(quantile)] is None
        return session.is_settled(quantile) and not is_lacking


UNJUDGED = PrecisionView()


class Precision:
    """Estimates the precision of percentiles, from latency histograms for at most MOST_BLOCKS blocks of time."""

    def __init__(self) -> None:
        self._held: Ints = np.zeros((MOST_BLOCKS, histogram.SIZE), np.int64)
        self._first: int | None = None  # Number of the first block.
        self._doublings = 0
        self._last_ns = -1
        self._lowest, self._highest = histogram.SIZE, -1  # Range of non-empty buckets.
        self._extremes_ns = np.iinfo(np.int64).max, 0  # Shortest and longest latency.
        # The last estimate, with the number of inferences and the second that it covers.
        self._view: tuple[tuple[int, int], PrecisionView] | None = None

    def fold(self, seconds: Seconds) -> None:
        seconds = seconds.where(seconds.rows["t_ns"] > self._last_ns)
        rows = that_ran(seconds.rows)
        if not len(rows):
            return
        self._last_ns = int(rows["t_ns"][-1])
        least_ns, most_ns = self._extremes_ns
        self._extremes_ns = min(least_ns, int(rows["min_ns"].min())), max(most_ns, int(rows["max_ns"].max()))
        for begin in range(0, len(seconds), ROWS_AT_ONCE):
            offsets = seconds.offsets[begin : begin + ROWS_AT_ONCE + 1]
            held = slice(int(offsets[0]), int(offsets[-1]))
            second = np.repeat(seconds.rows["t_ns"][begin : begin + ROWS_AT_ONCE] // NS, np.diff(offsets))
            if len(second):
                self._add(second, seconds.bucket[held].astype(np.int64), seconds.bucket_count[held].astype(np.int64))

    def _add(self, second: Ints, bucket: Ints, count: Ints) -> None:
        """Add inferences to the latency histograms of the blocks of time.

        Row i of the arrays adds `count[i]` inferences to the bucket `bucket[i]` of the block that contains the session
        second `second[i]`.
        """
        first = self._make_room(int(second[0]), int(second[-1]))
        block = (second >> self._doublings) - first
        begin, end = int(block[0]), int(block[-1]) + 1
        low, high = int(bucket.min()), int(bucket.max()) + 1
        place = (block - begin) * (high - low) + (bucket - low)
        # bincount gives floats, which are exact below 2^53.
        held = np.bincount(place, count, (end - begin) * (high - low))
        self._held[begin:end, low:high] += held.reshape(end - begin, high - low).astype(np.int64)
        self._lowest, self._highest = min(self._lowest, low), max(self._highest, high - 1)

    def _make_room(self, first_s: int, last_s: int) -> int:
        """Make the blocks of time longer until the session seconds up to `last_s` fit into MOST_BLOCKS blocks.

        `first_s`: the first second, in which the blocks begin if there are none yet. Return the number of the oldest
        block: its first second, divided by the new length of a block.
        """
        first = first_s >> self._doublings if self._first is None else self._first
        while (last_s >> self._doublings) - first >= MOST_BLOCKS:
            pairs = np.arange(first & 1, MOST_BLOCKS, 2)  # If the first block is odd, it stays alone.
            held = self._held[:, self._lowest : self._highest + 1]  # the rest is empty, and takes no memory untouched
            joined = np.add.reduceat(held, distinct(np.concatenate([[0], pairs])), axis=0)
            held[: len(joined)], held[len(joined) :] = joined, 0
            first, self._doublings = first >> 1, self._doublings + 1
        self._first = first
        return first

    def parts(self, count: int) -> list[histogram.Counts]:
        """Return the latency histograms of `count` successive parts of the session, which are about equally long.

        Each histogram has the number of inferences in each latency bucket. The list is empty if the session has fewer
        than two blocks of time (of this object's block length) for each part.
        """
        blocks = self.histograms()
        return [part.sum(axis=0) for part in np.array_split(blocks, count)] if len(blocks) >= 2 * count else []

    def histograms(self) -> Ints:
        """Return the latency histograms of successive blocks of time, as an array of shape (blocks, buckets).

        Blocks of time without inferences are left out.
        """
        return self._held[self._held.any(axis=1)]

    def view(self, session: Statistics | None, buckets: histogram.Counts, *, is_final: bool = True) -> PrecisionView:
        """Return the precision of the percentiles of a session.

        `session`: the latency statistics; None if nothing was measured. `buckets`: the latency histogram of the
        session. `is_final`: False returns an earlier estimate if it is not too old, which saves time. Its greatest age
        is 8 to 16 s, depending on the length of the session.
        """
        if session is None or self._first is None:
            return UNJUDGED
        key = session.count, self._last_ns
        age_ns = self._last_ns - self._view[0][1] if self._view else 0
        is_due = is_final or age_ns >= min(max(1 << self._doublings, LEAST_AGE_S), MOST_AGE_S) * NS
        if self._view is None or (self._view[0] != key and is_due):
            self._view = key, self._judged(session, buckets)
        return self._view[1]

    def _judged(self, session: Statistics, buckets: histogram.Counts) -> PrecisionView:
        blocks = self._held[:, self._lowest : self._highest + 1].astype(np.float64)
        blocks = blocks[blocks.any(axis=1)]
        is_judged = len(blocks) >= LEAST_BLOCKS
        halves = _halves(blocks, self._lowest, self._extremes_ns)
        if not is_judged:
            return PrecisionView(p99_halves_ns=halves)
        off, independent = _off(blocks)
        return PrecisionView(_intervals(off, session, buckets), halves, is_judged, independent)


def least_independent(quantile: float) -> float:
    """Return how many independent inferences a percentile needs before its interval can be computed.

    `quantile`: the percentile as a share, such as 0.99.
    """
    return LEAST_BEYOND / (1 - quantile) if quantile > 0.5 else LEAST_INDEPENDENT


def _off(blocks: Floats) -> tuple[tuple[float | None, ...], float]:
    """Return the possible error of each percentile, and how many independent inferences would be as precise.

    An error is half of the 95 % interval, as a share of the inferences. It is None if there are too few inferences.
    `blocks`: latency histograms of successive blocks of time.
    """
    weight, of_bucket = blocks.sum(axis=1), blocks.sum(axis=0)
    whole, below = float(weight.sum()), np.cumsum(of_bucket)
    rank = (below - of_bucket / 2) / whole - 0.5  # Mean rank of the inferences in each bucket.
    swing = blocks @ rank
    alike = _alike(swing, weight)
    spread = float(rank**2 @ of_bucket)  # Variance that the sum would have if all ranks were independent.
    raised = alike * float(swing @ swing) / spread if spread else 1.0
    independent = whole / raised if raised >= NOTICED else whole
    quantile = np.array(QUANTILES)
    border = np.searchsorted(below, quantile * whole)
    at_border = of_bucket[border]
    # Within the bucket of a percentile, every block is assumed to have the same share below the percentile. By chance
    # it is more or less, which `within` adds.
    part = (quantile * whole - (below[border] - at_border)) / np.maximum(at_border, 1)
    lacking = np.cumsum(blocks, axis=1)[:, border] - blocks[:, border] * (1 - part) - np.outer(weight, quantile)
    within = at_border * part * (1 - part) * whole / independent
    off = tuple(
        _half_width(of_one, weight, max(alike, _alike(of_one, weight)), chance)
        if independent >= least_independent(q)
        else None
        for of_one, chance, q in zip(lacking.T, within.tolist(), QUANTILES, strict=True)
    )
    return off, independent


def _alike(swing: Floats, weight: Floats) -> float:
    """Return the factor, at least 1, by which the correlation of successive blocks raises the variance of a total.

    `swing`: for each block of time, a sum over its inferences. `weight`: the number of inferences in each block.
    """
    noise = swing / np.sqrt(weight)
    noise = noise - noise.mean()
    products = np.correlate(noise, noise, "full")[len(noise) - 1 : len(noise) + len(noise) // 2]
    if products[0] <= 0:
        return 1.0
    raised = 2 * np.cumsum(products / products[0]) - 1
    lags = np.arange(len(raised))
    is_whole = lags >= np.maximum(CUT * np.maximum(raised, 1), 1)
    lag = int(is_whole.argmax()) if is_whole.any() else len(raised) - 1
    # Correlations come out too low, because the mean of the same blocks was subtracted. This corrects for that.
    return float(max(raised[lag] / max(1 - (2 * lag + 1) / len(noise), 0.2), 1.0))


def _half_width(swing: Floats, weight: Floats, alike: float, within: float) -> float:
    """Return half of the 95 % interval of the share of inferences below a percentile.

    `swing`: for each block of time, the number of inferences below the percentile minus the expected number. `weight`:
    the number of all inferences in each block. `alike`: the factor that `_alike` returns. `within`: the variance that
    comes from the width of the percentile's histogram bucket; the blocks do not show it.
    """
    waves = min(max(int(WAVES_A_BLOCK * len(weight) / alike), LEAST_WAVES), MOST_WAVES)
    whole = weight.sum()
    middle = (np.cumsum(weight) - weight / 2) / whole
    found = np.sqrt(2) * np.cos(np.pi * np.outer(np.arange(1, waves + 1), middle)) @ swing
    return float(T_975[waves - 2] * np.sqrt((found @ found) / waves + within) / whole)


def _intervals(
    off: tuple[float | None, ...], session: Statistics, buckets: histogram.Counts
) -> tuple[Interval | None, ...]:
    """Return the 95 % interval of each percentile in ns, or None for a percentile with an unknown error.

    `off`: the error of each percentile as a share of the inferences; None if unknown. `session`: the latency
    statistics. `buckets`: the histogram of the latencies. An interval never reaches beyond the shortest and the longest
    latency.
    """
    least = 0.5 / session.count
    widths = [None if by is None else max(by, least) for by in off]
    asked = [(q - by, q + by) for q, by in zip(QUANTILES, widths, strict=True) if by is not None]
    found = iter(_latencies_at(np.array(asked), session, buckets) if asked else ())
    return tuple(
        None if by is None else (min(next(found), value), max(next(found), value))
        for value, by in zip(session.percentiles_ns, widths, strict=True)
    )


def _latencies_at(ends: Floats, session: Statistics, buckets: histogram.Counts) -> list[float]:
    """Return the latencies in ns at the ends of intervals: the lower and the upper end of each interval, in one list.

    `ends`: the ends as shares of the inferences, with shape (n, 2). `session`: the latency statistics. `buckets`: the
    histogram of the latencies. Within a bucket, the density is taken to be a straight line that fits the neighbouring
    buckets. If a few buckets contain a large part of all inferences, positions within a bucket are unknown. An end is
    then put at the edge of its bucket.
    """
    below, count = np.cumsum(buckets), session.count
    rank = np.clip(ends * count, 0.5, count)
    place = np.searchsorted(below, rank)
    held = buckets[place]
    edge = histogram.lower_edge_ns(place + np.arange(-1, 3)[:, None, None])
    nearby = buckets[np.clip(place + np.arange(-1, 2)[:, None, None], 0, len(buckets) - 1)]
    density = nearby / np.diff(edge, axis=0)
    slope = np.clip((density[2] - density[0]) / (2 * density[1]), -2, 2)
    part = (rank - (below[place] - held)) / held
    # Solves for u: the share of density 1 + slope (u - 1/2) that lies below u is `part`.
    even = np.abs(slope) < 1e-9
    root = np.sqrt(np.maximum((1 - slope / 2) ** 2 + 2 * slope * part, 0))
    within = np.where(even, part, (root - (1 - slope / 2)) / np.where(even, 1, slope))
    is_coarse = (held > COARSE * count) | (nearby.max(axis=0) > 2 * COARSE * count)
    within = np.where(is_coarse, [0.0, 1.0], within)
    latency = edge[1] + (edge[2] - edge[1]) * within
    latency = np.where(ends <= 0, session.min_ns, np.where(ends >= 1, session.max_ns, latency))
    found: list[float] = np.clip(latency, session.min_ns, session.max_ns).ravel().tolist()
    return found


def _halves(blocks: Floats, first_bucket: int, extremes_ns: tuple[int, int]) -> Interval | None:
    """Return the p99 in ns of the first and of the second half of the inferences, or None if there are too few.

    `blocks`: latency histograms of successive blocks of time, without the buckets below `first_bucket`. `extremes_ns`:
    the shortest and the longest latency.
    """
    weight = blocks.sum(axis=1)
    is_later = np.cumsum(weight) - weight / 2 > weight.sum() / 2
    found = []
    for part in (blocks[~is_later], blocks[is_later]):
        counts = np.zeros(histogram.SIZE, np.int64)
        counts[first_bucket : first_bucket + blocks.shape[1]] = part.sum(axis=0)
        if int(counts.sum()) < SETTLED_COUNTS[0.99]:
            return None
        found.append(histogram.percentiles(counts, (0.99,), *extremes_ns)[0])
    return found[0], found[1]
