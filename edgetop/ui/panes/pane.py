"""The types that describe a pane: how it is drawn, its place and size, and the entries of its list."""

from collections.abc import Callable, Iterable, Sequence

from edgetop.analysis.analysis import MonitorView
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.session.events import Severity
from edgetop.ui.characters import CharacterSet
from edgetop.ui.text import Line, Piece


@frozen
class Listing:
    """How the user filters and sorts the list of a pane."""

    order: int = 0  # number of changes of the order, which selects it modulo the number of orders
    words: str = ""  # show only entries with these words
    least: Severity = "info"  # show only events of this or a higher severity

    @property
    def is_filtered(self) -> bool:
        return bool(self.words) or self.least != "info"

    def order_of(self, orders: Sequence[str]) -> str:
        return orders[self.order % len(orders)]

    def takes(self, text: str) -> bool:
        """Whether every word of the filter is in `text`. Upper and lower case are the same.

        >>> Listing(words="conv cpu").takes("Conv_12 CPU"), Listing(words="conv gpu").takes("Conv_12 CPU")
        (True, False)
        """
        text = text.lower()
        return all(word in text for word in self.words.lower().split())


@frozen
class Area:
    width: int
    height: int
    characters: CharacterSet
    listing: Listing = Listing()
    is_stacked: bool = False  # whether it is in a stack of timelines, which share one axis
    cursor_s: float | None = None  # session time under the cursor in s, or None
    y_zoom: int = 0  # steps by which the vertical axis of the heat map is zoomed in

    def clean(self, text: str) -> str:
        """Return `text` safe to print. On an ASCII terminal, characters outside ASCII are replaced."""
        return clean(text, ascii_only=self.characters.ascii_only)

    def resized(self, width: int | None = None, height: int | None = None) -> "Area":
        """Return a copy with another width, another height or both. None keeps the present one."""
        width, height = (self.width if width is None else width), (self.height if height is None else height)
        return Area(
            width, height, self.characters, self.listing, self.is_stacked, self.cursor_s, self.y_zoom
        )  # `replace` takes four times as long


@frozen
class Item:
    """An entry of a list: its lines, and the details that are shown when it is opened, and that can be copied."""

    lines: Sequence[Line]
    key: object = None  # identifies the item across refreshes; None if it cannot be chosen
    detail: Callable[[], Sequence[str]] = tuple  # returns the details as lines
    t_ns: int | None = None  # session time of the entry
    kind: str = ""  # kind of the event, if the entry is one
    order_at: Callable[[int], str] | None = None  # header of a table: returns the order for a click at this column


def rows_of(items: Iterable[Item]) -> list[Line]:
    return [row for item in items for row in item.lines]


def titled(titles: Iterable[str], cells: Iterable[Piece]) -> list[str]:
    """Return a line for each cell of a row of a table: the title of its column, then its text.

    A cell whose column has no title is left out.

    >>> titled(["name", "", "max"], ["Conv_1", "###", ("7.2", "dim")])
    ['name     Conv_1', 'max      7.2']
    """
    words = (cell if isinstance(cell, str) else cell[0] for cell in cells)
    return [f"{title.strip():<8} {text}" for title, text in zip(titles, words, strict=True) if title]


@frozen
class Drawing:
    """The description of a pane: its name, and the functions that draw its parts."""

    name: str
    title: Callable[[MonitorView, Area], str]  # returns the text at the end of the title
    draw: Callable[[MonitorView, Area], Sequence[Line]] | None = None  # draws the body; None for a list of items
    items: Callable[[MonitorView, Area], Sequence[Item]] | None = None
    scrolls: bool = False
    line: Callable[[MonitorView, Area], Line] | None = None  # draws the pane as one line
    details: tuple[str, ...] = ()  # kinds of sensors whose timelines are drawn if the pane is alone
    rows: str = ""  # name of the listed things, if they can be filtered
    orders: tuple[str, ...] = ()  # orders in which they can be listed
    unit: str = ""  # unit of the timeline, shown beside the name
    parts: tuple[str, ...] = ()  # parts of the view that the pane needs
    # Returns the part of the view that the body shows. While it is the same object, the body is not drawn again.
    subject: Callable[[MonitorView], object] = lambda view: view

    def body(self, view: MonitorView, area: Area) -> Sequence[Line]:
        return rows_of(self.items(view, area)) if self.items else self.draw(view, area) if self.draw else ()
