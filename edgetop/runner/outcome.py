"""How a session ended, and the interface of an object that takes the session's batches."""

from collections.abc import Callable
from typing import Protocol

from edgetop.errors import EdgetopError
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.events import Event

Derived = Callable[[Batch], tuple[Event, ...]]


class BatchSink(Protocol):
    def put(self, batch: Batch) -> None: ...

    def close(self) -> None: ...


@frozen
class Outcome:
    """How a session ended: the reason, such as `duration` or `user`, and the error if there was one."""

    end_reason: str
    error: EdgetopError | None = None


def failure_of(step: Callable[[], object]) -> EdgetopError | None:
    """Call `step`. Return the error that it raised, or None."""
    try:
        step()
    except EdgetopError as error:
        return error
    except Exception as error:  # noqa: BLE001  a defect in one step must not keep the next from being done
        return internal_error(error)
    return None


def internal_error(error: Exception) -> EdgetopError:
    return EdgetopError(f"internal error: {type(error).__name__}: {error}")
