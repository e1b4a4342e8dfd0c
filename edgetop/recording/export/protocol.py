"""What a format is given and what it must do."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:  # loads Arrow
    from edgetop.recording.reader import Recording
    from edgetop.recording.rows import Span

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
