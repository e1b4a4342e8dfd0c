"""Themes: files by name, errors in one line, and colours that can be read."""

from pathlib import Path

import pytest
from rich.color import Color, ColorSystem
from rich.style import Style

from edgetop.errors import InputError
from edgetop.ui.themes import (
    BUILT_IN,
    HEAT_LEVELS,
    HEAT_P50,
    HEAT_P99,
    ROLES,
    SHADED,
    STYLES,
    Theme,
    heat_style,
    load_theme,
    parse_theme,
    theme_files,
)

BUILT_IN_NAMES = ("16", "colour-blind", "contrast", "dark", "light", "mono", "paper", "solarized")
OF_THE_TERMINAL = ("16", "mono")
WHOLE = "[styles]\n" + "".join(f'{name} = "#ffffff on #000000"\n' for name in STYLES)
GRAPHICS = 3.0  # the same standard, 1.4.11: what is drawn and means something
SEEN = 1.15  # what only lies behind it: frames, bands, shaded time
AA = 4.5  # WCAG 2.1, success criterion 1.4.3: contrast of normal text


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of themes, empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "edgetop" / "themes"
    folder.mkdir(parents=True)
    return folder


def message(name: str) -> str:
    with pytest.raises(InputError) as caught:
        load_theme(name)
    return str(caught.value)


def built_in() -> dict[str, Theme]:
    folder = next(folder for folder in BUILT_IN if folder.is_dir())
    return {path.stem: parse_theme(path) for path in folder.glob("*.toml")}


def test_every_built_in_theme_is_in_order(own: Path) -> None:
    assert sorted(built_in()) == sorted(theme_files()) == list(BUILT_IN_NAMES)
    for name in BUILT_IN_NAMES:
        theme = load_theme(name)
        assert theme.name == name
        assert named(theme) == {*STYLES, *ROLES}


def named(theme: Theme) -> set[str]:
    """Return the names of its styles, without those in shaded time and those of heat maps."""
    return {key for key in theme.styles if not key.endswith(SHADED) and not key.startswith("heat")}


def luminance(colour: Color | None) -> float:
    """Relative luminance, as WCAG 2.1 defines it."""
    assert colour is not None
    parts = [part / 255 for part in colour.get_truecolor()]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(style: Style, system: ColorSystem = ColorSystem.TRUECOLOR) -> float:
    assert style.color is not None
    assert style.bgcolor is not None
    dark, bright = sorted(luminance(colour.downgrade(system)) for colour in (style.color, style.bgcolor))
    return (bright + 0.05) / (dark + 0.05)


