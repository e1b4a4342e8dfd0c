"""Arrange the panes on a screen of a given size. The functions are pure, so that every size can be tested.

The panes of a column are parts of one border. Each pane begins with a line of the border that has its title, and the
last pane also ends with a line of the border. The left column of a large screen has timelines, one above another. Their
common time axis is in the last line of the border.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from edgetop.frozen import frozen

PANES = ("latency", "heat", "power", "memory", "events", "sensors", "session", "hotspots")
TIMELINES = ("latency", "heat", "power", "memory")  # panes with a chart over time

TINY_WIDTH, TINY_HEIGHT = 60, 16  # a smaller screen shows only the verdict and three numbers
MEDIUM_WIDTH, MEDIUM_HEIGHT = 100, 30

HEADER_ROWS = 3  # the verdict, the session, the vital signs
STATUS_ROWS = 1
TITLE_ROWS = 1
EMPTY_ROWS = 3  # height of a pane that only says why it has nothing to show
CHART_ROWS = 3  # least height of a chart in a stack
MOST_CHART_ROWS = 7  # greatest height of a chart below that of latency, which gets the other rows
MEMORY_ROWS = 4  # height of the memory pane with a chart on a small screen
ROOMY_ROWS = 16  # rows for the first and the last pane of a small screen from which memory has a chart
FIGURE_ROWS = 2  # lines of figures above the latency chart

ABSENT = -1  # in place of a number of charts: the board has no such sensor
# Each layout: the pane of a small screen, the stack on the left, the panes on the right.
LAYOUTS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "overview": ("latency", TIMELINES[:3], ("hotspots", "memory", "events", "sensors", "session")),
    "latency": ("latency", ("latency",), ("session", "events")),
    "thermal": ("heat", ("heat", "latency"), ("sensors", "power", "events")),
    "operators": ("hotspots", ("hotspots",), ("latency", "events")),
}
WEIGHTS = {"latency": 2, "hotspots": 2, "events": 2}  # shares of spare rows; other panes have 1
LEAST = {"hotspots": 9, "memory": 6, "events": 12, "sensors": 10, "session": 10}
OPTIONAL = ("session", "sensors")  # on the right only if all panes there have their least height


@frozen
class Place:
    """The rectangle of a pane, in cells, from the top left corner of the screen. A pane of one row has no title."""

    name: str
    x: int
    y: int
    width: int
    height: int
    is_first: bool = True  # whether it is the first pane of its column
    is_last: bool = True  # whether it is the last pane of its column, with the line that closes the border
    is_stacked: bool = False  # whether it is in a stack of timelines, whose axis is in the closing line


class Want(NamedTuple):
    name: str
    least: int  # rows that the pane needs, including its title
    weight: int  # its share of spare rows
    most: int = 1000  # rows that the pane never exceeds, unless it has the greatest weight


def is_tiny(width: int, height: int) -> bool:
    """Whether a screen of this size in cells has room only for the verdict and three numbers."""
    return width < TINY_WIDTH or height < TINY_HEIGHT


def arrange(
    width: int, height: int, selected: str, zoomed: str | None, *, layout: str = "overview",
    charts: Mapping[str, int] | None = None, more_rows: int = 0,
) -> tuple[Place, ...]:  # fmt: skip
    """Return the rectangle of each pane that is shown, for a screen of `width` by `height` cells.

    `layout` is a name in LAYOUTS. `zoomed` is the name of the only pane to show, or None. `selected` is the pane that
    fills the rest of a small screen. `more_rows` is the number of rows to keep free above the status line.

    `charts` has the number of timelines to draw, by pane: "heat", "power" and "memory". A pane with 0 becomes one
    line, and a pane with ABSENT gets no rectangle. For "hotspots", the number is 0 if no operators are known, else 1.
    If `charts` is None, heat gets two timelines, power one, and memory none.

    Rectangles never overlap, nor cover the header or the status line.
    """
    if is_tiny(width, height):
        rows = height - 1 - more_rows
        return (Place(zoomed, 0, 1, width, rows),) if zoomed and rows > 1 else ()
    top, rows = HEADER_ROWS, height - HEADER_ROWS - STATUS_ROWS - more_rows
    if zoomed:
        return (Place(zoomed, 0, top, width, rows),)
    main, left, right = LAYOUTS[layout]
    if layout == "overview" and charts and charts.get("memory"):
        left, right = TIMELINES, tuple(name for name in right if name != "memory")
    shown = {name for name in PANES if name in (main, selected) or (charts or {}).get(name) != ABSENT}
    if width < MEDIUM_WIDTH or height < MEDIUM_HEIGHT:
        small = _small(rows, main, selected, has_memory_chart=(charts or {}).get("memory", 0) > 0)
        wants = [want for want in small if want.name in shown]
        return tuple(_column(0, top, width, rows, wants, is_closed=False))
    left, right = (tuple(name for name in names if name in shown) for names in (left, right))
    cells, is_stack = width * 11 // 20, all(name in TIMELINES for name in left)
    wants = (
        [_stacked(name, charts or {}, is_below=name != main) for name in left]
        if is_stack
        else [Want(left[0], rows - 1, 1)]
    )
    return (
        *_column(0, top, cells, rows, wants, is_stacked=is_stack and layout == "overview"),
        *_column(cells, top, width - cells, rows, _right(right, left, rows, selected, charts or {})),
    )


def _small(rows: int, main: str, selected: str, *, has_memory_chart: bool) -> list[Want]:
    """Return the panes of a small screen: the pane `main`, then panes of one line each, then the pane `selected`.

    All panes together fill `rows` rows. If `has_memory_chart` and there is room, the memory pane has a chart.
    """
    lines = [name for name in ("hotspots", "latency", "heat", "power", "memory") if name not in (main, selected)]
    if rows < MEDIUM_HEIGHT // 2 and "hotspots" in lines:
        lines.remove("hotspots")
    spare = rows - len(lines)
    if selected == main:
        return [Want(main, spare, 1), *(Want(name, 1, 0) for name in lines)]
    charted = {"memory": MEMORY_ROWS} if has_memory_chart and "memory" in lines and spare >= ROOMY_ROWS else {}
    spare -= sum(rows - 1 for rows in charted.values())
    first = min(10, max(5, spare // 2)) if spare > 7 else spare
    rest = [Want(selected, spare - first, 1)] if spare > first else []
    return [Want(main, first, 1), *(Want(name, charted.get(name, 1), 0) for name in lines), *rest]


def _stacked(name: str, charts: Mapping[str, int], *, is_below: bool) -> Want:
    """Return the rows that the pane `name` needs in a column of timelines.

    `charts` has the number of charts by pane. `is_below` says that the pane is not the main one: it then gets fewer of
    the spare rows.
    """
    if name == "latency":
        return Want(name, TITLE_ROWS + FIGURE_ROWS + CHART_ROWS, 2 if is_below else 3)
    count = max(0, charts.get(name, 2 if name == "heat" else 1))
    most = {"most": max(1, count * (TITLE_ROWS + MOST_CHART_ROWS))} if is_below else {}
    return Want(name, max(1, count * (TITLE_ROWS + CHART_ROWS)), count, **most)


def _right(
    names: Sequence[str], left: Sequence[str], rows: int, selected: str, charts: Mapping[str, int]
) -> list[Want]:
    """Return the panes that fit into the right column, which has `rows` rows.

    `names` are the panes that the layout puts there, and `left` the panes of the left column. If `selected` is in
    neither column, it replaces the last pane. If `charts` has 0 for "hotspots", no operators are known, and the other
    panes get the spare rows of the hotspots pane.
    """
    wants = [
        Want("hotspots", EMPTY_ROWS, 0)
        if name == "hotspots" and charts.get(name) == 0
        else Want(name, LEAST.get(name, CHART_ROWS + TITLE_ROWS), WEIGHTS.get(name, 1))
        for name in (*names, selected)
    ]
    *shown, chosen = wants
    while sum(want.least for want in shown) + 1 > rows:
        shown.remove(next((want for want in shown if want.name in OPTIONAL), shown[-1]))
    return shown if selected in (*left, *(want.name for want in shown)) else [*shown[:-1], chosen]


def _column(
    x: int, y: int, width: int, rows: int, wants: Sequence[Want], *, is_closed: bool = True, is_stacked: bool = False
) -> Iterator[Place]:
    """Yield the rectangles of panes one below another. Together they fill `rows` rows.

    The top left corner is at column `x` and row `y`. `width` is the width of each pane in cells. `wants` has the least
    height of each pane and its share of spare rows. `is_closed` says that the last pane also has the line that closes
    the border. `is_stacked` says that the panes are timelines with one time axis.
    """
    heights = [want.least for want in wants]
    spare, total = rows - is_closed - sum(heights), sum(want.weight for want in wants) or 1
    shares = [min(spare * want.weight // total, max(0, want.most - want.least)) for want in wants]
    grows = max(range(len(wants)), key=lambda place: wants[place].weight)
    shares[grows] += spare - sum(shares)
    for place, want in enumerate(wants):
        is_last = is_closed and place == len(wants) - 1
        height = heights[place] + shares[place] + is_last
        yield Place(want.name, x, y, width, height, place == 0, is_last, is_stacked)
        y += height
