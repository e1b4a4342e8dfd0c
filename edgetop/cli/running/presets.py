"""Presets of `edgetop run`: sections of edgetop.toml that stand for options of the command line.

    [preset.soak]
    duration = "8h"
    rate = 30
    fail-if = ["p99>33ms", "throttled"]
    no-raw = true

The keys are names of options without the dashes. Options on the command line win over the preset.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from edgetop.cli.companions import Value
from edgetop.cli.config import NAME, OLD_NAME, SettingError, read_settings
from edgetop.errors import InputError
from edgetop.nearest import nearest_hint
from edgetop.paths import config_home

SECTION = "preset"
_NOT_IN_PRESETS = {"preset", "config_file", "help"}
_HELP = "edgetop help keys"


def preset_words(name: str, command: click.Command, ctx: click.Context, also: Path | None) -> list[str]:
    """Return the options of the preset `name` as words of a command line, such as `["--duration=8h", "--no-raw"]`.

    `command` and `ctx` are the click command and context that will parse these words. `also` is a settings file that
    takes precedence over edgetop.toml in the config folder; None if there is none. Raises InputError if the preset is
    missing or invalid.
    """
    known: dict[str, tuple[Path, object]] = {}
    for path in _files(also):
        try:
            section = read_settings(path).get(SECTION, {})
        except SettingError as error:
            raise InputError(f"{path}: {error}", error.hint) from None
        if not isinstance(section, dict):
            raise InputError(f"{path}: {SECTION}: is not a table", f"write [{SECTION}.soak]")
        known.update((key, (path, value)) for key, value in section.items())
    if name not in known:
        places = " or ".join(str(path) for path in _files(also)) or f"{config_home() / NAME}, which does not exist"
        hint = nearest_hint(name, known) if known else f"write [{SECTION}.{name}] in {config_home() / NAME}"
        raise InputError(f"--preset {name}: there is no such preset in {places}", hint)
    path, section = known[name]
    place = f"{path}: {SECTION}.{name}"
    if not isinstance(section, dict):
        raise InputError(f"{place}: is not a table", _HELP)
    return [word for key, value in section.items() for word in _words(place, key, value, command, ctx)]


def _files(also: Path | None) -> list[Path]:
    home = next((config_home() / name for name in (NAME, OLD_NAME) if os.path.lexists(config_home() / name)), None)
    return [path for path in (home, also) if path is not None]


def _words(place: str, key: str, value: Value, command: click.Command, ctx: click.Context) -> Iterator[str]:
    options = _options(command)
    option = options.get(key.replace("_", "-"))
    if option is None:
        raise InputError(f"{place}: unknown option {key}", nearest_hint(key, options))
    name = max(option.opts, key=len)
    if option.is_flag:
        if not isinstance(value, bool):
            raise InputError(f"{place}.{key}: is neither true nor false", _HELP)
        yield from [name] if value else option.secondary_opts
        return
    if isinstance(value, list) and not option.multiple:
        raise InputError(f"{place}.{key}: is a list, but {name} is given once", _HELP)
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise InputError(f"{place}.{key}: is neither a string nor a number", _HELP)
        try:
            option.type.convert(str(one), option, ctx)
        except click.BadParameter as error:
            raise InputError(f"{place}.{key}: {error.message}", _HELP) from None
        yield f"{name}={one}"


def _options(command: click.Command) -> Mapping[str, click.Option]:
    options = [one for one in command.params if isinstance(one, click.Option) and one.name not in _NOT_IN_PRESETS]
    return {max(one.opts, key=len).lstrip("-"): one for one in options}
