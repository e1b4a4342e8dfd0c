"""The numpy structured arrays that hold inferences, readings, tokens and requests.

An inference is never a Python object: at 50,000 inferences a second, making objects would slow down the board.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

PHASES = ("first", "warmup", "measure")
FIRST, WARMUP, MEASURE = range(3)

# One inference. The fields are packed, so that the records which the engine sends are this array without a copy.
INFERENCE = np.dtype(
    [
        ("t_ns", "<i8"),  # start
        ("latency_ns", "<i8"),  # service time: start to outputs ready
        ("wait_ns", "<i8"),  # actual start minus intended start; 0 back to back
        ("stream", "u1"),  # which concurrent stream, from 0
        ("phase", "u1"),  # index into PHASES
        ("ok", "?"),  # False: the runtime raised
        ("variant", "u1"),  # 0 (A) or 1 (B) in an A/B session, else 0
    ]
)

# One token of a language model, or the end of a prefill. Only the conductor has them: a recording keeps their seconds
# (`token_seconds`).
TOKEN = np.dtype(
    [
        ("t_ns", "<i8"),  # when it was there
        ("gap_ns", "<i8"),  # time since the token before it; of a first token: TTFT; of a prefill: how long it took
        ("position", "<i4"),  # number of tokens before it in the context
        ("is_later", "?"),  # False: the first token of a request
        ("phase", "u1"),  # index into PHASES
        ("active", "u1"),  # requests that generated at the same time; 0: unknown, or prompts were processed meanwhile
        ("is_prompt", "?"),  # True: no token, but the end of a prefill, with the length of the prompt as its position
    ]
)

# One request to a language model, in the order of the engine's packed records.
FINISH_REASONS = ("length", "stop", "context", "cancelled")
REQUEST = np.dtype(
    [
        ("t_ns", "<i8"),  # start
        ("wait_ns", "<i8"),  # actual start minus intended start; 0 back to back
        ("latency_ns", "<i8"),  # start to last token
        ("ttft_ns", "<i8"),  # intended start to first token; 0 if unknown
        ("tokenize_ns", "<i8"),  # time to divide the prompt into tokens
        ("prefill_ns", "<i8"),  # time to process the tokens of the prompt
        ("decode_ns", "<i8"),  # first token to last token
        ("sample_ns", "<i8"),  # time to choose all tokens
        ("tokens_in", "<i4"),
        ("tokens_cached", "<i4"),  # prompt tokens that a cache already held, so they were not processed
        ("tokens_out", "<i4"),
        ("position", "<i4"),  # tokens in the context at the end
        ("prompt", "<i4"),  # number of the prompt, from 0
        ("phase", "u1"),
        ("finish", "u1"),  # index into FINISH_REASONS
        ("_", "V2"),
    ]
)

# One value of one sensor, never NaN: a failed read gives no row, but an event.
READING = np.dtype(
    [
        ("t_ns", "<i8"),
        ("sensor", "<u2"),  # index into the manifest's sensors
        ("value", "<f8"),  # in the unit of the sensor's kind
    ]
)

# The readings of one sensor in a span of time as one row. Remote screens get the distant past in this form.
AGGREGATE = np.dtype(
    [
        ("t_ns", "<i8"),  # of the first reading
        ("until_ns", "<i8"),  # of the last one
        ("sensor", "<u2"),
        ("count", "<i4"),
        ("low", "<f8"),
        ("mean", "<f8"),
        ("high", "<f8"),
        ("last", "<f8"),
    ]
)

# The field of an inference that says to which stream it belongs; None if all belong to stream 0.
SplitBy = Literal["stream", "variant"] | None

FOLDED_AT_ONCE = 65_536  # readings processed at once; intermediate results take many times their memory

Inferences = npt.NDArray[np.void]
Readings = npt.NDArray[np.void]
Tokens = npt.NDArray[np.void]
Requests = npt.NDArray[np.void]
Aggregates = npt.NDArray[np.void]

NO_INFERENCES: Inferences = np.empty(0, INFERENCE)
NO_TOKENS: Tokens = np.empty(0, TOKEN)
NO_REQUESTS: Requests = np.empty(0, REQUEST)
NO_READINGS: Readings = np.empty(0, READING)
NO_AGGREGATES: Aggregates = np.empty(0, AGGREGATE)


def join(parts: Sequence[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """Join arrays of the same dtype. A single part is returned without a copy. `parts` must not be empty."""
    filled = [part for part in parts if len(part)] or parts[:1]
    if len(filled) == 1:
        return filled[0]
    whole: npt.NDArray[np.void] = np.concatenate([as_bytes(np.ascontiguousarray(part)) for part in filled])
    # Copying rows as bytes takes a fifteenth of the time that numpy takes field by field.
    return whole.view(filled[0].dtype)


def copied(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    whole: npt.NDArray[np.void] = as_bytes(np.ascontiguousarray(rows)).copy().view(rows.dtype)
    return whole


def as_bytes(rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return a view of the rows as items without fields, which numpy copies faster."""
    return rows.view(np.dtype((np.void, rows.dtype.itemsize)))


