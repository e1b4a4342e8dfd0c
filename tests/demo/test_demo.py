"""The shipped demo model: what tests/support/built_models makes, and the same network in both formats."""

import filecmp
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

from edgetop.demo import model_path
from tests.support.built_models import demo

Image = NDArray[np.float32]

MAX_BYTES = 1_200_000
FORMATS = ("onnx", "tflite")


def noise_image(seed: int) -> Image:
    """An image of uniform noise, channels first."""
    return np.random.RandomState(seed).random_sample((1, 3, 224, 224)).astype(np.float32)


def run_onnx(image: Image) -> Any:
    session = onnxruntime.InferenceSession(model_path("onnx"), providers=["CPUExecutionProvider"])
    return session.run(["probabilities"], {"image": image})[0]


def run_tflite(image: Image) -> Any:
    interpreter = Interpreter(str(model_path("tflite")))
    interpreter.allocate_tensors()
    (taken,), (given,) = interpreter.get_input_details(), interpreter.get_output_details()
    interpreter.set_tensor(taken["index"], np.ascontiguousarray(image.transpose(0, 2, 3, 1)))
    interpreter.invoke()
    return interpreter.get_tensor(given["index"])


@pytest.mark.parametrize("kind", FORMATS)
def test_the_shipped_file_is_what_build_makes(kind: str, tmp_path: Path) -> None:
    assert demo.main(["--out", str(tmp_path)]) == 0
    assert filecmp.cmp(tmp_path / f"demo.{kind}", model_path(kind), shallow=False)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_file_is_small_enough_to_ship(kind: str) -> None:
    assert model_path(kind).stat().st_size <= MAX_BYTES


@pytest.mark.parametrize("run", [run_onnx, run_tflite])
def test_it_gives_probabilities(run: Callable[[Image], Any]) -> None:
    probabilities = run(noise_image(0))
    assert probabilities.shape == (1, 100)
    assert probabilities.min() >= 0
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("image", [noise_image(0), noise_image(1), np.zeros((1, 3, 224, 224), np.float32)])
def test_both_formats_give_the_same(image: Image) -> None:
    np.testing.assert_allclose(run_tflite(image), run_onnx(image), rtol=1e-3, atol=1e-4)


def test_the_image_matters() -> None:
    """Else the test above would pass for any weights."""
    assert np.abs(run_onnx(noise_image(0)) - run_onnx(np.zeros((1, 3, 224, 224), np.float32))).max() > 1e-3


def test_old_runtimes_can_load_the_onnx_file() -> None:
    model = onnx.load(model_path("onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert model.ir_version == 8
    assert [(opset.domain, opset.version) for opset in model.opset_import] == [("", 13)]
    assert model.producer_name == "edgetop"


def test_the_tflite_file_has_a_signature() -> None:
    signatures = Interpreter(str(model_path("tflite"))).get_signature_list()
    assert signatures == {"serving_default": {"inputs": ["image"], "outputs": ["probabilities"]}}


@pytest.mark.slow
def test_the_path_costs_no_build_dependency() -> None:
    program = "import sys, edgetop.demo; print({'onnx', 'flatbuffers', 'ai_edge_litert', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
