"""The statistics of each second of a session. Long sessions are drawn and summarised from them.

The rows are made once, during the run, so a live screen and a report give the same figures. Only inferences with `ok`
and phase `measure` count. An inference belongs to the second in which it started.

A session may run several models: those of a watched program, or the variants of an A/B session. Percentiles of a
mixture of models describe none of them, so a second also has separate statistics of each model, called a stream.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.session import histogram

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

OF_INFERENCES = ("min_ns", "max_ns", *PERCENTILE_FIELDS)  # ABSENT without inferences


@frozen
class Seconds:
    """The statistics of successive seconds: `rows` has one row of type SECOND for each, with a histogram.

    - The bucket numbers of row i are `bucket[offsets[i]:offsets[i + 1]]`, ascending. `bucket_count` has the number of
      inferences in each of these buckets.
    - `response` has the statistics of response time (`wait_ns + latency_ns`) for the same seconds, without errors and
      deadline misses; None if no inference can wait.
    - `streams` has separate statistics of each stream (model). If `streams` is None, or has no row for a second, only
      stream 0 ran in that second.
    - `tokens` has the figures of a language model's tokens; None for other models.
    """

    rows: npt.NDArray[np.void]
    offsets: npt.NDArray[np.int32]  # len(rows) + 1
    bucket: npt.NDArray[np.int16]
    bucket_count: npt.NDArray[np.int32]
    response: "Seconds | None" = None
    streams: "StreamSeconds | None" = None
    tokens: "TokenSeconds | None" = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def runs(self) -> int:
        """Number of inferences, including those that failed."""
        return int(self.rows["count"].sum(dtype=np.int64) + self.rows["errors"].sum(dtype=np.int64))

    def histogram(self) -> histogram.Counts:
        """Return the sum of the histograms: the number of inferences in each bucket, as an array of length SIZE."""
        counts = np.bincount(self.bucket, weights=self.bucket_count, minlength=histogram.SIZE)
        return counts.astype(np.int64)

    def where(self, wanted: npt.NDArray[np.bool_]) -> "Seconds":
        """Return the rows for which `wanted` is true."""
        return self if wanted.all() else self.take(np.flatnonzero(wanted))

    def before(self, t_ns: int) -> int:
        """Return the number of rows whose second begins before `t_ns`."""
        return int(self.rows["t_ns"].searchsorted(t_ns))

    def between(self, begin: int, end: int) -> "Seconds":
        """Return the rows at positions `begin` to `end - 1`, without a copy."""
        if begin == 0 and end == len(self.rows):
            return self
        held = slice(int(self.offsets[begin]), int(self.offsets[end]))
        response = None if self.response is None else self.response.between(begin, end)
        streams = None if self.streams is None else self.streams.between(begin, end)
        offsets = self.offsets[begin : end + 1] - self.offsets[begin]
        tokens = None if self.tokens is None else self.tokens.between(begin, end)
        buckets = self.bucket[held], self.bucket_count[held]
        return Seconds(self.rows[begin:end], offsets, *buckets, response, streams, tokens)

    def take(self, places: npt.NDArray[np.int64]) -> "Seconds":
        """Return the rows at the positions `places`, in this order."""
        offsets, held = _gathered(self.offsets, places)
        response = None if self.response is None else self.response.take(places)
        streams = None if self.streams is None else self.streams.take(places)
        tokens = None if self.tokens is None else self.tokens.take(places)
        buckets = self.bucket[held], self.bucket_count[held]
        return Seconds(self.rows[places], offsets, *buckets, response, streams, tokens)


TOKEN_SECOND = np.dtype(
    [
        ("requests", "<i4"),  # requests that ended, without those that a stop cut off
        ("tokens_in", "<i8"),  # prompt tokens of these requests
        ("tokens_cached", "<i8"),  # prompt tokens of these requests that a cache already held
        ("prefill_ns", "<i8"),  # time to process the prompts of these requests
        ("tokens_out", "<i8"),  # tokens generated in this second
        ("position_mean", "<f8"),  # mean position of the tokens, without the first token of each request; 0 if none
        ("position_max", "<i4"),  # most tokens in a context
        # Times between tokens depend on how many requests generate at the same time. The following four are about the
        # tokens of this second with one such number: the least one with a tenth of the tokens.
        ("active", "<i4"),  # this number; 0 if it is unknown
        ("active_count", "<i8"),  # number of these tokens
        ("active_p50_ns", "<i8"),  # their median time since the token before
        ("active_position", "<f8"),  # their mean position
    ]
)
OF_ACTIVE = ("active", "active_count", "active_p50_ns", "active_position")  # the fields that older recordings lack


@frozen
class TokenSeconds:
    """The figures of a language model's tokens in successive seconds, with a row for each second."""

    rows: npt.NDArray[np.void]  # of TOKEN_SECOND
    itl: Seconds  # times between successive tokens
    ttft: Seconds  # times to the first token

    def __len__(self) -> int:
        return len(self.rows)

    def between(self, begin: int, end: int) -> "TokenSeconds":
        return TokenSeconds(self.rows[begin:end], self.itl.between(begin, end), self.ttft.between(begin, end))

    def take(self, places: npt.NDArray[np.int64]) -> "TokenSeconds":
        return TokenSeconds(self.rows[places], self.itl.take(places), self.ttft.take(places))

    def mapped(self, change: Callable[[Seconds], Seconds]) -> "TokenSeconds":
        """Return a copy with `change` applied to both tables (`itl` and `ttft`)."""
        return replace(self, itl=change(self.itl), ttft=change(self.ttft))

    def joined(self, parts: Sequence[Seconds]) -> "TokenSeconds":
        """Return the token figures of successive tables of seconds as one table.

        A part without token figures counts as zeros.
        """
        each = [part.tokens or none_in(part) for part in parts]
        return TokenSeconds(
            np.concatenate([one.rows for one in each], dtype=TOKEN_SECOND),
            concatenate([one.itl for one in each]),
            concatenate([one.ttft for one in each]),
        )


