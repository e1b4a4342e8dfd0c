"""Packing of columns of integers into bytes that compress well.

The lowest bytes of all numbers come first, then the second lowest bytes, and so on. Most high bytes are zeros, which
deflate reduces to nearly nothing. No bit is lost.
"""

import struct

import numpy as np
import numpy.typing as npt

MAX_ROWS = 200_000  # longest accepted column; one of zeros has no bytes, so its length alone could fill the memory

Ints = npt.NDArray[np.int64]

_HEAD = struct.Struct("<IB")  # number of values, bytes of each value


def pack(values: npt.ArrayLike) -> bytes:
    """Return a column of integers as bytes that compress well. `Columns.take` decodes these bytes."""
    values = np.asarray(values)
    if values.dtype.itemsize == 1 and values.dtype.kind in "ub" and (most := int(values.max(initial=0))) < 128:
        doubled = (values.astype(np.uint8) << 1).tobytes() if most else b""  # gives the same bytes with less work
        return _HEAD.pack(len(values), bool(most)) + doubled
    if not values.any():  # such as the waits of inferences without a pause
        return _HEAD.pack(len(values), 0)
    numbers = values.astype(np.int64)
    folded = ((numbers << 1) ^ (numbers >> 63)).astype("<u8")  # zigzag: small for values near 0
    most = int(folded.max(initial=0))
    width = (most.bit_length() + 7) // 8
    byte_shuffle = folded.view(np.uint8).reshape(-1, 8)[:, :width].T
    return _HEAD.pack(len(numbers), width) + bytes(byte_shuffle.tobytes())


def pack_steps(values: npt.ArrayLike) -> bytes:
    """Return a column of integers as bytes, stored as the differences of successive values.

    The result is smaller than with `pack` if the integers change little from one to the next. `Columns.take_steps`
    decodes these bytes.
    """
    return pack(steps(np.asarray(values).astype(np.int64)))


def steps(values: Ints) -> Ints:
    """Return the differences of successive values along the last axis. The first value is kept.

    >>> steps(np.array([5, 7, 6])).tolist()
    [5, 2, -1]
    """
    differences: Ints = values.copy()
    differences[..., 1:] -= values[..., :-1]
    return differences


def pack_table(rows: npt.NDArray[np.void]) -> bytes:
    """Return a structured array as bytes. `Columns.take_table` decodes these bytes."""
    names = rows.dtype.names or ()
    numbers = np.empty((len(names), len(rows)), np.int64)
    for place, name in enumerate(names):
        column = rows[name]
        numbers[place] = np.ascontiguousarray(column).view(np.int64) if column.dtype.kind == "f" else column
    return pack(steps(numbers).reshape(-1))


class Columns:
    """A decoder of packed columns that lie one after the other.

    Each call of a `take...` method decodes the next column. Methods raise ValueError if the bytes are invalid.
    """

    def __init__(self, data: bytes, most: int = MAX_ROWS) -> None:
        """Begin at the first byte of `data`. A column with more than `most` values counts as invalid."""
        self._data = data
        self._most = most
        self._offset = 0

    @property
    def is_over(self) -> bool:
        return self._offset == len(self._data)

    def take(self, rows: int | None = None) -> Ints:
        """Return the values of the next column. `rows` is the expected number of values; None accepts any number.

        Raises ValueError if the column is invalid or has another number of values.
        """
        if len(self._data) - self._offset < _HEAD.size:
            raise ValueError("a column is missing")
        count, width = _HEAD.unpack_from(self._data, self._offset)
        self._offset += _HEAD.size
        size = count * width
        if count > self._most or width > 8 or len(self._data) - self._offset < size:
            raise ValueError("a column is longer than it can be")
        if rows is not None and count != rows:
            raise ValueError("columns of unequal length")
        byte_shuffle = np.frombuffer(self._data, np.uint8, size, self._offset).reshape(width, count)
        self._offset += size
        whole = np.zeros((count, 8), np.uint8)
        whole[:, :width] = byte_shuffle.T
        folded = whole.view("<u8").reshape(count)
        return np.asarray((folded >> np.uint64(1)).astype(np.int64) ^ -(folded & np.uint64(1)).astype(np.int64))

    def rest(self, size: int) -> bytes:
        """Return all bytes after the columns decoded so far.

        Raises ValueError if there are not exactly `size` bytes.
        """
        data = self._data[self._offset :]
        self._offset = len(self._data)
        if len(data) != size:
            raise ValueError("something behind the columns is of another length")
        return data

    def take_steps(self, rows: int | None = None) -> Ints:
        return np.cumsum(self.take(rows))

    def take_table(self, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Return the next structured array, as `pack_table` packed it. `dtype` is its structured type.

        Raises ValueError if a value does not fit its field or is not finite.
        """
        names = dtype.names or ()
        flat = self.take()
        if len(flat) % len(names):
            raise ValueError("a table with an incomplete row")
        numbers = np.cumsum(flat.reshape(len(names), -1), axis=1)
        rows = np.zeros(numbers.shape[1], dtype)
        for column, name in zip(numbers, names, strict=True):
            if dtype[name].kind == "f":
                rows[name] = column.view(np.float64)
                fits = np.isfinite(rows[name])
            else:
                rows[name] = column
                fits = rows[name] == column
            if not fits.all():
                raise ValueError(f"{name} has a value that cannot be")
        return rows
