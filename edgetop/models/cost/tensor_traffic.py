"""The bytes that an operator reads and writes, and the memory that a model needs for activations."""

import itertools
from collections.abc import Iterable, Sequence

from edgetop.frozen import frozen
from edgetop.models.graph import OMITTED, Graph, Tensor
from edgetop.models.shapes.node import Node


@frozen
class MemoryPlan:
    """The memory that one model's activations need with an ideal allocator, which leaves no gaps.

    Inputs and outputs of the model are included; weights are not. The figures are lower bounds if `unknown`, the number
    of tensors of unknown size, is above 0.
    """

    peak_bytes: int
    peak_position: int | None  # position of the operator at which the peak is reached; None without operators
    working_set_bytes: int  # most bytes of activations that one operator reads and writes
    working_set_position: int | None
    unknown: int  # number of tensors of unknown size


def plan(graph: Graph) -> MemoryPlan:
    """Return the memory that the graph's activations need if each tensor is freed after its last use.

    The graph's tensors must have their shapes, from `with_shapes`.
    """
    buffers = _buffers(graph)
    sizes = {root: graph.tensors[root].size_bytes for root in set(buffers)}
    spans = _spans(graph, buffers)
    steps = [0] * (max(len(graph.operators), 1) + 1)  # a model may have no operators
    for root, (first, last) in spans.items():
        steps[first] += sizes[root] or 0
        steps[last + 1] -= sizes[root] or 0
    live = list(itertools.accumulate(steps[:-1]))
    sets = []
    for operator in graph.operators:
        used = {buffers[place] for place in operator.inputs + operator.outputs if place != OMITTED}
        sets.append(sum(sizes[root] or 0 for root in used if not graph.tensors[root].is_constant))
    (peak, position), working = _largest(live), _largest(sets)
    position = position if graph.operators else None
    return MemoryPlan(peak, position, *working, unknown=sum(sizes[root] is None for root in spans))


def _buffers(graph: Graph) -> list[int]:
    """Return, for each tensor of the graph, the index of the tensor that owns its memory.

    Usually this is the tensor itself; the output of `Reshape` lies in the memory of its input.
    """
    buffers = list(range(len(graph.tensors)))
    for operator in graph.operators:
        if operator.op_type in VIEWS and operator.inputs and operator.outputs:
            source, target = operator.inputs[0], operator.outputs[0]
            if OMITTED not in {source, target}:
                buffers[target] = buffers[source]
    return buffers


def _spans(graph: Graph, buffers: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Return the indices of the first and the last operator that need each memory buffer.

    Keys are the indices of the tensors that own the buffers. `buffers` is the result of `_buffers`.
    """
    end = max(len(graph.operators) - 1, 0)
    spans: dict[int, tuple[int, int]] = dict.fromkeys((buffers[place] for place in graph.inputs), (0, 0))
    for number, operator in enumerate(graph.operators):
        for place in (*operator.inputs, *operator.captures):
            if place != OMITTED and not graph.tensors[buffers[place]].is_constant:
                first, _ = spans.get(buffers[place], (0, end))
                # A tensor that is neither an input nor made by an operator is a state, kept until the last operator has
                # run.
                is_state = buffers[place] not in spans
                spans[buffers[place]] = (first, end if is_state else number)
        for place in operator.outputs:
            if place != OMITTED and not graph.tensors[place].is_constant:
                first, last = spans.get(buffers[place], (number, number))
                spans[buffers[place]] = (first, max(last, number))
    for place in graph.outputs:
        if buffers[place] in spans:
            spans[buffers[place]] = (spans[buffers[place]][0], end)
    return spans


def _largest(values: Sequence[int]) -> tuple[int, int | None]:
    if not values:
        return 0, None
    position = max(range(len(values)), key=values.__getitem__)
    return values[position], position


# An operator reads and writes each of its tensors once, except for the operators below.

# The output of these is in the memory of the input: in ONNX Runtime by Alias(0, 0) in its kernels
# (core/providers/cpu/tensor/reshape.cc), in TFLite by kTfLiteInplaceOpDataUnmodified.
VIEWS = {
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST",
}  # fmt: skip

# These read only as much of their first input as they write, and their indices.
_SELECTING = {
    "Gather", "GatherElements", "GatherND", "Slice", "GATHER", "GATHER_ND", "EMBEDDING_LOOKUP", "SLICE",
    "STRIDED_SLICE",
}  # fmt: skip

# These need only the shape of their input.
_SHAPE_ONLY = {"Shape", "Size", "SHAPE", "RANK", "ZEROS_LIKE"}


def total_bytes(tensors: Iterable[Tensor | None]) -> int | None:
    """Return the sum of the tensors' sizes in bytes, or None if a size is unknown.

    None stands for an omitted optional tensor, which counts as 0 bytes.
    """
    total = 0
    for tensor in tensors:
        if tensor is not None:
            size = tensor.size_bytes
            if size is None:
                return None
            total += size
    return total


def read_bytes(node: Node) -> int | None:
    op_type = node.operator.op_type
    if op_type in VIEWS or op_type in _SHAPE_ONLY:
        return 0
    if op_type in _SELECTING:
        # The first input of EMBEDDING_LOOKUP is the indices, the second the table.
        table = 1 if op_type == "EMBEDDING_LOOKUP" else 0
        return total_bytes([*node.outputs[:1], *(t for place, t in enumerate(node.inputs) if place != table)])
    return total_bytes(node.inputs)


def written_bytes(node: Node) -> int | None:
    return 0 if node.operator.op_type in VIEWS else total_bytes(node.outputs)
