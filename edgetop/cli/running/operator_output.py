"""Writes the results of `edgetop ops` as JSON, CSV, a Perfetto trace, Markdown or text tables.

Users rely on the JSON keys (`edgetop help ops`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path

from edgetop import formatting
from edgetop.analysis.hotspots import full_name, partitions
from edgetop.analysis.operator_counts import OperatorEvents
from edgetop.analysis.operator_hints import fell_back, slow_kernels
from edgetop.analysis.operator_shares import key_of
from edgetop.analysis.report_operators import rate_figures, share_figures
from edgetop.cli.output import notice_lines, print_json, print_text, table, write_csv
from edgetop.cli.printing.markdown import (
    advised,
    block,
    bullets,
    code,
    escaped,
    folded,
    markdown_table,
    write_markdown,
)
from edgetop.cli.running.operator_run import OperatorProfile, Row
from edgetop.errors import InputError
from edgetop.formatting import UNKNOWN, clean, cut_middle, interval_text, rounded, share_text, shortened
from edgetop.models.executed import Origin
from edgetop.models.graph import OMITTED, Graph
from edgetop.recording.export.export_formats import NamedOutput, StreamOutput
from edgetop.runner.loaded_engine import fallback_words
from edgetop.session.operators import LEAST_BURSTS, LEAST_RUNS, ON_CPU
from edgetop.session.typed_json import Document
from edgetop.wording.arena_words import arena_words
from edgetop.wording.cache_words import cache_sizes, fit_words
from edgetop.wording.counter_words import notes_words, operator_counter_columns
from edgetop.wording.operator_words import bound_unknown_words, ceiling_words, not_measurable_words, rate_mark
from edgetop.wording.report_document import to_json

US_DIGITS = 3
TOP = 10
TYPE_CELLS, NAME_CELLS = 30, 60


def output_files(csv: Path | None, trace: Path | None, *, force: bool) -> tuple[NamedOutput | None, NamedOutput | None]:
    """Return the output files of `--csv` and `--trace`, in this order. None for an option that was not given.

    `force` allows to replace existing files. Raises InputError if a file cannot be written.
    """
    if csv is not None and csv == trace:
        raise InputError(f"--csv and --trace name the same file: {csv}")
    return _output_file("--csv", csv, force=force), _output_file("--trace", trace, force=force)


def _output_file(option: str, path: Path | None, *, force: bool) -> NamedOutput | None:
    if path is None:
        return None
    return NamedOutput.of_option(option, path, force=force, elsewhere=f"choose another path with {option}")


def write(
    model: str,
    found: OperatorProfile,
    csv: NamedOutput | None,
    trace: NamedOutput | None,
    markdown: NamedOutput | StreamOutput | None = None,
    *,
    as_json: bool,
) -> None:
    """Write the profile of a model's operators to the requested files, and print it on stdout.

    `model` is the path of the model, as printed. `as_json` prints a JSON document instead of text tables. Nothing is
    printed if the Markdown itself goes to stdout.
    """
    if csv:
        rows = [_flat(operator_fields(row)) for row in found.rows]
        cells = (
            [" ".join(map(str, cell)) if isinstance(cell, list) else cell for cell in row.values()] for row in rows
        )
        write_csv(csv, [rows[0], *cells])
    if trace:
        content = {"traceEvents": list(_events(found)), "displayTimeUnit": "ns"}
        with trace.stream(is_text=True) as file:
            file.write(json.dumps(content, indent=1).encode())
    if markdown:
        write_markdown(markdown, operator_markdown(model, found))
    if as_json:
        print_json(operator_document(model, found))
    elif not isinstance(markdown, StreamOutput):
        print_text(operator_tables(model, found))


def operator_document(model: str, found: OperatorProfile) -> Document:
    profiled, loaded, parts = found.profiled, found.loaded, partitions(found.views)
    plan, memory = found.inspection and found.inspection.memory, profiled.memory
    return {
        "model": model,
        "engine": f"{loaded.runtime} {loaded.version}",
        "runs": profiled.runs,
        "overhead_ratio": rounded(found.overhead_ratio, 4),
        "partitions": parts,
        "operators": [operator_fields(row) for row in found.rows],
        "by_type": [
            {
                "op_type": of.op_type,
                "operators": of.count,
                "calls": rounded(sum(row.view.calls for row in rows), 4),
                "mean_us": _us(sum(row.mean_ns for row in rows)),
                "share": round(of.share, 6),
                "cum_share": round(cumulative, 6),
                "flops": _total(row.view.flops for row in rows),  # of one call each; None if one is unknown
                "bytes": _total(row.view.bytes for row in rows),
            }
            for of, cumulative, rows in found.types()
        ],
        "p50_us": _us(profiled.p50_ns),
        "instrumented_us": _us(profiled.run_ns),
        "uninstrumented_runs": profiled.measured,
        "bursts": found.tally.bursts,
        "left_out_runs": profiled.all_runs - profiled.runs,
        "disturbed": found.tally.is_disturbed,
        "way": found.chosen.way,
        "providers": list(loaded.providers),
        "crossings": None if parts is None else parts - 1,
        "crossing_ms": None if found.crossing_ns is None else round(found.crossing_ns / 1e6, 6),
        "threads": to_json(found.threads),
        "fell_back": [row.position for row in fell_back(found.views, found.preferred)],
        "fallback_reasons": None
        if found.chosen.fallback is None
        else [{"text": text, "operators": count} for text, count in found.chosen.fallback.counts()],
        "precision": found.precision,
        "caches": [asdict(one) for one in found.caches],
        "ceilings": None if found.ceilings is None else found.ceilings.to_json(),
        "bound_unknown": bound_unknown_words(found.ceilings, found.precision, found.main_provider) or None,
        "memory": plan and {"peak_activation_bytes": plan.peak_bytes, "working_set_bytes": plan.working_set_bytes},
        "arena": None
        if not memory or memory.arena_bytes is None
        else {"bytes": memory.arena_bytes, "from": memory.arena_from},
        "warnings": [{"code": hint.code, "message": hint.message, "advice": hint.advice} for hint in found.hints],
    }


def operator_fields(row: Row) -> Document:
    """Return the results of one operator, by JSON key.

    These results form an item of `operators` in JSON and a line of `--csv`.
    """
    view, share = row.view, to_json(share_figures(row.view))
    return {
        "position": view.position,
        "name": view.name,
        "op_type": view.op_type,
        "provider": view.provider,
        "calls": rounded(view.calls, 4),
        "mean_us": _us(row.mean_ns),
        "share": share["share"],
        "cum_share": round(row.cumulative, 6),
        "flops": view.flops,
        "bytes": view.bytes,
        "bound": row.bound.what,
        "origin": view.origin,
        "start_us": _us(row.start_ns),
        "first_us": _us(row.first_ns),
        **rate_figures(row.rates),
        "fits_in": row.fits_in,
        "intensity": round(view.flops / view.bytes, 4) if view.flops is not None and view.bytes else None,
        **share,
        "bound_by": row.bound.by,
        "counters": to_json(row.events),
    }


def _flat(fields: Document) -> Document:
    """Return `fields`, the results of one operator, as one CSV row with a value for each counted hardware event.

    In `fields`, these counts are in the dict `counters`. Their confidence intervals are left out.
    """
    counters = fields.pop("counters") or dict.fromkeys(to_json(OperatorEvents()))
    return {**fields, **{name: value for name, value in counters.items() if name not in ("ci95", "by")}}


def _total(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of the numbers, or None if one of them is None."""
    found = list(numbers)
    return None if None in found else sum(number or 0 for number in found)


