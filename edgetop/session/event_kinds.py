"""The kinds of events, each with its class: what an event says besides its time, its source and its message.

The unit is in a field's name. Wherever an event comes from a file or another machine, `event_codec` has checked the
types of its fields. Fields are written in the order in which they stand here.
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
    """Return a field that is written unless it is None."""
    return field(default=None, metadata={"is_written": lambda _, value: value is not None})


def _of_phases(*names: PhaseName) -> Any:
    """Return a field that is written if it has a value. In the phases `names`, it is written even if it is None."""
    return field(default=None, metadata={"is_written": lambda body, value: value is not None or body.phase in names})


def _of_kind(name: str) -> Any:
    """Return a field that is written only if the event is of the kind `name`."""
    return field(default=None, metadata={"is_written": lambda body, _: body.kind == name})


def _part(prefix: str = "", **default: Any) -> Any:
    """Return a field that is a dataclass.

    Each field of the dataclass has a key in the event's data: `prefix` and its name.
    """
    return field(metadata={"prefix": prefix}, **default)


def _all_other_keys() -> Any:
    """Return a field for the keys of the data for which the class has no other field."""
    return field(default_factory=dict, metadata={"others": True})


@frozen
class UnknownEvent(Body):
    """An event of a kind that this version does not know, or whose data does not fit its kind.

    It is copied unchanged.
    """

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
    """An event without data of its own: its kind and its message say everything."""

    kind: RemarkKind


# How a session goes.


@frozen
class PhaseBegan(Body):
    """A phase of the run began.

    `runs` and `duration_ns` are its requested length. None means no limit, or unknown.
    """

    kind = "phase"
    phase: PhaseName
    runs: int | None = _of_phases("warmup", "measure")
    duration_ns: int | None = _of_phases("idle", "measure")


@frozen
class SessionOver(Body):
    """The last event: the session ended.

    If its writer died, edgetop added this event when it completed the session.
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
    """The session continues where another one ended, with the same engine."""

    kind = "rotated"
    before: str = ""  # the id of that session


@frozen
class Cut(Body):
    """The session is a part of another one."""

    kind = "cut"
    session: str
    begin_ns: int
    end_ns: int


@frozen
class ClockStepped(Body):
    """The wall clock was set."""

    kind = "clock-step"
    step_s: int | float


@frozen
class GateSet(Body):
    """A gate of the run: what has to hold at its end."""

    kind = "gate"
    expr: str


@frozen
class GateFailed(Body):
    """A gate ended the session."""

    kind = "gate-failed"
    expr: str = ""


@frozen
class AlertRuleSet(Body):
    """An alert that was asked for."""

    kind = "alert-rule"
    rule: str


@frozen
class HookDone(Body):
    """A command of `--on-event` ended."""

    kind: Literal["hook-ran", "hook-failed"]
    event: str | None = _optional()  # that it ran for; None: no command could be run at all
    exit_code: int | None = field(default=None, metadata={"is_written": lambda body, _: body.event is not None})
    output: str | None = _optional()


@frozen
class AnalysisFailed(Body):
    """A defect of edgetop: a part of the analysis is not available."""

    kind = "analysis-failed"
    traceback: str | None = _optional()


# The engine.


@frozen
class EngineStarted(Body):
    """The engine's process runs."""

    kind = "engine-started"
    pid: int | None = None


@frozen
class EngineFailed(Body):
    """The engine gave up. The message says why."""

    kind = "engine-failed"
    stage: str | None = _optional()


@frozen
class EngineDied(Body):
    """The engine's process died. The message says of what."""

    kind = "engine-died"
    last_words: str | None = _optional()


@frozen
class EngineMemory(Body):
    """The engine's memory at the end of a step of its run."""

    kind = "engine-memory"
    stage: str
    rss_mib: int | float
    anon_mib: int | float | None = _optional()
    file_mib: int | float | None = _optional()
    arena_mib: int | float | None = _optional()  # memory of TFLite's interpreter for tensors
    arena_from: str | None = _optional()  # "tensors" or "growth"


@frozen
class RecordsLost(Body):
    """The engine could not report some of its inferences."""

    kind = "records-lost"
    count: int = 0


@frozen
class StreamSeen(Body):
    """A watched program uses one more model."""

    kind = "stream"
    number: int


