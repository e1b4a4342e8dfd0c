"""Moving rows from the journal into the tables: during a run, at its end, and at a recovery."""

import errno
import os
import pickle
import resource
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgetop.recording.columns import to_arrow
from edgetop.recording.journal import (
    JournalState,
    Progress,
    TableJob,
    open_segment,
    segment_name,
    segments,
)
from edgetop.recording.parquet_tables import ROW_GROUP_ROWS, Tables, seconds_kind
from edgetop.recording.rows import ALL_TABLES, FIELDS, between, joined
from edgetop.recording.session_folder import JOURNAL, read_manifest, set_aside
from edgetop.recording.snapshot import MissingSeconds, Snapshot
from edgetop.recording.stream_columns import with_stream_columns
from edgetop.recording.token_columns import requests_to_arrow, with_token_columns
from edgetop.session.batch import Batch
from edgetop.session.manifest import lost_in_all
from edgetop.session.seconds import Seconds

# Most bytes of a table that wait in memory. A limit on rows is not enough, since a row of `seconds` has a histogram.
ROW_GROUP_BYTES = 8 * 1024 * 1024
_EVENT_BYTES = 500  # approximate size of an event without its message


def compact(
    batches: Iterable[Batch], source: str, tables: Tables, sensor_ids: Sequence[str], missing: MissingSeconds
) -> None:
    """Append the rows of all batches of a journal file to the tables. Raises OSError.

    `source` is the name of the journal file. `sensor_ids` are the sensors' ids, until a batch has a new manifest.
    `missing` rebuilds seconds that were lost.
    """
    waiting = WaitingRows(tables, source, sensor_ids)
    for batch in batches:
        waiting.add(missing.completed(batch))
    waiting.flush()


class WaitingRows:
    """Collects rows, and writes them to the tables in row groups (blocks) of about ROW_GROUP_ROWS rows."""

    def __init__(self, tables: Tables, source: str, sensor_ids: Sequence[str] = ()) -> None:
        """Collect rows from the journal file `source`, and write them to `tables`.

        Readings refer to sensors by positions in `sensor_ids`.
        """
        self._tables = tables
        self._source = source
        self._sensor_ids = list(sensor_ids)
        self._pieces: dict[str, list[Any]] = {name: [] for name in ALL_TABLES}
        self._rows = dict.fromkeys(ALL_TABLES, 0)
        self._bytes = dict.fromkeys(ALL_TABLES, 0)

    def add(self, batch: Batch) -> None:
        """Add all rows of a batch, and write the row groups that became full. Raises OSError."""
        if batch.manifest is not None:
            sensor_ids = [info.id for info in batch.manifest.sensors]
            if sensor_ids[: len(self._sensor_ids)] != self._sensor_ids:
                self.flush("readings")
            self._sensor_ids = sensor_ids
        for name in ALL_TABLES:
            self.put(name, getattr(batch, FIELDS[name]))

    def put(self, name: str, rows: Any) -> None:
        """Add rows of the table `name`, and write the row groups that became full. Raises OSError.

        `rows` is the value of the field `name` of a `Batch`.
        """
        if name == "readings":
            valid = (rows["sensor"] < len(self._sensor_ids)) & ~np.isnan(rows["value"])
            rows = rows if valid.all() else rows[valid]
        if not len(rows):
            return
        self._pieces[name].append(rows)
        self._rows[name] += sum(map(len, rows)) if name == "operators" else len(rows)
        self._bytes[name] += _size(rows)
        if self._bytes[name] >= ROW_GROUP_BYTES or (name == "operators" and self._rows[name] >= ROW_GROUP_ROWS):
            self.flush(name)
        elif self._rows[name] >= ROW_GROUP_ROWS:
            rows = self._taken(name)
            whole = len(rows) // ROW_GROUP_ROWS * ROW_GROUP_ROWS
            self._append(name, between(rows, 0, whole))
            self.put(name, between(rows, whole, len(rows)))

    def flush(self, *names: str) -> None:
        """Write the collected rows of the tables `names`, or of all tables, as row groups. Raises OSError."""
        for name in names or ALL_TABLES:
            if self._pieces[name]:
                self._append(name, self._taken(name))

    def _taken(self, name: str) -> Any:
        pieces, self._pieces[name], self._rows[name], self._bytes[name] = self._pieces[name], [], 0, 0
        return joined(name, pieces)

    def _append(self, name: str, rows: Any) -> None:
        step = len(rows) if name == "operators" else ROW_GROUP_ROWS
        for begin in range(0, len(rows), step):
            group = between(rows, begin, begin + step)
            if name == "requests":
                self._tables.append(name, requests_to_arrow(group), self._source)
                continue
            table = to_arrow(name, group, self._sensor_ids)
            if name == "seconds" and self._tables.kind in ("streams", "all"):
                table = with_stream_columns(table, group)
            if name == "seconds" and self._tables.kind in ("tokens", "all"):
                table = with_token_columns(table, group)
            self._tables.append(name, table, self._source)


