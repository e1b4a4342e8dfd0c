"""Charts as lines of text: curves over time in braille or ASCII, with one colour per cell.

If several values fall into one column, the column shows the lowest or the highest of them (each curve says which), so
that no spike is lost. A braille character has two by four dots (Unicode, Braille Patterns U+2800), and every terminal
draws it one cell wide.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from edgetop import formatting
from edgetop.analysis.timeline import Axis, Points
from edgetop.frozen import frozen
from edgetop.ui.characters import CharacterSet
from edgetop.ui.text import BLANK, Line, Span, joined
from edgetop.ui.themes import SHADED

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

GUTTER = 7  # cells left of a chart for its scale; the same for all charts, so that stacked ones align

ROUNDING = 1e-5  # rounding error of readings, which have single precision, in steps of a scale

BLANK_STYLE = "text"
BRAILLE = 0x2800
# The bit of each of the eight dots of a braille cell, row by row.
_DOTS = (0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80)
_CELLS = np.array([0, *(BRAILLE + sum(dot for i, dot in enumerate(_DOTS) if of >> 7 - i & 1) for of in range(1, 256))])


@frozen
class Scale:
    """The range of a vertical axis, between two round numbers."""

    low: float
    high: float


def nice_scale(low: float, high: float, *, least: float = 0.0) -> Scale:
    """Return a vertical range between two round numbers that includes `low` and `high`.

    The range changes rarely as data grows. It spans at least `least`, so that small differences do not look large.

    >>> nice_scale(1.02, 1.41), nice_scale(45.3, 45.3, least=10)
    (Scale(low=1.0, high=1.5), Scale(low=44.0, high=54.0))
    """
    span = max(high - low, abs(high) * 0.02, least, 1e-9)
    step = 10 ** np.floor(np.log10(span))
    step = next(step * factor for factor in (0.1, 0.2, 0.5, 1.0, 2.0) if span / (step * factor) <= 6 + ROUNDING)
    bottom = np.floor(low / step + ROUNDING) * step
    top = np.ceil(max(high, bottom + span) / step - ROUNDING) * step
    digits = 1 - int(np.floor(np.log10(step)))  # to round off floating-point noise
    return Scale(round(float(bottom), digits), round(float(top), digits))


def round_step(span: float, parts: int) -> float:
    """Return the smallest round number that divides `span` into at most `parts` steps.

    A round number is 1, 2 or 5 times a power of ten.

    >>> round_step(1.3, 12), round_step(0.0384, 6)
    (0.2, 0.01)
    """
    decade = float(10 ** np.floor(np.log10(span / parts)))
    return next(step for factor in (1, 2, 5, 10) if (step := factor * decade) * parts >= span * (1 - 1e-9))


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A curve of a chart: its values from left to right at equal distances (NaN for gaps), and how it is drawn."""

    values: Floats
    style: str | Sequence[str]  # one style, or one per row from the top
    join: np.ufunc = np.fmax  # chooses the value to draw if several fall into one column
    glyph: str = "*"  # character in ASCII
    upto: Floats | None = None  # upper ends of a thinly drawn band that begins at the values
    is_filled: bool = False  # whether the area below the curve is filled
    is_dashed: bool = False

    @property
    def is_thin(self) -> bool:
        """Whether the curve is a band or dashed. In a cell with another curve, only one of the two is drawn."""
        return self.upto is not None or self.is_dashed


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """The frame of a chart, without curves: scale, size in cells, shaded cells, and the column under the cursor."""

    scale: Scale
    cells: int
    height: int
    characters: CharacterSet
    shades: Bools | None = None  # whether each cell is shaded
    cursor: int | None = None

    def rows(self, curves: Sequence[Curve], labels: Mapping[int, tuple[str, str]]) -> list[Line]:
        """Return a chart of `curves` as lines, the top row first, each with its label at the left.

        `labels` has (text, style) by the number of the row, counted from the top. A cell that several curves
        share has the colour of the last of these curves.
        """
        if self.cells <= 0:
            return [BLANK] * self.height
        styles = [(c.style,) * self.height if isinstance(c.style, str) else tuple(c.style) for c in curves]
        kinds = [(c.glyph, c.upto is None, c.is_filled, c.is_dashed) for c in curves]
        chart = _chart(self.height, self.cells, tuple(styles), self.scale, self.characters, *kinds)
        chart.draw(self, curves)
        labelled = (labels.get(y, ("", "dim")) for y in range(self.height))
        spans = (Span(f"{label:>{GUTTER - 1}} ", style) for label, style in labelled)
        return [(span, *row) for span, row in zip(spans, chart.rows, strict=True)]

    def dots(self, curve: Curve) -> Ints:
        """Return the height of a curve in each column of dots, counted in dots from the bottom; -1 for a gap.

        The result has one row of heights. If the curve is a band (it has `upto`), the result has two rows: the heights
        of the lower edge, then those of the upper edge.
        """
        across, down = self.dots_of_cell
        ends = (
            [(curve.values, curve.join)] if curve.upto is None else [(curve.values, curve.join), (curve.upto, np.fmax)]
        )
        columns = [_columns(values, self.cells * across, join) for values, join in ends]
        return self._levels(np.stack(columns), self.height * down)

    @property
    def dots_of_cell(self) -> tuple[int, int]:
        """Return how many dots a cell has, as (columns, rows): (2, 4) in braille, (1, 1) in ASCII."""
        return (1, 1) if self.characters.ascii_only else (2, 4)

    def cell_codes(self, curve: Curve, dots: Ints, first: int, last: int) -> Ints:
        """Return the character codes of a curve in the cells of columns `first` to `last` - 1; 0 for an empty cell.

        The result has a row per line of the chart. `dots` must be the result of `self.dots(curve)`.
        """
        across, down = self.dots_of_cell
        level = np.arange(self.height * down - 1, -1, -1)[:, None]  # number of each row of dots, from the bottom
        column = np.arange(first * across, last * across)
        value = dots[0, column]
        if curve.upto is not None:
            mask = (value >= 0) & (level >= value) & (level <= dots[1, column]) & (level % 2 == column % 2)
        elif curve.is_filled:
            mask = (value >= 0) & (level <= value)
        elif curve.is_dashed:
            mask = (level == value) & (column // across % 2 == 0)
        else:
            before = dots[0, np.maximum(column - 1, 0)]
            before = np.where(before < 0, value, before)
            low = np.where(before < value, before + 1, value)
            high = np.where(before > value, before - 1, value)
            mask = (value >= 0) & (level >= low) & (level <= high)
        if self.characters.ascii_only:
            return np.where(mask, ord(curve.glyph), 0)
        of_cells = mask.reshape(self.height, 4, last - first, 2).transpose(0, 2, 1, 3)
        return _CELLS[np.packbits(of_cells.reshape(self.height, last - first, 8), axis=-1)[:, :, 0]]

    def _levels(self, values: Floats, dots: int) -> Ints:
        """Return the height of each value in the chart, in dots from the bottom, or -1 for NaN.

        `dots` is the height of the whole chart in dots. A value below or above the scale gets the lowest or highest
        dot.
        """
        share = (values - self.scale.low) / (self.scale.high - self.scale.low)
        level = np.clip(np.floor(np.nan_to_num(share, nan=-1.0) * dots + ROUNDING), 0, dots - 1).astype(np.int64)
        return np.where(np.isnan(values), -1, level)

    def row_of(self, value: float) -> int:
        """Return the row of the chart in which `value` lies, counted from the top."""
        return self.height - 1 - int(self._levels(np.array([value]), self.height * 4)[0]) // 4


class _Chart:
    """A chart that remembers its last drawing, so that only changed columns and rows are drawn the next time."""

    def __init__(self, height: int, cells: int, styles: Sequence[Sequence[str]]) -> None:
        """Begin without a drawing. `styles` has, for each curve, the style of each row from the top."""
        self._dots: Sequence[Ints] = [np.full((1, 1), -2) for _ in styles]  # -2 differs from all dots of curves
        self._codes, self._style = (np.zeros((height, cells), np.int64) for _ in range(2))
        names = [BLANK_STYLE, *chain.from_iterable(styles)]
        self._names = [*names, *("shade" if name == BLANK_STYLE else f"{name}{SHADED}" for name in names), "focus"]
        self._ground: tuple[int | None, bytes] = None, b""  # cursor and shades of the last drawing
        self.rows: list[Line] = [BLANK] * height

    def draw(self, of: Plot, curves: Sequence[Curve]) -> None:
        dots = [of.dots(curve) for curve in curves]
        shades = np.zeros(of.cells, np.bool_) if of.shades is None else of.shades
        first, last = self._changed_cells(dots, of)
        ground = of.cursor, shades.tobytes()
        changed = np.full(of.height, ground != self._ground)
        self._dots, self._ground = dots, ground
        if first < last:
            part = np.s_[:, first:last]
            codes, style = self._combined(of, curves, dots, first, last)
            changed |= ((codes != self._codes[part]) | (style != self._style[part])).any(axis=1)
            self._codes[part], self._style[part] = codes, style
        for y, row in zip(np.flatnonzero(changed).tolist(), self._lines(of, shades, changed), strict=True):
            self.rows[y] = row

    def _changed_cells(self, dots: Sequence[Ints], of: Plot) -> tuple[int, int]:
        """Return the range of columns, in cells, that differ from the previous drawing: (first, one after the last).

        `of` is the chart, and `dots` has the height of each curve at each dot. The range includes one more cell after
        the last change, because the line to the next value changes, too. It is (0, 0) if no curve changed.
        """
        places: list[int] = []
        for now, before in zip(dots, self._dots, strict=True):
            is_alike = now.shape == before.shape
            changed = np.flatnonzero((now != before).any(axis=0)) if is_alike else np.arange(now.shape[1])
            if len(changed):
                places += int(changed[0]), int(changed[-1])
        if not places:
            return 0, 0
        across = of.dots_of_cell[0]
        return min(places) // across, min((max(places) + 1) // across + 1, of.cells)

    @staticmethod
    def _combined(of: Plot, curves: Sequence[Curve], dots: Sequence[Ints], first: int, last: int) -> tuple[Ints, Ints]:
        """Draw all curves in the columns `first` to `last` - 1. Return (character codes, style numbers).

        Both arrays have a row per line of the chart and a column per cell. A style number is an index of `self._names`.
        `of` is the chart to draw. `dots` has the heights of each curve, as `Plot.dots` returns them.
        """
        codes, style = (np.zeros((of.height, last - first), np.int64) for _ in range(2))
        is_line = np.zeros(codes.shape, np.bool_)
        for number, (curve, its_dots) in enumerate(zip(curves, dots, strict=True)):
            drawn = of.cell_codes(curve, its_dots, first, last)
            has = drawn > 0
            joins = has & is_line if not (curve.is_thin or of.characters.ascii_only) else np.zeros_like(has)
            codes = np.where(joins, codes | drawn, np.where(has, drawn, codes))
            is_line |= has & (not curve.is_thin)
            style = np.where(has, np.arange(of.height)[:, None] + 1 + number * of.height, style)
        return codes, style

    def _lines(self, of: Plot, shades: Bools, changed: Bools) -> Iterable[Line]:
        """Yield the rows that changed as lines. Neighbouring cells of one style are joined into one piece.

        `shades` tells of each column whether it is shaded, and `changed` of each row whether it changed.
        """
        codes, style = self._codes[changed], self._style[changed]
        shade_glyph = ":" if of.characters.ascii_only else "\u2591" if of.characters.boxes else "\u2840"
        codes = np.where(codes > 0, codes, np.where(shades, ord(shade_glyph), ord(" ")))
        # A blank shows no colour, so it takes the colour of its left neighbour, which makes fewer pieces.
        last = np.maximum.accumulate(np.where((codes == ord(" ")) & ~shades, 0, np.arange(of.cells)), axis=1)
        style = np.take_along_axis(style, last, axis=1) + shades * (len(self._names) // 2)
        if of.cursor is not None and 0 <= of.cursor < of.cells:
            style[:, of.cursor] = len(self._names) - 1
        text = codes.astype("<u4").tobytes().decode("utf-32-le")
        for y, row in enumerate(style):
            places = [0, *(np.flatnonzero(row[1:] != row[:-1]) + 1).tolist(), of.cells]
            texts = (text[y * of.cells + begin : y * of.cells + end] for begin, end in pairwise(places))
            yield tuple(
                [Span(of_style, self._names[row[begin]]) for of_style, begin in zip(texts, places, strict=False)]
            )


@lru_cache(maxsize=16)  # enough for the charts of a screen
def _chart(height: int, cells: int, styles: tuple[tuple[str, ...], ...], *_others: Hashable) -> _Chart:
    return _Chart(height, cells, styles)


def _columns(values: Floats, count: int, join: np.ufunc) -> Floats:
    """Return `values` stretched or condensed to one value for each of `count` columns.

    `join` is a function, such as `np.fmax`, that joins all values of one column. If there are fewer values than
    columns, values are repeated.
    """
    starts = np.arange(count) * len(values) // count
    if len(values) <= count:
        return values[starts]
    joined: Floats = join.reduceat(values, starts)
    return joined


def shades(spans: Iterable[tuple[float, float]], axis: Axis, cells: int) -> Bools:
    """Return, for each cell of a timeline, whether it overlaps one of `spans`.

    A span is (begin, end) in s of session time. `axis` is the time that the timeline shows, and `cells` its width.

    >>> shades([(2.0, 4.0)], Axis(0, 10), 5).tolist()
    [False, True, False, False, False]
    """
    touched = np.zeros(max(cells, 0), np.bool_)
    scale = cells / (axis.to_s - axis.from_s)
    for begin_s, end_s in spans:
        if end_s > axis.from_s and begin_s < axis.to_s:
            begin, end = ((second - axis.from_s) * scale for second in (begin_s, end_s))
            touched[max(int(begin), 0) : max(math.ceil(end), int(begin) + 1, 1)] = True
    return touched


def time_line(
    axis: Axis, cells: int, bursts: Points, marks_s: Iterable[float], rule: tuple[str, str], characters: CharacterSet
) -> Line:
    """Return the axis below a timeline as a line of `cells` cells: times, a tick per profile, an `m` per mark.

    `bursts` is a timeline that has a value where the operators were profiled, and NaN elsewhere: each value becomes a
    tick. `marks_s` are the times that the user marked, in s of session time. `rule` is the (character, style) of all
    cells that are left.
    """
    span = axis.to_s - axis.from_s
    known = ~np.isnan(bursts.middle)
    known[np.arange(len(known)) % max(1, len(known) // span) > 0] = False  # one tick if a second has several places
    ticks = tuple(place * cells // len(bursts.middle) for place in np.flatnonzero(known).tolist())
    inside = (second for second in marks_s if axis.from_s <= second < axis.to_s)
    marked = tuple(int((second - axis.from_s) * cells // span) for second in inside)
    return _time_line(axis, cells, ticks, marked, rule, characters)


@lru_cache(maxsize=16)  # it changes when a column is full
def _time_line(
    axis: Axis, cells: int, ticks: Sequence[int], marked: Sequence[int], rule: tuple[str, str],
    characters: CharacterSet,
) -> Line:  # fmt: skip
    """Return the axis below a timeline as a line of `cells` cells, with times, ticks and marks.

    `ticks` are the numbers of the cells that have a tick, and `marked` those of the cells that have an `m`. `rule` is
    the (character, style) of all cells that are left.
    """
    row = [Span(*rule)] * max(cells, 0)
    span = axis.to_s - axis.from_s
    tick = "'" if characters.ascii_only else "\u2575" if characters.boxes else "\u2803"
    for place in ticks if cells > 0 else ():
        row[place] = Span(tick, "dim")
    for place in marked if cells > 0 else ():
        row[place] = Span("m", "accent")
    for second in label_times(axis, cells):
        text = f" {formatting.axis_time(second)} "
        begin = (second - axis.from_s) * cells // span - len(text) // 2
        if 0 <= begin <= cells - len(text) and not any(begin <= place < begin + len(text) for place in marked):
            row[begin : begin + len(text)] = [Span(character, "dim") for character in text]
    return joined(tuple(row))


LABEL_CELLS = 18  # least distance between two times under a timeline
LABELS_S = (5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400)


def label_times(axis: Axis, cells: int) -> range:
    """Return the round times, in s of session time, that are written below a timeline of `cells` cells.

    The step between them is round, such as 10 s or 5 min, and leaves room for each text.
    """
    span = axis.to_s - axis.from_s
    step = next((step for step in LABELS_S if step * cells >= LABEL_CELLS * span), max(span, 1))
    return range(max(0, -(-axis.from_s // step) * step), axis.to_s, step)


EIGHTHS = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589"
RISING = (
    " .:-=+*#", " \u2840\u28c0\u28c4\u28e4\u28e6\u28f6\u28f7\u28ff",
    " \u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588",
)  # fmt: skip


def bar(share: float, cells: int, characters: CharacterSet, *, rest: str = " ") -> str:
    """Return a horizontal bar as text of `cells` cells.

    `share` is the filled part, from 0 to 1. `rest` is the character of the empty part.
    """
    full, parts = (
        ("#", " ") if characters.ascii_only else ("\u2588", EIGHTHS) if characters.boxes else ("\u28ff", " \u2847")
    )
    steps = round(min(max(share, 0.0), 1.0) * cells * len(parts))
    part = parts[steps % len(parts)].strip()
    return f"{full * (steps // len(parts))}{part}".ljust(cells, rest)


def strip(shares: Floats, characters: CharacterSet) -> str:
    """Return a chart of one row: for each value, a character whose height shows the value.

    `shares` are the values, from 0 to 1. Every value above 0 is visible.
    """
    steps = RISING[0 if characters.ascii_only else 2 if characters.boxes else 1]
    levels = np.ceil(np.clip(shares, 0, 1) * (len(steps) - 1)).astype(int)
    return "".join(steps[level] for level in levels.tolist())
