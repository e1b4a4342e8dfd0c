"""The contents of another tool's files in a common form. Unknown values are absent."""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from edgetop.session.manifest import SensorInfo
from edgetop.session.operators import Operator
from edgetop.session.typed_json import JsonValue

Numbers = npt.NDArray[np.int64]
T = TypeVar("T")

MAX_NS = 2 * 86_400 * 10**9  # of a whole run
MAX_COUNT = 2**31 - 1
MAX_LAYERS = 20_000

TO_DEVICE, COMPUTE, TO_HOST = "h2d", "compute", "d2h"
_COPIES = {TO_DEVICE: "inputs to the device", TO_HOST: "outputs to the host"}


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of all inferences together. Figures that the tool does not print are absent."""

    figures: Mapping[str, JsonValue]  # by the keys of the report's `latency`: count, mean_ms, p50_ms, throughput_hz ...
    more: Mapping[str, JsonValue] = field(default_factory=dict)  # what has no key there, with the unit in the name
    model: str | None = None
    version: str | None = None
    providers: tuple[str, ...] = ()
    init_ns: int | None = None
    first_ns: int | None = None
    span_ns: int | None = None  # from the first measured inference to the end of the last
    warmup: int | None = None  # inferences before that
    warmup_ns: int | None = None  # what these took together

    @property
    def count(self) -> int | None:
        count = self.figures.get("count")
        return count if isinstance(count, int) else None


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """Single inferences, in the order in which they began; the first begins at 0."""

    start_ns: Numbers  # where `has_starts` is false, the end of the one before
    latency_ns: Numbers
    end_ns: int  # when the last one was over
    warmup: int | None  # so many of them, the first ones, are warm-up; None: the file leaves the warm-up out
    step_ns: float  # how finely the tool reports the latest of them
    parts_ms: Mapping[str, float]  # of an inference, median of each
    has_starts: bool = True  # false: the tool reports how long each took, and not when it began
    summary: Summary | None = None  # what the same file reports beside them


@dataclass(frozen=True, slots=True, eq=False)
class SensorLog:
    """Readings of a board without any inference."""

    sensors: tuple[SensorInfo, ...]
    times_ns: tuple[Numbers, ...]  # of each sensor, when it was read; the first line is at 0
    values: tuple[npt.NDArray[np.float64], ...]
    end_ns: int
    memory_bytes: int | None  # of the board
    note: str  # how its times are reported, and what was left out


@dataclass(frozen=True, slots=True)
class Layers:
    """The time of each layer in instrumented inferences."""

    runs: int
    operators: tuple[Operator, ...]  # in run order
    run_ns: int  # one of these inferences, as far as it is known

    @property
    def total_ns(self) -> int:
        return sum(operator.total_ns for operator in self.operators)

    def with_copies(self, times: Times, provider: str) -> "Layers":
        """Add the copies to and from the device, so that shares are of the whole latency."""
        copies = {
            part: Operator(name, "Transfer", provider, self.runs, round(times.parts_ms[part] * 1e6) * self.runs)
            for part, name in _COPIES.items()
            if times.parts_ms[part]
        }
        ends = (copies.get(TO_DEVICE), *self.operators, copies.get(TO_HOST))
        return replace(self, operators=tuple(operator for operator in ends if operator))


@dataclass(frozen=True, slots=True)
class Origin:
    """The tool, and how it measured."""

    tool: str
    runtime: str | None  # None: it runs nothing
    provider: str = ""  # "": not known
    way: str = ""  # how it times operators


Found = Times | Layers | Summary | SensorLog


@dataclass(frozen=True, slots=True)
class Measured:
    """The data of one run, or of two runs of the same model."""

    origin: Origin
    files: tuple[str, ...]  # their names
    times: Times | None
    layers: Layers | None
    summary: Summary | None = None
    log: SensorLog | None = None

    @property
    def providers(self) -> tuple[str, ...]:
        """Return the providers that ran something, the CPU last: the others were preferred."""
        found = dict.fromkeys(operator.provider for operator in self.layers.operators) if self.layers else {}
        names = tuple(sorted(found, key=lambda provider: provider == "CPU")) or (self.summary or NO_SUMMARY).providers
        return names or ((self.origin.provider,) if self.origin.provider else ())

    @property
    def warmup(self) -> int | None:
        """The number of inferences of the warm-up; None: not known."""
        warmup = self.times.warmup if self.times else None
        return warmup if warmup is not None else (self.summary or NO_SUMMARY).warmup

    @property
    def measured(self) -> int | None:
        """The number of measured inferences; None: not known."""
        if self.times:
            return len(self.times.start_ns) - (self.times.warmup or 0)
        return self.summary.count if self.summary else 0

    @property
    def end_ns(self) -> int:
        if self.times:
            return self.times.end_ns
        if self.log:
            return self.log.end_ns
        told_ns = (self.summary or NO_SUMMARY).span_ns or 0
        return max(told_ns, self.layers.total_ns if self.layers else 0)


NO_SUMMARY = Summary({})


NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?)"
ORDER = ("min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")  # none of them is above a later one
MAX_PER_SECOND = 1e12  # trtexec counts a batch as so many


def number(text: str, most: float = 1e15) -> float:
    """Raises ValueError where it is not finite, negative or more than `most`."""
    value = float(text)
    if not (math.isfinite(value) and 0 <= value <= most):
        raise ValueError(f"{text[:40]} is no figure of such a run")
    return value


def time_ms(text: str, scale: float = 1.0) -> float:
    """A time in ms; `scale`: ms in its unit."""
    return number(text, MAX_NS / 1e6 / scale) * scale


def time_ns(text: str, scale: float = 1.0) -> int:
    """The same in ns."""
    return round(time_ms(text, scale) * 1e6)


def count(text: str) -> int:
    return round(number(text, MAX_COUNT))


def first_match(pattern: "re.Pattern[str]", text: str, convert: Callable[[str], T]) -> T | None:
    """Return the first group of the first match, converted."""
    match = pattern.search(text)
    return convert(match[1]) if match else None


def known_figures(**figures: JsonValue) -> dict[str, JsonValue]:
    """Return the figures that are not None."""
    return {name: value for name, value in figures.items() if value is not None}


def one_run(marks: Sequence[str], what: str) -> None:
    """`marks`: what stands once in the output of a run. Raises ValueError."""
    if len(marks) > 1:
        raise ValueError(f"it holds {len(marks)} runs of {what}: keep one in a file")


def refuse_contradictions(figures: Mapping[str, JsonValue]) -> None:
    """Raises ValueError where the figures of a run contradict each other."""
    times = [(key, value) for key in ORDER if isinstance(value := figures.get(key), float)]
    for (low, below), (high, above) in itertools.pairwise(times):
        if below > above * (1 + 1e-4):  # they are printed with six digits
            raise ValueError(f"it cannot be that {low} is {below:g} and {high} is {above:g}")
    match (figures.get("min_ms"), figures.get("mean_ms"), figures.get("max_ms")):
        case float(least), float(mean), float(most) if not least * (1 - 1e-4) <= mean <= most * (1 + 1e-4):
            raise ValueError(f"it cannot be that mean_ms is {mean:g} between {least:g} and {most:g}")
