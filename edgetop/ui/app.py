"""The Textual app, which shows one screen of edgetop in a theme. When the app ends, the session goes on."""

import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import RenderableType
from textual.app import App
from textual.binding import Binding, BindingType
from textual.events import CursorPosition, Resize
from textual.geometry import Region
from textual.screen import Screen

from edgetop.analysis.analysis import Analysis
from edgetop.errors import InputError
from edgetop.feeds.feed_protocol import Feed
from edgetop.formatting import clean
from edgetop.notification import notification
from edgetop.ui.characters import MEASURED, CharacterSet, choose_characters, choose_theme
from edgetop.ui.driver import SteadyDriver
from edgetop.ui.key_commands import COMMANDS
from edgetop.ui.keys import remapped
from edgetop.ui.monitor_screen import MonitorScreen
from edgetop.ui.pane_widget import LineWidget
from edgetop.ui.screen_settings import FleetListing, ScreenSettings
from edgetop.ui.terminal_buffer import RowsUpdate, TerminalBuffer, tightened
from edgetop.ui.themes import Theme, load_theme, theme_files

if TYPE_CHECKING:
    from edgetop.feeds.fleet_feed import Fleet
    from edgetop.ui.fleet_screen import FleetScreen

UI_NICENESS = 5  # the engine and the recording have priority over the screen


# Makes the screen from the app, the characters, the theme, and a function that says whether to close at once.
MakeScreen = Callable[["EdgetopApp", CharacterSet, Theme, Callable[[], bool]], "MonitorScreen | FleetScreen"]


def _has_colours(theme: Theme) -> bool:
    return theme.has_colours and not os.environ.get("NO_COLOR")  # https://no-color.org


class EdgetopApp(App[None], inherit_bindings=False):
    CSS = """
    Screen { overflow: hidden; }
    MonitorScreen { layers: base; }
    Toast {
        border: none; padding: 0 1; width: auto; max-width: 96%; background: $panel; color: $foreground;
        &:ansi { text-style: reverse; }
    }
    """
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False  # users can select text with the terminal itself, by holding Shift
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "interrupt", priority=True)]

    def __init__(
        self, make: MakeScreen, settings: ScreenSettings, leave_now: Callable[[], bool] = lambda: False
    ) -> None:
        """Make the app. Raises InputError if the theme is unknown or invalid.

        `make` makes the screen that the app shows. `leave_now` returns whether that screen must close at once.
        """
        theme = load_theme(settings.theme or choose_theme())
        self.terminal_buffer = TerminalBuffer()
        super().__init__(driver_class=SteadyDriver, ansi_color=theme.uses_terminal_colours)
        self.terminal_lost = False
        self.on_interrupt: Callable[[], object] = lambda: None  # called before Ctrl+C takes effect
        self.animation_level = "none"
        self.failure: Exception | None = None
        characters = choose_characters(ascii_asked=settings.ascii_only)
        characters = replace(characters, has_colours=_has_colours(theme))
        self.measured_glyphs = "" if characters.ascii_only else MEASURED  # glyphs whose width the driver measures
        self.theme_names = sorted(theme_files())
        self.theme_name = theme.name
        self.hosted = make(self, characters, theme, lambda: self.terminal_lost or leave_now())
        self.register_theme(theme.for_textual())
        self.theme = theme.for_textual().name

    def on_mount(self) -> None:
        self.push_screen(self.hosted)

    def on_resize(self, event: Resize) -> None:
        """Draw the whole screen again if the terminal became smaller and at once got its old size back.

        Textual then reports only the second resize. But the first one has already cut off a part of the screen.
        """
        if self.screen_stack and event.size == self.screen.size:
            self.action_redraw()

    def on_cursor_position(self, event: CursorPosition) -> None:
        """Handle the terminal's report of the cursor position.

        The driver asks for it after it has written some box and block characters. So the report tells how wide the
        terminal drew them. If each took one cell, the screen uses these characters from now on.
        """
        if self.measured_glyphs and (event.x, event.y) == (len(self.measured_glyphs), 0):
            self.measured_glyphs = ""
            self.hosted.use_characters(replace(self.hosted.characters, boxes=True))

    def action_interrupt(self) -> None:
        """Handle Ctrl+C: end the program, even while a dialog is open."""
        self.on_interrupt()
        self.hosted.interrupt()

    def action_redraw(self) -> None:
        """Draw the whole screen again.

        This repairs the screen after another program wrote to the terminal, such as the kernel on its console.
        """
        self.terminal_buffer.forget()
        self.screen.refresh()

    @property
    def choices(self) -> dict[str, Any]:
        """Return what the user chose on the screen, such as `{"theme": "dark", "window": "10s"}`, to store it."""
        return {"theme": self.theme_name, **self.hosted.choices}

    def use_theme(self, name: str) -> None:
        try:
            theme = load_theme(name)
        except InputError as error:  # a theme of the user may have been edited meanwhile
            self.notify(clean(str(error)), severity="error", markup=False)
            return
        self.theme_name = name
        self.ansi_color = theme.uses_terminal_colours
        self.register_theme(theme.for_textual())
        self.theme = theme.for_textual().name
        self.hosted.use_theme(theme)
        if self.hosted.characters.has_colours != _has_colours(theme):
            self.hosted.use_characters(replace(self.hosted.characters, has_colours=_has_colours(theme)))

    def notify_desktop(self, title: str, text: str) -> None:
        """Ring the terminal's bell and ask it for a desktop notification. The screen itself does not change."""
        if self._driver:
            self._driver.write(notification(title, text, os.environ))

    def _display(self, screen: Screen[Any], renderable: RenderableType | RowsUpdate | None) -> None:
        """Send drawn output to the terminal. Textual calls this method."""
        self.terminal_buffer.fit(self.size)
        batch = self._driver.batched() if isinstance(self._driver, SteadyDriver) else contextlib.nullcontext()
        with batch:
            super()._display(screen, tightened(renderable, self.terminal_buffer))

    def paint(self, changed: Mapping[LineWidget, Sequence[int]]) -> None:
        """Send changed rows to the terminal at once. `changed` has the numbers of changed rows by widget.

        While a dialog or a message covers the screen, the rows are left to Textual's next refresh, which is several
        times slower.
        """
        if self.is_headless or self._batch_count or self.screen is not self.hosted or self._notifications:
            for widget, rows in changed.items():
                if rows:
                    widget.refresh(*(Region(0, y, widget.outer_size.width, 1) for y in rows))
            return
        places = [(widget.region, widget, rows) for widget, rows in changed.items() if rows and widget.display]
        # A widget without a layout has no region yet, and is drawn when it gets one.
        drawn = [
            (at.x, at.y + y, widget.pieces(y), at.width)
            for at, widget, rows in places
            if at.size == widget.outer_size
            for y in rows
        ]
        if drawn:
            self._display(self.screen, RowsUpdate(drawn, self.terminal_buffer))

    def _handle_exception(self, error: Exception) -> None:
        """Close the screen after an unexpected error, and keep the error as `failure`. Textual calls this method.

        The session goes on. The user gets one line instead of a traceback.
        """
        self.failure = self.failure or error
        if self.is_headless:  # in a test, which must see the error
            super()._handle_exception(error)
            return
        self.panic()  # with nothing to print


