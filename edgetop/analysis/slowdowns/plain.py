"""Values as lists and numbers, and back by their types: of what a stranger sent, what does not fit is a ValueError."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from math import isfinite, isnan, nan
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

NOT_EXPORTED = {"exported": False}  # metadata of a field with a default, that is left out
MOST = 4_096  # of a list
MOST_TEXT = 2_000
MOST_INT = 2**62

T = TypeVar("T")


def plain(value: Any) -> Any:
    """NaN is null; a dataclass is the list of its fields."""
    if is_dataclass(value):
        return [plain(getattr(value, name)) for name in _exported(value)]
    if isinstance(value, float):
        return None if isnan(value) else value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value


def _exported(of: Any) -> list[str]:
    return [field.name for field in fields(of) if field.metadata.get("exported", True)]


def built(kind: type[T], value: Any) -> T:
    """The value of that type that `plain` made this of. Raises ValueError."""
    return cast("T", _built(kind, value))


def _built(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (other,) = (argument for argument in arguments if argument is not types.NoneType)
        return None if value is None else _built(other, value)
    if origin is Literal:
        return _where(value, isinstance(value, str) and value in arguments)
    if origin in (list, tuple):
        return origin(_built(arguments[0], item) for item in _list(value))
    if origin is dict:
        _where(value, isinstance(value, dict) and len(value) <= MOST)
        return {_built(arguments[0], name): _built(arguments[1], item) for name, item in value.items()}
    if is_dataclass(kind) or hasattr(kind, "_fields"):
        return _record(kind, value)
    return _scalar(kind, value)


def _record(kind: Any, value: Any) -> Any:
    hints = get_type_hints(kind)
    names = _exported(kind) if is_dataclass(kind) else kind._fields
    items = _list(value)
    _where(items, len(items) == len(names))
    return kind(**{name: _built(hints[name], item) for name, item in zip(names, items, strict=True)})


def _scalar(kind: Any, value: Any) -> Any:
    if kind is float:
        if value is None:
            return nan
        _where(value, type(value) in (int, float))
        return float(_where(value, isfinite(value) and abs(value) < MOST_INT))
    if kind is int:
        return _where(value, type(value) is int and abs(value) < MOST_INT)
    if kind is str:
        return _where(value, isinstance(value, str) and len(value) <= MOST_TEXT)
    return _where(value, kind is bool and isinstance(value, bool))


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", _where(value, isinstance(value, list) and len(value) <= MOST))


def _where(value: Any, claim: bool) -> Any:
    if not claim:
        raise ValueError("a judgement that cannot be true")
    return value
