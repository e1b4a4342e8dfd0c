"""Rules for the output sizes of ONNX operators that move, cut, join or repeat elements (onnx/docs/Operators.md).

Each rule returns a list with one shape for each output.
"""

import math

import numpy as np

from edgetop.models.graph import Sizes, count
from edgetop.models.shapes.node import Node, UnknownError, axis_of, complete


def reshape(node: Node) -> list[Sizes | None]:
    wanted = node.ints("shape", 1)
    if wanted is None:
        raise UnknownError
    sizes = node.sizes()
    if not node.attribute("allowzero", 0):
        wanted = [_copied(sizes, axis) if size == 0 else size for axis, size in enumerate(wanted)]
    return [filled(sizes, wanted)]


def _copied(sizes: Sizes, axis: int) -> int:
    size = sizes[axis]
    if size is None:
        raise UnknownError
    return size


def filled(sizes: Sizes, wanted: list[int]) -> Sizes:
    """Return the shape `wanted`, with -1 replaced by the size that gives as many elements as `sizes` has.

    Raises UnknownError if there is no such size.

    >>> filled((2, 3, 4), [6, -1])
    (6, 4)
    """
    elements = count(sizes)
    rest = math.prod(size for size in wanted if size != -1)
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        raise UnknownError
    if elements is None:
        return tuple(None if size == -1 else size for size in wanted)
    missing = elements // rest if rest else 0
    result = tuple(missing if size == -1 else size for size in wanted)
    if math.prod(result) != elements:
        raise UnknownError
    return result


def flatten(node: Node) -> list[Sizes | None]:
    sizes, axis = node.sizes(), node.attribute("axis", 1)
    axis = axis if axis >= 0 else axis + len(sizes)
    return [(count(sizes[:axis]), count(sizes[axis:]))]


def squeeze(node: Node) -> list[Sizes | None]:
    sizes, axes = node.sizes(), node.ints("axes", 1)
    if axes is None:
        return [tuple(size for size in complete(sizes) if size != 1)]
    removed = {axis_of(axis, len(sizes)) for axis in axes}
    return [tuple(size for axis, size in enumerate(sizes) if axis not in removed)]


def unsqueeze(node: Node) -> list[Sizes | None]:
    left, axes = list(node.sizes()), node.ints("axes", 1) or []
    rank = len(left) + len(axes)
    new = {axis_of(axis, rank) for axis in axes}
    return [tuple(1 if axis in new else left.pop(0) for axis in range(rank))]


def transpose(node: Node) -> list[Sizes | None]:
    sizes = node.sizes()
    order = node.attribute("perm", tuple(reversed(range(len(sizes)))))
    if sorted(order) != list(range(len(sizes))):
        raise UnknownError
    return [tuple(sizes[axis] for axis in order)]


def joined(parts: list[Sizes], axis: int) -> Sizes:
    rank = len(parts[0])
    if any(len(part) != rank for part in parts):
        raise UnknownError
    axis = axis_of(axis, rank)
    along = [part[axis] for part in parts]
    total = None if None in along else sum(complete(along))
    columns = [next((part[i] for part in parts if part[i] is not None), None) for i in range(rank)]
    return (*columns[:axis], total, *columns[axis + 1 :])


