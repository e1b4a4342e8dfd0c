"""The event log: newest first, with marks beside colours."""

import re
from dataclasses import replace

from edgetop.ui.panes.events_pane import EVENTS
from edgetop.ui.panes.pane import Listing
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


def test_columns_stay_aligned_after_a_hundred_hours() -> None:
    script = Script(manifest(sensors=())).wait(360_000).tell("log", message="one two three four five")
    first, second = rows(script, 31)
    assert first.startswith("100:00:00   engine: one")
    assert second.startswith(" " * 12 + "three")


def test_the_title_counts_no_warnings_because_line_2_does() -> None:
    script = Script().tell("log", "warning").tell("log", "critical").tell("mark")
    assert EVENTS.title(view_of(script), area(60, 5)) == ""


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


def test_a_start_is_one_line_once_it_is_over() -> None:
    script = Script(manifest(sensors=())).load()
    script.tell("engine-memory", message="58 MiB").tell("log", "warning", message="careful").warm_up(48)
    assert len(rows(script)) > 3
    shown = rows(script.begin().measure(2), 90)
    assert re.fullmatch(r"00:00:0\d   started in \d\.\ds: load .* ms, first .* ms, warm-up 48", shown[0])
    assert [row[9:] for row in shown[1:]] == ["! engine: careful"]
    start = EVENTS.items(view_of(script), area(90, 5))[0]
    assert any("58 MiB" in text for text in start.detail())


def test_lines_of_one_source_in_one_second_are_one() -> None:
    script = Script(manifest(sensors=())).tell("log", message="alone").wait(5)
    script.tell("log", "warning", message="Fatal Python error: Segmentation fault")
    for place in range(9):
        script.tell("log", message=f"File {place}")
    script.tell("engine-died", "critical", message="killed by SIGSEGV")
    shown = rows(script, 80)
    assert [row[9:] for row in shown] == [
        "X engine: killed by SIGSEGV",
        "! engine: Fatal Python error: Segmentation fault (10 lines)",
        "  engine: alone",
    ]
    dump = EVENTS.items(view_of(script), area(80, 5))[1]
    assert [text.rpartition(": ")[2] for text in dump.detail()][1:3] == ["File 0", "File 1"]


def test_who_searches_finds_what_is_folded() -> None:
    script = Script(manifest(sensors=())).load().tell("engine-memory", message="58 MiB").warm_up(48).begin().measure(2)
    found = EVENTS.body(view_of(script), replace(area(60, 5), listing=Listing(words="58")))
    assert [plain(line)[11:] for line in found] == ["engine: 58 MiB"]


def test_only_the_grave_are_listed_where_that_is_asked_for() -> None:
    script = Script(manifest(sensors=()))
    for severity in ("info", "warning", "critical"):
        script.tell("log", severity, message=severity)

    def listed(least: str) -> list[str]:
        asked = replace(area(60, 5), listing=Listing(least=least))
        return [plain(line).rpartition(" ")[2] for line in EVENTS.body(view_of(script), asked)]

    assert listed("warning") == ["critical", "warning"]
    assert listed("critical") == ["critical"]
