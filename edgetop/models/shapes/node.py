"""An operator together with its tensors, in the form that the rules for operators take."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgetop.frozen import frozen
from edgetop.models.graph import OMITTED, Array, Operator, Sizes, Tensor


class UnknownError(ValueError):
    """Raised by a rule that needs an unknown value or size, so that the result of the rule is unknown."""


@frozen
class Node:
    """One operator together with its tensors, whose shapes are filled in as far as they are known.

    An omitted optional tensor is None.
    """

    operator: Operator
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...] = ()

    @classmethod
    def of(cls, operator: Operator, tensors: Sequence[Tensor]) -> "Node":
        sides = (
            tuple(None if place == OMITTED else tensors[place] for place in side)
            for side in (operator.inputs, operator.outputs)
        )
        return cls(operator, *sides)

    def has(self, place: int) -> bool:
        return place < len(self.inputs) and self.inputs[place] is not None

    def tensor(self, place: int) -> Tensor:
        """Return the input at index `place`. Raises UnknownError if this input is missing."""
        tensor = self.inputs[place] if place < len(self.inputs) else None
        if tensor is None:
            raise UnknownError
        return tensor

    def sizes(self, place: int = 0) -> Sizes:
        """Return the shape of the input at index `place`. A size is None if unknown.

        Raises UnknownError if even the number of dimensions is unknown.
        """
        return _sizes(self.tensor(place))

    def full_sizes(self, place: int = 0) -> tuple[int, ...]:
        """Return the shape of the input at index `place`. Raises UnknownError unless every size is known."""
        return complete(self.sizes(place))

    def elements(self, place: int = 0) -> int:
        return math.prod(self.full_sizes(place))

    def out_sizes(self) -> tuple[int, ...]:
        """Return the shape of the operator's first output. Raises UnknownError unless every size is known."""
        tensor = self.outputs[0] if self.outputs else None
        if tensor is None:
            raise UnknownError
        return complete(_sizes(tensor))

    @property
    def out(self) -> int:
        """Number of elements of the operator's first output. Raises UnknownError unless every size is known."""
        return math.prod(self.out_sizes())

    def value(self, place: int) -> Array:
        tensor = self.tensor(place)
        if tensor.value is not None:
            return tensor.value
        if tensor.shape is None or 0 not in tensor.shape or None in tensor.shape:
            raise UnknownError
        return np.empty(self.full_sizes(place), np.int32)  # without elements, such as the shape of a scalar

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.operator.attributes.get(name)
        return default if value is None else value

    def ints(self, name: str, place: int) -> list[int] | None:
        """Return the integers that an operator has as the input at index `place`, or as the
        attribute `name` in older versions.

        Return None if neither is given. Raises UnknownError if the value of the input is unknown.
        """
        given = self.attribute(name)
        if given is not None:
            return [int(number) for number in (given if isinstance(given, tuple) else (given,))]
        return [int(number) for number in self.value(place).reshape(-1)] if self.has(place) else None


def _sizes(tensor: Tensor) -> Sizes:
    if tensor.shape is None:
        raise UnknownError
    return tuple(dim if isinstance(dim, int) else None for dim in tensor.shape)


def complete(sizes: Sequence[int | None]) -> tuple[int, ...]:
    result = tuple(size for size in sizes if size is not None)
    if len(result) != len(sizes):
        raise UnknownError
    return result


def axis_of(axis: int, rank: int) -> int:
    """Return the index of an axis, from 0. A negative axis counts from the end.

    Raises UnknownError if a tensor of `rank` dimensions has no such axis.

    >>> axis_of(-1, 4)
    3
    """
    if not -rank <= axis < rank:
        raise UnknownError
    return axis % rank


def broadcast(*shapes: Sequence[int | None]) -> Sizes:
    """Return the shape that results from combining tensors of these shapes, as numpy and ONNX broadcast them.

    Raises UnknownError if the shapes do not fit (onnx/docs/Broadcasting.md).

    >>> broadcast((8, 1, 3), (4, 1))
    (8, 4, 3)
    """
    rank = max(map(len, shapes), default=0)
    columns = zip(*((1,) * (rank - len(shape)) + tuple(shape) for shape in shapes), strict=True)
    return tuple(_broadcast_dim(column) for column in columns)


def _broadcast_dim(column: Sequence[int | None]) -> int | None:
    sizes = {size for size in column if size != 1}
    numbers = sizes - {None}
    if len(numbers) > 1:
        raise UnknownError
    if numbers:
        return numbers.pop()
    return None if sizes else 1
