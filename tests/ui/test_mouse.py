"""The mouse reaches what the keys reach: everything that looks as if it could be clicked can be."""

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.events import MouseDown, MouseScrollDown, MouseScrollUp, MouseUp
from textual.widgets import OptionList

from edgetop.session.events import Order
from edgetop.ui import playback
from edgetop.ui.charts import GUTTER
from tests.support.scenes import throttled
from tests.support.screens import Opened, opened
from tests.support.scripts import measured
from tests.ui.test_habits import chosen, dialog, eventful, mouse
from tests.ui.test_sessions_dialog import Shelf, on

pytestmark = pytest.mark.slow

SIZES = [(80, 24), (120, 40), (200, 60)]


async def click(screen: Opened, words: str, *, times: int = 1) -> None:
    """Click the first place on the screen where these words stand."""
    y, row = next((y, row) for y, row in enumerate(screen.rows) if words in row)
    await screen.pilot.click(offset=(row.index(words) + 1, y), times=times)
    await screen.settle()


@pytest.mark.parametrize("size", SIZES)
async def test_a_choice_of_a_question_is_clicked(size: tuple[int, int]) -> None:
    async with opened(measured(5), size) as screen:
        await click(screen, " q leave ")
        await click(screen, "Esc    stay")
        assert dialog(screen) == ""
        await click(screen, " q leave ")
        await click(screen, "stop the run")
    assert screen.feed.asked == [Order("stop")]


async def test_a_click_beside_a_dialog_closes_it_unless_something_is_typed_there() -> None:
    async with opened(measured(5), (120, 40)) as screen:
        for key in ("q", "question_mark", "ctrl+p", "t"):
            await screen.press(key)
            assert dialog(screen)
            await screen.pilot.click(offset=(2, 20))
            await screen.settle()
            assert dialog(screen) == "", key
        await screen.press("m", "f", "a", "n")
        await screen.pilot.click(offset=(2, 5))
        assert dialog(screen) == "Mark this moment"
        await click(screen, "Enter marks")
        assert screen.feed.asked == [Order("mark", "fan")]


async def test_keys_that_a_dialog_names_are_clicked() -> None:
    async with opened(measured(5), (80, 24)) as screen:
        await screen.press("question_mark")
        await click(screen, "/ search")
        await screen.press("t", "h", "e", "m", "e")
        assert "choose a theme" in screen.text
        await click(screen, "Esc close")
        assert dialog(screen) == ""


async def test_a_session_is_chosen_by_a_click_and_opened_by_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadlessDriver, "can_suspend", True)
    shelf = Shelf()
    async with opened(measured(5), (120, 40), sessions=shelf) as screen:
        await on(shelf, screen)
        await click(screen, "[b]old[/b]")
        assert dialog(screen) == "Sessions"
        await click(screen, "r rename")
        assert dialog(screen) == "Rename the session"
        await click(screen, "Esc cancels")
        await click(screen, "Esc close")
        assert shelf.asked == []
        await on(shelf, screen)
        await screen.pilot.click(OptionList, offset=(60, 20), times=2)  # below the last session
        await screen.settle()
        assert shelf.asked == []
        await click(screen, "[b]old[/b]", times=2)
        assert shelf.asked == [("show", "[b]old[/b]", False)]


async def test_the_keys_of_panes_show_one_after_the_other_and_the_title_leads_back() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        for name in ("latency", "heat", "power"):
            await click(screen, " panes ")
            assert set(screen.panes) == {name}
        await click(screen, "Esc back")
        assert len(screen.panes) > 3
        await screen.press("8")
        await click(screen, " panes ")
        assert len(screen.panes) > 3


async def test_each_key_of_a_pair_is_clicked_whatever_its_length() -> None:
    async with opened(measured(600), (240, 40), keys={"closer": "f5"}) as screen:
        await screen.press("f5", "f5")
        for alone in ([], ["1"]):
            await screen.press(*alone)
            axis = screen.monitor.view.axis
            await mouse(screen, "status", (screen.rows[-1].index(" f5Z ") + 2, 0))
            closer = screen.monitor.view.axis
            assert closer.to_s - closer.from_s < axis.to_s - axis.from_s
            await mouse(screen, "status", (screen.rows[-1].index("f5Z ") + 2, 0))
            wider = screen.monitor.view.axis
            assert wider.to_s - wider.from_s > closer.to_s - closer.from_s


