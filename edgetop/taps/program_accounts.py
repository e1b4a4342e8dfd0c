"""The resources that a watched program used from its start to its end, and its processes that ran out of memory.

All numbers are the kernel's. Counters begin at what they are before the program's first instruction, so that what
edgetop does to start the program does not count. Block I/O comes from wait4(2), which counts the process and all
descendants that were waited for. So does CPU time, unless the program has a separate cgroup that counts it: there,
every descendant counts. The peak of the resident memory is the kernel's. While the program runs, it is the highest peak
of its living processes (`VmHWM`, proc(5)). At the end, it is the peak of the process with the highest one
(getrusage(2)).
"""

import time
from pathlib import Path

from edgetop.engines.engine_protocol import Noted
from edgetop.sensors.cgroup_location import CPU_STAT, Group, folders_of, locate
from edgetop.sensors.memory_sensors import MIB, parse_kib_fields
from edgetop.sensors.oom_kills import OomKills
from edgetop.sensors.process_table import HOST, parse_counters
from edgetop.session.event_kinds import ProgramEnded
from edgetop.taps.process_accounts import ChildExit, ResidentMemory, ended, noted

READ_S = 0.25  # least interval between two reads
SECTOR_BYTES = 512  # unit of ru_inblock and ru_oublock: account_io in kernel/sys.c shifts bytes by 9
CPUACCT = "cpuacct.usage"  # ns of CPU time in version 1: Documentation/admin-guide/cgroup-v1/cpuacct.rst
# getrusage(2) reads counters of memory that each CPU keeps a part of, and leaves these parts out: some 100 KiB for each
# counter and CPU (lib/percpu_counter.c). VmHWM includes them. `time` shows what getrusage(2) reads.
ROUGH_KIB = 1024
GROWTH_KIB = 2048  # by which the process may grow from the first reading of its size to its first instruction


class ProgramAccounts:
    """The CPU time, memory and I/O that one program has used. The program is a child of this process."""

    def __init__(self, pid: int, memory_limit: int | None = None) -> None:
        """Begin to count what the process `pid` uses.

        The process must be in its cgroups already, and must not have executed the program's first instruction.
        `memory_limit` is the memory limit of its cgroups in bytes, or None.
        """
        self.began_ns = time.monotonic_ns()  # when the program began, in ns of CLOCK_MONOTONIC
        self._pid, self._limit = pid, memory_limit
        # The kernel takes the size of a process before it executes a program for that program's (exec_mmap of
        # fs/exec.c). So a lower peak cannot be told from wait4(2).
        self._least_kib = parse_kib_fields(HOST.text(f"proc/{pid}/status")).get("VmHWM", 0) + GROWTH_KIB
        self._cgroup_peak = 0
        self._resident = ResidentMemory(pid)
        self._memory: Group | None = None
        self._cpu = ""  # path of the file with the CPU time of the program's own cgroup, without the first slash
        self._kills: OomKills | None = None
        self._read_s = float("-inf")
        self._find_cgroup()
        self._cpu_before_ns = self._cgroup_cpu_ns() or 0
        # Of the process itself: Documentation/scheduler/sched-stats.rst, proc_pid_io(5)
        first = HOST.text(f"proc/{pid}/schedstat").split()[:1]
        self._own_cpu_ns = int(first[0]) if first and first[0].isdecimal() else 0
        traffic = parse_counters(HOST.text(f"proc/{pid}/io").replace(":", ""))
        self._own_bytes = traffic.get("read_bytes", 0), traffic.get("write_bytes", 0)
        self._exit = ChildExit(pid)

    def _find_cgroup(self) -> None:
        """Find the counters of the cgroups in which the program is and edgetop is not."""
        memberships, mounts = HOST.text(f"proc/{self._pid}/cgroup"), HOST.text(f"proc/{self._pid}/mountinfo")
        own = HOST.text("proc/self/cgroup")
        for controller, name in (("", CPU_STAT), ("cpuacct", CPUACCT)):
            theirs, ours = (folders_of(each, mounts, controller)[:1] for each in (memberships, own))
            if theirs and theirs != ours and HOST.exists(f"{theirs[0]}/{name}"):
                self._cpu = f"{theirs[0]}/{name}"
        group = locate(HOST, memberships, mounts)
        if self._limit is None or not isinstance(group, Group):
            return
        above = locate(HOST, own, HOST.text("proc/self/mountinfo"))
        if isinstance(above, Group) and group.folders[0] in above.folders:
            return
        self._memory = group
        self._kills = OomKills(Path("/", group.folders[0]), group.files.events)

    def exit_status(self) -> int | None:
        """Return the exit status in the form of `Popen.returncode`, or None while the process runs."""
        return self._exit.exit_status()

    @property
    def ended_ns(self) -> int:
        """When the process ended, in ns of CLOCK_MONOTONIC; 0 while it runs."""
        return self._exit.ended_ns

    def read(self) -> list[Noted]:
        """Read the peaks of memory.

        Return an event for each process that was killed for lack of memory since the last call.
        """
        now_s = time.monotonic()
        if not self.ended_ns:
            if now_s - self._read_s < READ_S:
                return []
            self._resident.read(now_s)
        self._read_s = now_s
        if self._memory and (peak := HOST.number(f"{self._memory.folders[0]}/{self._memory.files.peak}")):
            self._cgroup_peak = max(self._cgroup_peak, peak)
        return [noted(kill, self._limit) for kill in self._kills.new()] if self._kills else []

    def total(self) -> Noted | None:
        """Return an event with the duration, CPU time, memory and I/O of the program, or None if it has not ended."""
        if not self.ended_ns:
            return None
        used, resident = self._exit.used, self._resident
        if used and used.ru_maxrss > max(self._least_kib, resident.peak_kib - ROUGH_KIB):
            resident.peak_kib = used.ru_maxrss
        cpu_ns = int((used.ru_utime + used.ru_stime) * 1e9) - self._own_cpu_ns if used else None
        if (of_group_ns := self._cgroup_cpu_ns()) is not None:  # less than of the process if that has left its cgroup
            cpu_ns = max(of_group_ns - self._cpu_before_ns, cpu_ns or 0)
        read, written = self._own_bytes
        body = ProgramEnded(
            total_ns=self.ended_ns - self.began_ns,
            cpu_ns=cpu_ns,
            rss_peak_mib=resident.peak_mib,
            pss_peak_mib=resident.together_peak_mib,
            pss_mean_mib=resident.together_mean_mib,
            cgroup_peak_mib=round(self._cgroup_peak / MIB, 3) or None,
            read_bytes=max(0, used.ru_inblock * SECTOR_BYTES - read) if used else None,
            write_bytes=max(0, used.ru_oublock * SECTOR_BYTES - written) if used else None,
        )
        return ended(body)

    def _cgroup_cpu_ns(self) -> int | None:
        """Return the CPU time of the program's own cgroup in ns, or None if there is no such cgroup."""
        if not self._cpu or self._cpu.endswith(CPUACCT):
            return HOST.number(self._cpu) if self._cpu else None
        used_us = parse_counters(HOST.text(self._cpu)).get("usage_usec")
        return None if used_us is None else used_us * 1000

    def close(self) -> None:
        if self._kills:
            self._kills.close()
