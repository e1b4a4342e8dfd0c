"""Find the inputs whose values decide which branch runs, how often a loop runs, or how large tensors are.

A measurement with random values in such an input may take another branch than in deployment.
"""

from collections import Counter
from collections.abc import Mapping

from edgetop.frozen import frozen
from edgetop.models.graph import OMITTED, Graph, Model, Operator, depends_on_values, input_names

# Operators of which some inputs are shapes, sizes, counts or positions, with the places of these inputs
# (onnx/docs/Operators.md, tensorflow/lite/kernels).
_SHAPED_BY: Mapping[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "Resize": (2, 3),
    "Upsample": (1,), "Slice": (1, 2, 3, 4), "Pad": (1,), "TopK": (1,), "OneHot": (1,), "Unsqueeze": (1,),
    "RESHAPE": (1,), "FILL": (0,), "RANGE": (0, 1, 2), "TILE": (1,), "SLICE": (1, 2), "STRIDED_SLICE": (1, 2, 3),
    "PAD": (1,), "PADV2": (1,), "RESIZE_BILINEAR": (1,), "RESIZE_NEAREST_NEIGHBOR": (1,), "BROADCAST_TO": (1,),
    "TOPK_V2": (1,),
}  # fmt: skip
_DECIDED_BY: Mapping[str, tuple[int, ...]] = {"If": (0,), "IF": (0,), "Loop": (0, 1)}  # of others, all inputs decide
_ENDS = frozenset({"Shape", "Size", "SHAPE", "RANK"})  # their outputs follow from shapes alone


@frozen
class Deciding:
    """The types of operators in one model whose work depends on values, and the model inputs that give these values."""

    types: Mapping[str, int]  # number of operators by type, the most first
    inputs: Mapping[str, frozenset[str]]  # names of the inputs that decide, by type; a type of unknown inputs is absent


def deciding_inputs(model: Model) -> Deciding:
    """Return the types of operators whose work depends on values, and the model inputs that give these values.

    Operators in inner graphs, such as the branches of `If`, are included, but without the model inputs that decide
    there.
    """
    counts: Counter[str] = Counter()
    sets: dict[str, set[str]] = {}
    unknown = set()
    values = _values(model)
    for graph in (model.graph, *model.subgraphs):
        is_main = graph is model.graph
        for operator in graph.operators:
            is_base = depends_on_values(graph, operator, is_onnx=model.format == "onnx")
            found = _deciding(operator, values, is_base=is_base) if is_main else set()
            # A branch or loop whose condition is computed from constants or shapes does the same work each time.
            is_fixed = is_main and not found and operator.op_type in _DECIDED_BY
            if (is_base and not is_fixed) or found:
                counts[operator.op_type] += 1
                sets.setdefault(operator.op_type, set()).update(found)
                if not found:
                    unknown.add(operator.op_type)
    inputs = {name: frozenset(found) for name, found in sets.items() if name not in unknown}
    return Deciding(dict(counts.most_common()), inputs)


def _deciding(operator: Operator, values: "_Values", *, is_base: bool) -> set[str]:
    places = _DECIDED_BY.get(operator.op_type) if is_base else _SHAPED_BY.get(operator.op_type, ())
    tensors = [at for place, at in enumerate(operator.inputs) if places is None or place in places]
    return values.names(tensors)


class _Values:
    """Knows on which model inputs the value of each tensor depends.

    A set of inputs is a bit mask: bit n stands for input n.
    """

    def __init__(self, names: list[str], inputs: tuple[int, ...]) -> None:
        self._names = names
        self._of = {tensor: 1 << place for place, tensor in enumerate(inputs)}

    def mask(self, tensors: tuple[int, ...]) -> int:
        found = 0
        for tensor in tensors:
            found |= self._of.get(tensor, 0)
        return found

    def put(self, tensors: tuple[int, ...], mask: int) -> None:
        self._of.update(dict.fromkeys(tensors, mask))

    def names(self, tensors: list[int]) -> set[str]:
        mask = self.mask(tuple(tensors))
        return {name for place, name in enumerate(self._names) if mask >> place & 1}


def _values(model: Model) -> _Values:
    graph: Graph = model.graph
    values = _Values(input_names(model), graph.inputs)
    for operator in graph.operators:
        mask = 0 if operator.op_type in _ENDS else values.mask((*operator.inputs, *operator.captures))
        values.put(tuple(at for at in operator.outputs if at != OMITTED), mask)
    return values
