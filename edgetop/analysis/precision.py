"""How well the percentiles of a session are known, and whether its halves agree.

Successive latencies are alike: a spell of heat or of a busy neighbour lasts longer than an inference. An interval
from so many independent samples would be far too narrow. So the session is cut into at most twenty
batches of as many inferences, and what the share of inferences below a percentile varies by from batch to
batch says by how many ranks the percentile may be off; the latencies at those two ranks, of all inferences,
are the interval (Woodruff 1952, Confidence intervals for medians and other position measures, Journal of the
American Statistical Association 47; batches: Schmeiser 1982, Operations Research 30(3)). It is never narrower
than the binomial one of independent samples.

Distributions of old seconds are not kept one by one, here or in a replay: that of a second is taken from its row,
between whose percentiles it is even on a scale on which tails are straight.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.analysis.blocks import T_975, Floats, Ints
from edgetop.analysis.slowdowns.windows import ENOUGH, told_latencies
from edgetop.analysis.statistics import SETTLED_COUNTS, TOLD_PLACES, Statistics, between_percentiles
from edgetop.session import histogram
from edgetop.session.seconds import NS, PERCENTILE_FIELDS, QUANTILES, Seconds

BATCHES = 20  # at most; a few more would tell hardly more (Schmeiser 1982)
LEAST_BATCHES = 5
LEAST_S = 10  # of measuring
Z_975 = 1.96
MOST_BLOCKS = 64
ROWS_AT_ONCE = 256  # so that what is made of them in passing stays in the cache

# Where a second's distribution is taken, and how much of it each place stands for, in ten-thousandths.
_PARTS = (
    (0.0, 0.5, 20), (0.5, 0.9, 16), (0.9, 0.95, 4), (0.95, 0.99, 4), (0.99, 0.999, 3), (0.999, 1.0, 1)
)  # fmt: skip
WHOLE = 10_000
_WEIGHT: Floats = np.concatenate([np.full(n, float(round((b - a) * WHOLE / n))) for a, b, n in _PARTS])
_QUANTILE: Floats = np.concatenate([a + (np.arange(n) + 0.5) * (b - a) / n for a, b, n in _PARTS])


_AT = between_percentiles(_QUANTILE)
_PLACE = np.minimum(np.searchsorted(TOLD_PLACES, _AT, side="right") - 1, len(TOLD_PLACES) - 2)
_SHARE = np.clip((_AT - TOLD_PLACES[_PLACE]) / (TOLD_PLACES[_PLACE + 1] - TOLD_PLACES[_PLACE]), 0.0, 1.0)

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class PrecisionView:
    intervals_ns: tuple[Interval | None, ...] = (None,) * len(QUANTILES)  # 95 %, in the order of QUANTILES
    p99_halves_ns: Interval | None = None  # of the first and of the second half; None: too few inferences in one


class Precision:
    """Folds seconds: the distribution of latency in at most MOST_BLOCKS blocks of time, in whole numbers."""

    def __init__(self) -> None:
        self._held: Ints = np.zeros((MOST_BLOCKS, histogram.SIZE), np.int64)  # ten-thousandths of inferences
        self._first: int | None = None  # number of the first block
        self._doublings = 0
        self._last_ns = -1
        self._lowest, self._highest = histogram.SIZE, -1  # buckets that hold something
        self._view: tuple[tuple[int, int], PrecisionView] | None = None

    def fold(self, seconds: Seconds) -> None:
        rows = seconds.rows
        rows = _where(rows, (rows["count"] > 0) & (rows["t_ns"] > self._last_ns))
        for begin in range(0, len(rows), ROWS_AT_ONCE):
            self._fold(rows[begin : begin + ROWS_AT_ONCE])

    def _fold(self, rows: npt.NDArray[np.void]) -> None:
        self._last_ns = int(rows["t_ns"][-1])
        self._make_room(int(rows["t_ns"][0]) // NS, self._last_ns // NS)
        is_sparse = rows["count"] < ENOUGH
        if is_sparse.any():
            of_row, told_ns = told_latencies(rows[is_sparse])
            self._add(rows["t_ns"][is_sparse][of_row] // NS, told_ns, np.full(len(told_ns), float(WHOLE)))
        if len(dense := _where(rows, ~is_sparse)):
            self._add_dense(dense)

    def _add_dense(self, rows: npt.NDArray[np.void]) -> None:
        knots = np.stack([rows[name] for name in ("min_ns", *PERCENTILE_FIELDS, "max_ns")]).astype(np.float64)
        spread = knots.take(_PLACE, axis=0) + np.diff(knots, axis=0).take(_PLACE, axis=0) * _SHARE[:, None]
        weight = rows["count"] * _WEIGHT[:, None]
        self._add(rows["t_ns"] // NS, np.rint(spread).astype(np.int64), weight)

    def _add(self, second: Ints, latency_ns: Ints, weight: Floats) -> None:
        """`second`: of each, or of each column. `weight`: whole numbers."""
        assert self._first is not None
        if not len(second):
            return
        block, bucket = (second >> self._doublings) - self._first, histogram.bucket_of(latency_ns)
        begin, end = int(block.min()), int(block.max()) + 1
        low, high = int(bucket.min()), int(bucket.max()) + 1
        place = (block - begin) * (high - low) + (bucket - low)
        # In doubles, which are exact: of few seconds, no sum comes near 2^53.
        held = np.bincount(place.ravel(), weight.ravel(), (end - begin) * (high - low))
        self._held[begin:end, low:high] += held.reshape(end - begin, high - low).astype(np.int64)
        self._lowest, self._highest = min(self._lowest, low), max(self._highest, high - 1)

    def _make_room(self, first_s: int, last_s: int) -> None:
        """Each block with its neighbour, until there are few enough."""
        if self._first is None:
            self._first = first_s
        while (last_s >> self._doublings) - self._first >= MOST_BLOCKS:
            if self._highest >= 0:
                pairs = np.arange(self._first & 1, MOST_BLOCKS, 2)  # where an odd one leads, it stays alone
                joined = np.add.reduceat(self._held, np.unique(np.concatenate([[0], pairs])), axis=0)
                self._held[: len(joined)], self._held[len(joined) :] = joined, 0
            self._first, self._doublings = self._first >> 1, self._doublings + 1

    def view(self, session: Statistics | None, buckets: histogram.Counts) -> PrecisionView:
        """`buckets`: the histogram of the whole session, of which `session` is."""
        if session is None or self._first is None:
            return PrecisionView()
        key = session.count, self._last_ns
        if self._view is None or self._view[0] != key:
            self._view = key, self._judged(session, buckets)
        return self._view[1]

    def _judged(self, session: Statistics, buckets: histogram.Counts) -> PrecisionView:
        blocks = self._held[:, self._lowest : self._highest + 1]
        weight = blocks.sum(axis=1)
        whole_s = int(np.count_nonzero(weight)) << self._doublings
        batch = _batches(weight, BATCHES)
        count = int(batch.max()) + 1
        intervals: tuple[Interval | None, ...] = (None,) * len(QUANTILES)
        if whole_s >= LEAST_S and count >= LEAST_BATCHES:
            held = np.add.reduceat(blocks, np.flatnonzero(np.diff(batch, prepend=-1)), axis=0)
            intervals = _intervals(held, session, buckets)
        return PrecisionView(intervals, _halves(blocks, weight, session, self._lowest))


def _where(rows: npt.NDArray[np.void], wanted: npt.NDArray[np.bool_]) -> npt.NDArray[np.void]:
    """Of a day, all: a copy of them takes 9 MiB."""
    return rows if wanted.all() else rows[wanted]


def _batches(weight: Ints, most: int) -> Ints:
    """The batch of each block: as many inferences in each as blocks allow, numbered without a gap."""
    middle = np.cumsum(weight) - weight / 2
    batch = np.minimum((middle * most / max(int(weight.sum()), 1)).astype(np.int64), most - 1)
    return np.cumsum(np.diff(batch, prepend=batch[:1]) > 0)


def _intervals(held: Ints, session: Statistics, buckets: histogram.Counts) -> tuple[Interval | None, ...]:
    """None where the ranks of an end lie beyond all inferences."""
    weight = held.sum(axis=1)
    below = np.cumsum(held.sum(axis=0))
    off = _off(held, weight, below, session.count)
    ends = [(quantile - by, quantile + by) for quantile, by in zip(QUANTILES, off, strict=True)]
    known = [0 < low <= high < 1 - 0.5 / session.count for low, high in ends]
    asked = tuple(end for pair, is_known in zip(ends, known, strict=True) if is_known for end in pair)
    found = iter(histogram.percentiles(buckets, asked, session.min_ns, session.max_ns) if asked else ())
    return tuple(
        (min(next(found), told), max(next(found), told)) if is_known else None
        for told, is_known in zip(session.percentiles_ns, known, strict=True)
    )


def _off(held: Ints, weight: Ints, below: Ints, inferences: int) -> list[float]:
    """Of each percentile, by how much the share of inferences below it may be off."""
    whole, quantile = int(below[-1]), np.array(QUANTILES)
    border = np.searchsorted(below, quantile * whole)
    at_border, of_batch = held[:, border], np.cumsum(held, axis=1)[:, border]
    before, inside = of_batch - at_border, below[border] - at_border.sum(axis=0)
    # Within the bucket in which a percentile lies, as much of each batch as of all.
    part = (quantile * whole - inside) / np.maximum(at_border.sum(axis=0), 1)
    share = (before + part * at_border) / np.maximum(weight, 1)[:, None]
    count = len(weight)
    squares = ((weight / whole) ** 2)[:, None] * (share - quantile) ** 2
    variance = count / (count - 1) * squares.sum(axis=0)
    binomial = quantile * (1 - quantile) / inferences
    found: list[float] = np.maximum(T_975[count - 3] * variance**0.5, Z_975 * binomial**0.5).tolist()
    return found


def _halves(blocks: Ints, weight: Ints, session: Statistics, first_bucket: int) -> Interval | None:
    """The p99 of each half of the inferences, where both are settled."""
    half = _batches(weight, 2)
    found = []
    for part in range(2):
        counts = np.zeros(histogram.SIZE, np.int64)
        counts[first_bucket : first_bucket + blocks.shape[1]] = blocks[half == part].sum(axis=0)
        if int(counts.sum()) < SETTLED_COUNTS[0.99] * WHOLE:
            return None
        found.append(histogram.percentiles(counts, (0.99,), session.min_ns, session.max_ns)[0])
    return found[0], found[1]
