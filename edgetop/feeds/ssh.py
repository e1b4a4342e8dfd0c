"""`edgetop relay` on another machine, at the end of the system's own ssh: keys, hosts and proxies are its business.

Host and session come from a user's command line and session paths from the board, so neither is
ever read as an option or by a shell on this side.
"""

import contextlib
import io
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from edgetop.errors import InputError
from edgetop.feeds.remote import LinkEndedError
from edgetop.frozen import frozen

# The terminal of this process, lent to another process group, which may so ask its user for a password.
# As a shell does it (tcsetpgrp(3), credentials(7)): what the user types, Ctrl+C and Ctrl+Z too, goes to that group
# alone, so what these do to it is done here as well.

_PGRP = 2  # of what stands behind the name in /proc/PID/stat (proc_pid_stat(5))


class LentTerminal:
    def __init__(self, leader: int) -> None:
        """Lend the terminal to the child's process group; without a terminal in the foreground, do nothing."""
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
        """Give the terminal to a group, without being stopped as a background process (SIGTTOU)."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with contextlib.suppress(OSError):  # it hung up
            os.tcsetpgrp(self._tty, group)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def follow_stop(self) -> None:
        """Stop when the user has stopped the child's group, and continue it afterwards."""
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
        return self._tty >= 0 and _has_tty_open(self._leader)


def _has_tty_open(group: int) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):  # it has ended
            is_of_group = int((process / "stat").read_text().rpartition(")")[2].split()[_PGRP]) == group
            if is_of_group and any(os.readlink(fd) == "/dev/tty" for fd in (process / "fd").iterdir()):  # noqa: PTH115
                return True
    return False


# No name begins with a dash, which ssh might take for an option, and none holds what a shell would act on.
_TARGET = re.compile(
    r"ssh:(?:(?P<user>[\w.+$\\][\w.+$\\-]*)@)?"
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[\w.][\w.-]*))(?::(?P<session>.+))?"
)
NOT_FOUND = 127  # sh(1): a command that is not there
SSH_FAILED = 255  # ssh(1)
_END_S, _LEAVE_S = 0.5, 5.0  # how long to wait for its end: by itself, and after a signal
_LOOK_S, _POLL_S = 0.5, 0.02
_MAX_LINES = 20
_GROUP_OF_ITS_OWN = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
# A link that is dead is noticed within 15 s by either side.
_KEEPALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=20")


@frozen
class Target:
    host: str  # [USER@]HOST, as ssh takes it
    session: str | None = None  # None: the newest that runs there

    def __str__(self) -> str:
        return self.host


def parse_target(text: str) -> Target:
    """`ssh:[USER@]HOST[:SESSION]`; an IPv6 address stands in brackets. Raises InputError.

    >>> parse_target("ssh:pi@board:soak-1")
    Target(host='pi@board', session='soak-1')
    >>> parse_target("ssh:[fe80::1%eth0]")
    Target(host='fe80::1%eth0', session=None)
    """
    match = _TARGET.fullmatch(text)
    if match is None:
        raise InputError(f"{text}: not a host", "ssh:[USER@]HOST[:SESSION]")
    user = f"{match['user']}@" if match["user"] else ""
    return Target(user + (match["address"] or match["host"]), match["session"])


def command_line(target: Target, over_there: str, *, attended: bool) -> list[str]:
    """Return ssh's command line with `over_there`, a command for the shell on the board.

    `attended`: ssh may ask for a password on the terminal.

    -T: no terminal, which would mangle bytes; what the user's configuration forwards is not wanted here.
    """
    batch = () if attended else ("-o", "BatchMode=yes")
    return ["ssh", "-T", *batch, *_KEEPALIVE, "-o", "ClearAllForwardings=yes", "--", target.host, over_there]


def not_found(command: str, target: Target) -> str:
    """Return the advice where that command is not on the board."""
    return (
        f"no {command} on {target}: install it there from a copy of its folder, as here (edgetop help remote), or say "
        "where it is, since ssh has not the PATH of a login: --remote-command '~/.local/bin/edgetop'"
    )


OnLine = Callable[[str], None]  # is given what ssh prints


