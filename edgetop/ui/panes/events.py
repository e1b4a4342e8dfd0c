"""What happened, newest first."""

from collections.abc import Sequence

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.events import EventsView
from edgetop.session.events import Event
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.text import BLANK, Line, line, wrapped

STYLES = {"info": "text", "warning": "warning", "critical": "critical"}
MARKS = {"info": " ", "warning": "!", "critical": "X"}  # so that colour is not the only carrier


def title(view: MonitorView, area: Area) -> str:
    events = view.events
    counted = f"{events.total}   ! {events.warnings}   X {events.criticals}"
    words = area.clean(area.listing.words)
    return f"{counted}   with: {words}" if words else counted


def one_line(view: MonitorView, area: Area) -> Line:
    newest = view.events.newest_first[:1]
    return _lines(newest[0], area)[0] if newest else line(("no events", "dim"))


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    listed = [event for event in view.events.newest_first if area.listing.takes(_searched(event))]
    if view.events.newest_first and not listed:
        return [line(("no event with these words", "dim"))]
    return [row for event in listed for row in _lines(event, area)]


def _searched(event: Event) -> str:
    return f"{event.severity} {event.kind} {event.source} {event.message}"


def _lines(event: Event, area: Area) -> list[Line]:
    message = area.clean(event.message)
    source = area.clean(event.source)
    text = message if event.kind in _PLAIN_KINDS else f"{source}: {message}"
    prefix = f"{formatting.clock_time(event.t_ns)} {MARKS[event.severity]} "
    rows = wrapped(text, area.width - len(prefix), STYLES[event.severity]) or [BLANK]
    first = line((prefix, "dim"), *rows[0])
    return [first, *(line(" " * len(prefix), *row) for row in rows[1:])]


_PLAIN_KINDS = frozenset(
    {
        "phase", "ended", "demo-model", "slowdown-began", "slowdown-ended", "alert-began", "alert-ended",
        "throttle-begin", "throttle-end",
    }
)  # fmt: skip


def subject(view: MonitorView) -> EventsView:
    return view.events


EVENTS = Drawing("events", title, body, scrolls=True, line=one_line, rows="events", subject=subject)
