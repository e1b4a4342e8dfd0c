"""The cost of every operator of a model, and sums of the costs: for the model, by type, and by dtype.

Bytes are counted as if every tensor were read or written once, and no cache held data from one operator to the next. An
unknown cost is None. Totals say for how many operators the cost is unknown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from edgetop.frozen import frozen
from edgetop.models.cost.tensor_traffic import read_bytes, total_bytes, written_bytes
from edgetop.models.cost.work_rules import Rule
from edgetop.models.definitions import has_products, op_of
from edgetop.models.graph import OMITTED, Graph, Model, Operator, Tensor, bounded
from edgetop.models.reading_limits import BROKEN_NODE
from edgetop.models.shapes.node import Node

# Dtypes of weights. Wide integers are shapes, axes and indices, except for biases of quantised products.
PARAMETERS = {
    "float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int4", "uint4", "int2", "uint2",
    "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1", "complex64", "complex128",
}  # fmt: skip

_LONGEST_CHAIN = 16  # most operators between a constant and its stored form

Place = tuple[int, int]  # of a tensor: (number of its graph, 0 for the main one; place in the graph)


@frozen
class OperatorCost:
    """The work of one operator in one inference: arithmetic, bytes and parameters. None means unknown."""

    operator: Operator
    is_folded: bool  # whether its outputs are constant: computed once at load, and free afterwards
    macs: int | None  # multiply-accumulates of products; 0 for other operators
    flops: int | None
    read_bytes: int | None  # activations and weights
    written_bytes: int | None
    weights_bytes: int | None  # of its constants
    parameters: int | None
    dtype: str | None  # of its first input that is not a constant
    weights_dtype: str | None  # dtype in which its largest weight is stored

    @property
    def bytes(self) -> int | None:
        """Bytes read from and written to memory if each tensor is moved once, or None if unknown."""
        return None if self.read_bytes is None or self.written_bytes is None else self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte, or None if unknown (Williams et al. 2009, doi:10.1145/1498765.1498785)."""
        return self.flops / self.bytes if self.flops is not None and self.bytes else None


def costs(model: Model) -> tuple[OperatorCost, ...]:
    """Return the cost of each operator of the main graph, in order.

    The model must have its shapes, from `with_shapes`.
    """
    stored = StoredForms(model.graph)
    return tuple(_cost(model.graph, operator, stored) for operator in model.graph.operators)


class StoredForms:
    """Finds, for a constant of a graph, the constant in the file from which operators make it when the model is loaded.

    For example, TFLite stores float16 weights and converts them with DEQUANTIZE. The precision of a model is the dtype
    of the stored constants.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._makers = {place: operator for operator in graph.operators for place in operator.outputs}

    def of(self, place: int) -> Tensor:
        tensors = self._graph.tensors
        for _ in range(_LONGEST_CHAIN):
            maker = self._makers.get(place)
            if maker is None or not maker.inputs or maker.inputs[0] == OMITTED:
                break
            if tensors[maker.inputs[0]].elements != tensors[place].elements:
                break
            place = maker.inputs[0]
        return tensors[place]


def _cost(graph: Graph, operator: Operator, stored: StoredForms) -> OperatorCost:
    node = Node.of(operator, graph.tensors)
    computed = [tensor for tensor in node.outputs if tensor is not None]
    if computed and all(tensor.is_constant for tensor in computed):
        return OperatorCost(operator, True, 0, 0, 0, 0, 0, 0, computed[0].dtype, None)
    macs, other = _counted(op_of(operator).macs, node), _counted(op_of(operator).flops, node)
    constants = [tensor for tensor in node.inputs if tensor is not None and tensor.is_constant]
    places = [place for place in operator.inputs if place != OMITTED]
    weights = [place for place in places if is_weight(graph.tensors[place], operator)]
    data = [tensor for tensor in node.inputs if tensor is not None and not tensor.is_constant]
    elements = [_parameters(graph.tensors[place], operator) for place in weights]
    largest = max(weights, key=lambda place: graph.tensors[place].elements or 0, default=None)
    opaque = bool(operator.subgraphs) and operator.op_type != "CALL_ONCE"  # it moves bytes only within its subgraphs
    return OperatorCost(
        operator,
        is_folded=False,
        macs=macs,
        flops=None if macs is None or other is None else bounded(2 * macs + other),
        read_bytes=None if opaque else read_bytes(node),
        written_bytes=None if opaque else written_bytes(node),
        weights_bytes=total_bytes(constants),
        parameters=None if None in elements else sum(number or 0 for number in elements),
        dtype=next((tensor.dtype for tensor in (*data, *computed)), None),
        weights_dtype=None if largest is None else stored.of(largest).dtype,
    )


def is_weight(tensor: Tensor, operator: Operator) -> bool:
    """Whether a tensor holds weights or biases of the operator.

    Such a tensor is a constant of a floating-point or narrow integer dtype, or of int32 if the operator is a product.
    """
    is_parameter = tensor.dtype in PARAMETERS or (tensor.dtype == "int32" and has_products(operator))
    return tensor.is_constant and is_parameter


def _parameters(tensor: Tensor, operator: Operator) -> int | None:
    """Return the number of parameters in a tensor, or None if unknown."""
    if operator.op_type != "MatMulNBits" or tensor.dtype != "uint8" or tensor.elements is None:
        return tensor.elements
    bits = operator.attributes.get("bits", 4)
    return tensor.elements * (8 // bits if isinstance(bits, int) and 0 < bits <= 8 else 1)


def _counted(rule: Rule | None, node: Node) -> int | None:
    if rule is None:
        return None
    try:
        return bounded(rule(node))
    except BROKEN_NODE:
        return None


@frozen
class Totals:
    """Sums of the costs of several operators, without unknown costs.

    A field `..._unknown` is the number of operators whose cost of that kind is unknown.
    """

    operators: int
    folded: int  # number of operators that are computed once at load
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


@frozen
class Weights:
    """Number and size of one model's weights, which are the constants that hold parameters of operators."""

    parameters: int
    bytes: int  # as operators read them: TFLite's float16 weights after DEQUANTIZE, at twice the stored size
    by_dtype: Mapping[str, tuple[int, int]]  # (parameters, bytes) by dtype, as stored
    unknown: int  # number of tensors whose size is unknown
    unread: int = 0  # parameters in the file that no operator reads, which are not included above


