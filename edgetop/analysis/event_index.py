"""Events that name an activity at a time: other processes, bursts, slow reads of sensors.

They are stored as long as signals are, by time and never by number, so that results do not depend
on how a session is batched.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from edgetop.session.events import Event, JsonValue
from edgetop.session.seconds import NS

COMPETING, SLOW, BURST, SLOW_READ = "competing", "slow-inference", "profile-burst", "sensor-slow"
KINDS = frozenset({COMPETING, SLOW, BURST, SLOW_READ})
KNOWN_WITHIN_S = 3  # after a second: a later event was not known when the second was judged live
NAMED_BEFORE_S = 35  # the same names are reported again every half minute
EVIDENCE_S = 1_024  # evidence is searched so far back at most
FAR_BACK_S = 900  # names are searched in so much of the end of a long slowdown
MAX_NAMES, NAMED = 64, 3  # of a whole session: stored, and reported


class EventIndex:
    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {kind: [] for kind in KINDS}  # as they came
        # Look-up tables by kind, made on demand: for a day of bursts they are used a thousand times.
        self._by_second: dict[str, dict[int, list[Event]]] = {}
        self._ends: dict[str, list[tuple[int, int]]] = {}  # when each was over and when it began, by the former

    def on_event(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.kind in KINDS:
                self._events[event.kind].append(event)
                self._changed(event.kind)

    def forget(self, until_s: int) -> None:
        """Drop the events that are older than any signal."""
        oldest_ns = (until_s - 2 * EVIDENCE_S) * NS
        for kind, events in self._events.items():
            if events and events[0].t_ns < oldest_ns:
                self._events[kind] = [event for event in events if event.t_ns >= oldest_ns]
                self._changed(kind)

    def _changed(self, kind: str) -> None:
        self._by_second.pop(kind, None)
        self._ends.pop(kind, None)

    def in_second(self, kind: str, second: int) -> Sequence[Event]:
        """Return the events of this kind dated in this second."""
        if kind not in self._by_second:
            by_second: dict[int, list[Event]] = {}
            for event in self._events[kind]:
                by_second.setdefault(event.t_ns // NS, []).append(event)
            self._by_second[kind] = by_second
        return self._by_second[kind].get(second, ())

    def overlaps(self, kind: str, begin_ns: int, end_ns: int, after_ns: int = 0) -> bool:
        """Whether an event of this kind overlaps the time or the `after_ns` before it, and ends within 3 s after it."""
        if kind not in self._ends:
            self._ends[kind] = sorted(map(_end_and_begin, self._events[kind]))
        ends = self._ends[kind]
        first = bisect_left(ends, (begin_ns - after_ns + 1,))
        last = bisect_left(ends, (end_ns + KNOWN_WITHIN_S * NS,))
        return any(begun_ns < end_ns for _, begun_ns in ends[first:last])

    def competitor_at(self, second: int) -> str:
        """Return the busy process named nearest to this second; "" if none was named."""
        about = range(second - NAMED_BEFORE_S, second + KNOWN_WITHIN_S + 1)
        near = [event for one in about for event in self.in_second(COMPETING, one)]
        return _name(min(near, key=lambda event: abs(event.t_ns - second * NS))) if near else ""

    def competitors(self, start_s: int, end_s: int) -> str:
        """Describe the process that took most of the CPU in this time; "" if none was named."""
        begin_s = max(start_s, end_s - FAR_BACK_S)
        most: dict[str, float] = {}
        for event in self._events[COMPETING]:
            if begin_s - 1 <= event.t_ns // NS <= end_s + 1:
                most[_name(event)] = max(most.get(_name(event), 0.0), _percent(event))
        if not most:
            return ""
        name = max(most, key=lambda name: (most[name], name))
        return f"{name} took {most[name]:.0f} % of a core"

    def competitor_now(self, until_s: int) -> tuple[str, float]:
        """Return the busy process that was named last, with its CPU in % of a core; ("", 0) if that is long ago."""
        events = [event for event in self._events[COMPETING] if 0 <= until_s - event.t_ns // NS <= NAMED_BEFORE_S]
        return (_name(events[-1]), _percent(events[-1])) if events else ("", 0.0)


class Competitors:
    """Folds the names of the other processes that took the CPU in the whole session."""

    def __init__(self) -> None:
        self._names: dict[str, float] = {}  # the most CPU that each took, in percent of a core

    def on_event(self, event: Event) -> None:
        name, percent = event.data.get("name"), event.data.get("cpu_pct")
        if event.kind != COMPETING or not isinstance(name, str) or not isinstance(percent, int | float):
            return
        if name in self._names or len(self._names) < MAX_NAMES:
            self._names[name] = max(self._names.get(name, 0.0), float(percent))

    def top(self) -> tuple[str, ...]:
        """Return the names of those that took most."""
        return tuple(sorted(self._names, key=lambda name: (-self._names[name], name))[:NAMED])


def _end_and_begin(event: Event) -> tuple[int, int]:
    begun_ns = _whole(event.data.get("begin_ns", event.t_ns))
    return begun_ns + _whole(event.data.get("duration_ns")) + _whole(event.data.get("took_ns")), begun_ns


def _name(event: Event) -> str:
    return str(event.data.get("name") or "?")


def _whole(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _percent(event: Event) -> float:
    value = event.data.get("cpu_pct")
    return float(value) if isinstance(value, int | float) else 0.0
