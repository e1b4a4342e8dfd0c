"""Run-level profiling is used where all is as it was verified, and refused, not risked, where anything differs."""

import json
import platform
import time
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from edgetop.engines.child.profilers import Allowance, ProfilingError
from edgetop.engines.child.profilers.onnx_runs import (
    FAST_NS,
    FAST_RUNS,
    FIRST_VERSION,
    SLOW_NS,
    OwnMemory,
    RunProfiler,
    find_flag,
    open_library,
)
from tests.support import onnx_models
from tests.support.model_files import light

pytestmark = pytest.mark.skipif(
    tuple(map(int, onnxruntime.__version__.split(".")[:2])) < FIRST_VERSION,
    reason="no ONNX Runtime for this Python profiles single runs",
)


@pytest.fixture
def session(tmp_path: Path) -> onnxruntime.InferenceSession:
    model = tmp_path / "branch.onnx"
    model.write_bytes(onnx_models.onnx_branch())
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


@pytest.fixture
def profiler(session: onnxruntime.InferenceSession) -> RunProfiler:
    feeds = {"x": np.zeros((64, 256), np.float32)}
    return RunProfiler(onnxruntime, lambda options: session.run(None, feeds, options))


def allowance(runs: int) -> Allowance:
    return Allowance(10**12, lambda: False, max_runs=runs)


def as_installed(**changes: Any) -> SimpleNamespace:
    """ONNX Runtime as it is here, but for what the test changes."""
    names = ("__version__", "__file__", "RunOptions", "get_build_info")
    return SimpleNamespace(**{name: getattr(onnxruntime, name) for name in names} | changes)


def test_each_run_of_a_burst_is_profiled(profiler: RunProfiler) -> None:
    described = profiler.burst(allowance(3))
    assert {row[0] for row in described["operators"]} == {"peak", "less", "if", "inner", "relu"}
    assert {row[3] for row in described["operators"]} == {len(described["run_ns"])}


def test_what_a_node_with_a_body_takes_counts_once(profiler: RunProfiler) -> None:
    described = profiler.burst(allowance(10))
    assert sum(row[4] for row in described["operators"]) <= sum(described["run_ns"])
    took = {row[0]: row[4] for row in described["operators"]}
    assert took["if"] < took["inner"]


def shares(folder: Path, *, unrolled: bool) -> dict[str, float]:
    """The share of each type of operator in the fastest of forty profiled runs, which nothing held up."""
    path = folder / f"{unrolled}.onnx"
    path.write_bytes(onnx_models.loop_of_products(50, unrolled=unrolled))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feeds = {"x": np.zeros((16, 128), np.float32)}
    profiler = RunProfiler(onnxruntime, lambda options: session.run(None, feeds, options))
    fastest = min((profiler.burst(allowance(1)) for _ in range(40)), key=lambda described: described["run_ns"][0])
    took: dict[str, int] = {}
    for _, op_type, _, _, ns in fastest["operators"]:
        took[op_type] = took.get(op_type, 0) + ns
    return {op_type: ns / sum(took.values()) for op_type, ns in took.items()}


def test_a_loop_takes_as_little_as_without_profiling(tmp_path: Path) -> None:
    """Recording 150 events in its body takes about as long as what its body computes."""
    looped, unrolled = (shares(tmp_path, unrolled=unrolled) for unrolled in (False, True))
    assert looped["Loop"] < 0.2
    assert looped["MatMul"] == pytest.approx(unrolled["MatMul"], abs=0.25)


