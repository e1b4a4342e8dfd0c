"""Run models in ONNX Runtime. The timed call is `session.run(None, feeds)`.

API: https://onnxruntime.ai/docs/api/python/api_summary.html
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import sys
import warnings
from typing import Any, Callable, Collection, Dict, Iterator, List, Optional, Tuple

import numpy as np

from ..engine_error import EngineError, one_line
from ..inputs import source_of
from ..literals import random_count
from ..small_types import SMALL_TYPES, from_bits, packed, unpacked
from ..tensor_values import Tensor
from . import import_runtime, onnx_session, open_helper
from .onnx_wire import table_lengths, without_zero_dimensions

SUFFIX = "ExecutionProvider"
# Folder of the weights' files of a model that is not loaded by its path
# (onnxruntime/core/session/onnxruntime_session_options_config_keys.h).
_EXTERNAL_FOLDER = "session.model_external_initializers_file_folder_path"
_RECORDS_PLACEMENT = "session.record_ep_graph_assignment_info"  # the same file; since ONNX Runtime 1.24

# ONNX Runtime's names of tensor element types, with numpy's (onnxruntime/core/framework/data_types.cc).
DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "bool": "bool", "complex64": "complex64", "complex128": "complex128", "string": "object",
}  # fmt: skip


class OnnxRuntime:
    name = "onnxruntime"
    # Several threads may call `run` of one session at the same time: OrtSession's Run is "thread-safe"
    # (https://onnxruntime.ai/docs/api/c/struct_ort_api.html).
    serves_all_streams = True
    takes_any_shape = True  # each call may have other shapes than the one before, in dimensions that are left open

    def __init__(self) -> None:
        self.inputs: List[Tensor] = []
        self.dropped_providers: List[str] = []
        self._session: Any = None
        self._spec: Dict[str, Any] = {}
        self._feeds: Dict[str, Any] = {}
        self._held: List[Any] = []  # arrays whose memory the values in `_feeds` share
        self._call: Callable[..., Any] = lambda: None  # runs the session
        self._needs_values = False  # whether an input or output is of a type that NumPy lacks
        self._version = ""
        self._present: List[str] = []  # providers of this build, by their full names

    def unusable(self) -> str:
        return ""

    def import_runtime(self) -> Any:
        return import_runtime("onnxruntime")

    def open(self, spec: Dict[str, Any], imported: Callable[[], None] = lambda: None) -> None:
        """Load the model at the path `spec["model"]` into a session.

        Calls `imported` as soon as the runtime has been imported.

        Raises EngineError("input") for an option that ONNX Runtime does not have, and EngineError("model") with ONNX
        Runtime's message if the model cannot be loaded.
        """
        if spec["delegates"]:
            raise EngineError("input", "--delegate is for TFLite models; ONNX Runtime takes --provider")
        if not spec.get("xnnpack", True):
            raise EngineError("input", "--no-xnnpack is for TFLite models; ONNX Runtime has it with --provider only")
        if spec.get("signature"):
            raise EngineError("input", "--signature is for TFLite models; an ONNX model has one graph")
        self._spec = spec
        onnxruntime = self.import_runtime()
        imported()
        self._version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = spec["threads"]
        onnx_session.configure(onnxruntime, options, spec)
        if "log_level" in spec:  # in a helper's session only, since the session would also log in each inference
            options.log_severity_level = spec["log_level"]
            onnxruntime.set_default_logger_severity(spec["log_level"])
        if spec.get("records_placement"):
            options.add_session_config_entry(_RECORDS_PLACEMENT, "1")
        if "profile_prefix" in spec:  # in a helper's session only: it cannot be turned off again
            options.enable_profiling = True
            options.profile_file_prefix = spec["profile_prefix"]
        asked = _providers(onnxruntime, spec["providers"])
        present = self._present = onnxruntime.get_available_providers()
        cpu = "CPU" + SUFFIX
        usable = [(name, options) for name, options in asked if name in present and name != cpu] + [(cpu, {})]
        _load_cuda(onnxruntime, [name for name, _ in usable])
        self._session = self._loaded(spec["model"], options, usable)
        self.inputs = [_tensor(node) for node in self._session.get_inputs()]
        if any(0 in tensor.shape for tensor in self.inputs):
            changed = without_zero_dimensions(spec["model"])
            if changed is not None:
                options.add_session_config_entry(_EXTERNAL_FOLDER, os.path.dirname(os.path.abspath(spec["model"])))
                self._session = self._loaded(changed, options, usable)
        self._limit_ids(spec)
        small = [node.type for node in self._session.get_outputs() if _small_of(node.type)]
        self._needs_values = bool(small) or any(one.small for one in self.inputs)
        # If a provider failed at run time, ONNX Runtime would rebuild the session on the CPU and print a line; a
        # benchmark must not change what it measures.
        self._session.disable_fallback()
        have = self._session.get_providers()
        self.dropped_providers = [_short(name) for name, _ in asked if name not in have]

    def _loaded(self, model: Any, options: Any, providers: List[Any]) -> Any:
        """Return a session for `model`, a model's path or the bytes of its file.

        `options` are the session's SessionOptions. `providers` are (full name, options) pairs. Raises
        EngineError("model") if the model cannot be loaded.
        """
        try:
            with warnings.catch_warnings():
                # Missing providers are found afterwards by comparing with those of the session.
                warnings.simplefilter("ignore", UserWarning)
                return self.import_runtime().InferenceSession(model, options, providers=providers)
        except Exception as error:
            given = onnx_session.option_words(self._spec)
            advice = "it was loaded with %s" % given if given else ""
            raise EngineError("model", "%s: %s" % (self._spec["model"], one_line(error)), advice) from None

    def _limit_ids(self, spec: Dict[str, Any]) -> None:
        """Limit the random numbers for inputs that take ids, such as token ids.

        An id is the number of an entry in a table, which is a tensor of the model. So each random id must be below the
        table's length. `spec` has the fields of `EngineSpec` by name.
        """
        ids = [one for one in self.inputs if one.has_ids and random_count(source_of(one, spec["inputs"]))]
        lengths = table_lengths(spec["model"], [one.name for one in ids]) if ids else {}
        for one in ids:
            one.ids_below = max(1, min(one.ids_below, lengths.get(one.name, one.ids_below)))

    def reshape(self, shapes: Dict[str, List[int]]) -> None:
        """Do nothing: ONNX Runtime takes the shapes from the arrays of each inference."""

    def bind(self, feeds: Dict[str, Any]) -> Callable[[], Any]:
        if not self._needs_values:
            self._call, self._feeds = self._session.run, feeds
        else:  # outputs stay with the runtime
            small = {one.name: one.small for one in self.inputs}
            self._held = [packed(array) if _is_packed(small[name]) else array for name, array in feeds.items()]
            self._call = self._session.run_with_ort_values
            self._feeds = {name: self._value(small[name], array) for name, array in zip(feeds, self._held)}
        return functools.partial(self._call, None, self._feeds)

    def _value(self, small: Any, array: Any) -> Any:
        """Return `array` as an OrtValue, ONNX Runtime's own kind of tensor.

        `small` is the element type if NumPy lacks that type (bfloat16, 4-bit integers ...), else None. Raises
        EngineError("input") if `small` is given and ONNX Runtime is older than 1.20.
        """
        make = self.import_runtime().OrtValue
        if small is None:
            return make.ortvalue_from_numpy(array)
        if not hasattr(make, "ortvalue_from_numpy_with_onnx_type"):
            text = "ONNX Runtime %s takes no inputs of %s from Python" % (self._version, small.name)
            raise EngineError("input", text, "install a later version")
        return make.ortvalue_from_numpy_with_onnx_type(array, small.onnx_type)

    def outputs(self, done: Any) -> List[Tuple[str, Any, float, int]]:
        """Return a tuple (name, array, scale, zero point) for each output. `done` is what the inference returned.

        Scale and zero point are always 0.
        """
        arrays = [_array(value) for value in done] if self._needs_values else done
        return [(node.name, array, 0.0, 0) for node, array in zip(self._session.get_outputs(), arrays)]

    def explain_fallback(self, ran_on: Collection[str], is_stopped: Callable[[], bool]) -> Optional[Dict[str, Any]]:
        """Return {"reasons", "left_out"}: why operators do not run on the requested providers.

        "reasons" has the number of operators by reason. "left_out" says why a provider was left out, or is "". Returns
        None if no provider was left out, and no operator is known to have run on another provider. `ran_on` are the
        providers that ran operators; empty if that is unknown. The reasons come from the log of a second session, which
        a helper process loads and closes. `is_stopped` returns True when a stop is requested. Raises ProfilingError if
        the helper does not start.
        """
        asked = {_short(name).lower() for name, _ in self._spec["providers"]}
        kept = asked.intersection(_short(name).lower() for name in self._session.get_providers())
        fell_back = bool(kept) and not asked.issuperset(map(str.lower, ran_on))
        left_out, reasons = self.why_absent(), {}
        if fell_back or len(self.dropped_providers) > len(self._absent()):
            from ..profilers import Allowance  # noqa: PLC0415  only if operators are profiled

            helper = open_helper(self._spec, "onnx_placement")
            try:
                found: Dict[str, Any] = helper.burst(Allowance(0, is_stopped))
            finally:
                helper.close()
            left_out, reasons = left_out or found.get("left_out", ""), found.get("reasons", {})
        return {"reasons": reasons, "left_out": left_out} if fell_back or self.dropped_providers else None

    def _absent(self) -> List[str]:
        """Return the requested providers that this build of ONNX Runtime does not contain."""
        return [name for name in self.dropped_providers if name + SUFFIX not in self._present]

    def why_absent(self) -> str:
        """Return a sentence on the requested providers that this build does not contain, or "" if it has all."""
        absent = self._absent()
        have = ", ".join(map(_short, self._present))
        return "this build of ONNX Runtime has no %s: it has %s" % (", ".join(absent), have) if absent else ""

    def assigned(self) -> Optional[Dict[str, Dict[str, int]]]:
        """Return the number of operators by provider and type, or None if this version does not report it.

        The operators are those after ONNX Runtime's basic optimisations. Needs a session made with
        `spec["records_placement"]`.
        """
        ask = getattr(self._session, "get_provider_graph_assignment_info", None)
        if ask is None:
            return None
        placed: Dict[str, Dict[str, int]] = {}
        for part in ask():
            types = placed.setdefault(part.ep_name, {})
            for node in part.get_nodes():
                types[node.op_type] = types.get(node.op_type, 0) + 1
        return placed

    @staticmethod
    def by_short_names(placed: Dict[str, Any]) -> Dict[str, Any]:
        """Return `placed` with short keys: a provider's name as users write it, such as "CUDA"."""
        return {_short(name): value for name, value in placed.items()}

    def profilers(self) -> Iterator[Callable[[], Any]]:
        """Yield functions that make a profiler of operators, the best profiler first.

        Each function raises ProfilingError if its profiler does not work here. Providers that only launch kernels on a
        GPU are profiled in a process that waits for each kernel. Without the wait, the first operator that needs a
        result would seem to take the time of all operators before it.
        """
        from ..profilers.onnx_trace import WAITING  # noqa: PLC0415  only if operators are profiled

        switches = {WAITING[one] for one in map(_short, self._session.get_providers()) if one in WAITING}
        if "" not in switches:
            if not switches:
                yield self._run_profiler
            yield functools.partial(open_helper, self._spec, "onnx_trace", dict.fromkeys(switches, "1"))
        else:
            yield functools.partial(self._run_profiler, "; operators on the GPU have the time of launching them")

    def _run_profiler(self, remark: str = "") -> Any:
        from ..profilers.onnx_runs import RunProfiler  # noqa: PLC0415  only if operators are profiled

        profiler = RunProfiler(
            self.import_runtime(),
            lambda options: self._call(None, self._feeds, options),
            has_threads=self._shares_loops(),
        )
        profiler.way += remark
        return profiler

    def _shares_loops(self) -> bool:
        """Whether ONNX Runtime divides the work of one operator among several threads.

        Always False if a provider other than the CPU's may run some operators.
        """
        is_on_cpu = self._session.get_providers() == ["CPU" + SUFFIX]
        return is_on_cpu and self._spec["threads"] != 1 and len(os.sched_getaffinity(0)) > 1

    def end_profiling(self) -> str:
        """End ONNX Runtime's profiling of the session and return the path of the trace that ONNX Runtime wrote.

        Needs a session that was opened with a `profile_prefix` in its specification.
        """
        return str(self._session.end_profiling())

    def describe(self) -> Dict[str, Any]:
        return {
            "runtime": self.name,
            "version": self._version,
            "providers": [_short(name) for name in self._session.get_providers()],
            "dropped_providers": self.dropped_providers,
            "settings": onnx_session.settings(self._spec),
        }


