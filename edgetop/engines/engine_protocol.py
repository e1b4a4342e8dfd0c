"""The interface of an engine to its conductor: start, poll, stop, close; and the messages that it sends."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from edgetop.session.events import Severity
from edgetop.session.manifest import TensorInfo
from edgetop.session.operators import Operator, ThreadUse
from edgetop.session.records import NO_INFERENCES, Inferences, join
from edgetop.session.turns import Plan

LEAST_POLL_S = 0.005


@dataclass(frozen=True, slots=True)
class Started:
    """The engine is up, and nothing is loaded yet."""

    pid: int
    python: str


@dataclass(frozen=True, slots=True)
class Loaded:
    runtime: str
    version: str
    why: str  # why this runtime and no other
    providers: tuple[str, ...]
    dropped_providers: tuple[str, ...]  # requested, and silently left out by the runtime
    inputs: tuple[TensorInfo, ...]
    assumptions: tuple[str, ...]  # a sentence for each shape nobody gave
    init_ns: int | None  # None: a program had loaded it before it was watched
    left: str = ""  # a sentence that an accelerator does not run all of it; "": unknown before it runs
    whole: bool = False  # accelerators run all of it, or the runtime would have refused the model

    @property
    def dropped(self) -> str:
        """A sentence with the providers that were requested and are missing; "": none."""
        asked, have = ", ".join(self.dropped_providers), ", ".join(self.providers)
        return f"{asked} was asked for, but the runtime left it out and runs on {have}" if asked else ""


@dataclass(frozen=True, slots=True)
class StreamsSeen:
    """The streams of a watched program whose calls were seen so far."""

    names: tuple[str, ...]  # by number of stream: paths of models, or names that the program gives; "": unknown
    sources: tuple[str, ...]  # how they are seen: "hook", "preload", "probe"
    cost_ns: int | None  # what timing one call costs the program; None: unknown
    threads: tuple[int | None, ...] = ()  # by stream, of its session; 0: the runtime's default; None: unknown
    inputs: tuple[str | None, ...] = ()  # by stream, of its first call, with their shapes
    deadline_ns: int | None = None  # of a frame, as the program declares it


@dataclass(frozen=True, slots=True)
class Sampled:
    """Samples that the engine reports as a sensor would, such as the stages of a frame."""

    sensor: str  # id: kind and label
    samples: tuple[tuple[int, float], ...]  # (CLOCK_MONOTONIC in ns, value)


@dataclass(frozen=True, slots=True)
class StageMemory:
    """The resident memory of the engine's process at the end of a step of the run."""

    stage: str  # "interpreter", "runtime", "model", "first" or "steady"
    monotonic_ns: int
    rss_kib: int
    anon_kib: int | None = None  # None: an old kernel does not report it
    file_kib: int | None = None


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    phase: str
    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class LogLine:
    severity: Severity
    source: str  # "engine", "engine stdout" or "engine stderr"
    message: str
    kind: str = "log"


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """Records were dropped."""

    count: int
    why: str = "edgetop fell too far behind"


@dataclass(frozen=True, slots=True)
class ProfilerChosen:
    """The way in which operators are timed, or the reason why they are not, or not any more."""

    way: str  # in words; "": they are not
    reason: str  # why not at all, or why not in a better way
    operators: tuple[Operator, ...] = ()  # of the run that tried the way: for their providers, not their times


@dataclass(frozen=True, slots=True)
class BurstBegan:
    """A burst that takes long begins: nothing is measured until it is over."""

    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class BurstTaken:
    """A burst of instrumented inferences has ended; none of them is among the records."""

    monotonic_ns: int  # when it began
    duration_ns: int  # until inferences were measured again
    run_ns: tuple[int, ...]  # how long each instrumented inference took as a whole, of those in `operators`
    operators: tuple[Operator, ...]
    first_run: tuple[tuple[int, int], ...] = ()  # one inference: (place in `operators`, ns), in the order of running
    threads: ThreadUse | None = None  # None: one thread, or the runtime does not report it
    left_out_ns: tuple[int, ...] = ()  # the same of those that others disturbed, which are not in `operators`
    disturbed: bool = False  # each was, or the whole burst: none is left out
    preempted: int = 0  # involuntary switches of the engine's threads in all of them
    waited_ns: int | None = None  # of these threads for a CPU; None: unknown
    stolen_ns: int | None = None  # by a hypervisor, from all CPUs; None: unknown
    plain_disturbed: bool = False  # others took from the inferences before it, which were not instrumented


