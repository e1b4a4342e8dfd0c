"""A session goes into a lake: its tables, each verified, and then its row in `sessions`, which makes it one.

Killed anywhere and repeated, a push leaves one whole copy: names follow from the session, and what is there already is
compared and not sent again. Nothing is written on this machine but the marker in the session's folder.
"""

import hashlib
import io
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.report import report
from edgetop.errors import InputError, RecordingError
from edgetop.lake.place import Place, digest_of
from edgetop.lake.row import TABLE, row_of
from edgetop.recording.files import MANIFEST, WriterLock, has_journal, open_regular
from edgetop.recording.reader import Recording
from edgetop.recording.rows import TABLES, WHOLE, Span
from edgetop.session.clock import SystemClock, format_utc

MARKER = "pushed.json"
Files = Mapping[str, list[Any]]  # by table: size and SHA-256


@dataclass(frozen=True, slots=True)
class Pushed:
    session: str
    board: str
    sent: int  # bytes
    size: int  # of what is there of it
    problems: tuple[str, ...] = ()  # of the recording: what of it could not be read


def push(folder: Path, place: Place, board: str) -> Pushed:
    """Have a session that is over in the lake, whole. Raises InputError and OutputError."""
    recording = Recording(folder)
    if recording.is_live:
        raise InputError(f"{folder}: runs now", "--follow pushes it as it grows")
    if has_journal(folder):
        raise InputError(
            f"{folder}: its writer died, and it cannot be completed here", "copy it to where it can be written"
        )
    session = recording.manifest.id
    where = partition(place, session, recording.manifest.created_utc[:10], board)
    files = _files(folder)
    row_path = f"{TABLE}/{where}/{session}.parquet"
    sent = 0
    for table, (size, sha256) in files.items():
        source = partial(_opened, folder / f"{table}.parquet")
        sent += size if place.put(f"{table}/{where}/{session}.parquet", source, size, sha256) else 0
    row = row_until(recording, files)
    digest = hashlib.sha256(row).hexdigest()
    sent += len(row) if place.put(row_path, lambda: io.BytesIO(row), len(row), digest) else 0
    write_marker(folder, place, board, digest)
    size = len(row) + sum(size for size, _ in files.values())
    return Pushed(session, board, sent, size, tuple(recording.problems))


def remove(folder: Path) -> None:
    """A session that is in a lake. Raises RecordingError where a writer lives."""
    WriterLock(folder).release()
    shutil.rmtree(folder)


def partition(place: Place, session: str, date: str, board: str) -> str:
    """Return the partition of a session. Raises InputError where the lake has it as another board's."""
    for path in place.below(f"{TABLE}/date={date}"):
        name = path.split("/")[-2].removeprefix("board=")
        if name != board and path.endswith(f"/{session}.parquet"):
            raise InputError(f"{session} is in the lake already, of board {name}", f"--board-id {name}")
    return f"date={date}/board={board}"


def write_marker(folder: Path, place: Place, board: str, sha256: str) -> None:
    """Write the marker that lets a quota delete this copy; a read-only folder gets none."""
    marker = {"target": place.target, "board": board, "sha256": sha256, "time": format_utc(SystemClock().utc())}
    temporary = folder / f"{MARKER}.tmp"
    try:
        temporary.write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
        temporary.replace(folder / MARKER)
    except OSError as error:
        raise RecordingError(f"{folder / MARKER}: cannot be written: {error.strerror}; the lake has it") from None


def _files(folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for table in TABLES:
        path = folder / f"{table}.parquet"
        if path.exists():
            with _opened(path) as file:
                found[table] = [path.stat().st_size, digest_of(file)]
    return found


def _opened(path: Path) -> BinaryIO:
    return open(open_regular(path), "rb")  # noqa: PTH123  a descriptor


def row_until(recording: Recording, files: Files, span: Span = WHOLE) -> bytes:
    """The session's row, judged by what lies in the span."""
    analysis = Analysis.of(recording.play(span=span))
    with _opened(recording.folder / MANIFEST) as file:
        return row_of(report(analysis), file.read().decode(), files)
