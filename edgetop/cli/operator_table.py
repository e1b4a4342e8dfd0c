"""The operators of a model as tables, as TensorFlow Lite's benchmark_model prints them: run order, types, places."""

from collections.abc import Iterator, Sequence

from edgetop import formatting
from edgetop.analysis.operator_hints import fell_back, slow_kernels
from edgetop.analysis.operators import full_name, partitions
from edgetop.analysis.roofline import why_unknown
from edgetop.cli.operator_profile import OperatorProfile, Row
from edgetop.cli.output import table
from edgetop.formatting import UNKNOWN, clean, interval_text, share_text, shortened
from edgetop.models.executed import Origin
from edgetop.models.graph import OMITTED, Graph
from edgetop.session.operators import LEAST_BURSTS, LEAST_RUNS

TOP = 10
TYPE_CELLS, NAME_CELLS = 30, 60

Cells = Sequence[str]


def operator_tables(model: str, found: OperatorProfile) -> str:
    top = sorted(found.rows, key=lambda row: -row.view.share)[:TOP]
    sections = _section("in run order", found.rows), _section("by time", top)
    parts = (_head(model, found), *sections, _types(found), _places(found), _hints(found))
    return "\n".join(line for part in parts for line in part)


def _head(model: str, found: OperatorProfile) -> Iterator[str]:
    loaded = found.loaded
    yield f"{clean(model)}  {clean(loaded.runtime)} {clean(loaded.version)} on {clean(', '.join(loaded.providers))}"
    why = f" ({clean(found.reason)})" if found.reason else ""
    yield f"  profiled   {found.runs} inferences by {clean(found.way)}{why}"
    yield from _doubts(found)
    ratio = found.overhead_ratio
    more = "how much longer is not known" if ratio is None else f"{100 * (ratio - 1):+.1f} %"
    total_ns = sum(row.mean_ns for row in found.rows)
    covered = UNKNOWN if not found.p50_ns else formatting.percent(total_ns / found.p50_ns)
    yield (
        f"  inference  p50 {_ms(found.p50_ns)} ms of {found.others} that were not instrumented; "
        f"instrumented {_ms(found.run_ns)} ms, {more}; operators add up to {covered} of p50"
    )
    if top := found.ceilings:
        most = f"{top.flops_per_s / 1e9:.1f} GFLOP/s, {top.bytes_per_s / 1e9:.1f} GB/s"
        yield f"  ceilings   {most}, measured {clean(top.measured_utc)}"
    if why := why_unknown(found.ceilings, found.precision):
        yield f"  bound      {UNKNOWN} {clean(why)}"
    if found.inspection:
        plan = found.inspection.memory
        peak, largest = formatting.size(plan.peak_bytes), formatting.size(plan.working_set_bytes)
        yield f"  memory     {peak} of activations at the peak, {largest} in one operator"


def _doubts(found: OperatorProfile) -> Iterator[str]:
    """Yield what was left out, and why shares are not settled."""
    if found.is_disturbed:
        yield "  disturbed  others took CPU time from every instrumented inference: no share is settled"
    elif found.left_out_runs:
        yield f"  left out   {found.left_out_runs} instrumented inferences, from which others took CPU time"
    if not found.is_enough and not found.is_disturbed:
        needed = f"{LEAST_BURSTS} bursts and {LEAST_RUNS} inferences"
        yield f"  unsettled  {found.bursts} bursts with {found.runs} inferences: shares settle from {needed} on"
    elif not all(view.settled for view in found.views):
        yield "  unsettled  what is marked ?: the share may be anything in the 95 % interval"


_HEADS = (
    "start ms", "first", "avg ms", "%", "cum %", "95 %", "calls", "GFLOP/s", "GB/s", "bound", "on", "type", "name"
)  # fmt: skip
_WORDS = ("bound", "on", "type", "name")


