"""From a path to a model: the file is mapped, not loaded, so that its size does not matter."""

import mmap
from pathlib import Path

from edgetop.errors import InputError
from edgetop.models.graph import Model
from edgetop.models.limits import MalformedError
from edgetop.models.onnx_file import read_onnx
from edgetop.models.tflite_file import read_tflite

READERS = {"onnx": read_onnx, "tflite": read_tflite}


def read_model(path: Path, fmt: str) -> Model:
    """The model in a file of format "onnx" or "tflite". Raises InputError for one that cannot be read."""
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:
        raise InputError(f"{path}: is empty") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if bytes(data[4:8]) == b"ORTM":
        raise InputError(
            f"{path}: ONNX Runtime's own format cannot be read without it", "inspect the .onnx file it was made from"
        )
    try:
        return READERS[fmt](data)
    except MalformedError as error:
        raise InputError(f"{path}: it holds {error}", "the file is damaged or incomplete: get it again") from None
