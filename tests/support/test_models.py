"""The models made to order do what each promises, in the runtimes themselves."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument

from tests.support import onnx_models, tflite_models

Builder = Callable[[], bytes]

NEEDED_WIDTH = 7


def builders(module: object, prefix: str) -> dict[str, Builder]:
    found = {name: getattr(module, name) for name in vars(module) if name.startswith(prefix)}
    if "onnx_needs_width" in found:
        found["onnx_needs_width"] = partial(found["onnx_needs_width"], NEEDED_WIDTH)
    return found


ONNX = builders(onnx_models, "onnx_")
TFLITE = builders(tflite_models, "tflite_")
REFUSED = {"onnx_unknown_operator", "tflite_custom_operator"}


def session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # fatal: the failures are wanted
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run_onnx(model: bytes, feeds: Mapping[str, object]) -> Any:
    quiet = onnxruntime.RunOptions()
    quiet.log_severity_level = 4
    return session(model).run(None, {name: np.asarray(value) for name, value in feeds.items()}, quiet)


def floats(*shape: int) -> NDArray[np.float32]:
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


class Running:
    """A TFLite model ready to be invoked; inputs by name, the one output as the result."""

    def __init__(self, model: bytes, **shapes: list[int]) -> None:
        self.interpreter = Interpreter(model_content=model)
        self.inputs = {detail["name"]: detail for detail in self.interpreter.get_input_details()}
        for name, shape in shapes.items():
            self.interpreter.resize_tensor_input(self.inputs[name]["index"], shape)
        self.interpreter.allocate_tensors()

    def __call__(self, feeds: Mapping[str, object]) -> Any:
        for name, array in feeds.items():
            self.interpreter.set_tensor(self.inputs[name]["index"], array)
        self.interpreter.invoke()
        return self.interpreter.get_tensor(self.interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize("build", [pytest.param(build, id=name) for name, build in (ONNX | TFLITE).items()])
def test_the_same_call_gives_the_same_bytes(build: Builder) -> None:
    assert build() == build()


@pytest.mark.parametrize("build", [pytest.param(build, id=name) for name, build in ONNX.items()])
def test_onnx_files_are_valid(build: Builder) -> None:
    model = onnx.load_from_string(build())
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 8


@pytest.mark.parametrize("build", [pytest.param(build, id=name) for name, build in ONNX.items() if name not in REFUSED])
def test_onnxruntime_loads_them(build: Builder) -> None:
    assert session(build()).get_inputs()


@pytest.mark.parametrize(
    "build", [pytest.param(build, id=name) for name, build in TFLITE.items() if name not in REFUSED]
)
def test_litert_runs_them(build: Builder) -> None:
    running = Running(build())
    running({name: np.ones(detail["shape"], detail["dtype"]) for name, detail in running.inputs.items()})


@pytest.mark.parametrize("build", [pytest.param(build, id=name) for name, build in TFLITE.items()])
def test_tflite_files_have_the_signature_of_their_tensors(build: Builder) -> None:
    interpreter = Interpreter(model_content=build())
    inputs = [detail["name"] for detail in interpreter.get_input_details()]
    outputs = [detail["name"] for detail in interpreter.get_output_details()]
    # The list of a signature is sorted by name.
    expected = {"serving_default": {"inputs": sorted(set(inputs)), "outputs": sorted(outputs)}}
    assert interpreter.get_signature_list() == expected


@pytest.mark.parametrize("build", [onnx_models.onnx_half_ms, onnx_models.onnx_ten_ms])
def test_a_long_chain_keeps_values_of_their_size(build: Builder) -> None:
    """Values that vanish would become denormals, which are slow on some processors and not on others."""
    (taken,) = session(build()).get_inputs()
    (y,) = run_onnx(build(), {"x": floats(*taken.shape)})
    assert 0.01 < y.std() < 100


def test_onnx_many_inputs_all_count() -> None:
    nothing: dict[str, NDArray[Any]] = {
        "image": np.zeros((1, 3, 4, 4), np.float32),
        "tokens": np.zeros(8, np.int64),
        "mask": np.zeros(8, np.bool_),
        "levels": np.zeros((2, 5), np.int8),
        "pixels": np.zeros((1, 6), np.uint8),
        "step": np.zeros((), np.int64),
    }
    assert run_onnx(onnx_models.onnx_many_inputs(), nothing) == [0]
    for name, array in nothing.items():
        (total,) = run_onnx(onnx_models.onnx_many_inputs(), nothing | {name: np.ones_like(array)})
        assert total == array.size


def test_onnx_dynamic_takes_any_image() -> None:
    model = onnx_models.onnx_dynamic()
    assert session(model).get_inputs()[0].shape == ["N", 3, "H", "W"]
    for shape in ((1, 3, 8, 8), (2, 3, 5, 17)):
        (y,) = run_onnx(model, {"x": floats(*shape)})
        assert y.shape == (shape[0], 8)


def test_onnx_needs_width_refuses_another() -> None:
    model = onnx_models.onnx_needs_width(NEEDED_WIDTH)
    assert session(model).get_inputs()[0].shape == ["N", "W"]
    (y,) = run_onnx(model, {"x": floats(2, NEEDED_WIDTH)})
    assert y.shape == (2, 4)
    with pytest.raises(Fail, match=r"MatMul.*project"):
        run_onnx(model, {"x": floats(2, NEEDED_WIDTH + 1)})


def test_onnx_stateful_hands_its_state_on() -> None:
    model, state = onnx_models.onnx_stateful(), np.zeros((1, 1, 16), np.float32)
    first, h, c = run_onnx(model, {"x": floats(1, 1, 8), "h": state, "c": state})
    second, _, _ = run_onnx(model, {"x": floats(1, 1, 8), "h": h, "c": c})
    assert not np.array_equal(first, second)


def test_onnx_string_input_takes_text() -> None:
    words = np.array(["edge", "top", ""], object)
    assert session(onnx_models.onnx_string_input()).get_inputs()[0].type == "tensor(string)"
    (same,) = run_onnx(onnx_models.onnx_string_input(), {"words": words})
    assert same.tolist() == words.tolist()


@pytest.mark.parametrize("name", ["Frobnicate", "Grok"])
def test_onnx_unknown_operator_is_named(name: str) -> None:
    with pytest.raises(Fail, match=name):
        session(onnx_models.onnx_unknown_operator(name))


def test_onnx_gather_fails_outside_its_table() -> None:
    (row,) = run_onnx(onnx_models.onnx_gather(), {"index": np.array([99])})
    assert row.shape == (1, 4)
    with pytest.raises(InvalidArgument, match=r"Gather.*idx=100"):
        run_onnx(onnx_models.onnx_gather(), {"index": np.array([100])})


def test_onnx_hostile_names_arrive_as_written() -> None:
    model = onnx_models.onnx_hostile_names()
    running = session(model)
    assert running.get_inputs()[0].name == onnx_models.HOSTILE_INPUT
    assert running.get_outputs()[0].name == onnx_models.HOSTILE_OUTPUT
    assert onnx.load_from_string(model).graph.node[0].name == onnx_models.HOSTILE_NODE
    (y,) = run_onnx(model, {onnx_models.HOSTILE_INPUT: floats(1, 4)})
    np.testing.assert_allclose(y, floats(1, 4) + 1)


def test_onnx_quantised_is_int8_within() -> None:
    model = onnx_models.onnx_quantised()
    (y,) = run_onnx(model, {"x": floats(1, 32)})
    weights = onnx.numpy_helper.to_array(
        next(i for i in onnx.load_from_string(model).graph.initializer if i.name == "weights/int8")
    )
    assert weights.dtype == np.int8
    np.testing.assert_allclose(y, np.clip(floats(1, 32) @ (weights / 63), -2, 127 / 64), atol=0.1)


def test_tflite_int8_computes_what_its_scales_say() -> None:
    running = Running(tflite_models.tflite_int8())
    (taken,), (given,) = running.interpreter.get_input_details(), running.interpreter.get_output_details()
    assert (taken["dtype"], taken["quantization"]) == (np.int8, (1 / 64, -3))
    assert (given["dtype"], given["quantization"]) == (np.int8, (1 / 8, 5))
    x = np.arange(-64, 64, 4, dtype=np.int8).reshape(1, 32)
    weights = (onnx_models.noise(8, 32) * 127).astype(np.int8) / 127
    expected = (x + 3.0) / 64 @ weights.T + np.arange(-400, 400, 100) / 64 / 127
    np.testing.assert_allclose((running({"x": x}) - 5.0) / 8, expected, atol=0.1)


def test_tflite_dynamic_batch_takes_any() -> None:
    model = tflite_models.tflite_dynamic_batch()
    assert Running(model).inputs["x"]["shape_signature"].tolist() == [-1, 8]
    assert Running(model, x=[3, 8])({"x": floats(3, 8)}).shape == (3, 4)


def test_tflite_two_inputs_both_count() -> None:
    running = Running(tflite_models.tflite_two_inputs())
    counts = np.arange(8, dtype=np.int32).reshape(1, 8)
    chosen = running({"counts": counts, "mask": counts > 5})
    assert chosen.tolist() == [[-1, -1, -1, -1, -1, -1, 6, 7]]


def test_tflite_scalar_has_no_dimensions() -> None:
    running = Running(tflite_models.tflite_scalar())
    assert running.inputs["x"]["shape"].tolist() == []
    assert running({"x": np.array(2, np.float32)}).tolist() == [0, 2, 4, 6]


def test_tflite_stateful_remembers() -> None:
    running = Running(tflite_models.tflite_stateful())
    ones = np.ones((1, 4), np.float32)
    assert [running({"x": ones})[0, 0] for _ in range(3)] == [1, 2, 3]
    assert Running(tflite_models.tflite_stateful())({"x": ones})[0, 0] == 1


@pytest.mark.parametrize("name", ["Frobnicate", "Grok"])
def test_tflite_custom_operator_is_named(name: str) -> None:
    with pytest.raises(RuntimeError, match=name):
        Running(tflite_models.tflite_custom_operator(name))


def test_tflite_hostile_names_arrive_as_written() -> None:
    running = Running(tflite_models.tflite_hostile_names())
    assert list(running.inputs) == [tflite_models.HOSTILE_INPUT]
    assert running.interpreter.get_output_details()[0]["name"] == tflite_models.HOSTILE_OUTPUT
