"""The whole screen, driven by keys, on a feed that gives only what a test puts into it."""

import asyncio
import gc
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.events import MouseScrollDown, MouseScrollUp
from textual.widgets import Input

from edgetop.feeds.feed_protocol import Can
from edgetop.session.batch import Batch
from edgetop.session.events import Order
from edgetop.ui.dialogs import Dialog, help_dialog
from edgetop.ui.key_commands import COMMANDS
from edgetop.ui.layout import PANES, arrange
from edgetop.ui.monitor_screen import OPENING_TICK_S, chart_counts
from edgetop.ui.panes import DRAWINGS
from edgetop.ui.panes.explanations import EXPLANATIONS
from tests.support.screens import NEVER_S, Opened, keys_that_stay, opened
from tests.support.scripts import HOSTILE, SENSORS, Script, hostile, hot, measured, measured_with_power
from tests.support.thorough import mostly_thorough

pytestmark = pytest.mark.slow


def dialog(screen: Opened) -> str:
    """The name of the dialog that is open, or nothing."""
    top = screen.app.screen
    return top.heading if isinstance(top, Dialog) else ""


def has_left(screen: Opened) -> bool:
    """To be asked before the test closes the app."""
    return screen.app._exit


# Leaving.


async def test_q_asks_and_s_stops_the_run() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("q")
        assert "stop the run" in screen.text
        assert screen.feed.asked == []
        await screen.press("s")
        assert has_left(screen)
    assert screen.feed.asked == [Order("stop")]


async def test_q_and_g_leave_a_run_without_detach_going_on_here() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("d")
        assert not has_left(screen)
        await screen.press("q")
        assert "leave it running here, with progress lines" in screen.text
        await screen.press("g")
        assert has_left(screen)


@pytest.mark.parametrize("keys", ["dd", "qd", "qg"])
async def test_a_run_that_can_be_detached_goes_on_without_its_screen(keys: str, tmp_path: Path) -> None:
    async with opened(measured(5), more=Can.DETACH, recording=tmp_path) as screen:
        assert " d detach " in screen.rows[-1]
        await screen.press(*keys)
        assert has_left(screen)
    assert screen.feed.asked == []


@pytest.mark.parametrize("key", ["q", "d", "ctrl+c"])
async def test_anothers_run_is_left_without_a_question_and_goes_on(key: str, tmp_path: Path) -> None:
    async with opened(measured(5), more=Can.VISIT, recording=tmp_path) as screen:
        assert screen.rows[1].endswith("  attached  REC ")
        await screen.press(key)
        assert has_left(screen)
    assert screen.feed.asked == []


async def test_a_visited_run_is_stopped_after_a_question(tmp_path: Path) -> None:
    async with opened(measured(5), more=Can.VISIT, recording=tmp_path) as screen:
        await screen.press("Q", "escape")
        assert screen.feed.asked == []
        await screen.press("Q")
        assert "stop it, finish its recording" in screen.text
        await screen.press("s")
        assert screen.feed.asked == [Order("stop")]
        assert not has_left(screen)
        screen.feed.put(screen.script.end("user").batches[-1])
        screen.feed.close()
        await screen.tick()
        assert screen.header.startswith(" STOPPED by the user too short to ")
        await screen.press("Q")
        assert has_left(screen)
    assert screen.feed.asked == [Order("stop")]


async def test_help_names_the_keys_of_who_watches_anothers_run(tmp_path: Path) -> None:
    async with opened(measured(5), (80, 60), more=Can.VISIT) as screen:
        await screen.press("question_mark")
        assert "q d Ctrl+C " in screen.text
        assert "leave; the run continues" in screen.text
        assert "stop the run; asks first" in screen.text
        assert "stop and leave" not in screen.text


async def test_what_is_wrong_with_the_feed_stands_in_the_second_line(tmp_path: Path) -> None:
    async with opened(measured(5), recording=tmp_path) as screen:
        screen.feed.trouble = "no data for 9.0s \x1b[31m" + "x" * 100
        await screen.tick()
        assert "no data for 9.0s \\x1b[31m" in screen.rows[1]
        assert len(screen.rows[1]) == 80
        screen.feed.trouble = ""
        await screen.tick()
        assert screen.rows[1].endswith("  REC ")


