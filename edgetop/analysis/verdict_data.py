"""The data from which a verdict on a session is made, and the verdict itself."""

import copy
from typing import TYPE_CHECKING, Literal

from edgetop.analysis.faults import noting
from edgetop.analysis.memory_use import RESIDENT
from edgetop.analysis.power_limit import power_limit
from edgetop.analysis.session_gates import GateResult
from edgetop.analysis.streams import StreamView
from edgetop.analysis.verdict_reasons import AbDifference, Past, Reason, State
from edgetop.frozen import frozen

if TYPE_CHECKING:
    from edgetop.analysis.folds import Folds

Level = Literal["good", "neutral", "warning", "critical"]


@frozen
class Verdict:
    state: State
    level: Level
    reasons: tuple[Reason, ...] = ()  # the most needed first
    also: tuple["Verdict", ...] = ()  # other present troubles
    past: tuple[Past, ...] = ()  # past troubles, the gravest first
    p50_change: float | None = None  # of the last seconds to the burst, as a share; None: unknown, or nothing is slower
    is_of_mean: bool = False  # whether that is the change of the mean latency, since stops of the process leave p50
    since_ns: int | None = None  # when the state of `now` began; None: unknown, or it has no beginning
    at_end: State | None = None  # of a session that is over: the state in which it ended
    at_end_because: tuple[Reason, ...] = ()  # the reasons for that state, if it is not `state`
    streams: tuple[str, ...] = ()  # in a session with several, those in this state, the one that slowed most first
    gist: Past | AbDifference | None = None  # of a session that is over: what a list shows; None: how it ended

    @property
    def now(self) -> State:
        """Return the present state. For a session that is over, return the state that it had at its end."""
        return self.at_end or self.state

    @property
    def now_because(self) -> tuple[Reason, ...]:
        """Return the reasons for the state `now`."""
        return self.reasons if self.now is self.state else self.at_end_because


class Evidence:
    """The data from which the verdict on one stream is made.

    They cover the whole session, whatever part of it a screen shows.
    """

    def __init__(self, folds: "Folds", gates: tuple[GateResult, ...], stream: StreamView) -> None:
        self._faults = folds.faults
        with noting() as failed:
            self._read(folds, gates)
        self._failed = failed
        self.read_stream(stream)

    def of_stream(self, stream: StreamView) -> "Evidence":
        """Return the data for the verdict on another stream at the same moment."""
        other = copy.copy(self)
        other.read_stream(stream)
        return other

    def _read(self, folds: "Folds", gates: tuple[GateResult, ...]) -> None:
        self.progress, self.manifest, self.gates = folds.progress.view(), folds.manifest, gates
        self.until_ns = folds.progress.measured_until_ns  # now or, of a session that is over, its end
        self.events, self.throttles = folds.events.view(), folds.throttles.view()
        self.growth, self.overload = folds.growth_view(), folds.backlog.view()
        self.overload_ns = next(
            (begin for begin, end in folds.backlog.spans[-1:] if end is None), None
        )  # its beginning
        self.recording_trouble = folds.recording.trouble  # why nothing is recorded just now; "": it is
        self.fallback = folds.operators.fallback  # why providers were left out; None: all are there, or it is not known
        self.power_limit = power_limit(folds.tracks, folds.manifest)
        self.rss, self.stages = folds.tracks.one(RESIDENT), folds.memory_stages.views()
        totals = folds.totals()
        self.longest_ns = totals.max_ns if totals else None  # longest latency of any inference

    def read_stream(self, stream: StreamView) -> None:
        with noting() as failed:
            self.session = stream.statistics
            self.recent = stream.recent  # the last seconds up to that
            self.judged_p50_ns = stream.judged_p50_ns  # their median as the burst has it
            self.errors = stream.latency.errors  # how many inferences raised, in the whole session
            self.slowdowns, self.deadline = stream.slowdowns, stream.deadline
            self.input_growth = stream.input_growth
        # why something of it is not known; None: no fold of it has failed
        self.fault = self._faults.first(self._failed | failed)
