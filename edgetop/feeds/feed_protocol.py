"""The interface of feeds: batches to read, and optional abilities."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Flag, auto
from typing import Any, Protocol

from edgetop.frozen import frozen
from edgetop.session.batch import Batch, merge
from edgetop.session.clock import Clock
from edgetop.session.events import Action, Order, Severity
from edgetop.session.records import NO_INFERENCES
from edgetop.session.seconds import NS

REFUSAL_VISIBLE_NS = 10 * NS


class Can(Flag):
    """The abilities of a feed. Keys for missing abilities are hidden."""

    NOTHING = 0
    STOP = auto()  # end the session
    MARK = auto()  # put a note into it
    PAUSE_RECORDING = auto()
    PROFILE = auto()  # have operators profiled now
    ORDERS = STOP | MARK | PAUSE_RECORDING | PROFILE
    SEEK = auto()  # go to any time of the session
    SPEED = auto()  # play, pause, and play faster or slower than it happened
    DETACH = auto()  # go on without its screen, and be found again
    VISIT = auto()  # it is another process's: leaving costs it nothing, and stopping it is asked about


@frozen
class Mark:
    """Something that happened, as a place to go to."""

    t_ns: int
    kind: str  # of the event
    severity: Severity


@frozen
class Transport:
    """The state of a playback: its position, its speed, and the session in which it is."""

    t_ns: int
    end_ns: int
    speed: float  # seconds of the session per second
    is_playing: bool
    marks: tuple[Mark, ...]  # of the whole session, in the order of time


class Player(Protocol):
    """The controls of a feed that can SEEK and SPEED."""

    @property
    def transport(self) -> Transport: ...

    def play(self, playing: bool) -> None:
        """Play or pause; at the end, start from the beginning."""

    def set_speed(self, speed: float) -> None: ...

    def seek(self, t_ns: int) -> None:
        """The next read gives the session up to then, from its start. A time outside of it means its nearer end."""

    def ahead(self) -> Batch | None:
        """The next piece of the session, for a reader that is ahead of the screen; None: there is no more."""

    def save_checkpoint(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """The state that all of `ahead` led to: the first batch after a later seek may bring a copy of it back."""


# A screen that does not read for so long gets the seconds of what it missed, not each inference.
MAX_WAITING_INFERENCES = 500_000
MAX_WAITING_BATCHES = 256  # merged beyond this


class BatchQueue:
    """Batches that one thread puts in and another takes out, as one batch."""

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

    def take(self) -> Batch | None:
        """Everything since the last time; None: nothing."""
        with self._lock:
            waiting, self._waiting, self._inferences = self._waiting, [], 0
        return merge(waiting) if waiting else None


class Refusal:
    """Why the last order was not carried out: shown for a time."""

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
        """Whether everything was read and nothing more will come."""

    @property
    def player(self) -> Player | None:
        """None: the session runs by its own clock."""

    @property
    def trouble(self) -> str:
        """Why there may be nothing to read, or what failed, in words; "": no trouble."""

    def read(self) -> Batch | None:
        """Everything since the last read as one batch, or None. Never waits, but to begin anew."""

    def order(self, order: Order) -> None:
        """Pass it to the run; nothing happens where the feed cannot."""
