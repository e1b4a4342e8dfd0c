"""The parts of a session's report that combine several results of the analysis.

The field names of the classes are keys of the report's JSON document (`--json`). An unknown value is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from edgetop.analysis.blocks import Mean
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.energy import LEAST_COVERED, CostView, EnergyUnknown, EnergyView, PowerView, RailView
from edgetop.analysis.folds import Folds
from edgetop.analysis.memory_use import StageView, peak_mib
from edgetop.analysis.report_uncertainty import MeterWatts, Uncertainty, meter_watts, uncertainty_of
from edgetop.analysis.statistics import SETTLED_COUNTS, Statistics
from edgetop.analysis.steady import SpanFigures
from edgetop.analysis.streams import StreamView
from edgetop.formatting import rounded, rounded_mj, rounded_ms
from edgetop.frozen import OMIT, frozen
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NS, QUANTILES
from edgetop.session.typed_json import Document

PERCENTILE_KEYS = ("p50", "p90", "p95", "p99", "p999")


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Figures of latencies (service times or response times), in ms."""

    # Response times have no count of their own. The field is here because it comes first in the document.
    count: int | None = field(default=None, metadata=OMIT)
    errors: int | None = field(default=None, metadata=OMIT)
    mean_ms: float | None = None
    stdev_ms: float | None = None
    min_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None
    jitter_ms: float | None = None  # Mean absolute difference of successive latencies.


