"""What runs: processes that a test or the program has started, each of which may end while it is looked at."""

import contextlib
import subprocess
from pathlib import Path
from typing import Any

import psutil

from tests.support.forked_helpers import is_engine
from tests.support.waiting import wait_until


def is_running(pid: int) -> bool:
    """Return whether a process still runs. A zombie, which only its parent can remove, does not."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def engines_of(pid: int) -> list[int]:
    """Return the pids of the engine children of a process."""
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if is_engine(child.pid):
                found.append(child.pid)
    return found


def engine_of(process: subprocess.Popen[Any]) -> int:
    """Return the pid of the engine child of an edgetop process, once there is one."""
    return wait_until(lambda: engines_of(process.pid))[0]


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that the threads of a process have used, in seconds.

    Source: schedstat, in ns (Documentation/scheduler/sched-stats.rst).
    """
    spent_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            spent_ns += int((task / "schedstat").read_text().split()[0])
    return spent_ns / 1e9
