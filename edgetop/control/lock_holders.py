"""Find the process that holds a lock, by asking the kernel. A process id in a file is not trusted.

If others can write to the folder, such a file could name any process, and a signal would then end the wrong process.
"""

import contextlib
import os
import signal
import stat
from pathlib import Path

PROC = Path("/proc")


def lock_holder(lock: Path) -> int | None:
    """Return the id of this user's process that holds a lock (flock(2)) on the file `lock`, or None if there is none.

    If a process shares the lock with its child processes, the id of the parent is returned. The result is also None for
    a symbolic link, for a file of another user, and for a file with several hard links.
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
    """Send SIGTERM to this user's process that holds the lock (flock(2)) on the file `lock`.

    Return the process id, or None if there is no such process.
    """
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
    """Whether a process is stopped by Ctrl+Z, SIGSTOP or a debugger: state T or t in proc_pid_stat(5)."""
    return pid > 0 and _stat(pid)[:1] in (["T"], ["t"])


def viewers(folder: Path, lock: Path) -> list[str]:
    """Return where a session is shown: names of terminals, such as `pts/3`, and "ssh" for another machine.

    The list has the terminal of the process that holds `lock`, which runs the session. It also has the terminals of all
    processes that have `folder` open, which are attached screens. The terminal of this process is left out. `folder` is
    the folder of the session, or of a sweep (a series of sessions).
    """
    try:
        status = folder.stat()
    except OSError:
        return []
    ours, writer = _terminal(os.getpid()), lock_holder(lock)
    found = set()
    for pid in _own_processes():
        terminal = _terminal(pid)
        is_viewer = pid != writer and _has_open(pid, status)
        if terminal and terminal != ours and (is_viewer or pid == writer):
            found.add(_terminal_name(terminal))
        elif is_viewer and not terminal:  # edgetop relay, which a screen on another machine has started
            found.add("ssh")
    return sorted(found)


def _has_open(pid: int, status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for fd in (PROC / str(pid) / "fd").iterdir():
            with contextlib.suppress(OSError):
                if os.path.samestat(fd.stat(), status):
                    return True
    return False


def _terminal(pid: int) -> int:
    """Return the device number of a process's terminal, or 0 if it has none (tty_nr in proc_pid_stat(5))."""
    fields = _stat(pid)
    return int(fields[4]) & 0xFFFFFFFF if len(fields) > 4 else 0


def _terminal_name(number: int) -> str:
    """Return the name of the terminal with the device number `number`, such as `pts/3`.

    Bits 8 to 19 of the device number are the major number (proc_pid_stat(5)). Pseudo-terminals have major numbers from
    136 on (Documentation/admin-guide/devices.txt of the kernel).
    """
    major, minor = os.major(number), os.minor(number)
    if 136 <= major <= 143:
        return f"pts/{(major - 136) * 256 + minor}"
    return f"tty{minor}" if major == 4 and minor < 64 else f"terminal {major}:{minor}"


def _own_processes() -> list[int]:
    found = []
    for process in PROC.iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdecimal() and process.stat().st_uid == os.geteuid():
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def _holds(pid: int, status: os.stat_result) -> bool:
    """Whether the process `pid` has a file open and locked. `status` is the stat(2) result of that file.

    Sources in the kernel: fs/proc/fd.c, and show_fd_locks in fs/locks.c.
    """
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
    """Return the fields of /proc/PID/stat after the process's name, or [] if the process is gone.

    The name is skipped because it may contain spaces and parentheses.
    """
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return []
