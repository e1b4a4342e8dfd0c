"""The events pane: what happened in the session, with the newest event first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.session.event_codec import data_of
from edgetop.session.event_kinds import PhaseBegan
from edgetop.session.events import Event
from edgetop.session.seconds import NS
from edgetop.ui.panes.pane import Area, Drawing, Item
from edgetop.ui.text import BLANK, Line, line, wrapped
from edgetop.wording.event_words import worded

STYLES = {"info": "text", "warning": "warning", "critical": "critical"}
_LEAST = {"info": "all", "warning": "warnings and worse", "critical": "critical only"}
_GRAVITY = {severity: gravity for gravity, severity in enumerate(STYLES)}
LEAST_FOLDED = 3  # this many lines of a log are folded into one item
DUMP_NS = NS  # longest time between two lines of one dump
MARKS = {"info": " ", "warning": "!", "critical": "X"}  # severity must not be shown by colour alone


def title(_: MonitorView, area: Area) -> str:
    """Return the title: which events the filter lets through, or "" without a filter.

    The title has no count of warnings, because line 2 of the screen has it.
    """
    least = area.listing.least
    words = area.clean(area.listing.words)
    shown = (_LEAST[least] if least != "info" else "", words and f"with: {words}")
    return "   ".join(text for text in shown if text)


def one_line(view: MonitorView, area: Area) -> Line:
    newest = view.events.newest_first[:1]
    return _lines(worded(newest[0]), area)[0] if newest else line(("no events", "dim"))


def items(view: MonitorView, area: Area) -> Sequence[Item]:
    """Return the entries of the list, the newest first. A filter may hide some.

    Without a filter, events that belong together are one entry.
    """
    listing = area.listing
    listed = [
        event
        for event in map(worded, view.events.newest_first)
        if listing.takes(f"{event.severity} {event.kind} {event.source} {event.message}")
        and _GRAVITY[event.severity] >= _GRAVITY[listing.least]
    ]
    if view.events.newest_first and not listed:
        return [Item([line(("no event like this; / and ! change the filter", "dim"))])]
    if listing.words or listing.least != "info":
        return [_item([event], area) for event in listed]
    return [_item(group, area, _start_words(group, view)) for group in _groups(listed)]


def _groups(newest_first: Sequence[Event]) -> Iterator[list[Event]]:
    """Yield groups of events that are shown as one entry, the newest first.

    Lines that one source logs at about the same time, such as a crash dump, are a group. The usual events until
    measuring begins are another group. Any other event is a group of its own.
    """
    begins_ns = next((event.t_ns for event in newest_first if _begins_measuring(event)), -1)
    start = [event for event in newest_first if event.t_ns <= begins_ns and _is_usual(event)]
    group: list[Event] = []
    for event in newest_first:
        if start and event.t_ns <= begins_ns and _is_usual(event):
            if event is start[0]:
                yield from ([group] if group else [])
                yield start
                group = []
            continue
        later = group[-1] if group else event
        is_log = event.kind == later.kind == "log" and event.source == later.source
        if group and not (is_log and later.t_ns - event.t_ns < DUMP_NS):
            yield group
            group = []
        group.append(event)
    if group:
        yield group


def _begins_measuring(event: Event) -> bool:
    return isinstance(event.body, PhaseBegan) and event.body.phase == "measure"


def _is_usual(event: Event) -> bool:
    return event.severity == "info" and event.kind not in ("mark", "log", "throttle-begin", "throttle-end")


def _start_words(group: Sequence[Event], view: MonitorView) -> str:
    """Return the text for the events at the start of the session, or "" if `group` is another group of events.

    The text has the form `started in 3.9s: load 212 ms, first 41.000 ms, warm-up 50`.
    """
    if not _begins_measuring(group[0]) or not view.manifest:
        return ""
    engine = view.manifest.engine
    parts = [
        f"{name} {formatting.milliseconds(ns)} ms"
        for name, ns in (("load", engine.init_ns), ("first", engine.first_ns))
        if ns is not None
    ]
    done = view.progress.warmup_done
    parts += [f"warm-up {done}"] if done else []
    return f"started in {formatting.duration(group[0].t_ns)}{': ' if parts else ''}{', '.join(parts)}"


def _item(group: Sequence[Event], area: Area, words: str = "") -> Item:
    """Return a group of events as one entry of the list. `words` is its text.

    If `words` is "", a group of three or more events shows its most severe message and the number of lines. A smaller
    group shows each of its events.
    """
    newest, shown = group[0], group
    if len(group) >= LEAST_FOLDED or words:
        first = max(reversed(group), key=lambda event: _GRAVITY[event.severity])
        message, of = (words, newest) if words else (f"{first.message} ({len(group)} lines)", first)
        shown = [replace(first, t_ns=newest.t_ns, message=message, body=of.body)]
    rows, key = [row for event in shown for row in _lines(event, area)], (newest.t_ns, newest.kind, newest.message)
    return Item(rows, key, partial(_detail, group, area), newest.t_ns, kind=newest.kind)


def _detail(group: Sequence[Event], area: Area) -> list[str]:
    """Return the lines on a group of events, the oldest first: time, severity, source and message.

    A single event also gets a line for each of its figures.
    """
    lines = []
    for event in reversed(group):
        begin = f"{formatting.clock_time(event.t_ns)} {event.severity:<8} {area.clean(event.source)}: "
        lines.append(begin + area.clean(event.message))
        lines += [area.clean(f"  {key}: {value}") for key, value in data_of(event.body).items() if len(group) == 1]
    return lines


def _lines(event: Event, area: Area) -> list[Line]:
    source = "" if event.kind in _PLAIN_KINDS else f"{area.clean(event.source)}: "
    text = f"{source}{area.clean(event.message)}"
    prefix = f"{formatting.clock_time(event.t_ns)} {MARKS[event.severity]} "
    rows = wrapped(text, area.width - len(prefix), STYLES[event.severity]) or [BLANK]
    first = line((prefix, "dim"), *rows[0])
    return [first, *(line(" " * len(prefix), *row) for row in rows[1:])]


_PLAIN_KINDS = frozenset(
    {
        "phase", "ended", "demo-model", "slowdown-began", "slowdown-ended", "alert-began", "alert-ended",
        "throttle-begin", "throttle-end", "deadline-begin", "deadline-end",
    }
)  # fmt: skip


EVENTS = Drawing(
    "events",
    title,
    items=items,
    scrolls=True,
    line=one_line,
    rows="events",
    parts=("events",),
    subject=lambda view: view.events,
)
