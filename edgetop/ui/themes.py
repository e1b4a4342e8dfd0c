"""Themes: TOML files with a colour for each meaning, such as `warning`. Users can add more to the config folder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.color import Color
from rich.errors import StyleSyntaxError
from rich.style import Style
from textual.theme import Theme as TextualTheme

from edgetop.errors import InputError
from edgetop.files import read_toml, why
from edgetop.frozen import frozen
from edgetop.nearest import nearest_hint
from edgetop.paths import config_home

MAX_BYTES = 256 * 1024
KEYS = ("dark", "styles")
STYLES = (
    "text", "dim", "title", "focus", "accent", "good", "neutral", "warning", "critical",
    "simulated", "graph", "graph_hot", "key",
)  # fmt: skip

# Styles of a theme, and the styles that replace them if a theme does not have them.
ROLES = {
    "frame": "dim", "median": "text", "p50": "graph", "p99": "accent", "band": "dim", "temperature": "graph",
    "warm": "graph_hot", "hot": "warning", "clock": "graph", "power": "graph", "memory": "graph", "limit": "warning",
    "shade": "graph_hot",
}  # fmt: skip
# The colours of a heat map: one for each level of a share, from the fewest inferences to the most.
HEAT = tuple(f"heat{level}" for level in range(1, 6))
# What a half cell of a heat map shows: 0 nothing, 1 to HEAT_LEVELS a share, and these marks.
HEAT_LEVELS = len(HEAT)
HEAT_P50, HEAT_P99, HEAT_LIMIT, HEAT_THROTTLED, HEAT_SLOWED = range(HEAT_LEVELS + 1, HEAT_LEVELS + 6)
_HEAT_MARKS = {
    HEAT_P50: "median", HEAT_P99: "p99", HEAT_LIMIT: "limit", HEAT_THROTTLED: "hot", HEAT_SLOWED: "warm",
}  # fmt: skip
# Colours of the levels: of a terminal's own palette, and of the 256 colours that nearly every terminal has, on a dark
# and on a light background. Their escape sequences are half as long as those of other colours.
_HEAT_16 = ("blue", "bright_blue", "cyan", "bright_cyan", "green")
_HEAT_DARK = ("color(237)", "color(24)", "color(31)", "color(38)", "color(81)")
_HEAT_LIGHT = ("color(253)", "color(153)", "color(111)", "color(68)", "color(25)")
CHARTED = ("text", "dim", *(role for role in ROLES if role != "shade"))  # styles that can occur in shaded time
SHADED = "~"  # suffix of the name of a style: the same style on the background of the shade

_PACKAGE = Path(__file__).parent.parent
# Inside the package if it is installed, beside the package in a checkout.
BUILT_IN = (_PACKAGE / "themes", _PACKAGE.parent / "themes")


@frozen
class Theme:
    name: str
    is_dark: bool
    styles: Mapping[str, Style]

    @property
    def uses_terminal_colours(self) -> bool:
        """Whether the theme has the terminal's own colours, whose real values are not known."""
        background = self.styles["text"].bgcolor
        return background is None or background.is_default

    @property
    def has_colours(self) -> bool:
        """Whether the theme has colours, so that a colour may show a quantity. The theme `mono` has none."""
        return not (self.uses_terminal_colours and self._is_default("graph") and self._is_default("critical"))

    def _is_default(self, name: str) -> bool:
        colour = self.styles[name].color
        return colour is None or colour.is_default

    def for_textual(self) -> TextualTheme:
        """Return the theme in Textual's form. Dialogs use it."""
        styles = self.styles
        return TextualTheme(
            name=f"edgetop-{self.name}",
            dark=self.is_dark,
            primary=_hex(styles["accent"].color, "ansi_cyan"),
            secondary=_hex(styles["dim"].color),
            foreground=_hex(styles["text"].color),
            background=_hex(styles["text"].bgcolor),
            surface=_hex(styles["title"].bgcolor),
            panel=_hex(styles["title"].bgcolor),
            warning=_hex(styles["warning"].color, "ansi_yellow"),
            error=_hex(styles["critical"].bgcolor),
            success=_hex(styles["good"].color, "ansi_green"),
        )


