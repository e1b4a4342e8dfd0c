"""Follow a session on another machine, where `edgetop relay` sends the session over a link that may break at any time.

A `Conversation` covers one link from the first message to the end, and turns received bytes into checked batches. An
invalid stream is treated as a broken link.

A `RemoteFeed` has a thread that reads. When the link breaks, this thread reconnects after increasing pauses and asks
for the data that were missed. Meanwhile `trouble` describes the state.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from edgetop.control.control_socket import Answer, pack_order, parse_answer
from edgetop.errors import InputError
from edgetop.feeds.feed_protocol import BatchQueue, Can, Refusal
from edgetop.formatting import clean, cut
from edgetop.frozen import frozen
from edgetop.relay import relay_frames
from edgetop.relay.encoding import NOWHERE, Decoder, Position
from edgetop.relay.relay_frames import Frame, FrameParser
from edgetop.session.batch import Batch
from edgetop.session.clock import Clock
from edgetop.session.events import Action, Order
from edgetop.session.seconds import NS
from edgetop.session.session_summary import Happened, parse_events

HELLO_S = 60.0  # time for the answer, not counting the password prompt; Python starts slowly on small boards
MAX_QUOTED = 160  # most characters of unexpected output that an error quotes
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # pauses before each attempt; the last one is repeated
SILENCE_S = 15.0  # a longer silence means a broken link, since a relay sends something every second
REPORTED_SILENCE_NS = 4 * NS
ALIVE_EVERY_NS = 15 * NS


class LinkEndedError(Exception):
    """Raised if the other end has closed the link."""


class UnreachableError(InputError):
    """Raised if edgetop on the board does not answer at present. A later attempt may succeed."""


class MisfitError(InputError):
    """Raised if another version of edgetop answers. `version` is that version, such as "0.9.0"."""

    def __init__(self, why: str, version: str) -> None:
        super().__init__(why)
        self.version = version


class Link(Protocol):
    def read(self, timeout_s: float) -> bytes:
        """Return the bytes that have arrived, after waiting at most `timeout_s` seconds for the first.

        Raises TimeoutError if none arrive, and LinkEndedError if the other end has closed the link.
        """

    def write(self, data: bytes) -> None:
        """Write bytes without waiting. Raises LinkEndedError if the link does not accept them."""

    def answered(self) -> None:
        """Tell the link that edgetop on the board has answered, so that ssh asks for no password any more."""

    def hang_up(self) -> None:
        """End the link. A thread that waits in `read` then returns."""

    def close(self) -> str:
        """Close the link. If it had already ended by itself, return the reason, else ""."""


# Connects to a session, or to the newest one. The flag says whether ssh may ask for a password. Raises InputError.
Connect = Callable[[str | None, bool], Link]


@frozen
class Confirmed:
    """The board's answer to the command that was sent with `number`."""

    number: int
    answer: Answer


@frozen
class Over:
    """Says that the session is over and the board has sent everything."""


@frozen
class Summarised:
    """The fields of a session's summary that have changed, and the session's new events."""

    changed: dict[str, Any]  # changed fields, not checked yet
    events: tuple[Happened, ...]


Received = tuple[Batch, Position] | Confirmed | Over | Summarised


