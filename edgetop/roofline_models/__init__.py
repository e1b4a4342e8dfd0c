"""The model that finds out what a board can do at most: one operator that only moves, one that only computes.

It runs through the runtime that the user's models run through, so its ceilings are what that
can reach. `tests/support/built_models/probe.py` of the repository writes both files anew.
"""

from pathlib import Path

# The names of its operators.
COPY, MULTIPLY = "copy", "multiply"


def probe_path(model_format: str) -> Path:
    """`model_format`: "onnx" or "tflite"."""
    return Path(__file__).parent / f"probe.{model_format}"
