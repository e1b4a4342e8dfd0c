"""The catalog: a file that lists the row groups (blocks of rows) of tables that are still being written.

Each row group was made from one file of the journal. The entry of a row group becomes valid when that journal file is
removed, so the removal is the atomic step that moves rows from the journal to the table.
"""

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import field
from pathlib import Path

from edgetop.files import open_regular
from edgetop.frozen import frozen
from edgetop.recording.journal_frames import OPENING, FrameReader, seal
from edgetop.recording.rows import ALL_TABLES
from edgetop.recording.session_folder import Descriptor, names_in, write_all

CATALOG = "catalog"
_PIECE = re.compile(r"([a-z]+)-(\d{4})\.partial")


def piece_name(table: str, number: int) -> str:
    return f"{table}-{number:04}.partial"


def pieces(folder: Path) -> list[tuple[str, int]]:
    """Return the unfinished table files in `folder`, sorted, as table name and file number (from 0). Raises OSError."""
    matches = [match for name in names_in(folder) if (match := _PIECE.fullmatch(name))]
    return sorted((match[1], int(match[2])) for match in matches if match[1] in ALL_TABLES)


@frozen
class RowGroup:
    """One row group (block of rows) of a table: where its data lies, and its entry in a Parquet footer."""

    table: str
    piece: int
    offset: int  # Offset of its data in the piece, in bytes.
    size: int  # Size of its data in bytes.
    rows: int
    source: str  # Name of the journal file that its rows came from.
    entry: bytes  # Its index entry in a Parquet footer.

    @property
    def end(self) -> int:
        return self.offset + self.size


class Catalog:
    """Writes the catalog. Entries are only appended, each as a frame with a checksum."""

    def __init__(self, folder: Path, size: int = 0) -> None:
        """Open the catalog in `folder`, or create it. Raises OSError.

        `size` is the length in bytes of the valid part of an existing catalog. The rest is removed.
        """
        self._file = Descriptor(open_regular(folder / CATALOG, os.O_RDWR | os.O_CREAT))
        self.cut(size)

    def cut(self, size: int) -> None:
        """Remove all bytes of the catalog after the first `size` bytes."""
        self.size = size
        os.ftruncate(self._file.fd, size)

    def append(self, group: RowGroup) -> None:
        """Append an entry for a row group. After an OSError, the catalog is unchanged."""
        head = json.dumps([group.table, group.piece, group.offset, group.size, group.rows, group.source])
        frame = seal(OPENING, 0, head.encode() + b"\n" + group.entry)
        write_all(self._file.fd, frame, self.size)
        self.size += len(frame)

    def sync(self) -> None:
        os.fsync(self._file.fd)


@frozen
class CatalogContent:
    """The valid entries of a catalog: one for each row group (block of rows) of the unfinished tables."""

    groups: list[RowGroup]  # in the order of their rows
    size: int  # length in bytes up to the end of the last valid entry
    damaged_bytes: int
    is_spoilt: bool = False  # whether there may have been entries that cannot be read
    # For each table, the lowest piece number above those of all entries, removed pieces included.
    first_free: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ALL_TABLES, 0))

    def of(self, table: str, piece: int) -> list[RowGroup]:
        return [group for group in self.groups if (group.table, group.piece) == (table, piece)]


def read_catalog(folder: Path, present: Collection[str] | None = None) -> CatalogContent:
    """Return the valid entries of the catalog in `folder`. Raises OSError.

    `present` are the names of the files that were in `folder` at some moment. None means the files that are there now.
    """
    present = names_in(folder) if present is None else present
    if CATALOG not in present:
        return CatalogContent([], 0, 0)
    file = Descriptor(open_regular(folder / CATALOG))
    reader = FrameReader(file.fd)
    groups, size, is_read, first_free = [], 0, True, dict.fromkeys(ALL_TABLES, 0)
    for group in _groups(reader):
        if group.source in present:  # neither this entry nor a later one is valid yet
            is_read = False
            break
        size, first_free[group.table] = reader.offset, max(first_free[group.table], group.piece + 1)
        if piece_name(group.table, group.piece) in present:
            groups.append(group)
    groups.sort(key=lambda group: (group.table, group.piece, group.offset))
    is_spoilt = bool(reader.damaged_bytes or (is_read and reader.tail_bytes()))
    return CatalogContent(groups, size, reader.damaged_bytes, is_spoilt, first_free)


def _groups(reader: FrameReader) -> Iterator[RowGroup]:
    for frame in reader.read():
        head, _, entry = frame.payload.partition(b"\n")
        try:
            table, piece, offset, size, rows, source = json.loads(head)
            numbers = (piece, offset, size, rows)
            sound = table in ALL_TABLES and all(type(n) is int and 0 <= n < 2**62 for n in numbers)
            if sound and isinstance(source, str):
                yield RowGroup(table, *numbers, source, entry)
        except (ValueError, TypeError):
            continue
