"""What people do by habit: choose a row and open it, copy it, search, click and drag."""

from dataclasses import replace
from pathlib import Path

import pytest
from textual.events import Click, MouseDown, MouseUp
from textual.widgets import Static

from edgetop.analysis.slowdowns.clue import Clue
from edgetop.feeds.feed_protocol import Can
from edgetop.session.events import Order
from edgetop.ui.charts import GUTTER
from edgetop.ui.dialogs import Dialog, TextDialog, export_dialog
from edgetop.ui.screen_settings import OtherProcess
from tests.support.replays import replayed
from tests.support.screens import Opened, opened
from tests.support.scripts import Script, manifest, measured

pytestmark = [pytest.mark.slow, pytest.mark.any_python]


def eventful() -> Script:
    script = measured(5).tell("mark", source="user", message="door").measure(5)
    return (
        script.tell("log", "warning", message="fan slow").measure(5).tell("records-lost", "critical", message="12 lost")
    )


def dialog(screen: Opened) -> str:
    top = screen.app.screen
    return top.heading if isinstance(top, Dialog) else ""


async def mouse(screen: Opened, pane: str, *at: tuple[int, int], times: int = 1) -> None:
    """A click; or a drag from the first place to the last. Places are within the pane."""
    widget = screen.monitor._panes[pane] if pane in screen.monitor._panes else screen.monitor.query_one(f"#{pane}")
    kinds: list[type] = [MouseDown, MouseUp, Click]
    for kind, place in zip(kinds, (at[0], at[-1], at[-1]), strict=True):
        if kind is not Click or len(at) == 1:
            await screen.pilot._post_mouse_events([kind], widget, offset=place, button=1, times=times)
    await screen.settle()


def chosen(screen: Opened, pane: str = "events") -> str:
    item = screen.monitor._panes[pane].item
    return "" if item is None else item.detail()[0]


async def test_a_row_is_chosen_opened_and_copied() -> None:
    async with opened(eventful(), notifications=True) as screen:
        await screen.press("5")
        assert chosen(screen) == ""
        await screen.press("down", "down")
        assert "fan slow" in chosen(screen)
        await screen.press("c")
        assert screen.app.clipboard.endswith("fan slow")
        await screen.press("enter")
        assert (dialog(screen), "warning" in screen.text) == ("events", True)
        await screen.press("c", "escape", "escape")
        assert chosen(screen) == ""
        await screen.press("end")
        assert "engine" in chosen(screen)


async def test_the_row_stays_the_one_that_was_chosen_while_others_come() -> None:
    async with opened(eventful()) as screen:
        await screen.press("5", "down", "down")
        screen.script.tell("mark", message="new")
        await screen.go_on(1)
        assert "fan slow" in chosen(screen)


async def test_without_a_row_c_copies_the_pane_or_the_verdict() -> None:
    async with opened(eventful()) as screen:
        await screen.press("c")
        assert screen.app.clipboard.startswith("MEASURING  p50 5.0")
        await screen.press("4", "c")
        assert "engine RSS" in screen.app.clipboard


async def test_the_command_that_made_a_session_is_copied() -> None:
    made = manifest(command=("edgetop", "run", "my model.onnx"))
    async with opened(Script(made).load().measure(5)) as screen:
        await screen.press("Y")
        assert screen.app.clipboard == "edgetop run 'my model.onnx'"


@pytest.mark.parametrize(("pane", "key"), [("sensors", "6"), ("hotspots", "8")])
async def test_tables_have_a_row_cursor_and_all_of_a_row(pane: str, key: str) -> None:
    async with opened(measured(20).profile(), (100, 30)) as screen:
        await screen.press(key, "down", "down", "up", "enter")
        assert dialog(screen) == pane
        shown = str(screen.app.screen.query_one("#text", Static).content)
        assert ("source" if pane == "sensors" else "GFLOP/s") in shown


async def test_in_a_replay_a_row_goes_to_its_time(tmp_path: Path) -> None:
    async with replayed(eventful().measure(20).end(), tmp_path) as screen:
        await screen.press("space", "end", "5", "down", "down", "down", "enter")
        assert dialog(screen) == "events"
        assert 10 < screen.at_s < 13
        assert "fan slow" in screen.text
        at_s = screen.at_s
        await screen.press("escape", "escape", "comma", "comma", "full_stop", "comma")
        assert (screen.at_s, "at 00:00:" in screen.rows[2]) == (at_s, True)  # read, and not gone to


async def test_help_is_searched_and_says_how_much_is_below(tmp_path: Path) -> None:
    async with opened(measured(5)) as screen:
        await screen.press("question_mark")
        await screen.wait_for("more below")
        await screen.press("slash", *"screenshot")
        await screen.wait_for("save a screenshot")
        top = screen.app.screen
        assert isinstance(top, TextDialog)
        assert len(top._found) == 1
        await screen.press("enter", "c")
        assert screen.app.clipboard.startswith("S ")
        await screen.press("q")
        assert dialog(screen) == ""
    async with replayed(measured(5).end(), tmp_path) as replay:
        await replay.press("question_mark")
        assert "asks whether" not in "\n".join(replay.app.screen.lines)  # type: ignore[attr-defined]


async def test_what_is_searched_is_listed_while_it_is_typed() -> None:
    async with opened(eventful()) as screen:
        await screen.press("5", "slash", *"door")
        await screen.wait_for("with: door")
        await screen.press("escape")
        assert "with:" not in screen.text


async def test_a_dialog_that_is_too_long_for_the_screen_scrolls() -> None:
    async with opened(measured(5), (40, 12)) as screen:
        screen.app.push_screen(export_dialog({f"form{i}": "what it is for, in words" for i in range(6)}, "/a/folder"))
        await screen.wait_for("Export the session")
        assert "no export" not in screen.text
        await screen.press("end")
        await screen.wait_for("no export")


