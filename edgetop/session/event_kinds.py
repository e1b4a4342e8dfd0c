"""The kinds of events. Each has a class with the data of the event besides its time, source and message.

The unit is in a field's name. Fields are written in the order in which they stand here. `event_codec` checks the
types of fields wherever an event comes from a file or another machine.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, get_args, get_type_hints

from edgetop.frozen import frozen
from edgetop.session.ceilings import Ceilings, ceilings_of
from edgetop.session.events import Body
from edgetop.session.operators import ThreadUse
from edgetop.session.turns import Plan
from edgetop.session.typed_json import JsonValue

PhaseName = Literal["program", "first", "idle", "warmup", "measure"]


def _optional() -> Any:
    """Return a dataclass field that is left out of the event's data if it is None."""
    return field(default=None, metadata={"is_written": lambda _, value: value is not None})


def _of_phases(*names: PhaseName) -> Any:
    """Return a dataclass field that is left out of the event's data if it is None.

    In the phases `names`, the field is written as null instead.
    """
    return field(default=None, metadata={"is_written": lambda body, value: value is not None or body.phase in names})


def _of_kind(name: str) -> Any:
    """Return a dataclass field that is written only if the event's kind is `name`."""
    return field(default=None, metadata={"is_written": lambda body, _: body.kind == name})


def _part(prefix: str = "", **default: Any) -> Any:
    """Return a field whose value is a dataclass. `default` may give the field's default.

    Each field of that dataclass gets its own key in the event's data: `prefix` and the field's name.
    """
    return field(metadata={"prefix": prefix}, **default)


def _all_other_keys() -> Any:
    """Return a dataclass field that holds all keys of the event's data that belong to no other field of the class."""
    return field(default_factory=dict, metadata={"others": True})


@frozen
class UnknownEvent(Body):
    """An event whose kind this version does not know, or whose data does not fit its kind. Copies keep it unchanged."""

    kind: str
    data: Mapping[str, object] = field(default_factory=dict)


RemarkKind = Literal[
    "alert-ended", "assumed-shape", "assumed-signature", "calls-unseen", "deadline-begin", "deadline-end",
    "demo-model", "detached",
    "engine-killed", "engine-loaded", "foreign-times", "inference-failed", "internal-error", "left-behind", "log",
    "mark", "metrics-back", "metrics-failed", "model-misnamed", "no-control", "no-inference", "no-sensors",
    "no-starts", "non-finite-outputs", "not-registered", "outputs-not-kept", "partly-accelerated",
    "profile-burst-begins",
    "program-unwatched", "provider-dropped", "raw-dropped", "recording-paused", "recording-resumed", "records-late",
    "records-on-time", "rotation-failed", "sensor-back", "sensor-lost", "sensor-stuck", "session-not-counted",
    "session-removed", "slowdown-ended", "stopping", "streams-full", "tables-delayed", "virtual-board",
]  # fmt: skip


@frozen
class Remark(Body):
    """An event without data: its kind and its message say everything."""

    kind: RemarkKind


# How a session goes.


@frozen
class PhaseBegan(Body):
    """A phase of the run began. `runs` and `duration_ns` are its requested length; None means no limit, or unknown."""

    kind = "phase"
    phase: PhaseName
    runs: int | None = _of_phases("warmup", "measure")
    duration_ns: int | None = _of_phases("idle", "measure")


@frozen
class SessionOver(Body):
    """The last event of a session: it ended.

    If the recording process died, edgetop added this event later, when it completed the recording ("recovered").
    """

    kind: Literal["ended", "recovered"]
    reason: str | None = None
    last_end_ns: int | None = None  # when the last inference ended; None: not known
    warmup_runs: int | None = 0  # None: not known
    warmup_ns: int | None = 0  # the sum of their latencies
    # Of a recovered session only.
    torn_bytes: int | None = _optional()
    damaged_bytes: int | None = _optional()
    lost_s: int | float | None = _of_kind("recovered")  # session time of which something is missing; None: not known
    lost_inferences: int | None = _of_kind("recovered")


