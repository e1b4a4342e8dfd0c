"""The sentence of a gate's result."""

import pytest

from edgetop.analysis.energy import EnergyUnknown
from edgetop.analysis.faults import Fault
from edgetop.analysis.miss_risk import MissRisk
from edgetop.analysis.provider_shares import FallbackReason
from edgetop.analysis.session_gates import METRICS, GateResult, NoSuchStream, parse_gate
from edgetop.wording.gate_words import ABSENT, gate_words

REASONS = (FallbackReason(text="no kernel for Pad", operators=2), FallbackReason(text="whole", operators=None))


def result(text: str, value: float | bool | None, **more: object) -> GateResult:
    return GateResult(parse_gate(text), value, ok=False, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("judged", "words"),
    [
        (result("max>33ms", 40.3312), "max>33ms: 40.33 ms"),
        (result("max>33ms", 40.0, is_response=True), "max>33ms: response time 40 ms"),
        (result("p99>1ms", 2.0, is_settled=False, count=95), "p99>1ms: 2 ms, of 95 inferences: not settled"),
        (result("p99>1ms", 2.0, stream="det.onnx"), "p99>1ms: det.onnx: 2 ms"),
        (result("misses>5%", 5.263), "misses>5%: 5.263 %"),
        (result("fallback>0%", 2.5, reasons=REASONS), "fallback>0%: 2.5 %; no kernel for Pad (2 operators); whole"),
        (result("errors", 24431.0), "errors: 24431"),
        (result("errors", 0.0), "errors: not at all"),
        (result("throttled", True), "throttled: it was"),
        (result("throttled", False), "throttled: not at all"),
        (result("drift>10%", None), "drift>10%: unknown: there is no steady beginning and end to compare"),
        (
            result("miss-risk>1e-5", None, unknown=MissRisk(None, None, "drift")),
            "miss-risk>1e-5: unknown: slow inferences became more or fewer during the session",
        ),
        (
            result("energy>1mJ", None, unknown=EnergyUnknown("nothing-measured")),
            "energy>1mJ: unknown: nothing was measured yet",
        ),
        (
            result("p99[vad]>1ms", None, unknown=NoSuchStream(("det.onnx", "cls.onnx"))),
            "p99[vad]>1ms: unknown: no stream is called that, of det.onnx, cls.onnx",
        ),
        (
            result("p99>1ms", None, unknown=Fault("p99", "latency", "ValueError: empty", "")),
            "p99>1ms: not available: internal error in latency: ValueError: empty",
        ),
    ],
)
def test_a_result_has_its_sentence(judged: GateResult, words: str) -> None:
    assert gate_words(judged) == words


def test_each_value_can_be_absent() -> None:
    assert set(ABSENT) == set(METRICS)
