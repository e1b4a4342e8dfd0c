"""The line of a replay: whether it plays and how fast, where it stands, and what happened in the whole session."""

from itertools import groupby

from edgetop import formatting
from edgetop.feeds.protocol import Mark, Transport
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import Line, Span, fit, joined

LEAST_BAR_CELLS = 10
MARK_GLYPHS = {"info": "|", "warning": "!", "critical": "X"}  # so that colour is not the only carrier
MARK_STYLES = {"info": "accent", "warning": "warning", "critical": "critical"}
USERS_MARK = "m"
HEAD = ">"
PLAYED, AHEAD = ("⠶", "⠤"), ("=", "-")


def transport_line(transport: Transport, area: Area) -> Line:
    left = _left(transport)
    return fit((*left, *_bar(transport, area.width - _cells(left) - 1, area)), area.width)


def time_at(transport: Transport, area: Area, x: int) -> int | None:
    """The time in ns for which a cell of the line stands; None where it is not of the bar."""
    begin = _cells(_left(transport))
    cells = area.width - begin - 1
    if cells < LEAST_BAR_CELLS or not begin <= x < begin + cells:
        return None
    return (x - begin) * transport.end_ns // max(cells - 1, 1)


def _left(transport: Transport) -> Line:
    word, style = (" PLAY  ", "good") if transport.is_playing else (" PAUSE ", "focus")
    at, end = formatting.clock_time(transport.t_ns), formatting.clock_time(transport.end_ns)
    return (Span(word, style), Span(f" {formatting.speed(transport.speed):>5} {at} of {end} "))


def _cells(line: Line) -> int:
    return sum(len(span.text) for span in line)


def _bar(transport: Transport, cells: int, area: Area) -> Line:
    if cells < LEAST_BAR_CELLS:
        return ()
    played, ahead = AHEAD if area.look.ascii_only else PLAYED
    head = _cell(transport.t_ns, transport, cells)
    bar = [Span(played if x < head else ahead, "graph" if x < head else "dim") for x in range(cells)]
    for x, marks in groupby(transport.marks, key=lambda mark: _cell(mark.t_ns, transport, cells)):
        bar[x] = _glyph(list(marks))
    bar[head] = Span(HEAD, "focus")
    return joined(tuple(bar))


def _cell(t_ns: int, transport: Transport, cells: int) -> int:
    return min(max(t_ns, 0) * (cells - 1) // max(transport.end_ns, 1), cells - 1)


def _glyph(marks: list[Mark]) -> Span:
    """The gravest of those that fall into one cell."""
    gravest = max(marks, key=lambda mark: list(MARK_GLYPHS).index(mark.severity))
    if gravest.severity == "info" and any(mark.kind == "mark" for mark in marks):
        return Span(USERS_MARK, "accent")
    return Span(MARK_GLYPHS[gravest.severity], MARK_STYLES[gravest.severity])
