"""The kinds of events. Each kind has a class with the event's data, besides its time, source and message.

The unit is in a field's name. Event data has the fields in the order in which they stand here. `event_codec` checks the
types of the fields of events from files and other machines.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, get_args, get_type_hints

from edgetop.frozen import frozen
from edgetop.session.engine_events import (
    DataDependent,
    EngineDied,
    EngineFailed,
    EngineMemory,
    EngineStarted,
    FallbackReasons,
    GarbageCollected,
    LoadBegan,
    OutputsKept,
    ProfileBurst,
    ProfileBursts,
    ProfilerChosen,
    QuadDone,
    RecordsLost,
    RooflineMeasured,
    SlowInference,
    StreamSeen,
    TurnsBegan,
    TurnsSettled,
)
from edgetop.session.event_fields import PhaseName, all_other_keys, of_kind, of_phases, optional
from edgetop.session.events import Body
from edgetop.session.typed_json import JsonValue


@frozen
class UnknownEvent(Body):
    """An event whose kind this version does not know, or whose data does not fit its kind.

    Copies of a session keep such an event unchanged.
    """

    kind: str
    data: Mapping[str, object] = field(default_factory=dict)


RemarkKind = Literal[
    "alert-ended", "assumed-shape", "assumed-signature", "calls-unseen", "cgroup-moved", "deadline-begin",
    "deadline-end",
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
    """An event without data: kind and message say everything."""

    kind: RemarkKind


# How a session goes.


@frozen
class PhaseBegan(Body):
    """A phase of the run began. `runs` and `duration_ns` are the requested length of the phase.

    None means no limit, or unknown.
    """

    kind = "phase"
    phase: PhaseName
    runs: int | None = of_phases("warmup", "measure")
    duration_ns: int | None = of_phases("idle", "measure")


@frozen
class SessionOver(Body):
    """The session ended. This is a session's last event.

    The kind is "recovered" if the recording process died and edgetop added this event later.
    """

    kind: Literal["ended", "recovered"]
    reason: str | None = None
    last_end_ns: int | None = None  # when the last inference ended; None: not known
    warmup_runs: int | None = 0  # None: not known
    warmup_ns: int | None = 0  # the sum of their latencies
    # Of a recovered session only.
    torn_bytes: int | None = optional()
    damaged_bytes: int | None = optional()
    lost_s: int | float | None = of_kind("recovered")  # session time of which something is missing; None: not known
    lost_inferences: int | None = of_kind("recovered")


@frozen
class Rotated(Body):
    """This session continues a session that ended (`--rotate`), with the same running engine."""

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
    """A gate of the run (`--fail-if`): a condition on the whole session that sets the exit code.

    `expr` is the text of the condition.
    """

    kind = "gate"
    expr: str


@frozen
class GateFailed(Body):
    """The session was ended by a gate that failed (`--fail-if`). `expr` is the gate's condition."""

    kind = "gate-failed"
    expr: str = ""


@frozen
class AlertRuleSet(Body):
    """The user requested an alert (`--alert`). `rule` is its condition."""

    kind = "alert-rule"
    rule: str


@frozen
class HookDone(Body):
    """A command of `--on-event` ended or failed."""

    kind: Literal["hook-ran", "hook-failed"]
    event: str | None = optional()  # that it ran for; None: no command could be run at all
    exit_code: int | None = field(default=None, metadata={"is_written": lambda body, _: body.event is not None})
    output: str | None = optional()


@frozen
class AnalysisFailed(Body):
    """A part of the analysis crashed, because of a defect of edgetop. The results of this part are not available."""

    kind = "analysis-failed"
    traceback: str | None = optional()


# Sensors and the board.


@frozen
class SensorMissing(Body):
    """A sensor of the board cannot be read. The message says why."""

    kind = "sensor-missing"
    fix: str | None = None  # the command that would change that


@frozen
class SensorSlow(Body):
    """Reading a sensor took much longer than usual. The reading began at `begin_ns` and took `took_ns`."""

    kind = "sensor-slow"
    begin_ns: int
    took_ns: int


@frozen
class GpuCompeting(Body):
    """Other processes used the GPU. `name` is the process that used most, and `gpu_pct` its share of the time."""

    kind = "gpu-competing"
    name: str
    gpu_pct: int | float


