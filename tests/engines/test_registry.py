"""Engines by the names people use, refused where they do not fit the model."""

import subprocess
import sys

import pytest

from edgetop.engines.spec import engine_for
from edgetop.errors import InputError


@pytest.mark.parametrize("name", [None, "auto"])
@pytest.mark.parametrize("model_format", ["onnx", "tflite"])
def test_without_a_name_the_engine_is_chosen_later(name: str | None, model_format: str) -> None:
    assert engine_for(name, model_format) == "auto"


@pytest.mark.parametrize(
    ("name", "model_format", "canonical"),
    [
        ("onnxruntime", "onnx", "onnxruntime"),
        ("ort", "onnx", "onnxruntime"),
        ("ONNXRuntime", "onnx", "onnxruntime"),
        ("litert", "tflite", "litert"),
        ("ai-edge-litert", "tflite", "litert"),
        ("tflite-runtime", "tflite", "tflite-runtime"),
        ("tflite_runtime", "tflite", "tflite-runtime"),
        ("onnx", "onnx", "auto"),
        ("tflite", "tflite", "auto"),
    ],
)
def test_an_engine_goes_by_more_than_one_name(name: str, model_format: str, canonical: str) -> None:
    assert engine_for(name, model_format) == canonical


@pytest.mark.parametrize(
    ("name", "model_format", "said"),
    [
        ("onnxruntme", "onnx", "did you mean onnxruntime?"),
        ("tensorrt", "onnx", "onnxruntime"),
        ("litert", "onnx", "use onnxruntime"),
        ("onnx", "tflite", "use litert, tflite-runtime"),
    ],
)
def test_an_unfit_engine_is_refused_with_a_fit_one_named(name: str, model_format: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        engine_for(name, model_format)
    assert f"--engine {name}" in str(raised.value)
    assert said in str(raised.value)


@pytest.mark.slow
def test_naming_engines_imports_none() -> None:
    script = (
        "import sys; from edgetop.engines.spec import engine_for; engine_for('ort', 'onnx');"
        "print([m for m in sys.modules if m.split('.')[0] in ('numpy', 'onnxruntime', 'ai_edge_litert')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
