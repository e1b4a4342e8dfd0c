"""Compute the values of small tensors from which models compute shapes, as by `Shape`, `Gather`, `Mul`
and `Concat` before a `Reshape`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgetop.models.graph import Array, Sizes, count
from edgetop.models.onnx_values import Constant
from edgetop.models.reading_limits import MAX_VALUE_ELEMENTS
from edgetop.models.shapes.node import Node, UnknownError, complete

Fold = Callable[[Node, tuple[int, ...]], Sequence[Any]]  # takes a node and the sizes of its first output


def _values(node: Node) -> list[Array]:
    return [node.value(place) for place in range(len(node.inputs))]


def _elementwise(function: Any) -> Fold:
    return lambda node, _: [function(*_values(node))]


def _shape(node: Node, _: tuple[int, ...]) -> Sequence[Any]:
    sizes = node.full_sizes()
    return [np.asarray(sizes[node.attribute("start", 0) : node.attribute("end", len(sizes))], np.int64)]


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


FOLDS: dict[str, Fold] = {
    "Shape": _shape,
    "Size": lambda node, _: [np.asarray(count(node.full_sizes()), np.int64)],
    "Gather": lambda node, _: [np.take(node.value(0), node.value(1), axis=node.attribute("axis", 0))],
    "Concat": lambda node, _: [np.concatenate(_values(node), axis=node.attribute("axis", 0))],
    "Slice": _slice,
    "Split": _split,
    "Cast": lambda node, _: [node.value(0).astype(_CASTS[node.attribute("to", 0)])],
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    **dict.fromkeys(
        ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity"), lambda node, sizes: [node.value(0).reshape(sizes)]
    ),
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


def folded(node: Node, sizes: Sizes | None) -> list[Array]:
    """Return the value of each output of an operator, computed from the values of its inputs.

    `sizes` is the shape of the first output. Raises UnknownError if this shape is needed and unknown, or if an output
    is too large. Errors of numpy pass through.
    """
    fold = FOLDS[node.operator.op_type]
    wanted = () if node.operator.op_type == "NonZero" else complete((None,) if sizes is None else sizes)
    elements = count(wanted)
    if elements is None or elements > MAX_VALUE_ELEMENTS:
        raise UnknownError
    with np.errstate(all="ignore"):
        values = [np.asarray(value) for value in fold(node, wanted)]
    if sum(value.size for value in values) > MAX_VALUE_ELEMENTS:
        raise UnknownError
    return values
