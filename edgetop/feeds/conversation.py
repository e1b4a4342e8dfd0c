"""One link to a relay, from its hello to its end: it turns bytes into checked batches.

What comes is a stranger's data. A stream that is not sound is a broken link, and no more than that.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from edgetop.control.wire import Answer, pack_order, parse_answer
from edgetop.errors import InputError
from edgetop.formatting import clean, cut
from edgetop.relay import wire
from edgetop.relay.encoding import Decoder, Position
from edgetop.relay.wire import Frame, FrameParser
from edgetop.session.batch import Batch
from edgetop.session.orders import Order
from edgetop.session.summary import Happened, parse_events

HELLO_S = 60.0  # for an answer, beside the time in which ssh asks for a password: Python starts slowly on small boards
MAX_QUOTED = 160  # characters of what else was said


class LinkEndedError(Exception):
    """The other side is gone."""


class UnreachableError(InputError):
    """No relay answers; another time one may."""


class MisfitError(InputError):
    """Another version answers; `version`: which, as it says itself."""

    def __init__(self, why: str, version: str) -> None:
        super().__init__(why)
        self.version = version


class Link(Protocol):
    def read(self, timeout_s: float) -> bytes:
        """Return the bytes that arrived. Raises LinkEndedError, or TimeoutError where nothing arrives in time."""

    def write(self, data: bytes) -> None:
        """Write without waiting. Raises LinkEndedError."""

    def answered(self) -> None:
        """A relay is at the other end."""

    def hang_up(self) -> None:
        """End the link from another thread; the reading thread then sees its end."""

    def close(self) -> str:
        """Why it ended, in words, where it did so by itself."""


# Of a session, or the newest; may somebody be asked for a password? Raises InputError.
Connect = Callable[[str | None, bool], Link]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The result of an order."""

    number: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Over:
    """The session is, and all of it was sent."""


@dataclass(frozen=True, slots=True)
class Summarised:
    """The changes of the session's summary, and its new events."""

    changed: dict[str, Any]  # not checked yet
    events: tuple[Happened, ...]


Received = tuple[Batch, Position] | Confirmed | Over | Summarised


class Conversation:
    def __init__(
        self, link: Link, where: str, position: Position | None, hello_s: float = HELLO_S,
        gates: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Compares versions and asks for what lies behind `position`; `where`: the board, in words.

        `gates`: asks for summaries in place of batches, with how these gates stand.
        Raises InputError where that board cannot or will not tell, UnreachableError where it may yet.
        """
        self._link, self._where = link, where
        self._parser, self._decoder = FrameParser(), Decoder()
        self._pending: list[Frame] = []
        try:
            self._begin({"position": position} if gates is None else {"summaries": {"gates": gates}}, hello_s)
        except LinkEndedError:
            raise UnreachableError(self._ended(link.close())) from None
        except TimeoutError:
            link.close()
            nothing = "and then nothing" if self._parser.noise else "nothing"
            began = "answered, and then " if self._parser.has_begun else ""
            words = f"{where} {began}said {self._quoted()}{nothing} for {hello_s:g} s"
            raise UnreachableError(words, f"what starts there? ssh {where} edgetop --version") from None
        except ValueError as error:
            link.close()
            raise UnreachableError(f"{where} said {self._quoted()}which no edgetop relay says: {error}") from None
        except BaseException:
            link.close()
            raise

    def _begin(self, asked: dict[str, Any], hello_s: float) -> None:
        hello = self._next(hello_s)
        self.version = hello.text("edgetop")
        if why := wire.misfit(hello, f"on {self._where}"):
            raise MisfitError(why, self.version)
        self._link.answered()
        self._link.write(wire.hello(**asked))
        begin = self._next(hello_s)
        self._fail(begin)
        self.session = begin.text("session")  # what to ask for to come back to it

    def _quoted(self) -> str:
        """Return the text that came before any answer, as the start of a sentence."""
        noise = " ".join(self._parser.noise.decode("utf-8", "replace").split())
        return f'"{cut(clean(noise), MAX_QUOTED)}", ' if noise else ""

    def _ended(self, why: str) -> str:
        said = self._quoted()
        return (why or f"{self._where} ended without an answer") + (f"; it said {said.rstrip(', ')}" if said else "")

    def _next(self, timeout_s: float) -> Frame:
        """Raises TimeoutError also where only noise comes for so long."""
        until_s = math.inf
        while not self._pending:
            left_s = min(timeout_s, until_s - time.monotonic())
            if left_s <= 0:
                raise TimeoutError
            data = self._link.read(left_s)
            until_s = min(until_s, time.monotonic() + timeout_s)
            self._pending += self._parser.feed(data)
        return self._pending.pop(0)

    def listen(self, timeout_s: float) -> Iterator[Received]:
        """Yield what the board sends. Raises LinkEndedError, TimeoutError and ValueError, each the end of this link.

        Raises InputError where the board says that it cannot go on.
        """
        if not self._pending:
            self._pending += self._parser.feed(self._link.read(timeout_s))
        while self._pending:
            frame = self._pending.pop(0)
            self._fail(frame)
            if frame.kind == wire.BATCH:
                yield self._decoder.decode(frame.payload)
            elif frame.kind == wire.ACK:
                number, line = frame.line
                yield Confirmed(number, parse_answer(line))
            elif frame.kind == wire.SUMMARY:
                yield _summarised(frame)
            elif frame.kind == wire.END:
                yield Over()

    def _fail(self, frame: Frame) -> None:
        if frame.kind == wire.FAILED:
            raise InputError(f"{self._where}: {frame.text('message')}")

    def order(self, number: int, order: Order) -> None:
        """Raises LinkEndedError, and ValueError where the note is too long."""
        self._link.write(wire.pack_line(wire.COMMAND, number, pack_order(order)))

    def send_alive(self) -> None:
        """Raises LinkEndedError."""
        self._link.write(wire.pack_message(wire.ALIVE))

    def hang_up(self) -> None:
        self._link.hang_up()

    def close(self) -> str:
        return self._link.close()


def _summarised(frame: Frame) -> Summarised:
    """Raises ValueError."""
    changed = frame.message.get("changed")
    if len(frame.payload) > wire.MAX_SUMMARY or not isinstance(changed, dict):
        raise ValueError("not a summary")
    return Summarised(changed, parse_events(frame.message.get("events", [])))
