"""The sensors pane: every sensor with its value and age, and why other sensors are missing."""

from collections.abc import Sequence
from functools import partial

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.tracks import TrackView
from edgetop.formatting import UNKNOWN
from edgetop.ui.panes.pane import Area, Drawing, Item, titled
from edgetop.ui.text import BLANK, Column, Piece, column_at, table, wrapped
from edgetop.wording.sensor_words import missing_words, no_reading_words

COLUMNS = (
    Column("sensor", 24, right=False), Column("now", 9), Column("unit", 5, right=False), Column("age s", 6),
    Column("min", 9), Column("mean", 9), Column("max", 9), Column("source", 48, right=False),
)  # fmt: skip
STALE_S = 5.0
ASCII_UNITS = {"°C": "C"}  # the degree sign is two cells wide in some terminals

ORDERS = ("as found", "by name", "oldest first", "highest first")
_ORDER_OF = {"sensor": ORDERS[1], "age s": ORDERS[2], **dict.fromkeys(("now", "min", "mean", "max"), ORDERS[3])}


def title(view: MonitorView, area: Area) -> str:
    lost = sum(track.is_lost for track in view.sensors)
    counted = f"{len(view.sensors)} read, {lost} lost, {len(view.missing)} missing"
    order, words = area.listing.order_of(ORDERS), area.clean(area.listing.words)
    return f"{counted}{'' if order == ORDERS[0] else f', {order}'}{words and f', with: {words}'}"


def items(view: MonitorView, area: Area) -> list[Item]:
    tracks = _listed(view.sensors, area)
    head, *rows = table(COLUMNS, [_cells(track, area) for track in tracks], area.width)
    found = [Item([head], order_at=lambda x: _ORDER_OF.get(column_at(COLUMNS, x), ""))]
    found += [
        Item([row], track.info.id, partial(_detail, track, area)) for row, track in zip(rows, tracks, strict=True)
    ]
    for missing in view.missing:
        if area.listing.takes(f"{missing.what} {missing.why}"):
            text = area.clean(f"{UNKNOWN} {missing_words(missing)}")
            found += [Item([BLANK]), Item(wrapped(text, area.width, "dim"), text, partial(list, (text,)))]
    return found


def _detail(track: TrackView, area: Area) -> list[str]:
    """Return all figures of one sensor, a line each, such as `max 71.5`.

    These include the columns that are left out of a narrow table.
    """
    cells = _cells(track, area)
    names = [column.title for column in COLUMNS] if len(cells) == len(COLUMNS) else ["sensor", "now", "why"]
    return titled(names, cells)


def _listed(tracks: Sequence[TrackView], area: Area) -> list[TrackView]:
    """Return the sensors that the filter lets through, in the chosen order.

    Every word of the filter must be in the sensor's name, unit or source.
    """
    found = [track for track in tracks if area.listing.takes(f"{track.info.id} {track.info.unit} {_source(track)}")]
    order = area.listing.order_of(ORDERS)
    if order == "by name":
        found.sort(key=lambda track: track.info.id)
    elif order == "oldest first":
        found.sort(key=lambda track: (not track.is_lost, -(track.age_s or 0.0)))
    elif order == "highest first":  # within each unit, because only those values can be compared
        units = list(dict.fromkeys(track.info.unit for track in tracks))
        found.sort(key=lambda track: (units.index(track.info.unit), -(track.value or 0.0)))
    return found


def _cells(track: TrackView, area: Area) -> list[Piece]:
    name, unit = area.clean(track.info.id), track.info.unit
    if track.now is None or track.age_s is None:
        return [(name, "warning"), UNKNOWN, (area.clean(no_reading_words(track)), "dim")]
    age = (f"{track.age_s:.1f}", "dim" if track.age_s > STALE_S else "text")
    now, *figures = (formatting.reading(value, unit) for value in (track.value, track.min, track.mean, track.max))
    shown_unit, source = area.clean(ASCII_UNITS.get(unit, unit)), area.clean(_source(track))
    return [name, now, (shown_unit, "dim"), age, *figures, (source, "dim")]


def _source(track: TrackView) -> str:
    """Return where the values of a sensor come from, such as `firmware estimate: /sys/class/hwmon/hwmon0`.

    The part before the colon is left out if it is unknown how the sensor measures.
    """
    accuracy = track.info.accuracy
    return f"{accuracy.replace('-', ' ')}: {track.info.source}" if accuracy else track.info.source


SENSORS = Drawing("sensors", title, items=items, scrolls=True, rows="sensors", orders=ORDERS, parts=("sensors",))
