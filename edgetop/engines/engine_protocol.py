"""The interface of an engine (start, poll, stop, close) and the messages that it sends."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol

from edgetop.frozen import frozen
from edgetop.session.engine_events import FallbackReasons
from edgetop.session.events import Body, Severity
from edgetop.session.manifest import TensorInfo
from edgetop.session.operators import EventCounts, Operator, ThreadUse
from edgetop.session.records import NO_INFERENCES, NO_REQUESTS, NO_TOKENS, Inferences, Requests, Tokens, join
from edgetop.session.turns import Plan

LEAST_POLL_S = 0.005


@frozen
class Started:
    """Says that the engine's process runs, but has loaded nothing yet."""

    pid: int
    python: str


@frozen
class Loaded:
    runtime: str
    version: str
    why: str  # why this runtime was chosen
    providers: tuple[str, ...]
    dropped_providers: tuple[str, ...]  # requested providers that the runtime silently left out
    inputs: tuple[TensorInfo, ...]
    assumptions: tuple[str, ...]  # a sentence for each shape that was assumed
    init_ns: int | None  # time to load the model; None if a program had loaded it before it was watched
    signature: str = ""  # key of the signature of a TFLite model that runs; "" if it has none
    signatures: tuple[str, ...] = ()  # all signatures of the model
    was_chosen: bool = False  # whether the signature was requested
    # Providers that count as requested, if the runtime reads the request in its own way: OpenVINO's AUTO may choose any
    # device, which is (). None if they are those that the user named.
    asked: tuple[str, ...] | None = None
    compile_ns: int | None = None  # time to compile the model, a part of `init_ns`; None if unknown
    left: str = ""  # a sentence that an accelerator does not run the whole model; "" if that is unknown before it runs
    whole: bool = False  # whether accelerators are known to run the whole model, even before it runs
    context: int | None = None  # size of a server's context in tokens; None if unknown, or if the engine was told it
    # Elements in the inputs of each inference of a cycle; () if all inputs have one size.
    input_elements: tuple[int, ...] = ()
    input_steps: int | None = None  # number of input arrays that are used in turn; None if unknown
    settings: Mapping[str, str] = field(default_factory=dict)  # what else changes speed or results
    buffers: Mapping[str, float] = field(default_factory=dict)  # MiB of a language model's buffers, as it reports them
    shows_tokens: bool = False  # whether a watched program's calls show the tokens of its language model

    @property
    def other_signatures(self) -> tuple[str, ...]:
        """The model's signatures that do not run. Empty if the user has requested the one that runs."""
        others = tuple(key for key in self.signatures if key != self.signature)
        return () if self.was_chosen else others

    @property
    def dropped(self) -> str:
        """A sentence that names the requested providers which the runtime left out, or "" if it left none out."""
        asked, have = ", ".join(self.dropped_providers), ", ".join(self.providers)
        return f"{asked} was asked for, but the runtime left it out and runs on {have}" if asked else ""


@frozen
class StreamsSeen:
    """The streams of a watched program, as far as known. A stream is one of the program's models.

    `names`, `threads` and `inputs` have one item for each stream, at the stream's number.
    """

    names: tuple[str, ...]  # path of each stream's model, or the program's name for the stream; "" if unknown
    sources: tuple[str, ...]  # how calls are seen: "hook", "preload", "probe"; not by stream
    cost_ns: int | None  # time that watching adds to each call; None if unknown
    threads: tuple[int | None, ...] = ()  # threads of each stream; 0 means the runtime's default; None if unknown
    inputs: tuple[str | None, ...] = ()  # inputs of each stream's first call, with their shapes
    deadline_ns: int | None = None  # deadline of a frame that the program declares


@frozen
class Sampled:
    """Values of a sensor that the engine itself measures, such as how long the stages of a frame took."""

    sensor: str  # id: kind and label
    samples: tuple[tuple[int, float], ...]  # (CLOCK_MONOTONIC in ns, value)


@frozen
class StageMemory:
    """The resident memory of the engine's process at the end of a stage of the run, such as the load of the model."""

    stage: str  # "interpreter", "runtime", "model", "first" or "steady"
    monotonic_ns: int
    rss_kib: int
    anon_kib: int | None = None  # None if the kernel is too old to report it
    file_kib: int | None = None
    arena_bytes: int | None = None  # memory of TFLite's interpreter for tensors, with the model loaded; None if unknown
    # "tensors": the bytes that its tensors cover; "growth": how much memory grew while they were allocated.
    arena_from: str | None = None


@frozen
class PhaseBegan:
    phase: str
    monotonic_ns: int


