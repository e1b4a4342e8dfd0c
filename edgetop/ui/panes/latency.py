"""Latency: percentiles of the window and of the session, their course, their distribution."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.load_words import headroom_words, max_rate_words
from edgetop.analysis.precision import UNJUDGED, PrecisionView
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.tail import part_words
from edgetop.formatting import UNKNOWN, clean
from edgetop.session import histogram
from edgetop.session.seconds import QUANTILES
from edgetop.ui.charts import (
    GUTTER,
    SIDE_BY_SIDE_CELLS,
    SIDE_CELLS,
    Floats,
    Scale,
    area_rows,
    chart,
    ends_line,
    nice_scale,
    place_row,
    round_step,
    span_row,
    tick_row,
    time_axis,
)
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.panes.sensor_series import shaded, slow, throttled
from edgetop.ui.text import BLANK, Column, Line, Piece, as_fits, beside, table

NAMES = ("p50", "p90", "p95", "p99", "p99.9")
LABEL = Column("", 8, right=False)
COLUMNS = (
    LABEL,
    *(Column(f"{name} ", 7) for name in NAMES),  # the last cell is for the mark of an unsettled one
    Column("max", 7),
    Column("/s", 6),
    Column("n", 6),
    Column("min", 7),
    Column("mean", 7),
    Column("stdev", 7),
    Column("jitter", 7),
)
END_STEPS, SHARE_STEPS = 12, 6  # of the axes of the histogram: what moves them is worth a redraw of all of it
MIN_HISTOGRAM_CELLS = 20  # for the ends of its axis
LEAST_SPAN_NS = 5_000  # so that the ends of the scale differ in what is shown of them
WHOLE_ROWS = 24  # the pane has the screen to itself
CHART_ROWS = 2  # at least; of those beyond, every other one may mark what happened
STACKED_ROWS = 14  # for a histogram under the timeline


def title(view: MonitorView, _: Area) -> str:
    window = view.latency.window
    unsettled = window is not None and not window.is_settled(0.99)
    shown = "p50 filled, p99 above"
    return f"ms   {shown}   ? = n too small" if unsettled else f"ms   {shown}"


def one_line(view: MonitorView, area: Area) -> Line:
    window = view.latency.window
    if window is None:
        return as_fits(area.width, ("latency  ", "dim"), "no samples yet")
    named = [*zip(NAMES[:4], window.percentiles_ns, strict=False), ("max", window.max_ns)]
    numbers = [f"{name} {formatting.milliseconds(ns)}  " for name, ns in named]
    return as_fits(area.width, ("latency  ", "dim"), *numbers, ("ms", "dim"))


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    lines = _table(view, area.width, is_whole=area.height >= WHOLE_ROWS)
    room = area.height - len(lines) - 1  # less the axis
    if room < 2:
        return lines[: area.height]
    if area.width >= SIDE_BY_SIDE_CELLS:
        left = area.width - SIDE_CELLS - 2
        timeline = _timeline(view, area.resized(left, room))
        return [*lines, *beside(((timeline, left), (_histogram(view, area.resized(SIDE_CELLS, room)), SIDE_CELLS)))]
    if room < STACKED_ROWS:
        return [*lines, *_timeline(view, area.resized(height=room))]
    upper = room * 3 // 5
    timeline = _timeline(view, area.resized(height=upper))
    return [*lines, *timeline, *_histogram(view, area.resized(height=room - upper - 1))]


def _table(view: MonitorView, width: int, *, is_whole: bool) -> list[Line]:
    """`is_whole`: with how well the percentiles are known, and what the tail is made of."""
    latency = view.latency
    is_paced = view.manifest is not None and view.manifest.load.is_paced
    label, precision = ("since x", UNJUDGED) if latency.since_ns else ("session", view.precision)
    rows = [_cells(label, latency.session, precision)]
    if is_paced:
        rows.append(_cells("  resp.", latency.session_response))
    if latency.window_ns is not None:
        window = [_cells(formatting.span(latency.window_ns), latency.window)]
        if is_paced:
            window.append(_cells("  resp.", latency.window_response))
        rows = window + rows
    if is_whole and not latency.since_ns and any(view.precision.intervals_ns):
        rows += [_ends("95% from", view, 0), _ends("      to", view, 1)]
    lines = table(COLUMNS, rows, width)
    if view.deadline is not None:
        lines.append(_deadline_line(view.deadline, width))
    if is_whole and view.tail.recent_parts:
        told = [f"  {clean(part_words(part))}" for part in view.tail.recent_parts]
        lines.append(as_fits(width, ("tail", "dim"), f"  {len(view.tail.recent)} slowest of 10 min:", *told))
    return lines


def _deadline_line(deadline: DeadlineView, width: int) -> Line:
    """The misses of the whole session, and what p99 leaves."""
    missed = f"{formatting.fine_percent(deadline.miss_rate)} missed ({formatting.count(deadline.misses)})"
    run = f", {formatting.count(deadline.longest_run)} in a row" if deadline.misses else ""
    rate = "" if deadline.max_rate_hz is None else f", {max_rate_words(deadline.max_rate_hz)}"
    return as_fits(
        width,
        ("deadline", "dim"),
        f"  {deadline.deadline_ns / 1e6:g} ms: ",
        (missed, "warning" if deadline.is_missed else "text"),
        run,
        f", {headroom_words(deadline.headroom_ns / 1e6)}",
        rate,
    )


def _ends(label: str, view: MonitorView, end: int) -> list[Piece]:
    """One end of each interval."""
    known = view.precision.intervals_ns
    told = [f"{UNKNOWN} " if ends is None else f"{formatting.milliseconds(ends[end])} " for ends in known]
    return [(text, "dim") for text in (label, *told, *[""] * (len(COLUMNS) - len(told) - 1))]


def _cells(label: str, statistics: Statistics | None, precision: PrecisionView = UNJUDGED) -> list[Piece]:
    """`precision`: of the whole session's percentiles, where these are they."""
    if statistics is None:
        unknown = [(f"{UNKNOWN} ", "dim")] * len(NAMES) + [(UNKNOWN, "dim")] * (len(COLUMNS) - len(NAMES) - 1)
        return [(label, "dim"), *unknown]
    return [
        (label, "dim"),
        *(_percentile(statistics, quantile, precision) for quantile in QUANTILES),
        formatting.milliseconds(statistics.max_ns),
        _optional(statistics.throughput_hz, formatting.rate),
        formatting.count(statistics.count),
        formatting.milliseconds(statistics.min_ns),
        formatting.milliseconds(statistics.mean_ns),
        _optional(statistics.stdev_ns, formatting.milliseconds),
        _optional(statistics.jitter_ns, formatting.milliseconds),
    ]


