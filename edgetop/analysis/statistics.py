"""The figures of a set of latencies, and which of its percentiles are based on enough inferences."""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from edgetop.session import histogram
from edgetop.session.records import Inferences, copied, response_ns
from edgetop.session.seconds import QUANTILES, Seconds

# Number of inferences from which a percentile is settled. Paper: the queries that MLPerf's LoadGen requires for 99 %
# confidence with one query above the percentile (early stopping, inference/loadgen/early_stopping.cc). Larger: long
# runs still have doubtful percentiles; smaller: chance moves a percentile that counts as settled.
SETTLED_COUNTS = {0.50: 11, 0.90: 64, 0.95: 130, 0.99: 662, 0.999: 6_636}

# Most streams that are judged each by itself; the others are only part of the totals. Choice: a program with more is
# a test, and each costs memory. Larger: a session with many streams costs more; smaller: a stream that slows is
# missed.
MOST_JUDGED = 32

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Figures of inferences that make sense for several models together, such as counts. Percentiles do not."""

    count: int
    mean_ns: float  # Mean service time of an inference.
    max_ns: int
    throughput_hz: float | None
    errors: int = 0
    misses: int | None = None  # None without a deadline.
    longest_miss_run: int | None = None  # Length of the longest run of successive misses.


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics(Counted):
    """Statistics of inferences. All times are in ns. Percentiles are nearest-rank, in the order of QUANTILES."""

    stdev_ns: float | None  # None if there are fewer than two samples.
    min_ns: int
    percentiles_ns: tuple[float, ...]
    jitter_ns: float | None  # Mean absolute difference of successive latencies.

    def percentile_ns(self, quantile: float) -> float:
        return self.percentiles_ns[QUANTILES.index(quantile)]

    def is_settled(self, quantile: float) -> bool:
        return self.count >= SETTLED_COUNTS[quantile]


def as_response(inferences: Inferences) -> Inferences:
    """Return a copy of the inferences in which the latencies are response times."""
    responding = copied(inferences)
    responding["latency_ns"] = response_ns(inferences)
    return responding


def of_inferences(inferences: Inferences, span_ns: int | None) -> Statistics | None:
    """Return exact statistics of a few inferences, or None if no inference succeeded.

    `inferences`: the inferences in the order of measurement. `span_ns`: the length of the measured time in ns, for the
    throughput; None if unknown.
    """
    latency_ns = inferences["latency_ns"][inferences["ok"]].astype(np.int64)
    count = len(latency_ns)
    if not count:
        return None
    ranks = [histogram.nearest_rank(count, quantile) for quantile in QUANTILES]
    placed = np.partition(latency_ns, ranks)
    return Statistics(
        count=count,
        mean_ns=float(latency_ns.mean()),
        stdev_ns=float(latency_ns.std(ddof=1)) if count > 1 else None,
        min_ns=int(latency_ns.min()),
        max_ns=int(latency_ns.max()),
        percentiles_ns=tuple(float(placed[rank]) for rank in ranks),
        jitter_ns=float(np.abs(np.diff(latency_ns)).mean()) if count > 1 else None,
        throughput_hz=_per_second(count, span_ns),
        errors=len(inferences) - count,
    )


def _per_second(count: int, span_ns: int | None) -> float | None:
    return count / (span_ns / 1e9) if span_ns else None


@dataclass(slots=True)
class Totals:
    """Totals over seconds: sums, extremes, spread and histogram of latencies.

    The spread is merged row by row, in order, by Chan, Golub and LeVeque's formula (1979, Updating formulae, eq. 1.5b).
    So a live run and its replay get the same figures to the last bit, however the rows were cut into batches. All other
    figures are whole numbers.
    """

    count: int = 0
    errors: int = 0
    misses: int | None = None
    sum_ns: int = 0
    min_ns: int | None = None
    max_ns: int | None = None
    m2_ns2: float = 0.0
    jitter_sum_ns: int = 0
    jitter_count: int = 0
    longest_miss_run: int | None = None
    last_miss_run: int = 0  # Misses since the last inference that met its deadline.
    buckets: histogram.Counts = field(default_factory=lambda: np.zeros(histogram.SIZE, np.int64))

    def add(self, seconds: Seconds) -> None:
        rows = seconds.rows
        self.errors += int(rows["errors"].sum())
        missed = rows["deadline_misses"][rows["deadline_misses"] >= 0]
        if len(missed):
            self.misses = (self.misses or 0) + int(missed.sum())
            ran = that_ran(rows)
            self._follow_runs(ran[ran["miss_run_longest"] >= 0])
        rows = that_ran(rows)
        if not len(rows):
            return
        shortest, longest = int(rows["min_ns"].min()), int(rows["max_ns"].max())
        self.min_ns = shortest if self.min_ns is None else min(self.min_ns, shortest)
        self.max_ns = longest if self.max_ns is None else max(self.max_ns, longest)
        self.jitter_sum_ns += int(rows["jitter_sum_ns"].sum())
        self.jitter_count += int(rows["jitter_count"].sum())
        self.buckets += seconds.histogram()
        self._spread(rows["count"].astype(np.int64), rows["sum_ns"].astype(np.int64), rows["m2_ns2"])

    def plus(self, seconds: Seconds) -> "Totals":
        """Return new totals that include `seconds` too. These totals stay unchanged."""
        total = replace(self, buckets=self.buckets.copy())
        total.add(seconds)
        return total

    def _spread(self, count: Ints, sum_ns: Ints, m2_ns2: Floats) -> None:
        """Add rows to the count and the sum of latencies, and to the sum of their squared deviations from the mean.

        `count`: the number of inferences in each row. `sum_ns`: the sum of the row's latencies. `m2_ns2`: the sum of
        their squared deviations from the row's mean.
        """
        counts, sums = (
            np.cumsum(np.concatenate(([start], rows))) for start, rows in ((self.count, count), (self.sum_ns, sum_ns))
        )
        before, sum_before = counts[:-1], sums[:-1]
        apart = sum_ns / count - sum_before / np.maximum(before, 1)
        between = np.where(before > 0, apart * apart * (count * before / (count + before)), 0.0)
        steps = np.empty(2 * len(count) + 1)
        steps[0], steps[1::2], steps[2::2] = self.m2_ns2, between, m2_ns2
        self.m2_ns2 = float(np.add.accumulate(steps)[-1])
        self.count, self.sum_ns = int(counts[-1]), int(sums[-1])

    def _follow_runs(self, rows: npt.NDArray[np.void]) -> None:
        """Update the length of the longest series of successive missed deadlines, with the rows of the next seconds.

        A series may continue over several seconds.
        """
        count, first, last = (rows[name].astype(np.int64) for name in ("count", "miss_run_first", "miss_run_last"))
        # Number of misses in seconds in which all inferences missed.
        within = np.cumsum(np.where(first == count, count, 0))
        ends = np.flatnonzero(first < count)  # Seconds in which a run from earlier seconds ends.
        before = np.concatenate([[self.last_miss_run], last[ends] - within[ends]])
        joined = before[:-1] + within[ends] + first[ends]
        self.last_miss_run = int(before[-1] + (within[-1] if len(within) else 0))
        within_one, over_ends = (int(runs.max(initial=0)) for runs in (rows["miss_run_longest"], joined))
        self.longest_miss_run = max(self.longest_miss_run or 0, self.last_miss_run, within_one, over_ends)

    def statistics(self, span_ns: int | None) -> Statistics | None:
        """Return the statistics, or None if nothing was measured. Percentiles are accurate to 1 %, the rest is exact.

        `span_ns`: the length of the measured time in ns, for the throughput; None if unknown.
        """
        if not self.count or self.min_ns is None or self.max_ns is None:
            return None
        return Statistics(
            count=self.count,
            mean_ns=self.sum_ns / self.count,
            stdev_ns=float(np.sqrt(self.m2_ns2 / (self.count - 1))) if self.count > 1 else None,
            min_ns=self.min_ns,
            max_ns=self.max_ns,
            percentiles_ns=histogram.percentiles(self.buckets, QUANTILES, self.min_ns, self.max_ns),
            jitter_ns=self.jitter_sum_ns / self.jitter_count if self.jitter_count else None,
            throughput_hz=_per_second(self.count, span_ns),
            errors=self.errors,
            misses=self.misses,
            longest_miss_run=self.longest_miss_run,
        )


def that_ran(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return the rows of the seconds in which inferences succeeded.

    If these are all rows, the result is `rows` itself and no copy.
    """
    ran = rows["count"] > 0
    return rows if ran.all() else rows[ran]


def between_percentiles(quantile: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the position of each quantile on a scale for interpolating latencies between percentiles.

    The scale is linear below the median. Above the median it is -log(1 - quantile), because the slowest
    latencies are about exponentially distributed.
    """
    return np.where(quantile <= 0.5, 2 * np.log(2) * quantile, -np.log(1 - quantile))


# Places of the quantiles that the row of a second has, from its minimum to its maximum.
TOLD_PLACES = between_percentiles(np.array([0.0, *QUANTILES, 0.9999]))
