"""The settings of the screen and of `--live`: from the command line, from two TOML files, and from the last choices.

The command line takes precedence over the files, and the files over the last choices. The last choices are what the
user last chose on the screen: theme, window, layout and sort order. They are stored beside the recordings. The last
theme is stored for each kind of terminal, because a terminal with few colours cannot draw every theme.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import field
from functools import partial
from pathlib import Path

from click import BadParameter

from edgetop.cli import options
from edgetop.cli.companions import Value
from edgetop.cli.output import print_text
from edgetop.cli.screen_options import ScreenChoices
from edgetop.errors import InputError
from edgetop.files import read_json, read_toml, why, write_file
from edgetop.frozen import frozen
from edgetop.nearest import nearest_hint
from edgetop.paths import config_home, recordings_home
from edgetop.session.typed_json import Document
from edgetop.ui.characters import choose_theme
from edgetop.ui.layout import LAYOUTS
from edgetop.ui.screen_settings import WINDOWS_NS, ScreenSettings

NAME, OLD_NAME = "edgetop.toml", "config.toml"
MAX_BYTES = 256 * 1024
RESERVED = ("ctrl+c",)  # keys that cannot be remapped; Ctrl+C always ends the program
REFRESH_NS, LINES_NS = 2_000_000_000, 1_000_000_000  # default interval of the screen, and of the lines of `--live`
CHOICES, MAX_CHOICES_BYTES = "screen.json", 64 * 1024


def screen_settings(chosen_now: ScreenChoices, recording: Path | None = None) -> ScreenSettings:
    """Return all settings of the screen. Raises InputError if one is invalid.

    `chosen_now` are the options of the command line. `recording` is the folder of the session; None without a
    recording.
    """
    from edgetop.cli.exporting import SessionExporter  # noqa: PLC0415  of a screen alone
    from edgetop.cli.stored_sessions import StoredSessions  # noqa: PLC0415

    config = load_config(config_home(), chosen_now.config_file)
    theme = chosen_now.theme or config.theme
    if theme:
        from edgetop.ui.themes import load_theme  # noqa: PLC0415  loads Textual: the engine is to start before that

        load_theme(theme)  # reports an unknown theme before anything starts
    home = recordings_home()
    chosen = load_choices(home)
    if config.window:
        chosen["window_ns"] = WINDOWS_NS[config.window]
    if theme:
        chosen["theme"] = theme
    refresh_ns, ascii_only = _of_lines(chosen_now, config, REFRESH_NS)
    return ScreenSettings(
        refresh_s=refresh_ns / 1e9,
        ascii_only=ascii_only,
        recording=recording,
        exporter=SessionExporter(),
        sessions=StoredSessions(),
        keys=config.keys,
        notify=chosen_now.notify,
        remember=partial(save_choices, home),
        reset_theme=theme,
        reset_window_ns=WINDOWS_NS[config.window or "10s"],
        **chosen,
    )


def line_settings(chosen_now: ScreenChoices) -> tuple[int, bool]:
    """Return `(interval in ns, whether to print ASCII only)` for the lines of `--live`.

    `chosen_now` are the options of the command line. Raises InputError if a setting is invalid.
    """
    return _of_lines(chosen_now, load_config(config_home(), chosen_now.config_file, for_screen=False), LINES_NS)


def _of_lines(chosen_now: ScreenChoices, config: "Config", refresh_ns: int) -> tuple[int, bool]:
    ascii_only = config.ascii_only if chosen_now.ascii_only is None else chosen_now.ascii_only
    return chosen_now.refresh_ns or config.refresh_ns or refresh_ns, bool(ascii_only)


@frozen
class Config:
    """The settings in the TOML files. None means that no file has the setting."""

    theme: str | None = None
    refresh_ns: int | None = None
    window: str | None = None  # a key of WINDOWS_NS
    ascii_only: bool | None = None
    keys: Mapping[str, str] = field(default_factory=dict)  # keys by id of their binding
    preset: Document = field(default_factory=dict)  # read by `edgetop run --preset`, which is where it is checked


def load_config(folder: Path, also: Path | None = None, *, for_screen: bool = True) -> Config:
    """Return the settings from edgetop.toml in `folder`, if it exists, and from the file `also`, if it is not None.

    If both files have a setting, the setting in `also` counts. `for_screen` is whether to check themes and keys too,
    for which Textual is loaded. Raises InputError for an invalid file.
    """
    found: Document = {}
    for path in (settings_file(folder), also):
        if path is not None:
            try:
                for key, value in read_settings(path).items():
                    found[_FIELDS.get(key, key)] = _checked(key, value, found.get("keys", {}), for_screen=for_screen)
            except SettingError as error:
                raise InputError(f"{path}: {error}", error.hint) from None
    return Config(**found)


def settings_file(folder: Path) -> Path | None:
    """Return the path of the settings file in `folder`, or None if there is none."""
    return next((folder / name for name in (NAME, OLD_NAME) if os.path.lexists(folder / name)), None)


def read_settings(path: Path) -> Mapping[str, object]:
    """Return the content of a TOML settings file as a dict. Raises SettingError if it cannot be read."""
    try:
        return read_toml(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise SettingError(f"cannot be read: {why(error)}") from None


class SettingError(Exception):
    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint or "edgetop help keys"


_A_TEXT = (str, "is not a string")
_TYPES: Mapping[str, tuple[type[Value], str]] = {
    "theme": _A_TEXT, "refresh": _A_TEXT, "window": _A_TEXT, "ascii": (bool, "is neither true nor false"),
    "keys": (dict, "is not a table"), "preset": (dict, "is not a table"),
}  # fmt: skip
_FIELDS = {"refresh": "refresh_ns", "ascii": "ascii_only"}  # fields of Config whose name differs from the setting


def _checked(key: str, value: Value, keys: Mapping[str, str], *, for_screen: bool) -> object:
    """Return the setting `key` in the form that `Config` stores it. Raises SettingError if `value` is not valid.

    `value` is as the TOML file has it. `keys` are the key bindings of the files read before; bindings in `value` are
    added to them. `for_screen` is whether to check themes and keys too.
    """
    if key not in _TYPES:
        raise SettingError(f"unknown setting {key}", nearest_hint(key, _TYPES))
    kind, otherwise = _TYPES[key]
    if not isinstance(value, kind):
        raise SettingError(f"{key}: {otherwise}")
    if key == "refresh":
        try:
            return options.duration(value)
        except BadParameter as error:
            raise SettingError(f"refresh: {error.message}") from None
    if key == "window" and value not in WINDOWS_NS:
        raise SettingError(f"window: {value!r} is none of {', '.join(WINDOWS_NS)}")
    if key == "theme" and for_screen:
        from edgetop.ui.themes import theme_files  # noqa: PLC0415  loads Textual

        if value not in (names := sorted(theme_files())):
            raise SettingError(f"theme: unknown: {value}", nearest_hint(value, names))
    return _keys(value, keys) if key == "keys" and for_screen else value


def _keys(table: Mapping[str, object], before: Mapping[str, str]) -> Mapping[str, str]:
    """Return the key bindings: a dict from the id of an action to the keys that trigger it, separated by commas.

    `table` has the new bindings, with keys as users write them. These bindings replace those in `before`. The keys in
    `before` and in the result are Textual's names. Raises SettingError for an unknown id or key, and for a key with two
    actions.
    """
    from edgetop.ui.key_commands import COMMANDS, IDS  # noqa: PLC0415  loads Textual
    from edgetop.ui.keys import conflict, key_names, key_word, parse_key, remapped  # noqa: PLC0415

    keys = dict(before)
    for binding_id, text in table.items():
        if binding_id not in IDS:
            raise SettingError(f"keys: unknown id {binding_id}", nearest_hint(binding_id, IDS))
        if not isinstance(text, str):
            raise SettingError(f"keys.{binding_id}: is not a string")
        parts = []
        for part in map(str.strip, text.split(",")):
            key = parse_key(part)
            if key is None:
                raise SettingError(f"keys.{binding_id}: unknown key {part!r}", nearest_hint(part.lower(), key_names()))
            if key in RESERVED:
                raise SettingError(f"keys.{binding_id}: {part} is reserved: it always ends the program")
            parts.append(key)
        keys[binding_id] = ",".join(parts)
    if double := conflict(remapped(COMMANDS, keys)):
        twice, *both = double
        given, other = sorted(both, key=lambda holder: holder not in table)
        raise SettingError(f"keys.{given}: {key_word(twice)} is also the key of {other}", f"give {other} another key")
    return keys


def load_choices(home: Path) -> Document:
    """Return what the user last chose on the screen, by name, such as `theme`. `home` is the recordings folder.

    If the file cannot be read, a line on stderr says so, and the result is empty.
    """
    document = _document(home / CHOICES)
    theme, window, layout, orders = (document.get(key) for key in (_theme_key(), "window", "layout", "orders"))
    choices: Document = {}
    with contextlib.suppress(InputError):  # a theme of the user may have been removed or changed
        if isinstance(theme, str):
            from edgetop.ui.themes import load_theme  # noqa: PLC0415  loads Textual

            choices["theme"] = load_theme(theme).name
    if isinstance(window, str) and window in WINDOWS_NS:
        choices["window_ns"] = WINDOWS_NS[window]
    if isinstance(layout, str) and layout in LAYOUTS:
        choices["layout"] = layout
    if isinstance(orders, dict):
        from edgetop.ui.panes import DRAWINGS  # noqa: PLC0415  as above

        choices["orders"] = {
            pane: order for pane, order in orders.items() if pane in DRAWINGS and order in DRAWINGS[pane].orders
        }
    return choices


def save_choices(home: Path, changed: Document) -> None:
    """Store what the user chose on the screen. `home` is the recordings folder.

    `changed` holds the new choices by name. If the folder cannot be written, they are not stored, and no error is
    raised.
    """
    named = {_theme_key() if key == "theme" else key: value for key, value in changed.items()}
    text = json.dumps({**_document(home / CHOICES, warns=False), **named}, indent=1)
    with contextlib.suppress(OSError):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(home / CHOICES, text)


def _theme_key() -> str:
    return f"theme-{choose_theme()}"


def _document(path: Path, *, warns: bool = True) -> Document:
    try:
        document = read_json(path, MAX_CHOICES_BYTES)
        if isinstance(document, dict):
            return document
        problem = "is not a JSON object"
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        problem = f"cannot be read: {why(error)}"
    if warns:
        print_text(f"edgetop: {path}: {problem}: the last choices on the screen are ignored", err=True)
    return {}
