"""Breakpoints (uprobes) in the functions of a running process, by perf events that `opener.py` opens.

The kernel writes each hit, with its CLOCK_MONOTONIC time, into a buffer of the CPU. It wakes the reader when a buffer
is half full; waking it at every hit would cost the program 34 us more. An event belongs to one thread on one CPU. The
threads and processes that this thread starts inherit the event. Breakpoints disappear when their descriptors are
closed, which also happens if this process is killed.

perf_event_open(2); include/uapi/linux/perf_event.h; arch/{x86,arm64}/include/uapi/asm/perf_regs.h.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import select
import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from edgetop.frozen import frozen
from edgetop.taps import opener
from edgetop.taps.opener import BEGIN, DUMMY, RETURN

EVENT_SOURCE = Path("/sys/bus/event_source/devices/uprobe")  # Linux 4.17 and later, with CONFIG_UPROBE_EVENTS
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BUFFER_BYTES = 2 * opener.WAKE_BYTES  # per CPU; a user may lock this much without privilege (perf_event_mlock_kb)
MOST_EVENTS = 20_000  # most descriptors: threads x CPUs x probes
MOST_PROCESSES = 256  # from this number of processes on, those that have ended are forgotten
PASSES = 10  # most passes over the threads of a process to find new ones
_SET_OUTPUT, _GET_ID = 0x2405, 0x80082407  # PERF_EVENT_IOC_*
_LOST, _COMMAND, _FORK, _SAMPLE = 2, 3, 7, 9  # PERF_RECORD_*
_BY_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_HEAD_AT = 1024  # offset of data_head and data_tail in struct perf_event_mmap_page
_GONE = (errno.ESRCH, errno.ENOENT)


class Machine(NamedTuple):
    """The numbers, in perf_regs.h, of the registers with a function's argument, its result and the stack pointer."""

    argument: int  # first argument of a function
    result: int  # result of a function
    stack: int  # stack pointer
    popped: int  # bytes by which a return raises the stack pointer


MACHINES = {"x86_64": Machine(5, 0, 7, 8), "aarch64": Machine(0, 0, 31, 0)}


class Hit(NamedTuple):
    """Says that a thread has reached a breakpoint."""

    at_ns: int  # CLOCK_MONOTONIC
    probe: int
    pid: int
    tid: int
    argument: int
    result: int
    stack_pointer: int
    stack: bytes  # content of the stack from the stack pointer on


class Forked(NamedTuple):
    """Says that a thread has begun, in a new process or, if `pid` equals `parent`, in an existing one."""

    at_ns: int
    pid: int
    parent: int
    tid: int


class Executed(NamedTuple):
    """Says that a process has executed another program."""

    at_ns: int
    pid: int


Event = Hit | Forked | Executed


def why_not() -> str:
    """Return in words why this machine has no uprobes (breakpoints by the kernel), or "" if it has them."""
    if os.uname().machine not in MACHINES:
        return f"uprobes are supported on x86_64 and aarch64, but this machine is {os.uname().machine}"
    if not EVENT_SOURCE.exists():
        return f"this kernel has no uprobes ({EVENT_SOURCE} is missing: it needs Linux 4.17 with CONFIG_UPROBE_EVENTS)"
    return ""


def may_set() -> bool:
    """Whether this process may set uprobes (breakpoints by the kernel). This needs CAP_SYS_ADMIN (capabilities(7), 21).

    CAP_PERFMON is not enough.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> 21 & 1)


@frozen
class Target:
    """A process to watch. A later process with the same number is not taken for it."""

    pid: int
    pidfd: int
    since: int  # start time of the process, in the unit of proc_pid_stat(5)


def target_of(pid: int) -> Target:
    """Return the process with this number as a target. Raises OSError if there is no such process."""
    pidfd = os.pidfd_open(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        os.close(pidfd)
        raise
    return Target(pid, pidfd, int(fields[19]))


@frozen
class Place:
    """Where to set a breakpoint: a position in a file."""

    probe: int  # number of the probe, which its hits have
    library: int  # descriptor of the file
    offset: int
    at_return: bool = False
    stack_bytes: int = 0  # how much of the stack each hit has


class Opener:
    """A client of the privileged program `opener.py`, which opens perf events. A SOCK_SEQPACKET socket leads to it."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def open(self, target: Target, tid: int, cpu: int, place: Place | None = None) -> int:
        """Return the descriptor of a new perf event for the thread `tid` of the process `target`, on the CPU `cpu`.

        The event reports each time that the thread reaches `place` in the program. If `place` is None, the event
        reports only new threads and executed programs. Raises OSError, with the reason, if the kernel or the privileged
        program refuses.
        """
        kind = DUMMY if place is None else RETURN if place.at_return else BEGIN
        offset, stack = (place.offset, place.stack_bytes) if place else (0, 0)
        given = [target.pidfd] if place is None else [target.pidfd, place.library]
        request = opener.REQUEST.pack(kind, tid, cpu, target.since, offset, stack)
        socket.send_fds(self._link, [request], given)
        said, fds, _, _ = socket.recv_fds(self._link, 4096, 1, socket.MSG_CMSG_CLOEXEC)
        if fds:
            return fds[0]
        if not said:
            raise OSError(errno.EPIPE, "the program that sets uprobes has ended")
        number, _, text = said.decode("utf-8", "replace").partition(" ")
        if number.isdecimal():
            raise OSError(int(number), text)
        raise OSError(errno.EACCES, said.decode("utf-8", "replace"))