def totals(operators: Sequence[OperatorCost]) -> Totals:
    return Totals(
        len(operators),
        sum(cost.is_folded for cost in operators),
        *_sum_known(cost.macs for cost in operators),
        *_sum_known(cost.flops for cost in operators),
        *_sum_known(cost.bytes for cost in operators),
    )


def by_type(operators: Sequence[OperatorCost]) -> dict[str, Totals]:
    """Return the sums of the costs by type of operator, such as `Conv`, sorted by FLOPs and then bytes, the most first.

    Operators that are computed once, when the model is loaded, do not count.
    """
    groups: dict[str, list[OperatorCost]] = {}
    for cost in operators:
        if not cost.is_folded:
            groups.setdefault(cost.operator.op_type, []).append(cost)
    sums = {op_type: totals(group) for op_type, group in groups.items()}
    return dict(sorted(sums.items(), key=lambda item: (-item[1].flops, -item[1].bytes, item[0])))


def _sum_known(numbers: Iterable[int | None]) -> tuple[int, int]:
    all_numbers = list(numbers)
    known = [number for number in all_numbers if number is not None]
    return sum(known), len(all_numbers) - len(known)


def weights(model: Model, operators: Sequence[OperatorCost]) -> Weights:
    """Return the number and size of the weights in all graphs of the model.

    The model must have its shapes, from `with_shapes`. `operators` are the costs of the main graph's operators.
    """
    parameters = size = unknown = 0
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    graphs = (model.graph, *model.subgraphs)
    stored = [StoredForms(graph) for graph in graphs]
    captured = _captured(graphs)
    folded = {(0, cost.operator.position) for cost in operators if cost.is_folded}
    homes: dict[Place, int | None] = {}  # parameters by the place where the tensor is defined
    skipped = folded | _start_states(graphs)
    for number, graph in enumerate(graphs):
        for operator in (op for op in graph.operators if (number, op.position) not in skipped):
            for place in operator.inputs:
                home = captured.get((number, place), (number, place))
                tensor = graphs[home[0]].tensors[home[1]]
                if place != OMITTED and is_weight(tensor, operator):
                    homes[home] = _parameters(tensor, operator)
    for (number, place), held in homes.items():
        tensor, form = graphs[number].tensors[place], stored[number].of(place)
        unknown += held is None
        parameters += held or 0
        size += tensor.size_bytes or 0
        counts[str(form.dtype)] += held or 0
        sizes[str(form.dtype)] += form.size_bytes or 0
    by_dtype = {dtype: (counts[dtype], sizes[dtype]) for dtype in sorted(counts, key=lambda dtype: -sizes[dtype])}
    return Weights(parameters, size, by_dtype, unknown, _unread(graphs, captured))


def _start_states(graphs: Sequence[Graph]) -> set[Place]:
    """Return `(number of the graph, position)` of each operator that sets a variable before the first inference.

    The result is empty if no variable is set later, as variables that never change count as weights.
    """
    once = {
        1 + inner for graph in graphs for op in graph.operators if op.op_type == "CALL_ONCE" for inner in op.subgraphs
    }
    assigned = {
        (number, op.position)
        for number, graph in enumerate(graphs)
        for op in graph.operators
        if op.op_type == "ASSIGN_VARIABLE"
    }
    starts = {place for place in assigned if place[0] in once}
    return starts if assigned - starts else set()


def _captured(graphs: Sequence[Graph]) -> dict[Place, Place]:
    """Return, for each tensor that an inner graph reads from a surrounding graph, where that tensor is defined.

    Keys and values are `(number of the graph, index of the tensor)`.
    """
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
    """Return the number of elements in constants that no operator reads. `captured` is the result of `_captured`."""
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