def test_runs_that_are_not_asked_for_are_not_profiled(
    session: onnxruntime.InferenceSession, profiler: RunProfiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    profiler.burst(allowance(1))
    session.run(None, {"x": np.zeros((64, 256), np.float32)})
    session.run(None, {"x": np.zeros((64, 256), np.float32)}, onnxruntime.RunOptions())
    assert set(tmp_path.iterdir()) == before


def test_bursts_in_a_row_do_not_take_each_others_traces(profiler: RunProfiler) -> None:
    calls = [{row[3] for row in profiler.burst(allowance(2))["operators"]} for _ in range(20)]
    assert all(found <= {1, 2} and len(found) == 1 for found in calls)


def test_with_threads_the_first_run_is_thrown_away(
    session: onnxruntime.InferenceSession,
) -> None:
    runs = []

    def run(options: Any) -> None:
        until_ns = time.monotonic_ns() + 2 * FAST_NS
        while time.monotonic_ns() < until_ns:
            pass
        runs.append(options)
        session.run(None, {"x": np.zeros((64, 256), np.float32)}, options)

    profiler = RunProfiler(onnxruntime, run, has_threads=True)
    tried = len(runs)
    assert 1 <= tried <= FAST_RUNS  # one suffices where the machine is busy
    profiler.burst(allowance(1))
    assert len(runs) == tried + 2
    profiler._last_ns = SLOW_NS
    profiler.burst(allowance(1))
    assert len(runs) == tried + 3


def test_a_fast_model_with_threads_is_refused_early() -> None:
    with pytest.raises(ProfilingError, match=r"an inference takes 0\.\d\d ms, in which it would show"):
        RunProfiler(onnxruntime, lambda _: None, has_threads=True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"__version__": "1.24.4"}, "older than 1.25"),
        ({"__version__": "1.31.0.dev20260101"}, "is not a release"),
        ({"__version__": "1.99.0"}, "this installation has no libonnxruntime.so.1.99.0"),
        ({"get_build_info": lambda: "ORT Build Info: git-commit-id=0000000"}, "is of another build than the module"),
        ({"get_build_info": lambda: ""}, "is of another build than the module"),
        ({"__file__": "/nowhere/onnxruntime/__init__.py"}, "this installation has no"),
    ],
)
def test_another_version_or_build_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProfilingError, match=reason):
        open_library(as_installed(**changes))


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "capi"
    folder.mkdir()
    words = onnxruntime.get_build_info().encode()
    (folder / f"libonnxruntime.so.{onnxruntime.__version__}").write_bytes(b"\x7fELF" + words)
    with pytest.raises(ProfilingError, match="no run-level profiling: "):
        open_library(as_installed(__file__=str(tmp_path / "__init__.py")))


class Elsewhere:
    """Options that look the same from Python and lie in memory in another way."""

    def __init__(self) -> None:
        self.only_execute_path_to_fetches = False


class Deaf:
    """The address of real options, in whose object nothing changes."""

    def __init__(self) -> None:
        object.__setattr__(self, "real", onnxruntime.RunOptions())

    def __setattr__(self, name: str, value: object) -> None:
        pass


class Far:
    """A pointer into nowhere, where pybind11 has the object's."""

    __slots__ = ("only_execute_path_to_fetches",)

    def __init__(self) -> None:
        self.only_execute_path_to_fetches = 0


@pytest.mark.parametrize("layout", [Elsewhere, Deaf, Far, onnxruntime.SessionOptions])
def test_another_layout_is_refused_and_nothing_is_called(layout: Any) -> None:
    runs: list[object] = []
    with pytest.raises((ProfilingError, AttributeError)):
        RunProfiler(as_installed(RunOptions=layout), runs.append)
    assert runs == []


class Shifted(OwnMemory):
    """Memory in which every structure has grown by a word before its fields."""

    def read(self, address: int, size: int) -> bytes:
        return super().read(address - 8, size)


class Renamed(OwnMemory):
    """Memory in which no string is the one that is expected."""

    def read(self, address: int, size: int) -> bytes:
        return super().read(address, size).replace(b"onnxruntime_run", b"onnxruntime_xyz")


@pytest.mark.parametrize("memory", [Shifted, Renamed])
def test_a_simulated_change_of_the_layout_is_refused(memory: type[OwnMemory]) -> None:
    with pytest.raises(ProfilingError, match="laid out in another way"):
        find_flag(onnxruntime.RunOptions(), memory())


def test_an_address_that_is_none_is_an_error_and_not_a_crash() -> None:
    memory = OwnMemory()
    for address in (0, 8, 2**47, 2**63, 2**64 + 5):
        with pytest.raises(ProfilingError):
            memory.read(address, 8)
    memory.close()


def test_hostile_names_come_through(tmp_path: Path) -> None:
    model = tmp_path / "hostile.onnx"
    model.write_bytes(onnx_models.onnx_hostile_names())
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    feeds = {onnx_models.HOSTILE_INPUT: np.zeros((1, 4), np.float32)}
    profiler = RunProfiler(onnxruntime, partial(_run, session, feeds))
    described = profiler.burst(allowance(1))
    assert onnx_models.HOSTILE_NODE in [row[0] for row in described["operators"]]
    assert json.loads(json.dumps(described)) == described


def test_fused_operators_are_one_and_inserted_reorders_are_told(tmp_path: Path) -> None:
    """SqueezeNet: each of 26 convolutions with its Relu; on x86 in blocks of channels, which the end undoes."""
    session = onnxruntime.InferenceSession(light("squeezenet"), providers=["CPUExecutionProvider"])
    (image,) = session.get_inputs()
    profiler = RunProfiler(onnxruntime, partial(_run, session, {image.name: np.zeros(image.shape, np.float32)}))
    types = Counter(row[1] for row in profiler.burst(allowance(1))["operators"])
    assert types["Conv"] + types["FusedConv"] == 26
    assert types["Relu"] == 0
    assert types["ReorderOutput"] == (platform.machine() == "x86_64")


def _run(session: onnxruntime.InferenceSession, feeds: dict[str, Any], options: Any) -> object:
    return session.run(None, feeds, options)
