"""The common form into which the files of all other tools are parsed.

A value that a file does not have is None or absent.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen
from edgetop.session.event_kinds import ProgramEnded
from edgetop.session.manifest import SensorInfo
from edgetop.session.operators import Operator
from edgetop.session.records import MEASURE, Requests
from edgetop.session.typed_json import JsonValue

Numbers = npt.NDArray[np.int64]
T = TypeVar("T")

MAX_NS = 2 * 86_400 * 10**9  # duration of a whole run
MAX_MS = MAX_NS / 1e6  # at this time trtexec's 32-bit floats have a resolution of 16 ms
MAX_COUNT = 2**31 - 1
MAX_LAYERS = 20_000

TO_DEVICE, COMPUTE, TO_HOST = "h2d", "compute", "d2h"
_COPIES = {TO_DEVICE: "inputs to the device", TO_HOST: "outputs to the host"}


@frozen
class Summary:
    """Figures about all inferences of one run together. A figure that the tool did not print is absent or None."""

    figures: Mapping[str, JsonValue]  # by the keys of the report's `latency`: count, mean_ms, p50_ms, throughput_hz ...
    more: Mapping[str, JsonValue] = field(default_factory=dict)  # further figures, with the unit in the name
    model: str | None = None
    version: str | None = None
    providers: tuple[str, ...] = ()
    init_ns: int | None = None
    first_ns: int | None = None
    span_ns: int | None = None  # from the first measured inference to the end of the last
    batch: int | None = None  # items of an inference, where the tool was told; None if it was not
    warmup: int | None = None  # number of warm-up inferences
    warmup_ns: int | None = None  # duration of the warm-up

    @property
    def count(self) -> int | None:
        count = self.figures.get("count")
        return count if isinstance(count, int) else None


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """All inferences of one run, sorted by start, with start and duration of each. The first inference starts at time
    0."""

    start_ns: Numbers  # if `has_starts` is false, the end of the inference before
    latency_ns: Numbers
    end_ns: int  # end of the last inference
    warmup: int | None  # number of warm-up inferences, which come first; None: the file leaves the warm-up out
    step_ns: float  # resolution of the tool's times, at the end of the run
    parts_ms: Mapping[str, float]  # parts of an inference by name, the median of each
    has_starts: bool = True  # false: the tool reports durations, but no start times
    summary: Summary | None = None  # further figures of the same file


@dataclass(frozen=True, slots=True, eq=False)
class SensorLog:
    """Readings of the sensors of one board or one program. It has no inferences."""

    sensors: tuple[SensorInfo, ...]
    times_ns: tuple[Numbers, ...]  # per sensor, the times of its readings; the log's first line is at 0
    values: tuple[npt.NDArray[np.float64], ...]  # per sensor, one value for each of its times
    end_ns: int
    memory_bytes: int | None  # the board's memory
    note: str  # how the log reports times
    used: ProgramEnded | None = None  # what the program used, if the log is that of a program
    command: tuple[str, ...] = ()  # the program; () for a board


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """Requests to a language model, sorted by start. The first request starts at time 0."""

    requests: Requests
    gap_ns: Numbers  # of each request, the mean time between two tokens; 0 if there is none
    model: str | None = None
    version: str | None = None
    threads: int | None = None
    notes: tuple[str, ...] = ()  # what was left out, and what to know about the figures

    @property
    def end_ns(self) -> int:
        return int((self.requests["t_ns"] + self.requests["latency_ns"]).max())


@frozen
class Layers:
    """The layers (operators) of one model. Each has its time, summed over all inferences in which layers were timed."""

    runs: int
    operators: tuple[Operator, ...]  # in run order
    run_ns: int  # duration of one such inference, or the sum of its layers

    @property
    def total_ns(self) -> int:
        return sum(operator.total_ns for operator in self.operators)

    def with_copies(self, times: Times, provider: str) -> "Layers":
        """Return the layers and two further ones: the copies of inputs to the device and of outputs back to the host.

        So the shares of the layers refer to the whole latency. `times` has the median durations of the copies in
        `parts_ms`. `provider` names what runs the copies, such as `TensorRT`.
        """
        copies = {
            part: Operator(name, "Transfer", provider, self.runs, round(times.parts_ms[part] * 1e6) * self.runs)
            for part, name in _COPIES.items()
            if times.parts_ms[part]
        }
        ends = (copies.get(TO_DEVICE), *self.operators, copies.get(TO_HOST))
        return replace(self, operators=tuple(operator for operator in ends if operator))


@frozen
class Origin:
    """The tool that wrote a file, with the runtime that it used and the way in which it measured."""

    tool: str
    runtime: str | None  # None: the tool runs no model
    provider: str = ""  # "": unknown
    way: str = ""  # how the tool times operators, in words


Found = Times | Layers | Summary | SensorLog | Generated


@frozen
class Reading:
    """The content of one file, and the tool that wrote it."""

    origin: Origin
    found: tuple[Found, ...]
    notes: tuple[str, ...] = ()  # what was left out, and what to know about the figures


@frozen
class Measured:
    """The content of all files of one import. They describe one run, or two runs of the same model."""

    origin: Origin
    files: tuple[str, ...]  # the names of the files
    times: Times | None
    layers: Layers | None
    summary: Summary | None = None
    log: SensorLog | None = None
    generated: Generated | None = None
    notes: tuple[str, ...] = ()  # what was left out of the files, and what to know about the figures

    @property
    def providers(self) -> tuple[str, ...]:
        """Return the names of the providers that ran an operator, with the CPU last, as runtimes prefer it least.

        If the operators are unknown, return the names that the tool printed. If it printed none, return the tool's
        usual provider, or () if the tool has none.
        """
        found = dict.fromkeys(operator.provider for operator in self.layers.operators) if self.layers else {}
        names = tuple(sorted(found, key=lambda provider: provider == "CPU")) or (self.summary or NO_SUMMARY).providers
        return names or ((self.origin.provider,) if self.origin.provider else ())

    @property
    def warmup(self) -> int | None:
        """Return the number of warm-up inferences, or None if the files do not say."""
        warmup = self.times.warmup if self.times else None
        return warmup if warmup is not None else (self.summary or NO_SUMMARY).warmup

    @property
    def measured(self) -> int | None:
        """Return the number of inferences or requests after the warm-up.

        It is 0 if the files have none, and None if a summary does not say.
        """
        if self.times:
            return len(self.times.start_ns) - (self.times.warmup or 0)
        if self.generated:
            return int((self.generated.requests["phase"] == MEASURE).sum())
        return self.summary.count if self.summary else 0

    @property
    def end_ns(self) -> int:
        if self.times:
            return self.times.end_ns
        if self.generated:
            return self.generated.end_ns
        if self.log:
            return self.log.end_ns
        told_ns = (self.summary or NO_SUMMARY).span_ns or 0
        return max(told_ns, self.layers.total_ns if self.layers else 0)


NO_SUMMARY = Summary({})


NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?)"
ORDER = ("min_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")  # ascending
MAX_PER_SECOND = 1e12  # higher than any board: trtexec counts a batch of 8 as 8 inferences


def number(text: str, most: float = 1e15) -> float:
    """Return the number in a text. Raises ValueError if it is negative, infinite, or greater than `most`.

    >>> number("1.5e3")
    1500.0
    """
    value = float(text)
    if not (math.isfinite(value) and 0 <= value <= most):
        raise ValueError(f"{text[:40]} is no figure of such a run")
    return value


def time_ms(text: str, scale: float = 1.0) -> float:
    """Return a time in ms. `text` is the time as a number of units, and `scale` is the length of a unit in ms.

    Raises ValueError if the time is negative or longer than two days.

    >>> time_ms("1.5", 1000)
    1500.0
    """
    return number(text, MAX_NS / 1e6 / scale) * scale


def time_ns(text: str, scale: float = 1.0) -> int:
    """Return a time in ns. `text` is the time as a number of units, and `scale` is the length of a unit in ms.

    Raises ValueError if the time is negative or longer than two days.

    >>> time_ns("1.5", 1000)
    1500000000
    """
    return round(time_ms(text, scale) * 1e6)


def count(text: str) -> int:
    return round(number(text, MAX_COUNT))


def known_figures(**figures: JsonValue) -> dict[str, JsonValue]:
    """Return the figures that are not None.

    >>> known_figures(min_ms=1.5, max_ms=None)
    {'min_ms': 1.5}
    """
    return {name: value for name, value in figures.items() if value is not None}


def one_run(marks: Sequence[str], what: str) -> None:
    """Raise ValueError if a file has the output of several runs.

    `marks` has all occurrences of a text that each run prints once. `what` names the tool for the message, such as
    `trtexec`.
    """
    if len(marks) > 1:
        raise ValueError(f"it holds {len(marks)} runs of {what}: keep one in a file")


def refuse_contradictions(figures: Mapping[str, JsonValue]) -> None:
    """Raise ValueError if figures of a run contradict each other, such as a minimum above the maximum.

    `figures` has values in ms by name, such as `min_ms` and `p99_ms`.
    """
    times = [(key, value) for key in ORDER if isinstance(value := figures.get(key), float)]
    for (low, below), (high, above) in itertools.pairwise(times):
        if below > above * (1 + 1e-4):  # tools print six digits
            raise ValueError(f"it cannot be that {low} is {below:g} and {high} is {above:g}")
    match (figures.get("min_ms"), figures.get("mean_ms"), figures.get("max_ms")):
        case float(least), float(mean), float(most) if not least * (1 - 1e-4) <= mean <= most * (1 + 1e-4):
            raise ValueError(f"it cannot be that mean_ms is {mean:g} between {least:g} and {most:g}")
