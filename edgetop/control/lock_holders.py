"""Which process holds a lock, and whether it is stopped: as the kernel knows it, never as a file says.

A file in a folder that others may write could name any process: a signal would then end that one.
"""

import contextlib
import os
import signal
import stat
from pathlib import Path

PROC = Path("/proc")


def lock_holder(lock: Path) -> int | None:
    """Return the process of this user that holds a file locked by flock(2); None: there is none, or it is not seen.

    A file that is another user's, a link, or has a second name elsewhere, says nothing. A lock that a child shares
    belongs to the parent.
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
    """Send SIGTERM to the process that holds the lock, and return its id; None: there is none of this user."""
    pid = lock_holder(lock)
    if pid is None:
        return None
    try:
        reference = os.pidfd_open(pid)  # from here on the number cannot become another process's
    except OSError:  # Linux before 5.3 has none
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
    """Whether a process was stopped: by Ctrl+Z, SIGSTOP or a debugger (proc_pid_stat(5), state T or t)."""
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
    """Return the fields after the name, which may have spaces and parentheses; [] if the process is gone."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return []
