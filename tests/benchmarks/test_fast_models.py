"""Engines faster than any model, through the whole program: what is recorded and what is lost add up exactly."""

import json
from pathlib import Path

import numpy as np
import pytest

from edgetop.recording.reader import Recording
from edgetop.session.records import MEASURE
from tests.support import fast_engine, onnx_models
from tests.support.commands import edgetop

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(300)]

SECONDS = 10
RUNS = {
    "run": ("run", "tiny.onnx", "--duration", f"{SECONDS}s"),
    "run --streams 4": ("run", "tiny.onnx", "--duration", f"{SECONDS}s", "--streams", "4"),
    "run --no-raw": ("run", "tiny.onnx", "--duration", f"{SECONDS}s", "--no-raw"),
    "ab": ("ab", "tiny.onnx", "tiny.onnx", "--max-duration", f"{SECONDS}s", "--until", "0.01%"),
}


@pytest.mark.parametrize("rate_hz", [100_000, 500_000])
@pytest.mark.parametrize("name", RUNS)
def test_every_inference_is_accounted_for(name: str, rate_hz: int, tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    counts.mkdir()
    (tmp_path / "tiny.onnx").write_bytes(onnx_models.onnx_tiny())
    rate_a_stream = rate_hz // 4 if "streams" in name else rate_hz
    python = fast_engine.interpreter(tmp_path / "fast", rate_a_stream, counts)
    result = edgetop(*RUNS[name], "--headless", "--engine-python", python, "-o", "s", home=tmp_path, timeout=200)
    assert result.returncode == 0, result.stderr
    report = json.loads(edgetop("report", "s.edgetop", "--json", home=tmp_path).stdout)
    lost = (report["lost"] or {}).get("inferences", 0)
    measured = report["latency"]["count"]
    if "no-raw" not in name:
        parts = list(Recording(tmp_path / "s.edgetop").rows("inferences"))
        starts = np.concatenate([part["t_ns"] for part in parts])
        assert (np.diff(starts) >= 0).all()
        recorded = sum(np.count_nonzero(part["phase"] == MEASURE) for part in parts)
        measured = min(measured, recorded)  # the disk may have been too slow as well
    made = fast_engine.counted(counts)
    print(f"{name} at {rate_hz:,}/s: {made:,} made, {lost:,} lost")
    assert measured + lost == made
