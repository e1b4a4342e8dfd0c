"""Bytes: what an operator reads and writes, and memory for activations by when each tensor is made and last needed."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgetop.models.graph import OMITTED, Graph, Tensor
from edgetop.models.shapes.node import Node


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """The memory that a gapless allocator needs; real allocators need as much or more.

    Inputs and outputs of the model count, weights do not. Tensors of unknown size are left
    out, so that with any of these the figures are lower bounds.
    """

    peak_bytes: int
    peak_position: int | None  # of the operator at which it is reached; None: there is no operator
    working_set_bytes: int  # most that one operator reads and writes, activations alone
    working_set_position: int | None
    unknown: int  # tensors of unknown size


def plan(graph: Graph) -> MemoryPlan:
    """Plan the memory of a graph whose shapes are worked out."""
    buffers = _buffers(graph)
    sizes = {root: graph.tensors[root].size_bytes for root in set(buffers)}
    spans = _spans(graph, buffers)
    steps = [0] * (max(len(graph.operators), 1) + 1)  # a model may hand its inputs on, without any operator
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
    """Return for each tensor the tensor whose memory it uses: itself, or the one that it is a view of."""
    buffers = list(range(len(graph.tensors)))
    for operator in graph.operators:
        if operator.op_type in VIEWS and operator.inputs and operator.outputs:
            source, target = operator.inputs[0], operator.outputs[0]
            if OMITTED not in {source, target}:
                buffers[target] = buffers[source]
    return buffers


def _spans(graph: Graph, buffers: Sequence[int]) -> dict[int, tuple[int, int]]:
    """First and last operator that need each buffer. What is neither made nor fed is state, and stays."""
    end = max(len(graph.operators) - 1, 0)
    spans: dict[int, tuple[int, int]] = dict.fromkeys((buffers[place] for place in graph.inputs), (0, 0))
    for number, operator in enumerate(graph.operators):
        for place in (*operator.inputs, *operator.captures):
            if place != OMITTED and not graph.tensors[buffers[place]].is_constant:
                first, _ = spans.get(buffers[place], (0, end))
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


# Bytes an operator reads and writes: each tensor once, but for those of which it needs a part or nothing.

# Runtimes give the output the input's own memory: ONNX Runtime by Alias(0, 0) in its kernels
# (core/providers/cpu/tensor/reshape.cc), TFLite by kTfLiteInplaceOpDataUnmodified.
VIEWS = {
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "BITCAST",
}  # fmt: skip

# These read as much of their first input as they write, beside their indices.
_SELECTING = {
    "Gather", "GatherElements", "GatherND", "Slice", "GATHER", "GATHER_ND", "EMBEDDING_LOOKUP", "SLICE",
    "STRIDED_SLICE",
}  # fmt: skip

# These need the shape of their input and not its elements.
_SHAPE_ONLY = {"Shape", "Size", "SHAPE", "RANK", "ZEROS_LIKE"}


def total_bytes(tensors: Iterable[Tensor | None]) -> int | None:
    """Sum the bytes of the tensors that are given; None where one is unknown."""
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
        # EMBEDDING_LOOKUP has the indices first and the table second.
        table = 1 if op_type == "EMBEDDING_LOOKUP" else 0
        return total_bytes([*node.outputs[:1], *(t for place, t in enumerate(node.inputs) if place != table)])
    return total_bytes(node.inputs)


def written_bytes(node: Node) -> int | None:
    return 0 if node.operator.op_type in VIEWS else total_bytes(node.outputs)
