"""The cost of every operator of a model whose shapes are worked out."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from edgetop.models.cost import arithmetic, macs
from edgetop.models.cost.memory import read_bytes, total, written_bytes
from edgetop.models.graph import OMITTED, Graph, Model, Operator, Tensor, bounded
from edgetop.models.limits import BROKEN_NODE
from edgetop.models.shapes.node import Node
from edgetop.models.shapes.onnx_rules import DOMAINS

# Dtypes of weights. Wide integers are shapes, axes and indices, but for biases of quantised products.
PARAMETERS = {
    "float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int4", "uint4", "int2", "uint2",
    "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1", "complex64", "complex128",
}  # fmt: skip

_LONGEST_CHAIN = 16  # of operators between a constant and its stored form

Rule = Callable[[Node], int]


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """The work of an operator in one inference. What is not known is None."""

    operator: Operator
    is_folded: bool  # its outputs are constant: computed once, at load, and free afterwards
    macs: int | None  # of the multiply-accumulates of products; 0 for other operators
    flops: int | None
    read_bytes: int | None  # activations and weights
    written_bytes: int | None
    weights_bytes: int | None  # of its constants
    parameters: int | None
    dtype: str | None  # of its first input that is no constant
    weights_dtype: str | None  # of its largest constant, where that is a weight

    @property
    def bytes(self) -> int | None:
        """Moved to and from memory if nothing but this operator's tensors were cached."""
        return None if self.read_bytes is None or self.written_bytes is None else self.read_bytes + self.written_bytes

    @property
    def intensity(self) -> float | None:
        """FLOPs per byte (Williams et al. 2009, doi:10.1145/1498765.1498785)."""
        return self.flops / self.bytes if self.flops is not None and self.bytes else None


def costs(model: Model) -> tuple[OperatorCost, ...]:
    """In the order of the graph's operators. `model` is what `with_shapes` gives."""
    stored = StoredForms(model.graph)
    return tuple(_cost(model.graph, operator, stored) for operator in model.graph.operators)


class StoredForms:
    """Which constant of the file a constant was made from, where it is the same one of another type or layout.

    TFLite keeps float16 weights behind DEQUANTIZE; what precision a model has is what is stored.
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
    rest = _counted(_rule(arithmetic.ONNX, arithmetic.TFLITE, operator), node)
    multiplied = _products(node)
    constants = [tensor for tensor in node.inputs if tensor is not None and tensor.is_constant]
    weights = weight_places(graph, operator)
    largest = max(weights, key=lambda place: graph.tensors[place].elements or 0, default=None)
    opaque = bool(operator.subgraphs) and operator.op_type != "CALL_ONCE"  # what it moves is moved in there
    return OperatorCost(
        operator,
        is_folded=False,
        macs=multiplied,
        flops=None if multiplied is None or rest is None else bounded(2 * multiplied + rest),
        read_bytes=None if opaque else read_bytes(node),
        written_bytes=None if opaque else written_bytes(node),
        weights_bytes=total(constants),
        parameters=_sum(graph.tensors[place].elements for place in weights),
        dtype=_data_dtype(node),
        weights_dtype=None if largest is None else stored.of(largest).dtype,
    )


def weight_places(graph: Graph, operator: Operator) -> list[int]:
    """Return the places of its constants that are parameters."""
    places = [place for place in operator.inputs if place != OMITTED]
    return [place for place in places if is_weight(graph.tensors[place], operator)]


def is_weight(tensor: Tensor, operator: Operator) -> bool:
    """Whether the operator reads parameters from it: int32 ones are biases where the operator is a product."""
    is_parameter = tensor.dtype in PARAMETERS or (tensor.dtype == "int32" and _has_products(operator))
    return tensor.is_constant and is_parameter


def _sum(numbers: Iterable[int | None]) -> int | None:
    found = list(numbers)
    return None if None in found else sum(number or 0 for number in found)


def _rule(onnx: Mapping[str, Rule], tflite: Mapping[str, Rule], operator: Operator) -> Rule | None:
    if operator.domain == "tflite":
        return tflite.get(operator.op_type)
    return onnx.get(operator.op_type) if operator.domain in DOMAINS else None


def _has_products(operator: Operator) -> bool:
    return _rule(macs.ONNX, macs.TFLITE, operator) is not None


def _products(node: Node) -> int | None:
    """None of an operator of which nothing is known, 0 of one that is known to have none."""
    if _has_products(node.operator):
        return _counted(_rule(macs.ONNX, macs.TFLITE, node.operator), node)
    without = macs.CUSTOM_WITHOUT if node.operator.domain == "custom" else macs.WITHOUT
    has_none = node.operator.op_type in without and node.operator.domain in {*DOMAINS, "tflite", "custom"}
    return 0 if has_none or _rule(arithmetic.ONNX, arithmetic.TFLITE, node.operator) is not None else None


def _counted(rule: Rule | None, node: Node) -> int | None:
    if rule is None:
        return None
    try:
        return bounded(rule(node))
    except BROKEN_NODE:
        return None


def _data_dtype(node: Node) -> str | None:
    data = [tensor for tensor in node.inputs if tensor is not None and not tensor.is_constant]
    return next((tensor.dtype for tensor in (*data, *node.outputs) if tensor is not None), None)
