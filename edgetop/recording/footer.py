"""Making of Parquet footers for row groups that were written one at a time.

A Parquet file has its index, the footer, at its end. So a file that still grows cannot be read, and a writer that dies
leaves nothing readable. Here Arrow encodes each row group as a file of its own, and the catalog keeps the footer's
entry for each (the structure RowGroup). A footer can be made from these entries at any time; only the offsets in an
entry change. Thrift's compact protocol and the field numbers are those of parquet-format:
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

import struct
from collections.abc import Sequence
from typing import Any

from edgetop.recording.journal_frames import varint

MAGIC = b"PAR1"
_TAIL = struct.Struct("<I4s")

# Field numbers.
_FILE_NUM_ROWS, _FILE_ROW_GROUPS = 3, 4  # of FileMetaData
_GROUP_COLUMNS, _GROUP_FILE_OFFSET = 1, 5  # of RowGroup
_CHUNK_FILE_OFFSET, _CHUNK_META_DATA = 2, 3  # of ColumnChunk
_CHUNK_OFFSETS = (9, 10, 11)  # of ColumnMetaData: of its data, index and dictionary pages

# Types of the compact protocol.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_BOOLEANS, _WHOLES, _LISTS = frozenset({_TRUE, _FALSE}), frozenset({_I16, _I32, _I64}), frozenset({_LIST, _SET})

Struct = dict[int, tuple[int, Any]]  # field number: type, value
_MAX_DEPTH = 16


def split(file: bytes) -> tuple[bytes, bytes]:
    """Return the row groups and the footer of a Parquet file, both without the magic bytes.

    Raises ValueError if `file` is not a Parquet file.
    """
    if len(file) < len(MAGIC) + _TAIL.size:
        raise ValueError("too short for a Parquet file")
    size, magic = _TAIL.unpack(file[-_TAIL.size :])
    end = len(file) - _TAIL.size - size
    if magic != MAGIC or end < len(MAGIC):
        raise ValueError("no footer at its end")
    return file[len(MAGIC) : end], file[end : -_TAIL.size]


def row_groups_of(footer: bytes, shift: int) -> list[bytes]:
    """Return the encoded RowGroup structures of a Parquet footer, in order.

    Offsets are increased by `shift`, the number of bytes by which the data was moved.
    """
    return [_shifted(group, shift) for group in _parsed(footer)[_FILE_ROW_GROUPS][1][1]]


def columns_in(row_group: bytes) -> int:
    """Return the number of columns of an encoded RowGroup structure. Raises ValueError if the structure is invalid."""
    try:
        return len(_parsed(row_group)[_GROUP_COLUMNS][1][1])
    except (KeyError, TypeError, IndexError):
        raise ValueError("an index entry without columns") from None


def shifted(row_group: bytes, shift: int) -> bytes:
    """Return an encoded RowGroup structure with its offsets increased by `shift`, because its data was moved.

    Raises ValueError if the structure is invalid.
    """
    return _shifted(_parsed(row_group), shift)


def _shifted(group: Struct, shift: int) -> bytes:
    try:
        _move(group, _GROUP_FILE_OFFSET, shift)
        for chunk in group[_GROUP_COLUMNS][1][1]:
            _move(chunk, _CHUNK_FILE_OFFSET, shift)
            for field in _CHUNK_OFFSETS:
                _move(chunk[_CHUNK_META_DATA][1], field, shift)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"not a row group: {error}") from None
    return _encoded(group)


def _move(fields: Struct, field: int, shift: int) -> None:
    kind, value = fields.get(field, (_I64, 0))
    if value > 0:  # 0 means that the file has no such page
        fields[field] = kind, value + shift


def footer_of(template: bytes, rows: int, row_groups: Sequence[bytes]) -> bytes:
    """Return the end of a Parquet file: the footer with `row_groups`, the footer's length, and the magic bytes.

    `row_groups` are encoded RowGroup structures with `rows` rows in all. `template` is the footer of a file with the
    same columns.
    """
    fields = _parsed(template)
    fields[_FILE_NUM_ROWS] = _I64, rows
    fields[_FILE_ROW_GROUPS] = _LIST, (_STRUCT, row_groups)
    footer = _encoded(dict(sorted(fields.items())))
    return footer + _TAIL.pack(len(footer), MAGIC)


def _parsed(data: bytes) -> Struct:
    try:
        return _Source(data).struct(0)
    except (IndexError, struct.error) as error:
        raise ValueError(f"not Thrift: {error}") from None


def _encoded(fields: Struct) -> bytes:
    out = bytearray()
    _put_struct(out, fields)
    return bytes(out)


class _Source:
    """Decodes data in Thrift's compact protocol. Methods raise IndexError if the bytes are invalid."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _bytes(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise IndexError("cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _varint(self) -> int:
        value = self._byte()
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in range(7, 64, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise IndexError("a number of more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int) -> Struct:
        if depth > _MAX_DEPTH:
            raise IndexError("too deep")
        fields: Struct = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._zigzag()
            fields[field] = head & 15, self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _WHOLES:
            return self._zigzag()
        if kind in _BOOLEANS:
            return None
        if kind in (_BYTE, _DOUBLE, _BINARY):
            return self._bytes({_BYTE: 1, _DOUBLE: 8}.get(kind) or self._varint())
        if kind in _LISTS:
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise IndexError(f"a type that no footer has: {kind}")

    def _list(self, depth: int) -> tuple[int, list[Any]]:
        head = self._byte()
        kind, size = head & 15, head >> 4
        if size == 15:
            size = self._varint()
        if size > len(self._data) - self._at:  # each item takes at least a byte
            raise IndexError("a list longer than its file")
        one = self._bytes if kind in _BOOLEANS else None
        return kind, [one(1) if one else self._value(kind, depth + 1) for _ in range(size)]


def _put_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field, (kind, value) in fields.items():
        if 0 < field - last < 16:
            out.append((field - last) << 4 | kind)
        else:
            out.append(kind)
            out += varint(field << 1)
        last = field
        _put_value(out, kind, value)
    out.append(0)


def _put_value(out: bytearray, kind: int, value: Any) -> None:
    if isinstance(value, bytes):
        if kind == _BINARY:
            out += varint(len(value))
        out += value  # either a string or a struct that is encoded already
    elif kind in _WHOLES:
        out += varint(value << 1 if value >= 0 else (-value << 1) - 1)
    elif kind in _LISTS:
        inner, values = value
        out.append(min(len(values), 15) << 4 | inner)
        if len(values) >= 15:
            out += varint(len(values))
        for item in values:
            _put_value(out, inner, item)
    elif kind == _STRUCT:
        _put_struct(out, value)
