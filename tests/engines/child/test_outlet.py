"""Outlets keep, lose and tell exactly as they say, whatever the reader does, and never wait for it."""

import contextlib
import fcntl
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.child import message_frames
from edgetop.engines.child.loop import CAPACITY
from edgetop.engines.child.record_outlet import Outlet
from edgetop.session.records import INFERENCE
from tests.support.waiting import PATIENCE_S, wait_until

PAGE = 4096
F_SETPIPE_SZ = 1031  # fcntl has the name from Python 3.10 on, on Linux only

NOTHING = memoryview(b"")

Pair = tuple[int, bytes]


class Reader(Protocol):
    def __call__(self, size: int) -> list[Pair] | None:
        """The frames completed by the next `size` bytes; None where nothing is there to read."""


@contextlib.contextmanager
def pipe(max_waiting_bytes: int, pipe_bytes: int = PAGE) -> Iterator[tuple[Outlet, int]]:
    """An outlet on a pipe that holds little, and the end to read from."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    outlet = Outlet(write_fd, max_waiting_bytes)
    fcntl.fcntl(write_fd, F_SETPIPE_SZ, pipe_bytes)
    try:
        yield outlet, read_fd
    finally:
        for fd in (read_fd, write_fd):
            with contextlib.suppress(OSError):  # some tests close one end themselves
                os.close(fd)


@contextlib.contextmanager
def pipe_and_reader(max_waiting_bytes: int) -> Iterator[tuple[Outlet, Reader]]:
    decoder = message_frames.FrameReader()
    with pipe(max_waiting_bytes) as (outlet, fd):

        def read(size: int) -> list[Pair] | None:
            try:
                pairs = decoder.feed(os.read(fd, size))
                return [(kind, payload) for kind, payload in pairs if kind != message_frames.BACKLOG]
            except BlockingIOError:
                return None

        yield outlet, read


@contextlib.contextmanager
def queue_and_reader(max_waiting_bytes: int) -> Iterator[tuple[Outlet, Reader]]:
    outlet = Outlet(max_waiting_bytes=max_waiting_bytes)
    yield outlet, lambda _size: list(outlet.take()) or None


Opened = Callable[[int], contextlib.AbstractContextManager[tuple[Outlet, Reader]]]

BOTH = pytest.mark.parametrize("opened", [pipe_and_reader, queue_and_reader], ids=["pipe", "queue"])


class Sender:
    """Numbers its records from 0, so that a reader can see which are missing."""

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.sent = 0

    def flush(self, count: int) -> None:
        numbers = range(self.sent, self.sent + count)
        records = b"".join(message_frames.RECORD.pack(number, 1, 0, 0, 2, True) for number in numbers)
        self.outlet.put(memoryview(records), count)
        self.sent += count


def drain(outlet: Outlet, read: Reader) -> list[Pair]:
    """What is still on its way, for a reader that now keeps up."""
    came: list[Pair] = []
    outlet.put(NOTHING, 0)
    while (pairs := read(1 << 20)) is not None:
        came += pairs
        outlet.put(NOTHING, 0)
    return came


def numbers(payload: bytes) -> list[int]:
    return np.frombuffer(payload, INFERENCE)["t_ns"].tolist()


def account(came: list[Pair]) -> int:
    """How many records came or were told to be lost; each gap must be told where it is, exactly."""
    expected = 0
    for kind, payload in came:
        if kind == message_frames.LOST:
            expected += json.loads(payload)["count"]
        elif kind == message_frames.RECORDS:
            assert numbers(payload) == list(range(expected, expected + len(numbers(payload))))
            expected += len(numbers(payload))
    return expected


FLUSH = st.tuples(st.just("flush"), st.integers(0, 300))
READ = st.tuples(st.just("read"), st.integers(1, 6000))
SEND = st.tuples(st.just("send"), st.integers(0, 9))


@BOTH
@settings(deadline=None, max_examples=60)
@given(st.lists(st.one_of(FLUSH, FLUSH, READ, SEND), max_size=40), st.sampled_from([2000, 10_000, 1 << 20]))
def test_every_record_comes_in_order_or_is_reported_lost(
    opened: Opened,
    steps: list[tuple[str, int]],
    max_waiting: int,
) -> None:
    with opened(max_waiting) as (outlet, read):
        sender, came, said = Sender(outlet), [], []
        for step, amount in steps:
            if step == "flush":
                sender.flush(amount)
            elif step == "read":
                came += read(amount) or []
            else:
                said.append(amount)
                outlet.send(message_frames.LOG, {"n": amount})
        outlet.send(message_frames.ENDED, {})
        came += drain(outlet, read)
    assert came[-1][0] == message_frames.ENDED
    assert account(came) == sender.sent
    assert [json.loads(payload)["n"] for kind, payload in came if kind == message_frames.LOG] == said


@BOTH
def test_nothing_is_lost_before_the_limit(opened: Opened) -> None:
    with opened(30 * 300 * message_frames.RECORD.size) as (outlet, read):
        sender = Sender(outlet)
        for _ in range(29):
            sender.flush(300)
        came = drain(outlet, read)
    assert {kind for kind, _ in came} == {message_frames.RECORDS}
    assert account(came) == 29 * 300


@BOTH
def test_a_loss_is_told_before_the_end(opened: Opened) -> None:
    """After the end nobody listens."""
    with opened(1000) as (outlet, read):
        sender = Sender(outlet)
        for _ in range(100):
            sender.flush(100)
        outlet.send(message_frames.ENDED, {})
        came = drain(outlet, read)
    assert [kind for kind, _ in came][-2:] == [message_frames.LOST, message_frames.ENDED]
    assert account(came) == 10_000


@BOTH
def test_a_reader_that_has_caught_up_loses_nothing_more(opened: Opened) -> None:
    with opened(10_000) as (outlet, read):
        sender = Sender(outlet)
        for _ in range(30):
            sender.flush(100)
        outlet.send(message_frames.LOG, {})
        drain(outlet, read)
        sender.flush(100)
        ((kind, payload),) = drain(outlet, read)
    assert (kind, numbers(payload)) == (message_frames.RECORDS, list(range(3000, 3100)))


@BOTH
def test_a_full_buffer_goes_in_one_piece(opened: Opened) -> None:
    with opened(1 << 20) as (outlet, read):
        Sender(outlet).flush(CAPACITY)
        ((kind, payload),) = drain(outlet, read)
    assert (kind, len(numbers(payload))) == (message_frames.RECORDS, CAPACITY)


@pytest.mark.timeout(20)
def test_a_reader_that_never_reads_makes_nobody_wait() -> None:
    with pipe(max_waiting_bytes=PAGE) as (outlet, _):
        sender = Sender(outlet)
        for _ in range(200):
            sender.flush(100)
            outlet.send(message_frames.LOG, {"n": 1})


def test_what_is_sent_to_nobody_is_dropped_in_silence() -> None:
    with pipe(max_waiting_bytes=1 << 20) as (outlet, read_fd):
        sender = Sender(outlet)
        sender.flush(1000)
        os.close(read_fd)
        sender.flush(1000)
        outlet.send(message_frames.ENDED, {})
        outlet.finish()


def test_finishing_waits_for_a_reader_that_is_late() -> None:
    with pipe_and_reader(max_waiting_bytes=1 << 20) as (outlet, read):
        sender = Sender(outlet)
        for _ in range(30):
            sender.flush(300)
        outlet.send(message_frames.ENDED, {})
        finishing = threading.Thread(target=outlet.finish, daemon=True)
        finishing.start()
        came: list[Pair] = []
        wait_until(lambda: came.extend(read(PAGE) or []) or message_frames.ENDED in dict(came))
        finishing.join(PATIENCE_S)
        assert not finishing.is_alive()
    assert account(came) == sender.sent


def test_finishing_ends_when_the_reader_goes() -> None:
    with pipe(max_waiting_bytes=1 << 20) as (outlet, read_fd):
        Sender(outlet).flush(2000)
        finishing = threading.Thread(target=outlet.finish, daemon=True)
        finishing.start()
        os.close(read_fd)
        wait_until(lambda: not finishing.is_alive())


def test_a_queue_may_be_emptied_while_it_is_filled() -> None:
    """The loop's thread fills it and the conductor's takes, at the same time."""
    outlet = Outlet(max_waiting_bytes=50_000)
    came: list[Pair] = []

    def fill() -> None:
        sender = Sender(outlet)
        for _ in range(500):
            sender.flush(50)
        outlet.send(message_frames.ENDED, {})

    filling = threading.Thread(target=fill, daemon=True)
    filling.start()
    while not came or came[-1][0] != message_frames.ENDED:
        came += outlet.take()
    filling.join()
    assert account(came) == 25_000


def test_a_reader_is_told_which_records_have_waited() -> None:
    with pipe(max_waiting_bytes=20 * PAGE) as (outlet, fd):
        sender = Sender(outlet)
        sender.flush(20)
        while sender.sent * message_frames.RECORD.size < 3 * PAGE:
            sender.flush(20)
        decoder, kinds = message_frames.FrameReader(), []
        for _ in range(20):
            with contextlib.suppress(BlockingIOError):
                kinds += [
                    json.loads(payload)["is_over"] if kind == message_frames.BACKLOG else "records"
                    for kind, payload in decoder.feed(os.read(fd, PAGE))
                ]
            outlet.put(NOTHING, 0)
        sender.flush(20)
        kinds += [kind == message_frames.RECORDS for kind, _ in decoder.feed(os.read(fd, PAGE))]
        begin, end = kinds.index(False), kinds.index(True)
        assert set(kinds[:begin]) == set(kinds[begin + 1 : end]) == {"records"}
        assert kinds[end:] == [True, True]
        assert sum(kind == "records" for kind in kinds) * 20 == sender.sent - 20


def test_a_rest_sends_what_is_queued() -> None:
    """As long as a reader makes room: an engine whose turn is over has nothing else to do."""
    with pipe(max_waiting_bytes=20 * PAGE) as (outlet, fd):
        sender = Sender(outlet)
        while sender.sent * message_frames.RECORD.size < 10 * PAGE:
            sender.flush(20)
        read = bytearray()

        def keep_reading() -> None:
            os.set_blocking(fd, True)
            while len(read) < sender.sent * message_frames.RECORD.size:
                read.extend(os.read(fd, PAGE))

        reader = threading.Thread(target=keep_reading)
        reader.start()
        outlet.sleep(1.0)
        reader.join(PATIENCE_S)
        assert not reader.is_alive(), len(read)


def test_a_rest_that_nobody_reads_in_is_as_long_as_it_was_meant() -> None:
    with pipe(max_waiting_bytes=20 * PAGE) as (outlet, _):
        sender = Sender(outlet)
        while sender.sent * message_frames.RECORD.size < 2 * PAGE:
            sender.flush(20)
        begin = time.monotonic()
        outlet.sleep(0.02)
        assert time.monotonic() - begin >= 0.02
