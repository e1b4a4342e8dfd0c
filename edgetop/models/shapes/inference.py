"""Works out the shape, dtype and, where small, the value of every tensor, operator by operator.

A TFLite file holds the shapes itself. Those that it leaves open, or that inputs of other sizes change, only its
runtime knows (`edgetop.engines.process`).
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from edgetop.models.graph import OMITTED, Array, Graph, Model, Shape, Sizes, Tensor, input_names, tensors_by_value
from edgetop.models.limits import BROKEN_NODE, MAX_RANK
from edgetop.models.onnx_values import DTYPES, Constant
from edgetop.models.shapes import onnx_rules
from edgetop.models.shapes.folding import FOLDS, folded
from edgetop.models.shapes.node import Node, UnknownError
from edgetop.models.shapes.onnx_rules import RULES as SIZES

# The dtype of each output. Source: the type constraints of onnx/docs/Operators.md and ContribOperators.md.

Rule = Callable[[Node], list[str | None]]


def _always(*dtypes: str) -> Rule:
    return lambda _: [*dtypes]


def _of_input(*places: int) -> Rule:
    return lambda node: [node.tensor(place).dtype for place in places]


def _of_zero_point(place: int, otherwise: str) -> Rule:
    """Return the rule for an output with the dtype of its zero point, or `otherwise` where that is left out."""
    return lambda node: [node.tensor(place).dtype if node.has(place) else otherwise]


def _quantised(node: Node) -> list[str | None]:
    if node.has(2):
        return [node.tensor(2).dtype]
    return [DTYPES.get(node.attribute("output_dtype", 0), "uint8")]


def _constant_of_shape(node: Node) -> list[str | None]:
    value = node.attribute("value")
    return [value.tensor.dtype if isinstance(value, Constant) else "float32"]


_COMPARISONS = (
    "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf",
)  # fmt: skip
_INDICES = ("Shape", "Size", "ArgMax", "ArgMin", "NonZero", "NonMaxSuppression")
_GENERATORS = ("EyeLike", "Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")

DTYPE_RULES: dict[str, Rule] = {
    **dict.fromkeys(_COMPARISONS, _always("bool")),
    **dict.fromkeys(_INDICES, _always("int64")),
    **dict.fromkeys(("ConvInteger", "MatMulInteger"), _always("int32")),
    "Cast": lambda node: [DTYPES.get(node.attribute("to", 0))],
    "CastLike": _of_input(1),
    "Where": _of_input(1),
    "OneHot": _of_input(2),
    "TopK": lambda node: [node.tensor(0).dtype, "int64"],
    "MaxPool": lambda node: [node.tensor(0).dtype, "int64"],
    "Dropout": lambda node: [node.tensor(0).dtype, "bool"],
    "ConstantOfShape": _constant_of_shape,
    # Of generators: the attribute, else what a tensor they are to be like is, else float.
    **dict.fromkeys(
        _GENERATORS,
        lambda node: [DTYPES.get(node.attribute("dtype", 0), node.tensor(0).dtype if node.has(0) else "float32")],
    ),
    "QuantizeLinear": _quantised,
    "DequantizeLinear": _of_input(1),
    "DynamicQuantizeLinear": _always("uint8", "float32", "uint8"),
    "QLinearConv": _of_zero_point(7, "uint8"),
    "QLinearMatMul": _of_zero_point(7, "uint8"),
    "QLinearConcat": _of_zero_point(1, "uint8"),
    "QGemm": _of_zero_point(8, "float32"),
    "MatMulIntegerToFloat": _of_input(2),
    "DynamicQuantizeMatMul": _of_input(0),
    "QAttention": _of_input(2),
    "EmbedLayerNormalization": _of_input(2),
}


def output_dtypes(node: Node) -> list[str | None]:
    """An operator that has a rule for its sizes alone gives the dtype of its first input."""
    rule = DTYPE_RULES.get(node.operator.op_type)
    if rule is not None:
        return rule(node)
    if node.operator.op_type not in SIZES:
        raise UnknownError
    first = node.tensor(0).dtype if node.has(0) else None
    return [first] * len(node.operator.outputs)


T = TypeVar("T")

_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}

# Of operators on constants alone, the only ones that TFLite's kernels compute once and keep
# (tensorflow/lite/kernels/dequantize.cc, densify.cc).
_CACHED_BY_TFLITE = {"DEQUANTIZE", "DENSIFY"}


class Result(NamedTuple):
    """The sizes, the dtype and the value that the rules give for one output; None: unknown."""

    sizes: Sizes | None = None
    dtype: str | None = None
    value: Array | None = None


def with_shapes(
    model: Model, inputs: Mapping[str, Sequence[int]], measured: Mapping[int, tuple[int, ...]] | None = None
) -> Model:
    """The model with every shape that follows from those of its inputs, given by name.

    Sizes that do not follow are None. What an operator computes from constants alone is
    constant too: runtimes compute it once, when they load the model. `measured`: shapes of a TFLite model's tensors
    in its runtime, by their places.
    """
    tensors = _onnx(model, inputs) if model.format == "onnx" else _tflite(model, inputs, measured or {})
    return replace(model, graph=replace(model.graph, tensors=tuple(tensors)))


def _onnx(model: Model, inputs: Mapping[str, Sequence[int]]) -> list[Tensor]:
    graph = model.graph
    names = _named_sizes(graph, inputs)
    tensors = []
    for tensor in graph.tensors:
        sizes = [names.get(dim) if isinstance(dim, str) else dim for dim in tensor.shape or ()]
        tensors.append(replace(tensor, shape=None if tensor.shape is None else tuple(sizes)))
    for place in _overruled(graph):
        tensors[place] = replace(tensors[place], shape=None)
    for place in graph.inputs:
        given = inputs.get(tensors[place].name)
        if given is not None:
            tensors[place] = replace(tensors[place], shape=tuple(given))
    for operator in graph.operators:
        node = Node.of(operator, tensors)
        is_constant = _is_constant(node)
        for place, result in zip(operator.outputs, _outputs(node), strict=False):
            if place != OMITTED and not tensors[place].is_constant:
                tensors[place] = replace(_merged(result, tensors[place]), is_constant=is_constant)
    return tensors


def _overruled(graph: Graph) -> set[int]:
    """Outputs of the model whose declared sizes are not used where the rule of their operator gives none.

    Where inputs are open, exporters write of outputs what they saw, or a name that nobody checks: [batch] of 4.
    Of an operator without a rule there is nothing better.
    """
    if all(isinstance(dim, int) for place in graph.inputs for dim in graph.tensors[place].shape or ()):
        return set()
    ruled = (op for op in graph.operators if op.domain in onnx_rules.DOMAINS and op.op_type in onnx_rules.RULES)
    return set(graph.outputs) & {place for op in ruled for place in op.outputs}


def _outputs(node: Node) -> list[Result]:
    number = len(node.operator.outputs)
    if node.operator.domain not in onnx_rules.DOMAINS:
        return [Result()] * number
    sizes = _attempt(onnx_rules.output_sizes, node, number)
    dtypes = _attempt(output_dtypes, node, number)
    results = [Result(_possible(size), dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    if not results or node.operator.op_type not in FOLDS:
        return results
    try:
        values = folded(node, results[0].sizes)
    except BROKEN_NODE:
        return results
    return [
        output if value is None else Result(value.shape, output.dtype, value)
        for output, value in zip_longest(results, values[:number])
    ]


def _possible(sizes: Sizes | None) -> Sizes | None:
    """The sizes where a tensor can have them: a broken node's attributes may have put anything into them."""
    if sizes is None or len(sizes) > MAX_RANK:
        return None
    is_possible = all(size is None or (isinstance(size, int) and size >= 0) for size in sizes)
    return sizes if is_possible else None


