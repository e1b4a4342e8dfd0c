"""What the work of an operator is reckoned from."""

import math
from dataclasses import dataclass
from typing import Any

from edgetop.models.graph import OMITTED, Graph, Operator, Tensor, count


class UncountedError(ValueError):
    """A size that the work depends on is not known."""


@dataclass(frozen=True, slots=True)
class Call:
    """An operator on tensors whose shapes are worked out."""

    operator: Operator
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]

    @classmethod
    def of(cls, graph: Graph, operator: Operator) -> "Call":
        sides = (
            tuple(None if place == OMITTED else graph.tensors[place] for place in side)
            for side in (operator.inputs, operator.outputs)
        )
        return cls(operator, *sides)

    def has(self, place: int) -> bool:
        return place < len(self.inputs) and self.inputs[place] is not None

    def sizes(self, place: int = 0) -> tuple[int, ...]:
        """The shape of an input. Raises UncountedError."""
        return _sizes(self.inputs[place] if place < len(self.inputs) else None)

    def out_sizes(self, place: int = 0) -> tuple[int, ...]:
        return _sizes(self.outputs[place] if place < len(self.outputs) else None)

    def elements(self, place: int = 0) -> int:
        return math.prod(self.sizes(place))

    def whole_numbers(self, place: int) -> list[int]:
        """What a small input holds. Raises UncountedError."""
        tensor = self.inputs[place] if place < len(self.inputs) else None
        if tensor is None or tensor.value is None:
            raise UncountedError
        return [int(number) for number in tensor.value.reshape(-1)]

    @property
    def out(self) -> int:
        """Elements of the first output."""
        return math.prod(self.out_sizes())

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.operator.attributes.get(name)
        return default if value is None else value


def _sizes(tensor: Tensor | None) -> tuple[int, ...]:
    shape = None if tensor is None else tensor.shape
    if shape is None or count(shape) is None:
        raise UncountedError
    return tuple(dim for dim in shape if isinstance(dim, int))