def _providers(onnxruntime: Any, asked: List[Tuple[str, Dict[str, str]]]) -> List[Tuple[str, Dict[str, str]]]:
    """Return (full name, options) for each provider in `asked`, which has (name, options) pairs.

    For example, the name "cuda" becomes "CUDAExecutionProvider". Raises EngineError("input") for a name that ONNX
    Runtime does not know.
    """
    known = {_short(name).lower(): name for name in onnxruntime.get_all_providers()}
    available = [_short(name) for name in onnxruntime.get_available_providers()]
    full_names = []
    for name, options in asked:
        full = known.get(_short(name).lower())
        if full is None:
            text = "--provider %s: ONNX Runtime knows no such provider" % name
            raise EngineError("input", text, "this installation has %s" % ", ".join(available))
        full_names.append((full, dict(options)))
    return full_names


def _load_cuda(onnxruntime: Any, providers: List[str]) -> None:
    """Load the CUDA and cuDNN libraries of the `nvidia-*` Python packages, if one of `providers` needs them.

    The linker does not find these libraries itself. Without them, ONNX Runtime would leave the GPU's providers out.
    `preload_dlls` exists since ONNX Runtime 1.21
    (https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#preload-dlls). It prints which
    libraries it did not find.
    """
    if any(_short(name) in ("CUDA", "Tensorrt") for name in providers) and hasattr(onnxruntime, "preload_dlls"):
        with contextlib.redirect_stdout(sys.stderr):
            onnxruntime.preload_dlls()


