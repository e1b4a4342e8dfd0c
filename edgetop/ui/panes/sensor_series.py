"""One quantity over time, as every pane draws it: the same axis, and shades where board or model was slowed."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.timeline import Axis, Points
from edgetop.ui.charts import (
    GUTTER,
    SIDE_BY_SIDE_CELLS,
    SIDE_CELLS,
    Shades,
    area_rows,
    chart,
    nice_scale,
    shades,
    time_axis,
)
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import Line, beside, fit

NS = 1e9
# What is not magnified: differences that are noise.
LEAST_SPAN = {"C": 10.0, "MHz": 400.0, "W": 1.0, "MiB": 10.0}
CHART_MIN_ROWS = 4
LEAST_ROWS = 2  # of a course that is worth its room


def slow(view: MonitorView, axis: Axis, width: int) -> Shades:
    """Of a timeline in a pane of that width, the cells in which there was a slowdown."""
    spans = [(slowdown.start_ns, slowdown.end_ns) for slowdown in view.slowdowns.slowdowns]
    return _cells(spans, view, axis, width)


def throttled(view: MonitorView, axis: Axis, width: int) -> Shades:
    """The same of what the board said of itself."""
    return _cells([(span.start_ns, span.end_ns) for span in view.throttles.spans], view, axis, width)


def _cells(spans: Iterable[tuple[int, int | None]], view: MonitorView, axis: Axis, width: int) -> Shades:
    now_ns = view.progress.now_ns
    in_s = ((start_ns / NS, (now_ns if end_ns is None else end_ns) / NS) for start_ns, end_ns in spans)
    return shades(in_s, axis, width - GUTTER)


def shaded(view: MonitorView, axis: Axis, width: int) -> Shades:
    """What is coloured in every timeline: the board was throttled, or the model slow."""
    cells: Shades = throttled(view, axis, width) | slow(view, axis, width)
    return cells


def course(view: MonitorView, points: Points, unit: str, area: Area, *, names_unit: bool = True) -> list[Line]:
    """As many rows as the area has, at least one: the mean filled, the highest above it."""
    least = LEAST_SPAN.get(unit, 0.0)
    top = max(float(np.nanmax(points.high)), float(np.nanmax(points.middle)))
    scale = nice_scale(float(np.nanmin(points.low)), top, least=least)
    rows = area_rows(points.middle, points.high, scale, area.width - GUTTER, max(area.height, 1), area.look)
    ends = (f"{scale.high:g} {unit}" if names_unit else f"{scale.high:g}", f"{scale.low:g}")
    return chart(rows, ends, shaded(view, points.axis, area.width))


def with_chart(
    view: MonitorView, points: Points | None, unit: str, figures: Callable[[Area], list[Line]], area: Area, *,
    names_unit: bool = True,
) -> list[Line]:  # fmt: skip
    """Figures and the course of what leads: beside each other where there is room, else below, or the figures alone."""
    if points is not None and not points.is_empty and area.height >= CHART_MIN_ROWS:
        if area.width >= SIDE_BY_SIDE_CELLS:
            left = area.width - SIDE_CELLS - 2
            drawn = _with_axis(view, points, unit, area.resized(width=left), names_unit=names_unit)
            return beside(((drawn, left), (figures(area.resized(width=SIDE_CELLS)), SIDE_CELLS)))
        lines = figures(area)
        room = area.height - len(lines)
        if room >= CHART_MIN_ROWS:
            return [*lines, *_with_axis(view, points, unit, area.resized(height=room), names_unit=names_unit)]
        return lines
    return figures(area)


def _with_axis(view: MonitorView, points: Points, unit: str, area: Area, *, names_unit: bool) -> list[Line]:
    """The axis in the last row."""
    drawn = course(view, points, unit, area.resized(height=area.height - 1), names_unit=names_unit)
    return [*drawn, time_axis(points.axis, area.width)]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One quantity of a pane that is alone: its figures in a line, and its course under it."""

    figures: Line
    points: Points | None  # None, or an empty one: only the figures
    unit: str
    mark: Points | None = None  # what is drawn as a line, such as a cap; None: its own highest
    names_unit: bool = True  # False: the pane does


def stacked(view: MonitorView, blocks: Sequence[Block], area: Area) -> list[Line]:
    """Every quantity over time, one under the other, with the axis they share in the last row.

    Where there are too few rows, the first ones have their course, and the others a line; what is still too much is
    left out.
    """
    drawn = [block for block in blocks if block.points is not None and not block.points.is_empty]
    room = area.height - len(blocks) - 1
    charts = min(len(drawn), room // LEAST_ROWS) if drawn else 0
    lines: list[Line] = []
    for block in blocks:
        lines.append(fit(block.figures, area.width))
        if block in drawn[:charts]:
            rows = room // charts + (drawn.index(block) < room % charts)
            lines += _course_of(view, block, area.resized(height=rows))
    if charts:
        lines = [*lines[: area.height - 1], time_axis(view.latency.points.axis, area.width)]
    return lines[: area.height]


def _course_of(view: MonitorView, block: Block, area: Area) -> list[Line]:
    points, mark = block.points, block.mark
    assert points is not None
    if mark is not None and not mark.is_empty:
        points = replace(points, low=np.fmin(points.low, mark.low), high=mark.middle)
    return course(view, points, block.unit, area, names_unit=block.names_unit)
