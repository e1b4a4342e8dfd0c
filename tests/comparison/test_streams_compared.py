"""Sessions of several models are compared model by model, and never by percentiles of all together."""

import pytest

from edgetop.comparison.comparison_gates import judge_gates, parse_relative_gate
from edgetop.comparison.ratios import Comparison, compare, comparison_document
from edgetop.comparison.sample import Group, sample
from tests.analysis.test_streams import analysed, calls

DET, CLS = "p50_ms[det.onnx]", "p50_ms[cls.onnx]"


def two() -> Comparison:
    """Another mix, and one model that takes twice as long."""
    before = analysed(calls(0, 0, 120, 20, 3), calls(1, 0, 120, 100, 25))
    after = analysed(calls(0, 0, 120, 200, 3), calls(1, 0, 120, 50, 50))
    return compare([Group(name, (sample(analysis),)) for name, analysis in (("before", before), ("after", after))])


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return two()


@pytest.mark.parametrize(
    ("gate", "ok", "about"),
    [
        ("p50[cls]>+60ms", True, "cls.onnx: "),
        ("p50[cls]>+2ms", False, "cls.onnx: +25"),
        ("p50[det.onnx]>+2ms", True, "det.onnx: "),
        ("p50>+2ms", False, "cls.onnx: +25"),
        ("p99[vad]>+2ms", False, "no stream is called that ("),
    ],
)
def test_a_gate_limits_one_model_or_each(compared: Comparison, gate: str, ok: bool, about: str) -> None:
    (result,) = judge_gates([parse_relative_gate(gate)], compared, strict=False)
    assert result.ok is ok
    assert about in result.reason
    assert result.session == "after"


@pytest.mark.parametrize("gate", ["p90[det]>+3%", "rss[det]>+3MiB", "p50[ ]>+3%"])
def test_a_gate_cannot_name_a_model_for_what_is_not_compared(gate: str) -> None:
    with pytest.raises(ValueError, match=r"p50 or p99"):
        parse_relative_gate(gate)


def test_each_model_is_compared_with_itself(compared: Comparison) -> None:
    rows = {row["key"]: row for row in comparison_document(compared)["rows"]}
    assert rows[DET]["ratios"][1]["verdict"] in ("same", "unknown")
    assert rows[CLS]["ratios"][1]["verdict"] == "slower"
    assert rows["p50_ms"]["values"] == [None, None]
