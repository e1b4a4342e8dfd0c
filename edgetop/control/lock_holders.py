"""Find the process that holds a lock, by asking the kernel. A process id in a file is not trusted.

In a folder that others can write to, such a file could name any process, and a signal would end the wrong one.
"""

import contextlib
import os
import signal
import stat
from pathlib import Path

PROC = Path("/proc")


def lock_holder(lock: Path) -> int | None:
    """Return the id of this user's process that holds a lock on a file (flock(2)), or None if none is found.

    Returns None for a link, a file of another user, and a file with a second name elsewhere. If a child process shares
    the lock, the parent is returned.
    """
    try:
        status = lock.lstat()
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink != 1:
        return None
    found = [pid for pid in _own_processes() if _holds(pid, status)]
    return next((pid for pid in found if _parent(pid) not in found), None)


def end_holder(lock: Path) -> int | None:
    """Send SIGTERM to this user's process that holds the lock, and return its id, or None if there is none."""
    pid = lock_holder(lock)
    if pid is None:
        return None
    try:
        reference = os.pidfd_open(pid)  # refers to this process even if the id is used again
    except OSError:  # Linux before 5.3 has no pidfd_open
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return pid
    try:
        with contextlib.suppress(ProcessLookupError):
            if lock_holder(lock) == pid:
                signal.pidfd_send_signal(reference, signal.SIGTERM)
    finally:
        os.close(reference)
    return pid


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by Ctrl+Z, SIGSTOP or a debugger (proc_pid_stat(5), state T or t)."""
    return pid > 0 and _stat(pid)[:1] in (["T"], ["t"])


def _own_processes() -> list[int]:
    found = []
    for process in PROC.iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdecimal() and process.stat().st_uid == os.geteuid():
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def _holds(pid: int, status: os.stat_result) -> bool:
    """Whether a process has the file open and locked: fs/proc/fd.c and show_fd_locks of fs/locks.c."""
    with contextlib.suppress(OSError):
        for fd in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(fd.stat(), status):
                    about = (PROC / str(pid) / "fdinfo" / fd.name).read_text(encoding="ascii", errors="replace")
                    if "FLOCK" in about:
                        return True
    return False


def _parent(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name, or [] if the process is gone.

    The name itself may have spaces and parentheses.
    """
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return []
