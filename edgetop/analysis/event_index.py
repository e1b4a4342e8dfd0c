"""Index of the events that say what happened at a time: busy processes, profiling rounds, slow reads of sensors.

Events are dropped when they are too old, and not when there are too many, so results do not depend on how a session is
cut into batches.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from edgetop.analysis.longer_operators import LongerOperators
from edgetop.analysis.slow_inputs import SlowInputs
from edgetop.session.engine_events import GarbageCollected, ProfileBurst, ProfileBursts, SlowInference
from edgetop.session.event_kinds import Competing, GpuCompeting, MemoryTaken, SensorSlow
from edgetop.session.events import Body, Event
from edgetop.session.seconds import NS

KINDS: tuple[type[Body], ...] = (
    Competing, GpuCompeting, MemoryTaken, SlowInference, GarbageCollected, ProfileBurst, SensorSlow,
)  # fmt: skip
# Time after a second within which an event may explain it. Choice: an event that comes later was not known when the
# second was judged live. Larger: a report gives reasons that the live screen could not know; smaller: a process that is
# reported late is not named.
KNOWN_WITHIN_S = 3
# Time for which a busy process is named after it was reported. Choice: half a minute, after which it is reported again,
# and the time that a report may take. Larger: a process that has ended is named; smaller: names come and go.
NAMED_BEFORE_S = 35
EVIDENCE_S = 1_024  # Evidence is searched in at most this many seconds before now.
# Time before a slowdown within which the memory that a program took may explain it. Choice: memory fills before it is
# felt. Larger: a program that took memory long ago is named; smaller: one that filled it slowly is not.
MEMORY_BEFORE_S = 300
FAR_BACK_S = 900  # In a long slowdown, names are searched only in this many seconds before its end.
MAX_NAMES, NAMED = 64, 3  # Names stored for the whole session, and names reported.


B = TypeVar("B", bound=Body)
Dated = tuple[int, B]  # (time of the event in ns, what it says).


class EventIndex:
    def __init__(self) -> None:
        self._events: dict[type[Body], list[Dated[Any]]] = {kind: [] for kind in KINDS}  # In order of arrival.
        self.longer = LongerOperators()  # Of the whole session.
        self.slow_inputs = SlowInputs()  # Of the whole session.
        # Tables by second for each kind, made on demand. With a day of profiling rounds they are used a thousand times.
        self._by_second: dict[type[Body], dict[int, list[Dated[Any]]]] = {}
        # (end, beginning) of each event in ns, sorted by the end.
        self._ends: dict[type[Body], list[tuple[int, int]]] = {}

    def on_event(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event.body, ProfileBursts):
                self.longer.add_sum(event.body)
            kind = type(event.body)
            is_foreign = isinstance(event.body, ProfileBurst) and event.body.averaged  # not between these inferences
            if kind in KINDS and not is_foreign:
                self._events[kind].append((event.t_ns, event.body))
                if isinstance(event.body, ProfileBurst):
                    self.longer.add(event.body)
                elif isinstance(event.body, SlowInference):
                    self.slow_inputs.add(event.body)
                self._changed(kind)

    def forget(self, until_s: int) -> None:
        """Drop the events that are too old to be needed as evidence. `until_s`: the present session second."""
        oldest_ns = (until_s - 2 * EVIDENCE_S) * NS
        for kind, events in self._events.items():
            if events and events[0][0] < oldest_ns:
                self._events[kind] = [dated for dated in events if dated[0] >= oldest_ns]
                self._changed(kind)

    def _changed(self, kind: type[Body]) -> None:
        self._by_second.pop(kind, None)
        self._ends.pop(kind, None)

    def in_second(self, kind: type[B], second: int) -> Sequence[Dated[B]]:
        """Return the events of one kind in one session second, as `(t_ns, body)` pairs.

        `kind`: the class of the event's body, such as `Competing`.
        """
        if kind not in self._by_second:
            # Events of one class, that of the key under which they are kept.
            by_second: dict[int, list[Dated[Any]]] = {}
            for dated in self._events[kind]:
                by_second.setdefault(dated[0] // NS, []).append(dated)
            self._by_second[kind] = by_second
        return self._by_second[kind].get(second, ())

    def overlaps(self, kind: type[Body], begin_ns: int, end_ns: int, after_ns: int = 0) -> bool:
        """Whether an event of the class `kind` overlaps a span of session time.

        The span lasts from `begin_ns` - `after_ns` to `end_ns`, in ns. Events that end 3 s or more after the span are
        left out, because a live run does not know them yet.
        """
        if kind not in self._ends:
            self._ends[kind] = sorted(_end_and_begin(*dated) for dated in self._events[kind])
        ends = self._ends[kind]
        first = bisect_left(ends, (begin_ns - after_ns + 1,))
        last = bisect_left(ends, (end_ns + KNOWN_WITHIN_S * NS,))
        return any(begun_ns < end_ns for _, begun_ns in ends[first:last])

    def competitor_at(self, second: int, kind: type[Competing] | type[GpuCompeting] = Competing) -> tuple[str, bool]:
        """Return `(name, began)` for the busy process that was reported nearest to the session second `second`.

        `kind` says whether processes that took the CPU or the GPU count.

        `began`: whether the process had just started, and was reported within 3 s of `second`. The name is "" if no
        process was reported near `second`.
        """
        about = range(second - NAMED_BEFORE_S, second + KNOWN_WITHIN_S + 1)
        near = [dated for one in about for dated in self.in_second(kind, one)]
        if not near:
            return "", False
        t_ns, nearest = min(near, key=lambda dated: abs(dated[0] - second * NS))
        began = isinstance(nearest, Competing) and bool(nearest.began)
        return nearest.name, began and abs(t_ns - second * NS) <= KNOWN_WITHIN_S * NS

    def competitors(self, start_s: int, end_s: int) -> tuple[str, float] | None:
        """Return `(name, percent)`: the process with the highest CPU use between two session seconds, and this CPU use.

        The CPU use is in percent of one core. The result is None if no process was reported. Only the last 15 minutes
        of the span are searched.
        """
        begin_s = max(start_s, end_s - FAR_BACK_S)
        most: dict[str, float] = {}
        for t_ns, competing in self._events[Competing]:
            if begin_s - 1 <= t_ns // NS <= end_s + 1:
                most[competing.name] = max(most.get(competing.name, 0.0), float(competing.cpu_pct))
        if not most:
            return None
        name = max(most, key=lambda name: (most[name], name))
        return name, most[name]

    def gpu_competitor(self, start_s: int, end_s: int) -> tuple[str, float] | None:
        """Return `(name, percent)`: the process that used the GPU most between two session seconds, or None.

        Only the last 15 minutes of the span are searched. The result is None if no process was reported.
        """
        begin_s = max(start_s, end_s - FAR_BACK_S)
        near = [one for t_ns, one in self._events[GpuCompeting] if begin_s - 1 <= t_ns // NS <= end_s + 1]
        most = max(near, key=lambda one: (one.gpu_pct, one.name), default=None)
        return None if most is None else (most.name, float(most.gpu_pct))

    def memory_taker(self, start_s: int, end_s: int) -> MemoryTaken | None:
        """Return the report of the greatest rise of a program's memory before or during a span of time, or None.

        `start_s` and `end_s`: the first and the last session second of the span. The search begins MEMORY_BEFORE_S
        seconds before the span, but not more than FAR_BACK_S seconds before its end.
        """
        begin_s = max(start_s - MEMORY_BEFORE_S, end_s - FAR_BACK_S)
        near = [taken for t_ns, taken in self._events[MemoryTaken] if begin_s <= t_ns // NS <= end_s + 1]
        return max(near, key=lambda taken: (taken.grew_mib, taken.name), default=None)

    def competitor_now(self, until_s: int) -> tuple[str, float]:
        """Return `(name, percent)`: the busy process that was reported last, and its CPU use in percent of a core.

        The result is `("", 0)` if no process was reported in the last 35 s. `until_s`: the present session second.
        """
        recent = [one for t_ns, one in self._events[Competing] if 0 <= until_s - t_ns // NS <= NAMED_BEFORE_S]
        return (recent[-1].name, float(recent[-1].cpu_pct)) if recent else ("", 0.0)


class Competitors:
    """Collects the names of the processes, other than the engine, that took CPU time during the session."""

    def __init__(self) -> None:
        self._names: dict[str, float] = {}  # The highest CPU use of each process, in percent of a core.

    def on_event(self, event: Event) -> None:
        match event.body:
            case Competing(name, percent) if name in self._names or len(self._names) < MAX_NAMES:
                self._names[name] = max(self._names.get(name, 0.0), float(percent))

    def top(self) -> tuple[str, ...]:
        """Return the names of at most three processes that took most CPU, the busiest first."""
        return tuple(sorted(self._names, key=lambda name: (-self._names[name], name))[:NAMED])


def _end_and_begin(t_ns: int, body: ProfileBurst | SensorSlow) -> tuple[int, int]:
    if isinstance(body, SensorSlow):
        return body.begin_ns + body.took_ns, body.begin_ns
    return t_ns + body.duration_ns, t_ns
