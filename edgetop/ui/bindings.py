"""Every key of the monitor screen, by the id that a user's settings know it by.

A key may stand for one thing on a live screen and for another in a replay: never are both present.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from textual.binding import Binding

from edgetop.feeds.protocol import Can
from edgetop.ui.layout import PANES

# What an action needs of the feed; and those that another takes the place of.
_NEEDS = {
    "mark": Can.MARK,
    "profile": Can.PROFILE,
    "detach": Can.DETACH,
    "depart": Can.VISIT,
    "stop": Can.VISIT | Can.STOP,
    "play": Can.SPEED,
    "speed": Can.SPEED,
    **dict.fromkeys(("seek_by", "seek_to_edge", "seek_event", "seek_throttling", "go_to"), Can.SEEK),
}
_REPLACED = {
    **dict.fromkeys(("freeze", "refresh_step"), Can.SPEED),
    **dict.fromkeys(("scroll_to_edge", "pan_live"), Can.SEEK),
    **dict.fromkeys(("leave", "stop_and_leave"), Can.VISIT),
}

# What every kind of feed can do: for which keys can be present together.
FEEDS = (Can.NOTHING, Can.ORDERS, Can.ORDERS | Can.DETACH, Can.ORDERS | Can.VISIT, Can.SEEK | Can.SPEED)

# The tooltip says what one of several keys does that share a line of the help.
PLAYBACK = (
    Binding("space", "play", "play, pause", id="play"),
    Binding(
        "less_than_sign,minus", "speed(-1)", "slower, faster: 0.1x to 1000x", tooltip="play slower", id="slower"
    ),
    Binding(
        "greater_than_sign,plus,equals_sign", "speed(1)", "slower, faster: 0.1x to 1000x", tooltip="play faster",
        id="faster",
    ),
    Binding("left,h", "seek_by(-10)", "10 s back, on", tooltip="10 s back", id="back-10s"),
    Binding("right,l", "seek_by(10)", "10 s back, on", tooltip="10 s on", id="on-10s"),
    Binding("shift+left", "seek_by(-60)", "1 min back", id="back-1min"),
    Binding("shift+right", "seek_by(60)", "1 min on", id="on-1min"),
    Binding("home", "seek_to_edge(-1)", "to the start, to the end", tooltip="to the start", id="start"),
    Binding("end", "seek_to_edge(1)", "to the start, to the end", tooltip="to the end", id="end"),
    Binding(
        "n,right_square_bracket", "seek_event(1)", "next event, previous event", tooltip="to the next event",
        id="next-event",
    ),
    Binding(
        "N,left_square_bracket", "seek_event(-1)", "next event, previous event", tooltip="to the previous event",
        id="previous-event",
    ),
    Binding("T", "seek_throttling", "to the first throttling", id="throttling"),
    Binding("g", "go_to", "go to a time", id="go-to"),
)  # fmt: skip

MONITOR = (
    Binding("question_mark,f1", "help", "help", id="help"),
    Binding("ctrl+p", "palette", "every command, to be searched", id="palette"),
    Binding("q", "leave", "leave; a live run is stopped or goes on", id="leave"),
    Binding("Q", "stop_and_leave", "stop and leave", id="stop"),
    Binding("d", "detach", "leave; the run goes on, edgetop attach comes back", id="detach"),
    Binding("q,d", "depart", "leave; the run goes on", id="depart"),
    Binding("Q", "stop", "stop the run; asks first", id="stop-other"),
    Binding("space", "freeze", "freeze the screen; the run goes on", id="freeze"),
    Binding("w", "window", "window of the percentiles", id="window"),
    *[
        Binding(str(i), f"zoom('{name}')", "that pane alone", tooltip=f"pane {name} alone", id=f"zoom-{name}")
        for i, name in enumerate(PANES, 1)
    ],
    Binding("escape", "back", "back", id="back"),
    Binding("tab", "next_pane(1)", "next pane, previous pane", tooltip="next pane", id="next-pane"),
    Binding("shift+tab", "next_pane(-1)", "next pane, previous pane", tooltip="previous pane", id="previous-pane"),
    Binding("s,o", "order", "sort hotspots, sensors", id="order"),
    Binding("slash", "filter", "filter events, hotspots, sensors", id="filter"),
    Binding("p", "profile", "profile the operators now", id="profile"),
    Binding("m", "mark", "mark this moment with a note", id="mark"),
    Binding("r", "recording", "recording: where, how large, pause", id="recording"),
    Binding("e", "export", "export the session", id="export"),
    Binding("S", "screenshot", "save a picture of the screen (SVG)", id="screenshot"),
    Binding("x", "reset", "reset the statistics, not the recording", id="reset"),
    Binding("ctrl+l", "app.redraw", "draw the screen anew", id="redraw"),
    Binding("t", "app.next_theme", "theme", tooltip="next theme", id="theme"),
    Binding(
        "minus", "refresh_step(-1)", "draw more often, less often", tooltip="draw more often", id="refresh-shorter"
    ),
    Binding(
        "plus,equals_sign", "refresh_step(1)", "draw more often, less often", tooltip="draw less often",
        id="refresh-longer",
    ),
    Binding("z", "zoom_time(1)", "timelines closer, wider", tooltip="timelines closer", id="closer"),
    Binding("Z", "zoom_time(-1)", "timelines closer, wider", tooltip="timelines wider", id="wider"),
    Binding(
        "left_curly_bracket", "pan_time(-1)", "timelines back, on", tooltip="timelines back", id="pan-back"
    ),
    Binding("right_curly_bracket", "pan_time(1)", "timelines back, on", tooltip="timelines on", id="pan-on"),
    Binding("left,h", "pan_live(-1)", "timelines back, on", tooltip="timelines back", id="pan-back-live"),
    Binding("right,l", "pan_live(1)", "timelines back, on", tooltip="timelines on", id="pan-on-live"),
    Binding("0", "whole_time", "timelines as they were", id="timeline-whole"),
    Binding("down,j", "scroll_pane(1)", "scroll", tooltip="scroll down", id="down"),
    Binding("up,k", "scroll_pane(-1)", "scroll", tooltip="scroll up", id="up"),
    Binding("pagedown", "scroll_pane(10)", "scroll by a page", tooltip="scroll down by a page", id="page-down"),
    Binding("pageup", "scroll_pane(-10)", "scroll by a page", tooltip="scroll up by a page", id="page-up"),
    Binding("home", "scroll_to_edge(-1)", "scroll to the top, to the end", tooltip="scroll to the top", id="top"),
    Binding("end", "scroll_to_edge(1)", "scroll to the top, to the end", tooltip="scroll to the end", id="bottom"),
)  # fmt: skip

BINDINGS = (*PLAYBACK, *MONITOR)
IDS = tuple(binding.id for binding in BINDINGS if binding.id)


def applies(action: str, can: Can) -> bool:
    """Whether an action makes sense with a feed that can do this."""
    needed, replaced_by = _NEEDS.get(action, Can.NOTHING), _REPLACED.get(action)
    return needed in can and (replaced_by is None or replaced_by not in can)


def action_of(binding: Binding) -> str:
    """Its name, without what it is given."""
    return binding.action.partition("(")[0]


def remapped(bindings: Iterable[Binding], keys: Mapping[str, str]) -> tuple[Binding, ...]:
    """The same with other keys, by id."""
    return tuple(replace(b, key=keys[b.id]) if b.id and b.id in keys else b for b in bindings)


def conflict(bindings: Sequence[Binding]) -> tuple[str, str, str] | None:
    """A key that would do two things, and the ids of these; None: there is none."""
    for can in FEEDS:
        holders: dict[str, str] = {}
        for binding in bindings:
            if not applies(action_of(binding), can):
                continue
            for key in binding.key.split(","):
                holder = holders.setdefault(key, binding.id or "")
                if holder != binding.id:
                    return key, holder, binding.id or ""
    return None
