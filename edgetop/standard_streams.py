"""Standard output and standard error, as every command writes to them.

If standard output cannot be written, the write raises `OutputError`. If its reader has closed the pipe, the write
raises `ReaderLeftError`, which is no failure. If nobody reads standard error any more (a closed descriptor or pipe, a
terminal that hung up), the program continues without it.
"""

import errno
import io
import os
import select
import sys
from typing import Any, TextIO

from edgetop.errors import OutputError, ReaderLeftError

# A descriptor that was closed before edgetop began would become that of the next file or socket, which then got
# what is printed. Reading from the first gives an end of file, writing to the second fails (EBADF), the third drops.
_INSTEAD = ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY))


def guard() -> None:
    """Make `sys.stdout` and `sys.stderr` behave as this module describes.

    A stream that a test has replaced is left alone.
    """
    for fd, flags in _INSTEAD:
        if not _is_open(fd):
            os.set_inheritable(os.open(os.devnull, flags), True)  # the lowest that is free: this one
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    if sys.stdout is sys.__stdout__:
        sys.stdout = output(1, sys.stdout)
    if sys.stderr is sys.__stderr__:
        sys.stderr = talk(2, sys.stderr)


def has_screen() -> bool:
    """Whether a screen can be drawn: standard input is a terminal, and so is standard error or standard output."""
    return sys.stdin.isatty() and (sys.stderr.isatty() or sys.stdout.isatty())


def screen() -> TextIO:
    """Return a stream for drawing the screen: standard error, or standard output if only that is a terminal.

    Standard error comes first, because the result may go to a file (`--json > result.json`).
    """
    streams = [stream for stream in (sys.__stderr__, sys.__stdout__) if stream is not None]
    stream = next((one for one in streams if one.isatty()), streams[0])
    # A stream of its own, because a write to `sys.__stdout__` must not raise for a character that the encoding lacks.
    return open(stream.fileno(), "w", encoding=stream.encoding, errors="backslashreplace", closefd=False)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def output(fd: int, like: io.TextIOWrapper | Any = None) -> io.TextIOWrapper:
    """Return a stream that writes to the descriptor `fd`. A write that fails raises OutputError or ReaderLeftError.

    The stream has the encoding of the stream `like`, or UTF-8. Closing it does not close the descriptor.
    """
    return _text(_Output(fd), like)


def talk(fd: int, like: io.TextIOWrapper | Any = None) -> io.TextIOWrapper:
    """Return a stream that writes to the descriptor `fd`. Its writes never raise an error.

    The stream has the encoding of the stream `like`, or UTF-8. Closing it does not close the descriptor.
    """
    return _text(_Talk(fd), like)


def _text(raw: io.FileIO, like: io.TextIOWrapper | Any) -> io.TextIOWrapper:
    """Return a text stream that writes to `raw`, with the encoding of the stream `like`.

    Characters that the encoding lacks become `?`.
    """
    encoding = like.encoding if like is not None else "utf-8"
    through = like is not None and like.write_through
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, "replace", line_buffering=raw.isatty(), write_through=through
    )


class _Output(io.FileIO):
    """A file for output. The first write that fails raises an error, and everything written later is discarded."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)
        self._was_terminal = self.isatty()  # one that has hung up does not say so any more

    def write(self, data: Any) -> int:
        try:
            while (written := super().write(data)) is None:  # somebody made it non-blocking, and it is full
                select.select([], [self], [])
        except OSError as error:
            self._drop_the_rest()
            if error.errno == errno.EPIPE or (error.errno == errno.EIO and self._was_terminal):
                raise ReaderLeftError from None
            if error.errno == errno.EBADF:
                raise OutputError("the standard output is closed", "give it a file or a pipe") from None
            raise OutputError(f"the standard output cannot be written: {error.strerror}") from None
        return written

    def _drop_the_rest(self) -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


class _Talk(io.FileIO):
    def __init__(self, fd: int) -> None:
        super().__init__(fd, "w", closefd=False)

    def write(self, data: Any) -> int:
        try:
            written = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written
