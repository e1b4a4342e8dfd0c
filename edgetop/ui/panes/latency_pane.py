"""The latency pane: percentiles of the window and of the session, a heat map over time, and a histogram."""

import math
from collections.abc import Sequence

import numpy as np

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.latency_heat import choose_latency_axis
from edgetop.analysis.precision import UNJUDGED, PrecisionView
from edgetop.analysis.report_generation import joules_per_token
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.token_figures import GenerationView
from edgetop.formatting import UNKNOWN, clean, doubted, milliseconds, or_unknown, stream_name
from edgetop.session import histogram
from edgetop.session.seconds import QUANTILES
from edgetop.ui.charts import GUTTER, Curve, Floats, Plot, Scale, bar, round_step
from edgetop.ui.heat_map import HeatMap
from edgetop.ui.panes.ab_pane import ab_body, ab_line, ab_title
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.panes.sensor_series import cursor_cell, end_labels, slower, throttled, with_axis
from edgetop.ui.text import BLANK, Column, Line, Piece, as_fits, line, spread, table
from edgetop.wording.load_words import headroom_words, max_rate_words
from edgetop.wording.tail_words import cause_words, part_words
from edgetop.wording.token_words import token_words

NAMES = ("p50", "p90", "p95", "p99", "p99.9")
COLUMNS = (
    Column("", 8, right=False),
    *(Column(f"{name} ", 7) for name in NAMES),  # the last cell is for the mark of an unsettled percentile
    Column("max", 7), Column("/s", 6), Column("n", 6),
    *(Column(name, 7) for name in ("min", "mean", "stdev", "jitter")),
)  # fmt: skip
END_STEPS, SHARE_STEPS = 12, 6  # steps of the axes of the histogram; coarse, so that it is seldom redrawn
MIN_HISTOGRAM_CELLS = 20  # least width of the histogram, to fit the ends of its axis
WHOLE_ROWS = 24  # from this height on, the pane is alone on the screen
TAIL_ROWS = 28  # from this height on, each cause of the tail has a row
TAIL_CAUSES, TAIL_BAR_CELLS = 6, 16  # most such rows, and the length of their bars
TABLE_ROWS = 14  # from this height on, figures are a table instead of a line
TITLE_CELLS = 19  # width of the name and the border in the title
SPANS_ROWS = 10  # from this height on, the burst is compared with the sustained span
STREAM_CELLS = 20  # width of the name of a model
STYLES = {"p50": "median", "p99": "p99"}  # styles of percentile names: those of their lines in the heat map


def title(view: MonitorView, area: Area) -> str:
    if view.ab is not None:
        return ab_title(view.ab, view.progress)
    window, latency = view.latency.window, view.latency
    name = "last" if view.progress.phase == "over" else "window"
    span = "all" if latency.window_ns is None else f"{name} {formatting.span(latency.window_ns)}"
    shown = [f"{span}{', since x' if latency.since_ns else ''}"]
    if latency.stream:
        shown.insert(0, f"{stream_name(latency.stream, STREAM_CELLS)} (M: the next)")
    few = ["?: few samples"] if window is not None and not view.is_settled(window, 0.99) else []
    if area.height > 2 and view.latency_heat:
        kind = "ITL" if latency.heat_is_of_tokens else f"{'response' if latency.heat_is_response else 'service'} time"
        shown += [*few, f"{kind}, each {formatting.span(view.axis.column_s * 1e9)}"]
    else:
        shown += few
    while len(shown) > 1 and len("   ".join(shown)) > area.width - TITLE_CELLS:
        shown.pop()
    return "   ".join(shown)


