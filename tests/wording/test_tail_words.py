"""The document and the text of `edgetop tail`."""

from edgetop.analysis.slowdowns.slow_inferences import SlowInference, TailView, tail_of
from edgetop.wording.tail_words import tail_document, tail_lines
from tests.support.sessions import MS

SLOWEST = [
    SlowInference(60_500_000_000, 50 * MS, "contention", "stress-ng", is_proven=True, share=0.75),
    SlowInference(70_000_000_000, 40 * MS, "contention", "", is_proven=False),
    SlowInference(80_000_000_000, 30 * MS, "clock", stream="det.onnx"),
    SlowInference(90_000_000_000, 20 * MS),
]


def test_the_document_has_each_inference_and_the_share_of_each_cause() -> None:
    found = tail_document(tail_of(SLOWEST, ()))
    assert found["slowest"][0] == {
        "t_s": 60.5, "latency_ms": 50.0, "stream": None,
        "causes": [{"cause": "contention", "share": 0.75, "who": "stress-ng", "proven": True}],
    }  # fmt: skip
    assert found["slowest"][2]["stream"] == "det.onnx"
    assert found["slowest"][3]["causes"] == []
    assert [(one["cause"], one["share"]) for one in found["causes"]] == [("contention", 0.5), ("clock", 0.25)]
    assert found["causes"][0]["evidence"] == [
        "stress-ng: 1 of 2",
        "measured around 1 of 2",
        "it took 75.0 % of the lost time in the median",
        "1 of 2 coincided with it",
    ]
    assert found["unexplained"] == 0.25


def test_without_a_tail_nothing_is_unexplained() -> None:
    assert tail_document(TailView()) == {"slowest": [], "causes": [], "unexplained": None}


def test_the_text_lists_causes_and_the_slowest() -> None:
    lines = tail_lines(tail_of(SLOWEST, ()), 2)
    assert [line.split()[:3] for line in lines[3:6]] == [["50.0", "%", "2"], ["25.0", "%", "1"], ["25.0", "%", "1"]]
    assert len(lines) == 10
    assert "stress-ng" in lines[8]
    assert "00:01:00" in lines[8]
