"""The output of `edgetop ops` as JSON, CSV and Perfetto trace. The keys are a contract (`edgetop help ops`)."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from edgetop.analysis.operator_hints import fell_back
from edgetop.analysis.operators import partitions
from edgetop.analysis.report import to_json
from edgetop.analysis.report_operators import rate_figures, share_figures, thread_figures
from edgetop.analysis.roofline import why_unknown
from edgetop.cli.operator_profile import OperatorProfile, Row
from edgetop.formatting import rounded
from edgetop.recording.export.protocol import NamedOutput

US_DIGITS = 3


def operator_document(model: str, found: OperatorProfile) -> dict[str, Any]:
    parts = partitions(found.views)
    return {
        "model": model,
        "engine": f"{found.loaded.runtime} {found.loaded.version}",
        "runs": found.runs,
        "overhead_ratio": rounded(found.overhead_ratio, 4),
        "partitions": parts,
        "operators": [operator_fields(row) for row in found.rows],
        "by_type": _by_type(found),
        "p50_us": _us(found.p50_ns),
        "instrumented_us": _us(found.run_ns),
        "uninstrumented_runs": found.others,
        "bursts": found.bursts,
        "left_out_runs": found.left_out_runs,
        "disturbed": found.is_disturbed,
        "way": found.way,
        "providers": list(found.loaded.providers),
        "crossings": None if parts is None else parts - 1,
        "threads": to_json(thread_figures(found.threads)),
        "fell_back": [row.position for row in fell_back(found.views, found.preferred)],
        "precision": found.precision,
        "ceilings": None if found.ceilings is None else found.ceilings.to_json(),
        "bound_unknown": why_unknown(found.ceilings, found.precision) or None,
        "memory": None if found.inspection is None else _memory(found),
        "warnings": [{"code": hint.code, "message": hint.message, "advice": hint.advice} for hint in found.hints],
    }


def operator_fields(row: Row) -> dict[str, Any]:
    """Return one operator, as in `operators` and in a line of `--csv`."""
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
        "bound": row.bound,
        "origin": view.origin,
        "start_us": _us(row.start_ns),
        "first_us": _us(row.first_ns),
        **rate_figures(row.rates),
        "intensity": round(view.flops / view.bytes, 4) if view.flops is not None and view.bytes else None,
        **share,
    }


def _by_type(found: OperatorProfile) -> list[dict[str, Any]]:
    return [
        {
            "op_type": row.op_type,
            "operators": row.count,
            "calls": rounded(row.calls, 4),
            "mean_us": _us(row.mean_ns),
            "share": round(row.share, 6),
            "cum_share": round(row.cumulative, 6),
            "flops": row.flops,
            "bytes": row.bytes,
        }
        for row in found.types()
    ]


def _memory(found: OperatorProfile) -> dict[str, Any]:
    assert found.inspection
    plan = found.inspection.memory
    return {"peak_activation_bytes": plan.peak_bytes, "working_set_bytes": plan.working_set_bytes}


def _us(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e3, US_DIGITS)


def csv_rows(found: OperatorProfile) -> Iterator[Iterable[Any]]:
    """A head, and a line an operator, in run order."""
    rows = [operator_fields(row) for row in found.rows]
    yield rows[0]
    yield from (map(_cell, row.values()) for row in rows)


def _cell(value: Any) -> Any:
    """An interval is its two ends."""
    return " ".join(map(str, value)) if isinstance(value, list) else value


def write_trace(found: OperatorProfile, output: NamedOutput) -> None:
    """Trace Event Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU"""
    content = {"traceEvents": list(_events(found)), "displayTimeUnit": "ns"}
    with output.stream(is_text=True) as file:
        file.write(json.dumps(content, indent=1).encode())


_PLACE = {"pid": 1, "tid": 1}


def _events(found: OperatorProfile) -> Iterator[dict[str, Any]]:
    """Operators of one real inference, one behind the other: not every runtime reports when each began."""
    burst = found.first_burst
    known = {(row.view.name, row.view.op_type, row.view.provider): operator_fields(row) for row in found.rows}
    engine = f"{found.loaded.runtime} {found.loaded.version}"
    yield {"ph": "M", "name": "process_name", **_PLACE, "args": {"name": engine}}
    yield {"ph": "M", "name": "thread_name", **_PLACE, "args": {"name": "one inference, instrumented"}}
    spans = burst.first_run or tuple((i, o.total_ns // o.calls) for i, o in enumerate(burst.operators))
    whole_ns = max(burst.run_ns[0], sum(ns for _, ns in spans))
    yield {"ph": "X", "name": "inference", "cat": "inference", "ts": 0, "dur": whole_ns / 1e3, **_PLACE, "args": {}}
    begin_ns = 0
    for place, ns in spans:
        operator = burst.operators[place]
        fields = known.get((operator.name, operator.op_type, operator.provider), {})
        arguments = {key: fields[key] for key in _TRACE_KEYS if fields.get(key) is not None}
        yield {
            "ph": "X",
            "name": operator.name,
            "cat": operator.op_type,
            "ts": begin_ns / 1e3,
            "dur": ns / 1e3,
            **_PLACE,
            "args": arguments,
        }
        begin_ns += ns


_TRACE_KEYS = (
    "op_type", "provider", "origin", "mean_us", "share", "settled", "flops", "bytes", "gflop_per_s", "gb_per_s", "bound"
)  # fmt: skip
