"""Bytes an operator reads and writes: each tensor once, but for those of which it needs a part or nothing."""

from collections.abc import Iterable

from edgetop.models.graph import Tensor
from edgetop.models.shapes.node import Node

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


def total(tensors: Iterable[Tensor | None]) -> int | None:
    """Sum the bytes of the tensors that are given; None where one is not known."""
    found = 0
    for tensor in tensors:
        if tensor is not None:
            size = tensor.size_bytes
            if size is None:
                return None
            found += size
    return found


def read_bytes(node: Node) -> int | None:
    op_type = node.operator.op_type
    if op_type in VIEWS or op_type in _SHAPE_ONLY:
        return 0
    if op_type in _SELECTING:
        # EMBEDDING_LOOKUP has the indices first and the table second.
        table = 1 if op_type == "EMBEDDING_LOOKUP" else 0
        return total([*node.outputs[:1], *(t for place, t in enumerate(node.inputs) if place != table)])
    return total(node.inputs)


def written_bytes(node: Node) -> int | None:
    return 0 if node.operator.op_type in VIEWS else total(node.outputs)
