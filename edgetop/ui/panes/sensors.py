"""Coverage: every sensor with its value, its age, and what could not be read and why."""

from collections.abc import Sequence

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.tracks import TrackView
from edgetop.formatting import UNKNOWN
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.text import BLANK, Column, Line, Piece, table, wrapped

COLUMNS = (
    Column("sensor", 24, right=False),
    Column("now", 9),
    Column("unit", 5, right=False),
    Column("age s", 6),
    Column("min", 9),
    Column("mean", 9),
    Column("max", 9),
    Column("source", 48, right=False),
)
STALE_S = 5.0
ASCII_UNITS = {"°C": "C"}  # the sign for degrees is two cells wide in some terminals


ORDERS = ("as found", "by name", "oldest first", "highest first")


def title(view: MonitorView, area: Area) -> str:
    lost = sum(track.is_lost for track in view.sensors)
    counted = f"{len(view.sensors)} read, {lost} lost, {len(view.missing)} not there"
    order = "" if area.listing.order_of(ORDERS) == ORDERS[0] else f", {area.listing.order_of(ORDERS)}"
    words = area.clean(area.listing.words)
    return f"{counted}{order}, with: {words}" if words else f"{counted}{order}"


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    lines = table(COLUMNS, [_cells(track, area) for track in _listed(view.sensors, area)], area.width)
    for missing in view.missing:
        if not area.listing.takes(f"{missing.what} {missing.why}"):
            continue
        fix = f" ({missing.fix})" if missing.fix else ""
        text = area.clean(f"{UNKNOWN} {missing.what}: {missing.why}{fix}")
        lines += [BLANK, *wrapped(text, area.width, "dim")]
    return lines


def _listed(tracks: Sequence[TrackView], area: Area) -> list[TrackView]:
    """Those with all the words in their name, unit or source, in the order that was chosen."""
    found = [track for track in tracks if area.listing.takes(f"{track.info.id} {track.info.unit} {_source(track)}")]
    order = area.listing.order_of(ORDERS)
    if order == "by name":
        found.sort(key=lambda track: track.info.id)
    elif order == "oldest first":
        found.sort(key=lambda track: (not track.is_lost, -(track.age_s or 0.0)))
    elif order == "highest first":  # of each unit, for only these can be compared
        units = list(dict.fromkeys(track.info.unit for track in tracks))
        found.sort(key=lambda track: (units.index(track.info.unit), -(track.value or 0.0)))
    return found


def _cells(track: TrackView, area: Area) -> list[Piece]:
    name, source, reason, unit = (
        area.clean(text)
        for text in (track.info.id, _source(track), track.reason, ASCII_UNITS.get(track.info.unit, track.info.unit))
    )
    if track.is_lost or track.value is None or track.age_s is None:
        return [(name, "warning"), UNKNOWN, (reason, "dim")]
    age = (f"{track.age_s:.1f}", "dim" if track.age_s > STALE_S else "text")
    now, low, mean, high = (_number(value, track) for value in (track.value, track.min, track.mean, track.max))
    return [name, now, (unit, "dim"), age, low, mean, high, (source, "dim")]


def _source(track: TrackView) -> str:
    """Where it is read, after what kind of measurement it is."""
    accuracy = track.info.accuracy
    return f"{accuracy.replace('-', ' ')}: {track.info.source}" if accuracy else track.info.source


def _number(value: float | None, track: TrackView) -> str:
    return UNKNOWN if value is None else formatting.reading(value, track.info.unit)


SENSORS = Drawing("sensors", title, body, scrolls=True, rows="sensors", orders=ORDERS)
