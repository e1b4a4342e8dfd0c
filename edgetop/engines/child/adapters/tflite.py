"""Run TensorFlow Lite models with LiteRT (`ai-edge-litert`) or `tflite-runtime` 2.14.

Both have the same class `Interpreter`. The timed call is `interpreter.invoke()`. The signature runner is not used: it
takes 10 us a call and pins the interpreter's buffers.

API: https://ai.google.dev/edge/api/tflite/python/tf/lite/Interpreter
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from .. import own_memory, tensor_arena
from ..engine_error import EngineError, one_line
from ..profilers import ProfilingError
from ..tensor_values import TEXT, Tensor, format_shape
from . import ON_THE_CPU, import_runtime, open_helper, package_version


class _Interpreter:
    """Adapter for an `Interpreter`. Its subclasses are for the two packages that have this class."""

    name = ""
    module = ""
    package = ""
    serves_all_streams = False  # an interpreter runs one inference at a time, in its own buffers
    profiler = ""  # module of ..profilers that times operators best

    def __init__(self) -> None:
        self.inputs: List[Tensor] = []
        self.interpreter: Any = None
        self._version = ""
        self._details: Dict[str, Any] = {}
        self._delegates: List[str] = []
        self._spec: Dict[str, Any] = {}
        self._signatures: List[str] = []
        self._signature = ""  # key of the signature that runs; "" if the file has none for the graph
        self._graph = 0  # the graph that runs
        self._growth: Optional[int] = None  # bytes by which memory grew while tensors were allocated; None if unknown
        self._outputs: List[Dict[str, Any]] = []  # details of the outputs of a requested signature

    def unusable(self) -> str:
        """Return in words why this runtime cannot work here, or "" if it can."""
        return ""

    def open(self, spec: Dict[str, Any], imported: Callable[[], None] = lambda: None) -> None:
        """Create the interpreter of the model at the path `spec["model"]`.

        Calls `imported` as soon as the runtime has been imported.

        Raises EngineError("model") with the runtime's message if the model cannot be loaded.
        """
        why = self.unusable()
        if why:
            raise EngineError("runtime", why, "name an interpreter where it fits with --engine-python")
        self.refuse_providers(spec["providers"])
        runtime = self.import_runtime()
        imported()
        self._version = package_version(self.package)
        self._spec = spec
        delegates = self.load_delegates()
        try:
            self.interpreter = runtime.Interpreter(
                model_path=spec["model"],
                num_threads=spec["threads"] or None,
                experimental_delegates=delegates or None,
                **self.resolver(),
            )
            self._details = _by_name(self.interpreter.get_input_details())
        except Exception as error:
            raise EngineError("model", "%s: %s" % (spec["model"], one_line(error))) from None
        self._choose_signature(spec.get("signature", ""))
        self.inputs = [_tensor(name, detail) for name, detail in self._details.items()]
        with contextlib.suppress(Exception):  # a private call, of some versions
            self._limit_ids()
        self._delegates = [path for path, _ in spec["delegates"]]

    def _choose_signature(self, asked: str) -> None:
        """Choose the graph of the signature named `asked`, or the file's first graph if `asked` is "".

        A signature is an entry point that the model's file names.

        Raises EngineError("input") if the model has no such signature.
        """
        try:
            runners = {key: self.interpreter.get_signature_runner(key) for key in self.interpreter.get_signature_list()}
            graphs = {key: int(runner._subgraph_index) for key, runner in runners.items()}  # noqa: SLF001
        except Exception:  # a version without signatures, or without this attribute
            runners, graphs = {}, {}
        self._signatures = list(graphs)
        self._signature = asked or next((key for key, graph in graphs.items() if graph == 0), "")
        if not asked:
            return
        if asked not in graphs:
            has = "it has %s" % ", ".join(graphs) if graphs else "it has none"
            raise EngineError("input", "--signature %s: the model has no such signature; %s" % (asked, has))
        self._graph = graphs[asked]
        self._details = runners[asked].get_input_details()
        self._outputs = [dict(of, name=name) for name, of in runners[asked].get_output_details().items()]

    def _limit_ids(self) -> None:
        """Limit the random numbers for inputs that take ids, such as token ids.

        An id is the number of an entry in a table, which is a tensor of the model. So each random id must be below the
        table's length. Call this before a delegate takes operators.
        """
        tensors = {detail["index"]: detail["shape"] for detail in self.interpreter.get_tensor_details()}
        source = {self._details[one.name]["index"]: one for one in self.inputs if one.has_ids}
        for op in self.interpreter._get_ops_details() if source else ():  # noqa: SLF001
            taken, given = list(op["inputs"]), list(op["outputs"])
            ids, table = {"GATHER": (1, 0), "EMBEDDING_LOOKUP": (0, 1)}.get(op["op_name"], (-1, -1))
            if ids >= 0 and taken[ids] in source and len(tensors[taken[table]]) > 1:
                limited = source[taken[ids]]
                limited.ids_below = max(1, min(limited.ids_below, int(tensors[taken[table]][0])))
            if op["op_name"] in ("CAST", "RESHAPE", "EXPAND_DIMS", "SQUEEZE") and taken[0] in source:
                source.update(dict.fromkeys(given, source[taken[0]]))

    def refuse_providers(self, providers: List[Any]) -> None:
        """Raise EngineError("input") if a provider is neither the CPU nor XNNPACK, or if a provider has options.

        `providers` are (name, options) pairs.
        """
        for name, options in providers:
            if name.upper() not in ON_THE_CPU:
                text = "--provider %s: %s has no accelerators of its own" % (name, self.name)
                raise EngineError("input", text, "give a TFLite model's --delegate, or --engine litert")
            if options:
                raise EngineError("input", "--provider %s: takes no options; --threads does" % name)

    def resolver(self, *, has_default: Optional[bool] = None) -> Dict[str, Any]:
        """Return {} to make an interpreter with XNNPACK, or the keyword arguments to make one without it.

        XNNPACK is the default delegate. `has_default` says whether to use it; None leaves that to the user's option.
        Raises EngineError("input") if the runtime cannot leave XNNPACK out.
        """
        if self._spec.get("xnnpack", True) if has_default is None else has_default:
            return {}
        resolvers: Any = getattr(self.import_runtime(), "OpResolverType", None)
        if not hasattr(resolvers, "BUILTIN_WITHOUT_DEFAULT_DELEGATES"):
            raise EngineError("input", "--no-xnnpack: %s %s cannot leave it out" % (self.name, self._version))
        return {"experimental_op_resolver_type": resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES}

    def import_runtime(self) -> Any:
        return import_runtime(self.module)

    @property
    def folder(self) -> str:
        """The folder in which the package is installed."""
        return os.path.dirname(str(self.import_runtime().__file__))

    def load_delegates(self) -> List[Any]:
        """Load the delegates that the user requested, and return them. Each call loads new delegates.

        Raises EngineError("input") if a delegate cannot be loaded.
        """
        runtime, loaded = self.import_runtime(), []
        for path, options in self._spec["delegates"]:
            try:
                # Checked before, because after a failure of `load_delegate` the runtime's object raises again when it
                # is deleted.
                library = ctypes.CDLL(path)
                for function in ("tflite_plugin_create_delegate", "tflite_plugin_destroy_delegate"):
                    getattr(library, function)
                loaded.append(runtime.load_delegate(path, dict(options)))
            except Exception as error:
                text = "--delegate %s: cannot be loaded: %s" % (path, one_line(error))
                raise EngineError("input", text) from None
        return loaded

    def reshape(self, shapes: Dict[str, List[int]]) -> None:
        """Set the inputs' shapes, by input name, and allocate the tensors.

        Raises EngineError if the model does not accept the shapes.
        """
        resized = []
        try:
            for tensor in self.inputs:
                detail, shape = self._details[tensor.name], shapes[tensor.name]
                if shape != [int(dim) for dim in detail["shape"]]:
                    resized.append(" with input %s as %s" % (tensor.name, format_shape(shape)))
                    self._resize(detail["index"], shape)
            before = own_memory.resident().get("anon_kib")
            self._allocate()
            if self._graph:
                self.interpreter._interpreter.AllocateTensors(self._graph)  # noqa: SLF001
            after = own_memory.resident().get("anon_kib")
            self._growth = None if before is None or after is None else max(0, after - before) * 1024
        except Exception as error:
            text = "the model cannot be prepared%s: %s" % (" and".join(resized), one_line(error))
            raise EngineError("model", text) from None
        # Makes variable tensors start from the model's own state. Resource variables, which this call does not reset,
        # are new anyway, since nothing has run yet.
        self.interpreter.reset_all_variables()

    def _resize(self, tensor: int, shape: List[int]) -> None:
        if self._graph:  # as SignatureRunner of the interpreter's module does
            self.interpreter._interpreter.ResizeInputTensor(  # noqa: SLF001
                tensor, np.array(shape, np.int32), False, self._graph
            )
        else:
            self.interpreter.resize_tensor_input(tensor, shape)

    def _allocate(self) -> None:
        self.interpreter.allocate_tensors()  # of the first graph; it also lets delegates take operators of all graphs

    def profilers(self) -> Iterator[Callable[[], Any]]:
        """Yield functions that make a profiler of operators, the best profiler first.

        Each function raises ProfilingError if its profiler does not work here.
        """
        if self._graph:
            yield self._refuse_profiling
            return
        for service in (self.profiler, "tflite_slices"):
            yield functools.partial(open_helper, dict(self._spec, engine=self.name), service)

    def _refuse_profiling(self) -> Any:
        raise ProfilingError(
            "operators are timed in the first graph of the file only, and %s is another" % self._signature
        )

    def bind(self, feeds: Dict[str, Any]) -> Callable[[], Any]:
        if self._graph:
            graph, inner = self._graph, self.interpreter._interpreter  # noqa: SLF001
            for name, array in feeds.items():
                inner.SetTensor(self._details[name]["index"], array, graph)
            return functools.partial(inner.Invoke, graph)
        for name, array in feeds.items():
            self.interpreter.set_tensor(self._details[name]["index"], array)
        return self.interpreter.invoke  # type: ignore[no-any-return]

    def outputs(self, _done: Any) -> List[Tuple[str, Any, float, int]]:
        """Return a tuple (name, array, scale, zero point) for each output of the last inference. `_done` is not used.

        A scale of 0 says that the output is not quantised.
        """
        details = self._outputs or self.interpreter.get_output_details()
        found = (self.interpreter.get_tensor(one["index"], self._graph) for one in details)
        return [(one["name"], array, *one["quantization"]) for one, array in zip(details, found)]

    def input_arrays(self) -> List[Any]:
        """Return the arrays that the interpreter holds as its inputs now, in the order of the model's inputs."""
        return [self.interpreter.get_tensor(detail["index"]) for detail in self._details.values()]

    def tensor_shapes(self) -> List[Any]:
        """Return [index, present shape] of each tensor of the file's first graph, such as [0, [1, 224, 224, 3]]."""
        details = self.interpreter.get_tensor_details()
        return [[int(detail["index"]), [int(size) for size in detail["shape"]]] for detail in details]

    def arena(self) -> Optional[Tuple[int, str]]:
        """Return how much memory the tensors take, as a pair (bytes, source), or None if that is unknown.

        The source is "tensors" if the bytes were counted from the tensors' addresses. The source is "growth" if the
        bytes are how much the memory of the process grew while tensors were allocated.
        """
        if not self._graph and self._executors() == ["CPU"]:
            placed = tensor_arena.placed_bytes(self.interpreter)
            if placed is not None:
                return placed, tensor_arena.TENSORS
        return None if self._growth is None else (self._growth, tensor_arena.GROWTH)

    def describe(self) -> Dict[str, Any]:
        executors = self._executors()
        dropped = self._delegates if executors == ["CPU"] else []  # no operator was delegated
        asked = [name for name, _ in self._spec["providers"] if name.upper() == "XNNPACK"]
        return {
            "runtime": self.name,
            "version": self._version,
            "providers": executors,
            "signature": self._signature,
            "signatures": self._signatures,
            "was_chosen": bool(self._spec.get("signature")),
            "dropped_providers": [*dropped, *(asked if "XNNPACK" not in executors else [])],
        }

    def _executors(self) -> List[str]:
        """Return the names of what runs the model's operators: delegates, then "CPU", such as ["XNNPACK", "CPU"]."""
        default = ["XNNPACK"] if self._spec.get("xnnpack", True) else []
        try:
            names = [op["op_name"] for op in self.interpreter._get_ops_details()]  # noqa: SLF001
        except Exception:  # a private call: absent or changed in some version
            return [*self._delegates, "CPU"]
        # It is not reported which delegate took them. XNNPACK, the default, takes what the user's delegates left over.
        return [*self._delegates, *default, "CPU"] if "DELEGATE" in names else ["CPU"]


