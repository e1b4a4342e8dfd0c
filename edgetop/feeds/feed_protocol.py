"""The interface of feeds, from which a screen reads a session's data. Some feeds have further abilities."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from enum import Flag, auto
from typing import Protocol

from edgetop.frozen import frozen
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import Clock
from edgetop.session.events import Action, Order, Severity
from edgetop.session.records import NO_INFERENCES
from edgetop.session.seconds import NS

REFUSAL_VISIBLE_NS = 10 * NS


class Can(Flag):
    """What a feed can do. A screen hides the keys that need a missing ability."""

    NOTHING = 0
    STOP = auto()  # end the session
    MARK = auto()  # add a mark to the session
    PAUSE_RECORDING = auto()
    PROFILE = auto()  # profile operators now
    ORDERS = STOP | MARK | PAUSE_RECORDING | PROFILE
    SEEK = auto()  # go to any time of the session
    SPEED = auto()  # pause, and play at another speed
    DETACH = auto()  # continue without a screen, to be attached again
    VISIT = auto()  # the session runs in another process: leaving does not affect it, and stopping it asks first


@frozen
class Mark:
    """An event of a session to which the user can jump in a replay."""

    t_ns: int
    kind: str  # kind of the event
    severity: Severity


@frozen
class Transport:
    """The state of a replay: its position and speed, and the length and the marks of the session."""

    t_ns: int
    end_ns: int
    speed: float  # seconds of the session per second
    is_playing: bool
    marks: tuple[Mark, ...]  # marks of the whole session, ordered by time


class Player(Protocol):
    """The controls of a replay, which feeds with the abilities SEEK and SPEED have."""

    @property
    def transport(self) -> Transport: ...

    def play(self, playing: bool) -> None:
        """Play, or pause if `playing` is false. At the end of the session, playing starts again at its beginning."""

    def set_speed(self, speed: float) -> None: ...

    def seek(self, t_ns: int) -> None:
        """Go to the session time `t_ns`. A time outside of the session means its beginning or end.

        The next `read` returns the whole session up to this time.
        """

    def ahead(self) -> Batch | None:
        """Return the next part of the session, or None at the end.

        The first call returns the beginning of the session.
        """

    def checkpoint_ns(self) -> int | None:
        """Return the session time at which a caller of `ahead` has to save the state of its analysis, or None.

        None means that nothing has to be saved now. After a seek, a batch may begin at this time instead of at the
        session's beginning. Such a batch continues the saved state.
        """


# If more inferences than this wait to be read, a screen gets the seconds that it missed instead of every inference.
MAX_WAITING_INFERENCES = 500_000
MAX_WAITING_BATCHES = 256  # more waiting batches are merged


class BatchQueue:
    """A queue of batches (parts of a session's data) between two threads.

    The reader gets all waiting batches as one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Batch] = []
        self._inferences = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, batch: Batch) -> None:
        with self._lock:
            if self._inferences + len(batch.inferences) > MAX_WAITING_INFERENCES:
                batch = replace(batch, inferences=NO_INFERENCES)
            self._inferences += len(batch.inferences)
            self._waiting.append(batch)
            if len(self._waiting) > MAX_WAITING_BATCHES:
                self._waiting = [merge(self._waiting)]

    def peek(self) -> tuple[Batch, ...]:
        """Return all waiting batches, oldest first, and leave them in the queue."""
        with self._lock:
            return tuple(self._waiting)

    def take(self) -> Batch | None:
        """Remove all waiting batches and return them as one batch, or None if there are no batches."""
        with self._lock:
            waiting, self._waiting, self._inferences = self._waiting, [], 0
        return merge(waiting) if waiting else None


class Refusal:
    """Why the session refused the last command, such as a stop. `str(refusal)` is the reason for 10 s, then ""."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._words, self._since_ns = "", 0

    def set(self, action: Action, error: str) -> None:
        self._words, self._since_ns = f"cannot {action}: {error}", self._clock.monotonic_ns()

    def __str__(self) -> str:
        is_visible = self._clock.monotonic_ns() - self._since_ns < REFUSAL_VISIBLE_NS
        return self._words if is_visible else ""


class Feed(Protocol):
    @property
    def can(self) -> Can: ...

    @property
    def is_over(self) -> bool:
        """Whether everything has been read and no more data will come."""

    @property
    def player(self) -> Player | None:
        """The controls of a replay, or None if the session is not replayed."""

    @property
    def trouble(self) -> str:
        """A sentence that says why data are missing or what has failed; "" if all is well."""

    @property
    def waiting(self) -> Sequence[Batch]:
        """The batches that `read` would return now, oldest first; () if only reading tells."""

    def read(self) -> Batch | None:
        """Return everything that is new since the last call as one batch, or None if nothing is new."""

    def order(self, order: Order) -> None:
        """Send a command, such as a stop, to the session, unless the feed lacks the ability for this command."""