@dataclass(frozen=True, slots=True)
class Reached:
    """No stream will report an inference that began before this time. An `Engine` does not pass this on."""

    monotonic_ns: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """What comes from here on has waited in the engine, because edgetop did not read; or has not, if `is_over`."""

    is_over: bool


@dataclass(frozen=True, slots=True)
class SlowInference:
    """An inference that stands out, and what the kernel counted since shortly before it."""

    monotonic_ns: int  # when it began
    latency_ns: int
    span_ns: int  # that was counted: from before it to its end
    preempted: int  # involuntary switches of the engine's threads
    major_faults: int
    minor_faults: int
    waited_ns: int | None = None  # of the engine's loop for a CPU; None: the kernel keeps no account


@dataclass(frozen=True, slots=True)
class Ended:
    """The loop came to its end: "runs", "duration" or "stop"."""

    reason: str
    monotonic_ns: int  # when this was sent, which is later than the end of the last inference


@dataclass(frozen=True, slots=True)
class OfVariant:
    """A message of one of the two engines of an A/B session."""

    side: int  # 0 is A, 1 is B
    message: Loaded | StageMemory


@dataclass(frozen=True, slots=True)
class TurnsBegan:
    """Both engines of an A/B session have received their turns."""

    plan: Plan  # on CLOCK_MONOTONIC


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine could not go on, for the reason given."""

    stage: str  # "start", "runtime", "model", "input", "first": the user's; "inference", "engine": its own
    message: str
    advice: str = ""

    @property
    def is_input_error(self) -> bool:
        return self.stage not in ("inference", "engine")


@dataclass(frozen=True, slots=True)
class Died:
    """The engine's process ended without a message."""

    cause: str
    loading: bool  # it never reached its first inference
    last_words: str = ""  # the last line it wrote to stderr


Message = (
    Started
    | Loaded
    | StreamsSeen
    | Sampled
    | StageMemory
    | PhaseBegan
    | LogLine
    | RecordsLost
    | ProfilerChosen
    | BurstBegan
    | BurstTaken
    | Reached
    | Backlog
    | SlowInference
    | OfVariant
    | TurnsBegan
    | Ended
    | Failed
    | Died
)


@dataclass(frozen=True, slots=True)
class EngineUpdate:
    records: Inferences = field(default_factory=lambda: NO_INFERENCES)  # `t_ns` is CLOCK_MONOTONIC here
    messages: tuple[Message, ...] = ()
    # Poll again within this time: by then, at the rate since the last poll, half the buffer between the two is full.
    poll_within_s: float = math.inf
    is_behind: bool = False  # more has happened before the poll than the update holds: it waits in the engine


def join_updates(updates: Sequence[EngineUpdate]) -> EngineUpdate:
    """Return successive updates of one engine as one."""
    if len(updates) == 1:
        return updates[0]
    records = join([update.records for update in updates])
    messages = tuple(message for update in updates for message in update.messages)
    return replace(updates[-1], records=records, messages=messages)


class FillRate:
    """How soon a buffer of limited size is half full, by what it held at the last two polls."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._emptied_s = clock()

    def half_full_in_s(self, held: float) -> float:
        """`held`: the share of the buffer, 0 to 1, that was found and taken out just now."""
        now_s, before_s = self._clock(), self._emptied_s
        self._emptied_s = now_s
        return max(LEAST_POLL_S, (now_s - before_s) / 2 / held) if held else math.inf


class Engine(Protocol):
    """Runs one model once. After `Ended`, `Failed` or `Died` it sends nothing more."""

    isolation: str  # "process", "thread" or "program"

    def start(self) -> None:
        """Start the engine. Raises InputError where it cannot be started."""

    def poll(self) -> EngineUpdate:
        """Return what came since the last poll, inferences in the order in which they began. Never waits."""

    def stop(self) -> None:
        """Ask it to end after the inference in hand; a second time, that it does so at once. Never waits."""

    def profile(self) -> None:
        """Ask for a burst of instrumented inferences now. Never waits."""

    def close(self) -> str | None:
        """End the engine, so that it leaves no load, and return a sentence if it goes on. Safe to call twice.

        Alone a program that is watched goes on: only its user ends it.
        """
