"""Hotspots: the share of each operator in an inference, and the change of its time.

Bursts of instrumented inferences show the shares of the time; the time of an inference comes
from the others alone. So shares are stored here, and times are shares of the
un-instrumented p50 (`scaled_ns`).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, islice

import numpy as np

from edgetop.analysis.operator_shares import BurstInfo, OperatorView, Tally, overhead_ratio
from edgetop.analysis.timeline import Axis, Points, Timeline
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.ceilings import Ceilings
from edgetop.session.event_kinds import ProfileBurst, ProfileBursts, ProfilerChosen, RooflineMeasured
from edgetop.session.events import Event
from edgetop.session.operators import BASELINE_BURSTS, LEAST_BURSTS, LEAST_RUNS, Burst, ThreadUse
from edgetop.session.seconds import NS

# Three at least; of slow models, whose bursts have one run each, as many more as it takes to settle, as long as these
# took about what the last ones do: when a board throttles, three bursts later only throttled ones count.
MOST_RECENT_BURSTS = 12
ALIKE = 0.15
MAX_UNMATCHED = 16  # events without their burst, and bursts without their event
MAX_NAMED = 1_000  # operators in which a thread waited, whatever a runtime may call them


@frozen
class TypeView:
    op_type: str
    count: int  # operators
    share: float


@frozen
class OperatorsView:
    way: str  # how operators are timed; "": they are not
    timed_by: str  # the way in which those that are shown were timed, also where profiling is over; "": not known
    reason: str  # why not, or why not in a better way; "": nothing has been said
    every_ns: int  # between bursts, as asked for; 0: never
    bursts: int
    last_ns: int | None  # when the last burst began
    last_runs: int  # instrumented inferences in it
    busy_ns: int  # of all bursts: time in which nothing was measured
    run_ns: float | None  # an instrumented inference, the median of the last bursts
    operators: tuple[OperatorView, ...]  # in run order
    by_type: tuple[TypeView, ...]  # largest share first
    partitions: int | None  # runs of operators with one provider after another; None: no burst yet
    ceilings: Ceilings | None = None  # None: not measured for such a run
    overhead: float | None = None  # an instrumented inference over others at the same time; None: not known
    counted: int = 0  # bursts of which shares are the median
    counted_runs: int = 0  # inferences in these
    is_enough: bool = False  # these, for advice
    is_disturbed: bool = False  # others took from each instrumented inference so far
    left_out_runs: int = 0  # instrumented inferences so far, because others took from them


@frozen
class ThreadView:
    count: int
    wait_share: float  # of the time of operators: the thread that runs the model waited for the others
    most: str  # the operator in which it waited most; "": it did not wait
    moves: int  # of threads from one CPU to another, at least
    moves_per_s: float  # of instrumented inference


class ThreadTally:
    """Adds up how the engine's threads shared the work of instrumented inferences, if the runtime reports it."""

    def __init__(self) -> None:
        self._count = self._all_ns = self._wait_ns = self._moves = 0
        self._most_ns: dict[str, int] = {}

    def add(self, use: ThreadUse) -> None:
        self._count = max(self._count, use.count)
        self._all_ns += use.all_ns
        self._wait_ns += use.wait_ns
        self._moves += use.moves
        if use.most in self._most_ns or len(self._most_ns) < MAX_NAMED:
            self._most_ns[use.most] = self._most_ns.get(use.most, 0) + use.most_ns

    def view(self) -> ThreadView | None:
        """Return the figures over all bursts; None: no data."""
        if not self._all_ns:
            return None
        most = max(self._most_ns, key=lambda name: self._most_ns[name])
        return ThreadView(
            self._count,
            self._wait_ns / self._all_ns,
            most if self._most_ns[most] else "",
            self._moves,
            self._moves / (self._all_ns / 1e9),
        )


