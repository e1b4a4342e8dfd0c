"""Plays a recording back as batches, in the order in which things happened.

Tables are read row group by row group, never whole: a session of a day must open in the
memory of a small board. What is missing or damaged is told in `problems`, and the rest is
read. A session whose writer died is recovered when it is opened; one whose writer lives is
read as it is at that moment.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.errors import InputError
from edgetop.recording import columns, operator_columns, soundness
from edgetop.recording.files import has_journal, read_manifest
from edgetop.recording.journal import Follower
from edgetop.recording.pieces import Piece
from edgetop.recording.recovery import Closing, closing_of, recover
from edgetop.recording.schema import OPERATORS, SCHEMAS, as_described
from edgetop.recording.snapshot import Snapshot, by_time, open_table, times_of
from edgetop.recording.span import WHOLE, Span
from edgetop.session.batch import Batch
from edgetop.session.manifest import Lost, Manifest, lost_in_all
from edgetop.session.records import MEASURE, NO_INFERENCES, NO_READINGS, Inferences
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate

MOMENTS = 5  # at which a session is looked at while it is being finished
CHECKED_BYTES = 32 * 1024 * 1024  # of single inferences, unpacked: a fraction of a second
LATE_NS, ALL_BUT = 5 * NS, 0.9
STEP_SECONDS = 600  # how much session time one batch of `play` spans


class Recording:
    """One recorded session, opened for reading."""

    def __init__(self, folder: Path) -> None:
        """Raises InputError where the folder holds no session, or one that cannot be read."""
        self.folder = folder
        self._counted = 0  # inferences in the seconds that were played
        self._is_played = False  # all of them
        self._measured = 0  # single ones of the measured phase
        for _ in range(MOMENTS):
            self._closing: Closing | None = None
            try:
                self._look()
                break
            except FileNotFoundError:  # the writer finished meanwhile
                continue
        else:
            raise InputError(f"{folder}: is changing all the time")
        self._sensor_ids = [info.id for info in self.manifest.sensors]

    def _look(self) -> None:
        self.is_live = has_journal(self.folder) and recover(self.folder) == "live"
        self.manifest: Manifest = read_manifest(self.folder)
        self._snapshot = Snapshot(self.folder, self.manifest)
        if has_journal(self.folder):
            self._closing = closing_of(self._snapshot, self.manifest, is_live=self.is_live)
            self.manifest = self._closing.manifest

    @property
    def problems(self) -> list[str]:
        """What could not be read so far, a line for each thing."""
        return self._snapshot.problems.found

    def follow(self) -> Follower:
        """What the writer of a live session appends after what `play` gives."""
        return self._snapshot.follow()

    @property
    def end_ns(self) -> int:
        """The session's time at its end; now, where it is live; 0: not known."""
        return (self._closing.until_ns if self._closing else self.manifest.duration_ns) or 0

    def play(self, *, inferences: bool = False, step_s: int = STEP_SECONDS, span: Span = WHOLE) -> Iterator[Batch]:
        """The session from its start, or what of it lies in `span`; `inferences` only where asked for."""
        names = ("seconds", "readings", "events", "operators", *(("inferences",) if inferences else ()))
        cursors = {name: _Cursor(self.rows(name, span)) for name in names}
        end_ns = min(self.end_ns, span.end_ns)
        until, first = 0, True
        while first or not all(cursor.is_over for cursor in cursors.values()):
            nearest = min((cursor.next_ns for cursor in cursors.values() if not cursor.is_over), default=0)
            until = max(until + step_s * NS, nearest // (step_s * NS) * step_s * NS)  # years of nothing are one step
            yield self._batch({name: cursor.take(until) for name, cursor in cursors.items()}, min(until, end_ns), first)
            first = False
        self._is_played = span == WHOLE
        if not inferences:
            self._check_inferences()
        yield Batch(until_ns=end_ns, manifest=None if self.lost == self.manifest.lost else self._with_losses())

    def _check_inferences(self) -> None:
        """Whether they could be read: all of them where they are few, else the index of their table."""
        for path, source, metadata in self._snapshot.files("inferences"):
            size = 0
            with self._snapshot.damage_told(path), open_table(path, source, metadata) as file:
                size = sum(file.metadata.row_group(number).total_byte_size for number in range(file.num_row_groups))
            if size <= CHECKED_BYTES:
                self._measured = sum(_measured_in(rows) for rows in self.rows("inferences"))
                return

    @property
    def lost(self) -> Lost | None:
        """What is not in the recording, or could not be read of it so far."""
        problems = self._snapshot.problems
        if not problems.found:
            return self.manifest.lost or self._uncounted()
        seconds, singles = problems.missing("seconds"), problems.missing("inferences")
        others = any(f"/{name}." in problem for problem in problems.found for name in SCHEMAS if name != "seconds")
        ran = self.manifest.methodology.measure_runs or self._measured
        uncounted: int | None = 0
        if seconds != 0:
            uncounted = max(0, ran - self._counted) if ran and not self.is_live else None
        known = None if singles is None or uncounted is None else max(singles, uncounted)
        more = f" (and {len(problems.found) - 1} more)" if len(problems.found) > 1 else ""
        unread = Lost(None if others or seconds is None else float(seconds), known, f"{problems.found[0]}{more}")
        return lost_in_all(self.manifest.lost, unread)

    def _uncounted(self) -> Lost | None:
        """Where the table of seconds is sound, and yet not all of it."""
        ran = self.manifest.methodology.measure_runs
        if not self._is_played or self.is_live or ran is None or ran <= self._counted:
            return None
        return Lost(None, ran - self._counted, f"seconds.parquet counts {self._counted} inferences of {ran}")

    def _with_losses(self) -> Manifest:
        return replace(self.manifest, lost=self.lost)

    def rows(self, name: str, span: Span = WHOLE) -> Iterator[Any]:
        """The rows of a table that can be believed, in pieces: as a batch has them; operators as their table does."""
        path = self.folder / f"{name}.parquet"
        for table in self._snapshot.rows(name, span):
            if len(kept := _within(span, self._believed(name, path, table))):
                yield kept
        if self._closing and len(rest := _within(span, self._closing.rows(name))):
            yield rest

    def _believed(self, name: str, path: Path, table: pa.Table) -> Any:
        """The rows that can be true."""
        from_arrow, sound = self._kind(name)
        kept = _NONE[name]
        place = _place_of(table)
        with self._snapshot.damage_told(path, place, len(table)):
            rows = from_arrow(table)
            kept = in_order(sound(rows))
            if len(kept) < len(rows):
                left_out = len(rows) - len(kept)
                what = f"rows that cannot be true are left out: {left_out} or more"
                self._snapshot.problems.miss(path, what, place, left_out)
        return kept

    def pieces(self, name: str, at_once: int = 1) -> list[Piece]:
        """A table in pieces that are read when they are wanted, in their order.

        `at_once`: of how many rows a piece is, at least, where its row groups are smaller.
        """
        found: list[Piece] = []
        for path, source, metadata in self._snapshot.files(name):
            with self._snapshot.damage_told(path):
                found += self._row_groups(name, path, open_table(path, source, metadata), at_once)
        rest = [self._believed(name, self.folder / f"{name}.parquet", t) for t in self._snapshot.journalled(name)]
        if self._closing:
            rest.append(self._closing.rows(name))
        if rest := [rows for rows in rest if len(rows)]:
            joined = _joined(rest)
            times = _times(joined)
            found.append(Piece(int(times.min()), int(times.max()), len(joined), lambda: joined))
        return found

    def _row_groups(self, name: str, path: Path, file: pq.ParquetFile, at_once: int) -> Iterator[Piece]:
        waiting: list[int] = []
        together = by_time(file, apart=name == "seconds")
        for numbers in together:
            waiting += numbers
            rows = sum(file.metadata.row_group(number).num_rows for number in waiting)
            if rows >= at_once or numbers is together[-1]:
                spans = [span for number in waiting if (span := self._span(path, file, number))]
                read = partial(self._read, name, path, file, tuple(waiting))
                if spans:
                    yield Piece(min(first for first, _ in spans), max(last for _, last in spans), rows, read)
                waiting = []

    def _span(self, path: Path, file: pq.ParquetFile, number: int) -> tuple[int, int] | None:
        """The first and the last time in a row group; None where it has no rows that can be read."""
        group = file.metadata.row_group(number)
        if (known := times_of(group)) is not None:
            return known
        times = NO_READINGS["t_ns"]
        with self._snapshot.damage_told(path, number, group.num_rows):
            times = np.asarray(file.read_row_group(number, columns=["t_ns"])["t_ns"].cast(pa.int64()))
        return (int(times.min()), int(times.max())) if len(times) else None

    def _read(self, name: str, path: Path, file: pq.ParquetFile, numbers: tuple[int, ...]) -> Any:
        """These row groups together; where one is damaged, the others."""
        try:
            return self._believed(name, path, as_described(file.read_row_groups(numbers), SCHEMAS[name]))
        except (OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError, pa.ArrowException):
            rows = []
            for number in numbers:
                with self._snapshot.damage_told(path, number, file.metadata.row_group(number).num_rows):
                    rows.append(self._believed(name, path, as_described(file.read_row_group(number), SCHEMAS[name])))
            return _joined(rows) if rows else _NONE[name]

    def _kind(self, name: str) -> tuple[Callable[[pa.Table], Any], Callable[[Any], Any]]:
        kinds: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
            "seconds": (columns.seconds_from_arrow, soundness.sound_seconds),
            "readings": (partial(columns.readings_from_arrow, sensor_ids=self._sensor_ids), soundness.sound_readings),
            "events": (columns.events_from_arrow, soundness.sound_events),
            "operators": (operator_columns.as_table, soundness.sound_operators),
            "inferences": (columns.inferences_from_arrow, soundness.sound_inferences),
        }
        return kinds[name]

    def _batch(self, taken: Mapping[str, list[Any]], until_ns: int, first: bool) -> Batch:
        single = taken.get("inferences")
        if first:
            self._counted = self._measured = 0
        self._measured += sum(map(_measured_in, single or ()))
        for seconds in taken["seconds"]:
            self._counted += int(seconds.rows["count"].sum() + seconds.rows["errors"].sum())
        return Batch(
            until_ns=until_ns,
            inferences=np.concatenate(single) if single else NO_INFERENCES,
            seconds=concatenate(taken["seconds"]),
            readings=np.concatenate(taken["readings"]) if taken["readings"] else NO_READINGS,
            events=tuple(event for events in taken["events"] for event in events),
            bursts=operator_columns.bursts_from_arrow(taken["operators"]),
            manifest=self.manifest if first else None,
            restart=first,
        )


