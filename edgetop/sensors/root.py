"""The root of the file system as an argument: `/`, or a captured board.

Reads with `os.read` on a non-blocking descriptor: on EAGAIN, which gated Jetson zones
give, Python's buffered layers raise TypeError or return nothing instead of failing.

A file that could not be read when a board was captured fails in the same way again: the
capture's `unreadable.txt` holds a line `EAGAIN sys/class/...` for it, and an empty file
stands in its place.
"""

import errno
import os
import stat
from pathlib import Path

from edgetop.sensors.numbers import parse_int

READ_BYTES = 65_536
UNREADABLE = "unreadable.txt"


class Root:
    """Relative paths only. Nothing outside the root is ever read: not through links either."""

    def __init__(self, path: Path = Path("/")) -> None:
        self._path = path.resolve()
        self.is_host = self._path == Path("/")
        self._errno_of = {} if self.is_host else _unreadable(self._path / UNREADABLE)

    def read_text(self, relative: str) -> str:
        """The whole file without trailing white space or NULs. Raises OSError."""
        return self.read_bytes(relative).decode("utf-8", "replace").rstrip("\n\0 ")

    def read_bytes(self, relative: str, at_most: int | None = None) -> bytes:
        """The whole file. Raises OSError; with EFBIG where it holds more than `at_most` bytes."""
        path = self._inside(relative)
        if self._errno_of and (number := self._errno_of.get(str(path))):
            raise OSError(number, os.strerror(number), self.shown(relative))
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            pieces, size = [], 0
            while piece := os.read(fd, READ_BYTES):
                size += len(piece)
                if at_most is not None and size > at_most:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), self.shown(relative))
                pieces.append(piece)
            return b"".join(pieces)
        finally:
            os.close(fd)

    def read_int(self, relative: str) -> int:
        """Raises OSError, or ValueError where the file holds no integer."""
        return parse_int(self.read_text(relative).strip())

    def line(self, relative: str) -> str | None:
        """The first line of a file, or None where there is none or nothing in it."""
        try:
            return self.read_text(relative).split("\n", 1)[0].strip("\0 ") or None
        except OSError:
            return None

    def names(self, relative: str) -> list[str]:
        """What lies in a folder, sorted; nothing where there is no such folder."""
        try:
            return sorted((entry.name for entry in self._inside(relative).iterdir()), key=_natural)
        except OSError:
            return []

    def exists(self, relative: str) -> bool:
        try:
            return self._inside(relative).exists()
        except OSError:
            return False

    def is_denied(self, relative: str) -> bool:
        """Whether the file may not be opened. Nothing is read: a driver may take its time."""
        try:
            path = self._inside(relative)
            if self._errno_of.get(str(path)) in (errno.EACCES, errno.EPERM):
                return True
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            return isinstance(error, PermissionError)
        return False

    def is_file(self, relative: str) -> bool:
        """A regular file, as all of /sys and /proc are: no pipe, socket or device."""
        try:
            return stat.S_ISREG(self._inside(relative).stat().st_mode)
        except OSError:
            return False

    def shown(self, relative: str) -> str:
        """The path as the board itself would name it."""
        return "/" + relative

    def resolve(self, relative: str) -> str | None:
        """Where a link leads, relative to the root; None where it leads nowhere inside."""
        try:
            target = os.path.realpath(self._inside(relative), strict=True)
            return str(Path(target).relative_to(self._path))
        except (OSError, ValueError):
            return None

    def _inside(self, relative: str) -> Path:
        path = self._path / relative
        if self.is_host:
            return path
        # Not Path.resolve, which raises RuntimeError where links go round in a circle.
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._path):
            raise FileNotFoundError(2, "leads out of the captured board", str(path))
        return real


def _unreadable(listed: Path) -> dict[str, int]:
    """Of each file that could not be read when the board was captured, the error."""
    if listed.is_symlink() or not listed.is_file():  # a pipe would hold up all that follows
        return {}
    numbers = {name: number for number, name in errno.errorcode.items()}
    lines = [line.partition(" ") for line in listed.read_text("utf-8", "replace").splitlines()]
    return {str(listed.parent / path): numbers.get(name, errno.EIO) for name, _, path in lines if path}


def _natural(name: str) -> tuple[str, int]:
    """`zone2` before `zone10`."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)
