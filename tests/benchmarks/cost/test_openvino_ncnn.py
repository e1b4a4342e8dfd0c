"""OpenVINO and ncnn: edgetop beside a bare loop over the same runtime, and whether the operators add up.

Five real networks each. edgetop and the bare loop run in turns, so that a machine whose speed drifts does not decide.
"""

import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from edgetop.engines.child.adapters import choose
from edgetop.engines.programs import bare_loop
from tests.support import real_models

pytestmark = pytest.mark.benchmark

ROUNDS, SECONDS = 12, 2.5
P50_WITHIN, P99_WITHIN, SUM_WITHIN = 0.01, 0.05, 0.02
MOST_ERROR = 0.015  # of p50's ratio; on a quiet machine it is 0.002 to 0.014
PROFILED_RUNS = 40
WRITERS = {"openvino": real_models.write_ir, "ncnn": real_models.write_ncnn}
CASES = [(runtime, name) for name in real_models.REAL for runtime in WRITERS]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("runtime", "name"), CASES, ids=str)
def test_percentiles_stay_near_those_of_a_bare_loop(runtime, name, table, tmp_path):
    model = WRITERS[runtime](tmp_path, name)
    ratios = ratios_of(model, tmp_path, ROUNDS, SECONDS)
    means = {key: mean_of(all_) for key, all_ in ratios.items()}
    shown = ", ".join(f"{key} {mean:.3f} ± {error:.3f}" for key, (mean, error) in means.items())
    budgets = {"p50": 1 + P50_WITHIN, "p99": 1 + P99_WITHIN}
    assert means["p50"][1] <= MOST_ERROR, "too noisy to tell"
    is_met = all(means[key][0] - 2 * means[key][1] <= budget for key, budget in budgets.items())
    budget = ", ".join(f"{key} {budget:.2f}" for key, budget in budgets.items())
    table.row(f"{name} in {runtime}: over a bare loop", shown, budget, is_met=is_met)
    assert is_met


@pytest.mark.parametrize(("runtime", "name"), CASES, ids=str)
def test_operators_add_up_to_an_inference(runtime, name, table, tmp_path):
    """All rows together are the whole by construction: what is not in operators must be little."""
    outside, instrumented = outside_of(runtime, WRITERS[runtime](tmp_path, name))
    shown = f"{outside:.2%} of an inference, an instrumented one takes {instrumented:.2f} times as long"
    table.row(f"{name} in {runtime}: outside operators", shown, f"{SUM_WITHIN:.0%}", is_met=outside <= SUM_WITHIN)
    assert outside <= SUM_WITHIN


def ratios_of(model: Path, folder: Path, rounds: int, seconds: float) -> dict[str, list[float]]:
    """Ratios of edgetop to the bare loop beside it, round by round. Their order changes from round to round."""
    pairs = []
    for number in range(rounds):
        ways = [_bare, _watched] if number % 2 else [_watched, _bare]
        took = {way: way(model, seconds, folder / f"{model.name.replace('.', '-')}-{number}") for way in ways}
        pairs.append((took[_bare], took[_watched]))
    return {f"p{of}": [np.percentile(b, of) / np.percentile(a, of) for a, b in pairs] for of in (50, 99)}


def mean_of(ratios: list[float]) -> tuple[float, float]:
    """Return the geometric mean of the rounds' ratios and its standard error.

    One round may be 10 % off: on a shared machine each process has a speed of its own.
    """
    logs = np.log(ratios)
    return float(np.exp(logs.mean())), float(logs.std(ddof=1) / len(logs) ** 0.5)


def _bare(model, seconds, out):
    words = [bare_loop.__file__, model, seconds, 1, out.with_suffix(".npy")]
    subprocess.run([sys.executable, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
    return np.load(out.with_suffix(".npy"))


def _watched(model, seconds, out):
    words = ["run", model, "--headless", "--threads", 1, "--duration", f"{seconds:g}s", "-o", out]
    subprocess.run([sys.executable, "-m", "edgetop", *map(str, words)], check=True, capture_output=True)
    table = pq.read_table(out.with_name(f"{out.name}.edgetop") / "inferences.parquet")
    return table.filter(table["phase"].cast("string").to_numpy() == "measure")["latency_ns"].to_numpy()


def outside_of(runtime: str, model: Path) -> tuple[float, float]:
    """Of the median inference: the share that no operator has, and how much longer it takes than without profiling."""
    adapter, _ = choose(runtime, runtime)
    adapter.open({"model": str(model), "providers": [], "threads": 1, "streams": 1})
    shapes = {one.name: one.shape for one in adapter.inputs}
    adapter.reshape(shapes)
    random = np.random.default_rng(0)
    call = adapter.bind({key: random.random(shape, np.float32) for key, shape in shapes.items()})
    plain = []
    for _ in range(PROFILED_RUNS):
        begin = bare_loop.time.monotonic_ns()
        call()
        plain.append(bare_loop.time.monotonic_ns() - begin)
    adapter.profile()
    runs = [adapter.profile() for _ in range(PROFILED_RUNS)]
    outside = statistics.median(operators[-1][3] / ns for ns, operators in runs)
    return outside, statistics.median(ns for ns, _ in runs) / statistics.median(plain)
