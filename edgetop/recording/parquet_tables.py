"""Writing of Parquet tables, row group by row group. Complete tables are published by a rename.

Until then, each table is a file in `journal/`, called a piece, and the catalog has the index of its row groups. The
inferences have several pieces if old ones are to be dropped. Only one row group at a time is in memory.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.files import open_regular, sync_folder
from edgetop.recording import columns, footer
from edgetop.recording.catalog import CATALOG, Catalog, RowGroup, piece_name, pieces, read_catalog
from edgetop.recording.columns import SCHEMAS, Infos, as_described, completed
from edgetop.recording.rows import release_memory
from edgetop.recording.session_folder import SOCKET, Descriptor, set_aside, write_all, write_manifest
from edgetop.recording.stream_columns import SECONDS_OF_STREAMS, with_streams_of
from edgetop.recording.token_columns import (
    ALL_SCHEMAS,
    SECONDS_OF_ALL,
    SECONDS_OF_TOKENS,
    requests_from_arrow,
    with_tokens_of,
)
from edgetop.session.manifest import Manifest

ROW_GROUP_ROWS = 65_536
SecondsKind = Literal["plain", "streams", "tokens", "all"]  # which columns the table of seconds has
_SECONDS: dict[SecondsKind, pa.Schema] = {
    "plain": SCHEMAS["seconds"],
    "streams": SECONDS_OF_STREAMS,
    "tokens": SECONDS_OF_TOKENS,
    "all": SECONDS_OF_ALL,
}
_COPY_BYTES = 1024 * 1024

# Integers that grow or vary little are small as differences, but latencies are not: one spike widens a whole block of
# differences. On a busy machine a latency took 2.6 bytes as a difference and 1.4 with zstd alone; on a quiet one both
# took the same.
_DELTA = "DELTA_BINARY_PACKED"
_ENCODABLE = (pa.int64(), pa.int32())
_SPIKY = "latency_ns"


def seconds_kind(manifest: Manifest) -> SecondsKind:
    """Return which extra columns this session's table of seconds has.

    They are "streams", "tokens", "all" for both, or "plain" for none.
    """
    if manifest.split_by is not None:
        return "streams" if manifest.generation is None else "all"
    return "plain" if manifest.generation is None else "tokens"


@dataclass(slots=True)
class _Piece:
    number: int
    file: Descriptor
    size: int  # length in bytes of the valid part; a failed write may have left more


class Tables:
    """Writes all tables of one session."""

    def __init__(self, folder: Path, piece_bytes: int | None = None, *, kind: SecondsKind = "plain") -> None:
        """Begin the tables in the journal's folder, or continue the tables of an earlier writer.

        Once a file of inferences has `piece_bytes` bytes, further inferences go into a new file; None means one file.
        `kind` tells which extra columns a new table of seconds has. Raises OSError, or ValueError if an earlier
        writer's tables are damaged.
        """
        self._schemas = {**ALL_SCHEMAS, "seconds": _SECONDS[kind]}
        self._folder = folder
        self._piece_bytes = piece_bytes
        catalog = read_catalog(folder)
        self._pieces: dict[str, list[_Piece]] = {name: [] for name in ALL_SCHEMAS}
        # A new piece must not get the number of a removed piece, since entries may still name that.
        self._first_free = catalog.first_free
        for name, number in pieces(folder):
            groups = catalog.of(name, number)
            metadata_of(name, groups)
            if groups:
                self._schemas[name] = _schema_of(name, groups)
            end = max((group.end for group in groups), default=0)
            piece = self._open_piece(name, number, end)
            if catalog.is_spoilt:  # keep row groups that a damaged entry may have named
                piece.size = max(end, os.fstat(piece.file.fd).st_size)
            self._pieces[name].append(piece)
        self._catalog = Catalog(folder, catalog.size)
        self._committed = self._marks()

    def _add_piece(self, name: str) -> _Piece:
        pieces = self._pieces[name]
        pieces.append(self._open_piece(name, pieces[-1].number + 1 if pieces else self._first_free.get(name, 0), 0))
        return pieces[-1]

    def _open_piece(self, name: str, number: int, size: int) -> _Piece:
        path = self._folder / piece_name(name, number)
        return _Piece(number, Descriptor(open_regular(path, os.O_RDWR | os.O_CREAT)), size)

    @property
    def kind(self) -> SecondsKind:
        return next(kind for kind, schema in _SECONDS.items() if schema is self._schemas["seconds"])

    @property
    def size_bytes(self) -> int:
        return sum(self._marks().values())

    def append(self, name: str, rows: pa.Table, source: str) -> None:
        """Append `rows` to the table `name` as one row group (block of rows). Raises OSError.

        Readers ignore the row group until two things have happened: the caller has called `commit`, and then removed
        the journal file `source`, from which the rows were made.
        """
        pieces = self._pieces[name]
        limit = self._piece_bytes if name == "inferences" else None
        if not pieces or (limit is not None and pieces[-1].size >= limit):
            self._add_piece(name)
        piece = _with_magic(pieces[-1])
        body, index = footer.split(_encoded(self._schemas[name], rows))
        write_all(piece.file.fd, body, piece.size)
        offset, piece.size = piece.size, piece.size + len(body)
        for entry in footer.row_groups_of(index, offset - len(footer.MAGIC)):
            self._catalog.append(RowGroup(name, piece.number, offset, len(body), len(rows), source, entry))
        release_memory()

    def commit(self) -> None:
        """Sync all appended rows to the disk. Raises OSError."""
        for name, piece in self._all_pieces():
            if self._committed.get((name, piece.number)) != piece.size:
                os.fdatasync(piece.file.fd)
        self._catalog.sync()
        sync_folder(self._folder)
        self._committed = self._marks()

    def rollback(self) -> None:
        """Discard all rows that were appended since the last commit, and free their space on the disk."""
        for name, piece in self._all_pieces():
            piece.size = self._committed.get((name, piece.number), 0)
            with contextlib.suppress(OSError):  # the next append overwrites what remains
                os.ftruncate(piece.file.fd, piece.size)
        self._catalog.cut(self._committed["catalog", 0])

    def _all_pieces(self) -> Iterator[tuple[str, _Piece]]:
        return ((name, piece) for name, pieces in self._pieces.items() for piece in pieces)

    def _marks(self) -> dict[tuple[str, int], int]:
        sizes = {(name, piece.number): piece.size for name, piece in self._all_pieces()}
        return {**sizes, ("catalog", 0): self._catalog.size}

    def drop_oldest_inferences(self) -> int:
        """Remove the oldest file of inferences. Return the number of bytes freed, or 0 if the only file was kept."""
        pieces = self._pieces["inferences"]
        if len(pieces) < 2:
            return 0
        oldest = pieces.pop(0)
        (self._folder / piece_name("inferences", oldest.number)).unlink()
        return oldest.size

    def publish(self, folder: Path, manifest: Manifest, sources: Mapping[str, bool]) -> None:
        """Commit the rows, write the final manifest, move the complete tables to `folder`, and remove the journal.

        `sources` tells which journal files are damaged, by name; these are kept beside the tables. Raises OSError, or
        ValueError if the catalog is damaged.
        """
        self.commit()
        write_manifest(folder, manifest)
        for name, is_spoilt in sources.items():
            if is_spoilt and name != CATALOG:
                set_aside(folder, name)
            elif name != CATALOG:
                (self._folder / name).unlink(missing_ok=True)
        sync_folder(self._folder)
        for name in (*SCHEMAS, *(["requests"] if self._pieces["requests"] else [])):
            target = folder / f"{name}.parquet"
            if not os.path.lexists(target):  # it is there if an earlier writer died while it published
                self._completed(name).replace(target)
        sync_folder(folder)
        if sources.get(CATALOG):
            set_aside(folder, CATALOG)
        (folder / SOCKET).unlink(missing_ok=True)
        shutil.rmtree(self._folder)
        sync_folder(folder)

    def _completed(self, name: str) -> Path:
        """Join the files of the table `name`, and add the footer. Return the path of the resulting file.

        Raises ValueError if the result is not a valid table.
        """
        whole = self._joined(name)
        groups = self._groups_of(name, whole)
        rows = sum(group.rows for group in groups)
        end = footer.footer_of(_template(self._schemas[name]), rows, [group.entry for group in groups])
        os.ftruncate(whole.file.fd, whole.size)
        write_all(whole.file.fd, end, whole.size)
        os.fsync(whole.file.fd)
        try:
            found = pq.read_metadata(f"/proc/self/fd/{whole.file.fd}").num_rows
        except pa.ArrowException as error:
            raise ValueError(str(error)) from None
        if found != rows:  # the caller then keeps the files that the rows came from
            raise ValueError("its row groups have another number of rows")
        return self._folder / piece_name(name, whole.number)

    def _groups_of(self, name: str, piece: _Piece) -> list[RowGroup]:
        return read_catalog(self._folder).of(name, piece.number)

    def _joined(self, name: str) -> _Piece:
        """Move the rows of all files of the table `name` into the first file, and return that file."""
        first = _with_magic(self._pieces[name][0] if self._pieces[name] else self._add_piece(name))
        for other in self._pieces[name][1:]:
            groups = self._groups_of(name, other)
            start = len(footer.MAGIC)
            shift = first.size - start
            for offset in range(start, other.size, _COPY_BYTES):
                data = os.pread(other.file.fd, min(_COPY_BYTES, other.size - offset), offset)
                write_all(first.file.fd, data, offset + shift)
            source = piece_name(name, other.number)
            for group in groups:
                entry = footer.shifted(group.entry, shift)
                moved = replace(group, piece=first.number, offset=group.offset + shift, source=source, entry=entry)
                self._catalog.append(moved)
            first.size += max(0, other.size - start)
            os.fdatasync(first.file.fd)
            self._catalog.sync()
            (self._folder / source).unlink()
        self._pieces[name] = [first]
        return first


def _with_magic(piece: _Piece) -> _Piece:
    if not piece.size:
        write_all(piece.file.fd, footer.MAGIC, 0)
        piece.size = len(footer.MAGIC)
    return piece


def _encoded(schema: pa.Schema, rows: pa.Table) -> bytes:
    """Return the bytes of a Parquet file with the rows as one row group, or with no row group if there are no rows."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        use_dictionary=[f.name for f in schema if pa.types.is_dictionary(f.type)] or False,
        column_encoding={f.name: _DELTA for f in schema if f.type in _ENCODABLE and f.name != _SPIKY},
        write_page_checksum=True,  # without it, nine of ten bits flipped by an SD card change latencies unnoticed
    ) as writer:
        if len(rows):
            writer.write_table(rows, row_group_size=len(rows))
    return bytes(sink.getvalue().to_pybytes())


