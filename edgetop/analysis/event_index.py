"""Events that say who or what was at work at a time: other processes, bursts, slow reads of sensors.

Kept for as long as signals are, by time and never by number, so that what is found does not depend
on how a session is batched.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from edgetop.session.events import Event, JsonValue
from edgetop.session.seconds import NS

COMPETING, SLOW, BURST, SLOW_READ = "competing", "slow-inference", "profile-burst", "sensor-slow"
KINDS = frozenset({COMPETING, SLOW, BURST, SLOW_READ})
KNOWN_WITHIN_S = 3  # of a second: what comes later was not known when it was looked at live
NAMED_BEFORE_S = 35  # the same names are told again every half minute
EVIDENCE_S = 1_024  # so far back is looked for evidence at most
FAR_BACK_S = 900  # of a long slowdown: names are sought in so much of its end


class EventIndex:
    def __init__(self) -> None:
        self._events: dict[str, list[Event]] = {kind: [] for kind in KINDS}  # as they came
        # What is looked up of each kind, made when it is asked for: a day of bursts is asked a thousand times.
        self._by_second: dict[str, dict[int, list[Event]]] = {}
        self._ends: dict[str, list[tuple[int, int]]] = {}  # when each was over and when it began, by the former

    def on_event(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.kind in KINDS:
                self._events[event.kind].append(event)
                self._changed(event.kind)

    def forget(self, until_s: int) -> None:
        """What no signal reaches back to any more."""
        oldest_ns = (until_s - 2 * EVIDENCE_S) * NS
        for kind, events in self._events.items():
            if events and events[0].t_ns < oldest_ns:
                self._events[kind] = [event for event in events if event.t_ns >= oldest_ns]
                self._changed(kind)

    def _changed(self, kind: str) -> None:
        self._by_second.pop(kind, None)
        self._ends.pop(kind, None)

    def in_second(self, kind: str, second: int) -> Sequence[Event]:
        """Those dated in this second."""
        if kind not in self._by_second:
            found: dict[int, list[Event]] = {}
            for event in self._events[kind]:
                found.setdefault(event.t_ns // NS, []).append(event)
            self._by_second[kind] = found
        return self._by_second[kind].get(second, ())

    def overlaps(self, kind: str, begin_ns: int, end_ns: int, after_ns: int = 0) -> bool:
        """Whether something of this kind lasted then, or until so shortly before; it must be over soon."""
        if kind not in self._ends:
            self._ends[kind] = sorted(map(_end_and_begin, self._events[kind]))
        ends = self._ends[kind]
        first = bisect_left(ends, (begin_ns - after_ns + 1,))
        last = bisect_left(ends, (end_ns + KNOWN_WITHIN_S * NS,))
        return any(begun_ns < end_ns for _, begun_ns in ends[first:last])

    def competitor_at(self, second: int) -> str:
        """Who took most of the CPU about then; nothing where nobody was named."""
        about = range(second - NAMED_BEFORE_S, second + KNOWN_WITHIN_S + 1)
        near = [event for one in about for event in self.in_second(COMPETING, one)]
        return _name(min(near, key=lambda event: abs(event.t_ns - second * NS))) if near else ""

    def competitors(self, start_s: int, end_s: int) -> str:
        """Who took most of the CPU from then to then, in words; nothing where nobody was named."""
        begin_s = max(start_s, end_s - FAR_BACK_S)
        seen = [event for event in self._events[COMPETING] if begin_s - 1 <= event.t_ns // NS <= end_s + 1]
        most: dict[str, float] = {}
        for event in seen:
            most[_name(event)] = max(most.get(_name(event), 0.0), _percent(event))
        if not most:
            return ""
        name = max(most, key=lambda name: (most[name], name))
        return f"{name} took {most[name]:.0f} % of a core"

    def competitor_now(self, until_s: int) -> tuple[str, float]:
        """Who took most of the CPU when names were told last, and how much of a core; nobody where that is long ago."""
        seen = [event for event in self._events[COMPETING] if 0 <= until_s - event.t_ns // NS <= NAMED_BEFORE_S]
        return (_name(seen[-1]), _percent(seen[-1])) if seen else ("", 0.0)


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
