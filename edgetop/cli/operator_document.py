"""What `edgetop ops --json` prints. Its keys are a contract (`edgetop help ops`)."""

from collections.abc import Iterable
from typing import Any

from edgetop.analysis.operator_hints import fell_back
from edgetop.analysis.operators import by_type, partitions
from edgetop.analysis.report import to_json
from edgetop.analysis.report_operators import rate_figures, share_figures, thread_figures
from edgetop.analysis.roofline import why_unknown
from edgetop.analysis.rounding import rounded
from edgetop.cli.operator_profile import OperatorProfile, Row

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
    """One operator, as in `operators` and in a line of `--csv`."""
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
    """Largest share first."""
    rows: list[dict[str, Any]] = []
    cumulative = 0.0
    for of in by_type(found.views):
        members = [row for row in found.rows if row.view.op_type == of.op_type]
        cumulative += of.share
        rows.append(
            {
                "op_type": of.op_type,
                "operators": of.count,
                "calls": rounded(sum(row.view.calls for row in members), 4),
                "mean_us": _us(sum(row.mean_ns for row in members)),
                "share": round(of.share, 6),
                "cum_share": round(cumulative, 6),
                "flops": _total(row.view.flops for row in members),
                "bytes": _total(row.view.bytes for row in members),
            }
        )
    return rows


def _total(numbers: Iterable[int | None]) -> int | None:
    """None where one is not known: a sum that lacks something is no sum."""
    found = list(numbers)
    return None if None in found else sum(number or 0 for number in found)


def _memory(found: OperatorProfile) -> dict[str, Any]:
    assert found.inspection
    plan = found.inspection.memory
    return {"peak_activation_bytes": plan.peak_bytes, "working_set_bytes": plan.working_set_bytes}


def _us(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1e3, US_DIGITS)
