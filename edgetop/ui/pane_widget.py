"""The widgets of panes and of the lines around them. They keep their lines, and draw only those that changed.

The changed cells of a line are found when they are sent: see `terminal_buffer`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from edgetop.analysis.analysis import MonitorView
from edgetop.ui.characters import CharacterSet, border_characters
from edgetop.ui.charts import GUTTER
from edgetop.ui.layout import TIMELINES, Place
from edgetop.ui.panes.explanations import EXPLANATIONS
from edgetop.ui.panes.pane import Area, Drawing, Item, Listing, rows_of
from edgetop.ui.panes.sensor_series import time_rule
from edgetop.ui.terminal_buffer import Pieces, interned
from edgetop.ui.text import BLANK, Line, Span, cells_of, fit, line, width, wrapped
from edgetop.ui.themes import Theme
from edgetop.wording.fault_words import fault_words

LEAST_COLUMNS = 3  # A border on each side, and a column between
HELP, BACK = "? keys", "Esc back"  # keys that a title names
TITLE_COMMANDS = {HELP: "help", BACK: "back"}  # what a click on them does


class LineWidget(Widget):
    """A widget that shows lines of text, each cut or padded to the width of the widget."""

    DEFAULT_CSS = "LineWidget { position: absolute; }"

    def __init__(self, theme: Theme, characters: CharacterSet, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._theme, self.characters = theme, characters
        self._styles: Mapping[str, Style] | None = None  # None until first used
        self._lines: list[Line] = []
        self._lines_size = Size(0, 0)
        self._strips: dict[int, Strip] = {}
        self._is_stale = False  # whether the data changed while the widget was hidden
        # Called with the name of a widget that failed and its error; returns the text to show. None: the screen fails.
        self.on_fault: Callable[[str, Exception], str] | None = None

    def put(self, place: Place) -> None:
        """Give the widget this place and size. Textual applies place and size at its next layout."""
        self.styles.offset = (place.x, place.y)
        self.styles.width = max(place.width, 1)
        self.styles.height = max(place.height, 1)

    def lines(self, columns: int, rows: int) -> Sequence[Line]:
        """Return the lines to show, from the top, for a widget of this size. Each is exactly `columns` cells wide."""
        raise NotImplementedError

    def redraw(self) -> None:
        """Update the lines to the present data. Textual draws changed lines at its next refresh."""
        if changed := self.update_lines():
            self.refresh(*(Region(0, y, self._lines_size.width, 1) for y in changed))

    def update_lines(self) -> Sequence[int]:
        """Update the lines to the present data. Return the numbers of the rows that changed, from 0 at the top.

        A hidden widget is updated later, when it is shown again, and the result is ().
        """
        self._is_stale = not self.display
        if self._is_stale:
            return ()
        columns, rows = size = self.outer_size  # without borders, `size` is the same, but takes 50 us to find
        drawn = self._drawn(columns, rows) if columns and rows else ()
        lines = [*drawn[:rows], *[fit(BLANK, columns)] * (rows - len(drawn))]
        if self._lines_size != size:
            self._lines_size, self._lines, self._strips = size, lines, {}
            return range(rows)
        changed = [y for y, (before, row) in enumerate(zip(self._lines, lines, strict=True)) if row != before]
        for y in changed:
            self._strips.pop(y, None)
        self._lines = lines
        return changed

    def _drawn(self, columns: int, rows: int) -> Sequence[Line]:
        """Return the lines to show. If making them fails, return lines with the error, so that other widgets go on."""
        try:
            return self.lines(columns, rows)
        except Exception as error:
            if self.on_fault is None or isinstance(error, MemoryError):
                raise
            words = self.on_fault(f"screen: {self.id}", error)
            return [fit(row, columns) for row in wrapped(words, columns, "warning")]

    def use_characters(self, characters: CharacterSet) -> None:
        self.characters = characters
        self.redraw()

    def use_theme(self, theme: Theme) -> None:
        self._theme, self._styles = theme, None
        self._strips = {}
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the rows in the region `crop`, for Textual, which calls this method.

        Textual's own method also adds its styles and borders, which these widgets do not have.
        """
        if self._is_stale or self._lines_size != self.outer_size:  # draw a new size at once, not at the next tick
            self.update_lines()
        strips = [self.strip(y) for y in range(*crop.line_span)]
        is_whole = crop.x == 0 and crop.width == self._lines_size.width
        return strips if is_whole else [strip.crop(*crop.column_span) for strip in strips]

    def strip(self, y: int) -> Strip:
        """Return row `y` in the form that Textual draws."""
        if (strip := self._strips.get(y)) is None:
            strip = self._strips[y] = Strip(starmap(Segment, self.pieces(y)), self._lines_size.width)
        return strip

    def pieces(self, y: int) -> Pieces:
        """Return row `y` as (text, Rich style) pairs, with the styles of the theme."""
        styles = self._styles = self._styles or self._filtered_styles()
        return [(text, styles[style]) for text, style in self._lines[y]]

    def _filtered_styles(self) -> Mapping[str, Style]:
        """Return the styles of the theme by name, after Textual's filters, which remove colours if NO_COLOR is set."""
        segments = [Segment(name, style) for name, style in self._theme.styles.items()]
        for line_filter in self.get_line_filters():
            segments = line_filter.apply(segments, self.background_colors[1])
        return {name: interned(style) or Style.null() for name, style, _ in segments}


