"""Count what the CPU and the kernel do in each operator of an instrumented inference.

A runtime reports when its operators began and ended, but no other code can run at these borders to read a counter. So
the kernel is asked to note the time of every n-th event of each thread: of every page fault, and of every hundred
thousandth cycle. The notes between the borders of an operator belong to the operator, and its count is their number
times n. The kernel writes the notes to a ring (memory that it shares with this process), one for each thread. Nothing
is noted between instrumented inferences.

Sources: perf_event_open(2); include/uapi/linux/perf_event.h; tools/perf/Documentation/perf-record.txt.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import struct
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

# perf_event_attr up to `clockid`, which every kernel since 4.1 takes: type, size, config, sample_period, sample_type,
# read_format, flags, wakeup_events, bp_type, config1, config2, branch_sample_type, sample_regs_user,
# sample_stack_user, clockid.
ATTRIBUTES = struct.Struct("<IIQQQQQIIQQQQIi")
SAMPLE_TIME, SAMPLE_ID = 1 << 2, 1 << 6
DISABLED, EXCLUDE_KERNEL, EXCLUDE_HV, USE_CLOCK = 1 << 0, 1 << 5, 1 << 6, 1 << 25
READ_TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING
CLOCK_MONOTONIC = 1
CLOSE_BY_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
ENABLE, DISABLE, SET_OUTPUT, SET_PERIOD, GET_ID = 0x2400, 0x2401, 0x2405, 0x40082404, 0x80082407
COUNT = struct.Struct("<QQQ")  # what a read returns: value, time enabled, time running
HEAD = struct.Struct("<IHH")  # the beginning of a record: type, misc, size
SAMPLE = struct.Struct("<QQ")  # time in ns, the kernel's number of the event
SAMPLED = 9  # PERF_RECORD_SAMPLE
THROTTLED = 5  # PERF_RECORD_THROTTLE: the kernel stops an event that is noted too often (perf_event_max_sample_rate)
THROTTLE = struct.Struct("<QQQ")  # time in ns, the kernel's number of the event, of the stream
HEAD_AT, TAIL_AT = 1024, 1032  # places in the first page of a ring
_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241}  # of the system call
TASKS = "/proc/self/task"
RING_BYTES = 65_536  # of a thread: 2,700 notes
MOST_THREADS = 16  # as many rings fit into the memory that a user without privileges may lock (perf_event_mlock_kb)
MOST_EVENTS = 16  # of all PMUs together

# Events of which one is noted at first. Choice: at 1 GHz a note of cycles each 0.1 ms, which costs about a microsecond.
EVERY = {"page-faults": 1, "cycles": 100_000, "instructions": 100_000, "cache-misses": 1_000, "branch-misses": 1_000}
PAGE_FAULTS = ("page-faults", 1, 2)  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS
# How many times fewer events are noted, at least, after a ring was too small; and how many notes of a call are enough.
SPARSER, ENOUGH = 4, 1_000
SPARSEST = 1 << 40
COUNTED = 0.99  # share of the time in which an event must have been counted; the PMUs are read one after another

# By event: the times of its notes in ns of CLOCK_MONOTONIC, ascending, and how many events a note stands for.
Notes = Dict[str, Tuple[List[int], int]]


class EventSamples:
    """Notes the times of events of all threads of this process, during calls that are made through `during`.

    Without permission, or in a kernel without perf events, nothing is noted.
    """

    def __init__(self, events: Sequence[Sequence[Any]], threads: Optional[Sequence[int]] = None) -> None:
        """Prepare to note page faults and `events`, which are [name, type, config] lists.

        `name` is a key of EVERY, and an event with another name is left out. `type` and `config` are the numbers that
        perf_event_open(2) takes. A name may occur several times, once for each kind of core. `threads` are the ids of
        the threads; None means all threads of this process.
        """
        wanted = [PAGE_FAULTS, *[(str(name), int(kind), int(config)) for name, kind, config in events][:MOST_EVENTS]]
        self._wanted = [one for one in wanted if one[0] in EVERY]
        self._threads = threads
        self._every = dict(EVERY)
        self._number = _NUMBERS.get(os.uname().machine)
        self._libc: Any = None
        self._fds: Dict[int, str] = {}  # the event's name, by descriptor
        self._names: Dict[int, str] = {}  # the same, by the kernel's number of the event
        self._rings: List[mmap.mmap] = []

    def during(self, call: Callable[[], Any]) -> Tuple[Any, Notes]:
        """Make `call`. Return its result, and what the kernel noted of each event meanwhile.

        For example ("result", {"page-faults": ([1234, 5678], 1)}): times in ns, and how many events one note stands
        for. An event is left out if the kernel did not note it during the whole call.
        """
        self._open()
        for fd in self._fds:
            fcntl.ioctl(fd, ENABLE, 0)
        try:
            result = call()
        finally:
            for fd in self._fds:
                fcntl.ioctl(fd, DISABLE, 0)
            notes = self._taken()
            self._close()
        return result, notes

    def _open(self) -> None:
        """Ask the kernel to note the events of all threads that exist now. Without permission, ask for nothing."""
        try:
            threads = self._threads or sorted(map(int, os.listdir(TASKS)))
            if self._number is None or len(threads) > MOST_THREADS:
                return
            self._libc = self._libc or ctypes.CDLL(None, use_errno=True)
            for tid in threads:
                self._open_thread(tid)
        except (OSError, ValueError):  # a ring for one thread was refused: its events would lack in the counts
            self._close()

    def _open_thread(self, tid: int) -> None:
        first = -1
        for name, kind, config in self._wanted:
            flags = DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV | USE_CLOCK
            attributes = ATTRIBUTES.pack(
                kind, ATTRIBUTES.size, config, self._every[name], SAMPLE_TIME | SAMPLE_ID, READ_TIMES, flags, 0, 0, 0,
                0, 0, 0, 0, CLOCK_MONOTONIC,
            )  # fmt: skip
            fd = self._perf_event_open(attributes, tid)
            if fd < 0:  # the CPU does not count it, or it is not allowed
                continue
            self._fds[fd] = name
            self._names[struct.unpack("<Q", fcntl.ioctl(fd, GET_ID, bytes(8)))[0]] = name
            if first < 0:
                self._rings.append(mmap.mmap(fd, mmap.PAGESIZE + max(RING_BYTES, mmap.PAGESIZE)))
                first = fd
            else:
                fcntl.ioctl(fd, SET_OUTPUT, first)

    def _perf_event_open(self, attributes: bytes, tid: int) -> int:
        buffer = ctypes.create_string_buffer(attributes, len(attributes))
        return int(self._libc.syscall(self._number, buffer, tid, -1, -1, ctypes.c_ulong(CLOSE_BY_EXEC)))

    def _taken(self) -> Notes:
        """Return what the kernel has noted of each event since the last call.

        An event is left out if its notes are incomplete: a ring was too small, interrupts came too late, or the kernel
        paused the event because it was noted too often. Such an event is noted more rarely from now on.
        """
        counted = self._counted()
        throttled: Set[Optional[str]] = set()
        notes: Dict[str, List[int]] = {name: [] for name in counted}
        for ring in self._rings:
            for kind, body in records(ring):
                if kind == SAMPLED and len(body) >= SAMPLE.size:
                    at_ns, event = SAMPLE.unpack_from(body)
                    if self._names.get(event) in notes:
                        notes[self._names[event]].append(at_ns)
                elif kind == THROTTLED and len(body) >= THROTTLE.size:
                    throttled.add(self._names.get(THROTTLE.unpack_from(body)[1]))
        whole: Notes = {}
        for name, found in counted.items():
            if found is None:
                continue
            (count, least), every = found, self._every[name]
            if name not in throttled and len(notes[name]) >= least:
                whole[name] = sorted(notes[name]), every
            else:
                self._every[name] = min(max(every * SPARSER, count // ENOUGH), SPARSEST)
        return whole

    def _counted(self) -> Dict[str, Optional[Tuple[int, int]]]:
        """Return, by event, how often the event occurred and how many notes of it the kernel must have made at least.

        The value is None for an event that was not counted all the time, because a PMU has too few counters. On cores
        of several kinds, the times of all PMUs add up to the time that a thread ran.
        """
        sums: Dict[str, List[int]] = {}
        least: Dict[str, int] = {}
        for fd, name in self._fds.items():
            read = COUNT.unpack(os.read(fd, COUNT.size))
            sums[name] = [old + new for old, new in zip(sums.get(name, [0, 0, 0]), read)]
            # The last note of a thread may be due when the counting ends.
            least[name] = least.get(name, 0) + max(read[0] // self._every[name] - 1, 0)
        pmus = {name: len([one for one in self._wanted if one[0] == name]) for name in sums}
        return {
            name: (count, least[name]) if running * pmus[name] >= COUNTED * enabled else None
            for name, (count, enabled, running) in sums.items()
        }

    def _close(self) -> None:
        for ring in self._rings:
            ring.close()
        for fd in self._fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        self._rings, self._fds, self._names = [], {}, {}


def records(ring: Any) -> List[Tuple[int, bytes]]:
    """Return the new records of a ring (memory that the kernel writes) as (type, content), and mark them as read.

    The first page of the ring has two positions: of the newest and of the oldest record, in bytes since the beginning.
    The other pages have the records. A record that does not fit at their end continues at their beginning.
    """
    size = len(ring) - mmap.PAGESIZE
    (head,), (tail,) = struct.unpack_from("<Q", ring, HEAD_AT), struct.unpack_from("<Q", ring, TAIL_AT)
    begin = tail % size
    data = ring[mmap.PAGESIZE + begin : mmap.PAGESIZE + size] + ring[mmap.PAGESIZE : mmap.PAGESIZE + begin]
    data = data[: min(head - tail, size)]
    struct.pack_into("<Q", ring, TAIL_AT, head)
    found, at = [], 0
    while at + HEAD.size <= len(data):
        kind, _, length = HEAD.unpack_from(data, at)
        if length < HEAD.size:
            break
        found.append((kind, data[at + HEAD.size : at + length]))
        at += length
    return found
