"""The five Parquet tables, written row group by row group and published by a rename when they are whole.

Until then each is a piece in `journal/` (several where old rows are to be dropped) whose index
is in the catalog. Nothing here is held in memory but the row group at hand.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.recording import columns, footer
from edgetop.recording.catalog import CATALOG, Catalog, RowGroup, piece_name, pieces, read_catalog
from edgetop.recording.columns import Infos
from edgetop.recording.files import (
    JOURNAL,
    SOCKET,
    Descriptor,
    names_in,
    open_regular,
    set_aside,
    sync_folder,
    write_all,
)
from edgetop.recording.rows import give_memory_back
from edgetop.recording.schema import EARLIER, SCHEMAS, as_described, completed

ROW_GROUP_ROWS = 65_536
_COPY_BYTES = 1024 * 1024

# Integers that grow or vary little are small as differences; names repeat. Latencies are not: one spike widens a
# block of their differences, which cost 2.6 bytes each on a busy machine where zstd alone takes 1.4 (quiet: the same).
_DELTA = "DELTA_BINARY_PACKED"
_ENCODABLE = (pa.int64(), pa.int32())
_SPIKY = "latency_ns"


@dataclass(slots=True)
class _Piece:
    number: int
    file: Descriptor
    size: int  # of what holds: the rest is what a failed write left


class Tables:
    """The writer's side."""

    def __init__(self, folder: Path, piece_bytes: int | None = None) -> None:
        """`folder`: the journal. `piece_bytes`: from where on inferences go into another piece; None: never.

        What an earlier writer had completed is gone on with. Raises OSError, and ValueError where that is not sound.
        """
        self._folder = folder
        self._piece_bytes = piece_bytes
        present = names_in(folder)
        held = read_catalog(folder, present)
        self._pieces: dict[str, list[_Piece]] = {name: [] for name in SCHEMAS}
        # Entries of a piece that is gone must not come to name another's rows.
        self._first_free = held.first_free
        for name, numbers in pieces(folder).items():
            for number in numbers:
                groups = [group for group in held.groups if (group.table, group.piece) == (name, number)]
                metadata_of(name, groups)
                end = max((group.end for group in groups), default=0)
                piece = self._open_piece(name, number, end)
                if held.is_spoilt:  # row groups that it does not name any more may lie behind: they are kept
                    piece.size = max(end, os.fstat(piece.file.fd).st_size)
                self._pieces[name].append(piece)
        self._catalog = Catalog(folder, held.size)
        self._committed = self._marks()
        for name in EARLIER:
            self._renew(name)

    def _renew(self, name: str) -> None:
        """Write anew, with all columns of the table, what a writer of an earlier version left."""
        for old in list(self._pieces[name]):
            groups, source = self._groups_of(name, old), piece_name(name, old.number)
            if not groups or _schema_of(name, groups) == SCHEMAS[name]:
                continue
            self._pieces[name].append(self._open_piece(name, self._pieces[name][-1].number + 1, 0))
            file = pq.ParquetFile(f"/proc/self/fd/{old.file.fd}", metadata=metadata_of(name, groups))
            for number in range(len(groups)):
                rows = as_described(file.read_row_group(number), SCHEMAS[name])
                self.append(name, completed(rows, SCHEMAS[name]), source)
            self.commit()
            self._pieces[name].remove(old)
            (self._folder / source).unlink()
            self._committed = self._marks()

    def _open_piece(self, name: str, number: int, size: int) -> _Piece:
        return _Piece(
            number, Descriptor(open_regular(self._folder / piece_name(name, number), os.O_RDWR | os.O_CREAT)), size
        )

    @property
    def size_bytes(self) -> int:
        return self._catalog.size + sum(piece.size for held in self._pieces.values() for piece in held)

    def append(self, name: str, rows: pa.Table, source: str) -> None:
        """One row group. It holds when it was committed and `source` is gone. Raises OSError."""
        piece = self._piece_for(name)
        if not piece.size:
            write_all(piece.file.fd, footer.MAGIC, 0)
            piece.size = len(footer.MAGIC)
        body, index = footer.split(_encoded(SCHEMAS[name], rows))
        write_all(piece.file.fd, body, piece.size)
        offset, piece.size = piece.size, piece.size + len(body)
        for entry in footer.row_groups_of(index, offset - len(footer.MAGIC)):
            self._catalog.append(RowGroup(name, piece.number, offset, len(body), len(rows), source, entry))
        give_memory_back()

    def _piece_for(self, name: str) -> _Piece:
        held = self._pieces[name]
        limit = self._piece_bytes if name == "inferences" else None
        if not held or (limit is not None and held[-1].size >= limit):
            held.append(self._open_piece(name, held[-1].number + 1 if held else self._first_free.get(name, 0), 0))
        return held[-1]

    def commit(self) -> None:
        """What was appended is on the disk. Raises OSError."""
        before = self._committed
        for name, held in self._pieces.items():
            for piece in held:
                if before.get((name, piece.number)) != piece.size:
                    os.fdatasync(piece.file.fd)
        self._catalog.sync()
        sync_folder(self._folder)
        self._committed = self._marks()

    def rollback(self) -> None:
        """Forget what was appended since the last commit, and give its room on the disk back."""
        for name, held in self._pieces.items():
            for piece in held:
                piece.size = self._committed.get((name, piece.number), 0)
                with contextlib.suppress(OSError):  # what lies behind its end is written over
                    os.ftruncate(piece.file.fd, piece.size)
        self._catalog.cut(self._committed["catalog", 0])

    def _marks(self) -> dict[tuple[str, int], int]:
        sizes = {(name, piece.number): piece.size for name, held in self._pieces.items() for piece in held}
        return {**sizes, ("catalog", 0): self._catalog.size}

    def drop_oldest_inferences(self) -> int:
        """Make room; the number of bytes, 0 where none can be spared."""
        held = self._pieces["inferences"]
        if len(held) < 2:
            return 0
        oldest = held.pop(0)
        (self._folder / piece_name("inferences", oldest.number)).unlink()
        return oldest.size

    def publish(self, folder: Path) -> None:
        """Complete each table and let it appear in `folder` under its name.

        Raises OSError, and ValueError where the catalog is not sound.
        """
        sync_folder(self._folder)
        for name in SCHEMAS:
            target = folder / f"{name}.parquet"
            if os.path.lexists(target):  # an earlier writer died in the middle of this
                continue
            whole = self._joined(name)
            held = self._groups_of(name, whole)
            rows = sum(group.rows for group in held)
            end = footer.footer_of(_template(SCHEMAS[name]), rows, [group.entry for group in held])
            os.ftruncate(whole.file.fd, whole.size)
            write_all(whole.file.fd, end, whole.size)
            os.fsync(whole.file.fd)
            _check(whole.file, rows)
            (self._folder / piece_name(name, whole.number)).replace(target)
        sync_folder(folder)

    def _groups_of(self, name: str, piece: _Piece) -> list[RowGroup]:
        groups = read_catalog(self._folder, names_in(self._folder)).groups
        return [group for group in groups if (group.table, group.piece) == (name, piece.number)]

    def _joined(self, name: str) -> _Piece:
        held = self._pieces[name]
        first = held[0] if held else self._open_piece(name, self._first_free.get(name, 0), 0)
        if not first.size:
            write_all(first.file.fd, footer.MAGIC, 0)
            first.size = len(footer.MAGIC)
        for other in held[1:]:
            self._move(name, other, first)
        self._pieces[name] = [first]
        return first

    def _move(self, name: str, other: _Piece, first: _Piece) -> None:
        groups = self._groups_of(name, other)
        start = len(footer.MAGIC)
        shift = first.size - start
        for offset in range(start, other.size, _COPY_BYTES):
            data = os.pread(other.file.fd, min(_COPY_BYTES, other.size - offset), offset)
            write_all(first.file.fd, data, offset + shift)
        source = piece_name(name, other.number)
        for group in groups:
            entry = footer.shifted(group.entry, shift)
            moved = RowGroup(name, first.number, group.offset + shift, group.size, group.rows, source, entry)
            self._catalog.append(moved)
        first.size += max(0, other.size - start)
        os.fdatasync(first.file.fd)
        self._catalog.sync()
        (self._folder / source).unlink()


