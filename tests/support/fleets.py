"""Boards of a fleet: links to real relays in this process, and boards that are trouble."""

import threading
from dataclasses import replace
from pathlib import Path

from edgetop.feeds.fleet_feed import Address, BoardView, Fleet
from edgetop.feeds.remote import LinkEndedError, UnreachableError
from edgetop.feeds.ssh import Target
from edgetop.relay import relay_frames
from edgetop.session.clock import SystemClock
from edgetop.session.session_summary import Summary
from tests.support.relays import LiveRecording, Pipes
from tests.support.scripts import Script
from tests.support.waiting import PATIENCE_S, wait_until

SOON = (0.01,)


def address(name: str, **more: object) -> Address:
    return Address(name, Target(f"pi@{name}"), **more)  # type: ignore[arg-type]


def view(name: str, state: str = "live", *, group: str = "", reason: str = "", **summary: object) -> BoardView:
    """One that has said this."""
    whole = replace(Summary(word="STEADY", level="good", words="STEADY"), **summary) if summary else None
    return BoardView(address(name, group=group), state, reason, whole, 1.0 if summary else None)  # type: ignore[arg-type]


class Saying:
    """A link on which a board says this, and then hangs; `ends`: or ends."""

    def __init__(self, *said: bytes, ends: bool = False, why: str = "") -> None:
        self._said, self._ends, self._why = list(said), ends, why
        self._left = threading.Event()
        self.heard = b""

    def __call__(self, _session: str | None, _attended: bool) -> "Saying":
        return self

    def read(self, _timeout_s: float) -> bytes:
        if self._said:
            return self._said.pop(0)
        if not self._ends:
            self._left.wait(PATIENCE_S)
        raise LinkEndedError

    def write(self, data: bytes) -> None:
        self.heard += data

    def answered(self) -> None:
        pass

    def hang_up(self) -> None:
        self._left.set()

    def close(self) -> str:
        return self._why


def unreachable(_session: str | None, _attended: bool) -> Saying:
    raise UnreachableError("no route to host")


def recorded(folder: Path, script: Script) -> tuple[LiveRecording, Pipes]:
    """A session that its writer still writes, and links to relays of it."""
    live, pipes = LiveRecording(folder, script.batches), Pipes(folder)
    pipes.live = live  # who has the links alone has a living writer
    return live, pipes


def fleet_of(gates: tuple[str, ...] = (), **connects: object) -> Fleet:
    """Started."""
    fleet = Fleet(
        [address(name) for name in connects], lambda of: connects[of.name], gates, SystemClock(), pauses_s=SOON  # type: ignore[arg-type,return-value]
    )  # fmt: skip
    fleet.start()
    return fleet


def wait_for(fleet: Fleet, name: str, state: str) -> BoardView:
    def find() -> BoardView | None:
        return next((v for v in fleet.views() if v.address.name == name and v.state == state), None)

    return wait_until(find)  # type: ignore[return-value]


HELLO = (relay_frames.hello(), relay_frames.pack_message(relay_frames.BEGIN, session="/x"))