def _template(schema: pa.Schema) -> bytes:
    return footer.split(_encoded(schema, schema.empty_table()))[1]


def _schema_of(name: str, groups: list[RowGroup]) -> pa.Schema:
    """Return the schema of a file of the table `name`, from the catalog entries of its row groups.

    Raises ValueError if an entry is damaged.
    """
    if name != "seconds" or not groups:
        return ALL_SCHEMAS[name]
    columns = footer.columns_in(groups[0].entry)
    return next((schema for schema in _SECONDS.values() if len(schema) == columns), SCHEMAS[name])


def metadata_of(name: str, groups: list[RowGroup]) -> pq.FileMetaData:
    """Return the Parquet metadata of a file of the table `name` that has no footer yet.

    `groups` are the catalog entries of the file's row groups. Raises ValueError if an entry is damaged.
    """
    schema = _schema_of(name, groups)
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
    """A file with row groups of a table, opened for reading.

    Methods raise OSError, or ValueError if the file is damaged.
    """

    def __init__(self, name: str, place: Path, source: Path, groups: list[RowGroup] | None = None) -> None:
        """Open a file of the table `name`.

        `place` is the path for messages, and `source` is the path to read from. `groups` are the catalog entries of the
        file's row groups; None if the file has a footer.
        """
        self.name = name
        self.place = place
        file = Descriptor(open_regular(place)) if source == place else None  # refuses links and pipes
        # Arrow only takes paths of UTF-8, which the path of a folder need not be.
        readable = f"/proc/self/fd/{file.fd}" if file else source
        with _arrow_errors():
            metadata = None if groups is None else metadata_of(name, groups)
            self._file = pq.ParquetFile(readable, metadata=metadata, page_checksum_verification=True)
            self._groups = [self._file.metadata.row_group(number) for number in range(self._file.num_row_groups)]
            self._times = list(map(_times_in, self._groups))

    def close(self) -> None:
        """Close the file. No row can be read from then on."""
        self._file.close()

    @property
    def has_streams(self) -> bool:
        """Whether the file has columns with separate statistics of each stream (model)."""
        return SECONDS_OF_STREAMS.names[-1] in self._file.schema_arrow.names

    @property
    def unpacked_bytes(self) -> int:
        return sum(group.total_byte_size for group in self._groups)

    def rows_in(self, numbers: Sequence[int]) -> int:
        return sum(self._groups[number].num_rows for number in numbers)

    def times_in(self, number: int) -> tuple[int, int] | None:
        """Return the first and the last session time in ns of row group `number`, or None if the file does not say."""
        return self._times[number]

    def read_times(self, number: int) -> npt.NDArray[np.int64]:
        """Return the session time in ns of each row of row group `number`."""
        with _arrow_errors():
            t_ns = self._file.read_row_group(number, columns=["t_ns"])["t_ns"].cast(pa.int64())
            if t_ns.null_count:
                raise ValueError("t_ns lacks values")
            return np.asarray(t_ns)

    def by_time(self) -> list[tuple[int, ...]]:
        """Return the numbers of the row groups in order of time, each in a tuple.

        Row groups of `seconds` that overlap in time share a tuple, and must be read together.
        """
        # Another program may have written the row groups in another order.
        times = [span for span in self._times if span is not None]
        if len(times) < len(self._groups):
            return [(number,) for number in range(len(self._groups))]
        ordered: list[tuple[int, ...]] = []
        last_ns = 0
        for number in sorted(range(len(times)), key=lambda number: times[number][0]):
            first_ns, end_ns = times[number]
            if self.name == "seconds" and ordered and first_ns <= last_ns:
                ordered[-1] = (*ordered[-1], number)
            else:
                ordered.append((number,))
            last_ns = max(last_ns, end_ns)
        return ordered

    def read(self, numbers: Sequence[int], sensor_ids: Sequence[str], infos: dict[Infos, Infos]) -> tuple[Any, int]:
        """Return the rows of the row groups `numbers`, and how many implausible rows of `operators` were left out.

        Readings of sensors that are not in `sensor_ids` are left out too. `infos` maps each known list of operators to
        the object that profiling rounds share, and gets new lists.
        """
        with _arrow_errors():
            schema = SECONDS_OF_ALL if self.name == "seconds" else ALL_SCHEMAS[self.name]
            table = as_described(self._file.read_row_groups(list(numbers)), schema)
            if self.name == "operators":
                sound = columns.sound_rows(completed(table, SCHEMAS[self.name]))
                return columns.bursts_from_arrow([sound], infos), len(table) - len(sound)
            if self.name == "requests":
                return requests_from_arrow(table), 0
            rows = columns.from_arrow(self.name, table, sensor_ids)
            return (with_tokens_of(table, with_streams_of(table, rows)) if self.name == "seconds" else rows), 0


def _times_in(group: pq.RowGroupMetaData) -> tuple[int, int] | None:
    for place in range(group.num_columns):
        column = group.column(place)
        range_of = column.statistics if column.path_in_schema == "t_ns" else None
        if range_of is not None and range_of.has_min_max and type(range_of.min) is type(range_of.max) is int:
            return range_of.min, range_of.max
    return None


@contextlib.contextmanager
def _arrow_errors() -> Iterator[None]:
    """Context manager that turns Arrow's errors into ValueError. An OSError stays an OSError."""
    try:
        yield
    except OSError:
        raise
    except (pa.ArrowException, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(str(error)) from None