def split(node: Node) -> list[Sizes | None]:
    sizes, given = node.sizes(), node.ints("split", 1)
    axis = axis_of(node.attribute("axis", 0), len(sizes))
    parts = len(node.operator.outputs)
    if given is None:
        whole = sizes[axis]
        if whole is None:
            raise UnknownError
        each = -(-whole // parts)
        given = [min(each, whole - each * i) for i in range(parts)]
    return [(*sizes[:axis], size, *sizes[axis + 1 :]) for size in given]


def slice_(node: Node) -> list[Sizes | None]:
    sizes = list(node.sizes())
    starts, ends = node.ints("starts", 1), node.ints("ends", 2)
    if starts is None or ends is None:
        raise UnknownError
    axes = node.ints("axes", 3) or list(range(len(starts)))
    steps = node.ints("steps", 4) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = axis_of(axis, len(sizes))
        size = sizes[place]
        sizes[place] = None if size is None else len(range(*slice(start, end, step).indices(size)))
    return [tuple(sizes)]


def gather(node: Node) -> list[Sizes | None]:
    sizes, axis = node.sizes(), node.attribute("axis", 0)
    axis = axis_of(axis, len(sizes))
    return [(*sizes[:axis], *node.sizes(1), *sizes[axis + 1 :])]


def gather_nd(node: Node) -> list[Sizes | None]:
    sizes, indices, batch = node.sizes(), node.sizes(1), node.attribute("batch_dims", 0)
    last = indices[-1]
    if last is None:
        raise UnknownError
    return [(*indices[:-1], *sizes[batch + last :])]


def pad(node: Node) -> list[Sizes | None]:
    sizes = list(node.sizes())
    pads = node.ints("pads", 1) or node.ints("paddings", 1)
    axes = node.ints("axes", 3) or list(range(len(sizes)))
    if pads is None or len(pads) != 2 * len(axes):
        raise UnknownError
    for i, axis in enumerate(axes):
        size = sizes[axis_of(axis, len(sizes))]
        sizes[axis] = None if size is None else size + pads[i] + pads[i + len(axes)]
    return [tuple(sizes)]


def resize(node: Node) -> list[Sizes | None]:
    """Return, in a list, the shape of the output of Resize, or of its older form Upsample.

    An input gives the new sizes or the scales, for all axes or for some.
    """
    sizes = node.full_sizes()
    if node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise UnknownError
    axes = node.attribute("axes", tuple(range(len(sizes))))
    result = list(sizes)
    if node.has(3):
        wanted = [int(size) for size in node.value(3).reshape(-1)]
    else:
        scales = _scales(node)
        wanted = [math.floor(sizes[axis] * scale) for axis, scale in zip(axes, scales, strict=True)]
    for axis, size in zip(axes, wanted, strict=True):
        result[axis] = size
    return [tuple(result)]


def _scales(node: Node) -> list[float]:
    given = node.attribute("scales")
    if given is None:
        place = 1 if node.operator.op_type == "Upsample" or len(node.inputs) == 2 else 2
        given = node.value(place)
    return [float(scale) for scale in np.ravel(given)]


def depth_to_space(node: Node) -> list[Sizes | None]:
    batch, channels, *sides = node.full_sizes()
    block = node.attribute("blocksize", 1)
    return [(batch, channels // block**2, *(side * block for side in sides))]


def space_to_depth(node: Node) -> list[Sizes | None]:
    batch, channels, *sides = node.full_sizes()
    block = node.attribute("blocksize", 1)
    return [(batch, channels * block**2, *(side // block for side in sides))]


def range_(node: Node) -> list[Sizes | None]:
    # Python's numbers, whose arithmetic raises errors when numpy's only warns.
    start, limit, step = (node.value(place).reshape(-1)[0].item() for place in range(3))
    return [(max(0, math.ceil((limit - start) / step)),)]


def one_hot(node: Node) -> list[Sizes | None]:
    sizes, depth = list(node.sizes()), int(node.value(1).reshape(-1)[0])
    axis = axis_of(node.attribute("axis", -1), len(sizes) + 1)
    return [(*sizes[:axis], depth, *sizes[axis:])]


def top_k(node: Node) -> list[Sizes | None]:
    sizes, k = list(node.sizes()), node.ints("k", 1)
    if k is None:
        raise UnknownError
    sizes[axis_of(node.attribute("axis", -1), len(sizes))] = k[0]
    return [tuple(sizes)] * 2


def reduce(node: Node) -> list[Sizes | None]:
    sizes, axes = node.sizes(), node.ints("axes", 1)
    if not axes and node.attribute("noop_with_empty_axes", 0):
        return [sizes]
    return [reduced(sizes, axes or list(range(len(sizes))), keep=bool(node.attribute("keepdims", 1)))]


def reduced(sizes: Sizes, axes: list[int], *, keep: bool) -> Sizes:
    removed = {axis_of(axis, len(sizes)) for axis in axes}
    return tuple(1 if axis in removed else size for axis, size in enumerate(sizes) if keep or axis not in removed)


def arg_reduce(node: Node) -> list[Sizes | None]:
    return [reduced(node.sizes(), [node.attribute("axis", 0)], keep=bool(node.attribute("keepdims", 1)))]


def concat(node: Node) -> list[Sizes | None]:
    return [joined([node.sizes(place) for place in range(len(node.inputs))], node.attribute("axis", 1))]


def quantised_concat(node: Node) -> list[Sizes | None]:
    """Return, in a list, the shape of the output of QLinearConcat, which joins quantised tensors.

    Inputs are scale and zero point of the output, and then tensor, scale and zero point of each joined tensor.
    """
    return [joined([node.sizes(place) for place in range(2, len(node.inputs), 3)], node.attribute("axis", 1))]


def tile(node: Node) -> list[Sizes | None]:
    times = node.value(1).reshape(-1)
    return [tuple(size * int(number) for size, number in zip(node.full_sizes(), times, strict=True))]


def constant_of_shape(node: Node) -> list[Sizes | None]:
    return [tuple(int(size) for size in node.value(0).reshape(-1))]


def shape(node: Node) -> list[Sizes | None]:
    rank = len(node.sizes())
    return [(len(range(rank)[node.attribute("start", 0) : node.attribute("end", rank)]),)]


def layer_norm(node: Node) -> list[Sizes | None]:
    """Return the shapes of the three outputs of LayerNormalization: the result, the means and the deviations."""
    sizes = node.sizes()
    axis = node.attribute("axis", -1) % len(sizes)
    part = (*sizes[:axis], *(1 for _ in sizes[axis:]))
    return [sizes, part, part]


def skip_norm(node: Node) -> list[Sizes | None]:
    return [node.sizes(), None, None, node.sizes()]


def pooled_regions(node: Node) -> list[Sizes | None]:
    """Return, in a list, the shape of the output of RoiAlign or MaxRoiPool, which pool regions of an image."""
    sides = node.attribute("pooled_shape", (node.attribute("output_height", 1), node.attribute("output_width", 1)))
    return [(node.sizes(1)[0], node.sizes()[1], *sides)]


def from_attribute(node: Node) -> list[Sizes | None]:
    given = node.attribute("shape")
    if given is None:
        raise UnknownError
    return [tuple(given)]