async def test_the_question_can_be_left_without_an_answer() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("q", "escape")
        assert dialog(screen) == ""
        assert not has_left(screen)
    assert screen.feed.asked == []


@pytest.mark.parametrize("key", ["q", "enter", "d"])
async def test_q_asks_once_and_a_second_one_lets_the_run_continue(key: str) -> None:
    async with opened(measured(5), more=Can.DETACH) as screen:
        await screen.press("q")
        assert "q    leave it running; edgetop attach returns" in screen.text
        assert "Enter  as q" in screen.text
        await screen.press(key)
        assert has_left(screen)
    assert screen.feed.asked == []


MISTAKEN = ("w", "v", "1", "5", "space", "x", "x", "t", "m", "slash", "z", "left", "tab", "p", "r", "e", "ctrl+p", "M")


async def test_a_key_that_is_no_answer_changes_nothing_behind_the_question() -> None:
    async with opened(eventful(), (120, 40), notifications=True) as screen:
        before = screen.rows
        await screen.press("q", *MISTAKEN)
        assert dialog(screen) == "Leave the screen"
        assert not has_left(screen)
        await screen.press("escape")
        assert screen.rows == before
    assert screen.feed.asked == []


async def test_escape_clears_a_filter_before_it_goes_back() -> None:
    async with opened(eventful(), (120, 40)) as screen:
        await screen.press("5", "slash", *"fan", "enter")
        assert "with: fan" in screen.text
        await screen.press("escape")
        assert ("with: fan" in screen.text, set(screen.panes)) == (False, {"events"})
        await screen.press("exclamation_mark")
        assert "warnings and worse" in screen.text
        await screen.press("escape", "escape")
        assert "warnings and worse" not in screen.text
        assert len(screen.panes) > 1


async def test_a_pane_is_explained_in_its_place() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        await screen.press("tab")
        places = screen.panes
        await screen.press("question_mark")
        pane = screen.monitor.chosen_pane
        assert dialog(screen) == ""
        assert screen.panes == places
        assert EXPLANATIONS[pane.drawing.name].split()[0] in pane.text
        assert "Esc back" in screen.text
        await screen.press("question_mark")
        assert dialog(screen) == "Keys"
        await screen.press("escape", "question_mark", "escape")
        assert EXPLANATIONS[pane.drawing.name][:30] not in pane.text
        await screen.press("escape", "question_mark")
        assert dialog(screen) == "Keys"
    assert set(EXPLANATIONS) == set(DRAWINGS)


@pytest.mark.parametrize("before", [(), ("q",), ("question_mark",), ("r",), ("m",), ("m", "x"), ("1",)])
async def test_ctrl_c_stops_and_leaves_wherever_it_is_pressed(before: tuple[str, ...]) -> None:
    async with opened(measured(5)) as screen:
        await screen.press(*before, "ctrl+c")
        assert has_left(screen)
    assert screen.feed.asked == [Order("stop")]


async def test_shift_q_stops_and_leaves_without_a_question() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("Q")
        assert has_left(screen)
    assert screen.feed.asked == [Order("stop")]


async def test_keys_of_the_toolkit_do_not_end_the_screen() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("ctrl+q", "ctrl+d")
        assert not has_left(screen)
        assert dialog(screen) == ""


async def test_a_signal_closes_the_screen_with_the_next_refresh() -> None:
    async with opened(measured(5)) as screen:
        screen.monitor._leave_now = lambda: True
        await screen.tick()
        assert has_left(screen)


def eventful() -> Script:
    script = measured(5).tell("log", "warning", message="fan slow").measure(5)
    return script.tell("mark", source="user", message="door").measure(5)


# The end of the session.


async def test_the_result_stays_on_the_screen_until_a_key() -> None:
    async with opened(measured(20).end("duration"), ends=True) as screen:
        for _ in range(3):
            await screen.tick()
        assert "FINISHED" in screen.header
        assert "p50" in screen.header
        await screen.press("1", "escape", "w", "space", "space")
        assert not has_left(screen)
        await screen.press("q")
        assert has_left(screen)
    assert screen.feed.asked == []


@pytest.mark.parametrize("key", ["Q", "ctrl+c"])
async def test_after_the_end_nothing_is_stopped_any_more(key: str) -> None:
    async with opened(measured(5).end("duration"), ends=True) as screen:
        await screen.press(key)
        assert has_left(screen)
    assert screen.feed.asked == []


