"""The last line: the keys that apply, and what edgetop itself costs."""

from collections.abc import Iterator, Sequence

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.tracks import TrackView
from edgetop.formatting import UNKNOWN
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import Line, Span, fit

Keys = Sequence[tuple[str, str]]  # key and what it does, the most wanted first


def status_line(view: MonitorView, area: Area, keys: Keys) -> Line:
    cost = _cost(view)
    shown = [
        span
        for key, does in _fitting(view, area, keys)
        for span in (Span(f" {key}", "key"), Span(f" {does} ", "title"))
    ]
    left = fit(tuple(shown), max(0, area.width - len(cost)), "title")
    return fit((*left, Span(cost, "title")), area.width, "title")


def key_at(view: MonitorView, area: Area, keys: Keys, x: int) -> tuple[str, str, int] | None:
    """The key in this cell of the line, what it does, and which of its characters was hit; None: there is none."""
    begin = 0
    for key, does in _fitting(view, area, keys):
        end = begin + len(key) + len(does) + 3
        if x < end:
            return key, does, min(max(x - begin - 1, 0), len(key) - 1)
        begin = end
    return None


def _fitting(view: MonitorView, area: Area, keys: Keys) -> Iterator[tuple[str, str]]:
    """As many as fit."""
    room = area.width - len(_cost(view)) - 1
    for key, does in keys:
        room -= len(key) + len(does) + 3
        if room < 0:
            return
        yield key, does


def _cost(view: MonitorView) -> str:
    load, memory = _now(view.own_load), _now(view.own_memory)
    cpu = UNKNOWN if load is None else formatting.reading(load, "%")
    rss = "" if memory is None else f" {formatting.size(memory * 2**20)}"
    return f"edgetop {cpu} %{rss} "


def _now(track: TrackView | None) -> float | None:
    return None if track is None or track.is_lost else track.value
