"""A link to `edgetop relay` on another machine, by the system's ssh, which handles keys, hosts and proxies.

Host and session come from the user's command line, and paths of sessions from the board. Neither ssh nor a local shell
ever interprets them as options or commands.
"""

import contextlib
import io
import os
import re
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

from edgetop.engines.child.descriptors import until_readable
from edgetop.errors import InputError
from edgetop.feeds.remote import LinkEndedError
from edgetop.frozen import frozen

# Lend the terminal of this process to the process group of ssh, so that ssh can ask for a password, as shells do
# (tcsetpgrp(3), credentials(7)). Input, including Ctrl+C and Ctrl+Z, then goes only to that group, so this process
# repeats their effect on itself.

_PGRP = 2  # index of the process group among the fields after the name in /proc/PID/stat (proc_pid_stat(5))


class LentTerminal:
    def __init__(self, leader: int) -> None:
        """Make the process group `leader` the terminal's foreground group, so that ssh in it can ask for a password.

        Does nothing if this process is not in the foreground of a terminal.
        """
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
            with contextlib.suppress(
                OSError
            ):  # continue ssh, which may have been stopped for reading the terminal too early
                os.killpg(self._leader, signal.SIGCONT)

    def take_back(self) -> None:
        if self._tty >= 0:
            self._give_to(os.getpgrp())
            self._forget()

    def _forget(self) -> None:
        os.close(self._tty)
        self._tty = -1

    def _give_to(self, group: int) -> None:
        """Make the process group `group` the terminal's foreground group."""
        # SIGTTOU would stop this process.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with contextlib.suppress(OSError):  # the terminal has hung up
            os.tcsetpgrp(self._tty, group)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def follow_stop(self) -> None:
        """Suspend this process too, if the user has suspended ssh.

        When this process goes on, ssh is continued as well.
        """
        if self._tty < 0:
            return
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_PID, self._leader, os.WSTOPPED | os.WNOHANG):
                self._give_to(os.getpgrp())
                os.kill(os.getpid(), signal.SIGSTOP)
                self._lend()

    @property
    def is_in_use(self) -> bool:
        """Whether a process of ssh's group has the terminal open, which means that ssh asks a question."""
        return self._tty >= 0 and _has_tty_open(self._leader)


def _has_tty_open(group: int) -> bool:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):  # the process has ended
            is_of_group = int((process / "stat").read_text().rpartition(")")[2].split()[_PGRP]) == group
            if is_of_group and any(os.readlink(fd) == "/dev/tty" for fd in (process / "fd").iterdir()):  # noqa: PTH115
                return True
    return False


# A name must not begin with a dash, which ssh would take for an option, nor contain characters special to a shell.
_TARGET = re.compile(
    r"ssh:(?:(?P<user>[\w.+$\\][\w.+$\\-]*)@)?"
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[\w.][\w.-]*))(?::(?P<session>.+))?"
)
NOT_FOUND = 127  # exit code of sh(1) if a command is not found
SSH_FAILED = 255  # exit code of ssh(1) if it fails itself
_END_S, _LEAVE_S = 0.5, 5.0  # how long to wait for the end of ssh: by itself, and after a signal
_LOOK_S, _POLL_S = 0.5, 0.02
_MAX_LINES = 20
_GROUP_OF_ITS_OWN = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
# Both sides notice a dead link within 15 s.
_KEEPALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=20")


@frozen
class Target:
    host: str  # [USER@]HOST, as for ssh
    session: str | None = None  # None: the newest running session

    def __str__(self) -> str:
        return self.host


def parse_target(text: str) -> Target:
    """Return the host and the session in a text of the form `ssh:[USER@]HOST[:SESSION]`,
    with an IPv6 address in brackets.

    Raises InputError if the text has another form.

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
    """Return the command line of ssh that runs the shell command `over_there` on the board `target`.

    `attended` says whether ssh may ask for a password on the terminal.
    """
    batch = () if attended else ("-o", "BatchMode=yes")
    return ["ssh", "-T", *batch, *_KEEPALIVE, "-o", "ClearAllForwardings=yes", "--", target.host, over_there]


def not_found(command: str, target: Target) -> str:
    """Return the error message for the case that the board does not find `command`."""
    return (
        f"no {command} on {target}: install it there (edgetop help remote), or give its path, because ssh does not use "
        "the PATH of a login shell: --remote-command '~/.local/bin/edgetop'"
    )


OnLine = Callable[[str], None]  # called with each line that ssh prints


class SshLink:
    """A link over ssh: one ssh process and the three pipes to it."""

    def __init__(
        self, target: Target, session: str | None, remote_command: str, *, attended: bool, on_line: OnLine
    ) -> None:
        """Start ssh, which runs `edgetop relay` on the board `target`. Raises InputError if ssh cannot be started.

        `session` is the path of the session on the board, or None for the newest. The board's shell interprets
        `remote_command`, which starts edgetop there. `attended` says whether ssh may ask for a password on the
        terminal. `on_line` gets each line that ssh prints on stderr, on another thread.
        """
        over_there = f"{remote_command} relay" + (f" -- {shlex.quote(session)}" if session else "")
        line = command_line(target, over_there, attended=attended)
        self._target = target
        self._remote_command = remote_command
        # ssh gets its own process group, so that all its children can be ended. An unattended ssh gets no terminal.
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
        with io.BufferedReader(cast("io.RawIOBase", self._process.stderr)) as lines:  # unbuffered, because of bufsize=0
            for line in iter(lambda: lines.readline(4096), b""):
                text = line.decode(errors="replace").strip()
                if text:
                    self._lines.append(text)
                    self._on_line(text)

    def read(self, timeout_s: float) -> bytes:
        """Return the bytes that have arrived, after waiting at most `timeout_s` seconds for the first.

        Raises TimeoutError if none arrive, and LinkEndedError if ssh has ended. The time in which ssh asks the user a
        question does not count.
        """
        assert self._process.stdout
        out, until_s = self._process.stdout.fileno(), time.monotonic() + timeout_s
        while not until_readable(out, min(_LOOK_S, max(0.0, until_s - time.monotonic()))):
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
        """Take the terminal back from ssh.

        Call this when edgetop on the board has answered, so that ssh asks no more questions.
        """
        if self._terminal:
            self._terminal.take_back()

    def write(self, data: bytes) -> None:
        """Write bytes to ssh without waiting. Raises LinkEndedError if ssh is gone or its pipe is full."""
        assert self._process.stdin
        try:
            taken = os.write(self._process.stdin.fileno(), data)
        except OSError:
            raise LinkEndedError from None
        # Messages are small, so a full pipe means that nobody reads them.
        if taken < len(data):
            raise LinkEndedError

    def hang_up(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        """Send a signal to ssh and its child processes, such as a proxy."""
        if self._process.returncode is None:
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, number)

    def _ends_within(self, seconds: float) -> bool:
        """Wait at most `seconds` for ssh to end, and return whether ssh has ended."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            try:
                # WNOWAIT leaves the exit status unread, so that the kernel does not give the number of ssh's process
                # group to another process.
                if os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    return True
            except ChildProcessError:
                return True
            time.sleep(_POLL_S)
        return False

    def close(self) -> str:
        """End ssh. If it had already ended by itself, return the reason, else "".

        Raises KeyboardInterrupt if the user ended ssh by Ctrl+C.
        """
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
            return f"edgetop on {self._target} ended with exit code {code}: {last or 'no message on stderr'}"
        return last
