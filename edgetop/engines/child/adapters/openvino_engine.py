"""Run models in OpenVINO. The timed call is `InferRequest.infer()` with the inputs set before.

API: https://docs.openvino.ai/2025/api/ie_python_api/api.html. Properties are those of
openvino/runtime/properties.hpp.
"""

from __future__ import annotations

import functools
import re
import time
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ..engine_error import EngineError, one_line

LOST_US = 0.5  # what a mean that is cut to whole microseconds loses on average
RUNS_OF_A_COMPILED = 21  # profiled inferences before the model is compiled again: a round has at most 20
VIRTUAL = ("AUTO", "MULTI", "HETERO", "BATCH")  # devices that choose among the real ones


# Places in OpenVINO's source that begin its messages.
_PLACE = re.compile(r"(?:Exception from \S+:\d+:|Check '.*?' failed at \S+:\d+:)\s*")


def essence(error: object) -> str:
    r"""Return what an error of OpenVINO says, without the file names and line numbers of OpenVINO's source.

    >>> essence("Exception from src/core.cpp:84:\nCheck 'ok' failed at src/x.cpp:9:\nIncorrect weights in bin file!")
    'Incorrect weights in bin file!'
    """
    return _PLACE.sub("", " ".join(str(error).split())) or str(error)


class OpenVino:
    """An engine that runs models in OpenVINO: IR (.xml and .bin), ONNX and TFLite.

    A provider is an OpenVINO device, and a provider's options are OpenVINO properties.
    """

    interface = 1

    def open(self, model: str, options: Mapping[str, Any]) -> None:
        """Read the model at the path `model`. `reshape` compiles it, when the shapes are known.

        `options` has "providers", as (name, options) pairs, "threads" (a number, or None for OpenVINO's default), and
        "streams", the number of parallel inferences. Raises EngineError if OpenVINO cannot read the model or lacks a
        device.
        """
        import openvino  # noqa: PLC0415  the runtime, which takes 50 MB

        self._ov = openvino
        self._core = openvino.Core()
        asked = list(options["providers"]) or [("CPU", {})]
        self._asked = [name for name, _ in asked]
        self._device = ",".join(self._asked)
        if len(asked) > 1:
            self._device = "HETERO:" + self._device
        self._refuse_unknown(self._asked)
        self._config: Dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY" if options["streams"] == 1 else "THROUGHPUT"}
        if options["threads"]:
            self._config["INFERENCE_NUM_THREADS"] = options["threads"]
        for _, more in asked:
            self._config.update(more)
        try:
            self._model = self._core.read_model(model)
        except RuntimeError as error:
            raise EngineError("model", "%s: OpenVINO cannot read it: %s" % (model, one_line(essence(error)))) from None
        self._compiled: Any = None
        self._compile_ns = 0
        self._request: Any = None
        self._profiled: Any = None
        self._counted = 0  # inferences of the profiled model
        self._told_us: Dict[Tuple[str, str], float] = {}  # time of each operator that is reported or not to be
        self._tensors: List[Any] = []

    def _refuse_unknown(self, names: Sequence[str]) -> None:
        for name in names:
            kind, colon, listed = name.partition(":")
            devices = listed.split(",") if colon else [] if kind.upper() in VIRTUAL else [kind]
            available = [one.split(".")[0] for one in self._core.available_devices]
            if any(device.lstrip("-").split(".")[0].upper() not in available for device in devices):
                text = "--provider %s: OpenVINO finds no such device here" % name
                raise EngineError("input", text, "it finds %s" % ", ".join(self._core.available_devices))

    def inputs(self) -> List[Tuple[str, List[Any], str]]:
        names = self._names()
        return [
            (name, [dim.get_length() if dim.is_static else None for dim in one.partial_shape], _dtype(one.element_type))
            for name, one in zip(names, self._model.inputs)
        ]

    def _names(self) -> List[str]:
        """Return a unique name for each input.

        A name that is missing or not unique gets the input's number, as in `input:1`.
        """
        names = [one.any_name if one.names else "input" for one in self._model.inputs]
        return [name if names.count(name) == 1 else "%s:%d" % (name, place) for place, name in enumerate(names)]

    def reshape(self, shapes: Dict[str, List[int]]) -> None:
        """Set the inputs' shapes, by input name, and compile the model. Raises EngineError if either fails."""
        wanted = dict(zip(range(len(self._model.inputs)), (shapes[name] for name in self._names())))
        if any(list(shape) != _static(self._model.inputs[place]) for place, shape in wanted.items()):
            self._attempt("input", "does not take these shapes", lambda: self._model.reshape(wanted))
        begin = time.monotonic_ns()
        self._compiled = self._attempt(
            "model", "cannot be compiled", lambda: self._core.compile_model(self._model, self._device, self._config)
        )
        self._compile_ns = time.monotonic_ns() - begin

    def _attempt(self, stage: str, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except RuntimeError as error:
            text = "the model %s on %s: %s" % (what, self._device, one_line(essence(error)))
            raise EngineError(stage, text) from None

    def bind(self, feeds: Dict[str, Any]) -> Callable[[], Any]:
        if self._request is None:
            self._request = self._compiled.create_infer_request()
        self._tensors = [self._tensor(feeds[name]) for name in self._names()]  # kept, since they share their memory
        self._set_inputs(self._request)
        return functools.partial(self._request.infer, share_outputs=True)

    def _set_inputs(self, request: Any) -> None:
        for place, tensor in enumerate(self._tensors):
            request.set_input_tensor(place, tensor)

    def _tensor(self, array: Any) -> Any:
        return self._ov.Tensor(array, shared_memory=array.dtype != object)

    def outputs(self, done: Any) -> List[Tuple[str, Any]]:
        return [(node.any_name if node.names else "output:%d" % place, done[place].copy())
                for place, node in enumerate(self._compiled.outputs)]  # fmt: skip

    def another(self) -> "OpenVino":
        """Return an engine with the same compiled model, which may run at the same time as this one."""
        other = OpenVino()
        other.__dict__.update(self.__dict__, _request=None, _profiled=None, _tensors=[])
        return other

    def profile(self) -> Tuple[int, List[Tuple[str, str, str, int]]]:
        """Run the model once with profiling. Return its duration in ns, and (name, type, devices, ns) of each operator.

        OpenVINO needs a model compiled with PERF_COUNT for this. For each operator it then reports only the mean time
        of all inferences since the model was compiled, cut to whole microseconds (PerfCount::avg,
        src/plugins/intel_cpu/src/perf_count.h). The time of the last inference is computed from two such means.
        The error of this time grows with the number of inferences, so the model is compiled again after some of them.
        A time below zero is reported as 0, and subtracted from the next one. Times of many short operators may add up
        to more than the inference took: they are then all shortened.
        """
        if self._profiled is None or self._counted > RUNS_OF_A_COMPILED:
            config = dict(self._config, PERF_COUNT=True)
            self._profiled = self._core.compile_model(self._model, self._device, config).create_infer_request()
            self._set_inputs(self._profiled)
            self._profiled.infer()
            self._counted = 1
            self._told_us = self._totals_us()
        begin = time.monotonic_ns()
        self._profiled.infer()
        ns = time.monotonic_ns() - begin
        self._counted += 1
        took_us = {key: max(0.0, total - self._told_us.get(key, 0.0)) for key, total in self._totals_us().items()}
        for key, own_us in took_us.items():
            self._told_us[key] = self._told_us.get(key, 0.0) + own_us
        scale = 1000 * min(1.0, ns / 1000 / max(sum(took_us.values()), 1e-3))
        devices = "/".join(self._devices())
        return ns, [(name, kind, devices, int(own_us * scale)) for (name, kind), own_us in took_us.items()]

    def _totals_us(self) -> Dict[Tuple[str, str], float]:
        """Return {(name, type) of an operator: its time in us}, for all `_counted` inferences together."""
        return {
            (one.node_name, one.node_type): (one.real_time.total_seconds() * 1e6 + LOST_US) * self._counted
            for one in self._profiled.profiling_info
            if str(one.status).endswith("EXECUTED")
        }

    def _devices(self) -> List[str]:
        """Return the names of the devices that run the model.

        If the user chose AUTO, these are the devices that AUTO has chosen.
        """
        try:
            found = [str(one).strip("()") for one in self._compiled.get_property("EXECUTION_DEVICES")]
        except RuntimeError:  # the device does not report it
            return [self._device]
        # Of a machine's only GPU, "GPU.0" is another name for "GPU".
        named = {name.upper(): name for name in self._requested()}
        return [named.get(one.upper(), named.get(one.split(".")[0].upper(), one)) for one in found]

    def _requested(self) -> List[str]:
        """Return the names of the devices that the user has requested, the first choice first.

        Returns [] if the user lets OpenVINO choose among devices.
        """
        if len(self._asked) > 1:
            return self._asked
        kind, _, listed = self._device.partition(":")
        if kind.upper() not in VIRTUAL:
            return [self._device]
        return listed.split(",") if kind.upper() == "HETERO" and listed else []

    def describe(self) -> Dict[str, Any]:
        devices, requested = self._devices(), self._requested()
        settings = {} if requested == [self._device] else {"device": self._device}
        settings.update((key, value) for name, key in SETTINGS if (value := self._property(name)) is not None)
        if self._config.get("CACHE_DIR"):
            settings["cache"] = "read" if self._property("LOADED_FROM_CACHE") == "true" else "not read"
        return {
            "version": self._ov.get_version().split("-")[0],
            "providers": devices,
            "asked": requested,
            "settings": settings,
            "compile_ns": self._compile_ns,
        }

    def _property(self, name: str) -> Any:
        """Return a property of the compiled model as text, or None if it is unknown.

        A property that the compiled model does not have is taken from the first device that runs the model.
        """
        try:
            value = self._compiled.get_property(name)
        except RuntimeError:
            value = self._of_device(name)
        if value is None:
            return None
        if name == "INFERENCE_PRECISION_HINT":
            return value.get_type_name() if hasattr(value, "get_type_name") else str(value)
        return str(getattr(value, "name", value)).lower()

    def _of_device(self, name: str) -> Any:
        """Return a property of the first device that runs the model, or None if it is not reported."""
        try:
            found = self._compiled.get_property("DEVICE_PROPERTIES")
        except RuntimeError:
            return None
        each = found.values() if isinstance(found, dict) else ()
        return next((one[name] for one in each if isinstance(one, dict) and name in one), None)


# Properties of the compiled model that change how fast or how exactly it computes. On CPUs with AMX or AVX-512 BF16,
# the precision may be bf16 although the model has f32.
SETTINGS = (
    ("INFERENCE_PRECISION_HINT", "precision"),
    ("PERFORMANCE_HINT", "hint"),
    ("NUM_STREAMS", "streams"),
    ("INFERENCE_NUM_THREADS", "threads"),
)


def _static(node: Any) -> Any:
    return list(node.shape) if node.partial_shape.is_static else None


def _dtype(element_type: Any) -> str:
    """Return numpy's name of an element type, such as "float32". Raises ValueError for a type that numpy lacks."""
    name: str = element_type.get_type_name()
    if name == "string":
        return name
    try:
        return str(element_type.to_dtype())
    except RuntimeError:
        raise ValueError("it has an input of type %s, which NumPy lacks" % name) from None
