"""A terminal for a program of its own: a pseudo-terminal that is read all the time and answers what is asked of it."""

import errno
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.cells import cell_len

from tests.support import commands
from tests.support.waiting import PATIENCE_S

FRAME_END = b"\x1b[?2026l"
ALTERNATE_SCREEN, LEAVE_ALTERNATE_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
_ASKED_SYNC = b"\x1b[?2026$p"
_HAS_SYNC = b"\x1b[?2026;2$y"  # so that every frame is told apart from the next (synchronized output)


# Before a program: take the terminal of its input as its session's own, which then hears of a hang-up.
ITS_OWN = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"


def as_its_own(argv: Sequence[str]) -> list[str]:
    """The same program, on a controlling terminal (tty(4))."""
    return [sys.executable, "-c", ITS_OWN, *argv]


class Terminal:
    """Runs a program on a terminal of `columns` by `rows`; `output` is all it wrote."""

    def __init__(
        self,
        argv: Sequence[str],
        columns: int,
        rows: int,
        environment: Mapping[str, str],
        template: str = "",
        *,
        is_its_own: bool = False,
    ) -> None:
        """`template`: of `command_template`, that forks for these arguments; "": they are a program.

        `is_its_own`: the terminal is that of the session of what is forked (tty(4)).
        """
        self._ours, self._theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        self._set_size(columns, rows)
        self.attributes_before = self.attributes()
        self.output = b""
        self._drawn = 0  # of it
        self._text = (0, "")  # how much of it `text` is
        env = {**os.environ, **environment}
        streams = (os.fdopen(os.dup(self._theirs)),) * 3
        if template:
            forked = commands.template(template)
            self._process = forked.start([*argv], Path.cwd(), env, *streams, is_session=True, has_terminal=is_its_own)
        else:
            self._process = subprocess.Popen(
                argv, stdin=streams[0], stdout=streams[1], stderr=streams[2], env=env, start_new_session=True
            )
        streams[0].close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hang_up(self) -> None:
        """As a terminal that is closed, or a connection that breaks."""
        os.close(self._ours)
        self._ours = -1

    def wait_for_end(self) -> int:
        """Of a program whose terminal has hung up."""
        return self._process.wait(PATIENCE_S)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for fd in (self._ours, self._theirs):
            if fd >= 0:
                os.close(fd)

    def attributes(self) -> list[object]:
        return termios.tcgetattr(self._theirs)

    def _set_size(self, columns: int, rows: int) -> None:
        self._cells = Cells(columns, rows)
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        self._set_size(columns, rows)
        self._process.send_signal(signal.SIGWINCH)

    def send(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def wait_for(self, *pieces: str) -> None:
        """Until all of these have been written, or are seen. Raises AssertionError where they do not come."""
        self._wait(lambda: all(self._has(piece) for piece in pieces), f"{pieces} in {self.seen}")

    def wait_for_output(self, piece: bytes) -> None:
        """The same of what is written with its control sequences."""
        self._wait(lambda: piece in self.output, repr(piece))

    def _has(self, piece: str) -> bool:
        return piece in self.text or any(piece in row for row in self.seen)

    @property
    def seen(self) -> list[str]:
        """What the last whole frame left on the screen: a frame holds only what differs from the one before."""
        end = self.output.rfind(FRAME_END)
        if end > self._drawn:
            self._cells.write(self.output[self._drawn : end].decode("utf-8", "replace"))
            self._drawn = end
        return self._cells.rows

    def wait_for_frames(self, count: int) -> list[bytes]:
        self._wait(lambda: self.output.count(FRAME_END) >= count, f"{count} frames")
        return self.frames

    def wait_for_paint(self, cells: int, after: int = 0) -> None:
        """Until a frame behind so many holds a byte and more for each of these cells: all of a screen."""
        self._wait(lambda: any(len(frame) > cells for frame in self.frames[after:]), f"a frame of {cells} cells")

    def read_for(self, seconds: float) -> None:
        """As a terminal does while nobody types."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._read()

    def wait_for_exit(self) -> int:
        self._wait(lambda: self._process.poll() is not None, f"an exit after {self.text[-2000:]!r}")
        self._read()
        return self._process.returncode

    def _wait(self, is_so: object, what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():  # type: ignore[operator]
            assert time.monotonic() < deadline, f"waited in vain for {what}"
            self._read()

    def _read(self) -> None:
        try:
            data = os.read(self._ours, 65536)
        except BlockingIOError:
            time.sleep(0.005)
            return
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: nobody has the other end open
                raise
            return
        if _ASKED_SYNC in data:
            os.write(self._ours, _HAS_SYNC)
        self.output += data

    @property
    def frames(self) -> list[bytes]:
        """Everything written, cut behind every frame."""
        return [frame + FRAME_END for frame in self.output.split(FRAME_END)[:-1]]

    @property
    def text(self) -> str:
        """What was written, without control sequences."""
        if self._text[0] != len(self.output):
            self._text = len(self.output), _SEQUENCE.sub("", self.output.decode("utf-8", "replace"))
        return self._text[1]

    def shown(self, columns: int, rows: int) -> list[str]:
        """What a terminal of this size showed last, before the program left its screen."""
        cells = Cells(columns, rows)
        cells.write(self.output.decode("utf-8", "replace").rpartition(LEAVE_ALTERNATE_SCREEN)[0])
        return cells.rows


_SEQUENCE = re.compile(r"\x1b(?:\[([0-9;?<>=$]*)([a-zA-Z])|\][^\x07]*\x07|.)")


class Cells:
    """The cells of a terminal: text goes where the cursor stands, and all else but its moves is passed over."""

    def __init__(self, columns: int, rows: int) -> None:
        self._cells = [[" "] * columns for _ in range(rows)]
        self._x = self._y = 0
        self.written = 0  # cells that text went to, however often

    @property
    def rows(self) -> list[str]:
        return ["".join(row) for row in self._cells]

    def write(self, output: str) -> None:
        end = 0
        for match in _SEQUENCE.finditer(output):
            self._put(output[end : match.start()])
            end = match.end()
            if match[2] == "H":
                row, column = (match[1] or "1;1").split(";")
                self._x, self._y = int(column) - 1, int(row) - 1
        self._put(output[end:])

    def _put(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self._x, self._y = 0, self._y + 1
                continue
            for cell in (character, *[""] * (cell_len(character) - 1)):
                if self._y < len(self._cells) and self._x < len(self._cells[0]):
                    self._cells[self._y][self._x] = cell
                    self.written += 1
                self._x += 1
