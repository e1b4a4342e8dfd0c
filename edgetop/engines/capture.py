"""Keeps what native code prints to descriptors 1 and 2 off the screen, within one process.

Used with thread isolation only, where the runtime shares the app's descriptors. Python's
own streams are moved to duplicates of the real ones, so that the app goes on printing.
"""

import contextlib
import os
import sys

from edgetop import streams
from edgetop.errors import EdgetopError


class OutputCapture:
    """While it is open, descriptors 1 and 2 are pipes whose other ends are `stdout_fd` and `stderr_fd`."""

    def __init__(self) -> None:
        self.stdout_fd, self._stdout_write = os.pipe()
        self.stderr_fd, self._stderr_write = os.pipe()
        # A runtime that prints more than a pipe holds between two polls must not be made to wait.
        os.set_blocking(self._stdout_write, False)
        os.set_blocking(self._stderr_write, False)
        self._streams = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
        self._saved = (-1, -1)

    def __enter__(self) -> "OutputCapture":  # noqa: PYI034  Self is in typing from Python 3.11 on
        sys.stdout.flush()
        sys.stderr.flush()
        self._saved = (os.dup(1), os.dup(2))
        os.dup2(self._stdout_write, 1)
        os.dup2(self._stderr_write, 2)
        sys.stdout = sys.__stdout__ = streams.output(self._saved[0])  # type: ignore[misc]
        sys.stderr = streams.talk(self._saved[1])
        # What draws a screen writes here, and must notice that the terminal is gone.
        sys.__stderr__ = open(self._saved[1], "w", 1, "utf-8", "backslashreplace", closefd=False)  # type: ignore[misc]
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._saved[0], 1)
        os.dup2(self._saved[1], 2)
        for stream in (sys.stdout, sys.stderr, sys.__stderr__):
            if stream not in self._streams:
                with contextlib.suppress(OSError, EdgetopError):  # a terminal that is gone takes nothing more
                    stream.close()  # type: ignore[union-attr]
        sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc]
        for fd in (*self._saved, self.stdout_fd, self.stderr_fd, self._stdout_write, self._stderr_write):
            os.close(fd)
