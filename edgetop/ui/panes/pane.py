"""What a pane is, and the list of panes in the order of their keys."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from edgetop.analysis.analysis import MonitorView
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.session.events import Severity
from edgetop.ui.characters import CharacterSet
from edgetop.ui.text import Line, Piece


@frozen
class Listing:
    """How the user filters and sorts a list; each pane with a list has its own orders."""

    order: int = 0  # counts up with each change
    words: str = ""  # only what holds these words
    least: Severity = "info"  # only events of this severity, or a graver one

    def order_of(self, orders: Sequence[str]) -> str:
        return orders[self.order % len(orders)]

    def takes(self, text: str) -> bool:
        """Whether every word stands somewhere in it, whatever the case."""
        text = text.lower()
        return all(word in text for word in self.words.lower().split())


@frozen
class Area:
    width: int
    height: int
    characters: CharacterSet
    listing: Listing = Listing()
    is_stacked: bool = False  # in a stack of timelines, which has one axis for all
    cursor_s: float | None = None  # the session time in s that the user points at; None: none

    def clean(self, text: str) -> str:
        """Return a text in the characters that this terminal can display."""
        return clean(text, ascii_only=self.characters.ascii_only)

    def resized(self, width: int | None = None, height: int | None = None) -> "Area":
        """The same with other cells."""
        width, height = (self.width if width is None else width), (self.height if height is None else height)
        return replace(self, width=width, height=height)


@frozen
class Item:
    """An entry of a list: the lines that show it, and what is shown of it when it is opened or copied."""

    lines: Sequence[Line]
    key: object = None  # the same from refresh to refresh; None: it cannot be chosen
    detail: Callable[[], Sequence[str]] = tuple  # all of it, in lines
    t_ns: int | None = None  # when it happened
    order_at: Callable[[int], str] | None = None  # of a table's head: the order that a click in this column asks for


def rows_of(items: Iterable[Item]) -> list[Line]:
    return [row for item in items for row in item.lines]


def titled(titles: Iterable[str], cells: Iterable[Piece]) -> list[str]:
    """Return the cells of a row, each in a line behind the title of its column; without a title it is left out."""
    words = (cell if isinstance(cell, str) else cell[0] for cell in cells)
    return [f"{title.strip():<8} {text}" for title, text in zip(titles, words, strict=True) if title]


@frozen
class Drawing:
    """A pane as data: how it is called, and the functions that draw it."""

    name: str
    title: Callable[[MonitorView, Area], str]  # the text at its end
    draw: Callable[[MonitorView, Area], Sequence[Line]] | None = None  # None: it is a list, made of its items
    items: Callable[[MonitorView, Area], Sequence[Item]] | None = None
    scrolls: bool = False
    line: Callable[[MonitorView, Area], Line] | None = None  # the pane in one line
    details: tuple[str, ...] = ()  # the kinds of sensors whose timelines it draws where it is alone
    rows: str = ""  # what it lists, where that can be filtered
    orders: tuple[str, ...] = ()  # in which it can list it
    unit: str = ""  # of its timeline, beside the name
    parts: tuple[str, ...] = ()  # of the view: without one of them the pane has nothing to show
    # The part of the view that the body shows; while it is the same object, the body is not drawn again.
    subject: Callable[[MonitorView], object] = lambda view: view

    def body(self, view: MonitorView, area: Area) -> Sequence[Line]:
        return rows_of(self.items(view, area)) if self.items else self.draw(view, area) if self.draw else ()
