"""FlatBuffers read in place: tables, vectors and strings, each offset checked before it is followed.

Source: https://flatbuffers.dev/internals/. Offsets of a hostile file may overlap or point at one
thing many times over; the budget of what is looked at ends that.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Any

from edgetop.models.limits import Budget, MalformedError

_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")

SCALARS = {
    name: struct.Struct(f"<{code}")
    for name, code in {"i8": "b", "u8": "B", "bool": "?", "i16": "h", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
                       "f32": "f"}.items()
}  # fmt: skip


def root(data: memoryview, budget: Budget) -> "Table":
    """The root table. Raises MalformedError."""
    return Table(data, _read(_U32, data, 0), budget)


def _read(kind: struct.Struct, data: memoryview, position: int) -> Any:
    if position < 0 or position + kind.size > len(data):
        raise MalformedError("an offset that points outside")
    return kind.unpack_from(data, position)[0]


class Table:
    """One table; its fields are known by their ids in the schema."""

    __slots__ = ("_budget", "_data", "_position", "_vtable", "_vtable_size")

    def __init__(self, data: memoryview, position: int, budget: Budget) -> None:
        budget.spend(1)
        self._data, self._position, self._budget = data, position, budget
        self._vtable = position - _read(_I32, data, position)
        self._vtable_size = _read(_U16, data, self._vtable)

    def scalar(self, field: int, kind: str, default: Any = 0) -> Any:
        position = self._field(field)
        return default if position is None else _read(SCALARS[kind], self._data, position)

    def table(self, field: int) -> "Table | None":
        position = self._pointer(field)
        return None if position is None else Table(self._data, position, self._budget)

    def tables(self, field: int) -> Iterator["Table"]:
        for position in self._elements(field, 4, lambda at: at + _read(_U32, self._data, at)):
            yield Table(self._data, position, self._budget)

    def text(self, field: int) -> str:
        """A string field, or that of a vector of bytes; bytes that are no UTF-8 stay apart as escapes."""
        data = self.bytes_of(field)
        self._budget.spend(len(data) // 16)
        return bytes(data).decode("utf-8", "backslashreplace")

    def has(self, field: int) -> bool:
        return self._field(field) is not None

    def numbers(self, field: int, kind: str = "i32") -> tuple[int, ...]:
        scalar = SCALARS[kind]
        return tuple(self._elements(field, scalar.size, lambda at: _read(scalar, self._data, at)))

    def bytes_of(self, field: int) -> memoryview:
        """The contents of a vector of bytes, as a view."""
        start, length = self._vector(field, 1)
        return self._data[start : start + length]

    def length(self, field: int, size: int = 1) -> int:
        """Elements of a vector whose elements take `size` bytes each."""
        return self._vector(field, size)[1]

    def _elements(self, field: int, size: int, read: Callable[[int], int]) -> Iterator[int]:
        start, length = self._vector(field, size)
        self._budget.spend(length)
        return (read(start + i * size) for i in range(length))

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        position = self._pointer(field)
        if position is None:
            return 0, 0
        length = _read(_U32, self._data, position)
        if position + 4 + length * size > len(self._data):
            raise MalformedError("a list that reaches beyond the end")
        return position + 4, length

    def _pointer(self, field: int) -> int | None:
        position = self._field(field)
        return None if position is None else position + _read(_U32, self._data, position)

    def _field(self, field: int) -> int | None:
        entry = 4 + 2 * field
        if entry + 2 > self._vtable_size:
            return None
        offset = _read(_U16, self._data, self._vtable + entry)
        return self._position + offset if offset else None
