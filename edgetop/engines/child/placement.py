"""Where the engine's threads run: on which CPU, how fast that is, and how often they moved to another CPU.

Sources: sched_getcpu(3); sched_setaffinity(2); perf_event_open(2), PERF_COUNT_SW_CPU_MIGRATIONS; `cpu_capacity` in
Documentation/ABI/testing/sysfs-devices-system-cpu, which is 1024 for the fastest core at its highest clock.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from typing import Dict, Optional

CPUS = "/sys/devices/system/cpu"
# perf_event_attr up to config1: type, size, config, period, sample_type, read_format, flags, wakeup_events, bp_type.
_ATTRIBUTES = struct.Struct("<IIQQQQQIIQ")
_SOFTWARE, _MIGRATIONS, _INHERIT, _CLOSE_BY_EXEC = 1, 4, 1 << 1, 8
_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "armv7l": 364, "armv6l": 364, "i686": 336}
# Weight of a checkpoint in the usual capacity. Choice: a minute of checkpoints, of which there are 50 a second.
_WEIGHT = 1 / 3_000

_migrations_fd = -1  # of this process, opened before it has other threads


def count_migrations() -> None:
    """Begin to count how often threads move to another CPU: this thread, and all that it starts from now on.

    Does nothing if the kernel does not allow it.
    """
    global _migrations_fd  # noqa: PLW0603  one for the process
    number = _NUMBERS.get(os.uname().machine)
    if number is None or _migrations_fd >= 0:
        return
    attributes = _ATTRIBUTES.pack(_SOFTWARE, _ATTRIBUTES.size, _MIGRATIONS, 0, 0, 0, _INHERIT, 0, 0, 0)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    _migrations_fd = ctypes.CDLL(None).syscall(number, buffer, 0, -1, -1, ctypes.c_ulong(_CLOSE_BY_EXEC))


class Placement:
    """Shows on which CPU one thread runs. Create it and use it in that thread."""

    def __init__(self, folder: str = CPUS, *, is_main: bool = True) -> None:
        """Note how many CPUs this thread may use now. `folder` is the folder in which the kernel describes the CPUs.

        `is_main` says whether this object counts migrations, which are moves to another CPU. The count is for all
        threads of the process.
        """
        self._capacities = _capacities(folder)
        self._usual: Optional[float] = None  # mean capacity of the CPUs so far
        self._allowed = len(os.sched_getaffinity(0))
        self._fd = _migrations_fd if is_main else -1
        self._cpu_of_thread = None
        with contextlib.suppress(AttributeError):  # old versions of musl have none
            self._cpu_of_thread = ctypes.CDLL(None).sched_getcpu

    def cpu(self) -> int:
        """Return the number of this thread's CPU, or -1 if it is unknown."""
        return -1 if self._cpu_of_thread is None else int(self._cpu_of_thread())

    def settle(self, cpu: int) -> None:
        """Include the speed of the CPU number `cpu` in the average with which `capacity` compares."""
        capacity = self._capacities.get(cpu)
        if capacity is not None:
            self._usual = capacity if self._usual is None else self._usual + _WEIGHT * (capacity - self._usual)

    def capacity(self, cpu: int) -> Optional[float]:
        """Return how fast the CPU number `cpu` is, divided by the average of this thread's CPUs so far.

        For example, 0.5 says that this CPU is half as fast. Returns None if all CPUs are alike or the speed is unknown.
        """
        capacity = self._capacities.get(cpu)
        return None if capacity is None or not self._usual else round(capacity / self._usual, 3)

    def cpus(self) -> int:
        """Return the number of CPUs that this thread could use when this object was created."""
        return self._allowed

    def lost_cpus(self) -> int:
        """Return by how much the number of CPUs that this thread may use has fallen since this object was created.

        Returns 0 if the number is the same or larger.
        """
        return max(0, self._allowed - len(os.sched_getaffinity(0)))

    def migrations(self) -> Optional[int]:
        """Return how often all threads of this process have moved to another CPU, or None if that is not counted."""
        if self._fd < 0:
            return None
        with contextlib.suppress(OSError, struct.error):
            return int(struct.unpack("<Q", os.read(self._fd, 8))[0])
        return None


def _capacities(folder: str) -> Dict[int, float]:
    """Return {number of a CPU: its speed, compared with the other CPUs}.

    `folder` is the folder in which the kernel describes the CPUs. The speed is the kernel's `cpu_capacity`, or else the
    CPU's highest clock (`cpuinfo_max_freq`). Returns {} if all CPUs are equally fast, or if the kernel gives neither.
    """
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        found = {}
        for cpu in range(min(os.cpu_count() or 1, 1024)):
            path = "%s/cpu%d/%s" % (folder, cpu, name)
            with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
                found[cpu] = float(file.read(32))
        if found:
            return found if len(set(found.values())) > 1 and min(found.values()) > 0 else {}
    return {}
