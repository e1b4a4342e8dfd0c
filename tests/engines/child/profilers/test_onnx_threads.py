"""What ONNX Runtime's events tell of its threads, in made-up traces and in those of the real runtime."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

from edgetop.engines.child.profilers import Allowance, Profile
from edgetop.engines.child.profilers.interference import Interference
from edgetop.engines.child.profilers.onnx_runs import FIRST_VERSION, RunProfiler
from edgetop.engines.child.profilers.onnx_trace import add_kernels, loops_of
from tests.support import onnx_models

US = 1_000


def stats(core: int, wait: int = 0, others: tuple[int, ...] = (1,)) -> dict[str, Any]:
    """Of the thread that runs the model: its CPU and how long it waited; of the others their CPUs."""
    main = {"thread_pool_name": "p", "thread_id": "7", "block_size": [1], "core": core, "Distribution": 0, "Run": 5}
    sub = {str(100 + i): {"num_run": 3, "core": cpu} for i, cpu in enumerate(others)}
    return {"main_thread": {**main, "Wait": wait, "WaitRevoke": 0}, "sub_threads": sub}


def node(name: str, dur: int, told: object) -> dict[str, Any]:
    args = {"op_name": "Conv", "provider": "CPUExecutionProvider", "thread_scheduling_stats": told}
    return {"cat": "Node", "name": f"{name}_kernel_time", "ts": 0, "dur": dur, "args": args}


def described(*runs: list[dict[str, Any]], interference: tuple[Interference | None, ...] = ()) -> dict[str, Any]:
    profile = Profile()
    for i, kernels in enumerate(runs):
        profile.begin_run(1000 * US, interference[i] if interference else None)
        add_kernels(profile, kernels)
    return profile.describe()


def test_waits_are_summed_and_the_worst_operator_is_named() -> None:
    run = [node("a", 10, stats(0, wait=1)), node("b", 20, stats(0, wait=6))]
    assert described(run, run)["threads"] == {
        "count": 2, "all_ns": 60 * US, "wait_ns": 14 * US, "moves": 0, "most": "b", "most_ns": 12 * US,
    }  # fmt: skip


def test_a_thread_that_is_seen_on_another_cpu_has_moved() -> None:
    run = [
        node("a", 10, stats(0, others=(1, -1))),
        node("b", 10, stats(2, others=(1, 3))),
        node("c", 10, stats(0, others=(3, 3))),
    ]
    assert described(run)["threads"]["moves"] == 2 + 1
    assert described(run)["threads"]["count"] == 3


def test_what_a_kernel_tells_of_inferences_before_it_is_left_out() -> None:
    before = stats(0, wait=5_000)
    assert described([node("a", 10, before), node("b", 10, stats(0, wait=2))])["threads"] == {
        "count": 2, "all_ns": 10 * US, "wait_ns": 2 * US, "moves": 0, "most": "b", "most_ns": 2 * US,
    }  # fmt: skip
    assert "threads" not in described([node("a", 10, before)])


def test_loops_are_counted_where_they_are_told() -> None:
    kernels = [node("a", 10, {"main_thread": {"block_size": 3}}), node("b", 5, ""), node("c", 5, stats(0))]
    assert loops_of(kernels) == 3


def test_between_runs_nothing_is_a_move() -> None:
    assert described([node("a", 10, stats(0))], [node("a", 10, stats(1))])["threads"]["moves"] == 0


def test_runs_that_something_disturbed_do_not_count() -> None:
    runs = [node("a", 10, stats(0, 1))], [node("a", 90, stats(0, 80))]
    found = described(*runs, interference=(None, Interference(1, 800 * US)))
    assert found["threads"]["wait_ns"] == 1 * US


@pytest.mark.parametrize("told", ["", None, "core 3", {"main_thread": {}}, {"main_thread": 5, "sub_threads": []}, [1]])
def test_operators_do_not_depend_on_thread_statistics(told: object) -> None:
    found = described([node("a", 10, told)])
    assert "threads" not in found
    assert found["operators"] == [["a", "Conv", "CPU", 1, 10 * US]]


real = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < FIRST_VERSION,
    reason="no ONNX Runtime for this Python profiles single runs",
)


def laddered(threads: int) -> tuple[onnxruntime.InferenceSession, dict[str, Any]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(onnx_models.onnx_ladder(), options, providers=["CPUExecutionProvider"])
    return session, {tensor.name: np.zeros(tensor.shape, np.float32) for tensor in session.get_inputs()}


@real
@pytest.mark.parametrize(("threads", "count"), [(1, None), (2, 2), (3, 3)])
def test_the_real_runtime_tells_it_of_single_runs(threads: int, count: int | None) -> None:
    session, feeds = laddered(threads)
    profiler = RunProfiler(onnxruntime, lambda run_options: session.run(None, feeds, run_options))
    found = profiler.burst(Allowance(10**12, lambda: False, max_runs=5)).get("threads")
    assert (found and found["count"]) == count
    if found:
        assert 0 <= found["wait_ns"] <= found["all_ns"]
        assert found["moves"] >= 0
    assert (profiler.loops > 0) is (threads > 1)


@pytest.mark.slow
@real
def test_loops_recorded_between_bursts_are_not_of_a_burst() -> None:
    session, feeds = laddered(2)
    profiler = RunProfiler(onnxruntime, lambda run_options: session.run(None, feeds, run_options))
    profiler.burst(Allowance(0, lambda: False))
    for _ in range(30):
        session.run(None, feeds)
    found = profiler.burst(Allowance(0, lambda: False))
    told = found.get("threads", {"all_ns": 0, "wait_ns": 0})
    assert told["wait_ns"] <= told["all_ns"] <= found["run_ns"][0]
