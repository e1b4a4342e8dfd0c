"""The monitor screen: one timer pulls from the feed, and every pane gets the same frozen view."""

import gc
from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingsMap, BindingType
from textual.timer import Timer

from edgetop.analysis.alerts.news import AlertNews
from edgetop.analysis.alerts.words import title_words, told_words
from edgetop.analysis.analysis import PLAIN, Analysis, MonitorView
from edgetop.analysis.lens import Lens
from edgetop.feeds.protocol import Can, Feed, Player
from edgetop.formatting import clean, span
from edgetop.ui.bindings import BINDINGS, remapped
from edgetop.ui.commands import CommandsScreen
from edgetop.ui.layout import PANES, Place, arrange, is_tiny
from edgetop.ui.look import Look
from edgetop.ui.pane_widget import FrameWidget, PaneWidget
from edgetop.ui.panes import DRAWINGS
from edgetop.ui.panes.header import identity_line, tiny_lines, verdict_line
from edgetop.ui.panes.pane import Area
from edgetop.ui.panes.status import status_line
from edgetop.ui.playback import TransportWidget
from edgetop.ui.settings import WINDOWS_NS, ScreenSettings
from edgetop.ui.text import Line
from edgetop.ui.themes import Theme

NS = 1_000_000_000
WINDOWS = tuple(WINDOWS_NS.items())
OPENING_TICK_S = 0.1  # until something is measured: the first numbers must not wait for a refresh
REFRESHES_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


def bare_panes(view: MonitorView) -> frozenset[str]:
    """Those for which the board has no sensor: a line says so, and the others get their room."""
    has_heat, has_power = view.thermal.zones or view.thermal.clocks, view.power.leading
    return frozenset(name for name, has in (("heat", has_heat), ("power", has_power)) if not has)


