"""Notes of the kernel about the events of this process: real page faults, and rings as the kernel fills them."""

import mmap
import os
import struct
import time
from pathlib import Path
from threading import get_native_id

import pytest

from edgetop.engines.child.profilers import event_samples
from edgetop.engines.child.profilers.event_samples import (
    ATTRIBUTES,
    COUNT,
    ENOUGH,
    EVERY,
    HEAD,
    HEAD_AT,
    RING_BYTES,
    SAMPLE,
    SAMPLED,
    SPARSER,
    TAIL_AT,
    EventSamples,
    records,
)
from tests.support import perf_events

TIMES = (7, 9, 12)


ALLOWED = pytest.mark.skipif(not perf_events.are_allowed(), reason="this kernel allows no perf events here")


def touch(pages: int) -> tuple[int, int]:
    """Write to new pages. Return when that began and ended."""
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        begin_ns = time.monotonic_ns()
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1
        return begin_ns, time.monotonic_ns()


@ALLOWED
def test_each_page_fault_is_noted_with_its_time() -> None:
    (begin_ns, end_ns), notes = EventSamples([], [get_native_id()]).during(lambda: touch(300))
    times, every = notes["page-faults"]
    assert every == 1
    assert 300 <= sum(begin_ns <= at_ns <= end_ns for at_ns in times) <= 330
    assert times == sorted(times)


