"""Read the wire format of protocol buffers, such as that of ONNX files, without a package for it.

Encoding: https://protobuf.dev/programming-guides/encoding/. A file may come from anybody, so every position is checked
against the end, and the number of fields is bounded.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import Any, Iterator, Tuple

MAX_BYTES = 2**31 - 1  # largest message of protocol buffers
MAX_FIELDS = 20_000_000  # upper bound of the fields that are read of one file

Span = Tuple[int, int]  # positions of the first byte and of the byte after the last


class WireError(ValueError):
    """Raised if the file is not in the wire format of protocol buffers."""


class Wire:
    """Reads the fields of protocol buffer messages in the bytes of a file.

    A `span` is the position of a message or field: (first byte, byte after the last).
    """

    def __init__(self, data: Any) -> None:
        self.data = data
        self._left = MAX_FIELDS

    def inside(self, span: Span, *numbers: int) -> Iterator[Span]:
        """Yield the position of each field that a path of field numbers leads to, in the message at `span`.

        For example, `inside(span, 7, 1)` yields all fields 1 of all fields 7. A position is (first byte, byte
        after the last).
        """
        if not numbers:
            yield span
            return
        for number, content in self.fields(span):
            if number == numbers[0]:
                yield from self.inside(content, *numbers[1:])

    def fields(self, span: Span) -> Iterator[Tuple[int, Span]]:
        """Yield (number, position of the content) for each field of the message at `span`.

        Raises WireError if it is malformed.
        """
        position, end = span
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise WireError("too many fields")
            tag, position = self.varint(position, end)
            kind = tag & 7
            if kind == 0:
                _, stop = self.varint(position, end)
            elif kind == 2:
                length, position = self.varint(position, end)
                stop = position + length
            elif kind in (1, 5):
                stop = position + (8 if kind == 1 else 4)
            else:
                raise WireError("a field of wire type %d" % kind)
            if stop > end:
                raise WireError("a field that reaches beyond the end")
            yield tag >> 3, (position, stop)
            position = stop

    def varint(self, position: int, end: int) -> Tuple[int, int]:
        """Return the number of at most 64 bits that begins at byte `position`, and the position after it.

        Raises WireError if the number does not end before byte `end`.
        """
        value = 0
        for shift in range(0, 70, 7):
            if position >= end:
                break
            byte = self.data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
        raise WireError("a number that does not end")


def mapped(path: str) -> Any:
    """Return a file's bytes as a private writable mapping, or None if the file is too large or cannot be read."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or not 0 < about.st_size <= MAX_BYTES:
                return None
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):
        return None