class MonitorScreen(CommandsScreen):
    AUTO_FOCUS = ""  # a pane is marked when it is chosen
    BLANK = True  # of the screen itself only a column between panes is seen
    BINDINGS: ClassVar[list[BindingType]] = [*BINDINGS]

    def __init__(
        self, feed: Feed, analysis: Analysis, settings: ScreenSettings, look: Look, theme: Theme,
        leave_now: Callable[[], bool],
    ) -> None:  # fmt: skip
        super().__init__()
        self._feed = feed
        self._analysis = analysis
        self._settings = settings
        self._refresh_s = settings.refresh_s
        bound = remapped(BINDINGS, settings.keys)
        self._bound = {binding.id: binding for binding in bound if binding.id}
        self._bindings = BindingsMap(bound)
        self._look = look
        self._leave_now = leave_now
        self._header = FrameWidget(self._header_lines, theme, id="header")
        self._status = FrameWidget(self._status_lines, theme, id="status")
        self._transport_line = TransportWidget(self.transport, theme, look)
        self._panes = {name: PaneWidget(DRAWINGS[name], str(i), theme, look) for i, name in enumerate(PANES, 1)}
        self._selected = "events"
        self._zoomed: str | None = None
        self._bare: frozenset[str] = frozenset()
        self._window = list(WINDOWS_NS.values()).index(settings.window_ns)
        self._live = self._view = analysis.view(settings.window_ns)
        self._frozen: tuple[MonitorView, ...] = ()  # the views of all windows at one moment; none: not frozen
        self._shown_frozen: tuple[tuple[int, Lens, tuple[str, ...]], MonitorView] | None = None
        self._timer: Timer | None = None
        self._drawn_folds = -1
        self._is_opening = True  # nothing is measured yet
        self._told_trouble = ""
        self._alert_news = AlertNews()

    def compose(self) -> ComposeResult:
        yield self._header
        yield from self._panes.values()
        yield self._transport_line
        yield self._status

    def on_mount(self) -> None:
        self._timer = self.set_interval(min(OPENING_TICK_S, self._refresh_s), self.tick)
        self._arrange()
        self.tick()
        if self._feed.player:
            self.call_later(self._look_ahead, self._feed.player, self._analysis.twin())

    def _look_ahead(self, player: Player, scout: Analysis) -> None:
        """Piece by piece, with keys and refreshes in between: then one may go anywhere at once."""
        batch = player.ahead()
        if batch is not None:
            scout.fold(batch)
            player.keep(scout.known)
            self.call_later(self._look_ahead, player, scout)

    def on_resize(self) -> None:
        self._arrange()

    def use_theme(self, theme: Theme) -> None:
        for widget in (self._header, self._status, self._transport_line, *self._panes.values()):
            widget.use_theme(theme)

    # Drawing.

    def tick(self) -> None:
        """Take in what has come, and draw it."""
        self._analysis.catch_up(self._feed)
        failed = self._feed.is_over and self._analysis.progress.view().end_reason == "input-error"
        if self._leave_now() or (failed and self._feed.can is Can.NOTHING):
            self.app.exit()
            return
        if self._analysis.folds != self._drawn_folds:  # whoever folded
            self._draw()
        elif self._feed.player or self._feed.trouble != self._told_trouble:
            self._draw_frame()
        self._told_trouble = self._feed.trouble
        if self._is_opening and (self._live.latency.session or self._live.progress.phase == "over"):
            self._is_opening = False
            gc.freeze()  # the screen stays: to look through it for garbage takes 50 ms each time
            self._refresh_every(self._refresh_s)

    def _refresh_every(self, seconds: float) -> None:
        self._refresh_s = seconds
        if self._timer and not self._is_opening:
            self._timer.stop()
            self._timer = self.set_interval(seconds, self.tick)

    def _draw(self) -> None:
        """Draw the view of now, or of the moment of freezing; the frame always tells of now."""
        lens, details = (PLAIN, ()) if self._frozen else (self._lens, self._details)
        with self._analysis.lock:  # panes ask for their parts while they draw
            self._drawn_folds = self._analysis.folds
            self._live = self._analysis.view(WINDOWS[self._window][1], lens, details)
            self._view = self._frozen_view() if self._frozen else self._live
            self._tell_person()
            for pane in self._panes.values():
                pane.show(self._view)
            if self._zoomed is None and self._bare != bare_panes(self._view):
                self._arrange()
            self._draw_frame()

    def _tell_person(self) -> None:
        if self._settings.notify:
            for alert in self._alert_news.look(self._live.alerts):
                self.app.tell_person(title_words(self._live.manifest), told_words(alert))  # type: ignore[attr-defined]

    def _frozen_view(self) -> MonitorView:
        """The same object while nothing is looked at in another way."""
        asked = self._window, self._lens, self._details
        if self._shown_frozen is None or self._shown_frozen[0] != asked:
            view, is_as_it_was = self._frozen[self._window], self._lens.is_plain and not self._details
            self._shown_frozen = asked, view if is_as_it_was else self._analysis.along(view, self._lens, self._details)
        return self._shown_frozen[1]

    @property
    def _details(self) -> tuple[str, ...]:
        """What is wanted only by the pane that is alone."""
        return DRAWINGS[self._zoomed].details if self._zoomed else ()

    def redraw_all(self) -> None:
        self.tick()
        self._draw()

    def _draw_frame(self) -> None:
        for widget in (self._header, self._transport_line, self._status):
            widget.redraw()

    def _header_lines(self, columns: int, rows: int) -> list[Line]:
        area = Area(columns, rows, self._look)
        first = verdict_line(self._live, area, self._behind_ns())
        if not is_tiny(*self.size):
            words = self._recording_words()
            return [first, identity_line(self._live, area, words, is_trouble=bool(self._feed.trouble))]
        return [first, *tiny_lines(self._live)] if self._zoomed is None else [first]

    def _status_lines(self, columns: int, rows: int) -> list[Line]:
        return [status_line(self._live, Area(columns, rows, self._look), self._footer())]

    def _behind_ns(self) -> int | None:
        return self._live.progress.now_ns - self._view.progress.now_ns if self._frozen else None

    def _recording_words(self) -> str:
        if self._feed.trouble:
            return clean(self._feed.trouble, ascii_only=self._look.ascii_only)
        if self._settings.recording is None:
            return "not recorded"
        if Can.SEEK in self._feed.can:
            return "recorded"
        words = "REC paused" if self._live.recording_paused else "REC"
        return f"attached  {words}" if Can.VISIT in self._feed.can else words

    def _footer(self) -> list[tuple[str, str]]:
        """The keys that apply, the most wanted first."""
        window, _ = WINDOWS[self._window]
        space = self._playback_keys() or [(self._pressed("freeze"), "go on" if self._frozen else "freeze")]
        keys = [("help", "help"), ("leave", "leave")]
        if Can.DETACH in self._feed.can:
            keys.append(("detach", "detach"))
        shown = [(self._pressed(name), does) for name, does in keys]
        shown += [
            *space,
            *self._timeline_keys(),
            (self._pressed("window"), window),
            (f"1-{len(PANES)}", "panes"),
            *self._list_keys(),
        ]
        after = [("mark", "mark")] if Can.MARK in self._feed.can else []
        after += [("palette", "commands"), ("recording", "recording"), ("export", "export"), ("reset", "reset")]
        shown += [(self._pressed(name), does) for name, does in (*after, ("theme", "theme"))]
        if self._feed.player is None:
            is_changed = self._refresh_s != self._settings.refresh_s
            every = f"every {span(self._refresh_s * NS)}" if is_changed else "refresh"
            shown.append((self._pressed("refresh-shorter", "refresh-longer"), every))
        return shown

    def _arrange(self) -> None:
        """Put every pane in its place for this size."""
        columns, rows = self.size
        tiny = is_tiny(columns, rows)
        header_rows = (1 if self._zoomed else 4) if tiny else 2
        self._header.put(Place("header", 0, 0, columns, min(header_rows, rows)))
        self._status.put(Place("status", 0, rows - 1, columns, 1))
        self._status.display = not tiny
        self._bare = bare_panes(self._view)
        more = 1 if self._feed.player else 0
        self._transport_line.put(Place("transport", 0, max(0, rows - (1 if tiny else 2)), columns, 1))
        self._transport_line.display = bool(more)
        arranged = arrange(columns, rows, self._selected, self._zoomed, bare=self._bare, more_rows=more)
        places = {place.name: place for place in arranged}
        for name, pane in self._panes.items():
            pane.display = name in places
            pane.set_zoomed(is_zoomed=name == self._zoomed)
            if name in places:
                pane.put(places[name])
        self._draw_frame()

    # Keys.

    def action_freeze(self) -> None:
        if self._frozen:
            self._frozen = ()
            self._follow_time()
        else:
            self._freeze()
        self._draw()

    def _freeze(self) -> None:
        with self._analysis.lock:
            self._frozen = tuple(self._analysis.view(window_ns).freeze() for window_ns in WINDOWS_NS.values())
        self._shown_frozen = None

    def hold(self) -> None:
        if player := self._feed.player:
            player.play(playing=False)
        elif not self._frozen:
            self._freeze()

    def action_window(self) -> None:
        self.use_window((self._window + 1) % len(WINDOWS))

    def use_window(self, window: int) -> None:
        self._window = window
        self._draw()

    def action_zoom(self, name: str) -> None:
        self._zoomed = None if self._zoomed == name else name
        self._mark_pane(name if self._zoomed else None)

    def on_pane_widget_zoom(self, message: PaneWidget.Zoom) -> None:
        self.action_zoom(message.pane)

    def action_back(self) -> None:
        self._zoomed = None
        self._mark_pane(None)

    def action_next_pane(self, step: int) -> None:
        """The next pane: focused where it is seen, put where the selected one was where it is not."""
        name = PANES[(PANES.index(self._chosen()) + step) % len(PANES)]
        if self._zoomed:
            self._zoomed = name
        else:
            self._selected = name
        self._mark_pane(name)

    def _mark_pane(self, name: str | None) -> None:
        self._draw()  # also what only a pane that is alone shows
        self._arrange()
        self.set_focus(self._panes[name] if name else None)
        self._status.redraw()  # which tells its keys

    def action_scroll_pane(self, by: int) -> None:
        self._panes[self._chosen()].scroll_lines(by)

    def action_scroll_to_edge(self, edge: int) -> None:
        self.action_scroll_pane(edge * 100_000)

    def _chosen(self) -> str:
        """The pane that keys are meant for: the one that is marked, or else the one put on a small screen."""
        return next((name for name, pane in self._panes.items() if pane.has_focus), self._selected)

    def action_reset(self) -> None:
        self._analysis.reset()
        self._draw()
        self.notify("statistics begin anew; the recording keeps all", timeout=3, markup=False)

    def action_refresh_step(self, step: int) -> None:
        """Draw more often, or less."""
        nearest = min(range(len(REFRESHES_S)), key=lambda i: abs(REFRESHES_S[i] - self._refresh_s))
        self._refresh_every(REFRESHES_S[min(max(nearest + step, 0), len(REFRESHES_S) - 1)])
        self._draw_frame()
        self.notify(f"drawn every {span(self._refresh_s * NS)}", timeout=2, markup=False)
