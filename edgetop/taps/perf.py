"""Breakpoints in the functions of running programs: uprobes by perf_event_open(2), in pure Python.

A hit is written by the kernel into a buffer of its CPU, and carries CLOCK_MONOTONIC; the reader is woken when the
buffer is half full, and not by every hit, which would cost the program 34 us more. Breakpoints belong to a file: every
process that has it mapped meets them. They go when the descriptors close, however their process ends.

perf_event_open(2); include/uapi/linux/perf_event.h; arch/{x86,arm64}/include/uapi/asm/perf_regs.h;
Documentation/trace/uprobetracer.rst.
"""

import ctypes
import fcntl
import mmap
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

EVENT_SOURCE = Path("/sys/bus/event_source/devices/uprobe")  # Linux 4.17 and later, with CONFIG_UPROBE_EVENTS
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BUFFER_BYTES = 512 * 1024  # of each CPU
_ATTRIBUTES = struct.Struct("<IIQQQQQIIQQQQIiQII8x")  # struct perf_event_attr, PERF_ATTR_SIZE_VER7
_SOFTWARE, _DUMMY = 1, 9  # PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
_TID, _TIME, _REGISTERS, _STACK, _IDENTIFIER = 1 << 1, 1 << 2, 1 << 12, 1 << 13, 1 << 16  # PERF_SAMPLE_*
_COMM, _TASK, _WATERMARK, _ALL_HAVE_ID, _EXEC, _CLOCK = 1 << 9, 1 << 13, 1 << 14, 1 << 18, 1 << 24, 1 << 25
_SET_OUTPUT, _GET_ID = 0x2405, 0x80082407  # PERF_EVENT_IOC_*
_LOST, _COMMAND, _FORK, _SAMPLE = 2, 3, 7, 9  # PERF_RECORD_*
_BY_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_CLOSED_BY_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
_HEAD_AT = 1024  # of struct perf_event_mmap_page: data_head, data_tail


class Machine(NamedTuple):
    """What one architecture has of its own in perf_event_open(2)."""

    call: int  # number of the system call
    argument: int  # registers by their number in perf_regs.h: the first argument,
    result: int  # what a function returns,
    link: int | None  # where it returns to; None: the stack has it
    stack: int  # and the stack pointer
    popped: int  # bytes by which a return raises the stack pointer

    @property
    def registers(self) -> tuple[int, ...]:
        """Return the sampled registers in the order in which the kernel writes them."""
        wanted = {self.argument, self.result, self.stack, *(() if self.link is None else (self.link,))}
        return tuple(sorted(wanted))


MACHINES = {"x86_64": Machine(298, 5, 0, None, 7, 8), "aarch64": Machine(241, 0, 0, 30, 31, 0)}


class Hit(NamedTuple):
    """A thread reached a breakpoint."""

    at_ns: int  # CLOCK_MONOTONIC
    probe: int
    pid: int
    tid: int
    argument: int
    result: int
    link: int  # where the function returns to
    stack_pointer: int
    stack: bytes  # from there on


class Forked(NamedTuple):
    """A thread began, of a new process or (`pid` is `parent`) of one that is there."""

    at_ns: int
    pid: int
    parent: int
    tid: int


class Executed(NamedTuple):
    """A process began another program."""

    at_ns: int
    pid: int


Event = Hit | Forked | Executed


def why_not() -> str:
    """Why no uprobe can be set here by anybody; "": this kernel has them."""
    if os.uname().machine not in MACHINES:
        return f"uprobes are supported on x86_64 and aarch64, and this is {os.uname().machine}"
    if not EVENT_SOURCE.exists():
        return f"this kernel has no uprobes ({EVENT_SOURCE} is not there: Linux 4.17 with CONFIG_UPROBE_EVENTS)"
    return ""


