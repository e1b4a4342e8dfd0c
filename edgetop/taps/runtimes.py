"""Find the inference runtimes that a process has mapped, and their functions that run a model.

Mappings are read from proc_pid_maps(5), and nothing is loaded. The module imports only the standard library, because a
helper process that runs for hours imports it.
"""

import contextlib
import os
import struct
from pathlib import Path
from typing import NamedTuple

from edgetop.frozen import frozen
from edgetop.taps.elf import Elf, ort_functions

PYBIND, ORT = "onnxruntime_pybind11_state", "libonnxruntime.so"
TFLITE = ("litert", "tensorflowlite", "tensorflow-lite", "tflite")
# llama.cpp: its own library, or the one that a package of Python has (llama-cpp-python, xllamacpp).
LLAMA = ("libllama.", "xllamacpp.")  # node-llama-cpp has a version in between: libllama.v0.5.0.so
# include/llama.h: one batch, which is one token if a single request is generated. llama_process is there since 2026.
DECODES = ("llama_decode", "llama_encode", "llama_process")
# The innermost function that runs a TFLite model, then exported functions to use if that has no symbol.
INVOKES = ("_ZN6tflite8Subgraph6InvokeEv", "TfLiteInterpreterInvoke", "LiteRtRunCompiledModel")
# OpenVINO's C API. The C++ functions below it raise exceptions, which cannot pass a return probe.
OPENVINO, OPENVINO_C = "libopenvino.so", "libopenvino_c.so"
INFERS = ("ov_infer_request_infer",)  # openvino/c/ov_infer_request.h
NCNN = ("libncnn.so", "ncnn.")  # a shared ncnn, or the Python module, which has it inside
EXTRACTS = ("_ZN4ncnn9Extractor7extractEiRNS_3MatEi",)  # src/net.h: one output, and what it needs
MODELS = (".onnx", ".ort", ".tflite", ".litertlm", ".gguf")
MOST_MAPPINGS = 65_536  # more than vm.max_map_count, 65,530
# Functions that run a model, by runtime; INVOKES for TFLite.
FUNCTIONS = {"llama.cpp": DECODES, "openvino": INFERS, "ncnn": EXTRACTS}


class Mapping(NamedTuple):
    begin: int
    end: int
    offset: int  # in the file
    is_code: bool
    path: str  # path of the file, as the process sees it


@frozen
class Function:
    """A function of a runtime that runs a model once: its name, its file, and its position in that file."""

    runtime: str
    version: str
    name: str
    path: str  # path of its file
    offset: int  # offset in the file
    returns_at: int | None = None  # for a method: offset of the function that calls it and handles its exceptions

    @property
    def is_method(self) -> bool:
        return self.returns_at is not None

    def is_inference(self, result: int) -> bool:
        """Whether a call that returned `result` was an inference at all.

        `llama_decode` returns a number above 0 if it found no room in the cache and changed nothing, so that the
        program may try a smaller batch, or if the program's own callback has ended it (include/llama.h).
        """
        return self.runtime != "llama.cpp" or not 0 < result & (2**32 - 1) < 2**31

    def succeeded(self, result: int) -> bool:
        """Whether a call of this function succeeded. `result` is what the function returned, as a number.

        The number is the address of a Python object (0 is a failure), a pointer to an OrtStatus (0 is success), or a
        status of 32 bits (0 is success).
        """
        if self.is_method:
            return result != 0
        return not result if self.runtime == "onnxruntime" else not result & (2**32 - 1)


def mappings(pid: int) -> list[Mapping]:
    """Return the files that a process has mapped. Return [] if it has ended, or if the kernel refuses this."""
    found = []
    with contextlib.suppress(OSError), Path(f"/proc/{pid}/maps").open(encoding="utf-8", errors="replace") as lines:
        for _, line in zip(range(MOST_MAPPINGS), lines, strict=False):
            fields = line.rstrip("\n").split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                begin, end = (int(number, 16) for number in fields[0].split("-"))
                found.append(Mapping(begin, end, int(fields[2], 16), "x" in fields[1], fields[5]))
    return found


def runtime_of(path: str) -> str:
    """Return which runtime a mapped file belongs to, or "" for none.

    The runtimes are "onnxruntime", "litert", "llama.cpp", "openvino" and "ncnn".

    >>> runtime_of("/usr/lib/libonnxruntime.so.1.23.0")
    'onnxruntime'
    """
    name = path.rpartition("/")[2]
    if name.startswith((PYBIND, ORT)):
        return "onnxruntime"
    if ".so" in name and name.startswith(LLAMA):
        return "llama.cpp"
    if name.startswith((OPENVINO, OPENVINO_C)):
        return "openvino"
    if ".so" in name and name.startswith(NCNN):
        return "ncnn"
    return "litert" if ".so" in name and any(word in name for word in TFLITE) else ""


def libraries(maps: list[Mapping]) -> list[str]:
    """Return the paths of the mapped libraries of runtimes. ONNX Runtime's Python module comes before its C library.

    If the process has mapped the library of OpenVINO's C API, OpenVINO's main library is left out.
    """
    paths = dict.fromkeys(one.path for one in maps if one.is_code and runtime_of(one.path))
    if any(OPENVINO_C in path for path in paths):
        paths = dict.fromkeys(path for path in paths if f"/{OPENVINO}" not in path)
    return sorted(paths, key=lambda path: PYBIND not in path)


def models(maps: list[Mapping]) -> list[str]:
    return list(dict.fromkeys(one.path for one in maps if one.path.endswith(MODELS)))


def is_module(path: str) -> bool:
    """Whether the file at `path` is ONNX Runtime's Python module.

    Its methods have no symbols (see `edgetop.taps.loading`).
    """
    return os.path.basename(path).startswith(PYBIND)  # noqa: PTH119


def functions(path: str, library: int) -> list[Function]:
    """Return the functions of a library that run a model. `path` is its path, and `library` a descriptor of its file.

    Raises ValueError, with the reason, if none is found.
    """
    name = path.rpartition("/")[2]
    try:
        elf = Elf(library)
        if runtime_of(path) == "onnxruntime":
            offsets, version = ort_functions(elf)
            return [Function("onnxruntime", version, each, path, offset) for each, offset in offsets.items()]
        names = FUNCTIONS.get(runtime_of(path), INVOKES)
        found = elf.symbols(names)
    except (OSError, ValueError, struct.error) as error:
        raise ValueError(f"{name}: the functions that run a model were not found: {error}") from None
    if not found and runtime_of(path) == "openvino":
        raise ValueError(
            f"{name}: only OpenVINO's C API is seen in a process that runs: start it with edgetop watch --"
        )
    if not found:
        raise ValueError(f"{name}: it has no known function that runs a model")
    symbols = [each for each in names if each in found]
    if names is not DECODES:  # the others call each other
        symbols = symbols[:1]
    return [Function(runtime_of(path), "", symbol, path, found[symbol]) for symbol in symbols]
