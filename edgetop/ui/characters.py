"""Choose the characters and the theme that suit the terminal."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from edgetop.frozen import frozen

# Terminals whose fonts have little more than ASCII, or whose palette is fixed.
_PLAIN_TERMINALS = ("linux", "vt100", "vt102", "vt220", "ansi", "dumb", "cons25")


@frozen
class CharacterSet:
    ascii_only: bool = False
    # Whether the terminal draws box and block glyphs in one cell each, as measured; never with ASCII.
    boxes: bool = False
    has_colours: bool = True  # whether the theme has colours


# Glyphs of ambiguous width (Unicode Standard Annex 11) that are drawn if the terminal shows each in one cell.
MEASURED = "╭╮╰╯├┤┬┴┼─│▁▂▃▄▅▆▇█▌▐▀░▒▓°"


class BorderCharacters(NamedTuple):
    """The characters of the borders around the panes: corners, lines, and the tees where a line meets a side."""

    top_left: str
    top_right: str
    bottom_left: str
    bottom_right: str
    tee_left: str
    tee_right: str
    rule: str
    side: str


def border_characters(characters: CharacterSet) -> BorderCharacters:
    """Return the characters of borders, as box-drawing glyphs or as ASCII such as `+`, `-` and `|`.

    Box-drawing glyphs are used only if the terminal was measured to draw each of them in one cell.
    """
    return BorderCharacters(*("╭╮╰╯├┤─│" if characters.boxes and not characters.ascii_only else "++++++-|"))


def is_utf8(environment: Mapping[str, str]) -> bool:
    """Whether the environment variables name a UTF-8 locale. The first one set decides: LC_ALL, LC_CTYPE or LANG.

    LC_CTYPE=C.UTF-8 is ignored if LANG is unset, empty, C or POSIX: Python sets it by itself (PEP 538), so it says
    nothing about the terminal.

    >>> is_utf8({"LANG": "de_DE.UTF-8"}), is_utf8({"LC_CTYPE": "C.UTF-8"})
    (True, False)
    """
    coerced = environment.get("LC_CTYPE") == "C.UTF-8" and environment.get("LANG", "C") in ("", "C", "POSIX")
    names = ("LC_ALL", "LANG") if coerced else ("LC_ALL", "LC_CTYPE", "LANG")
    value = next((environment[name] for name in names if environment.get(name)), "")
    return value.upper().replace("-", "").endswith("UTF8")


def is_plain(environment: Mapping[str, str]) -> bool:
    return environment.get("TERM", "").split("-")[0] in _PLAIN_TERMINALS


def choose_characters(*, ascii_asked: bool, environment: Mapping[str, str] = os.environ) -> CharacterSet:
    return CharacterSet(ascii_only=ascii_asked or is_plain(environment) or not is_utf8(environment))


def choose_theme(environment: Mapping[str, str] = os.environ) -> str:
    if environment.get("NO_COLOR"):  # https://no-color.org: set, and not empty
        return "mono"
    # More than sixteen colours, by the variables that terminals set and Rich reads.
    depth, term = (environment.get(name, "").strip().lower() for name in ("COLORTERM", "TERM"))
    has_many = depth in ("truecolor", "24bit") or term.rpartition("-")[2] in ("256color", "kitty")
    return "dark" if has_many and not is_plain(environment) else "16"