@frozen
class Rotated(Body):
    """This session continues a session that ended (`--rotate`). The engine went on without a restart."""

    kind = "rotated"
    before: str = ""  # the id of that session


@frozen
class Cut(Body):
    """This session is a copy of a part of another session, from `begin_ns` to `end_ns`."""

    kind = "cut"
    session: str
    begin_ns: int
    end_ns: int


@frozen
class ClockStepped(Body):
    """The wall clock was set while the session ran. `step_s` is the size of the step in s."""

    kind = "clock-step"
    step_s: int | float


@frozen
class GateSet(Body):
    """A gate of the run (`--fail-if`): a condition on the whole session that sets the exit code. `expr` is its text."""

    kind = "gate"
    expr: str


@frozen
class GateFailed(Body):
    """A failed gate (a `--fail-if` condition) ended the session. `expr` is its text."""

    kind = "gate-failed"
    expr: str = ""


@frozen
class AlertRuleSet(Body):
    """The user requested an alert (`--alert`). `rule` is its condition."""

    kind = "alert-rule"
    rule: str


@frozen
class HookDone(Body):
    """A command that the user gave with `--on-event` ended or failed."""

    kind: Literal["hook-ran", "hook-failed"]
    event: str | None = _optional()  # that it ran for; None: no command could be run at all
    exit_code: int | None = field(default=None, metadata={"is_written": lambda body, _: body.event is not None})
    output: str | None = _optional()


@frozen
class AnalysisFailed(Body):
    """A part of the analysis crashed, because of a defect of edgetop. Its results are not available."""

    kind = "analysis-failed"
    traceback: str | None = _optional()


# The engine.


@frozen
class EngineStarted(Body):
    """The engine's process started."""

    kind = "engine-started"
    pid: int | None = None


@frozen
class EngineFailed(Body):
    """The engine gave up after an error. The message says why."""

    kind = "engine-failed"
    stage: str | None = _optional()


@frozen
class EngineDied(Body):
    """The engine's process died. The message says how."""

    kind = "engine-died"
    last_words: str | None = _optional()


@frozen
class EngineMemory(Body):
    """The engine's memory at the end of a step, such as loading the model. `stage` names the step."""

    kind = "engine-memory"
    stage: str
    rss_mib: int | float
    anon_mib: int | float | None = _optional()
    file_mib: int | float | None = _optional()
    arena_mib: int | float | None = _optional()  # memory of TFLite's interpreter for tensors
    arena_from: str | None = _optional()  # "tensors" or "growth"


@frozen
class RecordsLost(Body):
    """The engine could not report some of its inferences. `count` is their number."""

    kind = "records-lost"
    count: int = 0


@frozen
class StreamSeen(Body):
    """A watched program used a further model for the first time. `number` is the model's stream number."""

    kind = "stream"
    number: int


@frozen
class DataDependent(Body):
    """Some operators take more or less work depending on their input, but the input of this session is
    not real data.
    """

    kind = "data-dependent"
    types: str  # of these operators, with commas between


@frozen
class OutputsKept(Body):
    """The outputs of some inferences were stored (`--keep-outputs`)."""

    kind = "outputs-kept"
    elements: int | None = _optional()  # numbers in all of them; None: not counted
    non_finite: int | None = _optional()  # those that are NaN or infinite


@frozen
class SlowInference(Body):
    """The slowest inference of a tenth of a second, with what the kernel counted for the engine meanwhile.

    Counting begins shortly before the inference and ends with it.
    """

    kind = "slow-inference"
    latency_ns: int
    span_ns: int = 0  # the time in which was counted
    preempted: int = 0  # involuntary switches of the engine's threads
    major_faults: int = 0
    minor_faults: int = 0
    waited_ns: int | None = None  # for a CPU; None: the kernel keeps no account
    migrations: int | None = _optional()  # moves of threads to another CPU; None: unknown
    capacity: float | None = _optional()  # of its CPU, in usual ones; None: all CPUs are alike
    lost_cpus: int | None = _optional()  # that the engine may not use any more; None: none


