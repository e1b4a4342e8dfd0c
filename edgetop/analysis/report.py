"""The report of a session: one frozen value. `--json`, the text summary and the JUnit file print it.

The names of the fields are the keys of the JSON document, a contract (`edgetop help report`). A new part is a field
of `Report` and an entry of `_PARTS`; a new figure is a field of a part. A value that is not known is None.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from edgetop.analysis.ab import AbView
from edgetop.analysis.ab_words import ab_document, with_ab
from edgetop.analysis.alerts.alert import AlertsView, alerts_document
from edgetop.analysis.energy import EnergyView
from edgetop.analysis.folds import Folds, once
from edgetop.analysis.forecast.forecast import ForecastView
from edgetop.analysis.forecast.words import forecast
from edgetop.analysis.frames import FramesView
from edgetop.analysis.gates import Gate, GateResult, judge_gate
from edgetop.analysis.power import PowerView
from edgetop.analysis.report_energy import EnergyFigures, PowerFigures, energy_figures, power_figures
from edgetop.analysis.report_latency import LatencyFigures, latency_figures
from edgetop.analysis.report_operators import (
    OperatorFigures,
    Profile,
    operator_figures,
    partition_count,
    profile,
)
from edgetop.analysis.report_steadiness import Span, drift_ratio, is_throttled, slowdown_json, slowdowns, span
from edgetop.analysis.rounding import ms, rounded
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.tail import STANDS_OUT, SlowInference, TailPart, TailView, tail_words
from edgetop.analysis.throttle_words import throttles_document
from edgetop.analysis.throttles import ThrottlesView
from edgetop.analysis.verdict import Evidence, Promises, Verdict, judge
from edgetop.session import manifest as manifests
from edgetop.session.ceilings import Ceilings
from edgetop.session.events import Notice
from edgetop.session.manifest import Lost, Manifest
from edgetop.session.seconds import NS


@dataclass(frozen=True, slots=True)
class Temperature:
    """One zone, in °C."""

    min: float | None
    mean: float | None
    max: float | None
    end: float | None


@dataclass(frozen=True, slots=True)
class Warmup:
    runs: int | None
    mean_ms: float | None


@dataclass(frozen=True, slots=True)
class Phases:
    init_ms: float | None
    first_ms: float | None
    warmup: Warmup


@dataclass(frozen=True, slots=True)
class Stage:
    """What the engine held at the end of a step of its run."""

    stage: str
    rss_mib: float | None
    anon_mib: float | None
    file_mib: float | None


@dataclass(frozen=True, slots=True)
class Memory:
    rss_peak_mib: float | None
    rss_end_mib: float | None
    growth_mib_per_h: float | None
    growth_ci95_mib_per_h: tuple[float | None, float | None] | None
    leak: bool | None
    left_mib: float | None
    hours_to_limit: float | None
    accelerator_peak_mib: float | None
    stages: tuple[Stage, ...] | None


@dataclass(frozen=True, slots=True)
class Usage:
    """Over the measured phase, which lasted `total_time_ms`."""

    cpu_mean_pct: float | None
    cpu_peak_pct: float | None
    mem_mean_mib: float | None
    mem_peak_mib: float | None
    net_rx_bytes: int | None
    net_tx_bytes: int | None
    block_read_bytes: int | None
    block_write_bytes: int | None
    total_time_ms: float | None


@dataclass(frozen=True, slots=True)
class Overhead:
    """What edgetop itself costs."""

    cpu_pct: float | None
    rss_mib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """In the order of the JSON document."""

    session: Manifest
    verdict: Verdict
    lost: Lost | None
    latency: LatencyFigures
    tail: TailView
    phases: Phases
    burst: Span | None
    sustained: Span | None
    drift_ratio: float | None  # sustained p50 over burst p50
    throttled: bool | None
    throttled_share: float | None
    throttles: ThrottlesView
    slowdowns: tuple[Slowdown, ...] | None
    alerts: AlertsView
    temperature: Mapping[str, Temperature]  # by sensor
    forecast: ForecastView
    power: PowerFigures
    energy: EnergyFigures
    memory: Memory
    usage: Usage | None  # None: nothing was measured
    operators: tuple[OperatorFigures, ...] | None  # in run order; None: not profiled
    partitions: int | None
    profile: Profile | None
    roofline: Ceilings | None
    overhead: Overhead
    gates: tuple[GateResult, ...] | None = field(default=None)
    frames: FramesView | None = field(default=None, metadata={"omit": True})  # None: no stages were reported
    ab: AbView | None = field(default=None, metadata={"omit": True})  # None: no A/B session
    warnings: tuple[Notice, ...]


def report(analysis: Folds) -> Report:
    """Raises ValueError where no manifest has been folded."""
    if analysis.manifest is None:
        raise ValueError("nothing to report: no manifest has come")
    parts = _Parts(analysis, analysis.manifest)
    whole = Report(**{name: getattr(parts, name) for name in _PARTS})
    return dataclasses.replace(whole, gates=tuple(judge_gate(gate, whole) for gate in analysis.gates) or None)


def report_document(analysis: Folds) -> dict[str, Any]:
    """What `--json` prints."""
    document: dict[str, Any] = to_json(report(analysis))
    return document


def gate_results(analysis: Folds, gates: Sequence[Gate] | None = None) -> tuple[GateResult, ...]:
    """How these gates stand now; None: the session's own."""
    gates = analysis.gates if gates is None else gates
    if not gates or analysis.manifest is None:
        return ()
    parts: Any = _Parts(analysis, analysis.manifest)
    return tuple(judge_gate(gate, parts) for gate in gates)


