"""The kernel's side of perf_event_open(2), with the layouts of include/uapi/linux/perf_event.h.

Threads run on a core of one PMU at a time. A group of events is counted while its thread runs on a core of its PMU and
the group fits the PMU's counters; other groups take turns, as the kernel's do.
"""

import errno
import itertools
import os
import struct
from dataclasses import dataclass, field

HARDWARE, SOFTWARE = 0, 1
INHERIT, EXCLUDE_KERNEL, INHERIT_THREAD = 1 << 1, 1 << 5, 1 << 35
TASK_CLOCK = (SOFTWARE, 1)

Event = tuple[int, int]  # type and config


@dataclass
class _Opened:
    tid: int  # -1: the whole machine
    event: Event
    group: int  # descriptor of the first of its group
    flags: int
    value: float = 0.0
    enabled_ns: int = 0
    running_ns: int = 0


@dataclass
class FakePerf:
    """Counts for threads that `run` lets run. Implements `perf_counting.Calls`."""

    known: dict[Event, float] = field(default_factory=dict)  # rate of each event that the machine counts, per ns
    counters: dict[int, int] = field(default_factory=dict)  # counters of each PMU, by its type
    paranoid: int = -1
    refusal: int = 0  # error of every call
    has_inherit_thread: bool = True
    taken: int = 0  # counters that another program holds
    # Of PMUs that belong to no core, by type: the CPUs of their `cpumask`.
    uncore: dict[int, tuple[int, ...]] = field(default_factory=dict)
    is_perfmon: bool = False  # CAP_PERFMON
    opened: dict[int, _Opened] = field(default_factory=dict)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1000))

    def open(self, attributes: bytes, tid: int, group: int, cpu: int = -1) -> int:
        kind, size, config, period, sample_type, read_format, flags = struct.unpack_from("<IIQQQQQ", attributes)
        assert len(attributes) == size >= 64  # PERF_ATTR_SIZE_VER0
        assert (period, sample_type) == (0, 0)
        if read_format != 3:  # enabled and running
            raise OSError(errno.EINVAL, "read_format")
        event = (kind, config)
        self._check_uncore(kind, tid, cpu, flags) if kind in self.uncore else self._check(event, flags)
        if event not in self.known:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        if group != -1:
            members = [one for one in self.opened.values() if group == one.group]
            if members[0].tid != tid:
                raise OSError(errno.EINVAL, "a group of another thread")
            if kind != SOFTWARE and len(members) >= self.counters.get(kind, 0):
                raise OSError(errno.EINVAL, "the group does not fit")  # validate_group of the PMU
        number = next(self._numbers)
        self.opened[number] = _Opened(tid, event, number if group == -1 else group, flags)
        return number

    def _check(self, event: Event, flags: int) -> None:
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        if self.paranoid > 2 or (self.paranoid > 1 and not flags & EXCLUDE_KERNEL):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        if flags & INHERIT_THREAD and not self.has_inherit_thread:
            raise OSError(errno.EINVAL, "reserved bits")

    def _check_uncore(self, kind: int, tid: int, cpu: int, flags: int) -> None:
        """The order of the kernel: permission (`perf_allow_cpu`), then `event_init` of the PMU."""
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        if tid == -1 and self.paranoid > 0 and not self.is_perfmon:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        # rockchip_ddr_perf_event_init, uncore_pmu_event_init: no thread; PERF_PMU_CAP_NO_EXCLUDE
        if tid != -1 or cpu not in self.uncore[kind] or flags:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def read_count(self, descriptor: int) -> bytes:
        one = self.opened[descriptor]
        return struct.pack("<QQQ", int(one.value), one.enabled_ns, one.running_ns)

    def close(self, descriptor: int) -> None:
        del self.opened[descriptor]

    def run(self, tid: int, ns: int, pmu: int = 0, counted: float = 1.0) -> None:
        """Let a thread run on a core of this PMU. `counted`: the share of the time in which the groups are counted."""
        for one in self.opened.values():
            if one.tid != tid:
                continue
            is_software = one.event[0] == SOFTWARE
            members = sum(1 for other in self.opened.values() if other.group == one.group)
            fits = members <= self.counters.get(pmu, 0) - self.taken
            share = 1.0 if is_software else (counted if fits else 0.5) * (one.event[0] == pmu)
            one.enabled_ns += ns
            one.running_ns += int(ns * share)
            one.value += ns * share * self.known[one.event]

    def pass_time(self, ns: int, counted: float = 1.0) -> None:
        """Let the machine run. Events of PMUs that belong to no core count; `counted`: in which share of the time."""
        for one in self.opened.values():
            if one.tid == -1:
                one.enabled_ns += ns
                one.running_ns += int(ns * counted)
                one.value += ns * counted * self.known[one.event]
