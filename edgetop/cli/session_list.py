"""The sessions that can be found, as data and as a table. Foreign text in the table is made safe.

Of a session that is over the manifest is read and nothing else. One that runs is read up to
now, and one whose writer has died is recovered, as by any command that opens it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path, PurePath
from typing import Any

from edgetop import formatting
from edgetop.analysis.verdict import final_verdict
from edgetop.errors import EdgetopError
from edgetop.formatting import UNKNOWN, clean
from edgetop.paths import bytes_below
from edgetop.recording.files import SUFFIX, has_journal, read_manifest
from edgetop.recording.known import known
from edgetop.session.manifest import Manifest
from edgetop.ui.text import fit, line, width

HEAD = ("SESSION", "VERDICT", "DURATION", "SIZE", "MODEL", "BOARD")
RIGHT = ("DURATION", "SIZE")
GAP = "  "


@dataclass(frozen=True, slots=True)
class Listed:
    """One line. The names of the fields are keys of a contract (edgetop help attach)."""

    name: str
    path: str
    id: str | None
    state: str  # as in the manifest; "unreadable" where there is none that can be read
    duration_s: float | None
    size_bytes: int
    model: str | None  # the file's name
    board: str | None
    verdict: str | None  # how it ended and no more; of one that runs, the word of the screen now
    reason: str | None = None  # why it is unreadable
    created_utc: str = ""  # not told: the order is by it


def listed(home: Path, here: Path) -> list[Listed]:
    """Those that run first, then the newest first."""
    found = [_listed(folder) for folder in known(home, here)]
    found.sort(key=lambda session: session.created_utc, reverse=True)
    return sorted(found, key=lambda session: session.state != "live")


def _listed(folder: Path) -> Listed:
    size_bytes = bytes_below(folder)
    name = folder.name.removesuffix(SUFFIX)  # by which it is found, whatever it was called when it was made
    try:
        manifest, verdict = _opened(folder) if has_journal(folder) else _over(folder)
    except Exception as error:  # noqa: BLE001  whatever is wrong with one, the others are listed
        reason = str(error) if isinstance(error, EdgetopError) else f"{folder}: {type(error).__name__}: {error}"
        return Listed(
            name,
            str(folder.absolute()),
            None,
            "unreadable",
            None,
            size_bytes,
            None,
            None,
            None,
            " ".join(reason.split()),
        )
    board = manifest.board
    return Listed(
        name=name,
        path=str(folder.absolute()),
        id=manifest.id,
        state=manifest.state,
        duration_s=None if manifest.duration_ns is None else manifest.duration_ns / 1e9,
        size_bytes=size_bytes,
        model=PurePath(manifest.model.path).name,
        board=board.model or board.cpu,
        verdict=verdict,
        created_utc=manifest.created_utc,
    )


def _over(folder: Path) -> tuple[Manifest, str | None]:
    manifest = read_manifest(folder)
    return manifest, final_verdict(manifest.end_reason).word if manifest.end_reason else None


def _opened(folder: Path) -> tuple[Manifest, str | None]:
    """With what it has come to, and the verdict on that."""
    from edgetop.analysis.analysis import Analysis  # noqa: PLC0415  Arrow is loaded where something runs
    from edgetop.recording.by_time import RecordingByTime  # noqa: PLC0415
    from edgetop.recording.reader import Recording  # noqa: PLC0415

    recording = Recording(folder)
    analysis = Analysis()
    analysis.fold(RecordingByTime(recording).whole())
    manifest = replace(recording.manifest, duration_ns=recording.end_ns)
    return manifest, analysis.view(None).verdict.word


def document(sessions: Sequence[Listed]) -> list[dict[str, Any]]:
    told = [field.name for field in fields(Listed) if field.name not in ("created_utc", "reason")]
    found = [{key: asdict(session)[key] for key in told} for session in sessions]
    return [
        {**known, "reason": session.reason} if session.reason else known
        for known, session in zip(found, sessions, strict=True)
    ]


def table(sessions: Sequence[Listed], columns: int | None) -> list[str]:
    """A head, and a line for each; no wider than `columns`, None: as wide as it is."""
    rows = [HEAD, *(_cells(session) for session in sessions)]
    widths = [max(map(_cells_of, column)) for column in zip(*rows, strict=True)]
    reasons = ["", *(session.reason or "" for session in sessions)]
    return [_line(row, widths, columns, clean(reason)) for row, reason in zip(rows, reasons, strict=True)]


def _cells(session: Listed) -> tuple[str, ...]:
    running = "* " if session.state == "live" else ""
    unknown = "UNREADABLE" if session.state == "unreadable" else UNKNOWN
    return (
        f"{running}{clean(session.name)}",
        session.verdict or unknown,
        UNKNOWN if session.duration_s is None else formatting.clock_time(session.duration_s * 1e9),
        formatting.size(session.size_bytes),
        clean(session.model or UNKNOWN),
        clean(session.board or UNKNOWN),
    )


def _line(row: Sequence[str], widths: Sequence[int], columns: int | None, reason: str) -> str:
    """`reason`: in place of the last columns."""
    known = row[:-2] if reason else row
    text = GAP.join([*_aligned(known, widths), reason]).rstrip()
    if columns is None or _cells_of(text) <= columns:
        return text
    return "".join(span.text for span in fit(line(text), columns)).rstrip()


def _cells_of(text: str) -> int:
    return width(line(text))


def _aligned(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for cell, wide, head in zip(row, widths, HEAD, strict=False):
        space = " " * (wide - _cells_of(cell))
        yield space + cell if head in RIGHT else cell + space
