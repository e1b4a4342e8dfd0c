"""The parts of a verdict: the states of a session, and the figures that are the reasons for a state.

All of these are data. `edgetop.wording.verdict_words` has a sentence for each.
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
    """The state of a session, such as measuring, throttling or finished."""

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
    """A text that came with the session, such as the path of a model or the error that killed an engine."""

    text: str


@frozen
class NotSeen:
    """The reason why no inference of a watched program can be seen, as the text of the recorded event."""

    message: str


@frozen
class Lasts:
    """For how long the present state has lasted, in ns."""

    ns: int


@frozen
class LimitedBy:
    """The reason why the board throttles, such as "thermal" or "power-cap"."""

    cause: str


@frozen
class SlowedBy:
    """A slowdown that is the reason for a state. Its cause and its first piece of evidence are shown."""

    slowdown: Slowdown


@frozen
class TakenBy:
    """What takes the CPU: a program, or a measurement such as the CPU use of all other processes together."""

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
class PowerNow:
    """The present power of a rail, and its limit, in W."""

    watts: float | None  # None if unknown
    limit_w: float


@frozen
class LateBecause:
    cause: MissCause


@frozen
class MissedNow:
    """The share (0 to 1) of the inferences of the last seconds that missed the deadline."""

    share: float


@frozen
class LeakRate:
    growth: GrowthView


@frozen
class MemoryFull:
    """When the memory will be full if it continues to grow."""

    growth: GrowthView


@frozen
class MemoryRose:
    """By how much the memory of an engine rose until the engine died, in MiB."""

    from_mib: float
    to_mib: float


@frozen
class Overdue:
    """For how many ns no inference has ended, although an inference was due to end."""

    ns: int


@frozen
class Raised:
    """How many inferences raised an error, and how many inferences there were, including these."""

    errors: int
    count: int


@frozen
class Queueing:
    """The requested rate and the achieved rate, in inferences per second."""

    asked_hz: float
    done_hz: float


@frozen
class Scatters:
    """How much the latency varies from second to second, as a share (0.1 is 10 %)."""

    share: float


@frozen
class NothingRecent:
    """A reason for a state: no inference ran in the last minute."""


@frozen
class AwayFromBurst:
    """How much the p50 differs from the p50 of the burst (the first steady 30 s), as a share (0.1 is 10 % slower)."""

    change: float


@frozen
class BaselineDone:
    done_ns: int
    asked_ns: int


@frozen
class FirstInference:
    """A reason for a state: the first inference has not ended yet."""


@frozen
class WarmupDone:
    runs: int
    asked: int


@frozen
class EndedBy:
    """The reason why the session ended, such as "duration" or "user", as in its manifest."""

    reason: str


@frozen
class ExitStatus:
    """The exit status of a watched program."""

    status: str
    program: str = ""  # its name; "" if unknown


@frozen
class DiedOf:
    """The reason why a watched program died."""

    program: str
    cause: str


@frozen
class GatesFailed:
    results: tuple[GateResult, ...]


@frozen
class FaultFound:
    """An internal error of edgetop in its analysis."""

    fault: Fault


@frozen
class AbDifference:
    """The difference between the p50 of A and the p50 of B.

    `ratio`: B divided by A; None if there are too few turns. `smallest`: the smallest difference that can be detected,
    as a share (0.01 is 1 %); None if it is unknown.
    """

    ratio: Ratio | None
    smallest: float | None


@frozen
class AbTurn:
    turn: Turn


Reason = (
    Told | NotSeen | Lasts | LimitedBy | SlowedBy | TakenBy | ClockNow | TemperatureNow | PowerNow | LateBecause
    | MissedNow | LeakRate | MemoryFull | MemoryRose | Overdue | Raised | Queueing | Scatters | NothingRecent
    | AwayFromBurst | BaselineDone | FirstInference | WarmupDone | EndedBy | ExitStatus | DiedOf | GatesFailed
    | FaultFound | AbDifference | AbTurn
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
    """Past slowdowns, with another cause than throttling.

    `state`: CONTENDED if other programs took the CPU, or else SLOWED.
    """

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
    """Past misses of the deadline. `is_explained`: whether another trouble of the session explains the misses."""

    deadline_ms: float
    share: float
    cause: MissCause | None
    is_explained: bool = False


@frozen
class Leaked:
    growth: GrowthView


@frozen
class EndedAs:
    """The state in which a session without past troubles ended, with the first reason for this state."""

    state: State
    reason: Reason | None = None


@frozen
class OfStreams:
    """A past trouble that only some streams of the session had, with the names of these streams."""

    names: tuple[str, ...]
    trouble: "Past"


Past = (
    FaultFound | WasThrottled | WasSlowed | WasOverloaded | Raised | MissedDeadline | Leaked | GatesFailed | EndedAs
    | OfStreams
)  # fmt: skip
