"""The board's side of a link: one thread that sleeps, reads the journal once a second, and writes frames.

It gives way to the model (nice), ends when its viewer does, and never outlives a link that is
dead without saying so: a viewer that is silent for a minute, or takes nothing for one, is gone.
"""

import contextlib
import gc
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from edgetop.control.wire import Answer, pack_answer, parse_order
from edgetop.errors import EdgetopError
from edgetop.relay import wire
from edgetop.relay.encoding import NOWHERE, Encoder, Position
from edgetop.relay.wire import Frame, FrameParser
from edgetop.session.clock import Clock
from edgetop.session.orders import Order
from edgetop.session.seconds import NS

if TYPE_CHECKING:
    from edgetop.relay.past import Judge
    from edgetop.relay.watched import Sent

PERIOD_NS = NS
PATIENCE_NS = 60 * NS  # with a viewer that says nothing, or takes nothing
ALIVE_EVERY_S = 5.0
MAX_ORDERS = 16  # under way at once
_PIPE_BYTES = 4096  # what a pipe takes without waiting once it says that it takes something (pipe(7): PIPE_BUF)

Give = Callable[[Path, Order], Answer]  # raises EdgetopError where the order is refused


class LinkLostError(Exception):
    """Nobody is at the other end any more."""


class Link:
    """The two pipes to a viewer."""

    def __init__(self, source: int, sink: int, clock: Clock) -> None:
        """Descriptors, which stay the caller's."""
        self._source, self._sink, self._clock = source, sink, clock
        self._parser = FrameParser()
        self._unheeded: list[Frame] = []
        self._heard_ns = clock.monotonic_ns()
        self._wake, self._woken = socket.socketpair()
        self._sending = threading.Lock()

    def send(self, frame: bytes) -> None:
        """From any thread. Raises LinkLostError where it is not taken."""
        with self._sending:
            self._send(frame)

    @contextlib.contextmanager
    def kept_alive(self, every_s: float = ALIVE_EVERY_S) -> Iterator[None]:
        """While it lasts, a viewer hears that somebody is at work."""
        is_over = threading.Event()

        def say() -> None:
            with contextlib.suppress(LinkLostError):
                while not is_over.wait(every_s):
                    self.send(wire.say(wire.ALIVE))

        thread = threading.Thread(target=say, name="alive", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _send(self, frame: bytes) -> None:
        poll = select.poll()
        poll.register(self._sink, select.POLLOUT)
        rest = memoryview(frame)
        while rest:
            ready = poll.poll(PATIENCE_NS // 1_000_000)
            if not ready or not ready[0][1] & select.POLLOUT:
                raise LinkLostError
            try:
                rest = rest[os.write(self._sink, rest[:_PIPE_BYTES]) :]
            except OSError:
                raise LinkLostError from None

    def wake(self) -> None:
        """Let `heard` return, whichever thread that is called from."""
        with contextlib.suppress(OSError):  # closed: an order that took longer than the link lasted
            self._wake.send(b"x")

    def heard(self, until_ns: int | None) -> list[Frame]:
        """What the viewer says until then, or until it says something. Raises LinkLostError, and ValueError."""
        if self._unheeded:
            frames, self._unheeded = self._unheeded, []
            return frames
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._woken.fileno(), select.POLLIN)
        now_ns = self._clock.monotonic_ns()
        deadline_ns = self._heard_ns + PATIENCE_NS
        until_ns = deadline_ns if until_ns is None else min(until_ns, deadline_ns)
        ready = {fd for fd, _ in poll.poll(max(0, until_ns - now_ns + 999_999) // 1_000_000)}
        if self._woken.fileno() in ready:
            self._woken.recv(_PIPE_BYTES)
        if self._source in ready:
            try:
                data = os.read(self._source, 65_536)
            except OSError:
                raise LinkLostError from None
            if not data:
                raise LinkLostError
            self._heard_ns = self._clock.monotonic_ns()
            return list(self._parser.feed(data))
        if self._clock.monotonic_ns() >= deadline_ns:
            raise LinkLostError
        return []

    def give_back(self, frames: list[Frame]) -> None:
        """They are what is heard next."""
        self._unheeded = frames

    def close(self) -> None:
        self._wake.close()
        self._woken.close()


def serve(
    link: Link,
    find: Callable[[], Path],
    give: Give,
    clock: Clock,
    period_ns: int = PERIOD_NS,
    judge: "Judge | None" = None,
) -> None:
    """Show a viewer the session that `find` finds, until either is over. `find` raises EdgetopError.

    `judge`: of a long past, on the board.
    """
    try:
        link.send(wire.hello())
        hello = _hello(link)
        position = _position(hello)
        folder = find()
        link.send(wire.say(wire.BEGIN, session=str(folder.absolute())))
        _Relay(link, folder, give, clock, period_ns, judge).run(position)
    except (LinkLostError, ValueError):  # nobody is left to tell, or one that speaks another language
        pass
    except EdgetopError as error:
        _tell(link, str(error))


def _tell(link: Link, message: str) -> None:
    with contextlib.suppress(LinkLostError):
        link.send(wire.say(wire.FAILED, message=message[: wire.MAX_WORDS]))


def _hello(link: Link) -> Frame:
    frames: list[Frame] = []
    while not frames:
        frames = link.heard(None)
    hello, *rest = frames
    if hello.kind != wire.HELLO:
        raise ValueError("a viewer says hello first")
    if why := wire.misfit(hello, "on the laptop"):
        raise EdgetopError(why)
    link.give_back(rest)
    return hello


def _position(hello: Frame) -> Position | None:
    given = hello.message.get("position")
    if not isinstance(given, list) or len(given) != 5 or not all(type(n) is int and -1 <= n < 2**62 for n in given):
        return None
    seconds, readings, events, bursts, last_ns = given
    return None if seconds < 0 else (seconds, readings, events, bursts, last_ns)


class _Relay:
    def __init__(
        self, link: Link, folder: Path, give: Give, clock: Clock, period_ns: int, judge: "Judge | None"
    ) -> None:
        from edgetop.relay.watched import WatchedSession  # noqa: PLC0415  loads Arrow: not before versions are compared

        self._link = link
        self._session = WatchedSession(folder, judge)
        self._encoder = Encoder()
        self._orders = _Orders(folder, give, link)
        self._clock = clock
        self._period_ns = period_ns

    def run(self, position: Position | None) -> None:
        with self._link.kept_alive():  # of a long past, a small board needs long to judge it
            self._send(self._session.begin(position))
        gc.freeze()  # what is there by now stays, and is not looked through for garbage any more
        due_ns = self._clock.monotonic_ns()
        while not self._session.is_over:
            due_ns = max(due_ns + self._period_ns, self._clock.monotonic_ns())
            while self._clock.monotonic_ns() < due_ns:
                self._talk(due_ns)
            self._send(self._session.read())
        self._talk(0)
        self._link.send(wire.say(wire.END))

    def _send(self, batches: Iterable["Sent"]) -> None:
        for batch, position in batches:
            self._link.send(wire.seal(wire.BATCH, self._encoder.encode(batch, position)))
            if position == NOWHERE:  # a long past over a slow link: orders do not wait for it
                self._talk(0)

    def _talk(self, until_ns: int) -> None:
        for frame in self._link.heard(until_ns):
            if frame.kind == wire.COMMAND:
                self._orders.take(frame)
        for number, answer in self._orders.done():
            self._link.send(wire.seal_line(wire.ACK, number, pack_answer(answer)))


class _Orders:
    """Orders under way. Each has a thread: a stop is done when the recording is final."""

    def __init__(self, folder: Path, give: Give, link: Link) -> None:
        self._folder, self._give, self._link = folder, give, link
        self._under_way: set[int] = set()
        self._done: deque[tuple[int, Answer]] = deque()

    def take(self, frame: Frame) -> None:
        number, line = frame.line
        if number in self._under_way or len(self._under_way) >= MAX_ORDERS:
            self._done.append((number, Answer("too many orders at once")))
            return
        self._under_way.add(number)
        threading.Thread(target=self._carry_out, args=(number, line), daemon=True).start()

    def _carry_out(self, number: int, line: bytes) -> None:
        try:
            answer = self._give(self._folder, parse_order(line))
        except (EdgetopError, OSError, ValueError) as refused:
            answer = Answer(str(refused) or type(refused).__name__)
        self._done.append((number, answer))
        self._link.wake()

    def done(self) -> list[tuple[int, Answer]]:
        """Those that came to an end since the last time."""
        found = []
        while self._done:
            found.append(self._done.popleft())
            self._under_way.discard(found[-1][0])
        return found
