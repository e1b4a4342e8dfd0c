"""The interface of feeds: reading batches, and optional abilities."""

import threading
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
    """Abilities of a feed. Keys that need a missing ability are hidden."""

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
    """An event to seek to."""

    t_ns: int
    kind: str  # kind of the event
    severity: Severity


@frozen
class Transport:
    """The state of a playback: its position and speed, and the length and the marks of the session."""

    t_ns: int
    end_ns: int
    speed: float  # seconds of the session per second
    is_playing: bool
    marks: tuple[Mark, ...]  # marks of the whole session, ordered by time


class Player(Protocol):
    """The controls of a feed that can SEEK and SPEED."""

    @property
    def transport(self) -> Transport: ...

    def play(self, playing: bool) -> None:
        """Play or pause. Playing at the end of the session starts from its beginning."""

    def set_speed(self, speed: float) -> None: ...

    def seek(self, t_ns: int) -> None:
        """Make the next read return the session from its start up to `t_ns`, which is clipped to the session."""

    def ahead(self) -> Batch | None:
        """Return the next piece of the session for a reader that is ahead of the screen, or None at the end."""

    def checkpoint_ns(self) -> int | None:
        """Return the time up to which `ahead` was read if the reader must save a checkpoint there, or else None.

        The first batch after a later seek may resume from that time.
        """


# If more inferences than this wait to be read, a screen gets the seconds that it missed instead of every inference.
MAX_WAITING_INFERENCES = 500_000
MAX_WAITING_BATCHES = 256  # more waiting batches are merged


class BatchQueue:
    """A queue of batches between two threads. All waiting batches are taken as one batch."""

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
        """Return everything since the last call as one batch, or None."""
        with self._lock:
            waiting, self._waiting, self._inferences = self._waiting, [], 0
        return merge(waiting) if waiting else None


class Refusal:
    """The reason why the last order was not carried out, which is shown for some time."""

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
        """Whether everything has been read and nothing more will come."""

    @property
    def player(self) -> Player | None:
        """Return the controls of a replay, or None for a session that is not a replay."""

    @property
    def trouble(self) -> str:
        """Return a sentence on why data are missing or what failed, or "" if all is well."""

    def read(self) -> Batch | None:
        """Return everything since the last read as one batch, or None. It waits only when it starts again."""

    def order(self, order: Order) -> None:
        """Pass an order to the run. Do nothing if the feed lacks the ability."""
