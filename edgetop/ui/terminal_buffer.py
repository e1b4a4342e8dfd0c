"""What stands on the terminal, cell by cell: of what is drawn again, only what differs is sent.

Textual paints whole screens more often than they change: three times where a pane is shown alone,
four times at a resize, and at every refresh while a dialog is open, for it tints all behind it.
At 11,520 bytes a second each of these took seconds.
"""

import re
from collections.abc import Iterator
from itertools import repeat

from rich.cells import cell_len
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip

Cell = tuple[str, Style | None]  # of a wide character, the second one has no text

MOVE_BYTES = 12  # what it costs to go on elsewhere in a line: more than this between two changes is left out
PLAIN = re.compile("[ -~\u2500-\u259f\u2800-\u28ff]*")  # a cell a character, whatever stands beside it


class TerminalBuffer:
    """Knows nothing at first, after another size, and when it was told to forget."""

    def __init__(self) -> None:
        self._size = Size(0, 0)
        self._rows: dict[int, list[Cell | None]] = {}

    def forget(self) -> None:
        """The terminal may show anything."""
        self._rows = {}

    def fit(self, size: Size) -> None:
        if size != self._size:
            self._size = size
            self.forget()

    def news(self, x: int, y: int, strip: Strip) -> Iterator[tuple[int, Strip]]:
        """The parts of a strip at that place which differ, and where they begin; taken as sent.

        What was laid out for a larger terminal than this is cut: it would wrap, or stand in the last row.
        """
        if self._size and (y >= self._size.height or x >= self._size.width):
            return
        if self._size and x + strip.cell_length > self._size.width:
            strip = strip.crop(0, self._size.width - x)
        row = self._rows.setdefault(y, [])
        cells = _cells(strip)
        end = x + len(cells)
        row.extend(repeat(None, end - len(row)))
        before, row[x:end] = row[x:end], cells
        for start, until in _parts(before, cells):
            yield x + start, strip if until - start == len(cells) else strip.crop(start, until)


def _cells(strip: Strip) -> list[Cell]:
    cells: list[Cell] = []
    for text, style, _ in strip:
        if PLAIN.fullmatch(text):
            cells += zip(text, repeat(style))
            continue
        for piece, width in _pieces(text):
            cells += [(piece, style), *[("", style)] * (width - 1)][:width]
    return cells


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
    for place, (old, new) in enumerate(zip(before, now, strict=True)):
        if old == new:
            continue
        begin, until = _whole(now, place)
        if parts and sum(len(text.encode()) for text, _ in now[parts[-1][1] : begin]) <= MOVE_BYTES:
            parts[-1] = (parts[-1][0], max(until, parts[-1][1]))
        else:
            parts.append((begin, until))
    return parts


def _whole(now: list[Cell], place: int) -> tuple[int, int]:
    """The cells of the character that has one there."""
    begin, until = place, place + 1
    while begin and not now[begin][0]:
        begin -= 1
    while until < len(now) and not now[until][0]:
        until += 1
    return begin, until
