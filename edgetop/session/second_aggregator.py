"""The statistics of each second of a session, made from its individual inferences."""

from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from edgetop.session import histogram
from edgetop.session.records import (
    NO_INFERENCES,
    Inferences,
    SplitBy,
    by_stream,
    join,
    latest,
    measured,
    of_measure,
    response_ns,
)
from edgetop.session.seconds import (
    ABSENT,
    MOST_EMPTY_S,
    NO_SECONDS,
    NS,
    OF_DEADLINE,
    OF_INFERENCES,
    PERCENTILE_FIELDS,
    QUANTILES,
    SECOND,
    Seconds,
    StreamSeconds,
    concatenate,
)


class SecondAggregator:
    """Makes one row of statistics for each second, from inferences that are added in pieces of any size.

    Inferences must be added in the order in which they started. A second is complete when an inference of a later
    second arrives, or when `close` is called. Seconds without inferences get rows too, unless a pause is longer than
    MOST_EMPTY_S seconds: a wrong time from a watched program could otherwise fill the memory with rows.
    """

    def __init__(
        self,
        deadline_ns: int | None = None,
        first_second: int = 0,
        last: Inferences = NO_INFERENCES,
        *,
        is_paced: bool = False,
        split_by: SplitBy = None,
    ) -> None:
        """Begin with the second `first_second`, counted from the session's origin.

        `deadline_ns` is the longest allowed response time, or None. `last` has the last inference of each stream before
        `first_second`, from which the next jitter is counted, in order of time. `is_paced` adds statistics of response
        times. `split_by` is the field with an inference's stream number, or None.
        """
        self._open: list[Inferences] = []
        self._open_second = first_second
        self._new = partial(_Statistics, deadline_ns, is_paced=is_paced)
        self._whole = self._new(last)
        self._split_by: SplitBy = split_by
        self._streams: dict[int, _Statistics] = {}
        for number, piece in by_stream(latest(last, split_by), split_by) if split_by else ():
            self._streams[number] = self._new(piece)

    def add(self, inferences: Inferences) -> Seconds:
        """Add inferences, and return the rows of the seconds that became complete, in order."""
        if not len(inferences):
            return NO_SECONDS
        second = inferences["t_ns"] // NS
        cuts = (np.flatnonzero(second[1:] != second[:-1]) + 1).tolist()
        done: list[Seconds] = []
        for begin, end in zip([0, *cuts], [*cuts, len(inferences)], strict=True):
            done.extend(self._advance(int(second[begin])))
            self._open.append(inferences[begin:end])
        return concatenate(done)

    def complete(self, second: int) -> Seconds:
        """Return the rows of all seconds before the second `second` that were not returned yet.

        All inferences of these seconds must have been added.
        """
        return concatenate(self._advance(second))

    def close(self) -> Seconds:
        """Return the row of the last second, or no row if it has no inferences. The aggregator is empty afterwards."""
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
        t_ns, own = self._open_second * NS, of_measure(inferences)
        second = self._whole.second(t_ns, own)
        if self._split_by is None or not len(own):
            return second
        if not own[self._split_by].any():
            self._of_stream(0).skip(own)
            return second
        pieces = list(by_stream(own, self._split_by))
        rows = concatenate([self._of_stream(number).second(t_ns, piece) for number, piece in pieces])
        numbers = np.array([number for number, _ in pieces], np.uint8)
        return replace(second, streams=StreamSeconds(np.array([0, len(pieces)], np.int32), numbers, rows))

    def _of_stream(self, number: int) -> "_Statistics":
        return self._streams.setdefault(number, self._new(NO_INFERENCES))


