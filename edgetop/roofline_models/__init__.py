"""The models that find out what a board can do at most: one operator that only moves, one that only computes.

Two more models only compute on int8. They run through the runtime that the user's models run through, so the ceilings
are what that runtime can reach. `tests/support/built_models/probe.py` of the repository writes the files anew.
"""

from pathlib import Path

# The names of its operators.
COPY, MULTIPLY = "copy", "multiply"


def probe_path(model_format: str) -> Path:
    """Return the path of the model on float32. `model_format`: "onnx" or "tflite"."""
    return Path(__file__).parent / f"probe.{model_format}"


def int8_probe_path(model_format: str) -> Path:
    """Return the path of the model on int8, which only multiplies. `model_format`: "onnx" or "tflite"."""
    return Path(__file__).parent / f"probe-int8.{model_format}"
