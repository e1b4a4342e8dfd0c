"""Sessions of several models are compared model by model, and never by percentiles of all together."""

from edgetop.comparison.ratios import compare, comparison_document
from edgetop.comparison.sample import Group, sample
from tests.analysis.test_streams import analysed, calls

DET, CLS = "p50_ms[det.onnx]", "p50_ms[cls.onnx]"


def test_each_model_is_compared_with_itself() -> None:
    before = analysed(calls(0, 0, 120, 20, 3), calls(1, 0, 120, 100, 25))
    after = analysed(calls(0, 0, 120, 200, 3), calls(1, 0, 120, 50, 50))  # another mix, and one model twice as slow
    groups = [Group(name, (sample(analysis),)) for name, analysis in (("before", before), ("after", after))]
    rows = {row["key"]: row for row in comparison_document(compare(groups))["rows"]}
    assert rows[DET]["ratios"][1]["verdict"] in ("same", "unknown")
    assert rows[CLS]["ratios"][1]["verdict"] == "slower"
    assert rows["p50_ms"]["values"] == [None, None]