def _us(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e3, US_DIGITS)


_TRACE_KEYS = (
    "op_type", "provider", "origin", "mean_us", "share", "settled", "flops", "bytes", "gflop_per_s", "gb_per_s", "bound"
)  # fmt: skip


def _events(found: OperatorProfile) -> Iterator[Document]:
    """Yield the events of a Perfetto trace that shows the operators of one real inference, each on its thread.

    If the runtime does not report when operators began, they follow each other on one thread.

    Trace Event Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
    """
    burst, place = found.profiled.bursts[0], {"pid": 1, "tid": 1}
    known = {key_of(row.view): operator_fields(row) for row in found.rows}
    engine = f"{found.loaded.runtime} {found.loaded.version}"
    yield {"ph": "M", "name": "process_name", **place, "args": {"name": engine}}
    yield {"ph": "M", "name": "thread_name", **place, "args": {"name": "one inference, instrumented"}}
    spans = burst.first_run or tuple((i, o.total_ns // o.calls) for i, o in enumerate(burst.operators))
    begins = burst.first_begins or tuple((begin_ns, 0) for begin_ns in accumulate((ns for _, ns in spans), initial=0))
    for thread in sorted({thread for _, thread in begins if thread}):
        there = {"pid": 1, "tid": 1 + thread}
        yield {"ph": "M", "name": "thread_name", **there, "args": {"name": f"thread {1 + thread} of operators"}}
    whole_ns = max(burst.run_ns[0], *(begin[0] + ns for begin, (_, ns) in zip(begins, spans, strict=False)), 0)
    yield {"ph": "X", "name": "inference", "cat": "inference", "ts": 0, "dur": whole_ns / 1e3, **place, "args": {}}
    for (number, ns), (begin_ns, thread) in zip(spans, begins, strict=False):
        operator = burst.operators[number]
        fields = known.get(key_of(operator), {})
        arguments = {key: fields[key] for key in _TRACE_KEYS if fields.get(key) is not None}
        at = {"ts": begin_ns / 1e3, "dur": ns / 1e3, "pid": 1, "tid": 1 + thread}
        yield {"ph": "X", "name": operator.name, "cat": operator.op_type, **at, "args": arguments}


def operator_tables(model: str, found: OperatorProfile) -> str:
    """Return the profile as text: the slowest operators, then advice, then the details.

    `model` is the path of the model, as printed.
    """
    hints = notice_lines("hint", found.hints, lambda hint: _shapes(found) if hint.code == "slow-kernel" else ())
    answer = (_title(model, found), [answer_words(found)], _section("by time", _top(found)), hints)
    more = (
        _counted(found), _places(found), _types(found), _section("in run order", found.rows), [""], _head(found),
    )  # fmt: skip
    return "\n".join(line for part in (*answer, *more) for line in part)


def _top(found: OperatorProfile) -> list[Row]:
    return sorted(found.rows, key=lambda row: -row.view.share)[:TOP]


def answer_words(found: OperatorProfile) -> str:
    """Return a sentence on the slowest operators, such as `10 of 72 operators take 81 % of the time`."""
    top, every = _top(found), len(found.rows)
    share = formatting.percent(sum(row.view.share for row in top))
    doubt = "" if all(row.view.settled for row in top) else ", not settled"
    if len(top) == every:
        return f"all {every} operators, the slowest first" if every > 1 else "its one operator"
    return f"{len(top)} of {formatting.quantity(every, 'operator')} take {share} of the time{doubt}"


def operator_markdown(model: str, found: OperatorProfile) -> Iterator[str]:
    """Yield the lines of a Markdown document: the slowest operators, the operator types, and hints.

    All text tables follow, hidden until a reader unfolds them. `model` is the path of the model, as printed.
    """
    loaded = found.loaded
    yield f"### edgetop ops {code(model)}"
    runtime = code(f"{loaded.runtime} {loaded.version}")
    yield from ("", f"{runtime} on {', '.join(map(code, loaded.providers))}: {escaped(answer_words(found))}.")
    heads = ("operator", "type", "on", "ms", "%", "95 %", "GFLOP/s", "bound")
    rows = (
        (
            code(full_name(row.view)), code(row.view.op_type), code(row.view.provider), _ms(row.mean_ns),
            share_text(row.view.share, settled=row.view.settled).strip(), interval_text(row.view.share_ci95),
            _giga(row.rates.flops_per_s), row.bound.what or UNKNOWN,
        )
        for row in _top(found)
    )  # fmt: skip
    yield from markdown_table(heads, rows, heads[3:7])
    yield from _types_markdown(found)
    yield from bullets("Hints", (advised(hint.message, hint.advice) for hint in found.hints))
    yield from folded("All operators", block(operator_tables(model, found)))


def _types_markdown(found: OperatorProfile) -> Iterator[str]:
    heads = ("type", "operators", "ms", "%")
    types = (
        (code(of.op_type), str(of.count), _ms(sum(row.mean_ns for row in rows)), f"{100 * of.share:.1f}")
        for of, _, rows in found.types()
    )
    yield from markdown_table(heads, types, heads[1:])


def _title(model: str, found: OperatorProfile) -> Iterator[str]:
    loaded = found.loaded
    yield f"{clean(model)}  {clean(loaded.runtime)} {clean(loaded.version)} on {clean(', '.join(loaded.providers))}"


def _head(found: OperatorProfile) -> Iterator[str]:
    profiled = found.profiled
    yield "how it was measured"
    why = f" ({clean(found.chosen.reason)})" if found.chosen.reason else ""
    yield f"  profiled   {formatting.quantity(profiled.runs, 'inference')} by {clean(found.chosen.way)}{why}"
    yield from _doubts(found)
    ratio = found.overhead_ratio
    more = "overhead unknown" if ratio is None else f"{100 * (ratio - 1):+.1f} %"
    total_ns = sum(row.mean_ns for row in found.rows)
    covered = UNKNOWN if not profiled.p50_ns else formatting.percent(total_ns / profiled.p50_ns)
    yield (
        f"  inference  p50 {_ms(profiled.p50_ns)} ms of {profiled.measured} that were not instrumented; "
        f"instrumented {_ms(profiled.run_ns)} ms, {more}; operators add up to {covered} of p50"
    )
    if top := found.ceilings:
        yield f"  ceilings   {ceiling_words(top)}, measured {clean(top.measured_utc)}"
    if why := bound_unknown_words(found.ceilings, found.precision, found.main_provider):
        yield f"  bound      {UNKNOWN} {clean(why)}"
    if why := not_measurable_words([row.rates.not_measurable for row in found.rows]):
        yield f"  rates      {why}"
    if found.inspection:
        plan = found.inspection.memory
        peak, largest = formatting.size(plan.peak_bytes), formatting.size(plan.working_set_bytes)
        yield f"  memory     {peak} of activations at the peak, as planned from the file; {largest} in one operator"
    if (memory := profiled.memory) and memory.arena_bytes is not None:
        yield f"             {arena_words(memory.arena_bytes, memory.arena_from)}"
    if found.caches:
        yield f"  caches     {cache_sizes(found.caches)}"
        on_cpu = [row.view for row in found.rows if row.view.provider in ON_CPU]
        sets = [(cut_middle(full_name(view), NAME_CELLS), view.bytes) for view in on_cpu]
        for line in fit_words(sets, found.caches):
            yield f"             {line}"


def _doubts(found: OperatorProfile) -> Iterator[str]:
    """Yield lines that say which inferences were left out, and why figures are still uncertain."""
    tally, profiled = found.tally, found.profiled
    if tally.is_disturbed:
        yield "  disturbed  other processes took CPU time from every instrumented inference: no share is settled"
    elif left_out := profiled.all_runs - profiled.runs:
        runs = formatting.quantity(left_out, "instrumented inference")
        yield f"  left out   {runs}, from which other processes took CPU time"
    if not tally.is_enough and not tally.is_disturbed:
        needed = f"{LEAST_BURSTS} rounds and {LEAST_RUNS} inferences"
        had = f"{formatting.quantity(tally.bursts, 'round')} with {formatting.quantity(profiled.runs, 'inference')}"
        yield f"  unsettled  {had}: shares settle from {needed} on"
    elif not all(view.settled for view in found.views):
        yield "  unsettled  shares marked ? may lie anywhere in their 95 % interval"


_HEADS = (
    "start ms", "first", "avg ms", "%", "cum %", "95 %", "calls", "GFLOP/s", "GB/s", "cache", "bound", "on", "type",
    "name",
)  # fmt: skip
_WORDS = ("cache", "bound", "on", "type", "name")


def _section(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines of a table of operators. `title` follows the word `operators` in its heading.

    The column `cum %` always adds up from the slowest operator on, whatever the order of the rows.
    """
    cells = [
        (
            _ms(row.start_ns),
            _ms(row.first_ns),
            _ms(row.mean_ns),
            share_text(row.view.share, settled=row.view.settled),
            f"{100 * row.cumulative:.1f}",
            interval_text(row.view.share_ci95),
            f"{row.view.calls:g}",
            _giga(row.rates.flops_per_s),
            rate_mark(row.rates.not_measurable) or _giga(row.rates.bytes_per_s),
            row.fits_in or UNKNOWN,
            row.bound.what or UNKNOWN,
            clean(row.view.provider),
            shortened(row.view.op_type, TYPE_CELLS),
            cut_middle(full_name(row.view), NAME_CELLS),
        )
        for row in rows
    ]
    yield from ("", f"operators {title}", *table(_HEADS, cells, _WORDS, indent="  "))


def _counted(found: OperatorProfile) -> Iterator[str]:
    """Yield a table of hardware events counted in the slowest operators. Yield nothing if none were counted."""
    rows = _top(found)
    columns = operator_counter_columns([row.events for row in rows])
    if not columns:
        return
    names = [cut_middle(full_name(row.view), NAME_CELLS) for row in rows]
    yield from ("", "operators by time: counted in an inference")
    yield from table([*columns, "name"], list(zip(*columns.values(), names, strict=True)), _WORDS, indent="  ")
    if words := notes_words(found.counts.events):
        yield f"  {words}"


def _types(found: OperatorProfile) -> Iterator[str]:
    cells = [
        (
            str(of.count), _ms(sum(row.mean_ns for row in rows)), f"{100 * of.share:.1f}", f"{100 * cumulative:.1f}",
            f"{sum(row.view.calls for row in rows):g}", shortened(of.op_type, NAME_CELLS),
        )
        for of, cumulative, rows in found.types()
    ]  # fmt: skip
    heads = ("count", "avg ms", "%", "cum %", "calls", "type")
    yield from ("", "operators by type", *table(heads, cells, _WORDS, indent="  "))


def _places(found: OperatorProfile) -> Iterator[str]:
    parts = partitions(found.views)
    yield ""
    cost = "" if found.crossing_ns is None else f", {_ms(found.crossing_ns)} ms each"
    crossings = parts - 1 if parts else UNKNOWN
    yield f"where it ran: partitions {parts or UNKNOWN}, crossings between them {crossings}{cost}"
    doubt = "" if all(view.settled for view in found.views) else " ?"
    shares: dict[str, list[float]] = {}
    for view in found.views:
        shares.setdefault(view.provider, []).append(view.share)
    for provider, those in sorted(shares.items(), key=lambda item: -sum(item[1])):
        operators = formatting.quantity(len(those), "operator")
        yield f"  {clean(provider):<10} {operators}, {formatting.percent(sum(those))} of the time{doubt}"
    for view in fell_back(found.views, found.preferred):
        share = formatting.percent(view.share) + ("" if view.settled else " ?")
        yield f"  fell back  {clean(view.op_type)} {clean(view.name)}, {share} of the time"
    if found.chosen.fallback is not None:
        yield f"  why        {clean(fallback_words(found.chosen.fallback))}"


def _shapes(found: OperatorProfile) -> Iterator[str]:
    slow = {view.position for view in slow_kernels(found.views, found.profiled.p50_ns)}
    for row in found.rows:
        if row.view.position in slow and row.origin and found.inspection:
            shape = clean(_shape(found.inspection.model.graph, row.origin))
            yield f"{cut_middle(full_name(row.view), NAME_CELLS)}: {shape}"


_ATTRIBUTES = ("stride", "dilation", "kernel", "group", "filter", "padding")


def _shape(graph: Graph, origin: Origin) -> str:
    """Return shapes and attributes of an operator: `1x64x56x56, 64x64x3x3 to 1x64x56x56, strides 1,1, dilations 2,2`.

    `origin` tells which operator of `graph` is meant.
    """
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
