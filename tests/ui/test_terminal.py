"""The screen on a real (pseudo-)terminal: what it sends, and how it leaves."""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import mean

import pytest
from textual.events import CursorPosition

from edgetop.ui.characters import MEASURED
from tests.support.screen_program import session
from tests.support.screens import opened
from tests.support.terminal import ALTERNATE_SCREEN, LEAVE_ALTERNATE_SCREEN, Terminal

pytestmark = pytest.mark.slow

SHOW_CURSOR, HIDE_CURSOR = "\x1b[?25h", "\x1b[?25l"
MOUSE_ON, MOUSE_OFF = "\x1b[?1000h", "\x1b[?1000l"
REFRESHES = 25
BUDGET_BYTES = 2048  # a refresh at 80x24, steady


@contextmanager
def running(
    scenario: str,
    refreshes: int = REFRESHES,
    size: tuple[int, int] = (80, 24),
    environment: Mapping[str, str] = {"COLORTERM": "truecolor"},
) -> Iterator[Terminal]:
    terminal = Terminal([scenario, str(refreshes)], *size, environment, template="screen")
    try:
        yield terminal
    finally:
        terminal.close()


def ending(terminal: Terminal) -> dict[str, object]:
    """What the program said last, after its screen."""
    assert terminal.wait_for_exit() == 0
    after = terminal.output.decode().rpartition(LEAVE_ALTERNATE_SCREEN)[2]
    return dict(json.loads(after[after.index("{") :]))


def assert_left_in_order(terminal: Terminal) -> None:
    """The shell that comes after finds its terminal as it was."""
    output = terminal.output.decode()
    assert output.rindex(LEAVE_ALTERNATE_SCREEN) > output.rindex(ALTERNATE_SCREEN)
    assert output.rindex(SHOW_CURSOR) > output.rindex(HIDE_CURSOR)
    assert output.rindex(MOUSE_OFF) > output.rindex(MOUSE_ON)
    assert terminal.attributes() == terminal.attributes_before
    assert "Traceback" not in output


def steady(terminal: Terminal, size: tuple[int, int]) -> list[int]:
    """Bytes of every refresh behind the last time that the whole screen was painted.

    That takes more than one and a half bytes a cell. Among them is one in which the time axis moved, and with it every
    chart.
    """
    sizes = [len(frame) for frame in terminal.frames]
    last_paint = max(i for i, bytes_sent in enumerate(sizes) if bytes_sent > 1.5 * size[0] * size[1])
    return sizes[last_paint + 1 : -1]


def without_intervals(rows: list[str]) -> list[str]:
    """How well percentiles are known is estimated anew only now and then."""
    return [row for row in rows if not row.startswith(("|95% from", "|      to "))]


@pytest.mark.parametrize(
    ("size", "keys", "budget"),
    [
        ((80, 24), "", BUDGET_BYTES / 3),
        pytest.param((80, 24), "1", BUDGET_BYTES / 2, marks=pytest.mark.thorough),
        pytest.param((160, 50), "", BUDGET_BYTES, marks=pytest.mark.thorough),
        pytest.param((160, 50), "1", BUDGET_BYTES * 3 / 2, marks=pytest.mark.thorough),
    ],
)
def test_a_steady_refresh_sends_little_and_leaves_nothing_old(size: tuple[int, int], keys: str, budget: int) -> None:
    async def expected() -> list[str]:
        async with opened(session(REFRESHES), size, theme="dark") as screen:
            await screen.press(*keys)
            return screen.rows

    with running("steady", REFRESHES, size) as terminal:
        terminal.wait_for("STEADY")
        terminal.send(keys)
        assert ending(terminal)["failure"] is None
        sent = steady(terminal, size)
        assert len(sent) > 5
        assert mean(sent) < budget
        assert without_intervals(terminal.shown(*size)) == without_intervals(asyncio.run(expected()))


@pytest.mark.parametrize(
    ("environment", "allowed"),
    [
        pytest.param({"NO_COLOR": "1"}, r"(0|1|2|4|7|39|49)(;(1|2|4|7|39|49))*", marks=pytest.mark.thorough),
        ({"TERM": "xterm"}, r"([012479]|[34][0-79]|9[0-7]|10[0-7])(;([012479]|[34][0-79]|9[0-7]|10[0-7]))*"),
        pytest.param({"TERM": "xterm-256color"}, r"(0|(1;)?[34]8;5;\d+(;48;5;\d+)?)", marks=pytest.mark.thorough),
    ],
)
def test_no_more_colours_are_sent_than_the_terminal_has(environment: dict[str, str], allowed: str) -> None:
    """Attributes are 1 bold, 2 faint, 4 underlined, 7 reversed, 39 and 49 the terminal's own colours (ECMA-48, SGR)."""
    with running("own-theme", 8, environment={"COLORTERM": "", **environment}) as terminal:
        assert ending(terminal)["failure"] is None
        sent = set(re.findall(r"\x1b\[([0-9;]+)m", terminal.output.decode()))
        assert sent
        assert [codes for codes in sent if not re.fullmatch(allowed, codes)] == []


