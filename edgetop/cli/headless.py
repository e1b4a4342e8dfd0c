"""A session without a screen: a bar on a terminal, plain lines elsewhere, all of it on stderr."""

import contextlib
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import click

from edgetop import formatting
from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.analysis.statistics import Statistics
from edgetop.cli.announcer import Announcer
from edgetop.cli.plain import PlainLines
from edgetop.cli.terminal import trim_log
from edgetop.feeds.live import LiveFeed
from edgetop.formatting import clean

BAR_WIDTH = 24
LINE_EVERY_NS = 10_000_000_000
QUIET_LOADING_NS = 3_000_000_000
REDRAW_S = 0.5
WINDOW_NS = 10_000_000_000


class Session(Protocol):
    feed: LiveFeed
    analysis: Analysis

    def fold(self) -> None: ...


class Say(Protocol):
    def __call__(self, text: str, end: str = "\n") -> None: ...


class Shown(Protocol):
    def show(self, view: MonitorView) -> bool:
        """Whether anything was said."""

    def close(self) -> None: ...


def shown_on_stderr(live_ns: int | None = None, *, ascii_only: bool = False) -> Shown:
    """`live_ns`: a plain line so often."""
    say = partial(_say, ascii_only=ascii_only)
    if live_ns is not None:
        return Plain(live_ns, say)
    return Bar(say) if sys.stderr.isatty() else Lines(say)


def show_progress(
    session: Session,
    is_enough: Callable[[], bool] = lambda: False,
    *,
    log: Path | None = None,
    live_ns: int | None = None,
    announcer: Announcer | None = None,
    ascii_only: bool = False,
) -> None:
    """Follow the session to its end, or until it is enough. `log`: what stderr is, where it must not grow for ever."""
    shown = shown_on_stderr(live_ns, ascii_only=ascii_only)
    while not session.feed.is_over and not is_enough():
        session.feed.arrived.wait(REDRAW_S)
        session.fold()
        view = session.analysis.view(WINDOW_NS)
        if announcer:
            announcer.look(view)
        if shown.show(view) and log:
            trim_log(log)
    shown.close()


class Bar:
    """One line that is drawn over itself."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._shown = ""

    def show(self, view: MonitorView) -> bool:
        """Whether anything was said."""
        if view.progress.end_reason == "input-error":  # told in a line of its own
            self._shown = ""
            self._say("\r\x1b[K", end="")
            return True
        line = clean(f"{progress_bar(view)} {progress_line(view)}")
        with contextlib.suppress(OSError):  # a line that wraps cannot be drawn over
            line = formatting.cut(line, os.get_terminal_size(sys.stderr.fileno()).columns - 1)
        if line == self._shown:
            return False
        self._shown = line
        self._say(f"\r{line}\x1b[K", end="")
        return True

    def close(self) -> None:
        if self._shown:
            self._say("")


class Lines:
    """A line when something changes, and every ten seconds.

    Nothing while a model loads quickly or cannot be loaded: that is told in one line of its own.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self._told: tuple[str, tuple[str, ...]] = ("", ())  # the verdict's word, and what stood beside it
        self._next_ns = QUIET_LOADING_NS

    def show(self, view: MonitorView) -> bool:
        """Whether anything was said."""
        now_ns, told = view.progress.now_ns, (view.verdict.word, tuple(also.split()[0] for also in view.verdict.also))
        changed = told != self._told and view.progress.measured_ns is not None
        if not changed and now_ns < self._next_ns:
            return False
        self._told = told
        self._next_ns = now_ns + LINE_EVERY_NS
        self._say(clean(progress_line(view)))
        return True

    def close(self) -> None:
        pass


class Plain:
    """Lines in words: `--live`."""

    def __init__(self, refresh_ns: int, say: Say) -> None:
        self._say = say
        self._lines = PlainLines(refresh_ns)

    def show(self, view: MonitorView) -> bool:
        """Whether anything was said."""
        line = self._lines.line(view)
        if line is not None:
            self._say(line)
        return line is not None

    def close(self) -> None:
        pass


def _say(text: str, end: str = "\n", *, ascii_only: bool = False) -> None:
    if ascii_only:
        text = formatting.plain_ascii(text)
    click.echo(f"{text}{end}", nl=False, err=True)


def progress_line(view: MonitorView) -> str:
    """`00:01:05 THROTTLING p50 2.104 p99 2.310 ms 471/s n 30.6 k: 0:27 thermal, cpu 1267 of 1728 MHz`.

    The figures stand before the details: a narrow terminal cuts the end. They are those of the last ten seconds.
    """
    words = [formatting.clock_time(view.progress.now_ns), view.verdict.word]
    if view.manifest and view.manifest.board.simulated:
        words.insert(1, "SIMULATED")
    window, session = view.latency.window, view.latency.session
    if window:
        words.append(f"{percentile_words(window, 0.50)} {percentile_words(window, 0.99)} ms")
        if window.throughput_hz is not None:
            words.append(f"{formatting.rate(window.throughput_hz)}/s")
    if session:
        words.append(f"n {formatting.count(session.count)}")
    details = view.verdict.words.removeprefix(view.verdict.word)
    return f"{' '.join(words)}{clean(details)}"


def percentile_words(statistics: Statistics, quantile: float) -> str:
    """`p99 2.310`, with a ? where too few inferences stand behind it."""
    doubt = "" if statistics.is_settled(quantile) else "?"
    return f"p{quantile * 100:g} {formatting.milliseconds(statistics.percentile_ns(quantile))}{doubt}"


def progress_bar(view: MonitorView) -> str:
    """How much of the measured phase is done, or nothing where it has no end."""
    share = done_share(view)
    if share is None:
        return ""
    filled = round(share * BAR_WIDTH)
    return f"[{'#' * filled}{'-' * (BAR_WIDTH - filled)}]"


def done_share(view: MonitorView) -> float | None:
    progress, session = view.progress, view.latency.session
    shares = []
    if progress.duration_ns:
        shares.append((progress.measured_ns or 0) / progress.duration_ns)
    if progress.runs:
        shares.append((session.count + session.errors if session else 0) / progress.runs)
    return min(1.0, max(shares)) if shares else None
