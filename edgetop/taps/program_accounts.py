"""The resources that a watched program used from its start to its end, and its processes that ran out of memory.

All numbers are the kernel's. CPU time and block I/O are those of wait4(2): of the process and of all descendants that
were waited for. If the program has a cgroup of its own of version 2, its CPU time is that of the cgroup, in which every
descendant counts. The largest resident set is the kernel's high-water mark: of the process that runs (`VmHWM`,
proc(5)), and at its end of the largest process (getrusage(2)).
"""

import contextlib
import os
import resource
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from edgetop.engines.engine_protocol import Noted
from edgetop.sensors.cgroup import CPU_STAT, Group, folders_of, locate
from edgetop.sensors.memory_sensors import MIB, parse_kib_fields
from edgetop.sensors.oom_kills import OomKill, OomKills
from edgetop.sensors.process_table import HOST, Family, parse_counters
from edgetop.session.event_kinds import OomKilled, ProgramEnded

ENTER_S, ENTER_PAUSE_S = 20.0, 0.001  # how long a program may take to enter its cgroup; systemd takes some 50 ms
READ_S = 0.25  # least interval between two reads
# The kernel walks the pages of each process for its PSS: 1.5 ms at 512 MB. So this takes 1 % of a core at most.
PSS_S, PSS_PATIENCE = 1.0, 100.0  # least interval, in s and in multiples of the CPU time that it took
MOST_PROCESSES = 64
SECTOR_BYTES = 512  # unit of ru_inblock and ru_oublock: account_io in kernel/sys.c shifts bytes by 9


