"""Writes HTML pages with tables and Bokeh charts. A page needs no network and no other file.

Bokeh is installed with the extra `html`. Only this module imports it, when a page is requested.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from edgetop.analysis.timeline import Axis, Floats
from edgetop.errors import InputError
from edgetop.formatting import clean
from edgetop.installation import extra_command
from edgetop.recording.export.export_formats import NamedOutput

COLOURS = ("#3b82f6", "#ef4444", "#10a37f", "#d98b06", "#8b5cf6", "#0ea5b7", "#db2777", "#7a7a7a")
Chart = Any  # a figure, range or tool of Bokeh, which has no types for mypy
GREY = "#7f7f7f"  # legible on light and on dark pages
ELSEWHERE = "choose another path with --html"
MOST_SERIES = len(COLOURS)
LONGEST_OPEN = 20  # lines of a block of text that is not folded

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ --wide: 768; color-scheme: light dark; }}
:root {{ --text: #1c1e21; --back: #fff; --line: #d5d8dc; --bad: #b3261e; --good: #146c2e; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --text: #e6e7e9; --back: #15171a; --line: #3a3e44; --bad: #ff8a80; --good: #7bd88f; }} }}
body {{ font: 15px/1.45 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 1200px; margin: 0 auto; padding: 1rem; }}
h1 {{ font-size: 1.35rem; }} h2 {{ font-size: 1.05rem; margin: 1.4rem 0 .3rem; }}
.scroll {{ overflow-x: auto; }} pre {{ font: .85rem/1.4 ui-monospace, monospace; margin: 1rem 0; }}
table {{ border-collapse: collapse; font-size: .9rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .15rem .8rem .15rem 0; }}
tr {{ border-bottom: 1px solid var(--line); }}
td {{ font-family: ui-monospace, monospace; white-space: pre-wrap; }}
td.number {{ text-align: right; white-space: pre; }}
.slower, .faster, .higher, .lower, .same, .unknown {{ min-width: 9rem; }}
summary {{ cursor: pointer; color: var(--text); font: .85rem/1.4 ui-monospace, monospace; margin: .4rem 0; }}
details pre {{ margin-top: 0; }}
.slower, .FAILED {{ color: var(--bad); }} .faster {{ color: var(--good); }} .chart {{ margin: .5rem 0; }}
/* A report is printed on two pages: charts are small and stand in two columns, and folded parts are left out.
   A chart keeps its width on the screen, --wide, and is made smaller by its share of the page. */
@page {{ size: A4; margin: 11mm; }}
@media print {{
  :root {{ color-scheme: light; --text: #000; --back: #fff; }}
  body {{ padding: 0; max-width: none; font-size: 11px; }} h1 {{ margin: 0; }}
  pre {{ font-size: 9px; line-height: 1.3; margin: .5rem 0; }} .scroll {{ overflow: hidden; white-space: pre-wrap; }}
  details:not([open]) {{ display: none; }}
  .charts {{ display: grid; grid-template-columns: 1fr 1fr; gap: 0 .8rem; }}
  .chart {{ zoom: calc(340 / var(--wide)); margin: 0; }}
  .charts .chart:first-child {{ grid-column: 1 / -1; zoom: calc(690 / var(--wide)); }}
  section, .chart, pre {{ break-inside: avoid; }}
}}
</style>
{scripts}
</head><body>
<h1>{title}</h1>
{body}
<script>{script}</script>
</body></html>
"""
# Keeps the width of the charts on the screen, from which the rules for printing compute how much smaller to make them.
_SCRIPT = """
const charts = document.querySelector(".charts");
const keep = () => matchMedia("print").matches ||
  document.documentElement.style.setProperty("--wide", Math.max(charts.clientWidth, 100));
new ResizeObserver(keep).observe(charts);
"""


def refuse_html(path: Path, *, force: bool) -> NamedOutput:
    """Return where to write an HTML page, checked before anything is read.

    `force` allows to replace an existing file. Raises InputError if `path` cannot be used or if Bokeh is missing.
    """
    import importlib.util  # noqa: PLC0415

    if importlib.util.find_spec("bokeh") is None:
        raise InputError("--html needs Bokeh, which is not installed", extra_command("html"))
    return NamedOutput.of_option("--html", path, force=force, elsewhere=ELSEWHERE)


def write_page(output: NamedOutput, title: str, text: Sequence[str], charts: Sequence[Chart]) -> None:
    """Write an HTML page. Raises OutputError if it cannot be written.

    `text` holds sections of HTML. `charts` are Bokeh charts; their place is after the first section.
    """
    from bokeh.embed import components  # noqa: PLC0415
    from bokeh.resources import Resources  # noqa: PLC0415

    script, divs = components(list(charts)) if charts else ("", ())
    resources = Resources(mode="inline", components=["bokeh"], log_level="error").render() if charts else ""
    drawn = "".join(f'<div class="chart">{div}</div>' for div in divs)
    body = "\n".join([*text[:1], f'<div class="charts">{drawn}</div>', *text[1:], script])
    page = _PAGE.format(title=escaped(title), scripts=resources, body=body, script=_SCRIPT)
    with output.stream(is_text=False) as file:
        file.write(page.encode("utf-8", "backslashreplace"))


def escaped(text: object) -> str:
    """Return `text` (or `str(text)`) escaped for HTML, with control characters made visible."""
    return escape(clean(str(text)))


def escaped_lines(text: str) -> str:
    return "\n".join(map(escaped, text.splitlines()))


