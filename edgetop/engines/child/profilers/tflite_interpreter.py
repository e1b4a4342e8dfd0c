"""Profile tflite-runtime 2.14 with a profiler that is attached to an interpreter.

The Python package has no profiler, but its library exports `Interpreter::SetProfiler`, which takes an object with
virtual functions (tensorflow/lite/core/api/profiler.h, v2.14.0). This module builds such an object by hand, as the
Itanium C++ ABI requires.

XNNPACK reports its operators only if there was a profiler when the tensors were allocated. From then on, its delegate
collects names and times after every inference, even if no profiler is attached any more (xnnpack_delegate.cc,
AddEventsToProfiler). This cost 1.8 % with a model of 164 operators and 90 % with one of two operators. So another
interpreter is profiled, in a helper process. The engine's own interpreter is profiled only if the engine has a
delegate, since a device such as a Coral may be usable by only one process.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from typing import Any, Callable, Dict, List, Optional

from ..inputs import bound
from . import Allowance, Profile, ProfilingError
from .tflite_events import DELEGATE, OPERATOR, Event, NameOf, add_events, names_of

VERSION = "2.14."  # the last version; its layouts are known
MACHINES = ("x86_64", "aarch64")  # machines for which the layouts were verified
LIBRARY = "_pywrap_tensorflow_interpreter_wrapper.so"

_SET = "_ZN6tflite4impl11Interpreter11SetProfilerEPNS_8ProfilerE"
_GET = "_ZN6tflite4impl11Interpreter11GetProfilerEv"
_ADD = "_ZN6tflite9profiling12RootProfiler11AddProfilerEPNS_8ProfilerE"
_REMOVE = "_ZN6tflite9profiling12RootProfiler20RemoveChildProfilersEv"

WARMUP_RUNS = 2

_P, _I32, _I64, _U32, _U64, _TEXT = (
    ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_char_p,
)  # fmt: skip


class Listener:
    """A `tflite::Profiler` object in C++, which collects events: a pointer to a table of its virtual functions."""

    def __init__(self) -> None:
        self._events: List[List[Any]] = []  # the fields of Event
        self._open: List[int] = []  # places of the events of operators that have begun
        functions = [
            ctypes.CFUNCTYPE(None, _P)(self._nothing),  # the two destructors have nothing to free
            ctypes.CFUNCTYPE(None, _P)(self._nothing),
            ctypes.CFUNCTYPE(_U32, _P, _TEXT, _I32, _I64, _I64)(self._begin),
            ctypes.CFUNCTYPE(None, _P, _U32, _I64, _I64)(self._end),
            ctypes.CFUNCTYPE(None, _P, _U32)(self._end),
            ctypes.CFUNCTYPE(None, _P, _TEXT, _I32, _U64, _I64, _I64)(self._add),
            ctypes.CFUNCTYPE(None, _P, _TEXT, _I32, _P)(self._nothing),
        ]
        self._functions = functions  # kept alive, since the table only has their addresses
        self._table = (_P * len(functions))(*[ctypes.cast(function, _P) for function in functions])
        self._object = (_P * 1)(ctypes.addressof(self._table))
        self.address = ctypes.addressof(self._object)

    def take(self) -> List[Event]:
        events, self._events, self._open = self._events, [], []
        return [
            Event(kind, (tag or b"").decode("utf-8", "replace"), index, graph, ns, within, begin_ns)
            for kind, tag, index, graph, ns, within, begin_ns in events
        ]

    def _begin(self, _: int, tag: bytes, kind: int, index: int, graph: int) -> int:
        place = len(self._events)
        event: List[Any] = [kind, tag, index, graph, 0, None, None]
        self._events.append(event)
        if kind in (OPERATOR, DELEGATE):
            self._open.append(place)
        event[6] = time.monotonic_ns()
        event[4] = -event[6]
        return place

    def _end(self, _: int, place: int, *_more: int) -> None:
        now = time.monotonic_ns()
        if place < len(self._events):
            self._events[place][4] += now
        if self._open and self._open[-1] == place:
            self._open.pop()

    def _add(self, _: int, tag: bytes, kind: int, microseconds: int, index: int, graph: int) -> None:
        within = self._open[-1] if self._open else None
        self._events.append([kind, tag, index, graph, microseconds * 1000, within, None])

    @staticmethod
    def _nothing(*_: object) -> None:
        pass


class InterpreterProfiler:
    """A profiler for one interpreter: `burst` attaches it, runs the model, and detaches it.

    Make it before the interpreter's tensors are allocated, and keep it as long as the interpreter. In the engine
    itself, call `detach` after the allocation. The interpreter's profiler is never set to null: that would free the
    root of all profilers while graphs still point to it, and the next inference would crash (interpreter.cc,
    SetProfiler).
    """

    way = "a profiler attached to the live interpreter"

    def __init__(self, interpreter: Any, package: str, version: str) -> None:
        """Attach a profiler to `interpreter`. Raises ProfilingError if this build of the runtime is unknown.

        `package` is the folder in which tflite-runtime is installed. `version` is its version, such as "2.14.0".
        """
        machine = platform.machine()
        _require(version.startswith(VERSION), "tflite-runtime %s is none that is known" % version)
        _require(machine in MACHINES, "its objects are not known on %s" % machine)
        try:
            library = ctypes.CDLL(os.path.join(package, LIBRARY))
            set_profiler = _function(library, _SET, None, 2)
            self._get = _function(library, _GET, _P, 1)
            self._add = _function(library, _ADD, None, 2)
            self._remove = _function(library, _REMOVE, None, 1)
            self._handle = int(interpreter._native_handle())  # noqa: SLF001
        except (OSError, AttributeError) as error:
            raise ProfilingError("no profiler for the interpreter: %s" % error) from None
        self._interpreter = interpreter
        self._name_of: Optional[NameOf] = None
        self._listener = Listener()
        set_profiler(self._handle, self._listener.address)

    def _root(self) -> int:
        """Return the address of the root of all profilers in the interpreter.

        `GetProfiler` returns a SubgraphAwareProfiler {table, Profiler* root, int64 graph} (core/subgraph.h).
        """
        address = ctypes.c_void_p.from_address(self._get(self._handle) + ctypes.sizeof(_P)).value
        _require(bool(address), "it has no root")
        assert address
        return address

    def detach(self) -> None:
        self._remove(self._root())
        self._listener.take()

    def burst(self, allowance: Allowance) -> Dict[str, Any]:
        self._add(self._root(), self._listener.address)
        try:
            return self.listen(allowance)
        finally:
            self.detach()

    def close(self) -> None:
        pass

    def listen(self, allowance: Allowance) -> Dict[str, Any]:
        """Run the model as often as `allowance` allows, and return the result of `Profile.describe`.

        The profiler must be attached.
        """
        profile = Profile(allowance.samples)
        self._name_of = self._name_of or names_of(self._interpreter)  # only possible once tensors are allocated
        self._listener.take()
        while allowance.takes_another():
            profile.timed(self._interpreter.invoke)
            add_events(profile, self._listener.take(), self._name_of)
        return profile.describe()


class Service:
    """Profiles in a helper process, each time with a new interpreter."""

    way = "a profiler attached to an interpreter in a helper process"

    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        self._spec = dict(spec, profile_every_ns=0)
        self._adapter = adapter
        self._package = adapter.folder  # imports the runtime now, and not in a burst
        self._profiler: Any = None

    def make_ready(self) -> None:
        """Make an interpreter with a profiler, and warm it up.

        Raises ProfilingError if this build of the runtime is unknown.
        """

        def attach() -> None:
            version = self._adapter.describe()["version"]
            self._profiler = InterpreterProfiler(self._adapter.interpreter, self._package, version)

        invoke = bound(self._adapter, self._spec, attach)
        for _ in range(WARMUP_RUNS):
            invoke()

    def burst(self, allowance: Allowance) -> Dict[str, Any]:
        try:
            described: Dict[str, Any] = self._profiler.listen(allowance)
        finally:
            self._adapter.interpreter = self._profiler = None
        return described


def _require(claim: bool, otherwise: str) -> None:
    if not claim:
        raise ProfilingError("no profiler for the interpreter: " + otherwise)


def _function(library: Any, name: str, result: Any, arguments: int) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(library, name)
    function.restype, function.argtypes = result, [_P] * arguments  # type: ignore[attr-defined]
    return function
