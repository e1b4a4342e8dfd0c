"""The list of sessions: what its keys do, on sessions that are only told of."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.widgets import Input

from edgetop.ui.dialogs import Dialog
from edgetop.ui.screen_settings import StoredSession
from tests.support.screens import Opened, opened
from tests.support.scripts import measured

pytestmark = pytest.mark.slow

LONG = "a-name-of-a-session-that-is-as-long-as-the-whole-list-is-wide-in-a-small-terminal-20261127-101502"


class Done:
    def __init__(self, result: object) -> None:
        self._result, self.was_cancelled = result, False

    def result(self) -> object:
        return self._result

    def cancel(self) -> None:
        self.was_cancelled = True


class Shelf:
    """Sessions that are changed only here."""

    def __init__(self) -> None:
        self.stored = [
            StoredSession("now", Path("/r/now.edgetop"), True, "steady", "2026-11-27 10:15         -  p50 14 ms"),
            StoredSession("[b]old[/b]", Path("/r/old.edgetop"), False, "throttled 2x, 9 %", "2026-11-26 10:15"),
            StoredSession(LONG, Path("/r/long.edgetop"), False, "steady", "2026-11-25 10:15"),
        ]
        self.asked: list[tuple[object, ...]] = []
        self.problem = ""

    def listed(self) -> Done:
        return Done(list(self.stored))

    def compared(self, first: StoredSession, second: StoredSession, columns: int) -> Done:
        self.asked.append(("compare", first.name, second.name, columns))
        return Done(["old is slower than now: p50 x 1.2"])

    def deleted(self, session: StoredSession) -> Done:
        self.stored.remove(session)
        return Done(self.problem or [f"deleted {session.name}"])

    def rename(self, session: StoredSession, name: str) -> None:
        if name == "taken":
            raise ValueError("taken.edgetop: exists already")
        self.asked.append(("rename", session.name, name))

    def show(self, session: StoredSession, gives_up: Callable[[], bool]) -> str:
        self.asked.append(("show", session.name, gives_up()))
        return self.problem


def heading(screen: Opened) -> str:
    return screen.app.screen.heading if isinstance(screen.app.screen, Dialog) else ""


async def on(shelf: Shelf, screen: Opened, *keys: str) -> None:
    await screen.press("L")
    await screen.wait_for("now")
    await screen.press(*keys)


def whole(rows: Sequence[str], name: str) -> bool:
    """Whether a name stands on the screen, perhaps folded."""
    return name in "".join(row.strip("| ") for row in rows) or any(name in row for row in rows)


@pytest.mark.parametrize("size", [(60, 16), (80, 24), (120, 40), (200, 60)])
async def test_names_are_whole_at_every_size(size: tuple[int, int]) -> None:
    shelf = Shelf()
    async with opened(measured(5), size, sessions=shelf) as screen:
        await on(shelf, screen)
        rows = [row[5:-5] for row in screen.rows]
        assert whole(rows, "[b]old[/b]")
        cells = "".join(row.strip() for row in rows)
        assert LONG in cells or LONG[:40] in cells
        assert "* now" in screen.text  # it runs


async def test_the_chosen_session_is_shown_and_this_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadlessDriver, "can_suspend", True)  # there is no terminal to leave to the other session
    shelf = Shelf()
    async with opened(measured(5), sessions=shelf, notifications=True) as screen:
        shelf.problem = "old.edgetop: not a recorded session"
        await on(shelf, screen, "down", "enter")
        assert shelf.asked == [("show", "[b]old[/b]", False)]
        await screen.wait_for("not a recorded session")
        await screen.go_on()
        assert heading(screen) == ""


async def test_two_sessions_are_compared() -> None:
    shelf = Shelf()
    async with opened(measured(5), sessions=shelf) as screen:
        await on(shelf, screen, "c")
        assert "+ now" in screen.text
        await screen.press("c")
        assert "+ now" not in screen.text  # a second press takes the mark back
        await screen.press("c", "down", "c")
        await screen.wait_for("p50 x 1.2")
        ((_, first, second, columns),) = shelf.asked
        assert (first, second) == ("now", "[b]old[/b]")
        assert 40 < columns < 80
        assert heading(screen) == "[b]old[/b] compared with now"


async def test_a_session_is_renamed_and_the_reason_of_a_refusal_stands_in_the_question() -> None:
    shelf = Shelf()
    async with opened(measured(5), sessions=shelf) as screen:
        await on(shelf, screen, "down", "r")
        words = screen.app.screen.query_one(Input)
        assert words.value == "[b]old[/b]"
        words.value = "taken"
        await screen.press("enter")
        assert "exists already" in screen.text
        words.value = "new"
        await screen.press("enter")
        assert shelf.asked == [("rename", "[b]old[/b]", "new")]
        assert heading(screen) == "Sessions"


async def test_a_session_is_deleted_only_after_a_yes() -> None:
    shelf = Shelf()
    async with opened(measured(5), sessions=shelf, notifications=True) as screen:
        await on(shelf, screen, "down", "d")
        assert heading(screen) == "Delete [b]old[/b]?"
        await screen.press("enter")  # is no yes
        assert len(shelf.stored) == 3
        await screen.press("d", "y")
        await screen.wait_for("deleted [b]old[/b]")
        assert [one.name for one in shelf.stored] == ["now", LONG]


@pytest.mark.parametrize("key", ["r", "d"])
async def test_neither_a_running_session_nor_the_one_on_the_screen_is_changed(key: str) -> None:
    shelf = Shelf()
    shown = shelf.stored[1].path
    async with opened(measured(5), sessions=shelf, recording=shown, notifications=True) as screen:
        await on(shelf, screen, key)
        await screen.wait_for("now: is being recorded")
        await screen.press("down", key)
        await screen.wait_for("[b]old[/b]: is open on this screen")
        assert heading(screen) == "Sessions"


async def test_words_filter_the_list_and_a_failure_is_told() -> None:
    shelf = Shelf()
    async with opened(measured(5), sessions=shelf, notifications=True) as screen:
        await on(shelf, screen, "slash", *"thrott")
        assert ("old" in screen.text, "* now" in screen.text) == (True, False)
        await screen.press("enter", "d")
        shelf.problem = "another edgetop is writing it"
        await screen.press("y")
        await screen.wait_for("another edgetop is writing it")


async def test_without_sessions_the_key_says_so() -> None:
    async with opened(measured(5), notifications=True) as screen:
        await screen.press("L")
        await screen.wait_for("cannot list sessions")
