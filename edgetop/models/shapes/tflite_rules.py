"""Rules for TFLite's operators, used where a size does not stand in the file: open ones, and those of a resized input.

Sources: tensorflow/lite/kernels/*.cc, `Prepare` of each; kernels/padding.h for SAME and VALID.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from edgetop.models import tflite_schema as schema
from edgetop.models.graph import Sizes
from edgetop.models.shapes import layout
from edgetop.models.shapes.facts import Node, UnknownError, axis_of, broadcast

Rule = Callable[[Node], list[Sizes | None]]


def _same(node: Node) -> list[Sizes | None]:
    return [node.sizes()]


def _broadcast(node: Node) -> list[Sizes | None]:
    return [broadcast(*(node.sizes(place) for place in range(len(node.inputs))))]


def _places(node: Node, size: int, kernel: int, side: str) -> int:
    stride, dilation = int(node.attribute(f"stride_{side}")), int(node.attribute(f"dilation_{side}", 1))
    if schema.PADDINGS[node.attribute("padding")] == "SAME":
        return -(-size // stride)
    room = size - ((kernel - 1) * dilation + 1)
    if room < 0:
        raise UnknownError
    return room // stride + 1


def _convolution(node: Node) -> list[Sizes | None]:
    batch, height, width, _ = node.known()
    out, kernel_h, kernel_w, channels = node.known(1)
    last = channels if node.operator.op_type == "DEPTHWISE_CONV_2D" else out
    return [(batch, _places(node, height, kernel_h, "h"), _places(node, width, kernel_w, "w"), last)]


def _pool(node: Node) -> list[Sizes | None]:
    batch, height, width, channels = node.known()
    kernel_h, kernel_w = node.attribute("filter_h"), node.attribute("filter_w")
    return [(batch, _places(node, height, kernel_h, "h"), _places(node, width, kernel_w, "w"), channels)]


def _fully_connected(node: Node) -> list[Sizes | None]:
    sizes, (units, depth) = node.known(), node.known(1)
    if node.attribute("keep_num_dims"):
        return [(*sizes[:-1], units)]
    elements = 1
    for size in sizes:
        elements *= size
    if elements % depth:
        raise UnknownError
    return [(elements // depth, units)]


def _batch_matmul(node: Node) -> list[Sizes | None]:
    a, b = node.sizes(0), node.sizes(1)
    rows = a[-1] if node.attribute("adj_x") else a[-2]
    columns = b[-2] if node.attribute("adj_y") else b[-1]
    return [(*broadcast(a[:-2], b[:-2]), rows, columns)]


def _reshape(node: Node) -> list[Sizes | None]:
    """The wanted shape is a second input or, in old files, an option."""
    wanted = node.ints("new_shape", 1) if not node.has(1) else [int(size) for size in node.value(1).reshape(-1)]
    if wanted is None:
        raise UnknownError
    return [layout.filled(node.sizes(), wanted)]


def _concatenation(node: Node) -> list[Sizes | None]:
    return [layout.joined([node.sizes(place) for place in range(len(node.inputs))], node.attribute("axis"))]


def _pad(node: Node) -> list[Sizes | None]:
    pads = node.value(1).reshape(-1, 2)
    return [tuple(size + int(before) + int(after) for size, (before, after) in zip(node.known(), pads, strict=True))]


def _reduce(node: Node) -> list[Sizes | None]:
    axes = [int(axis) for axis in node.value(1).reshape(-1)]
    return [layout.reduced(node.sizes(), axes, keep=bool(node.attribute("keep_dims")))]


def _arg(node: Node) -> list[Sizes | None]:
    return [layout.reduced(node.sizes(), [int(node.value(1).reshape(-1)[0])], keep=False)]


def _transpose(node: Node) -> list[Sizes | None]:
    sizes = node.sizes()
    return [tuple(sizes[int(axis)] for axis in node.value(1).reshape(-1))]


def _resize(node: Node) -> list[Sizes | None]:
    batch, _, _, channels = node.sizes()
    height, width = node.value(1).reshape(-1)
    return [(batch, int(height), int(width), channels)]


def _squeeze(node: Node) -> list[Sizes | None]:
    sizes, axes = node.known(), node.attribute("squeeze_dims") or ()
    gone = {axis_of(axis, len(sizes)) for axis in axes} or {axis for axis, size in enumerate(sizes) if size == 1}
    return [tuple(size for axis, size in enumerate(sizes) if axis not in gone)]


def _expand_dims(node: Node) -> list[Sizes | None]:
    sizes = node.sizes()
    axis = axis_of(int(node.value(1).reshape(-1)[0]), len(sizes) + 1)
    return [(*sizes[:axis], 1, *sizes[axis:])]


def _depth_to_space(node: Node) -> list[Sizes | None]:
    (batch, height, width, channels), block = node.known(), node.attribute("block_size")
    return [(batch, height * block, width * block, channels // block**2)]


def _space_to_depth(node: Node) -> list[Sizes | None]:
    (batch, height, width, channels), block = node.known(), node.attribute("block_size")
    return [(batch, height // block, width // block, channels * block**2)]


def _pack(node: Node) -> list[Sizes | None]:
    sizes = node.sizes()
    axis = axis_of(node.attribute("axis"), len(sizes) + 1)
    return [(*sizes[:axis], len(node.inputs), *sizes[axis:])]


def _gather(node: Node) -> list[Sizes | None]:
    sizes, batch = node.sizes(), node.attribute("batch_dims")
    axis = axis_of(node.attribute("axis"), len(sizes))
    return [(*sizes[:axis], *node.sizes(1)[batch:], *sizes[axis + 1 :])]


def _split(node: Node) -> list[Sizes | None]:
    """The axis comes first, the tensor second."""
    sizes, parts = node.known(1), len(node.operator.outputs)
    axis = axis_of(int(node.value(0).reshape(-1)[0]), len(sizes))
    return [(*sizes[:axis], sizes[axis] // parts, *sizes[axis + 1 :])] * parts


def _shape(node: Node) -> list[Sizes | None]:
    return [(len(node.sizes()),)]


def _of_value(place: int) -> Rule:
    """The size is what an input holds."""
    return lambda node: [tuple(int(size) for size in node.value(place).reshape(-1))]


def cut(node: Node) -> Any:
    """What STRIDED_SLICE takes of a tensor, as numpy's index (kernels/internal/strided_slice_logic.h)."""
    begin, end, stride = ([int(number) for number in node.value(place).reshape(-1)] for place in (1, 2, 3))
    if node.attribute("offset"):
        end = [first + length for first, length in zip(begin, end, strict=True)]

    def has(mask: str, axis: int) -> bool:
        return bool(node.attribute(f"{mask}_mask", 0) >> axis & 1)

    def index(axis: int) -> Any:
        if has("ellipsis", axis):
            return Ellipsis
        if has("new_axis", axis):
            return np.newaxis
        if has("shrink_axis", axis):
            return begin[axis]
        first, last = (None if has(mask, axis) else given[axis] for mask, given in (("begin", begin), ("end", end)))
        return slice(first, last, stride[axis])

    return tuple(index(axis) for axis in range(len(begin)))


