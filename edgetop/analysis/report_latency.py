"""Latency, the load, its deadline and its streams in the report."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.folds import Folds
from edgetop.analysis.rounding import ms, rounded
from edgetop.analysis.statistics import SETTLED_COUNTS, Statistics
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import QUANTILES

PERCENTILE_KEYS = ("p50", "p90", "p95", "p99", "p999")


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Latency figures in ms."""

    mean_ms: float | None = None
    stdev_ms: float | None = None
    min_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None
    jitter_ms: float | None = None  # mean absolute difference of successive latencies


_TIMES = tuple(Times.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFigures(Times):
    """Under a paced load, the times from the intended starts."""

    asked_hz: float | None
    overloaded: bool


@dataclass(frozen=True, slots=True)
class DeadlineFigures:
    ms: float
    misses: int
    miss_rate: float
    longest_run: int  # of misses
    headroom_ms: float  # the deadline less p99
    max_rate_hz: float | None  # the highest rate whose period covers p99
    cause: str | None  # why it was missed, in words; None: it was hardly missed


@dataclass(frozen=True, slots=True)
class StreamFigures:
    stream: int
    count: int
    throughput_hz: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigures:
    count: int | None  # None: an imported result that does not say
    errors: int | None
    mean_ms: float | None = None
    stdev_ms: float | None = None
    min_ms: float | None = None
    p50_ms: float | None = None
    p90_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None
    jitter_ms: float | None = None
    throughput_hz: float | None = None
    items_per_s: float | None = None  # times the batch
    response: ResponseFigures | None = None
    deadline: DeadlineFigures | None = None
    ci95: Mapping[str, tuple[float | None, ...] | None] | None = None  # by key
    settled: Mapping[str, bool] | None = None  # by percentile: whether enough inferences stand behind it
    streams: tuple[StreamFigures, ...] | None = None  # of several streams, once the session is over
    told_by: str | None = field(default=None, metadata={"omit": True})  # the tool that printed these figures


def latency_figures(analysis: Folds, manifest: Manifest) -> LatencyFigures:
    statistics = analysis.statistics()
    if statistics is None:
        return _imported(analysis) or LatencyFigures(count=0, errors=analysis.latency.errors)
    throughput = statistics.throughput_hz
    if throughput is None and isinstance(printed := analysis.tool_summary.get("throughput_hz"), int | float):
        throughput = float(printed)  # a tool that prints how long inferences took, and not when they began
    precision = analysis.precision_view()
    return LatencyFigures(
        count=statistics.count,
        errors=analysis.latency.errors,
        **_times(statistics),
        throughput_hz=None if throughput is None else round(throughput, 4),
        items_per_s=None if throughput is None else round(throughput * (manifest.load.batch or 1), 4),
        response=_response(analysis, manifest),
        deadline=_deadline(analysis.deadline()),
        ci95={
            f"{key}_ms": None if interval is None else tuple(ms(end) for end in interval)
            for key, interval in zip(PERCENTILE_KEYS, precision.intervals_ns, strict=True)
        },
        settled={
            key: precision.is_settled(quantile, statistics)
            for key, quantile in zip(PERCENTILE_KEYS, QUANTILES, strict=True)
        },
        streams=_streams(statistics, manifest),
    )


def _imported(analysis: Folds) -> LatencyFigures | None:
    """A tool's own figures, where it printed no single inference; what it did not print is None."""
    printed = analysis.tool_summary
    tool: Any = printed.get("tool")
    if tool is None:
        return None
    figures: Any = {
        key: printed[key] for key in (*_TIMES, "throughput_hz") if isinstance(printed.get(key), int | float)
    }
    count = printed.get("count")
    if not isinstance(count, int):
        return LatencyFigures(count=None, errors=None, **figures, told_by=tool)
    settled = {
        key: count >= SETTLED_COUNTS[quantile]
        for key, quantile in zip(PERCENTILE_KEYS, QUANTILES, strict=True)
        if f"{key}_ms" in figures
    }
    return LatencyFigures(count=count, errors=None, **figures, settled=settled, told_by=tool)


def _times(statistics: Statistics) -> dict[str, Any]:
    figures = (
        statistics.mean_ns, statistics.stdev_ns, statistics.min_ns, *statistics.percentiles_ns, statistics.max_ns,
        statistics.jitter_ns,
    )  # fmt: skip
    return {key: ms(ns) for key, ns in zip(_TIMES, figures, strict=True)}


def _response(analysis: Folds, manifest: Manifest) -> ResponseFigures | None:
    response = analysis.response()
    if response is None:
        return None
    overloaded = analysis.overload() is not None
    return ResponseFigures(**_times(response), asked_hz=manifest.load.asked_hz, overloaded=overloaded)


def _deadline(deadline: DeadlineView | None) -> DeadlineFigures | None:
    if deadline is None:
        return None
    return DeadlineFigures(
        ms=round(deadline.deadline_ns / 1e6, 6),
        misses=deadline.misses,
        miss_rate=round(deadline.miss_rate, 9),
        longest_run=deadline.longest_run,
        headroom_ms=round(deadline.headroom_ns / 1e6, 6),
        max_rate_hz=rounded(deadline.max_rate_hz),
        cause=deadline.cause.words if deadline.cause else None,
    )


def _streams(statistics: Statistics, manifest: Manifest) -> tuple[StreamFigures, ...] | None:
    total, throughput = statistics.count, statistics.throughput_hz
    runs = manifest.methodology.stream_runs
    if not runs or throughput is None:
        return None
    return tuple(StreamFigures(i, count, round(throughput * count / total, 4)) for i, count in enumerate(runs))