@once
def promises(folds: Folds) -> Promises:
    """What was asked of the session, and how far it is kept up to now."""
    return Promises(folds.backlog.view(), folds.deadline(), gate_results(folds))


@once
def verdict(folds: Folds) -> Verdict:
    """Of the whole session up to now: the one that screen, report, list and hooks print."""
    seen = Evidence(
        progress=folds.progress.view(),
        session=folds.statistics(),
        until_ns=folds.progress.measured_until_ns,
        recent=folds.latency.recent(folds.progress.measured_until_ns),
        errors=folds.latency.errors,
        events=folds.events.view(),
        manifest=folds.manifest,
        slowdowns=folds.slowdowns.view(),
        throttles=folds.throttles_view(),
        growth=folds.growth_view(),
        recording_trouble=folds.recording.trouble,
        promises=promises(folds),
    )
    return with_ab(judge(seen), folds.ab_view(), folds.progress.view())


class _Parts:
    """The parts of a report, each made when it is first read: most gates need the latency alone, once a second."""

    def __init__(self, analysis: Folds, manifest: Manifest) -> None:
        self.analysis = analysis
        self.manifest = manifest

    def __getattr__(self, name: str) -> Any:
        if name not in _PARTS:
            raise AttributeError(name)
        value = _PARTS[name](self)
        setattr(self, name, value)
        return value

    @cached_property
    def power_view(self) -> PowerView:
        return self.analysis.power_view()

    @cached_property
    def energy_view(self) -> EnergyView:
        return self.analysis.energy_view(self.power_view)


def _temperature(parts: _Parts) -> dict[str, Temperature]:
    return {
        track.info.id: Temperature(rounded(track.min), rounded(track.mean), rounded(track.max), rounded(track.value))
        for track in parts.analysis.tracks.views("temp")
        if track.count
    }


def _phases(parts: _Parts) -> Phases:
    runs, total_ns = parts.analysis.progress.warmup
    engine = parts.manifest.engine
    return Phases(
        ms(engine.init_ns), ms(engine.first_ns), Warmup(runs, ms(total_ns / runs) if runs and total_ns else None)
    )


def _memory(parts: _Parts) -> Memory:
    analysis = parts.analysis
    accelerator = analysis.tracks.one("mem/accelerator")
    growth = analysis.growth_view()
    slope = growth.mib_per_h
    stages = tuple(
        Stage(stage.stage, rounded(stage.rss_mib), rounded(stage.anon_mib), rounded(stage.file_mib))
        for stage in analysis.memory_stages.views()
    )
    return Memory(
        rss_peak_mib=rounded(_rss_peak_mib(analysis)),
        rss_end_mib=rounded(_rss_end_mib(analysis)),
        growth_mib_per_h=rounded(slope.value) if slope else None,
        growth_ci95_mib_per_h=(rounded(slope.low), rounded(slope.high)) if slope else None,
        leak=growth.is_leak,
        left_mib=rounded(analysis.memory_left_mib()),
        hours_to_limit=rounded(growth.hours_left),
        accelerator_peak_mib=rounded(accelerator.max) if accelerator else None,
        stages=stages or None,
    )


def _rss_peak_mib(analysis: Folds) -> float | None:
    """In a short run the sensors may have read nothing since the model was loaded; the engine reports each stage."""
    tracks = filter(None, map(analysis.tracks.one, ("mem/rss-peak", "mem/rss")))
    peaks = [*(track.max for track in tracks), *(stage.rss_mib for stage in analysis.memory_stages.views())]
    return max((mib for mib in peaks if mib is not None), default=None)


def _rss_end_mib(analysis: Folds) -> float | None:
    """A reading from before the measured phase does not count."""
    rss, began_ns = analysis.tracks.one("mem/rss"), analysis.progress.began_measuring_ns
    if rss is None or rss.read_ns is None or (began_ns is not None and rss.read_ns < began_ns):
        return None
    return rss.value


