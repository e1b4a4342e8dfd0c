"""The latency heat map: time to the right, latency upwards on a logarithmic axis, shares of inferences as colours.

A cell of the terminal shows two rows of the map, one above the other: a half block in one colour on a background of
another. If the terminal cannot draw half blocks, a row of text is one row of the map. Without colours, characters stand
for shares.

The design follows Brendan Gregg's latency heat maps (https://www.brendangregg.com/HeatMaps/latency.html) and
HdrHistogram.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgetop.analysis.latency_heat import HeatColumn, LatencyAxis
from edgetop.analysis.timeline import Axis
from edgetop.formatting import milliseconds
from edgetop.ui.characters import CharacterSet
from edgetop.ui.charts import GUTTER, Bools
from edgetop.ui.text import BLANK, Line, Span
from edgetop.ui.themes import HEAT_LEVELS, HEAT_LIMIT, HEAT_P50, HEAT_P99, HEAT_SLOWED, HEAT_THROTTLED, heat_style

Codes = npt.NDArray[np.int8]  # what each half cell shows: 0 to HEAT_LEVELS for shares, or one of the HEAT_ codes above

LEAST_SHARE_LOG = 2.5  # a share of 10^-2.5 and less has the first level; each level is a factor of about 3
MOST_SPANS = 4_096  # pieces of rows that are kept
LABEL_ROWS = 3  # one label for at least so many rows
SHADES, ASCII_SHADES = " .░▒▓█", " .:=%#"
MARKS = {HEAT_P50: "o", HEAT_P99: "^", HEAT_LIMIT: "-", HEAT_THROTTLED: "T", HEAT_SLOWED: "s"}


def levels_of(column: HeatColumn, axis: LatencyAxis, rows: int) -> Codes:
    """Return the colour level of each row of one column of the map, from the bottom; 0 for a row without inferences.

    The level grows with the share of the column's inferences that had a latency in that row. One more level at the end
    is for latencies above the axis, so the result has `rows` + 1 values.
    """
    shares = axis.shares(column, rows)
    levels = np.zeros(rows + 1, np.int8)
    held = shares > 0
    place = (1 + np.log10(shares[held]) / LEAST_SHARE_LOG) * (HEAT_LEVELS - 0.001)
    levels[held] = np.clip(1 + np.floor(place), 1, HEAT_LEVELS)
    return levels


@dataclass(frozen=True, slots=True, eq=False)
class HeatMap:
    """The content of a heat map of latency over time, and its size in cells."""

    time: Axis
    columns: Sequence[HeatColumn]
    latency: LatencyAxis
    deadline_ns: float | None
    cells: int  # width of the map, without its labels
    height: int
    characters: CharacterSet
    throttled: Bools  # by cell
    slowed: Bools
    cursor: int | None = None  # cell under the cursor

    def lines(self) -> list[Line]:
        """Return the map as `height` lines, each with its label at the left.

        The first line is for latencies above the axis.
        """
        if self.cells <= 0 or self.height < 2:
            return [BLANK] * self.height
        labels = (Span(f"{label:>{GUTTER - 1}} ", style) for label, style in self._labels())
        rows = _canvas(self.height, self.cells, self.characters).draw(self)
        return [(label, *row) for label, row in zip(labels, rows, strict=True)]

    def _labels(self) -> list[tuple[str, str]]:
        """Return the label of each line as (text, style), from the top. The text is "" where there is no label."""
        rows = self.height - 1
        edges = self.latency.row_edges(rows)[:-1][::-1]
        greatest_ns = max(column.high_ns for column in self.columns)
        labels = [(milliseconds(greatest_ns) if greatest_ns >= self.latency.high_ns else "", "dim")]
        labels += [(milliseconds(ns) if (rows - 1 - y) % LABEL_ROWS == 0 else "", "dim") for y, ns in enumerate(edges)]
        if self.deadline_ns is not None and self.latency.low_ns <= self.deadline_ns < self.latency.high_ns:
            labels[rows - self.latency.row_of(self.deadline_ns, rows)] = (f"{self.deadline_ns / 1e6:g}", "limit")
        return labels


class Canvas:
    """A map that remembers its last drawing: only changed columns are computed, and only changed rows drawn again."""

    def __init__(self, height: int, cells: int, characters: CharacterSet) -> None:
        self._characters = characters
        self._halves = 2 if characters.boxes and characters.has_colours else 1
        self._axes: tuple[Axis, LatencyAxis] | None = None  # of the last drawing
        self._columns: dict[int, HeatColumn] = {}  # of the last drawing, by place
        self._known: dict[int, Codes] = {}  # what these columns show, from the bottom
        self._base: Codes = np.zeros((0, 0), np.int8)  # the same as an array, without the deadline and the marks below
        self._codes: Codes = np.full((height * self._halves, cells), -1, np.int8)
        self._cursor: int | None = None
        self._spans: dict[tuple[int, int], Span] = {}  # by what its cells show, and their number
        self._rows: list[Line] = [BLANK] * height

    def draw(self, of: HeatMap) -> list[Line]:
        codes = self._painted(of)
        changed = (codes != self._codes).any(axis=1).reshape(of.height, self._halves).any(axis=1)
        if of.cursor != self._cursor:
            changed[:] = True
        self._codes, self._cursor = codes, of.cursor
        for y in np.flatnonzero(changed).tolist():
            pair = codes[y * self._halves : (y + 1) * self._halves]
            self._rows[y] = self._line(pair[0], pair[-1], of.cursor)
        return self._rows

    def _painted(self, of: HeatMap) -> Codes:
        """Return what each half cell of the map shows: a colour level, or a code such as HEAT_P99.

        The result has the rows of the map from the top (two in each line of text if half blocks can be drawn), and a
        column per cell.
        """
        rows, count = (of.height - 1) * self._halves, of.time.columns
        self._update(of, rows, count)
        painted = self._base[:, np.arange(of.cells) * count // of.cells]
        if of.deadline_ns is not None and of.latency.low_ns <= of.deadline_ns < of.latency.high_ns:
            row = painted[of.latency.row_of(of.deadline_ns, rows)]
            row[(np.arange(of.cells) // 2 % 2 == 0) & (row <= HEAT_LEVELS)] = HEAT_LIMIT
        painted[0, of.slowed] = HEAT_SLOWED
        painted[0, of.throttled] = HEAT_THROTTLED
        return painted[::-1]

    def _update(self, of: HeatMap, rows: int, count: int) -> None:
        """Compute the columns of the map that have changed, or all columns if the latency axis has changed.

        `rows` is the number of rows within the latency axis; the row for longer latencies is above them. `count` is the
        number of columns of the time axis.
        """
        time, before = of.time, self._axes
        self._axes = time, of.latency
        kept: dict[HeatColumn, Codes] = {}
        if before is None or before[1] != of.latency:
            self._columns, self._known = {}, {}
        elif before[0] != time:  # the columns moved
            kept = {column: self._known[place] for place, column in self._columns.items()}
            self._columns, self._known = {}, {}
        if not self._columns:
            self._base = np.zeros((rows + self._halves, count), np.int8)
        from_s, width_s = time.from_s, time.column_s
        columns = {(column.from_s - from_s) // width_s: column for column in of.columns}
        gone = self._columns.keys() - columns.keys()
        for place, column in columns.items():
            if not 0 <= place < count or self._columns.get(place) is column:
                continue
            self._columns[place] = column
            self._known[place] = codes = kept[column] if column in kept else self._column(column, of.latency, rows)
            self._base[:, place] = codes
        for place in gone:
            del self._columns[place], self._known[place]
            self._base[:, place] = 0

    def _column(self, column: HeatColumn, axis: LatencyAxis, rows: int) -> Codes:
        """Return what a column shows in each of its `rows` rows from the bottom, then for latencies above the axis."""
        codes = self._with_lines(column, axis, rows)
        codes = np.concatenate([codes, codes[rows:].repeat(self._halves - 1)])
        if axis.row_of(column.p99_ns, rows) == rows:  # the share of longer latencies stays below the mark
            codes[-1] = HEAT_P99
        return codes

    @staticmethod
    def _with_lines(column: HeatColumn, axis: LatencyAxis, rows: int) -> Codes:
        """Return a column's colour levels from the bottom, but HEAT_P50 and HEAT_P99 in the rows of p50 and p99."""
        codes = levels_of(column, axis, rows)
        for ns, mark in ((column.p99_ns, HEAT_P99), (column.p50_ns, HEAT_P50)):
            if (row := axis.row_of(ns, rows)) < rows:
                codes[row] = mark
        return codes

    def _line(self, upper: Codes, lower: Codes, cursor: int | None) -> Line:
        both = upper.astype(np.int64) * 16 + lower
        if cursor is not None and 0 <= cursor < len(both):
            both[cursor] += 1_024
        places = [0, *(np.flatnonzero(both[1:] != both[:-1]) + 1).tolist(), len(both)]
        shown, spans = both[places[:-1]].tolist(), self._spans
        lengths = [end - begin for begin, end in pairwise(places)]
        return tuple([spans.get(key) or self._span(*key) for key in zip(shown, lengths, strict=True)])

    def _span(self, both: int, cells: int) -> Span:
        if len(self._spans) >= MOST_SPANS:
            self._spans.clear()
        self._spans[both, cells] = span = self._made_span(both, cells)
        return span

    def _made_span(self, both: int, cells: int) -> Span:
        upper, lower = both % 1_024 // 16, both % 16
        style = "focus" if both >= 1_024 else heat_style(upper, lower)
        if self._halves == 2:
            return Span((" " if upper == lower else "▀") * cells, style)
        if self._characters.has_colours and not self._characters.ascii_only:
            return Span(" " * cells, style)
        shades = SHADES if self._characters.boxes else ASCII_SHADES
        glyph = MARKS[upper] if upper in MARKS else shades[upper]
        return Span(glyph * cells, style if both >= 1_024 else "text" if upper <= HEAT_LEVELS else _TEXT_STYLES[upper])


_TEXT_STYLES = {
    HEAT_P50: "median", HEAT_P99: "p99", HEAT_LIMIT: "limit", HEAT_THROTTLED: "critical", HEAT_SLOWED: "warning",
}  # fmt: skip


@lru_cache(maxsize=8)
def _canvas(height: int, cells: int, characters: CharacterSet) -> Canvas:
    return Canvas(height, cells, characters)