def test_black_on_white_has_the_contrast_that_the_standard_says() -> None:
    assert contrast(Style.parse("#000000 on #ffffff")) == pytest.approx(21)
    assert contrast(Style.parse("#777777 on #ffffff")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("system", [ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT])
@pytest.mark.parametrize("name", [name for name in BUILT_IN_NAMES if name not in OF_THE_TERMINAL])
def test_every_style_can_be_read_also_with_256_colours(name: str, system: ColorSystem) -> None:
    theme = built_in()[name]
    found = {key: contrast(style, system) for key, style in theme.styles.items() if not key.startswith("heat")}
    background = {key for key in found if key.partition(SHADED)[0] in ("frame", "band", "shade")}
    texts = {key for key in found if not key.endswith(SHADED)} - background
    assert {key: found[key] for key in texts if found[key] < AA} == {}
    lines = {key for key in found if key.endswith(SHADED)} - background
    assert {key: found[key] for key in lines if found[key] < GRAPHICS} == {}
    assert {key: found[key] for key in background if found[key] < SEEN} == {}


@pytest.mark.parametrize("name", [name for name in BUILT_IN_NAMES if name not in OF_THE_TERMINAL])
def test_each_level_of_a_heat_map_stands_out_more_than_the_one_before(name: str) -> None:
    styles = built_in()[name].styles
    ground = luminance(styles["text"].bgcolor)
    levels = [luminance(styles[heat_style(level, level)].bgcolor) for level in range(1, HEAT_LEVELS + 1)]
    apart = [abs(level - ground) for level in levels]
    assert apart == sorted(apart)
    dark, bright = sorted((levels[0], ground))
    assert (bright + 0.05) / (dark + 0.05) >= SEEN
    for mark in (HEAT_P50, HEAT_P99):
        dark, bright = sorted((luminance(styles[heat_style(mark, 0)].color), levels[2]))
        assert (bright + 0.05) / (dark + 0.05) >= 1.5


def test_a_theme_may_name_the_colours_of_heat_maps(own: Path) -> None:
    text = (next(folder for folder in BUILT_IN if folder.is_dir()) / "dark.toml").read_text()
    (own / "mine.toml").write_text(f'{text}\nheat5 = "#ff0000"\n')
    assert load_theme("mine").styles[heat_style(5, 5)].bgcolor == Color.parse("#ff0000")


def test_themes_of_few_colours_keep_the_terminals_background() -> None:
    assert {name for name, theme in built_in().items() if theme.uses_terminal_colours} == set(OF_THE_TERMINAL)


def test_a_theme_without_colours_still_distinguishes_meanings() -> None:
    styles = built_in()["mono"].styles
    assert all(style.color is not None and style.color.is_default for style in styles.values())
    appearances = {name: (styles[name].bold, styles[name].reverse, styles[name].underline) for name in styles}
    assert len({appearances[name] for name in ("text", "good", "warning", "critical", "title")}) == 5


def test_no_meaning_is_carried_by_colour_alone() -> None:
    for theme in built_in().values():
        styles = theme.styles
        assert styles["critical"].reverse or styles["critical"].bgcolor != styles["text"].bgcolor
        assert all(styles[name].bold for name in ("good", "neutral", "warning", "critical", "focus", "simulated"))


def test_a_users_own_theme_wins_over_a_built_in_one(own: Path) -> None:
    (own / "dark.toml").write_text(WHOLE.replace("#ffffff", "#eeeeee"))
    (own / "mine.toml").write_text("dark = false\n" + WHOLE)
    assert load_theme("dark").styles["text"] == Style.parse("#eeeeee on #000000")
    assert load_theme("mine").name == "mine"
    assert not load_theme("mine").is_dark


def test_an_unknown_theme_is_named_with_the_nearest_one(own: Path) -> None:
    assert message("drak") == "--theme drak: unknown (did you mean dark?)"
    assert f"known: {', '.join(BUILT_IN_NAMES)}" in message("zzz")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (WHOLE.replace("dim =", "dimm ="), "unknown key styles.dimm (did you mean dim?)"),
        ("drak = true\n" + WHOLE, "unknown key drak (did you mean dark?)"),
        (WHOLE.replace('dim = "#ffffff on #000000"\n', ""), "styles.dim is missing"),
        ("", "styles.text is missing"),
        (WHOLE.replace('dim = "#ffffff', 'dim = "#fffff'), "styles.dim: "),
        (WHOLE.replace('dim = "#ffffff', 'dim = "blurple'), "styles.dim: "),
        (WHOLE.replace('dim = "#ffffff on #000000"', "dim = 7"), "styles.dim is not a string"),
        ('dark = "yes"\n' + WHOLE, "dark is neither true nor false"),
        ("styles = 3", "styles is not a table"),
        ("[styles\n", "cannot be read: "),
        ("\udcff", "cannot be read: "),
    ],
)
def test_a_theme_that_is_not_in_order_is_told_in_one_line(own: Path, text: str, told: str) -> None:
    path = own / "mine.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    words = message("mine")
    assert words.startswith(f"theme {path}: {told}")
    assert "\n" not in words


def test_the_theme_in_the_help_is_in_order(own: Path) -> None:
    text = (Path(__file__).parents[2] / "edgetop" / "docs" / "themes.md").read_text()
    block = text[text.index("    dark = true") : text.index("Each style is")]
    (own / "mine.toml").write_text("\n".join(row.strip() for row in block.splitlines()))
    assert load_theme("mine").styles == built_in()["dark"].styles


def test_a_theme_that_may_not_be_read_is_told(own: Path) -> None:
    (own / "mine.toml").mkdir()
    assert message("mine").startswith(f"theme {own / 'mine.toml'}: cannot be read: ")


def test_dialogs_get_the_same_colours() -> None:
    theme = built_in()["dark"].for_textual()
    assert (theme.foreground, theme.background, theme.dark) == ("#d4dae0", "#11151a", True)
    plain = built_in()["16"].for_textual()
    assert (plain.background, plain.surface) == ("ansi_default", "ansi_default")
