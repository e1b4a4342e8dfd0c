"""Events that say who or what was at work at a time: other processes, bursts, slow reads of sensors.

Kept for as long as signals are, by time and never by number, so that what is found does not depend
on how a session is batched.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from edgetop.analysis.slowdowns.signals import SIZE_S
from edgetop.session.events import Event, JsonValue
from edgetop.session.seconds import NS

COMPETING, SLOW, BURST, SLOW_READ = "competing", "slow-inference", "profile-burst", "sensor-slow"
KINDS = frozenset({COMPETING, SLOW, BURST, SLOW_READ})
KNOWN_WITHIN_S = 3  # of a second: what comes later was not known when it was looked at live
NAMED_BEFORE_S = 35  # the same names are told again every half minute
FAR_BACK_S = 900  # of a long slowdown: names are sought in so much of its end


@dataclass(slots=True)
class Witnesses:
    _events: list[Event] = field(default_factory=list)  # of KINDS, as they came

    def copy(self) -> "Witnesses":
        return Witnesses(list(self._events))

    def heed(self, events: Iterable[Event]) -> None:
        self._events += [event for event in events if event.kind in KINDS]

    def forget(self, until_s: int) -> None:
        """What no signal reaches back to any more."""
        oldest_ns = (until_s - 2 * SIZE_S) * NS
        if self._events and self._events[0].t_ns < oldest_ns:
            self._events = [event for event in self._events if event.t_ns >= oldest_ns]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self._events if event.kind == kind]

    def overlaps(self, kind: str, begin_ns: int, end_ns: int, after_ns: int = 0) -> bool:
        """Whether something of this kind lasted then, or until so shortly before; it must be over soon."""
        for event in self.of(kind):
            begun_ns = _whole(event.data.get("begin_ns", event.t_ns))
            over_ns = begun_ns + _whole(event.data.get("duration_ns")) + _whole(event.data.get("took_ns"))
            if begun_ns < end_ns and begin_ns - after_ns < over_ns < end_ns + KNOWN_WITHIN_S * NS:
                return True
        return False

    def competitor_at(self, second: int) -> str:
        """Who took most of the CPU about then; nothing where nobody was named."""
        near = [event for event in self.of(COMPETING) if -KNOWN_WITHIN_S <= second - event.t_ns // NS <= NAMED_BEFORE_S]
        if not near:
            return ""
        return _name(min(near, key=lambda event: abs(event.t_ns - second * NS)))

    def competitors(self, start_s: int, end_s: int) -> str:
        """Who took most of the CPU from then to then, in words; nothing where nobody was named."""
        begin_s = max(start_s, end_s - FAR_BACK_S)
        seen = [event for event in self.of(COMPETING) if begin_s - 1 <= event.t_ns // NS <= end_s + 1]
        most: dict[str, float] = {}
        for event in seen:
            most[_name(event)] = max(most.get(_name(event), 0.0), _percent(event))
        if not most:
            return ""
        name = max(most, key=lambda name: (most[name], name))
        return f"{name} took {most[name]:.0f} % of a core"


def _name(event: Event) -> str:
    return str(event.data.get("name") or "?")


def _whole(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _percent(event: Event) -> float:
    value = event.data.get("cpu_pct")
    return float(value) if isinstance(value, int | float) else 0.0
