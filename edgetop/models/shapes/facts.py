"""What is known of tensors while shapes are worked out, and how a rule asks for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgetop.models.graph import Array, Operator, Sizes


class UnknownError(ValueError):
    """What a rule needs is not known, so neither is what it gives."""


@dataclass(frozen=True, slots=True)
class Fact:
    sizes: Sizes | None = None  # None: not even the rank is known; None within: that size
    dtype: str | None = None
    value: Array | None = None  # of a small tensor whose contents follow from shapes and constants
    is_constant: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """An operator and what is known of its inputs; omitted ones are None."""

    operator: Operator
    inputs: tuple[Fact | None, ...]

    def has(self, place: int) -> bool:
        return place < len(self.inputs) and self.inputs[place] is not None

    def fact(self, place: int) -> Fact:
        fact = self.inputs[place] if place < len(self.inputs) else None
        if fact is None:
            raise UnknownError
        return fact

    def sizes(self, place: int = 0) -> Sizes:
        """Raises UnknownError where the rank is not known."""
        sizes = self.fact(place).sizes
        if sizes is None:
            raise UnknownError
        return sizes

    def known(self, place: int = 0) -> tuple[int, ...]:
        """Raises UnknownError unless every size is known."""
        return complete(self.sizes(place))

    def value(self, place: int) -> Array:
        fact = self.fact(place)
        if fact.value is not None:
            return fact.value
        if fact.sizes is None or 0 not in fact.sizes or None in fact.sizes:
            raise UnknownError
        return np.empty(self.known(place), np.int32)  # of no element, as the shape of a scalar is

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self.operator.attributes.get(name)
        return default if value is None else value

    def ints(self, name: str, place: int) -> list[int] | None:
        """Whole numbers that are an attribute in older versions of an operator and an input in newer ones.

        None where neither is given. Raises UnknownError for an input whose value is not known.
        """
        given = self.attribute(name)
        if given is not None:
            return [int(number) for number in (given if isinstance(given, tuple) else (given,))]
        return [int(number) for number in self.value(place).reshape(-1)] if self.has(place) else None


def complete(sizes: Sequence[int | None]) -> tuple[int, ...]:
    found = tuple(size for size in sizes if size is not None)
    if len(found) != len(sizes):
        raise UnknownError
    return found


def axis_of(axis: int, rank: int) -> int:
    """An axis that may count from the end. Raises UnknownError for one that is not there."""
    if not -rank <= axis < rank:
        raise UnknownError
    return axis % rank


def broadcast(*shapes: Sequence[int | None]) -> Sizes:
    """Numpy's rule, which ONNX has too (onnx/docs/Broadcasting.md). Raises UnknownError for shapes that do not fit."""
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