def _array(value: Any) -> Any:
    """Return an output of a session as an array. `value` is the output as an OrtValue.

    NumPy lacks some element types: the small floats and the 4-bit integers. A small float type becomes float32, and a
    4-bit integer type becomes int8 or uint8. Returns None if the output is not a tensor. Returns None too if NumPy
    lacks its type and the output is not in the CPU's memory.
    """
    if not value.is_tensor():
        return None
    small = _small_of(value.data_type())
    if small is None:
        return value.numpy()
    if value.device_name() != "cpu":
        return None
    shape = value.shape()
    count = int(np.prod(shape))
    stored = (count + 1) // 2 if _is_packed(small) else count
    kind = ctypes.c_uint16 if small.bits == 16 else ctypes.c_uint8
    raw = np.array((kind * stored).from_address(value.data_ptr()) if stored else [], small.storage)
    return from_bits(small, unpacked(raw, count) if _is_packed(small) else raw).reshape(shape)


def _small_of(node_type: str) -> Any:
    """Return the `SmallType` that a type such as "tensor(bfloat16)" names, or None if NumPy has the element type."""
    match = re.match(r"tensor\((\w+)\)$", node_type)
    return SMALL_TYPES.get(match.group(1)) if match else None


def _is_packed(small: Any) -> bool:
    return small is not None and small.bits == 4


def _short(name: str) -> str:
    return name[: -len(SUFFIX)] if name.endswith(SUFFIX) else name


def _tensor(node: Any) -> Tensor:
    small = _small_of(node.type)
    if small is not None:
        return Tensor(node.name, node.shape, small.storage, small=small)
    match = re.match(r"tensor\((\w+)\)$", node.type)
    dtype = DTYPES.get(match.group(1)) if match else None
    if dtype is None:
        raise EngineError("input", "input %s is a %s, which edgetop cannot feed" % (node.name, node.type))
    return Tensor(node.name, node.shape, np.dtype(dtype))