async def test_an_input_that_cannot_be_used_closes_the_screen_at_once() -> None:
    async with opened(Script()) as screen:
        screen.feed.put(Script().end("input-error").batches[-1])
        screen.feed.close()
        await screen.tick()
        assert has_left(screen)


async def test_keys_that_make_no_sense_after_the_end_are_absent() -> None:
    async with opened(measured(5).end("duration"), (160, 50), ends=True) as screen:
        assert "mark" not in screen.rows[-1]
        await screen.press("m")
        assert dialog(screen) == ""
    async with opened(measured(5), (160, 50)) as screen:
        assert "m mark" in screen.rows[-1]


# Help.


@pytest.mark.parametrize("key", ["question_mark", "f1"])
async def test_help_names_every_key_there_is(key: str) -> None:
    async with opened(measured(5), (100, 64)) as screen:
        await screen.press(key)
        shown = screen.text
        for command in screen.monitor.present_commands():
            assert (command.help or command.words) in shown
        inside = " ".join(" ".join(row[3:-3] for row in screen.rows).split())  # the frame, and what lies behind, aside
        assert "In the latency map, a colour is the share" in inside
        assert all(name in shown for name in ("? F1", "Q Ctrl+C", "PgDn PgUp", "Tab Shift+Tab", "Space", "Escape"))
        await screen.press("escape")
        assert dialog(screen) == ""


async def test_help_can_be_read_to_its_end_on_the_smallest_screens() -> None:
    for size in ((80, 24), (50, 12), (30, 8)):
        async with opened(measured(5), size) as screen:
            await screen.press("question_mark")
            assert "Keys" in screen.text
            await screen.press("end")
            await screen.wait_for("edgetop help")  # the toolkit scrolls in a frame of its own


@pytest.mark.parametrize("size", [(1, 1), (4, 9), (6, 7)])
@pytest.mark.parametrize("key", ["question_mark", "q", "r"])
async def test_a_dialog_on_a_tiny_screen_comes_to_rest(key: str, size: tuple[int, int]) -> None:
    async with opened(measured(5), size) as screen:
        await screen.press(key)
        assert dialog(screen)


async def test_help_is_made_of_the_bindings() -> None:
    assert help_dialog([("F9", "does what it says")], "").lines[0] == "F9 does what it says"


# Freezing.


async def test_space_stops_the_view_and_not_the_run() -> None:
    async with opened(measured(20)) as screen:
        await screen.press("space")
        still, elapsed = screen.rows[2:-1], screen.header[-6:]
        assert screen.header.startswith(" FROZEN 0.0s  MEASURING ")
        for _ in range(3):
            await screen.go_on(4)
        assert (screen.rows[2:-1], screen.header[-6:]) == (still, elapsed)
        assert screen.header.startswith(" FROZEN 12.0s  MEASURING ")
        assert "resume" in screen.rows[-1]
        await screen.press("space")
        assert "FROZEN" not in screen.header
        assert screen.rows[2:-1] != still
        assert screen.header.startswith(" STEADY ")
        assert screen.monitor.view.latency.session.count == 3200  # what came meanwhile was not lost


async def test_a_frozen_screen_still_tells_that_the_engine_died() -> None:
    async with opened(measured(20)) as screen:
        await screen.press("space")
        screen.script.batches.clear()
        screen.feed.put(screen.script.tell("engine-died", "critical", message="SIGKILL").end("engine-died").whole())
        await screen.tick()
        assert screen.header.startswith(" FROZEN 0.0s  MEASURING ")
        assert screen.rows[1].startswith(" now ENGINE DIED  try: see its last events (5) ")


async def test_windows_can_be_compared_while_frozen() -> None:
    async with opened(measured(30)) as screen:
        await screen.press("space")
        await screen.go_on(60)
        await screen.press("w")
        assert " window 1m " in screen.rows[3]
        assert screen.monitor.view.latency.window.count == 3000  # of the moment of freezing


async def test_a_frozen_screen_can_be_resized_and_zoomed() -> None:
    async with opened(measured(20)) as screen:
        await screen.press("space")
        await screen.go_on(5)
        await screen.press("5")
        assert " 5 events" in screen.rows[3]
        await screen.resize(120, 40)
        await screen.press("escape")
        assert screen.monitor.view.latency.session.count == 2000


