"""What every feed is: batches to read, and the few things it may be able to do."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any, Protocol

from edgetop.session.batch import Batch
from edgetop.session.events import Severity
from edgetop.session.orders import Order


class Can(Flag):
    """What a feed is able to do. Keys for the rest are absent."""

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


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened, as a place to go to."""

    t_ns: int
    kind: str  # of the event
    severity: Severity


@dataclass(frozen=True, slots=True)
class Transport:
    """Where playback stands, and in what."""

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
        """At the end, playing begins anew."""

    def set_speed(self, speed: float) -> None: ...

    def seek(self, t_ns: int) -> None:
        """The next read gives the session up to then, anew; what lies outside of it is its nearer end."""

    def ahead(self) -> Batch | None:
        """The next piece of the session, for who looks ahead of what is shown; None: there is no more."""

    def save_checkpoint(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """The state that all of `ahead` led to: the first batch after a later seek may bring a copy of it back."""

    def first_above(self, sensor_ids: Collection[str], level: float) -> int | None:
        """When one of these sensors first read more than that; None: never."""


class Feed(Protocol):
    @property
    def can(self) -> Can: ...

    @property
    def is_over(self) -> bool:
        """Nothing more will come, and everything that came has been read."""

    @property
    def player(self) -> Player | None:
        """None: the session goes by its own clock."""

    @property
    def trouble(self) -> str:
        """Why there may be nothing to read, or what could not be done, in words; "": all is well."""

    def read(self) -> Batch | None:
        """Everything since the last read as one batch, or None. Never waits, but to begin anew."""

    def order(self, order: Order) -> None:
        """Pass it to the run; nothing happens where the feed cannot."""
