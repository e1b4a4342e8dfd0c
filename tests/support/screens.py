"""What a screen shows, as text: panes drawn by themselves, and the whole app without a terminal."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import events
from textual.css.stylesheet import Stylesheet
from textual.geometry import Size
from textual.pilot import Pilot

from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.feeds.feed_protocol import Can
from edgetop.ui.app import EdgetopApp, monitor
from edgetop.ui.characters import CharacterSet
from edgetop.ui.keys import Command
from edgetop.ui.monitor_screen import MonitorScreen
from edgetop.ui.panes.pane import Area
from edgetop.ui.screen_settings import ScreenSettings
from edgetop.ui.text import Line
from tests.support.scripts import ListFeed, Script
from tests.support.waiting import scaled

TEN_SECONDS = 10 * 10**9
NEVER_S = 3600.0  # between refreshes: the tests tick themselves
PATIENCE_S = scaled(10.0)
_CHARACTERS = {"space": " ", "question_mark": "?"}


def _kept(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Each app parses the same styles anew, which takes a tenth of the time of a test: here they are parsed once."""
    rules: dict[tuple[object, ...], Any] = {}

    def parsed(sheet: Stylesheet, *given: object, **named: object) -> Any:
        key = (given, *named.items(), *sheet._variables.items())
        if key not in rules:
            rules[key] = parse(sheet, *given, **named)
        return rules[key]

    return parsed


Stylesheet._parse_rules = _kept(Stylesheet._parse_rules)  # type: ignore[method-assign]


def view_of(script: Script | None, window_ns: int | None = TEN_SECONDS) -> MonitorView:
    """What a screen gets to show of a session; of None, before anything has come."""
    analysis = Analysis()
    if script:
        analysis.fold(script.whole())
    return analysis.view(window_ns).freeze()


def area(width: int, height: int, *, ascii_only: bool = False) -> Area:
    return Area(width, height, CharacterSet(ascii_only=ascii_only))


def plain(line: Line) -> str:
    return "".join(span.text for span in line)


def text_of(lines: Iterable[Line]) -> str:
    return "\n".join(plain(line) for line in lines)


_LEAVING = frozenset({"stop", "detach", "depart", "stop-other", "interrupt", "interrupt-other"})
_WRITING = frozenset({"screenshot"})


def keys_that_stay(commands: Iterable[Command]) -> tuple[str, ...]:
    """Every key of these by which nobody leaves the screen."""
    return tuple(sorted({key for c in commands if c.id not in _LEAVING | _WRITING for key in c.keys.split(",")}))


@dataclass(frozen=True, slots=True)
class Opened:
    """An app under test, whose feed gives only what a test puts into it."""

    app: EdgetopApp
    pilot: Pilot[None]
    feed: ListFeed
    script: Script

    @property
    def monitor(self) -> MonitorScreen:
        return self.app.hosted

    async def settle(self) -> None:
        """Until what has been asked is done and drawn: no task goes on but by a timer, a thread or the test.

        Not the pilot's way, which sends a message to each widget again and again: that took a third of a test's time.
        """
        ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            await asyncio.sleep(0)
            while ready:
                assert time.monotonic() < deadline, f"never at rest: {ready}"
                await asyncio.sleep(0)
            if self.app._screen_stack:
                self.app.screen._on_timer_update()
            if not ready:
                return

    async def wait_for(self, text: str) -> None:
        """Of what the toolkit does by its own clock. Raises AssertionError where it does not come."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.text:
            assert time.monotonic() < deadline, f"waited in vain for {text!r} in {self.text}"
            await self.pilot.pause(0.01)

    async def tick(self) -> None:
        """One refresh, with what has been put into the feed."""
        self.monitor.tick()
        await self.settle()

    async def go_on(self, seconds: float = 1.0) -> None:
        """The session goes on for so long, and the screen is refreshed."""
        self.script.batches.clear()
        self.feed.put(self.script.measure(seconds).whole())
        await self.tick()

    async def press(self, *keys: str) -> None:
        """Keys by their names in bindings. Not the pilot's way, which sleeps 40 ms a key."""
        for key in keys:
            name = "space" if key == " " else key
            character = _CHARACTERS.get(name, name if len(name) == 1 else None)
            self.app._driver.send_message(events.Key(name, character))  # type: ignore[union-attr]
            await self.settle()

    async def resize(self, width: int, height: int) -> None:
        self.app._driver._size = Size(width, height)  # type: ignore[union-attr]
        self.app.post_message(events.Resize(Size(width, height), Size(width, height)))
        await self.settle()
        getattr(self.app, "_check_resize", int)()  # Textual 8.1 and later wait for 8 ms otherwise
        await self.settle()

    @property
    def rows(self) -> list[str]:
        return [strip.text for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.rows)

    @property
    def header(self) -> str:
        return self.rows[0]

    @property
    def panes(self) -> dict[str, tuple[int, int, int, int]]:
        """The panes that are seen, by name: x, y, width and height."""
        return {name: tuple(pane.region) for name, pane in self.monitor._panes.items() if pane.display}


@asynccontextmanager
async def opened(
    script: Script,
    size: tuple[int, int] = (80, 24),
    *,
    ends: bool = False,
    notifications: bool = False,
    recording: Path | None = None,
    more: Can = Can.NOTHING,
    **settings: object,
) -> AsyncIterator[Opened]:
    """The app on a session that has come as far as `script`."""
    feed = ListFeed([script.whole()], ends=ends, more=more)
    choices = ScreenSettings(refresh_s=NEVER_S, first_line_s=NEVER_S, recording=recording, **settings)  # type: ignore[arg-type]
    app = EdgetopApp(monitor(feed, Analysis(), choices), choices)
    async with app.run_test(size=size, notifications=notifications) as pilot:
        screen = Opened(app, pilot, feed, script)
        await screen.settle()
        yield screen
