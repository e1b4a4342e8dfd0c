"""The JSON document of a session: `run --json` and `report --json` print the same one.

Its keys are a contract (`edgetop help report`). A value that is not known is None.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from edgetop.analysis.alerts.document import alerts_document
from edgetop.analysis.energy import EnergyView
from edgetop.analysis.forecast.document import forecast
from edgetop.analysis.gates import GateResult, judge_gate
from edgetop.analysis.operator_shares import OperatorView
from edgetop.analysis.operators import each_call_ns, partitions, scaled_ns
from edgetop.analysis.report_energy import energy_document, power_document
from edgetop.analysis.report_latency import latency_document
from edgetop.analysis.report_steadiness import steadiness, throttled
from edgetop.analysis.report_tail import tail_document
from edgetop.analysis.roofline import applicable, bound, rates
from edgetop.analysis.rounding import mj, ms, rounded
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.threads import ThreadView
from edgetop.session.manifest import Manifest, to_json
from edgetop.session.seconds import NS

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis


def report_document(analysis: "Analysis") -> dict[str, Any]:
    """Plain JSON values. Raises ValueError where no manifest has been folded."""
    document = _figures(analysis)
    document["gates"] = [result.to_json() for result in _judged(analysis, document)] or None
    return document


def gate_results(analysis: "Analysis") -> tuple[GateResult, ...]:
    """How the session's gates stand."""
    if not analysis.gates or analysis.manifest is None:
        return ()
    return _judged(analysis, _AskedFigures(analysis, analysis.manifest))


def _judged(analysis: "Analysis", document: Mapping[str, Any]) -> tuple[GateResult, ...]:
    return tuple(judge_gate(gate, document) for gate in analysis.gates)


class _AskedFigures(Mapping[str, Any]):
    """The document as far as it is asked for: gates are judged once a second, and most are about latency alone."""

    def __init__(self, analysis: "Analysis", manifest: Manifest) -> None:
        power = cache(analysis.power_view)
        self._parts: dict[str, Callable[[], Any]] = {
            "latency": lambda: latency_document(analysis, analysis.statistics(), manifest),
            "drift_ratio": lambda: steadiness(analysis)["drift_ratio"],
            "throttled": lambda: throttled(analysis),
            "temperature": lambda: _temperature(analysis),
            "power": lambda: power_document(power()),
            "energy": lambda: energy_document(analysis.energy_view(power())),
            "memory": lambda: _memory(analysis),
        }
        self._made: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self._made:
            self._made[key] = self._parts[key]()
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)


def _figures(analysis: "Analysis") -> dict[str, Any]:
    """All but the gates, which are about these."""
    manifest = analysis.manifest
    if manifest is None:
        raise ValueError("nothing to report: no manifest has come")
    statistics = analysis.statistics()
    power = analysis.power_view()
    energy = analysis.energy_view(power)
    return {
        "session": to_json(manifest),
        "verdict": _verdict(analysis),
        "lost": dataclasses.asdict(manifest.lost) if manifest.lost else None,
        "latency": latency_document(analysis, statistics, manifest),
        "tail": tail_document(analysis.tail()),
        "phases": _phases(analysis, manifest),
        **steadiness(analysis),
        "alerts": alerts_document(analysis.alerts_view()),
        "temperature": _temperature(analysis),
        "forecast": forecast(analysis.forecast_view()),
        "power": power_document(power),
        "energy": energy_document(energy),
        "memory": _memory(analysis),
        "usage": _usage(analysis),
        "operators": _operators(analysis, manifest, statistics, energy),
        "partitions": _partitions(analysis, manifest),
        "profile": _profile(analysis),
        "roofline": _roofline(analysis),
        "overhead": _overhead(analysis),
        "gates": None,
        "warnings": [
            {"code": notice.code, "message": notice.message, "advice": notice.advice, "data": dict(notice.data)}
            for notice in analysis.notices()
        ],
    }


def _verdict(analysis: "Analysis") -> dict[str, Any]:
    """The words are those of the screen's first line; `now` is what held at the end, of a session that is over."""
    verdict = analysis.verdict()
    return {
        "now": verdict.now,
        "words": verdict.words,
        "since_s": None if verdict.since_ns is None else round(verdict.since_ns / NS, 3),
        "first": verdict.first,
        "also": list(verdict.also),
        "past": list(verdict.past),
        "brief": verdict.brief or None,
    }


def _phases(analysis: "Analysis", manifest: Manifest) -> dict[str, Any]:
    runs, total_ns = analysis.progress.warmup
    return {
        "init_ms": ms(manifest.engine.init_ns),
        "first_ms": ms(manifest.engine.first_ns),
        "warmup": {"runs": runs, "mean_ms": ms(total_ns / runs) if runs and total_ns else None},
    }


def _temperature(analysis: "Analysis") -> dict[str, Any]:
    return {
        track.info.id: {
            "min": rounded(track.min),
            "mean": rounded(track.mean),
            "max": rounded(track.max),
            "end": rounded(track.value),
        }
        for track in analysis.tracks.views("temp")
        if track.count
    }


