"""The contents of a session's folder at one moment, whether its writer lives, has died or has finished.

This only reads. The segments of the journal are opened before the catalog is read, and their rows
are then read from them alone, so that no row is read twice or missed while a writer goes on.
Arrow is loaded if there is a table to read: not for a young session that still runs.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgetop.files import open_regular
from edgetop.recording.catalog import CatalogContent, RowGroup, piece_name, read_catalog
from edgetop.recording.journal import Follower, JournalState, SegmentReader, open_segment, segment_name, segments
from edgetop.recording.rows import FIELDS, TABLES, WHOLE, Span, sound
from edgetop.recording.session_folder import JOURNAL, Descriptor, has_journal, names_in
from edgetop.session.batch import Batch
from edgetop.session.manifest import Load, Manifest
from edgetop.session.operators import OperatorInfo
from edgetop.session.records import NO_INFERENCES, Inferences, Readings, join, measured
from edgetop.session.seconds import NS, SecondAggregator, Seconds, concatenate

if TYPE_CHECKING:  # loads Arrow
    from edgetop.recording.parquet_tables import TableFile


class Problems:
    """What could not be read of a recording, each thing once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._rows: dict[tuple[str, int], int] = {}  # by the table's name and the place of the first row: how many
        self._uncounted: set[str] = set()  # names of tables of which an unknown number of rows is missing

    def report(self, path: Path, what: str, place: int = 0, rows: int | None = None) -> None:
        """`rows`: how many rows of a table are missing; None: unknown."""
        text = f"{path}: {' '.join(what.split())}"  # a message of Arrow may have several lines
        if text not in self.lines:
            self.lines.append(text)
        if rows is None:
            self._uncounted.add(path.stem)
        else:
            self._rows[path.stem, place] = rows

    def leave_out(self, path: Path, place: int, rows: int) -> None:
        """Report implausible rows of a table."""
        self.report(path, f"rows that cannot be true are left out: {rows} or more", place, rows)

    def missing(self, table: str) -> int | None:
        """How many rows of a table could not be read so far; None: unknown."""
        if table in self._uncounted:
            return None
        return sum(rows for (name, _), rows in self._rows.items() if name == table)


