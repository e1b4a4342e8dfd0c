"""Finds processes that take CPU time from a run, lowers their priority, or asks them to end.

Used only by the screen of a run on this machine, after the user has confirmed the change.
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
    """Finds and controls other processes of this machine. A process id that now belongs to a new process is refused."""

    def __init__(self) -> None:
        self._found: dict[int, psutil.Process] = {}

    def find(self, name: str) -> OtherProcess | None:
        """Return the process called `name`, or None.

        If several have this name, return the one that used the most CPU time per second of its life.
        """
        self._found = {process.pid: process for process in psutil.process_iter()}
        described = [of for process in self._found.values() if (of := _if_named(process, name))]
        return max(described, key=lambda of: of.cpu_pct, default=None)

    def lower_priority(self, of: OtherProcess) -> str:
        """Lower the priority of a process that `find` returned. Return a sentence: what was done, or why it failed."""
        try:
            process = self._found[of.pid]
            before = process.nice()
            process.nice(min(before + LOWER_BY, LEAST_URGENT))
            return f"process {of.pid} {of.name}: niceness {before} to {process.nice()}"
        except (psutil.Error, OSError) as error:
            return _refused(of, error)

    def end(self, of: OtherProcess) -> str:
        """Send SIGTERM to a process that `find` returned. Return a sentence: what was done, or why it failed."""
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
    """Return facts about the process if it is called `name`. None if its name differs or it has ended."""
    with contextlib.suppress(psutil.Error):
        if process.name()[:COMM_CELLS] == name[:COMM_CELLS]:
            return _described(process)
    return None


def _described(process: psutil.Process) -> OtherProcess:
    """Return facts about a process: owner, command line, CPU use, niceness. Raises psutil.Error if it has ended."""
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
