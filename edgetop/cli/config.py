"""The user's settings: a TOML file in the config folder, and one that is named. What the command line says wins."""

import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from click import BadParameter

from edgetop.cli import options
from edgetop.errors import InputError
from edgetop.formatting import size
from edgetop.nearest import nearest_hint
from edgetop.ui.settings import WINDOWS_NS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NAME, OLD_NAME = "edgetop.toml", "config.toml"
MAX_BYTES = 256 * 1024
RESERVED = ("ctrl+c",)  # which ends a program, wherever it is pressed


@dataclass(frozen=True, slots=True)
class Config:
    """None: what the file does not say."""

    theme: str | None = None
    refresh_ns: int | None = None
    window_ns: int | None = WINDOWS_NS["10s"]  # None: all
    has_window: bool = False  # whether a file says so
    ascii_only: bool | None = None
    keys: Mapping[str, str] = field(default_factory=dict)  # by id


def load_config(folder: Path, also: Path | None = None, *, for_screen: bool = True) -> Config:
    """Load the file in `folder`, if there is one, and `also`, which takes precedence.

    `for_screen`: False: themes and keys are not checked, which would load Textual.
    Raises InputError for a file that is not in order; it says where.
    """
    place = next((folder / name for name in (NAME, OLD_NAME) if os.path.lexists(folder / name)), None)
    given: dict[str, Any] = {}
    for path in (place, also):
        if path is not None:
            try:
                given.update(_settings(read_toml(path), for_screen=for_screen))
            except SettingError as error:
                raise InputError(f"{path}: {error}", error.hint) from None
    return Config(**given, has_window="window_ns" in given)


def read_toml(path: Path) -> Mapping[str, Any]:
    """Read a TOML file. Pipes and devices are refused: they would be read for ever.

    Raises SettingError.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise SettingError("is not a file")
            text = file.read(MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise SettingError(f"is longer than settings can be ({size(MAX_BYTES)})")
        document: Mapping[str, Any] = tomllib.loads(text.decode())
        return document
    except RecursionError:
        raise SettingError("cannot be read: nested too deep") from None
    except (OSError, ValueError) as error:
        raise SettingError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


class SettingError(Exception):
    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint or "edgetop help keys"


def _settings(document: Mapping[str, Any], *, for_screen: bool) -> dict[str, Any]:
    """Fields of a Config."""
    readers: dict[str, tuple[str, Callable[[Any], object]]] = {
        "theme": ("theme", _theme if for_screen else partial(_text, "theme")),
        "refresh": ("refresh_ns", _refresh),
        "window": ("window_ns", _window),
        "ascii": ("ascii_only", _flag),
        "keys": ("keys", _keys if for_screen else _table),
    }
    given: dict[str, Any] = {}
    for key, value in document.items():
        if key not in readers:
            raise SettingError(f"unknown setting {key}", nearest_hint(key, readers))
        name, read = readers[key]
        given[name] = read(value)
    return given


def _text(key: str, value: object) -> str:
    if not isinstance(value, str):
        raise SettingError(f"{key}: is not a text")
    return value


def _theme(value: object) -> str:
    from edgetop.ui.themes import theme_files  # noqa: PLC0415  loads Textual

    name, names = _text("theme", value), sorted(theme_files())
    if name not in names:
        raise SettingError(f"theme: unknown: {name}", nearest_hint(name, names))
    return name


def _refresh(value: object) -> int:
    try:
        return options.duration(_text("refresh", value))
    except BadParameter as error:
        raise SettingError(f"refresh: {error.message}") from None


def _window(value: object) -> int | None:
    name = _text("window", value)
    if name not in WINDOWS_NS:
        raise SettingError(f"window: {name!r} is none of {', '.join(WINDOWS_NS)}")
    return WINDOWS_NS[name]


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise SettingError("ascii: is neither true nor false")
    return value


def _table(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise SettingError("keys: is not a table")
    return value


def _keys(value: object) -> Mapping[str, str]:
    """The keys of bindings, by id, in the names that Textual has for them."""
    from edgetop.ui.commands import COMMANDS, IDS  # noqa: PLC0415  loads Textual
    from edgetop.ui.keys import conflict, key_word, remapped  # noqa: PLC0415

    keys: dict[str, str] = {}
    for binding_id, text in _table(value).items():
        if binding_id not in IDS:
            raise SettingError(f"keys: unknown id {binding_id}", nearest_hint(binding_id, IDS))
        parts = _text(f"keys.{binding_id}", text).split(",")
        keys[binding_id] = ",".join(_key(binding_id, part.strip()) for part in parts)
    if double := conflict(remapped(COMMANDS, keys)):
        key, *both = double
        given, other = sorted(both, key=lambda holder: holder not in keys)
        raise SettingError(f"keys.{given}: {key_word(key)} is the key of {other} too", f"give {other} another one")
    return keys


def _key(binding_id: str, text: str) -> str:
    from edgetop.ui.keys import key_names, parse_key  # noqa: PLC0415

    key = parse_key(text)
    if key is None:
        raise SettingError(f"keys.{binding_id}: unknown key {text!r}", nearest_hint(text.lower(), key_names()))
    if key in RESERVED:
        raise SettingError(f"keys.{binding_id}: {text} always stops and leaves")
    return key
