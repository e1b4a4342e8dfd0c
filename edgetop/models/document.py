"""What `inspect --json` holds, and the text view is written from: one document with stable keys."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from edgetop.models.cost.operators import OperatorCost, Totals, by_type
from edgetop.models.graph import OMITTED, Graph, Model, Tensor, input_names
from edgetop.models.hints import hints
from edgetop.models.inspection import Inspection


def inspection_document(inspection: Inspection) -> dict[str, Any]:
    """The keys are documented in edgetop/docs/inspect.md. What is not known is None."""
    model, totals = inspection.model, inspection.totals
    return {
        "model": _model(inspection.declared),
        "inputs": _inputs(inspection),
        "outputs": _outputs(inspection),
        "shapes_from": inspection.measured.runtime if inspection.measured else None,
        "totals": _totals(inspection),
        "precision": {
            "operators": _operator_precision(inspection.operators),
            "weights": {
                dtype: {"parameters": parameters, "bytes": size}
                for dtype, (parameters, size) in inspection.weights.by_dtype.items()
            },
        },
        "operators": [_operator(model.graph, cost, totals) for cost in inspection.operators],
        "by_type": [_type(op_type, group, totals) for op_type, group in by_type(inspection.operators).items()],
        "hints": [
            {"code": notice.code, "message": notice.message, "advice": notice.advice} for notice in hints(inspection)
        ],
    }


def _model(model: Model) -> dict[str, Any]:
    return {
        "format": model.format,
        "ir_version": model.version if model.format == "onnx" else None,
        "opsets": {domain or "ai.onnx": version for domain, version in model.opsets.items()},
        "schema_version": model.version if model.format == "tflite" else None,
        "producer": model.producer or None,
        "description": model.description or None,
        "graph": model.graph.name or None,
        "metadata": dict(model.metadata),
        "signatures": list(model.signatures),
        "functions": model.functions,
        "subgraphs": [{"name": graph.name, "operators": len(graph.operators)} for graph in model.subgraphs],
        "external_files": list(model.external_files),
    }


def _inputs(inspection: Inspection) -> list[dict[str, Any]]:
    declared, settled = inspection.declared.graph, inspection.model.graph
    return [
        {**_tensor(name, declared.tensors[place]), "runs_as": _shape(settled.tensors[place])}
        for name, place in zip(input_names(inspection.declared), declared.inputs, strict=True)
    ]


def _outputs(inspection: Inspection) -> list[dict[str, Any]]:
    declared, settled = inspection.declared.graph, inspection.model.graph
    return [
        {
            **_tensor(declared.tensors[place].name, declared.tensors[place]),
            "dtype": settled.tensors[place].dtype,
            "runs_as": _shape(settled.tensors[place]),
        }
        for place in declared.outputs
    ]


def _tensor(name: str, tensor: Tensor) -> dict[str, Any]:
    return {"name": name, "dtype": tensor.dtype, "shape": _shape(tensor)}


def _shape(tensor: Tensor) -> list[int | str | None] | None:
    return None if tensor.shape is None else list(tensor.shape)


def _totals(inspection: Inspection) -> dict[str, Any]:
    totals, weights, memory = inspection.totals, inspection.weights, inspection.memory
    return {
        "operators": totals.operators,
        "folded": totals.folded,
        "parameters": weights.parameters,
        "weights_bytes": weights.bytes,
        "weights_stored_bytes": sum(size for _, size in weights.by_dtype.values()),
        "weights_unknown": weights.unknown,
        "unread_parameters": weights.unread,
        **_sums(totals),
        "intensity": _rounded(totals.intensity),
        "peak_activation_bytes": memory.peak_bytes,
        "peak_position": memory.peak_position,
        "working_set_bytes": memory.working_set_bytes,
        "working_set_position": memory.working_set_position,
        "activations_unknown": memory.unknown,
    }


def _operator_precision(operators: Sequence[OperatorCost]) -> dict[str, int]:
    counts = Counter(cost.dtype or "unknown" for cost in operators if not cost.is_folded)
    return dict(counts.most_common())


def _operator(graph: Graph, cost: OperatorCost, totals: Totals) -> dict[str, Any]:
    operator = cost.operator
    sides = (
        [_tensor(graph.tensors[place].name, graph.tensors[place]) for place in side if place != OMITTED]
        for side in (operator.inputs, operator.outputs)
    )
    return {
        "position": operator.position,
        "name": operator.name,
        "op_type": operator.op_type,
        "domain": operator.domain,
        "dtype": cost.dtype,
        "weights_dtype": cost.weights_dtype,
        "folded": cost.is_folded,
        "macs": cost.macs,
        "flops": cost.flops,
        "flops_share": _share(cost.flops, totals.flops),
        "bytes": cost.bytes,
        "bytes_share": _share(cost.bytes, totals.bytes),
        "read_bytes": cost.read_bytes,
        "written_bytes": cost.written_bytes,
        "weights_bytes": cost.weights_bytes,
        "parameters": cost.parameters,
        "intensity": _rounded(cost.intensity),
        **dict(zip(("inputs", "outputs"), sides, strict=True)),
    }


def _type(op_type: str, group: Totals, totals: Totals) -> dict[str, Any]:
    return {
        "op_type": op_type,
        "operators": group.operators,
        **(sums := _sums(group)),
        "flops_share": _share(sums["flops"], totals.flops),
        "bytes_share": _share(sums["bytes"], totals.bytes),
    }


def _sums(totals: Totals) -> dict[str, int | None]:
    """Over the operators of which each is known, and of how many it is not; None where of none."""
    found: dict[str, int | None] = {}
    for key, known, unknown in (
        ("macs", totals.macs, totals.macs_unknown),
        ("flops", totals.flops, totals.flops_unknown),
        ("bytes", totals.bytes, totals.bytes_unknown),
    ):
        found[key] = known if unknown < totals.operators or not unknown else None
        found[f"{key}_unknown"] = unknown
    return found


def _share(part: int | None, whole: int) -> float | None:
    return round(part / whole, 6) if part is not None and whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