def _measured_in(inferences: Inferences) -> int:
    return int(np.count_nonzero(inferences["phase"] == MEASURE))


class _Cursor:
    """The rows of one table from front to back, up to a time at each step."""

    def __init__(self, pieces: Iterator[Any]) -> None:
        self._pieces = pieces
        self._rest = next(pieces, None)

    @property
    def is_over(self) -> bool:
        return self._rest is None

    @property
    def next_ns(self) -> int:
        """The time of the next row."""
        return int(_times(self._rest)[0])

    def take(self, until_ns: int) -> list[Any]:
        """The rows before the first one that is not earlier than `until_ns`, in pieces."""
        return list(self._take(until_ns))

    def _take(self, until_ns: int) -> Iterator[Any]:
        while self._rest is not None:
            later = np.flatnonzero(_times(self._rest) >= until_ns)
            if len(later):
                cut = int(later[0])
                if cut:
                    yield _slice(self._rest, 0, cut)
                    self._rest = _slice(self._rest, cut, len(self._rest))
                return
            yield self._rest
            self._rest = next(self._pieces, None)


_NONE: dict[str, Any] = {
    "seconds": NO_SECONDS,
    "readings": NO_READINGS,
    "events": (),
    "operators": OPERATORS.empty_table(),
    "inferences": NO_INFERENCES,
}


