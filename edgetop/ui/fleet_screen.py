"""The screen that lists many boards.

Each board has a thread that receives its data. A timer draws the newest data of all boards.
"""

from collections.abc import Callable, Iterator
from typing import Any

from textual import events
from textual.app import ComposeResult
from textual.events import Key
from textual.screen import Screen

from edgetop.feeds.feed_protocol import Can
from edgetop.feeds.fleet_feed import ORDERS, BoardView, Fleet
from edgetop.session.events import Order
from edgetop.ui import key_commands
from edgetop.ui.characters import CharacterSet
from edgetop.ui.keys import Command, bindings, follow_key, footer_keys, remapped
from edgetop.ui.layout import Place
from edgetop.ui.monitor_screen import Host
from edgetop.ui.pane_widget import BorderWidget
from edgetop.ui.panes.fleet_pane import OLD_S, board_lines, detail_lines, head_line, log_lines
from edgetop.ui.panes.header import key_spans
from edgetop.ui.panes.pane import Area
from edgetop.ui.screen_settings import FleetListing, ScreenSettings
from edgetop.ui.text import Line, Span, as_fits, fit, line
from edgetop.ui.themes import Theme

HEAD_ROWS, DETAIL_ROWS, LEAST_LOG_ROWS = 2, 2, 4
LOG_FROM_ROWS = 16  # least height of a screen with a log
EXPLANATION = f"""\
A "?" behind p99 marks too few inferences. "X" and "!" mark boards with a \
problem, "SIM" simulated boards. Data older than {OLD_S:g} s are shown with \
their age. The chart of p99 is full at the deadline, that of heat at the \
trip point.

More: edgetop help fleet"""


class FleetScreen(Screen[None]):
    DEFAULT_CSS = "FleetScreen { layers: base; }"
    BLANK = True

    def __init__(
        self, host: Host, fleet: Fleet, settings: ScreenSettings, characters: CharacterSet, theme: Theme,
        listing: FleetListing, leave_now: Callable[[], bool],
    ) -> None:  # fmt: skip
        super().__init__()
        self.host, self.fleet, self.settings, self.characters = host, fleet, settings, characters
        self.listing, self._leave_now = listing, leave_now
        listing.opened = ""
        self._commands = {command.id: command for command in remapped(COMMANDS, settings.keys)}
        self._keys = bindings(self._commands.values())
        self._widget = BorderWidget(self._lines, theme, characters, self._press, self.move)
        self._views: list[BoardView] = []
        self._offset = 0

    def compose(self) -> ComposeResult:
        yield self._widget

    def on_mount(self) -> None:
        self._widget.put(Place("fleet", 0, 0, *self.size))
        self.set_interval(self.settings.refresh_s, self.tick)
        self.tick()
        if self.listing.note:
            self.report(self.listing.note, seconds=10)
            self.listing.note = ""

    def on_resize(self) -> None:
        self._widget.put(Place("fleet", 0, 0, *self.size))

    def use_theme(self, theme: Theme) -> None:
        self._widget.use_theme(theme)

    def use_characters(self, characters: CharacterSet) -> None:
        self.characters = characters
        self._widget.use_characters(characters)

    @property
    def choices(self) -> dict[str, Any]:
        return {}

    def report(self, text: str, *, seconds: float = 2) -> None:
        self.notify(text, timeout=seconds, markup=False)

    def tick(self) -> None:
        if self._leave_now():
            self.app.exit()
            return
        self._views = self.fleet.views(self.listing.order, self.listing.words)
        self._widget.redraw()

    # Commands.

    def present_commands(self) -> Iterator["Command[FleetScreen]"]:
        return (command for command in self._commands.values() if command.applies(Can.NOTHING))

    async def on_key(self, event: Key) -> None:
        await follow_key(event, self, self._keys)

    def action_command(self, command_id: str) -> None:
        self._commands[command_id].run(self)

    def interrupt(self) -> None:
        self.app.exit()

    @property
    def selected(self) -> BoardView | None:
        """Return the board under the cursor, else the first board, or None if none is listed."""
        found = (view for view in self._views if view.address.name == self.listing.cursor)
        return next(found, self._views[0] if self._views else None)

    def move(self, by: int) -> None:
        names = [view.address.name for view in self._views]
        if names:
            place = names.index(self.listing.cursor) if self.listing.cursor in names else 0
            self.listing.cursor = names[min(max(place + by, 0), len(names) - 1)]
            self._widget.redraw()

    def open(self) -> None:
        view = self.selected
        if view and view.state in ("live", "silent", "over", "lost"):
            self.listing.opened = view.address.name
            self.app.exit()
        elif view:
            self.report(f"{view.address.name}: {view.reason or 'no data yet'}", seconds=5)

    def step_order(self) -> None:
        names = list(ORDERS)
        self.listing.order = names[(names.index(self.listing.order) + 1) % len(names)]
        self.tick()

    def use_words(self, words: str) -> None:
        self.listing.words = words
        self.tick()

    def mark(self, note: str) -> None:
        self.fleet.order_all(Order("mark", note))
        self.tick()

    # Drawing.

    def _table_rows(self, rows: int) -> int:
        """Return how many boards the table shows at once, on a screen with `rows` rows.

        The table has a row per listed board, but leaves room for the log of events below it. A screen of few rows has
        no log, so the table fills it.
        """
        if rows < LOG_FROM_ROWS:
            return max(1, rows - HEAD_ROWS - 1)
        most = rows - HEAD_ROWS - DETAIL_ROWS - 1 - LEAST_LOG_ROWS - 1
        return max(1, min(len(self._views), most))

    def _lines(self, area: Area) -> list[Line]:
        columns, rows = area.width, area.height
        now = self.fleet.clock.utc().astimezone()
        words = f"   with: {self.listing.words}" if self.listing.words else ""
        lines = [head_line(self._views, f"by {self.listing.order}{words}", f"{now:%H:%M:%S}", area)]
        head, *body = board_lines(self._views, area)
        seen = self._table_rows(rows)
        place = next((i for i, view in enumerate(self._views) if view == self.selected), 0)
        self._offset = max(0, min(max(self._offset, place - seen + 1), place, len(body) - seen))
        shown = body[self._offset : self._offset + seen]
        if shown:
            shown[place - self._offset] = (Span(">", "accent"), *shown[place - self._offset][1:])
        lines += [head, *shown]
        if rows >= LOG_FROM_ROWS:
            below = len(body) - self._offset - len(shown)
            lines += detail_lines(self.selected, area)
            title = f" events of all boards {f'   {below} boards below ' if below else ''}"
            lines.append(fit(line((title, "title")), columns, "title"))
            log = self.fleet.log()[: max(0, rows - len(lines) - 1)]
            lines += log_lines(log, self.fleet.clock.monotonic_ns(), now, area)
        lines = lines[: rows - 1]
        footer = as_fits(columns, *key_spans(footer_keys(self.present_commands(), self)))
        return [*lines, *[()] * (rows - 1 - len(lines)), fit(footer, columns, "title")]

    def _press(self, event: events.Click) -> None:
        """Handle a click: choose a board, open it (double click), or run the command of a key in the last line."""
        end, y = 0, event.y
        for command in self.present_commands() if y == self.size.height - 1 else ():
            end += len(command.key_words[0]) + len(str(command.footer)) + 3 if command.footer else 0
            if command.footer and event.x < end:
                command.run(self)
                return
        place = self._offset + y - HEAD_ROWS
        if 0 <= y - HEAD_ROWS < self._table_rows(self.size.height) and place < len(self._views):
            self.listing.cursor = self._views[place].address.name
            self._widget.redraw()
            if event.chain == 2:
                self.open()


