"""The file system from which a board's sensors are read: `/` of this machine, or a folder with a captured board.

Files are read with `os.read` on a non-blocking descriptor. On EAGAIN, which gated thermal zones of a Jetson give,
Python's buffered layers would raise TypeError or return nothing.

A file that could not be read when a board was captured fails in the same way again: the capture's `unreadable.txt` has
a line such as `EAGAIN sys/class/...` for it, and an empty file is in its place.
"""

import contextlib
import errno
import os
import re
import signal
import stat
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from edgetop.files import read_file
from edgetop.frozen import frozen

READ_BYTES = 65_536
MAX_FILE_BYTES = 8 * 1024 * 1024  # /proc/PID/maps of a large process has 2 MiB
SHORT = 2048  # a read with fewer bytes was the last; fs/seq_file.c stops earlier only if a line would cross its page
UNREADABLE = "unreadable.txt"
MAX_OPEN = 200  # most open descriptors of a root; a process may have 1,024 on most systems
GONE = (errno.ENODEV, errno.ESRCH)  # errors of a descriptor whose device or process is gone

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def parse_int(text: str) -> int:
    """Return an integer as the kernel prints it: ASCII digits, at most 64 bits. Raises ValueError for anything else.

    `int` alone would also accept `1_0`, digits of other scripts, and a thousand digits, which no float can hold.

    >>> parse_int("-274000")
    -274000
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"not a number: {text[:40]!r}")
    return int(text)


class Root:
    """Reads files by their paths relative to a root: `/` on this machine, or the folder of a captured board.

    No file outside the root is ever read, not even through links.
    """

    def __init__(self, path: Path = Path("/")) -> None:
        self._path = path.resolve()
        self._prefix = "/" if self._path == Path("/") else f"{self._path}/"
        self.is_host = self._path == Path("/")
        self._errno_of = {} if self.is_host else _unreadable(self._path / UNREADABLE)
        self._real: dict[str, str] = {}  # real path of each path of a captured board
        self.open_files = 0  # number of descriptors that `File` objects hold open

    def file(self, relative: str) -> "File":
        """Return an object that reads one file many times.

        `relative` is the file's path below the root, such as `proc/stat`.
        """
        return File(self, relative)

    def read_text(self, relative: str) -> str:
        """Return the whole content of a file, without line feeds, spaces and NULs at its end. Raises OSError."""
        return self.read_bytes(relative).decode("utf-8", "replace").rstrip("\n\0 ")

    def read_bytes(self, relative: str, at_most: int = MAX_FILE_BYTES) -> bytes:
        """Return the whole content of a file. Raises OSError, with EFBIG if the file has more than `at_most` bytes."""
        fd = self.open(relative)
        try:
            whole = piece = os.read(fd, READ_BYTES)
            while len(piece) >= SHORT and len(whole) <= at_most:
                piece = os.read(fd, READ_BYTES)
                whole += piece
        finally:
            os.close(fd)
        if len(whole) > at_most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), self.absolute(relative))
        return whole

    def open(self, relative: str) -> int:
        """Open a file for reading, and return its descriptor, which the caller must close. Raises OSError."""
        path = self.real(relative)
        if self._errno_of and (number := self._errno_of.get(path)):
            raise OSError(number, os.strerror(number), self.absolute(relative))
        fd = os.open(path, _FLAGS)
        if not self.is_host and _is_device(fd):  # a capture may come from anybody
            os.close(fd)
            raise OSError(errno.EINVAL, "a device, which no board has there", self.absolute(relative))
        return fd

    def read_int(self, relative: str) -> int:
        """Return the integer in a file. Raises OSError, or ValueError if the file has none."""
        return parse_int(self.read_text(relative).strip())

    def number(self, relative: str) -> int | None:
        """Return the integer in a file, or None if it cannot be read."""
        try:
            return self.read_int(relative)
        except (OSError, ValueError):
            return None

    def text(self, relative: str) -> str:
        """Return the whole content of a file, or "" if it cannot be read."""
        try:
            return self.read_text(relative)
        except OSError:
            return ""

    def line(self, relative: str) -> str | None:
        """Return the first line of a file, or None if it is empty or cannot be read."""
        return self.text(relative).split("\n", 1)[0].strip("\0 ") or None

    def names(self, relative: str) -> list[str]:
        """Return the names in a folder, sorted so that `zone2` is before `zone10`. [] if the folder cannot be read."""
        try:
            return sorted(self.entries(relative), key=_natural)
        except OSError:
            return []

    def entries(self, relative: str) -> list[str]:
        """Return the names in a folder, unsorted. Raises OSError if it cannot be read."""
        return os.listdir(self.real(relative))  # noqa: PTH208  a path here is text

    def exists(self, relative: str) -> bool:
        try:
            return os.path.exists(self.real(relative))  # noqa: PTH110  a path here is text
        except OSError:
            return False

    def is_denied(self, relative: str) -> bool:
        """Return whether this user is not allowed to open the file.

        The file is not read, since a read can take a driver long.
        """
        try:
            os.close(self.open(relative))
        except OSError as error:
            return isinstance(error, PermissionError)
        return False

    def is_file(self, relative: str) -> bool:
        """Return whether a path is a regular file, as all files in /sys and /proc are.

        Pipes, sockets and devices are not.
        """
        try:
            return stat.S_ISREG(os.stat(self.real(relative)).st_mode)  # noqa: PTH116  a path here is text
        except OSError:
            return False

    def absolute(self, relative: str) -> str:
        """Return the path as the board itself names it: `relative` with a slash before it."""
        return "/" + relative

    def resolve(self, relative: str) -> str | None:
        """Return where a path leads, with all links followed, relative to the root.

        None if it is missing or outside the root.
        """
        try:
            target = os.path.realpath(self.real(relative), strict=True)
            return str(Path(target).relative_to(self._path))
        except (OSError, ValueError):
            return None

    def link(self, relative: str) -> str | None:
        """Return the target of a link as it is written in the link, or None if there is no link."""
        folder, _, name = relative.rpartition("/")
        try:
            return os.readlink(f"{self.real(folder)}/{name}")  # noqa: PTH115  a path here is text
        except OSError:
            return None

    def real(self, relative: str) -> str:
        """Return the path at which this machine has the file, such as `/tmp/capture/tree/proc/stat`.

        Raises FileNotFoundError if it leads out of the root.
        """
        if self.is_host:
            return self._prefix + relative
        real = self._real.get(relative)
        if real is None:
            # Not Path.resolve, which raises RuntimeError if links form a circle.
            real = os.path.realpath(self._prefix + relative)
            if not f"{real}/".startswith(self._prefix):
                raise FileNotFoundError(2, "leads out of the captured board", self._prefix + relative)
            self._real[relative] = real
        return real


class File:
    """A file of a board that is read many times, as cheaply as possible.

    On this machine its descriptor stays open, since files in /proc and /sys get new contents when they are read from
    offset 0 (Documentation/filesystems/sysfs.rst and seq_file.rst). If the device or process is gone, reads give ENODEV
    or ESRCH, and the file is opened again. Files of a captured board may be replaced, so they are opened each time.
    """

    def __init__(self, root: Root, relative: str) -> None:
        self.root, self.relative = root, relative
        self._fd: int | None = None

    def __del__(self) -> None:
        self._close()

    def read_int(self) -> int:
        """Return the integer in the file. Raises OSError, or ValueError if the file has none."""
        return parse_int(self.read_text().strip())

    def read_text(self) -> str:
        """Return the whole content of the file, without line feeds, spaces and NULs at its end. Raises OSError."""
        return self.read_bytes().decode("utf-8", "replace").rstrip("\n\0 ")

    def line(self) -> str | None:
        """Return the first line, or None if the file is empty or cannot be read."""
        try:
            return self.read_text().split("\n", 1)[0].strip("\0 ") or None
        except OSError:
            return None

    def read_bytes(self) -> bytes:
        if self._fd is None:
            if not self.root.is_host or self.root.open_files >= MAX_OPEN:
                return self.root.read_bytes(self.relative)
            self._fd = self.root.open(self.relative)
            self.root.open_files += 1
        try:
            whole = piece = os.pread(self._fd, 4096, 0)
            while len(piece) >= SHORT and len(whole) <= MAX_FILE_BYTES:
                piece = os.pread(self._fd, READ_BYTES, len(whole))
                whole += piece
        except OSError as error:
            self._close()
            if error.errno not in GONE:
                raise
            return self.root.read_bytes(self.relative)
        return whole

    def _close(self) -> None:
        if self._fd is not None:
            self.root.open_files -= 1
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None


class ThreadFiles:
    """One file of each thread of a process, such as `schedstat`, which stays open from one read to the next."""

    def __init__(self, root: Root, pid: int | str, name: str) -> None:
        """Prepare to read /proc/PID/task/*/`name`. `pid` is the id of the process, or "self"."""
        self._root, self._name = root, name
        self._tasks = f"proc/{pid}/task"
        self._files: dict[str, File] = {}  # by thread id

    def read_texts(self, threads: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
        """Yield `(thread id, text of the thread's file)` for each thread of `threads`; None means all threads.

        Threads that have ended are left out. Raises OSError if the process has ended or a file cannot be read.
        """
        before, self._files = self._files, {}
        for tid in self._root.entries(self._tasks) if threads is None else threads:
            file = before.get(tid) or self._root.file(f"{self._tasks}/{tid}/{self._name}")
            try:
                text = file.read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            self._files[tid] = file
            yield tid, text


def _is_device(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _unreadable(listed: Path) -> dict[str, int]:
    """Return the error number of each file that could not be read when the board was captured, by path.

    `listed` is the capture's list of these files.
    """
    if listed.is_symlink():
        return {}
    numbers = {name: number for number, name in errno.errorcode.items()}
    try:
        text = read_file(listed).decode("utf-8", "replace")
    except OSError:
        return {}
    lines = [line.partition(" ") for line in text.splitlines()]
    return {str(listed.parent / path): numbers.get(name, errno.EIO) for name, _, path in lines if path}


def _natural(name: str) -> tuple[str, int]:
    """Return a sort key that puts `zone2` before `zone10`."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or -1)


# How several modules find monitoring chips and recognise boards. The numbers of `hwmonN` change from boot to boot, so a
# chip is found by the `name` that its driver gives (Documentation/ABI/testing/sysfs-class-hwmon).

CHIPS = "sys/class/hwmon"
COMPATIBLE = "proc/device-tree/compatible"


def chips_named(root: Root, name: str) -> list[str]:
    """Return the folders of the hwmon chips whose driver calls them `name`."""
    folders = (f"{CHIPS}/{entry}" for entry in root.names(CHIPS))
    return [folder for folder in folders if root.line(f"{folder}/name") == name]


def is_compatible(root: Root, prefix: str) -> bool:
    """Return whether one of the `compatible` strings in the board's device tree begins with `prefix`.

    An example of a prefix is `nvidia,tegra`.
    """
    return any(entry.startswith(prefix) for entry in (root.line(COMPATIBLE) or "").split("\0"))


# The output of a board's own commands: they are run on this machine, or their output is read from a capture. A capture
# has the standard output of each command in `commands/`, in a file named by the command line with `_` for spaces, and
# an exit status other than 0 in a file that ends in `.exit`. No file of a capture is ever executed.

COMMAND_FOLDER = "commands"
TIMEOUT_S = 2.0
MAX_BYTES = 256 * 1024


@frozen
class Output:
    text: str  # standard output, to which firmware tools also print errors
    exit_status: int

    @property
    def first_line(self) -> str:
        return self.text.split("\n", 1)[0].strip()


def run_command(root: Root, *argv: str, timeout_s: float = TIMEOUT_S) -> Output:
    """Return the output of a command, which is run on this machine. For a captured board, return the captured output.

    Raises FileNotFoundError if there is no such command, another OSError if it cannot be run (TimeoutError after
    `timeout_s` seconds), and ValueError if the exit status in a capture is no number.
    """
    if root.is_host:
        return _run(argv, timeout_s)
    path = f"{COMMAND_FOLDER}/{file_name(argv)}"
    text = root.read_text(path)
    return Output(text, root.read_int(f"{path}.exit") if root.exists(f"{path}.exit") else 0)


def file_name(argv: tuple[str, ...]) -> str:
    """Return the name of the file in which a capture has a command's output.

    >>> file_name(("vcgencmd", "measure_clock", "arm"))
    'vcgencmd_measure_clock_arm'
    """
    return " ".join(argv).replace("/", "_").replace(" ", "_")


def _run(argv: tuple[str, ...], timeout_s: float) -> Output:
    """Return the output of a command. If it hangs for `timeout_s` seconds, it is killed with all its children.

    Raises TimeoutError then, and OSError if the command cannot be run.
    """
    process = subprocess.Popen(  # noqa: S603  the commands are edgetop's own, their arguments constants
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LC_ALL": "C"},
        start_new_session=True,
    )
    try:
        printed, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise TimeoutError(f"{argv[0]} did not answer within {timeout_s:g} s") from None
    return Output(printed[:MAX_BYTES].decode("utf-8", "replace").rstrip("\n\0 "), process.returncode)