async def test_keys_whose_words_are_equal_by_chance_are_clicked_apart() -> None:
    """The timelines and the percentiles show the last minute."""
    async with opened(measured(600), (240, 40)) as screen:
        await screen.press("w")
        while playback.zoom_words(screen.monitor) != "1m":
            await screen.press("z")
        last = screen.rows[-1]
        assert " zZ 1m " in last
        assert " w 1m " in last
        await mouse(screen, "status", (last.index(" w 1m ") + 1, 0))
        assert screen.monitor.window_name == "10m"
        assert playback.zoom_words(screen.monitor) == "1m"
        await mouse(screen, "status", (screen.rows[-1].index(" zZ 1m ") + 1, 0))
        assert screen.monitor.window_name == "10m"
        assert playback.zoom_words(screen.monitor) != "1m"


async def test_a_double_click_on_a_title_runs_its_command_once_and_nothing_below() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        pane, ran = screen.monitor._panes["heat"], list[str]()
        run = pane._command
        pane._command = lambda command: (ran.append(command), run(command))  # type: ignore[assignment,func-returns-value]
        await mouse(screen, "hotspots", (5, 2))
        await screen.press("2")
        assert set(screen.panes) == {"heat"}
        await mouse(screen, "heat", (5, 2))
        await click(screen, "Esc back", times=2)
        assert ran == ["back"]
        assert len(screen.panes) > 3


@pytest.mark.parametrize(("words", "pane"), [("heat ", "heat"), ("clock ", "heat"), ("memory ", "memory")])
async def test_a_figure_of_line_3_opens_its_pane(words: str, pane: str) -> None:
    async with opened(measured(20), (120, 40)) as screen:
        await mouse(screen, "header", (screen.rows[2].index(words), 2))
        assert set(screen.panes) == {pane}
        await mouse(screen, "header", (119, 2))
        await mouse(screen, "header", (3, 0))
        assert set(screen.panes) == {pane}


async def test_the_number_of_warnings_opens_them() -> None:
    async with opened(throttled(), (120, 40)) as screen:
        await mouse(screen, "header", (screen.rows[1].index("warning"), 1))
        assert set(screen.panes) == {"session"}


async def wheel(screen: Opened, kind: type, pane: str, at: tuple[int, int]) -> None:
    await screen.pilot._post_mouse_events([kind], f"#pane-{pane}", offset=at, button=0)
    await screen.settle()


async def test_the_wheel_zooms_the_timelines_and_scrolls_lists() -> None:
    async with opened(measured(600), (120, 40)) as screen:
        before = screen.monitor.view.axis
        await wheel(screen, MouseScrollUp, "latency", (30, 8))
        closer = screen.monitor.view.axis
        assert closer.to_s - closer.from_s < before.to_s - before.from_s
        assert not screen.monitor.is_frozen
        await wheel(screen, MouseScrollUp, "events", (30, 3))
        assert screen.monitor.view.axis == closer
        await wheel(screen, MouseScrollDown, "latency", (30, 8))
        wider = screen.monitor.view.axis
        assert wider.to_s - wider.from_s > closer.to_s - closer.from_s


async def test_a_double_click_opens_a_row() -> None:
    async with opened(eventful(), (120, 40)) as screen:
        await mouse(screen, "events", (20, 1), times=2)
        assert dialog(screen) == "events"
        assert chosen(screen) in screen.text


async def test_a_drag_that_ends_beside_the_pane_zooms_to_its_edge() -> None:
    async with opened(measured(600), (120, 40)) as screen:
        pane, axis = screen.monitor._panes["latency"], screen.monitor.view.axis
        middle = 1 + GUTTER + (pane.size.width - 2 - GUTTER) // 2
        await screen.pilot._post_mouse_events([MouseDown], pane, offset=(middle, 6), button=1)
        await screen.pilot._post_mouse_events([MouseUp], pane, offset=(pane.size.width + 20, 9), button=1)
        await screen.settle()
        seen = screen.monitor.view.axis
        assert seen.from_s == pytest.approx((axis.from_s + axis.to_s) / 2, abs=10)
        assert seen.to_s == pytest.approx(axis.to_s, abs=10)
