"""Operators and how they were timed, in the report and in `edgetop ops --json`."""

from dataclasses import dataclass

from edgetop.analysis.energy import EnergyView
from edgetop.analysis.folds import Folds
from edgetop.analysis.hotspots import ThreadView, each_call_ns, partitions, scaled_ns
from edgetop.analysis.operator_bounds import Rates, applicable, bound, rates
from edgetop.analysis.operator_shares import OperatorView
from edgetop.formatting import rounded_mj
from edgetop.frozen import frozen
from edgetop.session.manifest import Manifest
from edgetop.session.typed_json import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFigures:
    """One operator over all profiling rounds.
    of an inference. The latter assumes that all operators draw the same power.
    """

    name: str
    op_type: str
    provider: str
    share: float
    mean_us: float | None
    energy_mj_estimate: float | None
    calls: float  # Calls per inference.
    flops: int | None
    bytes: int | None
    bound: str | None  # "compute", "memory" or "overhead"; None if unknown.
    origin: str | None  # Its name in the model's file.
    gflop_per_s: float | None
    gb_per_s: float | None
    settled: bool
    share_ci95: tuple[float, float] | None


@frozen
class Profile:
    """How operators were timed."""

    way: str | None
    bursts: int
    runs: int
    left_out_runs: int
    disturbed: bool
    threads: ThreadView | None


def operator_figures(analysis: Folds, manifest: Manifest, energy: EnergyView) -> tuple[OperatorFigures, ...] | None:
    """Return the figures of every operator, or None if there was no profiling round."""
    gross_j = energy.total.gross_j if energy.total else None
    statistics = analysis.statistics()
    p50_ns = statistics.percentile_ns(0.50) if statistics else analysis.operators.session.run_ns
    limits = applicable(analysis.operators.ceilings, manifest.model.precision)
    figures = []
    for operator in analysis.operators.session.views():
        each_ns = each_call_ns(operator, p50_ns)
        achieved = rates(operator.flops, operator.bytes, each_ns)
        figures.append(
            OperatorFigures(
                **{key: getattr(operator, key) for key in ("name", "op_type", "provider", "flops", "bytes", "origin")},
                mean_us=None if p50_ns is None else round(scaled_ns(operator, p50_ns) / 1e3, 3),
                energy_mj_estimate=rounded_mj(operator.share * gross_j.value) if gross_j else None,
                calls=round(operator.calls, 4),
                bound=bound(operator.flops, operator.bytes, each_ns, limits),
                **rate_figures(achieved),
                **share_figures(operator),
            )
        )
    return tuple(figures) or None


def rate_figures(achieved: Rates) -> Document:
    flops_per_s, bytes_per_s = achieved.flops_per_s, achieved.bytes_per_s
    return {
        "gflop_per_s": None if flops_per_s is None else round(flops_per_s / 1e9, 4),
        "gb_per_s": None if bytes_per_s is None else round(bytes_per_s / 1e9, 4),
    }


def share_figures(operator: OperatorView) -> Document:
    """Return the operator's share and its interval, with their JSON keys."""
    ci95 = operator.share_ci95
    return {
        "share": round(operator.share, 6),
        "settled": operator.settled,
        "share_ci95": ci95 and tuple(round(end, 6) for end in ci95),
    }


def profile(analysis: Folds) -> Profile | None:
    """Return how operators were timed, or None if they were not profiled."""
    operators = analysis.operators
    tally, left_out, threads = operators.session, operators.left_out_runs, operators.threads.view()
    if not tally.bursts:
        return None
    return Profile(operators.timed_by or None, tally.bursts, tally.runs, left_out, tally.is_disturbed, threads)


def partition_count(analysis: Folds, manifest: Manifest) -> int | None:
    """Return the engine's number of partitions, else how often the provider changes in run order, plus one."""
    reported = manifest.engine.partitions
    return partitions(analysis.operators.session.views()) if reported is None else reported