# What is looked at.


async def test_w_goes_round_the_windows() -> None:
    async with opened(measured(75)) as screen:
        seen = []
        for _ in range(5):
            seen.append(
                (
                    screen.rows[3].partition("--- ")[2].split(" -")[0].split("  ")[0].removeprefix("window "),
                    [key for key in ("10s", "1m", "10m", "all") if f" w {key} " in screen.rows[-1]],
                )
            )
            await screen.press("w")
    assert seen == [("10s", ["10s"]), ("1m", ["1m"]), ("10m", ["10m"]), ("all", ["all"]), ("10s", ["10s"])]


@pytest.mark.parametrize(("key", "name"), [(str(i), name) for i, name in enumerate(PANES, 1)])
async def test_digits_show_one_pane_alone_and_escape_brings_all_back(key: str, name: str) -> None:
    async with opened(measured(20)) as screen:
        before, title = screen.panes, f" {key} {name} "
        await screen.press(key)
        assert set(screen.panes) == {name}
        assert screen.rows[3].startswith(f"+{title}")
        assert "Esc back" in screen.rows[3]
        await screen.press("escape")
        assert screen.panes == before
        assert "Esc back" not in screen.text
        await screen.press(key, key)
        assert screen.panes == before


async def test_tab_marks_the_next_pane_and_puts_it_on_a_small_screen() -> None:
    async with opened(measured(20)) as screen:
        order = []
        for _ in PANES:
            await screen.press("tab")
            order.append(next(name for name, pane in screen.monitor._panes.items() if pane.has_focus))
            assert order[-1] in screen.panes
        assert order == ["sensors", "session", "hotspots", "latency", "heat", "power", "memory", "events"]
        await screen.press("shift+tab")
        assert screen.monitor._panes["memory"].has_focus
        assert " 4 memory" in screen.text


async def test_tab_shows_the_next_pane_while_one_is_alone() -> None:
    async with opened(measured(20)) as screen:
        before = screen.panes
        await screen.press("1", "tab")
        assert set(screen.panes) == {"heat"}
        await screen.press("shift+tab", "shift+tab")
        assert set(screen.panes) == {"hotspots"}
        await screen.press("escape")
        assert screen.panes == before


async def test_a_double_click_shows_one_pane_alone() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        await screen.pilot.click("#pane-memory", times=2)
        assert set(screen.panes) == {"memory"}


def log_of(lines: int) -> Script:
    script = measured(5)
    for i in range(lines):
        script.tell("mark", source="user", message=f"line {i}")
    return script


async def test_scrolling_keys_move_through_a_long_pane() -> None:
    async with opened(log_of(100)) as screen:
        assert " 1-7 of 101 " in screen.rows[15]
        await screen.press("end")
        assert " 95-101 of 101 " in screen.rows[15]
        await screen.press("home")
        assert " 1-7 of 101 " in screen.rows[15]
        assert screen.rows[16].split()[-2] == "99"
        await screen.press("pagedown", "pagedown")
        assert " 1-7 of 101 " not in screen.rows[15]


async def test_the_wheel_scrolls_what_is_under_it() -> None:
    async with opened(log_of(100), (120, 40)) as screen:
        pane = screen.monitor._panes["events"]
        await screen.pilot._post_mouse_events([MouseScrollDown], pane)
        await screen.settle()
        assert re.search(r" 4-\d+ of 101 ", screen.text)
        await screen.pilot._post_mouse_events([MouseScrollUp], pane)
        await screen.settle()
        assert re.search(r" 1-\d+ of 101 ", screen.text)


async def test_a_scrolled_pane_stays_within_what_there_is() -> None:
    async with opened(log_of(100)) as screen:
        await screen.press("end")
        await screen.resize(80, 60)
        assert "of 101" in screen.text
        assert screen.rows[-2].strip() != ""


async def test_a_pane_that_fits_does_not_scroll() -> None:
    async with opened(measured(20), (120, 40)) as screen:
        before = screen.text
        await screen.press("down", "end", "pagedown")
        assert screen.text == before


# What the user tells the session.


