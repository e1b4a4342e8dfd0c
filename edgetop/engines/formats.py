"""What kind of model a file is, told by its content and not only by its suffix.

TFLite: a FlatBuffer with the file identifier "TFL3" (tensorflow/lite/schema/schema.fbs);
ONNX Runtime's own format: "ORTM" (onnxruntime/core/flatbuffers/schema/ort.fbs). ONNX: a
protobuf ModelProto without a magic number, so its top-level fields are walked
(onnx/onnx.proto; wire format: https://protobuf.dev/programming-guides/encoding/).
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from edgetop.errors import InputError

SUFFIXES = {".onnx": "onnx", ".ort": "onnx", ".tflite": "tflite", ".lite": "tflite"}

_VARINT, _LENGTH_DELIMITED = 0, 2
_MODEL_FIELDS = {  # number to wire type, of ModelProto, onnx 1.23
    **dict.fromkeys((1, 5), _VARINT),
    **dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), _LENGTH_DELIMITED),
}
# ir_version, graph, opset_import: no model can do without them (onnx/docs/IR.md), and the last of
# them is written after the graph, so that a file which was cut there is told too.
_REQUIRED = {1, 7, 8}


@dataclass(frozen=True, slots=True)
class ModelFile:
    path: Path
    format: str  # "onnx" or "tflite"
    size_bytes: int
    misnamed: bool  # its suffix says another format


def identify(path: Path) -> ModelFile:
    """Raises InputError for what is no ONNX or TFLite model, or cannot be read.

    A TFLite file that is cut short is left to the runtime, which verifies the FlatBuffer.
    """
    if not _is_utf8(path):
        raise InputError(f"{path}: its name is not UTF-8, which runtimes want", "rename it")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a named pipe would wait for who writes to it
            what = "is a folder" if stat.S_ISDIR(status.st_mode) else "is not a file"
            raise InputError(f"{path}: {what}", "give a .onnx or .tflite file")
        size = status.st_size
        with path.open("rb") as file:
            found = _identify(file, size)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if found is None:
        what = "is empty" if size == 0 else "is neither an ONNX nor a TFLite model, or is cut short"
        raise InputError(f"{path}: {what}")
    suffix = SUFFIXES.get(path.suffix.lower())
    return ModelFile(path, found, size, misnamed=suffix is not None and suffix != found)


def _is_utf8(path: Path) -> bool:
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        return False
    return True


def _identify(file: BinaryIO, size: int) -> str | None:
    head = file.read(8)
    if head[4:8] == b"TFL3":
        return "tflite"
    if head[4:8] == b"ORTM" or _is_onnx(file, size):
        return "onnx"
    return None


def _is_onnx(file: BinaryIO, size: int) -> bool:
    """Whether the file is, from end to end, fields of a ModelProto, and all those that a model must have."""
    position, missing = 0, set(_REQUIRED)
    while position < size:
        file.seek(position)
        head = file.read(20)
        tag, used = _varint(head)
        field, wire_type = tag >> 3, tag & 7
        if used == 0 or _MODEL_FIELDS.get(field) != wire_type:
            return False
        value, value_used = _varint(head[used:])
        if value_used == 0:
            return False
        missing.discard(field)
        position += used + value_used + (value if wire_type == _LENGTH_DELIMITED else 0)
    return not missing and position == size


def _varint(data: bytes) -> tuple[int, int]:
    """The value and how many bytes it took; (0, 0) where there is none."""
    value = 0
    for i, byte in enumerate(data[:10]):
        value |= (byte & 0x7F) << (7 * i)
        if not byte & 0x80:
            return value, i + 1
    return 0, 0
