"""The parts of a verdict: states, and the figures that are the reasons for them.

All of them are data. `edgetop.wording.verdict_words` has a sentence for each.
"""

from enum import Enum

from edgetop.analysis.ab_figures import Ratio, Turn
from edgetop.analysis.deadline import MissCause
from edgetop.analysis.faults import Fault
from edgetop.analysis.memory_use import GrowthView
from edgetop.analysis.session_gates import GateResult
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.frozen import frozen


class State(Enum):
    """The state of a session."""

    LOADING = "loading"
    NO_INFERENCE = "no-inference"
    RUNNING = "running"  # a watched program, of which no inference has been seen
    IDLE_BASELINE = "idle-baseline"
    WARMING_UP = "warming-up"
    MEASURING = "measuring"
    STEADY = "steady"
    UNSETTLED = "unsettled"
    STOPPING = "stopping"
    AB = "ab"

    INTERNAL_ERROR = "internal-error"
    NOT_RECORDING = "not-recording"
    STALLED = "stalled"
    FAILING = "failing"
    THROTTLED_FROM_START = "throttled-from-start"
    THROTTLING = "throttling"
    PROVIDER_DROPPED = "provider-dropped"
    OVERLOADED = "overloaded"
    GATE_EXCEEDED = "gate-exceeded"
    CONTENDED_FROM_START = "contended-from-start"
    CONTENDED = "contended"
    SLOWED = "slowed"
    MISSING_DEADLINE = "missing-deadline"
    LEAKING = "leaking"

    FINISHED = "finished"
    STOPPED = "stopped"
    CUT_SHORT = "cut-short"
    GATE_FAILED = "gate-failed"
    ENGINE_DIED = "engine-died"
    PROGRAM_DIED = "program-died"  # a watched program, which ran the inferences itself
    ENDED = "ended"


@frozen
class Told:
    """A text that came with the session.

    It is the path of a model, the name of a process, or the error of which an engine died.
    """

    text: str


@frozen
class NotSeen:
    """The reason why no inference of a watched program is seen, as the recorded event says it."""

    message: str


@frozen
class Lasts:
    """The time for which the state has lasted."""

    ns: int


@frozen
class LimitedBy:
    """The cause of throttling: one of `Cause`."""

    cause: str


@frozen
class SlowedBy:
    """A slowdown. Its cause and its first piece of evidence are the reason."""

    slowdown: Slowdown


@frozen
class TakenBy:
    """The program that takes the CPU, or another clue to what takes it."""

    clue: Clue


@frozen
class ClockNow:
    name: str
    mhz: float
    best_mhz: float | None


@frozen
class TemperatureNow:
    celsius: float
    trip_c: float | None


@frozen
class LateBecause:
    cause: MissCause


@frozen
class MissedNow:
    """The share of the last seconds' inferences that missed the deadline."""

    share: float


@frozen
class LeakRate:
    growth: GrowthView


@frozen
class MemoryFull:
    """The time at which the memory is full if it continues to grow."""

    growth: GrowthView


@frozen
class Overdue:
    """The time for which no inference has come back."""

    ns: int


@frozen
class Raised:
    """The number of inferences that raised an error, and the number of all inferences."""

    errors: int
    count: int


@frozen
class Queueing:
    """The requested rate and the achieved one."""

    asked_hz: float
    done_hz: float


@frozen
class Scatters:
    """The scatter of the latency from second to second, as a share."""

    share: float


@frozen
class NothingRecent:
    """Nothing was measured in the last minute."""


@frozen
class AwayFromBurst:
    """The change of p50 from the burst, as a share."""

    change: float


@frozen
class BaselineDone:
    done_ns: int
    asked_ns: int


@frozen
class FirstInference:
    """The first inference has not come back."""


@frozen
class WarmupDone:
    runs: int
    asked: int


@frozen
class EndedBy:
    """The `end_reason` of a session that is over."""

    reason: str


@frozen
class ExitStatus:
    """The exit status of a watched program."""

    status: str
    program: str = ""  # its name; "" if unknown


@frozen
class DiedOf:
    """What a watched program died of."""

    program: str
    cause: str


@frozen
class GatesFailed:
    results: tuple[GateResult, ...]


@frozen
class FaultFound:
    """An error of edgetop in its own analysis."""

    fault: Fault


@frozen
class AbDifference:
    """The difference of p50 between A and B.

    `ratio`: B divided by A; None if there are too few turns. `smallest`: the smallest difference that can be detected,
    as a share; None if it is unknown.
    """

    ratio: Ratio | None
    smallest: float | None


@frozen
class AbTurn:
    turn: Turn


Reason = (
    Told | NotSeen | Lasts | LimitedBy | SlowedBy | TakenBy | ClockNow | TemperatureNow | LateBecause | MissedNow
    | LeakRate | MemoryFull | Overdue | Raised | Queueing | Scatters | NothingRecent | AwayFromBurst | BaselineDone
    | FirstInference | WarmupDone | EndedBy | ExitStatus | DiedOf | GatesFailed | FaultFound | AbDifference | AbTurn
)  # fmt: skip


# Past troubles.


@frozen
class WasThrottled:
    times: int
    causes: tuple[str, ...]
    share: float | None  # of the measured time; None: unknown
    is_before_measuring: bool = False


@frozen
class WasSlowed:
    """Past slowdowns that are no throttling. `state`: CONTENDED or SLOWED."""

    state: State
    times: int
    share: float | None  # of the measured time; None: unknown
    causes: tuple[str, ...] = ()  # for SLOWED
    who: Clue | None = None  # took the CPU, for CONTENDED; None: unknown


@frozen
class WasOverloaded:
    asked_hz: float
    done_hz: float


@frozen
class MissedDeadline:
    """Past misses of the deadline. `is_explained`: whether another past trouble says why."""

    deadline_ms: float
    share: float
    cause: MissCause | None
    is_explained: bool = False


@frozen
class Leaked:
    growth: GrowthView


@frozen
class EndedAs:
    """The state in which a session without past troubles ended, with its first reason."""

    state: State
    reason: Reason | None = None


@frozen
class OfStreams:
    """A past trouble of some streams of a session with several, and the names of these streams."""

    names: tuple[str, ...]
    trouble: "Past"


Past = (
    FaultFound | WasThrottled | WasSlowed | WasOverloaded | Raised | MissedDeadline | Leaked | GatesFailed | EndedAs
    | OfStreams
)  # fmt: skip