async def test_m_marks_with_a_note() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("m")
        note = screen.app.screen.query_one(Input)
        assert not note.cursor_blink  # which would redraw it twice a second
        await screen.press(*"fan on")
        assert "fan on" in screen.text
        assert note.value == "fan on"
        await screen.press("enter")
        assert dialog(screen) == ""
    assert screen.feed.asked == [Order("mark", "fan on")]


async def test_an_empty_note_is_a_mark_too() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("m", "space", "enter")
    assert screen.feed.asked == [Order("mark", "mark")]


async def test_screen_keys_are_letters_in_a_note_and_escape_cancels_it() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("m", "q", "Q", "x", "1", "question_mark", "escape")
        assert dialog(screen) == ""
        assert not has_left(screen)
    assert screen.feed.asked == []


async def test_r_tells_where_the_recording_is_and_how_large(tmp_path: Path) -> None:
    folder = tmp_path / "x.edgetop"
    (folder / "journal").mkdir(parents=True)
    (folder / "journal" / "piece").write_bytes(b"x" * 2048)
    async with opened(measured(5), (120, 40), recording=folder) as screen:
        await screen.press("r")
        assert "x.edgetop" in screen.text
        assert "2.0 KiB on the disk, recording" in screen.text
        await screen.press("r")
        assert dialog(screen) == ""


# Lists.


@pytest.mark.parametrize(("pane", "orders"), [("6", ["as found", "by name", "oldest", "highest"]), ("8", ["share"])])
async def test_s_sorts_the_pane_that_is_looked_at(pane: str, orders: list[str]) -> None:
    async with opened(measured(20).profile(), (160, 50)) as screen:
        await screen.press(pane)
        for order in orders:
            assert order in screen.rows[3] or order == "as found"
            await screen.press("s")


async def test_s_and_slash_act_on_the_marked_or_else_a_visible_pane() -> None:
    async with opened(measured(20).profile(), (200, 60)) as screen:
        await screen.press("s")
        assert screen.monitor._panes["sensors"].listing.order == 0
        assert screen.monitor._panes["hotspots"].listing.order == 1
        await screen.press("slash")
        assert "Show the events with these words" in screen.text
        await screen.press("escape", "tab", "slash")
        assert "Show the sensors with these words" in screen.text
        await screen.press("escape", "s")
        assert screen.monitor._panes["sensors"].listing.order == 1


async def test_slash_narrows_the_events_down() -> None:
    script = measured(5).tell("mark", source="user", message="fan on").tell("log", "warning", message="fan [b]slow[/b]")
    async with opened(script) as screen:
        await screen.press("5", "slash", *"FAN warn", "enter")
        assert "with: FAN warn" in screen.rows[3]
        assert "fan [b]slow[/b]" in screen.text
        assert "fan on" not in screen.text
        await screen.press("slash", *"zz", "enter")
        assert "no event like this" in screen.text


async def test_slash_narrows_the_sensors_down() -> None:
    async with opened(measured(5)) as screen:
        await screen.press("6", "slash", *"temp gpu", "enter")
        assert "temp/gpu-thermal" in screen.text
        assert "temp/cpu-thermal" not in screen.text


async def test_the_last_line_shows_the_keys_of_the_current_pane() -> None:
    async with opened(measured(5), (120, 40)) as screen:
        assert " s sort " not in screen.rows[-1]
        await screen.press("6")
        assert " s sort  / filter " in screen.rows[-1]
        await screen.press("5")
        assert " / filter " in screen.rows[-1]
        assert " s sort " not in screen.rows[-1]


# Keys of one's own.


async def test_keys_can_be_others_and_the_screen_tells_these() -> None:
    async with opened(measured(5), (120, 60), keys={"freeze": "f", "theme": "f5", "zoom-heat": "u"}) as screen:
        assert " f freeze " in screen.rows[-1]
        await screen.press("space", "t", "2")
        assert "FROZEN" not in screen.header
        assert screen.app.theme == "edgetop-dark"
        await screen.press("u")
        assert set(screen.panes) == {"heat"}
        await screen.press("f", "f5")
        assert "FROZEN" in screen.header
        assert dialog(screen) == "Theme"
        await screen.press("escape", "question_mark", "question_mark")
        assert re.search(r" f +freeze the screen", screen.text)
        assert re.search(r" F5 +choose a theme", screen.text)


