"""Read what ONNX Runtime does not report from the bytes of an ONNX file.

The engine has no package `onnx`, so fields are read from the wire format of protocol buffers. Field numbers:
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto. Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import os
import stat
from typing import Iterator, Optional, Tuple

MAX_BYTES = 2**31 - 1  # largest message of protocol buffers
MAX_FIELDS = 20_000_000  # upper bound of the fields that are read of one file

GRAPH = 7  # of ModelProto
# Of GraphProto, all of the type ValueInfoProto: inputs, outputs, intermediate values.
VALUES = (11, 12, 13)
# From ValueInfoProto to a dimension: type, tensor_type, shape, dim.
TO_DIMENSION = (2, 1, 2, 1)

ZERO = b"\x08\x00"  # a Dimension whose dim_value is 0
UNNAMED = b"\x12\x00"  # a Dimension whose dim_param is "": ONNX Runtime takes it as unknown

Span = Tuple[int, int]  # positions of the first byte and of the byte after the last


class WireError(ValueError):
    """The file is not in the wire format."""


class Wire:
    """The fields of messages in a file."""

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self._left = MAX_FIELDS

    def inside(self, span: Span, *numbers: int) -> Iterator[Span]:
        """Yield the content of each field that the path of field numbers leads to."""
        if not numbers:
            yield span
            return
        for number, content in self.fields(span):
            if number == numbers[0]:
                yield from self.inside(content, *numbers[1:])

    def fields(self, span: Span) -> Iterator[Tuple[int, Span]]:
        """Yield the number and content of each field of a message. Raises WireError if it is malformed."""
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
        """Return a number of at most 64 bits and the position after it."""
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


def read_file(path: str) -> Optional[bytearray]:
    """Return the content of a model file, or None if it is too large for a message or cannot be read."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
                return None
            return bytearray(file.read(MAX_BYTES))
    except (OSError, MemoryError):
        return None


def without_zero_dimensions(path: str) -> Optional[bytes]:
    """Return the model with unknown dimensions in place of those that are 0, or None if it cannot be read.

    Some exporters write 0 for an unknown batch. ONNX Runtime then accepts no input with any element.
    """
    data = read_file(path)
    if data is None:
        return None
    wire = Wire(data)
    try:
        for graph in wire.inside((0, len(data)), GRAPH):
            for number, value in wire.fields(graph):
                for begin, end in wire.inside(value, *TO_DIMENSION) if number in VALUES else ():
                    if data[begin:end] == ZERO:
                        data[begin:end] = UNNAMED
    except WireError:
        return None
    return bytes(data)