class SshLink:
    """One ssh process with its three pipes."""

    def __init__(
        self, target: Target, session: str | None, remote_command: str, *, attended: bool, on_line: OnLine
    ) -> None:
        """`attended`: ssh may ask for a password, on the terminal. `on_line` is called from another thread.

        `remote_command` is read by the shell over there, so that `~` means the home there. Raises InputError.
        """
        over_there = f"{remote_command} relay" + (f" -- {shlex.quote(session)}" if session else "")
        line = command_line(target, over_there, attended=attended)
        self._target = target
        self._remote_command = remote_command
        # A group of its own, with which whatever it has begun can be ended. Nobody to be asked: no terminal either.
        apart: dict[str, Any] = _GROUP_OF_ITS_OWN if attended else {"start_new_session": True}
        try:
            self._process = subprocess.Popen(  # noqa: S603  an argument list, and `--` before the host
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, **apart
            )
        except OSError as error:
            raise InputError(f"ssh cannot be started: {error.strerror}", "install OpenSSH's client") from None
        self._terminal = LentTerminal(self._process.pid) if attended else None
        assert self._process.stdin
        os.set_blocking(self._process.stdin.fileno(), False)
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)
        self._on_line = on_line
        self._listener = threading.Thread(target=self._listen, name="ssh stderr", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stderr
        with io.BufferedReader(cast("io.RawIOBase", self._process.stderr)) as lines:  # bufsize=0 makes it one
            for line in iter(lambda: lines.readline(4096), b""):
                text = line.decode(errors="replace").strip()
                if text:
                    self._lines.append(text)
                    self._on_line(text)

    def read(self, timeout_s: float) -> bytes:
        """Return the bytes that arrived. Raises LinkEndedError at the end, TimeoutError where nothing arrives in time.

        The time in which ssh asks its user something does not count.
        """
        assert self._process.stdout
        until_s = time.monotonic() + timeout_s
        while not select.select([self._process.stdout], [], [], min(_LOOK_S, max(0.0, until_s - time.monotonic())))[0]:
            if self._terminal:
                self._terminal.follow_stop()
                if self._terminal.is_in_use:
                    until_s = time.monotonic() + timeout_s
            if time.monotonic() >= until_s:
                raise TimeoutError
        data = os.read(self._process.stdout.fileno(), 65_536)
        if not data:
            raise LinkEndedError
        return data

    def answered(self) -> None:
        """Take the terminal back: ssh has no more questions."""
        if self._terminal:
            self._terminal.take_back()

    def write(self, data: bytes) -> None:
        """Raises LinkEndedError where the pipe has no room: messages are small, so then nobody reads it."""
        assert self._process.stdin
        try:
            taken = os.write(self._process.stdin.fileno(), data)
        except OSError:
            raise LinkEndedError from None
        if taken < len(data):
            raise LinkEndedError

    def hang_up(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        """Signal ssh and its children: a proxy, a jump host's ssh."""
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, number)

    def _ends_within(self, seconds: float) -> bool:
        """Whether it ends in that time. It is not reaped, so that its group's number is not used again."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            try:
                if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return True
            except ChildProcessError:
                return True
            time.sleep(_POLL_S)
        return False

    def close(self) -> str:
        """End it; why it ended by itself, in words, where it had. Raises KeyboardInterrupt where its user ended it."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        has_ended = self._ends_within(_END_S)
        self._signal(signal.SIGTERM)
        self._ends_within(_LEAVE_S)
        self._signal(signal.SIGKILL)
        code = self._process.wait()
        self._listener.join(_LEAVE_S)
        self.answered()
        if has_ended and code == -signal.SIGINT and self._terminal:
            raise KeyboardInterrupt
        return self._why(code) if has_ended else ""

    def _why(self, code: int) -> str:
        last = self._lines[-1] if self._lines else ""
        if code == NOT_FOUND:
            return not_found(self._remote_command, self._target)
        if code == SSH_FAILED:
            return last or f"ssh could not reach {self._target}"
        if code > 0:
            return f"edgetop on {self._target} ended with exit code {code}: {last or 'it said nothing on stderr'}"
        return last
