"""The seconds of a session: one row of statistics for each second, from which long sessions are drawn and summarised.

The conductor makes the rows once, and the recording keeps them. The analysis uses the same rows live and from disk, so
that both give the same figures. Only inferences with `ok` and phase `measure` count. An inference belongs to the second
in which it started.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgetop.session import histogram
from edgetop.session.records import MEASURE, NO_INFERENCES, Inferences, join, measured, response_ns

NS = 1_000_000_000

QUANTILES = (0.50, 0.90, 0.95, 0.99, 0.999)
PERCENTILE_FIELDS = ("p50_ns", "p90_ns", "p95_ns", "p99_ns", "p999_ns")

MOST_EMPTY_S = 7 * 86_400  # a longer pause without inferences gets no rows

# Value of a figure that a second does not have, such as a percentile without inferences. It is null in the file.
ABSENT = -1

SECOND = np.dtype(
    [
        ("t_ns", "<i8"),  # start of the second
        ("count", "<i4"),
        ("errors", "<i4"),  # inferences of phase `measure` that raised
        ("deadline_misses", "<i4"),  # ABSENT without a deadline
        ("sum_ns", "<i8"),
        ("min_ns", "<i8"),
        ("max_ns", "<i8"),
        *[(name, "<i8") for name in PERCENTILE_FIELDS],
        ("m2_ns2", "<f8"),  # sum of squared deviations from this second's mean
        ("jitter_sum_ns", "<i8"),  # sum of |difference| between successive latencies
        ("jitter_count", "<i4"),
        # Successive misses: how many in a row at the second's beginning, at its end, and at most; ABSENT without a
        # deadline. The longest run of misses of a session follows exactly from these.
        ("miss_run_first", "<i4"),
        ("miss_run_last", "<i4"),
        ("miss_run_longest", "<i4"),
    ]
)
OF_DEADLINE = ("deadline_misses", "miss_run_first", "miss_run_last", "miss_run_longest")


@dataclass(frozen=True, slots=True)
class Seconds:
    """Consecutive seconds: `rows` of SECOND, and a sparse histogram for each.

    The buckets of row i are `bucket[offsets[i]:offsets[i + 1]]`, ascending. `bucket_count` has the number of inferences
    in each.

    `response` has the same seconds with response time (`wait_ns + latency_ns`) in place of latency. It is None under a
    closed load, in which no inference waits. Errors and deadline misses are only in the outer rows.
    """

    rows: npt.NDArray[np.void]
    offsets: npt.NDArray[np.int32]  # len(rows) + 1
    bucket: npt.NDArray[np.int16]
    bucket_count: npt.NDArray[np.int32]
    response: "Seconds | None" = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def runs(self) -> int:
        """Number of inferences, including those with errors."""
        return int(self.rows["count"].sum(dtype=np.int64) + self.rows["errors"].sum(dtype=np.int64))

    def histogram(self) -> histogram.Counts:
        """Return the dense histogram of all rows together, with shape (SIZE,)."""
        counts = np.bincount(self.bucket, weights=self.bucket_count, minlength=histogram.SIZE)
        return counts.astype(np.int64)

    def where(self, wanted: npt.NDArray[np.bool_]) -> "Seconds":
        """Return the rows for which `wanted` is true, as a copy unless all are."""
        return self if wanted.all() else self.take(np.flatnonzero(wanted))

    def before(self, t_ns: int) -> int:
        """Return how many rows begin before `t_ns`."""
        return int(np.searchsorted(self.rows["t_ns"], t_ns))

    def between(self, begin: int, end: int) -> "Seconds":
        """Return the rows between two positions, the second one excluded, without a copy."""
        held = slice(int(self.offsets[begin]), int(self.offsets[end]))
        response = None if self.response is None else self.response.between(begin, end)
        offsets = self.offsets[begin : end + 1] - self.offsets[begin]
        return Seconds(self.rows[begin:end], offsets, self.bucket[held], self.bucket_count[held], response)

    def take(self, places: npt.NDArray[np.int64]) -> "Seconds":
        """Return the rows at these positions, in this order."""
        lengths = np.diff(self.offsets)[places]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        held = np.repeat(self.offsets[:-1][places] - offsets[:-1], lengths) + np.arange(offsets[-1])
        response = None if self.response is None else self.response.take(places)
        return Seconds(self.rows[places], offsets, self.bucket[held], self.bucket_count[held], response)


NO_SECONDS = Seconds(np.empty(0, SECOND), np.zeros(1, np.int32), np.empty(0, np.int16), np.empty(0, np.int32))


def concatenate(parts: Sequence[Seconds]) -> Seconds:
    parts = [part for part in parts if len(part)]
    if len(parts) <= 1:
        return parts[0] if parts else NO_SECONDS
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    responses = [part.response for part in parts if part.response is not None]
    return Seconds(
        np.concatenate([part.rows for part in parts], dtype=SECOND),  # without dtype it is slow
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        np.concatenate([part.bucket for part in parts]),
        np.concatenate([part.bucket_count for part in parts]),
        concatenate(responses) if len(responses) == len(parts) else None,
    )


def summed(seconds: Seconds, every_s: int) -> Seconds:
    """Add up the histograms of every `every_s` seconds in the first row of each group; the other rows lose theirs.

    A group is the rows whose number of the second gives the same quotient when divided by `every_s`.
    """
    if not len(seconds):
        return NO_SECONDS
    number = seconds.rows["t_ns"] // (every_s * NS)
    first = np.flatnonzero(np.diff(number, prepend=number[0] - 1))
    ends = seconds.offsets[np.append(first[1:], len(seconds))]
    sums = [
        histogram.sparse(np.bincount(seconds.bucket[begin:end], seconds.bucket_count[begin:end]).astype(np.int64))
        for begin, end in zip(seconds.offsets[first].tolist(), ends.tolist(), strict=True)
    ]
    lengths = np.zeros(len(seconds), np.int32)
    lengths[first] = [len(bucket) for bucket, _ in sums]
    return Seconds(
        seconds.rows,
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        np.concatenate([bucket for bucket, _ in sums]),
        np.concatenate([count for _, count in sums]),
        None if seconds.response is None else summed(seconds.response, every_s),
    )


class SecondAggregator:
    """Turns inferences, in pieces of any size, into complete seconds without a gap between them.

    Inferences must be added in the order in which they started. A second is complete when an inference of a later
    second arrives; `close` completes the last one.

    A pause of more than MOST_EMPTY_S seconds leaves a gap. Times may come from other programs, and a row for each
    second up to a wrong time could fill the memory.
    """

    def __init__(
        self,
        deadline_ns: int | None = None,
        first_second: int = 0,
        last: Inferences = NO_INFERENCES,
        *,
        is_paced: bool = False,
    ) -> None:
        """Begin with the second number `first_second`.

        `last` are inferences before that second, if there were any; the last of them must be the last that counted.
        `is_paced` adds response time to service time.
        """
        self._deadline_ns = deadline_ns
        self._open: list[Inferences] = []
        self._open_second = first_second
        self._service = _Summary(last["latency_ns"])
        self._response = _Summary(response_ns(last)) if is_paced else None

    def add(self, inferences: Inferences) -> Seconds:
        """Add inferences, and return the seconds that they complete, in order."""
        if not len(inferences):
            return NO_SECONDS
        second = inferences["t_ns"] // NS
        cuts = np.flatnonzero(np.diff(second)) + 1
        done: list[Seconds] = []
        for piece in np.split(inferences, cuts):
            done.extend(self._advance(int(piece["t_ns"][0] // NS)))
            self._open.append(piece)
        return concatenate(done)

    def close(self) -> Seconds:
        """Return the last second, if it has inferences. The aggregator is empty afterwards."""
        return concatenate(self._advance(self._open_second + 1) if self._open else [])

    def _advance(self, second: int) -> list[Seconds]:
        done = []
        if self._open and self._open_second < second:
            done.append(self._summarise(join(self._open)))
            self._open = []
            self._open_second += 1
        if 0 < (empty := second - self._open_second) <= MOST_EMPTY_S:
            done.append(_repeated(self._summarise(NO_INFERENCES), empty))
        self._open_second = max(self._open_second, second)
        return done

    def _summarise(self, inferences: Inferences) -> Seconds:
        t_ns, counted = self._open_second * NS, measured(inferences)
        second = self._service.second(t_ns, counted["latency_ns"])
        second.rows["errors"] = np.count_nonzero((inferences["phase"] == MEASURE) & ~inferences["ok"])
        if self._deadline_ns is not None:
            missed = response_ns(counted) > self._deadline_ns
            for name, value in zip(OF_DEADLINE, (np.count_nonzero(missed), *_runs(missed)), strict=True):
                second.rows[name] = value
        return (
            second
            if self._response is None
            else replace(second, response=self._response.second(t_ns, response_ns(counted)))
        )


def _repeated(one: Seconds, count: int) -> Seconds:
    """Return `count` successive seconds without inferences, of which `one` is the first."""
    rows = np.repeat(one.rows, count)
    rows["t_ns"] += np.arange(count) * NS
    response = None if one.response is None else _repeated(one.response, count)
    return Seconds(rows, np.zeros(count + 1, np.int32), one.bucket, one.bucket_count, response)


class _Summary:
    """Makes the rows of successive seconds from one kind of time: service time or response time."""

    def __init__(self, last_ns: npt.NDArray[np.int64]) -> None:
        """`last_ns` has times before the first second. Only the last one is used, for jitter."""
        self._last_ns: int | None = int(last_ns[-1]) if len(last_ns) else None

    def second(self, t_ns: int, times_ns: npt.NDArray[np.int64]) -> Seconds:
        row = np.zeros(1, SECOND)
        row["t_ns"], row["count"] = t_ns, len(times_ns)
        for name in OF_DEADLINE:
            row[name] = ABSENT
        latency = times_ns.astype(np.int64)
        if len(latency):
            self._fill(row, latency)
        else:
            for name in ("min_ns", "max_ns", *PERCENTILE_FIELDS):
                row[name] = ABSENT
        bucket, held = histogram.sparse(histogram.count_buckets(latency))
        return Seconds(row, np.array([0, len(bucket)], np.int32), bucket, held)

    def _fill(self, row: npt.NDArray[np.void], latency: npt.NDArray[np.int64]) -> None:
        ordered = np.sort(latency)
        row["sum_ns"], row["min_ns"], row["max_ns"] = ordered.sum(), ordered[0], ordered[-1]
        for name, quantile in zip(PERCENTILE_FIELDS, QUANTILES, strict=True):
            row[name] = ordered[histogram.nearest_rank(len(ordered), quantile)]
        deviation = latency - latency.mean()
        row["m2_ns2"] = np.dot(deviation, deviation)
        before = latency[:1] if self._last_ns is None else np.array([self._last_ns])
        steps = np.abs(np.diff(latency, prepend=before))
        row["jitter_sum_ns"] = steps.sum()
        row["jitter_count"] = len(steps) - (self._last_ns is None)
        self._last_ns = int(latency[-1])


def _runs(missed: npt.NDArray[np.bool_]) -> tuple[int, int, int]:
    """Return the number of successive true values at the beginning, at the end, and in the longest run.

    >>> _runs(np.array([True, False, True, True, True, False, True, True]))
    (1, 2, 3)
    """
    ends = np.concatenate([[-1], np.flatnonzero(~missed), [len(missed)]])
    runs = np.diff(ends) - 1
    return int(runs[0]), int(runs[-1]), int(runs.max())


class PartialSecond:
    """The second that is not complete yet."""

    def __init__(self, deadline_ns: int | None = None, *, is_paced: bool = False) -> None:
        self._deadline_ns = deadline_ns
        self._is_paced = is_paced
        self._begin_ns = 0
        self._inferences: Inferences = NO_INFERENCES
        self._last: Inferences = NO_INFERENCES

    def add(self, inferences: Inferences, seconds: Seconds) -> None:
        """Add inferences. `seconds` are those that they completed."""
        inferences = join([self._inferences, inferences])
        if len(seconds):
            self._begin_ns = int(seconds.rows["t_ns"][-1]) + NS
            before = measured(inferences[inferences["t_ns"] < self._begin_ns])
            if len(before):
                self._last = before[-1:]
        self._inferences = inferences[inferences["t_ns"] >= self._begin_ns]

    def seconds(self) -> Seconds:
        """Return the incomplete second with the inferences so far, or no row if there are none."""
        if not len(self._inferences):
            return NO_SECONDS
        aggregator = SecondAggregator(self._deadline_ns, self._begin_ns // NS, self._last, is_paced=self._is_paced)
        return concatenate([aggregator.add(self._inferences), aggregator.close()])