def may_set() -> bool:
    """Whether this process may: CAP_SYS_ADMIN (capabilities(7), 21). CAP_PERFMON is not enough."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> 21 & 1)


class Probes:
    """The uprobes that were set, and the buffers of their hits. Raises OSError where the kernel refuses."""

    def __init__(self) -> None:
        self._machine = MACHINES[os.uname().machine]
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._type = int((EVENT_SOURCE / "type").read_text())
        bit = (EVENT_SOURCE / "format/retprobe").read_text().strip().removeprefix("config:")
        self._return_flag = 1 << int(bit)
        self._buffers: dict[int, tuple[int, mmap.mmap]] = {}  # by CPU: descriptor and memory
        self._probes: dict[int, int] = {}  # probe by the kernel's id of an event
        self._events: dict[int, list[int]] = {}  # descriptors by probe
        self._with_stack: set[int] = set()
        self.popped = self._machine.popped
        self._poll = select.poll()
        self.lost = 0  # events that found no room
        for cpu in range(os.sysconf("SC_NPROCESSORS_CONF")):
            try:
                fd = self._open(_SOFTWARE, _DUMMY, cpu, flags=_TASK | _COMM | _EXEC)
                self._buffers[cpu] = fd, mmap.mmap(fd, PAGE_BYTES + BUFFER_BYTES)
                self._poll.register(fd, select.POLLIN)
            except OSError:  # noqa: PERF203  a few CPUs
                if cpu == 0:  # others may be offline
                    raise

    def _open(self, kind: int, config: int, cpu: int, *, pid: int = -1, flags: int = 0, **more: int) -> int:
        sample = _TID | _TIME | _IDENTIFIER | (_REGISTERS if more else 0) | (_STACK if more.get("stack") else 0)
        registers = sum(1 << number for number in self._machine.registers) if more else 0
        flags |= _WATERMARK | _CLOCK | _ALL_HAVE_ID
        attributes = _ATTRIBUTES.pack(
            *(kind, 128, config, 1 if more else 0, sample, 0, flags, BUFFER_BYTES // 2, 0),
            *(more.get("name", 0), more.get("offset", 0), 0, registers, more.get("stack", 0)),
            *(1, 0, 0, 0),  # 1: CLOCK_MONOTONIC
        )  # fmt: skip
        fd: int = self._libc.syscall(self._machine.call, attributes, pid, cpu, -1, _CLOSED_BY_EXEC)
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return fd

    def add(
        self, probe: int, path: str, offset: int, *, at_return: bool = False, stack_bytes: int = 0, pid: int = -1
    ) -> None:
        """Set a breakpoint at `offset` in the file, or where the function that begins there returns.

        `probe`: what its hits are called; `stack_bytes`: of the stack, in each hit; `pid`: -1 stands for all processes.
        Never `at_return` of a function through which a C++ exception passes: the program would end there.
        """
        name = ctypes.create_string_buffer(os.fsencode(path))
        config = self._return_flag if at_return else 0
        if stack_bytes:
            self._with_stack.add(probe)
        for cpu, (buffer, _) in self._buffers.items():
            more = {"name": ctypes.addressof(name), "offset": offset, "stack": stack_bytes}
            fd = self._open(self._type, config, cpu, pid=pid, **more)
            self._events.setdefault(probe, []).append(fd)
            number = fcntl.ioctl(fd, _GET_ID, b"\0" * 8)
            self._probes[int.from_bytes(number, "little")] = probe
            fcntl.ioctl(fd, _SET_OUTPUT, buffer)

    def remove(self, probe: int) -> None:
        for fd in self._events.pop(probe, ()):
            os.close(fd)

    def close(self) -> None:
        """Needed only before the process ends."""
        for probe in list(self._events):
            self.remove(probe)
        for fd, memory in self._buffers.values():
            memory.close()
            os.close(fd)
        self._buffers.clear()

    def wait(self, seconds: float, *also: int) -> None:
        """Wait until a buffer is half full, a descriptor of `also` is readable, or the time is over."""
        for fd in also:
            self._poll.register(fd, select.POLLIN)
        self._poll.poll(seconds * 1000)

    def read(self) -> list[Event]:
        """Return the events since the last time, by time within each CPU."""
        return [event for _, memory in self._buffers.values() for event in self._parsed(_taken(memory))]

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
                yield Forked(at_ns, pid, parent, tid)
            elif kind == _COMMAND and misc & _BY_EXEC:
                # sample_id follows the name: pid, tid, time, identifier
                yield Executed(struct.unpack_from("<Q", body, len(body) - 16)[0], struct.unpack_from("<I", body)[0])

    def _hit(self, body: bytes) -> Hit | None:
        number, pid, tid, at_ns, has_registers = struct.unpack_from("<QIIQQ", body)
        probe = self._probes.get(number)
        if probe is None or not has_registers:
            return None
        machine = self._machine
        values = dict(zip(machine.registers, struct.unpack_from(f"<{len(machine.registers)}Q", body, 32), strict=True))
        stack = b""
        if probe in self._with_stack:
            begin = 32 + 8 * len(machine.registers) + 8
            stack = body[begin : begin + int.from_bytes(body[begin - 8 : begin], "little")]
        link = int.from_bytes(stack[:8], "little") if machine.link is None else values[machine.link]
        argument, result, pointer = (values[number] for number in (machine.argument, machine.result, machine.stack))
        return Hit(at_ns, probe, pid, tid, argument, result, link, pointer, stack)


def _taken(memory: mmap.mmap) -> bytes:
    """The bytes between tail and head of a buffer, which are free then."""
    head, tail = struct.unpack_from("<QQ", memory, _HEAD_AT)
    if head == tail:
        return b""
    begin, count = tail % BUFFER_BYTES, head - tail
    first = min(count, BUFFER_BYTES - begin)
    data = memory[PAGE_BYTES + begin : PAGE_BYTES + begin + first] + memory[PAGE_BYTES : PAGE_BYTES + count - first]
    struct.pack_into("<Q", memory, _HEAD_AT + 8, head)
    return data
