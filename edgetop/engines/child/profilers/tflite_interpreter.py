"""tflite-runtime 2.14: a profiler of our own on an interpreter, in a helper process but for delegates.

Python binds no profiler, but the module exports `Interpreter::SetProfiler`, which takes an
object with virtual functions (tensorflow/lite/core/api/profiler.h, v2.14.0). Such an object
is laid out here by hand, as the Itanium C++ ABI says. XNNPACK reports its operators only
where there was a profiler when the tensors were allocated, and then for ever: its delegate
collects names and times after every inference, whether anybody listens or not
(xnnpack_delegate.cc, AddEventsToProfiler). That was measured to cost a model of 164 operators
1.8 % and one of two operators 90 %, so it is not done to the interpreter that gives the latency,
unless that one has a delegate: a device such as a Coral may be one process's alone.
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

VERSION = "2.14."  # the last; its layouts are known
MACHINES = ("x86_64", "aarch64")  # where the layouts were verified
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
    """A `tflite::Profiler`: a pointer to a table of its virtual functions, in the order of their declaration."""

    def __init__(self) -> None:
        self._events: List[List[Any]] = []  # the fields of Event
        self._open: List[int] = []  # places of operators that have begun
        functions = [
            ctypes.CFUNCTYPE(None, _P)(self._nothing),  # the two destructors: nobody here owns it
            ctypes.CFUNCTYPE(None, _P)(self._nothing),
            ctypes.CFUNCTYPE(_U32, _P, _TEXT, _I32, _I64, _I64)(self._begin),
            ctypes.CFUNCTYPE(None, _P, _U32, _I64, _I64)(self._end),
            ctypes.CFUNCTYPE(None, _P, _U32)(self._end),
            ctypes.CFUNCTYPE(None, _P, _TEXT, _I32, _U64, _I64, _I64)(self._add),
            ctypes.CFUNCTYPE(None, _P, _TEXT, _I32, _P)(self._nothing),
        ]
        self._functions = functions  # alive as long as the table, which only has their addresses
        self._table = (_P * len(functions))(*[ctypes.cast(function, _P) for function in functions])
        self._object = (_P * 1)(ctypes.addressof(self._table))
        self.address = ctypes.addressof(self._object)

    def take(self) -> List[Event]:
        events, self._events, self._open = self._events, [], []
        return [
            Event(kind, (tag or b"").decode("utf-8", "replace"), index, graph, ns, within)
            for kind, tag, index, graph, ns, within in events
        ]

    def _begin(self, _: int, tag: bytes, kind: int, index: int, graph: int) -> int:
        place = len(self._events)
        event = [kind, tag, index, graph, 0, None]
        self._events.append(event)
        if kind in (OPERATOR, DELEGATE):
            self._open.append(place)
        event[4] = -time.monotonic_ns()
        return place

    def _end(self, _: int, place: int, *_more: int) -> None:
        now = time.monotonic_ns()
        if place < len(self._events):
            self._events[place][4] += now
        if self._open and self._open[-1] == place:
            self._open.pop()

    def _add(self, _: int, tag: bytes, kind: int, microseconds: int, index: int, graph: int) -> None:
        within = self._open[-1] if self._open else None
        self._events.append([kind, tag, index, graph, microseconds * 1000, within])

    @staticmethod
    def _nothing(*_: object) -> None:
        pass


class InterpreterProfiler:
    """A listener on an interpreter whose tensors are not yet allocated. Keep it as long as the interpreter.

    In the engine itself it is detached once they are allocated, and listens during bursts alone. It is never set to
    null: that frees the root of all profilers while the graphs still point to it, and the next inference crashes
    (interpreter.cc, SetProfiler).
    """

    way = "a profiler attached to the live interpreter"

    def __init__(self, interpreter: Any, package: str, version: str) -> None:
        """`package`: its folder. Raises ProfilingError."""
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
        """`GetProfiler` gives a SubgraphAwareProfiler {table, Profiler* root, int64 graph} (core/subgraph.h)."""
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
        """Run what is allowed, while the profiler is attached."""
        profile = Profile()
        self._name_of = self._name_of or names_of(self._interpreter)  # once the tensors are allocated
        self._listener.take()
        while allowance.takes_another():
            profile.timed(self._interpreter.invoke)
            add_events(profile, self._listener.take(), self._name_of)
        return profile.describe()


class Service:
    """Profiles in a helper process: on its own interpreter, which is made anew for each burst."""

    way = "a profiler attached to an interpreter in a helper process"

    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        self._spec = dict(spec, profile_every_ns=0)
        self._adapter = adapter
        self._package = adapter.folder  # which imports the runtime now, and not in a burst
        self._profiler: Any = None

    def make_ready(self) -> None:
        """Raises ProfilingError where the interpreter is not one that is known."""

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
