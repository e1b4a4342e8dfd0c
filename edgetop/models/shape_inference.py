"""Determine the shape and dtype of every tensor, and the values of small ones, operator by operator.

A TFLite file contains its shapes. Only its runtime (`edgetop.engines.process_engine`) knows a shape that the file
leaves open, or that changes when inputs are resized.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from edgetop.models.definitions import DOMAINS, op_of
from edgetop.models.graph import OMITTED, Array, Graph, Model, Shape, Sizes, Tensor, input_names, tensors_by_value
from edgetop.models.reading_limits import BROKEN_NODE, MAX_RANK
from edgetop.models.shapes.folding import FOLDS, folded
from edgetop.models.shapes.node import Node

T = TypeVar("T")

_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}

# Operators that TFLite's kernels compute only once if their inputs are constant (tensorflow/lite/kernels/dequantize.cc,
# densify.cc).
_CACHED_BY_TFLITE = {"DEQUANTIZE", "DENSIFY"}


class Result(NamedTuple):
    """What rules determined for an output of an operator: sizes, dtype and value. None means unknown."""

    sizes: Sizes | None = None
    dtype: str | None = None
    value: Array | None = None


def with_shapes(
    model: Model, inputs: Mapping[str, Sequence[int]], measured: Mapping[int, tuple[int, ...]] | None = None
) -> Model:
    """Return the model with all shapes filled in that follow from the shapes of its inputs.

    `inputs` has the shape of each input by name. `measured` has shapes that a runtime gave, by the tensor's index; only
    for TFLite. Unknown sizes are None. Tensors that runtimes compute once, at load, are marked as constant.
    """
    if model.format == "openvino":
        from edgetop.models.ir_shapes import with_ir_shapes  # noqa: PLC0415  few models are of this format

        tensors = with_ir_shapes(model.graph, inputs)
    else:
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
    """Return the indices of model outputs whose sizes in the file are not trusted.

    If a model leaves sizes of its inputs open, exporters often declare output sizes that are only true for certain
    input sizes.
    """
    if all(isinstance(dim, int) for place in graph.inputs for dim in graph.tensors[place].shape or ()):
        return set()
    ruled = (op for op in graph.operators if op.domain in DOMAINS and op_of(op).sizes)
    return set(graph.outputs) & {place for op in ruled for place in op.outputs}


def _outputs(node: Node) -> list[Result]:
    number = len(node.operator.outputs)
    rules = op_of(node.operator)
    if node.operator.domain not in DOMAINS or rules.sizes is None:
        return [Result()] * number
    sizes = _attempt(rules.sizes, node, number)
    dtypes = _attempt(rules.dtypes, node, number)
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
    """Return `sizes` if a tensor can have them, and None if not, as in a broken file."""
    if sizes is None or len(sizes) > MAX_RANK:
        return None
    is_possible = all(size is None or (isinstance(size, int) and size >= 0) for size in sizes)
    return sizes if is_possible else None


def _attempt(rule: Callable[[Node], list[T | None]], node: Node, number: int) -> list[T | None]:
    """Return the result of `rule` for each of the first `number` outputs of `node`; None
    for an output without a result.
    """
    results: list[T | None] = []
    with contextlib.suppress(*BROKEN_NODE):
        results = rule(node)
    return [*results[:number], *[None] * (number - len(results))]


def _named_sizes(graph: Graph, inputs: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the size of each named dimension, such as `batch`, from the shapes of the inputs.

    A name with different sizes in different inputs is left out.
    """
    by_name: dict[str, set[int]] = {}
    for place in graph.inputs:
        tensor = graph.tensors[place]
        for dim, size in zip(tensor.shape or (), inputs.get(tensor.name, ()), strict=False):
            if isinstance(dim, str):
                by_name.setdefault(dim, set()).add(size)
    return {name: sizes.pop() for name, sizes in by_name.items() if len(sizes) == 1}


def _merged(result: Result, declared: Tensor) -> Tensor:
    """Return the tensor `declared` with the sizes, dtype and value that a rule determined.

    Sizes and dtype that the rule leaves open stay as declared.
    """
    sizes, stated = result.sizes, declared.shape
    shape: Shape | None = stated if sizes is None else sizes
    if sizes is not None and stated is not None and len(stated) == len(sizes):
        shape = tuple(b if a is None else a for a, b in zip(sizes, stated, strict=True))
    return replace(declared, shape=shape, dtype=result.dtype or declared.dtype, value=result.value)


def _is_constant(node: Node) -> bool:
    """Whether ONNX Runtime computes an operator once, when it loads the model, because all inputs are constant.

    DequantizeLinear is an exception: the runtime fuses it later (core/optimizer/constant_folding.cc).
    """
    operator = node.operator
    if operator.domain not in DOMAINS or operator.subgraphs or operator.op_type in _RANDOM:
        return False
    given = [tensor for tensor in node.inputs if tensor is not None]
    return operator.op_type != "DequantizeLinear" and bool(given) and all(tensor.is_constant for tensor in given)


def _tflite(model: Model, inputs: Mapping[str, Sequence[int]], measured: Mapping[int, tuple[int, ...]]) -> list[Tensor]:
    """Return the tensors of a TFLite model with the shapes in the file, or with measured ones.

    `inputs` has the new shape of each input by name, and `measured` a runtime's shapes by tensor index. A shape that
    may change with a resized input is None unless it was measured.
    """
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
