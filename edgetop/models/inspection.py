"""A model with everything that follows from its file, for inputs of given shapes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetop.models.cost.memory import MemoryPlan, plan
from edgetop.models.cost.operators import OperatorCost, costs
from edgetop.models.cost.totals import Totals, Weights, totals, weights
from edgetop.models.graph import Model
from edgetop.models.shapes.inference import with_shapes


@dataclass(frozen=True, slots=True)
class Inspection:
    declared: Model  # as the file has it
    model: Model  # with the shapes that follow from the inputs'
    operators: tuple[OperatorCost, ...]
    totals: Totals
    weights: Weights
    memory: MemoryPlan


def inspected(declared: Model, inputs: Mapping[str, Sequence[int]]) -> Inspection:
    """`inputs` are concrete shapes by the names of `input_names`."""
    model = with_shapes(declared, inputs)
    operators = costs(model)
    return Inspection(declared, model, operators, totals(operators), weights(model, operators), plan(model.graph))
