"""What a session's folder holds at one moment, whether its writer lives, has died or has finished.

Only reads. The segments of the journal are opened before the catalog is read, and their rows
are then taken from them alone, so that a writer that goes on meanwhile brings no row twice and
takes none out of sight.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.recording.catalog import Held, RowGroup, piece_name, read_catalog
from edgetop.recording.compaction import MissingSeconds, journal_rows
from edgetop.recording.files import JOURNAL, Descriptor, has_journal, names_in, open_regular
from edgetop.recording.journal import Follower, SegmentReader, open_segment, segment_name, segments
from edgetop.recording.packing import Tally
from edgetop.recording.schema import SCHEMAS, as_described
from edgetop.recording.span import WHOLE, Span
from edgetop.recording.tables import metadata_of
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NS


class Problems:
    """What of a recording could not be read, each thing once."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.rows: dict[tuple[str, int], int] = {}  # by the table's name and the place of the first: how many
        self.uncounted: set[str] = set()  # tables of which more is missing than that

    def miss(self, path: Path, what: str, place: int, rows: int) -> None:
        """Some rows of a table."""
        self.tell(path, what)
        self.rows[path.stem, place] = rows

    def missing(self, table: str) -> int | None:
        """Rows of a table that could not be read, as far as it was; None: nobody knows how many."""
        if table in self.uncounted:
            return None
        return sum(rows for (name, _), rows in self.rows.items() if name == table)

    def tell(self, path: Path, what: str) -> None:
        text = f"{path}: {' '.join(what.split())}"  # Arrow's words may be several lines
        if text not in self.found:
            self.found.append(text)


def open_table(place: Path, source: Path, metadata: pq.FileMetaData | None) -> pq.ParquetFile:
    """Raises OSError, or what Arrow raises of a damaged one."""
    if source == place:
        Descriptor(open_regular(place))  # no link, no pipe
    return pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)


