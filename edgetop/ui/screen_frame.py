"""The lines around the panes: the header above them, and below them the time bar of a replay and the keys."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from textual.events import Click
from textual.geometry import Size

from edgetop.analysis.analysis import MonitorView
from edgetop.feeds.feed_protocol import Can, Feed, Transport
from edgetop.formatting import clean
from edgetop.ui.characters import CharacterSet
from edgetop.ui.keys import Command, FooterEntry, FooterGroup, footer_entries, footer_groups, footer_key
from edgetop.ui.layout import HEADER_ROWS, Place, is_tiny
from edgetop.ui.pane_widget import BorderWidget, LineWidget
from edgetop.ui.panes.header import (
    identity_line,
    key_at,
    pane_at,
    readout_line,
    status_line,
    time_at,
    tiny_lines,
    transport_line,
    verdict_line,
    vitals_line,
)
from edgetop.ui.panes.pane import Area
from edgetop.ui.screen_settings import ScreenSettings
from edgetop.ui.text import Line
from edgetop.ui.themes import Theme


class FramedScreen(Protocol):
    """The part of the session's screen that the lines around the panes use."""

    feed: Feed
    settings: ScreenSettings
    characters: CharacterSet
    live: MonitorView  # the present view, from which the first line is made
    view: MonitorView  # the view that panes show, which may be frozen, or some seconds old
    cursor_s: float | None

    @property
    def size(self) -> Size: ...

    @property
    def zoomed(self) -> str | None: ...

    @property
    def is_frozen(self) -> bool: ...

    @property
    def transport(self) -> Transport | None: ...

    def present_commands(self) -> Iterator[Command[Any]]: ...

    def action_command(self, command_id: str) -> None: ...

    def seek(self, t_ns: int) -> None: ...