def _section(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """`cum %` is over the operators that take the most time, in whatever order they are shown."""
    yield ""
    yield f"operators {title}"
    yield from table(_HEADS, [_cells(row) for row in rows], _WORDS, indent="  ")


def _cells(row: Row) -> Cells:
    view = row.view
    return (
        _ms(row.start_ns),
        _ms(row.first_ns),
        _ms(row.mean_ns),
        share_text(view.share, settled=view.settled),
        f"{100 * row.cumulative:.1f}",
        interval_text(view.share_ci95),
        f"{view.calls:g}",
        _giga(row.rates.flops_per_s),
        _giga(row.rates.bytes_per_s),
        row.bound or UNKNOWN,
        clean(view.provider),
        shortened(view.op_type, TYPE_CELLS),
        shortened(full_name(view), NAME_CELLS),
    )


def _types(found: OperatorProfile) -> Iterator[str]:
    yield ""
    yield "operators by type"
    rows = [
        (
            str(row.count), _ms(row.mean_ns), f"{100 * row.share:.1f}", f"{100 * row.cumulative:.1f}", f"{row.calls:g}",
            shortened(row.op_type, NAME_CELLS),
        )
        for row in found.types()
    ]  # fmt: skip
    yield from table(("count", "avg ms", "%", "cum %", "calls", "type"), rows, _WORDS, indent="  ")


def _places(found: OperatorProfile) -> Iterator[str]:
    parts = partitions(found.views)
    yield ""
    yield f"where it ran: partitions {parts or UNKNOWN}, crossings between them {parts - 1 if parts else UNKNOWN}"
    doubt = "" if all(view.settled for view in found.views) else " ?"
    shares: dict[str, list[float]] = {}
    for view in found.views:
        shares.setdefault(view.provider, []).append(view.share)
    for provider, those in sorted(shares.items(), key=lambda item: -sum(item[1])):
        yield f"  {clean(provider):<10} {len(those)} operators, {formatting.percent(sum(those))} of the time{doubt}"
    for view in fell_back(found.views, found.preferred):
        share = formatting.percent(view.share) + ("" if view.settled else " ?")
        yield f"  fell back  {clean(view.op_type)} {clean(view.name)}, {share} of the time"


def _hints(found: OperatorProfile) -> Iterator[str]:
    if found.hints:
        yield ""
    for hint in found.hints:
        yield f"hint       {clean(hint.message)}"
        if hint.code == "slow-kernel":
            yield from _shapes(found)
        yield f"           {clean(hint.advice)}"


def _shapes(found: OperatorProfile) -> Iterator[str]:
    slow = {view.position for view in slow_kernels(found.views, found.p50_ns)}
    for row in found.rows:
        if row.view.position in slow and row.origin and found.inspection:
            shape = clean(_shape(found.inspection.model.graph, row.origin))
            yield f"           {shortened(full_name(row.view), NAME_CELLS)}: {shape}"


_ATTRIBUTES = ("stride", "dilation", "kernel", "group", "filter", "padding")


def _shape(graph: Graph, origin: Origin) -> str:
    """`1x64x56x56, 64x64x3x3 to 1x64x56x56, strides 1,1, dilations 2,2`."""
    operator = origin.main.operator
    taken, given = (
        ", ".join(
            "x".join("?" if dim is None else str(dim) for dim in graph.tensors[place].shape or ())
            for place in side
            if place != OMITTED
        )
        for side in (operator.inputs[:2], operator.outputs)
    )
    attributes = [
        f"{name} {','.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in operator.attributes.items()
        if name.startswith(_ATTRIBUTES)
    ]
    return ", ".join([f"{taken} to {given}", *attributes])


def _ms(ns: float | None) -> str:
    return UNKNOWN if ns is None else f"{ns / 1e6:.3f}"


def _giga(per_s: float | None) -> str:
    return UNKNOWN if per_s is None else f"{per_s / 1e9:.1f}"
