"""The model that edgetop brings along, for a first look on a board that has none.

It recognises nothing: its weights are random numbers from a fixed seed. Its layers have the shapes of a real MobileNet,
so it takes as long as an image classifier of that size. `tests/support/built_models/demo.py` of the repository writes
both files.
"""

from pathlib import Path

FORMATS = ("onnx", "tflite")


def model_path(format: str = "onnx") -> Path:  # noqa: A002 - the word edgetop uses for it everywhere
    """Return the path of the demo model's file. `format` is "onnx" or "tflite"."""
    return Path(__file__).parent / f"demo.{format}"
