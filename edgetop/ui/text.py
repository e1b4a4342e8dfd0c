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
    """Make a line from pieces: text, (text, style), or spans. Empty pieces are left out."""
    return tuple([span for span in map(_span, pieces) if span.text])


def _span(piece: Piece) -> Span:
    if isinstance(piece, Span):
        return piece
    return Span(piece) if isinstance(piece, str) else Span(*piece)


def cells_of(text: str) -> int:
    """Return the width of a text without control characters, in cells.

    It is faster than `cell_len` if all characters are one cell wide, and avoids its cache, which rows of charts would
    fill.
    """
    return len(text) if text.isascii() or PLAIN.fullmatch(text) else cell_len(text)


def width(of: Line) -> int:
    return sum([cells_of(text) for text, _ in of])


def fit(of: Line, cells: int, style: str = "text") -> Line:
    """Cut or pad a line to exactly `cells`. A cut line ends with ">"."""
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
    """Merge neighbouring spans of one style, because the style of each span is sent to the terminal."""
    spans: list[Span] = []
    for span in of:
        if spans and spans[-1].style == span.style:
            spans[-1] = Span(spans[-1].text + span.text, span.style)
        elif span.text:
            spans.append(span)
    return tuple(spans)


def as_fits(cells: int, *pieces: Piece) -> Line:
    """Return as many pieces from the left as fit into `cells`. No number is cut, or loses its label."""
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
    """Whether the span is a label of the value after it.

    A label is dim text that ends with a space, or the coloured name of a curve.
    """
    return span.style in ("p50", "p99") or (span.style == "dim" and span.text.endswith(" "))


def spread(left: Line, right: Line, cells: int) -> Line:
    """Put `left` and `right` at the two ends of a line. If both do not fit, leave out `right`."""
    gap = cells - width(left) - width(right)
    if gap < 1:
        return fit(left, cells)
    return (*left, Span(" " * gap, "text"), *right)


_AT_SPACES = re.compile(r" (?!%)")  # a figure and its percent sign stay together


def wrapped(text: str, cells: int, style: str = "text", indent: str = "") -> list[Line]:
    """Wrap a text over several lines, broken at spaces if possible."""
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
    """A column of a table. Numbers are aligned right, words left."""

    title: str
    cells: int
    right: bool = True


def table(columns: Sequence[Column], rows: Iterable[Sequence[Piece]], cells: int) -> list[Line]:
    """Return a table with a header. Columns keep their place and width across refreshes.

    As many columns as fit are shown. If a row has fewer pieces than there are columns, its last piece takes the
    remaining width.
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
    """Return the title of the column at cell `x` of a table, or "" if there is none."""
    ends = accumulate(column.cells + len(COLUMN_GAP) for column in columns)
    return next((column.title for column, end in zip(columns, ends, strict=True) if 0 <= x < end), "")
