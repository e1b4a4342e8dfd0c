"""What watching costs what is watched: a bare loop and edgetop in turn, in one run.

edgetop runs with its screen in a 160x50 terminal, and records. Ratios of edgetop to the bare
loop beside it, so that a machine whose speed drifts does not decide; medians over the rounds.
"""

import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support import onnx_models
from tests.support.terminal import Terminal

pytestmark = pytest.mark.benchmark

ROUNDS = 7
SECONDS = 4.0
MODELS = {"20us": onnx_models.onnx_tiny, "0.5ms": onnx_models.onnx_half_ms, "10ms": onnx_models.onnx_ten_ms}
P50_WITHIN, P99_WITHIN = 0.02, 0.10
BARE_LOOP = Path(__file__).with_name("bare_loop.py")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("isolation", ["process", "thread"])
@pytest.mark.parametrize("name", MODELS)
def test_percentiles_stay_near_those_of_a_bare_loop(name, isolation, tmp_path, capsys):
    model = tmp_path / "model.onnx"
    model.write_bytes(MODELS[name]())
    rounds = [(_bare(model, tmp_path), _watched(model, isolation, tmp_path / f"r{i}")) for i in range(ROUNDS)]
    ratios = {
        "p50": [np.percentile(b, 50) / np.percentile(a, 50) for a, b in rounds],
        "p99": [np.percentile(b, 99) / np.percentile(a, 99) for a, b in rounds],
        "throughput": [len(b) / len(a) for a, b in rounds],
    }
    with capsys.disabled():
        shown = "  ".join(f"{k} {statistics.median(v):.3f} [{min(v):.3f}, {max(v):.3f}]" for k, v in ratios.items())
        print(f"\n{name:>6} {isolation:<8} bare p50 {np.percentile(rounds[0][0], 50) / 1e6:.4f} ms   {shown}")
    if isolation == "process":
        assert statistics.median(ratios["p50"]) <= 1 + P50_WITHIN
        assert statistics.median(ratios["p99"]) <= 1 + P99_WITHIN


def _bare(model, folder):
    out = folder / "bare.npy"
    subprocess.run([sys.executable, str(BARE_LOOP), str(model), str(SECONDS), "1", str(out)], check=True)
    return np.load(out)


def _watched(model, isolation, folder):
    command = [
        *(sys.executable, "-m", "edgetop", "run", str(model), "--threads", "1", "--isolation", isolation),
        *("--duration", f"{SECONDS:g}s", "-o", str(folder)),
    ]
    terminal = Terminal(command, 160, 50, {})
    try:
        terminal.wait_for("FINISHED")
        terminal.send("q")
        assert terminal.wait_for_exit() == 0
    finally:
        terminal.close()
    table = pq.read_table(folder.with_name(folder.name + ".edgetop") / "inferences.parquet")
    return table.filter(table["phase"].cast("string").to_numpy() == "measure")["latency_ns"].to_numpy()
