"""The hotspots pane: the operators (steps of the model) that take the most time, and how their times changed."""

from collections.abc import Sequence
from functools import partial

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.hotspots import OperatorsView, each_call_ns, full_name, scaled_ns, short_name
from edgetop.analysis.operator_bounds import applicable, of_provider, rates
from edgetop.analysis.operator_counts import OperatorEvents, bound_of
from edgetop.analysis.operator_hints import fell_back, plain_run_ns
from edgetop.analysis.operator_shares import OperatorView, key_of
from edgetop.analysis.program_frames import FramesView
from edgetop.formatting import UNKNOWN, cut_alike, cut_middle, milliseconds, or_unknown
from edgetop.session.operators import LEAST_BURSTS, LEAST_RUNS, ON_CPU
from edgetop.ui.charts import bar
from edgetop.ui.panes.pane import Area, Drawing, Item, titled
from edgetop.ui.text import Column, Line, Piece, as_fits, column_at, fit, line, table, wrapped
from edgetop.wording.counter_words import counter_words, operator_counter_words
from edgetop.wording.frame_words import frame_words, stage_name
from edgetop.wording.notice_words import providers_words
from edgetop.wording.operator_words import fallback_text, operator_energy_words

ORDERS = ("share", "run order", "change")
BAR_CELLS, FEW_BAR_CELLS = 10, 8
STATE_ROWS = 16  # from this height on, the cost of profiling and the data types are shown
PROVIDER_FROM_CELLS = 72
_ORDER_OF = {"%  ": "share", "change": "change", "name": "run order"}  # order by column header
TYPE_FROM_CELLS = 96  # a narrower pane omits the type in favour of the name
WORK_FROM_CELLS = 116
LEAST_NAME_CELLS = 12  # width of a name below which figures behind it are left out instead
MOST_REASONS = 2  # reasons of a fallback that are shown
MOVED = 0.10  # a larger change of an operator's time is coloured


def title(view: MonitorView, area: Area) -> str:
    operators = view.operators.operators
    if not operators:
        return "stages of a frame" if view.frames else ""
    words, order = area.clean(area.listing.words), area.listing.order_of(ORDERS)
    # The filter precedes the order, because a long title is cut at its end.
    found = words and f", of these {len(_listed(view, area))} with: {words},"
    return f"{formatting.quantity(len(operators), 'operator')}{found} by {order}"


def one_line(view: MonitorView, area: Area) -> Line:
    operators = view.operators.operators
    if not operators and view.frames:
        return fit(line(("frame    ", "dim"), frame_words(view.frames)), area.width)
    if not operators:
        return fit(line(("hotspot  ", "dim"), (area.clean(_why_none(view)), "dim")), area.width)
    largest, p50_ns = max(operators, key=lambda operator: operator.share), _p50_ns(view)
    ms = "" if p50_ns is None else f"  {milliseconds(scaled_ns(largest, p50_ns))} ms"
    change = "" if largest.change is None else f"  {formatting.signed_percent(largest.change)}"
    share = f"{formatting.percent(largest.share)}{'' if largest.settled else ' ?'}"
    begin = f"{share} of the time: {area.clean(largest.op_type)} "
    room = max(area.width - sum(map(len, ("hotspot  ", begin, ms, change))), LEAST_NAME_CELLS)
    name = area.clean(cut_middle(full_name(largest), room))
    return as_fits(area.width, ("hotspot  ", "dim"), f"{begin}{name}", ms, change)


