"""Functions that make dataclass fields of events, with rules for how a field is written into the event's data."""

from dataclasses import field
from typing import Any, Literal

PhaseName = Literal["program", "first", "idle", "warmup", "measure"]


def optional() -> Any:
    """Return a dataclass field that is left out of the event's data if its value is None."""
    return field(default=None, metadata={"is_written": lambda _, value: value is not None})


def of_phases(*names: PhaseName) -> Any:
    """Return a dataclass field, with the default None, for an event class that has a field `phase`.

    If the value is None, the key is left out of the event's data. Only in the phases `names` does the data have the
    key, with null.
    """
    return field(default=None, metadata={"is_written": lambda body, value: value is not None or body.phase in names})


def of_kind(name: str) -> Any:
    """Return a dataclass field that is written only if the event's kind is `name`."""
    return field(default=None, metadata={"is_written": lambda body, _: body.kind == name})


def part(prefix: str = "", **default: Any) -> Any:
    """Return a dataclass field whose value is another dataclass.

    Each field of that dataclass gets its own key in the event's data: `prefix` followed by the field's name. `default`
    takes the arguments `default` and `default_factory` of `dataclasses.field`.
    """
    return field(metadata={"prefix": prefix}, **default)


def all_other_keys() -> Any:
    """Return a dataclass field that holds all keys of the event's data that belong to no other field of the class."""
    return field(default_factory=dict, metadata={"others": True})
