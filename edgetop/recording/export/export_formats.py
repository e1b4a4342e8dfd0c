"""The formats of an export by name, the choice of what is exported, and the outputs.

A file or folder gets its name only when it is complete. Data for standard output is written as soon as it is made.
"""

import codecs
import contextlib
import errno
import importlib
import io
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from edgetop.errors import DISK_FULL, InputError, OutputError
from edgetop.files import hold, partial_name, remove_partials, replacing
from edgetop.formatting import clean
from edgetop.frozen import frozen

if TYPE_CHECKING:  # loads Arrow
    from edgetop.recording.reader import Recording
    from edgetop.recording.rows import Span

ELSEWHERE = "name another place with -o"
READER_S, LOOK_S = 10.0, 0.05  # until a pipe has a reader
NEW_MODE = 0o666  # less the umask, as of every file that a user's commands make


class NamedOutput:
    """A file or folder that an export writes, under a temporary name in the same folder until it is complete."""

    def __init__(self, path: Path, *, force: bool = False, elsewhere: str = ELSEWHERE) -> None:
        """Prepare to write to `path`.

        Raises InputError if `force` is false and something other than a device exists there. `elsewhere` is the advice
        in error messages, such as "name another place with -o".
        """
        self.path = path
        self._elsewhere = elsewhere
        if os.path.lexists(path) and not force and not is_device(path):
            raise InputError(f"{path}: exists already", f"--force replaces it, or {elsewhere}")

    @classmethod
    def of_option(cls, option: str, path: Path, *, force: bool, elsewhere: str) -> "NamedOutput":
        """Return an output at `path`, which the user gave with `option`, such as "-o". Call this before any long work.

        Raises InputError if the folder of `path` does not exist, or if a file exists there and `force` is false.
        `elsewhere` is the advice in error messages.
        """
        if not path.absolute().parent.is_dir():
            text = f"{option} {path}: {path.parent} is not a folder"
            raise InputError(text, f"create it first, or {elsewhere}")
        return cls(path, force=force, elsewhere=elsewhere)

    @contextlib.contextmanager
    def stream(self, *, is_text: bool) -> Iterator[BinaryIO]:
        if self.path.is_dir():
            raise InputError(f"{self.path}: is a folder", self._elsewhere)
        if is_device(self.path):
            with (
                self._write_errors("a part of it may be there"),
                os.fdopen(_open_device(self.path), "wb") as file,
                StreamOutput(file).stream(is_text=is_text) as shown,
            ):
                yield shown
            return
        remove_partials(self.path)
        with self._write_errors(), replacing(self.path, NEW_MODE) as whole:
            yield whole

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield a new folder to write into, under a temporary name until the `with` block ends without an error.

        Raises InputError if anything exists at the path: folders are never replaced.
        """
        if os.path.lexists(self.path):
            raise InputError(f"{self.path}: exists already, and --force replaces files only", self._elsewhere)
        remove_partials(self.path)
        partial = self.path.parent / partial_name(self.path)
        with self._write_errors():
            partial.mkdir()
            fd = -1
            try:
                fd = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                hold(fd)
                yield partial
                partial.rename(self.path)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
                if fd >= 0:
                    os.close(fd)

    @contextlib.contextmanager
    def _write_errors(self, what_is_left: str = "nothing of it is left") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            advice = f"free space, or {self._elsewhere}" if error.errno in DISK_FULL else self._elsewhere
            raise OutputError(f"{self.path}: cannot be written: {why}; {what_is_left}", advice) from None


def _open_device(path: Path) -> int:
    """Return a descriptor of a device or a named pipe, opened for writing. Raises OSError.

    A pipe must get a reader within READER_S.
    """
    until_s = time.monotonic() + READER_S
    while (fd := _opened(path)) is None:
        if time.monotonic() > until_s:
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), str(path))
        time.sleep(LOOK_S)
    os.set_blocking(fd, True)
    return fd


def _opened(path: Path) -> int | None:
    """Return a descriptor of the file, opened for writing, or None for a pipe without a reader (fifo(7)).

    Raises OSError.
    """
    try:
        return os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


_STREAMS = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))  # paths to files that are already open


def is_device(path: Path) -> bool:
    """Whether `path` is a device or a pipe, such as a shell's `>(command)`, which an export never replaces."""
    if path.absolute().parent in _STREAMS:
        return path.exists()
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISBLK(mode)


class StreamOutput:
    """The output of an export to standard output or to a device.

    On a terminal, control characters in text are replaced, since a recording may come from a stranger.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @contextlib.contextmanager
    def stream(self, *, is_text: bool) -> Iterator[BinaryIO]:
        """Yield the stream to write to. Raises OSError if the reading program has closed the pipe.

        Raises InputError if the stream is a terminal and `is_text` is false.
        """
        if not self._stream.isatty():
            yield self._stream
        elif is_text:
            yield cast("BinaryIO", _Shown(self._stream))
        else:
            raise InputError("this format is not for a terminal", "name a file with -o, or pipe it")
        self._stream.flush()

    def folder(self) -> contextlib.AbstractContextManager[Path]:
        raise InputError("several files do not fit into the standard output", "name a place with -o, or one --table")


class _Shown(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        text = self._decoder.decode(bytes(data))
        self._stream.write("\n".join(clean(line) for line in text.split("\n")).encode())
        return len(data)


TABLES = ("inferences", "readings", "operators", "events", "seconds")


@frozen
class Selection:
    """The part of a recording that is exported."""

    recording: "Recording"
    span: "Span"  # in session time
    tables: tuple[str, ...] = TABLES
    hz: float = 1.0  # rows a second, of a table on a regular grid

    @property
    def bounds(self) -> "Span":
        """The exported time span, limited to the time of the session."""
        end_ns = self.recording.end_ns + 1  # it has its last event at its end
        return replace(self.span, begin_ns=max(0, self.span.begin_ns), end_ns=min(self.span.end_ns, end_ns))


Output = NamedOutput | StreamOutput  # where an export appears when it is complete, or not at all
# Uses bounded memory, whatever the session's length. Raises InputError and RecordingError.
Export = Callable[[Selection, Output], None]


@frozen
class Format:
    module: str
    ending: str  # of the default output path
    what: str  # description of the output
    function: str = "export"


FORMATS = {
    "csv": Format("to_text", ".csv", "a file a table", "export_csv"),
    "json": Format("to_text", ".jsonl", "a line a row, the manifest first", "export_json"),
    "parquet": Format("to_parquet", ".parquet", "one wide table on a regular grid, a column a sensor"),
    "perfetto": Format("to_perfetto", ".pftrace", "a trace for ui.perfetto.dev"),
    "session": Format("to_session", "-cut.edgetop", "a recording, to send to a colleague"),
}


def default_path(recording: Path, name: str, *, is_one: bool = False) -> Path:
    """Return the output path for an export of `recording`, in the current folder, such as `run1.csv`.

    `name` is the format, such as "csv". `is_one` says that a single table is exported.
    """
    from edgetop.recording.session_folder import SUFFIX  # noqa: PLC0415  loads numpy; the list of formats does not

    ending = "-csv" if name == "csv" and not is_one else FORMATS[name].ending
    return Path(recording.resolve().name.removesuffix(SUFFIX) + ending)


def load(name: str) -> Export:
    """Import and return the export function of the format `name`, such as "csv"."""
    form = FORMATS[name]
    export: Export = getattr(importlib.import_module(f"{__package__}.{form.module}"), form.function)
    return export
