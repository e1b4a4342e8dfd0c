"""What an export selects, where it goes, and the formats by name.

Formats are listed without importing one, since most load Arrow. A file or a folder appears when it is complete; the
standard output is the other way.
"""

import codecs
import contextlib
import importlib
import io
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from edgetop.errors import DISK_FULL, InputError, OutputError
from edgetop.formatting import clean

if TYPE_CHECKING:  # loads Arrow
    from edgetop.recording.reader import Recording
    from edgetop.recording.rows import Span

ELSEWHERE = "name another place with -o"


class NamedOutput:
    """A file or a folder. It is written beside its place, under another name, and renamed."""

    def __init__(self, path: Path, *, force: bool = False, elsewhere: str = ELSEWHERE) -> None:
        """`force`: a file that lies there may be replaced. Raises InputError where something does otherwise.

        `elsewhere`: what a user does who wants it in another place.
        """
        self.path = path
        self._force = force
        self._elsewhere = elsewhere
        if os.path.lexists(path) and not force and not is_device(path):
            raise InputError(f"{path}: exists already", f"--force replaces it, or {elsewhere}")

    @contextlib.contextmanager
    def stream(self, *, is_text: bool) -> Iterator[BinaryIO]:
        if self.path.is_dir():
            raise InputError(f"{self.path}: is a folder", self._elsewhere)
        if is_device(self.path):
            with (
                self._write_errors("a part of it may be there"),
                self.path.open("wb") as file,
                StreamOutput(file).stream(is_text=is_text) as shown,
            ):
                yield shown
            return
        partial = self._partial()
        with self._write_errors(), _removed(partial):
            with partial.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder that lies there already is never replaced: it may hold anything, and a recording is no copy."""
        if os.path.lexists(self.path):
            raise InputError(f"{self.path}: exists already, and --force replaces files only", self._elsewhere)
        partial = self._partial()
        with self._write_errors(), _removed(partial):
            partial.mkdir()
            yield partial
            partial.rename(self.path)

    def _partial(self) -> Path:
        return self.path.parent / f".{self.path.name[:200]}.{os.getpid()}.partial"

    @contextlib.contextmanager
    def _write_errors(self, what_is_left: str = "nothing of it is left") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else str(error)
            advice = f"free space, or {self._elsewhere}" if error.errno in DISK_FULL else self._elsewhere
            raise OutputError(f"{self.path}: cannot be written: {why}; {what_is_left}", advice) from None


_STREAMS = (Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd"))  # which lead to files that others have opened


def is_device(path: Path) -> bool:
    """Or a pipe, as of a shell's `>(command)`: it is written to, and never replaced by a file."""
    if path.absolute().parent in _STREAMS:
        return path.exists()
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISBLK(mode)


@contextlib.contextmanager
def _removed(partial: Path) -> Iterator[None]:
    try:
        yield
    finally:
        if partial.is_dir():
            shutil.rmtree(partial, ignore_errors=True)
        partial.unlink(missing_ok=True)


class StreamOutput:
    """The standard output, or a device. On a terminal, nothing that comes out of a recording may act."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    @contextlib.contextmanager
    def stream(self, *, is_text: bool) -> Iterator[BinaryIO]:
        """Raises OSError where its reader has left."""
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


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a recording is to be exported."""

    recording: "Recording"
    span: "Span"  # in session time
    tables: tuple[str, ...] = TABLES
    hz: float = 1.0  # rows a second, of a table on a regular grid

    @property
    def bounds(self) -> "Span":
        """The span without what lies beside the session."""
        end_ns = self.recording.end_ns + 1  # at which it has its last event
        return replace(self.span, begin_ns=max(0, self.span.begin_ns), end_ns=min(self.span.end_ns, end_ns))


Output = NamedOutput | StreamOutput  # where an export appears when it is complete, or not at all
# In bounded memory, whatever the session's length. Raises InputError and RecordingError.
Export = Callable[[Selection, Output], None]


@dataclass(frozen=True, slots=True)
class Format:
    module: str
    ending: str  # of what it writes, where nobody named that
    what: str  # it makes


_HERE = "edgetop.recording.export"
FORMATS = {
    "csv": Format(f"{_HERE}.to_csv", ".csv", "a file a table"),
    "json": Format(f"{_HERE}.to_json", ".jsonl", "a line a row, the manifest first"),
    "parquet": Format(f"{_HERE}.to_parquet", ".parquet", "one wide table on a regular grid, a column a sensor"),
    "perfetto": Format(f"{_HERE}.to_perfetto", ".pftrace", "a trace for ui.perfetto.dev"),
    "session": Format(f"{_HERE}.to_session", "-cut.edgetop", "a recording, to send to a colleague"),
}


def default_path(recording: Path, name: str, *, is_one: bool = False) -> Path:
    """By the session's name, where nobody named one. `is_one`: it is of a single table."""
    from edgetop.recording.files import SUFFIX  # noqa: PLC0415  which loads numpy; the list of formats does not

    ending = "-csv" if name == "csv" and not is_one else FORMATS[name].ending
    return Path(recording.resolve().name.removesuffix(SUFFIX) + ending)


def load(name: str) -> Export:
    """The function `export` of a format's module. Raises InputError where a package that it needs is missing."""
    export: Export = importlib.import_module(FORMATS[name].module).export
    return export