def _hex(colour: Color | None, otherwise: str = "ansi_default") -> str:
    return colour.triplet.hex if colour and colour.triplet else otherwise


def theme_files() -> dict[str, Path]:
    """Return the file of each theme by name. A theme of the user replaces a built-in one of the same name."""
    folders = (*reversed(BUILT_IN), config_home() / "themes")
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}


def load_theme(name: str) -> Theme:
    """Return the theme with this name. Raises InputError if it is unknown or its file is invalid."""
    files = theme_files()
    if name not in files:
        raise InputError(f"--theme {name}: unknown", nearest_hint(name, sorted(files)))
    return parse_theme(files[name])


def parse_theme(path: Path) -> Theme:
    try:
        document = read_toml(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise InputError(f"theme {path}: cannot be read: {why(error)}") from None
    _refuse_unknown(path, "", document, KEYS)
    is_dark, given = document.get("dark", True), document.get("styles", {})
    if not isinstance(is_dark, bool):
        raise InputError(f"theme {path}: dark is neither true nor false")
    if not isinstance(given, dict):
        raise InputError(f"theme {path}: styles is not a table")
    _refuse_unknown(path, "styles.", given, (*STYLES, *ROLES, *HEAT))
    for key in STYLES:
        if key not in given:
            raise InputError(f"theme {path}: styles.{key} is missing")
    styles = {key: _style(path, key, given[key]) for key in STYLES}
    styles |= {role: _style(path, role, given.get(role, given[key])) for role, key in ROLES.items()}
    shade = Style(bgcolor=styles["shade"].bgcolor)
    styles |= {f"{key}{SHADED}": styles[key] + shade for key in CHARTED}
    theme = Theme(path.stem, is_dark, styles)
    if not theme.has_colours:
        return theme
    colours = {key: _style(path, key, given[key]).color for key in HEAT if key in given}
    names = _HEAT_16 if theme.uses_terminal_colours else _HEAT_DARK if is_dark else _HEAT_LIGHT
    levels = [colours.get(key) or Color.parse(name) for key, name in zip(HEAT, names, strict=True)]
    return replace(theme, styles=styles | _heat_styles(styles, levels))


def heat_style(upper: int, lower: int) -> str:
    """Return the name of the style for a cell of a heat map, such as `heat3-0`.

    A cell has two halves. `upper` and `lower` are what each shows: 0 for nothing, 1 to HEAT_LEVELS for the level of a
    share, or a code such as HEAT_P50.
    """
    return f"heat{upper}-{lower}" if upper or lower else "text"


def _heat_styles(styles: Mapping[str, Style], levels: Sequence[Color]) -> dict[str, Style]:
    ground = styles["text"].bgcolor
    colours = [ground, *levels, *(styles[name].color for name in _HEAT_MARKS.values())]
    pairs = ((upper, lower) for upper in range(len(colours)) for lower in range(len(colours)) if upper or lower)
    return {heat_style(upper, lower): Style(color=colours[upper], bgcolor=colours[lower]) for upper, lower in pairs}


def _refuse_unknown(path: Path, prefix: str, given: Mapping[str, object], known: Sequence[str]) -> None:
    for key in given:
        if key not in known:
            raise InputError(f"theme {path}: unknown key {prefix}{key}", nearest_hint(key, known))


def _style(path: Path, key: str, text: object) -> Style:
    if not isinstance(text, str):
        raise InputError(f"theme {path}: styles.{key} is not a string")
    try:
        return Style.parse(text)
    except StyleSyntaxError as error:
        raise InputError(f"theme {path}: styles.{key}: {error}") from None
