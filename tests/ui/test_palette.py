"""The command palette: everything that a key does and more, found by words."""

from pathlib import Path

import pytest
from textual.widgets import Input, OptionList

from edgetop.ui.dialogs import PaletteDialog
from edgetop.ui.panes import DRAWINGS
from tests.support.replays import replayed
from tests.support.screens import Opened, opened
from tests.support.scripts import measured

pytestmark = pytest.mark.slow


def is_open(screen: Opened) -> bool:
    return isinstance(screen.app.screen, PaletteDialog)


def found(screen: Opened) -> list[str]:
    return [command.words for command in screen.app.screen._found]  # type: ignore[attr-defined]


async def test_ctrl_p_opens_the_palette_and_escape_closes_it() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("ctrl+p")
        assert is_open(screen)
        assert "Commands" in screen.text
        await screen.press("escape")
        assert not is_open(screen)


async def test_every_key_that_applies_is_a_command_with_its_own_words() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("ctrl+p")
        commands = screen.app.screen._entries  # type: ignore[attr-defined]
        present = screen.monitor.present_commands()
        keys = " ".join(command.keys for command in commands).split()
        assert sorted(keys) == sorted(word for command in present for word in command.key_words)
        words = [command.words for command in commands]
        assert len(set(words)) == len(words)
        assert not any("throttling" in text for text in words)


async def test_typed_words_filter_commands_and_enter_runs_the_marked() -> None:
    async with opened(measured(5), (120, 40)) as screen:
        await screen.press("ctrl+p", *"window 10m")
        assert found(screen) == ["window of the percentiles: 10m"]
        await screen.press("enter")
        assert not is_open(screen)
        assert screen.monitor.view.latency.window_ns == 600 * 10**9


@pytest.mark.parametrize(("words", "pane"), [("lat", "latency"), ("heat", "heat"), ("HOTSPOTS alone", "hotspots")])
async def test_a_pane_can_be_asked_for_by_its_name(words: str, pane: str) -> None:
    async with opened(measured(5)) as screen:
        await screen.press("ctrl+p", *words, "enter")
        assert set(screen.panes) == {pane}


async def test_a_theme_can_be_asked_for_by_its_name() -> None:
    async with opened(measured(5), theme="dark") as screen:
        await screen.press("ctrl+p", *"theme light", "enter")
        assert screen.app.theme == "edgetop-light"


async def test_arrows_move_through_the_commands_and_stop_at_the_ends() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("ctrl+p")
        listed = screen.app.screen.query_one(OptionList)
        for keys, expected in ((("up",), 0), (("down", "down", "up"), 1), (["pagedown"] * 20, listed.option_count - 1)):
            await screen.press(*keys)
            assert listed.highlighted == expected
        await screen.press("pageup", "pageup")
        assert listed.highlighted == listed.option_count - 21


async def test_what_is_not_found_runs_nothing() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("ctrl+p", *"zzz")
        assert "nothing has these words" in screen.text
        await screen.press("down", "enter")
        assert is_open(screen)


async def test_a_click_runs_a_command() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("ctrl+p", *"pane memory")
        await screen.pilot.click(OptionList, offset=(3, 0))
        await screen.settle()
        assert set(screen.panes) == {"memory"}


@pytest.mark.parametrize("size", [(30, 8), (50, 12), (80, 24), (200, 60)])
async def test_the_palette_fits_every_size_and_is_ascii_when_asked(size: tuple[int, int]) -> None:
    async with opened(measured(5), size, ascii_only=True, theme="16") as screen:
        await screen.press("ctrl+p")
        assert screen.text.isascii()
        assert "Commands" in screen.text
        await screen.press(*"q")
        await screen.resize(120, 40)
        assert screen.text.isascii()


async def test_a_theme_whose_file_has_an_odd_name_is_only_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "edgetop" / "themes"
    folder.mkdir(parents=True)
    (folder / "[red]x[-]\x1b[2J.toml").write_text("")
    async with opened(measured(5), (160, 50), notifications=True) as screen:
        await screen.press("ctrl+p", *"theme [red]")
        assert "theme [red]x[-]\\x1b[2J" in screen.text
        await screen.press("enter")
        await screen.wait_for("styles.text is missing")


async def test_every_example_in_the_palette_finds_something(tmp_path: Path) -> None:
    async with opened(measured(5)) as live, replayed(measured(5).end(), tmp_path) as replay:
        for screen in (live, replay):
            await screen.press("ctrl+p")
            hint = screen.app.screen.query_one(Input).placeholder
            examples = hint.partition(": ")[2].removesuffix(" ...").split(", ")
            assert len(examples) == 3
            for example in examples:
                screen.app.screen._list(example)  # type: ignore[attr-defined]
                assert found(screen), example
            await screen.press("escape")


async def test_view_settings_are_reset_to_those_of_the_settings_file() -> None:
    remembered = {"theme": "light", "layout": "thermal", "orders": {"sensors": "by name"}, "window_ns": 600 * 10**9}
    async with opened(measured(75), (200, 60), reset_theme="paper", reset_window_ns=None, **remembered) as screen:
        choices = screen.app.choices
        assert (choices["theme"], choices["layout"], choices["window"]) == ("light", "thermal", "10m")
        await screen.press("ctrl+p", *"reset view", "enter")
        choices = screen.app.choices
        assert (choices["theme"], choices["layout"], choices["window"]) == ("paper", "overview", "all")
        assert choices["orders"]["sensors"] == DRAWINGS["sensors"].orders[0]
        assert set(screen.panes) > {"latency", "hotspots"}