def items(view: MonitorView, area: Area) -> list[Item]:
    operators = view.operators.operators
    if not operators and view.frames:
        return [Item(_stages(view.frames, area))]
    if not operators:
        return [Item(wrapped(area.clean(_why_none(view)), area.width, "dim"))]
    columns, listed = _columns(area), _listed(view, area)
    largest = max(operator.share for operator in operators)
    names = dict(zip(map(id, operators), cut_alike([*map(full_name, operators)], columns[-1].cells), strict=True))
    cells = [_cells(operator, largest, view, area, names[id(operator)]) for operator in listed]
    head, *rows = table(columns, cells, area.width)
    place = {id(operator): place for place, operator in enumerate(operators)}
    return [
        Item(_state(view, area) if area.height >= STATE_ROWS else _doubts(view.operators, area)),
        Item([head], order_at=lambda x: _ORDER_OF.get(column_at(columns, x), "")),
        *(
            Item([row], place[id(operator)], partial(_detail, operator, view, area))
            for row, operator in zip(rows, listed, strict=True)
        ),
    ]


def _stages(frames: FramesView, area: Area) -> list[Line]:
    """Return the table for a program that reports the parts of its frames: the share of time of each part.

    This table replaces the table of operators. The last line is on whole frames.
    """
    columns = [Column("%  ", 7), Column("", BAR_CELLS, right=False), Column("p50 ms", 7), Column("p99 ms", 7)]
    rows: list[list[Piece]] = [
        [
            formatting.percent(stage.share),
            (bar(stage.share, BAR_CELLS, area.characters), "graph"),
            *(milliseconds(ms * 1e6) for ms in (stage.p50_ms, stage.p99_ms)),
            area.clean(stage_name(stage)),
        ]
        for stage in frames.stages
    ]
    style = "warning" if frames.misses else "text"
    lines = table([*columns, _the_rest("stage", columns, area)], rows, area.width)
    return [*lines, *wrapped(f"frame {frame_words(frames)}", area.width, style)]


def _the_rest(title: str, columns: Sequence[Column], area: Area) -> Column:
    """Return a column with this title. The column takes the width that `columns` leave free."""
    return Column(title, max(8, area.width - sum(column.cells + 2 for column in columns)), right=False)


def _detail(operator: OperatorView, view: MonitorView, area: Area) -> list[str]:
    """Return all figures of one operator, a line each, such as `type Conv`.

    These include the columns that are left out of a narrow table.
    """
    wide = area.resized(width=10 * WORK_FROM_CELLS)
    columns = _columns(wide)
    titles = [column.title for column in columns]
    interval = f"{'95 %':<8} {formatting.interval_text(operator.share_ci95)}"
    energy = operator_energy_words(view.operator_energies, operator.position)
    drawn = [f"{'energy':<8} {energy}"] if energy else []
    counted = operator_counter_words(_events(operator, view))
    drawn += [f"{'counted':<8} {counted}"] if counted else []
    return [interval, *titled(titles, _cells(operator, 1.0, view, wide, full_name(operator))), *drawn]


def _events(operator: OperatorView, view: MonitorView) -> OperatorEvents | None:
    """Return the counts of events, such as cycles, while one operator ran. Return None if there are no counts.

    For an operator that does not run on the CPU, the result is always None.
    """
    return view.operator_events.get(key_of(operator)) if operator.provider in ON_CPU else None


def _why_none(view: MonitorView) -> str:
    operators = view.operators
    if operators.way:
        return "no operator was profiled" if view.progress.phase == "over" else "not profiled yet; p profiles now"
    if operators.reason:
        return f"{UNKNOWN} operators are not profiled: {operators.reason}"
    is_early = view.progress.phase in ("loading", "first")
    return f"{UNKNOWN} not known yet" if is_early else f"{UNKNOWN} operators are not profiled (--profile-every)"


