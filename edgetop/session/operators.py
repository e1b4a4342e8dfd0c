"""Bursts (profiling rounds): the operators' times in instrumented inferences.

Instrumented inferences do not count as the session's inferences, and their times never enter its latency. A day-long
session has thousands of bursts of the same operators, so the times of a burst are columns, and bursts share one list of
operators.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.session.records import Inferences

Numbers = npt.NDArray[np.int64]

BASELINE_BURSTS = 3  # the first bursts after the warm-up, with which later ones are compared

# Undisturbed bursts and inferences needed to show shares of time without a question mark, and to give advice. If one of
# three bursts was disturbed unnoticed, the interval becomes wide and the median hardly changes.
LEAST_BURSTS, LEAST_RUNS = 3, 10
LEAST_AVERAGED = 100  # the same for figures that another tool has averaged over inferences, without bursts

# Runtimes time operators in whole microseconds: TFLite's profiler and ONNX Runtime's trace (both use std::chrono
# microseconds). A shorter time is mostly rounding, so no rate follows from it.
RESOLUTION_NS = 1_000

NEIGHBOURS, LEAST_NEIGHBOURS = 20, 5  # plain inferences with which those of a burst are compared: at most, at least

CPU, XNNPACK = "CPU", "XNNPACK"


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
    """The time of one operator in a burst."""

    name: str
    op_type: str
    provider: str
    calls: int  # in the whole burst
    total_ns: int  # of all calls

    @property
    def info(self) -> OperatorInfo:
        return OperatorInfo(self.name, self.op_type, self.provider)


@frozen
class ThreadUse:
    """How the runtime's threads shared the work of instrumented inferences."""

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
    """Return the fallback providers, on which an operator runs if the preferred provider cannot run it.

    They are the CPU and XNNPACK, which runs on the CPU, unless XNNPACK itself is preferred. `providers`: the requested
    providers, followed by those that the engine has in its order of preference. The result is empty if the first one is
    the CPU, or if there are none.
    """
    first = providers[0].upper() if providers else CPU
    if first == CPU:
        return frozenset()
    return frozenset({CPU}) if XNNPACK in first else frozenset({CPU, XNNPACK})


def plain_ns(inferences: Inferences, burst_ns: int) -> int | None:
    """Return the median latency in ns of the last plain inferences before a burst, or None if there are too few.

    `burst_ns`: when the burst began.
    """
    latency_ns = inferences["latency_ns"][(inferences["t_ns"] < burst_ns) & inferences["ok"]][-NEIGHBOURS:]
    return int(np.median(latency_ns)) if len(latency_ns) >= LEAST_NEIGHBOURS else None


def burst_of(t_ns: int, number: int, operators: Iterable[Operator], like: Burst | None = None) -> Burst:
    """Return a burst of these operators. If they equal those of the burst `like`, the two bursts share one list."""
    rows = tuple(operators)
    infos = tuple(operator.info for operator in rows)
    if like is not None and like.infos == infos:
        infos = like.infos
    calls, total_ns = (np.array(column, np.int64) for column in ([o.calls for o in rows], [o.total_ns for o in rows]))
    return Burst(t_ns, number, infos, calls, total_ns)


def joined(bursts: Iterable[Burst]) -> tuple[Burst, ...]:
    """Return whole bursts. Parts of a burst that was split, as at the end of a piece of a table, are joined."""
    whole: list[Burst] = []
    for burst in bursts:
        if whole and (whole[-1].t_ns, whole[-1].number) == (burst.t_ns, burst.number):
            first = whole.pop()
            columns = (np.concatenate(pair) for pair in ((first.calls, burst.calls), (first.total_ns, burst.total_ns)))
            burst = Burst(burst.t_ns, burst.number, first.infos + burst.infos, *columns)  # noqa: PLW2901
        whole.append(burst)
    return tuple(whole)
