"""One link to a relay, from its hello to its end: bytes in, checked batches out.

What comes is a stranger's data. A stream that is not sound is a broken link, and no more than that.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from edgetop.errors import InputError
from edgetop.relay import wire
from edgetop.relay.encoding import Decoder, Position
from edgetop.relay.wire import Frame, FrameParser
from edgetop.session.batch import Batch

HELLO_S = 30.0  # for an answer where nobody has to type a password


class LinkEndedError(Exception):
    """The other side is gone."""


class UnreachableError(InputError):
    """No relay answers; another time one may."""


class Link(Protocol):
    def read(self, timeout_s: float | None) -> bytes:
        """What has come. Raises LinkEndedError, and TimeoutError where nothing does for so long."""

    def write(self, data: bytes) -> None:
        """Without waiting. Raises LinkEndedError."""

    def hang_up(self) -> None:
        """From another thread than the one that reads, which then finds the link ended."""

    def close(self) -> str:
        """Why it ended, in words, where it did so by itself."""


# Of a session, or the newest; may somebody be asked for a password? Raises InputError.
Connect = Callable[[str | None, bool], Link]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What became of an order."""

    number: int
    error: str  # nothing: it was done


@dataclass(frozen=True, slots=True)
class Over:
    """The session is, and all of it was sent."""


Said = tuple[Batch, Position] | Confirmed | Over


class Conversation:
    def __init__(self, link: Link, where: str, position: Position | None, *, attended: bool) -> None:
        """Compares versions and asks for what lies behind `position`; `where`: the board, in words.

        Raises InputError where that board cannot or will not tell, UnreachableError where it may yet.
        """
        self._link, self._where = link, where
        self._parser, self._decoder = FrameParser(), Decoder()
        self._pending: list[Frame] = []
        timeout_s = None if attended else HELLO_S
        try:
            self._compare(self._next(timeout_s))
            self._link.write(wire.hello(position=position))
            begin = self._next(timeout_s)
            self._fail(begin)
            self.session = begin.words("session")  # what to ask for to come back to it
        except (LinkEndedError, TimeoutError, ValueError) as error:
            raise UnreachableError(link.close() or _words(error, where)) from None
        except InputError:
            link.close()
            raise

    def _compare(self, hello: Frame) -> None:
        if why := wire.misfit(hello, f"on {self._where}"):
            raise InputError(why)

    def _next(self, timeout_s: float | None) -> Frame:
        while not self._pending:
            self._pending += self._parser.feed(self._link.read(timeout_s))
        return self._pending.pop(0)

    def listen(self, timeout_s: float) -> Iterator[Said]:
        """What the board says next. Raises LinkEndedError, TimeoutError and ValueError, all the end of this link.

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
                yield Confirmed(frame.number("number"), frame.words("error"))
            elif frame.kind == wire.END:
                yield Over()

    def _fail(self, frame: Frame) -> None:
        if frame.kind == wire.FAILED:
            raise InputError(f"{self._where}: {frame.words('message')}")

    def order(self, number: int, order: str, note: str) -> None:
        """Raises LinkEndedError."""
        self._link.write(wire.say(wire.COMMAND, number=number, do=order, note=note))

    def say_alive(self) -> None:
        """Raises LinkEndedError."""
        self._link.write(wire.say(wire.ALIVE))

    def hang_up(self) -> None:
        self._link.hang_up()

    def close(self) -> str:
        return self._link.close()


def _words(error: Exception, where: str) -> str:
    return f"{where}: {error}" if str(error) else f"{where} does not answer"
