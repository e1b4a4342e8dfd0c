"""The event log: newest first, with marks beside colours."""

from edgetop.ui.panes.events import EVENTS
from tests.support.screens import area, plain, view_of
from tests.support.scripts import Script, manifest


def rows(script: Script, width: int = 60) -> list[str]:
    return [plain(line) for line in EVENTS.body(view_of(script), area(width, 5))]


def test_the_newest_stands_first_with_its_time() -> None:
    script = Script(manifest(sensors=())).tell("log", message="early").wait(3_725).tell("log", message="late")
    assert rows(script) == ["01:02:05   engine: late", "00:00:00   engine: early"]


def test_gravity_has_a_mark_and_a_style() -> None:
    script = Script().tell("log", "warning", message="careful").tell("log", "critical", message="broken")
    lines = EVENTS.body(view_of(script), area(60, 5))
    assert [plain(line)[9] for line in lines] == ["X", "!"]
    assert [line[-1].style for line in lines] == ["critical", "warning"]


def test_a_long_message_goes_on_under_its_beginning() -> None:
    script = Script().tell("log", message="one two three four five")
    assert rows(script, 30) == ["00:00:00   engine: one two", "           three four five"]


def test_after_a_hundred_hours_the_columns_still_stand_under_one_another() -> None:
    script = Script(manifest(sensors=())).wait(360_000).tell("log", message="one two three four five")
    first, second = rows(script, 31)
    assert first.startswith("100:00:00   engine: one")
    assert second.startswith(" " * 12 + "three")


def test_the_title_counts() -> None:
    script = Script().tell("log", "warning").tell("log", "critical").tell("mark")
    assert EVENTS.title(view_of(script), area(60, 5)) == "3   ! 1   X 1"


def test_one_line_tells_the_newest() -> None:
    script = Script().tell("log", message="early").tell("log", message="late and long")
    assert plain(EVENTS.line(view_of(script), area(30, 1))) == "00:00:00   engine: late and"
    assert plain(EVENTS.line(view_of(Script()), area(30, 1))) == "no events"


def test_what_the_screen_tells_of_itself_has_no_source() -> None:
    assert rows(Script().tell("phase", message="warm-up begins", phase="warmup")) == ["00:00:00   warm-up begins"]
    began = Script().tell("slowdown-began", "warning", source="analysis", message="31 % slower: thermal")
    assert rows(began) == ["00:00:00 ! 31 % slower: thermal"]


def test_while_nothing_happens_it_is_drawn_of_the_same_object() -> None:
    view = view_of(Script().tell("log"))
    assert EVENTS.subject(view) is view.events