@frozen
class LogLine:
    severity: Severity
    source: str  # "engine", "engine stdout" or "engine stderr"
    message: str
    kind: str = "log"
    data: Mapping[str, object] = field(default_factory=dict)  # of an event of this kind


@frozen
class Noted:
    """An event with data, for the recording. Its time is the time at which this message is read."""

    body: Body
    severity: Severity
    source: str
    message: str


@frozen
class RecordsLost:
    """Says how many records of inferences were dropped, and why."""

    count: int
    why: str = "edgetop fell too far behind"


@frozen
class ProfilerChosen:
    """Says how operators are timed, or why they are not timed or no longer timed."""

    way: str  # in words; "" if operators are not timed
    reason: str  # why they are not timed, or not in a better way
    operators: tuple[Operator, ...] = ()  # of the run that tried the profiler: for their providers, not their times
    fallback: FallbackReasons | None = None  # None if all operators ran as requested, or if the reasons are unknown


@frozen
class BurstBegan:
    """Says that long profiling begins, so nothing is measured for a while."""

    monotonic_ns: int


@frozen
class BurstTaken:
    """The operators' times in a few instrumented inferences. These inferences are not among the records."""

    monotonic_ns: int  # when it began
    duration_ns: int  # time until inferences were measured again
    run_ns: tuple[int, ...]  # duration of each instrumented inference that counts
    operators: tuple[Operator, ...]  # times in those inferences together
    first_run: tuple[tuple[int, int], ...] = ()  # one inference as (place in `operators`, ns), in run order
    threads: ThreadUse | None = None  # None if there is one thread, or the runtime does not report it
    left_out_ns: tuple[int, ...] = ()  # duration of each inference left out because other processes disturbed it
    disturbed: bool = False  # whether every inference, or the whole burst, was disturbed; then none is left out
    preempted: int = 0  # involuntary switches of the engine's threads in all inferences of the burst
    waited_ns: int | None = None  # time in which these threads waited for a CPU; None if unknown
    stolen_ns: int | None = None  # time that a hypervisor took from all CPUs; None if unknown
    plain_disturbed: bool = False  # whether other processes disturbed the plain inferences before the burst
    # When each item of `first_run` began, as (ns since the first one, number of its thread); empty if unknown.
    first_begins: tuple[tuple[int, int], ...] = ()
    crossing_ns: int | None = None  # mean time of all crossings between providers in an inference; None if unknown
    # The slowest undisturbed inference, if it took 10 % longer than the median of the latest ones, which is `usual_ns`.
    slow_ns: int | None = None
    usual_ns: int | None = None
    longer: str = ""  # operator that took most of the time that this inference lost; "": all operators took longer
    longer_ns: int | None = None  # by how much this operator was longer than usual
    longer_share: float | None = None  # its usual share of the time, 0 to 1
    counts: tuple[EventCounts, ...] = ()  # events in each of `operators`
    # Median time of the same work without the profiler, if the burst also measured that; else None.
    plain_ns: int | None = None


@frozen
class Reached:
    """Says that all inferences in later records begin at `monotonic_ns` or later.

    Whoever sorts the records of several streams uses this message up, so the session does not get it.
    """

    monotonic_ns: int


@frozen
class Backlog:
    """Says that the data after this message had to wait in the engine, because edgetop was slow to read.

    If `is_over` is True, it says the reverse: the data after it did not wait.
    """

    is_over: bool


@frozen
class SlowInference:
    """An unusually slow inference, and by how much the kernel's counters grew around it.

    The counters cover a span of time that ends with the inference.
    """

    monotonic_ns: int  # when it began
    latency_ns: int
    span_ns: int  # length of the span, which begins shortly before the inference
    preempted: int  # involuntary switches of the engine's threads
    major_faults: int
    minor_faults: int
    waited_ns: int | None = None  # time in which the engine's loop waited for a CPU; None if unknown
    migrations: int | None = None  # moves of the engine's threads to another CPU; None if unknown
    # Capacity of the CPU of the engine's loop at the end, divided by the usual one; None if all CPUs are alike.
    capacity: float | None = None
    lost_cpus: int = 0  # number of CPUs that the engine may not use any more
    # Time in ns in which the engine neither ran nor waited for a CPU, beyond what is usual; None if unknown.
    idle_ns: int | None = None
    input: int | None = None  # which of the input arrays it got, from 0; None if there is only one
    inputs: int | None = None  # number of input arrays, used in turn
    # Time in ns in which the engine's loop neither ran nor waited for a CPU, beyond what is usual; None if unknown.
    slept_ns: int | None = None
    loop_major_faults: int | None = None  # those of `major_faults` that the engine's loop had; None if unknown
    loop_preempted: int | None = None  # those of `preempted` that the engine's loop had; None if unknown
    # Time in ns that the engine's other threads did not run beside the loop, all together, although they usually do;
    # None if unknown.
    lacking_ns: int | None = None


