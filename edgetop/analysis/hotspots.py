"""Hotspots: the share of each operator in the time of an inference, and how its time changed.

Operators are timed in profiling rounds of instrumented inferences, which are slower than plain ones. So only the shares
are taken from these rounds. An operator's time is its share of the p50 of plain inferences (`scaled_ns`).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, islice

import numpy as np

from edgetop.analysis.operator_counts import OperatorCounts
from edgetop.analysis.operator_shares import BurstInfo, OperatorView, Tally, overhead_ratio
from edgetop.analysis.timeline import Axis, Points, Timeline
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.ceilings import Ceilings
from edgetop.session.engine_events import FallbackReasons, ProfileBurst, ProfileBursts, ProfilerChosen, RooflineMeasured
from edgetop.session.events import Event
from edgetop.session.median import median
from edgetop.session.operators import (
    BASELINE_BURSTS,
    LEAST_BURSTS,
    LEAST_RUNS,
    Burst,
    EventCounts,
    ThreadUse,
    counts_of,
)
from edgetop.session.seconds import NS

# At least three rounds. Slow models run one inference per round, so as many more rounds are taken as it needs to
# settle, as long as they took about as long as the last ones. When a board throttles, three rounds later only throttled
# ones count.
MOST_RECENT_BURSTS = 12
# Difference, as a share, of the times of two profiling rounds below which they are counted together. Choice: more
# than noise, less than a throttle. Larger: fast rounds count in a throttled state; smaller: noise leaves too few
# rounds.
ALIKE = 0.15
MAX_UNMATCHED = 16  # Limit of events without their round, and of rounds without their event.
MAX_NAMED = 1_000  # Limit of operators in which a thread waited: a runtime may invent any number of names.


@frozen
class TypeView:
    op_type: str
    count: int  # Number of operators.
    share: float


@frozen
class OperatorsView:
    way: str  # How operators are timed; "" if they are not timed.
    timed_by: str  # How the operators shown were timed, even after profiling has ended; "" if unknown.
    reason: str  # Why operators are not timed, or not in a better way; "" if unknown.
    every_ns: int  # Requested interval between rounds; 0 means no rounds.
    bursts: int
    last_ns: int | None  # When the last round began.
    last_runs: int  # Number of instrumented inferences in the last round.
    busy_ns: int  # Total time of all rounds, in which nothing was measured.
    run_ns: float | None  # Median time of an instrumented inference over the last rounds.
    operators: tuple[OperatorView, ...]  # In run order.
    by_type: tuple[TypeView, ...]  # Largest share first.
    partitions: int | None  # Number of runs of successive operators with one provider; None before the first round.
    ceilings: Ceilings | None = None  # None if no ceilings were measured for this runtime.
    # Time of an instrumented inference divided by that of plain ones at the same time; None if unknown.
    overhead: float | None = None
    counted: int = 0  # Number of rounds of which the shares are medians.
    counted_runs: int = 0  # Number of inferences in these rounds.
    is_enough: bool = False  # Whether these rounds suffice to base advice on them.
    is_disturbed: bool = False  # Whether every instrumented inference so far was disturbed by other processes.
    left_out_runs: int = 0  # Number of instrumented inferences left out because other processes disturbed them.
    fallback: FallbackReasons | None = None  # None if all ran as requested, or if the reasons are unknown.


@frozen
class ThreadView:
    count: int
    wait_share: float  # Share of the operators' time in which the thread that runs the model waited for the others.
    most: str  # Operator in which that thread waited longest; "" if it did not wait.
    moves: int  # Times that a thread moved to another CPU; a lower bound.
    moves_per_s: float  # Moves per second of instrumented inference.


class ThreadTally:
    """Adds up, over instrumented inferences, how the engine's threads shared the work, if the runtime reports it."""

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
        """Return how the threads shared the work over all profiling rounds, or None if there is no data."""
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
    """Collects the operators of a session, from profiling rounds (`Burst`) and the events about these rounds."""

    def __init__(self) -> None:
        self.session = Tally()
        self.counts = OperatorCounts()
        self.threads = ThreadTally()
        self._baseline = Tally()
        self._recent: deque[tuple[Burst, BurstInfo]] = deque(maxlen=MOST_RECENT_BURSTS)
        self._is_undisturbed = False  # Whether some round was undisturbed: from then on, disturbed rounds do not count.
        # Numbers of disturbed instrumented inferences: those within rounds that count, and those of rounds that do not.
        self._left_out = self._disturbed = 0
        self._waiting: dict[int, Burst] = {}  # Rounds whose event has not come yet.
        self._marks = Timeline()
        self._unmatched: dict[int, ProfileBurst] = {}  # Events whose round has not come yet.
        self._way = self._reason = ""
        self.timed_by = ""
        self.fallback: FallbackReasons | None = None  # None if all ran as requested, or if the reasons are unknown.
        self.ceilings: Ceilings | None = None  # Ceilings of this board with this runtime; None if not measured.
        self._every_ns = self._busy_ns = self._bursts = 0
        self._last_ns: int | None = None  # When the last round began.
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
            self._take(self._waiting.pop(number), info, counts_of(told.counts) if told.counts else ())
        # While the recording was paused, only the events were stored.
        for unmatched in (self._waiting, self._unmatched):
            # Listed first: finding the first key of a dict takes longer with each key that was deleted before it.
            for number in list(islice(unmatched, max(0, len(unmatched) - MAX_UNMATCHED))):
                del unmatched[number]

    def marks(self, axis: Axis) -> Points:
        """Return a timeline with a value in each column in which a profiling round ran. Other columns are NaN."""
        return self._marks.points(axis)

    def _on_event(self, event: Event) -> None:
        match event.body:
            case ProfilerChosen(way, reason, every_ns):
                self._way, self._reason, self._every_ns = way, reason, every_ns
                self.timed_by = way or self.timed_by
            case FallbackReasons() as reasons:
                self.fallback = reasons
            case RooflineMeasured() as roofline:
                self.ceilings = roofline.ceilings
            case ProfileBurst() as burst:
                self._last_ns, self._last_runs = event.t_ns, burst.runs
                self._unmatched[burst.burst] = burst
                self._add(1, burst, None if burst.disturbed_runs else burst.threads)
            case ProfileBursts() as bursts:  # A remote viewer gets this sum in place of past rounds.
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

    def _take(self, burst: Burst, info: BurstInfo, counts: tuple[EventCounts, ...]) -> None:
        """Add the profiling round `burst`, with its figures `info`. `counts`: the events counted in its operators.

        A round that other processes disturbed is used only until the first undisturbed round arrives.
        """
        if info.disturbed and self._is_undisturbed:
            return
        if not info.disturbed and not self._is_undisturbed:
            self._is_undisturbed = True
            self.session, self.counts = Tally(), OperatorCounts()
            self._recent.clear()
        self.session.add(burst, info)
        self.counts.add(burst.infos, counts)
        if self._baseline.bursts < BASELINE_BURSTS and not info.disturbed:
            self._baseline.add(burst, info)
        self._recent.append((burst, info))
        self._view = None

    def view(self) -> OperatorsView:
        """Return the present state of the operators.

        Until the next profiling round, the same object is returned, so that a pane can skip drawing.
        """
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
            fallback=self.fallback,
        )

    @property
    def left_out_runs(self) -> int:
        """Return how many instrumented inferences were left out because other processes disturbed them."""
        return self._left_out + (self._disturbed if self._is_undisturbed else 0)