@frozen
class GarbageCollected(Body):
    """Python's garbage collector ran during an inference of a watched program. The event's time is the inference's
    begin.
    """

    kind = "garbage-collected"
    latency_ns: int
    took_ns: int = 0  # time of collections in the inference
    after_ns: int = 0  # when the first of them began, after the begin of the inference
    generation: int = 0  # oldest generation that these collections included


# Operators.


@frozen
class ProfilerChosen(Body):
    """The way in which operators are timed from now on.

    `reason` says why operators are not timed, or why a better way is not available.
    """

    kind = "profiler"
    way: str = ""
    reason: str = ""
    every_ns: int = 0


@frozen
class RooflineMeasured(Body):
    """The highest measured FLOP/s and bytes/s of this board with this runtime."""

    kind = "roofline"
    flops_per_s: int | float
    bytes_per_s: int | float
    dtype: str
    measured_utc: str
    int8_flops_per_s: int | float | None = None

    @property
    def ceilings(self) -> Ceilings | None:
        """The measured speeds, or None if they are impossible or for another data type than float32."""
        return ceilings_of(self.flops_per_s, self.bytes_per_s, self.dtype, self.measured_utc, self.int8_flops_per_s)


@frozen
class ProfileBurst(Body):
    """A profiling round ended: some inferences that ran with the runtime's profiler."""

    kind = "profile-burst"
    burst: int = 0
    duration_ns: int = 0  # in which nothing was measured
    runs: int = 0
    run_ns: int = 0  # their median
    averaged: bool | None = _optional()  # another tool's mean
    plain_ns: int | None = None  # the median of the inferences just before; None: not known
    left_out_runs: int = 0  # that other programs disturbed
    disturbed_runs: int = 0  # of a burst in which all were disturbed
    preempted: int = 0
    waited_ns: int | None = None
    stolen_ns: int | None = None
    threads: ThreadUse | None = _part("thread_", default=None)
    # The slowest undisturbed inference, if it took 10 % longer than the median of the latest ones, which is `usual_ns`.
    slow_ns: int | None = _optional()
    usual_ns: int | None = _optional()
    longer: str | None = _optional()  # operator that took most of the time that it lost; None: all took longer
    longer_ns: int | None = _optional()  # by how much this operator was longer than usual
    longer_share: int | float | None = _optional()  # its usual share of the time, 0 to 1


@frozen
class ProfileBursts(Body):
    """The sum of many profiling rounds. A remote viewer gets it for the distant past, in place of the single rounds."""

    kind = "profile-bursts"
    count: int = 0
    duration_ns: int = 0
    left_out_runs: int = 0
    disturbed_runs: int = 0
    threads: ThreadUse | None = _part("thread_", default=None)  # of the undisturbed ones


# Two models in turns.


@frozen
class TurnsBegan(Body):
    """The variants of an A/B session began to run in turns, as `plan` says."""

    kind = "ab-turns"
    plan: Plan = _part()


@frozen
class LoadBegan(Body):
    """Both models of an A/B session were loaded again, and began to run in turns, as `plan` says."""

    kind = "ab-load"
    load: int  # number of the load: 1 for the second
    plan: Plan = _part()


@frozen
class TurnsSettled(Body):
    """In an A/B session: latencies within `left_out_ns` after each switch between A and B do not count."""

    kind = "ab-settled"
    left_out_ns: int


@frozen
class QuadFigures:
    """The figures of one side, A or B, in four successive turns of an A/B session."""

    count: int  # inferences that count
    left_out: int
    p50_ns: int | float
    p90_ns: int | float
    p99_ns: int | float
    hz: int | float
    mj: int | float | None  # energy of an inference; None: the power is not known
    quantiles_ns: str  # at the shares that `analysis.ab` names, with commas between


