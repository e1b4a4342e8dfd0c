"""Where each pane stands on a screen of a given size: a pure function, so that every size can be tested.

A column of panes is one frame: each pane begins with its title in a line of that frame, and the last one closes it.
The left column of a large screen is a stack of timelines with one time axis, which stands in the line that closes it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from edgetop.frozen import frozen

PANES = ("latency", "heat", "power", "memory", "events", "sensors", "session", "hotspots")
TIMELINES = ("latency", "heat", "power", "memory")  # of the panes, those with a chart over time

TINY_WIDTH, TINY_HEIGHT = 60, 16  # below either: the verdict and three numbers
MEDIUM_WIDTH, MEDIUM_HEIGHT = 100, 30

HEADER_ROWS = 3  # the verdict, what runs, the vital signs
STATUS_ROWS = 1
TITLE_ROWS = 1
CHART_ROWS = 3  # at least, of a chart in a stack
FIGURE_ROWS = 2  # of latency, above its chart

ABSENT = -1  # instead of the number of charts: the board has no such sensor
# What a layout shows: the pane that a small screen has room for, the stack on the left, what stands on the right.
LAYOUTS: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "overview": ("latency", TIMELINES[:3], ("hotspots", "memory", "events", "sensors", "session")),
    "latency": ("latency", ("latency",), ("session", "events")),
    "thermal": ("heat", ("heat", "latency"), ("sensors", "power", "events")),
    "operators": ("hotspots", ("hotspots",), ("latency", "events")),
}
WEIGHTS = {"latency": 2, "hotspots": 2, "events": 2}  # how the rows beyond the least are shared; others have 1
LEAST = {"hotspots": 9, "memory": 6, "events": 12, "sensors": 10, "session": 10}
OPTIONAL = ("session", "sensors")  # on the right only where all have their least


@frozen
class Place:
    """A pane's rectangle, in cells. Of one row: the pane in one line, without a title."""

    name: str
    x: int
    y: int
    width: int
    height: int
    is_first: bool = True  # of its column
    is_last: bool = True  # it has the line that closes the frame
    is_stacked: bool = False  # in a stack of timelines: their axis stands in the line that closes the frame


class Want(NamedTuple):
    name: str
    least: int  # rows that the pane needs in its column, with its title
    weight: int  # when spare rows are shared out


def is_tiny(width: int, height: int) -> bool:
    """Whether there is room for the verdict and three numbers only."""
    return width < TINY_WIDTH or height < TINY_HEIGHT


def arrange(
    width: int, height: int, selected: str, zoomed: str | None, *, layout: str = "overview",
    charts: Mapping[str, int] | None = None, more_rows: int = 0,
) -> tuple[Place, ...]:  # fmt: skip
    """`selected` fills what a small screen has left; `zoomed` fills any screen.

    `charts`: how many timelines each of heat, power and memory has that are not flat; by default as many as there can
    be, of memory none. Without one, that pane is a line, and the others have its room; where it is ABSENT, it has no
    place. `more_rows` of the frame stand above the status line, or last where that is absent. The places never
    overlap, and leave the rows of header and status line alone.
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
        wants = [want for want in _small(rows, main, selected) if want.name in shown]
        return tuple(_column(0, top, width, rows, wants, is_closed=False))
    left, right = (tuple(name for name in names if name in shown) for names in (left, right))
    cells, is_stack = width * 11 // 20, all(name in TIMELINES for name in left)
    wants = [_stacked(name, charts or {}) for name in left] if is_stack else [Want(left[0], rows - 1, 1)]
    return (
        *_column(0, top, cells, rows, wants, is_stacked=is_stack and layout == "overview"),
        *_column(cells, top, width - cells, rows, _right(right, left, rows, selected)),
    )


def _small(rows: int, main: str, selected: str) -> list[Want]:
    """The pane that matters, a line each for the others that say how the board is, and one pane in the rest."""
    lines = [name for name in ("hotspots", "latency", "heat", "power", "memory") if name not in (main, selected)]
    if rows < MEDIUM_HEIGHT // 2 and "hotspots" in lines:
        lines.remove("hotspots")
    spare = rows - len(lines)
    if selected == main:
        return [Want(main, spare, 1), *(Want(name, 1, 0) for name in lines)]
    first = min(10, max(5, spare // 2)) if spare > 7 else spare
    rest = [Want(selected, spare - first, 1)] if spare > first else []
    return [Want(main, first, 1), *(Want(name, 1, 0) for name in lines), *rest]


def _stacked(name: str, charts: Mapping[str, int]) -> Want:
    if name == "latency":
        return Want(name, TITLE_ROWS + FIGURE_ROWS + CHART_ROWS, 2)
    count = max(0, charts.get(name, 2 if name == "heat" else 1))
    return Want(name, max(1, count * (TITLE_ROWS + CHART_ROWS)), count)


def _right(names: Sequence[str], left: Sequence[str], rows: int, selected: str) -> list[Want]:
    """Return the panes that fit in the right column. A selected pane that neither column shows replaces the last."""
    wants = [Want(name, LEAST.get(name, CHART_ROWS + TITLE_ROWS), WEIGHTS.get(name, 1)) for name in (*names, selected)]
    *shown, chosen = wants
    while sum(want.least for want in shown) + 1 > rows:
        shown.remove(next((want for want in shown if want.name in OPTIONAL), shown[-1]))
    return shown if selected in (*left, *(want.name for want in shown)) else [*shown[:-1], chosen]


def _column(
    x: int, y: int, width: int, rows: int, wants: Sequence[Want], *, is_closed: bool = True, is_stacked: bool = False
) -> Iterator[Place]:
    """Panes one above the other, from `y` down, over all the rows; the last one closes the frame."""
    heights = [want.least for want in wants]
    spare, total = rows - is_closed - sum(heights), sum(want.weight for want in wants) or 1
    shares = [spare * want.weight // total for want in wants]
    grows = max(range(len(wants)), key=lambda place: wants[place].weight)
    shares[grows] += spare - sum(shares)
    for place, want in enumerate(wants):
        is_last = is_closed and place == len(wants) - 1
        height = heights[place] + shares[place] + is_last
        yield Place(want.name, x, y, width, height, place == 0, is_last, is_stacked)
        y += height
