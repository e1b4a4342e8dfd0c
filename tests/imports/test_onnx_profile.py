"""ONNX Runtime's own profile of a session."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from edgetop.errors import InputError
from edgetop.imports.measured import MAX_NS, Layers
from edgetop.imports.onnx_profile import MAX_RUNS, ORIGIN
from edgetop.imports.read import read, read_all
from tests.support import onnx_models, trtexec

US = 1_000
HALF = MAX_NS // US // 2  # of the longest time, in microseconds


def event(name: str, ts: int, dur: int, cat: str = "Node", **args: str) -> dict[str, Any]:
    return {"cat": cat, "pid": 1, "tid": 1, "dur": dur, "ts": ts, "ph": "X", "name": name, "args": args}


def run_of(ts: int, conv_us: int, provider: str = "CUDAExecutionProvider") -> list[dict[str, Any]]:
    conv = event("conv_kernel_time", ts + 1, conv_us, op_name="Conv", provider=provider)
    relu = event("relu_kernel_time", ts + 2 + conv_us, 5, op_name="Relu", provider="CPUExecutionProvider")
    return [conv, relu, event("model_run", ts, conv_us + 10, "Session")]


def found_in(folder: Path, events: list[dict[str, Any]]) -> Layers:
    path = folder / "p.json"
    path.write_text(json.dumps([event("session_initialization", 0, 9, "Session"), *events]))
    reading = read(path)
    (found,) = reading.found
    assert reading.origin is ORIGIN
    assert isinstance(found, Layers)
    return found


def test_kernels_of_all_runs_are_operators_with_their_usual_time(tmp_path: Path) -> None:
    found = found_in(tmp_path, [*run_of(100, 500), *run_of(1_000, 90), *run_of(2_000, 94), *run_of(3_000, 98)])
    assert (found.runs, found.run_ns) == (4, 106 * US)
    assert [(o.name, o.op_type, o.provider, o.calls, o.total_ns) for o in found.operators] == [
        ("conv", "Conv", "CUDA", 4, 4 * 96 * US),
        ("relu", "Relu", "CPU", 4, 4 * 5 * US),
    ]
    assert read_all([tmp_path / "p.json"]).providers == ("CUDA", "CPU")


def test_of_many_runs_the_last_ones_count(tmp_path: Path) -> None:
    many = [e for i in range(MAX_RUNS + 20) for e in run_of(1_000 * i, 90 if i >= 20 else 80)]
    assert found_in(tmp_path, many).operators[0].total_ns == MAX_RUNS * 90 * US


def test_a_profile_of_the_real_runtime_is_read(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "p")
    session = onnxruntime.InferenceSession(onnx_models.onnx_branch(), options, providers=["CPUExecutionProvider"])
    for _ in range(5):
        session.run(None, {"x": np.zeros((64, 256), np.float32)})
    measured = read_all([Path(session.end_profiling())])
    assert measured.layers
    assert {operator.name for operator in measured.layers.operators} == {"peak", "less", "if", "inner", "relu"}
    assert 1 <= measured.layers.runs <= 5
    assert measured.layers.total_ns <= measured.layers.runs * measured.layers.run_ns * 1.25


def kernels(ts: int, tid: int, **us: int) -> list[dict[str, Any]]:
    """A run on a thread, with its operators one after the other."""
    found, at = [], ts + 1
    for name, dur in us.items():
        found.append(
            {**event(f"{name}_kernel_time", at, dur, op_name=name, provider="CPUExecutionProvider"), "tid": tid}
        )
        at += dur
    return [*found, {**event("model_run", ts, at - ts + 1, "Session"), "tid": tid}]


def test_runs_at_the_same_time_have_the_operators_of_their_own_threads(tmp_path: Path) -> None:
    both = [*kernels(0, 7, A=60, B=40), *kernels(10, 8, A=60, B=40)]
    found = found_in(tmp_path, both)
    assert found.runs == 2
    assert {o.name: o.total_ns for o in found.operators} == {"A": 120 * US, "B": 80 * US}
    assert any("2 runs at the same time as another" in note for note in read(tmp_path / "p.json").notes)


def test_runs_whose_threads_do_not_tell_are_left_out(tmp_path: Path) -> None:
    alone, stray = kernels(5_000, 7, A=60, B=40), {**kernels(20, 9, C=5)[0]}
    found = found_in(tmp_path, [*kernels(0, 7, A=10, B=90), *kernels(10, 8, A=10, B=90), stray, *alone])
    assert (found.runs, {o.name: o.total_ns for o in found.operators}) == (1, {"A": 60 * US, "B": 40 * US})
    assert any(note.startswith("2 runs left out") for note in read(tmp_path / "p.json").notes)


def test_the_gpus_own_kernels_count_instead_of_launching_them(tmp_path: Path) -> None:
    conv, relu, whole = run_of(100, 30)
    gpu = [
        {**event(name, 10**6, us, "Kernel", stream="7"), "tid": -1, "pid": -1} for name, us in (("a", 400), ("b", 90))
    ]
    found = found_in(tmp_path, [conv, *gpu, relu, whole])
    assert {o.name: o.total_ns for o in found.operators} == {"conv": 490 * US, "relu": 5 * US}
    assert "operators of CUDA have the time of their 2 kernels on the GPU" in read(tmp_path / "p.json").notes


def test_a_gpu_without_events_of_its_own_is_said(tmp_path: Path) -> None:
    found_in(tmp_path, run_of(100, 30))
    notes = read(tmp_path / "p.json").notes
    assert "operators of CUDA have the time of launching them, as the file has no events of the GPU" in notes
    assert '1 of 4 events not read, the first: "session_initialization"' in notes


BAD = {
    "no run": ([event("conv_kernel_time", 1, 2, op_name="Conv", provider="CPU")], "it has no whole run of a model"),
    "no kernel": ([event("model_run", 1, 2, "Session")], "it has no kernels"),
    "no provider": ([*run_of(0, 5)[1:], event("x_kernel_time", 1, 2)], "not as ONNX Runtime writes"),
    "a name": ([*run_of(0, 5), {**event("", 1, 1), "name": 5}], "not as ONNX Runtime writes"),
    "a time": ([*run_of(0, 5), event("model_run", 1, -2, "Session")], "times that are none of such a run"),
    "a number": ([*run_of(0, 5), event("model_run", 1, 2.5, "Session")], "times that are none"),  # type: ignore[arg-type]
    "too long": ([e for tid in range(3) for e in kernels(0, tid, A=HALF)], "longer than a run can"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_such_profile_is_refused(tmp_path: Path, case: str) -> None:
    events, why = BAD[case]
    with pytest.raises(InputError, match=why):
        found_in(tmp_path, events)


def test_files_of_two_tools_are_two_sessions(tmp_path: Path) -> None:
    found_in(tmp_path, run_of(0, 5))
    (tmp_path / "t.json").write_text(trtexec.times(3))
    with pytest.raises(InputError, match="of two tools"):
        read_all([tmp_path / "t.json", tmp_path / "p.json"])
