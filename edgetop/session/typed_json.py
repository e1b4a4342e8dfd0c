"""The conversion of dataclasses to JSON values and back, by the types of their fields.

A wrong type raises ValueError.
"""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from edgetop.frozen import frozen

JsonValue = str | int | float | bool | None
Document = dict[str, Any]  # a JSON object. Its keys are described where it is made, and in the topic of its command

NOT_EXPORTED = {"exported": False}  # metadata of a field that is left out; it must have a default

T = TypeVar("T")


def require(claim: bool, where: str) -> None:
    if not claim:
        raise ValueError(f"{where} has an unexpected value")


@frozen
class Form:
    """A way to convert dataclasses to JSON and back.

    `plain` makes JSON values; `parse` and `read` check JSON values.
    """

    scalar: Callable[[Any, Any, str], Any]  # parses a number, text or boolean; takes its type, the value and its place
    by_position: bool = False  # an object is written as a list of its values without names, and NaN as null
    most_items: float = math.inf  # most items of a list, or keys of an object

    def plain(self, value: Any) -> Any:
        """Return a value (such as a dataclass) as the dicts, lists and scalars that `json` can write."""
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            items = {name: self.plain(getattr(value, name)) for name in _exported(type(value))}
            return list(items.values()) if self.by_position else items
        if isinstance(value, Mapping):
            return {str(key): self.plain(item) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return [self.plain(item) for item in value]
        return None if self.by_position and isinstance(value, float) and math.isnan(value) else value

    def parse(self, hint: Any, value: Any, where: str) -> Any:
        origin, arguments = _parts_of(hint)
        if origin in (types.UnionType, typing.Union):
            (other,) = (argument for argument in arguments if argument is not types.NoneType)
            return None if value is None else self.parse(other, value, where)
        if origin is Literal:
            require(value in arguments, where)
            return value
        if origin in (list, tuple):
            require(isinstance(value, list) and len(value) <= self.most_items, where)
            return origin(self.parse(arguments[0], item, where) for item in value)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            require(isinstance(value, Mapping) and len(value) <= self.most_items, where)
            key_hint, item_hint = arguments
            return {self.parse(key_hint, k, where): self.parse(item_hint, v, where) for k, v in value.items()}
        if dataclasses.is_dataclass(hint) or hasattr(hint, "_fields"):
            return self.read(hint, value, where)
        return self.scalar(hint, value, where)

    def read(self, kind: type[T], value: Any, where: str) -> T:
        """Return an object of the dataclass or named tuple `kind`, made from a JSON value. Unknown keys are ignored.

        Raises ValueError if a key is missing or its value has the wrong type. The message names the key and `where`,
        such as "session.json".
        """
        hints = _hints_of(kind)  # type: ignore[arg-type]  # a class is hashable
        if self.by_position:
            names = _exported(kind) if dataclasses.is_dataclass(kind) else list(hints)
            require(isinstance(value, list) and len(value) == len(names), where)
            items = dict(zip(names, value, strict=True))
            return kind(**{name: self.parse(hints[name], item, where) for name, item in items.items()})
        if not isinstance(value, Mapping):
            raise ValueError(f"{where} is not an object")  # noqa: TRY004  a wrong value of a document
        given = {}
        for field in dataclasses.fields(kind):  # type: ignore[arg-type]
            if field.name in value and field.metadata.get("exported", True):
                given[field.name] = self.parse(hints[field.name], value[field.name], f"{where}: {field.name}")
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                raise ValueError(f"{where}: {field.name} is missing")
        return kind(**given)


def _exported(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.metadata.get("exported", True)]


@functools.cache
def _hints_of(kind: type) -> Mapping[str, Any]:
    """Return the types of a class's fields by name."""
    return typing.get_type_hints(kind)


@functools.cache
def _parts_of(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the generic type and its arguments: `(list, (int,))` for `list[int]`."""
    return typing.get_origin(hint), typing.get_args(hint)