@frozen
class Competing(Body):
    """Other processes took CPU time.

    `name` is the process that took most, and `cpu_pct` its CPU time in percent of a core. `began` is True if all
    processes of this name started since the previous look at the processes, and None otherwise.
    """

    kind = "competing"
    name: str
    cpu_pct: int | float
    began: bool | None = optional()


@frozen
class MemoryTaken(Body):
    """The memory of a program other than the engine rose since the session began.

    `name` is the program whose memory rose most: by `grew_mib` to `rss_mib`, both in MiB over all processes of this
    name.
    """

    kind = "memory-taken"
    name: str
    rss_mib: int | float
    grew_mib: int | float


@frozen
class ThreadsUsed(Body):
    """The CPU time that each thread of the engine used."""

    kind = "threads"
    processes: int
    cpu_pct: Mapping[str, JsonValue] = all_other_keys()  # by "thread NAME": percent of a core


@frozen
class ClockSource(Body):
    """Reading the kernel's clock source `clock` takes long, which adds time to each measurement."""

    kind = "clock-source"
    clock: str


@frozen
class SettingChanged(Body):
    """A setting of the board changed while the session ran: its CPU governor, its power mode or its online CPUs."""

    kind: Literal["governor-changed", "power-mode-changed", "cpus-changed"]
    before: str
    after: str


@frozen
class LimitReached(Body):
    """The engine's cgroup reached its limit of CPU time or memory."""

    kind: Literal["cpu-quota", "memory-limit"]
    value: int | float  # percent of the quota's periods without CPU time left; reclaims of memory per second


@frozen
class OomKilled(Body):
    """The kernel's OOM killer killed a process of a watched program, whose cgroup had reached its memory limit."""

    kind = "oom-kill"
    process: str | None = None  # its name; None: not known
    pid: int | None = None
    rss_mib: int | float | None = None  # its resident memory when it was killed
    limit_mib: int | float | None = None  # limit of the cgroup


@frozen
class ProgramEnded(Body):
    """A watched program ended. The fields are what it and all its child processes used, as counted by the kernel."""

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
    """The recording cannot be written ("recording-failed"), or the disk is too slow ("recording-behind").

    If the disk is too slow, individual inferences are not recorded for a time. The run itself continues.
    """

    kind: Literal["recording-failed", "recording-behind"]
    why: str = ""


@frozen
class RecordingRestored(Body):
    """The recording can be written again, but lacks `inferences` inferences and `rows` other rows."""

    kind = "recording-restored"
    began_ns: int | None = None  # when it failed
    inferences: int = 0
    rows: int = 0


@frozen
class RecordingCaughtUp(Body):
    """Individual inferences are recorded again, after "recording-behind". `count` inferences are missing."""

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
    """The session was imported: another tool measured it."""

    kind = "imported"
    parts: Mapping[str, JsonValue] = all_other_keys()  # of an inference, in ms


@frozen
class ToolSummary(Body):
    """The figures that another tool printed for all inferences. Their keys are those of `latency` in reports."""

    kind = "tool-summary"
    tool: str
    figures: Mapping[str, JsonValue] = all_other_keys()


@frozen
class CoarseTimes(Body):
    """The imported latencies are multiples of `step_ns`, so coarse that percentiles are affected."""

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
    """The board is no longer throttled. The first five fields are copied from the ThrottleBegan event."""

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
    OutputsKept, SlowInference, GarbageCollected, ProfilerChosen, FallbackReasons, RooflineMeasured, ProfileBurst,
    ProfileBursts,
    TurnsBegan, LoadBegan, TurnsSettled, QuadDone,
    SensorMissing, SensorSlow, Competing, GpuCompeting, MemoryTaken, ThreadsUsed, ClockSource, SettingChanged,
    LimitReached, OomKilled,
    ProgramEnded, RecordingTrouble, RecordingRestored, RecordingCaughtUp, RecordingMoved, SessionImported, ToolSummary,
    CoarseTimes, ThrottleBegan, ThrottleEnded, SlowdownBegan, AlertBegan,
)  # fmt: skip


def _kinds(of: type[Body]) -> tuple[str, ...]:
    """Return the kinds of events with the class `of`, such as `("ended", "recovered")` for SessionOver."""
    own = vars(of).get("kind")
    return (own,) if isinstance(own, str) else get_args(get_type_hints(of)["kind"])


KINDS: Mapping[str, type[Body]] = {kind: of for of in _CLASSES for kind in _kinds(of)}
