"""Adapt engines that are written against the public interface (engine_interface.py): edgetop's own and plug-ins.

A plug-in is a package that someone else wrote. This module checks everything that a plug-in returns. So a wrong value
ends the engine with one line that names the plug-in, instead of an error somewhere else.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..engine_error import EngineError, one_line, typed_line
from ..plugins import GROUP, entry_points
from ..tensor_values import TEXT, Tensor

VERSIONS = (1,)  # of the interface
MAX_TENSORS = 4096
MAX_OPERATORS = 100_000
MAX_DIMENSIONS = 32
OUTSIDE = ("outside operators", "Outside")  # name and type of what an inference takes besides its operators
KINDS = "biufc"  # of inputs' element types (numpy.dtype.kind), besides "string"
LONGEST_NS = 10**15  # of a run or an operator; above 11 days
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
        # The engine's own names of its inputs, by the names that edgetop shows, which are short and hold no line break.
        self._names: Dict[str, str] = {}

    def __copy__(self) -> "PublicEngine":
        """Return an adapter for one more parallel inference of the same model.

        If the engine has a method `another`, both adapters share the loaded model. If it has none, the model is opened
        again.
        """
        other = PublicEngine(self.name, self._load)
        if not self._has("another"):
            other.open(dict(self._spec, profile_every_ns=0))
            other.reshape(self._shapes)
            return other
        other._spec, other._shapes, other._names = self._spec, self._shapes, self._names
        other._engine = self._said("inference", "another", self._engine.another)
        other.inputs = [Tensor(one.name, one.shape, one.dtype, resizable=one.resizable) for one in self.inputs]
        return other

    def unusable(self) -> str:
        made = self._class()
        ask = getattr(made, "unusable", None)
        return _text(self._said("runtime", "unusable", ask)) if callable(ask) else ""

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
        except BaseException as error:  # SystemExit too
            words = one_line(error) if isinstance(error, Exception) else typed_line(error)
            raise EngineError("model", "%s: %s cannot open it: %s" % (spec["model"], self.name, words)) from None
        given = self._said("model", "inputs", self._engine.inputs)
        self._names = {}
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
        if self._has("reshape"):
            own = {self._names[name]: shape for name, shape in shapes.items()}
            self._said("input", "reshape", lambda: self._engine.reshape(own))

    def bind(self, feeds: Dict[str, Any]) -> Callable[[], Any]:
        own = {self._names[name]: array for name, array in feeds.items()}
        call = self._said("first", "bind", lambda: self._engine.bind(own))
        if not callable(call):
            raise self._nonsense("bind", "no function")
        checked: Callable[[], Any] = call
        return checked

    def outputs(self, done: Any) -> List[Tuple[str, Any, float, int]]:
        """Return a tuple (name, array, scale, zero point) for each output. `done` is what the inference returned.

        Scale and zero point are always 0.
        """
        if not self._has("outputs"):
            raise EngineError("input", "--keep-outputs: engine %s gives no outputs" % self.name)

        def checked(one: Any) -> Tuple[str, Any, float, int]:
            name, array = one
            return _text(name), np.asarray(array), 0.0, 0

        given = self._said("inference", "outputs", lambda: self._engine.outputs(done))
        return self._checked(given, "outputs", MAX_TENSORS, checked)

    def profilers(self) -> Iterator[Callable[[], Any]]:
        if self._has("profile"):
            yield functools.partial(_Profiler, self)

    def profile(self) -> Tuple[int, List[Tuple[str, str, str, int]]]:
        """Run the model once. Return its duration in ns, and (name, type, provider, ns) of each operator.

        The ns are the operator's own time. The last row is the rest of the duration, in which no operator ran.
        """

        def checked(one: Any) -> Tuple[str, str, str, int]:
            name, op_type, provider, own_ns = one
            return _text(name), _text(op_type), _text(provider), _time_ns(own_ns)

        def split(given: Any) -> Tuple[int, Any]:
            ns, operators = given
            if not ns:
                raise ValueError("a run that took no time")
            return _time_ns(ns), operators

        given = self._said("inference", "profile", self._engine.profile)
        whole_ns, operators = self._checked([given], "profile", 1, split)[0]
        rows = self._checked(operators, "profile", MAX_OPERATORS, checked)
        if rows:
            rows.append((*OUTSIDE, rows[-1][2], max(0, whole_ns - sum(own_ns for *_, own_ns in rows))))
        return whole_ns, rows

    @property
    def lacks_batch(self) -> bool:
        return self._has("lacks_batch") and bool(self._engine.lacks_batch)

    @property
    def profiled_by(self) -> str:
        own = _text(self._engine.profiled_by) if self._has("profiled_by") else ""
        return own or "the engine's own times of its operators"

    def describe(self) -> Dict[str, Any]:
        said: Any = self._said("runtime", "describe", self._engine.describe) if self._has("describe") else {}
        return dict(self._checked([said], "describe", 1, self._described)[0])

    def _described(self, said: Any) -> Dict[str, Any]:
        if not isinstance(said, dict):
            raise TypeError("no dictionary")
        providers = self._checked(said.get("providers") or ["CPU"], "describe", MAX_TENSORS, _text)
        given = said.get("asked")
        names = [name for name, _ in self._spec["providers"]]
        asked = names if given is None else self._checked(given, "describe", MAX_TENSORS, _text) if names else []
        have = {name.lower() for name in providers}
        settings = said.get("settings") or {}
        return {
            "runtime": self.name,
            "version": _text(said.get("version") or "") or "unknown",
            "providers": providers,
            "asked": None if given is None else asked,
            "compile_ns": _whole(said.get("compile_ns")),
            "dropped_providers": [name for name in asked if name.lower() not in have],
            "settings": {_text(key): _text(value) for key, value in list(settings.items())[:64]},
        }

    def _tensor(self, one: Any) -> Tensor:
        name, shape, dtype = one
        if not isinstance(name, str):
            raise TypeError("a name that is no text: %s" % _text(name))
        if isinstance(shape, (str, bytes)) or len(shape) > MAX_DIMENSIONS:
            raise ValueError("a shape that is no list of at most %d dimensions" % MAX_DIMENSIONS)
        sizes = [
            _text(dim) if isinstance(dim, str) else None if dim is None or int(dim) < 1 else int(dim) for dim in shape
        ]
        is_text = isinstance(dtype, str) and dtype == "string"
        kind = TEXT if is_text else np.dtype(dtype)
        if not is_text and kind.kind not in KINDS:
            raise TypeError("an element type that edgetop cannot feed: %s" % _text(str(kind)))
        self._names[_text(name)] = name
        return Tensor(_text(name), sizes, kind)

    def _has(self, member: str) -> bool:
        """Whether the engine has the attribute `member`. If reading the attribute raises an error, return False."""
        try:
            return hasattr(self._engine, member)
        except Exception:  # of a property
            return False

    def _said(self, stage: str, what: str, call: Callable[[], Any]) -> Any:
        """Call `call`, which calls the engine, and return the result. `what` names the engine's method.

        If the engine raises, EngineError is raised at the stage `stage`, with a message that names `what`.
        """
        try:
            return call()
        except EngineError:
            raise
        except BaseException as error:  # SystemExit too
            raise EngineError(stage, "engine %s: %s failed: %s" % (self.name, what, typed_line(error))) from None

    def _checked(self, given: Any, what: str, most: int, convert: Callable[[Any], Any]) -> List[Any]:
        """Return the elements of the list `given`, each converted by `convert`.

        The engine's method `what` has returned the list. Raises EngineError("runtime") if `given` is not a list, has
        more than `most` elements, or cannot be converted.
        """
        try:
            if isinstance(given, Sequence) and not isinstance(given, (str, bytes)) and len(given) <= most:
                return [convert(one) for one in given]
        except EngineError:
            raise
        except BaseException as error:  # of the engine's own objects too
            raise self._nonsense(what, one_line(error)) from None
        raise self._nonsense(what, "no list of at most %d elements" % most)

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


def _time_ns(value: Any) -> int:
    """Return a time in ns as a whole number. Raises an error if it is negative or impossibly long, or no number."""
    ns = int(value)
    if not 0 <= ns <= LONGEST_NS:
        raise ValueError("a time of %s ns" % _text(value))
    return ns


def _text(value: Any) -> str:
    """Return a value that an engine gave as one short line, "" for "". Raises no error, whatever the value is."""
    try:
        words = value if isinstance(value, str) else repr(value)
    except Exception:  # of the engine's own class
        words = "a %s" % type(value).__name__
    return one_line(words, _WORDS) if words.strip() else ""
