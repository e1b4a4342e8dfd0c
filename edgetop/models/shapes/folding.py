"""Values of the small tensors that exporters compute shapes with.

Shapes that a model computes from others (`Shape`, `Gather`, `Mul`, `Concat` before a `Reshape`)
are known once those are. Only tensors of a few elements are worked out.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgetop.models.graph import Array, Sizes, count
from edgetop.models.limits import MAX_VALUE_ELEMENTS
from edgetop.models.onnx_values import Constant
from edgetop.models.shapes import tflite_rules
from edgetop.models.shapes.facts import Node, UnknownError, broadcast, complete

Fold = Callable[[Node, tuple[int, ...]], Sequence[Any]]  # of a node and the size of its first output


def _elementwise(function: Any) -> Fold:
    return lambda node, _: [function(*(node.value(place) for place in range(len(node.inputs))))]


def _as_shaped(node: Node, sizes: tuple[int, ...]) -> Sequence[Any]:
    return [node.value(0).reshape(sizes)]


def _shape(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    sizes = node.known()
    return [np.asarray(sizes[node.attribute("start", 0) : node.attribute("end", len(sizes))], np.int64)]


def _size(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    return [np.asarray(count(node.known()), np.int64)]


def _gather(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    return [np.take(node.value(0), node.value(1), axis=node.attribute("axis", 0))]


def _concat(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    values = [node.value(place) for place in range(len(node.inputs))]
    return [np.concatenate(values, axis=node.attribute("axis", 0))]


def _slice(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    value = node.value(0)
    starts, ends = node.ints("starts", 1) or [], node.ints("ends", 2) or []
    axes = node.ints("axes", 3) or range(len(starts))
    steps = node.ints("steps", 4) or [1] * len(starts)
    cuts = [slice(None)] * value.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cuts[axis] = slice(start, end, step)
    # A slice that ends before the first element, going backwards, is written with a far negative end.
    return [value[tuple(cuts)]]


def _split(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    value, given = node.value(0), node.ints("split", 1)
    parts: Any = len(node.operator.outputs) if given is None else np.cumsum(given)[:-1]
    return np.array_split(value, parts, axis=node.attribute("axis", 0))


def _cast(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    return [node.value(0).astype(_CASTS[node.attribute("to", 0)])]


_CASTS = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_, 11: np.float64}


def _constant_of_shape(node: Node, sizes: tuple[int, ...]) -> Sequence[Any]:
    value = node.attribute("value")
    if not isinstance(value, Constant):
        return [np.zeros(sizes, np.float32)]
    if value.tensor.value is None:
        raise UnknownError
    return [np.full(sizes, value.tensor.value.reshape(-1)[0])]


def _range(node: Node, sizes: tuple[int, ...]) -> Sequence[Any]:
    start, _, step = (node.value(place).reshape(-1)[0] for place in range(3))
    return [start + step * np.arange(sizes[0], dtype=np.asarray(start).dtype)]


def _reduce(function: Callable[..., Any]) -> Fold:
    def fold(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
        value, axes = node.value(0), node.ints("axes", 1)
        if not axes and node.attribute("noop_with_empty_axes", 0):
            return [value]
        keep = bool(node.attribute("keepdims", 1))
        return [function(value, axis=tuple(axes) if axes else None, keepdims=keep)]

    return fold


def _divide(a: Array, b: Array) -> Any:
    if a.dtype.kind == "f":
        return a / b
    if not b.all():
        raise UnknownError
    return np.trunc(a / b).astype(a.dtype) if (a < 0).any() or (b < 0).any() else a // b


def _floor_divide(a: Array, b: Array) -> Any:
    if not b.all():
        raise UnknownError
    return np.floor_divide(a, b)


FOLDS: dict[str, Fold] = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Cast": _cast,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"), _as_shaped),
    "Transpose": lambda node, _: [np.transpose(node.value(0), node.attribute("perm"))],
    "Expand": lambda node, sizes: [np.broadcast_to(node.value(0), sizes)],
    "Tile": lambda node, _: [np.tile(node.value(0), node.value(1).reshape(-1))],
    "NonZero": lambda node, _: [np.stack(np.nonzero(node.value(0))).astype(np.int64)],
    "Where": _elementwise(np.where),
    "Div": _elementwise(_divide),
    "Mod": lambda node, _: [(np.fmod if node.attribute("fmod", 0) else np.mod)(node.value(0), node.value(1))],
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
    "ReduceMax": _reduce(np.max),
    "ReduceMin": _reduce(np.min),
    **{
        name: _elementwise(function)
        for name, function in {
            "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Pow": np.power,
            "Neg": np.negative, "Abs": np.abs, "Floor": np.floor, "Ceil": np.ceil, "Round": np.round, "Sqrt": np.sqrt,
            "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
            "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or, "Not": np.logical_not,
            "Max": np.maximum, "Min": np.minimum,
        }.items()
    },
}  # fmt: skip


def _cut(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    return [node.value(0)[tflite_rules.cut(node)]]


def _cut_to_size(node: Node, sizes: tuple[int, ...]) -> Sequence[Any]:
    begin = [int(first) for first in node.value(1).reshape(-1)]
    return [node.value(0)[tuple(slice(a, a + size) for a, size in zip(begin, sizes, strict=True))]]


def _pack(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    return [np.stack([node.value(place) for place in range(len(node.inputs))], axis=node.attribute("axis", 0))]


def _unpack(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    value, axis = node.value(0), node.attribute("axis", 0)
    return [np.take(value, place, axis=axis) for place in range(value.shape[axis])]


def _tflite_split(tensor: int, axis: int, parts: int | None) -> Fold:
    """`parts`: the input that says how large each is; None: they are alike."""

    def fold(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
        value, along = node.value(tensor), int(node.value(axis).reshape(-1)[0])
        if parts is None:
            return np.split(value, len(node.operator.outputs), axis=along)
        given = node.value(parts).astype(np.int64)
        given[given == -1] = value.shape[along] - given[given != -1].sum()
        return np.split(value, np.cumsum(given)[:-1], axis=along)

    return fold


def _tflite_gather(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    if node.attribute("batch_dims"):
        raise UnknownError
    return [np.take(node.value(0), node.value(1), axis=node.attribute("axis", 0))]


def _tflite_reduce(function: Callable[..., Any]) -> Fold:
    return lambda node, _: [
        function(node.value(0), axis=tuple(node.value(1).reshape(-1)), keepdims=bool(node.attribute("keep_dims")))
    ]


TFLITE_FOLDS: dict[str, Fold] = {
    "SHAPE": lambda node, _: [np.asarray(node.known(), np.int64)],
    "RANK": lambda node, _: [np.asarray(len(node.sizes()), np.int32)],
    "STRIDED_SLICE": _cut,
    "SLICE": _cut_to_size,
    "PACK": _pack,
    "UNPACK": _unpack,
    "SPLIT": _tflite_split(1, 0, None),
    "SPLIT_V": _tflite_split(0, 2, 1),
    "CONCATENATION": _concat,
    "GATHER": _tflite_gather,
    "RANGE": _range,
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), _as_shaped),
    "CAST": lambda node, _: [node.value(0)],  # to the dtype that stands in the file
    "TRANSPOSE": lambda node, _: [np.transpose(node.value(0), node.value(1))],
    "BROADCAST_TO": lambda node, sizes: [np.broadcast_to(node.value(0), sizes)],
    "BROADCAST_ARGS": lambda node, _: [np.asarray(broadcast(node.value(0).tolist(), node.value(1).tolist()))],
    "FILL": lambda node, sizes: [np.full(sizes, node.value(1))],
    "TILE": lambda node, _: [np.tile(node.value(0), node.value(1).reshape(-1))],
    **dict.fromkeys(("SELECT", "SELECT_V2"), _elementwise(np.where)),
    "DIV": _elementwise(_divide),
    "FLOOR_DIV": _elementwise(_floor_divide),
    "FLOOR_MOD": _elementwise(np.mod),
    "REDUCE_PROD": _tflite_reduce(np.prod),
    "SUM": _tflite_reduce(np.sum),
    "REDUCE_MAX": _tflite_reduce(np.max),
    "REDUCE_MIN": _tflite_reduce(np.min),
    **{
        name: _elementwise(function)
        for name, function in {
            "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "POW": np.power, "NEG": np.negative, "ABS": np.abs,
            "MAXIMUM": np.maximum, "MINIMUM": np.minimum, "FLOOR": np.floor, "CEIL": np.ceil, "ROUND": np.round,
            "EQUAL": np.equal, "NOT_EQUAL": np.not_equal, "LESS": np.less, "LESS_EQUAL": np.less_equal,
            "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal, "LOGICAL_AND": np.logical_and,
            "LOGICAL_OR": np.logical_or, "LOGICAL_NOT": np.logical_not,
        }.items()
    },
}  # fmt: skip


def folded(node: Node, sizes: Sizes | None) -> list[Array]:
    """Values of the outputs. Raises what numpy raises, or UnknownError, where they cannot be known.

    Nothing is computed unless its size is known to be small; NonZero's is bounded by its input's.
    """
    fold = (TFLITE_FOLDS if node.operator.domain == "tflite" else FOLDS)[node.operator.op_type]
    wanted = () if node.operator.op_type == "NonZero" else complete((None,) if sizes is None else sizes)
    elements = count(wanted)
    if elements is None or elements > MAX_VALUE_ELEMENTS:
        raise UnknownError
    with np.errstate(all="ignore"):
        values = [np.asarray(value) for value in fold(node, wanted)]
    if sum(value.size for value in values) > MAX_VALUE_ELEMENTS:
        raise UnknownError
    return values