def _memory(analysis: "Analysis") -> dict[str, Any]:
    accelerator = analysis.tracks.one("mem/accelerator")
    growth = analysis.growth_view()
    slope = growth.mib_per_h
    return {
        "rss_peak_mib": rounded(_rss_peak_mib(analysis)),
        "rss_end_mib": rounded(_rss_end_mib(analysis)),
        "growth_mib_per_h": rounded(slope.value) if slope else None,
        "growth_ci95_mib_per_h": [rounded(slope.low), rounded(slope.high)] if slope else None,
        "leak": growth.is_leak,
        "left_mib": rounded(analysis.memory_left_mib()),
        "hours_to_limit": rounded(growth.hours_left),
        "accelerator_peak_mib": rounded(accelerator.max) if accelerator else None,
        "stages": [
            {
                "stage": stage.stage,
                "rss_mib": rounded(stage.rss_mib),
                "anon_mib": rounded(stage.anon_mib),
                "file_mib": rounded(stage.file_mib),
            }
            for stage in analysis.memory_stages.views()
        ]
        or None,
    }


def _rss_peak_mib(analysis: "Analysis") -> float | None:
    """Of a short run the sensors may have read nothing since the model was loaded; the engine tells at each stage."""
    tracks = filter(None, map(analysis.tracks.one, ("mem/rss-peak", "mem/rss")))
    told = [*(track.max for track in tracks), *(stage.rss_mib for stage in analysis.memory_stages.views())]
    return max((mib for mib in told if mib is not None), default=None)


def _rss_end_mib(analysis: "Analysis") -> float | None:
    """What was read before the measured phase says nothing of the end."""
    rss, began_ns = analysis.tracks.one("mem/rss"), analysis.progress.began_measuring_ns
    if rss is None or rss.read_ns is None or (began_ns is not None and rss.read_ns < began_ns):
        return None
    return rss.value


def _usage(analysis: "Analysis") -> dict[str, Any] | None:
    """Over the measured phase, which `total_time_ms` is the length of; None where nothing was measured."""
    view, measured_ns = analysis.usage_view(), analysis.progress.view().measured_ns
    if not measured_ns:
        return None
    return {
        "cpu_mean_pct": rounded(view.cpu_mean_pct),
        "cpu_peak_pct": rounded(view.cpu_peak_pct),
        "mem_mean_mib": rounded(view.mem_mean_mib),
        "mem_peak_mib": rounded(view.mem_peak_mib),
        **view.bytes,
        "total_time_ms": ms(measured_ns),
    }


def _operators(
    analysis: "Analysis", manifest: Manifest, statistics: Statistics | None, energy: EnergyView
) -> list[dict[str, Any]] | None:
    """In run order, over all bursts; None where there was none.

    Times are shares of the p50 that was measured; where nothing was, of an instrumented inference. Energies are
    shares of an inference's: an estimate, for it takes every operator to draw the same power.
    """
    gross_j = energy.total.gross_j if energy.total else None
    p50_ns = statistics.percentile_ns(0.50) if statistics else analysis.operators.session.run_ns
    ceilings = applicable(analysis.operators.ceilings, manifest.model.precision)
    found = []
    for operator in analysis.operators.session.views():
        each_ns = each_call_ns(operator, p50_ns)
        achieved = rates(operator.flops, operator.bytes, each_ns)
        found.append(
            {
                "name": operator.name,
                "op_type": operator.op_type,
                "provider": operator.provider,
                "share": round(operator.share, 6),
                "mean_us": None if p50_ns is None else round(scaled_ns(operator, p50_ns) / 1e3, 3),
                "energy_mj_estimate": mj(operator.share * gross_j.value) if gross_j else None,
                "calls": round(operator.calls, 4),
                "flops": operator.flops,
                "bytes": operator.bytes,
                "bound": bound(operator.flops, operator.bytes, each_ns, ceilings),
                "origin": operator.origin,
                "gflop_per_s": None if achieved.flops_per_s is None else round(achieved.flops_per_s / 1e9, 4),
                "gb_per_s": None if achieved.bytes_per_s is None else round(achieved.bytes_per_s / 1e9, 4),
                **share_fields(operator),
            }
        )
    return found or None


def share_fields(operator: OperatorView) -> dict[str, Any]:
    """How well its share is known."""
    ci95 = operator.share_ci95
    return {"settled": operator.settled, "share_ci95": ci95 and [round(bound, 6) for bound in ci95]}


def _profile(analysis: "Analysis") -> dict[str, Any] | None:
    """How the operators were timed; None where none were."""
    operators = analysis.operators
    tally = operators.session
    if not tally.bursts:
        return None
    threads = threads_document(operators.threads.view())
    return {
        "way": operators.timed_by or None,
        "bursts": tally.bursts,
        "runs": tally.runs,
        "left_out_runs": operators.left_out_runs,
        "disturbed": tally.is_disturbed,
        "threads": threads,
    }


def threads_document(view: ThreadView | None) -> dict[str, Any] | None:
    """None: nothing is known."""
    if view is None:
        return None
    return {
        "count": view.count,
        "wait_share": round(view.wait_share, 6),
        "waits_in": view.most or None,
        "moves_per_s": round(view.moves_per_s, 3),
    }


def _roofline(analysis: "Analysis") -> dict[str, Any] | None:
    ceilings = analysis.operators.ceilings
    return None if ceilings is None else ceilings.to_json()


def _partitions(analysis: "Analysis", manifest: Manifest) -> int | None:
    """What the engine says, or else what ran after what."""
    told = manifest.engine.partitions
    return partitions(analysis.operators.session.views()) if told is None else told


def _overhead(analysis: "Analysis") -> dict[str, Any]:
    memory = analysis.tracks.one("mem/edgetop")
    return {
        "cpu_pct": rounded(analysis.own_load.mean),
        "rss_mib": rounded(memory.max) if memory else None,
    }
