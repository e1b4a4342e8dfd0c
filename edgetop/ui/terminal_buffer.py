"""A copy of the cells on the terminal, so that drawing sends only cells that differ.

Textual's partial update always begins at the left edge of a widget, so a chart that grows by a column at its right end
is sent as a whole. At 80x24 that was two thirds of all bytes. Rich sets the style of every piece and resets it
afterwards. For a chart of one style in which a few cells change, that was four fifths of all bytes.

Textual also paints whole screens without a change: three times when a pane is shown alone, four times at a resize, and
at every refresh while a dialog is open. On a serial line with 11,520 bytes per second, each painting took seconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.geometry import Size
from textual.strip import Strip

from edgetop.ui.text import PLAIN, cells_of

Cell = tuple[str, Style | None]  # the second cell of a wide character has no text
UNKNOWN: Cell = ("\0", None)  # a cell whose content is not known; it differs from everything that is drawn
Pieces = Sequence[tuple[str, Style | None]]  # pieces of text, each in one style

MOST_CODES = 1_024  # styles, and changes of style, whose escape sequences are kept
MOVE_BYTES = 12  # cost of moving the cursor; unchanged cells between two changes are skipped only if they cost more


@lru_cache(maxsize=MOST_CODES)
def interned(style: Style | None) -> Style | None:
    """Return the one object that stands for all styles equal to `style`. The buffer compares styles by identity."""
    return style


class TerminalBuffer:
    """What is known to be on the terminal, cell by cell. Nothing is known at first and after a change of size."""

    def __init__(self) -> None:
        self._size = Size(0, 0)
        self._rows: dict[int, list[Cell]] = {}
        self._drawn: dict[int, dict[int, tuple[int, Pieces]]] = {}  # row -> column -> (end, pieces), without overlaps

    def forget(self) -> None:
        """Regard all cells as unknown, so that the next drawing sends all of them."""
        self._rows, self._drawn = {}, {}

    def fit(self, size: Size) -> None:
        if size != self._size:
            self._size = size
            self.forget()

    def changes(self, x: int, y: int, pieces: Pieces, width: int) -> list[tuple[int, int, list[Cell]]]:
        """Return what must be sent to draw a row: (column, row, cells) for each part that differs from the terminal.

        It also remembers these parts as sent. `pieces` is the content of row `y` from column `x` on, `width` cells
        wide. Cells beyond the edge of the terminal are cut off, because they would wrap.
        """
        if self._size and (y >= self._size.height or x >= self._size.width):
            return []
        differing, x = self._differing(x, y, pieces, width)
        cells = _cells(differing)
        if self._size:
            cells = _cut(cells, max(0, self._size.width - x))
        row = self._rows.setdefault(y, [])
        end = x + len(cells)
        row.extend(repeat(UNKNOWN, end - len(row)))
        before, row[x:end] = row[x:end], cells
        return [(x + start, y, cells[start:until]) for start, until in _parts(before, cells)]

    def _differing(self, x: int, y: int, pieces: Pieces, width: int) -> tuple[Pieces, int]:
        """Return the part of a row that may differ from the terminal, and the column at which this part begins.

        `pieces` is the content of row `y` from column `x` on, `width` cells wide. Pieces of text at both ends of the
        row that have not changed since the last drawing are left out.
        """
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
        x += len(same) if PLAIN.fullmatch(same) else sum(cells_of(text) for text, _ in pieces[:first])
        differing = pieces[first : len(pieces) - last]
        if len(differing) == 1 == len(before) - first - last:
            return _trimmed(before[first], differing[0], x)
        return differing, x


def _trimmed(before: Cell, now: Cell, x: int) -> tuple[Pieces, int]:
    """Return (`now` without the characters at both ends that `before` has too, column at which the rest begins).

    Both pieces begin at column `x`. If they cannot be compared character by character, return all of `now`.
    """
    (old, old_style), (text, style) = before, now
    if old_style is not style or len(old) != len(text) or not PLAIN.fullmatch(old) or not PLAIN.fullmatch(text):
        return [now], x
    begin = _common_length(old, text)
    end = len(text) - _common_length(old[: begin - len(old) - 1 : -1], text[: begin - len(text) - 1 : -1])
    return [(text[begin:end], style)], x + begin


def _common_length(first: str, second: str) -> int:
    """Return how many characters two texts of the same length have in common at their beginning."""
    low, high = 0, len(first)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle - 1)
    return low


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
    """Return the first `width` cells. If the cut would divide a wide character, blanks replace that character."""
    within = cells[:width]
    if len(cells) > width and not cells[width][0]:
        begin = _whole(cells, width)[0]
        within[begin:] = [(" ", cells[begin][1])] * (width - begin)
    return within


def _pieces(text: str) -> list[tuple[str, int]]:
    """Return the characters of a text as (character, width in cells) pairs.

    If widths depend on neighbouring characters, return the whole text as one pair.
    """
    width = cell_len(text)
    pieces = [(character, cell_len(character)) for character in text]
    is_each_its_own = all(cells for _, cells in pieces) and sum(cells for _, cells in pieces) == width
    return pieces if is_each_its_own else [(text, width)]


def _parts(before: list[Cell], now: list[Cell]) -> list[tuple[int, int]]:
    parts: list[tuple[int, int]] = []
    count, start, end = len(now), 0, -MOVE_BYTES - 1
    # Styles are compared by identity, since Rich takes a microsecond to compare two that differ.
    pairs = enumerate(zip(before, now, strict=True))
    for place in [i for i, ((old, was), (new, of)) in pairs if old != new or was is not of]:
        is_single = now[place][0] and (place + 1 == count or now[place + 1][0])
        begin, until = (place, place + 1) if is_single else _whole(now, place)
        if begin <= end:
            end = max(until, end)
        elif begin - end <= MOVE_BYTES and len("".join([text for text, _ in now[end:begin]]).encode()) <= MOVE_BYTES:
            end = until  # sending the cells between is not more expensive than skipping them
        else:
            if end >= 0:
                parts.append((start, end))
            start, end = begin, until
    return [*parts, (start, end)] if end >= 0 else parts


def _whole(now: list[Cell], place: int) -> tuple[int, int]:
    """Return the range of cells of the character that covers cell `place`, as (first, end); `end` is not included.

    A wide character has several cells.
    """
    begin, until = place, place + 1
    while begin and not now[begin][0]:
        begin -= 1
    while until < len(now) and not now[until][0]:
        until += 1
    return begin, until


_ESCAPE = "\x1b"
_RESET = f"{_ESCAPE}[0m"  # ECMA-48, SGR

Part = tuple[int, int, list[Cell]]  # column, row, and the cells from there on
Row = tuple[int, int, Pieces, int]  # column, row, the pieces from there on, and their width


class RowsUpdate(CompositorUpdate):
    """Drawing of some rows: an update for Textual that sends only cells that differ from the terminal."""

    def __init__(self, rows: Iterable[Row], terminal_buffer: TerminalBuffer) -> None:
        self._rows, self._terminal_buffer = rows, terminal_buffer

    def render_segments(self, console: Console) -> str:
        return written([part for row in self._rows for part in self._terminal_buffer.changes(*row)], console)


def tightened(update: Any, terminal_buffer: TerminalBuffer) -> Any:
    """Return an update of the screen that sends only cells that differ from the terminal.

    `update` is Textual's own update. If it is of an unknown kind, it is returned unchanged.
    """
    if isinstance(update, ChopsUpdate):
        return RowsUpdate(_rows_of_chops(update), terminal_buffer)
    if isinstance(update, LayoutUpdate):
        rows = enumerate(update.strips, update.region.y)
        return RowsUpdate((_row(update.region.x, y, Strip.join(strips)) for y, strips in rows), terminal_buffer)
    return update


def _rows_of_chops(update: ChopsUpdate) -> Iterator[Row]:
    for y, left, right in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is not None and x < right and end > left:
                start = max(x, left)
                yield _row(start, y, strip.crop(start - x, min(end, right) - x))


def _row(x: int, y: int, strip: Strip) -> Row:
    return x, y, [(text, interned(style)) for text, style, _ in strip], strip.cell_length


def written(parts: Iterable[Part], console: Console) -> str:
    """Return the text with escape sequences that draws the parts on the terminal.

    A part is (column, row, cells). A style is only sent where it differs from the one before.
    """
    sent: list[str] = []
    colours = COLOR_SYSTEMS[console.color_system or "truecolor"]  # the same default as Textual's strips
    known = _known_codes.setdefault(colours.value, {})
    in_force, style, is_blank = _PLAIN_CODES, None, False  # `style`: of the last cell, whose codes are in force
    for x, y, cells in parts:
        sent.append(f"\x1b[{y + 1};{x + 1}H")
        for text, of in cells:
            if of is not style or (is_blank and text != " "):
                codes, style, is_blank = (known.get(id(of)) or _codes(of, colours, known))[1], of, False
                if text == " " and not (codes.attributes or in_force.attributes):  # a blank shows no foreground
                    is_blank = codes.foreground != in_force.foreground
                    codes = _Codes("", in_force.foreground, codes.background) if is_blank else codes
                if codes is not in_force and codes != in_force:
                    sent.append(_change(in_force, codes))
                    in_force = codes
            sent.append(text)
    return "".join([*sent, _RESET] if in_force != _PLAIN_CODES else sent)


class _Codes(NamedTuple):
    """The numbers of a style in a terminal's escape sequence, such as "31". "" is the terminal's default."""

    attributes: str
    foreground: str
    background: str


_PLAIN_CODES = _Codes("", "", "")


_Known = tuple[Style | None, _Codes]


def _codes(style: Style | None, colours: ColorSystem, known: dict[int, _Known]) -> _Known:
    """Return a style and its codes. They are looked up by identity, since Rich takes a microsecond to hash a style."""
    if len(known) >= MOST_CODES:
        known.clear()
    found = known[id(style)] = style, _PLAIN_CODES if style is None else _made_codes(style, colours)
    return found


# By the value of a colour system, and the id of a style: holds each style, so that its id stays its own.
_known_codes: dict[int, dict[int, _Known]] = {}


def _made_codes(style: Style, colours: ColorSystem) -> _Codes:
    ends = [
        ";".join(colour.downgrade(colours).get_ansi_codes(foreground=is_foreground)) if colour else ""
        for colour, is_foreground in ((style.color, True), (style.bgcolor, False))
    ]
    return _Codes(Strip.render_ansi(style.without_color, colours), *ends)


@lru_cache(maxsize=MOST_CODES)
def _change(before: _Codes, now: _Codes) -> str:
    if now == _PLAIN_CODES:
        return _RESET
    if now.attributes != before.attributes:
        codes = ";".join(filter(None, now))
        return f"{_RESET if before != _PLAIN_CODES else ''}{f'{_ESCAPE}[{codes}m' if codes else ''}"
    changed = [
        (code or default)
        for code, old, default in ((now.foreground, before.foreground, "39"), (now.background, before.background, "49"))
        if code != old
    ]
    return f"{_ESCAPE}[{';'.join(changed)}m"
