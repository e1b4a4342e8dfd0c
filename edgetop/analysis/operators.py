"""Hotspots: what share of an inference each operator takes, and how that has moved.

Bursts of instrumented inferences tell how the time is shared out; how long an inference takes
is told by the others alone. So shares are kept here, and times are shares of the
un-instrumented p50 (`scaled_ns`).
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np
import numpy.typing as npt

from edgetop.analysis.recent_bursts import MOST_RECENT_BURSTS, Told, recent_bursts
from edgetop.analysis.threads import ThreadTally, use_from
from edgetop.analysis.timeline import Axis, Points, Timeline
from edgetop.session.batch import Batch
from edgetop.session.ceilings import Ceilings, ceilings_from
from edgetop.session.events import Event
from edgetop.session.operators import BASELINE_BURSTS, Burst, OperatorInfo
from edgetop.session.seconds import NS

MAX_UNMATCHED = 16  # events without their burst, and bursts without their event
MAX_OPERATORS = 20_000  # told apart, whatever a runtime may call them

Key = tuple[str, str, str]  # name, type, provider
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OperatorView:
    position: int  # run order
    name: str
    op_type: str
    provider: str
    calls: float  # an inference
    share: float  # of the time of all operators, over the last bursts
    change: float | None  # of its time against the baseline: 0.1 is 10 % longer; None: no later burst yet
    flops: int | None = None  # of a call; None: not known
    bytes: int | None = None  # that a call moves; None: not known
    origin: str | None = None  # its name in the model's file; None: not known


@dataclass(frozen=True, slots=True)
class TypeView:
    op_type: str
    count: int  # operators
    share: float


@dataclass(frozen=True, slots=True)
class OperatorsView:
    way: str  # how operators are timed; "": they are not
    timed_by: str  # the way in which those that are shown were timed, also where profiling is over; "": not known
    reason: str  # why not, or why not in a better way; "": nothing has been said
    every_ns: int  # between bursts, as asked for; 0: never
    bursts: int
    last_ns: int | None  # when the last burst began
    last_runs: int  # instrumented inferences in it
    busy_ns: int  # of all bursts: time in which nothing was measured
    run_ns: float | None  # an instrumented inference, median of each of the last bursts, mean of these
    operators: tuple[OperatorView, ...]  # in run order
    by_type: tuple[TypeView, ...]  # largest share first
    partitions: int | None  # runs of operators with one provider after another; None: no burst yet
    ceilings: Ceilings | None = None  # None: not measured for such a run


class Tally:
    """Time and calls of each operator, over the bursts put in."""

    def __init__(self) -> None:
        self.runs = 0
        self.instrumented_ns = 0
        self.bursts = 0
        self._infos: dict[Key, OperatorInfo] = {}  # in run order
        self._places: dict[Key, int] = {}
        self._calls = np.zeros(0)  # floats, which numbers of an odd file do not overflow; exact up to 100 days
        self._ns = np.zeros(0)
        # Of the last burst: its operators, which of its rows count, and where.
        self._last: tuple[tuple[OperatorInfo, ...], Places, Places] | None = None

    def add(self, burst: Burst, told: Told) -> None:
        self.runs += told.runs
        self.instrumented_ns += told.run_ns
        self.bursts += 1
        if self._last is None or self._last[0] is not burst.infos:
            self._last = (burst.infos, *self._find(burst.infos))
        _, rows, places = self._last
        self._calls += np.bincount(places, burst.calls[rows], minlength=len(self._calls))
        self._ns += np.bincount(places, burst.total_ns[rows], minlength=len(self._ns))

    def _find(self, infos: tuple[OperatorInfo, ...]) -> tuple[Places, Places]:
        """Which of them count, all but those that are too many, and the place of each."""
        for info in infos:
            key = _key(info)
            if key not in self._places and len(self._places) < MAX_OPERATORS:
                self._places[key] = len(self._places)
            if key in self._places and (key not in self._infos or info.origin is not None):
                self._infos[key] = info
        more = np.zeros(len(self._places) - len(self._ns))
        self._calls, self._ns = np.append(self._calls, more), np.append(self._ns, more)
        places = np.array([self._places.get(_key(info), -1) for info in infos], np.int64)
        rows = np.flatnonzero(places >= 0)
        return rows, places[rows]

    @property
    def run_ns(self) -> float | None:
        return self.instrumented_ns / self.bursts if self.bursts else None

    def mean_ns(self, key: Key) -> float | None:
        """Of an operator in one instrumented inference; None where it never ran."""
        return float(self._ns[self._places[key]]) / self.runs if key in self._places and self.runs else None

    def views(self, baseline: "Tally | None" = None) -> tuple[OperatorView, ...]:
        """`baseline`: what changes are told against; None: none are."""
        shares = (self._ns / (float(self._ns.sum()) or 1.0)).tolist()
        each = (self._calls / max(self.runs, 1)).tolist()
        return tuple(
            OperatorView(
                position=position,
                name=info.name,
                op_type=info.op_type,
                provider=info.provider,
                calls=each[position],
                share=shares[position],
                change=self._change(key, baseline),
                flops=info.flops,
                bytes=info.bytes,
                origin=info.origin,
            )
            for position, (key, info) in enumerate(self._infos.items())
        )

    def _change(self, key: Key, baseline: "Tally | None") -> float | None:
        now, then = self.mean_ns(key), baseline.mean_ns(key) if baseline else None
        return None if now is None or not then else now / then - 1


def _key(info: OperatorInfo) -> Key:
    return info.name, info.op_type, info.provider


class Operators:
    """Folds bursts and what is told of them."""

    def __init__(self) -> None:
        self.session = Tally()
        self.threads = ThreadTally()
        self._baseline = Tally()
        self._recent: deque[tuple[Burst, Told]] = deque(maxlen=MOST_RECENT_BURSTS)
        self._waiting: dict[int, Burst] = {}  # until its event has come
        self._marks = Timeline()
        self._told: dict[int, Event] = {}  # until its burst has come
        self._way = self._reason = ""
        self.timed_by = ""
        self.ceilings: Ceilings | None = None  # of this board with this runtime; None: not measured
        self._every_ns = self._busy_ns = self._bursts = 0
        self._last: Event | None = None  # of a burst
        self._view: OperatorsView | None = None
        self._heeded = {
            "profiler": self._heed_profiler,
            "roofline": self._heed_ceilings,
            "profile-burst": self._heed_burst,
            "profile-bursts": self._heed_bursts,
        }

    def fold(self, batch: Batch) -> None:
        before = self._bursts
        for event in batch.events:
            if heed := self._heeded.get(event.kind):
                heed(event)
                self._view = None
        if self._bursts > before:
            self._mark([event.t_ns for event in batch.events if event.kind == "profile-burst"])
        for burst in batch.bursts:
            self._waiting[burst.number] = burst
        for number in sorted(self._waiting.keys() & self._told.keys()):
            event = self._told.pop(number)
            self._take(self._waiting.pop(number), Told(_whole(event, "runs"), _whole(event, "run_ns")))
        for unmatched in (self._waiting, self._told):  # while the recording was paused, only the events were kept
            # Listed before: to find the first of a dict takes longer with each that was deleted before it.
            for number in list(islice(unmatched, max(0, len(unmatched) - MAX_UNMATCHED))):
                del unmatched[number]

    def _mark(self, times_ns: Sequence[int]) -> None:
        one = np.ones(len(times_ns))
        second = np.array(times_ns, np.int64) // NS
        self._marks.add(np.zeros(len(times_ns), np.int64), second, np.ones((4, len(times_ns))), one)

    def marks(self, axis: Axis) -> Points:
        """Where along the axis there were bursts; NaN elsewhere."""
        return self._marks.points(axis)

    def _heed_profiler(self, event: Event) -> None:
        self._way, self._reason = str(event.data.get("way", "")), str(event.data.get("reason", ""))
        self.timed_by = self._way or self.timed_by
        self._every_ns = _whole(event, "every_ns")

    def _heed_ceilings(self, event: Event) -> None:
        self.ceilings = ceilings_from(event.data)

    def _heed_bursts(self, event: Event) -> None:
        """Several, of which a viewer from afar gets no more than their sum."""
        self._bursts += _whole(event, "count")
        self._busy_ns += _whole(event, "duration_ns")
        self._heed_threads(event)

    def _heed_burst(self, event: Event) -> None:
        self._busy_ns += _whole(event, "duration_ns")
        self._bursts += 1
        self._heed_threads(event)
        self._last = self._told[_whole(event, "burst")] = event

    def _heed_threads(self, event: Event) -> None:
        if use := use_from(event.data):
            self.threads.add(use)

    def _take(self, burst: Burst, told: Told) -> None:
        self.session.add(burst, told)
        if self._baseline.bursts < BASELINE_BURSTS:
            self._baseline.add(burst, told)
        self._recent.append((burst, told))
        self._view = None

    def view(self) -> OperatorsView:
        """The same object until a burst comes, so that what is drawn of it need not be drawn again."""
        if self._view is None:
            self._view = self._made()
        return self._view

    def _made(self) -> OperatorsView:
        recent = Tally()
        for burst, told in recent_bursts(self._recent):
            recent.add(burst, told)
        compares = self.session.bursts > BASELINE_BURSTS
        operators = recent.views(self._baseline if compares else None)
        return OperatorsView(
            way=self._way,
            timed_by=self.timed_by,
            reason=self._reason,
            every_ns=self._every_ns,
            bursts=self._bursts,
            last_ns=self._last.t_ns if self._last else None,
            last_runs=_whole(self._last, "runs") if self._last else 0,
            busy_ns=self._busy_ns,
            run_ns=recent.run_ns,
            operators=operators,
            by_type=by_type(operators),
            partitions=partitions(operators),
            ceilings=self.ceilings,
        )


def _whole(event: Event, name: str) -> int:
    value = event.data.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def scaled_ns(operator: OperatorView, p50_ns: float) -> float:
    """An operator's time in an inference that is not instrumented."""
    return operator.share * p50_ns


