"""A session without a screen: a bar on a terminal, plain lines elsewhere, all of it on stderr."""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import click

from edgetop import formatting
from edgetop.analysis.alerts.alert import alert_words, title_words
from edgetop.analysis.alerts.news import AlertNews
from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.analysis.statistics import Statistics
from edgetop.cli.output import print_text
from edgetop.cli.plain import PlainLines
from edgetop.cli.terminal import trim_log
from edgetop.feeds.protocol import Feed
from edgetop.formatting import clean
from edgetop.notification import notification

BAR_WIDTH = 24
LINE_EVERY_NS = 10_000_000_000
QUIET_LOADING_NS = 3_000_000_000
OPENING_LOOK_S = 0.1  # until something is measured: the first numbers must not wait
WINDOW_NS = 10_000_000_000


class Say(Protocol):
    def __call__(self, text: str, end: str = "\n") -> None: ...


class Printer(Protocol):
    every_s: float  # between two looks at what has come

    def print(self, view: MonitorView) -> bool:
        """Whether anything was printed. Only those parts of the view are asked for that are."""

    def close(self) -> None: ...


def follow(
    feed: Feed,
    analysis: Analysis,
    is_enough: Callable[[], bool] = lambda: False,
    *,
    pause: Callable[[float], object] = time.sleep,
    log: Path | None = None,
    live_ns: int | None = None,
    notifies: bool = False,
    ascii_only: bool = False,
) -> None:
    """Print a session's progress on stderr until it is over, or it is enough.

    `pause` is given seconds and may return sooner. `log`: what stderr is, where it must not grow for ever.
    `live_ns`: a plain line so often. `notifies`: ring the terminal at alerts.
    """
    say = partial(_say, ascii_only=ascii_only)
    lines: Printer = Plain(live_ns, say) if live_ns is not None else Bar(say) if sys.stderr.isatty() else Lines(say)
    news, trouble, printed = AlertNews(), "", -1
    is_over = is_enough()
    while not is_over:
        is_over = feed.is_over or is_enough()
        if feed.trouble != trouble:
            trouble = feed.trouble
            if trouble:
                print_text(f"edgetop: {trouble}", err=True, ascii_only=ascii_only)
        analysis.catch_up(feed)
        if analysis.folds != printed:
            printed = analysis.folds
            with analysis.lock:
                view = analysis.view(WINDOW_NS)
                if notifies:
                    _notify(news, view)
                if lines.print(view) and log:
                    trim_log(log)
        elif not is_over:
            pause(OPENING_LOOK_S if analysis.progress.began_measuring_ns is None else lines.every_s)
    lines.close()


def _notify(news: AlertNews, view: MonitorView) -> None:
    """Report new alerts, where stderr still is a terminal."""
    for alert in news.due(view.alerts):
        if sys.stderr.isatty():
            click.echo(notification(title_words(view.manifest), alert_words(alert), os.environ), nl=False, err=True)


class Bar:
    """One line that is drawn over itself."""

    every_s = 1.0

    def __init__(self, say: Say) -> None:
        self._say = say
        self._printed = ""

    def print(self, view: MonitorView) -> bool:
        """Whether anything was printed."""
        if view.progress.end_reason == "input-error":  # reported in a line of its own
            self._printed = ""
            self._say("\r\x1b[K", end="")
            return True
        line = clean(f"{progress_bar(view)} {progress_line(view)}")
        with contextlib.suppress(OSError):  # a line that wraps cannot be drawn over
            line = formatting.cut(line, os.get_terminal_size(sys.stderr.fileno()).columns - 1)
        if line == self._printed:
            return False
        self._printed = line
        self._say(f"\r{line}\x1b[K", end="")
        return True

    def close(self) -> None:
        if self._printed:
            self._say("")


class Lines:
    """A line when something changes, and every ten seconds.

    Nothing while a model loads quickly or cannot be loaded: that is reported in one line of its own.
    """

    every_s = 2.0  # each time costs as much, however much came

    def __init__(self, say: Say) -> None:
        self._say = say
        self._printed: tuple[str, tuple[str, ...]] = ("", ())  # the verdict's word, and what stood beside it
        self._next_ns = QUIET_LOADING_NS
        self._told_none = False  # that a program makes no inferences

    def print(self, view: MonitorView) -> bool:
        """Whether anything was printed."""
        now_ns, verdict = view.progress.now_ns, view.verdict
        if view.progress.measured_ns is None and not self._told_none:
            for notice in (one for one in view.notices if one.code == "no-inference"):
                self._told_none = True
                self._say(clean(f"{formatting.clock_time(now_ns)} {notice.message}"))
        words = (verdict.word, tuple(also.split()[0] for also in verdict.also))
        changed = words != self._printed and view.progress.measured_ns is not None
        changed = changed and (view.progress.phase == "over" or view.latency.window is not None)
        self._next_ns = min(self._next_ns, now_ns + LINE_EVERY_NS)  # time begins anew where a session follows another
        if not changed and now_ns < self._next_ns:
            return False
        self._printed = words
        self._next_ns = now_ns + LINE_EVERY_NS
        self._say(clean(progress_line(view)))
        return True

    def close(self) -> None:
        pass


class Plain:
    """Lines in words: `--live`."""

    every_s = 1.0

    def __init__(self, refresh_ns: int, say: Say) -> None:
        self._say = say
        self._lines = PlainLines(refresh_ns)

    def print(self, view: MonitorView) -> bool:
        """Whether anything was printed."""
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
    """`00:01:05 THROTTLING p50 2.104 p99 2.310 ms 471/s n 30.6 k: thermal, for 0:27, cpu 1267 of 1728 MHz`.

    The figures stand before the details: a narrow terminal cuts the end. They are those of the last ten seconds.
    """
    words = [formatting.clock_time(view.progress.now_ns), view.verdict.word]
    if view.manifest and view.manifest.board.simulated:
        words.insert(1, "SIMULATED")
    window, session = view.latency.window, view.latency.session
    if window and view.ab is None:
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
    progress, session = view.progress, view.latency.session
    shares = []
    if progress.duration_ns:
        shares.append((progress.measured_ns or 0) / progress.duration_ns)
    if progress.runs:
        shares.append((session.count + session.errors if session else 0) / progress.runs)
    if not shares:
        return ""
    filled = round(min(1.0, max(shares)) * BAR_WIDTH)
    return f"[{'#' * filled}{'-' * (BAR_WIDTH - filled)}]"
