"""The latency pane of an A/B session, in which two variants run in turns: figures, ratios and distributions of both."""

import math
from collections.abc import Sequence

import numpy as np

from edgetop import formatting
from edgetop.analysis.ab_figures import AbView, Ratio, binned
from edgetop.analysis.progress import ProgressView
from edgetop.ui.charts import GUTTER, Curve, Floats, Plot, Scale, round_step
from edgetop.ui.panes.pane import Area
from edgetop.ui.text import Line, Piece, as_fits, fit, line, spread, wrapped
from edgetop.wording.ab_words import change_words, p50_words, turn_words, verdict_words

STYLES = ("p50", "p99")  # styles of A and of B
LEVELS = {"slower": "warning", "higher": "warning", "faster": "good", "lower": "good", "same": "good"}
GAUGE_CELLS, LEAST_GAUGE_CELLS = 24, 10  # greatest and least width of a gauge
CHART_ROWS = 4  # least height of the chart, including its axis
NAME_CELLS = 28
LABEL_CELLS, CHANGE_CELLS = 11, 23  # widths of the name of a figure, and of its change with its interval
STEPS = 12  # number of steps of the axis of the distributions
LEAST_SHARE = 0.001  # least half range of a gauge, so that tiny differences look equal
WIDE_CELLS = 76  # least width to show gauges beside the words


def ab_title(view: AbView, progress: ProgressView) -> str:
    """Return the title: which variant runs now, and how far the session is, such as `quad 4 of 12, turn of B`.

    After the end of the session, return the number of quads. A quad is four turns of the two variants, ABBA or BAAB.
    """
    return f"{view.quads} quads" if progress.phase == "over" else turn_words(view.turn(progress.now_ns))


def ab_line(view: AbView, width: int) -> Line:
    return as_fits(width, ("A/B  ", "dim"), p50_words(view))


def ab_body(view: AbView, area: Area) -> Sequence[Line]:
    """Return the lines of the pane, the most important first, as many as fit.

    First come the figures of both variants, then the ratios of B to A, then a chart of both distributions.
    """
    if not view.variants:
        words = "no quad yet: A runs alone at first, which shows how small a difference can be found"
        return wrapped(words, area.width, "dim")[: area.height]
    lines = [_variant(view, side, area) for side in range(len(view.variants))]
    # Half range of the gauges, as a share: the interval end of p50 or throughput that is farthest from equality.
    farthest = max((ratio.within for name in ("p50", "throughput") if (ratio := view.ratios[name])), default=0.0)
    widest = max(round_step(max(farthest, LEAST_SHARE), 1), view.until)
    shown = [(name, ratio) for name, ratio in view.ratios.items() if ratio or name != "energy"]
    verdict_cells = max((len(verdict_words(ratio)) for _, ratio in shown if ratio), default=0)
    lines += [_ratio(name, ratio, widest, verdict_cells, area) for name, ratio in shown]
    room = area.height - len(lines)
    if room >= CHART_ROWS:
        lines += _distributions(view, area.resized(height=room))
    return lines[: area.height]