class MissingSeconds:
    """Rebuilds seconds that damaged frames held from those of their inferences that are in other frames."""

    def __init__(self, load: Load, begin_ns: int | None) -> None:
        """`begin_ns`: where the seconds before the first batch end; None: unknown until the first row."""
        self._load = load
        self._begin_ns = begin_ns
        self._inferences: list[Inferences] = []

    def completed(self, batch: Batch) -> Batch:
        """The batch, with the missing seconds before its own."""
        if batch.manifest is not None:
            self._load = batch.manifest.load
        if len(inferences := sound("inferences", batch.inferences)):
            self._inferences.append(inferences)
        seconds = sound("seconds", batch.seconds)
        if not len(seconds):
            return batch
        first_ns, end_ns = int(seconds.rows["t_ns"][0]), int(seconds.rows["t_ns"][-1]) + NS
        if self._begin_ns is not None and first_ns > self._begin_ns:
            batch = replace(batch, seconds=concatenate([self._made(self._begin_ns, first_ns), batch.seconds]))
        self._begin_ns = end_ns
        while len(self._inferences) > 1 and self._inferences[1]["t_ns"][0] < end_ns:
            self._inferences.pop(0)
        return batch

    def _made(self, begin_ns: int, end_ns: int) -> Seconds:
        inferences = join([NO_INFERENCES, *self._inferences])
        before = measured(inferences[inferences["t_ns"] < begin_ns])
        inside = inferences[(inferences["t_ns"] >= begin_ns) & (inferences["t_ns"] < end_ns)]
        made = []
        for second in np.unique(inside["t_ns"] // NS):  # a second about which nothing is known gets no row
            aggregator = SecondAggregator(
                self._load.deadline_ns, int(second), before[-1:], is_paced=self._load.is_paced
            )
            piece = inside[inside["t_ns"] // NS == second]
            made += [aggregator.add(piece), aggregator.close()]
            before = join([before[-1:], measured(piece)])
        return concatenate(made)


class Snapshot:
    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Raises FileNotFoundError if the writer finished meanwhile: take another snapshot."""
        self.folder = folder
        self.problems = Problems()
        self._journal = folder / JOURNAL
        self._manifest = manifest
        self.sensor_ids = [info.id for info in manifest.sensors]  # by which readings refer to sensors
        self._infos: dict[tuple[OperatorInfo, ...], tuple[OperatorInfo, ...]] = {}  # shared by bursts
        self.segments: dict[int, SegmentReader] = {}  # each up to the last complete frame
        self.catalog = CatalogContent([], 0, 0)
        self._pieces: dict[tuple[str, int], Descriptor] = {}
        if has_journal(folder):
            self._open_segments()
            try:
                present = {*names_in(self._journal), *map(segment_name, self.segments)}
                self.catalog = read_catalog(self._journal, present)  # row groups that are valid beside the segments
                for key in {(group.table, group.piece) for group in self.catalog.groups}:
                    self._pieces[key] = Descriptor(open_regular(self._journal / piece_name(*key)))
            except FileNotFoundError:
                raise
            except OSError as error:
                self.problems.report(self._journal, f"cannot be read: {error.strerror}")
        self._published = {name for name in TABLES if os.path.lexists(folder / f"{name}.parquet")}
        self._is_unfinished = has_journal(folder)

    def _open_segments(self) -> None:
        """Open the last one first: a writer removes the first ones first, so there are no holes."""
        for number in reversed(segments(self._journal)):
            path = self._journal / segment_name(number)
            try:
                segment = open_segment(path)
            except FileNotFoundError:  # it has become table rows meanwhile
                continue
            except OSError as error:
                self.problems.report(path, f"cannot be read: {error.strerror}")
                continue
            for _ in segment.frames.read():  # to the end of what is complete by now
                continue
            self.segments[number] = segment
        self.segments = dict(sorted(self.segments.items()))

    def torn_bytes(self) -> int:
        return sum(segment.frames.tail_bytes() for segment in self.segments.values())

    def is_torn(self) -> bool:
        """Whether the last frame was not written to its end."""
        return bool(self.segments) and self.segments[max(self.segments)].frames.is_torn()

    def changed_ns(self) -> int:
        """When the journal was last changed, by the wall clock, since 1970; 0 if it is empty."""
        return os.fstat(self.segments[max(self.segments)].file.fd).st_mtime_ns if self.segments else 0

    def again(self, number: int, state: JournalState | None = None) -> SegmentReader:
        """A segment from its beginning to its end at the moment of this snapshot. `state`: after earlier segments."""
        segment = self.segments[number]
        return SegmentReader(segment.file, segment.frames.offset, state)

    def catalogued_inferences(self) -> int | None:
        """How many are in the unpublished tables; None if the first were dropped to make room."""
        groups = [group for group in self.catalog.groups if group.table == "inferences"]
        is_whole = not groups or min(group.piece for group in groups) == 0
        return sum(group.rows for group in groups) if is_whole else None

    def missing_seconds(self) -> MissingSeconds:
        """Return what adds missing seconds to the batches of all segments; it is given them in their order."""
        last = next((int(rows.rows["t_ns"][-1]) + NS for rows in self.last_rows("seconds")), None)
        begin_ns = 0 if last is None and min(self.segments, default=1) == 1 else last
        return MissingSeconds(self._manifest.load, begin_ns)

    def follow(self) -> Follower:
        """Follow what the writer appends after this moment."""
        if not self.segments:
            return Follower(self._journal)
        last = max(self.segments)
        return Follower(self._journal, last, self.segments[last].frames.offset, self.segments[last].file)

    def rows(self, name: str, span: Span = WHOLE) -> Iterator[Any]:
        """The readable rows of a table in pieces of bounded size: all in `span`, and others read along with them."""
        for file in self.files(name):
            yield from self._row_groups(file, span)
        yield from self.journalled(name)

    def files(self, name: str) -> Iterator["TableFile"]:
        """Each file with row groups of a table."""
        path = self.folder / f"{name}.parquet"
        if name in self._published:
            yield from self._opened(name, path, path, None)
            return
        if not self._is_unfinished:
            self.problems.report(path, "is missing")
        yield from self._unpublished(name)

    def journalled(self, name: str) -> Iterator[Any]:
        """The rows of a table that are not in a row group yet."""
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
        """The row groups of an unpublished table, the last one first, without the rows in the journal."""
        for file in reversed(list(self._unpublished(name))):
            yield from self._row_groups(file, backwards=True)

    def _unpublished(self, name: str) -> Iterator["TableFile"]:
        """Each piece; it can be read even if it was removed meanwhile."""
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
        """One file, or none if it cannot be opened."""
        from edgetop.recording.parquet_tables import TableFile  # noqa: PLC0415  loads Arrow

        with self.damage_reported(place):
            yield TableFile(name, place, source, groups)

    def _row_groups(self, file: "TableFile", span: Span = WHOLE, *, backwards: bool = False) -> Iterator[Any]:
        together = file.by_time()
        for numbers in reversed(together) if backwards else together:
            spans = [file.times_in(number) for number in numbers]
            if any(times is None or span.touches(*times) for times in spans):
                with self.damage_reported(file.place, numbers[0], file.rows_in(numbers)):
                    if len(rows := self.read(file, numbers)):
                        yield rows

    def read(self, file: "TableFile", numbers: Sequence[int]) -> Any:
        """The rows of some row groups. Raises OSError, and ValueError if they are damaged."""
        rows, left_out = file.read(numbers, self.sensor_ids, self._infos)
        if left_out:
            self.problems.leave_out(file.place, numbers[0], left_out)
        return rows

    @contextlib.contextmanager
    def damage_reported(self, path: Path, number: int = 0, rows: int | None = None) -> Iterator[None]:
        """Report errors of a table and go on. `rows`: how many rows of row group `number` are lost; None: unknown."""
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
    """Renumber readings by another list of sensors; readings of unlisted sensors and NaN are dropped."""
    readings = readings[(readings["sensor"] < len(own_ids)) & ~np.isnan(readings["value"])]
    if own_ids != sensor_ids[: len(own_ids)]:
        place = {sensor_id: number for number, sensor_id in enumerate(sensor_ids)}
        places = np.array([place.get(sensor_id, -1) for sensor_id in own_ids], np.int64)[readings["sensor"]]
        readings = readings[places >= 0].copy()
        readings["sensor"] = places[places >= 0]
    return readings
