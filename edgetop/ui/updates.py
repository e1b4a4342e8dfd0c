"""What is sent to the terminal: of a line that changed, the parts that changed, in no more styles than it takes.

Textual's own partial update begins at the left edge of the widget, whatever changed: a chart
that grows by a column at its right end is sent as a whole. At 80x24 that made two of three bytes.
Rich sets the style of every piece and resets it behind: of a chart of one style in which a cell
here and there changes, that were four of five.
"""

import re
from collections.abc import Iterator
from typing import TypeVar

from rich.console import Console
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

from edgetop.ui.terminal_buffer import TerminalBuffer

_STYLE = re.compile("(\x1b\\[[0-9;]*m)")  # ECMA-48, SGR
_MOVES = re.compile("(?:\x1b\\[[0-9;]*H)*")  # CUP
_RESET = "\x1b[0m"


Update = TypeVar("Update")


class TightUpdate(ChopsUpdate):
    """The cells of an update, and none beside them."""

    def __init__(self, update: ChopsUpdate, terminal_buffer: TerminalBuffer) -> None:
        super().__init__(update.chops, update.spans, update.chop_ends)
        self._terminal_buffer = terminal_buffer

    def render_segments(self, console: Console) -> str:
        sent: list[str] = []
        for y, left, right in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= right or end <= left:
                    continue
                start = max(x, left)
                sent += _sent(self._terminal_buffer, start, y, strip.crop(start - x, min(end, right) - x), console)
        return styled_once("".join(sent))


class TightLayout(LayoutUpdate):
    """Whole rows."""

    def __init__(self, update: LayoutUpdate, terminal_buffer: TerminalBuffer) -> None:
        super().__init__(update.strips, update.region)
        self._terminal_buffer = terminal_buffer

    def render_segments(self, console: Console) -> str:
        sent: list[str] = []
        for y, strips in enumerate(self.strips, self.region.y):
            sent += _sent(self._terminal_buffer, self.region.x, y, Strip.join(strips), console)
        return styled_once("".join(sent))


def _sent(terminal_buffer: TerminalBuffer, x: int, y: int, strip: Strip, console: Console) -> Iterator[str]:
    for start, part in terminal_buffer.news(x, y, strip):
        yield f"\x1b[{y + 1};{start + 1}H"
        yield part.render(console)


def tightened(update: Update, terminal_buffer: TerminalBuffer) -> Update | TightUpdate | TightLayout:
    """What else there may be to show stays as it is."""
    if isinstance(update, ChopsUpdate):
        return TightUpdate(update, terminal_buffer)
    return TightLayout(update, terminal_buffer) if isinstance(update, LayoutUpdate) else update


def styled_once(output: str) -> str:
    """The same with no style set that is in force: between two pieces of one style the cursor may move."""
    kept: list[str] = []
    in_force, is_over = "", False  # what was set last, and whether a reset is owed
    for part in _STYLE.split(output):
        if part == _RESET:
            is_over = bool(in_force)
        elif _STYLE.fullmatch(part):
            if part != in_force:
                kept += [_RESET, part] if is_over else [part]
            in_force, is_over = part, False
        elif part:
            if is_over and not _MOVES.fullmatch(part):  # text that has no style
                kept.append(_RESET)
                in_force, is_over = "", False
            kept.append(part)
    return "".join([*kept, _RESET] if is_over else kept)