def _state(view: MonitorView, area: Area) -> list[Line]:
    """Return lines on how the operators were profiled, what that cost, and how the time divides among their types."""
    operators, measured_ns = view.operators, view.progress.measured_ns
    duty = formatting.percent(operators.busy_ns / measured_ns) if measured_ns else UNKNOWN
    last = or_unknown(operators.last_ns, formatting.clock_time)
    label, colon, _ = operators.timed_by.partition(": ")  # such as "estimate (isolated): "
    bursts = [
        f"{f'{label}: ' if colon else ''}{formatting.quantity(operators.bursts, 'round')}",
        f", every {formatting.span(operators.every_ns)}" if operators.every_ns else "",
        f", {duty} of the time", f", last {last} of {operators.last_runs}",
    ]  # fmt: skip
    overhead = or_unknown(operators.overhead, lambda ratio: f"{100 * (ratio - 1):+.1f} %")
    times = or_unknown(_p50_ns(view) or None, lambda ns: f"{milliseconds(ns)} ms")
    is_of_tokens = view.manifest is not None and view.manifest.generation is not None
    what, whole = ("tokens", "a token") if is_of_tokens else ("inferences", "p50")
    costs = [f"instrumented {what} {overhead}, not measured", f"; times are shares of {whole} {times}"]
    if operators.partitions and operators.partitions > 1:
        costs.append(f"; {operators.partitions} partitions")
    types = [f"{area.clean(of.op_type)} {formatting.percent(of.share)} ({of.count})  " for of in operators.by_type]
    rows: list[list[Piece]] = [[(text, "dim") for text in texts] for texts in (bursts, costs, types)]
    if view.counters is not None and view.counters.ipc is not None:
        rows.append([(f"an inference: {counter_words(view.counters)}", "dim")])
    ended = [] if operators.way else wrapped(area.clean(operators.reason), area.width, "warning")
    return [*ended, *(as_fits(area.width, *row) for row in rows), *_doubts(operators, area), *_where(view, area)]


def _doubts(operators: OperatorsView, area: Area) -> list[Line]:
    """Return a line that warns of shares from too few or disturbed profiles, or [] if there is no doubt."""
    if operators.is_disturbed:
        text = "? not settled: others took CPU time from each instrumented inference"
        return [fit(line((text, "warning")), area.width)]
    notes = []
    if not operators.is_enough:
        bursts, runs = min(operators.counted, LEAST_BURSTS), min(operators.counted_runs, LEAST_RUNS)
        notes.append(f"? not settled: {bursts} of {LEAST_BURSTS} rounds, {runs} of {LEAST_RUNS} inferences")
    elif not all(operator.settled for operator in operators.operators):
        notes.append("? not settled")
    if operators.left_out_runs:
        notes.append(f"{formatting.quantity(operators.left_out_runs, 'run')} left out: disturbed")
    return [fit(line(("; ".join(notes), "dim")), area.width)] if notes else []


def _where(view: MonitorView, area: Area) -> list[Line]:
    """Return lines that warn of operators that ran on the CPU although another provider was preferred, and say why.

    A provider is what runs operators, such as a GPU. Return [] if no operator fell back to the CPU.
    """
    matches = fell_back(view.operators.operators, view.manifest.engine.preferred if view.manifest else ())
    if not matches:
        return []
    share = formatting.percent(sum(operator.share for operator in matches))
    doubt = "" if all(operator.settled for operator in matches) else " ?"
    many = formatting.quantity(len(matches), "operator")
    places, names = providers_words(one.provider for one in matches), ", ".join(short_name(o) for o in matches)
    text = f"{many} fell back to {places}, {share}{doubt}: {names}"
    fallback = view.operators.fallback
    why = (
        [] if fallback is None else [fallback_text(reason, count) for reason, count in fallback.counts()[:MOST_REASONS]]
    )
    return [fit(line((area.clean(words), "warning")), area.width) for words in (text, *why)]


def _p50_ns(view: MonitorView) -> float | None:
    """Return the p50 latency in ns of the chosen window. If it has no inference, return that of the session.

    Return None if the session has no inference either. Inferences that were slowed by profiling do not count. For a
    language model, the latency is the time of a token.
    """
    if view.manifest is not None and view.manifest.generation is not None:
        return plain_run_ns(view.operators.run_ns, view.operators.overhead)
    statistics = view.latency.window or view.latency.session
    return statistics.percentile_ns(0.50) if statistics else None


