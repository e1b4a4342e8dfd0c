"""Lines are measured in cells, whatever they are made of."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cached_cell_len, cell_len

from edgetop.formatting import clean
from edgetop.ui.text import (
    BLANK,
    Column,
    Line,
    Span,
    as_fits,
    fit,
    joined,
    line,
    spread,
    table,
    width,
    wrapped,
)
from tests.support.screens import plain
from tests.support.scripts import HOSTILE

# Narrow, wide, combining and zero-width characters, and what `clean` leaves of foreign text.
characters = st.sampled_from("ab1 .⣿░─中한ｶ😀e\u0301\u0300\u200b\u200d\ufe0f\u2060\u00ad👩🇩")
texts = st.text(characters, max_size=30) | st.sampled_from([text[:200] for text in HOSTILE]).map(clean)
spans = st.builds(Span, texts, st.sampled_from(("text", "dim", "title")))
lines = st.lists(spans, max_size=5).map(tuple)
cells = st.integers(0, 60)

examples = settings(deadline=None, max_examples=60)


def cells_of(of: Line) -> int:
    return sum(cell_len(span.text) for span in of)


@examples
@given(lines, cells)
def test_a_fitted_line_has_exactly_the_cells_asked_for(of: Line, room: int) -> None:
    assert cells_of(fit(of, room)) == room


@examples
@given(lines, cells)
def test_a_line_that_fits_is_kept_and_padded_with_blanks(of: Line, spare: int) -> None:
    fitted = fit(of, width(of) + spare)
    assert plain(fitted) == plain(of) + " " * spare


def test_a_cut_shows() -> None:
    assert plain(fit(line("0123456789"), 6)) == "01234>"
    assert plain(fit(line("0123", "456789"), 4)) == "012>"
    assert plain(fit(line("中中中"), 4)) == "中 >"


@examples
@given(lines, lines, cells)
def test_a_spread_line_has_exactly_the_cells_asked_for(left: Line, right: Line, room: int) -> None:
    assert cells_of(spread(left, right, room)) == room


def test_what_stands_right_goes_where_both_do_not_fit() -> None:
    assert plain(spread(line("left"), line("right"), 12)) == "left   right"
    assert plain(spread(line("left"), line("right"), 9)) == "left     "


@examples
@given(st.lists(texts, max_size=6), cells)
def test_as_fits_never_cuts_a_piece(pieces: list[str], room: int) -> None:
    kept = as_fits(room, *pieces)
    assert width(kept) <= room
    assert [span.text for span in kept] == [piece for piece in pieces if piece][: len(kept)]


def test_no_label_is_left_without_its_number() -> None:
    assert plain(as_fits(12, ("p50 ", "dim"), "5.021  ", ("max ", "dim"), "9.123")) == "p50 5.021  "


@examples
@given(lines)
def test_joining_keeps_text_and_styles_and_merges_equal_spans(of: Line) -> None:
    def styled(spans: Line) -> list[tuple[str, str]]:
        return [(character, span.style) for span in spans for character in span.text]

    assert styled(joined(of)) == styled(of)
    assert all(span.text for span in joined(of))
    styles = [span.style for span in joined(of)]
    assert all(one != following for one, following in pairwise(styles))


@examples
@given(st.text(characters, max_size=80), st.integers(2, 40), st.sampled_from(("", "  ")))
def test_wrapping_loses_nothing_but_blanks_and_fits(text: str, room: int, indent: str) -> None:
    rows = wrapped(text, room + len(indent), indent=indent)
    assert all(width(row) <= room + len(indent) for row in rows)
    assert "".join(plain(row)[len(indent) :] for row in rows).replace(" ", "") == text.replace(" ", "")


def test_wrapping_breaks_at_spaces_and_cuts_only_overlong_words() -> None:
    assert [plain(row) for row in wrapped("the fan is on now", 8)] == ["the fan", "is on", "now"]
    assert [plain(row) for row in wrapped("a 0123456789", 6)] == ["a", "012345", "6789"]


COLUMNS = (Column("name", 6, right=False), Column("now", 5), Column("max", 5))


def test_a_word_of_marks_alone_is_not_lost() -> None:
    assert [plain(row) for row in wrapped("11 \u0300", 2)] == ["11", "\u0300"]


@examples
@given(st.lists(st.tuples(texts, texts, texts) | st.tuples(texts, texts), max_size=4), st.integers(1, 40))
def test_a_table_is_never_wider_than_its_cells(rows: list[tuple[str, ...]], room: int) -> None:
    drawn = table(COLUMNS, rows, room)
    assert len(drawn) == len(rows) + 1
    assert all(width(row) <= room for row in drawn)


def test_numbers_stand_right_and_words_left_in_their_columns() -> None:
    drawn = [plain(row) for row in table(COLUMNS, [("cpu", "1.5", "12.5"), ("graphics", "10.5", "-")], 20)]
    assert drawn == ["name      now    max", "cpu       1.5   12.5", "graph>   10.5      -"]


def test_columns_that_do_not_fit_are_left_out_as_a_whole() -> None:
    drawn = [plain(row) for row in table(COLUMNS, [("cpu", "1.5", "12.5")], 19)]
    assert drawn == ["name      now", "cpu       1.5"]


def test_the_last_piece_of_a_short_row_takes_what_is_left() -> None:
    assert plain(table(COLUMNS, [("cpu", "no such device")], 20)[1]) == "cpu     no such dev>"
    assert plain(table(COLUMNS, [("cpu", "gone")], 40)[1]).rstrip() == "cpu     gone"


def test_text_is_only_text() -> None:
    assert line("[red]x[/red]", ("[/]", "dim")) == (Span("[red]x[/red]"), Span("[/]", "dim"))
    assert line("", ("", "dim")) == BLANK


def test_rows_of_charts_leave_the_cache_of_widths_as_it_is() -> None:
    before = cached_cell_len.cache_info().currsize
    assert [width(line(chr(0x2800 + cell) * 7 + "░─")) for cell in range(256)] == [9] * 256
    assert cached_cell_len.cache_info().currsize == before
