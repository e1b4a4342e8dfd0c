"""Lines of styled text, measured in terminal cells. Text is never interpreted as markup."""

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from edgetop.frozen import frozen


class Span(NamedTuple):  # half the cost of a dataclass; every refresh makes thousands
    text: str
    style: str = "text"  # name of a style of the theme


Line = tuple[Span, ...]
Piece = str | tuple[str, str] | Span

PLAIN = re.compile("[ -~\u2500-\u259f\u2800-\u28ff]*")  # characters that always take one cell
BLANK: Line = ()
COLUMN_GAP = "  "
_GAP = Span(COLUMN_GAP)


def line(*pieces: Piece) -> Line:
    """Return a line from pieces, without the empty ones. A piece is a text, (text, style) or a `Span`.

    >>> line("p50 ", ("7.1", "good"), "")
    (Span(text='p50 ', style='text'), Span(text='7.1', style='good'))
    """
    return tuple([span for span in map(_span, pieces) if span.text])


def _span(piece: Piece) -> Span:
    if isinstance(piece, Span):
        return piece
    return Span(piece) if isinstance(piece, str) else Span(*piece)


def cells_of(text: str) -> int:
    """Return how many cells of the terminal a text takes. The text must have no control characters.

    It is faster than Rich's `cell_len` for usual texts, and does not fill that function's cache with rows of charts.
    """
    return len(text) if text.isascii() or PLAIN.fullmatch(text) else cell_len(text)


def width(of: Line) -> int:
    whole = "".join([text for text, _ in of])  # one comparison: rows of charts have a hundred spans
    return len(whole) if PLAIN.fullmatch(whole) else sum([cells_of(text) for text, _ in of])


def fit(of: Line, cells: int, style: str = "text") -> Line:
    """Return the line with a width of exactly `cells`: padded with spaces, or cut with ">" at its end.

    `style` is the style of the padding.
    """
    have = width(of)
    if have <= cells:
        return (*of, Span(" " * (cells - have), style)) if have < cells else of
    if cells <= 0:
        return BLANK
    fitted: list[Span] = []
    room = cells - 1
    for span in of:
        length = cells_of(span.text)
        if length > room:
            if room:
                fitted.append(Span(set_cell_size(span.text, room), span.style))
            break
        fitted.append(span)
        room -= length
    return (*fitted, Span(">", "dim"))


def joined(of: Line) -> Line:
    """Return the line with neighbouring spans of the same style merged, because fewer spans need fewer bytes."""
    spans: list[Span] = []
    for span in of:
        if spans and spans[-1].style == span.style:
            spans[-1] = Span(spans[-1].text + span.text, span.style)
        elif span.text:
            spans.append(span)
    return tuple(spans)


def as_fits(cells: int, *pieces: Piece) -> Line:
    """Return a line with as many pieces from the left as fit into `cells` cells.

    A piece is never cut. A label is left out together with its value.
    """
    fitted: list[Span] = []
    used = 0
    for span in line(*pieces):
        used += cells_of(span.text)
        if used > cells:
            while fitted and _is_label(fitted[-1]):
                fitted.pop()
            break
        fitted.append(span)
    return tuple(fitted)


def _is_label(span: Span) -> bool:
    """Whether the span is the label of a value that follows it: dim text with a space at its end, or a percentile."""
    return span.style in ("median", "p50", "p99") or (span.style == "dim" and span.text.endswith(" "))


def spread(left: Line, right: Line, cells: int) -> Line:
    """Return a line of `cells` cells with `left` at its left end and `right` at its right end.

    If there is no room for both, `right` is left out.
    """
    gap = cells - width(left) - width(right)
    if gap < 1:
        return fit(left, cells)
    return (*left, Span(" " * gap, "text"), *right)


_AT_SPACES = re.compile(r" (?!%)")  # a figure and its percent sign stay together


def wrapped(text: str, cells: int, style: str = "text", indent: str = "") -> list[Line]:
    """Return a text as lines of at most `cells` cells, broken at spaces where possible.

    `indent` is put at the beginning of each line.
    """
    room = max(1, cells - len(indent))
    rows: list[str] = []
    current = ""
    for word in _AT_SPACES.split(text):
        joined = f"{current} {word}" if current else word
        if cells_of(joined) <= room:
            current = joined
            continue
        if current:
            rows.append(current)
        *whole, current = chop_cells(word, room) or [word]
        rows += whole
    return [line(indent, (row, style)) for row in (*rows, current) if row]


@frozen
class Column:
    """A column of a table: its title, its width, and whether it is aligned right, as for numbers."""

    title: str
    cells: int
    right: bool = True


def table(columns: Sequence[Column], rows: Iterable[Sequence[Piece]], cells: int) -> list[Line]:
    """Return a table as lines of at most `cells` cells, with the titles of the columns in the first one.

    The table has as many columns as fit. If a row has fewer pieces than there are columns, its last piece takes the
    rest of the width.
    """
    ends = accumulate(column.cells + len(COLUMN_GAP) for column in columns)
    shown = [of for of, end in zip(columns, ends, strict=True) if end - len(COLUMN_GAP) <= cells] or columns[:1]
    lines = [_row(shown, [(column.title, "dim") for column in shown])]
    for row in rows:
        if len(row) == len(columns):
            lines.append(_row(shown, row))
        else:
            *placed, last = row
            start = _row(shown, placed)
            rest = max(0, cells - width(start) - len(COLUMN_GAP))
            lines.append(line(*start, COLUMN_GAP, *fit(line(last), rest)))
    return [of if width(of) <= cells else fit(of, cells) for of in lines]


def _row(columns: Sequence[Column], pieces: Sequence[Piece]) -> Line:
    row: list[Span] = []
    for column, piece in zip(columns, pieces, strict=False):
        cell = _span(piece)
        padding = column.cells - cells_of(cell.text)
        if row:
            row.append(_GAP)
        if padding < 0:
            row += fit((cell,), column.cells)
        elif column.right:
            row += (Span(" " * padding), cell) if padding else (cell,)
        else:
            row += (cell, Span(" " * padding)) if padding else (cell,)
    return tuple(row)


def column_at(columns: Sequence[Column], x: int) -> str:
    """Return the title of the column under cell `x` of a table, or "" if there is none.

    >>> column_at([Column("name", 6), Column("ms", 5)], 9)
    'ms'
    """
    ends = accumulate(column.cells + len(COLUMN_GAP) for column in columns)
    return next((column.title for column, end in zip(columns, ends, strict=True) if 0 <= x < end), "")
