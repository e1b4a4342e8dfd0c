"""Lines of styled text, measured in terminal cells. No markup anywhere: text is only text."""

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size

from edgetop.frozen import frozen


class Span(NamedTuple):  # thousands are made for every frame: half the cost of a dataclass
    text: str
    style: str = "text"  # a semantic name of the theme


Line = tuple[Span, ...]
Piece = str | tuple[str, str] | Span

PLAIN = re.compile("[ -~\u2500-\u259f\u2800-\u28ff]*")  # a cell a character, whatever stands beside it
BLANK: Line = ()
COLUMN_GAP = "  "
_GAP = Span(COLUMN_GAP)


def line(*pieces: Piece) -> Line:
    """A line of pieces: text, (text, style), or spans. Empty ones are left out."""
    return tuple([span for span in map(_span, pieces) if span.text])


def _span(piece: Piece) -> Span:
    if isinstance(piece, Span):
        return piece
    return Span(piece) if isinstance(piece, str) else Span(*piece)


def cells_of(text: str) -> int:
    """Return the cells of a text without control characters.

    Faster than `cell_len` where each is one cell, and without its cache, which the rows of charts would fill.
    """
    return len(text) if text.isascii() or PLAIN.fullmatch(text) else cell_len(text)


def width(of: Line) -> int:
    return sum([cells_of(text) for text, _ in of])


def fit(of: Line, cells: int, style: str = "text") -> Line:
    """Cut or padded to exactly `cells`; a cut shows as ">" in the last cell."""
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
    """The same line in as few spans as it can be: a terminal is sent the style of every one."""
    spans: list[Span] = []
    for span in of:
        if spans and spans[-1].style == span.style:
            spans[-1] = Span(spans[-1].text + span.text, span.style)
        elif span.text:
            spans.append(span)
    return tuple(spans)


def as_fits(cells: int, *pieces: Piece) -> Line:
    """The pieces from the left that fit as they are: a number is left out with its label, never cut."""
    fitted: list[Span] = []
    used = 0
    for span in line(*pieces):
        used += cells_of(span.text)
        if used > cells:
            if fitted and fitted[-1].style == "dim" and fitted[-1].text.endswith(" "):
                fitted.pop()
            break
        fitted.append(span)
    return tuple(fitted)


def spread(left: Line, right: Line, cells: int) -> Line:
    """`left` and `right` at the two ends of a line; where both do not fit, `right` goes."""
    gap = cells - width(left) - width(right)
    if gap < 1:
        return fit(left, cells)
    return (*left, Span(" " * gap, "text"), *right)


_AT_SPACES = re.compile(r" (?!%)")  # a figure and its percent sign stay together


def wrapped(text: str, cells: int, style: str = "text", indent: str = "") -> list[Line]:
    """`text` over as many lines as it takes, broken at spaces where there are any."""
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
    """One column of a table: numbers align right, words left."""

    title: str
    cells: int
    right: bool = True


def table(columns: Sequence[Column], rows: Iterable[Sequence[Piece]], cells: int) -> list[Line]:
    """A header and rows, every value in its place and width from refresh to refresh.

    As many columns as fit are shown. A row of fewer pieces than there are columns
    ends in one that takes all that is left.
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
    """The title of the column in which this cell of a table lies; "": none."""
    ends = accumulate(column.cells + len(COLUMN_GAP) for column in columns)
    return next((column.title for column, end in zip(columns, ends, strict=True) if 0 <= x < end), "")