def _strided_slice(node: Node) -> list[Sizes | None]:
    """By a tensor of that size that takes no memory."""
    return [np.broadcast_to(np.empty((), np.bool_), node.known())[cut(node)].shape]


def _slice(node: Node) -> list[Sizes | None]:
    wanted = [int(size) for size in node.value(2).reshape(-1)]
    if -1 not in wanted:
        return [tuple(wanted)]
    begin = [int(first) for first in node.value(1).reshape(-1)]
    rests = [None if size is None else size - first for size, first in zip(node.sizes(), begin, strict=True)]
    return [tuple(rest if size == -1 else size for size, rest in zip(wanted, rests, strict=True))]


def _split_v(node: Node) -> list[Sizes | None]:
    """By sizes, one of which may be -1: the rest."""
    sizes, wanted = node.sizes(), [int(size) for size in node.value(1).reshape(-1)]
    axis = axis_of(int(node.value(2).reshape(-1)[0]), len(sizes))
    whole = sizes[axis]
    rest = None if whole is None else whole - sum(size for size in wanted if size != -1)
    return [(*sizes[:axis], rest if size == -1 else size, *sizes[axis + 1 :]) for size in wanted]


def _unpack(node: Node) -> list[Sizes | None]:
    sizes = node.sizes()
    axis = axis_of(node.attribute("axis"), len(sizes))
    return [(*sizes[:axis], *sizes[axis + 1 :])] * len(node.operator.outputs)


