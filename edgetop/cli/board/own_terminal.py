"""A pseudo-terminal in which edgetop starts itself, to see what its screen shows."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence

from edgetop.engines.child.descriptors import until_readable

MAX_BYTES = 64 * 1024 * 1024  # far more than a screen sends in an hour
LOOK_S = 0.2
LEAVE_S = 5.0
ALTERNATE_SCREEN = b"\x1b[?1049h"
# Control sequences, operating system commands and other strings, two-byte escapes (ECMA-48).
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[PX^_\]].*?(?:\x07|\x1b\\)|[@-Z\\-_])", re.DOTALL)


class OwnTerminal:
    """A command that runs on a pseudo-terminal. `output` has the bytes that the command has written so far."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], columns: int, rows: int) -> None:
        """Start the command on a terminal with `columns` and `rows`. `environment` are its environment variables.

        Raises OSError if the system provides no terminal or no process.
        """
        self.output = b""
        self._ours, theirs = pty.openpty()
        variables = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        variables |= {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        try:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            self._process = subprocess.Popen(  # noqa: S603  the caller's command
                command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=variables
            )
        except OSError:
            os.close(self._ours)
            raise
        finally:
            os.close(theirs)

    @property
    def text(self) -> bytes:
        """The command's output so far, without escape sequences."""
        return _ESCAPES.sub(b"", self.output)

    def read_until(self, is_done: Callable[[], bool], until_s: float) -> bool:
        """Read the output until `is_done()` is true. Return whether it is true at the end.

        Stop also when the command has ended, or at `until_s`, a time of time.monotonic().
        """
        while not is_done() and len(self.output) < MAX_BYTES and (left_s := until_s - time.monotonic()) > 0:
            if until_readable(self._ours, min(LOOK_S, left_s)):
                try:
                    self.output += os.read(self._ours, 65536)
                except OSError:  # EIO: the command has ended
                    break
        return is_done()

    def send(self, keys: bytes) -> None:
        with contextlib.suppress(OSError):  # the command has ended
            os.write(self._ours, keys)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def close(self) -> None:
        """End the command, first by SIGTERM, then by SIGKILL. Close the terminal."""
        try:
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGTERM)
            # It may wait for its last output to be taken.
            self.read_until(self.has_ended, time.monotonic() + LEAVE_S)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._ours)
