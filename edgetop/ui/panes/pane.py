"""What a pane is, and the list of them in the order of their keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetop.analysis.analysis import MonitorView
from edgetop.formatting import clean
from edgetop.ui.look import Look
from edgetop.ui.text import Line


@dataclass(frozen=True, slots=True)
class Listing:
    """What the user wants to see of a list, and in which order; each pane that lists has its own names of orders."""

    order: int = 0  # counts up with each change
    words: str = ""  # only what holds these words

    def order_of(self, orders: Sequence[str]) -> str:
        return orders[self.order % len(orders)]

    def takes(self, text: str) -> bool:
        """Whether every word stands somewhere in it, whatever the case."""
        text = text.lower()
        return all(word in text for word in self.words.lower().split())


@dataclass(frozen=True, slots=True)
class Area:
    width: int
    height: int
    look: Look
    listing: Listing = Listing()

    def clean(self, text: str) -> str:
        """As this terminal can show it."""
        return clean(text, ascii_only=self.look.ascii_only)

    def resized(self, width: int | None = None, height: int | None = None) -> "Area":
        """The same with other cells."""
        width, height = (self.width if width is None else width), (self.height if height is None else height)
        return Area(width, height, self.look, self.listing)


def _whole(view: MonitorView) -> object:
    return view


@dataclass(frozen=True, slots=True)
class Drawing:
    """A pane as data: how it is called, and the functions that draw it."""

    name: str
    title: Callable[[MonitorView, Area], str]  # what stands beside the name
    body: Callable[[MonitorView, Area], Sequence[Line]]
    scrolls: bool = False
    line: Callable[[MonitorView, Area], Line] | None = None  # the pane in one line
    details: tuple[str, ...] = ()  # the kinds of sensors whose courses it draws where it is alone
    rows: str = ""  # what it lists, where that can be filtered
    orders: tuple[str, ...] = ()  # in which it can list it
    subject: Callable[[MonitorView], object] = _whole  # the body is drawn of; while it is the same object, not anew
