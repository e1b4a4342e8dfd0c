"""Count events of the threads of a process, with the kernel's perf events.

The kernel counts while a thread runs, and keeps the sums. So counting takes no time between two reads, except that the
counters are set again when the CPU takes another thread. A thread hands its events down to the threads that it starts.

All events of one kind of core form a group, which the kernel counts at the same time or not at all. If the CPU has too
few counters for a group, the kernel counts the group only part of the time. Such counts are never scaled up. Instead,
the last event of the group is left out, again and again, until the group fits. It fits if each event was counted
(`time_running`) all the time that it was switched on (`time_enabled`). A CPU with two kinds of cores has two PMUs (sets
of counters). A PMU only counts while a thread is on its cores, so the counted times of both PMUs are added up first.

perf_event_open(2); include/uapi/linux/perf_event.h; kernel/events/core.c (`perf_event_read_value`, `inherit_event`).
"""

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from edgetop.frozen import frozen
from edgetop.sensors.core_pmus import SOFTWARE, CorePmu, PmuEvent
from edgetop.sensors.root import Root

# perf_event_attr as of its first version, which every kernel takes: type, size, config, period, sample_type,
# read_format, flags, wakeup_events, bp_type, config1.
ATTRIBUTES = struct.Struct("<IIQQQQQIIQ")
COUNT = struct.Struct("<QQQ")  # what a read returns: value, time enabled, time running
READ_FORMAT = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING
INHERIT, EXCLUDE_KERNEL, EXCLUDE_HV, INHERIT_THREAD = 1 << 1, 1 << 5, 1 << 6, 1 << 35  # the last since Linux 5.13
CLOSE_BY_EXEC = 8  # PERF_FLAG_FD_CLOEXEC
# include/uapi/asm-generic/unistd.h; arch/x86/entry/syscalls; arch/arm/tools/syscall.tbl
_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "armv7l": 364, "armv6l": 364, "i686": 336}

# Events of the kernel itself (PERF_COUNT_SW_*), which any machine counts.
KERNEL_EVENTS = (
    PmuEvent("task-clock", SOFTWARE, 1),
    PmuEvent("page-faults", SOFTWARE, 2),
    PmuEvent("context-switches", SOFTWARE, 3),
    PmuEvent("migrations", SOFTWARE, 4),
)
# Without the kernel's side, only what happens in user space is counted: of these there would be none
# (`perf_exclude_event`), although they occur.
_IN_KERNEL = ("context-switches", "migrations")
MOST_DESCRIPTORS = 400  # a process may have 1,024 on most systems
PASSES = 10  # most attempts to open the events of all threads while threads begin and end
# Share of the time that the PMUs of two kinds of cores must have counted together. Choice: they are read one after the
# other, some microseconds apart.
COUNTED_TOGETHER = 0.999
NOT_COUNTED = (errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV, errno.ENOSPC, errno.EBUSY)


class Calls(Protocol):
    """The system calls with which events are counted, such as perf_event_open(2). Each raises OSError if it fails."""

    def open(self, attributes: bytes, tid: int, group: int, cpu: int = -1) -> int:
        """Begin to count an event of thread `tid` on any CPU, and return the event's file descriptor.

        With `tid` -1, the event counts the whole machine, and `cpu` is the CPU that reads the counter. `attributes`
        describes the event, in the bytes that the function `attributes` returns. Events of one group are counted at the
        same time. `group` is the descriptor of the group's first event, or -1 if this event is the first.
        """

    def read_count(self, descriptor: int) -> bytes:
        """Return the count of an event as packed bytes; `COUNT` unpacks them."""

    def close(self, descriptor: int) -> None: ...


class KernelCalls:
    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def open(self, attributes: bytes, tid: int, group: int, cpu: int = -1) -> int:
        if (number := _NUMBERS.get(os.uname().machine)) is None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        buffer = ctypes.create_string_buffer(attributes, len(attributes))
        descriptor: int = self._libc.syscall(number, buffer, tid, cpu, group, ctypes.c_ulong(CLOSE_BY_EXEC))
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return descriptor

    def read_count(self, descriptor: int) -> bytes:
        return os.read(descriptor, COUNT.size)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)