async def test_the_window_at_first_can_be_chosen() -> None:
    async with opened(measured(75), window_ns=60 * 10**9) as screen:
        assert " w 1m " in screen.rows[-1]
        assert " window 1m " in screen.rows[3]


# Refreshes.


async def test_the_first_numbers_do_not_wait_for_the_next_refresh() -> None:
    """That measuring began is known before anything is measured."""
    async with opened(Script().load().warm_up().begin()) as screen:
        screen.monitor.tick()
        assert screen.monitor._timer._interval == OPENING_TICK_S  # type: ignore[union-attr]
        await screen.go_on()
        assert screen.monitor._timer._interval == NEVER_S  # type: ignore[union-attr]


async def test_garbage_collection_skips_the_finished_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    async with opened(Script().load().warm_up().begin()) as screen:
        screen.monitor.tick()
        assert frozen == []
        await screen.go_on()
        await screen.go_on()
        assert frozen == [True]


async def test_the_refresh_rate_changes_and_say_so() -> None:
    async with opened(measured(5), (200, 60), notifications=True) as screen:
        screen.monitor.refresh_every(1.0)
        assert screen.monitor._timer._interval == 1.0  # type: ignore[union-attr]
        await screen.press("greater_than_sign")
        assert "refresh every 2s" in screen.text
        assert " <> every 2s " in screen.rows[-1]
        assert screen.monitor._timer._interval == 2.0  # type: ignore[union-attr]
        await screen.press(*["less_than_sign"] * 9)
        assert screen.monitor._timer._interval == 0.2  # type: ignore[union-attr]
        await screen.press(*["greater_than_sign"] * 9)
        assert " <> every 30s " in screen.rows[-1]


# Hotspots.


async def test_o_orders_the_hotspots_and_slash_narrows_them() -> None:
    async with opened(measured(20).profile(), (120, 40)) as screen:
        await screen.press("8")
        assert "operators by share" in screen.text
        await screen.press("o")
        assert "operators by run order" in screen.text
        await screen.press("slash", *"squeeze", "enter")
        assert "of these 8 with: squeeze" in screen.text
        assert "conv10" not in screen.text
        await screen.press("slash", *["backspace"] * 7, "enter")
        assert "with:" not in screen.text
        assert "conv10" in screen.text


async def test_escape_leaves_the_filter_as_it_was() -> None:
    async with opened(measured(20).profile()) as screen:
        await screen.press("8", "slash", *"conv", "enter", "slash", "x", "escape")
        assert "with: conv" in screen.text


async def test_a_new_order_is_listed_from_the_top() -> None:
    async with opened(measured(20).profile()) as screen:
        await screen.press("8", "end")
        assert "2-19 of 19" in screen.text
        await screen.press("o")
        assert "1-13 of 19" in screen.text


async def test_p_asks_for_a_profile_now() -> None:
    async with opened(measured(20).profile()) as screen:
        await screen.press("p")
        assert screen.feed.asked == [Order("profile")]


async def test_p_says_why_there_is_none() -> None:
    script = measured(20).tell("profiler", way="", reason="no [b]library[/b]", every_ns=1)
    async with opened(script, notifications=True) as screen:
        await screen.press("p")
        await screen.wait_for("no [b]library[/b]")
        assert screen.feed.asked == []


async def test_p_does_nothing_when_the_session_is_over() -> None:
    async with opened(measured(20).profile().end(), ends=True) as screen:
        await screen.press("p")
        assert screen.feed.asked == []


async def test_recording_can_be_paused_and_resumed(tmp_path: Path) -> None:
    async with opened(measured(5), recording=tmp_path) as screen:
        assert screen.rows[1].endswith("  REC ")
        await screen.press("r", "p")
        screen.feed.put(screen.script.tell("recording-paused", "warning", "user", "paused").batches[-1])
        await screen.tick()
        assert screen.rows[1].endswith("  REC paused ")
        await screen.press("r")
        assert "paused" in screen.text
        assert "resume the recording" in screen.text
        await screen.press("p")
    assert screen.feed.asked == [Order("pause"), Order("resume")]


