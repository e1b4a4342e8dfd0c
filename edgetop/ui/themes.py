"""Themes: TOML files of colours by meaning. Users can add their own themes in the config folder."""

from collections.abc import Mapping, Sequence
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
    "frame": "dim", "p50": "graph", "p99": "accent", "band": "dim", "temperature": "graph", "warm": "graph_hot",
    "hot": "warning", "clock": "graph", "power": "graph", "memory": "graph", "limit": "warning", "shade": "graph_hot",
}  # fmt: skip
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
        """Whether it uses the palette of the terminal, from which no colour can be computed."""
        background = self.styles["text"].bgcolor
        return background is None or background.is_default

    def for_textual(self) -> TextualTheme:
        """Return the theme for Textual's own widgets, which dialogs use."""
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
    """Return the files of all themes by name. A theme of the user takes precedence over a built-in one."""
    folders = (*reversed(BUILT_IN), config_home() / "themes")
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}


def load_theme(name: str) -> Theme:
    """Load a theme. Raises InputError if it is unknown or its file is invalid."""
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
    _refuse_unknown(path, "styles.", given, (*STYLES, *ROLES))
    for key in STYLES:
        if key not in given:
            raise InputError(f"theme {path}: styles.{key} is missing")
    styles = {key: _style(path, key, given[key]) for key in STYLES}
    styles |= {role: _style(path, role, given.get(role, given[key])) for role, key in ROLES.items()}
    shade = Style(bgcolor=styles["shade"].bgcolor)
    styles |= {f"{key}{SHADED}": styles[key] + shade for key in CHARTED}
    return Theme(path.stem, is_dark, styles)


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