def _place_of(table: pa.Table) -> int:
    """Something that tells some rows of a table from its others."""
    return hash(table["t_ns"][0].as_py()) if len(table) else 0


def in_order(piece: Any) -> Any:
    """Rows that another program may have put into another order; ours come as they were made.

    Seconds are put in order whatever is amiss, each once. Of others some come late, so that only an order that is
    none counts: where one comes as late as the whole of them lasts.
    """
    if len(piece) < 2:
        return piece
    times = _times(piece)
    if isinstance(piece, Seconds):
        return piece if (np.diff(times) > 0).all() else piece.take(np.unique(times, return_index=True)[1])
    late_ns = int((np.maximum.accumulate(times) - times).max())
    lasts_ns = int(times.max() - times.min())
    if lasts_ns < LATE_NS or late_ns < ALL_BUT * lasts_ns:
        return piece
    order = np.argsort(times, kind="stable")
    if isinstance(piece, tuple):
        return tuple(piece[place] for place in order)
    return piece.take(pa.array(order)) if isinstance(piece, pa.Table) else piece[order]


def _joined(pieces: list[Any]) -> Any:
    if isinstance(pieces[0], Seconds):
        return concatenate(pieces)
    if isinstance(pieces[0], tuple):
        return tuple(event for events in pieces for event in events)
    return pa.concat_tables(pieces) if isinstance(pieces[0], pa.Table) else np.concatenate(pieces)


def _times(piece: Any) -> Any:
    if isinstance(piece, tuple):
        return np.array([event.t_ns for event in piece], np.int64)
    return np.asarray((piece.rows if isinstance(piece, Seconds) else piece)["t_ns"])


def _within(span: Span, piece: Any) -> Any:
    held = span.holds(_times(piece)) if len(piece) else np.empty(0, bool)
    if held.all():
        return piece
    if isinstance(piece, tuple):
        return tuple(event for event, is_held in zip(piece, held, strict=True) if is_held)
    if isinstance(piece, pa.Table):
        return piece.filter(pa.array(held))
    return piece.where(held) if isinstance(piece, Seconds) else piece[held]


def _slice(piece: Any, begin: int, end: int) -> Any:
    if isinstance(piece, Seconds):
        place = np.arange(len(piece))
        return piece.where((place >= begin) & (place < end))
    return piece[begin:end]
