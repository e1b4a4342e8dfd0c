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
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from edgetop.errors import InputError
from edgetop.feeds.conversation import LinkEndedError

# No name begins with a dash, which ssh might take for an option, and none holds what a shell would act on.
_TARGET = re.compile(
    r"ssh:(?:(?P<user>[\w.+$\\][\w.+$\\-]*)@)?"
    r"(?:\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\]|(?P<host>[\w.][\w.-]*))(?::(?P<session>.+))?"
)
NOT_FOUND = 127  # sh(1): a command that is not there
SSH_FAILED = 255  # ssh(1)
_END_S, _LEAVE_S = 0.5, 5.0  # for an end by itself, and when it was told to
_KEPT_LINES = 20
# A link that is dead is noticed within 15 s by either side.
_KEEPALIVE = ("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=20")


@dataclass(frozen=True, slots=True)
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


class SshLink:
    """One ssh process, and the three pipes to it."""

    def __init__(
        self, target: Target, session: str | None, remote_command: str, *, attended: bool, hear: Callable[[str], None]
    ) -> None:
        """`attended`: ssh may ask for a password, on the terminal. `hear` gets each line it says, from another thread.

        `remote_command` is read by the shell over there, so that `~` means the home there. Raises InputError.
        """
        over_there = f"{remote_command} relay" + (f" -- {shlex.quote(session)}" if session else "")
        batch = () if attended else ("-o", "BatchMode=yes")
        # -T: no terminal, which would mangle bytes; what the user's configuration forwards is not wanted here.
        line = ["ssh", "-T", *batch, *_KEEPALIVE, "-o", "ClearAllForwardings=yes", "--", target.host, over_there]
        self._target = target
        self._remote_command = remote_command
        try:
            self._process = subprocess.Popen(  # noqa: S603  an argument list, and `--` before the host
                line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
            )
        except OSError as error:
            raise InputError(f"ssh cannot be started: {error.strerror}", "install OpenSSH's client") from None
        assert self._process.stdin
        os.set_blocking(self._process.stdin.fileno(), False)
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        self._hear = hear
        self._listener = threading.Thread(target=self._listen, name="ssh stderr", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stderr
        with io.BufferedReader(cast("io.RawIOBase", self._process.stderr)) as lines:  # bufsize=0 makes it one
            for line in iter(lambda: lines.readline(4096), b""):
                text = line.decode(errors="replace").strip()
                if text:
                    self._said.append(text)
                    self._hear(text)

    def read(self, timeout_s: float | None) -> bytes:
        """What has come; raises LinkEndedError at its end, and TimeoutError where nothing comes for so long."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            raise TimeoutError
        data = os.read(self._process.stdout.fileno(), 65_536)
        if not data:
            raise LinkEndedError
        return data

    def write(self, data: bytes) -> None:
        """Raises LinkEndedError where it is not taken at once: what is said here is little, and the pipe has room."""
        assert self._process.stdin
        try:
            taken = os.write(self._process.stdin.fileno(), data)
        except OSError:
            raise LinkEndedError from None
        if taken < len(data):
            raise LinkEndedError

    def hang_up(self) -> None:
        self._process.terminate()

    def close(self) -> str:
        """End it; why it ended by itself, in words, where it had."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()  # type: ignore[union-attr]
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            code = 0
            try:
                self._process.wait(_LEAVE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._listener.join(_LEAVE_S)
        return self._why(code)

    def _why(self, code: int) -> str:
        last = self._said[-1] if self._said else ""
        if code == NOT_FOUND:
            return (
                f"{self._remote_command} was not found on {self._target} (ssh has not the PATH of a login; "
                "say where it is: --remote-command '~/.local/bin/edgetop')"
            )
        if code == SSH_FAILED:
            return last or f"ssh could not reach {self._target}"
        if code > 0:
            return f"edgetop on {self._target} ended with exit code {code}: {last or 'it said nothing'}"
        return last
