"""Of a screen that changed, the terminal is sent what changed."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate
from textual.strip import Strip

from edgetop.formatting import clean
from edgetop.ui.pane_widget import changed
from edgetop.ui.text import Line, Span, fit, joined
from edgetop.ui.updates import tightened
from tests.support.screens import plain
from tests.support.terminal import Cells

COLUMNS = 24
examples = settings(deadline=None, max_examples=100)

texts = st.text(st.sampled_from("ab01 .⣿⡇中é한"), max_size=12).map(clean)
lines = st.lists(st.builds(Span, texts, st.sampled_from(("text", "dim"))), max_size=4).map(
    lambda spans: joined(fit(tuple(spans), COLUMNS))
)


def cells(of: Line) -> list[tuple[str, str]]:
    """What stands in every cell, and in which style; the second half of a wide character is empty."""
    found: list[tuple[str, str]] = []
    for span in of:
        for character in span.text:
            found.append((character, span.style))
            if character in "中한":
                found.append(("", span.style))
    return found


@examples
@given(lines, lines)
def test_what_is_outside_the_changed_part_is_the_same(before: Line, now: Line) -> None:
    start, end = changed(before, now)
    assert 0 <= start <= end <= COLUMNS
    assert cells(before)[:start] == cells(now)[:start]
    assert cells(before)[end:] == cells(now)[end:]


def test_of_a_number_only_the_digits_that_changed_are_sent() -> None:
    before, now = (joined((Span("p50 ", "dim"), Span(f"{value:<10}"))) for value in ("5.003", "5.013"))
    assert changed(before, now) == (7, 8)
    assert changed(now, now) == (0, 0)


def test_of_a_chart_that_grew_only_the_new_column_is_sent() -> None:
    before, now = (Span("⣿" * n + " " * (20 - n), "graph") for n in (11, 12))
    assert changed((before,), (now,)) == (11, 12)


def test_a_change_of_style_alone_is_a_change() -> None:
    assert changed((Span("aaaa"), Span("bb")), (Span("aaaa", "dim"), Span("bb"))) == (0, 4)


@examples
@given(lines, lines, st.integers(0, 6), st.lists(st.integers(1, COLUMNS - 1), max_size=3, unique=True))
def test_after_an_update_the_terminal_shows_the_new_line(before: Line, now: Line, x: int, cuts: list[int]) -> None:
    """The line stands at column `x`, in pieces as other widgets may cut it."""
    console = Console(color_system="truecolor", force_terminal=True)
    start, end = changed(before, now)
    screen = Cells(COLUMNS + x, 2)
    screen.write(f"\x1b[2;{x + 1}H{plain(before)}")
    written = screen.written

    edges = [0, *sorted(cuts), COLUMNS]
    strip = Strip([Segment(span.text) for span in now], COLUMNS)
    pieces = {x + left: strip.crop(left, right) for left, right in pairwise(edges)}
    update = ChopsUpdate([{}, pieces], [(1, x + start, x + end)], [[], [x + edge for edge in edges[1:]]])
    screen.write(tightened(update).render_segments(console))
    if not any(character in "中한" for character in plain(now)):  # a cut through one leaves a blank
        assert screen.rows[1][x:] == plain(now)
    assert screen.written - written == end - start