def sound_use(use: ThreadUse) -> ThreadUse | None:
    """Return a copy of `use` in which a waiting time above the total time is set to the total time.

    The result is None if a figure is impossible, such as a negative waiting time.
    """
    if use.count <= 0 or use.all_ns <= 0 or use.wait_ns < 0 or use.moves < 0:
        return None
    return replace(use, wait_ns=min(use.wait_ns, use.all_ns), most_ns=max(0, use.most_ns))


def _recent_bursts(bursts: Sequence[tuple[Burst, BurstInfo]]) -> list[tuple[Burst, BurstInfo]]:
    """Return the last profiling rounds, as far as they show the present state, in order of time.

    `bursts`: all rounds with their figures, in order of time. The result has the last LEAST_BURSTS rounds. If they have
    fewer than LEAST_RUNS inferences together, earlier rounds are added, from the latest back. An earlier round is added
    only if its inferences took about as long as those of the last LEAST_BURSTS rounds.
    """
    newest_first = list(reversed(bursts))
    recent, before = newest_first[:LEAST_BURSTS], newest_first[LEAST_BURSTS:]
    runs = sum(info.runs for _, info in recent)
    now_ns = float(median([info.run_ns for _, info in recent])) if recent else 0.0
    for burst, info in before:
        if runs >= LEAST_RUNS:
            break
        if abs(info.run_ns - now_ns) <= ALIKE * now_ns:
            recent.append((burst, info))
            runs += info.runs
    return recent[::-1]


def scaled_ns(operator: OperatorView, p50_ns: float) -> float:
    """Return the operator's time in ns in an inference without the profiler.

    `p50_ns`: the median time of such inferences.
    """
    return operator.share * p50_ns


def short_name(operator: OperatorView) -> str:
    """Return the operator's name in the model's file or, if it is unknown, the runtime's name."""
    return operator.origin or operator.name


def full_name(operator: OperatorView) -> str:
    """Return the operator's name in the runtime and its name in the model's file, such as `conv_1 = /net/conv`.

    If the two are equal, or the name in the file is unknown, return the runtime's name. If the runtime's name begins
    with the operator type, return the name in the file.
    """
    if not operator.origin or operator.origin == operator.name:
        return operator.name
    return operator.origin if operator.name.startswith(operator.op_type) else f"{operator.name} = {operator.origin}"


def each_call_ns(operator: OperatorView, inference_ns: float | None) -> float | None:
    """Return the time of one call of the operator in ns, or None if it is unknown.

    `inference_ns`: the time of a whole inference in ns; None if it is unknown.
    """
    return None if inference_ns is None or not operator.calls else operator.share * inference_ns / operator.calls


def by_type(operators: Iterable[OperatorView]) -> tuple[TypeView, ...]:
    shares: dict[str, list[float]] = {}
    for operator in operators:
        shares.setdefault(operator.op_type, []).append(operator.share)
    types = [TypeView(op_type, len(found), sum(found)) for op_type, found in shares.items()]
    return tuple(sorted(types, key=lambda of: -of.share))


def partitions(operators: Sequence[OperatorView]) -> int | None:
    """Return the number of partitions (runs of successive operators with one provider), or None without operators.

    `operators`: all operators in the order in which they run.
    """
    return sum(1 for _ in groupby(operators, key=lambda operator: operator.provider)) or None
