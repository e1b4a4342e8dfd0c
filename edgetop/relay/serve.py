"""The board's side of a link: one thread that reads the journal once a second and sends frames to a viewer.

Reading the past (`past`) needs much memory, so another process does it and then exits. The process of this thread has a
low priority (nice) and exits with its viewer. A viewer that sends or accepts nothing for a minute counts as gone.
"""

import contextlib
import gc
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from edgetop.control.control_socket import Answer, pack_answer, parse_order
from edgetop.errors import EdgetopError
from edgetop.recording.journal import FellBehindError, Follower, JournalTail
from edgetop.recording.registry import successor
from edgetop.recording.rows import release_memory
from edgetop.recording.session_folder import JOURNAL, FolderHandle, open_folder
from edgetop.relay import relay_frames
from edgetop.relay.encoding import NOWHERE, SINGLE_HZ, Decoder, Encoder, Position, in_pieces, thinned
from edgetop.relay.relay_frames import Frame, FrameParser
from edgetop.session.batch import Batch
from edgetop.session.clock import Clock
from edgetop.session.events import Order
from edgetop.session.seconds import NS

PERIOD_NS = NS
PATIENCE_NS = 60 * NS  # time after which a silent viewer counts as gone
MAX_ORDERS = 16  # most orders at the same time
_PIPE_BYTES = 4096  # a pipe that poll(2) reports as writable takes this much without blocking (pipe(7): PIPE_BUF)

Past = Callable[[FolderHandle], Iterator[Frame]]  # a session's past: PLACE, then batches; ALIVE if that takes long
Give = Callable[[Path, Order], Answer]  # gives an order to a session; raises EdgetopError if it is refused


class Summaries(Protocol):
    """Makes summaries of a session from its batches, for a viewer of many boards."""

    def fold(self, batch: Batch) -> None: ...

    def message(self) -> Mapping[str, Any]:
        """Return what has changed since the previous call, as the content of the next SUMMARY frame."""


Summarize = Callable[[Sequence[str]], Summaries]  # takes gates; raises ValueError if one is not valid


class LinkLostError(Exception):
    """Raised by `Link` if the viewer at the other end is gone."""


class Link:
    """The two pipes between the board and a viewer: one to read from, one to write to."""

    def __init__(self, source: int, sink: int, clock: Clock) -> None:
        """Use the file descriptors `source`, to read from, and `sink`, to write to. The caller closes both."""
        self._source, self._sink, self._clock = source, sink, clock
        self._parser = FrameParser()
        self._unhandled: list[Frame] = []
        self._last_received_ns = clock.monotonic_ns()
        self._wake, self._woken = socket.socketpair()

    def send(self, frame: bytes) -> None:
        """Send the bytes of a frame. Raises LinkLostError if the viewer is gone, or accepts nothing for a minute."""
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
        """Make a `receive` that is waiting return at once. Can be called from any thread."""
        with contextlib.suppress(OSError):  # closed, if an order took longer than the link lasted
            self._wake.send(b"x")

    def receive(self, until_ns: int | None) -> list[Frame]:
        """Return frames from the viewer, or [] if none arrive until the time `until_ns`, or until `wake` is called.

        `until_ns` is a time of the clock's `monotonic_ns`; None means no limit. Raises LinkLostError if the viewer is
        gone, and WireError if its bytes are not frames.
        """
        if self._unhandled:
            frames, self._unhandled = self._unhandled, []
            return frames
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._woken.fileno(), select.POLLIN)
        now_ns = self._clock.monotonic_ns()
        deadline_ns = self._last_received_ns + PATIENCE_NS
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
            self._last_received_ns = self._clock.monotonic_ns()
            return list(self._parser.feed(data))
        if self._clock.monotonic_ns() >= deadline_ns:
            raise LinkLostError
        return []

    def give_back(self, frames: list[Frame]) -> None:
        """Put back received frames. The next `receive` returns them again."""
        self._unhandled = frames

    def close(self) -> None:
        self._wake.close()
        self._woken.close()


