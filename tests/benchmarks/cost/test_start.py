"""How long it takes until something is there: `--help`, the first frame, the first live number. Medians of turns."""

import os
import re
import statistics
import subprocess
import sys
import time

import pytest

from tests.support import onnx_models
from tests.support.terminal import ALTERNATE_SCREEN, FRAME_END, Terminal
from tests.support.watched import end

pytestmark = pytest.mark.benchmark

TURNS = 10
HELP_RATIO, FIRST_NUMBER_S = 7.0, 1.5


def test_help_against_python_itself(table):
    passed = [sys.executable, "-c", "pass"], [sys.executable, "-m", "edgetop", "--help"]
    bare_s, help_s = map(statistics.median, zip(*(map(_took_s, passed) for _ in range(TURNS)), strict=True))
    ratio = help_s / bare_s
    measured = f"{ratio:.1f} times, {help_s * 1e3:.0f} ms"
    table.row("`edgetop --help` over `python -c pass`", measured, f"{HELP_RATIO:g} times", is_met=ratio <= HELP_RATIO)
    assert ratio <= HELP_RATIO


def _took_s(command: list[str]) -> float:
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


@pytest.mark.timeout(300)
def test_the_first_frame_and_the_first_live_number(table, tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.onnx_tiny())
    turns = [_first_s(str(model), str(tmp_path / f"{turn}")) for turn in range(TURNS)]
    frame_s, number_s = map(statistics.median, zip(*turns, strict=True))
    table.row("first frame of the screen", f"{frame_s:.2f} s")
    is_met = number_s <= FIRST_NUMBER_S
    table.row("first live number of a small model", f"{number_s:.2f} s", f"{FIRST_NUMBER_S:g} s", is_met=is_met)
    assert number_s <= FIRST_NUMBER_S


def _first_s(model: str, output: str) -> tuple[float, float]:
    begin = time.monotonic()
    terminal = Terminal([sys.executable, "-m", "edgetop", "run", model, "-o", output], 80, 24, dict(os.environ))
    try:
        terminal.wait_for_frames(1)
        assert ALTERNATE_SCREEN.encode() in terminal.output
        frame_s = time.monotonic() - begin
        while not re.search(r"p50 +[0-9]", terminal.seen[0]):
            terminal.wait_for_frames(terminal.output.count(FRAME_END) + 1)
        return frame_s, time.monotonic() - begin
    finally:
        end(terminal)