@frozen
class StreamSeconds:
    """Separate statistics of each stream (model) in successive seconds.

    A second in which only stream 0 ran has no rows here. Any other second has a row for each stream that ran in it. The
    rows of second i are at the positions `offsets[i]` to `offsets[i + 1] - 1` of `number` and `seconds`.
    """

    offsets: npt.NDArray[np.int32]  # one more than there are seconds
    number: npt.NDArray[np.uint8]  # the stream of each row, ascending within a second
    # A row for each second and stream. It begins with its second, and has response time if that has. No `streams`.
    seconds: Seconds

    def __len__(self) -> int:
        return len(self.number)

    @property
    def owner(self) -> npt.NDArray[np.int64]:
        """The position of the second to which each row belongs."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def between(self, begin: int, end: int) -> "StreamSeconds | None":
        """Return the rows of the seconds at positions `begin` to `end - 1`, or None if there are no rows."""
        first, last = int(self.offsets[begin]), int(self.offsets[end])
        offsets = self.offsets[begin : end + 1] - self.offsets[begin]
        return _streams(offsets, self.number[first:last], self.seconds.between(first, last))

    def take(self, places: npt.NDArray[np.int64]) -> "StreamSeconds | None":
        """Return the rows of the seconds at the positions `places`, in this order, or None if there are no rows."""
        offsets, held = _gathered(self.offsets, places)
        return _streams(offsets, self.number[held], self.seconds.take(held)) if len(held) else None


def _streams(offsets: npt.NDArray[np.int32], number: npt.NDArray[np.uint8], seconds: Seconds) -> "StreamSeconds | None":
    return StreamSeconds(offsets, number, seconds) if len(number) else None


def has_runs(seconds: Seconds) -> npt.NDArray[np.bool_]:
    return np.asarray((seconds.rows["count"] > 0) | (seconds.rows["errors"] > 0))


def _gathered(
    offsets: npt.NDArray[np.int32], places: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Return where each chosen list begins in the result, and the indices of the items of all chosen lists.

    List i has the items `offsets[i]` to `offsets[i + 1] - 1`. `places` are the numbers of the chosen lists, in order.

    >>> [array.tolist() for array in _gathered(np.array([0, 2, 5], np.int32), np.array([1, 0]))]
    [[0, 3, 5], [2, 3, 4, 0, 1]]
    """
    lengths = np.diff(offsets)[places]
    chosen = _offsets(lengths)
    return chosen, np.repeat(offsets[:-1][places] - chosen[:-1], lengths) + np.arange(chosen[-1])


def emptied(seconds: Seconds) -> Seconds:
    """Return rows for the same seconds, as if there had been no inferences. Rows of streams and tokens are left out."""
    rows = np.zeros(len(seconds), SECOND)
    rows["t_ns"] = seconds.rows["t_ns"]
    for name in OF_INFERENCES:
        rows[name] = ABSENT
    for name in OF_DEADLINE:
        rows[name] = np.minimum(seconds.rows[name], 0)  # ABSENT stays
    response = None if seconds.response is None else emptied(seconds.response)
    nothing = NO_SECONDS
    return Seconds(rows, np.zeros(len(seconds) + 1, np.int32), nothing.bucket, nothing.bucket_count, response)


def none_in(seconds: Seconds) -> TokenSeconds:
    """Return token figures for the same seconds, as if no token had been generated."""
    bare = replace(emptied(seconds), response=None, tokens=None)
    return TokenSeconds(np.zeros(len(seconds), TOKEN_SECOND), bare, bare)


def _offsets(lengths: npt.ArrayLike) -> npt.NDArray[np.int32]:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


NO_SECONDS = Seconds(np.empty(0, SECOND), np.zeros(1, np.int32), np.empty(0, np.int16), np.empty(0, np.int32))


