"""Values over time, and the part of a session that a screen shows.

Values are stored at two resolutions: each second of the last hour, and coarser bins for the whole session. The memory
is fixed: if the session is too long for the coarse bins, neighbours are merged. A merge keeps the lowest and the
highest value, so that no spike is lost when many seconds share a column. Values are added one by one in order, so that
a chart is the same to the last bit, however the values were cut into batches. They are stored in single precision,
which is more than a chart can show.
"""

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen

RECENT_SECONDS = 3_600
COARSE_BINS, FIRST_BINS = 2_048, 128  # most coarse bins, and those of a young session, which takes less memory
POINTS = 600  # Places in a timeline of a long span, more than any screen has columns.

USUAL_SPAN_S = 600
COLUMNS = 100  # columns of an axis if no screen says how many it has
# Widths of a column. A chart whose columns are several seconds wide moves seldom.
COLUMNS_S = (1, 2, 3, 5, 6, 10, 12, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 86_400)
# Least width of a column that the user did not choose by zooming. At 1 s every chart moves at every refresh, and sends
# 8 KB a second at 160x50; at 2 s, 3.4 KB.
LEAST_COLUMN_S = 2
ZOOMS_S = (20, 60, 120, 300, 600, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 172_800, 604_800)
LEAST_SPAN_S = 5
# Steps in a span. An axis that follows the time moves by one step at once, so that charts are seldom redrawn as a
# whole.
STEPS = 30
LEAST_STEP_S = 5
PANS = 4  # Moves in a span: panning moves by one of them.

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Singles = npt.NDArray[np.float32]