def _variant(view: AbView, side: int, area: Area) -> Line:
    of = view.variants[side]
    name = fit(line((area.clean(of.name), "text")), min(NAME_CELLS, area.width // 3))
    figures = [("p50", of.p50_ms), ("p90", of.p90_ms), ("p99", of.p99_ms)]
    pieces = [piece for key, ms in figures for piece in ((f" {key} ", "dim"), formatting.milliseconds(ms * 1e6))]
    energy = "" if of.energy_mj is None else f"  {formatting.millijoules(of.energy_mj)} mJ"
    rate = f"  {formatting.rate(of.throughput_hz)}/s"
    return as_fits(area.width, ("AB"[side], STYLES[side]), " ", *name, *pieces, rate, energy)


def _ratio(name: str, ratio: Ratio | None, widest: float, verdict_cells: int, area: Area) -> Line:
    """Return a line with one figure of B as a ratio to A, what that means, and a gauge if there is room.

    `widest` is the difference at both ends of the gauge, as a share. `verdict_cells` is the width of the longest text
    of what a ratio means, so that all gauges begin in the same column.
    """
    if ratio is None:
        return as_fits(area.width, (f"{name:<{LABEL_CELLS}}", "dim"), ("too few turns", "dim"))
    gauge: tuple[Piece, ...] = ()
    ends = f" +-{widest * 100:g} %"
    room = area.width - LABEL_CELLS - CHANGE_CELLS - verdict_cells - len(ends) - 2
    if area.width >= WIDE_CELLS and room >= LEAST_GAUGE_CELLS:
        gauge = (f" {_gauge(ratio, widest, min(room // 2 * 2, GAUGE_CELLS))}", (ends, "dim"))
    said, style = verdict_words(ratio), LEVELS.get(ratio.verdict, "dim")
    pieces: list[Piece] = [(f"{name:<{LABEL_CELLS}}", "dim"), f"{change_words(ratio):<{CHANGE_CELLS}}", (said, style)]
    return as_fits(area.width, *pieces, " " * (verdict_cells - len(said)), *gauge)


def _gauge(ratio: Ratio, widest: float, width: int) -> str:
    """Return a gauge as text: `[==]` is the 95 % interval of `ratio`, and `|` in the middle means that A equals B.

    `widest` is the difference at both ends of the gauge, as a share: 0.1 for -10 % to +10 %. `width` is an even number;
    the gauge is one cell wider.

    >>> from edgetop.analysis.ab_figures import Ratio
    >>> _gauge(Ratio(1.05, (1.04, 1.06), "slower", None), 0.1, 24)
    '------------|----[=]-----'
    """
    cells = ["-"] * (width + 1)

    def cell(value: float) -> int:
        return round(min(max((value - 1) / widest, -1), 1) * width / 2) + width // 2

    low, high = (cell(end) for end in ratio.ci95)
    cells[low : high + 1] = "=" * (high - low + 1)
    cells[low], cells[high] = "[", "]"
    cells[width // 2] = "|"
    return "".join(cells)


def _distributions(view: AbView, area: Area) -> list[Line]:
    """Return a chart of how often each latency occurs in A (a filled area) and in B (a curve), or [] without room."""
    low, high = _ends(view.quantiles_ns)
    cells = area.width - GUTTER
    if cells <= 0 or not high > low:
        return []
    bins = cells if area.characters.ascii_only else cells * 2
    shares = [binned(quantiles, np.linspace(low, high, bins + 1)) for quantiles in view.quantiles_ns]
    of = Plot(Scale(0, max(float(s.max()) for s in shares) or 1.0), cells, area.height - 1, area.characters)
    known = [np.where(s > 0, s, np.nan) for s in shares]
    curves = [Curve(known[0], STYLES[0], glyph=":", is_filled=True), Curve(known[1], STYLES[1], glyph="+")]
    ends = [(f"{formatting.milliseconds(end)} ms", "dim") for end in (low, high)]
    return [
        *of.rows(curves, {0: ("how", "dim"), 1: ("often", "dim")}),
        spread(line(" " * GUTTER, ends[0]), line(ends[1]), area.width),
    ]


def _ends(quantiles: Sequence[Floats]) -> tuple[float, float]:
    """Return the least and the greatest latency on the axis, both round numbers in ns.

    The axis reaches from below the shortest latency to above the 95th percentile. `quantiles` are the quantiles of each
    variant in ns, with a row per quad (four turns of the variants).
    """
    low = min(float(np.median(rows[:, 0])) for rows in quantiles)
    high = max(float(np.median(rows[:, -2])) for rows in quantiles) * 1.02
    step = round_step(max(high - low, 100.0), STEPS)
    return math.floor(low / step) * step, math.ceil(high / step) * step
