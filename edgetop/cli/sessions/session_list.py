"""The list of sessions, as data and as a table. Control characters in texts are replaced.

For a finished session, its description (the manifest) and the stored short result are read. If no result is stored, the
session's data is analysed once. A running session is read up to now. A session whose writer has died is first completed
on the disk.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from edgetop import formatting
from edgetop.analysis.verdict import final_verdict
from edgetop.cli.session_outcome import outcome_of
from edgetop.errors import EdgetopError
from edgetop.formatting import UNKNOWN, clean
from edgetop.frozen import frozen
from edgetop.paths import bytes_below
from edgetop.recording.registry import Outcome, all_sessions, read_outcome, write_outcome
from edgetop.recording.session_folder import SUFFIX, has_journal, read_manifest
from edgetop.session.manifest import Manifest
from edgetop.ui.text import line, width
from edgetop.wording import verdict_words

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis

HEAD = ("SESSION", "VERDICT", "DATE", "DURATION", "P50 MS", "P99 MS", "SIZE", "MODEL", "BOARD")
RIGHT = ("DURATION", "P50 MS", "P99 MS", "SIZE")
FIRST_LINE = 4  # columns on the first line of a session, on a narrow terminal
GAP = "  "


@frozen
class Listed:
    """One session in the list of `edgetop sessions`. Its fields are named as in `--json` (edgetop help attach)."""

    name: str
    path: str
    id: str | None
    state: str  # the state in the manifest, or "unreadable" if the manifest cannot be read
    duration_s: float | None
    size_bytes: int
    model: str | None  # name of the model's file
    board: str | None
    verdict: str | None  # such as "throttled 6x, 22 %"; the current verdict if the session runs
    created_utc: str = ""
    p50_ms: float | None = None  # None if nothing was measured or the tables cannot be read
    p99_ms: float | None = None
    reason: str | None = None  # why the session is unreadable


def listed(home: Path, here: Path) -> list[Listed]:
    """Return all sessions known in `home`, and those in the folder `here`.

    Running sessions come first, then finished sessions. In both parts, the newest session comes first. `home` is the
    default folder of recordings.
    """
    found = [_listed(folder) for folder in all_sessions(home, here)]
    found.sort(key=lambda session: session.created_utc, reverse=True)
    return sorted(found, key=lambda session: session.state != "live")


def _listed(folder: Path) -> Listed:
    size_bytes = bytes_below(folder)
    name = folder.name.removesuffix(SUFFIX)  # commands find a session by its folder, which may have been renamed
    try:
        manifest, outcome = _running(folder) if has_journal(folder) else _finished(folder)
    except Exception as error:  # noqa: BLE001  whatever is wrong with one, the others are listed
        text = str(error) if isinstance(error, EdgetopError) else f"{folder}: {type(error).__name__}: {error}"
        place, reason = str(folder.absolute()), " ".join(text.split())
        return Listed(name, place, None, "unreadable", None, size_bytes, None, None, None, reason=reason)
    board, both = manifest.board, manifest.ab.variants if manifest.ab else ()  # models of A and B may differ
    models = dict.fromkeys((*(PurePath(variant.model.path).name for variant in both), manifest.model_name))
    return Listed(
        name, str(folder.absolute()), manifest.id, manifest.state,
        duration_s=None if manifest.duration_ns is None else manifest.duration_ns / 1e9, size_bytes=size_bytes,
        model=" | ".join(models), board=board.model or board.cpu,
        verdict=outcome.verdict, created_utc=manifest.began_utc, p50_ms=outcome.p50_ms, p99_ms=outcome.p99_ms,
    )  # fmt: skip


def _finished(folder: Path) -> tuple[Manifest, Outcome]:
    manifest = read_manifest(folder)
    outcome = read_outcome(folder)
    if outcome is None:
        try:
            _, analysis = _analysed(folder)
        except EdgetopError:  # the tables are missing or damaged, so only the manifest is shown
            verdict = final_verdict(manifest.end_reason or "", None, manifest.watched)
            return manifest, Outcome(verdict_words.state_word(verdict).lower())
        outcome = outcome_of(analysis)
        if not analysis.faults.found:  # else a later edgetop may find the outcome
            write_outcome(folder, outcome)
    return manifest, outcome


def _analysed(folder: Path) -> "tuple[Manifest, Analysis]":
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  Arrow is loaded where something is read
    from edgetop.recording.by_time import RecordingByTime  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415

    with Recording(folder) as recording:
        analysis = Analysis.of([RecordingByTime(recording).whole()])
        return replace(recording.manifest, duration_ns=recording.end_ns), analysis


def _running(folder: Path) -> tuple[Manifest, Outcome]:
    manifest, analysis = _analysed(folder)
    return manifest, outcome_of(analysis)


def table(sessions: Sequence[Listed], columns: int | None) -> list[str]:
    """Return the lines of a table: a header, then the sessions. No text is cut.

    `columns` is the width of the terminal; None means no limit. If the table is wider, each session takes two lines.
    """
    rows = [HEAD, *(_cells(session) for session in sessions)]
    reasons = ["", *(clean(session.reason or "") for session in sessions)]
    lines = [first for first, _ in _lines(rows, reasons, len(HEAD))]
    if columns is None or max(map(_cells_of, lines)) <= columns:
        return lines
    return [text for pair in _lines(rows, reasons, FIRST_LINE) for text in pair if text]


def _lines(rows: Sequence[Sequence[str]], reasons: Sequence[str], on_first: int) -> Iterator[tuple[str, str]]:
    """Yield `(first line, second line)` for each row.

    The first line has `on_first` columns. The second line has the other columns; "" if there are none.

    `reasons` has a text for each row: why the session is unreadable, or "". A reason replaces the session's model and
    board.
    """
    widths = [max(map(_cells_of, column)) for column in zip(*rows, strict=True)]
    for row, reason in zip(rows, reasons, strict=True):
        cells = []
        for cell, wide, head in zip(row[:-2] if reason else row, widths, HEAD, strict=False):
            space = " " * (wide - _cells_of(cell))
            cells.append(space + cell if head in RIGHT else cell + space)
        cells += [reason] * bool(reason)
        first, second = GAP.join(cells[:on_first]).rstrip(), GAP.join(cells[on_first:]).rstrip()
        yield first, second and f"{GAP * 2}{second}"


def _cells(session: Listed) -> tuple[str, ...]:
    running = "* " if session.state == "live" else ""
    unknown = "UNREADABLE" if session.state == "unreadable" else UNKNOWN
    return (
        f"{running}{clean(session.name)}",
        clean(session.verdict or unknown),
        clean(session.created_utc[:16].replace("T", " ")),
        UNKNOWN if session.duration_s is None else formatting.clock_time(session.duration_s * 1e9),
        *(UNKNOWN if ms is None else formatting.milliseconds(ms * 1e6) for ms in (session.p50_ms, session.p99_ms)),
        formatting.size(session.size_bytes),
        clean(session.model or UNKNOWN),
        clean(session.board or UNKNOWN),
    )


def _cells_of(text: str) -> int:
    return width(line(text))