def block(text: str) -> str:
    """Return a block of a text report as HTML. A long block shows only its first line until a reader opens it."""
    lines = text.splitlines()
    whole = f'<pre class="scroll">{escaped_lines(text)}</pre>'
    if len(lines) <= LONGEST_OPEN:
        return whole
    more = f"{escaped(lines[0])} &hellip; {len(lines) - 1} more lines"
    return f"<details><summary>{more}</summary>{whole}</details>"


def section(title: str, rows: Iterable[Sequence[tuple[str, str]]], heads: Sequence[str] = ()) -> str:
    """Return an HTML section: its title and a table with the headings `heads`.

    A row is a sequence of `(text, CSS class)` cells. Its first cell is the header of the row.
    """
    head = "".join(f"<th>{escaped(one)}</th>" for one in heads)
    lines = [f"<tr>{head}</tr>"] if heads else []
    for (first, _), *rest in rows:
        cells = "".join(f'<td class="{kind}">{escaped(text)}</td>' for text, kind in rest)
        lines.append(f"<tr><th>{escaped(first)}</th>{cells}</tr>")
    return f'<section><h2>{escaped(title)}</h2><div class="scroll"><table>{"".join(lines)}</table></div></section>'


def timeline(title: str, unit: str, x_range: Chart, crosshair: Chart, *, is_log: bool = False) -> Chart:
    """Return an empty chart over session time. Charts with the same `x_range` and `crosshair` zoom together.

    `unit` is the unit of the vertical axis, such as `W`. `is_log` makes that axis logarithmic.
    """
    from bokeh.models import CrosshairTool, NumeralTickFormatter  # noqa: PLC0415
    from bokeh.plotting import figure  # noqa: PLC0415

    chart = figure(
        title=f"{title}, {unit}" if unit else title, height=220, sizing_mode="stretch_width", x_range=x_range,
        tools="xpan,xwheel_zoom,xbox_zoom,reset,save", active_drag="xbox_zoom", min_border_left=60,
        y_axis_type="log" if is_log else "linear",
    )  # fmt: skip
    chart.add_tools(CrosshairTool(overlay=crosshair))
    chart.xaxis.formatter = NumeralTickFormatter(format="00:00:00")
    return plain(chart)


def plain(chart: Chart) -> Chart:
    """Give a chart colours that suit both light and dark pages. Return the chart."""
    chart.background_fill_color = chart.border_fill_color = chart.outline_line_color = None
    chart.title.text_color = GREY
    for axis in chart.axis:
        axis.axis_line_color = axis.major_tick_line_color = axis.minor_tick_line_color = GREY
        axis.major_label_text_color = axis.axis_label_text_color = GREY
    chart.grid.grid_line_color, chart.grid.grid_line_alpha = GREY, 0.25
    chart.toolbar.autohide, chart.toolbar.logo = True, None
    return chart


def add_lines(chart: Chart, axis: Axis, lines: Sequence[tuple[str, Floats]], unit: str) -> None:
    """Add lines to a chart over time. At the mouse pointer, the chart shows the values of all lines.

    `axis` is the time axis. `lines` are `(name, values at equal steps)` pairs. `unit` follows each value shown.
    """
    from bokeh.models import ColumnDataSource, HoverTool  # noqa: PLC0415

    t_s = axis.from_s + (np.arange(axis.places) + 0.5) * (axis.to_s - axis.from_s) / axis.places
    columns = {f"y{number}": values.astype(np.float32) for number, (_, values) in enumerate(lines)}
    source = ColumnDataSource({"x": t_s.astype(np.float32), **columns})
    drawn = [
        chart.line("x", column, source=source, color=COLOURS[number], legend_label=clean(lines[number][0]))
        for number, column in enumerate(columns)
    ]
    tooltips = [(clean(name), f"@y{number}{{0,0.000}} {unit}") for number, (name, _) in enumerate(lines)]
    chart.add_tools(HoverTool(renderers=drawn[:1], mode="vline", tooltips=[("at", "@x{00:00:00}"), *tooltips]))
    put_legend_above(chart)


def put_legend_above(chart: Chart) -> None:
    """Put the legend above the chart. A click on a name in the legend hides the line."""
    legend = chart.legend[0]
    legend.background_fill_color, legend.border_line_color, legend.label_text_color = None, None, GREY
    legend.click_policy, legend.orientation, legend.ncols = "hide", "horizontal", 4
    legend.label_text_font_size, legend.padding, legend.margin = "9pt", 0, 0
    chart.add_layout(legend, "above")


def shade(chart: Chart, spans: Iterable[tuple[float, float]]) -> None:
    """Shade spans of time in a chart, given as `(begin, end)` in seconds."""
    from bokeh.models import BoxAnnotation  # noqa: PLC0415

    for begin_s, end_s in spans:
        box = BoxAnnotation(left=begin_s, right=end_s, fill_color=COLOURS[1], fill_alpha=0.12, line_color=None)
        chart.add_layout(box)


def bars(title: str, names: Sequence[str], values: Sequence[float]) -> Chart:
    """Return a chart of horizontal bars, the first on top. `names` label the bars, and `values` are their lengths."""
    from bokeh.plotting import figure  # noqa: PLC0415

    chart = figure(
        title=title, y_range=list(reversed(names)), height=60 + 22 * len(names), sizing_mode="stretch_width",
        tools="save", tooltips=[("", "@y"), ("", "@right{0.00}")],
    )  # fmt: skip
    chart.hbar(y=list(names), right=list(values), height=0.7, color=COLOURS[0])
    return plain(chart)
