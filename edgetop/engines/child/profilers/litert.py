"""Profile with the C library of LiteRT 2, in a helper process.

The Python package has no profiler, but contains `libLiteRt.so`, whose C API has one (google-ai-edge/LiteRT,
litert/c/litert_profiler.h; structures as in litert/c/internal and runtime/profiler.h of August 2026). The profiler
reserves half a million events, 69 MiB (litert/runtime/compiled_model.cc, GetOrCreateProfiler). So the compiled model
exists only while it is profiled. If a structure has changed, only the helper process can crash.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from typing import Any, Dict, List

import numpy as np

from ..inputs import bound
from . import Allowance, Profile, ProfilingError
from .tflite_events import DELEGATE, INSIDE_DELEGATE, OPERATOR, Event, add_events, names_of

WARMUP_RUNS = 2
CPU = 1  # kLiteRtHwAcceleratorCpu
BUILTIN = 2  # CpuKernelMode.BUILTIN (ai_edge_litert/cpu_kernel_mode.py): built-in kernels without a delegate
WRITE = 1  # kLiteRtTensorBufferLockModeWrite
EVENT_TYPES = frozenset((1, OPERATOR, DELEGATE, INSIDE_DELEGATE, 16, 32, 64, 128, 256, 512, 1024))
MAX_RANK = 8

_P = ctypes.c_void_p
_SIZE = ctypes.c_size_t


class _Memory(ctypes.Structure):
    _fields_ = [("total", _SIZE), ("in_use", _SIZE), ("private", _SIZE)]


class _Event(ctypes.Structure):  # LiteRtProfilerEvent...: ProfiledEventData
    _fields_ = [
        ("tag", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("start_us", ctypes.c_uint64),
        ("elapsed_us", ctypes.c_uint64),
        ("begin_memory", _Memory),
        ("end_memory", _Memory),
        ("index", ctypes.c_uint64),
        ("graph", ctypes.c_uint64),
        ("source", ctypes.c_int),
    ]


class _Layout(ctypes.Structure):  # LiteRtLayout
    _fields_ = [
        ("rank_and_flags", ctypes.c_uint32),
        ("dimensions", ctypes.c_int32 * MAX_RANK),
        ("strides", ctypes.c_uint32 * MAX_RANK),
    ]


class _TensorType(ctypes.Structure):  # LiteRtRankedTensorType
    _fields_ = [("element_type", ctypes.c_int), ("layout", _Layout)]


_Free = ctypes.CFUNCTYPE(None, _P)


class Service:
    way = "LiteRT's own profiler in a helper process"

    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        """Load the library and the model. Raises ProfilingError if the library is missing or cannot run the model.

        `spec` has the fields of `EngineSpec` by name. `adapter` is a LiteRT adapter, which prepares the inputs.
        """
        if spec["delegates"]:
            raise ProfilingError("LiteRT's profiler cannot be had with --delegate")
        package = importlib.util.find_spec("ai_edge_litert")
        path = os.path.join(os.path.dirname(package.origin or ""), "libLiteRt.so") if package else ""
        if not os.path.exists(path):
            raise ProfilingError("this installation of LiteRT has no libLiteRt.so, which has the profiler")
        bound(adapter, dict(spec, profile_every_ns=0))
        self._inputs = adapter.input_arrays()
        self._name_of = names_of(adapter.interpreter)
        self._cpu_options = "num_threads = %d\n" % max(1, spec["threads"])  # the Interpreter's default is 1
        self._has_xnnpack = spec.get("xnnpack", True)
        if not self._has_xnnpack:
            self._cpu_options += "kernel_mode = %d\n" % BUILTIN
        self._library = Library(path)
        model = os.fsencode(spec["model"])
        self._model = self._library.made("LiteRtCreateModelFromFile", self._library.environment, model)
        self._run: Run

    def make_ready(self) -> None:
        self._run = Run(self._library, self._model, self._cpu_options, self._inputs)
        for _ in range(WARMUP_RUNS):
            self._run.run()

    def burst(self, allowance: Allowance) -> Dict[str, Any]:
        profile = Profile(allowance.samples)
        try:
            while allowance.takes_another():
                self._library.call("LiteRtResetProfiler", self._run.profiler)
                self._library.call("LiteRtStartProfiler", self._run.profiler)
                profile.timed(self._run.run)
                events = self._run.events()
                require_sense(events, profile.run.ns)
                if not self._has_xnnpack and any(event.kind == INSIDE_DELEGATE for event in events):
                    raise ProfilingError("LiteRT's profiler cannot be had with --no-xnnpack in this version")
                add_events(profile, events, self._name_of)
        finally:
            self._run.close()
        return profile.describe()


def require_sense(events: List[Event], run_ns: int) -> None:
    """Raise ProfilingError if the events cannot be right, for example after a change of LiteRT's structures.

    `run_ns` is the duration of the run in ns, which the operators cannot exceed by much.
    """
    within = sum(event.ns for event in events if event.kind in (OPERATOR, INSIDE_DELEGATE))
    if any(event.kind not in EVENT_TYPES for event in events) or within > 2 * run_ns + 1_000_000:
        raise ProfilingError("LiteRT's profiler reports impossible events: another version of its structures")


class Library:
    """LiteRT's C library. Most of its functions return a status, which is 0 for success."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self.environment = _P()
        self.call("LiteRtCreateEnvironment", 0, None, ctypes.byref(self.environment))

    def call(self, name: str, *arguments: Any) -> None:
        """Call the C function `name` with these arguments. Raises ProfilingError if it does not exist or fails."""
        function = getattr(self._library, name, None)
        if function is None:
            raise ProfilingError("this libLiteRt.so has no %s" % name)
        status = function(*arguments)
        if status != 0:
            raise ProfilingError("%s gives status %d" % (name, status))

    def destroy(self, name: str, thing: Any) -> None:
        function = getattr(self._library, "LiteRtDestroy" + name)
        function.restype = None
        function(thing)

    def made(self, name: str, *arguments: Any, of: Any = _P) -> Any:
        """Call the C function `name`, which stores its result at an address, and return that result.

        The address is the function's last argument; `arguments` are those before it. `of` is the result's ctypes type.
        Raises ProfilingError if the function does not exist or fails.
        """
        result = of()
        self.call(name, *arguments, ctypes.byref(result))
        return result


