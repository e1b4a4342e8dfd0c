"""The model that edgetop brings along, for a first look on a board that has none.

It recognises nothing: its weights are seeded noise in the shape of a real MobileNet, so that
it costs what an image classifier of its size costs. `tests/support/built_models/demo.py` of the
repository writes both files anew.
"""

from pathlib import Path

FORMATS = ("onnx", "tflite")


def model_path(format: str = "onnx") -> Path:  # noqa: A002 - the word edgetop uses for it everywhere
    """Provide the shipped model as a file. `format`: "onnx" or "tflite"."""
    return Path(__file__).parent / f"demo.{format}"
