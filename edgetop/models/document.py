"""The document that `inspect --json` prints, from which the text output is made too. The keys stay the same."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from edgetop.models.graph import OMITTED, Graph, Model, Tensor, input_names
from edgetop.models.hints import hints
from edgetop.models.inspection import Inspection
from edgetop.models.operator_costs import OperatorCost, Totals, by_type
from edgetop.session.caches import Cache, smallest_holding


def inspection_document(inspection: Inspection, caches: Sequence[Cache] = ()) -> dict[str, Any]:
    """Return the document that `inspect --json` prints, with None for unknown values.

    docs/inspect.md explains the keys. `caches` are the caches of the CPU that will run the model, lowest level first,
    or () if they are unknown.
    """
    totals, declared = inspection.totals, inspection.declared.graph
    precision = Counter(cost.dtype or "unknown" for cost in inspection.operators if not cost.is_folded)
    return {
        "model": _model(inspection.declared),
        "inputs": _ports(inspection, input_names(inspection.declared), declared.inputs),
        "outputs": _ports(inspection, [declared.tensors[at].name for at in declared.outputs], declared.outputs),
        "shapes_from": inspection.measured.runtime if inspection.measured else None,
        "totals": _totals(inspection),
        "precision": {
            "operators": dict(precision.most_common()),
            "weights": {
                dtype: {"parameters": parameters, "bytes": size}
                for dtype, (parameters, size) in inspection.weights.by_dtype.items()
            },
        },
        "caches": [asdict(one) for one in caches],
        "operators": [
            {**_operator(inspection.model.graph, cost, totals), "fits_in": smallest_holding(cost.bytes, caches)}
            for cost in inspection.operators
        ],
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
        "external_files": list(model.external),
    }


def _ports(inspection: Inspection, names: Iterable[str], places: Iterable[int]) -> list[dict[str, Any]]:
    declared, settled = inspection.declared.graph.tensors, inspection.model.graph.tensors
    return [
        {**_tensor(declared[place]), "name": name, "dtype": settled[place].dtype, "runs_as": _shape(settled[place])}
        for name, place in zip(names, places, strict=True)
    ]


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


def _operator(graph: Graph, cost: OperatorCost, totals: Totals) -> dict[str, Any]:
    operator = cost.operator
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
        "inputs": _tensors(graph, operator.inputs),
        "outputs": _tensors(graph, operator.outputs),
    }


def _tensors(graph: Graph, places: Iterable[int]) -> list[dict[str, Any]]:
    return [_tensor(graph.tensors[place]) for place in places if place != OMITTED]


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": tensor.dtype, "shape": _shape(tensor)}


def _shape(tensor: Tensor) -> list[int | str | None] | None:
    return None if tensor.shape is None else list(tensor.shape)


def _type(op_type: str, group: Totals, totals: Totals) -> dict[str, Any]:
    return {
        "op_type": op_type,
        "operators": group.operators,
        **(sums := _sums(group)),
        "flops_share": _share(sums["flops"], totals.flops),
        "bytes_share": _share(sums["bytes"], totals.bytes),
    }


def _sums(totals: Totals) -> dict[str, int | None]:
    """Return sums of MACs, FLOPs and bytes for `inspect --json`. A sum is None if no operator has a known value.

    Keys such as `macs_unknown` have the number of operators whose value is unknown and left out of the sum.
    """
    sums: dict[str, int | None] = {}
    for key in ("macs", "flops", "bytes"):
        unknown = getattr(totals, f"{key}_unknown")
        sums[key] = getattr(totals, key) if unknown < totals.operators or not unknown else None
        sums[f"{key}_unknown"] = unknown
    return sums


def _share(part: int | None, whole: int) -> float | None:
    return round(part / whole, 6) if part is not None and whole else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