_TIMES = tuple(name for name in Times.__dataclass_fields__ if name.endswith("_ms"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFigures(Times):
    """Figures of response times in ms.

    A response time begins at the start time that the load sets for an inference.
    """

    asked_hz: float | None
    overloaded: bool


@frozen
class StreamFigures:
    stream: int
    count: int
    throughput_hz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigures(Times):
    """The latency of a session or of one stream in ms, with throughput, deadline and response times."""

    count: int | None  # None for an imported result without a count.
    errors: int | None
    throughput_hz: float | None = None
    items_per_s: float | None = None  # Throughput times the batch.
    response: ResponseFigures | None = None
    deadline: DeadlineView | None = None
    ci95: Mapping[str, tuple[float | None, ...] | None] | None = None  # 95 % intervals by key.
    settled: Mapping[str, bool] | None = None  # By percentile: whether there are enough inferences for it.
    streams: tuple[StreamFigures, ...] | None = None  # Only with several streams, and once the session is over.
    told_by: str | None = field(default=None, metadata=OMIT)  # Name of the tool that printed these figures.

    def is_settled(self, name: str) -> bool:
        """Whether there are enough inferences for the figure `name`, such as "p99". True if this is not known."""
        return (self.settled or {}).get(name, True)


def latency_figures(analysis: Folds, manifest: Manifest, *, with_risk: bool) -> LatencyFigures:
    """Return the latency of the whole session.

    With several streams, the result has only figures that can be added up, and no percentiles. `with_risk`: whether to
    estimate the risk of missing the deadline, which takes longer.
    """
    if (only := analysis.only_stream) is not None:
        return stream_latency(only, analysis, manifest, with_risk=with_risk)
    totals = analysis.totals()
    throughput = totals.throughput_hz if totals else None
    return LatencyFigures(
        count=totals.count if totals else 0,
        errors=analysis.latency.errors,
        throughput_hz=rounded(throughput, 4),
        items_per_s=rounded(throughput and throughput * (manifest.load.batch or 1), 4),
        deadline=analysis.deadline(),
    )


def stream_latency(view: StreamView, analysis: Folds, manifest: Manifest, *, with_risk: bool) -> LatencyFigures:
    """Return the latency of the stream `view`.

    If nothing was measured, the result has only the count 0 and the number of errors, or the figures that another tool
    printed if the session was imported. `with_risk`: whether to estimate the risk of missing the deadline, which takes
    longer.
    """
    statistics = view.statistics
    if statistics is None:
        return _imported_latency(analysis, manifest) or LatencyFigures(count=0, errors=analysis.latency.errors)
    throughput = statistics.throughput_hz
    if throughput is None and analysis.tool_summary:
        printed = analysis.tool_summary.figures.get("throughput_hz")
        if isinstance(printed, int | float):  # The tool prints how long inferences took, but not when they began.
            throughput = float(printed)
    precision, response, response_figures = view.precision, view.response, None
    if response is not None:
        overloaded, asked_hz = analysis.backlog.view() is not None, manifest.load.asked_hz
        response_figures = ResponseFigures(**_times(response), asked_hz=asked_hz, overloaded=overloaded)
    streams, runs = None, manifest.methodology.stream_runs
    if runs and (hz := statistics.throughput_hz) is not None:
        shares = enumerate(runs)
        streams = tuple(StreamFigures(i, n, round(hz * n / statistics.count, 4)) for i, n in shares)
    return LatencyFigures(
        count=statistics.count,
        errors=view.latency.errors,
        **_times(statistics),
        throughput_hz=rounded(throughput, 4),
        items_per_s=rounded(throughput and throughput * (manifest.load.batch or 1), 4),
        response=response_figures,
        deadline=view.deadline_with_risk if with_risk else view.deadline,
        ci95={
            f"{key}_ms": interval and tuple(map(rounded_ms, interval))
            for key, interval in zip(PERCENTILE_KEYS, precision.intervals_ns, strict=True)
        },
        settled={
            key: precision.is_settled(quantile, statistics)
            for key, quantile in zip(PERCENTILE_KEYS, QUANTILES, strict=True)
        },
        streams=streams,
    )


def _imported_latency(analysis: Folds, manifest: Manifest) -> LatencyFigures | None:
    """Return the latency figures that another tool printed, or None if the session was not imported from one.

    A figure that the tool did not print is None.
    """
    if analysis.tool_summary is None:
        return None
    tool, printed = analysis.tool_summary.tool, analysis.tool_summary.figures
    # By the names of the fields, whose types differ.
    figures: Any = {
        key: printed[key] for key in (*_TIMES, "throughput_hz") if isinstance(printed.get(key), int | float)
    }
    rate, batch = figures.get("throughput_hz"), manifest.load.batch
    figures["items_per_s"] = rounded(rate and batch and rate * batch, 4)
    count = printed.get("count")
    if not isinstance(count, int):
        return LatencyFigures(count=None, errors=None, **figures, told_by=tool)
    settled = {
        key: count >= SETTLED_COUNTS[quantile]
        for key, quantile in zip(PERCENTILE_KEYS, QUANTILES, strict=True)
        if f"{key}_ms" in figures
    }
    return LatencyFigures(count=count, errors=None, **figures, settled=settled, told_by=tool)


def _times(statistics: Statistics) -> Document:
    figures = (
        statistics.mean_ns, statistics.stdev_ns, statistics.min_ns, *statistics.percentiles_ns, statistics.max_ns,
        statistics.jitter_ns,
    )  # fmt: skip
    return dict(zip(_TIMES, map(rounded_ms, figures), strict=True))


@frozen
class Span:
    """The figures of the first steady 30 s (burst) or of the last steady span (sustained) of the measured phase."""

    p50_ms: float
    p99_ms: float
    throughput_hz: float
    from_s: int
    to_s: int
    settled: Mapping[str, bool]  # By percentile: whether there are enough inferences for it.


def span(figures: SpanFigures | None, analysis: Folds, stream: StreamView | None) -> Span | None:
    """Return the figures of a steady span as a report has them, or None if there is none.

    `stream`: the stream of the span; None for a span of several streams.
    """
    if figures is None:
        return None
    settled = {
        name: stream.is_span_settled(figures, quantile) if stream else figures.is_settled(quantile)
        for name, quantile in zip(PERCENTILE_KEYS, QUANTILES, strict=True)
        if f"{name}_ms" in Span.__annotations__
    }
    # The first and the last second were measured only in part.
    from_ns = max(figures.from_s * NS, analysis.progress.began_measuring_ns or 0)
    measured_ns = min(figures.to_s * NS, analysis.progress.measured_until_ns) - from_ns
    throughput_hz = figures.count / (measured_ns / NS) if measured_ns > 0 else figures.throughput_hz
    p50_ms, p99_ms = round(figures.p50_ns / 1e6, 6), round(figures.p99_ns / 1e6, 6)
    return Span(p50_ms, p99_ms, round(throughput_hz, 4), figures.from_s, figures.to_s, settled)


def is_throttled(analysis: Folds) -> bool | None:
    """Whether a limit on the speed was in force in the measured phase, or None if the board does not report limits."""
    view, slow = analysis.throttles.view(), analysis.slowdowns_view().slowdowns
    is_limited = any(slowdown.from_start and slowdown.cause != "contention" for slowdown in slow)
    return True if view.measured_total or is_limited else False if view.has_flag else None


def throttled_share(analysis: Folds) -> float | None:
    """Return the share of the measured phase in which a throttle flag was set.

    None: the board reports no limits, or nothing was measured.
    """
    view = analysis.throttles.view()
    return view.share if view.has_flag or view.measured_total else None


@frozen
class Temperature:
    """The temperature of one zone of the board over the session, in °C."""

    min: float | None
    mean: float | None
    max: float | None
    end: float | None


@frozen
class Warmup:
    runs: int | None
    mean_ms: float | None


@frozen
class Phases:
    init_ms: float | None
    compile_ms: float | None  # A part of `init_ms`; None if the runtime does not compile, or does not report it.
    first_ms: float | None
    warmup: Warmup


def phases(analysis: Folds, manifest: Manifest) -> Phases:
    (runs, total_ns), engine = analysis.progress.warmup, manifest.engine
    warmup = Warmup(runs, rounded_ms(total_ns / runs) if runs and total_ns else None)
    init_ms, compile_ms, first_ms = map(rounded_ms, (engine.init_ns, engine.compile_ns, engine.first_ns))
    return Phases(init_ms, compile_ms, first_ms, warmup)


@frozen
class Memory:
    rss_peak_mib: float | None
    rss_end_mib: float | None
    growth_mib_per_h: float | None
    growth_ci95_mib_per_h: tuple[float | None, float | None] | None
    leak: bool | None
    left_mib: float | None
    hours_to_limit: float | None
    accelerator_peak_mib: float | None
    stages: tuple[StageView, ...] | None


def memory(analysis: Folds) -> Memory:
    tracks, growth, stages = analysis.tracks, analysis.growth_view(), analysis.memory_stages.views()
    slope, accelerator = growth.mib_per_h, tracks.one("mem/accelerator")
    rss, began_ns, end_mib = tracks.one("mem/rss"), analysis.progress.began_measuring_ns, None
    program = None
    if analysis.phases.program_from_ns is not None:  # that of the program with all its children is what runs out
        program, rss = analysis.usage_figures(), tracks.one("mem/application") or rss
    if rss and rss.read_ns is not None and (began_ns is None or rss.read_ns >= began_ns):
        end_mib = rss.value or None  # A reading from before the measured phase, or after a program's end, is none.
    hours_left = growth.hours_left
    if hours_left is None and program is None:  # Of a session that is over, as if it had gone on.
        hours_left = analysis.growth.view(analysis.progress.measured_until_ns, analysis.memory_left_mib()).hours_left
    top_mib = program.mem_peak_mib if program else peak_mib(tracks, stages)
    return Memory(
        rss_peak_mib=rounded(top_mib),
        rss_end_mib=rounded(end_mib),
        growth_mib_per_h=rounded(slope.value) if slope else None,
        growth_ci95_mib_per_h=(rounded(slope.low), rounded(slope.high)) if slope else None,
        leak=growth.is_leak,
        left_mib=rounded(analysis.memory_left_mib()),
        hours_to_limit=rounded(hours_left),
        accelerator_peak_mib=rounded(accelerator.max) if accelerator else None,
        stages=stages or None,
    )


@frozen
class Overhead:
    """The CPU use in percent of a core and the memory in MiB of edgetop itself."""

    cpu_pct: float | None
    rss_mib: float | None


@frozen
class RailFigures:
    """The power of one rail (supply line) in W."""

    mean_w: float | None
    max_w: float | None  # Highest reading.
    max_over_s: float | None = field(metadata=OMIT)  # Time in s over which a reading is a mean, if it is one.
    peak_w: float | None = field(metadata=OMIT)  # Highest sample behind the readings.
    accuracy: str | None
    role: str | None


@frozen
class BoardFigures:
    """The power of the whole board in W, estimated from a sum of rails that leaves out a part of the board."""

    rail: str  # Sensor of the sum.
    mean_w: float | None
    residual_w: float  # Standard deviation of the measurements that the estimate was fitted to.
    beyond_fit: bool  # Whether the sum is outside of the powers of these measurements.


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerFigures:
    """The power in W of the whole board (the total rail), and of each other rail."""

    total_sensor: str | None = None
    mean_w: float | None = None
    max_w: float | None = None
    max_over_s: float | None = field(default=None, metadata=OMIT)
    peak_w: float | None = field(default=None, metadata=OMIT)
    accuracy: str | None = None
    rails: Mapping[str, RailFigures]
    idle_w: float | None = None
    board_estimate: BoardFigures | None = field(default=None, metadata=OMIT)
    uncertainty: MeterWatts | None = field(default=None, metadata=OMIT)  # Of `mean_w`; None if unknown.


def power_figures(view: PowerView) -> PowerFigures:
    rails = {
        rail.track.info.id: RailFigures(**_rail(rail), role=rail.track.info.role)
        for rail in view.rails
        if rail.track.count
    }
    boards = (
        BoardFigures(rail.track.info.id, rounded(of.watts), of.residual_w, of.is_beyond)
        for rail in view.rails
        if (of := rail.board)
    )
    board = next(boards, None)
    if (total := view.total) is None:
        return PowerFigures(rails=rails, board_estimate=board)
    idle_w = rounded(total.idle.value) if total.idle else None
    return PowerFigures(
        total_sensor=total.track.info.id, **_rail(total), rails=rails, idle_w=idle_w, board_estimate=board,
        uncertainty=meter_watts(total.meter),
    )  # fmt: skip


def _rail(rail: RailView) -> Document:
    return {
        "mean_w": rounded(rail.mean_w),
        "max_w": rounded(rail.max_w),
        "max_over_s": rounded(rail.interval_s) if rail.track.info.averages else None,
        "peak_w": rounded(rail.peak_w),
        "accuracy": rail.track.info.accuracy,
    }


# How the measurement of energy compares with the rules of MLPerf Power (power_measurement.adoc of
# mlcommons/inference_policies: "Power is measured in performance phase", "Power and Performance Reporting", "Power
# Delivery for Measurements", "Power Analyzer Support", "Power Measurement Flow", "LoadGen").
MlperfCode = Literal[
    "performance-phase", "same-run", "wall-power", "analyzer", "ranging-run", "loadgen", "whole-system"
]  # fmt: skip


@frozen
class MlperfPower:
    """The rules of MLPerf Power that the power measurement follows (`like`) and does not follow (`unlike`)."""

    like: tuple[MlperfCode, ...]
    unlike: tuple[MlperfCode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostFigures:
    """The energy of one inference on one rail (supply line), in mJ."""

    gross_mj: float | None = None
    net_mj: float | None = None
    ci95_mj: tuple[float, float] | None = None
    net_ci95_mj: tuple[float, float] | None = None
    net_reason: EnergyUnknown | None = None  # Why there is no net figure.
    covered: float | None = None  # Share of the measured phase with readings.
    uncertainty: Uncertainty | None = None  # Of `gross_mj`; None without it.
    net_uncertainty: Uncertainty | None = None  # Of `net_mj`; None without it.


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyFigures(CostFigures):
    """The energy of one inference in mJ, on the total rail and on each other rail (`rails`)."""

    sensor: str | None = None
    accuracy: str | None = None
    reason: EnergyUnknown | None = None  # Why there is no gross figure.
    inferences_per_charge: int | None = None
    hours_per_charge: float | None = None
    battery_rate_hz: float | None = None
    battery_reason: EnergyUnknown | None = None
    # Energy of the whole run of a program without inferences, from the total rail; None if readings cover too little.
    run_j: float | None = field(default=None, metadata=OMIT)
    rails: Mapping[str, CostFigures]
    mlperf_power: MlperfPower | None = None  # None without a gross figure.


def energy_figures(view: EnergyView, program_ns: int | None = None) -> EnergyFigures:
    """Return the energy of one inference, with the reasons for unknown figures.

    `view`: the energy of each rail. `program_ns`: how long a program without inferences ran, in ns; None for any other
    session.
    """
    figures: Document = {"reason": EnergyUnknown("no-total")}
    if total := view.total:
        info = total.rail.track.info
        figures = {**_cost(total), "sensor": info.id, "accuracy": info.accuracy, "reason": total.reason}
        if total.gross_j:
            is_whole = info.accuracy == "external-shunt"
            unlike: tuple[MlperfCode, ...] = ("wall-power", "analyzer", "ranging-run", "loadgen")
            figures["mlperf_power"] = MlperfPower(
                ("performance-phase", "same-run"), unlike if is_whole else (*unlike, "whole-system")
            )
        if program_ns and total.covered >= LEAST_COVERED and total.rail.mean_w is not None:
            figures["run_j"] = rounded(total.rail.mean_w * program_ns / NS)
    if battery := view.battery:
        figures |= {
            "inferences_per_charge": None if battery.inferences is None else round(battery.inferences),
            "hours_per_charge": rounded(battery.hours),
            "battery_rate_hz": rounded(battery.rate_hz),
            "battery_reason": battery.reason,
        }
    parts = {cost.rail.track.info.id: CostFigures(**_cost(cost)) for cost in view.parts if cost.rail.track.count}
    return EnergyFigures(**figures, rails=parts)


def _cost(cost: CostView) -> Document:
    def interval_mj(mean: Mean | None) -> tuple[float, float] | None:
        return (rounded_mj(mean.value - mean.half_width), rounded_mj(mean.value + mean.half_width)) if mean else None

    return {
        "gross_mj": rounded_mj(cost.gross_j.value) if cost.gross_j else None,
        "net_mj": rounded_mj(cost.net_j.value) if cost.net_j else None,
        "ci95_mj": interval_mj(cost.gross_j),
        "net_ci95_mj": interval_mj(cost.net_j),
        "net_reason": cost.net_reason,
        "covered": round(cost.covered, 4),
        "uncertainty": uncertainty_of(cost.gross_j, cost.rail.meter, cost.rate_hz),
        "net_uncertainty": uncertainty_of(cost.net_j, cost.rail.meter_net, cost.rate_hz),
    }