def test_without_news_nothing_is_sent() -> None:
    """No animation, no blinking, no polling."""
    with running("idle", 50) as terminal:
        terminal.wait_for("edgetop 1.3 %")
        frames = len(terminal.frames)
        ending(terminal)
        assert len(terminal.frames) - frames <= 2


def bytes_after(terminal: Terminal, keys: str, awaited: int = 3) -> int:
    """What is sent in the frames that follow."""
    before = len(terminal.frames)
    terminal.send(keys)
    terminal.wait_for_frames(before + awaited)
    return sum(map(len, terminal.frames[before:]))


def test_a_question_redraws_its_box_but_not_the_screen_behind() -> None:
    size = (160, 50)
    with running("endless", 400, size) as terminal:
        terminal.wait_for("STEADY")
        terminal.wait_for_frames(10)  # the first ones paint all of it
        asked = bytes_after(terminal, "q", 10)
        assert "Leave the screen" in terminal.text
        assert asked < 10 * BUDGET_BYTES / 2


CELLS = 80 * 24


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("", ""),
        ("q", "Leave the screen"),
        pytest.param("m", "Mark ", marks=pytest.mark.thorough),
        pytest.param("?", "Keys", marks=pytest.mark.thorough),
    ],
)
def test_ctrl_l_draws_anew_what_something_else_wrote_over(key: str, title: str) -> None:
    """Where a dialog is open too."""
    with running("idle", 10_000) as terminal:
        terminal.wait_for_paint(CELLS)
        terminal.wait_for("edgetop 1.3 %")
        terminal.send(key)
        terminal.wait_for(title)
        before = len(terminal.frames) + bool(key)  # the end of the dialog's own may be on its way
        terminal.send("\x0c")
        terminal.wait_for_paint(CELLS, before)


def test_a_terminal_that_shrank_and_grew_at_once_is_redrawn() -> None:
    """Of two signals so close only one is seen, at the size that was known; what it cut off is gone."""
    with running("idle", 10_000) as terminal:
        terminal.wait_for_paint(CELLS)
        terminal.wait_for("edgetop 1.3 %")
        before = len(terminal.frames)
        terminal.resize(80, 24)
        terminal.wait_for_paint(CELLS, before)


def test_q_and_s_leave_the_terminal_in_order_and_stop_the_run() -> None:
    with running("endless") as terminal:
        terminal.wait_for("STEADY")
        terminal.send("q")
        terminal.wait_for("stop the run")
        terminal.send("s")
        assert ending(terminal) == {"failure": None, "asked": ["stop"]}
        assert_left_in_order(terminal)


def test_a_new_size_is_drawn_at_once_and_ctrl_c_stops_the_run() -> None:
    with running("endless") as terminal:
        terminal.wait_for("STEADY")
        terminal.resize(120, 40)
        terminal.wait_for("8 hotspots", "sustained")
        terminal.resize(50, 12)
        terminal.wait_for("rate 100/s")
        terminal.send("\x03")
        assert ending(terminal) == {"failure": None, "asked": ["stop"]}
        assert_left_in_order(terminal)


def test_a_pane_defect_is_shown_in_the_pane() -> None:
    with running("defect") as terminal:
        terminal.wait_for("not available: internal error in", "pane-events", "1 latency", "p50")
        terminal.send("\x03")
        assert ending(terminal) == {"failure": None, "asked": ["stop"]}
        assert_left_in_order(terminal)


def test_a_screen_defect_closes_the_screen_and_is_reported() -> None:
    with running("screen-defect") as terminal:
        end = ending(terminal)
        assert end == {"failure": "PaneError: [red]a defect[/red] of a feed", "asked": []}
        assert_left_in_order(terminal)


# Glyphs of ambiguous width.


@pytest.mark.parametrize(
    ("ends_at", "frame"),
    [
        (len(MEASURED), "╭"),
        (2 * len(MEASURED), "+"),
        pytest.param(None, "+", marks=pytest.mark.thorough),
    ],
)
def test_boxes_are_drawn_if_the_terminal_draws_them_in_one_cell(ends_at: int | None, frame: str) -> None:
    with running("steady", 60) as terminal:
        terminal.wait_for_output(b"\x1b[6n")
        terminal.send("1" if ends_at is None else f"1\x1b[1;{ends_at + 1}R")  # a key typed ahead of the reply
        terminal.wait_for(f"{frame} 1 latency", "Esc back")
        assert not any("R" in row for row in terminal.seen[3:-1])
        assert ending(terminal)["failure"] is None
        assert terminal.output.count(b"\x1b[6n") == 1


async def test_the_screen_is_drawn_anew_with_the_reply() -> None:
    async with opened(session(3)) as screen:
        assert screen.rows[3].startswith("+ ")
        screen.app.post_message(CursorPosition(len(MEASURED), 1))
        await screen.tick()
        assert screen.rows[3].startswith("+ ")
        screen.app.post_message(CursorPosition(len(MEASURED), 0))
        await screen.tick()
        assert screen.rows[3].startswith("╭ ")
