"""The contents of a session's folder at one moment. The writer may be running, dead or finished.

Nothing is written here. The journal's files are opened before the catalog of the tables is read. Rows of an opened
journal file are read from this file and never from a table, so each row is read exactly once, even while a writer
continues. Arrow is loaded only if there is a table to read.
"""

import contextlib
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgetop.files import open_regular
from edgetop.recording.catalog import CatalogContent, RowGroup, piece_name, read_catalog
from edgetop.recording.journal import Follower, JournalState, SegmentReader, open_segment, segment_name, segments
from edgetop.recording.rows import ALL_TABLES, FIELDS, TABLES, WHOLE, Span, sound, within
from edgetop.recording.session_folder import JOURNAL, Descriptor, has_journal, names_in
from edgetop.session.batch import Batch
from edgetop.session.distinct import distinct
from edgetop.session.manifest import Manifest
from edgetop.session.operators import OperatorInfo
from edgetop.session.records import NO_INFERENCES, Inferences, Readings, SplitBy, join, latest
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS, Seconds, concatenate

if TYPE_CHECKING:  # loads Arrow
    from edgetop.recording.parquet_tables import TableFile


class Problems:
    """Collects the parts of a recording that could not be read. Each problem is listed once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._rows: dict[tuple[str, int], int] = {}  # missing rows, by table name and the place of the problem in it
        self._uncounted: set[str] = set()  # names of tables that lack an unknown number of rows

    def report(self, path: Path, what: str, place: int = 0, rows: int | None = None) -> None:
        """Report a problem with the file at `path`. `what` says what is wrong, such as "is missing".

        `rows` is the number of rows that are missing; None if unknown. `place` is a number that identifies the damaged
        part of the file, whose rows are counted once.
        """
        text = f"{path}: {' '.join(what.split())}"  # Arrow's messages may have several lines
        if text not in self.lines:
            self.lines.append(text)
        if rows is None:
            self._uncounted.add(path.stem)
        else:
            self._rows[path.stem, place] = rows

    def leave_out(self, path: Path, place: int, rows: int) -> None:
        """Report that `rows` implausible rows of the table file at `path` are left out.

        `place` is a number that identifies the part of the file, whose rows are counted once.
        """
        self.report(path, f"rows that cannot be true are left out: {rows} or more", place, rows)

    def missing(self, table: str) -> int | None:
        """Return the number of rows of a table that could not be read so far, or None if unknown."""
        if table in self._uncounted:
            return None
        return sum(rows for (name, _), rows in self._rows.items() if name == table)


class InferencesSince:
    """Collects inferences. `begin` drops old inferences, except the last one of each stream."""

    def __init__(self) -> None:
        self.pieces: list[Inferences] = []  # the first may begin before
        self._last = NO_INFERENCES

    def add(self, inferences: Inferences) -> None:
        if len(inferences):
            self.pieces.append(inferences)

    def begin(self, end_ns: int, split_by: SplitBy) -> None:
        """Drop the inferences before session time `end_ns`, except the last one of each stream.

        `split_by` is the field with an inference's stream number; None means that all belong to one stream.
        """
        while len(self.pieces) > 1 and self.pieces[1]["t_ns"][0] < end_ns:
            self._last = latest(join([self._last, self.pieces.pop(0)]), split_by)

    def joined(self) -> Inferences:
        return join([self._last, *self.pieces])


class MissingSeconds:
    """Rebuilds rows of `seconds` that were lost in damaged frames of the journal, from inferences in other frames."""

    def __init__(self, manifest: Manifest, begin_ns: int | None) -> None:
        """Rebuild seconds of a session with this manifest.

        `begin_ns` is the session time after the last second in the table: 0 if the table has no second, None if
        unknown.
        """
        self._manifest = manifest
        self._begin_ns = begin_ns
        self._since = InferencesSince()

    def completed(self, batch: Batch) -> Batch:
        """Return the batch, with missing seconds added before its own seconds. Call this with all batches in order."""
        if batch.manifest is not None:
            self._manifest = batch.manifest
        self._since.add(sound("inferences", batch.inferences))
        seconds = sound("seconds", batch.seconds)
        if not len(seconds):
            return batch
        first_ns, end_ns = int(seconds.rows["t_ns"][0]), int(seconds.rows["t_ns"][-1]) + NS
        if (split_by := self._manifest.split_by) and seconds.streams is None:
            own = within(Span(first_ns, end_ns), self._since.joined())
            if own[split_by].any():  # written by an earlier version of edgetop
                batch = replace(batch, seconds=with_streams(seconds, [own], self._manifest))
        if self._begin_ns is not None and first_ns > self._begin_ns:
            batch = replace(batch, seconds=concatenate([self._made(self._begin_ns, first_ns), batch.seconds]))
        self._begin_ns = end_ns
        self._since.begin(end_ns, self._manifest.split_by)
        return batch

    def _made(self, begin_ns: int, end_ns: int) -> Seconds:
        split_by, inferences = self._manifest.split_by, self._since.joined()
        before = latest(inferences[inferences["t_ns"] < begin_ns], split_by)
        inside = inferences[(inferences["t_ns"] >= begin_ns) & (inferences["t_ns"] < end_ns)]
        made = []
        for second in distinct(inside["t_ns"] // NS):  # a second about which nothing is known gets no row
            aggregator = aggregator_of(self._manifest, int(second), before)
            piece = inside[inside["t_ns"] // NS == second]
            made += [aggregator.add(piece), aggregator.close()]
            before = latest(join([before, piece]), split_by)
        return concatenate(made)


def aggregator_of(manifest: Manifest, first_second: int, last: Inferences) -> SecondAggregator:
    """Return an aggregator that makes one row per second, from `first_second` on, as the session's writer does.

    `last` has the last inference of each stream that was counted before `first_second`.
    """
    load = manifest.load
    return SecondAggregator(load.deadline_ns, first_second, last, is_paced=load.is_paced, split_by=manifest.split_by)


def with_streams(seconds: Seconds, inferences: Iterable[Inferences], manifest: Manifest) -> Seconds:
    """Return the seconds of an old recording, in order, with separate statistics of each stream added.

    `inferences` are all inferences of the seconds, in parts. A second of which inferences are missing gets no such
    statistics.
    """
    aggregator = aggregator_of(manifest, int(seconds.rows["t_ns"][0]) // NS, NO_INFERENCES)
    made = concatenate([*(aggregator.add(sound("inferences", piece)) for piece in inferences), aggregator.close()])
    if made.streams is None or (made.response is None) is not (seconds.response is None):
        return seconds
    places = np.minimum(np.searchsorted(made.rows["t_ns"], seconds.rows["t_ns"]), len(made) - 1)
    is_same = np.ones(len(seconds), np.bool_)
    for name in ("t_ns", "count", "errors"):
        is_same &= made.rows[name][places] == seconds.rows[name]
    pool = concatenate([made, replace(seconds.between(0, 1), streams=None)])
    return replace(seconds, streams=pool.take(np.where(is_same, places, len(made))).streams)


class Snapshot:
    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Open the journal and the unfinished table files of a session.

        Raises FileNotFoundError if the writer finishes meanwhile. The caller then takes another snapshot.
        """
        self.folder = folder
        self.problems = Problems()
        self._journal = folder / JOURNAL
        self._manifest = manifest
        self.sensor_ids = [info.id for info in manifest.sensors]  # the ids to which readings refer by number
        self._infos: dict[tuple[OperatorInfo, ...], tuple[OperatorInfo, ...]] = {}  # shared by bursts
        self.segments: dict[int, SegmentReader] = {}  # each was read up to its last complete frame
        self.catalog = CatalogContent([], 0, 0)
        self._pieces: dict[tuple[str, int], Descriptor] = {}
        self._open_files: weakref.WeakSet[TableFile] = weakref.WeakSet()  # those that are still in use
        if has_journal(folder):
            self._open_segments()
            try:
                present = {*names_in(self._journal), *map(segment_name, self.segments)}
                self.catalog = read_catalog(self._journal, present)  # without row groups made from an open segment
                for key in {(group.table, group.piece) for group in self.catalog.groups}:
                    self._pieces[key] = Descriptor(open_regular(self._journal / piece_name(*key)))
            except FileNotFoundError:
                raise
            except OSError as error:
                self.problems.report(self._journal, f"cannot be read: {error.strerror}")
        self._published = {name for name in ALL_TABLES if os.path.lexists(folder / f"{name}.parquet")}
        self._is_unfinished = has_journal(folder)

    def close(self) -> None:
        """Close all files. No row can be read from then on, but a reader that `follow` returned goes on."""
        for file in list(self._open_files):
            file.close()
        for piece in self._pieces.values():
            piece.close()
        self.segments = {}  # a segment that nobody follows is closed with this

    def _open_segments(self) -> None:
        """Open all files of the journal, the last one first."""
        # A writer removes the oldest file first, so no file is missing between the opened files.
        for number in reversed(segments(self._journal)):
            path = self._journal / segment_name(number)
            try:
                segment = open_segment(path)
            except FileNotFoundError:  # it has become table rows meanwhile
                continue
            except OSError as error:
                self.problems.report(path, f"cannot be read: {error.strerror}")
                continue
            for _ in segment.frames.read():  # moves to the end of the last complete frame
                continue
            self.segments[number] = segment
        self.segments = dict(sorted(self.segments.items()))

    def torn_bytes(self) -> int:
        return sum(segment.frames.tail_bytes() for segment in self.segments.values())

    def is_torn(self) -> bool:
        """Whether the journal ends with a part of a frame: the writer died, or is still writing."""
        return bool(self.segments) and self.segments[max(self.segments)].frames.is_torn()

    def changed_ns(self) -> int:
        """Return when the journal's last file was changed, in ns since 1970, or 0 if there is no file."""
        return os.fstat(self.segments[max(self.segments)].file.fd).st_mtime_ns if self.segments else 0

    def again(self, number: int, state: JournalState | None = None) -> SegmentReader:
        """Return a new reader of journal file `number`, from its beginning to its end at the moment of this snapshot.

        `state` is the reader's state after the earlier journal files; None if there are no earlier files.
        """
        segment = self.segments[number]
        return SegmentReader(segment.file, segment.frames.offset, state)

    def catalogued_inferences(self) -> int | None:
        """Return the number of rows in the unfinished table of inferences.

        None if old rows were dropped (`--max-size`).
        """
        groups = [group for group in self.catalog.groups if group.table == "inferences"]
        is_whole = not groups or min(group.piece for group in groups) == 0
        return sum(group.rows for group in groups) if is_whole else None

    def missing_seconds(self) -> MissingSeconds:
        """Return an object that rebuilds lost seconds.

        Give this object all batches of the journal, from the first on.
        """
        last = next((int(rows.rows["t_ns"][-1]) + NS for rows in self.last_rows("seconds")), None)
        begin_ns = 0 if last is None and min(self.segments, default=1) == 1 else last
        return MissingSeconds(self._manifest, begin_ns)

    def follow(self) -> Follower:
        """Return a reader of the batches that the writer appends after this snapshot."""
        if not self.segments:
            return Follower(self._journal)
        last = max(self.segments)
        return Follower(self._journal, last, self.segments[last].frames.offset, self.segments[last].file)

    def rows(self, name: str, span: Span = WHOLE) -> Iterator[Any]:
        """Yield the readable rows of the table `name` in `span`, and perhaps some others, in parts of limited size."""
        for file in self.files(name):
            yield from self._row_groups(file, span)
        yield from self.journalled(name)

    def files(self, name: str) -> Iterator["TableFile"]:
        """Yield each file that has rows of the table `name`, opened for reading."""
        path = self.folder / f"{name}.parquet"
        if name in self._published:
            yield from self._opened(name, path, path, None)
            return
        if not self._is_unfinished and name in TABLES:
            self.problems.report(path, "is missing")
        yield from self._unpublished(name)

    def journalled(self, name: str) -> Iterator[Any]:
        """Yield the rows of the table `name` that have not been moved from the journal to the table yet."""
        if name in self._published or not self.segments:
            return
        spoilt = name == "seconds" and any(segment.is_spoilt for segment in self.segments.values())
        missing = self.missing_seconds() if spoilt else None
        field = FIELDS[name]
        for number in self.segments:
            own_ids = self.sensor_ids
            for batch in self.again(number).read({field, "manifest", *(("inferences",) if missing else ())}):
                if batch.manifest is not None:
                    own_ids = [info.id for info in batch.manifest.sensors]
                rows = getattr(missing.completed(batch) if missing else batch, field)
                rows = _renumbered(rows, own_ids, self.sensor_ids) if name == "readings" else rows
                if len(rows):
                    yield rows

    def last_rows(self, name: str) -> Iterator[Any]:
        """Yield the rows of each row group of the unfinished table `name`, the last row group first.

        Rows that are only in the journal are left out.
        """
        for file in reversed(list(self._unpublished(name))):
            yield from self._row_groups(file, backwards=True)

    def _unpublished(self, name: str) -> Iterator["TableFile"]:
        """Yield each unfinished file of the table `name`, even a file that was removed meanwhile."""
        for (table, number), piece in sorted(self._pieces.items()):
            if table != name:
                continue
            place = self._journal / piece_name(name, number)
            groups = self.catalog.of(name, number)
            if not _are_valid(name, groups):
                self.problems.report(place, "is damaged: its index is not sound; what of it is sound is read")
                groups = [group for group in groups if _are_valid(name, [group])]
            yield from self._opened(name, place, Path(f"/proc/self/fd/{piece.fd}"), groups)

    def _opened(self, name: str, place: Path, source: Path, groups: list[RowGroup] | None) -> Iterator["TableFile"]:
        """Yield one open file of the table `name`, or nothing if the file cannot be opened.

        `place` is the path for messages, and `source` is the path to read from. `groups` are the catalog entries of the
        file's row groups; None if the file has a footer.
        """
        from edgetop.recording.parquet_tables import TableFile  # noqa: PLC0415  loads Arrow

        with self.damage_reported(place):
            file = TableFile(name, place, source, groups)
            self._open_files.add(file)
            yield file

    def _row_groups(self, file: "TableFile", span: Span = WHOLE, *, backwards: bool = False) -> Iterator[Any]:
        together = file.by_time()
        for numbers in reversed(together) if backwards else together:
            spans = [file.times_in(number) for number in numbers]
            if any(times is None or span.touches(*times) for times in spans):
                with self.damage_reported(file.place, numbers[0], file.rows_in(numbers)):
                    if len(rows := self.read(file, numbers)):
                        yield rows

    def read(self, file: "TableFile", numbers: Sequence[int]) -> Any:
        """Return the rows of the row groups `numbers` of a file.

        Raises OSError, or ValueError if the rows are damaged.
        """
        rows, left_out = file.read(numbers, self.sensor_ids, self._infos)
        if left_out:
            self.problems.leave_out(file.place, numbers[0], left_out)
        if file.name == "seconds" and not file.has_streams and self._has_models and len(rows):
            span = Span(int(rows.rows["t_ns"][0]), int(rows.rows["t_ns"][-1]) + NS)
            return with_streams(rows, (within(span, piece) for piece in self.rows("inferences", span)), self._manifest)
        return rows

    @property
    def _has_models(self) -> bool:
        """Whether the session may have run several models: an A/B session, or a program with several streams."""
        watched = self._manifest.watched
        return self._manifest.ab is not None or (watched is not None and len(watched.streams) > 1)

    @contextlib.contextmanager
    def damage_reported(self, path: Path, number: int = 0, rows: int | None = None) -> Iterator[None]:
        """Report an OSError or ValueError within the `with` block as a problem, instead of raising the error.

        The `with` block reads `rows` rows (None if unknown) of row group `number` of the table file at `path`.
        """
        try:
            yield
        except (OSError, ValueError) as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else f"is damaged: {error}"
            self.problems.report(path, what, number, rows)


def _are_valid(name: str, groups: list[RowGroup]) -> bool:
    from edgetop.recording.parquet_tables import metadata_of  # noqa: PLC0415  loads Arrow

    try:
        metadata_of(name, groups)
    except ValueError:
        return False
    return True


def _renumbered(readings: Readings, own_ids: list[str], sensor_ids: list[str]) -> Readings:
    """Return the readings, with each sensor's index in `own_ids` replaced by its index in `sensor_ids`.

    Readings that are NaN, or of a sensor that is not in both lists, are dropped.
    """
    readings = readings[(readings["sensor"] < len(own_ids)) & ~np.isnan(readings["value"])]
    if own_ids != sensor_ids[: len(own_ids)]:
        place = {sensor_id: number for number, sensor_id in enumerate(sensor_ids)}
        places = np.array([place.get(sensor_id, -1) for sensor_id in own_ids], np.int64)[readings["sensor"]]
        readings = readings[places >= 0].copy()
        readings["sensor"] = places[places >= 0]
    return readings
