"""Identify the format of a model file by its content.

- TFLite: a FlatBuffer with the file identifier "TFL3" (tensorflow/lite/schema/schema.fbs).
- ONNX Runtime's own format: a FlatBuffer with "ORTM" (onnxruntime/core/flatbuffers/schema/ort.fbs).
- A language model of llama.cpp: begins with "GGUF" (ggml/include/gguf.h).
- OpenVINO's IR: XML with the root `net` (openvino/docs/articles_en/documentation/openvino-ir-format).
- ncnn's param file: begins with a magic number in decimal digits
  (ncnn/docs/developer-guide/param-and-model-file-structure.md).
- ONNX: a protobuf ModelProto without a magic number, so its top-level fields are checked (onnx/onnx.proto; wire format:
  https://protobuf.dev/programming-guides/encoding/).

The weights of OpenVINO's and ncnn's models are in a .bin file beside the model file. A GGUF model may be split into
files named NAME-00001-of-00003.gguf (`llama_split_path` in llama.cpp/include/llama.h).
"""

import mmap
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from edgetop.engines.child.plugins import plugin_of_suffix
from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.models.gguf_file import MAGIC as GGUF_MAGIC
from edgetop.models.protobuf import fields
from edgetop.models.reading_limits import Budget, MalformedError

SUFFIXES = {
    ".onnx": "onnx",
    ".ort": "onnx",
    ".tflite": "tflite",
    ".lite": "tflite",
    ".gguf": "gguf",
    ".xml": "openvino",
    ".param": "ncnn",
}

# Fields of ModelProto in onnx 1.23: those that are numbers, and those that are texts or messages.
_NUMBERS, _MESSAGES = {1, 5}, {2, 3, 4, 6, 7, 8, 14, 20, 25, 26}
# ir_version, graph, opset_import: every model has them (onnx/docs/IR.md). The last one is written after the graph, so
# that a file cut short in the graph is recognised too.
_REQUIRED = {1, 7, 8}


_IDENTIFIERS = {b"TFL3": "tflite", b"ORTM": "onnx"}  # of a FlatBuffer, by the format that edgetop calls it

NCNN_MAGIC = b"7767517"
_IR = re.compile(rb"\s*(?:\xef\xbb\xbf)?(?:<\?xml[^>]*\?>)?\s*(?:<!--.*?-->\s*)*<net\b", re.DOTALL)
_SPLIT = re.compile(r"(.+)-\d{5}-of-(\d{5})\.gguf")
_HEAD = 4096  # bytes in which they must be

# Beginning of the file that Git LFS leaves in place of a large file that was not fetched (git-lfs/docs/spec.md).
_POINTER = b"version https://git-lfs"


@frozen
class ModelFile:
    path: Path
    format: str  # "onnx", "tflite", "gguf", "openvino", "ncnn", or the name of the plug-in that runs it
    size_bytes: int
    misnamed: bool  # whether its suffix is that of another format
    beside_bytes: int | None = None  # size of the other files of the model, such as its .bin; None without such files


def identify(path: Path, plugin: str = "") -> ModelFile:
    """Return the path, format and size of a model file.

    `plugin` is the name of the user's plug-in engine, or "". If the file's content is of no known format, the format is
    `plugin`, or without `plugin` the name of the plug-in engine for the file's suffix. Raises InputError if there is no
    such engine either, or if the file cannot be read. A TFLite file that is cut short is not noticed here.
    """
    try:
        os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: its name is not UTF-8, which runtimes want", "rename it") from None
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a named pipe would wait for its writer
            what = "is a folder" if stat.S_ISDIR(status.st_mode) else "is not a file"
            raise InputError(f"{path}: {what}", f"give a file: {', '.join(SUFFIXES)}")
        size = status.st_size
        with path.open("rb") as file:
            is_pointer = file.read(len(_POINTER)) == _POINTER
            file.seek(0)
            model_format = _identify(file, size)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if model_format is None and size and not is_pointer:
        model_format = plugin or plugin_of_suffix(path.suffix) or None
    if model_format is None:
        if is_pointer:
            raise InputError(f"{path}: is a pointer of Git LFS, not the model itself", "get it: git lfs pull")
        what = (
            "is empty"
            if size == 0
            else "is no model of a known format (ONNX, TFLite, GGUF, OpenVINO, ncnn), or is cut short"
        )
        raise InputError(f"{path}: {what}")
    suffix = SUFFIXES.get(path.suffix.lower())
    is_misnamed = suffix not in (None, model_format)
    return ModelFile(path, model_format, size, misnamed=is_misnamed, beside_bytes=_beside_bytes(path, model_format))


def _beside_bytes(path: Path, model_format: str) -> int | None:
    """Return the size of the model's files other than `path`, or None if it has none or one of them is missing."""
    others: list[Path] = []
    if model_format in ("openvino", "ncnn"):
        others = [path.with_suffix(".bin") if path.suffix in (".xml", ".param") else path.with_name(f"{path.name}.bin")]
    elif model_format == "gguf" and (split := _SPLIT.fullmatch(path.name)):
        names = (f"{split[1]}-{part:05}-of-{split[2]}.gguf" for part in range(1, int(split[2]) + 1))
        others = [path.with_name(name) for name in names if name != path.name]
    try:
        return sum(other.stat().st_size for other in others) if others else None
    except OSError:  # the runtime says what is missing
        return None


def _identify(file: BinaryIO, size: int) -> str | None:
    head = file.read(_HEAD)
    if head[4:8] in _IDENTIFIERS:
        return _IDENTIFIERS[head[4:8]]
    known = {
        "gguf": head[:4] == GGUF_MAGIC,
        "ncnn": head.split(b"\n", 1)[0].strip() == NCNN_MAGIC,
        "openvino": _IR.match(head) is not None,
    }
    found = next((name for name, is_it in known.items() if is_it), None)
    return found or ("onnx" if size and _is_onnx(file) else None)


def _is_onnx(file: BinaryIO) -> bool:
    """Return True if a file is ONNX's ModelProto: it has all the required fields and nothing but known fields."""
    missing, data = set(_REQUIRED), memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        for field, value in fields(data, Budget()):
            if field not in (_NUMBERS if isinstance(value, int) else _MESSAGES):
                return False
            missing.discard(field)
    except MalformedError:
        return False
    return not missing