class Operators:
    """Folds bursts and the events about them."""

    def __init__(self) -> None:
        self.session = Tally()
        self.threads = ThreadTally()
        self._baseline = Tally()
        self._recent: deque[tuple[Burst, BurstInfo]] = deque(maxlen=MOST_RECENT_BURSTS)
        self._is_undisturbed = False  # some burst was; others do not count from then on
        self._left_out = self._disturbed = 0  # instrumented inferences: of bursts that count, and in those that do not
        self._waiting: dict[int, Burst] = {}  # until its event has come
        self._marks = Timeline()
        self._unmatched: dict[int, ProfileBurst] = {}  # until its burst has come
        self._way = self._reason = ""
        self.timed_by = ""
        self.ceilings: Ceilings | None = None  # of this board with this runtime; None: not measured
        self._every_ns = self._busy_ns = self._bursts = 0
        self._last_ns: int | None = None  # when the last burst began
        self._last_runs = 0
        self._view: OperatorsView | None = None

    def fold(self, batch: Batch) -> None:
        before = self._bursts
        for event in batch.events:
            self._on_event(event)
        if self._bursts > before:
            begins_ns = [event.t_ns for event in batch.events if isinstance(event.body, ProfileBurst)]
            one = np.ones(len(begins_ns))
            second = np.array(begins_ns, np.int64) // NS
            self._marks.add(np.zeros(len(one), np.int64), second, np.ones((4, len(one))), one)
        for burst in batch.bursts:
            self._waiting[burst.number] = burst
        for number in sorted(self._waiting.keys() & self._unmatched.keys()):
            told = self._unmatched.pop(number)
            info = BurstInfo(
                runs=told.runs,
                run_ns=told.run_ns,
                disturbed=told.disturbed_runs > 0,
                averaged=told.averaged is True,
                plain_ns=told.plain_ns or None,
            )
            self._take(self._waiting.pop(number), info)
        for unmatched in (self._waiting, self._unmatched):  # while the recording was paused, only the events were kept
            # Listed before: to find the first of a dict takes longer with each that was deleted before it.
            for number in list(islice(unmatched, max(0, len(unmatched) - MAX_UNMATCHED))):
                del unmatched[number]

    def marks(self, axis: Axis) -> Points:
        """Return the positions of bursts on the axis; NaN elsewhere."""
        return self._marks.points(axis)

    def _on_event(self, event: Event) -> None:
        match event.body:
            case ProfilerChosen(way, reason, every_ns):
                self._way, self._reason, self._every_ns = way, reason, every_ns
                self.timed_by = way or self.timed_by
            case RooflineMeasured() as roofline:
                self.ceilings = roofline.ceilings
            case ProfileBurst() as burst:
                self._last_ns, self._last_runs = event.t_ns, burst.runs
                self._unmatched[burst.burst] = burst
                self._add(1, burst, None if burst.disturbed_runs else burst.threads)
            case ProfileBursts() as bursts:  # what a remote viewer gets
                self._add(bursts.count, bursts, bursts.threads)
            case _:
                return
        self._view = None

    def _add(self, count: int, bursts: ProfileBurst | ProfileBursts, threads: ThreadUse | None) -> None:
        self._bursts += count
        self._busy_ns += bursts.duration_ns
        self._left_out += bursts.left_out_runs
        self._disturbed += bursts.disturbed_runs
        if threads and (use := sound_use(threads)):
            self.threads.add(use)

    def _take(self, burst: Burst, info: BurstInfo) -> None:
        """Add a burst. A disturbed one counts only until the first undisturbed one."""
        if info.disturbed and self._is_undisturbed:
            return
        if not info.disturbed and not self._is_undisturbed:
            self._is_undisturbed = True
            self.session = Tally()
            self._recent.clear()
        self.session.add(burst, info)
        if self._baseline.bursts < BASELINE_BURSTS and not info.disturbed:
            self._baseline.add(burst, info)
        self._recent.append((burst, info))
        self._view = None

    def view(self) -> OperatorsView:
        """Return the view; it is the same object until a burst comes, so that a pane can skip drawing."""
        if self._view is None:
            self._view = self._made()
        return self._view

    def _made(self) -> OperatorsView:
        recent, last = Tally(), _recent_bursts(self._recent)
        for burst, info in last:
            recent.add(burst, info)
        compares = self.session.bursts > BASELINE_BURSTS
        operators = recent.views(self._baseline if compares else None)
        return OperatorsView(
            way=self._way,
            timed_by=self.timed_by,
            reason=self._reason,
            every_ns=self._every_ns,
            bursts=self._bursts,
            last_ns=self._last_ns,
            last_runs=self._last_runs,
            busy_ns=self._busy_ns,
            run_ns=recent.run_ns,
            operators=operators,
            by_type=by_type(operators),
            partitions=partitions(operators),
            ceilings=self.ceilings,
            overhead=overhead_ratio([info for _, info in last]),
            counted=recent.bursts,
            counted_runs=recent.runs,
            is_enough=recent.is_enough,
            is_disturbed=recent.is_disturbed,
            left_out_runs=self.left_out_runs,
        )

    @property
    def left_out_runs(self) -> int:
        """Return how many instrumented inferences do not count because other processes disturbed them."""
        return self._left_out + (self._disturbed if self._is_undisturbed else 0)


