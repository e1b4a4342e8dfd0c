"""The live screen of a session. One timer gets new data, and all panes show the same results.

The commands of keys are in `key_commands`. The screen gets them as a list, and runs a command by its id.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any, Protocol

from textual.app import ComposeResult
from textual.events import Click, Key, MouseUp
from textual.screen import Screen
from textual.timer import Timer

from edgetop.analysis.alerts.alert import AlertNews
from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.analysis.recent_events import derived_events
from edgetop.analysis.timeline import Lens
from edgetop.feeds.feed_protocol import Can, Feed, Mark, Player, Transport
from edgetop.formatting import clean
from edgetop.ui.characters import CharacterSet
from edgetop.ui.charts import GUTTER
from edgetop.ui.held_warnings import HeldWarnings
from edgetop.ui.keys import Command, bindings, follow_key
from edgetop.ui.layout import ABSENT, LAYOUTS, PANES, TIMELINES, arrange
from edgetop.ui.pane_widget import LineWidget, PaneWidget
from edgetop.ui.panes import DRAWINGS
from edgetop.ui.panes.memory_pane import has_chart as has_memory_chart
from edgetop.ui.panes.pane import Drawing, Listing
from edgetop.ui.panes.sensor_series import is_flat
from edgetop.ui.panes.thermal_pane import has_charts
from edgetop.ui.redraws import Rhythm, can_wait, news
from edgetop.ui.screen_frame import ScreenFrame
from edgetop.ui.screen_settings import WINDOWS_NS, ScreenSettings, StoredSession
from edgetop.ui.screenshot import Exports
from edgetop.ui.themes import Theme
from edgetop.wording.alert_words import alert_words, title_words
from edgetop.wording.fault_words import fault_words

NS = 1_000_000_000
GARBAGE_OBJECTS = (
    10_000  # a refresh creates and drops 2,500 objects; with Python's default, 700, collection takes 7 % of the time
)
OPENING_TICK_S = 0.1  # interval until something is measured, so that the first numbers appear at once
ASKED_S = 3.0
LEAST_DRAG_CELLS = 3
MOST_Y_ZOOM = 6  # steps by which the latency axis can be zoomed in or out
LISTS = ("hotspots", "events", "sensors")  # panes that keys for lists apply to, in order of preference


def chart_counts(view: MonitorView) -> dict[str, int]:
    """Return how many timelines each pane must draw, such as `{"heat": 2, "power": 0, "memory": 1, "hotspots": 0}`.

    The number is 0 if all timelines of the pane are flat, and ABSENT if the board has no sensor for the pane. For
    "hotspots", which has no timelines, it is 1 if operators are known, else 0.
    """
    heat, memory = sum(has_charts(view)), int(has_memory_chart(view))
    power = int(not is_flat(view.power.points, "W")) if view.power.leading else ABSENT
    counts = {"heat": heat if view.thermal.zones or view.thermal.clocks else ABSENT, "power": power, "memory": memory}
    counts["hotspots"] = int(bool(view.operators.operators or view.operators.way or view.frames))
    # A pane that cannot be shown because of an internal error stays visible, with the error.
    return {name: 0 if view.fault_of(DRAWINGS[name].parts) else count for name, count in counts.items()}


class Host(Protocol):
    """The part of the app that the session's screen uses."""

    theme_names: list[str]
    theme_name: str

    def use_theme(self, name: str) -> None: ...

    def action_redraw(self) -> None: ...

    def notify_desktop(self, title: str, text: str) -> None: ...

    def paint(self, changed: Mapping[LineWidget, Sequence[int]]) -> None: ...


