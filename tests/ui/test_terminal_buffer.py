"""Of a screen that changed, the terminal is sent what changed."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region as TextualRegion
from textual.geometry import Size
from textual.strip import Strip

from edgetop.formatting import clean
from edgetop.ui.terminal_buffer import Part, TerminalBuffer, tightened, written
from edgetop.ui.text import Line, Span, fit, joined
from tests.support.screens import plain
from tests.support.terminal import Cells

COLUMNS = 24
examples = settings(deadline=None, max_examples=100)

texts = st.text(st.sampled_from("ab01 .⣿⡇中é한"), max_size=12).map(clean)
lines = st.lists(st.builds(Span, texts, st.sampled_from(("text", "dim"))), max_size=4).map(
    lambda spans: joined(fit(tuple(spans), COLUMNS))
)


def parts_sent(before: str | Line, now: str | Line) -> list[tuple[int, str]]:
    buffer = TerminalBuffer()
    first, second = (strip_of((Span(of, "graph"),) if isinstance(of, str) else of) for of in (before, now))
    changes(buffer, 0, 1, first)
    return texts_of(changes(buffer, 0, 1, second))


def changes(buffer: TerminalBuffer, x: int, y: int, strip: Strip) -> list[Part]:
    return buffer.changes(x, y, [(text, style) for text, style, _ in strip], strip.cell_length)


def texts_of(parts: list[Part]) -> list[tuple[int, str]]:
    return [(x, "".join(text for text, _ in cells)) for x, _, cells in parts]


def strip_of(line: Line) -> Strip:
    return Strip([Segment(text, Style.parse("bold" if style == "dim" else "red")) for text, style in line])


def test_of_a_number_only_the_digits_that_changed_are_sent() -> None:
    before, now = (joined((Span("p50 ", "dim"), Span(f"{value:<10}"))) for value in ("5.003", "5.013"))
    assert parts_sent(before, now) == [(7, "1")]
    assert parts_sent(now, now) == []


def test_of_a_chart_that_grew_only_the_new_column_is_sent() -> None:
    before, now = ("⣿" * n + " " * (20 - n) for n in (11, 12))
    assert parts_sent(before, now) == [(11, "⣿")]


def test_a_change_of_style_alone_is_a_change() -> None:
    assert parts_sent((Span("aaaa"), Span("bb")), (Span("aaaa", "dim"), Span("bb"))) == [(0, "aaaa")]


def test_a_long_unchanged_part_between_two_changes_is_not_sent() -> None:
    for length, places in ((3, [0]), (30, [0, 31])):
        before, now = (f"{end}{'⣿' * length}{end}" for end in "01")
        assert [x for x, _ in parts_sent(before, now)] == places


@examples
@given(lines, lines, st.integers(0, 6), st.lists(st.integers(1, COLUMNS - 1), max_size=3, unique=True))
def test_after_an_update_the_terminal_shows_the_new_line(before: Line, now: Line, x: int, cuts: list[int]) -> None:
    """The line stands at column `x`, in pieces as other widgets may cut it."""
    console = Console(color_system="truecolor", force_terminal=True)
    buffer, screen = TerminalBuffer(), Cells(COLUMNS + x, 2)
    edges = [0, *sorted(cuts), COLUMNS]
    for line in (before, now):
        pieces = {x + left: strip_of(line).crop(left, right) for left, right in pairwise(edges)}
        update = ChopsUpdate([{}, pieces], [(1, x, x + COLUMNS)], [[], [x + edge for edge in edges[1:]]])
        screen.write(tightened(update, buffer).render_segments(console))
        if not any(character in "中한" for character in plain(line)):  # a cut through one leaves a blank
            assert screen.rows[1][x:] == plain(line)


SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([mH])|(.)", re.DOTALL)
STYLES = [None, Style.null(), *map(Style.parse, ("red", "bold blue", "red on green", "blue on green", "#123456"))]
cells = st.lists(st.tuples(st.sampled_from(("a", "b ", "⣿")), st.sampled_from(STYLES)), min_size=1, max_size=6)
parts = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), cells), max_size=4)


Shown = tuple[frozenset[str], str, str]  # attributes, foreground, background; "" is the terminal's own
COLOUR = re.compile(r"(?:[34]8;(?:5;\d+|2;\d+;\d+;\d+)|[349]\d|10\d|\d)(?=;|$)")


def changed(shown: Shown, codes: str) -> Shown:
    """Return what a terminal shows characters in after these codes (ECMA-48, SGR)."""
    attributes, *ends = shown
    for code in COLOUR.findall(codes):
        if code == "0":
            attributes, ends = frozenset(), ["", ""]
        elif len(code) == 1:
            attributes |= {code}
        else:
            ends[code[0] == "4" or code.startswith("10")] = "" if code in ("39", "49") else code
    return attributes, ends[0], ends[1]


def drawn(output: str) -> list[tuple[str, Shown]]:
    """Every character with the style in force, and every move."""
    plain_style: Shown = (frozenset(), "", "")
    shown, found = plain_style, []
    for codes, kind, character in SEQUENCE.findall(output):
        if kind == "m":
            shown = changed(shown, codes)
        else:
            is_blank = character == " " and not shown[0]  # a blank shows no foreground
            style = (shown[0], "", shown[2]) if is_blank else shown
            found.append((f"{codes}{kind}", plain_style) if kind else (character, style))
    assert shown == plain_style, "a style is left in force"
    return found


CONSOLE = Console(color_system="truecolor", force_terminal=True)


@examples
@given(parts)
def test_every_cell_has_its_own_style(parts: list[Part]) -> None:
    whole = []
    for x, y, cells in parts:  # as Rich writes them, each piece with all of its codes
        whole.append(f"\x1b[{y + 1};{x + 1}H")
        whole += [style.render(text) if style else text for text, style in cells]
    assert drawn(written(parts, CONSOLE)) == drawn("".join(whole))


def test_between_parts_of_one_style_only_the_cursor_moves() -> None:
    blue, again = (Style.parse("blue") for _ in range(2))
    first = (0, 0, [("a", blue)])
    assert written([first, (4, 1, [("b", again)])], CONSOLE) == "\x1b[1;1H\x1b[34ma\x1b[2;5Hb\x1b[0m"
    assert written([first, (4, 1, [("c", None)])], CONSOLE) == "\x1b[1;1H\x1b[34ma\x1b[2;5H\x1b[0mc"


def sent_of(shown: TerminalBuffer, line: Line, x: int = 0) -> str:
    console = Console(color_system="truecolor", force_terminal=True)
    strip = Strip([Segment(span.text, Style.parse("bold" if span.style == "dim" else "red")) for span in line], COLUMNS)
    update = LayoutUpdate([[strip]], TextualRegion(x, 1, COLUMNS, 1))
    return tightened(update, shown).render_segments(console)


@examples
@given(st.lists(lines, min_size=1, max_size=4))
def test_after_any_paints_the_terminal_shows_the_last(painted: list[Line]) -> None:
    shown, screen = TerminalBuffer(), Cells(COLUMNS, 2)
    for line in painted:
        screen.write(sent_of(shown, line))
    assert screen.rows[1] == plain(painted[-1])
    assert sent_of(shown, painted[-1]) == ""


def test_a_line_is_sent_again_only_after_a_reset_or_resize() -> None:
    line = (Span("p50 5.003".ljust(COLUMNS)),)
    shown = TerminalBuffer()
    shown.fit(Size(COLUMNS, 2))
    assert "p50 5.003" in sent_of(shown, line)
    shown.fit(Size(COLUMNS, 2))
    assert sent_of(shown, line) == ""
    for begin_anew in (shown.forget, lambda: shown.fit(Size(COLUMNS, 3))):
        begin_anew()
        assert "p50 5.003" in sent_of(shown, line)


def test_another_style_is_sent_again() -> None:
    shown = TerminalBuffer()
    sent_of(shown, (Span("a" * COLUMNS),))
    assert sent_of(shown, (Span("a" * 4), Span("a" * (COLUMNS - 4), "dim"))).count("a") == COLUMNS - 4


@pytest.mark.parametrize("name", ["\u2764\ufe0f", "1\ufe0f\u20e3", "\U0001f44d\U0001f3fd", "\u4e2d\u0301", "e\u0301"])
def test_a_change_after_joining_characters_keeps_its_place(name: str) -> None:
    """How wide they are together is not how wide they are one by one."""
    shown = TerminalBuffer()
    before, now = (Strip([Segment(f"{name} p50 5.0{digit}3")]) for digit in "01")
    assert texts_of(changes(shown, 3, 1, before)) == [(3, before.text)]
    ((x, _, cells),) = changes(shown, 3, 1, now)
    part = "".join(text for text, _ in cells)
    assert now.crop(0, x - 3).text + part + now.crop(x - 3 + len(cells)).text == now.text
    assert "1" in part
    assert changes(shown, 3, 1, now) == []


def test_lines_laid_out_for_a_larger_terminal_are_cropped() -> None:
    shown = TerminalBuffer()
    shown.fit(Size(10, 2))
    strip = Strip([Segment("0123456789abcdef")])
    assert texts_of(changes(shown, 4, 1, strip)) == [(4, "012345")]
    assert changes(shown, 4, 1, Strip([Segment("0123456789abcdEf")])) == []
    assert changes(shown, 10, 1, strip) == changes(shown, 0, 2, strip) == []
    assert texts_of(changes(shown, 5, 1, Strip([Segment("0123中5")]))) == [(5, "0123 ")]
