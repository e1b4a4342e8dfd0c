"""The conversion of events to plain data and back, for the journal, the event table and the network.

Types of an event's data are checked here and nowhere else. Data that does not fit the event's kind becomes an
`UnknownEvent`, which copies of the session keep and no other code interprets.
"""

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from edgetop.frozen import frozen
from edgetop.session.event_kinds import KINDS, UnknownEvent
from edgetop.session.events import Body, Event

MAX_WHOLE = 2**62  # sums of a few such numbers still fit into 64 bits
_REQUIRED: Any = object()
_ABSENT: Any = object()


class _Key(NamedTuple):
    """How one field of an event's class is stored: the key in the event's data, and the types of its value."""

    field: str
    key: str
    accepts: frozenset[type]
    values: tuple[object, ...]  # that are possible; (): all of these types
    default: Any
    is_written: Callable[[Any, Any], bool] | None  # given the object and the value; None: always


class _Part(NamedTuple):
    """A field of an event's class whose value is a dataclass. The keys of that dataclass begin with a prefix."""

    field: str
    shape: "_Shape"
    is_optional: bool


@frozen
class _Shape:
    """The fields of a class, and how each field is converted to event data and back."""

    of: type
    keys: tuple[_Key, ...]
    parts: tuple[_Part, ...]
    in_order: tuple[_Key | _Part, ...]  # both
    others: str | None  # the field of all keys that have none
    has_kinds: bool

    def read(self, data: Mapping[str, object]) -> dict[str, Any]:
        """Return the field values of an object of this class, by name. `data` is the JSON object of an event.

        Raises ValueError if `data` does not fit the class.
        """
        values: dict[str, Any] = {}
        for name, key, accepts, possible, default, _ in self.keys:
            value: Any = data.get(key, _ABSENT)
            kind = type(value)
            if kind in accepts and (kind is not int or -MAX_WHOLE < value < MAX_WHOLE):
                if possible and value not in possible:
                    raise ValueError(f"{key} has an unexpected value")
                values[name] = value
            elif value is not _ABSENT or default is _REQUIRED:
                raise ValueError(f"{key} is missing or has an unexpected value")
        for name, shape, is_optional in self.parts:
            if not is_optional or data.get(shape.keys[0].key) is not None:
                values[name] = shape.of(**shape.read(data))
        if self.others:
            known = {each.key for each in self.keys}
            values[self.others] = {key: value for key, value in data.items() if key not in known}
        return values

    def plain(self, body: object) -> dict[str, object]:
        """Return the event data of `body`, an event that this version of edgetop created.

        For a body that was decoded from stored data, use `changes`.
        """
        data: dict[str, object] = {}
        for each in self.in_order:
            value = getattr(body, each.field)
            if isinstance(each, _Part):
                data.update({} if value is None else each.shape.plain(value))
            elif each.is_written is None or each.is_written(body, value):
                data[each.key] = value
        return {**data, **getattr(body, self.others)} if self.others else data

    def changes(self, body: object, read_from: Mapping[str, object]) -> dict[str, object]:
        """Return the event data of the fields of `body` that were changed since `body` was made from `read_from`."""
        found = {}
        for each in self.keys:
            value = getattr(body, each.field)
            if value != read_from.get(each.key, each.default):
                found[each.key] = value
        for part in self.parts:
            value = getattr(body, part.field)
            found.update({} if value is None else part.shape.changes(value, read_from))
        return found


@functools.cache
def _shape(of: Any, prefix: str = "") -> _Shape:
    hints = typing.get_type_hints(of)
    found: list[_Key | _Part] = []
    others, names = None, []
    for each in dataclasses.fields(of):
        hint = hints[each.name]
        options = typing.get_args(hint) if typing.get_origin(hint) in (types.UnionType, typing.Union) else (hint,)
        names.append(each.name)
        if each.name in ("kind", "read_from"):
            continue
        if "others" in each.metadata:
            others = each.name
        elif "prefix" in each.metadata:
            inner: Any = next(option for option in options if dataclasses.is_dataclass(option))
            found.append(_Part(each.name, _shape(inner, each.metadata["prefix"]), types.NoneType in options))
        else:
            values = typing.get_args(hint) if typing.get_origin(hint) is Literal else ()
            accepts = frozenset(map(type, values)) if values else frozenset(options)
            default = _REQUIRED if each.default is dataclasses.MISSING else each.default
            is_written = each.metadata.get("is_written")
            found.append(_Key(each.name, f"{prefix}{each.name}", accepts, values, default, is_written))
    keys = tuple(each for each in found if isinstance(each, _Key))
    parts = tuple(each for each in found if isinstance(each, _Part))
    return _Shape(of, keys, parts, tuple(found), others, has_kinds="kind" in names)


def decoded(kind: str, data: Mapping[str, object]) -> Body:
    """Return the body of an event: an object of the class for `kind` with the fields of `data`.

    The body is an `UnknownEvent` if the kind is unknown or the data does not fit the kind.
    """
    of = KINDS.get(kind)
    if of is None:
        return UnknownEvent(kind, data)
    shape = _shape(of)  # type: ignore[arg-type]  # a class is hashable
    try:
        values = shape.read(data)
    except ValueError:
        return UnknownEvent(kind, data)
    if shape.has_kinds:
        values["kind"] = kind
    return of(**values, read_from=data)


def data_of(body: Body) -> dict[str, Any]:
    """Return the data of an event as a dict for a file.

    An event that was made from stored data keeps the keys that this version does not know.
    """
    if isinstance(body, UnknownEvent):
        return dict(body.data)
    shape = _shape(type(body))  # type: ignore[arg-type]  # a class is hashable
    if body.read_from is None:
        return shape.plain(body)
    return {**body.read_from, **shape.changes(body, body.read_from)}


def read_event(t_ns: int, kind: str, severity: str, source: str, message: str, data: object = None) -> Event:
    """Return an event from the values stored in a file or received over the network.

    `severity` must be valid. `data` is the event's JSON object; anything else counts as empty.
    """
    return Event(t_ns, decoded(kind, sound_data(data)), severity, source, message)  # type: ignore[arg-type]


def sound_data(value: object) -> dict[str, object]:
    """Return the JSON object of an event, with None in place of values that JSON cannot hold, such as NaN.

    The result is empty if `value` is no dict.
    """
    if not isinstance(value, dict):
        return {}
    if _ALWAYS_SOUND.issuperset(map(type, value.values())) or all(map(_is_sound, value.values())):
        return value
    return {key: item if _is_sound(item) else None for key, item in value.items()}


_ALWAYS_SOUND = frozenset({str, int, bool, types.NoneType})


def _is_sound(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list | dict):
        try:
            json.dumps(value, allow_nan=False)
        except (ValueError, RecursionError):
            return False
    return True
