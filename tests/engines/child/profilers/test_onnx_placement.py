"""Why operators do not run on the requested provider: read from what ONNX Runtime logs, and told where users look."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetop.engines.child import message_frames
from edgetop.engines.child.adapters import onnx
from edgetop.engines.child.adapters.onnx import OnnxRuntime
from edgetop.engines.child.profilers.onnx_placement import MOST_REASONS, read_placement, read_reasons
from edgetop.engines.decode import MAX_REASONS, decode
from edgetop.engines.engine_protocol import ProfilerChosen
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from edgetop.runner.loaded_engine import fallback_words
from edgetop.session.engine_events import FallbackReasons
from tests.support.engine_runs import run_whole
from tests.support.interpreters import with_runtime
from tests.support.onnx_models import onnx_tiny

LOGS = Path(__file__).parent / "placement_logs"  # the first line of each says where it is from
LOADING = (LOGS / "loading.txt").read_text()
CUDA = (LOGS / "cuda.txt").read_text()
LIBRARY = (
    "Failed to load library libonnxruntime_providers_cuda.so with error: libcurand.so.10: cannot open shared object "
    "file: No such file or directory"
)


NO_KERNEL = "CUDA kernel not found in registries for Op type: "
DEEMED = (
    "ORT optimization- Force fallback to CPU execution because the CPU execution path is deemed faster than overhead "
    "involved with execution on other EPs capable of executing this node"
)
MARKED = (
    "t [V:onnxruntime:, x.cc:1 GetSupportedNodes] Node supported: [0] index: [3] name: [n3] Operator type: [Pad] of"
    "\nt [V:onnxruntime:, x.cc:1 GetSupportedNodes] Node supported: [1] index: [4] name: [n4] Operator type: [Add] of"
)


@pytest.mark.parametrize(
    ("log", "reasons", "left_out"),
    [
        ("cuda", {f"{NO_KERNEL}Shape": 2, f"{NO_KERNEL}Squeeze": 1, f"{NO_KERNEL}QLinearConv": 1}, ""),
        ("qnn", {"Unsupported nodes in QNN EP: DequantizeLinear": 2}, ""),
        ("preferred", {DEEMED: 1}, ""),
        ("loading", {}, LIBRARY),
        ("silent", {}, ""),
    ],
)
def test_the_log_of_a_session_has_the_reasons(log: str, reasons: dict[str, int], left_out: str) -> None:
    assert read_reasons((LOGS / f"{log}.txt").read_text().splitlines()) == (reasons, left_out)


def test_reasons_of_single_nodes_and_of_none() -> None:
    assert read_reasons(MARKED.splitlines()) == ({"not supported: Pad": 1}, "")
    whole = "t [W:onnxruntime:, tensorrt_execution_provider.cc:9 GetCapability] No graph will run on TensorRT"
    assert read_reasons([whole]) == ({"No graph will run on TensorRT": 0}, "")


PLACES = "2026-11-28 t [V:onnxruntime:, inference_session.cc:9 VerifyEachNodeIsAssignedToAnEpImpl] "


def test_the_log_says_which_provider_has_which_operators() -> None:
    several = ("Node placements", " Node(s) placed on [CUDAExecutionProvider]. Number of nodes: 3", "  Conv (a)",
               "  Conv (b (c))", "  com.x.Gelu ()", " Node(s) placed on [CPUExecutionProvider]. Number of nodes: 1",
               "  Pad (p)")  # fmt: skip
    assert read_placement([PLACES + line for line in several]) == {
        "CUDAExecutionProvider": {"Conv": 2, "com.x.Gelu": 1},
        "CPUExecutionProvider": {"Pad": 1},
    }
    alone = " All nodes placed on [CPUExecutionProvider]. Number of nodes: 15"
    assert read_placement([PLACES + alone, "t [V:onnxruntime:, x.cc:1 Other]   Conv (a)"]) == {
        "CPUExecutionProvider": {"": 15}
    }
    assert read_placement([PLACES + "  Conv (a)", "odd"]) == {}


def test_an_error_of_a_provider_begins_with_its_sentence() -> None:
    place = "/src/core/openvino_provider_factory.cc:141 std::string onnxruntime::Parse(const ProviderOptions&) "
    line = f"t [E:onnxruntime:, provider_bridge_ort.cc:1 Load] {place}[ERROR] [OpenVINO] Device GPU is not available"
    assert read_reasons([line])[1] == "[ERROR] [OpenVINO] Device GPU is not available"


def test_a_device_that_openvino_lacks_is_a_reason() -> None:
    """All that onnxruntime-openvino 1.24.1 logs for `device_type=XYZ`. The provider stays, and takes no operator."""
    lines = [
        "[I:onnxruntime:Default, openvino_provider_factory.cc:186 ParseDeviceType] [OpenVINO-EP] Choosing Device: XYZ",
        "2026 [I:onnxruntime:Default, openvino_parser_utils.cc:114 ParsePrecision] [OpenVINO] Precision is not set.",
        "2026 [I:onnxruntime:Default, capability.cc:252 Execute] [OpenVINO-EP] Supported subgraphs on OpenVINO: 0",
    ]
    reason = "OpenVINO supports no operator on the device XYZ, or there is no such device"
    assert read_reasons(lines) == ({reason: 0}, "")
    assert read_reasons([*lines[:2], lines[2].replace(": 0", ": 2")]) == ({}, "")


def test_a_model_with_thousands_of_kinds_of_operators_has_few_reasons() -> None:
    line = "t [I:onnxruntime:, cuda_execution_provider.cc:1 GetCapability] not found: %s node name: n%d"
    lines = [line % (f"T{kind}", n) for kind in range(2000) for n in range(1 + (kind == 1999))]
    reasons, _ = read_reasons([*lines, line % ("x" * 9_000_000, 1)])
    assert len(reasons) == MOST_REASONS
    assert next(iter(reasons.items())) == ("not found: T1999", 2)
    assert all(len(reason) <= 240 for reason in reasons)


# The rest of the fake runtime: a CUDA in the build, and a log as ONNX Runtime writes it at level 0.
MORE = """
import os
LOG, BUILT, HAS = {log!r}, {built!r}, {has!r}
get_available_providers = lambda: [*BUILT, "CPUExecutionProvider"]
get_all_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
set_default_logger_severity = lambda level: None
InferenceSession.get_providers = lambda self: [*HAS, "CPUExecutionProvider"]
old = InferenceSession.__init__
def made(self, path, options, providers):
    old(self, path, options, providers)
    if getattr(options, "log_severity_level", 2) == 0:
        os.write(2, LOG.encode())
