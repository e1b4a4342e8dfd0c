"""Tensors of a graph while its file is read: found by name, declared and defined in any order."""

from dataclasses import replace

from edgetop.models.graph import Shape, Tensor
from edgetop.models.limits import MAX_TENSORS, MalformedError


class Drafts:
    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._tensors: list[Tensor] = []

    def place(self, name: str) -> int:
        """Where the tensor of that name stands; a name not met before gets a place."""
        place = self._places.get(name)
        if place is None:
            if len(self._tensors) >= MAX_TENSORS:
                raise MalformedError("more tensors than any model has")
            place = self._places[name] = len(self._tensors)
            self._tensors.append(Tensor(name, None, None))
        return place

    def declare(self, name: str, dtype: str | None, shape: Shape | None) -> int:
        """What the file says of a tensor; a constant knows better itself."""
        place = self.place(name)
        if not self._tensors[place].is_constant:
            self._tensors[place] = Tensor(name, dtype, shape)
        return place

    def define(self, name: str, constant: Tensor) -> None:
        self._tensors[self.place(name)] = replace(constant, name=name)

    def name(self, place: int) -> str:
        return self._tensors[place].name

    def has(self, name: str) -> bool:
        return name in self._places

    def tensor(self, name: str) -> Tensor:
        """As far as it is known by now. Raises KeyError where no tensor has that name."""
        return self._tensors[self._places[name]]

    def is_constant(self, place: int) -> bool:
        return self._tensors[place].is_constant

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self._tensors)