def short_name(operator: OperatorView) -> str:
    """The model's own where it is known."""
    return operator.origin or operator.name


def full_name(operator: OperatorView) -> str:
    """As it ran, and as the model's file has it where that is another name.

    XNNPACK's names are its types with a number, and say nothing more.
    """
    if not operator.origin or operator.origin == operator.name:
        return operator.name
    return operator.origin if operator.name.startswith(operator.op_type) else f"{operator.name} = {operator.origin}"


def each_call_ns(operator: OperatorView, inference_ns: float | None) -> float | None:
    """`inference_ns`: how long an inference takes; None: not known."""
    return None if inference_ns is None or not operator.calls else operator.share * inference_ns / operator.calls


def by_type(operators: Iterable[OperatorView]) -> tuple[TypeView, ...]:
    shares: dict[str, list[float]] = {}
    for operator in operators:
        shares.setdefault(operator.op_type, []).append(operator.share)
    types = [TypeView(op_type, len(found), sum(found)) for op_type, found in shares.items()]
    return tuple(sorted(types, key=lambda of: -of.share))


def partitions(operators: Sequence[OperatorView]) -> int | None:
    """How often, in run order, another provider takes over, and one."""
    return sum(1 for _ in groupby(operators, key=lambda operator: operator.provider)) or None