def settle(folder: Path, tables: Tables, sources: Mapping[str, bool]) -> None:
    """All rows are committed and the manifest is the last one: publish the tables, and remove the journal.

    `sources`: of each file of the journal that became table rows whether not all of it could be read.
    """
    for name, is_spoilt in sources.items():
        if name == CATALOG:
            continue
        if is_spoilt:
            set_aside(folder, name)
        else:
            (folder / JOURNAL / name).unlink(missing_ok=True)
    tables.publish(folder)
    if sources.get(CATALOG):
        set_aside(folder, CATALOG)
    (folder / SOCKET).unlink(missing_ok=True)
    shutil.rmtree(folder / JOURNAL)
    sync_folder(folder)


def _encoded(schema: pa.Schema, rows: pa.Table) -> bytes:
    """A Parquet file of one row group, or of none where there are no rows."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=[f.name for f in schema if pa.types.is_dictionary(f.type)] or False,
        column_encoding={f.name: _DELTA for f in schema if f.type in _ENCODABLE and f.name != _SPIKY},
        write_page_checksum=True,  # else nine of ten flipped bits (an SD card's) pass for latencies
    ) as writer:
        if len(rows):
            writer.write_table(rows, row_group_size=len(rows))
    return bytes(sink.getvalue().to_pybytes())


def _check(file: Descriptor, rows: int) -> None:
    """Raises ValueError where that is not a Parquet file of so many rows: what it was made of must stay then."""
    try:
        metadata = pq.read_metadata(f"/proc/self/fd/{file.fd}")
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
    if metadata.num_rows != rows:
        raise ValueError("its row groups have another number of rows")


def _template(schema: pa.Schema) -> bytes:
    return footer.split(_encoded(schema, schema.empty_table()))[1]


def _schema_of(name: str, groups: list[RowGroup]) -> pa.Schema:
    """The one with which these row groups were written: today's, or else an earlier one of the table."""
    try:
        _metadata_as(SCHEMAS[name], groups)
    except ValueError:
        return EARLIER.get(name, SCHEMAS[name])
    return SCHEMAS[name]