async def test_what_is_not_recorded_cannot_be_paused() -> None:
    async with opened(measured(5)) as screen:
        assert screen.rows[1].endswith("  not recorded ")
        await screen.press("r", "p")
        assert "not recorded (--no-record)" in screen.text
        await screen.press("escape")
        assert dialog(screen) == ""
    assert screen.feed.asked == []


async def test_a_recording_that_is_finished_cannot_be_paused(tmp_path: Path) -> None:
    async with opened(measured(5).end("duration"), ends=True, recording=tmp_path) as screen:
        await screen.press("r", "p")
        assert "finished" in screen.text
    assert screen.feed.asked == []


async def test_a_recording_whose_folder_is_gone_has_no_size(tmp_path: Path) -> None:
    async with opened(measured(5), recording=tmp_path / "gone") as screen:
        await screen.press("r")
        assert "0 B on the disk" in screen.text


async def test_x_begins_the_statistics_anew() -> None:
    async with opened(measured(20), notifications=True) as screen:
        await screen.press("x", "x")
        assert "since x" in screen.rows[3]
        assert "no samples yet" in screen.rows[4]
        assert "statistics reset" in screen.text
        await screen.go_on(10)
        assert screen.monitor.view.latency.session.count == 903  # of 1000 inferences, those since the next whole second


# Themes.


async def test_themes_are_seen_as_one_goes_through_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with opened(measured(5), theme="dark") as screen:
        seen = []
        for key in ("t", *["down"] * 4, *["up"] * 4):
            await screen.press(key)
            strip = screen.app.screen._compositor.render_strips()[5]
            seen.append((screen.app.theme, strip._segments[0].style.bgcolor))
        assert [name for name, _ in seen] == [
            f"edgetop-{name}"
            for name in ("dark", "light", "mono", "paper", "solarized", "paper", "mono", "light", "dark")
        ]
        assert len({str(background) for _, background in seen}) == 5
        await screen.press("escape")
        assert screen.app.theme == "edgetop-dark"
        await screen.press("t", "down", "enter")
        assert (screen.app.theme, screen.app.choices["theme"], dialog(screen)) == ("edgetop-light", "light", "")


async def test_a_theme_that_breaks_meanwhile_is_reported_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "edgetop" / "themes" / "light.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[styles]\n")
    async with opened(measured(5), (200, 60), theme="dark", notifications=True) as screen:
        await screen.press("t", "down")
        assert screen.app.theme == "edgetop-dark"
        assert "styles.text is missing" in screen.text
        await screen.press("down")
        assert screen.app.theme == "edgetop-mono"


@pytest.mark.parametrize("theme", ["16", "light"])
async def test_dialogs_are_drawn_with_and_without_their_own_colours(theme: str) -> None:
    async with opened(measured(5), theme=theme, notifications=True) as screen:
        for key in ("q", "question_mark", "r", "m"):
            await screen.press(key)
            assert dialog(screen)
            await screen.press("escape")
            assert dialog(screen) == ""


@pytest.mark.parametrize(("theme", "size"), [("16", (80, 24)), ("dark", (50, 12))])
async def test_with_ascii_alone_dialogs_and_messages_are_ascii_too(theme: str, size: tuple[int, int]) -> None:
    async with opened(measured(5), size, theme=theme, ascii_only=True, notifications=True) as screen:
        for key in ("q", "question_mark", "r", "m"):
            await screen.press(key)
            assert screen.text.isascii()
            await screen.press("escape")
        await screen.press("x", "x")
        assert "statistics reset" in screen.text
        assert screen.text.isascii()


# Sizes.


async def test_a_new_size_is_drawn_at_once_without_a_refresh() -> None:
    async with opened(measured(20)) as screen:
        for size in ((120, 40), (200, 60), (50, 12), (80, 24), (81, 25)):
            await screen.resize(*size)
            async with opened(measured(20), size) as fresh:
                assert screen.rows == fresh.rows


async def test_a_screen_smaller_than_anything_shows_the_verdict() -> None:
    async with opened(measured(20), (50, 12)) as screen:
        assert screen.header.startswith(" MEASURING ")
        assert [row.split()[0] for row in screen.rows[1:4]] == ["p50", "p99", "rate"]
        assert screen.panes == {}


