"""A model with everything that follows from its file, for inputs of given shapes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from edgetop.models.cost.memory import MemoryPlan, plan
from edgetop.models.cost.operators import OperatorCost, costs
from edgetop.models.cost.totals import Totals, Weights, totals, weights
from edgetop.models.data_dependent import tensors_by_value
from edgetop.models.graph import OMITTED, Model, count
from edgetop.models.shapes.inference import with_shapes


@dataclass(frozen=True, slots=True)
class RuntimeShapes:
    """The shapes that a runtime had when it ran the model once with inputs of the same shapes."""

    runtime: str  # its name and version
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)  # by the tensor's place in the main graph


@dataclass(frozen=True, slots=True)
class Inspection:
    declared: Model  # as the file has it
    model: Model  # with the shapes that follow from the inputs'
    operators: tuple[OperatorCost, ...]
    totals: Totals
    weights: Weights
    memory: MemoryPlan
    measured: RuntimeShapes | None = None  # where the file does not hold some shapes and a runtime gave them


def inspected(
    declared: Model, inputs: Mapping[str, Sequence[int]], measure: Callable[[], RuntimeShapes | None] = lambda: None
) -> Inspection:
    """`inputs` are concrete shapes by the names of `input_names`.

    `measure`, for a runtime, is called where the file of a TFLite model does not hold some shapes. Where shapes depend
    on values its answer is not used: it would hold for the values of one input alone.
    """
    model, measured = with_shapes(declared, inputs), None
    if declared.format == "tflite" and _is_open(model):
        measured = measure()
        model = with_shapes(declared, inputs, measured.shapes) if measured else model
    operators = costs(model)
    return Inspection(
        declared, model, operators, totals(operators), weights(model, operators), plan(model.graph), measured
    )


def _is_open(model: Model) -> bool:
    graph = model.graph
    places = {place for operator in graph.operators for place in operator.outputs if place != OMITTED}
    return any(count(graph.tensors[place].shape) is None for place in places - tensors_by_value(model))
