"""Works out shape, dtype and, where small, value of every tensor, operator by operator."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

import numpy as np

from edgetop.models.graph import OMITTED, Graph, Model, Operator, Shape, Sizes, Tensor
from edgetop.models.limits import BROKEN_NODE, MAX_RANK
from edgetop.models.shapes import onnx_rules, tflite_rules
from edgetop.models.shapes.dtypes import output_dtypes
from edgetop.models.shapes.facts import Fact, Node
from edgetop.models.shapes.folding import FOLDS, TFLITE_FOLDS, folded

T = TypeVar("T")

_RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial", "Bernoulli"}

# Of operators on constants alone, the only ones that TFLite's kernels compute once and keep
# (tensorflow/lite/kernels/dequantize.cc, densify.cc).
_KEPT_BY_TFLITE = {"DEQUANTIZE", "DENSIFY"}


def with_shapes(
    model: Model, inputs: Mapping[str, Sequence[int]], told: Mapping[int, tuple[int, ...]] | None = None
) -> Model:
    """The model with every shape that follows from those of its inputs, given by name.

    Sizes that do not follow are None. What an operator computes from constants alone is
    constant too: runtimes compute it once, when they load the model. `told`: what a runtime says of tensors, by their
    places, which counts more than what follows.
    """
    infer = _infer_onnx if model.format == "onnx" else _infer_tflite
    graph = infer(model, inputs)
    tensors = [
        replace(tensor, shape=told[place]) if told and place in told and not tensor.is_constant else tensor
        for place, tensor in enumerate(graph.tensors)
    ]
    return replace(model, graph=replace(graph, tensors=tuple(tensors)))


def _settled(graph: Graph, facts: Sequence[Fact]) -> Graph:
    tensors = tuple(
        replace(tensor, shape=fact.sizes, dtype=fact.dtype, is_constant=fact.is_constant, value=fact.value)
        for tensor, fact in zip(graph.tensors, facts, strict=True)
    )
    return replace(graph, tensors=tensors)


def _node(operator: Operator, facts: Sequence[Fact]) -> Node:
    return Node(operator, tuple(None if place == OMITTED else facts[place] for place in operator.inputs))


def _infer_onnx(model: Model, inputs: Mapping[str, Sequence[int]]) -> Graph:
    graph = model.graph
    names = _named_sizes(graph, inputs)
    facts = [_first_fact(tensor, names) for tensor in graph.tensors]
    for place in _overruled(graph):
        facts[place] = replace(facts[place], sizes=None)
    for place in graph.inputs:
        given = inputs.get(graph.tensors[place].name)
        if given is not None:
            facts[place] = replace(facts[place], sizes=tuple(given))
    for operator in graph.operators:
        node = _node(operator, facts)
        constant = _is_constant(node)
        for place, fact in zip(operator.outputs, _onnx_outputs(node), strict=False):
            if place != OMITTED and not facts[place].is_constant:
                facts[place] = replace(_merged(fact, facts[place]), is_constant=constant)
    return _settled(graph, facts)


def _overruled(graph: Graph) -> set[int]:
    """Outputs of the model whose declared sizes say nothing where the rule of their operator cannot tell them.

    Where inputs are open, exporters write of outputs what they saw, or a name that nobody checks: [batch] of 4.
    Of an operator without a rule there is nothing better.
    """
    if all(isinstance(dim, int) for place in graph.inputs for dim in graph.tensors[place].shape or ()):
        return set()
    ruled = (op for op in graph.operators if op.domain in onnx_rules.DOMAINS and op.op_type in onnx_rules.RULES)
    return set(graph.outputs) & {place for op in ruled for place in op.outputs}


def _onnx_outputs(node: Node) -> list[Fact]:
    """As much as is known of each output; at least an empty fact for each."""
    number = len(node.operator.outputs)
    if node.operator.domain not in onnx_rules.DOMAINS:
        return [Fact()] * number
    sizes = _attempt(onnx_rules.output_sizes, node, number)
    dtypes = _attempt(output_dtypes, node, number)
    facts = [Fact(_possible(size), dtype) for size, dtype in zip(sizes, dtypes, strict=True)]
    return _with_values(node, facts) if node.operator.op_type in FOLDS else facts


def _with_values(node: Node, facts: list[Fact]) -> list[Fact]:
    """What is known of outputs, with the values of small ones where these follow."""
    if not facts:
        return facts
    try:
        values = folded(node, facts[0].sizes)
    except BROKEN_NODE:
        return facts
    return [
        fact if value is None else replace(fact, sizes=value.shape, value=value)
        for fact, value in zip_longest(facts, values[: len(facts)])
    ]


def _possible(sizes: Sizes | None) -> Sizes | None:
    """What a tensor can have: a broken node's attributes may have put anything into them."""
    if sizes is None or len(sizes) > MAX_RANK:
        return None
    is_possible = all(size is None or (isinstance(size, int) and size >= 0) for size in sizes)
    return sizes if is_possible else None


def _attempt(rule: Callable[[Node], list[T | None]], node: Node, number: int) -> list[T | None]:
    """What a rule says of `number` outputs; None of each where it cannot say."""
    said: list[T | None] = []
    with contextlib.suppress(*BROKEN_NODE):
        said = rule(node)
    return [*said[:number], *[None] * (number - len(said))]