class BorderWidget(LineWidget):
    """Lines that are not a pane, such as the header. The function `draw` makes them.

    `press` is called at a click. `scroll` is called when the mouse wheel turns, with 3 for down and -3 for up.
    """

    def __init__(
        self, draw: Callable[[Area], Sequence[Line]], theme: Theme, characters: CharacterSet,
        press: Callable[[events.Click], object] = id, scroll: Callable[[int], object] = id, **options: object,
    ) -> None:  # fmt: skip
        super().__init__(theme, characters, **options)
        self._draw, self._press, self._scroll = draw, press, scroll

    def on_click(self, event: events.Click) -> None:
        self._press(event)

    def on_mouse_scroll_down(self) -> None:
        self._scroll(3)

    def on_mouse_scroll_up(self) -> None:
        self._scroll(-3)

    def lines(self, columns: int, rows: int) -> Sequence[Line]:
        return [fit(row, columns) for row in self._draw(Area(columns, rows, self.characters))]


class PaneWidget(LineWidget, can_focus=True):
    """A pane: a title in the upper line of the border, and below it the body, which may scroll."""

    def __init__(
        self, drawing: Drawing, key: str, theme: Theme, characters: CharacterSet,
        press: Callable[["PaneWidget", str, events.Click], None], point: Callable[[float, float], None],
        command: Callable[[str], None],
    ) -> None:  # fmt: skip
        """Make an empty pane. `drawing` draws it, and `key` is the key that shows the pane alone; the title names this
        key.

        `press` is called at a click with the pane, the sort order of the clicked column header (or ""), and the event.

        `point` is called when the mouse is released on a timeline. It gets two places, from 0 (left) to 1 (right):
        where the button was pressed and where it was released, the left one first.

        `command` runs the command of the screen with this id, such as `back`.
        """
        super().__init__(theme, characters, id=f"pane-{drawing.name}")
        self.drawing, self._press, self._point, self._command = drawing, press, point, command
        self._key = key
        self._frame = border_characters(characters)
        self._place = Place(drawing.name, 0, 0, 0, 0)
        self._view: MonitorView | None = None
        self._body: Sequence[Line] = ()
        self._sided: tuple[object, list[tuple[Line, Line]]] = (
            None,
            [],
        )  # rows of the body, without and with the sides of the border
        self._items: Sequence[Item] = ()  # item of each line of the body, if the pane is a list
        self._pressed: float | None = None  # position on the time axis at which a mouse button is held
        self._is_clicked = False  # whether a double click can have begun here
        self._chosen: object = None  # key of the item under the row cursor, or None
        self._subject: object = None  # the part of the view from which the body was drawn
        self._area: Area | None = None
        self._offset = 0
        self.is_zoomed = False
        self.listing = Listing()
        self._cursor_s: float | None = None
        self.y_zoom = 0
        self._titled: tuple[object, Line] = None, BLANK  # the upper line of the border, and from what it was made
        self._explains = False  # whether the pane shows its explanation in place of its body

    def use_listing(self, listing: Listing) -> None:
        """Use a new filter and sort order, and go to the top of the list."""
        self.listing, self._offset = listing, 0
        self.redraw()

    def explain(self) -> None:
        """Show what the pane means, in place of its body."""
        self._explains, self._offset = True, 0
        self.redraw()

    def stop_explaining(self) -> bool:
        """Show the body again. Return whether the pane showed its explanation before."""
        was_explained, self._explains = self._explains, False
        if was_explained:
            self._offset = 0
            self.redraw()
        return was_explained

    @property
    def item(self) -> Item | None:
        """Return the entry of the list under the cursor, or None."""
        chosen = self._chosen
        return None if chosen is None else next((item for item in self._items if item.key == chosen), None)

    def choose(self, key: object) -> None:
        """Put the cursor on the list entry whose `Item.key` is `key`. None removes the cursor."""
        if key != self._chosen:
            self._chosen = key
            self.redraw()

    def move(self, by: int) -> None:
        """Move the cursor by a number of list entries, down or up (negative), and scroll until the entry shows.

        A pane without a list scrolls by as many lines instead.
        """
        owners = list(self._items)
        starts = [y for y, item in enumerate(owners) if y == 0 or item is not owners[y - 1]]
        places = [y for y in starts if owners[y].key is not None]
        if not places:
            self.scroll_lines(by)
            return
        keys = [self._items[y].key for y in places]
        if self._chosen in keys:
            place = min(max(keys.index(self._chosen) + by, 0), len(places) - 1)
        elif abs(by) == 1:
            place = next((i for i, y in enumerate(places) if y >= self._offset), 0)
        else:
            place = 0 if by < 0 else -1
        first = places[place]
        last = first + len(self._items[first].lines) - 1
        top = min(self._offset, 0 if place == 0 else first)  # the first item shows the header of a table as well
        self._offset = max(top, last - self._body_rows(self.outer_size.height) + 1)
        self._chosen = keys[place]
        self.redraw()

    def show(self, view: MonitorView, cursor_s: float | None = None) -> Sequence[int]:
        """Draw the results `view`. Return the numbers of the rows that changed, from 0 at the top.

        `cursor_s` is the session time under the cursor of the timelines in s, or None. A hidden pane is drawn later,
        when it is shown again, and the result is ().
        """
        if view is self._view and cursor_s == self._cursor_s:
            return ()
        self._view, self._cursor_s = view, cursor_s
        return self.update_lines()

    def use_characters(self, characters: CharacterSet) -> None:
        self._frame = border_characters(characters)
        super().use_characters(characters)

    def put(self, place: Place) -> None:
        super().put(place)
        self._place = place

    def lines(self, columns: int, rows: int) -> Sequence[Line]:
        if self._view is None:
            return ()
        if columns < LEAST_COLUMNS:  # the borders alone are wider
            return [fit(BLANK, columns)] * rows
        place, inside = self._place, columns - 2
        area = Area(inside, 1, self.characters, self.listing, place.is_stacked, self._cursor_s, self.y_zoom)
        fault = self._view.fault_of(self.drawing.parts)
        why = "" if fault is None else fault_words(fault)
        if self.drawing.line and rows == 1 + place.is_last and not self.is_zoomed:
            row = line((f"{self.drawing.name}  {area.clean(why)}", "warning")) if why else None
            drawn = [self._between_sides(row or self.drawing.line(self._view, area), inside)]
        else:
            area = area.resized(height=self._body_rows(rows))
            if why or self._explains:
                self._subject = self._area = None
                paragraphs = [area.clean(why)] if why else EXPLANATIONS[self.drawing.name].split("\n")
                style = "warning" if why else "text"
                self._items = ()
                self._body = [row for text in paragraphs for row in wrapped(text, inside, style) or [BLANK]]
            else:
                self._draw_body(self._view, area)
            self._offset = min(self._offset, self._last_offset())
            body = [self._row(y, inside) for y in range(self._offset, min(self._offset + area.height, len(self._body)))]
            blank = [BLANK] * (area.height - len(body))
            drawn = [self._title(self._view, area), *self._all_between_sides([*body, *blank], inside)]
        if not place.is_last:
            return drawn
        frame, style = self._frame, self._frame_style
        rule = (Span(frame.rule * inside, style),)
        inner = time_rule(self._view, area, frame.rule, style) if place.is_stacked else rule
        return [*drawn, (Span(frame.bottom_left, style), *inner, Span(frame.bottom_right, style))]

    def _body_rows(self, rows: int) -> int:
        return max(rows - 1 - self._place.is_last, 1)

    def _draw_body(self, view: MonitorView, area: Area) -> None:
        """Draw the body again, but only if what it shows or its size has changed.

        This matters for long lists: wrapping a log of a thousand lines takes 20 ms.
        """
        subject = self.drawing.subject(view)
        if (subject is not self._subject and subject != self._subject) or area != self._area:
            items = self.drawing.items(view, area) if self.drawing.items else ()
            self._items = [item for item in items for _ in item.lines]
            self._body = rows_of(items) if self.drawing.items else self.drawing.body(view, area)
            self._subject, self._area = subject, area  # set last, so that a failed drawing is repeated

    def _row(self, y: int, inside: int) -> Line:
        if self._chosen is None or y >= len(self._items) or self._items[y].key != self._chosen:
            return self._body[y]
        return fit(tuple(Span(text, "focus") for text, _ in self._body[y]), inside, "focus")

    @property
    def text(self) -> str:
        """Return the text that the copy key copies: the entry under the cursor, else the whole body."""
        rows = self.item.detail() if self.item else ["".join(text for text, _ in row) for row in self._body]
        return "\n".join(row.rstrip() for row in rows)

    @property
    def _frame_style(self) -> str:
        return "accent" if self.has_focus else "frame"

    def _all_between_sides(self, rows: Sequence[Line], inside: int) -> list[Line]:
        """Return the rows with the left and right side of the border. `inside` is the width between the sides in cells.

        A row that has not changed since the last call is returned as the same object.
        """
        key = self._frame, self._frame_style, inside
        before = self._sided[1] if self._sided[0] == key else []
        sided = [
            before[y][1] if y < len(before) and before[y][0] == row else self._between_sides(row, inside)
            for y, row in enumerate(rows)
        ]
        self._sided = key, list(zip(rows, sided, strict=True))
        return sided

    def _between_sides(self, row: Line, inside: int) -> Line:
        """Return a row with the left and right side of the border. `inside` is the width between the sides in cells.

        If the row is a horizontal line of the border, the sides are tees, which connect to it.
        """
        style, is_rule = self._frame_style, bool(row) and row[0].style == "frame"
        left, right = (self._frame.tee_left, self._frame.tee_right) if is_rule else (self._frame.side,) * 2
        return (Span(left, style), *fit(row, inside), Span(right, style))

    def _title(self, view: MonitorView, area: Area) -> Line:
        """Return the upper line of the border, with the title. While nothing in it changes, the same object is
        returned.
        """
        words, position = self.drawing.title(view, area), self._position(area.height)
        key = words, position, area.width, self._frame, self._place, self.has_focus, self._explains, self.is_zoomed
        if self._titled[0] != key:
            self._titled = key, fit(self._made_title(words, position, area.width + 2), area.width + 2)
        return self._titled[1]

    def _made_title(self, words: str, position: str, columns: int) -> Line:
        """Return the upper line of the border: the name of the pane, and at its right end `words` and `position`.

        `columns` is the width of the pane.
        """
        frame, style = self._frame, self._frame_style
        name = f"{self._key} {self.drawing.name}{' ' if self.drawing.unit else ''}{self.drawing.unit}"
        left = line(
            (frame.top_left if self._place.is_first else frame.tee_left, style),
            (f" {name} ", "focus" if self.has_focus else "title"),
        )
        back = f"{HELP}   {BACK}" if self._explains else BACK if self.is_zoomed else ""
        behind = [text for text in (position, back) if text]
        end = line((frame.top_right if self._place.is_first else frame.tee_right, style))
        room = columns - width(left) - 1
        parts = re.split("(   |, )", words)  # parts and their separators
        while len(parts) > 2 and cells_of("   ".join(("".join(parts), *behind))) + 5 > room:
            parts = parts[:-2]  # omit the last part instead of cutting a word
        said = "   ".join(text for text in ("".join(parts), *behind) if text)
        right = fit(line((f" {said} ", "dim")), min(cells_of(said) + 2, max(0, room - 3))) if said else BLANK
        rule = Span(frame.rule * max(0, room - width(right) - 1), style)
        return (*left, rule, *right, *line((frame.rule, style)), *end)

    def _position(self, rows: int) -> str:
        """Return which list entries are visible, such as "3-12 of 40", or "" if all are.

        A pane without a list counts its rows. `rows` is the number of visible rows.
        """
        if not self._last_offset():
            return ""
        begin, end = self._offset, self._offset + rows
        places: dict[int, int] = {}
        for item in self._items:
            if item.key is not None:
                places.setdefault(id(item), len(places) + 1)
        seen = [places[id(item)] for item in self._items[begin:end] if id(item) in places]
        return f"{seen[0]}-{seen[-1]} of {len(places)}" if seen else f"{begin + 1}-{end} of {len(self._body)}"

    def _last_offset(self) -> int:
        scrolls = self.drawing.scrolls or self._explains
        return max(0, len(self._body) - self._body_rows(self.outer_size.height)) if scrolls else 0

    def scroll_lines(self, by: int) -> None:
        offset = min(max(self._offset + by, 0), self._last_offset())
        if offset != self._offset:
            self._offset = offset
            self.redraw()

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self._wheel(event.x, 3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self._wheel(event.x, -3)

    def _wheel(self, x: int, by: int) -> None:
        """Scroll by a number of lines, or zoom the timelines if column `x` is on one and the pane does not scroll."""
        if self._last_offset() or self._part_at(x) is None:
            self.scroll_lines(by)
        else:
            self._command("wider" if by > 0 else "closer")

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed = self._part_at(event.x) if event.button == 1 and event.y else None

    def end_drag(self, x: int) -> None:
        """Handle the release of the mouse button at column `x` of this pane, which may be beside it."""
        begin, self._pressed = self._pressed, None
        if begin is not None:
            end = self._part_at(min(max(x, 1 + GUTTER), self.outer_size.width - 2))
            ends = begin, begin if end is None else end
            self._point(min(ends), max(ends))

    def _part_at(self, x: int) -> float | None:
        """Return where column `x` of the widget is on its timeline, from 0 (left) to 1 (right).

        Return None if the pane has no timeline there.
        """
        cells = self.outer_size.width - 2 - GUTTER
        place = x - 1 - GUTTER
        is_chart = self.drawing.name in TIMELINES and self._body and not self._explains and 0 <= place < cells
        return (place + 0.5) / cells if is_chart else None

    def on_hide(self) -> None:
        self._is_clicked = False

    def on_click(self, event: events.Click) -> None:
        if event.chain > 1 and not self._is_clicked:
            return  # the first click of this double click ran a command of a title, here or of a pane shown before
        self._is_clicked = True
        y = self._offset + event.y - 1
        item = self._items[y] if event.y and y < len(self._items) else Item(())
        if item.key is not None:
            self.choose(item.key)
            if event.chain == 2:
                self._command("open")
                return
        title = "".join(span.text for span in self._titled[1]) if event.y == 0 else ""
        for words, command in TITLE_COMMANDS.items():
            begin = title.rfind(words)
            if 0 <= begin <= event.x < begin + len(words):
                self._is_clicked = False
                self._command(command)
                return
        self._press(self, item.order_at(event.x - 1) if item.order_at else "", event)
