"""What the report's document tells of burst, sustained speed and slowdowns."""

from typing import TYPE_CHECKING, Any

from edgetop.analysis.rounding import rounded
from edgetop.analysis.slowdowns.judgement import Slowdown
from edgetop.analysis.steady import SpanFigures
from edgetop.analysis.throttle_words import throttles_document
from edgetop.session.seconds import NS

if TYPE_CHECKING:
    from edgetop.analysis.analysis import Analysis


def steadiness(analysis: "Analysis") -> dict[str, Any]:
    view = analysis.slowdowns.view()
    burst, sustained = analysis.spans()
    return {
        "burst": _span(burst, analysis),
        "sustained": _span(sustained, analysis),
        "drift_ratio": round(sustained.p50_ns / burst.p50_ns, 4) if burst and sustained else None,
        "throttled": throttled(analysis),
        "throttled_share": rounded(analysis.throttles_view().share),
        "throttles": throttles_document(analysis.throttles_view()),
        "slowdowns": [_slowdown(slowdown) for slowdown in view.slowdowns]
        if view.is_settled or view.slowdowns
        else None,
    }


def _span(span: SpanFigures | None, analysis: "Analysis") -> dict[str, Any] | None:
    if span is None:
        return None
    # The first and the last second were not measured from end to end.
    from_ns = max(span.from_s * NS, analysis.progress.began_measuring_ns or 0)
    measured_ns = min(span.to_s * NS, analysis.progress.measured_until_ns) - from_ns
    return {
        "p50_ms": round(span.p50_ns / 1e6, 6),
        "p99_ms": round(span.p99_ns / 1e6, 6),
        "throughput_hz": round(span.count / (measured_ns / NS) if measured_ns > 0 else span.throughput_hz, 4),
        "from_s": span.from_s,
        "to_s": span.to_s,
    }


def _slowdown(slowdown: Slowdown) -> dict[str, Any]:
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


def throttled(analysis: "Analysis") -> bool | None:
    """Whether a limit was in force in the measured phase; None where the board has no flag that would tell."""
    view, slowdowns = analysis.throttles_view(), analysis.slowdowns.view().slowdowns
    is_limited = any(slowdown.from_start and slowdown.cause != "contention" for slowdown in slowdowns)
    return True if view.measured_total or is_limited else False if view.tells else None
