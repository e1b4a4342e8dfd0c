"""How well the engine's threads shared the work of instrumented inferences, if the runtime reports it."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgetop.session.events import JsonValue
from edgetop.session.operators import ThreadUse

MAX_NAMED = 1_000  # operators, whatever a runtime may call them


@dataclass(frozen=True, slots=True)
class ThreadView:
    count: int
    wait_share: float  # of the time of operators: the thread that runs the model waited for the others
    most: str  # the operator in which it waited most; "": it did not wait
    moves: int  # of threads from one CPU to another, at least
    moves_per_s: float  # of instrumented inference


class ThreadTally:
    """Adds up the use of threads over bursts."""

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


def use_from(data: Mapping[str, JsonValue]) -> ThreadUse | None:
    """Parse the use of threads from the data of an event; None: it has none."""
    if "thread_count" not in data:
        return None
    count, all_ns, wait_ns, moves, most_ns = (
        value if type(value := data.get(f"thread_{name}")) is int and value >= 0 else None
        for name in ("count", "all_ns", "wait_ns", "moves", "most_ns")
    )
    if not count or not all_ns or wait_ns is None or moves is None:
        return None
    return ThreadUse(count, all_ns, min(wait_ns, all_ns), moves, str(data.get("thread_most", "")), most_ns or 0)
