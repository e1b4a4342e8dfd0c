"""The times of operators in profiling rounds. The code calls a profiling round a burst.

A round is a few inferences that run with the runtime's profiler, and whose latencies never count in the session's
latency. A day has thousands of rounds, so the times of a round are columns. Rounds with equal operators share one list
of operators.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.session.median import median
from edgetop.session.records import Inferences

Numbers = npt.NDArray[np.int64]

OUTSIDE_TYPE = "Outside"  # type of the row of an engine for the time in which no operator runs
BASELINE_BURSTS = 3  # the first bursts after the warm-up, with which later ones are compared

# Number of undisturbed profiled batches from which shares of time are shown without a question mark. Choice: if one of
# three was disturbed unnoticed, the interval becomes wide and the median hardly changes. Larger: short sessions have no
# advice; smaller: one disturbed batch decides.
LEAST_BURSTS = 3
# Number of undisturbed profiled inferences from which shares of time are shown without a question mark. Choice: three
# or four in each of the batches. Larger: slow models have no advice; smaller: single inferences decide.
LEAST_RUNS = 10
# Number of inferences over which another tool must have averaged, because its batches are unknown. Choice: ten times as
# many, since the spread is unknown. Larger: short runs of other tools have no advice; smaller: their warm-up decides.
LEAST_AVERAGED = 100

# Runtimes time operators in whole microseconds: TFLite's profiler and ONNX Runtime's trace (both use std::chrono
# microseconds). A shorter time is mostly rounding, so no rate follows from it.
RESOLUTION_NS = 1_000

NEIGHBOURS, LEAST_NEIGHBOURS = 20, 5  # plain inferences with which those of a burst are compared: at most, at least

CPU, XNNPACK = "CPU", "XNNPACK"
MOST_EVENTS = 2**62  # more is no count of a CPU

# Providers that compute on the CPU. Any other may be a device with other ceilings and caches than the CPU's.
ON_CPU = frozenset((CPU, XNNPACK, "Dnnl", "ACL", "ArmNN"))


@frozen
class OperatorInfo:
    """An operator as the runtime ran it, after fusion and with the runtime's names."""

    name: str
    op_type: str
    provider: str  # who executed it: "CPU", "XNNPACK", "CUDA" ...
    flops: int | None = None  # FLOPs of a call, from the model's graph; None if unknown
    bytes: int | None = None  # weights and activations that a call moves; None if unknown
    origin: str | None = None  # its name in the model's file, or names if several were merged; None if unknown


@frozen
class Operator:
    """The calls and the time of one operator in a profiling round."""

    name: str
    op_type: str
    provider: str
    calls: int  # in the whole burst
    total_ns: int  # of all calls

    @property
    def info(self) -> OperatorInfo:
        return OperatorInfo(self.name, self.op_type, self.provider)


@frozen
class EventCounts:
    """How often an event, such as a cache miss, happened in each operator of a profiling round."""

    event: str  # such as "cache-misses"
    every: int  # one of so many events was noted: the resolution of the counts
    runs: int  # number of profiled inferences in which it was counted
    # For each operator with events: its position in the round, and the events in all these inferences. The last two
    # numbers are the limits of the events, which differ if the borders of the operators are not exactly known.
    rows: tuple[tuple[int, int, int, int], ...]


def counts_text(counts: Iterable[EventCounts]) -> str:
    """Return the counts as text for the data of an event. `counts_of` converts it back."""
    return json.dumps([[of.event, of.every, of.runs, of.rows] for of in counts], separators=(",", ":"))


def counts_of(text: str) -> tuple[EventCounts, ...]:
    """Return the counts from a text that `counts_text` made, or () if the text is invalid."""
    try:
        return tuple(
            EventCounts(str(event), _natural(every), _natural(runs), tuple(_row(row) for row in rows))
            for event, every, runs, rows in json.loads(text)
        )
    except (ValueError, TypeError, RecursionError):
        return ()


