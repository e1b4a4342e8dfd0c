"""Where each pane stands on a screen of a given size. A pure function, so that every size can be tested."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PANES = ("latency", "heat", "power", "memory", "events", "sensors", "session", "hotspots")

TINY_WIDTH, TINY_HEIGHT = 60, 16  # below either: the verdict and three numbers
MEDIUM_WIDTH, MEDIUM_HEIGHT = 100, 30
WIDE_WIDTH, WIDE_HEIGHT = 160, 45

HEADER_ROWS = 2
STATUS_ROWS = 1


@dataclass(frozen=True, slots=True)
class Place:
    """A pane's rectangle, in cells. Of one row: the pane in one line, without a title."""

    name: str
    x: int
    y: int
    width: int
    height: int


def is_tiny(width: int, height: int) -> bool:
    return width < TINY_WIDTH or height < TINY_HEIGHT


def arrange(
    width: int, height: int, selected: str, zoomed: str | None, *, bare: frozenset[str] = frozenset(),
    more_rows: int = 0,
) -> tuple[Place, ...]:  # fmt: skip
    """`selected` fills what a small screen has left; `zoomed` fills any screen.

    `bare`: of heat and power, what the board has no sensor of: that pane is one line that says so, and the
    others have its room. `more_rows` of the frame stand above the status line, or last where that is absent.

    The places never overlap, and leave the header's and the status line's rows alone.
    """
    if is_tiny(width, height):
        rows = height - 1 - more_rows
        return (Place(zoomed, 0, 1, width, rows),) if zoomed and rows > 1 else ()
    top, rows = HEADER_ROWS, height - HEADER_ROWS - STATUS_ROWS - more_rows
    if zoomed:
        return (Place(zoomed, 0, top, width, rows),)
    if width >= WIDE_WIDTH and height >= WIDE_HEIGHT:
        return tuple(_wide(width, top, rows, bare))
    if width >= MEDIUM_WIDTH and height >= MEDIUM_HEIGHT:
        return tuple(_medium(width, top, rows, selected, bare))
    return tuple(_small(width, top, rows, selected))


def _small(width: int, top: int, rows: int, selected: str) -> Iterator[Place]:
    """Latency with a timeline, a line each for heat, power and memory, and one pane in the rest."""
    lines = [name for name in ("heat", "power", "memory") if name != selected]
    chosen = selected if selected != "latency" else None
    # The latency pane: its title, three rows of figures, a chart, an axis.
    latency = rows - len(lines) if chosen is None else min(10, max(6, rows // 2))
    y = top
    yield Place("latency", 0, y, width, latency)
    y += latency
    for name in lines:
        yield Place(name, 0, y, width, 1)
        y += 1
    if chosen and (rest := top + rows - y) > 0:
        yield Place(chosen, 0, y, width, rest)


def _medium(width: int, top: int, rows: int, selected: str, bare: frozenset[str]) -> Iterator[Place]:
    """Latency over the whole width; below it heat and events, and beside them power, memory and one more."""
    latency = rows * 2 // 5
    heat = 1 if "heat" in bare else (rows - latency) // 2 + 1
    events = rows - latency - heat
    left, right = width // 2, width - width // 2 - 1
    other = selected if selected in ("sensors", "session", "hotspots") else "session"
    yield Place("latency", 0, top, width, latency)
    yield Place("heat", 0, top + latency, left, heat)
    yield Place("events", 0, top + latency + heat, left, events)
    power = 1 if "power" in bare else (rows - latency) // 3
    memory = (rows - latency - power) // 2
    yield from _stacked(
        left + 1, top + latency, right,
        {"power": power, "memory": memory, other: rows - latency - power - memory},
    )  # fmt: skip


def _wide(width: int, top: int, rows: int, bare: frozenset[str]) -> Iterator[Place]:
    """Timelines above one another on the left, so that one moment stands in one column.

    Where there is no heat to show, what happened has its room, and the tables on the right have more.
    """
    left = width * 3 // 5
    power = 1 if "power" in bare else rows // 4
    latency = heat = rows * 2 // 5 if "power" in bare else rows * 3 // 10
    hotspots = session = sensors = rows // 4
    if "heat" in bare:
        memory = rows // 6
        on_left = {"latency": latency, "heat": 1, "power": power, "memory": memory}
        on_left["events"] = rows - sum(on_left.values())
        on_right = {"hotspots": rows // 3, "sensors": rows - rows // 3 - session, "session": session}
    else:
        memory = rows - latency - heat - power
        on_left = {"latency": latency, "heat": heat, "power": power, "memory": memory}
        events = rows - hotspots - session - sensors
        on_right = {"hotspots": hotspots, "events": events, "sensors": sensors, "session": session}
    yield from _stacked(0, top, left, on_left)
    yield from _stacked(left + 1, top, width - left - 1, on_right)


def _stacked(x: int, y: int, width: int, heights: Mapping[str, int]) -> Iterator[Place]:
    """Panes one above the other, from `y` down."""
    for name, height in heights.items():
        yield Place(name, x, y, width, height)
        y += height
