"""Something that happened, a notice about it, and an order, as values.

An event is the same in the log pane, the event table and the report; an order from the screen, the control socket and
another machine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

Severity = Literal["info", "warning", "critical"]

JsonValue = str | int | float | bool | None

# Of severity "info", those worth going to in a replay. Warnings are, whatever their kind.
LANDMARKS = frozenset(
    {
        "mark", "throttle-begin", "throttle-end", "slowdown-began", "slowdown-ended", "alert-began", "alert-ended",
        "deadline-begin", "deadline-end", "sensor-back", "clock-step", "ended",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    t_ns: int
    kind: str  # machine-readable: "phase", "mark", "log", "sensor-lost", "engine-died" ...
    severity: Severity
    source: str  # who says it: "engine", "sensor temp/cpu-thermal", "user" ...
    message: str  # for people, one line; foreign text is not cleaned here but where it is shown
    data: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def is_landmark(self) -> bool:
        """Whether it is worth going to in a replay."""
        return self.severity != "info" or self.kind in LANDMARKS

    @property
    def phase(self) -> JsonValue:
        """Return the phase that begins with this event; None: it is another event."""
        return self.data.get("phase") if self.kind == "phase" else None

    def whole(self, key: str) -> int | None:
        """Return a whole number of its data; None: it has none there."""
        value = self.data.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning about how far the numbers may be trusted, or a hint, with what to do about it."""

    code: str  # machine-readable; all of them: edgetop help warnings
    message: str
    advice: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)  # the figures in the message


Action = Literal["stop", "mark", "pause", "resume", "profile"]  # pause and resume: the recording

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True)
class Order:
    do: Action
    note: str = ""  # of a mark


class TakesOrders(Protocol):
    """Carries orders out. The call is safe from any thread and does not wait."""

    def order(self, order: Order) -> None: ...