def metadata_of(name: str, groups: list[RowGroup]) -> pq.FileMetaData:
    """The index of a piece that has no footer yet. Raises ValueError where an entry is not sound."""
    return _metadata_as(_schema_of(name, groups), groups)


def _metadata_as(schema: pa.Schema, groups: list[RowGroup]) -> pq.FileMetaData:
    end = footer.footer_of(_template(schema), sum(group.rows for group in groups), [group.entry for group in groups])
    try:
        metadata = pq.read_metadata(pa.BufferReader(footer.MAGIC + end))
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from None
    for number, group in enumerate(groups):
        found = metadata.row_group(number) if number < metadata.num_row_groups else None
        if found is None or (found.num_rows, found.num_columns) != (group.rows, metadata.num_columns):
            raise ValueError(f"row group {number} is none of this table")
    return metadata


class TableFile:
    """A file with row groups of a table. Everything raises OSError, or ValueError where the file is damaged."""

    def __init__(self, name: str, place: Path, source: Path, groups: list[RowGroup] | None = None) -> None:
        """`place`: its name for people; `source`: where it is read. `groups`: its index, where it has no footer."""
        self.name = name
        self.place = place
        if source == place:
            Descriptor(open_regular(place))  # no link, no pipe
        with _arrow_errors():
            metadata = None if groups is None else metadata_of(name, groups)
            self._file = pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
            self._groups = [self._file.metadata.row_group(number) for number in range(self._file.num_row_groups)]
            self._times = list(map(_times_in, self._groups))

    @property
    def unpacked_bytes(self) -> int:
        return sum(group.total_byte_size for group in self._groups)

    def rows_in(self, numbers: Sequence[int]) -> int:
        """How many rows these row groups have."""
        return sum(self._groups[number].num_rows for number in numbers)

    def times_in(self, number: int) -> tuple[int, int] | None:
        """The first and the last time in a row group, as far as its index says it."""
        return self._times[number]

    def read_times(self, number: int) -> npt.NDArray[np.int64]:
        """Of each row of a row group."""
        with _arrow_errors():
            t_ns = self._file.read_row_group(number, columns=["t_ns"])["t_ns"].cast(pa.int64())
            if t_ns.null_count:
                raise ValueError("t_ns lacks values")
            return np.asarray(t_ns)

    def by_time(self) -> list[tuple[int, ...]]:
        """The numbers of its row groups in the order of their times: another program may have written another order.

        No second of one may come before a second of an earlier one, so those that are mixed are read together.
        """
        known = [times for times in self._times if times is not None]
        if len(known) < len(self._groups):
            return [(number,) for number in range(len(self._groups))]
        found: list[tuple[int, ...]] = []
        last_ns = 0
        for number in sorted(range(len(known)), key=lambda number: known[number][0]):
            first_ns, end_ns = known[number]
            if self.name == "seconds" and found and first_ns <= last_ns:
                found[-1] = (*found[-1], number)
            else:
                found.append((number,))
            last_ns = max(last_ns, end_ns)
        return found

    def read(self, numbers: Sequence[int], sensor_ids: Sequence[str], infos: dict[Infos, Infos]) -> tuple[Any, int]:
        """The rows of these row groups, and how many of them cannot be true and are left out (of operators alone).

        `sensor_ids`: those of the manifest; rows of others are left out. `infos`: operators of bursts, held once.
        """
        with _arrow_errors():
            table = as_described(self._file.read_row_groups(list(numbers)), SCHEMAS[self.name])
            if self.name == "operators":
                sound = columns.sound_rows(completed(table, SCHEMAS[self.name]))
                return columns.bursts_from_arrow([sound], infos), len(table) - len(sound)
            return self._from_arrow(sensor_ids)(table), 0

    def _from_arrow(self, sensor_ids: Sequence[str]) -> Callable[[pa.Table], Any]:
        readers: dict[str, Callable[[pa.Table], Any]] = {
            "inferences": columns.inferences_from_arrow,
            "readings": lambda table: columns.readings_from_arrow(table, sensor_ids),
            "events": columns.events_from_arrow,
            "seconds": columns.seconds_from_arrow,
        }
        return readers[self.name]


def _times_in(group: pq.RowGroupMetaData) -> tuple[int, int] | None:
    for place in range(group.num_columns):
        column = group.column(place)
        known = column.statistics if column.path_in_schema == "t_ns" else None
        if known is not None and known.has_min_max and type(known.min) is type(known.max) is int:
            return known.min, known.max
    return None


@contextlib.contextmanager
def _arrow_errors() -> Iterator[None]:
    """Some of Arrow's are no errors of Python's."""
    try:
        yield
    except OSError:
        raise
    except (pa.ArrowException, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(str(error)) from None
