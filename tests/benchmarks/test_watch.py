"""What it costs a program to be watched: the same program, watched and not, in turns."""

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import onnx_models

pytestmark = pytest.mark.benchmark

TURNS = 9
LONGEST_S = 900
PROGRAM = Path(__file__).parents[1] / "support" / "programs" / "one_session.py"


def figures(model, *before):
    """Median and p99 of the program's own times of its calls, in us."""
    done = subprocess.run([*before, sys.executable, PROGRAM, model, "4000"], capture_output=True, text=True, check=True)
    text = next(line for line in (done.stdout + done.stderr).splitlines() if line.startswith("own "))
    return [float(number) for number in text.split()[1:]]


@pytest.mark.timeout(LONGEST_S)
def test_the_program_is_as_fast_as_before(tmp_path):
    """p50 within 2 % or 2 us of the program alone, p99 within 10 %: medians over turns."""
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.onnx_half_ms())
    watch = (sys.executable, "-m", "edgetop", "watch", "--headless", "--json", "--no-record", "--")
    alone, watched = [], []
    for turn in range(TURNS):
        for watches in (turn % 2 == 0, turn % 2 == 1):
            (watched if watches else alone).append(figures(model, *(watch if watches else ())))
    before, after = ([statistics.median(each) for each in zip(*turns, strict=True)] for turns in (alone, watched))
    print(f"alone p50 {before[0]:.1f} p99 {before[1]:.1f} us; watched p50 {after[0]:.1f} p99 {after[1]:.1f} us")
    assert after[0] <= max(1.02 * before[0], before[0] + 2)
    assert after[1] <= 1.10 * before[1]