def consistent(screen: Opened) -> bool:
    """Every pane stands where the arrangement says, and every row is as wide as the screen."""
    monitor, size = screen.monitor, screen.app.size
    places = arrange(
        size.width, size.height, monitor._selected, monitor._zoomed,
        layout=monitor._layout, charts=chart_counts(monitor.view),
    )  # fmt: skip
    expected = {place.name: (place.x, place.y, place.width, place.height) for place in places}
    rows = screen.rows
    return screen.panes == expected and len(rows) == size.height and {cell_len(row) for row in rows} == {size.width}


sizes = st.tuples(st.integers(1, 210), st.integers(1, 62))
steps = st.lists(sizes | st.sampled_from(("tick", *keys_that_stay(COMMANDS))), max_size=14)


async def walk(script: Script, todo: list[tuple[int, int] | str]) -> None:
    async with opened(script) as screen:
        for step in todo:
            if isinstance(step, tuple):
                await screen.resize(*step)
            elif step == "tick":
                await screen.go_on(1)
            else:
                await screen.press(*(["escape"] if dialog(screen) == "Leave the screen" else []), step)
            assert not has_left(screen)
            assert consistent(screen) or dialog(screen)
        while dialog(screen):
            await screen.press("escape")
        assert consistent(screen)


@pytest.mark.parametrize("size", [(120, 40), (160, 50)])
async def test_the_power_pane_takes_no_room_without_a_power_sensor(size: tuple[int, int]) -> None:
    async with opened(measured(5), size) as screen:
        assert "power" not in screen.panes
        script = measured_with_power(40)
        screen.feed.put(script.whole())
        await screen.tick()
        assert screen.panes["power"][3] >= 5
        assert consistent(screen)


@settings(deadline=None, max_examples=8)
@given(steps)
def test_no_key_breaks_the_screen_at_any_size(todo: list[tuple[int, int] | str]) -> None:
    asyncio.run(walk(measured_with_power(8).profile(), todo))


@pytest.mark.parametrize("i", mostly_thorough(range(len(HOSTILE)), 0, 2, 5, 6))
async def test_hostile_text_does_not_break_the_screen(i: int) -> None:
    async with opened(hostile(HOSTILE[i]), (160, 50)) as screen:
        for keys in ((), ("5",), ("6",), ("7",)):
            await screen.press(*keys)
            assert all(row.isprintable() for row in screen.rows)
            assert {cell_len(row) for row in screen.rows} == {160}
        await screen.press("escape")
        await screen.resize(80, 24)
        assert {cell_len(row) for row in screen.rows} == {80}


@pytest.mark.parametrize(
    "script",
    [
        Script,
        lambda: Script().load().warm_up(7),
        lambda: measured(5).lose(*(info.id for info in SENSORS)),
        lambda: measured(75, hot),
    ],
)
async def test_every_pane_can_be_alone_in_every_state(script: object) -> None:
    async with opened(script()) as screen:  # type: ignore[operator]
        for key in "1234567":
            await screen.press(key)
            assert consistent(screen)


# Cost.


async def test_a_refresh_without_news_draws_nothing() -> None:
    async with opened(measured(20)) as screen:
        drawn = []
        for pane in (*screen.monitor._panes.values(), screen.monitor._frame.header, screen.monitor._frame.status):
            pane.refresh = lambda *regions, **_: drawn.append(regions)  # type: ignore[method-assign]
        await screen.tick()
        assert drawn == []
        screen.feed.put(Batch(until_ns=screen.script.now_ns))
        await screen.tick()
        assert drawn == []


async def test_a_pane_that_is_not_seen_computes_nothing() -> None:
    async with opened(measured(20)) as screen:
        await screen.press("6", "7", "escape")  # so that they have been seen
        hidden = [pane for name, pane in screen.monitor._panes.items() if name not in screen.panes]
        assert hidden
        for pane in hidden:
            pane.lines = None  # type: ignore[method-assign,assignment]
        await screen.go_on()
        await screen.press("w")


async def test_the_remote_recording_place_is_shown_with_its_machine() -> None:
    folder = Path("/home/pi/soak-1.edgetop")
    async with opened(measured(5), recording=folder, recording_host="pi@board") as screen:
        await screen.press("r")
        assert "pi@board:/home/pi/soak-1.edgetop" in screen.text
        assert "recording" in screen.text
        assert "on the disk" not in screen.text
