"""What a format is given and what it must do."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:  # loads Arrow
    from edgetop.recording.reader import Recording
    from edgetop.recording.rows import Span
import importlib

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


class Output(Protocol):
    """Where an export goes. It appears there when it is complete, or not at all."""

    def stream(self, *, is_text: bool) -> AbstractContextManager[BinaryIO]:
        """One file. Raises RecordingError where it cannot be written."""

    def folder(self) -> AbstractContextManager[Path]:
        """A folder to fill. Raises RecordingError, also for what is raised while it is filled."""


class Exporter(Protocol):
    def export(self, selection: Selection, output: Output) -> None:
        """In bounded memory, whatever the session's length. Raises InputError and RecordingError."""


@dataclass(frozen=True, slots=True)
class Format:
    module: str
    name: str  # of the class in it
    ending: str  # of what it writes, where nobody named that
    what: str  # it makes


_HERE = "edgetop.recording.export"
FORMATS = {
    "csv": Format(f"{_HERE}.to_csv", "Csv", ".csv", "a file a table"),
    "json": Format(f"{_HERE}.to_json", "JsonLines", ".jsonl", "a line a row, the manifest first"),
    "parquet": Format(
        f"{_HERE}.to_parquet", "WideParquet", ".parquet", "one wide table on a regular grid, a column a sensor"
    ),
    "perfetto": Format(f"{_HERE}.to_perfetto", "Perfetto", ".pftrace", "a trace for ui.perfetto.dev"),
    "session": Format(f"{_HERE}.to_session", "SmallerSession", "-cut.edgetop", "a recording, to send to a colleague"),
}


def default_path(recording: Path, name: str, *, is_one: bool = False) -> Path:
    """By the session's name, where nobody named one. `is_one`: it is of a single table."""
    from edgetop.recording.files import SUFFIX  # noqa: PLC0415  which loads numpy; the list of formats does not

    ending = "-csv" if name == "csv" and not is_one else FORMATS[name].ending
    return Path(recording.resolve().name.removesuffix(SUFFIX) + ending)


def load(name: str) -> Exporter:
    """Raises InputError where a package that it needs is missing."""
    form = FORMATS[name]
    exporter: Exporter = getattr(importlib.import_module(form.module), form.name)()
    return exporter