@frozen
class QuadDone(Body):
    """Four successive turns (ABBA or BAAB) of an A/B session are over. The event has the figures of A and of B."""

    kind = "ab-quad"
    quad: int
    order: str  # "ABBA" or "BAAB"
    alone: bool  # of A alone, before the others: B's figures are A's in the turns of B
    a: QuadFigures = _part("a_")
    b: QuadFigures = _part("b_")
    p50_ratio: int | float | None = _optional()
    load: int | None = _optional()  # number of the load, from 0; None in recordings in which each was loaded once


# Sensors and the board.


@frozen
class SensorMissing(Body):
    """A sensor of the board cannot be read. The message says why."""

    kind = "sensor-missing"
    fix: str | None = None  # the command that would change that


@frozen
class SensorSlow(Body):
    """Reading a sensor took much longer than usual: `took_ns`, from `begin_ns` on."""

    kind = "sensor-slow"
    begin_ns: int
    took_ns: int


@frozen
class Competing(Body):
    """Other processes took CPU time.

    `name` is the process that took most, and `cpu_pct` its CPU time in percent of a core. `began` is True if all
    processes of this name started since the last look at the processes; otherwise it is None.
    """

    kind = "competing"
    name: str
    cpu_pct: int | float
    began: bool | None = _optional()


@frozen
class ThreadsUsed(Body):
    """The CPU time that each thread of the engine used."""

    kind = "threads"
    processes: int
    cpu_pct: Mapping[str, JsonValue] = _all_other_keys()  # by "thread NAME": percent of a core


@frozen
class ClockSource(Body):
    """The kernel's clock source, `clock`, takes long to read, which adds time to each measurement."""

    kind = "clock-source"
    clock: str


@frozen
class SettingChanged(Body):
    """A setting of the board changed while the session ran: its CPU governor or its power mode."""

    kind: Literal["governor-changed", "power-mode-changed"]
    before: str
    after: str


@frozen
class LimitReached(Body):
    """The engine's cgroup reached its limit of CPU time or memory."""

    kind: Literal["cpu-quota", "memory-limit"]
    value: int | float  # percent of the quota's periods without CPU time left; reclaims of memory per second


@frozen
class OomKilled(Body):
    """The kernel's OOM killer killed a process of a watched program, because the program's cgroup reached its memory
    limit.
    """

    kind = "oom-kill"
    process: str | None = None  # its name; None: not known
    pid: int | None = None
    rss_mib: int | float | None = None  # its resident memory when it was killed
    limit_mib: int | float | None = None  # limit of the cgroup


@frozen
class ProgramEnded(Body):
    """A watched program ended. The fields say what it and all its child processes used, as the kernel counted."""

    kind = "program-ended"
    total_ns: int
    cpu_ns: int | None = None
    rss_peak_mib: int | float | None = None  # Peak of the resident memory of its largest process.
    # Peak and mean of the memory of all its processes together, from readings. Shared memory counts once. None if the
    # program had only one process.
    pss_peak_mib: int | float | None = None
    pss_mean_mib: int | float | None = None
    cgroup_peak_mib: int | float | None = None  # Peak of the memory of its own cgroup; None if it had none.
    read_bytes: int | None = None  # Bytes read from disks; None if unknown.
    # Bytes written to files on disks, even if they are still in the page cache; None if unknown.
    write_bytes: int | None = None
    # Bytes over the network of its container; None without a network of its own.
    net_rx_bytes: int | None = None
    net_tx_bytes: int | None = None


# The recording.


@frozen
class RecordingTrouble(Body):
    """The recording cannot be written ("recording-failed"), or not fast enough for single inferences
    ("recording-behind").

    The run itself continues.
    """

    kind: Literal["recording-failed", "recording-behind"]
    why: str = ""