class ScreenFrame:
    """The lines around the panes: the header, the time bar of a replay, and the keys.

    It draws them, and handles clicks on them.
    """

    def __init__(self, screen: FramedScreen, theme: Theme, characters: CharacterSet) -> None:
        self._screen = screen
        self._is_first_line_only = False
        self._below: tuple[Area | None, list[Line]] = None, []  # the last lines of the header below its first one
        self._groups: tuple[Can | None, list[FooterGroup]] = None, []  # of the last line, and for which abilities
        self.header = BorderWidget(self._header_lines, theme, characters, self._press_header, id="header")
        self.status = BorderWidget(self._status_lines, theme, characters, self._press_key, id="status")
        self.transport = BorderWidget(self._transport_lines, theme, characters, self._seek_to_cell, id="transport")

    @property
    def widgets(self) -> tuple[BorderWidget, ...]:
        return self.header, self.transport, self.status

    def changed(self, *, first_line_only: bool = False) -> dict[LineWidget, Sequence[int]]:
        """Update the lines to the present data. Return the numbers of the rows that changed, by widget.

        `first_line_only`: update only the first line of the screen and the time bar of a replay.
        """
        self._is_first_line_only = first_line_only
        try:
            widgets = (self.header, self.transport) if first_line_only else self.widgets
            return {widget: widget.update_lines() for widget in widgets}
        finally:
            self._is_first_line_only = False

    def arrange(self, *, is_alone: bool) -> None:
        """Put the lines in their places for the size of the screen. `is_alone`: whether one pane is shown alone."""
        columns, rows = self._screen.size
        tiny = is_tiny(columns, rows)
        header_rows = (1 if is_alone else 4) if tiny else HEADER_ROWS
        self.header.put(Place("header", 0, 0, columns, min(header_rows, rows)))
        self.status.put(Place("status", 0, rows - 1, columns, 1))
        self.status.display = not tiny
        self.transport.put(Place("transport", 0, max(0, rows - (1 if tiny else 2)), columns, 1))
        self.transport.display = self._screen.feed.player is not None

    @property
    def verdict_text(self) -> str:
        """Return the first line of the screen in full: the verdict, its details and its figures."""
        line = verdict_line(self._screen.live, Area(400, 1, self._screen.characters), None)
        return re.sub(" {3,}", "  ", "".join(text for text, _ in line)).strip()

    def _header_lines(self, area: Area) -> list[Line]:
        screen = self._screen
        live, panes, second, is_alone = screen.live, screen.view, screen.cursor_s, screen.zoomed is not None
        shown = panes if screen.is_frozen else live
        is_tiny_alone = is_tiny(*screen.size) and not is_alone  # the figures are then in the lines below
        behind_ns = live.progress.now_ns - shown.progress.now_ns if screen.is_frozen else None
        first = verdict_line(shown, area, behind_ns, panes=panes, has_figures=not is_tiny_alone)
        if is_tiny(*screen.size):
            return [first, *tiny_lines(shown)] if is_tiny_alone else [first]
        if self._is_first_line_only and self._below[0] == area:
            return [first, *self._below[1]]
        said = identity_line(
            live, area, self._recording_words(), is_trouble=bool(screen.feed.trouble),
            frozen=shown.verdict if screen.is_frozen else None,
        )  # fmt: skip
        below = [said, vitals_line(panes, area) if second is None else readout_line(panes, second, area)]
        self._below = area, below
        return [first, *below]

    def _recording_words(self) -> str:
        screen = self._screen
        if screen.feed.trouble:
            return clean(screen.feed.trouble, ascii_only=screen.characters.ascii_only)
        if screen.settings.recording is None:
            return "not recorded"
        if Can.SEEK in screen.feed.can or screen.live.progress.phase == "over":
            return "recorded"
        words = "REC paused" if screen.live.recording_paused else "REC"
        return f"attached  {words}" if Can.VISIT in screen.feed.can else words

    def _press_header(self, event: Click) -> None:
        """Handle a click on line 2 or 3: show the warnings if their number is hit, or the pane of the figure hit."""
        row = "".join(text for text, _ in self.header.pieces(event.y))
        name = pane_at(row, event.x)
        if name and event.y and (event.y > 1 or name == "session"):
            self._screen.action_command(f"zoom-{name}")

    def _status_lines(self, area: Area) -> list[Line]:
        return [status_line(self._screen.live, area, [(one.keys, one.words) for one in self._entries()])]

    def _entries(self) -> list[FooterEntry[Any]]:
        can = self._screen.feed.can
        if self._groups[0] != can:
            self._groups = can, footer_groups(self._screen.present_commands())
        return footer_entries(self._groups[1], self._screen)

    def _press_key(self, event: Click) -> None:
        """Handle a click on the keys in the last line: run the command of the key under the mouse.

        Keys that share a description are written together, such as `zZ`. Each of them can be hit. A click on a range of
        keys, such as `1-8 panes`, shows the next pane alone, and all panes again after the last one.
        """
        screen = self._screen
        entries = {(one.keys, one.words): one for one in self._entries()}
        if found := key_at(screen.live, Area(screen.size.width, 1, screen.characters), list(entries), event.x):
            key, words, place = found
            commands = entries[key, words].commands
            ids = [command.id for command in commands]
            each = [one.id for one in commands for _ in footer_key(one)]  # the command of each character of the keys
            if len(ids) == 1:
                screen.action_command(ids[0])
            elif len(each) == len(key) and len(ids) == 2:
                screen.action_command(each[place])
            elif ids and all(one.startswith("zoom-") for one in ids):
                shown = f"zoom-{screen.zoomed}"
                screen.action_command(ids[min(ids.index(shown) + 1, len(ids) - 1)] if shown in ids else ids[0])

    def _transport_lines(self, area: Area) -> list[Line]:
        transport = self._screen.transport
        return [transport_line(transport, area)] if transport else []

    def _seek_to_cell(self, event: Click) -> None:
        screen, transport = self._screen, self._screen.transport
        t_ns = time_at(transport, Area(screen.size.width, 1, screen.characters), event.x) if transport else None
        if t_ns is not None:
            screen.seek(t_ns)
