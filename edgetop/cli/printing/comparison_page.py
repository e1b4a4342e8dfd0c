"""A comparison as an HTML page: verdicts, tables, histograms of latency, and ratios with their 95 % intervals."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from edgetop.analysis.timeline import Floats
from edgetop.cli.output import gate_lines
from edgetop.cli.printing.agreement_text import (
    agreement_heads,
    agreement_rows,
    agreement_sentences,
    left_out_words,
)
from edgetop.cli.printing.comparison_words import (
    ranking_lines,
    ratio_cells,
    row_label,
    row_value,
    shown_rows,
    value_text,
)
from edgetop.cli.printing.page import COLOURS, GREY, MOST_SERIES, Chart, plain, put_legend_above, section, write_page
from edgetop.cli.printing.usage_text import HEADS, usage_cell
from edgetop.comparison.agreement import Agreements
from edgetop.comparison.comparison_gates import RelativeResult
from edgetop.comparison.ratios import Comparison
from edgetop.comparison.usage_table import KEYS as USAGE
from edgetop.comparison.usage_table import usage_rows
from edgetop.formatting import clean
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.session import histogram

CELLS = 60
BINS = 100
EDGES = 0.001, 0.999  # quantiles of all latencies between which histograms are drawn
MOST_RATIO = 10.0  # cut intervals here or at twice the furthest ratio, since a very wide one would squeeze the rest
WIDE = 4.0  # ratio of the highest to the lowest latency above which the axis is logarithmic


def write_comparison(
    output: NamedOutput, comparison: Comparison, gates: Sequence[RelativeResult], agreeing: Agreements | None = None
) -> None:
    """Write a comparison as an HTML page.

    `gates` are the results of `--fail-if`. `agreeing` says how well two groups of sessions agree, or is None. Raises
    OutputError if the page cannot be written.
    """
    names = comparison.names
    lines = (
        line.partition("  ")
        for line in (*ranking_lines(comparison), *gate_lines([(gate.ok, gate.reason) for gate in gates]))
        if line
    )
    verdict = [[(head, ""), (words.strip(), "FAILED" if "FAILED" in words else "")] for head, _, words in lines]
    heads = ["", names[0], *(head for name in names[1:] for head in (name, "change", "95 %", ""))]
    rows = shown_rows(comparison)
    facts, figures = ([row for row in rows if any(row.ratios) == is_figure] for is_figure in (False, True))
    usages = usage_rows(comparison.groups)
    text = [
        section("verdict", verdict),
        section(
            "figures",
            (
                [(row_label(row), ""), (row_value(row, 0), "number")]
                + [
                    cell
                    for place, one in enumerate(row.ratios[1:], start=1)
                    for change, interval, words in [ratio_cells(one, row.unit)]
                    for cell in ((row_value(row, place), "number"), (change, "number"), (interval, "number"),
                                 (words, one.verdict if one else ""))
                ]
                for row in figures
            ),
            heads,
        ),
        section(
            "usage",
            ([(row.name, ""), *((usage_cell(row, key), "number") for key in USAGE)] for row in usages),
            ["", *(HEADS[key] for key in USAGE)],
        ) if usages else "",
        *(_agreement(agreeing, names) if agreeing else ()),
        section("sessions", ([(r.label, ""), *((value_text(v, r.unit, CELLS), "") for v in r.values)] for r in facts),
                ["", *names]),
        section("was it fair", ([(one.code, ""), (one.message, ""), (one.advice, "")] for one in comparison.fair)),
    ]  # fmt: skip
    title = f"edgetop compare {', '.join(names)}"
    write_page(output, title, text, [*_histograms(comparison), *_ratios(comparison)])


def _agreement(found: Agreements, names: Sequence[str]) -> Iterator[str]:
    """Yield an HTML section for each figure: how alike both groups rank the models, and a table of the models.

    `names` are the names of the two groups of sessions.
    """
    here, there = names
    for one in found.agreements:
        title = "; ".join(agreement_sentences(one, here, there))
        rows = [[(name, ""), *((cell, "number") for cell in cells)] for name, *cells in agreement_rows(one)]
        yield section(title, rows, agreement_heads(one, here, there) if rows else ())
    if left_out := left_out_words(found):
        yield section("left out", [[(left_out, "")]])


def _histograms(comparison: Comparison) -> Iterator[Chart]:
    """Yield a chart with the latency histograms of all groups, in percent.

    The lowest and highest thousandth of the latencies are left out.
    """
    groups = [
        (group.name, sum((one.buckets for one in group.samples), np.zeros(histogram.SIZE, np.int64)))
        for group in comparison.groups[:MOST_SERIES]
    ]
    groups = [(name, counts) for name, counts in groups if counts.any()]
    if not groups:
        return
    ends = [histogram.percentiles(counts, EDGES, 0, 2**62) for _, counts in groups]
    edges = edges_between(min(low for low, _ in ends), max(high for _, high in ends), BINS)
    middle = histogram.lower_edge_ns(np.arange(histogram.SIZE)).astype(np.float64)
    yield shares_chart(
        [(name, np.histogram(middle, bins=edges, weights=counts / counts.sum() * 100)[0]) for name, counts in groups],
        edges,
    )


def edges_between(low: float, high: float, bins: int) -> Floats:
    """Return the `bins + 1` edges of equal bins from `low` to `high`.

    If `high` is more than four times `low`, the edges are spaced logarithmically.
    """
    low = max(low, 1.0)
    spaced: Floats = (np.geomspace if high > WIDE * low else np.linspace)(low, max(high, low + 1), bins + 1)
    return spaced


def shares_chart(groups: Sequence[tuple[str, Floats]], edges: Floats) -> Chart:
    """Return a chart of histograms drawn over each other.

    `groups` are `(name, percentage in each bin)` pairs. `edges` are the edges of the bins in ns.
    """
    from bokeh.models import NumeralTickFormatter  # noqa: PLC0415
    from bokeh.plotting import figure  # noqa: PLC0415

    is_wide = bool(edges[-1] > WIDE * edges[0])
    chart = figure(
        title="latency, ms: % of inferences", height=300, sizing_mode="stretch_width",
        x_axis_type="log" if is_wide else "linear",
        tools="xpan,xwheel_zoom,xbox_zoom,reset,save", tooltips=[("ms", "@left{0.000}"), ("%", "@top{0.00}")],
    )  # fmt: skip
    for number, (name, share) in enumerate(groups):
        chart.quad(
            top=share, bottom=0, left=edges[:-1] / 1e6, right=edges[1:] / 1e6, legend_label=clean(name),
            fill_color=COLOURS[number], line_color=COLOURS[number], fill_alpha=0.35,
        )  # fmt: skip
    if is_wide:
        chart.xaxis.formatter = NumeralTickFormatter(format="0.[000]")
    put_legend_above(chart)
    return plain(chart)


class Ratio(NamedTuple):
    value: float
    ci95: tuple[float, float]
    verdict: str
    words: str


def _ratios(comparison: Comparison) -> Iterator[Chart]:
    for place, name in list(enumerate(comparison.names))[1:MOST_SERIES]:
        found = [
            (row.label, Ratio(one.value, one.ci95, one.verdict, one.words))
            for row in comparison.rows
            if (one := row.ratios[place]) and one.ci95 and one.value
        ]
        yield from ratio_chart(f"{clean(name)} against {clean(comparison.names[0])}: ratio, 95 %", found)


def ratio_chart(title: str, found: Sequence[tuple[str, Ratio]]) -> Iterator[Chart]:
    """Yield a chart of ratios with their 95 % intervals, or nothing without ratios. 1 means no difference.

    `found` are `(label, ratio)` pairs, such as `("p50", ratio)`.
    """
    from bokeh.models import NumeralTickFormatter, Span  # noqa: PLC0415
    from bokeh.plotting import figure  # noqa: PLC0415

    if not found:
        return
    labels = [f"{number}  {clean(label)}" for number, (label, _) in enumerate(found, 1)]
    chart = figure(
        title=title, y_range=labels[::-1], x_axis_type="log", height=60 + 22 * len(labels),
        sizing_mode="stretch_width", tools="xwheel_zoom,reset,save", tooltips=[("", "@what")],
    )  # fmt: skip
    most = max(MOST_RATIO, *(2 * max(one.value, 1 / one.value) for _, one in found))
    ends = {
        "y": labels,
        "low": [max(one.ci95[0], 1 / most) for _, one in found],
        "high": [min(one.ci95[1], most) for _, one in found],
        "value": [one.value for _, one in found],
        "what": [f"{one.value:.3f}  {one.words}" for _, one in found],
        "colour": [_COLOUR_OF.get(one.verdict, GREY) for _, one in found],
    }
    chart.xaxis.formatter = NumeralTickFormatter(format="0.[000]")
    chart.segment("low", "y", "high", "y", line_width=3, color="colour", source=ends)
    chart.scatter("value", "y", size=9, color="colour", source=ends)
    chart.add_layout(Span(location=1, dimension="height", line_color=GREY, line_dash="dashed"))
    yield plain(chart)


_COLOUR_OF = {"slower": COLOURS[1], "faster": COLOURS[2], "higher": COLOURS[3], "lower": COLOURS[3], "same": COLOURS[0]}
