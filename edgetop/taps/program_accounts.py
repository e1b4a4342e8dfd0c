"""The resources that a watched program used from its start to its end, and its processes that ran out of memory.

All numbers are the kernel's. CPU time and block I/O come from wait4(2), which counts the process and all descendants
that were waited for. If the program has a separate cgroup of version 2, its CPU time is the cgroup's, in which every
descendant counts. The peak of the resident memory is the kernel's. While the program runs, it is the peak of the first
process (`VmHWM`, proc(5)). At the end, it is the peak of the process with the highest one (getrusage(2)).
"""

import resource
import time
from collections.abc import Sequence
from pathlib import Path

from edgetop.engines.engine_protocol import Noted
from edgetop.sensors.cgroup import CPU_STAT, Group, folders_of, locate
from edgetop.sensors.memory_sensors import MIB
from edgetop.sensors.oom_kills import OomKills
from edgetop.sensors.process_table import HOST, parse_counters
from edgetop.session.event_kinds import ProgramEnded
from edgetop.taps.process_accounts import ChildExit, ResidentMemory, ended, noted

ENTER_S, ENTER_PAUSE_S = 20.0, 0.001  # how long a program may take to enter its cgroup; systemd takes some 50 ms
READ_S = 0.25  # least interval between two reads
SECTOR_BYTES = 512  # unit of ru_inblock and ru_oublock: account_io in kernel/sys.c shifts bytes by 9


class ProgramAccounts:
    """The CPU time, memory and I/O that one program has used. The program is a child of this process."""

    def __init__(self, pid: int, began_ns: int, memory_limit: int | None = None, prefix: Sequence[str] = ()) -> None:
        """Begin to count what the process `pid` uses. It began at `began_ns`, in ns of CLOCK_MONOTONIC.

        `prefix` is the command with which the program enters separate cgroups; () without limits. `memory_limit` is the
        limit of these cgroups in bytes, or None. This waits until the program has entered all of the cgroups.
        """
        self._pid, self._began_ns, self._limit = pid, began_ns, memory_limit
        # A child begins as a copy of this process, whose size counts as the child's for ever (exec_mmap of fs/exec.c).
        self._least_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._cgroup_peak = 0
        self._resident = ResidentMemory(pid)
        self._memory: Group | None = None
        self._cpu = ""  # path of the cgroup's cpu.stat, without the first slash
        self._cpu_before_us = 0
        self._kills: OomKills | None = None
        self._read_s = float("-inf")
        if prefix and self._enter("\0".join(prefix)):
            self._find_cgroup()
        self._exit = ChildExit(pid)

    def _enter(self, prefix: str) -> bool:
        """Wait until the process is in its cgroups. Return False if the process has ended before.

        `prefix` is the command that enters the cgroups. With version 1 there may be a cgroup for each controller, and
        the process enters one after the other. The process is in all cgroups when its command line no longer begins
        with `prefix`.
        """
        own, until_s = HOST.text("proc/self/cgroup"), time.monotonic() + ENTER_S
        while time.monotonic() < until_s:
            theirs = HOST.text(f"proc/{self._pid}/cgroup")
            is_entering = HOST.text(f"proc/{self._pid}/cmdline").startswith(prefix)
            if not theirs or (theirs != own and not is_entering):
                return bool(theirs)
            time.sleep(ENTER_PAUSE_S)
        return False

    def _find_cgroup(self) -> None:
        memberships, mounts = HOST.text(f"proc/{self._pid}/cgroup"), HOST.text(f"proc/{self._pid}/mountinfo")
        own = HOST.text("proc/self/cgroup")
        is_v2_own = not any(line.startswith("0::") and line in own.splitlines() for line in memberships.splitlines())
        if is_v2_own and (levels := folders_of(memberships, mounts, "")):
            self._cpu = f"{levels[0]}/{CPU_STAT}"
            self._cpu_before_us = self._cgroup_cpu_us() or 0
        group = locate(HOST, memberships, mounts)
        if self._limit is None or not isinstance(group, Group):
            return
        above = locate(HOST, own, HOST.text("proc/self/mountinfo"))
        # A process that has ended is in the root cgroup of version 1 (proc_cgroup_show of kernel/cgroup/cgroup.c).
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
        if used and used.ru_maxrss > self._least_kib:
            resident.peak_kib = max(resident.peak_kib, used.ru_maxrss)
        cpu_ns = int((used.ru_utime + used.ru_stime) * 1e9) if used else None
        if (own_us := self._cgroup_cpu_us()) is not None:
            cpu_ns = (own_us - self._cpu_before_us) * 1000
        body = ProgramEnded(
            total_ns=self.ended_ns - self._began_ns,
            cpu_ns=cpu_ns,
            rss_peak_mib=resident.peak_mib,
            pss_peak_mib=resident.together_peak_mib,
            pss_mean_mib=resident.together_mean_mib,
            cgroup_peak_mib=round(self._cgroup_peak / MIB, 3) or None,
            read_bytes=used.ru_inblock * SECTOR_BYTES if used else None,
            write_bytes=used.ru_oublock * SECTOR_BYTES if used else None,
        )
        return ended(body)

    def _cgroup_cpu_us(self) -> int | None:
        """Return the CPU time of the program's cgroup in us, or None if there is no cgroup any more."""
        return parse_counters(HOST.text(self._cpu)).get("usage_usec") if self._cpu else None

    def close(self) -> None:
        if self._kills:
            self._kills.close()
