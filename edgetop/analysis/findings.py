"""Findings about a session: reasons to doubt its figures, and hints for a faster model.

A finding contains only data. `edgetop.wording.notice_words` makes its message and advice. The codes are a contract with
users (`edgetop help warnings`).
"""

from typing import ClassVar

from edgetop.analysis.faults import Fault
from edgetop.analysis.hotspots import ThreadView
from edgetop.analysis.memory_use import GrowthView
from edgetop.analysis.operator_shares import OperatorView
from edgetop.analysis.recent_events import Lasting
from edgetop.frozen import frozen
from edgetop.session.manifest import SessionKind

# Kinds of events that stay true for the whole session. Each is a finding, and its kind is the code.
EVENT_CODES = frozenset(
    {
        "assumed-shape", "provider-dropped", "partly-accelerated", "records-lost", "inference-failed", "no-sensors",
        "model-misnamed", "recording-failed", "recording-behind", "data-dependent", "governor-changed",
        "power-mode-changed", "cpus-changed", "cpu-quota", "memory-limit", "oom-kill", "clock-source", "coarse-times",
        "tool-summary", "no-starts", "no-inference", "calls-unseen", "foreign-times", "streams-full", "left-behind",
        "recovered", "non-finite-outputs", "assumed-signature",
    }
)  # fmt: skip


@frozen
class PartsFailed:
    """An internal error of edgetop, and all parts of the analysis that are unavailable because of it."""

    parts: tuple[str, ...]  # names of folds and figures
    fault: Fault

    code: ClassVar[str] = "internal-error"


@frozen
class EventTold:
    """A warning or an error that was recorded as an event, and how often it occurred."""

    lasting: Lasting
    session: SessionKind = "run"

    @property
    def code(self) -> str:
        return self.lasting.first.kind


@frozen
class QueueGrew:
    """The finding that inferences were requested faster than the engine could run them."""

    asked_hz: float
    done_hz: float
    is_over: bool  # it caught up later

    code: ClassVar[str] = "overloaded"


@frozen
class WarmupShort:
    runs: int
    was_imported: bool  # from a file of trtexec

    code: ClassVar[str] = "short-warmup"


@frozen
class NotSettled:
    """The finding that some percentiles may still change if more inferences are measured."""

    quantiles: tuple[float, ...]
    count: int  # of inferences
    independent: int | None = None  # number of independent samples they are worth; None: they are simply too few
    # In a session with several streams: those whose percentiles these are, the one with fewest inferences first, which
    # has this count.
    streams: tuple[str, ...] = ()

    code: ClassVar[str] = "not-settled"


@frozen
class Leak:
    growth: GrowthView

    code: ClassVar[str] = "leak"


@frozen
class BackgroundLoad:
    """CPU time that other processes took during the measurement."""

    mean_pct: float  # of a core
    names: tuple[str, ...]  # of the processes that took most; (): unknown

    code: ClassVar[str] = "background-load"


@frozen
class StillWarming:
    """A temperature that was still rising at the end of the session."""

    sensor: str
    rose_c: float  # in the last two minutes

    code: ClassVar[str] = "still-warming"


@frozen
class SettingDiffers:
    """The finding that a label, given by the user, names another governor or power mode than the board has."""

    setting: str  # "governor" or "power-mode"
    declared: str
    was: str

    @property
    def code(self) -> str:
        return f"{self.setting}-differs"


@frozen
class HalvesDiffer:
    """The finding that the p99 latency of the second half of the session differs from the p99 of the first half."""

    first_ns: float
    second_ns: float

    code: ClassVar[str] = "p99-differs"


@frozen
class ClockLimitMoved:
    """The finding that the limit of a clock changed during the session, by the user, the firmware or heat."""

    sensor: str
    low_mhz: float
    high_mhz: float
    clocks: int  # number of clocks with such a change, this one among them

    code: ClassVar[str] = "clock-limit-changed"


@frozen
class ModeUnsustainable:
    """The finding that the board ran in a power mode without a limit, which it may not be able to sustain."""

    power_mode: str

    code: ClassVar[str] = "unsustainable-mode"