@frozen
class Axis:
    """The span of session time that all timelines of a screen show, divided into columns.

    A column begins at a multiple of its width in session time, so it shows the same seconds while it moves to the left.
    The axis of a young session begins before the session, so that the newest column is at the right end.
    """

    from_s: int
    to_s: int
    column_s: int = 1  # width of a column

    @property
    def columns(self) -> int:
        return (self.to_s - self.from_s) // self.column_s

    @property
    def places(self) -> int:
        """The number of values of a timeline along this axis.

        On a short axis, each second has the same number of values.
        """
        span = self.to_s - self.from_s
        return span * max(1, POINTS // span) if span <= 2 * POINTS else POINTS


def column_width(span_s: float, columns: int) -> int:
    """Return the width of a chart's column in s: the smallest usual width with which `columns` columns cover the span.

    `span_s`: the length of the span in s.
    """
    usual = (width for width in COLUMNS_S if width * columns >= span_s)
    return next(usual, -(-int(span_s) // (columns * COLUMNS_S[-1])) * COLUMNS_S[-1])


def choose_axis(now_s: float, whole: bool, columns: int = COLUMNS) -> Axis:
    """Return a time axis for the whole session if `whole` is True, and else for about the last ten minutes.

    `now_s`: the present session time in s. `columns`: the number of columns. The axis moves by a whole column at a
    time, so that a chart is redrawn as a whole only then.
    """
    shown_s = int(now_s) + 1
    width = max(LEAST_COLUMN_S, column_width(shown_s if whole else min(shown_s, USUAL_SPAN_S), columns))
    to_s = (int(now_s) // width + 1) * width
    return Axis(to_s - columns * width, to_s, width)


@frozen
class Lens:
    """The part of a session that timelines show: its length, and how far back it ends.

    Zooming and panning return a new lens.
    """

    span_s: int | None = None  # None: chosen by the age of the session.
    back_s: int = 0  # Seconds between the end of the axis and the present.
    columns: int = COLUMNS  # Number of columns that a chart has.

    def between(self, begin_s: float, end_s: float, now_s: float) -> "Lens":
        """Return the lens that shows the session seconds `begin_s` to `end_s`, and some time around a short span.

        `now_s`: the present session time in s.
        """
        span = max(LEAST_SPAN_S, round(end_s - begin_s))
        to_s = max(span, round((begin_s + end_s + span) / 2))
        return replace(self, span_s=span, back_s=max(0, _end(now_s, span) - to_s))

    @property
    def is_plain(self) -> bool:
        return self.span_s is None and not self.back_s

    def axis(self, now_s: float, *, whole: bool) -> Axis:
        """Return the time axis that this lens shows. `now_s`: the present session time in s.

        `whole` has an effect only if the user has not chosen a span: True then shows the whole session, and False about
        the last ten minutes.
        """
        if self.is_plain:
            return choose_axis(now_s, whole, self.columns)
        span = self._span(now_s, whole=whole)
        to_s = max(span, _end(now_s, span) - self.back_s)
        width = column_width(span, self.columns)
        from_s = (to_s - span) // width * width
        return Axis(from_s, from_s + -(-(to_s - from_s) // width) * width, width)

    def _span(self, now_s: float, *, whole: bool) -> int:
        if self.span_s is not None:
            return self.span_s
        axis = choose_axis(now_s, whole, self.columns)
        return axis.to_s - axis.from_s

    def closer(self, now_s: float, *, whole: bool) -> "Lens":
        span = self._span(now_s, whole=whole)
        return self._around_the_middle(max((s for s in ZOOMS_S if s < span), default=span), now_s, whole=whole)

    def wider(self, now_s: float, *, whole: bool) -> "Lens":
        """Return a lens that shows a longer time, at most the whole session. `now_s`: the present session time in s.

        `whole`: whether this lens shows the whole session if the user has not chosen a span.
        """
        span = self._span(now_s, whole=whole)
        if span > now_s:
            return self
        return self._around_the_middle(min((s for s in ZOOMS_S if s > span), default=span), now_s, whole=whole)

    def _around_the_middle(self, span: int, now_s: float, *, whole: bool) -> "Lens":
        """Return a lens of `span` seconds that ends at the present if this lens does, and else has the same middle.

        `now_s`: the present session time in s. `whole`: whether this lens shows the whole session if the user has not
        chosen a span.
        """
        if not self.back_s:
            return replace(self, span_s=span)
        axis = self.axis(now_s, whole=whole)
        to_s = (axis.from_s + axis.to_s) // 2 + span // 2
        return replace(self, span_s=span, back_s=self._clamped(_end(now_s, span) - to_s, span, now_s))

    def moved(self, step: int, now_s: float, *, whole: bool) -> "Lens":
        """Return a lens that is moved by a quarter of its length, but not beyond the session.

        `step`: -1 moves the lens back in time, 1 moves it forward. `now_s`: the present session time in s. `whole`:
        whether this lens shows the whole session if the user has not chosen a span.
        """
        span = self._span(now_s, whole=whole)
        back_s = self.back_s - step * max(1, span // PANS)
        return replace(self, span_s=span, back_s=self._clamped(back_s, span, now_s))

    def _clamped(self, back_s: int, span: int, now_s: float) -> int:
        return min(max(back_s, 0), _end(now_s, span) - span)


def _end(now_s: float, span: int) -> int:
    """Return the session second, a little after the present, at which the time axis of a running session ends.

    `now_s`: the present session time in s. `span`: the length of the axis in s. If the axis is long, the result changes
    by several seconds at a time.
    """
    step = max(1, span // STEPS, min(LEAST_STEP_S, span // PANS))
    return max(span, (int(now_s) // step + 1) * step)


@frozen
class Points:
    """A timeline: values at even distances along an axis. A value is NaN where nothing was measured."""

    axis: Axis
    low: Floats
    middle: Floats
    high: Floats
    top: Floats

    @property
    def _figures(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.low, self.middle, self.high, self.top

    @property
    def is_empty(self) -> bool:
        return bool(np.isnan(self.middle).all())

    def until(self, second: float) -> "Points":
        """Return a copy without values after the session time `second`, in s.

        It is for a screen that is paused while the session continues.
        """
        span = self.axis.to_s - self.axis.from_s
        places = len(self.middle)
        is_after = np.arange(places) * span >= (second - self.axis.from_s) * places
        return Points(self.axis, *(np.where(is_after, np.nan, values) for values in self._figures))

    def extremes(self, from_s: float) -> tuple[float, float]:
        """Return `(lowest, highest)` of the values from the session second `from_s` on.

        Both are NaN if there are no values.
        """
        span = self.axis.to_s - self.axis.from_s
        first = math.ceil(min(max(from_s - self.axis.from_s, 0.0), span) * len(self.middle) / span)
        lowest, highest = (
            join.reduce(values[first:], initial=np.nan) for join, values in ((np.fmin, self.low), (np.fmax, self.high))
        )
        return float(lowest), float(highest)

    def bridged(self, seconds: float) -> "Points":
        """Return a copy in which each short hole is filled with the value before it.

        A hole is short if it lasts at most `seconds`, and if a known value follows it.
        """
        known = np.flatnonzero(~np.isnan(self.middle))
        most = int(seconds * len(self.middle) / (self.axis.to_s - self.axis.from_s))
        holes = np.diff(known) - 1
        if not ((holes > 0) & (holes <= most)).any():
            return self
        stands = np.where(holes <= most, holes, 0) + 1
        source = np.repeat(known[:-1], stands)
        place = source + np.arange(len(source)) - np.repeat(np.cumsum(stands) - stands, stands)
        filled = []
        for values in self._figures:
            bridged = values.copy()
            bridged[place] = values[source]
            filled.append(bridged)
        return Points(self.axis, *filled)


class Timeline:
    """Stores the lowest, mean and highest value of several quantities for each second, and the weight of the mean.

    The weight is the number of values, such as inferences, in the second.
    """

    def __init__(self, tracks: int = 1, *, has_top: bool = True) -> None:
        """Begin without values. `tracks` is the number of quantities.

        Each second has three figures of a quantity: low, middle and high. With `has_top`, a second also has a fourth
        figure, the top, which is at least the high figure. For example, the high figure of latencies is the p99, and
        their top is the maximum. Without `has_top`, the top is equal to the high figure.
        """
        # A second is cleared before it is used, so that future seconds take no memory.
        self._recent = _Bins(np.zeros((4 + has_top, tracks, RECENT_SECONDS), np.float32))
        self._recent_second = np.full(RECENT_SECONDS, -1, np.int64)
        self._coarse = _Bins(_empty(4 + has_top, tracks, FIRST_BINS))
        self.coarse_width_s = 1  # Width of a coarse bin.
        self._newest = -1

    def grow(self, tracks: int) -> None:
        """Make room for `tracks` quantities. The present quantities keep their numbers."""
        rows, known, _ = self._recent.figures.shape
        if tracks > known:
            grown = np.zeros((rows, tracks, RECENT_SECONDS), np.float32)
            place = np.flatnonzero(self._recent_second >= 0)
            grown[:, :known, place] = self._recent.figures[:, :, place]
            grown[:, known:, place] = _EMPTY[:rows, None, None]
            self._recent.figures = grown
            more = _empty(rows, tracks - known, self._coarse.size)
            self._coarse.figures = np.concatenate([self._coarse.figures, more], axis=1)

    def expect(self, second: int) -> None:
        """Announce that there will be values up to the session second `second`.

        Values from more than an hour before this second are then stored only in coarse bins.
        """
        self._newest = max(self._newest, second)

    def add(self, track: Ints, second: Ints, figures: Floats, weight: Floats) -> None:
        """Add n sets of figures, in the order in which they were measured.

        `track` (the number of the quantity), `second` (the session second) and `weight` (the number of values that the
        set describes) are arrays of shape (n,). `figures` has n columns, and the rows low, middle, high and, with
        `has_top`, top. Seconds may repeat or come late. Values from before the session are left out.
        """
        low, middle, high, *top = figures
        # `at` is slow if it has to convert types.
        joined = np.stack([low, middle * weight, high, weight, *top]).astype(np.float32)
        known = second >= 0
        if not known.all():
            track, second, joined = track[known], second[known], joined[:, known]
        if len(second):
            self._newest = max(self._newest, int(second.max()))
            self._add_recent(track, second, joined)
            self._add_coarse(track, second, joined)

    def cover(self, track: Ints, begin: Ints, end: Ints, figures: Floats, count: Ints) -> None:
        """Add figures that each describe a span of time, to every coarse bin in the span.

        All arguments are arrays with an element or column for each set of figures. `track`: the number of the quantity.
        `begin` and `end`: the first and the last session second of the span. `figures`: the rows low, middle and high.
        `count`: the weight, which is divided among the bins.
        """
        width = self.coarse_width_s
        while COARSE_BINS * width <= int(end.max(initial=0)):
            width *= 2
        times = np.maximum(end // width - begin // width, 0) + 1
        nth = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        second = np.minimum(np.repeat(begin, times) + nth * width, np.repeat(end, times))
        weight = np.repeat(count / times, times)
        self.add(np.repeat(track, times), second, np.repeat(figures, times, axis=1), weight)

    def _add_recent(self, track: Ints, second: Ints, figures: Singles) -> None:
        fresh = second > self._newest - RECENT_SECONDS
        if not fresh.all():
            track, second, figures = track[fresh], second[fresh], figures[:, fresh]
        place = second % RECENT_SECONDS
        # Places where a new second begins: readings of one second come together.
        begins = np.flatnonzero(np.diff(second, prepend=-1))
        stale = begins[self._recent_second[place[begins]] != second[begins]]
        self._recent.clear(place[stale])
        self._recent_second[place] = second
        self._recent.add(track, place, figures)

    def _add_coarse(self, track: Ints, second: Ints, figures: Singles) -> None:
        done = 0
        while done < len(second):
            beyond = np.flatnonzero(second[done:] >= COARSE_BINS * self.coarse_width_s)
            upto = done + int(beyond[0]) if len(beyond) else len(second)
            part = slice(done, upto)
            place = second[part] // self.coarse_width_s
            self._coarse.reach(int(place.max(initial=0)), COARSE_BINS)
            self._coarse.add(track[part], place, figures[:, part])
            done = upto
            if len(beyond):
                self._coarse.halve()
                self.coarse_width_s *= 2

    def points(self, axis: Axis, track: int = 0) -> Points:
        """Return a frozen copy of the timeline of quantity number `track`, along the time axis `axis`."""
        if axis.from_s > self._newest - RECENT_SECONDS or self.coarse_width_s == 1:
            if axis.to_s - axis.from_s <= 2 * POINTS:
                return Points(axis, *self._seconds(axis, track))
            starts, width, bins = self._recent_second, 1, self._recent
        else:
            width, bins = self.coarse_width_s, self._coarse
            starts = np.arange(bins.size) * width
        return Points(axis, *_resampled(axis, starts, width, bins.figures[:, track]))

    def sums(self, tracks: Ints, begin_s: int, end_s: int, *, coarse: bool = False) -> tuple[Floats, Floats]:
        """Return two arrays with an entry for each second: the sum of values times weights, and the sum of weights.

        Both have the shape (tracks, seconds). `tracks`: the numbers of the quantities. `begin_s` and `end_s`: the first
        session second, and the second after the last. `coarse`: True returns a sum for each coarse bin instead of each
        second. `begin_s` and `end_s` must then be borders of bins.
        """
        if coarse:
            bins, place = self._coarse, np.arange(begin_s // self.coarse_width_s, end_s // self.coarse_width_s)
            is_known = place < bins.size
            place = np.minimum(place, bins.size - 1)
        else:
            second = np.arange(begin_s, end_s)
            bins, place = self._recent, second % RECENT_SECONDS
            is_known = self._recent_second[place] == second
        values, weights = (
            np.where(is_known, bins.figures[row][tracks[:, None], place], 0.0).astype(np.float64)
            for row in (_MIDDLE, _WEIGHT)
        )
        return values, weights

    def _seconds(self, axis: Axis, track: int) -> Floats:
        """Return four rows, the low, middle, high and top figures of one quantity, with `axis.places` columns.

        `axis`: a time axis on which every second has the same number of values. `track`: the number of the quantity.
        """
        begin, count = axis.from_s % RECENT_SECONDS, axis.to_s - axis.from_s
        goes_round = begin + count > RECENT_SECONDS
        place = np.arange(begin, begin + count) % RECENT_SECONDS if goes_round else slice(begin, begin + count)
        figures = self._recent.figures[:, track, place].astype(np.float64)
        is_known = self._recent_second[place] == np.arange(axis.from_s, axis.to_s)
        points = _means(np.where(is_known, figures, 0.0))
        each = axis.places // count
        return points if each == 1 else np.repeat(points, each, axis=1)


# How two columns are joined, row by row: lowest, sum of middles times weights, highest, sum of weights, and top.
_JOIN = (np.minimum, np.add, np.maximum, np.add, np.maximum)
_EMPTY = np.array([np.inf, 0.0, -np.inf, 0.0, -np.inf], np.float32)
_LOW, _MIDDLE, _HIGH, _WEIGHT, _TOP = range(5)


class _Bins:
    """The figures of every quantity in every bin of time, as an array of shape (figures, quantities, bins).

    The weight of an empty bin is 0.
    """

    def __init__(self, figures: Singles) -> None:
        self.size = figures.shape[2]
        self.figures = figures

    def clear(self, place: Ints) -> None:
        self.figures[:, :, place] = _EMPTY[: len(self.figures), None, None]

    def reach(self, place: int, most: int) -> None:
        """Make sure that there is a bin number `place`.

        The number of bins is doubled as often as needed, up to `most`.
        """
        size = self.size
        while size <= place:
            size = min(2 * size, most)
        if size > self.size:
            rows, tracks, _ = self.figures.shape
            self.figures = np.concatenate([self.figures, _empty(rows, tracks, size - self.size)], axis=2)
            self.size = size

    def add(self, track: Ints, place: Ints, figures: Singles) -> None:
        flat = track * self.size + place
        for join, rows, values in zip(_JOIN, self.figures, figures, strict=False):
            join.at(rows.reshape(-1), flat, values)

    def halve(self) -> None:
        """Join each bin with its neighbour. The joined bins fill the first half, and the second half is empty."""
        merged = _empty(*self.figures.shape)
        for join, rows, result in zip(_JOIN, self.figures, merged, strict=False):
            result[:, : self.size // 2] = join(rows[:, 0::2], rows[:, 1::2])
        self.figures = merged


def _empty(rows: int, tracks: int, size: int) -> Singles:
    return np.tile(_EMPTY[:rows, None, None], (1, tracks, size))


def _resampled(axis: Axis, starts: Ints, width: int, figures: Singles) -> Floats:
    """Return four rows, the low, middle, high and top figures along a time axis, with `axis.places` columns.

    `starts`: the first session second of each value. `width`: how many seconds each value lasts. A value enters every
    column whose time overlaps with the value's time. `figures`: the values, with a row for each kind of figure.
    """
    span, places = axis.to_s - axis.from_s, axis.places
    inside = (starts + width > axis.from_s) & (starts < axis.to_s) & (figures[_WEIGHT] > 0)
    starts, figures = starts[inside], figures[:, inside]
    first = np.clip((starts - axis.from_s) * places // span, 0, places - 1)
    last = np.clip(((starts + width - axis.from_s) * places - 1) // span, first, places - 1)
    times = last - first + 1
    nth = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    bins = _Bins(_empty(len(figures), 1, places))
    bins.add(np.zeros_like(nth), np.repeat(first, times) + nth, np.repeat(figures, times, axis=1))
    return _means(bins.figures[:, 0].astype(np.float64))


def _means(figures: Floats) -> Floats:
    """Return four rows: the low, mean, high and top figure of each bin, or NaN for a bin without weight.

    `figures`: the rows of a `_Bins` object, of which the middle row is a sum of values times weights.
    """
    weight = np.where(figures[_WEIGHT] > 0, figures[_WEIGHT], np.nan)
    top = figures[_TOP] if len(figures) > _TOP else figures[_HIGH]
    rows = np.stack([figures[_LOW], figures[_MIDDLE] / weight, figures[_HIGH], top])
    rows[:, np.isnan(weight)] = np.nan
    return rows