class MonitorScreen(Screen[None]):
    AUTO_FOCUS = ""  # no pane has the focus at first
    BLANK = True  # the background is visible only in a column between panes

    def __init__(
        self, host: Host, feed: Feed, analysis: Analysis, settings: ScreenSettings, characters: CharacterSet,
        theme: Theme, commands: Sequence["Command[MonitorScreen]"], leave_now: Callable[[], bool],
    ) -> None:  # fmt: skip
        super().__init__()
        self.host, self.feed, self.analysis, self.settings, self.characters = host, feed, analysis, settings, characters
        self.exports = Exports(self, settings, characters)
        self.refresh_s = settings.refresh_s
        self._calls = 0  # of the timer since the whole screen was drawn
        self.window_ns = settings.window_ns
        self.lens = Lens()
        self.live = self.view = analysis.view(
            settings.window_ns
        )  # the current view, and the one that panes show, which may be frozen
        self._commands = {command.id: command for command in commands}
        self._present: tuple[Can | None, tuple[Command[MonitorScreen], ...]] = (
            None,
            (),
        )  # the commands that apply, and the abilities for which they were chosen
        self._keys = bindings(commands)
        self._leave_now = leave_now
        self._frame = ScreenFrame(self, theme, characters)
        self._panes = {
            name: PaneWidget(
                DRAWINGS[name], str(i), theme, characters, self._press_pane, self._point, self.action_command
            )
            for i, name in enumerate(PANES, 1)
        }
        self._selected = "events"
        self._zoomed: str | None = None
        self._layout = settings.layout or next(iter(LAYOUTS))
        for name, order in settings.orders.items():
            self.sort(self._panes[name], order)
        self._chart_counts: dict[str, int] = {}
        self.cursor_s: float | None = None  # session time at which the user reads values
        self._frozen: dict[int | None, MonitorView] = {}  # views of the frozen moment by window; empty if not frozen
        self._frozen_view: tuple[tuple[int | None, Lens, tuple[str, ...]], MonitorView] | None = None
        self._timer: Timer | None = None
        self._is_clock_ahead = False  # whether the clock was set to a time whose data was not analysed yet
        self._drawn_folds = self._line_folds = -1  # number of folds when all was drawn, and when the first line was
        self._drawn_news: tuple[object, ...] = ()
        self._is_opening = True  # whether nothing has been measured yet
        self._trouble = ""  # problem of the feed that is on the screen
        self._alert_news = AlertNews()
        self._held = HeldWarnings()
        self._asked = "", 0.0  # command that waits for a second press of its key, and the end of that wait
        self._marks: tuple[Mark, ...] = ()  # marks of a replay, once it has been scanned

        self._widgets = (self._frame.header, *self._panes.values(), self._frame.transport, self._frame.status)
        for widget in self._widgets:
            widget.on_fault = self._take_fault

    def _take_fault(self, name: str, error: Exception) -> str:
        """Record that the widget called `name` failed with `error`. Return the text that the widget shows instead."""
        self.analysis.faults.add(name, error)
        return clean(fault_words(self.analysis.faults.found[name]), ascii_only=self.characters.ascii_only)

    def compose(self) -> ComposeResult:
        yield from self._widgets

    def on_mount(self) -> None:
        self._timer = self.set_interval(min(OPENING_TICK_S, self.refresh_s), self._beat)
        self._arrange()
        self.tick()
        if self.feed.player:
            self.call_later(self._look_ahead, self.feed.player, self.analysis.twin())

    def _look_ahead(self, player: Player, scout: Analysis) -> None:
        """Analyse the next part of a replay in advance, then schedule the part after it. Keys are handled in between.

        `scout` is a second analysis, which is ahead of the analysis on the screen. States of it are stored, so that the
        user can seek to a later time at once. At the end of the replay, the events of the whole session become marks on
        the time bar.
        """
        batch = player.ahead()
        if batch is not None:
            scout.fold(batch)
            if (at_ns := player.checkpoint_ns()) is not None:
                self.analysis.save_checkpoint(at_ns, scout)
            self.call_later(self._look_ahead, player, scout)
        else:
            derived = derived_events(scout.slowdowns_view(), scout.throttles.view(), scout.alerts_view())
            found = [Mark(event.t_ns, event.kind, event.severity) for event in derived]
            recorded = [of for of in player.transport.marks if of.kind not in ("throttle-begin", "throttle-end")]
            self._marks = tuple(sorted([*recorded, *found], key=lambda mark: mark.t_ns))
            self._frame.transport.redraw()

    def on_resize(self) -> None:
        self._arrange()
        self._draw_if_behind()

    def use_theme(self, theme: Theme) -> None:
        for widget in self._widgets:
            widget.use_theme(theme)

    @property
    def choices(self) -> dict[str, Any]:
        """Return what the user chose on the screen: window, layout and sort orders.

        The form is `{"window": "10s", "layout": "overview", "orders": {"hotspots": "share"}}`.
        """
        orders = {
            name: pane.listing.order_of(pane.drawing.orders)
            for name, pane in self._panes.items()
            if pane.drawing.orders
        }
        return {"window": self.window_name, "layout": self._layout, "orders": orders}

    def use_characters(self, characters: CharacterSet) -> None:
        self.characters = characters
        for widget in self._widgets:
            widget.use_characters(characters)

    def report(self, text: str, *, seconds: float = 2) -> None:
        """Show a message on top of the screen for some seconds."""
        self.notify(text, timeout=seconds, markup=False)

    @property
    def verdict_text(self) -> str:
        """Return the first line of the screen in full: the verdict, its details and its figures."""
        return self._frame.verdict_text

    @property
    def zoomed(self) -> str | None:
        """Return the name of the pane that is shown alone, or None if several panes are shown."""
        return self._zoomed

    @property
    def is_ascii(self) -> bool:
        return self.characters.ascii_only

    def show_session(self, session: StoredSession) -> None:
        """Show another session on the terminal until the user leaves it. This screen's session goes on meanwhile."""
        if sessions := self.settings.sessions:
            with self.app.suspend():
                problem = sessions.show(session, self._leave_now)
            self.redraw_all()
            if problem:
                self.report(clean(problem, ascii_only=self.is_ascii), seconds=8)

    # Commands.

    def present_commands(self) -> Iterator["Command[MonitorScreen]"]:
        """Yield the commands that can be used now, which depends on the data source: a live run or a replay."""
        can = self.feed.can
        if self._present[0] != can:
            self._present = can, tuple(command for command in self._commands.values() if command.applies(can))
        return iter(self._present[1])

    async def on_key(self, event: Key) -> None:
        await follow_key(event, self, self._keys)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whether the command of a key can be used now. Textual calls this method."""
        return action != "command" or self._commands[str(parameters[0])].applies(self.feed.can)

    def action_command(self, command_id: str) -> None:
        """Run the command with this id. A command that might do harm runs only at the second press of its key."""
        command, before = self._commands[command_id], self._asked
        self._asked = (command_id, monotonic() + ASKED_S) if command.asks else ("", 0.0)
        if command.asks and (before[0] != command_id or monotonic() > before[1]):
            self.report(f"{command.key_words[0]} again: {command.asks}", seconds=ASKED_S)
        else:
            self._asked = "", 0.0
            command.run(self)
            self._draw_if_behind()

    def interrupt(self) -> None:
        """Do what Ctrl+C does: stop the run and leave, or only leave if another process runs the session."""
        next(command for command in self.present_commands() if command.is_fixed).run(self)

    # Drawing.

    @property
    def _rhythm(self) -> Rhythm:
        return Rhythm.of(self.refresh_s, self.settings.first_line_s)

    def _beat(self) -> None:
        """Analyse new data, and draw the first line, or everything if that is due. The timer calls this method.

        At every second call, only set the clock if there is no news.
        """
        self._calls += 1
        is_whole = self._is_opening or self._calls >= self._rhythm.calls
        waiting = () if is_whole or self._is_clock_ahead else self.feed.waiting
        if waiting and can_wait(waiting) and not self._leave_now():
            self._set_clock(waiting[-1].until_ns)
        else:
            self.tick(is_whole=is_whole)

    def _set_clock(self, now_ns: int) -> None:
        """Draw the first line with the elapsed time `now_ns`, in ns, and with the results of the last analysis."""
        self._is_clock_ahead = True
        with self.analysis.lock:
            self.live = self.live.replaced(progress=self.live.progress.at(now_ns))
            self.host.paint(self._frame.changed(first_line_only=True))

    def _follow_clock(self) -> None:
        """Analyse the data up to the time that the screen shows, if the clock was set without them."""
        if self._is_clock_ahead:
            self._is_clock_ahead = False
            self.analysis.catch_up(self.feed)
            self._line_folds = self.analysis.folds

    def tick(self, *, is_whole: bool = True) -> None:
        """Analyse new data, and draw the results. Close the screen if it must end.

        If `is_whole` is False, draw only the first line, unless there is news, such as another verdict or an event.
        """
        self._is_clock_ahead = False
        self.analysis.catch_up(self.feed)
        failed = self.feed.is_over and self.analysis.progress.view().end_reason == "input-error"
        if self._leave_now() or (failed and self.feed.can is Can.NOTHING):
            self.app.exit()
            return
        folds = self.analysis.folds  # another thread may have folded the data
        if folds != self._drawn_folds and is_whole:
            self.draw()
        elif folds != self._line_folds:
            self._draw_line()
        elif self.feed.player or self.feed.trouble != self._trouble:
            self.draw_frame()
        self._trouble = self.feed.trouble
        if self._is_opening and (self.live.latency.session or self.live.progress.phase == "over"):
            self._is_opening = False
            gc.freeze()  # exclude the objects of the screen, because scanning them takes 50 ms each time
            gc.set_threshold(GARBAGE_OBJECTS)
            self.refresh_every(self.refresh_s)

    def refresh_every(self, seconds: float) -> None:
        self.refresh_s = seconds
        if self._timer and not self._is_opening:
            self._timer.stop()
            self._timer = self.set_interval(self._rhythm.interval_s, self._beat)

    def draw(self) -> None:
        """Draw the screen: the present results, or those of the moment at which the user froze it.

        The second line and the last line always show the present state.
        """
        self._follow_clock()
        with self.analysis.lock:  # panes read parts of the analysis while they draw
            self._look()
            self._drawn_folds, self._calls, self._drawn_news = self.analysis.folds, 0, news(self.live)
            progress = self.live.progress
            held = self._held.with_held(self.live.notices, progress.now_ns, is_over=progress.phase == "over")
            self.live.show_notices(held)
            self.view = self._view_of_frozen() if self._frozen else self.live
            changed = ((pane, pane.show(self.view, self.cursor_s)) for pane in self._panes.values())
            self.host.paint({**dict[LineWidget, Sequence[int]](changed), **self._frame.changed()})
            if self._zoomed is None and self._chart_counts != chart_counts(self.view):
                self._arrange()

    def _look(self) -> None:
        """Get the present results, and report new alerts."""
        lens, details = (Lens(columns=self.lens.columns), ()) if self._frozen else (self.lens, self._details)
        self._line_folds = self.analysis.folds
        self.live = self.analysis.view(self.window_ns, lens, details)
        for alert in self._alert_news.due(self.live.alerts) if self.settings.notify else ():
            self.host.notify_desktop(title_words(self.live.manifest), alert_words(alert))

    def _draw_line(self) -> None:
        """Draw the first line with the present results. If there is news, such as another verdict, draw everything."""
        with self.analysis.lock:
            notices = self.live.notices
            self._look()
            self.live.show_notices(notices)
            if news(self.live) == self._drawn_news:
                self.host.paint(self._frame.changed(first_line_only=True))
                return
        self.draw()

    def _draw_if_behind(self) -> None:
        """Draw everything if the panes are older than the first line. Called after the user has done something."""
        if self._is_clock_ahead or self._drawn_folds != self._line_folds:
            self.draw()

    def _view_of_frozen(self) -> MonitorView:
        """Return the results at the moment at which the user froze the screen.

        The same object is returned again until the window, the span of the timelines or the pane that is shown alone
        changes.
        """
        key = self.window_ns, self.lens, self._details
        if self._frozen_view is None or self._frozen_view[0] != key:
            view, is_plain = self._frozen[self.window_ns], self.lens.is_plain and not self._details
            self._frozen_view = key, view if is_plain else self.analysis.along(view, self.lens, self._details)
        return self._frozen_view[1]

    @property
    def _details(self) -> tuple[str, ...]:
        """Return kinds of sensors, such as `temp`: those that have timelines in the pane that is shown alone.

        Return () if several panes are shown.
        """
        return DRAWINGS[self._zoomed].details if self._zoomed else ()

    def redraw_all(self) -> None:
        """Analyse new data, and draw everything again even if there is no new data."""
        self.tick()
        self.draw()

    def draw_frame(self) -> None:
        self.host.paint(self._frame.changed())

    def _arrange(self) -> None:
        (columns, rows), more = self.size, int(self.feed.player is not None)
        self._frame.arrange(is_alone=self._zoomed is not None)
        self._chart_counts = chart_counts(self.view)
        arranged = arrange(
            columns, rows, self._selected, self._zoomed, layout=self._layout, charts=self._chart_counts, more_rows=more
        )
        places = {place.name: place for place in arranged}
        charted = next((places[name] for name in TIMELINES if name in places), None)
        columns_before = self.lens.columns
        if charted and charted.width > GUTTER + 2:
            self.lens = replace(self.lens, columns=charted.width - 2 - GUTTER)
        for name, pane in self._panes.items():
            pane.display = name in places
            pane.is_zoomed = name == self._zoomed
            if name in places:
                pane.put(places[name])
        if self.lens.columns != columns_before:
            self.draw()
        else:
            self.draw_frame()

    # Time.

    @property
    def transport(self) -> Transport | None:
        """Return the state of a replay: its position, length, speed and marks. Return None for a live run."""
        transport = self.feed.player.transport if self.feed.player else None
        return replace(transport, marks=self._marks) if transport and self._marks else transport

    def seek(self, t_ns: int) -> None:
        if player := self.feed.player:
            player.seek(t_ns)
            self.follow_time()
            self.redraw_all()

    @property
    def is_frozen(self) -> bool:
        return bool(self._frozen)

    def toggle_freeze(self) -> None:
        if self._frozen:
            self._frozen = {}
            self.follow_time()
        else:
            self._freeze()
        self.draw()

    def _freeze(self) -> None:
        self._follow_clock()
        with self.analysis.lock:
            self._frozen = {window_ns: self.analysis.view(window_ns).freeze() for window_ns in WINDOWS_NS.values()}
        self._frozen_view = None

    def hold(self) -> None:
        """Freeze a live screen, or pause a replay."""
        if player := self.feed.player:
            player.play(playing=False)
        elif not self._frozen:
            self._freeze()

    def follow_time(self) -> None:
        """Let the timelines end at the present again. The zoom stays."""
        self.lens = replace(self.lens, back_s=0)

    def use_lens(self, lens: Lens) -> None:
        if lens != self.lens:
            self.lens = lens
            self.redraw_all()

    @property
    def window_name(self) -> str:
        return next(name for name, window_ns in WINDOWS_NS.items() if window_ns == self.window_ns)

    def zoom_latency(self, step: int) -> None:
        """Zoom the latency axis of the heat map in, or out if `step` is negative."""
        pane = self._panes["latency"]
        pane.y_zoom = min(max(pane.y_zoom + step, -MOST_Y_ZOOM), MOST_Y_ZOOM)
        pane.redraw()

    def use_window(self, window_ns: int | None) -> None:
        self.window_ns = window_ns
        self.draw()

    # Panes.

    def use_next_layout(self) -> None:
        names = list(LAYOUTS)
        self._layout, self._zoomed = names[(names.index(self._layout) + 1) % len(names)], None
        self._focus(None)
        self.report(f"layout {self._layout}")

    def reset_view(self) -> None:
        """Return to the default sort orders, layout and time window for percentiles."""
        self._layout, self._zoomed = next(iter(LAYOUTS)), None
        for pane in self._panes.values():
            pane.use_listing(replace(pane.listing, order=0))
        self.window_ns = self.settings.reset_window_ns
        self._focus(None)

    def point_at(self, second: float | None) -> None:
        """Put the cursor of the timelines at a session time in s, to show the values there. None removes the cursor.

        If that time is outside the timelines, the cursor is put at their nearest end.
        """
        axis = self.view.axis
        if second is not None:
            second = max(min(second, axis.to_s - 1e-3, self.view.progress.now_ns / NS - 1e-3), axis.from_s, 0)
        if second != self.cursor_s:
            self.cursor_s = second
            self.draw()

    def step_cursor(self, step: int) -> None:
        """Move the cursor of the timelines by `step` columns, to the left if it is negative.

        Without a cursor, put it at the newest second.
        """
        now_s = self.view.progress.now_ns / NS
        at = now_s if self.cursor_s is None else self.cursor_s + step * self.view.axis.column_s
        self.point_at(at)

    def zoom(self, name: str) -> None:
        """Show only the pane with this name, or all panes again if only that pane is shown already."""
        self._zoomed = None if self._zoomed == name else name
        self._focus(name if self._zoomed else None)

    def _press_pane(self, pane: PaneWidget, order: str, event: Click) -> None:
        """Handle a click on a pane. A double click shows the pane alone; a click on a column header sorts its list.

        `order` is the sort order of that column, or "" if no column header was hit.
        """
        if event.chain == 2:
            self.zoom(pane.drawing.name)
        elif order:
            self.sort(pane, order)
        self._frame.status.redraw()
        self._draw_if_behind()

    def on_mouse_up(self, event: MouseUp) -> None:
        for pane in self._panes.values():
            pane.end_drag(event.screen_x - pane.region.x)

    def _point(self, begin: float, end: float) -> None:
        """Handle the mouse on a timeline: a click shows the values at that time, and a drag zooms to the dragged span.

        `begin` and `end` are the left and the right end of the drag, as shares of the timeline from 0 to 1.
        """
        axis = self.view.axis  # of what the user pointed at
        begin_s, end_s = (axis.from_s + part * (axis.to_s - axis.from_s) for part in (begin, end))
        if (end - begin) * self.size.width < LEAST_DRAG_CELLS:
            self.point_at(begin_s)
            return
        self.point_at(None)
        self.hold()
        self.use_lens(self.lens.between(begin_s, end_s, self.view.progress.now_ns / NS))

    def sort(self, pane: PaneWidget, order: str = "") -> None:
        """Sort the list of a pane by `order`, such as `share`. If `order` is "", use the next of the pane's orders."""
        orders, now = pane.drawing.orders, pane.listing.order
        pane.use_listing(replace(pane.listing, order=orders.index(order) if order else now + 1))

    def back(self) -> None:
        """Undo one step: close all explanations, else remove all filters, else undo the zoom, cursors and focus.

        If there is nothing to undo, return to the list of boards, provided that the user opened this screen from there.
        """
        explained = [pane for pane in self._panes.values() if pane.stop_explaining()]
        if explained:
            return
        if filtered := [pane for pane in self._panes.values() if pane.listing.is_filtered]:
            for pane in filtered:
                pane.use_listing(Listing(pane.listing.order))
            return
        if self.settings.is_visited and self._zoomed is None and self.cursor_s is None and self.focused is None:
            self.app.exit()
        self._zoomed = self.cursor_s = None
        for pane in self._panes.values():
            pane.choose(None)
        self._focus(None)

    def step_pane(self, step: int) -> None:
        """Move the focus to the next pane, or to the previous one if `step` is -1.

        If one pane is shown alone, the next pane is shown alone instead. If the next pane is hidden because not all
        panes fit, it is shown in place of another.
        """
        name = PANES[(PANES.index(self._chosen()) + step) % len(PANES)]
        if self._zoomed:
            self._zoomed = name
        else:
            self._selected = name
        self._focus(name)

    def _focus(self, name: str | None) -> None:
        self.draw()  # a pane that is alone shows more
        self._arrange()
        self.set_focus(self._panes[name] if name else None)
        self._frame.status.redraw()  # the keys depend on the pane

    @property
    def chosen_pane(self) -> PaneWidget:
        return self._panes[self._chosen()]

    def _chosen(self) -> str:
        """Return the name of the pane that keys apply to: the focused pane, or else the last one that was chosen."""
        if self.focused is None:  # asking each pane takes ten times as long
            return self._selected
        return next((name for name, pane in self._panes.items() if pane.has_focus), self._selected)

    def listing_pane(self, can: Callable[[Drawing], bool]) -> PaneWidget:
        """Return the pane with a list to which a key such as "sort" or "filter" applies.

        `can` returns True for the panes to which the key can apply. The focused pane is returned if it is one of them.
        Otherwise a visible pane is returned or, if there is none, a hidden one.
        """
        able = [pane for pane in map(self._panes.__getitem__, LISTS) if can(pane.drawing)]
        return min(able, key=lambda pane: (pane.drawing.name != self._chosen(), not pane.display))
