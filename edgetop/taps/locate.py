"""Finds the offsets of run functions in a runtime's file without symbols: by loading it and asking.

A program of its own for Python 3.8 and later, which runs as the watched process's user, never as root: loading a
library runs code of it. It writes one JSON object: offsets in the file by function, and the runtime's version.

    python locate.py c /path/libonnxruntime.so.1
    python locate.py python /path/onnxruntime_pybind11_state.so /more/site-packages ...
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import json
import os
import sys
from typing import Any, Dict, Optional, Tuple

RUN, RUN_WITH_BINDING, BINDING_SINCE = 9, 133, 4  # places in OrtApi (onnxruntime_c_api.h), which only grows at its end
METHODS = ("run", "run_with_iobinding", "run_with_ort_values")
IMPL = 6  # word of pybind11's function_record (pybind11/attr.h): name, doc, signature, a vector of three words, impl
WORD = ctypes.sizeof(ctypes.c_void_p)
Found = Tuple[Dict[str, Optional[int]], str]  # offset by function, and the version


def file_offset(path: str, address: int | None) -> int | None:
    """Return the offset of a function that is loaded from that file; None: it comes from another file."""
    if address is None:
        return None
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            begin, end = (int(number, 16) for number in fields[0].split("-"))
            if begin <= address < end:
                is_it = len(fields) > 5 and os.path.samefile(fields[5].rstrip("\n"), path)
                return address - begin + int(fields[2], 16) if is_it else None
    return None


def of_c(path: str) -> Found:
    """The C API: OrtGetApiBase is exported, and the table that it leads to holds the functions."""
    library = ctypes.CDLL(path)
    library.OrtGetApiBase.restype = ctypes.POINTER(ctypes.c_void_p)
    base = library.OrtGetApiBase()
    version = ctypes.CFUNCTYPE(ctypes.c_char_p)(base[1])().decode()
    table = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint32)(base[0])(1)
    places = {"Run": RUN}
    if int(version.split(".")[1]) >= BINDING_SINCE:
        places["RunWithBinding"] = RUN_WITH_BINDING
    return {name: file_offset(path, table[place]) for name, place in places.items()}, version


def record_of(function: Any) -> int | None:
    """Address of pybind11's record of a method: in a capsule, or (pybind11 3) in an object of its own."""
    owner = getattr(function, "__func__", function).__self__
    if type(owner).__name__ != "PyCapsule":
        return ctypes.c_void_p.from_address(id(owner) + 2 * WORD).value
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int | None = pointer(owner, name(owner))
    return address


def of_python(path: str, folders: list[str]) -> Found:
    """The Python module: what pybind11 calls for each method of its InferenceSession."""
    sys.path[:0] = folders
    name = "onnxruntime_pybind11_state"
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    found = {}
    for method in METHODS:
        function = getattr(module.InferenceSession, method, None)
        if function is not None:
            record = (ctypes.c_void_p * (IMPL + 1)).from_address(record_of(function) or 0)
            if ctypes.string_at(record[0] or 0).decode() != method:
                raise ValueError("a record of another layout")
            found[method] = file_offset(path, record[IMPL])
    return found, version_in(os.path.dirname(os.path.dirname(os.path.dirname(path))))


def version_in(folder: str) -> str:
    """Return the package's version from the folder that pip writes: onnxruntime_gpu-1.23.0.dist-info."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    infos = [name for name in names if name.startswith("onnxruntime") and name.endswith(".dist-info")]
    return infos[0][: -len(".dist-info")].split("-")[1] if infos else ""


def main() -> None:
    kind, path, *folders = sys.argv[1:]
    offsets, version = of_c(path) if kind == "c" else of_python(path, folders)
    print(json.dumps({"offsets": {name: at for name, at in offsets.items() if at}, "version": version}))  # noqa: T201


if __name__ == "__main__":
    main()