@frozen
class DataDependent(Body):
    """The work of some operators depends on the input, and the input is not real data."""

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
    """The slowest inference of a tenth of a second, with counts of the kernel.

    The kernel counted from shortly before the inference to its end.
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


# Operators.


@frozen
class ProfilerChosen(Body):
    """The way in which operators are timed from now on.

    The reason says why they are not timed, or not in a better way.
    """

    kind = "profiler"
    way: str = ""
    reason: str = ""
    every_ns: int = 0


@frozen
class RooflineMeasured(Body):
    """The ceilings of this board with this runtime."""

    kind = "roofline"
    flops_per_s: int | float
    bytes_per_s: int | float
    dtype: str
    measured_utc: str
    int8_flops_per_s: int | float | None = None

    @property
    def ceilings(self) -> Ceilings | None:
        """Return the ceilings, or None if they are for another data type or impossible."""
        return ceilings_of(self.flops_per_s, self.bytes_per_s, self.dtype, self.measured_utc, self.int8_flops_per_s)


@frozen
class ProfileBurst(Body):
    """A profiling round: some instrumented inferences."""

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


@frozen
class ProfileBursts(Body):
    """The sum of many profiling rounds. In the past that a remote viewer receives, it replaces the single rounds."""

    kind = "profile-bursts"
    count: int = 0
    duration_ns: int = 0
    left_out_runs: int = 0
    disturbed_runs: int = 0
    threads: ThreadUse | None = _part("thread_", default=None)  # of the undisturbed ones


# Two models in turns.


@frozen
class TurnsBegan(Body):
    """The turns of an A/B session began."""

    kind = "ab-turns"
    plan: Plan = _part()


@frozen
class LoadBegan(Body):
    """Both models of an A/B session were loaded anew, and their turns began."""

    kind = "ab-load"
    load: int  # number of the load: 1 for the second
    plan: Plan = _part()


@frozen
class TurnsSettled(Body):
    """The time after each switch of the variant in which latencies do not count is known."""

    kind = "ab-settled"
    left_out_ns: int


@frozen
class QuadFigures:
    """The figures of one side in a quad of turns."""

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
    """A quad (four turns) of an A/B session is over. The event has the figures of both sides."""

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
    """A read took much longer than usual."""

    kind = "sensor-slow"
    begin_ns: int
    took_ns: int


@frozen
class Competing(Body):
    """Other processes took the CPU.

    `name`: the process that took most. `cpu_pct`: how much, in percent of a core. `began`: whether all processes of
    this name began since processes were last looked at; None: they did not.
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
    """The kernel counts time by a clock that takes long to read."""

    kind = "clock-source"
    clock: str


@frozen
class SettingChanged(Body):
    """A setting of the board changed while the session ran."""

    kind: Literal["governor-changed", "power-mode-changed"]
    before: str
    after: str


@frozen
class LimitReached(Body):
    """The engine's cgroup is at its limit."""

    kind: Literal["cpu-quota", "memory-limit"]
    value: int | float  # percent of the quota's periods without CPU time left; reclaims of memory per second


@frozen
class OomKilled(Body):
    """The kernel's OOM killer killed a process of a watched program, because its cgroup was at its limit of memory."""

    kind = "oom-kill"
    process: str | None = None  # its name; None: not known
    pid: int | None = None
    rss_mib: int | float | None = None  # its resident memory when it was killed
    limit_mib: int | float | None = None  # limit of the cgroup


@frozen
class ProgramEnded(Body):
    """A watched program ended. The kernel counted what it used from its start to its end, with all its children."""

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
    """Nothing can be written, or single inferences cannot be written fast enough. The run itself continues."""

    kind: Literal["recording-failed", "recording-behind"]
    why: str = ""


@frozen
class RecordingRestored(Body):
    """Writing works again. `inferences` and `rows` count what is missing in the recording."""

    kind = "recording-restored"
    began_ns: int | None = None  # when it failed
    inferences: int = 0
    rows: int = 0


@frozen
class RecordingCaughtUp(Body):
    """Single inferences are recorded again."""

    kind = "recording-caught-up"
    count: int = 0  # of missing inferences


@frozen
class RecordingMoved(Body):
    """The session's folder was moved or renamed while it is recorded. `path`: where it is now."""

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
    """The figures that another tool printed of all inferences together.

    Their keys are those of the report's `latency`.
    """

    kind = "tool-summary"
    tool: str
    figures: Mapping[str, JsonValue] = _all_other_keys()


@frozen
class CoarseTimes(Body):
    """The imported latencies are rounded so coarsely that the percentiles are affected."""

    kind = "coarse-times"
    step_ns: int | float


# What the analysis found.


@frozen
class ThrottleBegan(Body):
    """The board reported that it is slowed, and by what."""

    kind = "throttle-begin"
    cause: str
    sensor: str
    clock_mhz: int | float | None = None  # the lowest of the first seconds
    best_mhz: int | float | None = None
    temp_c: int | float | None = None  # the highest of the first seconds


@frozen
class ThrottleEnded(Body):
    """A throttling is over. The first five fields are those of its beginning."""

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
    """Inferences became slower."""

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
    OutputsKept, SlowInference, ProfilerChosen, RooflineMeasured, ProfileBurst, ProfileBursts, TurnsBegan, LoadBegan,
    TurnsSettled, QuadDone,
    SensorMissing, SensorSlow, Competing, ThreadsUsed, ClockSource, SettingChanged, LimitReached, OomKilled,
    ProgramEnded, RecordingTrouble, RecordingRestored, RecordingCaughtUp, RecordingMoved, SessionImported, ToolSummary,
    CoarseTimes, ThrottleBegan, ThrottleEnded, SlowdownBegan, AlertBegan,
)  # fmt: skip


def _kinds(of: type[Body]) -> tuple[str, ...]:
    """Return the kinds of events that are objects of the class `of`.

    They are its own kind, or the possible values of its field `kind`.
    """
    own = vars(of).get("kind")
    return (own,) if isinstance(own, str) else get_args(get_type_hints(of)["kind"])


KINDS: Mapping[str, type[Body]] = {kind: of for of in _CLASSES for kind in _kinds(of)}
