"""What the row of a session says."""

from dataclasses import replace

import pytest

from edgetop.analysis.session_report import report
from edgetop.lake.lake_tables import COLUMNS
from edgetop.session.batch import Batch
from edgetop.session.manifest import Ab, EngineInfo, Manifest, Model, Variant, Watched, WatchedStream
from tests.support.sessions import folded, make_manifest

FP32, INT8 = Model("/m/fp32.onnx"), Model("/m/int8.onnx")


def watched(*names: str) -> Manifest:
    streams = tuple(WatchedStream(name, 5) for name in names)
    return replace(make_manifest(), model=FP32, watched=Watched(("app",), streams=streams))


@pytest.mark.parametrize(
    ("session", "model"),
    [
        (replace(make_manifest(), model=FP32), "fp32.onnx"),
        (watched("/m/fp32.onnx", "/m/fp32.onnx#2", ""), "fp32.onnx"),
        (watched("/m/fp32.onnx", "/m/int8.onnx", "/m/fp32.onnx#2"), "fp32.onnx | int8.onnx"),
        (watched(*(f"/m/{letter}.onnx" for letter in "abcde")), "a.onnx | b.onnx | c.onnx | 2 more"),
        (
            replace(
                make_manifest(),
                model=FP32,
                ab=Ab((Variant(FP32, EngineInfo()), Variant(INT8, EngineInfo(), "--threads 2")), 0.01),
            ),
            "fp32.onnx | int8.onnx --threads 2",
        ),
    ],
    ids=["one", "two sessions of one", "two", "five", "in turns"],
)
def test_figures_of_several_models_together_are_not_called_those_of_the_first(session: Manifest, model: str) -> None:
    made = report(folded([Batch(manifest=session, restart=True)]))
    assert COLUMNS["model"][1](made) == model
