"""The runtimes: which one is taken and why, and what is particular to each."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from onnx import load_from_string, save

from edgetop.engines.child.adapters import RUNTIMES, choose
from edgetop.engines.child.adapters.onnx import OnnxRuntime
from edgetop.engines.child.adapters.onnx_wire import without_zero_dimensions
from edgetop.engines.child.child_program import run_model
from edgetop.engines.child.engine_error import EngineError
from edgetop.engines.child.loop import Control
from edgetop.engines.child.profilers import Allowance, onnx_runs
from edgetop.engines.child.record_outlet import Outlet
from edgetop.engines.decode import decode
from edgetop.engines.engine_protocol import Ended, Failed, Loaded, ProfilerChosen
from edgetop.recording.kept_outputs import read_outputs
from tests.support import onnx_models, tflite_models
from tests.support.delegates import claiming_delegate
from tests.support.engine_runs import Heard, spec_for

pytestmark = pytest.mark.slow


@pytest.fixture
def onnx(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.onnx"
    path.write_bytes(onnx_models.onnx_tiny())
    return path


@pytest.fixture
def tflite(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.tflite"
    path.write_bytes(tflite_models.tflite_tiny())
    return path


def run(model: Path, **options: Any) -> Heard:
    """Here and now: neither process nor thread."""
    outlet = Outlet()
    run_model(spec_for(model, **options).to_json(), outlet, Control())
    return Heard(messages=list(decode(outlet.take()).messages))


def installed(monkeypatch: pytest.MonkeyPatch, folder: Path, *modules: str) -> None:
    """Makes this interpreter find just these runtimes, each an empty module, and none that it has."""
    for _, module, *_ in RUNTIMES.values():
        monkeypatch.delitem(sys.modules, module, raising=False)
    for module in modules:
        (folder / f"{module}.py").touch()
    monkeypatch.setattr(sys, "path", [str(folder)])


def test_the_only_runtime_there_is_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, "ai_edge_litert")
    adapter, why = choose("auto", "tflite")
    assert (adapter.name, why) == ("litert", "the only one installed")


def test_the_first_runtime_is_used_and_the_others_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, "ai_edge_litert", "tflite_runtime")
    adapter, why = choose("auto", "tflite")
    assert (adapter.name, why) == ("litert", "taken before tflite-runtime")


def test_the_runtime_that_is_asked_for_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed(monkeypatch, tmp_path, "ai_edge_litert", "tflite_runtime")
    adapter, why = choose("tflite-runtime", "tflite")
    assert (adapter.name, why) == ("tflite-runtime", "asked for")


@pytest.mark.parametrize("engine", ["auto", "litert"])
def test_a_missing_runtime_names_interpreter_and_remedy(
    engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, tmp_path)
    with pytest.raises(EngineError) as raised:
        choose(engine, "tflite")
    assert raised.value.stage == "runtime"
    assert sys.executable in raised.value.message
    assert "-m pip install ai-edge-litert" in raised.value.advice
    assert "--engine-python" in raised.value.advice


def test_a_runtime_that_is_too_old_for_numpy_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tflite: Path
) -> None:
    """The environment of the tests has numpy 2, for which no tflite-runtime was ever built."""
    installed(monkeypatch, tmp_path, "tflite_runtime")
    failed = run(tflite).one(Failed)
    assert failed.stage == "runtime"
    assert "tflite-runtime needs numpy<2, and numpy 2" in failed.message
    assert "--engine-python" in failed.advice


@pytest.mark.parametrize("name", ["CPU", "cpu", "CPUExecutionProvider"])
def test_a_provider_goes_by_its_short_name_too(name: str, onnx: Path) -> None:
    loaded = run(onnx, providers=((name, {}),)).one(Loaded)
    assert (loaded.providers, loaded.dropped_providers) == (("CPU",), ())


def test_a_provider_that_is_not_built_in_is_reported(onnx: Path) -> None:
    loaded = run(onnx, providers=(("CUDA", {"device_id": "0"}), ("CPU", {}))).one(Loaded)
    assert (loaded.providers, loaded.dropped_providers) == (("CPU",), ("CUDA",))


def test_an_unknown_provider_is_refused_with_the_valid_ones(onnx: Path) -> None:
    failed = run(onnx, providers=(("CUDDA", {}),)).one(Failed)
    assert "--provider CUDDA" in failed.message
    assert "CPU" in failed.advice


@pytest.mark.parametrize("build", [onnx_models.onnx_zero_batch, tflite_models.tflite_zero_batch])
def test_a_batch_of_zero_in_the_file_is_a_free_one(build: Callable[[], bytes], tmp_path: Path) -> None:
    name = build.__name__
    path = tmp_path / f"zero.{name[: name.index('_')]}"
    path.write_bytes(build())
    loaded, larger = (run(path, runs=2, batch=batch).one(Loaded) for batch in (None, 3))
    (sentence,) = loaded.assumptions
    assert "where 0 stands for an unknown size: it runs as [1," in sentence
    assert ([one.inputs[0].shape[0] for one in (loaded, larger)], larger.assumptions) == ([1, 3], ())
    empty = run(path, runs=2, shapes={"x": (0, *loaded.inputs[0].shape[1:])}).one(Loaded)
    assert "has no element" in empty.assumptions[0]


def test_a_batch_of_zero_is_free_beside_weights_in_another_file(tmp_path: Path) -> None:
    path = tmp_path / "zero.onnx"
    model = load_from_string(onnx_models.onnx_zero_batch())
    save(model, path, save_as_external_data=True, location="zero.bin", size_threshold=0)
    assert run(path, runs=2).one(Loaded).inputs[0].shape == (1, 4, 8)


@pytest.mark.parametrize("data", [b"", b"\x3a\x7f", b"\xff" * 40, bytes(200), b"\x3a\x02\x5a\x7f", b"\x0f"])
def test_a_file_that_is_no_message_is_left_as_it_is(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.onnx").write_bytes(data)
    assert without_zero_dimensions(str(tmp_path / "x.onnx")) in (None, data)
    assert without_zero_dimensions(str(tmp_path)) is None


def test_a_batch_that_is_fixed_inside_the_model_is_refused_in_a_line(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_models.onnx_fixed_inside())
    failed = run(path, batch=4).one(Failed)
    words = "--batch 4: the model does not run with it: Reshape: The input tensor cannot be reshaped to the requested"
    assert failed.message.startswith(words)
    assert "cc:" not in failed.message
    assert "\n" not in failed.message
    assert (failed.stage, failed.advice[:27]) == ("input", "its batch is fixed inside: ")
    assert run(path, batch=1).one(Loaded)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    path = tmp_path / "two.tflite"
    path.write_bytes(tflite_models.two_signatures())
    return path


@pytest.mark.parametrize("providers", [(), (("CPU", {}),)])
def test_a_signature_runs_its_graph_and_no_other(encoder: Path, tmp_path: Path, providers: Any) -> None:
    code = np.array([[1.0, -2.0, 0.5, 3.0]], np.float32)
    np.save(tmp_path / "code.npy", code)
    kept: dict[str, Any] = {
        "keep_outputs": 1, "outputs_file": str(tmp_path / "outputs.npz"), "xnnpack": not providers,
        "inputs": {"code": str(tmp_path / "code.npy")}, "runs": 3, "providers": providers,
    }  # fmt: skip
    loaded = run(encoder, signature="decode", **kept).one(Loaded)
    assert (loaded.signature, loaded.signatures, loaded.other_signatures) == ("decode", ("encode", "decode"), ())
    assert loaded.inputs[0].name == "code"
    outputs = read_outputs(tmp_path)
    assert outputs
    expected = Interpreter(str(encoder)).get_signature_runner("decode")(code=code)["y"]
    assert outputs.outputs[0].name == "y"
    assert np.allclose(outputs.numbers(0, 0), expected, atol=1e-5)


def test_without_a_request_the_first_graph_runs_and_that_is_known(encoder: Path) -> None:
    loaded = run(encoder, runs=2).one(Loaded)
    assert (loaded.signature, loaded.other_signatures, loaded.inputs[0].name) == ("encode", ("decode",), "x")
    larger = run(encoder, runs=2, signature="decode", shapes={"code": (3, 4)}).one(Loaded)
    assert larger.inputs[0].shape == (3, 4)


def test_an_unknown_signature_is_refused_with_those_that_there_are(encoder: Path, onnx: Path) -> None:
    failed = run(encoder, signature="encoder").one(Failed)
    assert (failed.stage, failed.message) == (
        "input", "--signature encoder: the model has no such signature; it has encode, decode"
    )  # fmt: skip
    assert "--signature is for TFLite models" in run(onnx, signature="x").one(Failed).message


def test_outputs_of_a_type_that_numpy_lacks_are_no_error(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_models.bfloat16_output())
    np.save(tmp_path / "x.npy", np.array([[1, 2, 3.5, -4]], np.float32))
    kept: dict[str, Any] = {"keep_outputs": 1, "outputs_file": str(tmp_path / "outputs.npz")}
    heard = run(path, runs=5, inputs={"x": str(tmp_path / "x.npy")}, profile_every_ns=1, **kept)
    assert heard.one(Ended).reason == "runs"
    outputs = read_outputs(tmp_path)
    assert outputs
    assert [outputs.numbers(0, place).tolist() for place in (0, 1)] == [[[1, 2, 3.5, -4]], [[1, 2, 3.5, 0]]]


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
@pytest.mark.parametrize("words", [["hé", "b", ""], [b"h\xc3\xa9", b"b", b"c"]])
def test_text_comes_from_the_users_array(kind: str, words: list[Any], tmp_path: Path) -> None:
    path = tmp_path / f"m.{kind}"
    path.write_bytes(getattr(onnx_models if kind == "onnx" else tflite_models, f"{kind}_string_input")())
    np.save(tmp_path / "words.npy", np.array(words))
    heard = run(path, runs=3, inputs={"words": str(tmp_path / "words.npy")})
    assert (heard.one(Loaded).inputs[0].dtype, heard.one(Ended).reason) == ("string", "runs")
    failed = run(path, inputs={"words": "zeros"}).one(Failed)
    assert failed.message == "input words holds text, which cannot be made up without a length"
    np.save(tmp_path / "words.npy", np.array([b"\xff", b"b", b"c"]))
    assert "no text in UTF-8" in run(path, inputs={"words": str(tmp_path / "words.npy")}).one(Failed).message


def ids_of(model: bytes, path: Path) -> dict[str, int]:
    path.write_bytes(model)
    adapter, _ = choose("auto", path.suffix[1:])
    adapter.open(spec_for(path).to_json())
    return {one.name: one.ids_below for one in adapter.inputs}


def test_random_ids_lie_in_the_table_that_they_index(tmp_path: Path) -> None:
    """`kinds` has 2 rows, `words` more than a random id could name."""
    assert ids_of(onnx_models.onnx_embeddings(), tmp_path / "m.onnx") == {"ids": 100, "kinds": 2, "places": 7}
    assert ids_of(tflite_models.tflite_embeddings(), tmp_path / "m.tflite") == {"ids": 100, "kinds": 2}
    for name in ("m.onnx", "m.tflite"):
        assert run(tmp_path / name, runs=3).one(Ended).reason == "runs"


def test_xnnpack_is_told_where_it_runs_operators(tflite: Path, tmp_path: Path) -> None:
    assert run(tflite).one(Loaded).providers == ("XNNPACK", "CPU")
    integers = tmp_path / "integers.tflite"
    integers.write_bytes(tflite_models.tflite_two_inputs())
    assert run(integers).one(Loaded).providers == ("CPU",)


def test_xnnpack_that_takes_no_operator_was_asked_for_in_vain(tflite: Path, tmp_path: Path) -> None:
    assert run(tflite, providers=(("xnnpack", {}),)).one(Loaded).dropped_providers == ()
    integers = tmp_path / "integers.tflite"
    integers.write_bytes(tflite_models.tflite_two_inputs())
    assert run(integers, providers=(("xnnpack", {}),)).one(Loaded).dropped_providers == ("xnnpack",)


def test_a_library_that_is_no_delegate_is_refused(tflite: Path) -> None:
    failed = run(tflite, delegates=(("libm.so.6", {}),)).one(Failed)
    assert failed.stage == "input"
    assert "--delegate libm.so.6" in failed.message
    assert "tflite_plugin_create_delegate" in failed.message


@pytest.mark.parametrize(
    ("threads", "providers", "shares"),
    [(2, ["CPU"], True), (0, ["CPU"], True), (1, ["CPU"], False), (2, ["CUDA", "CPU"], False)],
)
def test_threads_share_loops_only_on_the_cpu(threads: int, providers: list[str], shares: bool) -> None:
    adapter = OnnxRuntime()
    adapter._spec = {"threads": threads}
    adapter._session = SimpleNamespace(get_providers=lambda: [f"{name}ExecutionProvider" for name in providers])
    assert adapter._shares_loops() is (shares and len(os.sched_getaffinity(0)) > 1)


def test_a_fast_threaded_model_is_profiled_in_a_helper(onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_runs, "FAST_NS", 10**18)  # it is fast, whatever this machine takes for it
    heard = run(onnx, threads=2, runs=1, profile_every_ns=10**9)
    chosen = heard.one(ProfilerChosen)
    expected = len(os.sched_getaffinity(0)) > 1 or "older than" in chosen.reason
    assert (chosen.way == "a profiled session in a helper process") is expected


# LiteRT's own accelerators, and XNNPACK switched off.


def failure(model: Path, **options: Any) -> Failed:
    return run(model, engine="litert", runs=3, **options).one(Failed)


def provider(name: str, **options: str) -> tuple[tuple[str, dict[str, str]], ...]:
    return ((name, options),)


@pytest.mark.parametrize(
    ("providers", "words"),
    [
        (provider("TPU"), "--provider TPU: LiteRT has no such accelerator"),
        (provider("GPU", frob="1"), "no such option: frob"),
        (provider("NPU", frob="1"), "no such option: frob"),
        (provider("CPU", frob="1"), "--provider CPU: takes no options"),
    ],
)
def test_an_unknown_litert_accelerator_or_option_is_refused(
    tflite: Path, tmp_path: Path, providers: Any, words: str
) -> None:
    if providers[0][0] == "NPU":
        providers = provider("NPU", **providers[0][1], dispatch_library_path=str(npu_library(tmp_path)))
    failed = failure(tflite, providers=providers)
    assert failed.is_input_error
    assert words in failed.message


def test_an_npu_without_a_loadable_library_is_refused(tflite: Path, tmp_path: Path) -> None:
    none = failure(tflite, providers=provider("NPU", dispatch_library_path=str(tmp_path)))
    assert none.is_input_error
    assert "has no library of an NPU" in none.message
    (tmp_path / "libLiteRtDispatch_Broken.so").write_bytes(b"no library")
    broken = failure(tflite, providers=provider("npu", dispatch_library_path=str(tmp_path)))
    assert "libLiteRtDispatch_Broken.so cannot be loaded" in broken.message


def npu_library(folder: Path) -> Path:
    """A folder with a library that can be loaded, and is none of an NPU."""
    claiming_delegate(folder).rename(folder / "libLiteRtDispatch_Idle.so")
    return folder


def test_a_partly_accelerated_model_says_that_the_cpu_helps(tflite: Path, tmp_path: Path) -> None:
    asked = provider("NPU", dispatch_library_path=str(npu_library(tmp_path)))
    heard = run(tflite, engine="litert", runs=3, providers=asked, profile_every_ns=10**9)
    loaded = heard.one(Loaded)
    assert loaded.providers == ("NPU", "XNNPACK", "CPU")
    assert "has not every operator of the model for the NPU: the rest, or all of it, runs on the CPU" in loaded.left
    assert not loaded.whole
    assert "LiteRT reports no operators" in heard.one(ProfilerChosen).reason
    assert not [message for message in heard.messages if isinstance(message, Failed)]
    whole = failure(tflite, providers=asked, whole=True)
    assert whole.is_input_error
    assert "has not every operator of the model for it" in whole.message


def test_the_cpu_provider_of_litert_is_an_interpreter(tflite: Path) -> None:
    assert run(tflite, engine="litert", runs=3, providers=provider("cpu")).one(Loaded).providers[-1] == "CPU"


def test_without_xnnpack_it_is_not_among_the_providers(tmp_path: Path) -> None:
    path = tmp_path / "mobile.tflite"
    path.write_bytes(tflite_models.tflite_mobile())
    assert run(path, engine="litert", runs=3).one(Loaded).providers == ("XNNPACK", "CPU")
    heard = run(path, engine="litert", runs=3, xnnpack=False, profile_every_ns=10**9)
    assert heard.one(Loaded).providers == ("CPU",)
    assert {operator.provider for operator in heard.one(ProfilerChosen).operators} == {"CPU"}


def test_onnx_runtime_has_no_xnnpack_to_leave_out(onnx: Path) -> None:
    assert "--no-xnnpack is for TFLite models" in run(onnx, runs=3, xnnpack=False).one(Failed).message


@pytest.mark.parametrize(("provider", "is_loaded"), [("CUDA", True), ("Tensorrt", True), ("CPU", False)])
def test_cuda_libraries_are_loaded_only_for_nvidias_providers(
    provider: str, is_loaded: bool, onnx: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def preload_dlls() -> None:
        calls.append(provider)
        print("Failed to load libcudnn.so.9")

    present = [f"{name}ExecutionProvider" for name in ("Tensorrt", "CUDA", "CPU")]
    monkeypatch.setattr("onnxruntime.preload_dlls", preload_dlls, raising=False)
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: present)
    OnnxRuntime().open(spec_for(onnx, providers=((provider, {}),)).to_json())
    assert bool(calls) == is_loaded
    assert capsys.readouterr().out == ""


def profiled_on(onnx: Path, *providers: str) -> list[Any]:
    """The ways to time the operators of a session that has these providers, the best first."""
    adapter = OnnxRuntime()
    adapter.open(spec_for(onnx, threads=1).to_json())
    adapter._session = SimpleNamespace(get_providers=lambda: [f"{name}ExecutionProvider" for name in providers])  # type: ignore[attr-defined]
    return list(adapter.profilers())


@pytest.mark.parametrize(
    ("providers", "switch"),
    [(("CUDA", "CPU"), "CUDA_LAUNCH_BLOCKING"), (("ROCM", "CPU"), "HIP_LAUNCH_BLOCKING")],
)
def test_operators_on_a_gpu_are_timed_where_each_kernel_is_waited_for(
    onnx: Path, providers: tuple[str, ...], switch: str
) -> None:
    (make,) = profiled_on(onnx, *providers)
    profiler = make()
    try:
        assert profiler.way == "a profiled session in a helper process, which waits for each kernel on the GPU"
        assert f"{switch}=1" in Path(f"/proc/{profiler.process_id}/environ").read_text("utf-8").split("\0")
        assert profiler.burst(Allowance(0, lambda: False))["operators"]
    finally:
        profiler.close()


def test_a_profiler_that_cannot_wait_for_the_gpu_says_so(onnx: Path) -> None:
    (make,) = profiled_on(onnx, "WebGpu", "CPU")
    assert make().way.endswith("; operators on the GPU have the time of launching them")


def test_nobody_waits_where_there_is_no_gpu(onnx: Path) -> None:
    direct, helper = profiled_on(onnx, "CPU")
    assert "launching" not in direct().way
    profiler = helper()
    profiler.close()
    assert profiler.way == "a profiled session in a helper process"