class _Statistics:
    """Makes the rows of successive seconds, of one stream or of all streams together."""

    def __init__(self, deadline_ns: int | None, last: Inferences, *, is_paced: bool) -> None:
        self._deadline_ns = deadline_ns
        self._service = DurationAggregator(last["latency_ns"])
        self._response = DurationAggregator(response_ns(last)) if is_paced else None

    def second(self, t_ns: int, inferences: Inferences) -> Seconds:
        """Return the row of the second that begins at `t_ns`.

        `inferences` are all inferences of the measured phase that began in this second.
        """
        counted = measured(inferences)
        second = self._service.second(t_ns, counted["latency_ns"])
        second.rows["errors"] = len(inferences) - len(counted)
        if self._deadline_ns is not None:
            missed = response_ns(counted) > self._deadline_ns
            for name, value in zip(OF_DEADLINE, (np.count_nonzero(missed), *_runs(missed)), strict=True):
                second.rows[name] = value
        return (
            second
            if self._response is None
            else replace(second, response=self._response.second(t_ns, response_ns(counted)))
        )

    def skip(self, inferences: Inferences) -> None:
        """Make no row, but remember the last of these inferences: the next row's jitter is counted from there."""
        last = measured(inferences)[-1:]
        self._service.skip(last["latency_ns"])
        if self._response is not None:
            self._response.skip(response_ns(last))


def _repeated(one: Seconds, count: int) -> Seconds:
    """Return the rows of `count` successive seconds without inferences, beginning with the row `one`."""
    rows = np.repeat(one.rows, count)
    rows["t_ns"] += np.arange(count) * NS
    response = None if one.response is None else _repeated(one.response, count)
    return Seconds(rows, np.zeros(count + 1, np.int32), one.bucket, one.bucket_count, response)


class DurationAggregator:
    """Makes the rows of successive seconds for one kind of duration, such as latency or the time between tokens."""

    def __init__(self, last_ns: npt.NDArray[np.int64]) -> None:
        """Begin after the durations `last_ns`, in ns. The first jitter is counted from the last duration."""
        self._last_ns: int | None = None
        self.skip(last_ns)

    def skip(self, times_ns: npt.NDArray[np.int64]) -> None:
        """Make no row, but remember the last of these durations in ns: the next row's jitter is counted from there."""
        if len(times_ns):
            self._last_ns = int(times_ns[-1])

    def second(self, t_ns: int, times_ns: npt.NDArray[np.int64]) -> Seconds:
        row = np.zeros(1, SECOND)
        row["t_ns"], row["count"] = t_ns, len(times_ns)
        for name in OF_DEADLINE:
            row[name] = ABSENT
        latency = times_ns.astype(np.int64)
        if len(latency):
            self._fill(row, latency)
        else:
            for name in OF_INFERENCES:
                row[name] = ABSENT
        bucket, held = histogram.sparse(histogram.count_buckets(latency))
        return Seconds(row, np.array([0, len(bucket)], np.int32), bucket, held)

    def _fill(self, row: npt.NDArray[np.void], latency: npt.NDArray[np.int64]) -> None:
        ordered = np.sort(latency)
        row["sum_ns"], row["min_ns"], row["max_ns"] = ordered.sum(), ordered[0], ordered[-1]
        for name, quantile in zip(PERCENTILE_FIELDS, QUANTILES, strict=True):
            row[name] = ordered[histogram.nearest_rank(len(ordered), quantile)]
        deviation = latency - latency.mean()
        # Not `np.dot`: from 10,000 numbers on, OpenBLAS wakes its threads, which then spin for 25 ms beside the model.
        row["m2_ns2"] = np.square(deviation).sum()
        before = latency[:1] if self._last_ns is None else np.array([self._last_ns])
        steps = np.abs(np.diff(latency, prepend=before))
        row["jitter_sum_ns"] = steps.sum()
        row["jitter_count"] = len(steps) - (self._last_ns is None)
        self._last_ns = int(latency[-1])


def _runs(missed: npt.NDArray[np.bool_]) -> tuple[int, int, int]:
    """Return the lengths of three runs of true values: the run at the beginning, the run at the end, and the longest.

    >>> _runs(np.array([True, False, True, True, True, False, True, True]))
    (1, 2, 3)
    """
    ends = np.concatenate([[-1], np.flatnonzero(~missed), [len(missed)]])
    runs = np.diff(ends) - 1
    return int(runs[0]), int(runs[-1]), int(runs.max())
