"""Push sessions into a lake, and pull them back.

A push writes and verifies the tables first, and then the row in `sessions`, which makes the session visible. A killed
push can be repeated: names depend only on the session, and a file that the lake already has is compared and not sent
again. On this machine, a push only writes a marker into the session's folder.

Files that a run stored beside its tables (outputs, the log of its screen) go into `files/`, and come back with the
session. `remove` deletes here only files that were verified in the lake.

A running session is pushed in complete pieces of ten minutes (`follow`). The file name of a piece is
`SESSION.BEGIN-END.parquet`, in seconds of session time. The piece of the table `seconds` is written last, so that a
later push knows where to continue. When the session is over, the whole session is pushed, and the pieces are removed.
Readers ignore pieces as soon as the whole table exists.

A pulled session is a folder of verified files that can be replayed.
"""

import hmac
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.session_report import report
from edgetop.errors import InputError, OutputError, RecordingError
from edgetop.files import open_regular, sync_folder, write_file
from edgetop.frozen import frozen
from edgetop.lake.lake_tables import FILES, MANIFEST, TABLE, dataset, partition, row_of, table_path
from edgetop.lake.place import Place, digest_of, refuse_full
from edgetop.paths import as_component
from edgetop.recording.columns import SCHEMAS, to_arrow
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.recording.reader import Recording
from edgetop.recording.removal import OUTPUT_FILES, PUSHED, Stamp, remove_session, stamp_of
from edgetop.recording.rows import ALL_TABLES, TABLES, WHOLE, Span
from edgetop.recording.session_folder import (
    FILE_MODE,
    FOLDER_MODE,
    LOG,
    MAX_MANIFEST_BYTES,
    SUFFIX,
    has_journal,
    is_live,
    parsed_manifest,
)
from edgetop.recording.session_folder import MANIFEST as SESSION
from edgetop.session.clock import SystemClock, format_utc
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NS

PIECE_S = 600
SETTLES_S = 60  # how late a row may be recorded
POLL_S = 5.0
LAST = "seconds"  # the table that is written last for each piece
_PIECE = re.compile(r".*/[^/.]+\.(\d+)-(\d+)\.parquet")

APPLICATION = bytes.fromhex("6d1f0e1a2b7c4f0f9a3c5e8d7b6a4c21")  # a random constant; another one would change all ids
MACHINE_ID = Path("/etc/machine-id")
_FITS = re.compile(r"[a-z][a-z0-9._-]{0,62}")
_NUMBERS = {"nan", "inf", "infinity", "null", "true", "false"}  # engines would guess another type

LEAST_DIGITS = 4  # least number of an id's digits that `pull` accepts
COLUMNS = ["session", "date", "board", MANIFEST, FILES]


BESIDE = (*OUTPUT_FILES, LOG)  # files of a session beside its tables
FOLDER = "files"  # the lake's folder for those files


@frozen
class Pushed:
    session: str
    sent: int  # bytes that were sent
    size: int  # bytes of the session in the lake
    problems: tuple[str, ...] = ()  # parts of the recording that could not be read, in words
    verified: Mapping[str, Stamp] = field(default_factory=dict)  # files of the session that were verified in the lake


