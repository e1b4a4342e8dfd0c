"""Determine the shapes in a model of OpenVINO whose inputs have open sizes, from sizes that are given for these inputs.

The file has -1 for each size that follows from an open input. Sizes that follow from values, such as those of a Reshape
to a computed shape, stay unknown. Operators: openvino/docs/articles_en/documentation/openvino-ir-format/operation-sets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from edgetop.models.graph import OMITTED, Graph, Operator, Shape, Sizes, Tensor, count

_SAME = frozenset(
    [
        "relu",
        "prelu",
        "elu",
        "selu",
        "sigmoid",
        "hsigmoid",
        "tanh",
        "softplus",
        "softsign",
        "clamp",
        "gelu",
        "hswish",
        "mish",
        "swish",
        "abs",
        "negative",
        "sign",
        "exp",
        "log",
        "sqrt",
        "floor",
        "ceiling",
        "round",
        "erf",
        "sin",
        "cos",
        "tan",
        "softmax",
        "logsoftmax",
        "mvn",
        "normalizel2",
        "batchnorminference",
        "lrn",
        "fakequantize",
        "convert",
        "convertlike",
        "cumsum",
        "logicalnot",
        "groupnormalization",
        "reversesequence",
        "assign",
    ]
)
_BROADCAST = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "power",
        "maximum",
        "minimum",
        "mod",
        "floormod",
        "squareddifference",
        "equal",
        "notequal",
        "less",
        "lessequal",
        "greater",
        "greaterequal",
        "logicaland",
        "logicalor",
        "logicalxor",
        "select",
    ]
)
# Operators whose output has the elements of the first input, in other sizes or in another order.
_SAME_COUNT = frozenset(
    ["reshape", "transpose", "squeeze", "unsqueeze", "depthtospace", "spacetodepth", "shufflechannels"]
)
_REDUCES = "reduce"  # how the types of reductions begin
_CONVOLUTIONS = frozenset({"convolution", "groupconvolution", "maxpool", "avgpool", "binaryconvolution"})


def with_ir_shapes(graph: Graph, inputs: Mapping[str, Sequence[int]]) -> list[Tensor]:
    """Return the tensors of `graph` with the shapes that follow from `inputs`, the shape of each input by name.

    A size that cannot be determined is None. If `inputs` contradict a size in the file, tensors that depend on `inputs`
    have the shapes of the rules alone, and not those in the file.
    """
    tensors = list(graph.tensors)
    changed: set[int] = set()
    fills_open = True  # whether sizes are only given where the file leaves them open
    for place in graph.inputs:
        stated, given = tensors[place].shape, inputs.get(tensors[place].name)
        if given is None or stated == tuple(given):
            continue
        fills_open &= stated is not None and len(stated) == len(given)
        fills_open &= all(b in (None, a) for a, b in zip(given, stated or (), strict=False))
        tensors[place] = replace(tensors[place], shape=tuple(given))
        changed.add(place)
    for operator in graph.operators:
        if changed.isdisjoint(operator.inputs):
            continue
        read = [tensors[place].shape for place in operator.inputs if place != OMITTED]
        before = [graph.tensors[place].shape for place in operator.inputs if place != OMITTED]
        for number, place in enumerate(operator.outputs):
            stated = graph.tensors[place].shape
            has_rule = number == 0 or operator.op_type == "MaxPool"  # whose second output are the places of the largest
            found = _ruled(operator, [_sizes(shape) for shape in read], _sizes(stated)) if has_rule else None
            if fills_open:
                found = _filled(_sizes(stated), found, operator, _sizes(read[0]), _sizes(before[0]))
            tensors[place] = replace(tensors[place], shape=found)
            changed.add(place)
    return tensors


def _sizes(shape: Shape | None) -> Sizes | None:
    return None if shape is None else tuple(size if isinstance(size, int) else None for size in shape)


def _ruled(operator: Operator, read: Sequence[Sizes | None], stated: Sizes | None) -> Sizes | None:
    """Return the sizes of an operator's output by the rule for its type, or None without a rule.

    `read` are the sizes of the inputs, and `stated` the sizes of the output in the file.
    """
    kind = operator.op_type.lower()
    rule = RULES.get(kind)
    if rule is None or not read or read[0] is None:
        return None
    try:
        return rule(operator, read, stated)
    except (ValueError, IndexError, TypeError, KeyError, ZeroDivisionError):  # a file that contradicts itself
        return None


def _filled(
    stated: Sizes | None, ruled: Sizes | None, operator: Operator, read: Sizes | None, before: Sizes | None
) -> Sizes | None:
    """Return the sizes of an output, with the unknown sizes (None) of `stated` filled in where possible.

    `stated` are the output's sizes in the file, and `ruled` are its sizes by the operator's rule. `before` and `read`
    are the sizes of the operator's first input: `before` in the file, `read` in the run. An unknown size comes from
    `ruled`, or else, for operators that keep sizes of their first input, from `read`.
    """
    if stated is None or None not in stated:
        return stated if stated is not None else ruled
    if ruled is not None and len(ruled) == len(stated):
        return tuple(a if a is not None else b for a, b in zip(stated, ruled, strict=True))
    if read is None or before is None:
        return stated
    kind, open_at = operator.op_type.lower(), [at for at, size in enumerate(stated) if size is None]
    if kind in _SAME_COUNT:
        elements = count(read)
        known = count(tuple(size for size in stated if size is not None))
        if len(open_at) == 1 and elements is not None and known and elements % known == 0:
            return tuple(elements // known if size is None else size for size in stated)
    if kind.startswith(_REDUCES) and len(stated) < len(read):
        # The sizes that stay have their order; if as many are open as before, each is the same one.
        filled = iter(b for a, b in zip(before, read, strict=True) if a is None)
        if len(open_at) == before.count(None):
            return tuple(next(filled) if size is None else size for size in stated)
    # Other operators keep the first size, which is the batch, and reductions the sizes that they do not reduce.
    keeps = len(stated) if kind.startswith(_REDUCES) and len(stated) == len(read) else 1
    return tuple(
        read[at] if size is None and at < keeps and at < len(read) and before[at] is None else size
        for at, size in enumerate(stated)
    )


def _same(_operator: Operator, read: Sequence[Sizes | None], _stated: Sizes | None) -> Sizes | None:
    return read[0]


def _broadcast(_operator: Operator, read: Sequence[Sizes | None], _stated: Sizes | None) -> Sizes | None:
    known = [sizes for sizes in read if sizes is not None]
    if len(known) < len(read):
        return None
    rank = max(map(len, known))
    result = []
    for at in range(rank):
        column = [sizes[at - rank + len(sizes)] for sizes in known if at - rank + len(sizes) >= 0]
        largest = {size for size in column if size != 1}
        result.append(1 if not largest else largest.pop() if len(largest) == 1 else None)
    return tuple(result)


def _matmul(operator: Operator, read: Sequence[Sizes | None], stated: Sizes | None) -> Sizes | None:
    a, b = read[0], read[1]
    if a is None or b is None or len(a) < 2 or len(b) < 2:
        return None
    rows = a[-1] if operator.attributes.get("transpose_a") == "true" else a[-2]
    columns = b[-2] if operator.attributes.get("transpose_b") == "true" else b[-1]
    before = _broadcast(operator, (a[:-2], b[:-2]), stated)
    return None if before is None else (*before, rows, columns)


def _concat(operator: Operator, read: Sequence[Sizes | None], _stated: Sizes | None) -> Sizes | None:
    known = [sizes for sizes in read if sizes is not None]
    if len(known) < len(read):
        return None
    axis = int(str(operator.attributes["axis"])) % len(known[0])
    joined = [sizes[axis] for sizes in known]
    total = None if None in joined else sum(size for size in joined if size is not None)
    return tuple(total if at == axis else size for at, size in enumerate(known[0]))


def _window(operator: Operator, read: Sequence[Sizes | None], stated: Sizes | None) -> Sizes | None:
    """Return the sizes after a convolution or a pooling: the window's number of positions along each axis.

    None if the number of dimensions, or the size of the weights, is unknown.
    """
    sizes, kind = read[0], operator.op_type.lower()
    if sizes is None or stated is None:
        return None
    rank = len(sizes) - 2
    kernel = _numbers(operator, "kernel", rank, 1)
    if kind.endswith("convolution"):
        weights = read[1]
        if weights is None or None in weights:
            return None
        kernel = [size for size in weights[-rank:] if size is not None]
    strides, dilations = _numbers(operator, "strides", rank, 1), _numbers(operator, "dilations", rank, 1)
    begin, end = _numbers(operator, "pads_begin", rank, 0), _numbers(operator, "pads_end", rank, 0)
    pads = str(operator.attributes.get("auto_pad", "explicit")).lower()
    rounds_up = str(operator.attributes.get("rounding_type", "floor")).lower().startswith("ceil")
    made: list[int | None] = []
    for at, size in enumerate(sizes[2:]):
        if size is None:
            made.append(None)
            continue
        padded = size + (begin[at] + end[at] if pads in ("explicit", "notset") else 0)
        room = padded - (kernel[at] - 1) * dilations[at] - 1 if not pads.startswith("same") else size - 1
        made.append((room + strides[at] - 1 if rounds_up else room) // strides[at] + 1 if room >= 0 else None)
    return (sizes[0], stated[1], *made)


def _numbers(operator: Operator, name: str, rank: int, otherwise: int) -> list[int]:
    words = str(operator.attributes.get(name) or "").split(",")
    given = [int(word) for word in words if word.strip()]
    return given if len(given) == rank else [otherwise] * rank


Rule = Callable[[Operator, Sequence[Sizes | None], Sizes | None], Sizes | None]
RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME, _same),
    **dict.fromkeys(_BROADCAST, _broadcast),
    **dict.fromkeys(_CONVOLUTIONS, _window),
    "matmul": _matmul,
    "concat": _concat,
}