@frozen
class NotSustained:
    """The finding that the board did not hold the speed of the burst, the first steady 30 s."""

    drift_ratio: float  # sustained p50 over burst p50

    code: ClassVar[str] = "not-sustained"


@frozen
class Stolen:
    """CPU time that a hypervisor gave to other virtual machines."""

    mean_pct: float  # of a core

    code: ClassVar[str] = "steal"


@frozen
class MonitorCost:
    """CPU time that edgetop itself took, in percent of a core."""

    mean_pct: float  # of a core

    code: ClassVar[str] = "monitor-cost"


@frozen
class SustainedShort:
    """The finding that the sustained figures come from a session that was too short for a steady temperature."""

    measured_ns: int
    session: SessionKind = "run"

    code: ClassVar[str] = "short-sustained"


@frozen
class PowerShort:
    """The finding that the power figures come from a session that was too short for a steady temperature."""

    measured_ns: int
    session: SessionKind = "run"

    code: ClassVar[str] = "short-power"


@frozen
class OneInput:
    """The finding that every inference of a long run got the same input arrays."""

    source: str  # "random", "zeros", numbers or a file, or several of these

    code: ClassVar[str] = "one-input"


Doubt = (
    PartsFailed
    | EventTold
    | QueueGrew
    | WarmupShort
    | NotSettled
    | Leak
    | BackgroundLoad
    | StillWarming
    | SettingDiffers
    | HalvesDiffer
    | ClockLimitMoved
    | ModeUnsustainable
    | NotSustained
    | Stolen
    | MonitorCost
    | SustainedShort
    | PowerShort
    | OneInput
)


@frozen
class FellBack:
    """Operators that did not run on the preferred provider, such as the accelerator."""

    operators: tuple[OperatorView, ...]  # the most expensive first
    preferred: str  # the provider
    partitions: int  # number of partitions of the model, over all providers

    code: ClassVar[str] = "fell-back"


@frozen
class Crossings:
    """The finding that inferences change between providers, such as a GPU and the CPU.

    No provider ran all operators.
    """

    providers: tuple[str, ...]
    partitions: int

    code: ClassVar[str] = "crossings"


@frozen
class DominantOperator:
    operator: OperatorView

    code: ClassVar[str] = "dominant-operator"


@frozen
class SlowKernels:
    """Operators that reach far fewer FLOP/s than similar operators of the model."""

    operators: tuple[OperatorView, ...]

    code: ClassVar[str] = "slow-kernel"


@frozen
class Conversions:
    """Operators that only convert data types or memory layouts."""

    operators: tuple[OperatorView, ...]

    code: ClassVar[str] = "conversions-time"


@frozen
class DynamicQuantisation:
    """Operators that quantise activations anew in every inference."""

    operators: tuple[OperatorView, ...]

    code: ClassVar[str] = "dynamic-quantisation"


@frozen
class NotFused:
    """Activation operators after a convolution that the runtime did not merge into it."""

    operators: tuple[OperatorView, ...]

    code: ClassVar[str] = "not-fused"


@frozen
class SmallForDelegate:
    """The finding that inferences are so short that handing them over to a delegate may take most of the time.

    A delegate runs operators, for example on a GPU.
    """

    inference_ns: float
    providers: tuple[str, ...]  # to which it is handed over

    code: ClassVar[str] = "small-for-delegate"


@frozen
class ThreadImbalance:
    """The finding that the thread that runs the model often waits for the engine's other threads."""

    threads: ThreadView
    most: str  # the operator in which it waited most

    code: ClassVar[str] = "thread-imbalance"


@frozen
class ThreadsMoved:
    """The finding that threads of the engine moved from one CPU to another."""

    moves_per_s: float  # of inference

    code: ClassVar[str] = "threads-moved"


Hint = (
    FellBack
    | Crossings
    | DominantOperator
    | SlowKernels
    | Conversions
    | DynamicQuantisation
    | NotFused
    | SmallForDelegate
    | ThreadImbalance
    | ThreadsMoved
)
Finding = Doubt | Hint
