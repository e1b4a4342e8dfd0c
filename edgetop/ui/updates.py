"""What is sent to the terminal: of a line that changed, the part that changed.

Textual's own partial update begins at the left edge of the widget, whatever changed: a chart
that grows by a column at its right end is sent as a whole. At 80x24 that made two of three bytes.
"""

from rich.console import Console
from rich.control import Control
from textual._compositor import ChopsUpdate


class TightUpdate(ChopsUpdate):
    """The cells of an update, and none beside them."""

    def render_segments(self, console: Console) -> str:
        sent: list[str] = []
        for y, left, right in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= right or end <= left:
                    continue
                start = max(x, left)
                sent.append(Control.move_to(start, y).segment.text)
                sent.append(strip.crop(start - x, min(end, right) - x).render(console))
        return "".join(sent)


def tightened(update: ChopsUpdate) -> TightUpdate:
    return TightUpdate(update.chops, update.spans, update.chop_ends)
