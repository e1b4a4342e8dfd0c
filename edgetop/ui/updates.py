"""What is sent to the terminal: of a line that changed, the cells that changed, in no more styles than it takes.

Textual's own partial update begins at the left edge of the widget, whatever changed: a chart
that grows by a column at its right end is sent as a whole. At 80x24 that made two of three bytes.
Rich sets the style of every piece and resets it behind: of a chart of one style in which a cell
here and there changes, that were four of five.
"""

from collections.abc import Iterable
from typing import TypeVar

from rich.color import ColorSystem
from rich.console import Console
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

from edgetop.ui.terminal_buffer import Cell, Pieces, TerminalBuffer

_ESCAPE = "\x1b"
_RESET = f"{_ESCAPE}[0m"  # ECMA-48, SGR

Update = TypeVar("Update")
Part = tuple[int, int, list[Cell]]  # column, row, and what stands from there on


class TightUpdate(ChopsUpdate):
    """The cells of an update, and none beside them."""

    def __init__(self, update: ChopsUpdate, terminal_buffer: TerminalBuffer) -> None:
        super().__init__(update.chops, update.spans, update.chop_ends)
        self._terminal_buffer = terminal_buffer

    def render_segments(self, console: Console) -> str:
        parts: list[Part] = []
        for y, left, right in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= right or end <= left:
                    continue
                start = max(x, left)
                parts += _changes(self._terminal_buffer, start, y, strip.crop(start - x, min(end, right) - x))
        return written(parts, console)


class TightLayout(LayoutUpdate):
    """Whole rows."""

    def __init__(self, update: LayoutUpdate, terminal_buffer: TerminalBuffer) -> None:
        super().__init__(update.strips, update.region)
        self._terminal_buffer = terminal_buffer

    def render_segments(self, console: Console) -> str:
        parts: list[Part] = []
        for y, strips in enumerate(self.strips, self.region.y):
            parts += _changes(self._terminal_buffer, self.region.x, y, Strip.join(strips))
        return written(parts, console)


class TightRows(LayoutUpdate):
    """Rows of widgets that nothing covers, each with its place."""

    def __init__(self, rows: Iterable[tuple[int, int, Pieces, int]], terminal_buffer: TerminalBuffer) -> None:
        """Each row has its column, its row, its pieces and its width."""
        self._rows, self._terminal_buffer = rows, terminal_buffer

    def render_segments(self, console: Console) -> str:
        return written([part for row in self._rows for part in self._terminal_buffer.changes(*row)], console)


def _changes(terminal_buffer: TerminalBuffer, x: int, y: int, strip: Strip) -> list[Part]:
    return terminal_buffer.changes(x, y, [(text, style) for text, style, _ in strip], strip.cell_length)


def tightened(update: Update, terminal_buffer: TerminalBuffer) -> Update | TightUpdate | TightLayout:
    """What else there may be to show stays as it is."""
    if isinstance(update, ChopsUpdate):
        return TightUpdate(update, terminal_buffer)
    is_layout = isinstance(update, LayoutUpdate) and not isinstance(update, TightRows)
    return TightLayout(update, terminal_buffer) if is_layout else update  # type: ignore[arg-type]


def written(parts: Iterable[Part], console: Console) -> str:
    """Each part in its place, with no style set that is in force: between two of one style the cursor moves."""
    sent: list[str] = []
    colours = console._color_system or ColorSystem.TRUECOLOR  # noqa: SLF001  as Textual's strips do
    in_force, style = "", None
    for x, y, cells in parts:
        sent.append(f"\x1b[{y + 1};{x + 1}H")
        for text, of in cells:
            if of is not style:
                style, codes = of, Strip.render_ansi(of, colours) if of else ""
                if codes != in_force:
                    sent.append(f"{_RESET if in_force else ''}{f'{_ESCAPE}[{codes}m' if codes else ''}")
                    in_force = codes
            sent.append(text)
    return "".join([*sent, _RESET] if in_force else sent)