def measured(inferences: Inferences) -> Inferences:
    """Return the inferences that count in latency statistics: those of the measured phase that did not fail."""
    counts = (inferences["phase"] == MEASURE) & inferences["ok"]
    return inferences if counts.all() else inferences[counts]


def of_measure(inferences: Inferences) -> Inferences:
    """Return the inferences of the measured phase, including those that failed."""
    is_measure = inferences["phase"] == MEASURE
    return inferences if is_measure.all() else inferences[is_measure]


def by_stream(inferences: Inferences, split_by: SplitBy) -> Iterable[tuple[int, Inferences]]:
    """Yield the number of each stream and its inferences, in ascending order of the numbers.

    `split_by` is the field with an inference's stream number; None means that all belong to stream 0.
    """
    if split_by is None or not len(inferences):
        return [(0, inferences)] if len(inferences) else []
    number = np.ascontiguousarray(inferences[split_by])
    order = np.argsort(number, kind="stable")  # a radix sort, since the numbers are bytes
    first = np.flatnonzero(np.diff(number[order].astype(np.int16), prepend=-1))
    grouped = as_bytes(np.ascontiguousarray(inferences))[order].view(inferences.dtype)
    return zip(number[order[first]].tolist(), np.split(grouped, first[1:]), strict=True)


def latest(inferences: Inferences, split_by: SplitBy) -> Inferences:
    """Return the last measured inference without an error of each stream, in the order of `inferences`.

    `split_by` is the field with an inference's stream number; None means that all belong to one stream.
    """
    counted = measured(inferences)
    if split_by is None or not len(counted):
        return counted[-1:]
    places = len(counted) - 1 - np.unique(counted[split_by][::-1], return_index=True)[1]
    last: Inferences = counted[np.sort(places)]
    return last


def middles_ns(aggregates: Aggregates) -> npt.NDArray[np.int64]:
    """Return the middle of the time span of each aggregate, in ns."""
    return np.asarray((aggregates["t_ns"] + aggregates["until_ns"]) // 2)


def response_ns(inferences: Inferences) -> npt.NDArray[np.int64]:
    """Return the response time of each inference in ns: from its intended start until its outputs were ready."""
    return np.asarray(inferences["wait_ns"] + inferences["latency_ns"])


def last_end_ns(inferences: Inferences) -> int:
    """Return the latest end of an inference in ns. `inferences` must not be empty."""
    return int((inferences["t_ns"] + inferences["latency_ns"]).max())


def in_pieces(readings: Readings) -> Iterator[Readings]:
    """Yield the readings in successive slices of at most FOLDED_AT_ONCE rows."""
    for begin in range(0, len(readings), FOLDED_AT_ONCE):
        yield readings[begin : begin + FOLDED_AT_ONCE]


def of_sensors(readings: Readings, places: Collection[int]) -> Readings:
    """Return a copy of the readings of some sensors. `places` are the sensors' indices in the manifest."""
    if not places:
        return NO_READINGS
    wanted, begin = np.zeros(len(readings), np.bool_), 0
    for piece in in_pieces(readings):
        sensor = np.ascontiguousarray(piece["sensor"])
        is_wanted = wanted[begin : begin + len(piece)]
        # Comparing the column with each index takes a fifth of the time of `numpy.isin`.
        for place in places:
            is_wanted |= sensor == place
        begin += len(piece)
    return np.asarray(readings.take(wanted.nonzero()[0]))


class Overlap:
    """Measures how many inferences are in progress at the same time: the most, the mean, and the time without any.

    Inferences must be added in the order of their starts.
    """

    def __init__(self) -> None:
        # Ends of the inferences that were in progress when the last one began.
        self._open_ns: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._began_ns: int | None = None
        self._reached_ns = self._busy_ns = self._sum_ns = 0
        self.most = 0

    def add(self, inferences: Inferences) -> None:
        if not len(inferences):
            return
        begin_ns = inferences["t_ns"].astype(np.int64)
        end_ns = begin_ns + inferences["latency_ns"]
        if self._began_ns is None:
            self._began_ns = int(begin_ns[0])
        ends_ns = np.sort(np.concatenate([self._open_ns, end_ns]))
        begun = len(self._open_ns) + 1 + np.arange(len(begin_ns))
        self.most = max(self.most, int((begun - np.searchsorted(ends_ns, begin_ns, "right")).max()))
        reached_ns = np.maximum.accumulate(np.append(self._reached_ns, end_ns))
        self._busy_ns += int(np.maximum(0, end_ns - np.maximum(begin_ns, reached_ns[:-1])).sum())
        self._sum_ns += int(inferences["latency_ns"].sum())
        self._reached_ns = int(reached_ns[-1])
        self._open_ns = ends_ns[ends_ns > begin_ns[-1]]

    @property
    def mean(self) -> float | None:
        """The mean number of inferences in progress.

        Time in which no inference was in progress does not count. None without inferences.
        """
        return self._sum_ns / self._busy_ns if self._busy_ns else None

    @property
    def outside(self) -> float | None:
        """The share (0..1) of the time from the first start to the last end in which no inference was in progress.

        None if there are no inferences.
        """
        whole_ns = self._reached_ns - (self._began_ns or 0)
        return None if self._began_ns is None or whole_ns <= 0 else max(0.0, 1 - self._busy_ns / whole_ns)