def _named_sizes(graph: Graph, inputs: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The size of every dimension with a name. A name that inputs use for unlike sizes says nothing."""
    found: dict[str, set[int]] = {}
    for place in graph.inputs:
        tensor = graph.tensors[place]
        for dim, size in zip(tensor.shape or (), inputs.get(tensor.name, ()), strict=False):
            if isinstance(dim, str):
                found.setdefault(dim, set()).add(size)
    return {name: sizes.pop() for name, sizes in found.items() if len(sizes) == 1}


def _first_fact(tensor: Tensor, names: Mapping[str, int]) -> Fact:
    return Fact(_concrete(tensor.shape, names), tensor.dtype, tensor.value, tensor.is_constant)


def _concrete(shape: Shape | None, names: Mapping[str, int]) -> Sizes | None:
    if shape is None:
        return None
    return tuple(names.get(dim) if isinstance(dim, str) else dim for dim in shape)


def _merged(found: Fact, declared: Fact) -> Fact:
    """What the rule found, and where it found nothing what the file says (value_info)."""
    sizes = found.sizes
    if sizes is None:
        sizes = declared.sizes
    elif declared.sizes is not None and len(declared.sizes) == len(sizes):
        sizes = tuple(b if a is None else a for a, b in zip(sizes, declared.sizes, strict=True))
    return replace(found, sizes=sizes, dtype=found.dtype or declared.dtype)


def _is_constant(node: Node) -> bool:
    """Whether ONNX Runtime computes it once, at load.

    core/optimizer/constant_folding.cc, which leaves DequantizeLinear to be fused with what follows.
    """
    operator = node.operator
    if operator.domain not in onnx_rules.DOMAINS or operator.subgraphs or operator.op_type in _RANDOM:
        return False
    given = [fact for fact in node.inputs if fact is not None]
    return operator.op_type != "DequantizeLinear" and bool(given) and all(fact.is_constant for fact in given)


def _infer_tflite(model: Model, inputs: Mapping[str, Sequence[int]]) -> Graph:
    """The file has every shape, but for the sizes that it leaves open.

    With inputs of other sizes than it was made for, those that do not follow from them are unknown; where only
    open ones were filled, the others of the file stand.
    """
    graph = model.graph
    facts = [Fact(_stored_sizes(tensor), tensor.dtype, tensor.value, tensor.is_constant) for tensor in graph.tensors]
    changed, only_open = set(), True
    for place, name in zip(graph.inputs, input_names(model), strict=True):
        given, stored = tuple(inputs.get(name, facts[place].sizes or ())), facts[place].sizes
        if given != stored:
            only_open = only_open and _fills(given, stored)
            facts[place] = replace(facts[place], sizes=given)
            changed.add(place)
    for operator in graph.operators:
        node = _node(operator, facts)
        is_changed = bool(changed.intersection(operator.inputs))
        found = _tflite_outputs(node) if is_changed or _leaves_open(operator, facts) else []
        is_kept = operator.op_type in _KEPT_BY_TFLITE and all(
            fact is not None and fact.is_constant for fact in node.inputs
        )
        for place, fact in zip_longest(operator.outputs, found):
            if place == OMITTED or facts[place].is_constant:
                continue
            declared = facts[place] if only_open or not is_changed else Fact(dtype=facts[place].dtype)
            facts[place] = replace(
                _merged(_as_stored(fact or Fact(), declared.dtype), declared), dtype=declared.dtype, is_constant=is_kept
            )
            if is_changed:
                changed.add(place)
    return _settled(graph, facts)


def _fills(given: Sizes, declared: Sizes | None) -> bool:
    """Whether it says no more than what was left open."""
    return (
        declared is not None
        and len(given) == len(declared)
        and all(b is None or a == b for a, b in zip(given, declared, strict=True))
    )


def _as_stored(fact: Fact, dtype: str | None) -> Fact:
    """With its value in the type that the file gives the tensor."""
    if fact.value is None or dtype not in ("int32", "int64", "float32", "bool"):
        return replace(fact, value=None)
    with np.errstate(all="ignore"):
        return replace(fact, value=fact.value.astype(dtype))


def _leaves_open(operator: Operator, facts: Sequence[Fact]) -> bool:
    sizes = (facts[place].sizes for place in operator.outputs if place != OMITTED)
    return any(size is None or None in size for size in sizes)


def _tflite_outputs(node: Node) -> list[Fact]:
    """As `_onnx_outputs`; dtypes stand in the file."""
    number = len(node.operator.outputs)
    sizes = [_possible(size) for size in _attempt(tflite_rules.output_sizes, node, number)]
    facts = [Fact(size) for size in sizes]
    return _with_values(node, facts) if node.operator.op_type in TFLITE_FOLDS else facts


def _stored_sizes(tensor: Tensor) -> Sizes | None:
    return None if tensor.shape is None else tuple(dim if isinstance(dim, int) else None for dim in tensor.shape)


def input_names(model: Model) -> list[str]:
    """The inputs by name. TFLite's may be missing or alike: such ones get their place added."""
    names = [model.graph.tensors[place].name for place in model.graph.inputs]
    places = [f"{name or 'input'}:{place}" for place, name in enumerate(names)]
    return [name if name and names.count(name) == 1 else place for name, place in zip(names, places, strict=True)]