def serve(
    link: Link,
    find: Callable[[], Path],
    give: Give,
    past: Past,
    clock: Clock,
    period_ns: int = PERIOD_NS,
    summarize: Summarize | None = None,
) -> None:
    """Send a session to a viewer until the session has ended or the viewer is gone.

    `find` returns the session's folder; if `find` raises EdgetopError, the viewer gets the message. `give` carries out
    the viewer's commands, such as a stop. `past` reads the session's past. `period_ns` is the time between two reads of
    the journal. `summarize` creates the `Summaries` for a viewer that asks for summaries.
    """
    try:
        link.send(relay_frames.hello())
        hello = _hello(link)
        summaries = _summaries(hello, summarize) if summarize else None
        folder = find()
        link.send(relay_frames.pack_message(relay_frames.BEGIN, session=str(folder.absolute())))
        _Relay(link, folder, give, past, clock, period_ns, summaries).run(None if summaries else _position(hello))
    except (LinkLostError, ValueError):  # the viewer is gone, or speaks another protocol
        pass
    except EdgetopError as error:
        with contextlib.suppress(LinkLostError):
            link.send(relay_frames.pack_message(relay_frames.FAILED, message=str(error)[: relay_frames.MAX_WORDS]))


def _hello(link: Link) -> Frame:
    frames: list[Frame] = []
    while not frames:
        frames = link.receive(None)
    hello, *rest = frames
    if hello.kind != relay_frames.HELLO:
        raise ValueError("a viewer says hello first")
    if why := relay_frames.misfit(hello, "on the laptop"):
        raise EdgetopError(why)
    link.give_back(rest)
    return hello


def _summaries(hello: Frame, summarize: Summarize) -> Summaries | None:
    """Return the object that makes summaries for the viewer, or None if the viewer wants batches.

    `hello` is the viewer's first frame, which may have conditions in the form of `--fail-if`. Raises EdgetopError if a
    condition is invalid.
    """
    asked = hello.message.get("summaries")
    if asked is None:
        return None
    gates = asked.get("gates") if isinstance(asked, dict) else None
    if not isinstance(gates, list) or not all(isinstance(gate, str) for gate in gates):
        raise EdgetopError("gates that are no list of texts")
    try:
        return summarize(gates)
    except ValueError as error:
        raise EdgetopError(str(error)) from None


def _position(hello: Frame) -> Position | None:
    given = hello.message.get("position")
    if not isinstance(given, list) or len(given) != 3 or not all(type(n) is int and 0 <= n < 2**62 for n in given):
        return None
    segment, offset, until_ns = given
    return segment, offset, until_ns


