"""The user's settings of the screen: a TOML file in the config folder. What the command line says wins."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click import BadParameter

from edgetop.cli import options
from edgetop.errors import InputError
from edgetop.nearest import nearest_hint
from edgetop.ui.settings import WINDOWS_NS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME = "config.toml"
RESERVED = ("ctrl+c",)  # which ends a program, wherever it is pressed


@dataclass(frozen=True, slots=True)
class Config:
    """None: what the file does not say."""

    theme: str | None = None
    refresh_ns: int | None = None
    window_ns: int | None = WINDOWS_NS["10s"]  # None: all
    ascii_only: bool | None = None
    keys: Mapping[str, str] = field(default_factory=dict)  # by id


def load_config(folder: Path) -> Config:
    """Of no file, the defaults. Raises InputError for one that is not in order; it says where."""
    path = folder / NAME
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Config()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    try:
        return _config(document)
    except _SettingError as error:
        raise InputError(f"{path}: {error}", error.hint) from None


class _SettingError(Exception):
    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint or "edgetop help keys"


def _config(document: Mapping[str, Any]) -> Config:
    readers: dict[str, tuple[str, Callable[[Any], object]]] = {
        "theme": ("theme", _theme),
        "refresh": ("refresh_ns", _refresh),
        "window": ("window_ns", _window),
        "ascii": ("ascii_only", _flag),
        "keys": ("keys", _keys),
    }
    given: dict[str, Any] = {}
    for key, value in document.items():
        if key not in readers:
            raise _SettingError(f"unknown setting {key}", nearest_hint(key, readers))
        name, read = readers[key]
        given[name] = read(value)
    return Config(**given)


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise _SettingError(f"{key}: is not a text")
    return value


def _theme(value: object) -> str:
    from edgetop.ui.themes import theme_files  # noqa: PLC0415  loads Textual

    name, known = _text("theme", value), sorted(theme_files())
    if name not in known:
        raise _SettingError(f"theme: unknown: {name}", nearest_hint(name, known))
    return name


def _refresh(value: object) -> int:
    try:
        return options.duration(_text("refresh", value))
    except BadParameter as error:
        raise _SettingError(f"refresh: {error.message}") from None


def _window(value: object) -> int | None:
    name = _text("window", value)
    if name not in WINDOWS_NS:
        raise _SettingError(f"window: {name!r} is none of {', '.join(WINDOWS_NS)}")
    return WINDOWS_NS[name]


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _SettingError("ascii: is neither true nor false")
    return value


def _keys(value: object) -> Mapping[str, str]:
    """The keys of bindings, by id, in the names that Textual has for them."""
    from edgetop.ui.bindings import BINDINGS, IDS, conflict, remapped  # noqa: PLC0415  loads Textual
    from edgetop.ui.keys import key_word  # noqa: PLC0415

    if not isinstance(value, dict):
        raise _SettingError("keys: is not a table")
    keys: dict[str, str] = {}
    for binding_id, text in value.items():
        if binding_id not in IDS:
            raise _SettingError(f"keys: unknown id {binding_id}", nearest_hint(binding_id, IDS))
        parts = _text(f"keys.{binding_id}", text).split(",")
        keys[binding_id] = ",".join(_key(binding_id, part.strip()) for part in parts)
    if found := conflict(remapped(BINDINGS, keys)):
        key, *both = found
        given, other = sorted(both, key=lambda holder: holder not in keys)
        raise _SettingError(f"keys.{given}: {key_word(key)} is the key of {other} too", f"give {other} another one")
    return keys


def _key(binding_id: str, text: str) -> str:
    from edgetop.ui.keys import key_names, parse_key  # noqa: PLC0415

    key = parse_key(text)
    if key is None:
        raise _SettingError(f"keys.{binding_id}: unknown key {text!r}", nearest_hint(text.lower(), key_names()))
    if key in RESERVED:
        raise _SettingError(f"keys.{binding_id}: {text} always stops and leaves")
    return key
