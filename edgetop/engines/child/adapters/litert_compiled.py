"""Run models on LiteRT's own accelerators, GPU and NPU. The timed call is `CompiledModel.run_by_index`.

The accelerators are tried first without the CPU: LiteRT then refuses a model unless they can run every operator. If it
refuses, the CPU is added, and LiteRT accepts every model. On a machine without an NPU it then runs the model on the CPU
without a warning, and even reports "fully accelerated". So the NPU's library is checked before the model is loaded.

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
from ..profilers import ProfilingError
from ..tensor_values import Tensor, format_shape
from . import import_runtime, package_version

KNOWN = ("CPU", "GPU", "NPU")
LIBRARY_OPTIONS = ("dispatch_library_path", "compiler_plugin_path")  # options of EnvironmentOptions that name folders
DISPATCH = "libLiteRtDispatch_*.so"
# Places in LiteRT's source where an error was passed on, which explain nothing: "└ ERROR: [litert/runtime/x.cc:103]".
_PLACES = re.compile(r"(└ )?ERROR: \[[^\]]*\]")
_DRIVERS = {"GPU": "it needs a GPU with a Vulkan or OpenCL driver: vulkaninfo and clinfo say whether there is one"}
NOT_WHOLE = "ops are not accelerated"  # LiteRT's message if an accelerator does not have every operator


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
        self._signatures: List[str] = []
        self._place = 0  # of the signature that runs
        self._left = ""  # why the accelerators do not run the whole model; "" if they do

    def open(self, spec: Dict[str, Any], imported: Callable[[], None] = lambda: None) -> None:
        """Compile the model at the path `spec["model"]`. Calls `imported` as soon as the runtime has been imported.

        Raises EngineError("input") if this build of LiteRT cannot do what `spec` requests.
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
        self._choose_signature(spec.get("signature", ""))
        self.inputs = self._tensors()

    def _choose_signature(self, asked: str) -> None:
        """Choose the signature (a named graph of the model) `asked`, or the first one if `asked` is "".

        Raises EngineError("input") if the model has no such signature.
        """
        self._signatures = list(self._model.get_signature_list())
        if asked and asked not in self._signatures:
            text = "--signature %s: the model has no such signature; it has %s" % (asked, ", ".join(self._signatures))
            raise EngineError("input", text)
        count = len(self._signatures) if asked else 0
        named = (place for place in range(count) if self._model.get_signature_by_index(place)["key"] == asked)
        self._place = next(named, 0)

    def _compile(self, asked: List[str]) -> None:
        """Compile the model for the accelerators in `asked`, such as ["GPU"].

        If the accelerators cannot run the whole model, the CPU runs the rest. If the user wants the whole model on the
        accelerators (`whole` in the specification of the engine), EngineError is raised instead.
        """
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
        signature: Dict[str, Any] = self._model.get_signature_by_index(self._place)
        return signature

    def reshape(self, shapes: Dict[str, List[int]]) -> None:
        """Set the inputs' shapes, by input name, and make the model's input and output buffers.

        Raises EngineError if the model does not accept the shapes.
        """
        resized = []
        try:
            for place, tensor in enumerate(self.inputs):
                if shapes[tensor.name] != tensor.shape:
                    resized.append(" with input %s as %s" % (tensor.name, format_shape(shapes[tensor.name])))
                    self._model.resize_input_tensor(place, shapes[tensor.name], self._place, strict=False)
            taken, given = self._model.create_input_buffers, self._model.create_output_buffers
            self._buffers = taken(self._place), given(self._place)
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
        return functools.partial(self._model.run_by_index, self._place, taken, given)

    def outputs(self, _done: Any) -> List[Tuple[str, Any, float, int]]:
        """Return a tuple (name, array, scale, zero point) for each output of the last inference.

        Scale and zero point are always 0, since a compiled model does not report them. `_done` is not used.
        """
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
            "signature": self._signature["key"],
            "signatures": self._signatures,
            "was_chosen": bool(self._spec.get("signature")),
            "dropped_providers": [],
            "left": self._left,
            "whole": not self._left,
        }


def _accelerators(spec: Dict[str, Any]) -> List[str]:
    """Return the requested accelerators in upper case, such as ["GPU", "CPU"], in the order of the request.

    Raises EngineError("input") for an unknown accelerator.
    """
    names = ["CPU" if name.upper() == "XNNPACK" else name.upper() for name, _ in spec["providers"]]
    for (name, _), upper in zip(spec["providers"], names):
        if upper not in KNOWN:
            text = "--provider %s: LiteRT has no such accelerator" % name
            raise EngineError("input", text, "it has %s; others come as a --delegate" % ", ".join(KNOWN))
    return names


def _gpu_options(spec: Dict[str, Any], defaults: Any) -> Dict[str, bool]:
    """Return LiteRT's GPU options from the providers in `spec`.

    For example, `--provider GPU:enforce_f32=true` gives {"enforce_f32": True}. `defaults` is a GpuOptions object, whose
    attributes are the known options. Raises EngineError("input") for an unknown option.
    """
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
    """Raise EngineError("input") if no library of an NPU's vendor can be loaded. LiteRT itself would not complain.

    The library is looked for in `folder`. If `folder` is None, it is looked for in `package`, the folder of LiteRT's
    package.
    """
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
