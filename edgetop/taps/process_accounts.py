"""How a child process ended, and how much memory a process and its descendants use."""

import contextlib
import os
import resource
import threading
import time

from edgetop.engines.engine_protocol import Noted
from edgetop.sensors.memory_sensors import MIB, parse_kib_fields
from edgetop.sensors.oom_kills import OomKill
from edgetop.sensors.process_table import HOST, Family
from edgetop.session.event_kinds import OomKilled, ProgramEnded

# The kernel walks the pages of each process for its PSS: 1.5 ms at 512 MB. So this takes 1 % of a core at most.
PSS_S, PSS_PATIENCE = 1.0, 100.0  # least interval, in s and in multiples of the CPU time that it took
MOST_PROCESSES = 64


class ChildExit:
    """Notes when a child of this process ends, its exit status, and the CPU time and memory that it used."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._noted_ns = 0  # when a thread saw the end
        self._status: int | None = None
        self.used: resource.struct_rusage | None = None  # None before the end, or if something else has waited for it
        self._lock = threading.Lock()  # two threads may ask at once
        threading.Thread(target=self._note_end, name="program-end", daemon=True).start()

    def _note_end(self) -> None:
        """Wait until the process ends, and note the time, more precisely than polls could."""
        with contextlib.suppress(ChildProcessError):  # it was waited for meanwhile
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        self._noted_ns = self._noted_ns or time.monotonic_ns()

    def exit_status(self) -> int | None:
        """Return the exit status in the form of `Popen.returncode`, or None while the process runs."""
        with self._lock:
            if self._status is None:
                try:
                    pid, status, self.used = os.wait4(self._pid, os.WNOHANG)
                except ChildProcessError:  # SIGCHLD is ignored, so the kernel keeps no status (wait(2))
                    pid, status, self.used = self._pid, 0, None
                if not pid:
                    self.used = None
                    return None
                self._noted_ns = self._noted_ns or time.monotonic_ns()
                self._status = os.waitstatus_to_exitcode(status)
            return self._status

    @property
    def ended_ns(self) -> int:
        """When the process ended, in ns of CLOCK_MONOTONIC. 0 as long as `exit_status` returns None."""
        return self._noted_ns if self._status is not None else 0


class ResidentMemory:
    """Measures the resident memory of a process, and the memory of the process and its descendants together."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak_kib = 0  # peak of the resident memory of the process, and of each descendant that was seen
        self._together_kib = 0  # peak of the memory of several processes together; 0 if there was never more than one
        self._family, self._due_s = Family(pid), 0.0
        self._read_s, self._sums = 0.0, [0.0, 0.0]  # the last reading; KiB times s, and s

    def read(self, now_s: float) -> None:
        """Read the memory, and keep peaks and means. `now_s` is the present time on CLOCK_MONOTONIC, in s."""
        fields = parse_kib_fields(HOST.text(f"proc/{self._pid}/status"))
        self.peak_kib = max(self.peak_kib, fields.get("VmHWM", 0))
        if now_s >= self._due_s:
            begun_s = time.thread_time()  # not the time for which this thread waits for a CPU
            self._read_together(fields.get("VmRSS", 0), now_s)
            self._due_s = now_s + max(PSS_S, PSS_PATIENCE * (time.thread_time() - begun_s))

    def _read_together(self, kib: int, now_s: float) -> None:
        """Measure the memory of the process and its descendants. `now_s` is the time of CLOCK_MONOTONIC in s.

        If there are several processes, their PSS is added up: memory that several processes share is divided among
        these. If there is only one process, its resident memory `kib`, in KiB, is the result.
        """
        pids = list(self._family.stats())[:MOST_PROCESSES]
        if len(pids) > 1:
            peaks = (parse_kib_fields(HOST.text(f"proc/{pid}/status")).get("VmHWM", 0) for pid in pids)
            self.peak_kib = max(self.peak_kib, *peaks)
            texts = (HOST.text(f"proc/{pid}/smaps_rollup") for pid in pids)
            kib = sum(parse_kib_fields(text).get("Pss", 0) for text in texts)
            self._together_kib = max(self._together_kib, kib)
        if self._read_s:
            span_s = now_s - self._read_s
            self._sums[0] += kib * span_s
            self._sums[1] += span_s
        self._read_s = now_s

    @property
    def peak_mib(self) -> float | None:
        return round(self.peak_kib / 1024, 3) or None

    @property
    def together_peak_mib(self) -> float | None:
        return round(self._together_kib / 1024, 3) or None

    @property
    def together_mean_mib(self) -> float | None:
        held, span_s = self._sums
        return round(held / span_s / 1024, 3) if span_s and self._together_kib else None


def noted(kill: OomKill, limit_bytes: int | None) -> Noted:
    """Return an event which says that the kernel's OOM killer ended a process.

    `limit_bytes` is the limit of the program's memory, or None.
    """
    limit_mib = None if limit_bytes is None else limit_bytes / MIB
    rss_mib = None if kill.resident_bytes is None else round(kill.resident_bytes / MIB, 1)
    who = "a process" if kill.name is None else f"{kill.name} (process {kill.pid})"
    at_least = "" if kill.is_exact else "at least "
    size = "" if rss_mib is None else f" with {at_least}{rss_mib:g} MiB resident"
    limit = "" if limit_mib is None else f": the program is at its limit of {limit_mib:g} MiB"
    body = OomKilled(kill.name, kill.pid, rss_mib, limit_mib)
    return Noted(body, "critical", "program", f"the kernel's OOM killer ended {who}{size}{limit}")


def ended(body: ProgramEnded) -> Noted:
    """Return an event which says that a program has ended, and what it used."""
    cpu = "" if body.cpu_ns is None else f", {body.cpu_ns / 1e9:.2f} s of CPU time"
    peak = "" if body.rss_peak_mib is None else f", {body.rss_peak_mib:.1f} MiB resident at most"
    text = f"the program ended after {body.total_ns / 1e9:.2f} s{cpu}{peak}"
    return Noted(body, "info", "program", text)
