"""OpenVINO runs what it says: results, shapes, precision, operators, and what it refuses."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset13

from edgetop.engines.child.adapters import choose
from edgetop.engines.child.adapters.openvino_engine import essence
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.engine_protocol import BurstTaken, Ended, Failed, Loaded
from edgetop.engines.process_engine import ProcessEngine
from edgetop.engines.spec import EngineSpec
from tests.support import onnx_models
from tests.support.engine_runs import run_until_a_burst, run_whole

WEIGHTS = np.linspace(-1, 1, 4 * 3 * 9, dtype=np.float32).reshape(4, 3, 3, 3)


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a convolution with a batch that is open."""
    x = opset13.parameter([-1, 3, 8, 8], np.float32, name="x")
    x.output(0).set_names({"x"})
    y = opset13.relu(opset13.convolution(x, opset13.constant(WEIGHTS), [1, 1], [1, 1], [1, 1], [1, 1]))
    y.output(0).set_names({"y"})
    path = tmp_path_factory.mktemp("ir") / "net.xml"
    openvino.save_model(openvino.Model([opset13.result(y)], [x], "net"), path, compress_to_fp16=False)
    return path


def opened(path: Path, providers: Any = (), **more: Any) -> Any:
    adapter, _ = choose("openvino", "openvino")
    adapter.open({"model": str(path), "threads": 1, "providers": providers, "delegates": [], "xnnpack": True, **more})
    return adapter


F32 = [("CPU", {"INFERENCE_PRECISION_HINT": "f32"})]


def test_it_computes_what_the_model_says(net: Path) -> None:
    adapter = opened(net, F32)
    assert [(one.name, one.shape, one.dtype_name) for one in adapter.inputs] == [("x", [None, 3, 8, 8], "float32")]
    adapter.reshape({"x": [2, 3, 8, 8]})
    x = np.random.default_rng(0).random((2, 3, 8, 8), np.float32)
    ((name, y, _, _),) = adapter.outputs(adapter.bind({"x": x})())
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    assert name == "y"
    np.testing.assert_allclose(y, np.maximum(np.einsum("nchwij,ocij->nohw", windows, WEIGHTS), 0), rtol=1e-4, atol=1e-4)


def test_it_says_what_it_really_uses(net: Path) -> None:
    adapter = opened(net, F32)
    adapter.reshape({"x": [1, 3, 8, 8]})
    described = adapter.describe()
    assert described["providers"] == ["CPU"]
    assert described["settings"]["precision"] == "f32"
    assert described["settings"]["threads"] == "1"


def test_another_stream_has_a_request_of_its_own(net: Path) -> None:
    import copy

    adapter = opened(net, F32, streams=2)
    adapter.reshape({"x": [1, 3, 8, 8]})
    other = copy.copy(adapter)
    zeros, ones = (np.full((1, 3, 8, 8), value, np.float32) for value in (0, 1))
    first, second = adapter.bind({"x": zeros}), other.bind({"x": ones})
    (_, y_first, _, _), (_, y_second, _, _) = *adapter.outputs(first()), *other.outputs(second())
    assert not y_first.any()
    assert y_second.any()


