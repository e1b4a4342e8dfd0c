"""The screen of many boards: the worst first, at every size, without a session of its own."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from textual.events import MouseScrollDown, MouseScrollUp

from edgetop.feeds.feed_protocol import Can
from edgetop.feeds.fleet_feed import ORDERS, BoardView, Logged
from edgetop.session.events import Order
from edgetop.session.session_summary import MAX_AGE_S, Happened, parse_events
from edgetop.ui.app import EdgetopApp
from edgetop.ui.fleet_screen import COMMANDS, FleetScreen
from edgetop.ui.key_commands import COMMANDS as SESSION_COMMANDS
from edgetop.ui.keys import conflict
from edgetop.ui.screen_settings import FleetListing, ScreenSettings
from tests.support.clocks import ManualClock
from tests.support.fleets import view
from tests.support.screens import NEVER_S, Opened
from tests.support.screens import opened as opened_session
from tests.support.scripts import HOSTILE, ListFeed, Script, measured

FIGURES = {
    "p50_ms": 12.6, "p99_ms": 19.1, "deadline_ms": 33.0, "settled": True, "miss_rate": 0.002, "temperature_c": 83.0,
    "headroom_c": 2.0, "clock_share": 0.73, "power_w": 6.1, "memory_left_mib": 5222.0, "elapsed_s": 4364.0,
    "model": "detector.tflite", "p99_course_ms": (12.0, 15.0, None, 19.1), "temperature_course_c": (60.0, 70.0, 83.0),
}  # fmt: skip
VIEWS = [
    view("desk-1", **FIGURES, word="STEADY", level="good"),
    view("desk-2", **FIGURES, word="THROTTLING", level="critical", words="THROTTLING: 0:27 thermal, p50 +32 %"),
    view("desk-3", "misfit", reason="edgetop 0.0.9 on desk-3 speaks relay protocol 3: update edgetop on desk-3"),
    view("desk-4", "unreachable", reason="no edgetop on pi@desk-4: install it there from a copy of its folder"),
]


class ListedFleet:
    """Boards that a test puts there."""

    def __init__(self, views: list[BoardView]) -> None:
        self.clock = ManualClock()
        self.all, self.asked = views, []
        self.logged = [Logged(self.clock.monotonic_ns(), "desk-2", Happened(0.0, "critical", "throttling begins"))]

    def views(self, order: str, words: str) -> list[BoardView]:
        return sorted((v for v in self.all if words.lower() in v.searched()), key=ORDERS[order])

    def log(self) -> list[Logged]:
        return self.logged

    def order_all(self, order: Order) -> None:
        self.asked.append(order)


@asynccontextmanager
async def opened(
    fleet: ListedFleet, size: tuple[int, int] = (80, 24), listing: FleetListing | None = None, **options: object
):
    settings, listing = ScreenSettings(refresh_s=NEVER_S, **options), listing or FleetListing()
    app = EdgetopApp(lambda *given: FleetScreen(given[0], fleet, settings, *given[1:3], listing, given[3]), settings)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = Opened(app, pilot, ListFeed(), Script())
        await screen.settle()
        yield screen


async def test_the_worst_board_is_first_and_a_silent_one_says_why():
    async with opened(ListedFleet(VIEWS)) as screen:
        rows = screen.rows
        assert rows[0].startswith(" FLEET  4 boards  1 THROTTLING  1 UNREACHABLE  1 OTHER VER>  by worst")
        assert rows[2].startswith(">desk-2  X THROTTLING        12.60    19.10/33    0.2%   83/85   73 %   1 s")
        assert rows[3].startswith(" desk-4  X UNREACHABLE      no edgetop on pi@desk-4: install it there from a co")
        assert rows[4].startswith(" desk-3  ! OTHER VERSION    edgetop 0.0.9 on desk-3")
        assert "0:27 thermal, p50 +32 %" in rows[6]
        assert any("desk-2     X throttling begins" in row for row in rows)


async def test_a_long_verdict_is_cut_for_simulated_and_age_has_units():
    words = {"word": "CONTENDED FROM THE START", "level": "warning", "simulated": True, "miss_rate": 0.00091}
    views = [view("a", **words), view("b", "lost", **words)]
    views[1] = replace(views[1], age_s=900.0)
    async with opened(ListedFleet(views)) as screen:
        lost, contended = screen.rows[2:4]
        assert ("X LINK LOST SIM " in lost, " 15 m" in lost) == (True, True)
        assert ("! CONTENDED > SIM " in contended, " 0.091% " in contended) == (True, True)


SEEN = {(80, 24): "AGE", (120, 40): "MODEL", (200, 60): "HEAT CHART", (60, 12): "P50", (20, 5): "BOA"}


@pytest.mark.parametrize(("size", "seen"), SEEN.items())
async def test_every_size_shows_whole_columns(size, seen):
    async with opened(ListedFleet(VIEWS), size) as screen:
        assert seen in screen.rows[1]
        assert all(len(row) == size[0] for row in screen.rows)
        await screen.resize(80, 24)
        assert "AGE" in screen.rows[1]


async def test_keys_sort_filter_mark_and_open_and_the_choice_persists():
    fleet, listing = ListedFleet(VIEWS), FleetListing()
    async with opened(fleet, listing=listing) as screen:
        await screen.press("s", "down")
        assert screen.rows[3].startswith(">desk-2")
        await screen.press("slash", "1", "enter")
        assert "1 board " in screen.rows[0]
        await screen.press("escape", "m", "f", "a", "n", "enter")
        assert fleet.asked == [Order("mark", "fan")]
        await screen.press("up", "question_mark")
        assert "mark this moment on all boards" in screen.text
        await screen.press("escape", "enter")
    assert listing == FleetListing(order="name", cursor="desk-1", opened="desk-1")
    async with opened(fleet, listing=listing) as screen:
        assert screen.rows[2].startswith(">desk-1")
        assert listing.opened == ""


async def test_help_explains_what_this_screen_shows():
    async with opened(ListedFleet(VIEWS), (100, 60)) as screen:
        await screen.press("question_mark")
        assert all(words in screen.text for words in ("chart of p99", "SIM", "edgetop help fleet"))
        assert "p50 and p99 as lines" not in screen.text
        assert "time axis" not in screen.text


async def test_keys_that_a_user_gave_are_those_that_the_screen_names():
    fleet = ListedFleet(VIEWS)
    async with opened(fleet, (100, 60), keys={"mark": "f5", "help": "f6"}) as screen:
        assert screen.rows[-1].startswith(" f6 help ")
        assert " f5 mark all " in screen.rows[-1]
        await screen.pilot.click(offset=(screen.rows[-1].index("mark all"), 59))
        await screen.press("x", "enter", "m", "f6")
        assert fleet.asked == [Order("mark", "x")]
        assert any(" F5 " in row and "mark this moment on all boards" in row for row in screen.rows)


async def test_a_board_without_data_is_not_opened_but_says_why():
    listing = FleetListing(cursor="desk-4")
    async with opened(ListedFleet(VIEWS), (120, 40), listing) as screen:
        await screen.press("enter")
        await screen.wait_for("desk-4: no edgetop on pi@desk-4")
        assert listing.opened == ""


async def test_the_mouse_chooses_and_opens_a_board():
    listing = FleetListing()
    async with opened(ListedFleet(VIEWS), listing=listing) as screen:
        await screen.pilot.click(offset=(5, 5))
        assert screen.rows[5].startswith(">desk-1")
        await screen.pilot.click(offset=(screen.rows[-1].index("sort") + 1, 23))
        assert "by name" in screen.rows[0]
        await screen.pilot.click(offset=(screen.rows[-1].index("sort") + 1, 23), times=4)
        assert "by worst" in screen.rows[0]
        await screen.pilot.click(offset=(5, 5), times=2)
        await screen.settle()
    assert listing.opened == "desk-1"


async def test_the_wheel_moves_the_cursor_by_three_boards():
    async with opened(ListedFleet([view(f"b{i}", **FIGURES, word="STEADY") for i in range(9)])) as screen:
        for wheel, chosen in ((MouseScrollDown, 3), (MouseScrollDown, 6), (MouseScrollUp, 3)):
            screen.app.screen._forward_event(wheel(None, 5, 5, 0, 0, 0, False, False, False, 5, 5))
            await screen.settle()
            assert any(row.startswith(f">b{chosen}") for row in screen.rows)


async def test_more_boards_than_rows_scroll_with_the_cursor():
    many = [view(f"b{i:02}", **FIGURES, word="STEADY") for i in range(50)]
    async with opened(ListedFleet(many)) as screen:
        assert "boards below" in screen.text
        await screen.press("end")
        assert any(row.startswith(">b49") for row in screen.rows)
        await screen.press("home")
        assert screen.rows[2].startswith(">b00")


@pytest.mark.parametrize("text", HOSTILE)
async def test_foreign_text_is_only_text(text):
    fleet = ListedFleet([view("desk", **{**FIGURES, "model": text, "word": text, "words": text, "board": text})])
    fleet.all.append(replace(view("x", "lost", reason=text), version=text))
    fleet.logged.append(Logged(0, text, Happened(0.0, "warning", text)))
    async with opened(fleet, (200, 30)) as screen:
        assert all(character.isprintable() for row in screen.rows for character in row)
        assert screen.rows[-1].startswith(" ? help")


async def test_escape_returns_to_the_fleet_once_nothing_else_is_open():
    async with opened_session(measured(5), is_visited=True) as screen:
        await screen.press("1", "escape")
        assert not screen.app._exit
        await screen.press("escape")
        assert screen.app._exit


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-9, 9.99e14, -9.99e14])
async def test_figures_of_a_stranger_that_cannot_be_true_break_nothing(value):
    numbers = {name: value for name, given in FIGURES.items() if isinstance(given, float)}
    courses = {"p99_course_ms": (value, None), "temperature_course_c": (value,)}
    fleet = ListedFleet([view("desk", **{**FIGURES, **numbers, **courses})])
    fleet.logged += [Logged(0, "desk", happened) for happened in parse_events([[value, "info", "x"]])]
    async with opened(fleet, (200, 30)) as screen:
        assert screen.rows[2].startswith(">desk")
    assert 0 <= parse_events([[value, "info", "x"]])[0].age_s <= MAX_AGE_S


def test_no_key_does_two_things():
    """A user's keys are checked on the screen of a visited session, which has all of these commands and keys."""
    session = {command.id: command.keys for command in SESSION_COMMANDS if command.applies(Can.ORDERS | Can.VISIT)}
    fleet = {command.id: command.keys.removesuffix(",ctrl+c") for command in COMMANDS}
    assert {command_id: session.get(command_id) for command_id in fleet} == fleet
    assert conflict(COMMANDS) is None
