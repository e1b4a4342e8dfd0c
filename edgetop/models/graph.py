"""A model as it is in its file: tensors, operators in order of execution, and metadata.

Tensors are identified by their index in `Graph.tensors`, called `place`, because names may be missing or equal in
TFLite. An omitted optional input has the index -1. Operators that a runtime measured are matched by position and name
to the operators of the file.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetop.frozen import frozen
from edgetop.models.reading_limits import MAX_VALUE_ELEMENTS

Dim = int | str | None
Shape = tuple[Dim, ...]  # a string is the model's name for a size that it leaves open
Sizes = tuple[int | None, ...]
Array = NDArray[Any]

OMITTED = -1

# Bits of an element by type (onnx/onnx.proto TensorProto.DataType; tensorflow/lite/schema/schema.fbs TensorType). Types
# without a fixed size, such as strings, are not listed.
BITS = {
    "float32": 32, "float16": 16, "bfloat16": 16, "float64": 64, "complex64": 64, "complex128": 128,
    "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64,
    "bool": 8, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4e2m1": 4,
    "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8,
}  # fmt: skip

_MOST = 2**62  # a larger size comes from a broken file


@frozen
class Tensor:
    name: str
    dtype: str | None  # numpy's name or one in BITS; None if the file does not say
    shape: Shape | None  # None if not even the rank is known
    is_constant: bool = False
    stored_bytes: int | None = None  # size of a constant in the file or in a file beside it
    # Value of a small constant of integers, single floats or booleans, from which shapes may follow.
    value: Array | None = field(default=None, compare=False, repr=False)
    is_quantised: bool = False  # whether the file gives it a scale (only TFLite; ONNX has operators for that)

    @property
    def elements(self) -> int | None:
        return count(self.shape)

    @property
    def size_bytes(self) -> int | None:
        return size_bytes(self.shape, self.dtype)


@frozen
class Operator:
    position: int
    name: str  # its name in the model; in TFLite, where operators have no names, that of its first output
    op_type: str  # such as "Conv" or "CONV_2D", or the name of a custom operator
    domain: str  # "" for ONNX's own operators; "tflite" or "custom" in TFLite
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    subgraphs: tuple[int, ...] = ()  # places in Model.subgraphs of the graphs that it may run
    captures: tuple[int, ...] = ()  # tensors of its own graph that its subgraphs read by name (ONNX)


@frozen
class Graph:
    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    # Tensors of the surrounding graph that this graph reads: place there by place here (onnx/docs/IR.md, "Names Within
    # a Graph").
    captures: Mapping[int, int] = field(default_factory=dict)


@frozen
class External:
    """One external file with weights: how many tensors it holds, and how long it must at least be."""

    tensors: int
    needed_bytes: int  # size that the file must have at least


@frozen
class Model:
    format: str  # "onnx" or "tflite"
    graph: Graph
    subgraphs: tuple[Graph, ...] = ()  # branches, loop bodies, TFLite's further graphs
    version: int | None = None  # ONNX: the IR version; TFLite: the schema's version
    opsets: Mapping[str, int] = field(default_factory=dict)  # ONNX: version by domain; "" is ONNX's own
    functions: int = 0  # ONNX: number of operators that the model defines; their nodes replace the calls
    producer: str = ""
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    signatures: tuple[str, ...] = ()  # TFLite
    external: Mapping[str, External] = field(default_factory=dict)  # ONNX: files beside it with weights, by name


def input_names(model: Model) -> list[str]:
    """Return a distinct name for each input, in the order of the inputs.

    A missing or repeated name gets the index of the input appended, as in `input:0`.
    """
    names = [model.graph.tensors[place].name for place in model.graph.inputs]
    places = [f"{name or 'input'}:{place}" for place, name in enumerate(names)]
    return [name if name and names.count(name) == 1 else place for name, place in zip(names, places, strict=True)]


def count(shape: Sequence[Dim] | None) -> int | None:
    """Return the number of elements of a tensor, or None if a size is unknown, negative or absurdly large.

    >>> count((2, 3)), count(()), count(("N", 3)), count((2**40, 2**40))
    (6, 1, None, None)
    """
    if shape is None:
        return None
    product = 1
    for dim in shape:
        if not isinstance(dim, int) or dim < 0:
            return None
        product *= dim
    return bounded(product)


def bounded(number: int | None) -> int | None:
    """Return `number`, or None if the number is negative, too large for a real model, or unknown."""
    return number if number is not None and 0 <= number <= _MOST else None


def size_bytes(shape: Sequence[Dim] | None, dtype: str | None) -> int | None:
    elements, bits = count(shape), BITS.get(dtype or "")
    return None if elements is None or bits is None else -(-elements * bits // 8)


def may_be_read(dtype: str | None, shape: Sequence[Dim] | None) -> bool:
    """Whether the value of a constant should be read from the file, because shapes may be computed from it.

    Only constants of at most MAX_VALUE_ELEMENTS elements of float32, int32, int64 or bool are read.
    """
    elements = count(shape)
    return dtype in {"float32", "int32", "int64", "bool"} and elements is not None and elements <= MAX_VALUE_ELEMENTS


def stored_value(data: memoryview, dtype: str, shape: tuple[int, ...]) -> Array | None:
    """Return a constant as an array of `dtype` and `shape`, or None if the number of bytes does not match the shape.

    `data` are the constant's bytes in the file, little-endian.
    """
    if len(data) != size_bytes(shape, dtype):
        return None
    return small_value(np.frombuffer(data, np.dtype(dtype).newbyteorder("<")), dtype, shape)


def small_value(values: Sequence[float] | Array, dtype: str, shape: tuple[int, ...]) -> Array | None:
    """Return `values` as an array of `dtype` and `shape`, or None if there are too few or too many values."""
    array = np.asarray(values).astype(dtype)  # numbers in a file may be too wide; their lower bits are kept
    return array.reshape(shape) if array.size == math.prod(shape) else None


# Operators whose work depends on values and not only on shapes. With random input, a model with such operators does
# another amount of work than in deployment: no box survives or all do, a loop ends at once or at its limit.

# Operators of ONNX (docs/Operators.md) whose number of output elements depends on values. Branches and loops are
# handled below. ONNX's Where only selects elements; TFLite's WHERE finds them.
_ONNX = frozenset({"NonMaxSuppression", "NonZero", "Unique", "Compress"})
_TFLITE = frozenset(
    {
        "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "WHERE", "UNIQUE", "IF", "WHILE",
        "TFLite_Detection_PostProcess",
    }
)  # fmt: skip
_BRANCHES, _LOOPS = "If", "Loop"


def tensors_by_value(model: Model) -> set[int]:
    """Return the indices of the main graph's tensors whose shapes may depend on input values."""
    found: set[int] = set()
    for operator in model.graph.operators:
        if depends_on_values(model.graph, operator, is_onnx=model.format == "onnx") or not found.isdisjoint(
            operator.inputs
        ):
            found.update(operator.outputs)
    return found - {OMITTED}


def depends_on_values(graph: Graph, operator: Operator, *, is_onnx: bool) -> bool:
    """Whether the work of an operator depends on the values of its inputs, and not only on their shapes.

    `is_onnx` is True for a model of ONNX, and False for a model of TFLite.
    """
    if not is_onnx:
        return operator.op_type in _TFLITE
    if operator.op_type == _BRANCHES:
        return not _is_constant(graph, operator)
    if operator.op_type == _LOOPS:  # runs a constant number of times unless a condition ends it
        has_condition = len(operator.inputs) > 1 and operator.inputs[1] != OMITTED
        return has_condition or not _is_constant(graph, operator)
    return operator.op_type in _ONNX


def _is_constant(graph: Graph, operator: Operator) -> bool:
    first = next(iter(operator.inputs), OMITTED)
    return first != OMITTED and graph.tensors[first].is_constant
