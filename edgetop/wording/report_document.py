"""The report of a session as the document that `--json` prints: values, and the sentences that explain them.

The keys must stay the same, because programs of users read them (`edgetop help report`).
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, get_args

from edgetop.analysis.ab_figures import AbView
from edgetop.analysis.alerts.alert import AlertsView
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.energy import EnergyUnknown
from edgetop.analysis.event_counts import EventFigures
from edgetop.analysis.faults import Fault
from edgetop.analysis.findings import Finding
from edgetop.analysis.folds import Folds
from edgetop.analysis.forecast.heat_forecast import ForecastView
from edgetop.analysis.hotspots import ThreadView
from edgetop.analysis.meter_errors import MeterUnknown
from edgetop.analysis.operator_energy import NotTold
from edgetop.analysis.program_frames import StageView
from edgetop.analysis.session_gates import GateResult
from edgetop.analysis.session_report import Report, report
from edgetop.analysis.slowdowns.slow_inferences import STANDS_OUT, SlowInference, TailPart, TailView
from edgetop.analysis.slowdowns.slowdown import Slowdown
from edgetop.analysis.slowdowns.throttles import ThrottlesView, throttles_document
from edgetop.analysis.verdict_data import Verdict
from edgetop.formatting import rounded
from edgetop.session import manifest_codec
from edgetop.session.ceilings import Ceilings
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NS
from edgetop.wording import verdict_words
from edgetop.wording.ab_words import ab_document
from edgetop.wording.alert_words import alerts_document
from edgetop.wording.clue_words import clue_words
from edgetop.wording.energy_words import meter_unknown_words, unknown_words
from edgetop.wording.fault_words import fault_words
from edgetop.wording.forecast_words import forecast_document
from edgetop.wording.frame_words import stage_document
from edgetop.wording.gate_words import gate_document
from edgetop.wording.load_words import late_words
from edgetop.wording.notice_words import notice
from edgetop.wording.operator_words import energy_unknown_words
from edgetop.wording.risk_words import risk_document
from edgetop.wording.tail_words import tail_words


def report_document(analysis: Folds) -> dict[str, Any]:
    """Return the report of an analysed session as the document that `--json` prints."""
    document: dict[str, Any] = to_json(report(analysis))
    return document


def to_json(value: Any) -> Any:
    """Return a value as plain JSON: dicts, lists, numbers, texts and None.

    A dataclass becomes a dict. A field whose value is None is left out if its metadata has `omit`.
    """
    if type(value) in _AS_JSON:
        return _AS_JSON[type(value)](value)
    if dataclasses.is_dataclass(value):
        unknown = (value.unavailable or ()) if isinstance(value, Report) else ()
        items = ((f, None if f.name in unknown else getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: to_json(item) for f, item in items if item is not None or "omit" not in f.metadata}
    if isinstance(value, Mapping):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    return value


def _verdict_json(verdict: Verdict) -> dict[str, Any]:
    """Return the part `verdict` of the document: the state of the session in words.

    The value of the key `now` is the present state or, if the session is over, the state in which it ended.
    """
    return {
        "now": verdict_words.now(verdict),
        "words": verdict_words.words(verdict),
        "since_s": None if verdict.since_ns is None else round(verdict.since_ns / NS, 3),
        "first": verdict_words.first(verdict),
        "also": list(verdict_words.also(verdict)),
        "past": list(verdict_words.past(verdict)),
        "brief": verdict_words.brief(verdict) or None,
        "evidence": list(verdict_words.evidence(verdict)),
    }


def _deadline_json(deadline: DeadlineView) -> dict[str, Any]:
    return {
        "ms": deadline.ms,
        "misses": deadline.misses,
        "miss_rate": deadline.miss_rate,
        "longest_run": deadline.longest_run,
        "headroom_ms": round(deadline.headroom_ns / 1e6, 6),
        "max_rate_hz": rounded(deadline.max_rate_hz),
        "cause": late_words(deadline.cause) if deadline.cause else None,
        "risk": risk_document(deadline),
        **({"stream": deadline.cause.stream} if deadline.cause and deadline.cause.stream else {}),
    }


def _counters_json(figures: EventFigures) -> dict[str, Any]:
    fields = ((f, getattr(figures, f.name)) for f in dataclasses.fields(figures) if f.name != "why")
    known = {f.name: value for f, value in fields if value is not None or "omit" not in f.metadata}
    return {**known, "why": "; ".join(figures.why) or None}


def _threads_json(threads: ThreadView) -> dict[str, Any]:
    return {
        "count": threads.count,
        "wait_share": round(threads.wait_share, 6),
        "waits_in": threads.most or None,  # the operator in which the first thread waited most
        "moves_per_s": rounded(threads.moves_per_s),
    }


def _tail_json(tail: TailView) -> dict[str, Any]:
    """Return the part `tail` of the document: the slowest inferences and their causes.

    Its lists are empty if no inference is much slower than the median.
    """
    return {
        "stands_out": STANDS_OUT,
        "summary": tail_words(tail.parts) or None,
        "parts": to_json(tail.parts),
        "slowest": to_json(tail.slowest),
    }


def _inference_json(one: SlowInference) -> dict[str, Any]:
    return {
        "t_s": round(one.t_ns / NS, 9),
        "latency_ms": round(one.latency_ns / 1e6, 6),
        "cause": one.cause,
        "who": one.who or None,
        **({"stream": one.stream} if one.stream else {}),
        "proven": one.is_proven,
    }


def _slowdown_json(slowdown: Slowdown) -> dict[str, Any]:
    return {
        "start_s": slowdown.start_ns / NS,
        "end_s": None if slowdown.end_ns is None else slowdown.end_ns / NS,
        "cause": slowdown.cause,
        "latency_ratio": slowdown.latency_ratio,
        "confidence": slowdown.confidence,
        "evidence": [clue_words(clue, has_ids=True) for clue in slowdown.evidence],
        "from_start": slowdown.from_start,
        "then": slowdown.then or None,
        "considered": [{"cause": of.cause, "share": of.share, "reason": of.reason} for of in slowdown.considered],
        **({"streams": list(slowdown.streams)} if slowdown.streams else {}),
    }


# Parts that other modules make, whose fields are not the document's keys.
_AS_JSON: Mapping[type, Callable[[Any], Any]] = {
    Manifest: manifest_codec.to_json,
    AbView: ab_document,
    Verdict: _verdict_json,
    DeadlineView: _deadline_json,
    EnergyUnknown: unknown_words,
    MeterUnknown: meter_unknown_words,
    NotTold: energy_unknown_words,
    TailView: _tail_json,
    TailPart: lambda part: {"cause": part.cause, "count": part.count, "who": dict(part.who)},
    SlowInference: _inference_json,
    ThrottlesView: throttles_document,
    Slowdown: _slowdown_json,
    EventFigures: _counters_json,
    ThreadView: _threads_json,
    StageView: stage_document,
    Fault: fault_words,
    AlertsView: alerts_document,
    ForecastView: forecast_document,
    Ceilings: Ceilings.to_json,
    GateResult: gate_document,
    **dict.fromkeys(get_args(Finding), lambda finding: to_json(notice(finding))),
}
