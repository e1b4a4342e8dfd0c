"""Sums over a model's operators: by model, by type of operator, by precision."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgetop.models.cost.operators import PARAMETERS, OperatorCost, StoredForms, is_weight
from edgetop.models.graph import OMITTED, Graph, Model


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the operators of which each is known, and of how many it is not."""

    operators: int
    folded: int  # of these, how many are computed once at load
    macs: int
    macs_unknown: int
    flops: int
    flops_unknown: int
    bytes: int
    bytes_unknown: int

    @property
    def intensity(self) -> float | None:
        complete = not self.flops_unknown and not self.bytes_unknown
        return self.flops / self.bytes if complete and self.bytes else None


@dataclass(frozen=True, slots=True)
class Weights:
    """Constants that parameters are in, each counted once however many operators use it."""

    parameters: int
    bytes: int  # as operators read them, which for TFLite's float16 is after DEQUANTIZE, at twice the size
    by_dtype: Mapping[str, tuple[int, int]]  # as stored: dtype to parameters and bytes
    unknown: int  # tensors whose size is not known
    unread: int = 0  # parameters that lie in the file and that no operator reads; not among the others


def totals(operators: Sequence[OperatorCost]) -> Totals:
    return Totals(
        len(operators),
        sum(cost.is_folded for cost in operators),
        *_sum_known(cost.macs for cost in operators),
        *_sum_known(cost.flops for cost in operators),
        *_sum_known(cost.bytes for cost in operators),
    )


def by_type(operators: Sequence[OperatorCost]) -> dict[str, Totals]:
    """Those that run in each inference, by type, most FLOPs first and then most bytes."""
    groups: dict[str, list[OperatorCost]] = {}
    for cost in operators:
        if not cost.is_folded:
            groups.setdefault(cost.operator.op_type, []).append(cost)
    found = {op_type: totals(group) for op_type, group in groups.items()}
    return dict(sorted(found.items(), key=lambda item: (-item[1].flops, -item[1].bytes, item[0])))


def _sum_known(numbers: Iterable[int | None]) -> tuple[int, int]:
    found = list(numbers)
    known = [number for number in found if number is not None]
    return sum(known), len(found) - len(known)


def weights(model: Model, operators: Sequence[OperatorCost]) -> Weights:
    """Of the main graph and of those within operators. `model` is what `with_shapes` gives."""
    parameters = size = unknown = 0
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    graphs = (model.graph, *model.subgraphs)
    stored = [StoredForms(graph) for graph in graphs]
    captured = _captured(graphs)
    folded = {cost.operator.position for cost in operators if cost.is_folded}
    for number, place in _places_of_weights(graphs, captured, folded):
        tensor, form = graphs[number].tensors[place], stored[number].of(place)
        unknown += tensor.elements is None
        parameters += tensor.elements or 0
        size += tensor.size_bytes or 0
        counts[str(form.dtype)] += tensor.elements or 0
        sizes[str(form.dtype)] += form.size_bytes or 0
    by_dtype = {dtype: (counts[dtype], sizes[dtype]) for dtype in sorted(counts, key=lambda dtype: -sizes[dtype])}
    return Weights(parameters, size, by_dtype, unknown, _unread(graphs, captured))


Place = tuple[int, int]  # of a tensor: the number of its graph, the main one being 0, and its place there


def _places_of_weights(
    graphs: Sequence[Graph], captured: Mapping[Place, Place], folded: Collection[int]
) -> Iterable[Place]:
    """Each once, where it is defined. `folded`: the positions of the main graph's operators that do not run."""
    found: dict[Place, None] = {}
    for number, graph in enumerate(graphs):
        for operator in graph.operators:
            if number == 0 and operator.position in folded:
                continue
            for place in operator.inputs:
                home = captured.get((number, place), (number, place))
                if place != OMITTED and is_weight(graphs[home[0]].tensors[home[1]], operator):
                    found[home] = None
    return found


def _captured(graphs: Sequence[Graph]) -> dict[Place, Place]:
    """Of each tensor that a graph within an operator reads from around it: where it is defined."""
    homes: dict[Place, Place] = {}
    within = {1 + inner for graph in graphs for operator in graph.operators for inner in operator.subgraphs}
    waiting = [number for number in range(len(graphs)) if number not in within]
    seen = set(waiting)
    while waiting:  # outer graphs first
        number = waiting.pop()
        for operator in graphs[number].operators:
            for inner in (1 + inner for inner in operator.subgraphs if 1 + inner < len(graphs)):
                if inner not in seen:
                    seen.add(inner)
                    waiting.append(inner)
                    there = graphs[inner].captures.items()
                    homes.update({(inner, here): homes.get((number, at), (number, at)) for here, at in there})
    return homes


def _unread(graphs: Sequence[Graph], captured: Mapping[Place, Place]) -> int:
    """Elements of constants that look like weights and that no operator reads, as exporters leave them behind."""
    read = {*captured, *captured.values()}
    for number, graph in enumerate(graphs):
        read.update((number, place) for operator in graph.operators for place in (*operator.inputs, *operator.outputs))
        read.update((number, place) for place in graph.outputs)
    return sum(
        tensor.elements or 0
        for number, graph in enumerate(graphs)
        for place, tensor in enumerate(graph.tensors)
        if tensor.is_constant and tensor.dtype in PARAMETERS and (number, place) not in read
    )