def _row(row: Iterable[object]) -> tuple[int, int, int, int]:
    place, events, least, most = map(_natural, row)
    return place, events, least, most


def _natural(value: object) -> int:
    if type(value) is not int or not 0 <= value < MOST_EVENTS:
        raise ValueError(f"{value!r} is no count")
    return value


@frozen
class ThreadUse:
    """How the runtime's threads shared the work of the profiled inferences."""

    count: int  # number of threads, the calling one included
    all_ns: int  # time of all operators
    wait_ns: int  # part of `all_ns` in which the calling thread had done its work and waited for the others
    moves: int  # times that a thread was seen to move to another CPU; a lower bound
    most: str  # operator in which the calling thread waited longest
    most_ns: int  # time that it waited there

    def to_json(self) -> dict[str, int | str]:
        return {f"thread_{name}": value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, eq=False)
class Burst:
    t_ns: int  # when it began
    number: int  # from 0
    infos: tuple[OperatorInfo, ...]  # in run order; usually the same object in all bursts
    calls: Numbers
    total_ns: Numbers

    def __len__(self) -> int:
        return len(self.infos)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Burst)
            and (self.t_ns, self.number, self.infos) == (other.t_ns, other.number, other.infos)
            and np.array_equal(self.calls, other.calls)
            and np.array_equal(self.total_ns, other.total_ns)
        )

    __hash__ = None  # type: ignore[assignment]  # arrays have none


def hosts(providers: Sequence[str]) -> frozenset[str]:
    """Return the fallback providers: those that may run an operator which the preferred provider cannot run.

    The preferred provider is the first of `providers`. The result is empty if this is the CPU, or if `providers` is
    empty.

    >>> sorted(hosts(["CUDA", "CPU"])), sorted(hosts(["XNNPACK"])), sorted(hosts(["CPU"]))
    (['CPU', 'XNNPACK'], ['CPU'], [])
    """
    first = providers[0].upper() if providers else CPU
    if first == CPU:
        return frozenset()
    return frozenset({CPU}) if XNNPACK in first else frozenset({CPU, XNNPACK})


def plain_ns(inferences: Inferences, burst_ns: int) -> int | None:
    """Return the median latency in ns of the last NEIGHBOURS successful inferences before a profiling round.

    `burst_ns` is the start of the round. The result is None if there are fewer than LEAST_NEIGHBOURS such inferences.
    """
    latency_ns = inferences["latency_ns"][(inferences["t_ns"] < burst_ns) & inferences["ok"]][-NEIGHBOURS:]
    return int(median(latency_ns)) if len(latency_ns) >= LEAST_NEIGHBOURS else None


def burst_of(t_ns: int, number: int, operators: Iterable[Operator], like: Burst | None = None) -> Burst:
    """Return a profiling round that began at `t_ns`, with the calls and times of `operators`.

    `number` is the index of the round, from 0. If the round `like` has equal operators, both rounds share one list of
    operators, which saves memory.
    """
    rows = tuple(operators)
    infos = tuple(operator.info for operator in rows)
    if like is not None and like.infos == infos:
        infos = like.infos
    calls, total_ns = (np.array(column, np.int64) for column in ([o.calls for o in rows], [o.total_ns for o in rows]))
    return Burst(t_ns, number, infos, calls, total_ns)


def joined(bursts: Iterable[Burst]) -> tuple[Burst, ...]:
    """Return the profiling rounds, with neighbours of equal `t_ns` and `number` joined: they are parts of one round.

    A round is in several parts if a table's row group (block of rows) ends within the round.
    """
    whole: list[Burst] = []
    for burst in bursts:
        if whole and (whole[-1].t_ns, whole[-1].number) == (burst.t_ns, burst.number):
            first = whole.pop()
            columns = (np.concatenate(pair) for pair in ((first.calls, burst.calls), (first.total_ns, burst.total_ns)))
            burst = Burst(burst.t_ns, burst.number, first.infos + burst.infos, *columns)  # noqa: PLW2901
        whole.append(burst)
    return tuple(whole)