class _Relay:
    def __init__(
        self, link: Link, folder: Path, give: Give, past: Past, clock: Clock, period_ns: int,
        summaries: Summaries | None,
    ) -> None:  # fmt: skip
        self._link = link
        self._summaries = summaries
        self._folder = open_folder(folder)
        self._past = past
        self._encoder = Encoder()
        self._give = give
        self._under_way: set[int] = set()  # numbers of orders without an answer
        self._done: deque[tuple[int, Answer]] = deque()
        self._clock = clock
        self._period_ns = period_ns
        self._until_ns = 0  # session time up to which everything was sent

    def run(self, position: Position | None) -> None:
        tail = self._follow(position) if position else None
        tail = tail or self._send_past()
        gc.collect()
        gc.freeze()  # present objects stay: the garbage collector need not visit them again
        release_memory()
        due_ns = self._clock.monotonic_ns()
        while tail:
            if tail.is_over:
                tail = None
                if following := successor(self._folder.name):  # the session in which the engine continues
                    self._folder = open_folder(following)
                    tail = self._send_past()
                continue
            due_ns = max(due_ns + self._period_ns, self._clock.monotonic_ns())
            while self._clock.monotonic_ns() < due_ns:
                self._exchange(due_ns)
            try:
                batch = tail.read(SINGLE_HZ)
            except FellBehindError:
                tail = self._send_past()
                continue
            if batch:
                self._send(thinned(batch, (batch.until_ns - self._until_ns) / NS), tail)
            elif self._summaries:
                self._link.send(
                    relay_frames.pack_message(relay_frames.ALIVE)
                )  # the session is silent, but the link works
        self._exchange(0)
        self._link.send(relay_frames.pack_message(relay_frames.END))

    def _follow(self, position: Position) -> JournalTail | None:
        """Return a reader of the journal after `position`, or None if the journal has lost that position."""
        segment, offset, self._until_ns = position
        try:
            follower = Follower(self._folder.path / JOURNAL, segment, offset)
        except OSError:
            return None
        return JournalTail(self._folder, follower, self._clock)

    def _send_past(self) -> JournalTail | None:
        """Send the session's past. Return a reader of what the session appends later, or None if the session is over.

        Raises EdgetopError if the past cannot be read.
        """
        tail, decoder = None, Decoder()
        for frame in self._past(self._folder):
            if frame.kind == relay_frames.PLACE:
                place = frame.number("segment"), frame.number("offset"), frame.number("until_ns")
                tail = self._follow(place) if frame.message.get("live") else None
                if tail is None and frame.message.get("live"):  # the session has just ended
                    return self._send_past()
            elif frame.kind == relay_frames.FAILED:
                raise EdgetopError(frame.text("message"))
            else:
                if self._summaries and frame.kind == relay_frames.BATCH:
                    self._summaries.fold(decoder.decode(frame.payload)[0])
                else:
                    self._link.send(relay_frames.seal(frame.kind, frame.payload))
                self._exchange(0)  # orders must not wait for a long past on a slow link
        self._encoder = Encoder()
        if tail:
            self._send(Batch(until_ns=self._until_ns), tail)
        elif self._summaries:
            self._send_summary(self._summaries)
        return tail

    def _send(self, batch: Batch, tail: JournalTail) -> None:
        self._until_ns = batch.until_ns
        if self._summaries:
            self._summaries.fold(batch)
            self._send_summary(self._summaries)
            return
        pieces = list(in_pieces(batch))
        for piece in pieces:
            position = (*tail.follower.place, batch.until_ns) if piece is pieces[-1] else NOWHERE
            self._link.send(relay_frames.seal(relay_frames.BATCH, self._encoder.encode(piece, position)))

    def _send_summary(self, summaries: Summaries) -> None:
        self._link.send(relay_frames.pack_message(relay_frames.SUMMARY, **summaries.message()))

    def _exchange(self, until_ns: int) -> None:
        for frame in self._link.receive(until_ns):
            if frame.kind == relay_frames.COMMAND:
                self._take_order(frame)
        while self._done:
            number, answer = self._done.popleft()
            self._under_way.discard(number)
            self._link.send(relay_frames.pack_line(relay_frames.ACK, number, pack_answer(answer)))

    def _take_order(self, frame: Frame) -> None:
        """Carry out the command in `frame` on a new thread, because a command, such as a stop, may take long.

        The command is refused if too many commands are being carried out.
        """
        number, line = frame.line
        if number in self._under_way or len(self._under_way) >= MAX_ORDERS:
            self._done.append((number, Answer("too many orders at once")))
            return
        self._under_way.add(number)
        threading.Thread(target=self._carry_out, args=(number, line), daemon=True).start()

    def _carry_out(self, number: int, line: bytes) -> None:
        try:
            answer = self._give(self._folder.name, parse_order(line))
        except (EdgetopError, OSError, ValueError) as refused:
            answer = Answer(str(refused) or type(refused).__name__)
        self._done.append((number, answer))
        self._link.wake()
