"""Bursts: the operators' times in instrumented inferences.

Instrumented inferences are none of the session's inferences: nothing here may enter its latency.
A session of a day has thousands of bursts of the same operators, so a burst is columns, and what
is the same in each of them is held once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from edgetop.session.records import Inferences

Numbers = npt.NDArray[np.int64]

BASELINE_BURSTS = 3  # after the warm-up, with which everything later is compared

# The least from which shares are told without a question mark, and advice follows: undisturbed bursts and inferences.
# With three, one that was disturbed unseen makes the interval wide, and the median does not follow it.
LEAST_BURSTS, LEAST_RUNS = 3, 10
LEAST_AVERAGED = 100  # inferences, of what another tool has made one figure of: it tells of no bursts

NEIGHBOURS, LEAST_NEIGHBOURS = 20, 5  # inferences that are not instrumented, with which those of a burst are compared

CPU, XNNPACK = "CPU", "XNNPACK"


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """An operator as the runtime ran it: after fusion, with the runtime's names."""

    name: str
    op_type: str
    provider: str  # who executed it: "CPU", "XNNPACK", "CUDA" ...
    flops: int | None = None  # of a call, from the model's graph; None: not known
    bytes: int | None = None  # weights and activations that a call moves; None: not known
    origin: str | None = (
        None  # the names that it has in the model's file, several where these were merged; None: not known
    )


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """How the runtime's threads shared the work of instrumented inferences."""

    count: int  # with the one that runs the model
    all_ns: int  # of all operators
    wait_ns: int  # of it, in which that one had done its part and waited for the others
    moves: int  # of threads from one CPU to another; there may have been more
    most: str  # the operator in which it waited most
    most_ns: int  # so long

    def to_json(self) -> dict[str, int | str]:
        return {f"thread_{name}": value for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True, eq=False)
class Burst:
    t_ns: int  # when it began
    number: int  # from 0
    infos: tuple[OperatorInfo, ...]  # in run order; the same object in burst after burst
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
    """Return the fallback providers, which run what the preferred ones do not take: the CPU, and XNNPACK on it.

    `providers`: whoever was asked for, before those that the engine has, in the order in which it prefers them.
    Nobody, where the CPU is what was asked for, or all there is.
    """
    first = providers[0].upper() if providers else CPU
    if first == CPU:
        return frozenset()
    return frozenset({CPU}) if XNNPACK in first else frozenset({CPU, XNNPACK})


def plain_ns(inferences: Inferences, burst_ns: int) -> int | None:
    """Median of the last inferences that began before a burst, none of them instrumented; None: too few of these."""
    latency_ns = inferences["latency_ns"][(inferences["t_ns"] < burst_ns) & inferences["ok"]][-NEIGHBOURS:]
    return int(np.median(latency_ns)) if len(latency_ns) >= LEAST_NEIGHBOURS else None


def burst_of(t_ns: int, number: int, operators: Iterable[Operator], like: Burst | None = None) -> Burst:
    """A burst from its operators; of those that `like` has as well, what is the same is shared with it."""
    rows = tuple(operators)
    infos = tuple(operator.info for operator in rows)
    if like is not None and like.infos == infos:
        infos = like.infos
    calls, total_ns = (np.array(column, np.int64) for column in ([o.calls for o in rows], [o.total_ns for o in rows]))
    return Burst(t_ns, number, infos, calls, total_ns)


def joined(bursts: Iterable[Burst]) -> tuple[Burst, ...]:
    """Join the parts of each burst that was cut, as the pieces of a table may cut it."""
    whole: list[Burst] = []
    for burst in bursts:
        if whole and (whole[-1].t_ns, whole[-1].number) == (burst.t_ns, burst.number):
            first = whole.pop()
            columns = (np.concatenate(pair) for pair in ((first.calls, burst.calls), (first.total_ns, burst.total_ns)))
            burst = Burst(burst.t_ns, burst.number, first.infos + burst.infos, *columns)  # noqa: PLW2901
        whole.append(burst)
    return tuple(whole)
