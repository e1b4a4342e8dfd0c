"""A session goes into a lake while it runs, in pieces of ten minutes that are final; whole, when it is over.

A piece of a table is `SESSION.BEGIN-END.parquet`, in seconds of session time. That of `seconds` is written last and
completes it, so that whoever goes on knows where. Once the session is over it is pushed as any other, and the pieces,
which nobody reads beside a whole table, are removed.
"""

import io
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.lake.place import Place, digest_of
from edgetop.lake.push import Pushed, partition, push, row_until
from edgetop.lake.row import TABLE
from edgetop.recording.columns import to_arrow
from edgetop.recording.files import is_live
from edgetop.recording.reader import Recording
from edgetop.recording.rows import TABLES, Span
from edgetop.recording.schema import SCHEMAS
from edgetop.session.seconds import NS

PIECE_S = 600
SETTLES_S = 60  # rows of earlier times may come so much later
LOOK_S = 5.0
LAST = "seconds"  # completes a piece
_PIECE = re.compile(r".*/[^/.]+\.(\d+)-(\d+)\.parquet")


def follow(
    folder: Path, place: Place, board: str, report: Callable[[str], None], wait: Callable[[float], None] = time.sleep
) -> Pushed:
    """Push a running session until it is over. Raises InputError and OutputError."""
    while is_live(folder):
        if words := push_pieces(folder, place, board):
            report(words)
        wait(LOOK_S)
    pushed = push(folder, place, board)
    for path in _pieces(place, Recording(folder), board):
        place.delete(path)
    return pushed


def push_pieces(folder: Path, place: Place, board: str) -> str:
    """Push the complete pieces of a running session that are not in the lake yet; return what was done, in words."""
    recording = Recording(folder)
    there = _pieces(place, recording, board)
    begin_s = max((int(match[2]) for path in there if (match := _is_complete(path))), default=0)
    until_s = (recording.end_ns // NS - SETTLES_S) // PIECE_S * PIECE_S
    if until_s <= begin_s:
        return ""
    where = partition(place, recording.manifest.id, recording.manifest.created_utc[:10], board)
    session, sent = recording.manifest.id, 0
    for start_s in range(begin_s, until_s, PIECE_S):
        span = Span(start_s * NS, (start_s + PIECE_S) * NS)
        for table in sorted(TABLES, key=lambda name: name == LAST):
            data = _parquet(recording, table, span)
            sent += _put(place, f"{table}/{where}/{session}.{start_s}-{start_s + PIECE_S}.parquet", data)
    row = row_until(Recording(folder), {}, Span(end_ns=until_s * NS))
    sent += _put(place, f"{TABLE}/{where}/{session}.parquet", row)
    return f"{recording.manifest.name}: {until_s - begin_s} s more, {sent} bytes"


def _pieces(place: Place, recording: Recording, board: str) -> list[str]:
    session, date = recording.manifest.id, recording.manifest.created_utc[:10]
    found = (path for table in TABLES for path in place.below(f"{table}/date={date}/board={board}"))
    return [path for path in found if _PIECE.fullmatch(path) and f"/{session}." in path]


def _is_complete(path: str) -> re.Match[str] | None:
    return _PIECE.fullmatch(path) if path.startswith(f"{LAST}/") else None


def _parquet(recording: Recording, table: str, span: Span) -> bytes:
    ids = [info.id for info in recording.manifest.sensors]
    pieces = [to_arrow(table, rows, ids) for rows in recording.rows(table, span)]
    whole = pa.concat_tables([SCHEMAS[table].empty_table(), *pieces])
    sink = io.BytesIO()
    pq.write_table(whole, sink, compression="zstd")
    return sink.getvalue()


def _put(place: Place, path: str, data: bytes) -> int:
    is_new = place.put(path, partial(io.BytesIO, data), len(data), digest_of(io.BytesIO(data)))
    return len(data) if is_new else 0
