"""The processes that take the CPU from a run: found by name, given a lower priority, or asked to end.

Only the screen of a run on this machine uses them, and only after the user was asked.
"""

import contextlib
import os
import time

import psutil

from edgetop.files import why
from edgetop.ui.screen_settings import OtherProcess

COMM_CELLS = 15  # the kernel keeps this many characters of a process's name (TASK_COMM_LEN, include/linux/sched.h)
LOWER_BY, LEAST_URGENT = 10, 19  # steps of niceness, and the greatest one (setpriority(2))
MOST_COMMAND = 1_000  # characters of a command line


class OtherProcesses:
    """Finds and controls processes of this machine. psutil refuses a process whose number was used again."""

    def __init__(self) -> None:
        self._found: dict[int, psutil.Process] = {}

    def find(self, name: str) -> OtherProcess | None:
        """Return the process with this name that used the largest share of a core since its start, or None."""
        self._found = {process.pid: process for process in psutil.process_iter()}
        described = [of for process in self._found.values() if (of := _if_named(process, name))]
        return max(described, key=lambda of: of.cpu_pct, default=None)

    def lower_priority(self, of: OtherProcess) -> str:
        """Lower the priority of a process that was found. Return what was done, or why it could not be done."""
        try:
            process = self._found[of.pid]
            before = process.nice()
            process.nice(min(before + LOWER_BY, LEAST_URGENT))
            return f"process {of.pid} {of.name}: niceness {before} to {process.nice()}"
        except (psutil.Error, OSError) as error:
            return _refused(of, error)

    def end(self, of: OtherProcess) -> str:
        """Send SIGTERM to a process that was found. Return what was done, or why it could not be done."""
        try:
            self._found[of.pid].terminate()
        except (psutil.Error, OSError) as error:
            return _refused(of, error)
        return f"process {of.pid} {of.name}: SIGTERM was sent"


def _refused(of: OtherProcess, error: Exception) -> str:
    if isinstance(error, psutil.AccessDenied):
        return f"process {of.pid} {of.name} belongs to {of.user}: permission denied"
    return f"process {of.pid} {of.name}: {why(error) if isinstance(error, OSError) else 'it has ended'}"


def _if_named(process: psutil.Process, name: str) -> OtherProcess | None:
    """Describe a process with this name; return None for another one, and for one that has ended."""
    with contextlib.suppress(psutil.Error):
        if process.name()[:COMM_CELLS] == name[:COMM_CELLS]:
            return _described(process)
    return None


def _described(process: psutil.Process) -> OtherProcess:
    """Describe a process. Raises psutil.Error if it has ended."""
    used, age_s = process.cpu_times(), max(0.01, time.time() - process.create_time())
    cpu_s = used.user + used.system
    command = ""
    with contextlib.suppress(psutil.AccessDenied):
        command = " ".join(process.cmdline())
    return OtherProcess(
        pid=process.pid,
        name=process.name(),
        command=(command or process.name())[:MOST_COMMAND],
        user=process.username(),
        cpu_pct=100 * cpu_s / age_s,
        cpu_s=cpu_s,
        age_s=age_s,
        niceness=process.nice(),
        may_control=os.geteuid() in (0, process.uids().real),
    )