InferenceSession.__init__ = made
"""
BUILT = ["CUDAExecutionProvider"]


def explained(folder: Path, log: str, built: Sequence[str], has: Sequence[str] = ()) -> ProfilerChosen:
    """What an engine with the fake runtime says of the profiler. CUDA is requested."""
    python = with_runtime(folder, on_run="time.sleep(0.001)")
    module = folder / "runtime" / "onnxruntime.py"
    module.write_text(module.read_text() + MORE.format(log=log, built=built, has=has))
    model = folder / "tiny.onnx"
    model.write_bytes(onnx_tiny())
    spec = EngineSpec(
        str(model), "onnx", providers=(("CUDA", {}),), warmup_runs=1, runs=3, threads=1, profile_every_ns=10**10
    )
    told: ProfilerChosen = run_whole(ProcessEngine(spec, python)).one(ProfilerChosen)
    return told


def test_a_provider_that_this_build_lacks_is_explained_without_a_helper(tmp_path: Path) -> None:
    why = "this build of ONNX Runtime has no CUDA: it has CPU"
    assert explained(tmp_path, LOADING, []).fallback == FallbackReasons(why)


def test_a_provider_that_cannot_be_loaded_is_explained_by_the_loader(tmp_path: Path) -> None:
    assert explained(tmp_path, LOADING, BUILT).fallback == FallbackReasons(LIBRARY)


@pytest.mark.parametrize(
    ("ran_on", "is_explained"),
    [({"CUDA", "CPU"}, True), ({"CPU"}, True), ({"CUDA"}, False), (set(), False)],
)
def test_operators_that_fell_back_are_explained(
    ran_on: set[str], is_explained: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session that has CUDA; the helper reads the log."""
    adapter = OnnxRuntime()
    adapter._spec = {"providers": [("CUDA", {})]}
    adapter._session = SimpleNamespace(get_providers=lambda: [*BUILT, "CPUExecutionProvider"])
    closed = []
    reasons, left_out = read_reasons(CUDA.splitlines())
    helper = SimpleNamespace(
        burst=lambda _: {"reasons": reasons, "left_out": left_out}, close=lambda: closed.append(True)
    )
    monkeypatch.setattr(onnx, "open_helper", lambda *_: helper)
    found = adapter.explain_fallback(ran_on, lambda: False)
    assert found == ({"reasons": reasons, "left_out": ""} if is_explained else None)
    assert closed == ([True] if is_explained else [])


def test_what_comes_from_an_engine_is_short() -> None:
    told = {"left_out": "x\n" * 500, "reasons": {f"reason {n}\x1b" + "y" * 500: n for n in range(50)}}
    payload = {"way": "", "reason": "", "operators": [], "fallback": told}
    (message,) = decode([(message_frames.PROFILER, json.dumps(payload).encode())]).messages
    assert isinstance(message, ProfilerChosen)
    assert message.fallback is not None
    assert len(message.fallback.left_out) <= 240
    assert len(message.fallback.reasons) == MAX_REASONS
    assert max(map(len, message.fallback.reasons)) <= 240


def test_words_say_that_the_runtime_gives_no_reason() -> None:
    assert fallback_words(FallbackReasons()) == "the runtime gives no reason why operators fell back"
    both = FallbackReasons("no library", {"not found: Pad": 2, "whole": 0})
    assert fallback_words(both) == "not on the requested provider: no library; not found: Pad (2 operators); whole"
