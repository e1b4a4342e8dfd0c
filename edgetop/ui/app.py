"""The Textual app: themes, one screen that it is opened with, and an end that leaves the session alone."""

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

UI_NICENESS = 5  # the screen gives way to the engine and to the recording


# Is given the app, how it may draw, and whether it is to close without a question.
MakeScreen = Callable[["EdgetopApp", CharacterSet, Theme, Callable[[], bool]], "MonitorScreen | FleetScreen"]


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
    ALLOW_SELECT = False  # a terminal's own selection, with Shift, copies what is seen
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "interrupt", priority=True)]

    def __init__(
        self, make: MakeScreen, settings: ScreenSettings, leave_now: Callable[[], bool] = lambda: False
    ) -> None:
        """Raises InputError for a theme that is unknown or not in order."""
        theme = load_theme(settings.theme or choose_theme())
        self.terminal_buffer = TerminalBuffer()
        super().__init__(driver_class=SteadyDriver, ansi_color=theme.uses_terminal_colours)
        self.terminal_lost = False
        self.animation_level = "none"
        self.failure: Exception | None = None
        characters = choose_characters(ascii_asked=settings.ascii_only)
        self.measured_glyphs = "" if characters.ascii_only else MEASURED  # that the driver has the terminal measure
        self.theme_names = sorted(theme_files())
        self.theme_name = theme.name
        self.hosted = make(self, characters, theme, lambda: self.terminal_lost or leave_now())
        self.register_theme(theme.for_textual())
        self.theme = theme.for_textual().name

    def on_mount(self) -> None:
        self.push_screen(self.hosted)

    def on_resize(self, event: Resize) -> None:
        """Draw the whole screen again where the size seems to be the same as before.

        Of two quick resizes Textual may report only the second, and the first has cut off what stood there.
        """
        if self.screen_stack and event.size == self.screen.size:
            self.action_redraw()

    def on_cursor_position(self, event: CursorPosition) -> None:
        """The terminal's reply to where the measured glyphs ended. Until it comes, the safe set is drawn."""
        if self.measured_glyphs and (event.x, event.y) == (len(self.measured_glyphs), 0):
            self.measured_glyphs = ""
            self.hosted.use_characters(replace(self.hosted.characters, boxes=True))

    def action_interrupt(self) -> None:
        """Ctrl+C ends a program, also where a dialog or a note has the keyboard."""
        self.hosted.interrupt()

    def action_redraw(self) -> None:
        """Draw the whole screen again, after another program wrote to the terminal, such as a kernel on its console."""
        self.terminal_buffer.forget()
        self.screen.refresh()

    @property
    def choices(self) -> dict[str, Any]:
        """Return what the user chose on the screen, to be stored for the next session."""
        return {"theme": self.theme_name, **self.hosted.choices}

    def use_theme(self, name: str) -> None:
        try:
            theme = load_theme(name)
        except InputError as error:  # a user's own, edited meanwhile
            self.notify(clean(str(error)), severity="error", markup=False)
            return
        self.theme_name = name
        self.ansi_color = theme.uses_terminal_colours
        self.register_theme(theme.for_textual())
        self.theme = theme.for_textual().name
        self.hosted.use_theme(theme)

    def notify_desktop(self, title: str, text: str) -> None:
        """Ring the terminal's bell and send a desktop notification; the screen itself does not change."""
        if self._driver:
            self._driver.write(notification(title, text, os.environ))

    def _display(self, screen: Screen[Any], renderable: RenderableType | RowsUpdate | None) -> None:
        """Textual's hook for what goes to the terminal."""
        self.terminal_buffer.fit(self.size)
        batch = self._driver.batched() if isinstance(self._driver, SteadyDriver) else contextlib.nullcontext()
        with batch:
            super()._display(screen, tightened(renderable, self.terminal_buffer))

    def paint(self, changed: Mapping[LineWidget, Sequence[int]]) -> None:
        """Send these rows of widgets at once, where nothing stands over them.

        Textual's compositor takes several times as long to find the same.
        """
        if self.is_headless or self._batch_count or self.screen is not self.hosted or self._notifications:
            for widget, rows in changed.items():
                if rows:
                    widget.refresh(*(Region(0, y, widget.size.width, 1) for y in rows))
            return
        places = [(widget.region, widget, rows) for widget, rows in changed.items() if rows and widget.display]
        # One that is not laid out yet has no region, and is drawn when it is.
        drawn = [
            (at.x, at.y + y, widget.pieces(y), at.width)
            for at, widget, rows in places
            if at.size == widget.size
            for y in rows
        ]
        if drawn:
            self._display(self.screen, RowsUpdate(drawn, self.terminal_buffer))

    def _handle_exception(self, error: Exception) -> None:
        """Textual's hook for an uncaught error: close the screen; the session continues.

        Overridden so that the user gets one line and not a traceback over the terminal.
        """
        self.failure = self.failure or error
        if self.is_headless:  # under a test, which must see it
            super()._handle_exception(error)
            return
        self.panic()  # with nothing to print


def monitor(feed: Feed, analysis: Analysis, settings: ScreenSettings) -> MakeScreen:
    commands = remapped(COMMANDS, settings.keys)
    return lambda app, characters, theme, leave_now: MonitorScreen(
        app, feed, analysis, settings, characters, theme, commands, leave_now
    )


def show(feed: Feed, analysis: Analysis, settings: ScreenSettings, leave_now: Callable[[], bool]) -> str | None:
    """Run the screen until the user leaves it, or it fails. Returns the reason of a failure, in a line.

    `leave_now` is asked at every tick: True closes the screen without a question.
    Raises InputError for a theme that cannot be used.
    """
    return _run(EdgetopApp(monitor(feed, analysis, settings), settings, leave_now), settings)


def show_fleet(
    fleet: "Fleet", settings: ScreenSettings, listing: FleetListing, leave_now: Callable[[], bool]
) -> str | None:
    """The same for many boards. `listing` is how it begins, and in the end how it was left."""
    from edgetop.ui.fleet_screen import FleetScreen  # noqa: PLC0415  a session's screen needs none of it

    def make(app: EdgetopApp, characters: CharacterSet, theme: Theme, leaves: Callable[[], bool]) -> FleetScreen:
        return FleetScreen(app, fleet, settings, characters, theme, listing, leaves)

    return _run(EdgetopApp(make, settings, leave_now), settings)


def _run(app: EdgetopApp, settings: ScreenSettings) -> str | None:
    before = app.choices
    with contextlib.suppress(OSError):  # a container may forbid it; the screen then competes as it is
        os.setpriority(os.PRIO_PROCESS, 0, UI_NICENESS)  # of this thread (setpriority(2)); it cannot be raised again
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
    app.run()
    for number, handler in handlers.items():
        signal.signal(number, handler)  # Textual's would open the screen again
    if settings.remember and (changed := {key: of for key, of in app.choices.items() if of != before[key]}):
        settings.remember(changed)
    return None if app.failure is None else f"{type(app.failure).__name__}: {app.failure}"
