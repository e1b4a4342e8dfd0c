"""Prints the progress of a session without a screen, on stderr: a bar on a terminal, plain lines elsewhere."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from edgetop import formatting
from edgetop.analysis.alerts.alert import AlertNews
from edgetop.analysis.analysis import Analysis, MonitorView
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.verdict_reasons import State
from edgetop.cli.output import print_text
from edgetop.cli.terminal import trim_log
from edgetop.feeds.feed_protocol import Feed
from edgetop.formatting import clean
from edgetop.notification import notification
from edgetop.wording import verdict_words
from edgetop.wording.alert_words import alert_words, title_words
from edgetop.wording.token_words import token_words

BAR_WIDTH = 24
LINE_EVERY_NS = 10_000_000_000
QUIET_LOADING_NS = 3_000_000_000
OPENING_PAUSE_S = 0.1  # interval until something is measured, so that the first numbers appear at once
WINDOW_NS = 10_000_000_000


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
    """Print the progress of a session on stderr, until the session is over or `is_enough()` is true.

    `feed` delivers the session's data, and `analysis` receives it. `pause(seconds)` waits for that time or less. `log`
    is the file to which stderr is redirected, whose oldest lines are removed when it grows; None if stderr is no such
    file. `live_ns` is the interval in ns of whole sentences (`--live`); None prints a bar on a terminal and short lines
    elsewhere. `notifies` rings the terminal at alerts. `ascii_only` replaces characters outside ASCII.
    """
    lines = PlainLines(live_ns) if live_ns is not None else Bar() if sys.stderr.isatty() else Lines()
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
                # The last line has the figures of the whole session, as the summary after it.
                view = analysis.view(None if analysis.progress.view().phase == "over" else WINDOW_NS)
                if notifies:
                    _notify(news, view)
                if text := lines.text(view):
                    click.echo(formatting.plain_ascii(text) if ascii_only else text, nl=False, err=True)
                    if log:
                        trim_log(log)
        elif not is_over:
            pause(OPENING_PAUSE_S if analysis.progress.began_measuring_ns is None else lines.every_s)
    if isinstance(lines, Bar) and lines.drawn:
        click.echo(err=True)


def _notify(news: AlertNews, view: MonitorView) -> None:
    """Report new alerts to the terminal with a bell or a notification, if stderr is a terminal."""
    for alert in news.due(view.alerts):
        if sys.stderr.isatty():
            click.echo(notification(title_words(view.manifest), alert_words(alert), os.environ), nl=False, err=True)


# Each of the following printers has an interval, `every_s`, at which `text` is called. `text` returns what to print
# now, or "", and must read only those parts of the view that it prints, because each part has its cost.


class Bar:
    """Makes a progress line that overwrites itself on a terminal."""

    every_s = 2.0  # not shorter, since each call costs the same however little is new

    def __init__(self) -> None:
        self.drawn = ""

    def text(self, view: MonitorView) -> str:
        if view.progress.end_reason == "input-error":  # reported in a line of its own
            self.drawn = ""
            return "\r\x1b[K"
        line = clean(f"{progress_bar(view)} {progress_line(view)}")
        with contextlib.suppress(OSError):  # a line that wraps cannot be overwritten
            line = formatting.cut(line, os.get_terminal_size(sys.stderr.fileno()).columns - 1)
        if line == self.drawn:
            return ""
        self.drawn = line
        return f"\r{line}\x1b[K"


class Lines:
    """Makes a progress line whenever the verdict changes, and every ten seconds.

    While the model loads, the first line comes after 3 s.
    """

    every_s = Bar.every_s

    def __init__(self) -> None:
        self._printed: tuple[State, ...] = ()  # of the verdict, and of what stood beside it
        self._next_ns = QUIET_LOADING_NS

    def text(self, view: MonitorView) -> str:
        if view.progress.end_reason == "input-error":  # reported in a line of its own
            return ""
        now_ns, verdict = view.progress.now_ns, view.verdict
        states = (verdict.state, *(other.state for other in verdict.also))
        changed = states != self._printed and _is_worth_a_line(view)
        self._next_ns = min(self._next_ns, now_ns + LINE_EVERY_NS)  # the next session starts at 0 again
        if not changed and now_ns < self._next_ns:
            return ""
        self._printed = states
        self._next_ns = now_ns + LINE_EVERY_NS
        return f"{clean(progress_line(view))}\n"


def _is_worth_a_line(view: MonitorView) -> bool:
    progress = view.progress
    if progress.stopping or progress.unseen:  # the user may have to act
        return True
    return progress.measured_ns is not None and (progress.phase == "over" or view.latency.window is not None)


class PlainLines:
    """Makes whole sentences for a screen reader (`--live`): a line at each refresh and one at the end.

    The lines have no escape sequences, carriage returns, abbreviated units or graphics.
    """

    every_s = 1.0

    def __init__(self, refresh_ns: int) -> None:
        self._refresh_ns = refresh_ns
        self._next_ns = 0
        self._is_over = False

    def text(self, view: MonitorView) -> str:
        now_ns, is_over = view.progress.now_ns, view.progress.phase == "over"
        if (self._is_over and is_over) or view.progress.end_reason == "input-error":  # reported in a line of its own
            return ""
        # The next session starts at 0 again.
        self._next_ns = min(self._next_ns, now_ns + self._refresh_ns)
        if now_ns < self._next_ns and not is_over:
            return ""
        self._next_ns, self._is_over = now_ns + self._refresh_ns, is_over
        return f"{plain_line(view)}\n"


def progress_line(view: MonitorView) -> str:
    """Return a line such as `00:01:05 THROTTLING p50 2.104 p99 2.310 ms 471/s n 30.6 k in all: thermal, for 0:27`.

    The latencies and the rate are those of the last ten seconds or, after the end, of the whole session. `n` counts all
    inferences of the session. The figures come before the details, because a narrow terminal cuts the end.
    """
    words = [formatting.clock_time(view.progress.now_ns), verdict_words.state_word(view.verdict)]
    if view.manifest and view.manifest.board.simulated:
        words.insert(1, "SIMULATED")
    window, session = view.latency.window, view.latency.session
    if view.verdict.state is State.STOPPING:  # what is waited for must not be cut
        window = session = None
    if window and view.ab is None:
        if view.latency.stream:
            words.append(clean(view.latency.stream))
        words.append(f"{percentile_words(view, window, 0.50)} {percentile_words(view, window, 0.99)} ms")
        if window.throughput_hz is not None:
            words.append(f"{formatting.rate(window.throughput_hz)}/s")
    if (tokens := view.generation) is not None and view.verdict.state is not State.STOPPING:
        words.append(token_words(tokens))
    if session and view.latency.totals:
        words.append(f"n {formatting.count(view.latency.totals.count)} in all")
    details = verdict_words.words(view.verdict).removeprefix(verdict_words.state_word(view.verdict))
    if details.startswith(" "):  # such as ` det.onnx: some calls slow`
        details = f":{details}"
    return f"{' '.join(words)}{clean(details)}"


def percentile_words(view: MonitorView, window: Statistics, quantile: float) -> str:
    """Return a latency percentile of `window` in ms, such as `p99 2.310`. A `?` follows after too few inferences.

    `quantile` is the percentile as a share, such as 0.99.
    """
    text = formatting.milliseconds(window.percentile_ns(quantile))
    return f"p{quantile * 100:g} {formatting.doubted(text, settled=view.is_settled(window, quantile))}"


def progress_bar(view: MonitorView) -> str:
    """Return a bar such as `[######------]` of how much of the measurement is done. "" without a planned end."""
    progress, totals = view.progress, view.latency.totals
    shares = []
    if progress.duration_ns:
        shares.append((progress.measured_ns or 0) / progress.duration_ns)
    if progress.runs:
        shares.append((totals.count + totals.errors if totals else 0) / progress.runs)
    if not shares:
        return ""
    filled = round(min(1.0, max(shares)) * BAR_WIDTH)
    return f"[{'#' * filled}{'-' * (BAR_WIDTH - filled)}]"


def plain_line(view: MonitorView) -> str:
    """Return the state of a session as sentences: `1 minute 5 seconds. Throttled: 31 % slower. Median latency ...`."""
    verdict, word = view.verdict, verdict_words.state_word(view.verdict)
    also, past = verdict_words.also(verdict), verdict_words.past(verdict)
    sentences = [
        spoken_time(view.progress.now_ns),
        word.capitalize() + verdict_words.first(verdict).removeprefix(word),
    ]
    if view.manifest and view.manifest.board.simulated:
        sentences.insert(1, "Simulated board")
    if also:
        sentences.append(f"Also {', '.join(also).lower()}")
    sentences += (*(one.capitalize() for one in past), *_figures(view))
    return ". ".join(clean(sentence) for sentence in sentences) + "."


def spoken_time(ns: float) -> str:
    """Return a time of `ns` nanoseconds in words.

    >>> spoken_time(0), spoken_time(61 * 10**9), spoken_time(7_385 * 10**9)
    ('0 seconds', '1 minute 1 second', '2 hours 3 minutes 5 seconds')
    """
    seconds = int(ns // 10**9)
    parts = ((seconds // 3600, "hour"), (seconds // 60 % 60, "minute"), (seconds % 60, "second"))
    spoken = [f"{number} {unit}{'' if number == 1 else 's'}" for number, unit in parts if number]
    return " ".join(spoken) or "0 seconds"


def _figures(view: MonitorView) -> Iterator[str]:
    latency = view.latency.window or view.latency.session
    if latency and view.ab is None:  # the verdict has the difference; one variant's latency would not fit it
        p50, p99 = (formatting.milliseconds(latency.percentile_ns(q)) for q in (0.50, 0.99))
        if view.latency.stream:
            yield f"Model {clean(view.latency.stream)}"
        yield f"Median latency {p50} milliseconds, 99th percentile {p99} milliseconds"
        if latency.throughput_hz is not None:
            yield f"{formatting.rate(latency.throughput_hz)} inferences a second"
    if view.generation and view.generation.recent_decode_per_s is not None:
        yield f"{formatting.rate(view.generation.recent_decode_per_s)} tokens a second"
    hottest = view.thermal.hottest
    if hottest and hottest.value is not None:
        yield f"Hottest zone {formatting.reading(hottest.value, hottest.info.unit)} degrees Celsius"
    board = view.power.board
    if board and board.track.value is not None and not board.track.is_lost:
        yield f"Board power {formatting.reading(board.track.value, 'W')} watts"
    rss = next((track for track in view.sensors if track.info.id == "mem/rss"), None)
    if rss and rss.value is not None:
        yield f"Engine memory {formatting.reading(rss.value, 'MiB')} mebibytes"
