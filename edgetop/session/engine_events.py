"""Events of the engine: its start and end, its memory, its profiling rounds, and its turns."""

from collections.abc import Mapping

from edgetop.frozen import frozen
from edgetop.session.ceilings import Ceilings, ceilings_of
from edgetop.session.event_fields import all_other_keys, optional, part
from edgetop.session.events import Body
from edgetop.session.operators import ThreadUse
from edgetop.session.turns import Plan
from edgetop.session.typed_json import JsonValue


@frozen
class EngineStarted(Body):
    """The engine's process started."""

    kind = "engine-started"
    pid: int | None = None


@frozen
class EngineFailed(Body):
    """The engine gave up after an error. The message says why."""

    kind = "engine-failed"
    stage: str | None = optional()


@frozen
class EngineDied(Body):
    """The engine's process died. The message says how."""

    kind = "engine-died"
    last_words: str | None = optional()


@frozen
class EngineMemory(Body):
    """The engine's memory at the end of a step, such as loading the model. `stage` names the step."""

    kind = "engine-memory"
    stage: str
    rss_mib: int | float
    anon_mib: int | float | None = optional()
    file_mib: int | float | None = optional()
    arena_mib: int | float | None = optional()  # memory of TFLite's interpreter for tensors
    arena_from: str | None = optional()  # "tensors" or "growth"


@frozen
class RecordsLost(Body):
    """The engine could not report `count` of its inferences."""

    kind = "records-lost"
    count: int = 0


@frozen
class StreamSeen(Body):
    """A watched program used a model that it had not used before. `number` is the model's stream number."""

    kind = "stream"
    number: int


@frozen
class DataDependent(Body):
    """Some operators take more or less work depending on their input, but this session's input is not real data."""

    kind = "data-dependent"
    types: str  # of these operators, with commas between


@frozen
class OutputsKept(Body):
    """The outputs of some inferences were stored (`--keep-outputs`)."""

    kind = "outputs-kept"
    elements: int | None = optional()  # numbers in all of them; None: not counted
    non_finite: int | None = optional()  # those that are NaN or infinite


@frozen
class SlowInference(Body):
    """The slowest inference in an interval of 0.1 s, with the kernel's counts for the engine, such as page faults."""

    kind = "slow-inference"
    latency_ns: int
    span_ns: int = 0  # the time in which was counted
    preempted: int = 0  # involuntary switches of the engine's threads
    major_faults: int = 0
    minor_faults: int = 0
    waited_ns: int | None = None  # for a CPU; None: the kernel keeps no account
    migrations: int | None = optional()  # moves of threads to another CPU; None: unknown
    capacity: float | None = optional()  # of its CPU, in usual ones; None: all CPUs are alike
    lost_cpus: int | None = optional()  # that the engine may not use any more; None: none
    input: int | None = optional()  # which of the input arrays it got, from 0; None: there is one
    inputs: int | None = optional()  # number of input arrays, used in turn
    idle_ns: int | None = optional()  # neither running nor waiting for a CPU, beyond what is usual; None: unknown
    slept_ns: int | None = optional()  # the same of the engine's loop alone; None: unknown
    loop_major_faults: int | None = optional()  # those that the engine's loop had; None: none, or unknown
    loop_preempted: int | None = optional()  # those of `preempted` that the engine's loop had; None: none, or unknown
    # Time that the other threads did not run while the loop did, all together, although they usually do; None: none, or
    # unknown.
    lacking_ns: int | None = optional()


@frozen
class GarbageCollected(Body):
    """Python's garbage collector ran during an inference of a watched program.

    The event has the time at which the inference began.
    """

    kind = "garbage-collected"
    latency_ns: int
    took_ns: int = 0  # time of collections in the inference
    after_ns: int = 0  # when the first of them began, after the begin of the inference
    generation: int = 0  # oldest generation that these collections included


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
class FallbackReasons(Body):
    """Why operators do not run on the requested provider, in the runtime's own words."""

    kind = "fallback-reasons"
    left_out: str = ""  # why a requested provider is not in the session; "" if all are, or if that is unknown
    reasons: Mapping[str, JsonValue] = all_other_keys()  # number of operators by reason; 0 if it names no operator

    def counts(self) -> tuple[tuple[str, int | None], ...]:
        """Return pairs of a reason and its number of operators; None if the reason names no operator."""
        return tuple(
            (text, count if isinstance(count, int) and count > 0 else None) for text, count in self.reasons.items()
        )


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
    """A profiling round ended. A round is a few inferences that run with the runtime's profiler."""

    kind = "profile-burst"
    burst: int = 0
    duration_ns: int = 0  # in which nothing was measured
    runs: int = 0
    run_ns: int = 0  # their median
    averaged: bool | None = optional()  # another tool's mean
    plain_ns: int | None = None  # the median of the inferences just before; None: not known
    left_out_runs: int = 0  # that other programs disturbed
    disturbed_runs: int = 0  # of a burst in which all were disturbed
    preempted: int = 0
    waited_ns: int | None = None
    stolen_ns: int | None = None
    threads: ThreadUse | None = part("thread_", default=None)
    # The slowest undisturbed inference, if it took 10 % longer than the median of the latest ones, which is `usual_ns`.
    slow_ns: int | None = optional()
    usual_ns: int | None = optional()
    longer: str | None = optional()  # operator that took most of the time that it lost; None: all took longer
    longer_ns: int | None = optional()  # by how much this operator was longer than usual
    longer_share: int | float | None = optional()  # its usual share of the time, 0 to 1
    counts: str | None = optional()  # events in each operator (`operators.counts_text`); None: none were counted


@frozen
class ProfileBursts(Body):
    """The sum of many old profiling rounds. A remote viewer gets it in place of an event for each round."""

    kind = "profile-bursts"
    count: int = 0
    duration_ns: int = 0
    left_out_runs: int = 0
    disturbed_runs: int = 0
    threads: ThreadUse | None = part("thread_", default=None)  # of the undisturbed ones
    slow_runs: int | None = optional()  # rounds that had a slow inference
    # The operator that took longer in some of these. Each such operator has an event of its own, without the sums.
    longer: str | None = optional()
    longer_runs: int | None = optional()  # number of these rounds
    longer_ns: int | None = optional()  # by how much it was longer than usual, at most
    longer_share: int | float | None = optional()  # mean of its usual shares of the time, 0 to 1


@frozen
class TurnsBegan(Body):
    """The variants of an A/B session began to alternate. `plan` says when each variant runs."""

    kind = "ab-turns"
    plan: Plan = part()


@frozen
class LoadBegan(Body):
    """Both models of an A/B session were loaded again and began to alternate. `plan` says when each model runs."""

    kind = "ab-load"
    load: int  # number of the load: 1 for the second
    plan: Plan = part()


@frozen
class TurnsSettled(Body):
    """Latencies within `left_out_ns` after each switch between A and B do not count in an A/B session."""

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
    a: QuadFigures = part("a_")
    b: QuadFigures = part("b_")
    p50_ratio: int | float | None = optional()
    load: int | None = optional()  # number of the load, from 0; None in recordings in which each was loaded once
