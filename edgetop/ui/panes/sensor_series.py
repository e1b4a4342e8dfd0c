"""Timelines, as all panes draw them: on one time axis, shaded where the board was throttled or the model slower."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.latency_heat import HeatColumn
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttles import ThrottleSpan
from edgetop.analysis.timeline import Axis, Points
from edgetop.formatting import clean
from edgetop.session.events import Severity
from edgetop.ui.charts import GUTTER, Bools, Curve, Plot, Scale, nice_scale, shades, time_line
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import BLANK, COLUMN_GAP, Line, Span, fit

NS = 1e9
# Least span of a scale by unit, so that noise is not magnified.
LEAST_SPAN = {"%": 100.0, "C": 10.0, "MHz": 400.0, "W": 1.0, "MiB": 10.0}
# A quantity that moves by less than this, absolutely or as a share of its height, is shown as a number only.
FLAT = {"C": (1.5, 0.0), "MHz": (30.0, 0.02), "W": (0.3, 0.2), "MiB": (16.0, 0.15)}
STYLES = {"C": "temperature", "MHz": "clock", "W": "power", "MiB": "memory", "%": "p99"}
CHART_MIN_ROWS = 4
LEAST_ROWS = 2  # least height of a timeline
SIDE_CELLS = 54  # width of figures beside a chart
SIDE_BY_SIDE_CELLS = 2 * SIDE_CELLS
WARM_C, HOT_C = 15.0, 5.0  # a temperature this close to its trip point changes its colour
WITHOUT_TRIP_C = 85.0

Draw = Callable[[Area], list[Line]]


def slowed(view: MonitorView, axis: Axis, cells: int) -> Bools:
    """Return, for each cell of a timeline, whether the board was throttled or the model was slower at that time."""
    return throttled(view, axis, cells) | slower(view, axis, cells)


def throttled(view: MonitorView, axis: Axis, cells: int) -> Bools:
    """Return, for each cell of a timeline, whether the board was throttled at that time."""
    return _touched(view, view.throttles.spans, axis, cells)


def slower(view: MonitorView, axis: Axis, cells: int) -> Bools:
    """Return, for each cell of a timeline, whether the model ran slower at that time than at the beginning."""
    return _touched(view, [slowdown for slowdown in view.slowdowns.slowdowns if not slowdown.from_start], axis, cells)


def _touched(view: MonitorView, spans: Sequence[ThrottleSpan | Slowdown], axis: Axis, cells: int) -> Bools:
    now_ns = view.progress.now_ns
    in_s = ((of.start_ns / NS, (now_ns if of.end_ns is None else of.end_ns) / NS) for of in spans)
    return shades(in_s, axis, cells)


def cursor_cell(area: Area, axis: Axis, cells: int) -> int | None:
    """Return the cell of a timeline under the time cursor, counted from the left. Return None without a cursor there.

    `axis` is the time that the timeline shows, and `cells` its width.
    """
    if area.cursor_s is None or not axis.from_s <= area.cursor_s < axis.to_s:
        return None
    return int((area.cursor_s - axis.from_s) * cells / (axis.to_s - axis.from_s))


def last(view: MonitorView) -> str:
    """Return "last " if the session is over, else "". It is written before values that are then no longer current."""
    return "last " if view.progress.phase == "over" else ""


def plot(view: MonitorView, axis: Axis, scale: Scale, area: Area) -> Plot:
    """Return an empty chart that fills the area, except for the labels at its left."""
    cells = area.width - GUTTER
    cursor = cursor_cell(area, axis, cells)
    return Plot(scale, cells, max(area.height, 1), area.characters, slowed(view, axis, cells), cursor)


def end_labels(of: Plot, high: str, low: str) -> dict[int, tuple[str, str]]:
    """Return the texts `high` and `low` as labels for the top and the bottom row of a chart.

    The result has (text, style) by the number of the row, counted from the top.
    """
    return {of.height - 1: (low, "dim"), 0: (high, "dim")}


def is_flat(points: Points | None, unit: str, from_s: float = 0.0) -> bool:
    """Whether a timeline changes so little that a number is enough. None counts as flat.

    `unit` is `C`, `MHz`, `W` or `MiB`. Only values from the session time `from_s` on, in s, are considered.
    """
    if points is None:
        return True
    lowest, highest = points.extremes(from_s)
    moves, share = FLAT[unit]
    return not highest - lowest >= max(moves, share * abs(highest))


def timeline(
    view: MonitorView, points: Points, unit: str, area: Area, *, limit: Points | float | None = None
) -> list[Line]:
    """Return a chart of a timeline as lines that fill the area.

    The curve shows the middle values, and a dim band shows the lowest and highest ones. `limit` is drawn as a dashed
    line.
    """
    bounds = np.full(1, np.nan) if limit is None else np.array([limit]) if isinstance(limit, float) else limit.middle
    is_limited = not np.isnan(bounds).all()
    high = np.nanmax([np.nanmax(points.high), np.nanmax(bounds) if is_limited else np.nan])
    scale = nice_scale(float(np.nanmin(points.low)), float(high), least=LEAST_SPAN.get(unit, 0.0))
    of = plot(view, points.axis, scale, area)
    labels = end_labels(of, f"{scale.high:g}", f"{scale.low:g}")
    style: str | Sequence[str] = STYLES.get(unit, "graph")
    if unit == "C":  # style of each row, by its distance to the trip point
        trip_c, step = limit if isinstance(limit, float) else WITHOUT_TRIP_C, (scale.high - scale.low) / of.height
        tops = (scale.high - row * step for row in range(of.height))
        style = ["hot" if c > trip_c - HOT_C else "warm" if c > trip_c - WARM_C else "temperature" for c in tops]
    curves = [] if np.isnan(points.middle).all() else [Curve(points.low, "band", np.fmin, ".", upto=points.high)]
    if is_limited:
        curves.append(Curve(bounds, "limit", np.fmin, "-", is_dashed=True))
        if isinstance(limit, float):
            labels[of.row_of(limit)] = (f"{limit:g}", "limit")
    # A column shows the lowest of its clocks, because that is when the board was slow.
    return of.rows([*curves, Curve(points.middle, style, np.fmin if unit == "MHz" else np.fmax)], labels)


def time_rule(view: MonitorView, area: Area, character: str, style: str) -> Line:
    """Return the line with the times below timelines, as wide as the area.

    It has ticks where operators were profiled, and an `m` at each mark of the user. `character` in `style` fills the
    line.
    """
    marks = [event.t_ns / NS for event in view.events.newest_first if event.kind == "mark"]
    axis = view.axis
    gutter = Span(character * GUTTER, style)
    return (gutter, *time_line(axis, area.width - GUTTER, view.burst_marks, marks, (character, style), area.characters))


def with_axis(view: MonitorView, area: Area, draw: Draw) -> list[Line]:
    """Return the chart that `draw` makes, with its times in the last row.

    If several charts share one time axis (`area.is_stacked`), this chart has no row of times.
    """
    if area.is_stacked:
        return draw(area)
    drawn = draw(area.resized(height=area.height - 1))
    return [*drawn, *[BLANK] * (area.height - 1 - len(drawn)), time_rule(view, area, " ", "dim")]


def with_figures(draw: Draw, figures: Draw, area: Area) -> list[Line]:
    """Return lines with a chart at the left and figures at the right.

    `draw` makes the chart, and `figures` makes the figures.
    """
    left = area.width - SIDE_CELLS - len(COLUMN_GAP)
    rows = zip_longest(draw(area.resized(width=left)), figures(area.resized(width=SIDE_CELLS)), fillvalue=BLANK)
    return [(*fit(chart, left), Span(COLUMN_GAP), *fit(row, SIDE_CELLS)) for chart, row in rows]


def with_chart(view: MonitorView, points: Points | None, unit: str, figures: Draw, area: Area) -> list[Line]:
    """Return figures and a timeline: side by side, one above the other, or the figures alone, depending on the room.

    `points` is the timeline, and `unit` its unit, such as `W`. `figures` makes the lines of the figures.
    """
    if points is None or points.is_empty:
        return figures(area)

    def draw(room: Area) -> list[Line]:
        return with_axis(view, room, lambda of: timeline(view, points, unit, of))

    if area.is_stacked:
        return draw(area)
    if area.width >= SIDE_BY_SIDE_CELLS and area.height >= CHART_MIN_ROWS:
        return with_figures(draw, figures, area)
    lines = figures(area)
    room = area.height - len(lines)
    return [*lines, *draw(area.resized(height=room))] if room >= CHART_MIN_ROWS else lines


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One quantity of a pane that is shown alone: a line of figures, with a timeline below it."""

    figures: Line
    points: Points | None  # the timeline; None or an empty one shows only the figures
    unit: str
    limit: Points | float | None = None  # limit such as a cap, drawn as a dashed line