class ProgramAccounts:
    """The CPU time, memory and I/O of one program, which is a child of this process."""

    def __init__(self, pid: int, began_ns: int, memory_limit: int | None = None, prefix: Sequence[str] = ()) -> None:
        """Begin to account for the process `pid`, which began at `began_ns` of CLOCK_MONOTONIC.

        `prefix`: the command with which it enters cgroups of its own, whose limit is `memory_limit` bytes; () without
        limits. Waits until it has entered all of them.
        """
        self._pid, self._began_ns, self._limit = pid, began_ns, memory_limit
        # A child begins as a copy of this process, whose size counts as the child's for ever (exec_mmap of fs/exec.c).
        self._least_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self._peak_kib = self._cgroup_peak = self._pss_kib = 0
        self._family, self._pss_due_s = Family(pid), 0.0
        self._pss_read_s, self._pss_sums = 0.0, [0.0, 0.0]  # the last reading; KiB times s, and s
        self._memory: Group | None = None
        self._cpu = ""  # path of the cgroup's cpu.stat, without the first slash
        self._cpu_before_us = 0
        self._kills: OomKills | None = None
        # exit status, and what was used; None where something else has waited for the process
        self._ended: tuple[int, resource.struct_rusage | None] | None = None
        self._ended_ns = 0
        self._read_s = float("-inf")
        self._lock = threading.Lock()  # two threads may ask at once
        if prefix and self._enter("\0".join(prefix)):
            self._find_cgroup()
        threading.Thread(target=self._note_end, name="program-end", daemon=True).start()

    def _enter(self, prefix: str) -> bool:
        """Wait until the process is in its own cgroups. Return False if it has ended before.

        With version 1 there may be a cgroup for each controller, and the process enters one after the other. It is in
        all of them when it has executed the command after the prefix, so that its command line no longer begins with
        `prefix`.
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

    def _note_end(self) -> None:
        """Note the time at which the process ends, more precisely than polls could."""
        with contextlib.suppress(ChildProcessError):  # it was waited for meanwhile
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        self._ended_ns = self._ended_ns or time.monotonic_ns()

    def exit_status(self) -> int | None:
        """Return the exit status as `Popen.returncode` has it, or None while the process runs."""
        with self._lock:
            if self._ended is None:
                used: resource.struct_rusage | None
                try:
                    pid, status, used = os.wait4(self._pid, os.WNOHANG)
                except ChildProcessError:  # SIGCHLD is ignored, so the kernel keeps no status (wait(2))
                    pid, status, used = self._pid, 0, None
                if not pid:
                    return None
                self._ended_ns = self._ended_ns or time.monotonic_ns()
                self._ended = os.waitstatus_to_exitcode(status), used
            return self._ended[0]

    @property
    def ended_ns(self) -> int:
        """When the process ended, on CLOCK_MONOTONIC; 0 while it runs."""
        return self._ended_ns if self._ended else 0

    def read(self) -> list[Noted]:
        """Read the high-water marks, and return an event for each process that was killed for lack of memory."""
        now_s = time.monotonic()
        if self._ended is None and now_s - self._read_s < READ_S:
            return []
        self._read_s = now_s
        if self._ended is None:
            fields = parse_kib_fields(HOST.text(f"proc/{self._pid}/status"))
            self._peak_kib = max(self._peak_kib, fields.get("VmHWM", 0))
            if now_s >= self._pss_due_s:
                begun_s = time.thread_time()  # not the time for which this thread waits for a CPU
                self._read_pss(fields.get("VmRSS", 0), now_s)
                self._pss_due_s = now_s + max(PSS_S, PSS_PATIENCE * (time.thread_time() - begun_s))
        if self._memory and (peak := HOST.number(f"{self._memory.folders[0]}/{self._memory.files.peak}")):
            self._cgroup_peak = max(self._cgroup_peak, peak)
        return [self._noted(kill) for kill in self._kills.new()] if self._kills else []

    def _read_pss(self, kib: int, now_s: float) -> None:
        """Measure the memory of all processes of the program at `now_s`, the time on CLOCK_MONOTONIC in seconds.

        If there are several processes, their PSS is added up: memory that they share is divided among them. `kib` is
        the resident memory of the first process, which counts if it is the only one.
        """
        pids = list(self._family.stats())[:MOST_PROCESSES]
        if len(pids) > 1:
            texts = (HOST.text(f"proc/{pid}/smaps_rollup") for pid in pids)
            kib = sum(parse_kib_fields(text).get("Pss", 0) for text in texts)
            self._pss_kib = max(self._pss_kib, kib)
        if self._pss_read_s:
            span_s = now_s - self._pss_read_s
            self._pss_sums[0] += kib * span_s
            self._pss_sums[1] += span_s
        self._pss_read_s = now_s

    def _noted(self, kill: OomKill) -> Noted:
        limit_mib = None if self._limit is None else self._limit / MIB
        rss_mib = None if kill.resident_bytes is None else round(kill.resident_bytes / MIB, 1)
        who = "a process" if kill.name is None else f"{kill.name} (process {kill.pid})"
        at_least = "" if kill.is_exact else "at least "
        size = "" if rss_mib is None else f" with {at_least}{rss_mib:g} MiB resident"
        limit = "" if limit_mib is None else f": the program is at its limit of {limit_mib:g} MiB"
        body = OomKilled(kill.name, kill.pid, rss_mib, limit_mib)
        return Noted(body, "critical", "program", f"the kernel's OOM killer ended {who}{size}{limit}")

    def total(self) -> Noted | None:
        """Return an event with the time, CPU time, memory and I/O of the ended program, or None if it has not ended."""
        if self._ended is None:
            return None
        used = self._ended[1]
        if used and used.ru_maxrss > self._least_kib:
            self._peak_kib = max(self._peak_kib, used.ru_maxrss)
        cpu_ns = int((used.ru_utime + used.ru_stime) * 1e9) if used else None
        if (own_us := self._cgroup_cpu_us()) is not None:
            cpu_ns = (own_us - self._cpu_before_us) * 1000
        body = ProgramEnded(
            total_ns=self._ended_ns - self._began_ns,
            cpu_ns=cpu_ns,
            rss_peak_mib=round(self._peak_kib / 1024, 3) or None,
            pss_peak_mib=round(self._pss_kib / 1024, 3) or None,
            pss_mean_mib=self._pss_mean_mib() if self._pss_kib else None,
            cgroup_peak_mib=round(self._cgroup_peak / MIB, 3) or None,
            read_bytes=used.ru_inblock * SECTOR_BYTES if used else None,
            write_bytes=used.ru_oublock * SECTOR_BYTES if used else None,
        )
        cpu = "" if cpu_ns is None else f", {cpu_ns / 1e9:.2f} s of CPU time"
        peak = "" if body.rss_peak_mib is None else f", {body.rss_peak_mib:.1f} MiB resident at most"
        text = f"the program ended after {body.total_ns / 1e9:.2f} s{cpu}{peak}"
        return Noted(body, "info", "program", text)

    def _pss_mean_mib(self) -> float | None:
        held, span_s = self._pss_sums
        return round(held / span_s / 1024, 3) if span_s else None

    def _cgroup_cpu_us(self) -> int | None:
        """Return the CPU time of the cgroup in us, or None if there is no cgroup or systemd has removed it already."""
        return parse_counters(HOST.text(self._cpu)).get("usage_usec") if self._cpu else None

    def close(self) -> None:
        if self._kills:
            self._kills.close()