_ROWS, _PAGE, _ENDS = "choose a board", "move by a page", "first board, last board"
COMMANDS: tuple[Command[FleetScreen], ...] = (
    Command("help", "question_mark,f1", "help", lambda s: key_commands.open_help(s, EXPLANATION), footer="help"),
    Command("depart", "q,d,ctrl+c", "leave; the runs continue", FleetScreen.interrupt, footer="leave"),
    Command("open", "enter", "open the screen of the board; Esc returns", FleetScreen.open, footer="open"),
    Command("order", "s,o", "sort by the worst, name, group, p99, heat", FleetScreen.step_order, footer="sort"),
    Command("filter", "slash", "show only boards with these words",
            lambda s: key_commands.open_filter(s, "boards", s.listing.words, s.use_words), footer="filter"),
    Command("back", "escape", "show all boards", lambda s: s.use_words("")),
    Command("mark", "m", "mark this moment on all boards", lambda s: key_commands.open_mark(s, s.mark),
            footer="mark all"),
    Command("theme", "t", "choose a theme, with a preview", key_commands.open_themes, footer="theme"),
    Command("redraw", "ctrl+l", "redraw the screen", lambda s: s.host.action_redraw()),
    Command("down", "down,j", "next board", lambda s: s.move(1), help=_ROWS),
    Command("up", "up,k", "previous board", lambda s: s.move(-1), help=_ROWS),
    Command("page-down", "pagedown", "a page down", lambda s: s.move(10), help=_PAGE),
    Command("page-up", "pageup", "a page up", lambda s: s.move(-10), help=_PAGE),
    Command("top", "home", "the first board", lambda s: s.move(-100_000), help=_ENDS),
    Command("bottom", "end", "the last board", lambda s: s.move(100_000), help=_ENDS),
)  # fmt: skip