def _rfft(node: Node) -> list[Sizes | None]:
    """Of real numbers: half of the spectrum says all (kernels/rfft2d.cc)."""
    height, width = (int(length) for length in node.value(1).reshape(-1))
    return [(*node.sizes()[:-2], height, width // 2 + 1)]


def _transpose_convolution(node: Node) -> list[Sizes | None]:
    """The size comes first; its channels may be wrong there, and are those of the weights."""
    batch, height, width, _ = (int(size) for size in node.value(0).reshape(-1))
    return [(batch, height, width, node.sizes(1)[0])]


def _convolution_3d(node: Node) -> list[Sizes | None]:
    batch, *room, _ = node.known()
    *kernel, _, channels = node.known(1)
    places = (_places(node, size, width, side) for size, width, side in zip(room, kernel, "dhw", strict=True))
    return [(batch, *places, channels)]


def _batch_to_space(node: Node) -> list[Sizes | None]:
    batch, *sizes = node.known()
    blocks, crops = node.value(1).reshape(-1).tolist(), node.value(2).reshape(-1, 2).tolist()
    sides = [size * block - sum(crop) for size, block, crop in zip(sizes, blocks, crops, strict=False)]
    return [(batch // math.prod(blocks), *sides, *sizes[len(blocks) :])]


def _space_to_batch(node: Node) -> list[Sizes | None]:
    batch, *sizes = node.known()
    blocks, pads = node.value(1).reshape(-1).tolist(), node.value(2).reshape(-1, 2).tolist()
    sides = [(size + sum(pad)) // block for size, block, pad in zip(sizes, blocks, pads, strict=False)]
    return [(batch * math.prod(blocks), *sides, *sizes[len(blocks) :])]


def _top_k(node: Node) -> list[Sizes | None]:
    return [(*node.sizes()[:-1], int(node.value(1).reshape(-1)[0]))] * 2


def _embedding(node: Node) -> list[Sizes | None]:
    return [(*node.sizes(0), *node.sizes(1)[1:])]


def _recurrent(node: Node) -> list[Sizes | None]:
    """Steps and batch, in whatever order, and what a step gives: as wide as what goes back into the cell."""
    width = node.sizes(1)[0] if node.operator.op_type == "UNIDIRECTIONAL_SEQUENCE_RNN" else node.sizes(5)[1]
    return [(*node.sizes()[:2], width)]


def _svdf(node: Node) -> list[Sizes | None]:
    return [(node.sizes()[0], node.known(1)[0] // node.attribute("rank"))]


def _broadcast_args(node: Node) -> list[Sizes | None]:
    return [(max(node.known(0)[0], node.known(1)[0]),)]


_SAME = (
    "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "TANH", "LOGISTIC", "ELU", "HARD_SWISH", "LEAKY_RELU", "GELU",
    "SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION", "ABS", "NEG", "EXP", "LOG", "SQRT",
    "RSQRT", "SQUARE", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "LOGICAL_NOT", "CAST", "QUANTIZE", "DEQUANTIZE",
    "FAKE_QUANT", "CUMSUM", "ZEROS_LIKE", "REVERSE_V2", "PRELU", "REVERSE_SEQUENCE", "ADD_N", "DYNAMIC_UPDATE_SLICE",
    "COMPLEX_ABS", "REAL", "IMAG", "BUCKETIZE",
)  # fmt: skip
_BROADCAST = (
    "ADD", "SUB", "MUL", "DIV", "POW", "MAXIMUM", "MINIMUM", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE", "EQUAL",
    "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "LOGICAL_AND", "LOGICAL_OR", "SELECT_V2", "ATAN2",
    "BITWISE_XOR", "RIGHT_SHIFT",
)  # fmt: skip

RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_BROADCAST, _broadcast),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), _convolution),
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _pool),
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL"), _reduce),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN"), _arg),
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), _pad),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _resize),
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
    "RESHAPE": _reshape,
    "CONCATENATION": _concatenation,
    "TRANSPOSE": _transpose,
    "SQUEEZE": _squeeze,
    "EXPAND_DIMS": _expand_dims,
    "DEPTH_TO_SPACE": _depth_to_space,
    "SPACE_TO_DEPTH": _space_to_depth,
    "PACK": _pack,
    "GATHER": _gather,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "UNPACK": _unpack,
    "STRIDED_SLICE": _strided_slice,
    "SLICE": _slice,
    "SHAPE": _shape,
    "RANK": lambda _: [()],
    "RANGE": layout.range_,
    "RFFT2D": _rfft,
    "FILL": _of_value(0),
    "BROADCAST_TO": _of_value(1),
    "BROADCAST_ARGS": _broadcast_args,
    "SCATTER_ND": _of_value(2),
    "TILE": layout.tile,
    "GATHER_ND": layout.gather_nd,
    "ONE_HOT": layout.one_hot,
    "SELECT": lambda node: [node.sizes(1)],
    "TOPK_V2": _top_k,
    "EMBEDDING_LOOKUP": _embedding,
    "TRANSPOSE_CONV": _transpose_convolution,
    "CONV_3D": _convolution_3d,
    "BATCH_TO_SPACE_ND": _batch_to_space,
    "SPACE_TO_BATCH_ND": _space_to_batch,
    **dict.fromkeys(("UNIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"), _recurrent),
    "SVDF": _svdf,
    "WHERE": lambda node: [(None, len(node.sizes()))],
}


def output_sizes(node: Node) -> list[Sizes | None]:
    """Raises UnknownError, or what arithmetic on a broken node raises, where they cannot be known."""
    rule = RULES.get(node.operator.op_type) if node.operator.domain == "tflite" else None
    if rule is None:
        raise UnknownError
    return rule(node)
