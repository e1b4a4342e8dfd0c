"""Charts as lines of text, one style a row: braille where there is UTF-8, ASCII otherwise.

A column shows the extremes of all that falls into it, so that no spike is lost. Braille has
two by four dots a cell (Unicode, Braille Patterns U+2800); its width is never ambiguous.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgetop import formatting
from edgetop.analysis.timeline import Axis, Points
from edgetop.ui.look import Look
from edgetop.ui.text import BLANK, Line, Span, line, spread

Floats = npt.NDArray[np.float64]

GUTTER = 9  # cells left of a chart for its scale, the same everywhere, so that stacked charts align
SIDE_CELLS = 54  # what stands beside a chart where there is room, the same everywhere, for the same reason
SIDE_BY_SIDE_CELLS = 2 * SIDE_CELLS

ROUNDING = 1e-5  # in steps of a scale: readings are kept in single precision

# Dot bits of a braille cell, [row][column].
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)


@dataclass(frozen=True, slots=True)
class Scale:
    """The range of a vertical axis, from nice number to nice number."""

    low: float
    high: float


def nice_scale(low: float, high: float, *, least: float = 0.0) -> Scale:
    """The smallest range of round numbers that holds both; it changes rarely as data grows.

    `least`: a span below which differences are not worth magnifying.

    >>> nice_scale(1.02, 1.41), nice_scale(45.3, 45.3, least=10)
    (Scale(low=1.0, high=1.5), Scale(low=44.0, high=54.0))
    """
    span = max(high - low, abs(high) * 0.02, least, 1e-9)
    step = 10 ** np.floor(np.log10(span))
    step = next(step * factor for factor in (0.1, 0.2, 0.5, 1.0, 2.0) if span / (step * factor) <= 6 + ROUNDING)
    bottom = np.floor(low / step + ROUNDING) * step
    top = np.ceil(max(high, bottom + span) / step - ROUNDING) * step
    digits = 1 - int(np.floor(np.log10(step)))  # without the noise of the products
    return Scale(round(float(bottom), digits), round(float(top), digits))


def round_step(span: float, parts: int) -> float:
    """The smallest of 1, 2 and 5 times a power of ten of which at most so many parts make the span.

    >>> round_step(1.3, 12), round_step(0.0384, 6)
    (0.2, 0.01)
    """
    decade = float(10 ** np.floor(np.log10(span / parts)))
    return next(step for factor in (1, 2, 5, 10) if (step := factor * decade) * parts >= span * (1 - 1e-9))


def area_rows(area: Floats, mark: Floats, scale: Scale, cells: int, height: int, look: Look) -> list[str]:
    """Rows of a chart: filled up to `area`, with `mark` as a line above it.

    Both have any number of values, NaN where there is none; they are spread over the width.
    """
    if cells <= 0:
        return [""] * height
    across, down = (1, 1) if look.ascii_only else (2, 4)
    filled = _levels(_columns(area, cells * across, np.fmax), scale, height * down)
    marked = _levels(_columns(mark, cells * across, np.fmax), scale, height * down)
    if look.ascii_only:
        return _ascii_rows(filled, marked, height)
    return _braille_rows(filled, marked, cells, height)


def _columns(values: Floats, count: int, join: np.ufunc) -> Floats:
    """`values` in `count` columns: joined where many fall into one, repeated where few do."""
    starts = np.arange(count) * len(values) // count
    if len(values) <= count:
        return values[starts]
    joined: Floats = join.reduceat(values, starts)
    return joined


def _levels(values: Floats, scale: Scale, levels: int) -> npt.NDArray[np.int64]:
    """How many dots from the bottom each value reaches, at least one; 0 for NaN."""
    share = np.nan_to_num((values - scale.low) / (scale.high - scale.low), nan=-1.0)
    reached = np.clip(np.ceil(share * levels), 1, levels).astype(np.int64)
    return np.where(np.isnan(values), 0, reached)


def _braille_rows(filled: npt.NDArray[np.int64], marked: npt.NDArray[np.int64], cells: int, height: int) -> list[str]:
    level = np.arange(height * 4, 0, -1)[:, None]  # of each dot row, from the top
    dots = (level <= filled) | (level == marked)
    blocks = dots.reshape(height, 4, cells, 2)
    codes = (blocks * _DOTS[None, :, None, :]).sum(axis=(1, 3))
    return ["".join(chr(0x2800 + code) if code else " " for code in row) for row in codes.tolist()]


def _ascii_rows(filled: npt.NDArray[np.int64], marked: npt.NDArray[np.int64], height: int) -> list[str]:
    level = np.arange(height, 0, -1)[:, None]
    rows = np.where(level <= filled, ":", " ")
    rows = np.where(level == marked, "*", rows)
    return ["".join(row) for row in rows.tolist()]


Shades = npt.NDArray[np.bool_]  # of each cell of a timeline, whether the model was slowed then


def chart(rows: Sequence[str], labels: tuple[str, str], slow: Shades | None = None) -> list[Line]:
    """Rows with the ends of their scale in the gutter. `labels`: of the high end and of the low one."""
    sides = [labels[0], *[""] * (len(rows) - 2), labels[1]] if len(rows) > 1 else [labels[0]]
    return [line((f"{side:>{GUTTER - 1}} ", "dim"), *_shaded(row, slow)) for side, row in zip(sides, rows, strict=True)]


def _shaded(row: str, slow: Shades | None) -> Iterator[Span]:
    """In as few pieces as can be: one, where nothing was slowed."""
    if slow is None or not slow.any():
        yield Span(row, "graph")
        return
    edges = [0, *(np.flatnonzero(np.diff(slow)) + 1).tolist(), len(row)]
    for begin, end in pairwise(edges):
        yield Span(row[begin:end], "graph_hot" if slow[begin] else "graph")


def shades(spans: Iterable[tuple[float, float]], axis: Axis, cells: int) -> Shades:
    """Which cells of a timeline these spans of session time in s touch."""
    touched = np.zeros(max(cells, 0), np.bool_)
    scale = cells / (axis.to_s - axis.from_s)
    for begin_s, end_s in spans:
        if end_s > axis.from_s and begin_s < axis.to_s:
            begin, end = ((second - axis.from_s) * scale for second in (begin_s, end_s))
            touched[max(int(begin), 0) : max(math.ceil(end), int(begin) + 1, 1)] = True
    return touched


def span_row(touched: Shades, label: str, look: Look) -> Line:
    """The same as a row of its own, for no meaning is told by colour alone."""
    glyph = "=" if look.ascii_only else "\u2836"
    text = "".join(glyph if is_touched else " " for is_touched in touched)
    return line((f"{label:>{GUTTER - 1}} ", "dim"), (text, "graph_hot"))


def place_row(seconds: Iterable[float], label: str, axis: Axis, cells: int) -> Line:
    """A letter where the user set a mark."""
    row = [" "] * cells
    for second in seconds:
        place = int((second - axis.from_s) * cells // (axis.to_s - axis.from_s))
        if 0 <= place < cells:
            row[place] = "m"
    return line((f"{label:>{GUTTER - 1}} ", "dim"), ("".join(row), "accent"))


def tick_row(marks: Points, label: str, cells: int, look: Look) -> Line:
    """A tick for each second that is not NaN, in its cell of a timeline; `label` in the gutter."""
    if cells <= 0:
        return BLANK
    known = ~np.isnan(marks.middle)
    places = len(known)
    a_second = max(1, places // max(marks.axis.to_s - marks.axis.from_s, 1))
    row, next_ = [" "] * cells, 0
    for place in np.flatnonzero(known).tolist():
        if place >= next_:
            row[place * cells // places] = "^" if look.ascii_only else "\u2803"
            next_ = place + a_second
    return line((f"{label:>{GUTTER - 1}} ", "dim"), ("".join(row), "dim"))


def time_axis(axis: Axis, cells: int) -> Line:
    """The ends of a timeline in session time, under its chart."""
    left, right = (formatting.clock_time(second * 1e9) for second in (axis.from_s, axis.to_s))
    return ends_line(left, right, cells)


def ends_line(left: str, right: str, cells: int) -> Line:
    """The two ends of a horizontal scale, under its chart; what does not fit is left out."""
    if GUTTER + len(left) > cells:
        return BLANK
    return spread(line((f"{' ' * GUTTER}{left}", "dim")), line((right, "dim")), cells, "dim")


def bar(share: float, cells: int, look: Look) -> str:
    """A horizontal bar, as long as `share` of the cells."""
    full = "#" if look.ascii_only else "⣿"
    halves = round(min(max(share, 0.0), 1.0) * cells * 2)
    half = "" if look.ascii_only or halves % 2 == 0 else "⡇"
    return f"{full * (halves // 2)}{half}".ljust(cells)