@frozen
class RecordingRestored(Body):
    """The recording can be written again.

    `inferences` and `rows` are the numbers of inferences and rows that the recording lacks.
    """

    kind = "recording-restored"
    began_ns: int | None = None  # when it failed
    inferences: int = 0
    rows: int = 0


@frozen
class RecordingCaughtUp(Body):
    """Single inferences are recorded again, after "recording-behind". `count` is the number of missing inferences."""

    kind = "recording-caught-up"
    count: int = 0  # of missing inferences


@frozen
class RecordingMoved(Body):
    """The session's folder was moved or renamed during the recording. `path` is its new place."""

    kind = "recording-moved"
    path: str


# What another tool measured.


@frozen
class SessionImported(Body):
    """Another tool measured the session."""

    kind = "imported"
    parts: Mapping[str, JsonValue] = _all_other_keys()  # of an inference, in ms


@frozen
class ToolSummary(Body):
    """The figures that another tool printed for all inferences together.

    The keys are those of `latency` in a report.
    """

    kind = "tool-summary"
    tool: str
    figures: Mapping[str, JsonValue] = _all_other_keys()


@frozen
class CoarseTimes(Body):
    """The imported latencies are rounded so coarsely, to multiples of `step_ns`, that percentiles are affected."""

    kind = "coarse-times"
    step_ns: int | float


# What the analysis found.


@frozen
class ThrottleBegan(Body):
    """The board reported that it is throttled. `cause` says why, and `sensor` reported it."""

    kind = "throttle-begin"
    cause: str
    sensor: str
    clock_mhz: int | float | None = None  # the lowest of the first seconds
    best_mhz: int | float | None = None
    temp_c: int | float | None = None  # the highest of the first seconds


@frozen
class ThrottleEnded(Body):
    """The board is no longer throttled. The first five fields have the values of the event at the beginning."""

    kind = "throttle-end"
    cause: str
    sensor: str
    clock_mhz: int | float | None = None
    best_mhz: int | float | None = None
    temp_c: int | float | None = None
    min_clock_mhz: int | float | None = None
    max_temp_c: int | float | None = None
    latency_ratio: int | float | None = None
    duration_s: int | float | None = None


@frozen
class SlowdownBegan(Body):
    """Inferences became slower, because of `cause`."""

    kind = "slowdown-began"
    cause: str


@frozen
class AlertBegan(Body):
    """An alert was raised."""

    kind = "alert-began"
    alert: str


_CLASSES: tuple[type[Body], ...] = (
    Remark, PhaseBegan, SessionOver, Rotated, Cut, ClockStepped, GateSet, GateFailed, AlertRuleSet, HookDone,
    AnalysisFailed, EngineStarted, EngineFailed, EngineDied, EngineMemory, RecordsLost, StreamSeen, DataDependent,
    OutputsKept, SlowInference, GarbageCollected, ProfilerChosen, RooflineMeasured, ProfileBurst, ProfileBursts,
    TurnsBegan, LoadBegan, TurnsSettled, QuadDone,
    SensorMissing, SensorSlow, Competing, ThreadsUsed, ClockSource, SettingChanged, LimitReached, OomKilled,
    ProgramEnded, RecordingTrouble, RecordingRestored, RecordingCaughtUp, RecordingMoved, SessionImported, ToolSummary,
    CoarseTimes, ThrottleBegan, ThrottleEnded, SlowdownBegan, AlertBegan,
)  # fmt: skip


def _kinds(of: type[Body]) -> tuple[str, ...]:
    """Return the kinds of events that have the class `of`, such as `("ended", "recovered")` for SessionOver."""
    own = vars(of).get("kind")
    return (own,) if isinstance(own, str) else get_args(get_type_hints(of)["kind"])


KINDS: Mapping[str, type[Body]] = {kind: of for of in _CLASSES for kind in _kinds(of)}