def _columns(area: Area) -> list[Column]:
    if area.width < PROVIDER_FROM_CELLS:  # beside the timelines
        columns = [Column("%  ", 7), Column("", FEW_BAR_CELLS, right=False), Column("ms", 6), Column("change", 6)]
    else:
        columns = [Column("%  ", 7), Column("", BAR_CELLS, right=False), Column("us", 9), Column("change", 7)]
        columns.append(Column("on", 8, right=False))
    if area.width >= WORK_FROM_CELLS:
        columns += [Column("GFLOP/s", 7), Column("bound", 13, right=False)]
    if area.width >= TYPE_FROM_CELLS:
        columns.append(Column("type", 24, right=False))
    return [*columns, _the_rest("name", columns, area)]


def _cells(operator: OperatorView, largest: float, view: MonitorView, area: Area, name: str) -> list[Piece]:
    """Return the cells of an operator's row. `largest` is the largest share, and `name` the name that fits."""
    p50_ns, is_narrow = _p50_ns(view), area.width < PROVIDER_FROM_CELLS
    ns = None if p50_ns is None else scaled_ns(operator, p50_ns)
    time = or_unknown(ns, milliseconds if is_narrow else lambda ns: f"{ns / 1e3:.1f}")
    bar_cells = FEW_BAR_CELLS if is_narrow else BAR_CELLS
    length = bar(operator.share / largest if largest else 0.0, bar_cells, area.characters)
    share = formatting.share_text(operator.share, settled=operator.settled)
    change = or_unknown(operator.change, lambda change: f"{100 * change:+.0f} %")
    moved = "dim" if operator.change is None else "warning" if operator.change >= MOVED else "text"
    cells: list[Piece] = [
        (share, "text" if operator.settled or is_narrow else "dim"),
        (length, "graph" if operator.settled else "dim"),
        time,
        (change, moved),
    ]
    name = area.clean(name)
    if is_narrow:
        return [*cells, name]
    cells.append(area.clean(operator.provider))
    if area.width >= WORK_FROM_CELLS:
        cells += _work(operator, view)
    if area.width >= TYPE_FROM_CELLS:
        cells.append(area.clean(operator.op_type))
    return [*cells, name]


def _work(operator: OperatorView, view: MonitorView) -> list[Piece]:
    """Return two cells: the GFLOP/s of an operator, and what limits it, such as memory bandwidth."""
    each_ns = each_call_ns(operator, _p50_ns(view))
    flops_per_s = rates(operator.flops, operator.bytes, each_ns).flops_per_s
    precision = view.manifest.model.precision if view.manifest else None
    limits = of_provider(applicable(view.operators.ceilings, precision), operator.provider)
    events = _events(operator, view)
    held_up = bound_of(operator.flops, operator.bytes, events, operator.calls, each_ns, limits).what
    shown = or_unknown(flops_per_s, lambda per_s: f"{per_s / 1e9:.1f}")
    return [shown, (held_up or UNKNOWN, "text" if held_up else "dim")]


def _listed(view: MonitorView, area: Area) -> list[OperatorView]:
    """Return the operators that the filter lets through, in the chosen order.

    Every word of the filter must be in the operator's name, type, provider or origin.
    """
    found = [
        of
        for of in view.operators.operators
        if area.listing.takes(f"{of.name} {of.op_type} {of.provider} {of.origin or ''}")
    ]
    order = area.listing.order_of(ORDERS)
    if order == "share":
        found.sort(key=lambda operator: -operator.share)
    elif order == "change":
        found.sort(key=lambda operator: -abs(operator.change or 0.0))
    return found


OPERATORS = Drawing(
    "hotspots", title, items=items, scrolls=True, line=one_line, rows="operators", orders=ORDERS, parts=("operators",)
)
