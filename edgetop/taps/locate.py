"""Find the functions of ONNX Runtime's Python module that run a model.

The module is loaded, because its methods have no symbols. This is a separate program for Python 3.8 and later, because
the module is built for one version of Python. Loading a module runs its code: `edgetop.taps.loading` decides which
module may be loaded, and runs this program as the user. It prints one JSON object: "offsets" has the positions of the
methods in the module's file by name, "caller" the position of the function that calls all methods, and "version" the
version of ONNX Runtime.

    python locate.py /path/onnxruntime_pybind11_state.so /more/site-packages ...
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
from typing import Any

METHODS = ("run", "run_with_iobinding", "run_with_ort_values")
IMPL = 6  # word of pybind11's function_record (pybind11/attr.h): name, doc, signature, a vector of three words, impl
WORD = ctypes.sizeof(ctypes.c_void_p)
MOST_SECONDS, MOST_MEMORY = 30, 8 * 2**30


def file_offset(path: str, address: int | None) -> int | None:
    """Return the position in the file at `path` of a loaded function, or None if the function is not in this file.

    `address` is the function's address in memory, or None if there is no function.
    """
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


def builtin_of(function: Any) -> Any:
    """Return the C function object behind a Python method."""
    return getattr(function, "__func__", function)


def caller_of(function: Any) -> int | None:
    """Return the address of the C function that Python calls for the method `function`, or None if unknown.

    The address is the second word of the method's PyMethodDef (methodobject.h). pybind11 uses one C function for all
    methods. That function finds the method by its record and translates exceptions.
    """
    definition = ctypes.c_void_p.from_address(id(builtin_of(function)) + 2 * WORD).value or 0
    return ctypes.c_void_p.from_address(definition + WORD).value


def record_of(function: Any) -> int | None:
    """Return the address of pybind11's record of `function`, a method, or None if there is no such record.

    The address is in a capsule or, in pybind11 3, in an object.
    """
    owner = builtin_of(function).__self__
    if type(owner).__name__ != "PyCapsule":
        return ctypes.c_void_p.from_address(id(owner) + 2 * WORD).value
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int | None = pointer(owner, name(owner))
    return address


def located(path: str, folders: list[str]) -> dict[str, Any]:
    """Return where ONNX Runtime's extension module has the C++ functions of InferenceSession's methods.

    The result is {"offsets": {"run": 1234, ...}, "caller": 5678, "version": "1.23.0"}. Offsets are bytes from the start
    of the file `path`; `caller` is the function of pybind11 through which Python calls all of them. `folders` are added
    to `sys.path`. Raises ValueError if the module has another layout.
    """
    sys.path[:0] = folders
    name = "onnxruntime_pybind11_state"
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    found, callers = {}, set()
    for method in METHODS:
        function = getattr(module.InferenceSession, method, None)
        if function is not None:
            record = (ctypes.c_void_p * (IMPL + 1)).from_address(record_of(function) or 0)
            if ctypes.string_at(record[0] or 0).decode() != method:
                raise ValueError("a record of another layout")
            found[method] = file_offset(path, record[IMPL])
            callers.add(file_offset(path, caller_of(function)))
    if len(callers) != 1 or None in (*callers, *found.values()):
        raise ValueError("a module of another layout")
    folder = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    return {"offsets": found, "caller": callers.pop(), "version": version_in(folder)}


def version_in(folder: str) -> str:
    """Return the version of ONNX Runtime that is installed in `folder`, such as "1.23.0", or "" if it is unknown.

    The source is the name of a folder that pip makes, such as onnxruntime_gpu-1.23.0.dist-info.
    """
    names = os.listdir(folder) if os.path.isdir(folder) else []
    infos = [name for name in names if name.startswith("onnxruntime") and name.endswith(".dist-info")]
    return infos[0][: -len(".dist-info")].split("-")[1] if infos else ""


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    print(json.dumps(located(sys.argv[1], sys.argv[2:])))  # noqa: T201
