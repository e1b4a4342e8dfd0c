"""The report of a session as an HTML page: the text report, and charts that share one time axis."""

from collections.abc import Iterator, Sequence

import numpy as np

from edgetop.analysis.ab_figures import METRICS, AbView, binned
from edgetop.analysis.analysis import Analysis
from edgetop.analysis.heat import view_thermal
from edgetop.analysis.latency_heat import HeatColumn, LatencyAxis, choose_latency_axis
from edgetop.analysis.paired import LEAST_PAIRS, difference, undisturbed
from edgetop.analysis.session_report import Report
from edgetop.analysis.timeline import Axis, Points, choose_axis
from edgetop.cli.printing.comparison_page import Ratio, edges_between, ratio_chart, shares_chart
from edgetop.cli.printing.page import (
    COLOURS,
    GREY,
    MOST_SERIES,
    Chart,
    add_lines,
    bars,
    block,
    escaped_lines,
    plain,
    put_legend_above,
    shade,
    timeline,
    write_page,
)
from edgetop.cli.printing.report_text import summary
from edgetop.formatting import clean, shortened
from edgetop.recording.export.export_formats import NamedOutput
from edgetop.session.seconds import NS
from edgetop.wording.ab_words import verdict_words
from edgetop.wording.event_words import worded

MOST_OPERATORS, MOST_MARKS, MOST_STREAMS = 20, 500, 6
HEAT_COLUMNS, HEAT_ROWS = 120, 48  # of a heat map
ABOVE = 1.06  # where the row of longer latencies ends, as a multiple of where it begins
AB_BINS, MOST_QUADS = 80, 100  # in an A/B session: bars of a histogram, points of the ratio over time
Line = tuple[str, Points | None, str]  # name of the line, its timeline, and the column of the timeline


def write_report(output: NamedOutput, analysis: Analysis, report: Report, more: Sequence[str] = ()) -> None:
    """Write the HTML page of a session. Raises OutputError if it cannot be written.

    `more` holds lines to append to the text report.
    """
    words = "\n".join((summary(report), *more))
    first, *others = words.split("\n\n")
    text = [f'<pre class="scroll">{escaped_lines(first)}</pre>', *map(block, others)]
    ab = analysis.ab_view()
    both = [
        *analysis.faults.attempt("page: A/B charts", lambda: [*(ab_charts(ab) if ab else ())], list)[0],
        *analysis.faults.attempt("page: charts", lambda: [*charts(analysis, report)], list)[0],
    ]
    write_page(output, f"edgetop {'ab' if ab else 'report'} {report.session.name}", text, both)