def one_line(view: MonitorView, area: Area) -> Line:
    if view.ab is not None:
        return ab_line(view.ab, area.width)
    window = view.latency.window
    if window is None:
        none = "no inference seen so far" if view.progress.is_program else "no samples yet"
        return as_fits(area.width, ("latency  ", "dim"), none)
    label = f"{stream_name(view.latency.stream, STREAM_CELLS)}  " if view.latency.stream else ""
    if view.generation is not None:
        return as_fits(area.width, ("tokens   ", "dim"), token_words(view.generation))
    numbers = [
        f"{name} {doubted(milliseconds(window.percentile_ns(of)), settled=view.is_settled(window, of))}  "
        for name, of in zip(NAMES[:4], QUANTILES, strict=False)
    ]
    numbers.append(f"max {milliseconds(window.max_ns)}  ")
    return as_fits(area.width, ("latency  ", "dim"), label, *numbers, ("ms", "dim"))


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    if view.ab is not None:
        return ab_body(view.ab, area)
    if view.progress.is_program:
        return [as_fits(area.width, ("no inference seen so far: CPU, memory, heat and power are recorded", "dim"))]
    is_whole, response = area.height >= WHOLE_ROWS and not area.is_stacked, view.latency.window_response
    if area.height >= TABLE_ROWS and not area.is_stacked:
        lines = _table(view, area.width, is_whole=is_whole)
    else:
        usual = _usual(view) if area.height < SPANS_ROWS else ""
        lines = [_figures(view, view.latency.window, area.width, "service  " if response else "", usual)]
        lines += [_figures(view, response, area.width, "response ")] * bool(response)
    if view.generation is not None:
        has_counts = area.height >= SPANS_ROWS
        lines.append(_tokens(view.generation, area.width, has_rates=not has_counts))
        if has_counts:
            lines.append(_token_counts(view, view.generation, area.width))
    if view.latency.streams:
        lines += _streams(view, area.resized(height=max(1, (area.height - len(lines)) // 3)))
    if area.height >= SPANS_ROWS and not is_whole and len(lines) != 2:
        lines.append(_spans(view, area))
    lines += _tail(view, area) if is_whole else []
    room = area.height - len(lines)
    if room < 2:
        return lines[: area.height]
    below = _histogram(view, area.resized(height=room * 2 // 5 - 1)) if is_whole else []
    return [*lines, *with_axis(view, area.resized(height=room - len(below)), lambda of: _heat_map(view, of)), *below]


def _tokens(tokens: GenerationView, cells: int, *, has_rates: bool) -> Line:
    """Return a line on the tokens of a language model: the time to the first token, and between two tokens.

    `has_rates`: whether the line also has the tokens per second.
    """
    pieces: list[Piece] = []
    for name, times in (("TTFT", tokens.ttft), ("ITL", tokens.itl)):
        pieces.append((f"{name} ", "dim"))
        if times is None:
            pieces.append((f"{UNKNOWN}  ", "dim"))
            continue
        for label, quantile in (("p50", 0.50), ("p99", 0.99)):
            text = doubted(milliseconds(times.percentile_ns(quantile)), settled=times.is_settled(quantile), pad=" ")
            pieces += [(label, STYLES[label]), f" {text} "]
    for name, rate in (("prefill", tokens.prefill_per_s), ("decode", tokens.decode_per_s)):
        pieces += [(f" {name} ", "dim"), or_unknown(rate, formatting.rate)] if has_rates else []
    return as_fits(cells, *pieces, *([(" tok/s", "dim")] if has_rates else []))


def _token_counts(view: MonitorView, tokens: GenerationView, cells: int) -> Line:
    """Return a line with the rates of a language model, the number of generated tokens, and the energy per token."""
    pieces: list[Piece] = []
    for name, rate in (("prefill", tokens.prefill_per_s), ("decode", tokens.decode_per_s)):
        pieces += [(f"{name} ", "dim"), or_unknown(rate, formatting.rate), ("  ", "dim")]
    joules = joules_per_token(view.energy, tokens.tokens_out)
    energy: list[Piece] = [] if joules is None else [f"{joules:.3g}", (" J/token  ", "dim")]
    return as_fits(cells, *pieces, ("tok/s  ", "dim"), *energy, formatting.count(tokens.tokens_out), (" tokens", "dim"))


def _streams(view: MonitorView, area: Area) -> list[Line]:
    """Return a line per model, the busiest first, for a program that runs several models.

    If not all fit, the last line says how many are left out.
    """
    streams, watched = view.latency.streams, view.manifest.watched if view.manifest else None
    number = max(len(streams), len(watched.streams) if watched else 0)  # the first 32 are judged, and all count
    room = area.height if number <= area.height else area.height - 1
    lines = []
    for one in streams[:room]:
        mark = ">" if one.name == view.latency.stream else " "
        name = f"{mark} {stream_name(one.name, STREAM_CELLS):<{STREAM_CELLS}}  "
        figures: list[Piece] = [("nothing in this window", "dim")]
        if (window := one.window) is not None:
            p50, p99 = (
                doubted(f"{milliseconds(window.percentile_ns(of)):>7}", settled=window.is_settled(of), pad=" ")
                for of in (0.50, 0.99)
            )
            rate = or_unknown(window.throughput_hz, formatting.rate)
            figures = [("p50", STYLES["p50"]), f"{p50} ", ("p99", STYLES["p99"]), f"{p99} ", f"{rate:>6}/s  "]
        count = formatting.count(one.session.count) if one.session else "0"
        lines.append(as_fits(area.width, name, *figures, ("n ", "dim"), count))
    if left := number - len(lines):
        shown, rest = (sum(one.session.count for one in of if one.session) for of in (streams[:room], streams[room:]))
        if view.latency.totals and not view.latency.since_ns:
            rest = view.latency.totals.count - shown
        lines.append(line((f"and {left} more, n {formatting.count(rest)}", "dim")))
    return lines


def _usual(view: MonitorView) -> str:
    """Return the text `usual 7.100`, the p50 of the first steady half minute in ms.

    Return "" if the verdict does not compare the present p50 with it, or if the program runs several models.
    """
    verdict = view.verdict
    if verdict.p50_change is None or verdict.is_of_mean or view.burst is None or view.latency.streams:
        return ""
    return f"usual {milliseconds(view.burst.p50_ns)}"


def _figures(view: MonitorView, window: Statistics | None, cells: int, label: str = "", usual: str = "") -> Line:
    """Return a line with the percentiles of `window`, the maximum and the rate, in `cells` cells.

    Each percentile's name has the colour of its curve. `label` is a text at the beginning of the line, and `usual` a
    text behind p50.
    """
    if window is None:
        return line(("no samples yet", "dim"))
    pieces: list[Piece] = [(label, "dim")]
    for name, quantile in zip(NAMES[:4], QUANTILES, strict=False):
        value = milliseconds(window.percentile_ns(quantile))
        text = doubted(value, settled=view.is_settled(window, quantile), pad=" ")
        pieces += [(f"{name} ", STYLES.get(name, "dim")), f"{text}  "]
        if name == "p50" and usual:
            pieces.append((f"({usual})  ", "text"))
    rate = "" if window.throughput_hz is None else f"{formatting.rate(window.throughput_hz)}/s"
    return as_fits(cells, *pieces, ("max ", "dim"), f"{milliseconds(window.max_ns)}   ", rate)


def _spans(view: MonitorView, area: Area) -> Line:
    """Return a line that compares p50 and p99 of the first steady half minute with those of the last steady minutes.

    The names on the screen are "burst" and "sustained".
    """
    pieces: list[Piece] = []
    for name, figures, settled in zip(("burst", "sustained"), view.spans, view.settled_of_spans, strict=True):
        pieces.append((f"{name} ", "dim"))
        if figures is None:
            pieces.append((f"{UNKNOWN}  ", "dim"))
            continue
        for label, of, ns in (("p50", 0.50, figures.p50_ns), ("p99", 0.99, figures.p99_ns)):
            text = doubted(milliseconds(ns), settled=of in settled, pad=" ")
            pieces += [(label, STYLES[label]), f" {text} {' ' * (label == 'p99')}"]
    return as_fits(area.width, *pieces)


def _table(view: MonitorView, width: int, *, is_whole: bool) -> list[Line]:
    """Return the table of percentiles: rows for the window and for the session, and a line on the deadline.

    If `is_whole`, it also has the 95 % intervals of the percentiles.
    """
    latency = view.latency
    is_paced = view.manifest is not None and view.manifest.load.is_paced
    label, precision = ("since x", UNJUDGED) if latency.since_ns else ("session", view.precision)
    rows = [_cells(label, latency.session, precision)]
    if is_paced:
        rows.append(_cells("  resp.", latency.session_response, precision))
    if latency.window_ns is not None:
        of_window = view.precision_of(latency.window)
        window = [_cells(formatting.span(latency.window_ns), latency.window, of_window)]
        if is_paced:
            window.append(_cells("  resp.", latency.window_response, of_window))
        rows = window + rows
    if is_whole and not latency.since_ns and any(view.precision.intervals_ns):
        rows += [_ends("95% from", view, 0), _ends("      to", view, 1)]
    lines = table(COLUMNS, rows, width)
    if view.deadline is not None:
        lines.append(_deadline_line(view.deadline, width))
    return lines


def _tail(view: MonitorView, area: Area) -> list[Line]:
    """Return lines on the slowest inferences of the last ten minutes: which share of them each cause explains.

    There is a row for each cause, the most frequent first, or one line for all if the area is low. Return [] if no
    inference was unusually slow.
    """
    tail, width = view.tail, area.width
    count, parts = len(tail.recent), tail.recent_parts
    if not parts:
        return []
    if area.height < TAIL_ROWS:
        texts = [f"  {clean(part_words(part))}" for part in parts]
        return [as_fits(width, ("tail", "dim"), f"  {count} slowest of 10 min:", *texts)]
    lines = [as_fits(width, ("tail", "dim"), f"  {count} slowest of 10 min, at most one a second")]
    for part in parts[:TAIL_CAUSES]:
        share = part.count / count
        length = bar(share, TAIL_BAR_CELLS, area.characters)
        style = "dim" if part.cause == "unexplained" else "text"
        lines.append(
            as_fits(width, f"  {formatting.percent(share):>6}  ", (length, "graph"), (f"  {cause_words(part)}", style))
        )
    return lines


def _deadline_line(deadline: DeadlineView, width: int) -> Line:
    """Return a line with the deadline misses of the whole session, and how far p99 is from the deadline."""
    missed = f"{formatting.fine_percent(deadline.miss_rate)} missed ({formatting.count(deadline.misses)})"
    run = f", {formatting.count(deadline.longest_run)} in a row" if deadline.misses else ""
    rate = "" if deadline.max_rate_hz is None else f", {max_rate_words(deadline.max_rate_hz)}"
    return as_fits(
        width, ("deadline", "dim"), f"  {deadline.deadline_ns / 1e6:g} ms: ",
        (missed, "warning" if deadline.is_missed else "text"), run, f", {headroom_words(deadline.headroom_ns / 1e6)}",
        rate,
    )  # fmt: skip


def _ends(label: str, view: MonitorView, end: int) -> list[Piece]:
    texts = [f"{or_unknown(ends and ends[end], milliseconds)} " for ends in view.precision.intervals_ns]
    return [(text, "dim") for text in (label, *texts, *[""] * (len(COLUMNS) - len(texts) - 1))]


def _cells(label: str, statistics: Statistics | None, precision: PrecisionView = UNJUDGED) -> list[Piece]:
    """Return the cells of a row of the table: `label`, then the figures. Without statistics, the figures are dashes.

    `precision` tells which percentiles have enough inferences. The other percentiles get a `?`.
    """
    if statistics is None:
        unknown = [(f"{UNKNOWN} ", "dim")] * len(NAMES) + [(UNKNOWN, "dim")] * (len(COLUMNS) - len(NAMES) - 1)
        return [(label, "dim"), *unknown]
    settled = [precision.is_settled(of, statistics) for of in QUANTILES]
    texts = (
        doubted(milliseconds(statistics.percentile_ns(of)), settled=is_settled, pad=" ")
        for of, is_settled in zip(QUANTILES, settled, strict=True)
    )
    ends = (statistics.min_ns, statistics.mean_ns, statistics.stdev_ns, statistics.jitter_ns)
    return [
        (label, "dim"),
        *(text if is_settled else (text, "dim") for text, is_settled in zip(texts, settled, strict=True)),
        milliseconds(statistics.max_ns),
        or_unknown(statistics.throughput_hz, formatting.rate),
        formatting.count(statistics.count),
        *(or_unknown(ns, milliseconds) for ns in ends),
    ]


def _heat_map(view: MonitorView, area: Area) -> list[Line]:
    """Return a heat map of the latencies over time, with p50 and p99, and the deadline if it is near the latencies.

    For a language model, it shows the times between tokens instead of latencies. Return [] without data.
    """
    columns, axis, cells = view.latency_heat, view.axis, area.width - GUTTER
    if not columns:
        return []
    is_of_tokens = view.latency.heat_is_of_tokens  # whose times have no deadline
    deadline_ns = view.deadline.deadline_ns if view.deadline and not is_of_tokens else None
    of = HeatMap(
        axis, columns, choose_latency_axis(columns, deadline_ns, area.y_zoom), deadline_ns, cells, area.height,
        area.characters, throttled(view, axis, cells), slower(view, axis, cells), cursor_cell(area, axis, cells),
    )  # fmt: skip
    return of.lines()


def _histogram(view: MonitorView, area: Area) -> list[Line]:
    """Return a histogram of the latencies in the window, or [] if there is no room or no inference.

    The histogram reaches from the shortest latency to beyond p99. Its last column counts all longer latencies.
    """
    window = view.latency.window
    cells = area.width - GUTTER
    if window is None or cells < MIN_HISTOGRAM_CELLS or area.height < 2:
        return []
    low, high = _histogram_ends(window)
    counts = _binned(view.latency.buckets, low, high, cells if area.characters.ascii_only else cells * 2)
    shares = counts / counts.sum()
    step = round_step(shares.max(), SHARE_STEPS)
    of = Plot(Scale(0, float(np.ceil(shares.max() / step - 1e-9)) * step), cells, area.height - 1, area.characters)
    bars = Curve(np.where(counts > 0, shares, np.nan), "p50", glyph=":", is_filled=True)
    ends = (milliseconds(low), f">={milliseconds(high)}")
    axis = spread(line(" " * GUTTER, (ends[0], "dim")), line((ends[1], "dim")), area.width)
    return [BLANK, *of.rows([bars], end_labels(of, formatting.percent(of.scale.high), "0")), axis]


def _histogram_ends(window: Statistics) -> tuple[float, float]:
    """Return both ends of the histogram in ns: round numbers below the shortest latency and above p99.

    These numbers are coarse, so that they seldom change.
    """
    low, p99 = window.min_ns, window.percentile_ns(0.99)
    high = max(p99 + (p99 - low) / 4, low * 1.02, low + 10 * histogram.UNIT_NS)
    step = round_step(high - low, END_STEPS)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _binned(buckets: histogram.Counts, low: float, high: float, bins: int) -> Floats:
    """Return how many latencies are in each of `bins` equal parts between `low` and `high` ns.

    The first part also counts shorter latencies, and the last part longer ones. `buckets` are the counts of the
    recorded histogram. The count of a bucket is spread evenly over its width, so that different widths make no pattern.
    """
    held = np.flatnonzero(buckets)
    total = np.cumsum(buckets[held])
    ends = np.column_stack([histogram.lower_edge_ns(held), histogram.lower_edge_ns(held + 1)]).ravel()
    below = np.column_stack([total - buckets[held], total]).ravel()  # number of latencies below each edge
    steps = np.interp(np.linspace(low, high, bins + 1)[1:-1], ends, below)
    return np.diff(steps, prepend=0, append=total[-1])


LATENCY = Drawing("latency", title, body, line=one_line, unit="ms", parts=("latency", "latency_heat", "generation"))
