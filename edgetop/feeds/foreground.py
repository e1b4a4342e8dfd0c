"""The terminal of this process, lent to another process group, which may so ask its user for a password.

As a shell does it (tcsetpgrp(3), credentials(7)): what the user types, Ctrl+C and Ctrl+Z too, goes to
that group alone, so what these do to it is done here as well.
"""

import contextlib
import os
import signal
from pathlib import Path

_PGRP = 2  # of what stands behind the name in /proc/PID/stat (proc_pid_stat(5))


class LentTerminal:
    def __init__(self, leader: int) -> None:
        """To the group that this child leads. Where this process has no terminal, or not now, nothing is lent."""
        self._leader = leader
        self._tty = -1
        with contextlib.suppress(OSError):
            self._tty = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
            if os.tcgetpgrp(self._tty) != os.getpgrp():
                self._forget()
        self._lend()

    def _lend(self) -> None:
        if self._tty >= 0:
            self._give_to(self._leader)
            with contextlib.suppress(OSError):  # it may have asked for it before it had it
                os.killpg(self._leader, signal.SIGCONT)

    def take_back(self) -> None:
        if self._tty >= 0:
            self._give_to(os.getpgrp())
            self._forget()

    def _forget(self) -> None:
        os.close(self._tty)
        self._tty = -1

    def _give_to(self, group: int) -> None:
        """Without being stopped for it (SIGTTOU) as a process in the background."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with contextlib.suppress(OSError):  # it hung up
            os.tcsetpgrp(self._tty, group)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def follow_stop(self) -> None:
        """Where the user has stopped the group, stop too, and go on together."""
        if self._tty < 0:
            return
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, self._leader, os.WSTOPPED | os.WNOHANG):
                self._give_to(os.getpgrp())
                os.kill(os.getpid(), signal.SIGSTOP)
                self._lend()

    @property
    def is_in_use(self) -> bool:
        """Whether one of the group has the terminal open to ask: ssh opens /dev/tty for a question and closes it."""
        return self._tty >= 0 and any(_has_tty_open(process) for process in _group(self._leader))


def _group(group: int) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):  # it has ended
            if int((process / "stat").read_text().rpartition(")")[2].split()[_PGRP]) == group:
                found.append(process)
    return found


def _has_tty_open(process: Path) -> bool:
    try:
        return any(os.readlink(fd) == "/dev/tty" for fd in (process / "fd").iterdir())  # noqa: PTH115
    except OSError:
        return False