async def test_the_severity_goes_round() -> None:
    async with opened(eventful()) as screen:
        await screen.press("5")
        seen = []
        for _ in range(3):
            await screen.press("exclamation_mark")
            seen.append([name for name in ("door", "fan slow", "12 lost") if name in screen.text])
        assert seen == [["fan slow", "12 lost"], ["12 lost"], ["door", "fan slow", "12 lost"]]


@pytest.mark.parametrize("key", ["d", "x"])
async def test_a_key_that_discards_something_must_be_pressed_twice(key: str, tmp_path: Path) -> None:
    async with opened(measured(20), more=Can.DETACH, recording=tmp_path, notifications=True) as screen:

        def is_done() -> bool:
            return screen.app._exit or bool(screen.monitor.live.latency.since_ns)

        await screen.press(key)
        assert f"{key} again: " in screen.text
        await screen.press("w", key)
        assert not is_done()
        await screen.press(key)
        assert is_done()


async def test_p_answers_at_once() -> None:
    async with opened(measured(20).profile(), notifications=True) as screen:
        await screen.press("p")
        assert screen.feed.asked == [Order("profile")]
        assert "profiling" in screen.text


async def test_clicks_choose_a_pane_a_row_an_order_and_a_key() -> None:
    async with opened(eventful().profile().measure(5), (120, 40)) as screen:
        await mouse(screen, "events", (20, 1))
        assert screen.app.focused is screen.monitor._panes["events"]
        assert "run-level profiling" in chosen(screen)
        await screen.press("escape", "6")
        await mouse(screen, "sensors", (5, 1))
        assert "by name" in screen.rows[3]
        await mouse(screen, "sensors", (30, 1))
        assert "highest first" in screen.rows[3]
        for key in ("w", "space"):
            await mouse(screen, "status", (screen.rows[-1].index(f" {key} ") + 1, 0))
        assert screen.monitor.window_ns == 60 * 10**9
        assert screen.monitor.is_frozen
        await mouse(screen, "status", (screen.rows[-1].index("edgetop") + 2, 0))
        assert dialog(screen) == ""


async def test_a_click_on_a_timeline_reads_it_and_dragging_zooms_it() -> None:
    async with opened(measured(50), (120, 40)) as screen:
        axis, pane = screen.monitor.view.axis, screen.monitor._panes["latency"]
        cells = pane.size.width - 2 - GUTTER
        at_20s = 1 + GUTTER + (20 - axis.from_s) * cells // (axis.to_s - axis.from_s)
        at_40s = 1 + GUTTER + (40 - axis.from_s) * cells // (axis.to_s - axis.from_s)
        await mouse(screen, "latency", (at_20s, 6))
        assert screen.monitor.cursor_s == pytest.approx(20, abs=2)
        await mouse(screen, "latency", (at_20s, 6), (at_40s, 6))
        seen = screen.monitor.view.axis
        assert (seen.from_s, seen.to_s) == (pytest.approx(20, abs=2), pytest.approx(40, abs=2))
        assert screen.monitor.is_frozen
        await screen.press("0", "space")
        assert screen.monitor.view.axis == axis


class FakeProcesses:
    """The processes of a machine on which one takes the CPU."""

    def __init__(self, *, may_control: bool = True) -> None:
        self.done: list[str] = []
        self._found = OtherProcess(
            4711, "mypy", "mypy --strict \x1b[31m", "ci", 71.0, 7.1, 10.0, 0, may_control=may_control
        )

    def find(self, name: str) -> OtherProcess | None:
        return self._found if name == "mypy" else None

    def lower_priority(self, of: OtherProcess) -> str:
        self.done.append(f"lower {of.pid}")
        return "its priority is lower"

    def end(self, of: OtherProcess) -> str:
        self.done.append(f"end {of.pid}")
        return "SIGTERM was sent"


def contend(screen: Opened) -> None:
    """Let mypy take the CPU."""
    view = screen.monitor.view
    view.__dict__["slowdowns"] = replace(view.slowdowns, contended_now=Clue("process-now", "mypy", value=71))


@pytest.mark.parametrize(("key", "done"), [("l", "lower 4711"), ("t", "end 4711")])
async def test_the_process_that_takes_the_cpu_is_changed_after_a_question_only(key: str, done: str) -> None:
    processes = FakeProcesses()
    async with opened(measured(5), (120, 40), processes=processes, notifications=True) as screen:
        contend(screen)
        await screen.press("K")
        assert "mypy --strict \\x1b[31m" in screen.text
        assert "process 4711 of ci, niceness 0" in screen.text
        assert "71.0 % of a core since its start 10.0s ago" in screen.text
        await screen.press(key, "n")
        assert processes.done == []
        await screen.press("K", key, "escape")
        assert processes.done == []
        await screen.press("K", key, "y")
        assert processes.done == [done]


async def test_the_process_of_another_user_is_only_shown() -> None:
    processes = FakeProcesses(may_control=False)
    async with opened(measured(5), (120, 40), processes=processes) as screen:
        contend(screen)
        await screen.press("K")
        assert "it belongs to ci: only that user and root may change it" in screen.text
        await screen.press("l", "t", "y")
        assert processes.done == []


async def test_without_such_an_event_or_process_a_line_says_so() -> None:
    async with opened(measured(5), processes=FakeProcesses(), notifications=True) as screen:
        await screen.press("K")
        await screen.wait_for("no slowdown names a process")
    async with opened(measured(5), notifications=True) as screen:
        await screen.press("K")
        await screen.wait_for("only by the screen of a run")
