"""Shared parts of the commands that show a session."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgetop.errors import InputError
from edgetop.paths import config_home, recordings_home

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis
    from edgetop.feeds.protocol import Feed
    from edgetop.ui.settings import ScreenSettings

REFRESH_NS = 1_000_000_000


def screen_settings(
    refresh_ns: int | None,
    theme: str | None,
    ascii_only: bool | None,
    recording: Path | None = None,
    *,
    notify: bool = False,
    config_file: Path | None = None,
) -> "ScreenSettings":
    """Return the screen's settings from the options and the settings files; None: the option was not given.

    Raises InputError for a theme, or a file, that is not in order.
    """
    from edgetop.cli.config import load_config  # noqa: PLC0415  --help needs none of it
    from edgetop.cli.exporting import SessionExporter  # noqa: PLC0415
    from edgetop.cli.screen_choices import load_choices, save_choices  # noqa: PLC0415
    from edgetop.ui.settings import ScreenSettings  # noqa: PLC0415

    config = load_config(config_home(), config_file)
    theme = theme or config.theme
    if theme:
        from edgetop.ui.themes import load_theme  # noqa: PLC0415  loads Textual: the engine is to start before that

        load_theme(theme)  # an unknown one is reported before anything starts
    home = recordings_home()
    chosen = load_choices(home)
    if config.has_window:
        chosen["window_ns"] = config.window_ns
    if theme:
        chosen["theme"] = theme
    return ScreenSettings(
        refresh_s=(refresh_ns or config.refresh_ns or REFRESH_NS) / 1e9,
        ascii_only=bool(config.ascii_only if ascii_only is None else ascii_only),
        recording=recording,
        exporter=SessionExporter(),
        keys=config.keys,
        notify=notify,
        remember=partial(save_choices, home),
        **chosen,
    )


def line_settings(refresh_ns: int | None, ascii_only: bool | None, config_file: Path | None) -> tuple[int, bool]:
    """The same for lines: how often there is one, in ns, and whether they are ASCII. Raises InputError."""
    from edgetop.cli.config import load_config  # noqa: PLC0415  --help needs none of it

    config = load_config(config_home(), config_file, for_screen=False)
    return refresh_ns or config.refresh_ns or REFRESH_NS, bool(config.ascii_only if ascii_only is None else ascii_only)


def require_screen(otherwise: str) -> None:
    """Raises InputError where none can be drawn; `otherwise`: what leads on without one."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InputError("the screen needs a terminal for its input and its drawing", otherwise)
    if os.environ.get("TERM") == "dumb":
        raise InputError("TERM=dumb: this terminal cannot draw a screen", otherwise)


@contextlib.contextmanager
def signals_to(take: Callable[[int], None], *, respects_nohup: bool = True) -> Iterator[None]:
    """Inside, `take` is given the signals that end a process. Under nohup(1) a hang-up is ignored."""
    handled = [signal.SIGINT, signal.SIGTERM]
    if not respects_nohup or signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _: take(number)) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Inside, signals are only collected: the screen then closes itself, and leaves the terminal in order."""
    signals: list[int] = []
    with signals_to(signals.append, respects_nohup=False):
        yield signals


def show_until_left(feed: "Feed", analysis: "Analysis", settings: "ScreenSettings", advice: str = "") -> None:
    """Show a session that another process runs, or that is over. Raises InputError where the screen fails."""
    from edgetop.ui.app import show  # noqa: PLC0415  loads Textual, while the session's past is read

    with noted_signals() as signals:
        failure = show(feed, analysis, settings, leave_now=lambda: bool(signals))
    if failure:
        raise InputError(f"the screen failed: {failure}", advice)
