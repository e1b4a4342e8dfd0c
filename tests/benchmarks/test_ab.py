"""How often `edgetop ab` is right: a model with itself, and with a copy that has one layer more, a minute each.

Run it with the board as it is used: `pytest -m benchmark -s tests/benchmarks/test_ab.py`. It takes half an hour. Prints
each run with the load of the machine; `edgetop help ab` has such figures.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.support import onnx_models
from tests.support.commands import edgetop

pytestmark = pytest.mark.benchmark

ALIKE, OTHERS, PAIRS = 20, 5, 5
LAYERS = 20  # one more is 5 %


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("ab")
    for name, depth in (("model", LAYERS), ("more", LAYERS + 1)):
        (home / f"{name}.onnx").write_bytes(onnx_models.matmul_chain(rows=64, depth=depth))
    return home


def compared(home: Path, other: str, seed: int) -> dict:
    options = ("--threads", "1", "--headless", "--json", "--no-record", "--max-duration", "60s", "--order-seed", seed)
    done = edgetop("ab", "model.onnx", other, *options, home=home, timeout=120)
    p50 = json.loads(done.stdout)["ab"]["ratios"]["p50"]
    print(f"{other:<10} load {os.getloadavg()[0]:5.2f}  {p50['value']:.4f}  {p50['ci95']}  {p50['verdict']}")
    return p50


def test_a_model_is_the_same_as_itself(home: Path) -> None:
    verdicts = [compared(home, "model.onnx", seed)["verdict"] for seed in range(ALIKE)]
    assert verdicts.count("same") >= 0.95 * ALIKE
    assert set(verdicts) <= {"same", "unknown"}


def test_a_model_with_a_layer_more_is_slower(home: Path) -> None:
    assert {compared(home, "more.onnx", seed)["verdict"] for seed in range(OTHERS)} == {"slower"}


def test_two_successive_runs_differ_by_more_than_turns_do(home: Path) -> None:
    def p50_ms() -> float:
        run = ("--threads", "1", "--headless", "--json", "--no-record", "--duration", "30s")
        return float(json.loads(edgetop("run", "model.onnx", *run, home=home).stdout)["latency"]["p50_ms"])

    apart = [abs(p50_ms() / p50_ms() - 1) for _ in range(PAIRS)]
    in_turns = [abs(compared(home, "model.onnx", seed)["value"] - 1) for seed in range(PAIRS)]
    print(f"two runs {np.median(apart):.2%} apart, {max(apart):.2%} at most; in turns {np.median(in_turns):.2%}")
    assert np.median(in_turns) < np.median(apart)
