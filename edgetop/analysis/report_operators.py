"""Operators and how they were timed, in the report and in `edgetop ops --json`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgetop.analysis.energy import EnergyView
from edgetop.analysis.event_counts import EventFigures
from edgetop.analysis.folds import Folds, once
from edgetop.analysis.hotspots import ThreadView, each_call_ns, partitions, scaled_ns
from edgetop.analysis.operator_bounds import Rates, applicable, bound, of_provider, rates
from edgetop.analysis.operator_counts import OperatorEvents, bound_of, line_bytes_of, with_bytes
from edgetop.analysis.operator_energy import NotTold, OperatorEnergies, OperatorEnergy
from edgetop.analysis.operator_hints import plain_run_ns
from edgetop.analysis.operator_shares import Key, OperatorView, key_of
from edgetop.formatting import rounded_mj
from edgetop.frozen import frozen
from edgetop.session.caches import smallest_holding
from edgetop.session.manifest import Manifest
from edgetop.session.operators import ON_CPU
from edgetop.session.typed_json import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFigures:
    """The figures of one operator over all profiling rounds. The field names are keys of the report's JSON document.

    `energy_mj` is measured. `energy_mj_estimate` assumes that all operators draw the same power.
    """

    name: str
    op_type: str
    provider: str
    share: float
    mean_us: float | None
    energy_mj_estimate: float | None
    energy_mj: float | None  # Of its group, in an inference; None if it cannot be told apart.
    energy_ci95_mj: tuple[float, float] | None
    energy_group: int | None  # Operators with the same number have one energy together.
    calls: float  # Calls per inference.
    flops: int | None
    bytes: int | None
    bound: str | None  # "compute", "memory" or "overhead"; None if unknown.
    origin: str | None  # Its name in the model's file.
    gflop_per_s: float | None
    gb_per_s: float | None
    rate_unknown: str | None  # Why a rate cannot be measured; None if it can be.
    fits_in: str | None  # The smallest cache that holds what it reads and writes, or "memory"; None if unknown.
    settled: bool
    share_ci95: tuple[float, float] | None
    bound_by: str | None = (
        None  # "counted" if `bound` follows from counted bytes, "file" if from those of the model's file.
    )
    counters: OperatorEvents | None = None  # What was counted in an inference; None if nothing was counted.


@frozen
class Profile:
    """How operators were timed: the profiler, and the numbers of rounds and instrumented inferences."""

    way: str | None
    bursts: int
    runs: int
    left_out_runs: int
    disturbed: bool
    threads: ThreadView | None
    energy_unknown: NotTold | None = None  # Why the energy of operators is unknown; None if it is known.


def operator_figures(analysis: Folds, manifest: Manifest, energy: EnergyView) -> tuple[OperatorFigures, ...] | None:
    """Return the figures of every operator, or None if there was no profiling round.

    For a language model, the figures are for one token.
    """
    session = analysis.operators.session
    if manifest.generation is None:
        gross_j, statistics = energy.total.gross_j if energy.total else None, analysis.statistics()
        p50_ns = statistics.percentile_ns(0.50) if statistics else session.run_ns
    else:
        gross_j, p50_ns = None, plain_run_ns(session.run_ns, analysis.operators.view().overhead)
    limits = applicable(analysis.operators.ceilings, manifest.model.precision)
    operators, figures = session.views(), []
    measured = operator_energies(analysis).groups
    counted = operator_events(analysis)
    group_of = {place: n for n, group in enumerate(measured) for place in range(group.first, group.last + 1)}
    for operator in operators:
        each_ns = each_call_ns(operator, p50_ns)
        achieved = rates(
            operator.flops, operator.bytes, each_ns, of_provider(analysis.operators.ceilings, operator.provider)
        )
        on_cpu = operator.provider in ON_CPU
        events = counted.get(key_of(operator)) if on_cpu else None
        limit = bound_of(
            operator.flops, operator.bytes, events, operator.calls, each_ns, of_provider(limits, operator.provider)
        )
        figures.append(
            OperatorFigures(
                **{key: getattr(operator, key) for key in ("name", "op_type", "provider", "flops", "bytes", "origin")},
                mean_us=None if p50_ns is None else round(scaled_ns(operator, p50_ns) / 1e3, 3),
                energy_mj_estimate=rounded_mj(operator.share * gross_j.value) if gross_j else None,
                **_energy_figures(measured, group_of.get(operator.position)),
                calls=round(operator.calls, 4),
                bound=limit.what,
                bound_by=limit.by,
                counters=events,
                **rate_figures(achieved),
                fits_in=smallest_holding(operator.bytes, manifest.board.caches) if on_cpu else None,
                **share_figures(operator),
            )
        )
    return tuple(figures) or None


def counted_figures(analysis: Folds, manifest: Manifest) -> EventFigures | None:
    """Return the events that the CPU and the kernel counted for one inference, or None without counters.

    The result includes what limits the whole model (memory or arithmetic), from the bytes that were counted.
    """
    figures, statistics = analysis.event_figures(), analysis.statistics()
    if figures is None or figures.bytes is None or statistics is None:
        return figures
    operators = analysis.operators.session.views()
    flops = [None if one.flops is None else one.flops * one.calls for one in operators]
    total = None if not flops or None in flops else round(sum(filter(None, flops)))
    limits = applicable(analysis.operators.ceilings, manifest.model.precision)
    return replace(figures, bound=bound(total, round(figures.bytes), statistics.percentile_ns(0.50), limits))


@once
def operator_events(analysis: Folds) -> Mapping[Key, OperatorEvents]:
    """Return the events that were counted in each operator, as a dict by `(name, type, provider)`.

    Operators without counts are left out. If the profiler did not say when operators ran, the counts are estimated by a
    regression.
    """
    tally, line_bytes = analysis.operators.counts, line_bytes_of(analysis.event_figures())
    views = analysis.operators.session.views()
    found = {key: tally.of(key) for key in map(key_of, views)} if tally.events else analysis.phase_counts.view(views)
    return {key: known for key, events in found.items() if (known := with_bytes(events, line_bytes)) is not None}


@once
def operator_energies(analysis: Folds) -> OperatorEnergies:
    """Return the measured energy of the operators, or the reason why it is unknown."""
    return analysis.phase_power.view(analysis.operators.session.views())


def _energy_figures(groups: Sequence[OperatorEnergy], number: int | None) -> Document:
    """Return the energy of a group of operators, as a dict by JSON key.

    `number`: the index of the group in `groups`; None if the operator is in no group, and all values are None.
    """
    if number is None:
        return dict.fromkeys(("energy_mj", "energy_ci95_mj", "energy_group"))
    low, high = groups[number].ci95_mj
    return {
        "energy_mj": rounded_mj(groups[number].energy_mj / 1e3),
        "energy_ci95_mj": (rounded_mj(low / 1e3), rounded_mj(high / 1e3)),
        "energy_group": number,
    }


def rate_figures(achieved: Rates) -> Document:
    flops_per_s, bytes_per_s = achieved.flops_per_s, achieved.bytes_per_s
    return {
        "gflop_per_s": None if flops_per_s is None else round(flops_per_s / 1e9, 4),
        "gb_per_s": None if bytes_per_s is None else round(bytes_per_s / 1e9, 4),
        "rate_unknown": achieved.not_measurable,
    }


def share_figures(operator: OperatorView) -> Document:
    """Return the operator's share of the time and its interval, as a dict by JSON key."""
    ci95 = operator.share_ci95
    return {
        "share": round(operator.share, 6),
        "settled": operator.settled,
        "share_ci95": ci95 and tuple(round(end, 6) for end in ci95),
    }


def profile(analysis: Folds) -> Profile | None:
    """Return how the operators were timed, or None if no operator was timed."""
    operators = analysis.operators
    tally, left_out, threads = operators.session, operators.left_out_runs, operators.threads.view()
    if not tally.bursts:
        return None
    return Profile(
        operators.timed_by or None, tally.bursts, tally.runs, left_out, tally.is_disturbed, threads,
        operator_energies(analysis).unknown,
    )  # fmt: skip


def partition_count(analysis: Folds, manifest: Manifest) -> int | None:
    """Return the number of partitions (runs of successive operators with one provider), or None if unknown.

    The engine's own number is used if the engine reports one.
    """
    reported = manifest.engine.partitions
    return partitions(analysis.operators.session.views()) if reported is None else reported