def _percentile(statistics: Statistics, quantile: float, precision: PrecisionView) -> Piece:
    text = formatting.milliseconds(statistics.percentile_ns(quantile))
    return f"{text} " if precision.is_settled(quantile, statistics) else (f"{text}?", "dim")


def _optional(value: float | None, to_text: Callable[[float], str]) -> Piece:
    return UNKNOWN if value is None else to_text(value)


def _timeline(view: MonitorView, area: Area) -> list[Line]:
    """p50 filled, p99 as a line above it: as many rows as the area has, and the axis under them.

    Where there is room, the last of these rows mark what happened: limits, slowdowns, bursts, the user's marks.
    """
    points, cells = view.latency.points, area.width - GUTTER
    axis = time_axis(points.axis, area.width)
    if points.is_empty or cells <= 0:
        return [*[BLANK] * area.height, axis]
    happened = _happened(view, cells, area)[: max(0, area.height - CHART_ROWS) // 2]
    scale = nice_scale(float(np.nanmin(points.middle)), _top_of(points.high), least=LEAST_SPAN_NS)
    rows = area_rows(points.middle, points.high, scale, cells, area.height - len(happened), area.look)
    ends = (formatting.milliseconds(scale.high), formatting.milliseconds(scale.low))
    return [*chart(rows, ends, shaded(view, points.axis, area.width)), *happened, axis]


def _happened(view: MonitorView, cells: int, area: Area) -> list[Line]:
    """Each in a row, what matters most first; a row that would be empty is left out."""
    axis = view.latency.points.axis
    slowed, limited = slow(view, axis, area.width), throttled(view, axis, area.width)
    rows = [span_row(slowed, "slow", area.look)] if slowed.any() else []
    if (limited & ~(np.convolve(slowed, [1, 1, 1], "same") > 0)).any():  # else the same is told by the row above
        rows.append(span_row(limited, "limit", area.look))
    if not view.burst_marks.is_empty:
        rows.append(tick_row(view.burst_marks, "bursts", cells, area.look))
    marks = [event.t_ns / 1e9 for event in view.events.newest_first if event.kind == "mark"]
    if any(axis.from_s <= second < axis.to_s for second in marks):
        rows.append(place_row(marks, "marks", axis, cells))
    return rows


def _top_of(high: Floats) -> float:
    """The top of the scale: one spike must not flatten all the rest, so it may stand out of it."""
    known = high[~np.isnan(high)]
    return float(min(known.max(), 2 * np.median(known)))


def _histogram(view: MonitorView, area: Area) -> list[Line]:
    """How often which latency, from the shortest to beyond p99; longer ones count in the last column."""
    window = view.latency.window
    cells = area.width - GUTTER
    if window is None or cells < MIN_HISTOGRAM_CELLS:
        return [BLANK] * (area.height + 1)
    low, high = _histogram_ends(window)
    counts = _binned(view.latency.buckets, low, high, cells if area.look.ascii_only else cells * 2)
    shares = counts / counts.sum()
    step = round_step(shares.max(), SHARE_STEPS)
    scale = Scale(0, float(np.ceil(shares.max() / step - 1e-9)) * step)
    bars = np.where(counts > 0, shares, np.nan)
    rows = area_rows(bars, np.full_like(bars, np.nan), scale, cells, area.height, area.look)
    ends = ends_line(formatting.milliseconds(low), f">={formatting.milliseconds(high)}", area.width)
    return [*chart(rows, (formatting.percent(scale.high), "0")), ends]


def _histogram_ends(window: Statistics) -> tuple[float, float]:
    """From below the shortest latency to beyond p99, in round numbers, which seldom change as the window goes on."""
    low, p99 = window.min_ns, window.percentile_ns(0.99)
    high = max(p99 + (p99 - low) / 4, low * 1.02, low + 10 * histogram.UNIT_NS)
    step = round_step(high - low, END_STEPS)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _binned(buckets: histogram.Counts, low: float, high: float, bins: int) -> Floats:
    """The histogram's counts in `bins` equal steps from `low` to `high`; the ends take what is beyond.

    What a bucket holds is spread evenly over its span, so that buckets and bins of other
    widths make no pattern.
    """
    held = np.flatnonzero(buckets)
    total = np.cumsum(buckets[held])
    ends = np.column_stack([histogram.lower_edge_ns(held), histogram.lower_edge_ns(held + 1)]).ravel()
    below = np.column_stack([total - buckets[held], total]).ravel()  # how many are below each of these
    steps = np.interp(np.linspace(low, high, bins + 1)[1:-1], ends, below)
    return np.diff(steps, prepend=0, append=total[-1])


LATENCY = Drawing("latency", title, body, line=one_line)