@frozen
class GarbageCollected:
    """Says that Python's garbage collector ran during an inference of a watched Python program."""

    monotonic_ns: int  # when the inference began
    latency_ns: int
    took_ns: int  # time of collections in the inference
    after_ns: int  # when the first of these collections began, after the begin of the inference
    generation: int  # oldest generation that these collections included


@frozen
class Ended:
    """Says that the engine has ended its last inference, and sends nothing more."""

    reason: str  # "runs", "duration" or "stop"
    monotonic_ns: int  # when this was sent, which is later than the end of the last inference


@frozen
class OfVariant:
    """A message of one engine of an A/B session. `side` is 0 for engine A and 1 for B."""

    side: int  # 0 is A, 1 is B
    message: Loaded | StageMemory


@frozen
class TurnsBegan:
    """Says that both engines of an A/B session now know in which spans of time each of them runs."""

    plan: Plan  # its times are of CLOCK_MONOTONIC
    load: int = 0  # how often both have been loaded before


@frozen
class Reloading:
    """Says that the engine's process is about to end, and that another one for the same model starts next."""


@frozen
class Failed:
    """Says that the engine could not go on, and why."""

    # "start", "runtime", "model", "input" or "first" if the user can mend it; "inference" or "engine" otherwise.
    stage: str
    message: str
    advice: str = ""

    @property
    def is_input_error(self) -> bool:
        return self.stage not in ("inference", "engine")


@frozen
class Died:
    """Says that the engine's process has ended without the message `Ended` or `Failed`."""

    cause: str
    loading: bool  # whether it died before its first inference
    last_words: str = ""  # last line that it wrote to stderr


Message = (
    Started
    | Loaded
    | StreamsSeen
    | Sampled
    | StageMemory
    | PhaseBegan
    | LogLine
    | Noted
    | RecordsLost
    | ProfilerChosen
    | BurstBegan
    | BurstTaken
    | Reached
    | Backlog
    | SlowInference
    | GarbageCollected
    | OfVariant
    | TurnsBegan
    | Reloading
    | Ended
    | Failed
    | Died
)


@frozen
class EngineUpdate:
    records: Inferences = field(default_factory=lambda: NO_INFERENCES)  # `t_ns` is CLOCK_MONOTONIC here
    messages: tuple[Message, ...] = ()
    # Time until the next poll is due: at the present rate, half the buffer will be full by then.
    poll_within_s: float = math.inf
    is_behind: bool = False  # whether more data from before the poll waits in the engine
    tokens: Tokens = field(default_factory=lambda: NO_TOKENS)  # of a language model; `t_ns` is CLOCK_MONOTONIC here
    requests: Requests = field(default_factory=lambda: NO_REQUESTS)  # the same


def join_updates(updates: Sequence[EngineUpdate]) -> EngineUpdate:
    """Join successive updates of one engine into one update."""
    if len(updates) == 1:
        return updates[0]
    records = join([update.records for update in updates])
    messages = tuple(message for update in updates for message in update.messages)
    tokens, requests = (join([getattr(update, name) for update in updates]) for name in ("tokens", "requests"))
    return replace(updates[-1], records=records, tokens=tokens, requests=requests, messages=messages)


class FillRate:
    """Estimates when a buffer of limited size will be half full, from how full it was at the last poll."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._emptied_s = clock()

    def half_full_in_s(self, held: float) -> float:
        """Return in how many seconds the buffer, which has just been emptied, will be half full.

        `held` is the share of the buffer, 0 to 1, that was in use before. If it is 0, the result is infinity.
        """
        now_s, before_s = self._clock(), self._emptied_s
        self._emptied_s = now_s
        return max(LEAST_POLL_S, (now_s - before_s) / 2 / held) if held else math.inf


class Engine(Protocol):
    """Runs one model once. After the message `Ended`, `Failed` or `Died`, it sends nothing more."""

    isolation: str  # "process", "thread" or "program"

    def start(self) -> None:
        """Start the engine. Raises InputError if it cannot be started."""

    def poll(self) -> EngineUpdate:
        """Return what the engine has sent since the last poll. Never waits.

        Inferences are in the order in which they began.
        """

    def stop(self) -> None:
        """Ask the engine to end after the running inference. A second call asks it to end at once. Never waits."""

    def profile(self) -> None:
        """Ask for operators to be profiled now, in a few instrumented inferences. Never waits."""

    def close(self) -> str | None:
        """End the engine, so that no load remains. May be called twice.

        Returns None, or a sentence that says that a watched program goes on until its user ends it.
        """
