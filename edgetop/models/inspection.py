"""A model with everything that follows from its file, for inputs of given shapes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from edgetop.models.cost.memory import MemoryPlan, plan
from edgetop.models.cost.operators import OperatorCost, costs
from edgetop.models.cost.totals import Totals, Weights, totals, weights
from edgetop.models.data_dependent import data_dependent
from edgetop.models.graph import OMITTED, Model, count
from edgetop.models.shapes.inference import with_shapes


@dataclass(frozen=True, slots=True)
class RuntimeShapes:
    """What a runtime found when it ran the model once with inputs of the same shapes."""

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
    told: RuntimeShapes | None = None  # where some shapes did not follow from the file and a runtime told them


def inspected(
    declared: Model, inputs: Mapping[str, Sequence[int]], ask: Callable[[], RuntimeShapes | None] = lambda: None
) -> Inspection:
    """`inputs` are concrete shapes by the names of `input_names`.

    `ask`, for a runtime, is called where shapes of a TFLite model do not follow. Not where these depend on values:
    what a runtime found would hold for those of one input.
    """
    model, told = with_shapes(declared, inputs), None
    if declared.format == "tflite" and _leaves_open(model) and not data_dependent(declared):
        told = ask()
        model = with_shapes(declared, inputs, told.shapes) if told else model
    operators = costs(model)
    return Inspection(declared, model, operators, totals(operators), weights(model, operators), plan(model.graph), told)


def _leaves_open(model: Model) -> bool:
    graph = model.graph
    places = {place for operator in graph.operators for place in operator.outputs if place != OMITTED}
    return any(count(graph.tensors[place].shape) is None for place in places)
