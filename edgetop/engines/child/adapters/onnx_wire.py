"""Read from the bytes of an ONNX file what ONNX Runtime does not report.

The engine child has no package `onnx`, so this module parses protocol buffers itself. Field numbers:
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto. Encoding: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import mmap
import os
import stat
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

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


class _Node(NamedTuple):
    op_type: str
    inputs: List[str]
    outputs: List[str]
    axis: int


# Operators whose output has the values of their first input, in this or another shape.
_SAME_VALUES = frozenset(
    {"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Transpose", "Expand", "Slice", "Split", "Tile"}
)
_SAME_SHAPE = frozenset({"Identity", "Cast", "DequantizeLinear"})
# Of com.microsoft's EmbedLayerNormalization: an input with ids, and the table that they index.
_EMBEDDING = ((0, 2), (1, 4))
NODE_OP_TYPE, NODE_INPUT, NODE_OUTPUT, NODE_ATTRIBUTE = 4, 1, 2, 5
ATTRIBUTE_NAME, ATTRIBUTE_INT = 1, 3
NODE, INITIALIZER, TENSOR_DIMS, TENSOR_NAME = 1, 5, 1, 8


def table_lengths(path: str, inputs: Sequence[str]) -> Dict[str, int]:
    """Return the length of the table in which each input looks up values, by input name.

    Such an input has entry numbers, such as token ids. If it looks up several tables, the shortest length is returned.
    Other inputs are left out. The result is empty if the file at `path` cannot be read.
    """
    data = mapped(path)
    if data is None:
        return {}
    try:
        tables, nodes = _main_graph(Wire(data))
    except (WireError, UnicodeDecodeError):
        return {}
    source = {name: name for name in inputs}
    found: Dict[str, int] = {}
    for node in nodes:
        for ids, axis, table in _lookups(node):
            dims = tables.get(table, [])
            if ids in source and -len(dims) <= axis < len(dims):
                found[source[ids]] = min(dims[axis], found.get(source[ids], dims[axis]))
        first = node.inputs[0] if node.inputs else ""
        if node.op_type in _SAME_VALUES and first in source:
            source.update((output, source[first]) for output in node.outputs)
        if node.op_type in _SAME_SHAPE and first in tables:
            tables.update((output, tables[first]) for output in node.outputs)
    return found


def _main_graph(wire: Wire) -> Tuple[Dict[str, List[int]], List[_Node]]:
    """Return the shapes of the constant tensors, by name, and the graph's operators in their order."""
    tables: Dict[str, List[int]] = {}
    nodes: List[_Node] = []
    for graph in wire.inside((0, len(wire.data)), GRAPH):
        for number, content in wire.fields(graph):
            if number == INITIALIZER:
                name, dims = _initializer(wire, content)
                tables[name] = dims
            elif number == NODE:
                nodes.append(_node(wire, content))
    return tables, nodes


def _lookups(node: _Node) -> Iterator[Tuple[str, int, str]]:
    """Yield (input's name, axis, table's name) for each table that an operator looks up.

    The input has the numbers of the entries, counted along `axis` of the table.
    """
    if node.op_type == "Gather" and len(node.inputs) > 1:
        yield node.inputs[1], node.axis, node.inputs[0]
    if node.op_type == "EmbedLayerNormalization":
        for ids, table in _EMBEDDING:
            if table < len(node.inputs):
                yield node.inputs[ids], 0, node.inputs[table]


def _initializer(wire: Wire, span: Span) -> Tuple[str, List[int]]:
    name, dims = "", []
    for number, (begin, end) in wire.fields(span):
        if number == TENSOR_NAME:
            name = wire.data[begin:end].decode()
        elif number == TENSOR_DIMS:
            position = begin
            while position < end:  # one number, or several that are packed
                size, position = wire.varint(position, end)
                dims.append(size)
    return name, dims


def _node(wire: Wire, span: Span) -> _Node:
    texts: Dict[int, List[str]] = {NODE_OP_TYPE: [], NODE_INPUT: [], NODE_OUTPUT: []}
    axis = 0
    for number, (begin, end) in wire.fields(span):
        if number in texts:
            texts[number].append(wire.data[begin:end].decode())
        elif number == NODE_ATTRIBUTE:
            axis = _axis(wire, (begin, end), axis)
    return _Node("".join(texts[NODE_OP_TYPE]), texts[NODE_INPUT], texts[NODE_OUTPUT], axis)


def _axis(wire: Wire, span: Span, otherwise: int) -> int:
    """Return the value of the attribute at `span` if that attribute is called "axis".

    Return `otherwise` if it has another name.
    """
    name, value = b"", otherwise
    for number, (begin, end) in wire.fields(span):
        if number == ATTRIBUTE_NAME:
            name = bytes(wire.data[begin:end])
        elif number == ATTRIBUTE_INT:
            value, _ = wire.varint(begin, end)
    value -= 2**64 if value >= 2**63 else 0
    return value if name == b"axis" else otherwise


def mapped(path: str) -> Any:
    """Return a model file's bytes as a private writable mapping, or None if the file is too large or cannot be read."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or not 0 < about.st_size <= MAX_BYTES:
                return None
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):
        return None


def without_zero_dimensions(path: str) -> Optional[bytes]:
    """Return the bytes of a model file in which each tensor dimension of 0 is replaced by an unknown dimension.

    Some exporters write 0 for an unknown batch size, and ONNX Runtime then accepts only empty inputs. Returns None if
    the file at `path` cannot be read.
    """
    data = mapped(path)
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
    return bytes(data[:])