class Probes:
    """The breakpoints (uprobes) in the watched processes, and the buffers into which the kernel writes hits.

    Methods raise OSError if a breakpoint is refused.
    """

    def __init__(self, opener_: Opener) -> None:
        self._opener = opener_
        self._machine = MACHINES[os.uname().machine]
        self._buffers: dict[int, tuple[int, mmap.mmap]] = {}  # CPU -> (descriptor, memory)
        self._probes: dict[int, Place] = {}  # place by the kernel's id of the event
        self._places: list[Place] = []
        self._targets: dict[int, Target] = {}  # by process; children have one only if events were opened for them
        self._covered: dict[int, set[int]] = {}  # process -> threads that have the events of all places
        self._backlog: list[Event] = []  # events that were read while others were being opened
        self._events: list[int] = []  # descriptors of all events
        self._registers = opener.MACHINES[os.uname().machine][1]  # in the order in which the kernel writes them
        self.popped = self._machine.popped
        self._poll = select.poll()
        self.lost = 0  # number of events for which a buffer had no room

    def watch(self, pid: int) -> None:
        """Watch the process `pid` and those that it forks. Raises OSError if there is no such process."""
        self._targets[pid] = target_of(pid)
        self._cover()

    def renewed(self) -> "Probes":
        """Remove all breakpoints, and return a new object that has none and watches no process yet."""
        self.close()
        return Probes(self._opener)

    @property
    def pids(self) -> list[int]:
        """The numbers of the watched processes that have not ended."""
        return [pid for pid in self._covered if Path(f"/proc/{pid}").exists()]

    @property
    def thread_count(self) -> int:
        return sum(map(len, self._covered.values()))

    def add(self, *places: Place) -> None:
        """Set breakpoints at these places in all watched processes.

        Never set one at the return of a function through which a C++ exception passes: the program would crash.
        """
        self._backlog += self._taken()
        for pid in self.pids:
            with contextlib.suppress(OSError):
                self._targets.setdefault(pid, target_of(pid))
        for pid, target in self._targets.items():
            for tid in list(self._covered.get(pid, ())):
                self._open_all(target, tid, places, with_records=False)
        self._places += places
        self._cover()

    def _cover(self) -> None:
        """Set all breakpoints for each watched thread that has none yet. Threads that it starts later inherit them."""
        for pid, target in list(self._targets.items()):
            covered = self._covered.setdefault(pid, set())
            for _ in range(PASSES):
                self._backlog += self._taken()
                try:
                    found = {int(name) for name in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208
                except OSError:
                    break  # the process has ended
                if not (new := found - covered):
                    break
                for tid in sorted(new):
                    self._open_all(target, tid, self._places, with_records=True)
                    covered.add(tid)

    def _open_all(self, target: Target, tid: int, places: Sequence[Place], *, with_records: bool) -> None:
        for cpu in list(self._buffers) or range(os.sysconf("SC_NPROCESSORS_CONF")):
            try:
                if with_records:
                    self._keep(self._opener.open(target, tid, cpu), cpu)
                for place in places:
                    self._keep(self._opener.open(target, tid, cpu, place), cpu, place)
            except OSError as error:  # noqa: PERF203  a few CPUs
                if error.errno in _GONE and (tid != target.pid or len(self._targets) > 1):
                    return  # the thread has ended
                if error.errno != errno.ENODEV or cpu in self._buffers:  # a CPU may be offline
                    raise

    def _keep(self, fd: int, cpu: int, place: Place | None = None) -> None:
        self._events.append(fd)
        if len(self._events) > MOST_EVENTS:
            raise OSError(errno.EMFILE, "the process has too many threads")
        if cpu not in self._buffers:
            own = os.dup(fd)
            self._buffers[cpu] = own, mmap.mmap(own, PAGE_BYTES + BUFFER_BYTES)
            self._poll.register(own, select.POLLIN)
        else:
            fcntl.ioctl(fd, _SET_OUTPUT, self._buffers[cpu][0])
        if place is not None:
            number = fcntl.ioctl(fd, _GET_ID, b"\0" * 8)
            self._probes[int.from_bytes(number, "little")] = place

    def close(self) -> None:
        """Close all descriptors, which removes the breakpoints. Needed only if this process goes on."""
        for fd in (*self._events, *(target.pidfd for target in self._targets.values())):
            os.close(fd)
        for fd, memory in self._buffers.values():
            memory.close()
            os.close(fd)
        self._events.clear()
        self._buffers.clear()

    def wait(self, seconds: float, *also: int) -> None:
        """Wait for `seconds`, or until a buffer is half full or one of the descriptors `also` is readable."""
        for fd in also:
            self._poll.register(fd, select.POLLIN)
        self._poll.poll(seconds * 1000)

    def read(self) -> list[Event]:
        """Return the events since the last call, sorted by time within each CPU."""
        events, self._backlog = self._backlog + self._taken(), []
        if len(self._covered) > MOST_PROCESSES:
            self._forget_ended()
        return events

    def _taken(self) -> list[Event]:
        return [event for _, memory in self._buffers.values() for event in self._parsed(_taken(memory))]

    def _forget_ended(self) -> None:
        alive = set(self.pids)
        for pid in self._covered.keys() - alive - self._targets.keys():
            del self._covered[pid]

    def _parsed(self, data: bytes) -> Iterator[Event]:
        at = 0
        while at + 8 <= len(data):
            kind, misc, size = struct.unpack_from("<IHH", data, at)
            if size < 8:
                return
            body = data[at + 8 : at + size]
            at += size
            if kind == _SAMPLE:
                if hit := self._hit(body):
                    yield hit
            elif kind == _LOST:
                self.lost += int(struct.unpack_from("<Q", body, 8)[0])
            elif kind == _FORK:
                pid, parent, tid, _, at_ns = struct.unpack_from("<IIIIQ", body)
                if pid in self._covered or parent in self._covered:  # it has inherited its parent's events
                    self._covered.setdefault(pid, set()).add(tid)
                yield Forked(at_ns, pid, parent, tid)
            elif kind == _COMMAND and misc & _BY_EXEC:
                # sample_id follows the name: pid, tid, time, identifier
                yield Executed(struct.unpack_from("<Q", body, len(body) - 16)[0], struct.unpack_from("<I", body)[0])

    def _hit(self, body: bytes) -> Hit | None:
        number, pid, tid, at_ns, has_registers = struct.unpack_from("<QIIQQ", body)
        place = self._probes.get(number)
        if place is None or not has_registers:
            return None
        count = len(self._registers)
        values = dict(zip(self._registers, struct.unpack_from(f"<{count}Q", body, 32), strict=True))
        stack = b""
        if place.stack_bytes:
            begin = 32 + 8 * count + 8
            stack = body[begin : begin + int.from_bytes(body[begin - 8 : begin], "little")]
        machine = self._machine
        argument, result, pointer = (values[one] for one in (machine.argument, machine.result, machine.stack))
        return Hit(at_ns, place.probe, pid, tid, argument, result, pointer, stack)


def _taken(memory: mmap.mmap) -> bytes:
    """Return the unread bytes of the mapped buffer `memory`, and give their room back to the kernel."""
    head, tail = struct.unpack_from("<QQ", memory, _HEAD_AT)
    if head == tail:
        return b""
    begin, count = tail % BUFFER_BYTES, head - tail
    first = min(count, BUFFER_BYTES - begin)
    data = memory[PAGE_BYTES + begin : PAGE_BYTES + begin + first] + memory[PAGE_BYTES : PAGE_BYTES + count - first]
    struct.pack_into("<Q", memory, _HEAD_AT + 8, head)
    return data