def attributes(event: PmuEvent, flags: int) -> bytes:
    """Return the packed attributes of an event for perf_event_open(2). `flags` has bits such as `INHERIT`."""
    return ATTRIBUTES.pack(event.type, ATTRIBUTES.size, event.config, 0, 0, READ_FORMAT, flags, 0, 0, 0)


class Count(NamedTuple):
    """One event's count, the ns for which the event was switched on, and the ns for which it was really counted."""

    value: int
    enabled_ns: int
    running_ns: int


_NONE = (0, 0, 0)


@frozen
class Grown:
    """How often each event occurred in all threads of a process between two reads."""

    counts: Mapping[str, int]  # by event, of all threads; an event that was not counted all the time is left out
    ran_ns: Mapping[str, int]  # by PMU: the time in which threads ran on its cores


@dataclass(slots=True)
class _Group:
    """The events of one thread that one PMU counts together, and their counts at the last read."""

    pmu: str  # "" for the kernel's events
    descriptors: dict[str, int] = field(default_factory=dict)
    before: dict[str, tuple[int, ...]] = field(default_factory=dict)  # as `COUNT` unpacks them


class ThreadCounters:
    """Counts events of all threads of a process, and of the threads that these start.

    `lacking` has the error number of each event that could not be counted, by (PMU, event). `excludes_kernel` says that
    only user space is counted, as for a user without privileges if `perf_event_paranoid` is 2.
    """

    def __init__(
        self, pid: int, pmus: Sequence[CorePmu], root: Root, calls: Calls, *, with_processes: bool = False
    ) -> None:
        """Begin to count the events of `pmus` and of the kernel, for process `pid`.

        With `with_processes`, processes that the threads start count too. `calls` makes the system calls.

        Raises OSError if nothing can be counted: EACCES or EPERM if it is not allowed, ESRCH if there is no such
        process, EAGAIN if its threads come and go too fast, and EMFILE if it has too many.
        """
        self.pid, self._root, self._calls = pid, root, calls
        self._sets = {pmu.name: list(pmu.events) for pmu in pmus}
        self._groups: dict[int, list[_Group]] = {}
        self._flags = INHERIT | (0 if with_processes else INHERIT_THREAD)
        self.excludes_kernel = False
        self.lacking: dict[tuple[str, str], int] = {}
        self._choose_flags()
        self._open()

    @property
    def events(self) -> list[str]:
        """Return the names of the events that are counted."""
        groups = next(iter(self._groups.values()), [])
        return list(dict.fromkeys(name for group in groups for name in group.descriptors))

    def _choose_flags(self) -> None:
        """Find out with which flags of perf_event_open(2) this kernel counts, and use these flags for all events.

        Raises OSError if the kernel refuses all of them.
        """
        allowed: OSError | None = None
        for kernel in (0, EXCLUDE_KERNEL | EXCLUDE_HV):
            for flags in dict.fromkeys((self._flags, self._flags & ~INHERIT_THREAD)):
                try:
                    probe = self._calls.open(attributes(KERNEL_EVENTS[0], flags | kernel), self.pid, -1)
                except OSError as error:
                    allowed = error
                    continue
                self._calls.close(probe)
                self._flags, self.excludes_kernel = flags | kernel, bool(kernel)
                return
        raise allowed or OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    def _open(self) -> None:
        """Begin to count the events of all threads.

        The events of a thread that starts during this call may not be counted. So all events are opened again, until no
        thread starts meanwhile. Raises OSError if threads start every time.
        """
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self.close)
            for _ in range(PASSES):
                self.close()
                threads = self._threads()
                for tid in sorted(threads):
                    with contextlib.suppress(ProcessLookupError):
                        self._open_thread(tid)
                if not self._threads() - threads:
                    on_failure.pop_all()
                    return
            raise OSError(errno.EAGAIN, "its threads come and go too fast")

    def _threads(self) -> set[int]:
        try:
            return {int(name) for name in self._root.entries(f"proc/{self.pid}/task")}
        except (FileNotFoundError, ProcessLookupError):
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH)) from None

    def _open_thread(self, tid: int) -> None:
        kernel = [event for event in KERNEL_EVENTS if not (self.excludes_kernel and event.name in _IN_KERNEL)]
        groups = self._groups[tid] = [_Group(pmu) for pmu in (*self._sets, "")]
        for group, events in zip(groups, (*self._sets.values(), kernel), strict=True):
            self._open_group(tid, group, events)

    def _open_group(self, tid: int, group: _Group, events: Sequence[PmuEvent]) -> None:
        """Begin to count, for one thread, those of `events` that the CPU can count together.

        `tid` is the thread's id. `group` gets the descriptors of the counted events. The error numbers of all other
        events are put in `lacking`.
        """
        for event in events:
            if sum(len(one.descriptors) for groups in self._groups.values() for one in groups) >= MOST_DESCRIPTORS:
                raise OSError(errno.EMFILE, "it has too many threads")
            first = next(iter(group.descriptors.values()), -1)
            try:
                group.descriptors[event.name] = self._calls.open(attributes(event, self._flags), tid, first)
            except OSError as error:
                if error.errno not in NOT_COUNTED:
                    raise
                self.lacking[group.pmu, event.name] = error.errno

    def leave_out_last(self) -> bool:
        """Leave out the last event of each PMU (a set of counters) that counts several events, and return True.

        Call this if the CPU has too few counters. Returns False, and changes nothing, if each PMU counts only one
        event.
        """
        lasts = {pmu: names[-1] for pmu, names in self._counted().items() if len(names) > 1}
        if not lasts:
            return False
        for pmu, name in lasts.items():
            self._sets[pmu] = [event for event in self._sets[pmu] if event.name != name]
            self.lacking[pmu, name] = errno.ENOSPC
        self._open()
        return True

    def _counted(self) -> dict[str, list[str]]:
        groups = next(iter(self._groups.values()), [])
        return {group.pmu: list(group.descriptors) for group in groups if group.pmu}

    def grown(self) -> Grown:
        """Return what was counted since the last call, or since the beginning.

        Raises OSError if the process has ended or nothing is counted any more.
        """
        if not self._groups or not self._root.exists(f"proc/{self.pid}"):
            raise OSError(errno.ESRCH, "the process has ended")
        counts: dict[str, int] = {}
        partial: set[str] = set()
        ran_ns: dict[str, int] = {}
        read_count = self._calls.read_count
        for groups in self._groups.values():
            grown: dict[str, list[Count]] = {}
            for group in groups:
                is_first = bool(group.pmu)
                for name, fd in group.descriptors.items():
                    now = COUNT.unpack(read_count(fd))
                    before, group.before[name] = group.before.get(name, _NONE), now
                    change = Count(now[0] - before[0], now[1] - before[1], now[2] - before[2])
                    counts[name] = counts.get(name, 0) + change.value
                    grown.setdefault(name, []).append(change)
                    if is_first:
                        ran_ns[group.pmu] = ran_ns.get(group.pmu, 0) + change.running_ns
                    is_first = False
            partial.update(name for name, of_pmus in grown.items() if not _is_whole(of_pmus))
        return Grown({name: value for name, value in counts.items() if name not in partial}, ran_ns)

    def close(self) -> None:
        for groups in self._groups.values():
            for group in groups:
                for descriptor in group.descriptors.values():
                    with contextlib.suppress(OSError):
                        self._calls.close(descriptor)
        self._groups = {}


def _is_whole(of_pmus: Sequence[Count]) -> bool:
    """Return whether an event was counted all the time that its thread ran. `of_pmus` has a Count for each PMU.

    >>> _is_whole([Count(7, 100, 100)]), _is_whole([Count(7, 100, 99)])
    (True, False)
    >>> _is_whole([Count(7, 100, 60), Count(2, 100, 40)])  # on two kinds of cores
    True
    """
    if len(of_pmus) == 1:
        return of_pmus[0].running_ns >= of_pmus[0].enabled_ns
    enabled, running = max(one.enabled_ns for one in of_pmus), sum(one.running_ns for one in of_pmus)
    return running >= COUNTED_TOGETHER * enabled