def stacked(view: MonitorView, blocks: Sequence[Block], area: Area, above: Sequence[Line] = ()) -> list[Line]:
    """Return the lines `above`, then each quantity with its timeline, and in the last row the times.

    With too few rows, only the first quantities have a timeline, and the last quantities may be left out.
    """
    drawn = [block for block in blocks if block.points is not None and not block.points.is_empty]
    height = max(0, area.height - len(above))
    room = height - len(blocks) - 1
    charts = min(len(drawn), room // LEAST_ROWS) if drawn else 0
    lines: list[Line] = []
    for block in blocks:
        lines.append(fit(block.figures, area.width))
        if block in drawn[:charts] and block.points is not None:
            rows = room // charts + (drawn.index(block) < room % charts)
            lines += timeline(view, block.points, block.unit, area.resized(height=rows), limit=block.limit)
    if charts:
        lines = [*lines[: height - 1], time_rule(view, area, " ", "dim")]
    return [*above, *lines[:height]][: area.height]


def value_at(points: Points | None, second: float, values: str = "middle") -> float | None:
    """Return the value of a timeline at the session time `second`, in s, or None if the timeline has no value there.

    A point of a timeline stands for several readings. `values` says which value of them to return: their lowest
    (`low`), `middle` or highest (`high`).
    """
    if points is None or not points.axis.from_s <= second < points.axis.to_s:
        return None
    place = int((second - points.axis.from_s) * len(points.middle) / (points.axis.to_s - points.axis.from_s))
    value = float(getattr(points, values)[place])
    return None if np.isnan(value) else value


def readout(view: MonitorView, second: float) -> list[tuple[str, str]]:
    """Return all values at the session time `second`, in s, as (name, text) pairs such as `("heat", "61.2 C")`."""
    thermal = view.thermal
    column = next((column for column in view.latency_heat if column.from_s <= second < column.to_s), None)
    figures: list[tuple[str, str]] = []
    if column is not None:
        named = (("p50", column.p50_ns), ("p99", column.p99_ns), ("max", column.high_ns))
        figures = [("n", formatting.count(column.count))]
        figures += [(name, formatting.milliseconds(ns)) for name, ns in named]
        figures[-1] = figures[-1][0], f"{figures[-1][1]} ms"
    sensors = (
        ("heat", thermal.hottest_points, "C"),
        ("clock", thermal.clock_points, "MHz"),
        ("power", view.power.points, "W"),
        ("memory", view.memory.rss_points, "MiB"),
    )
    read = ((name, value_at(points, second), unit) for name, points, unit in sensors)
    return [
        *figures,
        *((name, f"{formatting.reading(value, unit)} {unit}") for name, value, unit in read if value is not None),
        *_then(view, second, column),
    ]


_GRAVITY: dict[Severity, int] = {"info": 0, "warning": 1, "critical": 2}


def _then(view: MonitorView, second: float, column: HeatColumn | None) -> list[tuple[str, str]]:
    """Return the most severe event at the session time `second` as [("then", message)], or [] if nothing happened.

    `column` is the column of the heat map at that time. All events in the time span of the column count. If `column` is
    None, all events in that second count.
    """
    begin, end = (column.from_s, column.to_s) if column else (math.floor(second), math.floor(second) + 1)
    events = [event for event in view.events.newest_first if begin * NS <= event.t_ns < end * NS]
    gravest = max(events, key=lambda event: _GRAVITY[event.severity], default=None)
    return [("then", clean(gravest.message))] if gravest else []
