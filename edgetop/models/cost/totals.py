"""Sums over a model's operators: by model, by type of operator, by precision."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from edgetop.models.cost.operators import OperatorCost, StoredForms, weight_places
from edgetop.models.graph import Model


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
    bytes: int  # as operators read them
    by_dtype: Mapping[str, tuple[int, int]]  # as stored: dtype to parameters and bytes
    unknown: int  # tensors whose size is not known


def totals(operators: Sequence[OperatorCost]) -> Totals:
    return Totals(
        len(operators),
        sum(cost.is_folded for cost in operators),
        *_known(cost.macs for cost in operators),
        *_known(cost.flops for cost in operators),
        *_known(cost.bytes for cost in operators),
    )


def by_type(operators: Sequence[OperatorCost]) -> dict[str, Totals]:
    """Those that run in each inference, by type, most FLOPs first and then most bytes."""
    groups: dict[str, list[OperatorCost]] = {}
    for cost in operators:
        if not cost.is_folded:
            groups.setdefault(cost.operator.op_type, []).append(cost)
    found = {op_type: totals(group) for op_type, group in groups.items()}
    return dict(sorted(found.items(), key=lambda item: (-item[1].flops, -item[1].bytes, item[0])))


def _known(numbers: Iterable[int | None]) -> tuple[int, int]:
    found = list(numbers)
    known = [number for number in found if number is not None]
    return sum(known), len(found) - len(known)


def weights(model: Model, operators: Sequence[OperatorCost]) -> Weights:
    """Of the main graph and of those within operators. `model` is what `with_shapes` gives."""
    parameters = size = unknown = 0
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    folded = {cost.operator.position for cost in operators if cost.is_folded}
    for number, graph in enumerate((model.graph, *model.subgraphs)):
        stored = StoredForms(graph)
        skipped = folded if number == 0 else set()
        used = [op for op in graph.operators if op.position not in skipped]
        for place in dict.fromkeys(place for op in used for place in weight_places(graph, op)):
            elements, form = graph.tensors[place].elements, stored.of(place)
            unknown += elements is None
            parameters += elements or 0
            size += graph.tensors[place].size_bytes or 0
            counts[str(form.dtype)] += elements or 0
            sizes[str(form.dtype)] += form.size_bytes or 0
    by_dtype = {dtype: (counts[dtype], sizes[dtype]) for dtype in sorted(counts, key=lambda dtype: -sizes[dtype])}
    return Weights(parameters, size, by_dtype, unknown)