class Snapshot:
    def __init__(self, folder: Path, manifest: Manifest) -> None:
        """Raises FileNotFoundError where the writer finished meanwhile: there is another moment to look at."""
        self.folder = folder
        self.problems = Problems()
        self._journal = folder / JOURNAL
        self._manifest = manifest
        self._sensor_ids = [info.id for info in manifest.sensors]
        self.segments: dict[int, SegmentReader] = {}  # each up to what is whole in it now
        self._catalog = Held([], 0, 0)
        self._pieces: dict[tuple[str, int], Descriptor] = {}
        if has_journal(folder):
            self._open_segments()
            self._read_catalog()
        self._published = {name for name in SCHEMAS if os.path.lexists(folder / f"{name}.parquet")}
        self._is_unfinished = has_journal(folder)

    def _open_segments(self) -> None:
        """From the last to the first: a writer removes the first ones first, and so leaves no hole."""
        for number in reversed(segments(self._journal)):
            path = self._journal / segment_name(number)
            try:
                segment = open_segment(path)
            except FileNotFoundError:  # it has become table rows meanwhile
                continue
            except OSError as error:
                self.problems.tell(path, f"cannot be read: {error.strerror}")
                continue
            segment.skip()
            self.segments[number] = segment
        self.segments = dict(sorted(self.segments.items()))

    def _read_catalog(self) -> None:
        """The row groups that hold beside the opened segments, and the files that they are in."""
        try:
            present = {*names_in(self._journal), *map(segment_name, self.segments)}
            self._catalog = read_catalog(self._journal, present)
            for key in {(group.table, group.piece) for group in self._catalog.groups}:
                self._pieces[key] = Descriptor(open_regular(self._journal / piece_name(*key)))
        except FileNotFoundError:
            raise
        except OSError as error:
            self.problems.tell(self._journal, f"cannot be read: {error.strerror}")

    def damaged_bytes(self) -> int:
        """Of the catalog; the readers of segments count their own."""
        return self._catalog.damaged_bytes

    def is_catalog_spoilt(self) -> bool:
        return self._catalog.is_spoilt

    def torn_bytes(self) -> int:
        return sum(segment.tail_bytes() for segment in self.segments.values())

    def is_torn(self) -> bool:
        """Whether what was written last was not written to its end."""
        return bool(self.segments) and self.segments[max(self.segments)].is_torn()

    def again(self, number: int, before: Tally | None = None) -> SegmentReader:
        """A segment, from its beginning to where it ended at the moment of this snapshot.

        `before`: what the segments before it hold, where known.
        """
        segment = self.segments[number]
        return SegmentReader(segment.file, segment.offset, before)

    def is_spoilt(self, number: int) -> bool:
        """Whether there are bytes in a segment that could not be read."""
        segment = self.segments[number]
        return bool(segment.damaged_bytes or segment.tail_bytes())

    def catalogued_inferences(self) -> int | None:
        """In the tables that are not published; None where the first of them were dropped for want of room."""
        groups = [group for group in self._catalog.groups if group.table == "inferences"]
        is_whole = not groups or min(group.piece for group in groups) == 0
        return sum(group.rows for group in groups) if is_whole else None

    def missing_seconds(self) -> MissingSeconds:
        """For the segments, in their order."""
        last = next((int(rows["t_ns"][-1].as_py()) + NS for rows in self.last_rows("seconds")), None)
        begin_ns = 0 if last is None and min(self.segments, default=1) == 1 else last
        return MissingSeconds(self._manifest.load, begin_ns)

    def follow(self) -> Follower:
        """What the writer appends after this moment."""
        if not self.segments:
            return Follower(self._journal, None, 0)
        last = max(self.segments)
        current = SegmentReader(self.segments[last].file)
        current.skip_to(self.segments[last].offset)
        return Follower(self._journal, current, last)

    def rows(self, name: str, span: Span = WHOLE) -> Iterator[pa.Table]:
        """The rows of a table in pieces of bounded size, as far as they are sound.

        All that lie in `span`, and of the others those that are read with them.
        """
        for place, source, metadata in self.files(name):
            yield from self._row_groups(name, place, source, metadata, span)
        yield from self.journalled(name)

    def files(self, name: str) -> Iterator[tuple[Path, Path, pq.FileMetaData | None]]:
        """Of each file with row groups of a table its place, where it is to be read, and its index if it has none."""
        path = self.folder / f"{name}.parquet"
        if name in self._published:
            yield path, path, None
            return
        if not self._is_unfinished:
            self.problems.tell(path, "is missing")
            self.problems.uncounted.add(name)
        yield from self._unpublished(name)

    def journalled(self, name: str) -> Iterator[pa.Table]:
        """Rows of a table that are in no row group yet."""
        if name in self._published or not self.segments:
            return
        spoilt = name == "seconds" and any(map(self.is_spoilt, self.segments))
        missing = self.missing_seconds() if spoilt else None
        for number in self.segments:
            yield from journal_rows(self.again(number), self._sensor_ids, name, missing)

    def last_rows(self, name: str) -> Iterator[pa.Table]:
        """The row groups of an unpublished table from the last to the first, without the journal's."""
        for place, source, metadata in reversed(list(self._unpublished(name))):
            yield from self._row_groups(name, place, source, metadata, backwards=True)

    def _unpublished(self, name: str) -> Iterator[tuple[Path, Path, pq.FileMetaData]]:
        """Of each piece its place, where it is to be read, whatever has become of it meanwhile, and its index."""
        held = [group for group in self._catalog.groups if group.table == name]
        for (table, number), file in sorted(self._pieces.items()):
            if table != name:
                continue
            place = self._journal / piece_name(name, number)
            groups = [group for group in held if group.piece == number]
            if not _are_sound(name, groups):
                self.problems.tell(place, "is damaged: its index is not sound; what of it is sound is read")
                groups = [group for group in groups if _are_sound(name, [group])]
            yield place, Path(f"/proc/self/fd/{file.fd}"), metadata_of(name, groups)

    def _row_groups(
        self,
        name: str,
        place: Path,
        source: Path,
        metadata: pq.FileMetaData | None,
        span: Span = WHOLE,
        *,
        backwards: bool = False,
    ) -> Iterator[pa.Table]:
        with self.damage_told(place):
            file = open_table(place, source, metadata)
            with file:
                together = by_time(file, apart=name == "seconds")
                for numbers in reversed(together) if backwards else together:
                    groups = [file.metadata.row_group(number) for number in numbers]
                    with self.damage_told(place, numbers[0], sum(group.num_rows for group in groups)):
                        if any(_touches(span, group) for group in groups):
                            yield as_described(file.read_row_groups(numbers), SCHEMAS[name])

    @contextlib.contextmanager
    def damage_told(self, path: Path, number: int = 0, rows: int | None = None) -> Iterator[None]:
        """Whatever turns out to be wrong with a table, at its end or in its middle, is told, and the rest goes on.

        `rows`: how many are not read then, of row group `number`; None: nobody knows.
        """
        try:
            yield
        except (OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError, pa.ArrowException) as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else f"is damaged: {error}"
            if rows is None:
                self.problems.tell(path, what)
                self.problems.uncounted.add(path.stem)
            else:
                self.problems.miss(path, what, number, rows)


def _are_sound(name: str, groups: list[RowGroup]) -> bool:
    try:
        metadata_of(name, groups)
    except ValueError:
        return False
    return True


def times_of(group: pq.RowGroupMetaData) -> tuple[int, int] | None:
    """The first and the last time in a row group, as far as its index says it."""
    for place in range(group.num_columns):
        column = group.column(place)
        known = column.statistics if column.path_in_schema == "t_ns" else None
        if known is not None and known.has_min_max and type(known.min) is type(known.max) is int:
            return known.min, known.max
    return None


def by_time(file: pq.ParquetFile, *, apart: bool) -> list[tuple[int, ...]]:
    """The numbers of its row groups in the order of their times: another program may have written them in another.

    `apart`: no row of one may come before a row of an earlier one, so those that are mixed are read together.
    """
    times = [times_of(file.metadata.row_group(number)) for number in range(file.num_row_groups)]
    known = [span for span in times if span is not None]
    if len(known) < len(times):
        return [(number,) for number in range(file.num_row_groups)]
    found: list[tuple[int, ...]] = []
    last_ns = 0
    for number in sorted(range(len(known)), key=lambda number: known[number][0]):
        first_ns, end_ns = known[number]
        if apart and found and first_ns <= last_ns:
            found[-1] = (*found[-1], number)
        else:
            found.append((number,))
        last_ns = max(last_ns, end_ns)
    return found


def _touches(span: Span, group: pq.RowGroupMetaData) -> bool:
    """Whether a row group may hold rows of `span`."""
    times = times_of(group)
    return times is None or span.touches(*times)
