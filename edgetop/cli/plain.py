"""`--headless --live`: a session line by line, in words that a screen reader reads as they are.

No escapes, no carriage returns, no abbreviated units, nothing that is drawn.
"""

from collections.abc import Iterator

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.formatting import clean


class PlainLines:
    """A line a refresh, by the session's clock, and one at its end."""

    def __init__(self, refresh_ns: int) -> None:
        self._refresh_ns = refresh_ns
        self._next_ns = 0
        self._is_over = False

    def line(self, view: MonitorView) -> str | None:
        """None: it is not time for one."""
        now_ns, is_over = view.progress.now_ns, view.progress.phase == "over"
        if (self._is_over and is_over) or view.progress.end_reason == "input-error":  # told in a line of its own
            return None
        self._next_ns = min(
            self._next_ns, now_ns + self._refresh_ns
        )  # time begins anew where a session follows another
        if now_ns < self._next_ns and not is_over:
            return None
        self._next_ns, self._is_over = now_ns + self._refresh_ns, is_over
        return plain_line(view)


def plain_line(view: MonitorView) -> str:
    """`1 minute 5 seconds. Throttled: 31 % slower. Median latency 2.104 milliseconds, ...`."""
    sentences = [spoken_time(view.progress.now_ns), _verdict(view), *_figures(view)]
    if view.manifest and view.manifest.board.simulated:
        sentences.insert(1, "Simulated board")
    return ". ".join(clean(sentence) for sentence in sentences) + "."


def spoken_time(ns: float) -> str:
    """
    >>> spoken_time(0), spoken_time(61 * 10**9), spoken_time(7_385 * 10**9)
    ('0 seconds', '1 minute 1 second', '2 hours 3 minutes 5 seconds')
    """
    seconds = int(ns // 10**9)
    parts = ((seconds // 3600, "hour"), (seconds // 60 % 60, "minute"), (seconds % 60, "second"))
    spoken = [f"{number} {unit}{'' if number == 1 else 's'}" for number, unit in parts if number]
    return " ".join(spoken) or "0 seconds"


def _verdict(view: MonitorView) -> str:
    verdict = view.verdict
    words = verdict.word.capitalize() + verdict.first.removeprefix(verdict.word)
    also = [f"Also {', '.join(verdict.also).lower()}"] if verdict.also else []
    return ". ".join((words, *also, *(past.capitalize() for past in verdict.past)))


def _figures(view: MonitorView) -> Iterator[str]:
    latency = view.latency.window or view.latency.session
    if latency:
        p50, p99 = (formatting.milliseconds(latency.percentile_ns(q)) for q in (0.50, 0.99))
        yield f"Median latency {p50} milliseconds, 99th percentile {p99} milliseconds"
        if latency.throughput_hz is not None:
            yield f"{formatting.rate(latency.throughput_hz)} inferences a second"
    hottest = view.thermal.hottest
    if hottest and hottest.value is not None:
        yield f"Hottest zone {formatting.reading(hottest.value, hottest.info.unit)} degrees Celsius"
    total = view.power.total
    if total and total.track.value is not None and not total.track.is_lost:
        yield f"Board power {formatting.reading(total.track.value, 'W')} watts"
    rss = next((track for track in view.sensors if track.info.id == "mem/rss"), None)
    if rss and rss.value is not None:
        yield f"Engine memory {formatting.reading(rss.value, 'MiB')} mebibytes"
