"""What stands on the terminal, cell by cell: of what is drawn again, only what differs is sent.

Textual paints whole screens more often than they change: three times where a pane is shown alone,
four times at a resize, and at every refresh while a dialog is open, for it tints all behind it.
At 11,520 bytes a second each of these took seconds.
"""

import re
from collections.abc import Sequence
from itertools import repeat

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Size

Cell = tuple[str, Style | None]  # of a wide character, the second one has no text
Pieces = Sequence[tuple[str, Style | None]]  # of text, each in one style

MOVE_BYTES = 12  # what it costs to go on elsewhere in a line: more than this between two changes is left out
PLAIN = re.compile("[ -~\u2500-\u259f\u2800-\u28ff]*")  # a cell a character, whatever stands beside it


class TerminalBuffer:
    """The cells of the terminal. It is empty at first, after a change of size, and after `forget`."""

    def __init__(self) -> None:
        self._size = Size(0, 0)
        self._rows: dict[int, list[Cell | None]] = {}
        self._drawn: dict[int, dict[int, tuple[int, Pieces]]] = {}  # by row and column, none over another: end, pieces

    def forget(self) -> None:
        """The terminal may show anything."""
        self._rows, self._drawn = {}, {}

    def fit(self, size: Size) -> None:
        if size != self._size:
            self._size = size
            self.forget()

    def changes(self, x: int, y: int, pieces: Pieces, width: int) -> list[tuple[int, int, list[Cell]]]:
        """The parts of a row that differ from the terminal, as (column, row, cells), which are taken as sent.

        `pieces` stand from column `x` on and have `width` cells. What was laid out for a larger terminal than this is
        cut: it would wrap, or stand in the last row.
        """
        if self._size and (y >= self._size.height or x >= self._size.width):
            return []
        differing, x = self._differing(x, y, pieces, width)
        cells = _cells(differing)
        if self._size:
            cells = _cut(cells, self._size.width - x)
        row = self._rows.setdefault(y, [])
        end = x + len(cells)
        row.extend(repeat(None, end - len(row)))
        before, row[x:end] = row[x:end], cells
        return [(x + start, y, cells[start:until]) for start, until in _parts(before, cells)]

    def _differing(self, x: int, y: int, pieces: Pieces, width: int) -> tuple[Pieces, int]:
        """The pieces between those that were there before, at both ends, and their column."""
        end, drawn = x + width, self._drawn.setdefault(y, {})
        known_end, before = drawn.get(x, (-1, ()))
        if known_end != end:
            others = {at: known for at, known in drawn.items() if at >= end or known[0] <= x}
            self._drawn[y] = {**others, x: (end, pieces)}
            return pieces, x
        drawn[x] = end, pieces
        shorter, first, last = min(len(before), len(pieces)), 0, 0
        while first < shorter and before[first] == pieces[first]:
            first += 1
        while last < shorter - first and before[-1 - last] == pieces[-1 - last]:
            last += 1
        same = "".join([text for text, _ in pieces[:first]])
        cells = len(same) if PLAIN.fullmatch(same) else sum(cell_len(text) for text, _ in pieces[:first])
        return pieces[first : len(pieces) - last], x + cells


def _cells(pieces: Pieces) -> list[Cell]:
    cells: list[Cell] = []
    for text, style in pieces:
        if PLAIN.fullmatch(text):
            cells += zip(text, repeat(style))
            continue
        for piece, width in _pieces(text):
            cells += [(piece, style), *[("", style)] * (width - 1)][:width]
    return cells


def _cut(cells: list[Cell], width: int) -> list[Cell]:
    """The first of them; of a character that does not fit, blanks."""
    kept = cells[:width]
    if len(cells) > width and not cells[width][0]:
        begin = _whole(cells, width)[0]
        kept[begin:] = [(" ", cells[begin][1])] * (width - begin)
    return kept


def _pieces(text: str) -> list[tuple[str, int]]:
    """Its characters and how many cells each takes; all at once where some take none, or more beside others."""
    width = cell_len(text)
    pieces = [(character, cell_len(character)) for character in text]
    is_each_its_own = all(cells for _, cells in pieces) and sum(cells for _, cells in pieces) == width
    return pieces if is_each_its_own else [(text, width)]


def _parts(before: list[Cell | None], now: list[Cell]) -> list[tuple[int, int]]:
    if before == now:
        return []
    parts: list[tuple[int, int]] = []
    for place in [place for place, (old, new) in enumerate(zip(before, now, strict=True)) if old != new]:
        begin, until = _whole(now, place)
        if parts and _is_short(now, parts[-1][1], begin):
            parts[-1] = (parts[-1][0], max(until, parts[-1][1]))
        else:
            parts.append((begin, until))
    return parts


def _is_short(now: list[Cell], begin: int, until: int) -> bool:
    """Whether to send these cells again takes no more than to move over them."""
    if until - begin > MOVE_BYTES:  # a cell without text belongs to one of several bytes
        return False
    return len("".join([text for text, _ in now[begin:until]]).encode()) <= MOVE_BYTES


def _whole(now: list[Cell], place: int) -> tuple[int, int]:
    """The cells of the character that has one there."""
    begin, until = place, place + 1
    while begin and not now[begin][0]:
        begin -= 1
    while until < len(now) and not now[until][0]:
        until += 1
    return begin, until
