"""The orders that a run accepts: the same from its screen, its control socket and another machine."""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

Action = Literal["stop", "mark", "pause", "resume", "profile"]  # pause and resume: the recording

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True)
class Order:
    do: Action
    note: str = ""  # of a mark


class TakesOrders(Protocol):
    """Carries orders out. The call is safe from any thread and does not wait."""

    def order(self, order: Order) -> None: ...
