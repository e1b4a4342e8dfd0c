"""The results of gates (conditions such as `p99>33ms`) in words."""

from collections.abc import Mapping

from edgetop.analysis.energy import EnergyUnknown
from edgetop.analysis.input_shapes import InputSizes
from edgetop.analysis.miss_risk import MissRisk
from edgetop.analysis.session_gates import TOKEN_METRICS, GateResult, NoSuchStream
from edgetop.formatting import plain
from edgetop.session.typed_json import Document
from edgetop.wording.energy_words import unknown_words
from edgetop.wording.fault_words import fault_words
from edgetop.wording.operator_words import reason_words
from edgetop.wording.risk_words import refusal_words
from edgetop.wording.slowdown_words import sizes_words

_NOTHING_MEASURED = "nothing was measured"
# By the name of a gate's value: why it is unknown if the session has no data of this kind.
ABSENT: Mapping[str, str] = {
    **dict.fromkeys(("p50", "p90", "p95", "p99", "p999", "mean", "max", "jitter", "errors"), _NOTHING_MEASURED),
    "misses": "no deadline was given",
    "miss-risk": "no deadline was given",
    "rss": "the engine's memory was not read",
    "temp": "no temperature was read",
    "power": "no sensor tells the board's total",
    "energy": "there is no figure of energy",
    "throttled": "the board has no throttle flag that edgetop reads",
    "drift": "there is no steady beginning and end to compare",
    "non-finite": "no outputs were kept",
    "fallback": "no provider was requested, or operators were not profiled",
    "leak": "growth is unknown before two minutes of measuring",
    **dict.fromkeys(TOKEN_METRICS, "no token of a language model was measured"),
}


def gate_words(result: GateResult) -> str:
    """Return a gate, such as `p99>33ms`, followed by its measured value, or by the reason why the value is unknown."""
    gate = result.gate
    stream = f"{result.stream}: " if result.stream else ""
    return f"{gate.text}: {stream}{_unknown(result) if result.value is None else _value(result, result.value)}"


def _unknown(result: GateResult) -> str:
    match result.unknown:
        case None:
            return f"unknown: {ABSENT[result.gate.name]}"
        case NoSuchStream(names):
            return f"unknown: no stream is called that, of {', '.join(names)}"
        case MissRisk():
            return f"unknown: {refusal_words(result.unknown)}"
        case InputSizes():
            return f"unknown: burst and sustained cannot be compared: {sizes_words(result.unknown)}"
        case EnergyUnknown():
            return f"unknown: {unknown_words(result.unknown)}"
        case fault:
            return fault_words(fault)


def _value(result: GateResult, value: float | bool) -> str:
    if not result.gate.compare:
        return "not at all" if not value else "it was" if value is True else plain(value)
    what = "response time " if result.is_response else ""
    unit = f" {result.gate.unit}" if result.gate.unit else ""
    noun = "values" if "." in result.gate.name else "inferences"
    few = "" if result.is_settled else f", of {result.count} {noun}: not settled"
    why = "".join(f"; {words}" for words in reason_words(result.reasons))
    return f"{what}{plain(value)}{unit}{few}{why}"


def gate_document(result: GateResult) -> Document:
    """Return the result of a gate as JSON. The keys must stay the same, because programs of users read them."""
    return {"expr": result.gate.text, "value": result.value, "ok": result.ok, "reason": gate_words(result)}
