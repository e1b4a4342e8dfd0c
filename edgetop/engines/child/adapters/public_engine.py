"""Adapt engines that are written against the public interface (engine_interface.py): edgetop's own and plug-ins.

A plug-in is a package that someone else wrote. This module checks everything that a plug-in returns. So a wrong value
ends the engine with one line that names the plug-in, instead of an error somewhere else.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..engine_error import EngineError, one_line
from ..plugins import GROUP, entry_points
from ..tensor_values import TEXT, Tensor

VERSIONS = (1,)  # of the interface
MAX_TENSORS = 4096
MAX_OPERATORS = 100_000
MAX_DIMENSIONS = 32
OUTSIDE = ("outside operators", "Outside")  # name and type of what an inference takes besides its operators
_WORDS = 200  # characters of a text that an engine gives


def from_plugin(name: str) -> "PublicEngine":
    """Return an adapter that runs the plug-in engine called `name`.

    Raises EngineError("runtime") if no installed package has such an engine.
    """
    point = entry_points(GROUP).get(name)
    if point is None:
        text = "no installed package has an engine called %s" % name
        raise EngineError("runtime", text, "edgetop engines lists what is installed")
    return PublicEngine(name, point.load)


class PublicEngine:
    """Adapter for one engine of the public interface. It checks everything that the engine returns."""

    serves_all_streams = True  # by copies

    def __init__(self, name: str, load: Callable[[], Any]) -> None:
        """Prepare the adapter. `name` is the engine's name. `load` imports the engine and returns its class."""
        self.name = name
        self.inputs: List[Tensor] = []
        self._load = load
        self._engine: Any = None
        self._spec: Dict[str, Any] = {}
        self._shapes: Dict[str, List[int]] = {}

    def __copy__(self) -> "PublicEngine":
        """Return an adapter for one more parallel inference of the same model.

        If the engine has a method `another`, both adapters share the loaded model. If it has none, the model is opened
        again.
        """
        other = PublicEngine(self.name, self._load)
        if not hasattr(self._engine, "another"):
            other.open(dict(self._spec, profile_every_ns=0))
            other.reshape(self._shapes)
            return other
        other._spec, other._shapes = self._spec, self._shapes
        other._engine = self._said("inference", "another", self._engine.another)
        other.inputs = [Tensor(one.name, one.shape, one.dtype, resizable=one.resizable) for one in self.inputs]
        return other

    def unusable(self) -> str:
        made = self._class()
        ask = getattr(made, "unusable", None)
        return _text(ask()) if callable(ask) else ""

    def open(self, spec: Dict[str, Any], imported: Callable[[], None] = lambda: None) -> None:
        """Import the engine and open the model at the path `spec["model"]`. Raises EngineError if that fails.

        Calls `imported` as soon as the engine's package is imported.
        """
        for key, option in (("delegates", "--delegate"), ("signature", "--signature")):
            if spec.get(key):
                raise EngineError("input", "%s is for TFLite's own runtimes; %s takes --provider" % (option, self.name))
        if not spec.get("xnnpack", True):
            raise EngineError("input", "--no-xnnpack is for TFLite's own runtimes")
        made = self._class()
        imported()
        self._spec = spec
        self._engine = self._said("runtime", "its class", made)
        options = {"threads": spec["threads"], "streams": spec.get("streams", 1)}
        options["providers"] = [(name, dict(more)) for name, more in spec["providers"]]
        try:
            self._engine.open(spec["model"], options)
        except EngineError:
            raise
        except Exception as error:  # of any type
            text = "%s: %s cannot open it: %s" % (spec["model"], self.name, one_line(error))
            raise EngineError("model", text) from None
        given = self._said("model", "inputs", self._engine.inputs)
        self.inputs = self._checked(given, "inputs", MAX_TENSORS, self._tensor)
        names = [tensor.name for tensor in self.inputs]
        if len(set(names)) < len(names):
            raise self._nonsense("inputs", "two inputs of one name")

    def _class(self) -> Any:
        made = self._said("runtime", "its package", self._load)
        version = getattr(made, "interface", None)
        if version not in VERSIONS:
            text = "engine %s has version %s of the interface, and this edgetop has %s"
            versions = ", ".join(map(str, VERSIONS))
            raise EngineError(
                "runtime", text % (self.name, _text(repr(version)), versions), "install a version that fits"
            )
        return made

    def reshape(self, shapes: Dict[str, List[int]]) -> None:
        self._shapes = shapes
        if hasattr(self._engine, "reshape"):
            self._said("input", "reshape", lambda: self._engine.reshape(shapes))

    def bind(self, feeds: Dict[str, Any]) -> Callable[[], Any]:
        call = self._said("first", "bind", lambda: self._engine.bind(feeds))
        if not callable(call):
            raise self._nonsense("bind", "no function")
        checked: Callable[[], Any] = call
        return checked

    def outputs(self, done: Any) -> List[Tuple[str, Any, float, int]]:
        """Return a tuple (name, array, scale, zero point) for each output. `done` is what the inference returned.

        Scale and zero point are always 0.
        """
        if not hasattr(self._engine, "outputs"):
            raise EngineError("input", "--keep-outputs: engine %s gives no outputs" % self.name)

        def checked(one: Any) -> Tuple[str, Any, float, int]:
            name, array = one
            return _text(name), np.asarray(array), 0.0, 0

        given = self._said("inference", "outputs", lambda: self._engine.outputs(done))
        return self._checked(given, "outputs", MAX_TENSORS, checked)

    def profilers(self) -> Iterator[Callable[[], Any]]:
        if hasattr(self._engine, "profile"):
            yield functools.partial(_Profiler, self)

    def profile(self) -> Tuple[int, List[Tuple[str, str, str, int]]]:
        """Run the model once. Return its duration in ns, and (name, type, provider, ns) of each operator.

        The ns are the operator's own time. The last row is the rest of the duration, in which no operator ran.
        """
        ns, operators = self._engine.profile()

        def checked(one: Any) -> Tuple[str, str, str, int]:
            name, op_type, provider, own_ns = one
            return _text(name), _text(op_type), _text(provider), max(0, int(own_ns))

        whole_ns, rows = max(0, int(ns)), self._checked(operators, "profile", MAX_OPERATORS, checked)
        if rows:
            rows.append((*OUTSIDE, rows[-1][2], max(0, whole_ns - sum(own_ns for *_, own_ns in rows))))
        return whole_ns, rows

    @property
    def lacks_batch(self) -> bool:
        return bool(getattr(self._engine, "lacks_batch", False))

    @property
    def profiled_by(self) -> str:
        return _text(getattr(self._engine, "profiled_by", "")) or "the engine's own times of its operators"

    def describe(self) -> Dict[str, Any]:
        said: Any = (
            self._said("runtime", "describe", self._engine.describe) if hasattr(self._engine, "describe") else {}
        )
        if not isinstance(said, dict):
            raise self._nonsense("describe", "no dictionary")
        providers = [_text(one) for one in said.get("providers") or ["CPU"]]
        given = said.get("asked")
        names = [name for name, _ in self._spec["providers"]]
        asked = names if given is None else self._checked(given, "describe", MAX_TENSORS, _text) if names else []
        have = {name.lower() for name in providers}
        return {
            "runtime": self.name,
            "version": _text(said.get("version") or "") or "unknown",
            "providers": providers,
            "asked": None if given is None else asked,
            "compile_ns": _whole(said.get("compile_ns")),
            "dropped_providers": [name for name in asked if name.lower() not in have],
            "settings": {_text(key): _text(value) for key, value in list((said.get("settings") or {}).items())[:64]},
        }

    def _tensor(self, one: Any) -> Tensor:
        name, shape, dtype = one
        sizes = [dim if isinstance(dim, str) else None if dim is None or int(dim) < 1 else int(dim) for dim in shape]
        if len(sizes) > MAX_DIMENSIONS:
            raise ValueError("more than %d dimensions" % MAX_DIMENSIONS)
        return Tensor(_text(name), sizes, TEXT if dtype == "string" else np.dtype(dtype))

    def _said(self, stage: str, what: str, call: Callable[[], Any]) -> Any:
        """Call `call`, which calls the engine, and return the result. `what` names the engine's method.

        If the engine raises, EngineError is raised at the stage `stage`, with a message that names `what`.
        """
        try:
            return call()
        except EngineError:
            raise
        except Exception as error:  # of any type
            text = "engine %s: %s failed: %s: %s" % (self.name, what, type(error).__name__, one_line(error))
            raise EngineError(stage, text) from None

    def _checked(self, given: Any, what: str, most: int, convert: Callable[[Any], Any]) -> List[Any]:
        """Return the elements of the list `given`, each converted by `convert`.

        The engine's method `what` has returned the list. Raises EngineError("runtime") if `given` is not a list, has
        more than `most` elements, or cannot be converted.
        """
        if not isinstance(given, Sequence) or isinstance(given, (str, bytes)) or len(given) > most:
            raise self._nonsense(what, "no list of at most %d elements" % most)
        try:
            return [convert(one) for one in given]
        except (TypeError, ValueError, OverflowError) as error:
            raise self._nonsense(what, one_line(error)) from None

    def _nonsense(self, what: str, why: str) -> EngineError:
        text = "engine %s: its %s() gave what the interface does not allow: %s" % (self.name, what, why)
        return EngineError("runtime", text, "report it to its authors")


class _Profiler:
    """Profiler for an engine that times its own operators."""

    def __init__(self, adapter: PublicEngine) -> None:
        """Run the model once with profiling. The first run may take longer, for example to compile the model again."""
        self._adapter, self.way = adapter, adapter.profiled_by
        adapter.profile()

    def burst(self, allowance: Any) -> Dict[str, Any]:
        from ..profilers import Profile  # noqa: PLC0415  only if operators are profiled

        profile = Profile()
        while allowance.takes_another():
            ns, operators = self._adapter.profile()
            profile.begin_run(ns)
            for operator in operators:
                profile.add(*operator)
        return profile.describe()

    def close(self) -> None:
        pass


def _whole(value: Any) -> Optional[int]:
    """Return a time in ns as it is, or None if it is no whole number above 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**62 else None


def _text(value: Any) -> str:
    return one_line(value if isinstance(value, str) else repr(value), _WORDS)