def concatenate(parts: Sequence[Seconds]) -> Seconds:
    parts = [part for part in parts if len(part)]
    if len(parts) <= 1:
        return parts[0] if parts else NO_SECONDS
    responses = [part.response for part in parts if part.response is not None]
    response = concatenate(responses) if len(responses) == len(parts) else None
    has_streams = any(part.streams is not None for part in parts)
    streams = _joined_streams(parts, has_response=response is not None) if has_streams else None
    having = next((part.tokens for part in parts if part.tokens is not None), None)
    return Seconds(
        np.concatenate([part.rows for part in parts], dtype=SECOND),  # without dtype it is slow
        _joined_offsets([part.offsets for part in parts]),
        np.concatenate([part.bucket for part in parts]),
        np.concatenate([part.bucket_count for part in parts]),
        response,
        streams,
        None if having is None else having.joined(parts),
    )


def _joined_offsets(parts: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.int32]:
    """Return the offsets of several tables in their concatenation. Each part begins at 0."""
    joined, end = [parts[0]], parts[0][-1]
    for offsets in parts[1:]:
        joined.append(offsets[1:] + end)
        end = joined[-1][-1]
    return np.concatenate(joined, dtype=np.int32)


def _joined_streams(parts: Sequence[Seconds], *, has_response: bool) -> StreamSeconds:
    held = [part.streams for part in parts if part.streams is not None]
    seconds = concatenate([streams.seconds for streams in held])
    lengths = [np.zeros(len(part)) if part.streams is None else np.diff(part.streams.offsets) for part in parts]
    return StreamSeconds(
        _offsets(np.concatenate(lengths)),
        np.concatenate([streams.number for streams in held]),
        seconds if has_response else replace(seconds, response=None),
    )


def with_own_rows(seconds: Seconds, wanted: npt.NDArray[np.bool_]) -> Seconds:
    """Return a copy of `seconds` in which `streams` also has rows of the seconds in which only stream 0 ran.

    Such a second gets a copy of its own row if `wanted` is true for it. Do this before a merge with seconds of several
    streams. If `streams` is None, nothing is added.
    """
    streams = seconds.streams
    if streams is None:
        return seconds
    alone = np.flatnonzero(wanted & (np.diff(streams.offsets) == 0))
    if not len(alone):
        return seconds
    owner = np.concatenate([streams.owner, alone])
    order = np.argsort(owner, kind="stable")
    number = np.concatenate([streams.number, np.zeros(len(alone), np.uint8)])[order]
    own = replace(seconds, streams=None).take(alone)
    rows = concatenate([streams.seconds, own]).take(order)
    return replace(seconds, streams=StreamSeconds(_offsets(np.bincount(owner, minlength=len(seconds))), number, rows))


def summed(seconds: Seconds, every_s: int) -> Seconds:
    """Add up the histograms of each group of `every_s` seconds in the group's first row, separately for each stream.

    The other rows of a group have empty histograms. Groups begin at multiples of `every_s` seconds.
    """
    if not len(seconds):
        return NO_SECONDS
    number = seconds.rows["t_ns"] // (every_s * NS)
    streams = None
    if seconds.streams is not None:
        mixed = np.isin(number, number[seconds.streams.owner])
        seconds = with_own_rows(seconds, mixed)
        assert seconds.streams is not None
        streams = seconds.streams
        group = number[streams.owner] * 256 + streams.number.astype(np.int64)
        streams = replace(streams, seconds=_summed(streams.seconds, group))
    tokens = None if seconds.tokens is None else seconds.tokens.mapped(lambda each: _summed(each, number))
    return replace(_summed(replace(seconds, streams=None, tokens=None), number), streams=streams, tokens=tokens)


def _summed(seconds: Seconds, group: npt.NDArray[np.int64]) -> Seconds:
    """Add up the histograms of each group in its first row. `group` has the group number of each row."""
    response = None if seconds.response is None else _summed(seconds.response, group)
    if (np.diff(group) < 0).any():
        order = np.argsort(group, kind="stable")
        merged = _summed(replace(seconds, response=None).take(order), group[order])
        return replace(merged.take(np.argsort(order)), response=response)
    first = np.flatnonzero(np.diff(group, prepend=group[0] - 1))
    ends = seconds.offsets[np.append(first[1:], len(seconds))]
    sums = [
        histogram.sparse(np.bincount(seconds.bucket[begin:end], seconds.bucket_count[begin:end]).astype(np.int64))
        for begin, end in zip(seconds.offsets[first].tolist(), ends.tolist(), strict=True)
    ]
    lengths = np.zeros(len(seconds), np.int32)
    lengths[first] = [len(bucket) for bucket, _ in sums]
    return Seconds(
        seconds.rows,
        _offsets(lengths),
        np.concatenate([bucket for bucket, _ in sums]),
        np.concatenate([count for _, count in sums]),
        response,
    )