def monitor(feed: Feed, analysis: Analysis, settings: ScreenSettings) -> MakeScreen:
    commands = remapped(COMMANDS, settings.keys)
    return lambda app, characters, theme, leave_now: MonitorScreen(
        app, feed, analysis, settings, characters, theme, commands, leave_now
    )


def show(
    feed: Feed, analysis: Analysis, settings: ScreenSettings, leave_now: Callable[[], bool],
    on_interrupt: Callable[[], object] = lambda: None,
) -> str | None:  # fmt: skip
    """Run the live screen until the user leaves it or it fails. Return the error as one line, or None after no failure.

    `feed` gives the data, and `analysis` makes results from it. `leave_now` is called at every refresh; if it returns
    True, the screen closes without a question. `on_interrupt` is called when the user presses Ctrl+C, before the screen
    stops the run. Raises InputError if the theme is unknown or invalid.
    """
    app = EdgetopApp(monitor(feed, analysis, settings), settings, leave_now)
    app.on_interrupt = on_interrupt
    return _run(app, settings)


def show_fleet(
    fleet: "Fleet", settings: ScreenSettings, listing: FleetListing, leave_now: Callable[[], bool]
) -> str | None:
    """Run the screen that lists many boards. Return the error as one line, or None after no failure.

    `listing` holds the sort order, the filter and the cursor. The screen changes it: afterwards `listing.opened` is the
    name of the board that the user opened, or "". `leave_now` is called at every refresh; if it returns True, the
    screen closes without a question.
    """
    from edgetop.ui.fleet_screen import FleetScreen  # noqa: PLC0415  a session's screen needs none of it

    def make(app: EdgetopApp, characters: CharacterSet, theme: Theme, leaves: Callable[[], bool]) -> FleetScreen:
        return FleetScreen(app, fleet, settings, characters, theme, listing, leaves)

    return _run(EdgetopApp(make, settings, leave_now), settings)


def _run(app: EdgetopApp, settings: ScreenSettings) -> str | None:
    before = app.choices
    with contextlib.suppress(OSError):  # a container may forbid it; the screen then keeps its priority
        os.setpriority(os.PRIO_PROCESS, 0, UI_NICENESS)  # of this thread (setpriority(2)); cannot be undone
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
    app.run()
    for number, handler in handlers.items():
        signal.signal(number, handler)  # Textual's handlers would open the screen again
    if settings.remember and (changed := {key: of for key, of in app.choices.items() if of != before[key]}):
        settings.remember(changed)
    return None if app.failure is None else f"{type(app.failure).__name__}: {app.failure}"
