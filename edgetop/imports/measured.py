"""What a file of another tool holds, whichever tool that is. What it does not tell is not here."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgetop.session.operators import Operator

Numbers = npt.NDArray[np.int64]

MAX_NS = 2 * 86_400 * 10**9  # of a whole run
MAX_COUNT = 2**31 - 1
MAX_LAYERS = 20_000

TO_DEVICE, COMPUTE, TO_HOST = "h2d", "compute", "d2h"
_COPIES = {TO_DEVICE: "inputs to the device", TO_HOST: "outputs to the host"}


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Single inferences, in the order in which they began; the first begins at 0."""

    start_ns: Numbers
    latency_ns: Numbers
    end_ns: int  # when the last one was over
    warmup: int | None  # so many of them, the first ones, are warm-up; None: the file leaves the warm-up out
    step_ns: float  # how finely the tool told the latest of them
    parts_ms: Mapping[str, float]  # of an inference, median of each


@dataclass(frozen=True, slots=True)
class Layers:
    """Where the time of instrumented inferences went."""

    runs: int
    operators: tuple[Operator, ...]  # in run order
    run_ns: int  # one of these inferences, as far as it is known

    @property
    def total_ns(self) -> int:
        return sum(operator.total_ns for operator in self.operators)

    def with_copies(self, times: Times, provider: str) -> "Layers":
        """With what else is in a latency, so that shares are of all of it."""
        copies = {
            part: Operator(name, "Transfer", provider, self.runs, round(times.parts_ms[part] * 1e6) * self.runs)
            for part, name in _COPIES.items()
            if times.parts_ms[part]
        }
        ends = (copies.get(TO_DEVICE), *self.operators, copies.get(TO_HOST))
        return replace(self, operators=tuple(operator for operator in ends if operator))


@dataclass(frozen=True, slots=True)
class Origin:
    """The tool, and how it came to its figures."""

    tool: str
    runtime: str
    provider: str
    way: str  # how it times operators


Found = Times | Layers


@dataclass(frozen=True, slots=True)
class Measured:
    """What was read, of one run or of two of the same model."""

    origin: Origin
    files: tuple[str, ...]  # their names
    times: Times | None
    layers: Layers | None

    @property
    def providers(self) -> tuple[str, ...]:
        """Those that ran something, the CPU last: what else there is was preferred."""
        found = dict.fromkeys(operator.provider for operator in self.layers.operators) if self.layers else {}
        return tuple(sorted(found, key=lambda provider: provider == "CPU")) or (self.origin.provider,)

    @property
    def warmup(self) -> int | None:
        """Inferences of the warm-up; None: not known."""
        return self.times.warmup if self.times else None

    @property
    def measured(self) -> int:
        return len(self.times.start_ns) - (self.times.warmup or 0) if self.times else 0

    @property
    def end_ns(self) -> int:
        if self.times:
            return self.times.end_ns
        return self.layers.total_ns if self.layers else 0
