"""A model as its file has it: tensors, operators in order of execution, and what was said about them.

Tensors are identified by their place in `Graph.tensors`, since TFLite's names may be missing or
alike; an omitted optional input is -1. Profiles are joined to it by an operator's position and name.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetop.models.reading_limits import MAX_VALUE_ELEMENTS

Dim = int | str | None
Shape = tuple[Dim, ...]  # strings are the model's names for sizes it leaves open
Sizes = tuple[int | None, ...]
Array = NDArray[Any]

OMITTED = -1

# Bits of one element, of the formats' types (onnx/onnx.proto TensorProto.DataType;
# tensorflow/lite/schema/schema.fbs TensorType). Types of no fixed size, as strings, are absent.
BITS = {
    "float32": 32, "float16": 16, "bfloat16": 16, "float64": 64, "complex64": 64, "complex128": 128,
    "int8": 8, "uint8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64, "uint64": 64,
    "bool": 8, "int4": 4, "uint4": 4, "int2": 2, "uint2": 2, "float4e2m1": 4,
    "float8e4m3fn": 8, "float8e4m3fnuz": 8, "float8e5m2": 8, "float8e5m2fnuz": 8, "float8e8m0": 8,
}  # fmt: skip

_MOST = 2**62  # no machine holds as much; beyond it a size comes from a broken file


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    dtype: str | None  # numpy's name or one of BITS'; None: the file does not say
    shape: Shape | None  # None: not even the rank is known
    is_constant: bool = False
    stored_bytes: int | None = None  # of a constant, in the file or in one beside it
    value: Array | None = field(default=None, compare=False, repr=False)
    # of a small constant of whole numbers or single floats, which shapes may follow from
    is_quantised: bool = False
    # the file gives it a scale (TFLite; ONNX says it by operators)

    @property
    def elements(self) -> int | None:
        return count(self.shape)

    @property
    def size_bytes(self) -> int | None:
        return size_bytes(self.shape, self.dtype)


@dataclass(frozen=True, slots=True)
class Operator:
    position: int
    name: str  # the model's; of TFLite, whose operators have none, that of the first output
    op_type: str  # "Conv", "CONV_2D"; a custom operator's own name
    domain: str  # "" is ONNX's own; "tflite", "custom"
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    subgraphs: tuple[int, ...] = ()  # places in Model.subgraphs of what it may run
    captures: tuple[int, ...] = ()  # tensors of the graph that it stands in, which its subgraphs read by name (ONNX)


@dataclass(frozen=True, slots=True)
class Graph:
    name: str
    tensors: tuple[Tensor, ...]
    operators: tuple[Operator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    captures: Mapping[int, int] = field(default_factory=dict)
    # tensors that it reads of the graph around it: place here to place there (onnx/docs/IR.md, "Names Within a Graph")


@dataclass(frozen=True, slots=True)
class Model:
    format: str  # "onnx" or "tflite"
    graph: Graph
    subgraphs: tuple[Graph, ...] = ()  # branches, loop bodies, TFLite's further graphs
    version: int | None = None  # ONNX: the IR version; TFLite: the schema's
    opsets: Mapping[str, int] = field(default_factory=dict)  # ONNX: domain to version; "" is its own
    functions: int = 0  # ONNX: how many operators it defines itself; their nodes stand where they are called
    producer: str = ""
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    signatures: tuple[str, ...] = ()  # TFLite
    external_files: tuple[str, ...] = ()  # ONNX: files beside it that hold weights, as it names them


def input_names(model: Model) -> list[str]:
    """The inputs by name. TFLite's may be missing or alike: such ones get their place added."""
    names = [model.graph.tensors[place].name for place in model.graph.inputs]
    places = [f"{name or 'input'}:{place}" for place, name in enumerate(names)]
    return [name if name and names.count(name) == 1 else place for name, place in zip(names, places, strict=True)]


def count(shape: Sequence[Dim] | None) -> int | None:
    """Elements; None where a size is open, negative or absurd.

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
    """The number, or None where no real model could have it."""
    return number if number is not None and 0 <= number <= _MOST else None


def size_bytes(shape: Sequence[Dim] | None, dtype: str | None) -> int | None:
    elements, bits = count(shape), BITS.get(dtype or "")
    return None if elements is None or bits is None else -(-elements * bits // 8)


def may_be_read(dtype: str | None, shape: Sequence[Dim] | None) -> bool:
    """Whether a constant is one that shapes may follow from: short, and of whole numbers, single floats or booleans."""
    elements = count(shape)
    return dtype in {"float32", "int32", "int64", "bool"} and elements is not None and elements <= MAX_VALUE_ELEMENTS


def stored_value(data: memoryview, dtype: str, shape: tuple[int, ...]) -> Array | None:
    """A constant's value from its bytes, or None where there are not as many as its shape says."""
    if len(data) != size_bytes(shape, dtype):
        return None
    return small_value(np.frombuffer(data, np.dtype(dtype).newbyteorder("<")), dtype, shape)


def small_value(values: Sequence[float] | Array, dtype: str, shape: tuple[int, ...]) -> Array | None:
    """A constant's value, or None where it does not have as many elements as its shape says."""
    array = np.asarray(values).astype(dtype)  # of numbers too wide for it, as files may hold, the lower bits
    return array.reshape(shape) if array.size == math.prod(shape) else None


# Operators whose work depends on the values they are given, and not on shapes alone.
# With random input such a model does another amount of work than it does in deployment: no box survives, or all of
# them do; a loop ends at once, or at its limit.

# ONNX's operators (docs/Operators.md) whose outputs have as many elements as values decide, or that run a
# branch or a body as values decide; ONNX's Where only chooses among elements, TFLite's WHERE finds them.
_ONNX = frozenset({"NonMaxSuppression", "NonZero", "Unique", "Compress"})
_TFLITE = frozenset(
    {
        "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "WHERE", "UNIQUE", "IF", "WHILE",
        "TFLite_Detection_PostProcess",
    }
)  # fmt: skip
_BRANCHES, _LOOPS = "If", "Loop"


def data_dependent(model: Model) -> dict[str, int]:
    """Count the operators whose work depends on data, by type, in the model and its inner graphs; most first."""
    found = Counter(
        operator.op_type
        for graph in (model.graph, *model.subgraphs)
        for operator in graph.operators
        if _depends(graph, operator, is_onnx=model.format == "onnx")
    )
    return dict(found.most_common())


def tensors_by_value(model: Model) -> set[int]:
    """Places of the main graph's tensors that such operators make, directly or not: values may decide their shapes."""
    found: set[int] = set()
    for operator in model.graph.operators:
        if _depends(model.graph, operator, is_onnx=model.format == "onnx") or not found.isdisjoint(operator.inputs):
            found.update(operator.outputs)
    return found - {OMITTED}


def _depends(graph: Graph, operator: Operator, *, is_onnx: bool) -> bool:
    if not is_onnx:
        return operator.op_type in _TFLITE
    if operator.op_type == _BRANCHES:
        return not _is_constant(graph, operator)
    if operator.op_type == _LOOPS:  # a constant number of times, unless a condition ends it
        has_condition = len(operator.inputs) > 1 and operator.inputs[1] != OMITTED
        return has_condition or not _is_constant(graph, operator)
    return operator.op_type in _ONNX


def _is_constant(graph: Graph, operator: Operator) -> bool:
    """Whether the first input is."""
    first = next(iter(operator.inputs), OMITTED)
    return first != OMITTED and graph.tensors[first].is_constant