@ALLOWED
def test_after_a_ring_was_too_small_fewer_events_are_noted() -> None:
    samples = EventSamples([], [get_native_id()])
    pages = 2 * RING_BYTES // 24
    assert "page-faults" not in samples.during(lambda: touch(pages))[1]
    times, every = samples.during(lambda: touch(pages))[1]["page-faults"]
    assert every == max(SPARSER, pages // ENOUGH)
    assert pages - every <= len(times) * every <= pages + 200


def test_nothing_is_left_open() -> None:
    before = sorted(one.name for one in Path("/proc/self/fd").iterdir())
    samples = EventSamples([("cycles", 0, 0)])
    samples.during(lambda: None)
    with pytest.raises(ZeroDivisionError):
        samples.during(lambda: 1 // 0)
    assert sorted(one.name for one in Path("/proc/self/fd").iterdir()) == before


class Ring(bytearray):
    """A ring that the kernel has filled up to a place."""

    def __init__(self, tail: int, content: bytes, pages: int = 2) -> None:
        super().__init__((1 + pages) * mmap.PAGESIZE)
        size = pages * mmap.PAGESIZE
        for place, byte in enumerate(content, tail):
            self[mmap.PAGESIZE + place % size] = byte
        struct.pack_into("<Q", self, HEAD_AT, tail + len(content))
        struct.pack_into("<Q", self, TAIL_AT, tail)


def sample(at_ns: int, event: int) -> bytes:
    return HEAD.pack(SAMPLED, 2, HEAD.size + SAMPLE.size) + SAMPLE.pack(at_ns, event)


def throttle(event: int) -> bytes:
    """A record PERF_RECORD_THROTTLE."""
    return HEAD.pack(5, 0, HEAD.size + 24) + struct.pack("<QQQ", 6, event, event)


@pytest.mark.parametrize("tail", [0, 24, 2 * mmap.PAGESIZE - 24, 2 * mmap.PAGESIZE - 12, 5 * mmap.PAGESIZE - 1])
def test_records_are_read_once_wherever_the_ring_begins(tail: int) -> None:
    ring = Ring(tail, b"".join(sample(at_ns, 5) for at_ns in TIMES))
    assert records(ring) == [(SAMPLED, SAMPLE.pack(at_ns, 5)) for at_ns in TIMES]
    assert records(ring) == []


def test_a_record_without_a_length_ends_the_reading() -> None:
    assert records(Ring(0, sample(7, 5) + HEAD.pack(SAMPLED, 0, 0) + sample(9, 5))) == [(SAMPLED, SAMPLE.pack(7, 5))]


class Kernel:
    """A kernel whose CPU counts what the test says: for each event, `(count, enabled, running)` and the notes."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, events: dict[int, tuple[tuple[int, int, int], list[int]]]
    ) -> None:
        self.events, self.opened = events, dict[int, int]()
        self.asked: list[tuple[int, ...]] = []
        self.throttled: list[int] = []  # events that it stopped for a while
        monkeypatch.setattr(event_samples, "mmap", self)
        monkeypatch.setattr(event_samples, "fcntl", self)
        monkeypatch.setattr(EventSamples, "_perf_event_open", lambda _, attributes, tid: self.open(attributes))
        monkeypatch.setattr(os, "read", self.read)
        monkeypatch.setattr(os, "close", lambda _: None)

    PAGESIZE = mmap.PAGESIZE

    def open(self, attributes: bytes) -> int:
        fields = ATTRIBUTES.unpack(attributes)
        self.asked.append(fields)
        config = fields[2]
        if config not in self.events:
            return -1
        self.opened[100 + config] = config
        return 100 + config

    def read(self, fd: int, size: int) -> bytes:
        return COUNT.pack(*self.events[self.opened[fd]][0])[:size]

    def ioctl(self, fd: int, request: int, argument: int | bytes) -> bytes:
        return struct.pack("<Q", 1_000 + self.opened[fd])

    def mmap(self, fd: int, size: int) -> "Filled":
        pairs = [(at_ns, 1_000 + config) for config, (_, times) in self.events.items() for at_ns in times]
        stops = b"".join(throttle(1_000 + config) for config in self.throttled)
        return Filled(0, stops + b"".join(sample(*pair) for pair in sorted(pairs)), pages=16)


class Filled(Ring):
    def close(self) -> None:
        pass


def test_events_that_share_a_counter_or_lost_notes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles are counted half of the time, and of five hundred thousand instructions there is no note."""
    kernel = Kernel(
        monkeypatch,
        {2: ((3, 1_000, 1_000), [5, 6, 7]), 11: ((300_000, 1_000, 500), [5]), 12: ((900_000, 1_000, 1_000), [6]),
         13: ((2_400, 1_000, 1_000), [8, 9])},
    )  # fmt: skip
    wanted = [("cycles", 4, 11), ("instructions", 4, 12), ("cache-misses", 4, 13), ("branch-misses", 4, 99)]
    samples = EventSamples(wanted, threads=[1])
    _, notes = samples.during(lambda: None)
    assert notes == {"page-faults": ([5, 6, 7], 1), "cache-misses": ([8, 9], EVERY["cache-misses"])}
    assert kernel.asked[0][:4] == (1, ATTRIBUTES.size, 2, 1)
    kernel.events[12] = ((900_000, 1_000, 1_000), [6, 7])
    assert samples.during(lambda: None)[1]["instructions"] == ([6, 7], SPARSER * EVERY["instructions"])


def test_a_few_notes_do_not_hide_that_half_of_them_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts that come too late are lost without a trace. A thread may lack one note, which is due at the end."""
    kernel = Kernel(monkeypatch, {2: ((0, 1_000, 1_000), []), 12: ((450_000, 1_000, 1_000), [6, 7])})
    samples = EventSamples([("instructions", 4, 12)], threads=[1])
    assert "instructions" not in samples.during(lambda: None)[1]
    kernel.events[12] = ((4 * 450_000, 1_000, 1_000), [6, 7, 8])
    assert samples.during(lambda: None)[1]["instructions"] == ([6, 7, 8], SPARSER * EVERY["instructions"])


def test_an_event_that_the_kernel_stopped_for_a_while_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its count agrees with its notes, because both stop."""
    kernel = Kernel(monkeypatch, {2: ((1, 1_000, 1_000), [5]), 12: ((200_000, 1_000, 1_000), [6, 7])})
    kernel.throttled = [12]
    samples = EventSamples([("instructions", 4, 12)], threads=[1])
    assert samples.during(lambda: None)[1] == {"page-faults": ([5], 1)}
    kernel.throttled = []
    assert samples.during(lambda: None)[1]["instructions"] == ([6, 7], SPARSER * EVERY["instructions"])


def test_a_call_with_far_too_many_events_is_noted_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(monkeypatch, {2: ((40_000, 1_000, 1_000), [5])})
    samples = EventSamples([], threads=[1])
    assert samples.during(lambda: None)[1] == {}
    kernel.events[2] = ((40_000, 1_000, 1_000), list(range(1, 1_001)))
    assert samples.during(lambda: None)[1] == {"page-faults": (list(range(1, 1_001)), 40_000 // ENOUGH)}


def test_the_pmus_of_two_kinds_of_cores_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    Kernel(monkeypatch, {11: ((100_000, 1_000, 600), [5]), 12: ((100_000, 1_000, 400), [6])})
    samples = EventSamples([("cycles", 8, 11), ("cycles", 9, 12)], threads=[1])
    assert samples.during(lambda: None)[1] == {"cycles": ([5, 6], EVERY["cycles"])}
