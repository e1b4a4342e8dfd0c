"""Hints for the user that follow from a model's file alone, before the model has run."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from edgetop.formatting import percent, quantity
from edgetop.models.graph import OMITTED, Graph, Operator, input_names
from edgetop.models.inspection import Inspection
from edgetop.models.operator_costs import OperatorCost
from edgetop.models.tflite_file import ACTIVATIONS
from edgetop.session.events import Notice

# Share of all bytes from which operators that only move or convert data are reported.
NOTABLE_SHARE = 0.10
_EXAMPLES = 3  # most names in a hint

# Activations that ONNX Runtime merges into a convolution if no other operator reads the convolution
# (core/optimizer/conv_activation_fusion.cc), and activations that it does not merge.
_MERGED = {"Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip"}
_NOT_MERGED = {"HardSwish", "Elu", "Selu", "Celu", "Softplus", "Mish", "Gelu", "PRelu", "Swish"}

# Types of TFLite's activation operators that another operator can include (schema.fbs, ActivationFunctionType).
_CARRIED = {name for name in ACTIVATIONS if name}

_CONVERSIONS = {
    "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "Cast", "QUANTIZE", "DEQUANTIZE", "CAST",
}  # fmt: skip
_INT8_ACTIVATIONS = 4  # accuracy_level of MatMulNBits
_DYNAMIC = {"DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulInteger", "ConvInteger"}


def hints(inspection: Inspection) -> tuple[Notice, ...]:
    """Return the hints that apply to the model. Hints about incomplete figures come first."""
    return (
        *_unknown(inspection),
        *_open_shapes(inspection),
        *_separate_activations(inspection),
        *_conversions(inspection),
        *_dynamic_range(inspection.operators),
        *_wide_dtypes(inspection),
    )


def _unknown(inspection: Inspection) -> Iterator[Notice]:
    unknown = [cost for cost in inspection.operators if cost.flops is None or cost.bytes is None]
    if unknown:
        yield Notice(
            "unknown-work",
            f"the work of {quantity(len(unknown), 'operator')} is not known ({_types(unknown)}): "
            "the totals are lower bounds",
            "give the shapes that deployment uses with --shape; what a run takes is measured in any case",
        )


# How open sizes are fixed in a model of each format.
FIXES = {
    "onnx": "fix them when exporting, or with onnxruntime.tools.make_dynamic_shape_fixed",
    "openvino": "fix them when converting: openvino.convert_model(..., input=[1, 3, 224, 224]), or model.reshape",
}


def _open_shapes(inspection: Inspection) -> Iterator[Notice]:
    graph = inspection.declared.graph
    names = zip(input_names(inspection.declared), graph.inputs, strict=True)
    shapes = [(name, graph.tensors[place].shape) for name, place in names]
    opened = [name for name, shape in shapes if shape is None or any(not isinstance(dim, int) for dim in shape)]
    if opened:
        yield Notice(
            "open-shapes",
            f"the model leaves sizes of {_listed(opened)} open: runtimes plan memory anew and fuse less",
            FIXES.get(inspection.declared.format, "fix them when exporting"),
        )


def _separate_activations(inspection: Inspection) -> Iterator[Notice]:
    graph = inspection.model.graph
    readers = _readers(graph)
    if inspection.model.format == "tflite":
        names = [op.name for op in graph.operators if _could_carry(op, graph, readers)]
        text = "that could carry the activation behind it, which is an operator of its own"
        advice = "convert the model again"
    else:
        names = [op.name for op in graph.operators if op.op_type == "Conv" and _stays_apart(op, graph, readers)]
        text = "with an activation that ONNX Runtime does not merge"
        advice = "use Relu, Clip, LeakyRelu, Sigmoid or Tanh, and nothing else on the convolution's output"
    if names:
        yield Notice("separate-activations", f"{quantity(len(names), 'operator')} {text}: {_listed(names)}", advice)


def _readers(graph: Graph) -> dict[int, list[Operator]]:
    readers: dict[int, list[Operator]] = {}
    for operator in graph.operators:
        for place in set(operator.inputs) - {OMITTED}:
            readers.setdefault(place, []).append(operator)
    return readers


def _could_carry(operator: Operator, graph: Graph, readers: dict[int, list[Operator]]) -> bool:
    """Whether a TFLite operator could also compute the activation that follows it, but does not.

    `readers` has the operators that read each tensor, by the tensor's index.
    """
    if operator.attributes.get("activation") != 0 or len(operator.outputs) != 1:
        return False
    after = readers.get(operator.outputs[0], [])
    return len(after) == 1 and after[0].op_type in _CARRIED and operator.outputs[0] not in graph.outputs


def _stays_apart(operator: Operator, graph: Graph, readers: dict[int, list[Operator]]) -> bool:
    """Whether an ONNX convolution is followed by an activation that runtimes cannot merge into the convolution.

    `readers` has the operators that read each tensor, by the tensor's index.
    """
    place = operator.outputs[0] if operator.outputs else OMITTED
    after = readers.get(place, [])
    if len(after) == 1 and after[0].op_type == "BatchNormalization":  # it is merged into the convolution's weights
        place = after[0].outputs[0]
        after = readers.get(place, [])
    types = {reader.op_type for reader in after}
    is_shared = len(after) > 1 or place in graph.outputs
    return bool(types & _MERGED) if is_shared else bool(types & _NOT_MERGED)


def _conversions(inspection: Inspection) -> Iterator[Notice]:
    annotations = _annotations(inspection.model.graph)
    conversions = [
        cost
        for cost in inspection.operators
        if cost.operator.op_type in _CONVERSIONS and not cost.is_folded and cost.operator.position not in annotations
    ]
    if share := _notable_share(conversions, inspection):
        yield Notice(
            "conversions",
            f"{quantity(len(conversions), 'conversion')} of dtypes ({_types(conversions)}): {share} of the bytes",
            "keep one dtype through the model; quantise the operators between two conversions as well",
        )


def _notable_share(costs: Iterable[OperatorCost], inspection: Inspection) -> str:
    """Return the operators' share of the bytes that the model reads and writes, such as
    `12 %`; "" below NOTABLE_SHARE.
    """
    moved, total = sum(cost.bytes or 0 for cost in costs), inspection.totals.bytes
    return percent(moved / total) if moved and moved >= NOTABLE_SHARE * total > 0 else ""


def _annotations(graph: Graph) -> set[int]:
    """Return the positions of the QuantizeLinear and DequantizeLinear operators that only mark others as quantised.

    Runtimes merge such an operator with its neighbours, so it costs nothing.
    """
    makers = {place: operator for operator in graph.operators for place in operator.outputs}
    readers = _readers(graph)
    positions = set()
    for operator in graph.operators:
        if operator.op_type == "DequantizeLinear" and operator.inputs:
            maker = makers.get(operator.inputs[0])
            constant = operator.inputs[0] != OMITTED and graph.tensors[operator.inputs[0]].is_constant
            if constant or (maker is not None and maker.op_type == "QuantizeLinear"):
                positions.add(operator.position)
        elif operator.op_type == "QuantizeLinear" and operator.outputs:
            after = readers.get(operator.outputs[0], [])
            if after and all(reader.op_type == "DequantizeLinear" for reader in after):
                positions.add(operator.position)
    return positions


def _dynamic_range(operators: Sequence[OperatorCost]) -> Iterator[Notice]:
    dynamic = [
        cost
        for cost in operators
        if cost.macs
        and (cost.operator.op_type in _DYNAMIC or (_is_int(cost.weights_dtype) and not _is_int(cost.dtype)))
        and not _keeps_activations(cost.operator)
    ]
    if dynamic:
        yield Notice(
            "dynamic-range",
            f"{quantity(len(dynamic), 'operator')} with integer weights and float activations ({_types(dynamic)}), "
            "which are quantised anew in every inference",
            "quantise activations as well, with a set of representative inputs",
        )


def _keeps_activations(operator: Operator) -> bool:
    """Whether an operator is a MatMulNBits that computes on float activations
    (`accuracy_level` in ContribOperators.md).
    """
    return operator.op_type == "MatMulNBits" and operator.attributes.get("accuracy_level", 0) != _INT8_ACTIVATIONS


def _is_int(dtype: str | None) -> bool:
    return dtype is not None and "int" in dtype


def _wide_dtypes(inspection: Inspection) -> Iterator[Notice]:
    for dtype, narrower in (("float64", "float32"), ("int64", "int32")):
        wide = [cost for cost in inspection.operators if cost.dtype == dtype and cost.bytes]
        if share := _notable_share(wide, inspection):
            yield Notice(
                "wide-dtype",
                f"{quantity(len(wide), 'operator')} on {dtype} ({_types(wide)}): {share} of the bytes",
                f"{narrower} takes half of that; few accelerators have {dtype}",
            )


def _types(operators: Iterable[OperatorCost]) -> str:
    counts = Counter(cost.operator.op_type for cost in operators)
    examples = ", ".join(f"{op_type} {number}" for op_type, number in counts.most_common(_EXAMPLES))
    return examples + (", ..." if len(counts) > _EXAMPLES else "")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(name or "?" for name in names[:_EXAMPLES]) + (", ..." if len(names) > _EXAMPLES else "")
