"""Read from the bytes of an ONNX file what ONNX Runtime does not report.

The engine child has no package `onnx`, so the file is parsed by `wire.py`. Field numbers:
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..wire import Span, Wire, WireError, mapped

GRAPH = 7  # of ModelProto
# Of GraphProto, all of the type ValueInfoProto: inputs, outputs, intermediate values.
VALUES = (11, 12, 13)
# From ValueInfoProto to a dimension: type, tensor_type, shape, dim.
TO_DIMENSION = (2, 1, 2, 1)

ZERO = b"\x08\x00"  # a Dimension whose dim_value is 0
UNNAMED = b"\x12\x00"  # a Dimension whose dim_param is "": ONNX Runtime takes it as unknown


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
    """Return {name of an input: length of the table that the input's values index}.

    The values of such an input are entry numbers, such as token ids. For an input that indexes several tables, the
    length is that of the shortest. Inputs that index no table are left out. `inputs` are the names of the inputs to
    look at. Returns {} if the file at `path` cannot be read.
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
    """Yield (input's name, axis, table's name) for each table in which an operator looks up entries.

    The input's values are the numbers of the entries, counted along `axis` of the table.
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
