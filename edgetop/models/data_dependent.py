"""Operators whose work depends on the values they are given, and not on shapes alone.

With random input such a model does another amount of work than it does in deployment: no box survives,
or all of them do; a loop ends at once, or at its limit.
"""

from collections import Counter

from edgetop.models.graph import OMITTED, Graph, Model, Operator

# ONNX's operators (docs/Operators.md) whose outputs have as many elements as values decide, or that run a
# branch or a body as values decide; ONNX's Where only chooses among elements, TFLite's WHERE finds them.
_ONNX = frozenset({"NonMaxSuppression", "NonZero", "Unique", "Compress"})
_TFLITE = frozenset(
    {
        "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "WHERE", "UNIQUE", "IF", "WHILE",
        "TFLite_Detection_PostProcess",
    }
)  # fmt: skip
_BRANCHES, _LOOPS = "If", "Loop"


def data_dependent(model: Model) -> dict[str, int]:
    """How many of each type there are, in the model and in what it may run; most first."""
    found = Counter(
        operator.op_type
        for graph in (model.graph, *model.subgraphs)
        for operator in graph.operators
        if _depends(graph, operator, is_onnx=model.format == "onnx")
    )
    return dict(found.most_common())


def tensors_by_value(model: Model) -> set[int]:
    """Places of the main graph's tensors that such operators make, directly or not: values may decide their shapes."""
    found: set[int] = set()
    for operator in model.graph.operators:
        if _depends(model.graph, operator, is_onnx=model.format == "onnx") or not found.isdisjoint(operator.inputs):
            found.update(operator.outputs)
    return found - {OMITTED}


def _depends(graph: Graph, operator: Operator, *, is_onnx: bool) -> bool:
    if not is_onnx:
        return operator.op_type in _TFLITE
    if operator.op_type == _BRANCHES:
        return not _is_constant(graph, operator, 0)
    if operator.op_type == _LOOPS:  # for a number of times that is known, unless a condition ends it
        has_condition = len(operator.inputs) > 1 and operator.inputs[1] != OMITTED
        return has_condition or not _is_constant(graph, operator, 0)
    return operator.op_type in _ONNX


def _is_constant(graph: Graph, operator: Operator, place: int) -> bool:
    if len(operator.inputs) <= place or operator.inputs[place] == OMITTED:
        return False
    return graph.tensors[operator.inputs[place]].is_constant
