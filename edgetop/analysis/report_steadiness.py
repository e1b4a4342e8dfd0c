"""Burst, sustained speed and slowdowns in the report."""

from dataclasses import dataclass
from typing import Any

from edgetop.analysis.folds import Folds
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.steady import SpanFigures
from edgetop.session.seconds import NS


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the measured phase."""

    p50_ms: float
    p99_ms: float
    throughput_hz: float
    from_s: int
    to_s: int


def span(figures: SpanFigures | None, analysis: Folds) -> Span | None:
    if figures is None:
        return None
    # The first and the last second were not measured from end to end.
    from_ns = max(figures.from_s * NS, analysis.progress.began_measuring_ns or 0)
    measured_ns = min(figures.to_s * NS, analysis.progress.measured_until_ns) - from_ns
    return Span(
        p50_ms=round(figures.p50_ns / 1e6, 6),
        p99_ms=round(figures.p99_ns / 1e6, 6),
        throughput_hz=round(figures.count / (measured_ns / NS) if measured_ns > 0 else figures.throughput_hz, 4),
        from_s=figures.from_s,
        to_s=figures.to_s,
    )


def drift_ratio(analysis: Folds) -> float | None:
    burst, sustained = analysis.spans()
    return round(sustained.p50_ns / burst.p50_ns, 4) if burst and sustained else None


def is_throttled(analysis: Folds) -> bool | None:
    """Whether a limit was in force in the measured phase; None where the board has no flag that would show it."""
    view, slow = analysis.throttles_view(), analysis.slowdowns.view().slowdowns
    is_limited = any(slowdown.from_start and slowdown.cause != "contention" for slowdown in slow)
    return True if view.measured_total or is_limited else False if view.has_flag else None


def slowdowns(analysis: Folds) -> tuple[Slowdown, ...] | None:
    """None: nothing was steady yet, so nothing can be compared."""
    view = analysis.slowdowns.view()
    return tuple(view.slowdowns) if view.is_settled or view.slowdowns else None


def slowdown_json(slowdown: Slowdown) -> dict[str, Any]:
    return {
        "start_s": slowdown.start_ns / NS,
        "end_s": None if slowdown.end_ns is None else slowdown.end_ns / NS,
        "cause": slowdown.cause,
        "latency_ratio": slowdown.latency_ratio,
        "confidence": slowdown.confidence,
        "evidence": list(slowdown.evidence),
        "from_start": slowdown.from_start,
        "then": slowdown.then or None,
    }