def charts(analysis: Analysis, report: Report) -> Iterator[Chart]:
    """Yield charts of latency, temperature, clocks, power, memory and events on one time axis.

    A bar chart of the operators comes last.
    """
    from bokeh.models import Range1d, Span  # noqa: PLC0415

    end_s = max(1, -(-analysis.progress.view().now_ns // NS))
    axis, x_range = Axis(0, int(end_s)), Range1d(0, end_s, bounds=(0, end_s))
    crosshair = Span(dimension="height", line_color="#7f7f7f", line_dash="dotted")
    spans = [(one.start_ns / NS, end_s if one.end_ns is None else one.end_ns / NS) for one in report.throttles.spans]
    has_tokens = report.session.generation is not None
    yield from _heat_maps(analysis, choose_axis(end_s - 0.5, True, HEAT_COLUMNS), x_range, crosshair, has_tokens)
    for title, unit, lines, levels in _quantities(analysis, axis):
        shown = [line for line in lines if line[1] is not None and not line[1].is_empty][:MOST_SERIES]
        if not shown:
            continue
        chart = timeline(title, unit, x_range, crosshair)
        shade(chart, spans)
        add_lines(chart, axis, [(name, getattr(points, column)) for name, points, column in shown], unit)
        for level in levels:
            chart.add_layout(Span(location=level, dimension="width", line_color=COLOURS[1], line_dash="dashed"))
        yield chart
    yield from _events(analysis, x_range, crosshair)
    yield from _operators(report)


def _heat_maps(analysis: Analysis, axis: Axis, x_range: Chart, crosshair: Chart, has_tokens: bool) -> Iterator[Chart]:
    """Yield a heat map of latency over time for each of the busiest models.

    The opacity of a cell shows the share of inferences with that latency at that time. `axis` is the time axis. Charts
    with the same `x_range` and `crosshair` zoom together. `has_tokens` is true for language models: the maps then show
    times between tokens instead of latencies, without a deadline.
    """
    from bokeh.models import HoverTool, Range1d, Span  # noqa: PLC0415

    spans = [(one.start_ns, one.end_ns) for one in analysis.throttles.view().spans]
    views = analysis.stream_views()
    for view in views[:MOST_STREAMS]:
        columns, load = view.latency.heat(axis), view.latency.load
        if not columns:
            continue
        kind = "time between tokens" if has_tokens else "response time" if load.is_paced else "latency"
        deadline_ns = None if has_tokens else load.deadline_ns
        of = f" of {clean(view.name)}" if len(views) > 1 else ""
        chart = timeline(f"{kind}{of}; throttled spans are shaded", "ms", x_range, crosshair, is_log=True)
        chart.height = 320
        shade(chart, [(begin / NS, axis.to_s if end is None else end / NS) for begin, end in spans])
        latency = choose_latency_axis(columns, deadline_ns)
        chart.y_range = Range1d(latency.low_ns / 1e6, ABOVE * latency.high_ns / 1e6)
        cells = _heat_cells(columns, latency)
        drawn = chart.quad(
            left="left", right="right", bottom="bottom", top="top", fill_alpha="alpha", fill_color=COLOURS[0],
            line_color=None, source=cells,
        )  # fmt: skip
        middle_s = [(column.from_s + column.to_s) / 2 for column in columns]
        for name, colour, values in (
            ("p50", GREY, [column.p50_ns / 1e6 for column in columns]),
            ("p99", COLOURS[3], [column.p99_ns / 1e6 for column in columns]),
        ):
            chart.line(middle_s, values, color=colour, line_width=2, legend_label=name)
        if deadline_ns is not None:
            level = Span(location=deadline_ns / 1e6, dimension="width", line_color=COLOURS[1], line_dash="dashed")
            chart.add_layout(level)
        tooltips = [
            ("at", "@left{00:00:00}"), (kind, "@bottom{0.000} to @top{0.000} ms"),
            ("share", "@share{0.00} % of @count"), ("p50", "@p50{0.000} ms"), ("p99", "@p99{0.000} ms"),
            ("longest", "@max{0.000} ms"),
        ]  # fmt: skip
        chart.add_tools(HoverTool(renderers=[drawn], tooltips=tooltips))
        put_legend_above(chart)
        yield chart


def _heat_cells(columns: Sequence[HeatColumn], latency: LatencyAxis) -> dict[str, list[float]]:
    """Return the cells of a heat map that are not empty, as a table: a list of values for each field of a cell.

    Fields are such as `left`, `right` (s), `bottom`, `top` (ms) and `share` (percent). `columns` hold the latencies at
    each time, and `latency` is the vertical axis. The top row stands for all longer latencies.
    """
    edges = [*(latency.row_edges(HEAT_ROWS) / 1e6).tolist(), ABOVE * latency.high_ns / 1e6]
    names = ("left", "right", "bottom", "top", "alpha", "share", "count", "p50", "p99", "max")
    cells: dict[str, list[float]] = {name: [] for name in names}
    for column in columns:
        shares = latency.shares(column, HEAT_ROWS)
        for row in np.flatnonzero(shares).tolist():
            share = float(shares[row])
            alpha = min(max(0.08, 1 + np.log10(share) / 2.5), 1.0)
            found = (
                column.from_s, column.to_s, edges[row], edges[row + 1], alpha, 100 * share,
                column.count, column.p50_ns / 1e6, column.p99_ns / 1e6, column.high_ns / 1e6,
            )  # fmt: skip
            for name, value in zip(names, found, strict=True):
                cells[name].append(float(value))
    return cells


def _quantities(analysis: Analysis, axis: Axis) -> Iterator[tuple[str, str, list[Line], list[float]]]:
    tracks = analysis.tracks
    thermal = view_thermal(tracks, axis)
    zones = [zone.info for zone in thermal.zones]
    yield (
        "temperature, with its throttling trips",
        "°C",
        [(z.id, tracks.points(z.id, axis), "high") for z in zones],
        sorted({zone.trip_c for zone in thermal.zones if zone.trip_c is not None}),
    )
    clocks: list[Line] = []
    for clock in thermal.clocks:
        info = clock.mhz.info
        clocks.append((clock.label, tracks.points(info.id, axis), "middle"))
        clocks.append((f"cap {clock.label}", tracks.points(f"freqcap/{info.label}", axis), "low"))
    yield "clocks and caps", "MHz", clocks, []
    memory = ("mem/rss", "mem/pss", "mem/accelerator", "mem/application", "mem/cgroup", "mem/cgroup-limit")
    cpu = ("load/engine", "load/application", "load/others")
    traffic = ("net/rx", "net/tx", "disk/engine-read", "disk/engine-write")
    power = [track.info.id for track in tracks.views("power")]
    for title, unit, ids in (
        ("power", "W", power), ("CPU", "% of a core", cpu), ("memory", "MiB", memory),
        ("network of the board, disks", "B/s", traffic),
    ):  # fmt: skip
        yield title, unit, [(name, tracks.points(name, axis), "high") for name in ids], []


def _events(analysis: Analysis, x_range: Chart, crosshair: Chart) -> Iterator[Chart]:
    """Yield a chart with a dot for each mark and event. The pointer shows their messages.

    Charts with the same `x_range` and `crosshair` zoom together.
    """
    from bokeh.models import HoverTool  # noqa: PLC0415

    events = [worded(one) for one in analysis.events_view().newest_first if one.kind != "log"][:MOST_MARKS]
    if not events:
        return
    chart = timeline("marks and events", "", x_range, crosshair)
    chart.height, chart.yaxis.visible = 120, False
    colours = {"critical": COLOURS[1], "warning": COLOURS[3]}
    data = {
        "x": [one.t_ns / NS for one in events], "y": [0.0] * len(events),
        "what": [clean(f"{one.kind}: {one.message}") for one in events],
        "colour": [COLOURS[5] if one.kind == "mark" else colours.get(one.severity, COLOURS[0]) for one in events],
    }  # fmt: skip
    dots = chart.scatter("x", "y", size=10, color="colour", source=data)
    chart.add_tools(HoverTool(renderers=[dots], tooltips=[("", "@what"), ("at", "@x{00:00:00}")]))
    yield chart


def _operators(report: Report) -> Iterator[Chart]:
    top = sorted(report.operators or (), key=lambda one: -one.share)[:MOST_OPERATORS]
    if top:
        names = [f"{number}  {shortened(clean(one.name), 40)}" for number, one in enumerate(top, 1)]
        yield bars("operators, % of the time", names, [100 * one.share for one in top])
        groups = [one.energy_group for one in report.operators or ()]
        # The energy of a group belongs to no single bar.
        energies = [one.energy_mj if groups.count(one.energy_group) == 1 else None for one in top]
        known = [(name, mj) for name, mj in zip(names, energies, strict=True) if mj is not None]
        if known:
            yield bars("operators, mJ in an inference", [name for name, _ in known], [mj for _, mj in known])


def ab_charts(view: AbView) -> Iterator[Chart]:
    """Yield the charts of an A/B session. Yield nothing before its first four turns (ABBA or BAAB) are over."""
    if not view.variants:
        return
    names = [f"{letter}  {variant.name}" for letter, variant in zip("AB", view.variants, strict=False)]
    low = min(float(np.median(rows[:, 0])) for rows in view.quantiles_ns)
    high = max(float(np.median(rows[:, -1])) for rows in view.quantiles_ns)
    edges = edges_between(low, high, AB_BINS)
    yield shares_chart(
        [(n, 100 * binned(rows, edges)) for n, rows in zip(names, view.quantiles_ns, strict=True)], edges
    )
    ratios = [
        (metric, Ratio(one.value, one.ci95, one.verdict, verdict_words(one)))
        for metric in METRICS
        if (one := view.ratios[metric])
    ]
    yield from ratio_chart("B against A: ratio, 95 %", ratios)
    yield from _ratio_by_quads(view)


def _ratio_by_quads(view: AbView) -> Iterator[Chart]:
    """Yield a chart of p50 of B divided by p50 of A, with its 95 % interval, after every four turns."""
    from bokeh.models import Span  # noqa: PLC0415
    from bokeh.plotting import figure  # noqa: PLC0415

    logs = view.p50_logs
    if len(logs) < LEAST_PAIRS:
        return
    counts = np.unique(np.linspace(LEAST_PAIRS, len(logs), MOST_QUADS).astype(int))
    known = [(int(n), one) for n in counts if (one := difference(undisturbed(logs[:n])))]
    x = [n for n, _ in known]
    value, low, high = (np.exp([getattr(one, end) for _, one in known]) for end in ("value", "low", "high"))
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