def test_an_operators_time_is_that_of_one_inference(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO reports the mean since the model was compiled: of 1, 1 and 4 us it is 2 after the third."""
    adapter = opened(net, F32)
    adapter.reshape({"x": [1, 3, 8, 8]})
    adapter.bind({"x": np.zeros((1, 3, 8, 8), np.float32)})
    engine = adapter._engine
    means = iter((1.0, 1.0, 2.0))

    def totals() -> dict[tuple[str, str], float]:
        return {("conv", "Convolution"): next(means) * engine._counted}

    monkeypatch.setattr(engine, "_totals_us", totals)
    assert [adapter.profile()[1][0][3] for _ in range(2)] == [1_000, 4_000]


def test_times_of_single_inferences_add_up_to_that_of_all(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean that is cut to whole microseconds may fall. What an inference then lacks is subtracted from the next."""
    adapter = opened(net, F32)
    adapter.reshape({"x": [1, 3, 8, 8]})
    adapter.bind({"x": np.zeros((1, 3, 8, 8), np.float32)})
    engine = adapter._engine
    totals = iter((10.0, 8.0, 11.0, 12.5))
    monkeypatch.setattr(engine, "_totals_us", lambda: {("conv", "Convolution"): next(totals)})
    assert [adapter.profile()[1][0][3] for _ in range(3)] == [0, 1_000, 1_500]


def test_short_operators_do_not_take_longer_than_the_inference(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = opened(net, F32)
    adapter.reshape({"x": [1, 3, 8, 8]})
    adapter.bind({"x": np.zeros((1, 3, 8, 8), np.float32)})
    engine = adapter._engine
    each = {("first", "Relu"): 3e6, ("second", "Relu"): 1e6}
    monkeypatch.setattr(engine, "_totals_us", lambda: {key: us * engine._counted for key, us in each.items()})
    ns, operators = adapter.profile()
    assert sum(own_ns for *_, own_ns in operators) == ns
    assert operators[0][3] == pytest.approx(0.75 * ns, abs=2)
    assert operators[2][0] == "outside operators"
    assert operators[2][3] <= 2


def test_a_profiled_model_is_compiled_again(net: Path) -> None:
    adapter = opened(net, F32)
    adapter.reshape({"x": [1, 3, 8, 8]})
    adapter.bind({"x": np.zeros((1, 3, 8, 8), np.float32)})
    adapter.profile()
    first = adapter._engine._profiled
    for _ in range(22):
        adapter.profile()
    assert adapter._engine._profiled is not first
    assert adapter._engine._counted < 22


def test_it_runs_as_an_engine_with_its_operators(net: Path) -> None:
    told = run_until_a_burst(EngineSpec(str(net), "openvino", threads=1, warmup_runs=2, profile_every_ns=10**10))
    assert told.one(Loaded).runtime == "openvino"
    assert told.one(Ended).reason == "stop"
    assert "Convolution" in {operator.op_type for operator in told.all(BurstTaken)[0].operators}


def test_it_runs_onnx_when_it_is_asked_to(tmp_path: Path) -> None:
    path = tmp_path / "tiny.onnx"
    path.write_bytes(onnx_models.onnx_tiny())
    told = run_whole(ProcessEngine(EngineSpec(str(path), "onnx", engine="openvino", warmup_runs=1, runs=3)))
    assert told.one(Loaded).runtime == "openvino"
    assert told.one(Ended).reason == "runs"


def refused(path: Path, **options: Any) -> Failed:
    return run_whole(ProcessEngine(EngineSpec(str(path), "openvino", warmup_runs=1, runs=3, **options))).one(Failed)


def test_what_it_refuses_is_one_line(net: Path, tmp_path: Path) -> None:
    for name, data in (("cut.xml", net.read_bytes()[:900]), ("alone.xml", net.read_bytes())):
        (tmp_path / name).write_bytes(data)
        failed = refused(tmp_path / name)
        assert failed.stage == "model"
        assert failed.message.startswith(f"{tmp_path / name}: OpenVINO cannot read it: ")
        assert "Exception from" not in failed.message
    (tmp_path / "alone.bin").write_bytes(b"\0" * 8)
    assert "Incorrect weights" in refused(tmp_path / "alone.xml").message


def test_a_device_that_is_not_here_is_refused(net: Path) -> None:
    failed = refused(net, providers=(("NPU", {}),))
    assert failed.is_input_error
    assert failed.message == "--provider NPU: OpenVINO finds no such device here"
    assert "CPU" in failed.advice


def told(net: Path, *providers: Any) -> dict[str, Any]:
    adapter = opened(net, list(providers))
    adapter.reshape({"x": [1, 3, 8, 8]})
    described: dict[str, Any] = adapter.describe()
    return described


def test_auto_may_choose_and_says_what_it_chose(net: Path) -> None:
    """Nothing was dropped, and how the chosen device computes is known."""
    found = told(net, ("AUTO", {"PERFORMANCE_HINT": "THROUGHPUT"}))
    assert (found["providers"], found["asked"], found["dropped_providers"]) == (["CPU"], [], [])
    assert found["settings"].keys() >= {"precision", "streams", "threads"}
    assert (found["settings"]["device"], found["settings"]["hint"]) == ("AUTO", "throughput")


def test_devices_that_are_listed_are_requested_or_refused(net: Path) -> None:
    found = told(net, ("HETERO:CPU", {}))
    assert (found["providers"], found["asked"], found["settings"]["device"]) == (["CPU"], ["CPU"], "HETERO:CPU")
    assert "finds no such device" in refused(net, providers=(("HETERO:GPU,CPU", {}),)).message
    assert "device" not in told(net, ("CPU", {}))["settings"]


def test_the_only_gpu_is_called_as_it_was_requested(net: Path) -> None:
    engine = opened(net, [("CPU", {})])._engine
    engine._asked, engine._device = ["GPU"], "GPU"
    engine._compiled = SimpleNamespace(get_property=lambda _: ["GPU.0"])
    assert engine._devices() == ["GPU"]
    engine._asked, engine._device = ["GPU.1"], "GPU.1"
    assert engine._devices() == ["GPU.0"]


def test_compiling_is_timed_and_the_second_time_reads_the_cache(net: Path, tmp_path: Path) -> None:
    cached = ("CPU", {"CACHE_DIR": str(tmp_path / "cache")})
    first, second = told(net, cached), told(net, cached)
    assert (first["settings"]["cache"], second["settings"]["cache"]) == ("not read", "read")
    assert first["compile_ns"] > 0
    assert "cache" not in told(net, ("CPU", {}))["settings"]
    loaded = run_whole(ProcessEngine(EngineSpec(str(net), "openvino", warmup_runs=1, runs=1))).one(Loaded)
    assert loaded.init_ns is not None
    assert loaded.compile_ns is not None
    assert 0 < loaded.compile_ns < loaded.init_ns


def test_the_options_of_tflite_are_refused(net: Path) -> None:
    with pytest.raises(EngineError, match="--delegate is for"):
        opened(net, delegates=[("libx.so", {})])


def test_an_error_without_a_reason_keeps_its_text() -> None:
    assert essence("Check 'x > 0' failed at src/a.cpp:1:") == "Check 'x > 0' failed at src/a.cpp:1:"
