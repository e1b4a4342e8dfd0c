"""What the commands that show a session share: the check of the terminal, the handling of signals, the screen."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from edgetop import standard_streams
from edgetop.errors import InputError

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis
    from edgetop.feeds.feed_protocol import Feed
    from edgetop.ui.screen_settings import ScreenSettings


def require_screen(otherwise: str) -> None:
    """Raise InputError if the terminal cannot show a screen. `otherwise` is the advice in the error."""
    if error := why_no_screen(otherwise):
        raise error


def why_no_screen(otherwise: str) -> InputError | None:
    """Return an error if the terminal cannot show a screen, or None if it can.

    `otherwise` is the advice in the error.
    """
    if not standard_streams.has_screen():
        return InputError("the screen needs a terminal as input and output", otherwise)
    if os.environ.get("TERM") == "dumb":
        return InputError("TERM=dumb: this terminal cannot show a screen", otherwise)
    return None


@contextlib.contextmanager
def signals_to(take: Callable[[int], None], *, respects_nohup: bool = True) -> Iterator[None]:
    """Call `take` with the number of each signal that would end the process, until the `with` statement ends.

    If `respects_nohup`, SIGHUP stays ignored under nohup(1).
    """
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
def aborted_by_signals() -> Iterator[None]:
    """Raise click.Abort inside the `with` statement when a signal would end the process.

    Temporary folders are then removed properly.
    """

    def abort(_number: int) -> None:
        raise click.Abort

    with signals_to(abort):
        yield


@contextlib.contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Yield a list that collects signals such as SIGTERM, by number, until the `with` statement ends.

    Meanwhile, these signals do not end the process, so the caller can close the screen properly.
    """
    signals: list[int] = []
    with signals_to(signals.append, respects_nohup=False):
        yield signals


def show_until_left(feed: "Feed", analysis: "Analysis", settings: "ScreenSettings", advice: str = "") -> None:
    """Show a session on the screen until the user leaves it. Raises InputError with `advice` if the screen fails.

    Use it for a session that is over or that another process runs.
    """
    from edgetop.ui.app import show  # noqa: PLC0415  loads Textual, while the session's past is read

    with noted_signals() as signals:
        failure = show(feed, analysis, settings, leave_now=lambda: bool(signals))
    if failure:
        raise InputError(f"the screen failed: {failure}", advice)