class LiteRt(_Interpreter):
    name = "litert"
    module = "ai_edge_litert.interpreter"
    package = "ai-edge-litert"
    profiler = "litert"


class TfliteRuntime(_Interpreter):
    name = "tflite-runtime"
    module = "tflite_runtime.interpreter"
    package = "tflite-runtime"
    profiler = "tflite_interpreter"

    def __init__(self) -> None:
        super().__init__()
        self._attached: Optional[Any] = None

    def unusable(self) -> str:
        """Return in words why this runtime cannot work here, or "" if it can.

        The packages of tflite-runtime fail with numpy 2 (tensorflow/tensorflow#70830).
        """
        if int(np.__version__.split(".")[0]) >= 2:
            return "tflite-runtime needs numpy<2, and numpy %s is installed" % np.__version__
        return ""

    def _allocate(self) -> None:
        # A delegate's device may be usable by only one process, so that a helper could not use it.
        if self._spec["delegates"] and self._spec.get("profile_every_ns"):
            from ..profilers.tflite_interpreter import InterpreterProfiler  # noqa: PLC0415  only if it is needed

            with contextlib.suppress(ProfilingError):  # a helper reports the same, with its reason
                self._attached = InterpreterProfiler(self.interpreter, self.folder, self._version)
        super()._allocate()
        if self._attached:
            self._attached.detach()

    def profilers(self) -> Iterator[Callable[[], Any]]:
        if self._attached:
            yield lambda: self._attached
        yield from super().profilers()


def _by_name(details: List[Dict[str, Any]]) -> Dict[str, Dict[str, Any]]:
    """Return the descriptions of the inputs by name. `details` is what `get_input_details` of the interpreter returns.

    A missing or repeated name gets its number, as in `input:1`.
    """
    names = [detail["name"] for detail in details]
    places = ["%s:%d" % (name or "input", place) for place, name in enumerate(names)]
    unique = [name if name and names.count(name) == 1 else place for name, place in zip(names, places)]
    return dict(zip(unique, details))


def _tensor(name: str, detail: Dict[str, Any]) -> Tensor:
    shape = [int(dim) for dim in detail.get("shape_signature", detail["shape"])]
    is_text = not np.issubdtype(detail["dtype"], np.number) and detail["dtype"] is not np.bool_
    sizes = [None if dim < 0 else dim for dim in shape]
    return Tensor(
        name, sizes, TEXT if is_text else detail["dtype"], resizable=True, quantisation=detail["quantization"]
    )
