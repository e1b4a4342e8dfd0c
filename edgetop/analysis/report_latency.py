"""What the report's document tells of latency, the load, its deadline and its streams."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.rounding import ms, rounded
from edgetop.analysis.statistics import SETTLED_COUNTS, Statistics
from edgetop.session.events import JsonValue
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import QUANTILES

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis

PERCENTILE_KEYS = ("p50", "p90", "p95", "p99", "p999")
_TIMES = ("mean_ms", "stdev_ms", "min_ms", *(f"{key}_ms" for key in PERCENTILE_KEYS), "max_ms", "jitter_ms")


def latency_document(analysis: "Analysis", statistics: Statistics | None, manifest: Manifest) -> dict[str, Any]:
    errors = analysis.latency.errors
    if statistics is None:
        empty = dict.fromkeys((*_TIMES, "throughput_hz", "items_per_s", "response", "deadline", "settled", "ci95"))
        return {"count": 0, "errors": errors, **empty, "streams": None, **_told(analysis.told)}
    throughput = statistics.throughput_hz
    if throughput is None and isinstance(printed := analysis.told.get("throughput_hz"), int | float):
        throughput = float(printed)  # of a tool that tells how long inferences took, and not when they began
    precision = analysis.precision_view()
    return {
        "count": statistics.count,
        "errors": errors,
        **_times(statistics),
        "throughput_hz": None if throughput is None else round(throughput, 4),
        "items_per_s": None if throughput is None else round(throughput * (manifest.load.batch or 1), 4),
        "response": _response(analysis, manifest),
        "deadline": _deadline(analysis.deadline()),
        "ci95": {
            f"{key}_ms": None if interval is None else [ms(end) for end in interval]
            for key, interval in zip(PERCENTILE_KEYS, precision.intervals_ns, strict=True)
        },
        "settled": {
            key: precision.is_settled(quantile, statistics)
            for key, quantile in zip(PERCENTILE_KEYS, QUANTILES, strict=True)
        },
        "streams": _streams(statistics, manifest),
    }


def _told(told: Mapping[str, JsonValue]) -> dict[str, Any]:
    """A tool's own figures, where it printed no single inference to make any of; what it did not print is None.

    With the tool as `told_by`, which no other session has.
    """
    tool = told.get("tool")
    if tool is None:
        return {}
    figures = {key: told[key] for key in (*_TIMES, "throughput_hz") if isinstance(told.get(key), int | float)}
    count = told.get("count")
    if not isinstance(count, int):
        return {"count": None, "errors": None, **figures, "told_by": tool}
    settled = {
        key: count >= SETTLED_COUNTS[quantile]
        for key, quantile in zip(PERCENTILE_KEYS, QUANTILES, strict=True)
        if f"{key}_ms" in figures
    }
    return {"count": count, "errors": None, **figures, "settled": settled, "told_by": tool}


def _times(statistics: Statistics) -> dict[str, float | None]:
    figures = (
        statistics.mean_ns, statistics.stdev_ns, statistics.min_ns, *statistics.percentiles_ns, statistics.max_ns,
        statistics.jitter_ns,
    )  # fmt: skip
    return {key: ms(ns) for key, ns in zip(_TIMES, figures, strict=True)}


def _response(analysis: "Analysis", manifest: Manifest) -> dict[str, Any] | None:
    """Under a paced load, the same times from the intended starts, and whether the load was carried."""
    response, overload = analysis.response(), analysis.overload()
    if response is None:
        return None
    return {**_times(response), "asked_hz": manifest.load.asked_hz, "overloaded": overload is not None}


def _deadline(deadline: DeadlineView | None) -> dict[str, Any] | None:
    if deadline is None:
        return None
    return {
        "ms": ms(deadline.deadline_ns),
        "misses": deadline.misses,
        "miss_rate": round(deadline.miss_rate, 9),
        "longest_run": deadline.longest_run,
        "headroom_ms": ms(deadline.headroom_ns),
        "max_rate_hz": rounded(deadline.max_rate_hz),
    }


def _streams(statistics: Statistics, manifest: Manifest) -> list[dict[str, Any]] | None:
    """Of each of several streams, once the session is over."""
    total, throughput = statistics.count, statistics.throughput_hz
    runs = manifest.methodology.stream_runs
    if not runs or throughput is None:
        return None
    return [
        {"stream": stream, "count": count, "throughput_hz": round(throughput * count / total, 4)}
        for stream, count in enumerate(runs)
    ]
