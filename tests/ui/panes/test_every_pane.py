"""What holds for every pane, at every size and in every state of a session."""

import unicodedata
from functools import cache

import pytest
from rich.cells import cell_len

from edgetop.analysis.analysis import MonitorView
from edgetop.ui.panes import DRAWINGS
from edgetop.ui.panes.header import identity_line, readout_line, status_line, tiny_lines, verdict_line, vitals_line
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import Line, width
from edgetop.ui.themes import load_theme
from tests.support.screens import area, plain, view_of
from tests.support.scripts import (
    HOSTILE,
    SENSORS,
    Script,
    hostile,
    hot,
    leaking,
    manifest,
    measured,
    measured_with_power,
)

SIZES = ((20, 1), (30, 8), (54, 11), (80, 7), (80, 18), (108, 5), (120, 14), (200, 40))
NARROW = ((1, 1), (2, 5), (5, 3), (8, 30), (12, 30))  # where not even a label fits
FEW = ((30, 8), (120, 14))  # for long foreign text, which takes its time
KEYS = (("?", "help"), ("q", "leave"), ("space", "freeze"), ("w", "10s"))


def lost() -> Script:
    return measured(30).lose(*(info.id for info in SENSORS), reason="no such device").measure(2)


def empty_board() -> Script:
    script = Script(manifest(sensors=())).load().warm_up()
    return script.miss("temperature", "no thermal zone", "modprobe thermal").begin().measure(5)


def sizes_for(state: str) -> tuple[tuple[int, int], ...]:
    return FEW if state in FOREIGN else SIZES


STATES = {
    "nothing": lambda: None,
    "loading": Script,
    "warming up": lambda: Script().load().warm_up(7),
    "measuring": lambda: measured(75),
    "hot": lambda: measured(75, hot),
    "power": lambda: measured_with_power(75),
    "resting": lambda: Script().load().tell("phase", phase="idle", duration_ns=30 * 10**9).wait(12),
    "leaking": leaking,
    "fast": lambda: measured(3, rate_hz=20_000, median_ms=0.02),
    "slow": lambda: measured(20, rate_hz=0.3, median_ms=2_900),
    "over": lambda: measured(20).end(),
    "died": lambda: measured(5).tell("engine-died", "critical", message="SIGKILL, out of memory").end("engine-died"),
    "lost": lost,
    "profiled": lambda: measured(30).profile().measure(10).profile(slower=1.3),
    "not profiled": lambda: measured(30).tell("profiler", way="", reason="no libonnxruntime.so", every_ns=10**10),
    "empty board": empty_board,
}
FOREIGN = {f"hostile {i}": (lambda text=text: hostile(text)) for i, text in enumerate(HOSTILE)}


@cache
def view(state: str) -> MonitorView:
    return view_of({**STATES, **FOREIGN}[state]())


def drawn(view: MonitorView, area: Area) -> dict[str, list[Line]]:
    """Everything that can be drawn of a view in this area, by name."""
    lines = {name: list(drawing.body(view, area)) for name, drawing in DRAWINGS.items()}
    lines |= {f"{name} line": [drawing.line(view, area)] for name, drawing in DRAWINGS.items() if drawing.line}
    titles = {f"{name} title": drawing.title(view, area) for name, drawing in DRAWINGS.items()}
    assert all(title.isprintable() for title in titles.values())
    lines["header"] = [verdict_line(view, area, 12_000_000_000), identity_line(view, area, "REC")]
    lines["vitals"] = [vitals_line(view, area), readout_line(view, 60.0, area)]
    lines["status"] = [status_line(view, area, KEYS)]
    lines["tiny"] = list(tiny_lines(view))
    return lines


@cache
def drawn_once(state: str, columns: int, rows: int, *, ascii_only: bool = False) -> dict[str, list[Line]]:
    return drawn(view(state), area(columns, rows, ascii_only=ascii_only))


def every_line(drawings: dict[str, list[Line]]) -> list[Line]:
    return [line for lines in drawings.values() for line in lines]


every_state = pytest.mark.parametrize("state", [*STATES, *FOREIGN])
own_states = pytest.mark.parametrize("state", STATES)


@pytest.mark.slow
@every_state
def test_no_unscrollable_pane_has_more_rows_than_its_height(state: str) -> None:
    for columns, rows in sizes_for(state):
        lines = drawn_once(state, columns, rows)
        for name, drawing in DRAWINGS.items():
            assert drawing.scrolls or len(lines[name]) <= rows, (name, columns, rows)


@pytest.mark.slow
@every_state
def test_no_line_is_longer_than_the_pane_is_wide(state: str) -> None:
    for columns, rows in sizes_for(state):
        for name, lines in drawn_once(state, columns, rows).items():
            longest = max((width(line) for line in lines), default=0)
            assert longest <= columns, (name, columns, rows)


@own_states
def test_where_hardly_anything_fits_nothing_breaks(state: str) -> None:
    for columns, rows in NARROW:
        lines = drawn_once(state, columns, rows)
        for name, drawing in DRAWINGS.items():
            assert drawing.scrolls or len(lines[name]) <= rows, (name, columns, rows)


@every_state
def test_every_style_is_one_that_themes_have(state: str) -> None:
    spans = [span for line in every_line(drawn_once(state, 80, 18)) for span in line]
    assert {span.style for span in spans} <= set(load_theme("dark").styles)


@every_state
def test_nothing_that_is_drawn_acts_on_the_terminal(state: str) -> None:
    for line in every_line(drawn_once(state, 80, 18)):
        assert plain(line).isprintable(), line


@every_state
def test_ascii_is_complete(state: str) -> None:
    for name, lines in drawn_once(state, 120, 14, ascii_only=True).items():
        assert all(plain(line).isascii() for line in lines), name
    for drawing in DRAWINGS.values():
        assert drawing.title(view(state), area(80, 18, ascii_only=True)).isascii()


@own_states
def test_no_character_has_a_width_that_terminals_disagree_about(state: str) -> None:
    for columns, rows in ((80, 18), (120, 14), (200, 40)):
        characters = {c for line in every_line(drawn_once(state, columns, rows)) for c in plain(line)}
        assert {c for c in characters if unicodedata.east_asian_width(c) not in ("N", "Na", "H")} == set()
        assert all(cell_len(c) == 1 for c in characters)


@own_states
def test_nothing_of_an_ordinary_session_is_cut_at_80_columns(state: str) -> None:
    for columns, rows in ((80, 18), (80, 1), (120, 14), (95, 12), (119, 20)):
        for name, lines in drawn_once(state, columns, rows).items():
            if name != "header":  # of names there may be more than fits
                assert not any(plain(line).rstrip().endswith(">") for line in lines), (name, columns)


@own_states
def test_drawing_again_gives_the_same(state: str) -> None:
    assert drawn(view(state), area(120, 20)) == drawn(view(state), area(120, 20))


def test_foreign_text_is_shown_literally() -> None:
    markup, escapes = HOSTILE[0], HOSTILE[1]
    shown = "\n".join(plain(line) for line in every_line(drawn_once("hostile 0", 200, 40)))
    assert markup in shown
    shown = "\n".join(plain(line) for line in every_line(drawn_once("hostile 1", 200, 40)))
    assert "\\x1b[31mred\\x1b[2J\\x1b]0;owned\\x07" in shown
    assert escapes not in shown


def test_before_any_data_every_pane_says_so_without_a_number() -> None:
    for name, lines in drawn_once("nothing", 80, 18).items():
        text = "\n".join(plain(line) for line in lines)
        assert not any(unit in text for unit in (" 0.0", "nan", "None", "inf")), name
