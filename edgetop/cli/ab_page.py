"""The charts of an A/B session on a page: both distributions, the ratios, and how that of p50 became known."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from edgetop.analysis.ab import METRICS, AbView, binned
from edgetop.analysis.ab_words import verdict_words
from edgetop.analysis.paired import LEAST_PAIRS, difference, undisturbed
from edgetop.cli.comparison_page import Ratio, edges_between, ratio_chart, shares_chart
from edgetop.cli.page import COLOURS, GREY, plain

BINS = 80
MOST_POINTS = 100  # of the course of the interval


def ab_charts(view: AbView) -> Iterator[Any]:
    """None before the first quad."""
    if not view.variants:
        return
    names = [f"{letter}  {variant.name}" for letter, variant in zip("AB", view.variants, strict=False)]
    low = min(float(np.median(rows[:, 0])) for rows in view.quantiles_ns)
    high = max(float(np.median(rows[:, -1])) for rows in view.quantiles_ns)
    edges = edges_between(low, high, BINS)
    yield shares_chart(
        [(n, 100 * binned(rows, edges)) for n, rows in zip(names, view.quantiles_ns, strict=True)], edges
    )
    ratios = [
        (metric, Ratio(one.value, one.ci95, one.verdict, verdict_words(one)))
        for metric in METRICS
        if (one := view.ratios[metric])
    ]
    yield from ratio_chart("B against A: ratio, 95 %", ratios)
    yield from _course(view)


def _course(view: AbView) -> Iterator[Any]:
    """The ratio of p50 after so many quads, as it was known then."""
    from bokeh.models import Span  # noqa: PLC0415  loads Bokeh, as all here
    from bokeh.plotting import figure  # noqa: PLC0415

    logs = view.p50_logs
    if len(logs) < LEAST_PAIRS:
        return
    counts = np.unique(np.linspace(LEAST_PAIRS, len(logs), MOST_POINTS).astype(int))
    estimates = [(int(n), one) for n in counts if (one := difference(undisturbed(logs[:n])))]
    x = [n for n, _ in estimates]
    value, low, high = (np.exp([getattr(one, end) for _, one in estimates]) for end in ("value", "low", "high"))
    chart = figure(
        title="p50 of B to A, 95 %, by quads", height=240,
        sizing_mode="stretch_width", tools="xpan,xwheel_zoom,xbox_zoom,reset,save",
        tooltips=[("quads", "@x"), ("ratio", "@y{0.0000}"), ("95 %", "@low{0.0000} to @high{0.0000}")],
    )  # fmt: skip
    data = {"x": x, "y": value, "low": low, "high": high}
    chart.varea("x", "low", "high", source=data, fill_color=COLOURS[0], fill_alpha=0.25)
    chart.line("x", "y", source=data, color=COLOURS[0], line_width=2)
    chart.add_layout(Span(location=1, dimension="width", line_color=GREY, line_dash="dashed"))
    yield plain(chart)