def _attempt(rule: Callable[[Node], list[T | None]], node: Node, number: int) -> list[T | None]:
    """The rule's results for `number` outputs; None for each that it cannot give."""
    results: list[T | None] = []
    with contextlib.suppress(*BROKEN_NODE):
        results = rule(node)
    return [*results[:number], *[None] * (number - len(results))]


def _named_sizes(graph: Graph, inputs: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The size of every dimension with a name. A name that inputs use for unlike sizes says nothing."""
    by_name: dict[str, set[int]] = {}
    for place in graph.inputs:
        tensor = graph.tensors[place]
        for dim, size in zip(tensor.shape or (), inputs.get(tensor.name, ()), strict=False):
            if isinstance(dim, str):
                by_name.setdefault(dim, set()).add(size)
    return {name: sizes.pop() for name, sizes in by_name.items() if len(sizes) == 1}


def _merged(result: Result, declared: Tensor) -> Tensor:
    """The rule's result, and where it has none what the file says (value_info)."""
    sizes, stated = result.sizes, declared.shape
    shape: Shape | None = stated if sizes is None else sizes
    if sizes is not None and stated is not None and len(stated) == len(sizes):
        shape = tuple(b if a is None else a for a, b in zip(sizes, stated, strict=True))
    return replace(declared, shape=shape, dtype=result.dtype or declared.dtype, value=result.value)


def _is_constant(node: Node) -> bool:
    """Whether ONNX Runtime computes it once, at load.

    core/optimizer/constant_folding.cc, which leaves DequantizeLinear to be fused with what follows.
    """
    operator = node.operator
    if operator.domain not in onnx_rules.DOMAINS or operator.subgraphs or operator.op_type in _RANDOM:
        return False
    given = [tensor for tensor in node.inputs if tensor is not None]
    return operator.op_type != "DequantizeLinear" and bool(given) and all(tensor.is_constant for tensor in given)


def _tflite(model: Model, inputs: Mapping[str, Sequence[int]], measured: Mapping[int, tuple[int, ...]]) -> list[Tensor]:
    """Shapes of the file, or those that its runtime measured; unknown where inputs that were resized change them."""
    graph, tensors = model.graph, list(model.graph.tensors)
    changed: set[int] = set()
    only_open = True
    for place, name in zip(graph.inputs, input_names(model), strict=True):
        stored = tensors[place].shape
        given: Shape = tuple(inputs.get(name, stored or ()))
        if given != stored:
            only_open = only_open and stored is not None and len(given) == len(stored)
            only_open = only_open and all(b in {None, a} for a, b in zip(given, stored or (), strict=True))
            tensors[place] = replace(tensors[place], shape=given)
            changed.add(place)
    by_value = tensors_by_value(model)
    for operator in graph.operators:
        is_changed = not changed.isdisjoint(operator.inputs)
        is_cached = operator.op_type in _CACHED_BY_TFLITE and all(
            tensors[place].is_constant for place in operator.inputs if place != OMITTED
        )
        for place in operator.outputs:
            if place == OMITTED or tensors[place].is_constant:
                continue
            shape = None if is_changed and not only_open else tensors[place].shape
            shape = shape if place in by_value else measured.get(place, shape)
            tensors[place] = replace(tensors[place], shape=shape, is_constant=is_cached)
            if is_changed:
                changed.add(place)
    return tensors