def _usage(parts: _Parts) -> Usage | None:
    view, measured_ns = parts.analysis.usage_view(), parts.analysis.progress.view().measured_ns
    if not measured_ns:
        return None
    return Usage(
        cpu_mean_pct=rounded(view.cpu_mean_pct),
        cpu_peak_pct=rounded(view.cpu_peak_pct),
        mem_mean_mib=rounded(view.mem_mean_mib),
        mem_peak_mib=rounded(view.mem_peak_mib),
        **view.bytes,
        total_time_ms=ms(measured_ns),
    )


def _overhead(parts: _Parts) -> Overhead:
    memory = parts.analysis.tracks.one("mem/edgetop")
    return Overhead(rounded(parts.analysis.own_load.mean), rounded(memory.max) if memory else None)


_PARTS: Mapping[str, Callable[[_Parts], Any]] = {
    "session": lambda parts: parts.manifest,
    "verdict": lambda parts: verdict(parts.analysis),
    "lost": lambda parts: parts.manifest.lost,
    "latency": lambda parts: latency_figures(parts.analysis, parts.manifest),
    "tail": lambda parts: parts.analysis.tail(),
    "phases": _phases,
    "burst": lambda parts: span(parts.analysis.spans()[0], parts.analysis),
    "sustained": lambda parts: span(parts.analysis.spans()[1], parts.analysis),
    "drift_ratio": lambda parts: drift_ratio(parts.analysis),
    "throttled": lambda parts: is_throttled(parts.analysis),
    "throttled_share": lambda parts: rounded(parts.analysis.throttles_view().share),
    "throttles": lambda parts: parts.analysis.throttles_view(),
    "slowdowns": lambda parts: slowdowns(parts.analysis),
    "alerts": lambda parts: parts.analysis.alerts_view(),
    "temperature": _temperature,
    "forecast": lambda parts: parts.analysis.forecast_view(),
    "power": lambda parts: power_figures(parts.power_view),
    "energy": lambda parts: energy_figures(parts.energy_view),
    "memory": _memory,
    "usage": _usage,
    "operators": lambda parts: operator_figures(parts.analysis, parts.manifest, parts.energy_view),
    "partitions": lambda parts: partition_count(parts.analysis, parts.manifest),
    "profile": lambda parts: profile(parts.analysis),
    "roofline": lambda parts: parts.analysis.operators.ceilings,
    "overhead": _overhead,
    "frames": lambda parts: parts.analysis.frames_view(),
    "ab": lambda parts: parts.analysis.ab_view(),
    "warnings": lambda parts: parts.analysis.notices(),
}


def to_json(value: Any) -> Any:
    """Plain JSON values. A field that says `omit` in its metadata is left out where it is None."""
    if type(value) in _AS_JSON:
        return _AS_JSON[type(value)](value)
    if dataclasses.is_dataclass(value):
        items = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: to_json(item) for f, item in items if item is not None or "omit" not in f.metadata}
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    """The words are those of the screen's first line; `now` is what held at the end, of a session that is over."""
    return {
        "now": verdict.now,
        "words": verdict.words,
        "since_s": None if verdict.since_ns is None else round(verdict.since_ns / NS, 3),
        "first": verdict.first,
        "also": list(verdict.also),
        "past": list(verdict.past),
        "brief": verdict.brief or None,
    }


def _tail_json(tail: TailView) -> dict[str, Any]:
    """Of a session in which nothing stands out, empty lists."""
    return {
        "stands_out": STANDS_OUT,
        "summary": tail_words(tail.parts) or None,
        "parts": [to_json(part) for part in tail.parts],
        "slowest": [to_json(one) for one in tail.slowest],
    }


def _inference_json(one: SlowInference) -> dict[str, Any]:
    return {
        "t_s": round(one.t_ns / NS, 9),
        "latency_ms": round(one.latency_ns / 1e6, 6),
        "cause": one.cause,
        "who": one.who or None,
        "proven": one.is_proven,
    }


# Parts that other modules make, whose fields are not the document's keys.
_AS_JSON: Mapping[type, Callable[[Any], Any]] = {
    Manifest: manifests.to_json,
    AbView: ab_document,
    Verdict: _verdict_json,
    TailView: _tail_json,
    TailPart: lambda part: {"cause": part.cause, "count": part.count, "who": dict(part.who)},
    SlowInference: _inference_json,
    ThrottlesView: throttles_document,
    Slowdown: slowdown_json,
    AlertsView: alerts_document,
    ForecastView: forecast,
    Ceilings: Ceilings.to_json,
    GateResult: GateResult.to_json,
}