def board_id(chosen: str | None, machine_id: Path = MACHINE_ID) -> str:
    """Return the id of this board in a lake: `chosen` or, if it is None, an id derived from the machine id.

    A derived id contains no serial number or host name, and does not reveal the machine id. systemd derives ids for an
    application in the same way (machine-id(5), sd_id128_get_machine_app_specific(3)). `machine_id` is the file with the
    machine id. Raises InputError if `chosen` is not valid, or if no id can be derived.
    """
    if chosen is not None:
        if not _FITS.fullmatch(chosen) or chosen in _NUMBERS:
            raise InputError(f"--board-id {chosen}: cannot be an id", "a letter, then up to 62 of a-z 0-9 . _ -")
        return chosen
    try:
        key = bytes.fromhex(machine_id.read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        key = b""
    if len(key) != 16:
        raise InputError(f"{machine_id} holds no machine id, so this board has no id", "choose one: --board-id pi-07")
    return f"b-{hmac.digest(key, APPLICATION, 'sha256').hex()[:12]}"


def push(folder: Path, place: Place, board: str) -> Pushed:
    """Copy a finished session into the lake, and return what was copied.

    `folder` is the session's folder, and `board` the id of its board in the lake. Raises InputError if the session
    cannot be pushed, and OutputError if the lake fails.
    """
    with Recording(folder) as recording:
        if recording.is_live:
            raise InputError(f"{folder}: runs now", "--follow pushes it as it grows")
        if has_journal(folder):
            advice = "copy it to where it can be written"
            raise InputError(f"{folder}: its writer died, and it cannot be completed here", advice)
        session, where = recording.manifest.id, _partition(place, recording.manifest, board)
        files: dict[str, list[Any]] = {}  # by table or name: size and SHA-256
        verified: dict[str, Stamp] = {}
        sent, there = 0, place.names(f"{FOLDER}/{where}/{session}")
        for name, path in _paths(where, session).items():
            source = folder / _file_of(name)
            if not os.path.lexists(source):
                if name in there or (name in ALL_TABLES and place.size(path) is not None):
                    raise InputError(
                        f"{source}: is missing, and the lake has it", "edgetop pull brings the session back"
                    )
                continue
            try:
                with _opened(source) as file:
                    status = os.fstat(file.fileno())
                    files[name] = [status.st_size, digest_of(file)]
            except OSError as error:  # no regular file, or the disk fails
                recording.problems.append(f"{source}: cannot be pushed: {error.strerror}")
                continue
            sent += status.st_size if place.put(path, partial(_opened, source), *files[name]) else 0
            if (
                name != LOG or not recording.manifest.followed_by
            ):  # otherwise the run goes on, and still writes this log
                verified[source.name] = stamp_of(status)
        row, verified[SESSION] = row_until(recording, files)
        row_sent, digest = _put(place, table_path(TABLE, where, session), row)
        _write_marker(folder, place, board, session, digest)
        size = len(row) + sum(size for size, _ in files.values())
        return Pushed(session, sent + row_sent, size, tuple(recording.problems), verified)


def remove(folder: Path, pushed: Pushed) -> tuple[str, ...]:
    """Remove from the session's folder the files that the lake has. Return the names of the files that remain.

    Raises RecordingError, and removes nothing, if a process is writing the session or the session has changed.
    """
    try:
        left = remove_session(folder.resolve(), pushed.verified).left
        return tuple(name for name in left if name != PUSHED)
    except OSError as error:
        raise RecordingError(f"{folder}: cannot be removed: {error.strerror}; the lake has it") from None


def _paths(where: str, session: str) -> dict[str, str]:
    """Return the paths in the lake of all files of a session, by table or file name.

    `where` is the folder that `partition` returns. `session` is the session's id.
    """
    beside = {name: f"{FOLDER}/{where}/{session}/{name}" for name in BESIDE}
    return {table: table_path(table, where, session) for table in ALL_TABLES} | beside


def _file_of(name: str) -> str:
    """Return the name of the file in a session's folder for `name`: a table, such as
    "seconds", or the name of another file.
    """
    return name if name in BESIDE else f"{name}.parquet"


def follow(
    folder: Path, place: Place, board: str, on_piece: Callable[[str], None], wait: Callable[[float], None] = time.sleep
) -> Pushed:
    """Push a running session piece by piece until it is over, and return what was pushed.

    `board` is the id of the board in the lake. `on_piece` is called with a description of each pushed part. `wait` is a
    function that waits for a number of seconds. Raises InputError if the session cannot be pushed, and OutputError if
    the lake fails.
    """
    while is_live(folder):
        if words := push_pieces(folder, place, board):
            on_piece(words)
        wait(POLL_S)
    pushed = push(folder, place, board)
    with Recording(folder) as recording:
        manifest = recording.manifest
    for path in _pieces(place, manifest, _partition(place, manifest, board)):
        place.delete(path)
    return pushed


def push_pieces(folder: Path, place: Place, board: str) -> str:
    """Push the complete ten-minute pieces of a running session that the lake lacks.

    Return a description of these pieces, or "" if there were none. `board` is the id of the board in the lake.
    """
    with Recording(folder) as recording:
        manifest = recording.manifest
        where, sent = _partition(place, manifest, board), 0
        last = [path for path in _pieces(place, manifest, where) if path.startswith(f"{LAST}/")]
        begin_s = max((int(match[2]) for path in last if (match := _PIECE.fullmatch(path))), default=0)
        until_s = (recording.end_ns // NS - SETTLES_S) // PIECE_S * PIECE_S
        if until_s <= begin_s:
            return ""
        ids = [info.id for info in manifest.sensors]
        for start_s in range(begin_s, until_s, PIECE_S):
            span = Span(start_s * NS, (start_s + PIECE_S) * NS)
            for table in sorted(TABLES, key=lambda name: name == LAST):
                pieces, sink = [to_arrow(table, rows, ids) for rows in recording.rows(table, span)], io.BytesIO()
                pq.write_table(pa.concat_tables([SCHEMAS[table].empty_table(), *pieces]), sink, compression="zstd")
                path = table_path(table, where, f"{manifest.id}.{start_s}-{start_s + PIECE_S}")
                sent += _put(place, path, sink.getvalue())[0]
        with Recording(folder) as again:
            row, _ = row_until(again, {}, Span(end_ns=until_s * NS))
        sent += _put(place, table_path(TABLE, where, manifest.id), row)[0]
        return f"{manifest.name}: {until_s - begin_s} s more, {sent} bytes"


def row_until(recording: Recording, files: Mapping[str, list[Any]], span: Span = WHOLE) -> tuple[bytes, Stamp]:
    """Return the session's row of the table `sessions`, as a Parquet file, and its manifest file's stamp (`stamp_of`).

    The stamp shows later changes of the manifest. `files` has `[size in bytes, SHA-256]` of each file, by table or file
    name. The row describes the part `span` of the session. Raises InputError if the folder has become another session
    meanwhile.
    """
    analysis = Analysis.of(recording.play(span=span))
    with _opened(recording.folder / SESSION) as file:
        stamp, text = stamp_of(os.fstat(file.fileno())), file.read(MAX_MANIFEST_BYTES).decode("utf-8", "replace")
    if parsed_manifest(recording.folder / SESSION, text).id != recording.manifest.id:
        raise InputError(f"{recording.folder}: has become another session meanwhile", "push it again")
    return row_of(report(analysis), text, files), stamp


def _partition(place: Place, manifest: Manifest, board: str) -> str:
    """Return the folder in the lake with the session, or the folder of its first day if the lake does not have it.

    `board` is the id of the board in the lake. Raises InputError if the lake has the session under another board.
    """
    # The days may differ if the board set its clock after its first pieces were pushed.
    days = dict.fromkeys((manifest.began_utc[:10], manifest.created_utc[:10]))
    for day in days:
        for path in place.below(f"{TABLE}/{partition(day)}"):
            name = path.split("/")[-2].removeprefix("board=")
            if not path.endswith(f"/{manifest.id}.parquet"):
                continue
            if name != board:
                raise InputError(f"{manifest.id} is in the lake already, of board {name}", f"--board-id {name}")
            return partition(day, board)
    return partition(next(iter(days)), board)


def _pieces(place: Place, manifest: Manifest, where: str) -> list[str]:
    found = (path for table in TABLES for path in place.below(f"{table}/{where}"))
    return [path for path in found if _PIECE.fullmatch(path) and f"/{manifest.id}." in path]


def _put(place: Place, path: str, data: bytes) -> tuple[int, str]:
    """Write a file to `path` in the lake.

    Return the number of bytes sent, 0 if the lake had the file, and the SHA-256.
    """
    digest = digest_of(io.BytesIO(data))
    is_new = place.put(path, partial(io.BytesIO, data), len(data), digest)
    return len(data) if is_new else 0, digest


def _opened(path: Path) -> BinaryIO:
    return open(open_regular(path), "rb")  # noqa: PTH123  a descriptor


def _write_marker(folder: Path, place: Place, board: str, session: str, sha256: str) -> None:
    """Write a marker file into the session's folder, which allows `--sessions-quota` to delete this copy.

    `board` and `session` are their ids in the lake. `sha256` is the checksum of the session's row in the lake. Raises
    RecordingError if the folder cannot be written.
    """
    marker = {
        "session": session,
        "target": place.target,
        "board": board,
        "sha256": sha256,
        "time": format_utc(SystemClock().utc()),
    }
    try:
        write_file(folder / PUSHED, f"{json.dumps(marker, indent=1)}\n")
    except OSError as error:
        raise RecordingError(f"{folder / PUSHED}: cannot be written: {error.strerror}; the lake has it") from None


def pull(place: Place, given: str, output: Path | None, home: Path) -> tuple[Path, str]:
    """Copy a session from the lake into a new folder. Return the folder and the session's id.

    `given` is the session's name, its id, or the first digits of its id. `output` is the new folder; None for a folder
    in `home`. Raises InputError if the session cannot be found, and OutputError if the lake fails.
    """
    row = _found(place, given)
    manifest, files = _sound_row(place, row)
    if not files:
        raise InputError(f"{row['session']} is not over: it is there in pieces", "pull it when its board has ended it")
    name = manifest.name if as_component(manifest.name) == manifest.name else manifest.id
    target = output or home / f"{name}{SUFFIX}"
    refuse_full(target.absolute().parent, sum(size for size, _ in files.values()))
    with suppress(OSError):  # `NamedOutput` reports the error
        target.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    paths = _paths(partition(row["date"], row["board"]), manifest.id)
    with NamedOutput(target).folder() as folder:
        folder.chmod(FOLDER_MODE)
        for key, (size, sha256) in files.items():
            with _created(folder / _file_of(key)) as file:
                if place.read(paths[key], file.write, size) != sha256:
                    raise OutputError(f"{place.target}/{paths[key]}: is not what was pushed", "push the session again")
        with _created(folder / SESSION) as file:
            file.write(row[MANIFEST].encode())
        sync_folder(folder)
    return target, manifest.id


def _sound_row(place: Place, row: Mapping[str, Any]) -> tuple[Manifest, Mapping[str, Any]]:
    """Return a session's manifest and files from its row of `sessions`, after checking both.

    The files are `[size in bytes, SHA-256]`, by table or file name. Raises InputError if manifest or files are invalid.
    """
    try:
        manifest = parsed_manifest(Path(SESSION), row[MANIFEST])
        files = json.loads(row[FILES])
        for key, (size, sha256) in files.items():
            if key not in (*ALL_TABLES, *BESIDE) or type(size) is not int or size < 0 or type(sha256) is not str:
                raise ValueError(f"no such file: {key}")  # noqa: TRY301  a file of the lake that is not sound
    except (InputError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{place.target}: the row of {row['session']} is not sound: {error}") from None
    if manifest.id != row["session"]:
        raise InputError(f"{place.target}: the row of {row['session']} is that of another session")
    return manifest, files


@contextmanager
def _created(path: Path) -> Iterator[BinaryIO]:
    """Create a file and yield it, opened for writing. When the `with` block ends, the content is on the disk."""
    with path.open("xb") as file:
        os.fchmod(file.fileno(), FILE_MODE)
        yield file
        file.flush()
        os.fsync(file.fileno())


def _found(place: Place, given: str) -> Mapping[str, Any]:
    place.refuse_none()
    paths = place.files(TABLE)
    fitting = [path for path in paths if len(given) >= LEAST_DIGITS and path.rpartition("/")[2].startswith(given)]
    named = ds.field("name") == given if not fitting else None
    rows = place.retry(lambda: dataset(place, TABLE, fitting or paths).to_table(COLUMNS, filter=named)).to_pylist()
    if not rows:
        raise InputError(f"{place.target}: no session {given}", "edgetop lake TARGET sql 'FROM sessions' lists them")
    if len(rows) > 1:
        raise InputError(f"{given}: fits {len(rows)} sessions", ", ".join(row["session"] for row in rows[:5]))
    row: Mapping[str, Any] = rows[0]
    return row
