"""Time the operators of a model without recording, sensors or screen.

Inferences with timed operators run in small groups (bursts), until there are enough of them. Plain inferences are
measured between the bursts, in the same process and at the same temperature, so both can be compared.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from edgetop.engines.engine_protocol import (
    BurstTaken,
    Died,
    Ended,
    Engine,
    Failed,
    Loaded,
    Message,
    PhaseBegan,
    ProfilerChosen,
    StageMemory,
)
from edgetop.errors import EngineDiedError, InputError
from edgetop.session.median import median
from edgetop.session.operators import LEAST_BURSTS, LEAST_RUNS, plain_ns
from edgetop.session.records import NO_INFERENCES, Inferences, join, measured

# A burst may take a hundredth of this interval: ten seconds. Bursts are requested one by one, not at this interval.
PROFILE_EVERY_NS = 1_000_000_000_000
# Plain inferences between two bursts: this number, or as many as fit into this time.
BETWEEN_BURSTS = 20
BETWEEN_BURSTS_NS = 1_000_000_000
# If a plain inference began this long after a burst was requested, and no burst came, the burst failed.
ANSWERED_AFTER_NS = 250_000_000
MAX_BURSTS_A_RUN = 4  # most bursts for each inference requested, in case bursts fail
MOST_TIMES = 3  # if other processes disturb most inferences, stop after this multiple of what is needed
POLL_S = 0.01


@dataclass(slots=True)
class Profiled:
    """The results of profiling a model: the times of its operators, and the latencies of plain inferences.

    Inferences with timed operators are called instrumented. A few of them run together, as a burst.
    """

    loaded: Loaded | None = None
    chosen: ProfilerChosen | None = None
    taken: list[BurstTaken] = field(default_factory=list)
    records: list[Inferences] = field(default_factory=list)  # measured inferences
    is_measuring: bool = False
    memory: StageMemory | None = None  # with the model loaded; None if unknown

    @property
    def measured(self) -> int:
        return sum(map(len, self.records))

    @property
    def undisturbed(self) -> list[BurstTaken]:
        """The bursts (groups of timed inferences) during which other processes used little CPU time."""
        return [burst for burst in self.taken if not burst.disturbed]

    @property
    def bursts(self) -> list[BurstTaken]:
        """The bursts (groups of timed inferences) to use: the undisturbed ones, or all if each was disturbed."""
        return self.undisturbed or self.taken

    @property
    def runs(self) -> int:
        """The number of inferences with timed operators, in the bursts to use."""
        return sum(len(burst.run_ns) for burst in self.bursts)

    @property
    def all_runs(self) -> int:
        return sum(len(burst.run_ns) + len(burst.left_out_ns) for burst in self.taken)

    def is_enough(self, runs: int) -> bool:
        """Whether enough inferences were profiled: `runs` undisturbed ones, or MOST_TIMES as many in all.

        If `runs` is at least LEAST_RUNS, LEAST_BURSTS undisturbed bursts (groups of timed inferences) are needed too,
        or MOST_TIMES as many in all.
        """
        least_bursts = LEAST_BURSTS if runs >= LEAST_RUNS else 1
        has_all = sum(len(burst.run_ns) for burst in self.undisturbed) >= runs and len(self.undisturbed) >= least_bursts
        is_too_many = self.all_runs >= MOST_TIMES * runs and len(self.taken) >= MOST_TIMES * least_bursts
        return has_all or is_too_many

    @property
    def p50_ns(self) -> float | None:
        """The median latency in ns of the plain inferences that succeeded, or None if there are none.

        For a language model, an inference is a token.
        """
        in_bursts = [burst.plain_ns for burst in self.bursts if burst.plain_ns is not None]
        if in_bursts:
            return float(median(in_bursts))
        records = join([NO_INFERENCES, *self.records])
        return float(median(records["latency_ns"].astype(np.int64))) if len(records) else None

    @property
    def run_ns(self) -> float | None:
        """The median time in ns of the inferences with timed operators, or None if there are none."""
        every = [ns for burst in self.bursts for ns in burst.run_ns]
        return float(median(every)) if every else None

    @property
    def crossing_ns(self) -> float | None:
        """The time per inference in ns for moving data between CPU and accelerators, or None if unknown."""
        times = [burst.crossing_ns for burst in self.bursts if burst.crossing_ns is not None]
        return float(median(times)) if times else None

    def plain_ns(self, burst: BurstTaken) -> int | None:
        """Return the median latency in ns of the plain inferences just before `burst`, a group of timed inferences.

        Return None if the latency is unknown, or if other processes disturbed these inferences.
        """
        if burst.plain_ns is not None or burst.plain_disturbed:
            return burst.plain_ns
        return plain_ns(join([NO_INFERENCES, *self.records]), burst.monotonic_ns)


class Profiling:
    """Times the operators of a model in one engine."""

    def __init__(
        self,
        engine: Engine,
        report: Callable[[Profiled], None] = lambda _: None,
        pause: Callable[[float], None] = time.sleep,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Prepare to profile. `run` starts `engine`.

        `report` is called with the results so far. `pause` waits for a number of seconds. `clock_ns` reads the engine's
        clock, which is CLOCK_MONOTONIC.
        """
        self._engine = engine
        self._report = report
        self._pause = pause
        self._clock_ns = clock_ns
        self.profiled = Profiled()

    def run(self, runs: int) -> Profiled:
        """Run at least `runs` inferences with timed operators, or fewer if most fail, and return what was measured.

        Raises InputError if the model cannot be run or its operators cannot be timed, and EngineDiedError if the engine
        ends.
        """
        self._engine.start()
        try:
            while not self.profiled.is_measuring:
                self._poll()
            for _ in range(MAX_BURSTS_A_RUN * runs):
                self._measure()
                had, answered_ns = len(self.profiled.taken), self._clock_ns() + ANSWERED_AFTER_NS
                self._engine.profile()
                while len(self.profiled.taken) == had:
                    records = self._poll()
                    if len(records) and records["t_ns"][-1] > answered_ns:  # the burst failed
                        break
                if self.profiled.is_enough(runs):
                    break
            self._measure()
        finally:
            self._engine.close()
        if not self.profiled.taken:
            raise InputError("operators cannot be timed here: every instrumented inference failed", "edgetop help ops")
        return self.profiled

    def _poll(self) -> Inferences:
        """Take the engine's reports, and wait a moment. Return the measured inferences among the reports."""
        update = self._engine.poll()
        for message in update.messages:
            _take(message, self.profiled)
        records = measured(update.records)
        if len(records):
            self.profiled.records.append(records)
        self._report(self.profiled)
        self._pause(POLL_S)
        return records

    def _measure(self) -> None:
        enough, until_ns = self.profiled.measured + BETWEEN_BURSTS, self._clock_ns() + BETWEEN_BURSTS_NS
        while self.profiled.measured < enough and not (self._clock_ns() > until_ns and self.profiled.measured):
            self._poll()


def _take(message: Message, profiled: Profiled) -> None:
    match message:
        case Loaded():
            profiled.loaded = message
        case StageMemory(stage="model"):
            profiled.memory = message
        case PhaseBegan(phase):
            profiled.is_measuring |= phase == "measure"
        case BurstTaken():
            profiled.taken.append(message)
        case ProfilerChosen(way, reason):
            profiled.chosen = message
            if not way and not profiled.taken:
                raise InputError(f"the operators of this model cannot be timed here: {reason}", "edgetop help ops")
        case Failed() | Died() | Ended():
            _raise_end(message)


def _raise_end(message: Failed | Died | Ended) -> NoReturn:
    match message:
        case Failed():
            if message.is_input_error:
                raise InputError(message.message, message.advice)
            raise EngineDiedError(f"the engine died: {message.message}")
        case Died():
            raise EngineDiedError(f"the engine died: {message.cause}")
        case Ended():
            raise EngineDiedError("the engine ended before it was asked to")