class Conversation:
    def __init__(
        self, link: Link, where: str, position: Position | None, hello_s: float = HELLO_S,
        gates: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """Greet the board over `link` and ask for the data after `position`, or for all data if `position` is None.

        `where` is the board's name. `hello_s` is how long the board may take to answer. With `gates`, conditions in the
        form of `--fail-if`, the board is asked for summaries that say whether these hold, instead of data. Raises
        InputError if the board refuses, and UnreachableError if a later attempt may succeed.
        """
        self.link, self._where = link, where
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
        if why := relay_frames.misfit(hello, f"on {self._where}"):
            raise MisfitError(why, self.version)
        self.link.answered()
        self.link.write(relay_frames.hello(**asked))
        begin = self._next(hello_s)
        self._fail(begin)
        self.session = begin.text("session")  # path to request when reconnecting

    def _quoted(self) -> str:
        """Return what the board printed before its greeting, as the start of a sentence, or "" if there was nothing."""
        noise = " ".join(self._parser.noise.decode("utf-8", "replace").split())
        return f'"{cut(clean(noise), MAX_QUOTED)}", ' if noise else ""

    def _ended(self, why: str) -> str:
        said = self._quoted()
        return (why or f"{self._where} ended without an answer") + (f"; it said {said.rstrip(', ')}" if said else "")

    def _next(self, timeout_s: float) -> Frame:
        """Return the next message from the board.

        Raises TimeoutError if nothing arrives for `timeout_s` seconds, or if the message takes longer than that to
        arrive.
        """
        until_s = math.inf
        while not self._pending:
            left_s = min(timeout_s, until_s - time.monotonic())
            if left_s <= 0:
                raise TimeoutError
            data = self.link.read(left_s)
            until_s = min(until_s, time.monotonic() + timeout_s)
            self._pending += self._parser.feed(data)
        return self._pending.pop(0)

    def listen(self, timeout_s: float) -> Iterator[Received]:
        """Yield what the board sends: batches with their positions, answers to commands, summaries, and the end.

        Waits at most `timeout_s` seconds for new bytes. Raises LinkEndedError, TimeoutError or ValueError if the link
        is of no more use, and InputError if the board reports that it cannot continue.
        """
        if not self._pending:
            self._pending += self._parser.feed(self.link.read(timeout_s))
        while self._pending:
            frame = self._pending.pop(0)
            self._fail(frame)
            if frame.kind == relay_frames.BATCH:
                yield self._decoder.decode(frame.payload)
            elif frame.kind == relay_frames.ACK:
                number, line = frame.line
                yield Confirmed(number, parse_answer(line))
            elif frame.kind == relay_frames.SUMMARY:
                changed = frame.message.get("changed")
                if len(frame.payload) > relay_frames.MAX_SUMMARY or not isinstance(changed, dict):
                    raise ValueError("not a summary")
                yield Summarised(changed, parse_events(frame.message.get("events", [])))
            elif frame.kind == relay_frames.END:
                yield Over()

    def _fail(self, frame: Frame) -> None:
        if frame.kind == relay_frames.FAILED:
            raise InputError(f"{self._where}: {frame.text('message')}")

    def order(self, number: int, order: Order) -> None:
        """Send a command, such as a stop. The board's answer will have the same `number`.

        Raises LinkEndedError if the link is broken, and ValueError if the note in `order` is too long.
        """
        self.link.write(relay_frames.pack_line(relay_frames.COMMAND, number, pack_order(order)))

    def send_alive(self) -> None:
        """Tell the board that this viewer is still there. Raises LinkEndedError if the link is broken."""
        self.link.write(relay_frames.pack_message(relay_frames.ALIVE))


class RemoteFeed:
    player = None
    waiting: Sequence[Batch] = ()  # only reading tells

    def __init__(self, connect: Connect, where: str, clock: Clock, pauses_s: Sequence[float] = PAUSES_S) -> None:
        """Connect, and wait until the board has named its session.

        `connect` returns a new link to the board. `where` is the board's name. `pauses_s` are the pauses before
        attempts to reconnect. Raises InputError if there is nothing to watch.
        """
        self._connect, self._where, self._clock, self._pauses_s = connect, where, clock, pauses_s
        self._waiting = BatchQueue()
        self._position: Position | None = None
        self._orders: dict[int, Action] = {}  # unconfirmed orders by number
        self._last_order = 0
        self._is_over = False
        self._lost = False
        self._attempts = 0  # attempts to reconnect since the last data
        self._retry_ns = 0  # time of the next attempt while the link is lost
        self._refusal = Refusal(clock)
        self._last_received_ns = self._last_alive_ns = clock.monotonic_ns()
        self.failure = ""  # sentence on why the feed gave up
        self.arrived = threading.Event()  # set when there is something to read
        self._leaving = threading.Event()
        self._conversation = Conversation(connect(None, True), where, None)
        self.session = self._conversation.session
        self._thread = threading.Thread(target=self._run, name="remote session", daemon=True)
        self._thread.start()

    # Called by the thread of the screen.

    @property
    def can(self) -> Can:
        if self._is_over:
            return Can.NOTHING
        return Can.VISIT if self._lost else Can.VISIT | Can.ORDERS

    @property
    def is_over(self) -> bool:
        return self._is_over and not self._waiting

    @property
    def trouble(self) -> str:
        now_ns = self._clock.monotonic_ns()
        if self.failure:
            return f"LINK LOST: {self.failure}"
        if self._is_over:
            return ""
        if self._lost:
            left_s = math.ceil((self._retry_ns - now_ns) / NS)
            return f"LINK LOST, reconnecting in {left_s} s" if left_s > 0 else "LINK LOST, reconnecting"
        if refusal := str(self._refusal):
            return refusal
        silent_ns = now_ns - self._last_received_ns
        return f"LINK SILENT for {silent_ns // NS} s" if silent_ns > REPORTED_SILENCE_NS else ""

    def read(self) -> Batch | None:
        self.arrived.clear()
        return self._waiting.take()

    def order(self, order: Order) -> None:
        if Can.STOP not in self.can:
            return
        self._last_order += 1
        self._orders[self._last_order] = order.do
        try:
            self._conversation.order(self._last_order, order)
        except (LinkEndedError, ValueError) as error:
            self._confirm(self._last_order, str(error) or "the link is lost")

    def close(self, timeout_s: float) -> tuple[Action, ...]:
        """Wait for the answers to commands, up to `timeout_s` seconds. Then leave the session; it continues on the
        board.

        Return the kinds of the commands without an answer, such as "mark".
        """
        deadline_ns = self._clock.monotonic_ns() + int(timeout_s * NS)
        while self._orders and Can.STOP in self.can and self._clock.monotonic_ns() < deadline_ns:
            self.arrived.wait(0.1)
            self.arrived.clear()
        unconfirmed = tuple(self._orders.values())  # the end of the link does not show their result
        self._leaving.set()
        self._conversation.link.hang_up()
        self._thread.join(timeout_s)
        return unconfirmed

    # Called by the reading thread.

    def _run(self) -> None:
        while not self._leaving.is_set() and not self._is_over:
            self._step()
        self._conversation.link.close()
        self.arrived.set()

    def _step(self) -> None:
        try:
            if self._lost:
                self._reconnect()
            else:
                self._listen()
        except (LinkEndedError, TimeoutError, ValueError, UnreachableError):
            self._lose_link()
        except InputError as error:
            self.failure = str(error)
            self._is_over = True

    def _listen(self) -> None:
        for received in self._conversation.listen(SILENCE_S):
            self._handle(received)
        self._last_received_ns = (
            self._clock.monotonic_ns()
        )  # even a part of a message counts, since a slow link may need minutes for it
        if self._last_received_ns - self._last_alive_ns >= ALIVE_EVERY_NS:
            self._last_alive_ns = self._last_received_ns
            self._conversation.send_alive()

    def _handle(self, received: Received) -> None:
        if isinstance(received, Over):
            self._orders.clear()  # the end confirms a stop, and other orders no longer matter
            self._is_over = True
        elif isinstance(received, Confirmed):
            self._confirm(received.number, received.answer.error if received.answer.is_refusal else "")
        elif not isinstance(received, tuple):
            raise ValueError("an unrequested summary")  # noqa: TRY004  a broken link, as any that is unsound
        else:
            batch, position = received
            self._attempts = 0
            self._position = None if position == NOWHERE else position
            self._waiting.put(batch)
            self.arrived.set()

    def _confirm(self, number: int, error: str) -> None:
        action = self._orders.pop(number, None)
        if action and error:
            self._refusal.set(action, clean(error))
        self.arrived.set()

    def _lose_link(self) -> None:
        if not self._lost:
            self._lost, self._retry_ns = True, 0
            self._conversation.link.close()
        for number in tuple(self._orders):
            self._confirm(number, "the link was lost before it was confirmed")

    def _reconnect(self) -> None:
        pause_s = self._pauses_s[min(self._attempts, len(self._pauses_s) - 1)]
        self._attempts += 1
        self._retry_ns = self._clock.monotonic_ns() + int(pause_s * NS)
        self.arrived.set()
        if self._leaving.wait(pause_s):
            return
        link = self._connect(self.session, False)
        self._conversation = Conversation(link, self._where, self._position)
        self._last_received_ns = self._last_alive_ns = self._clock.monotonic_ns()
        self._lost = False
