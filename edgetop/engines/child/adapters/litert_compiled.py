"""LiteRT's own accelerators: a compiled model on the GPU or the NPU. The timed call is `CompiledModel.run_by_index`.

An accelerator alone is tried first: LiteRT refuses that where it cannot run every operator there, so that the compiled
model runs there as a whole. With the CPU for the rest it runs anything, without a warning on the CPU alone where there
is no NPU, and reports that it is "fully accelerated": so the NPU's library is checked before.

API: ai_edge_litert/compiled_model.py, hardware_accelerator.py, environment.py and gpu_options.py of 2.3.0.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import re
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np

from ..engine_error import EngineError, one_line
from ..inputs import Tensor, format_shape
from ..profilers import ProfilingError
from . import import_runtime, package_version

KNOWN = ("CPU", "GPU", "NPU")
LIBRARY_OPTIONS = ("dispatch_library_path", "compiler_plugin_path")  # of EnvironmentOptions: folders
DISPATCH = "libLiteRtDispatch_*.so"
# Where in LiteRT's source an error was passed on, which does not explain it: "└ ERROR: [litert/runtime/x.cc:103]".
_PLACES = re.compile(r"(└ )?ERROR: \[[^\]]*\]")
_DRIVERS = {"GPU": "it needs a GPU with a Vulkan or OpenCL driver: vulkaninfo and clinfo say whether there is one"}
NOT_WHOLE = "ops are not accelerated"  # LiteRT's words where an accelerator has not every operator


class CompiledLiteRt:
    name = "litert"
    serves_all_streams = False  # it has one set of buffers

    def __init__(self) -> None:
        self.inputs: List[Tensor] = []
        self._spec: Dict[str, Any] = {}
        self._version = ""
        self._runtime: Any = None
        self._environment: Any = None
        self._model: Any = None
        self._buffers: Tuple[List[Any], List[Any]] = ([], [])
        self._left = ""  # why the accelerators do not run all of it; "": they do

    def open(self, spec: Dict[str, Any], imported: Callable[[], None] = lambda: None) -> None:
        """Compile the model; `imported` is called when the runtime is imported.

        Raises EngineError("input") where this build cannot do what is requested, EngineError("model").
        """
        self._spec = spec
        asked = _accelerators(spec)
        if spec["delegates"]:
            text = "--delegate cannot be had with --provider %s: it takes an interpreter" % asked[0]
            raise EngineError("input", text)
        self._version = package_version("ai-edge-litert")
        try:
            self._runtime = import_runtime("ai_edge_litert.compiled_model")
        except EngineError as error:
            text = "--provider %s: ai-edge-litert %s has no accelerators of its own" % (asked[0], self._version)
            raise EngineError("input", text, error.message) from None
        imported()
        options = [option for _, options in spec["providers"] for option in options.items()]
        folders = {key: value for key, value in options if key in LIBRARY_OPTIONS}
        if "NPU" in asked:
            _require_npu(folders.get("dispatch_library_path"), os.path.dirname(self._runtime.__file__))
        try:
            self._environment = self._runtime.Environment.create(options=self._runtime.EnvironmentOptions(**folders))
            self._compile(asked)
        except EngineError:
            raise
        except Exception as error:
            raise self._refused(asked, error) from None
        self.inputs = self._tensors()

    def _compile(self, asked: List[str]) -> None:
        """Compile for the accelerators alone or, where that is allowed, with the CPU for the rest."""
        try:
            self._model = self._compiled([name for name in asked if name != "CPU"])
        except Exception as error:
            if isinstance(error, EngineError) or NOT_WHOLE not in str(error) or self._spec.get("whole"):
                raise
            text = "LiteRT %s has not every operator of the model for the %s: the rest, or all of it, runs on the CPU"
            self._left = text % (self._version, asked[0])
            self._model = self._compiled([*dict.fromkeys([*asked, "CPU"])])

    def _compiled(self, accelerators: List[str]) -> Any:
        runtime = self._runtime
        mask = functools.reduce(lambda all_, name: all_ | runtime.HardwareAccelerator[name], accelerators, 0)
        mode = {} if self._spec.get("xnnpack", True) else {"kernel_mode": runtime.CpuKernelMode.BUILTIN}
        options = runtime.Options(
            hardware_accelerators=runtime.HardwareAccelerator(mask),
            cpu_options=runtime.CpuOptions(num_threads=max(1, self._spec["threads"]), **mode),
            gpu_options=runtime.GpuOptions(**_gpu_options(self._spec, runtime.GpuOptions())),
        )
        return runtime.CompiledModel.from_file(self._spec["model"], options=options, environment=self._environment)

    def _refused(self, asked: List[str], error: Exception) -> EngineError:
        words = one_line(error)
        if NOT_WHOLE in words:
            text = "LiteRT %s has not every operator of the model for it" % self._version
            return EngineError("input", "--provider %s: %s" % (asked[0], text), "without --require-full-delegation")
        words = _PLACES.sub("", words).strip()
        text = "LiteRT %s cannot use it here%s" % (self._version, ": " + words if words else "")
        return EngineError("input", "--provider %s: %s" % (asked[0], text), _DRIVERS.get(asked[0], ""))

    def _tensors(self) -> List[Tensor]:
        details = self._model.get_input_tensor_details(self._signature["key"])
        found = []
        for name in self._signature["inputs"]:
            try:
                dtype = np.dtype(details[name]["dtype"])
            except TypeError:
                text = "input %s is %s, which edgetop cannot feed" % (name, details[name]["dtype"])
                raise EngineError("input", text) from None
            shape = [None if dim < 0 else int(dim) for dim in details[name]["shape"]]
            found.append(Tensor(name, shape, dtype, resizable=True))
        return found

    @property
    def _signature(self) -> Dict[str, Any]:
        signature: Dict[str, Any] = self._model.get_signature_by_index(0)
        return signature

    def reshape(self, shapes: Dict[str, List[int]]) -> None:
        """Give the inputs their shapes, and make the buffers. Raises EngineError where the model refuses."""
        resized = []
        try:
            for place, tensor in enumerate(self.inputs):
                if shapes[tensor.name] != tensor.shape:
                    resized.append(" with input %s as %s" % (tensor.name, format_shape(shapes[tensor.name])))
                    self._model.resize_input_tensor(place, shapes[tensor.name], 0, strict=False)
            self._buffers = self._model.create_input_buffers(0), self._model.create_output_buffers(0)
        except Exception as error:
            text = "the model cannot be prepared%s: %s" % (" and".join(resized), one_line(error))
            raise EngineError("model", text) from None

    def profilers(self) -> Iterator[Callable[[], Any]]:
        def refuse() -> Any:
            raise ProfilingError("LiteRT reports no operators with --provider %s" % self._spec["providers"][0][0])

        yield refuse

    def bind(self, feeds: Dict[str, Any]) -> Callable[[], Any]:
        taken, given = self._buffers
        for buffer, tensor in zip(taken, self.inputs):
            buffer.write(np.ascontiguousarray(feeds[tensor.name]))
        return functools.partial(self._model.run_by_index, 0, taken, given)

    def outputs(self, _done: Any) -> List[Tuple[str, Any, float, int]]:
        """Name, array, scale and zero point of each output of the last inference: a compiled model reports no scale."""
        details, found = self._model.get_output_tensor_details(self._signature["key"]), []
        for name, buffer in zip(self._signature["outputs"], self._buffers[1]):
            shape, dtype = [int(dim) for dim in details[name]["shape"]], np.dtype(details[name]["dtype"])
            found.append((name, buffer.read(int(np.prod(shape)), dtype).reshape(shape), 0.0, 0))
        return found

    def describe(self) -> Dict[str, Any]:
        rest = ["XNNPACK", "CPU"] if self._spec.get("xnnpack", True) else ["CPU"]
        accelerators = [name for name in _accelerators(self._spec) if name != "CPU"]
        return {
            "runtime": self.name,
            "version": self._version,
            "providers": [*accelerators, *rest] if self._left else accelerators,
            "dropped_providers": [],
            "left": self._left,
            "whole": not self._left,
        }


def _accelerators(spec: Dict[str, Any]) -> List[str]:
    """Names in upper case, first choice first. Raises EngineError("input") for one that is unknown."""
    names = [name.upper() for name, _ in spec["providers"]]
    for (name, _), upper in zip(spec["providers"], names):
        if upper not in KNOWN:
            text = "--provider %s: LiteRT has no such accelerator" % name
            raise EngineError("input", text, "it has %s; others come as a --delegate" % ", ".join(KNOWN))
    return names


def _gpu_options(spec: Dict[str, Any], defaults: Any) -> Dict[str, bool]:
    """`GPU:enforce_f32=true`: fields of LiteRT's GpuOptions. Raises EngineError("input") for what is none."""
    found: Dict[str, bool] = {}
    for name, options in spec["providers"]:
        known = {"GPU": list(vars(defaults)), "NPU": list(LIBRARY_OPTIONS)}.get(name.upper(), [])
        for key, value in options.items():
            if key not in known:
                has = "it has %s" % ", ".join(known) if known else "it has none"
                raise EngineError("input", "--provider %s: no such option: %s" % (name, key), has)
            if name.upper() == "GPU":
                found[key] = value.lower() in ("1", "true", "yes", "on")
    return found


def _require_npu(folder: Any, package: str) -> None:
    """A library of an NPU's vendor that can be loaded. Raises EngineError("input"): LiteRT itself would say nothing."""
    folders = [folder] if folder else sorted(glob.glob(os.path.join(glob.escape(package), "vendors", "*", "dispatch")))
    libraries = [path for place in folders for path in sorted(glob.glob(os.path.join(glob.escape(place), DISPATCH)))]
    if not libraries:
        where = folder or "this installation"
        text = "--provider NPU: %s has no library of an NPU (%s)" % (where, DISPATCH)
        raise EngineError("input", text, "name its folder: --provider NPU:dispatch_library_path=FOLDER")
    errors = []
    for path in libraries:
        try:
            ctypes.CDLL(path)
        except OSError as error:
            errors.append(one_line(error))
        else:
            return
    text = "--provider NPU: %s cannot be loaded: %s" % (os.path.basename(libraries[0]), errors[0])
    raise EngineError("input", text, "install the NPU's own runtime, or name another folder with dispatch_library_path")