def sound_use(use: ThreadUse) -> ThreadUse | None:
    """Return the use of threads with figures that agree; None: they are not possible."""
    if use.count <= 0 or use.all_ns <= 0 or use.wait_ns < 0 or use.moves < 0:
        return None
    return replace(use, wait_ns=min(use.wait_ns, use.all_ns), most_ns=max(0, use.most_ns))


def _recent_bursts(bursts: Sequence[tuple[Burst, BurstInfo]]) -> list[tuple[Burst, BurstInfo]]:
    """Return the bursts that show the present state."""
    newest_first = list(reversed(bursts))
    recent, before = newest_first[:LEAST_BURSTS], newest_first[LEAST_BURSTS:]
    runs = sum(info.runs for _, info in recent)
    now_ns = float(np.median([info.run_ns for _, info in recent])) if recent else 0.0
    for burst, info in before:
        if runs >= LEAST_RUNS:
            break
        if abs(info.run_ns - now_ns) <= ALIKE * now_ns:
            recent.append((burst, info))
            runs += info.runs
    return recent[::-1]


def scaled_ns(operator: OperatorView, p50_ns: float) -> float:
    """Return the operator's time in ns in an inference that is not instrumented."""
    return operator.share * p50_ns


def short_name(operator: OperatorView) -> str:
    """Return the name in the model's file if it is known, else the name at run time."""
    return operator.origin or operator.name


def full_name(operator: OperatorView) -> str:
    """Return the name at run time, and the name in the model's file if it differs.

    XNNPACK's names are its types with a number, and say nothing more.
    """
    if not operator.origin or operator.origin == operator.name:
        return operator.name
    return operator.origin if operator.name.startswith(operator.op_type) else f"{operator.name} = {operator.origin}"


def each_call_ns(operator: OperatorView, inference_ns: float | None) -> float | None:
    """Return the time of one call in ns; None: unknown. `inference_ns`: the time of an inference."""
    return None if inference_ns is None or not operator.calls else operator.share * inference_ns / operator.calls


def by_type(operators: Iterable[OperatorView]) -> tuple[TypeView, ...]:
    shares: dict[str, list[float]] = {}
    for operator in operators:
        shares.setdefault(operator.op_type, []).append(operator.share)
    types = [TypeView(op_type, len(found), sum(found)) for op_type, found in shares.items()]
    return tuple(sorted(types, key=lambda of: -of.share))


def partitions(operators: Sequence[OperatorView]) -> int | None:
    """Count the changes of provider in run order, plus one."""
    return sum(1 for _ in groupby(operators, key=lambda operator: operator.provider)) or None
