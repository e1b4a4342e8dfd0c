"""Frozen dataclasses that get their methods when the first object of theirs is made.

`dataclass` compiles six functions for a class, which takes 0.5 ms. There are dozens of kinds of events, and a process
makes objects of a few of them.
"""

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Any:
        return lambda of: of


_lock = threading.Lock()


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class LateDataclass:
    """Base of such classes: each that derives from it is one, as if it stood under `@dataclass(frozen=True)`.

    One that only others derive from stands under `@dataclass(frozen=True, init=False)`.
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        """Make the first object of a class; the class has an `__init__` of its own from then on."""
        finish(type(self))
        type(self).__init__(self, *values, **named)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a copy; it can be the first object of its class in this process."""
        finish(type(self))
        vars(self).update(state)


def finish(of: type[LateDataclass]) -> None:
    """Give the class its methods and its fields."""
    with _lock:
        if "__init__" not in vars(of):
            dataclass(frozen=True)(of)
