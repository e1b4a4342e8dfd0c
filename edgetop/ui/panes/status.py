"""The last line: the keys that apply, and what edgetop itself costs."""

from collections.abc import Sequence

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.tracks import TrackView
from edgetop.formatting import UNKNOWN
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import Line, Span, fit, width


def status_line(view: MonitorView, area: Area, keys: Sequence[tuple[str, str]]) -> Line:
    """`keys`: key and what it does, the most wanted first; as many as fit are shown."""
    cost = _cost(view)
    room = area.width - len(cost) - 1
    shown: list[Span] = []
    for key, does in keys:
        pair = (Span(f" {key}", "key"), Span(f" {does} ", "title"))
        if width((*shown, *pair)) > room:
            break
        shown += pair
    left = fit(tuple(shown), max(0, area.width - len(cost)), "title")
    return fit((*left, Span(cost, "title")), area.width, "title")


def _cost(view: MonitorView) -> str:
    load, memory = _now(view.own_load), _now(view.own_memory)
    cpu = UNKNOWN if load is None else formatting.reading(load, "%")
    rss = "" if memory is None else f" {formatting.size(memory * 2**20)}"
    return f"edgetop {cpu} %{rss} "


def _now(track: TrackView | None) -> float | None:
    return None if track is None or track.is_lost else track.value