def _size(rows: Any) -> int:
    if isinstance(rows, Seconds):
        own = rows.rows.nbytes + rows.bucket.nbytes + rows.bucket_count.nbytes
        own += _size(rows.streams.seconds) if rows.streams else 0
        own += _size(rows.tokens.itl) + _size(rows.tokens.ttft) if rows.tokens else 0
        return own + (_size(rows.response) if rows.response else 0)
    if isinstance(rows, tuple):
        return sum(_EVENT_BYTES + len(getattr(row, "message", ())) for row in rows)
    return int(rows.nbytes)


def run_job(folder: Path, job: TableJob) -> Progress:
    """Move the rows of complete journal files into the tables. Return how much of the journal was moved so far.

    If `job` has a final manifest, the tables are also completed and moved into the session's folder. After an OSError,
    rows that are not in the tables are still in the journal.
    """
    journal = folder / JOURNAL
    done = job.progress
    try:
        manifest = job.manifest or read_manifest(folder)
        tables = Tables(journal, job.piece_bytes, kind=seconds_kind(manifest))
        missing = Snapshot(folder, manifest).missing_seconds()
        sources, state = {}, JournalState(done.tally, done.missing)
        for number in segments(journal):
            if job.manifest is None and number >= job.before:
                break
            path = journal / segment_name(number)
            segment = open_segment(path, state)
            try:
                compact(segment.read(), path.name, tables, (), missing)
                tables.commit()
            except OSError:
                tables.rollback()
                raise
            done = replace(done, tally=state.tally, missing=state.missing)
            if job.manifest is not None:
                sources[path.name] = segment.is_spoilt
            elif segment.is_spoilt:
                set_aside(folder, path.name)
            else:
                path.unlink()
        if job.manifest is None:
            return replace(done, dropped_bytes=done.dropped_bytes + _make_room(journal, tables, job.room_bytes))
        manifest = replace(job.manifest, lost=lost_in_all(job.manifest.lost, done.missing.lost(done.tally)))
        tables.publish(folder, manifest, sources)
    except ValueError as error:  # the files are damaged
        raise OSError(errno.EIO, str(error)) from None
    return replace(done, manifest=manifest)


def _make_room(journal: Path, tables: Tables, room_bytes: int | None) -> int:
    """Remove the oldest inferences until tables and journal take at most `room_bytes`; None means no limit.

    Return the number of bytes freed.
    """
    dropped = 0
    left = sum((journal / segment_name(number)).stat().st_size for number in segments(journal))
    while room_bytes is not None and tables.size_bytes + left > room_bytes:
        oldest = tables.drop_oldest_inferences()
        if not oldest:
            break
        dropped += oldest
    return dropped


def main() -> None:
    """Run the job that is read from stdin, and write its result to stdout.

    `ChildTableWriter` starts this as a process.
    """
    try:
        folder, job = pickle.load(sys.stdin.buffer)  # noqa: S301  sent by the process that started this one
    except EOFError:
        return
    threading.Thread(target=_end_with_parent, daemon=True).start()
    done: Progress | OSError
    try:
        done = run_job(Path(folder), job)
    except OSError as error:
        done = OSError(error.errno or errno.EIO, error.strerror or str(error))
    usage = resource.getrusage(resource.RUSAGE_SELF)
    pickle.dump((done, usage.ru_utime + usage.ru_stime), sys.stdout.buffer)
    sys.stdout.flush()
    os._exit(0)  # a normal exit would wait a second for the thread that reads stdin


def _end_with_parent() -> None:
    """Wait until the parent process ends, then end this process, so that another process may write the session."""
    # The kernel closes the parent's end of the pipe however the parent ends.
    while os.read(0, 1):
        continue
    os._exit(1)
