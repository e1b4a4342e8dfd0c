"""What the screen can do with a feed that can be played, and the line that shows where it stands.

Keys are there only where the feed can do what they ask for.
"""

from collections.abc import Callable, Iterable, Mapping

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from edgetop.analysis.analysis import Analysis
from edgetop.analysis.throttle_signals import throttling_sensors
from edgetop.feeds.protocol import Feed, Transport
from edgetop.ui.bindings import action_of, applies
from edgetop.ui.dialogs import GoToDialog
from edgetop.ui.keys import key_words
from edgetop.ui.look import Look
from edgetop.ui.pane_widget import FrameWidget
from edgetop.ui.panes.pane import Area
from edgetop.ui.panes.transport import time_at, transport_line
from edgetop.ui.text import Line
from edgetop.ui.themes import Theme

NS = 1_000_000_000
SPEEDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
JUST_PASSED_S = 2  # of playing: going back, an event so near is the one that was gone to


class PlaybackScreen(Screen[None]):
    _feed: Feed
    _analysis: Analysis

    _bound: Mapping[str, Binding]  # what can be pressed, by id

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002  Textual's
        return applies(action, self._feed.can)

    def present(self, bindings: Iterable[BindingType]) -> list[Binding]:
        """Those that apply to this feed, now."""
        return [b for b in bindings if isinstance(b, Binding) and self.check_action(action_of(b), ())]

    def _pressed(self, *ids: str) -> str:
        """What is pressed for these, the first key of each, for the last line."""
        words = [key_words(self._bound[name])[0] for name in ids]
        return "".join(word if len(word) == 1 or "+" in word else word.lower() for word in words)

    def tick(self) -> None:
        raise NotImplementedError

    def redraw_all(self) -> None:
        """Take in what has come, and draw it, also where nothing has."""
        raise NotImplementedError

    def _follow_time(self) -> None:
        raise NotImplementedError

    def transport(self) -> Transport | None:
        return self._feed.player.transport if self._feed.player else None

    def _playback_keys(self) -> list[tuple[str, str]]:
        """For the last line."""
        transport = self.transport()
        if transport is None:
            return []
        play = "pause" if transport.is_playing else "play"
        return [
            (self._pressed("play"), play),
            (self._pressed("slower", "faster"), "speed"),
            (self._pressed("next-event", "previous-event"), "event"),
            (self._pressed("throttling"), "throttled"),
            (self._pressed("go-to"), "go to"),
        ]

    def action_play(self) -> None:
        if player := self._feed.player:
            player.play(not player.transport.is_playing)
            self._follow_time()
            self.redraw_all()

    def action_speed(self, step: int) -> None:
        if player := self._feed.player:
            now = player.transport.speed
            faster = [speed for speed in SPEEDS if speed > now]
            slower = [speed for speed in SPEEDS if speed < now]
            player.set_speed((faster or SPEEDS[-1:])[0] if step > 0 else (slower or SPEEDS[:1])[-1])
            self.tick()

    def action_seek_by(self, seconds: int) -> None:
        if transport := self.transport():
            self.seek(transport.t_ns + seconds * NS)

    def action_seek_to_edge(self, edge: int) -> None:
        if transport := self.transport():
            self.seek(0 if edge < 0 else transport.end_ns)

    def action_seek_event(self, step: int) -> None:
        transport = self.transport()
        if transport is None:
            return
        to_ns = next_mark(transport, step)
        if to_ns is None:
            self.notify("no event after this" if step > 0 else "no event before this", timeout=2, markup=False)
            return
        self.seek(to_ns)

    def action_seek_throttling(self) -> None:
        player, manifest = self._feed.player, self._analysis.manifest
        if player is None or manifest is None:
            return
        to_ns = player.first_above(throttling_sensors(manifest.sensors), 0.0)
        if to_ns is None:
            self.notify("nothing throttled in this session that the board could tell", timeout=3, markup=False)
            return
        self.seek(to_ns)

    def action_go_to(self) -> None:
        if transport := self.transport():
            self.app.push_screen(GoToDialog(transport.end_ns), lambda t: None if t is None else self.seek(t))

    def on_transport_widget_asked(self, message: "TransportWidget.Asked") -> None:
        self.seek(message.t_ns)

    def seek(self, t_ns: int) -> None:
        if player := self._feed.player:
            player.seek(t_ns)
            self._follow_time()
            self.redraw_all()


def next_mark(transport: Transport, step: int) -> int | None:
    """When the next event was, or for a negative step the one before; None: there is none."""
    if step > 0:
        return min((mark.t_ns for mark in transport.marks if mark.t_ns > transport.t_ns), default=None)
    passed_ns = int(JUST_PASSED_S * NS * transport.speed) if transport.is_playing else 0
    return max((mark.t_ns for mark in transport.marks if mark.t_ns < transport.t_ns - passed_ns), default=None)


class TransportWidget(FrameWidget):
    """The line of a replay; a click in its bar goes there."""

    class Asked(Message):
        def __init__(self, t_ns: int) -> None:
            super().__init__()
            self.t_ns = t_ns

    def __init__(self, transport: Callable[[], Transport | None], theme: Theme, look: Look) -> None:
        super().__init__(self._transport_lines, theme, id="transport")
        self._transport = transport
        self._look = look

    def _transport_lines(self, columns: int, rows: int) -> list[Line]:
        transport = self._transport()
        return [transport_line(transport, Area(columns, rows, self._look))] if transport else []

    def on_click(self, event: events.Click) -> None:
        transport = self._transport()
        t_ns = time_at(transport, Area(self.size.width, 1, self._look), event.x) if transport else None
        if t_ns is not None:
            self.post_message(self.Asked(t_ns))
