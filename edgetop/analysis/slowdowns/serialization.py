"""Converts state to JSON values and back, by the types of its fields; input that does not fit is a ValueError.

It also makes independent copies of state.
"""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isnan, nan
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

NOT_EXPORTED = {"exported": False}  # metadata of a field with a default that is left out
MAX_ITEMS = 4_096  # of a list
MAX_TEXT = 2_000
MAX_NUMBER = 2**62

_SCALARS = frozenset({int, float, str, bool, types.NoneType, tuple})

T = TypeVar("T")


def fork(value: T) -> T:
    """Copy mutable dataclasses and lists at any depth, and dicts; the items of dicts, and all else, are shared."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, list):
        is_flat = not value or type(value[0]) in _SCALARS  # lists hold values of one type
        return cast("T", value[:] if is_flat else [fork(item) for item in value])
    if isinstance(value, dict):
        return cast("T", dict(value))
    if not is_dataclass(value) or cast("Any", value).__dataclass_params__.frozen:
        return value
    other = object.__new__(type(value))
    for name in value.__dataclass_fields__:
        setattr(other, name, fork(getattr(value, name)))
    return cast("T", other)


def to_json(value: Any) -> Any:
    """Convert to JSON values. NaN becomes null; a dataclass becomes the list of its fields."""
    if is_dataclass(value):
        return [to_json(getattr(value, name)) for name in _exported(value)]
    if isinstance(value, float):
        return None if isnan(value) else value
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    return value


def _exported(record: Any) -> list[str]:
    return [field.name for field in fields(record) if field.metadata.get("exported", True)]


def from_json(kind: type[T], value: Any) -> T:
    """Convert the result of `to_json` back to `kind`. Raises ValueError if it does not fit."""
    return cast("T", _parse(kind, value))


def _parse(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (other,) = (argument for argument in arguments if argument is not types.NoneType)
        return None if value is None else _parse(other, value)
    if origin is Literal:
        require(isinstance(value, str) and value in arguments)
        return value
    if origin in (list, tuple):
        return origin(_parse(arguments[0], item) for item in _items(value))
    if origin is dict:
        require(isinstance(value, dict) and len(value) <= MAX_ITEMS)
        return {_parse(arguments[0], name): _parse(arguments[1], item) for name, item in value.items()}
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        names, items = _exported(kind) if is_dataclass(kind) else kind._fields, _items(value)
        require(len(items) == len(names))
        hints = get_type_hints(kind)
        return kind(**{name: _parse(hints[name], item) for name, item in zip(names, items, strict=True)})
    return _parse_scalar(kind, value)


def _parse_scalar(kind: Any, value: Any) -> Any:
    if kind is float and value is None:
        return nan
    if kind is str:
        require(isinstance(value, str) and len(value) <= MAX_TEXT)
    elif kind is bool:
        require(isinstance(value, bool))
    else:
        require(type(value) in ((int, float) if kind is float else (int,)) and abs(value) < MAX_NUMBER)
    return kind(value)


def _items(value: Any) -> list[Any]:
    require(isinstance(value, list) and len(value) <= MAX_ITEMS)
    return cast("list[Any]", value)


def require(claim: bool) -> None:
    if not claim:
        raise ValueError("a judgement that cannot be true")
