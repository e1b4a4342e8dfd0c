"""Events, notices and orders.

An event is something that happened. The log pane, the event table and the report show the same events. A notice says
how far the numbers can be trusted. An order is a command to a running session, such as "stop", from the screen, the
control socket or another machine.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol, get_args

from edgetop.frozen import frozen
from edgetop.session.typed_json import JsonValue

Severity = Literal["info", "warning", "critical"]

# Of severity "info", those worth going to in a replay. Warnings are, whatever their kind.
LANDMARKS = frozenset(
    {
        "mark", "throttle-begin", "throttle-end", "slowdown-began", "slowdown-ended", "alert-began", "alert-ended",
        "deadline-begin", "deadline-end", "sensor-back", "clock-step", "ended",
    }
)  # fmt: skip


@frozen
class Body:
    """The data of an event. Each kind of event has a subclass, in `event_kinds`."""

    # The data as it was read from a file or a link; None: the event was made here. Only the codec uses it: keys that
    # this version does not know survive a copy.
    read_from: Mapping[str, object] | None = field(default=None, repr=False, compare=False, kw_only=True)

    if TYPE_CHECKING:

        @property
        def kind(self) -> str: ...  # a word for machines: "phase", "mark", "sensor-lost", "engine-died" ...


@frozen
class Event:
    t_ns: int
    body: Body
    severity: Severity
    source: str  # who says it: "engine", "sensor temp/cpu-thermal", "user" ...
    message: str  # for people, one line; foreign text is not cleaned here but where it is shown

    @property
    def kind(self) -> str:
        return self.body.kind

    @property
    def is_landmark(self) -> bool:
        """Whether a replay can jump to this event: a warning, a critical event, or one whose kind is in LANDMARKS."""
        return self.severity != "info" or self.kind in LANDMARKS


@frozen
class Notice:
    """A warning about how far the numbers can be trusted, or a hint. `advice` says what the user can do."""

    code: str  # machine-readable; all of them: edgetop help warnings
    message: str
    advice: str
    data: Mapping[str, JsonValue] = field(default_factory=dict)  # the figures in the message


Action = Literal["stop", "mark", "pause", "resume", "profile"]  # pause and resume: the recording

ACTIONS: tuple[Action, ...] = get_args(Action)


@frozen
class Order:
    do: Action
    note: str = ""  # of a mark


class TakesOrders(Protocol):
    """An object that carries out orders: commands of the user to a running session, such as "stop".

    `order` returns at once and is safe to call from any thread.
    """

    def order(self, order: Order) -> None: ...