class Run:
    """A model that is compiled for profiling, with its profiler and buffers. `close` frees everything."""

    def __init__(self, library: Library, model: Any, cpu_options: str, inputs: List[Any]) -> None:
        """Compile the model. `cpu_options` is TOML, such as "num_threads = 1". `inputs` has an array for each input."""
        self._library = library
        self._alive: List[Any] = []  # objects to which the options point
        self._buffers: List[Any] = []
        options = library.made("LiteRtCreateOptions")
        library.call("LiteRtSetOptionsHardwareAccelerators", options, CPU)
        self._add_options(options, "runtime_options_string", "enable_profiling = true\n")
        self._add_options(options, "xnnpack", cpu_options)
        self._compiled = library.made("LiteRtCreateCompiledModel", library.environment, model, options)
        self.profiler = library.made("LiteRtCompiledModelGetProfiler", self._compiled)
        signature = library.made("LiteRtGetModelSignature", model, _SIZE(0))
        self._inputs = self._tensors(signature, "Input")
        self._outputs = self._tensors(signature, "Output")
        self._fill(inputs)

    def _add_options(self, options: Any, name: str, toml: str) -> None:
        text, free = ctypes.create_string_buffer(toml.encode()), _Free(lambda _: None)
        self._alive += [text, free]
        opaque = self._library.made("LiteRtCreateOpaqueOptions", name.encode(), ctypes.cast(text, _P), free)
        self._library.call("LiteRtAddOpaqueOptions", options, opaque)

    def _tensors(self, signature: Any, side: str) -> Any:
        """Make a buffer for each input or output of the model, and return the buffers. `side` is "Input" or "Output".

        `signature` is the address of the model's signature (a named graph of the model).
        """
        library = self._library
        count = library.made("LiteRtGetNumSignature%ss" % side, signature, of=_SIZE).value
        buffers = (_P * count)()
        for i in range(count):
            tensor = library.made("LiteRtGetSignature%sTensorByIndex" % side, signature, _SIZE(i))
            kind = library.made("LiteRtGetRankedTensorType", tensor, of=_TensorType)
            needs = "LiteRtGetCompiledModel%sBufferRequirements" % side
            wanted = library.made(needs, self._compiled, _SIZE(0), _SIZE(i))
            create = "LiteRtCreateManagedTensorBufferFromRequirements"
            buffers[i] = buffer = library.made(create, library.environment, ctypes.byref(kind), wanted)
            self._buffers.append(buffer)
        return buffers

    def _fill(self, arrays: List[Any]) -> None:
        """Copy into each input the first unused array of the same size.

        Raises ProfilingError if an input finds no array. Names are not compared, because a signature may have other
        names than the inputs.
        """
        left = list(arrays)
        for buffer in self._inputs:
            size = self._library.made("LiteRtGetTensorBufferPackedSize", _P(buffer), of=_SIZE).value
            array = next((array for array in left if array.nbytes == size), None)
            if array is None:
                raise ProfilingError("LiteRT's profiler runs a model only with the shapes that its file has")
            left = [other for other in left if other is not array]
            place = _P()
            self._library.call("LiteRtLockTensorBuffer", _P(buffer), ctypes.byref(place), WRITE)
            ctypes.memmove(place, np.ascontiguousarray(array).ctypes.data, size)
            self._library.call("LiteRtUnlockTensorBuffer", _P(buffer))

    def run(self) -> None:
        inputs, outputs = (_SIZE(len(self._inputs)), self._inputs), (_SIZE(len(self._outputs)), self._outputs)
        self._library.call("LiteRtRunCompiledModel", self._compiled, _SIZE(0), *inputs, *outputs)

    def events(self) -> List[Event]:
        """Stop the profiler, and return the events that it has recorded since it was started."""
        library = self._library
        library.call("LiteRtStopProfiler", self.profiler)
        count = library.made("LiteRtGetNumProfilerEvents", self.profiler, of=ctypes.c_int)
        events = (_Event * count.value)()
        library.call("LiteRtGetProfilerEvents", self.profiler, count, events)
        return [
            Event(
                e.type,
                (e.tag or b"").decode("utf-8", "replace"),
                e.index,
                e.graph,
                e.elapsed_us * 1000,
                begin_ns=e.start_us * 1000 or None,  # 0 for operators of XNNPACK
            )
            for e in events
        ]

    def close(self) -> None:
        for buffer in self._buffers:
            self._library.destroy("TensorBuffer", buffer)
        self._library.destroy("CompiledModel", self._compiled)
