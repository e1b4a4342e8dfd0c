"""Copies the state of the search for slowdowns and throttling, and converts it to JSON of limited size and back."""

import types
from dataclasses import is_dataclass
from functools import cache, partial
from math import nan
from typing import Any, TypeVar, cast

from edgetop.session import typed_json

MAX_ITEMS = 4_096  # Most items of a list.
MAX_TEXT = 2_000
MAX_NUMBER = 2**62

_SCALARS = frozenset({int, float, str, bool, types.NoneType, tuple})

T = TypeVar("T")


def fork(value: T) -> T:
    """Return a copy in which mutable dataclasses and lists are copied at any depth.

    A dict is copied too, but its values are shared with the original, as is everything else.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, list):
        is_flat = not value or type(value[0]) in _SCALARS  # All items of a list have one type.
        return cast("T", value[:] if is_flat else [fork(item) for item in value])
    if isinstance(value, dict):
        return cast("T", dict(value))
    kind: type = type(value)
    names = _mutable_fields(kind)
    if names is None:
        return value
    other: object = object.__new__(kind)
    for name in names:
        part = getattr(value, name)
        setattr(other, name, part if type(part) in _SCALARS else fork(part))
    return cast("T", other)


@cache  # a view of a slowdown copies some hundred objects of a few classes
def _mutable_fields(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a mutable dataclass, or None for any other class, such as a frozen one."""
    if not is_dataclass(kind) or kind.__setattr__ is not object.__setattr__:
        return None
    return tuple(kind.__dataclass_fields__)


# `kind` is the type of a field, which Python's typing gives as Any.
def _scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and value is None:
        return nan
    if kind is str:
        typed_json.require(isinstance(value, str) and len(value) <= MAX_TEXT, where)
    elif kind is bool:
        typed_json.require(isinstance(value, bool), where)
    else:
        typed_json.require(
            type(value) in ((int, float) if kind is float else (int,)) and abs(value) < MAX_NUMBER, where
        )
    return kind(value)


require = partial(typed_json.require, where="a judgement")
FORM = typed_json.Form(_scalar, by_position=True, most_items=MAX_ITEMS)
