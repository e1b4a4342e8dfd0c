"""The distribution of latencies over time for a heat map, in columns of several seconds.

Histograms of the latest seconds are stored one by one, and older histograms as sums over several seconds (bins). The
memory is fixed: if a session is too long for the number of bins, neighbouring bins are merged.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, floor, log

import numpy as np
import numpy.typing as npt

from edgetop.analysis.latest import LatestSeconds
from edgetop.analysis.timeline import Axis
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate

# Width of a bin at first. A replay reads older histograms in sums of this many seconds (recording/by_time.py).
BIN_S = 16
MOST_BINS = 256  # more than any screen has columns
MOST_KEPT = 1_024  # finished columns that are kept

# The axis reaches from below the least median of the columns to above the greatest. A throttle by a few percent moves
# the medians by several rows; over p0.1 to p99.9 it would be a flat band (tried on recordings of both).
BELOW_LEAST, ABOVE_GREATEST, LEAST_RATIO = 0.94, 1.12, 1.6
DEADLINE_WITHIN = 2.0  # the axis includes a deadline up to this times the greatest median
AXIS_STEP = log(1.06)  # the ends of the axis are multiples of this logarithm, so that they seldom move
LEAST_INFERENCES = 1e-3  # less than that is a rounding error; an inference in a wide bucket counts in several rows

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class HeatColumn:
    """The latencies in one column of a heat map.

    The object for a finished column never changes, so the column needs to be drawn only once.
    """

    from_s: int
    to_s: int
    bucket: npt.NDArray[np.int16]  # the buckets that are not empty, ascending
    counts: npt.NDArray[np.int64]  # number of inferences in each of these buckets
    low_ns: int  # shortest latency
    high_ns: int  # longest latency
    p50_ns: float
    p99_ns: float

    @property
    def count(self) -> int:
        return int(self.counts.sum())


@frozen
class LatencyAxis:
    """The vertical axis of a heat map, in ns. Latencies above its upper end have a row of their own."""

    low_ns: float
    high_ns: float

    def row_edges(self, rows: int) -> Floats:
        """Return the latencies in ns at the `rows` + 1 borders of the rows, the lowest first."""
        return _row_edges(self.low_ns, self.high_ns, rows)

    def shares(self, column: HeatColumn, rows: int) -> Floats:
        """Return the share (0 to 1) of the column's inferences in each of the `rows` rows, the lowest row first.

        The result has one more entry at its end, for latencies above the axis. The inferences of a histogram bucket are
        spread evenly over the bucket.
        """
        bucket = column.bucket.astype(np.int64)
        low, high = (histogram.lower_edge_ns(bucket + side).astype(np.float64) for side in (0, 1))
        cumulative = np.cumsum(column.counts)
        sums = np.stack([cumulative - column.counts, cumulative], axis=1).ravel()
        below = np.interp(self.row_edges(rows), np.stack([low, high], axis=1).ravel(), sums)
        below[0] = 0.0  # the lowest row has all that is shorter as well
        counts = np.diff(below, append=float(cumulative[-1]))
        return np.where(counts >= LEAST_INFERENCES, counts, 0.0) / max(float(cumulative[-1]), 1.0)

    def row_of(self, ns: float, rows: int) -> int:
        """Return the number of the row that shows the latency `ns`. Row 0 is the lowest of the `rows` rows.

        The result for a latency above the axis is `rows`.
        """
        place = floor(log(max(ns, self.low_ns) / self.low_ns) / log(self.high_ns / self.low_ns) * rows)
        return min(max(place, 0), rows)


@lru_cache(maxsize=8)  # every column of a heat map has the same edges
def _row_edges(low_ns: float, high_ns: float, rows: int) -> Floats:
    edges = np.geomspace(low_ns, high_ns, rows + 1)
    edges.setflags(write=False)
    return edges


def choose_latency_axis(columns: Sequence[HeatColumn], deadline_ns: float | None, zoom: int = 0) -> LatencyAxis:
    """Return a latency axis that fits these columns. Pass at least one column.

    One outlier does not change the axis. `deadline_ns`: a deadline in ns that the axis includes if it is near enough;
    None for no deadline. `zoom`: how many times the user has zoomed in. Each time, the upper end moves towards the
    lower end: the logarithm of their ratio is divided by 1.5.
    """
    medians = [column.p50_ns for column in columns]
    least, greatest = max(min(medians), 1.0), max(*medians, 1.0)
    low, high = BELOW_LEAST * least, max(ABOVE_GREATEST * greatest, LEAST_RATIO * least)
    if deadline_ns is not None and deadline_ns <= DEADLINE_WITHIN * greatest:
        low, high = min(low, BELOW_LEAST * deadline_ns), max(high, deadline_ns / BELOW_LEAST)
    high = low * (high / low) ** (1.5**-zoom)
    steps = floor(log(low) / AXIS_STEP), ceil(log(high) / AXIS_STEP)
    return LatencyAxis(exp(steps[0] * AXIS_STEP), exp(max(steps[1], steps[0] + 1) * AXIS_STEP))


class LatencyHeat:
    """Adds up the latency histogram of each second, to get the columns of a heat map.

    Pass the seconds in the order of time.
    """

    def __init__(self) -> None:
        self._bin_s = BIN_S
        self._bins: dict[int, _Sum] = {}  # by number, which is the second divided by the width of a bin
        # Finished columns by width, number, and whether they were made of bins.
        self._kept: dict[tuple[int, int, bool], HeatColumn] = {}
        self._closed_until_s = 0

    def fold(self, seconds: Seconds) -> None:
        if not len(seconds):
            return
        second = seconds.rows["t_ns"] // NS
        groups = np.flatnonzero(np.diff(second // BIN_S, prepend=-1))
        for begin, end in zip(groups.tolist(), [*groups[1:].tolist(), len(second)], strict=True):
            self._add(int(second[begin]), seconds.between(begin, end))
        self._closed_until_s = int(second[-1]) + 1

    def _add(self, second: int, seconds: Seconds) -> None:
        while second >= MOST_BINS * self._bin_s:
            self._merge()
        added = _Sum.of(seconds)
        if added is not None:
            number = second // self._bin_s
            before = self._bins.get(number)
            self._bins[number] = added if before is None else before + added

    def _merge(self) -> None:
        """Make all bins twice as long, by merging each bin with its neighbour."""
        bins, self._bins = self._bins, {}
        self._bin_s *= 2
        for number, one in bins.items():
            before = self._bins.get(number // 2)
            self._bins[number // 2] = one if before is None else before + one
        self._kept = {}

    def columns(
        self, axis: Axis, latest: LatestSeconds, latest_s: int, unfinished: Seconds, *, of_response: bool = False
    ) -> tuple[HeatColumn, ...]:
        """Return the columns of a heat map along the time axis. Columns without inferences are left out.

        `latest`: the complete seconds, with a histogram for each of the last `latest_s` seconds. `unfinished`: the
        present second, as far as it is known. `of_response`: True for response times, False for service times.
        """
        width = axis.column_s
        first, end = axis.from_s // width, -(-min(axis.to_s, self._closed_until_s + 1) // width)
        # From here on, seconds are counted one by one; before it, bins.
        border_s = -(-max(self._closed_until_s - latest_s, 0) // self._bin_s) * self._bin_s
        held: Seconds | None = None
        found = []
        for number in range(max(0, first), end):
            from_s, to_s = number * width, (number + 1) * width
            is_of_bins = to_s <= border_s
            column = self._kept.get((width, number, is_of_bins))
            if column is None:
                total = self._sum_of_bins(from_s, to_s, border_s) if from_s < border_s else None
                if not is_of_bins:
                    if held is None:  # the columns before have been kept
                        held = latest.since(max(from_s, border_s) * NS)
                        held = concatenate([(held.response or NO_SECONDS) if of_response else held, unfinished])
                    begin, until = (held.before(s * NS) for s in (max(from_s, border_s), to_s))
                    total = _joined(total, _Sum.of(held.between(begin, until)))
                column = None if total is None else total.column(from_s, to_s)
                if column is not None and to_s <= self._closed_until_s and (is_of_bins or from_s >= border_s):
                    self._keep((width, number, is_of_bins), column)
            if column is not None:
                found.append(column)
        return tuple(found)

    def _keep(self, key: tuple[int, int, bool], column: HeatColumn) -> None:
        if len(self._kept) >= MOST_KEPT:
            self._kept = {}
        self._kept[key] = column

    def _sum_of_bins(self, from_s: int, to_s: int, border_s: int) -> "_Sum | None":
        """Return the sum of the bins that begin between the session seconds `from_s` and `to_s`, or None without bins.

        Only bins before the second `border_s` are added. If the time from `from_s` to `to_s` is shorter than a bin, the
        result is the bin that contains this time.
        """
        begin, end = -(-from_s // self._bin_s), -(-min(to_s, border_s) // self._bin_s)
        total: _Sum | None = None
        is_narrow = begin == end and to_s - from_s < self._bin_s and to_s <= border_s
        for number in (from_s // self._bin_s,) if is_narrow else range(begin, end):
            total = _joined(total, self._bins.get(number))
        return total


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """The histogram of some latencies: only its buckets with inferences, and the exact shortest and longest latency."""

    bucket: npt.NDArray[np.int16]
    counts: npt.NDArray[np.int64]
    low_ns: int
    high_ns: int

    @classmethod
    def of(cls, seconds: Seconds) -> "_Sum | None":
        """Return the sum of the histograms of `seconds`, or None if no inference ran in these seconds."""
        rows = seconds.rows[seconds.rows["count"] > 0]
        if not len(seconds.bucket) or not len(rows):
            return None
        return cls(*_added(seconds.bucket, seconds.bucket_count), int(rows["min_ns"].min()), int(rows["max_ns"].max()))

    def __add__(self, other: "_Sum") -> "_Sum":
        added = _added(np.concatenate([self.bucket, other.bucket]), np.concatenate([self.counts, other.counts]))
        return _Sum(*added, min(self.low_ns, other.low_ns), max(self.high_ns, other.high_ns))

    def column(self, from_s: int, to_s: int) -> HeatColumn:
        base = int(self.bucket[0])
        dense = np.zeros(int(self.bucket[-1]) - base + 1, np.int64)
        dense[self.bucket.astype(np.int64) - base] = self.counts
        p50, p99 = histogram.percentiles(dense, (0.50, 0.99), self.low_ns, self.high_ns, first_bucket=base)
        return HeatColumn(from_s, to_s, self.bucket, self.counts, self.low_ns, self.high_ns, p50, p99)


def _joined(first: _Sum | None, second: _Sum | None) -> _Sum | None:
    return first if second is None else second if first is None else first + second


def _added(
    bucket: npt.NDArray[np.int16], counts: npt.NDArray[np.int64] | npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]:
    """Return arrays `(bucket, counts)` in which each bucket occurs once, ascending, with the sum of its counts."""
    base = int(bucket.min())
    dense = np.bincount(bucket.astype(np.int64) - base, counts)
    (place,) = dense.nonzero()
    return (place + base).astype(np.int16), dense[place].astype(np.int64)
