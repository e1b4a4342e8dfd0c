"""Times the inferences of a Python program that `edgetop watch` starts: Python imports this file by itself.

It wraps the calls of ONNX Runtime, LiteRT and tflite-runtime when the program imports them, and hands on to a
`sitecustomize` that the program has of its own. Only the standard library is imported; no error reaches the program.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CHILDREN = "EDGETOP_TAP_CHILDREN"  # set: programs that this one starts are watched as well
CALIBRATION_CALLS = 2_000
CPU_EVERY_NS = 10_000_000
SESSIONS_NAMED = 8  # of one model; what more there are share a name


def _load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _session_name(session):
    """Asked once a session: runtime, version, providers and the model's path."""
    version = sys.modules["onnxruntime"].__version__
    path = getattr(session, "_model_path", None) or ""
    return "\t".join(("onnxruntime", version, ",".join(session.get_providers()), os.path.abspath(path) if path else ""))


def _interpreter_name(runtime, package):
    def name(interpreter):
        path = getattr(interpreter, "_edgetop_model", "")
        version = str(getattr(sys.modules.get(package), "__version__", ""))
        return "\t".join((runtime, version, "", os.path.abspath(path) if path else ""))

    return name


def _threads(session, options):
    """How many threads a session runs on; 0: as many as the runtime sees fit; -1: not known."""
    with contextlib.suppress(Exception):
        return int(session.get_session_options().intra_op_num_threads)
    given = options.get("num_threads")
    return given if isinstance(given, int) else -1


class _Wrapper:
    """Wraps the methods of one class."""

    def __init__(self, probe, tap, describe):
        self._probe, self._tap, self._describe = probe, tap, describe
        self._sessions = {}  # of each model, so far

    def _name_of(self, session, ring):
        """The number of the session's name in this ring, kept on the session, and the flag of its first call."""
        known = getattr(session, "_edgetop_name", None)
        if known is not None and known[0] is ring:
            if known[2]:
                session._edgetop_name = (ring, known[1], 0)  # noqa: SLF001
            return known[1:]
        text = "\t\t\t"
        with contextlib.suppress(Exception):
            text = self._describe(session)
        others = self._sessions[text] = self._sessions.get(text, 0) + 1
        number = ring.name(f"{text}#{others}" if 1 < others <= SESSIONS_NAMED else text)
        with contextlib.suppress(Exception):
            session._edgetop_name = (ring, number, 0)  # noqa: SLF001
        return number, self._probe.FIRST

    def call(self, real):
        """`real`, timed; now and then with the CPU time of its thread, which costs more than all else here."""
        now, cpu, call, tap = time.monotonic_ns, time.thread_time_ns, self._probe.CALL, self._tap
        due = [0]

        def timed(session, *args, **options):
            ok = cpu_ns = 0
            start = now()
            if start >= due[0]:
                due[0] = start + CPU_EVERY_NS
                cpu_ns = cpu()
                start = now()
            try:
                result = real(session, *args, **options)
                ok = 1
                return result
            finally:
                end = now()
                if cpu_ns:
                    cpu_ns = cpu() - cpu_ns
                ring = tap.ring
                if ring is not None:
                    number, flags = self._name_of(session, ring)
                    flags |= self._shape_flag(session, ring, number, args, options)
                    ring.put(start, end, number, call, ok, flags, min(cpu_ns, end - start) // 1000)

        return _as(real, timed)

    def _shape_flag(self, session, ring, number, args, options):
        """Whether an input has another shape than in the call before. The shapes of a session's first are reported."""
        feed = args[1] if len(args) > 1 else options.get("input_feed")
        if type(feed) is not dict:
            return 0
        shapes = [getattr(value, "shape", None) for value in feed.values()]
        known = getattr(session, "_edgetop_shapes", None)
        if known is not None and known[1] == shapes:
            return 0
        with contextlib.suppress(Exception):
            session._edgetop_shapes = (ring, shapes)  # noqa: SLF001
            if known is None or known[0] is not ring:
                sizes = ("%s %s" % (name, "x".join(map(str, shape))) for name, shape in zip(feed, shapes) if shape)
                name = ring.name("\t\t\t" + ", ".join(sizes))
                ring.put(1, 1, name, self._probe.INPUTS, number=number)
        return 0 if known is None else self._probe.RESHAPED

    def callback(self, real):
        """`run_async`: one inference ends when its callback is called."""
        now, tap, name_of = time.monotonic_ns, self._tap, self._name_of

        def timed(session, output_names, input_feed, callback, *args, **options):
            start = now()

            def ended(results, user_data, error):
                end = now()
                if tap.ring is not None:
                    number, first = name_of(session, tap.ring)
                    tap.ring.put(start, end, number, self._probe.CALL, 0 if error else 1, first)
                return callback(results, user_data, error)

            return real(session, output_names, input_feed, ended, *args, **options)

        return _as(real, timed)

    def load(self, real):
        """The constructor: how long the model took to load."""
        now = time.monotonic_ns

        def timed(session, *args, **options):
            start = now()
            real(session, *args, **options)
            end = now()
            with contextlib.suppress(Exception):
                model = args[0] if args else options.get("model_path") or options.get("path_or_bytes")
                if isinstance(model, (str, os.PathLike)):
                    session._edgetop_model = os.fspath(model)  # noqa: SLF001
                ring = self._tap.ring
                if ring is not None:
                    number, _ = self._name_of(session, ring)
                    session._edgetop_name = (ring, number, self._probe.FIRST)  # noqa: SLF001  no call was made yet
                    ring.put(start, end, number, self._probe.LOAD, number=_threads(session, options) + 1)

        return _as(real, timed)


def _as(real, timed):
    timed.__wrapped__ = real
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        with contextlib.suppress(AttributeError):
            setattr(timed, name, getattr(real, name))
    return timed


RUNTIMES = {
    "onnxruntime.capi.onnxruntime_inference_collection": (
        "InferenceSession", _session_name,
        {"__init__": "load", "run": "call", "run_with_iobinding": "call", "run_async": "callback"},
    ),
    "ai_edge_litert.interpreter": (
        "Interpreter", _interpreter_name("litert", "ai_edge_litert"), {"__init__": "load", "invoke": "call"},
    ),
    "ai_edge_litert.compiled_model": (
        "CompiledModel", _interpreter_name("litert", "ai_edge_litert"), {"run_by_index": "call", "run_by_name": "call"},
    ),
    "tflite_runtime.interpreter": (
        "Interpreter", _interpreter_name("tflite-runtime", "tflite_runtime"), {"__init__": "load", "invoke": "call"},
    ),
}  # fmt: skip


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps what a runtime's module defines, just after the program has imported it."""

    def __init__(self, probe, tap):
        self._probe, self._tap = probe, tap

    def find_spec(self, name, path, target=None):
        if name == "multiprocessing.util":
            return self._after(name, path, self._pass_on_to_workers)
        if name in RUNTIMES:
            return self._after(name, path, self._wrap)
        return None

    @staticmethod
    def _after(name, path, action):
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            with contextlib.suppress(Exception):
                action(name, module)

        spec.loader.exec_module = exec_module
        return spec

    def _wrap(self, name, module):
        class_name, describe, methods = RUNTIMES[name]
        wrapper, cls = _Wrapper(self._probe, self._tap, describe), getattr(module, class_name)
        for method, how in methods.items():
            real = getattr(cls, method, None)
            if real is not None:
                setattr(cls, method, getattr(wrapper, how)(real))
        if self._tap.ring is not None:
            self._tap.ring.has_cost(_cost(self._probe, self._tap))

    @staticmethod
    def _pass_on_to_workers(_name, module):
        """Processes that `multiprocessing` starts anew (spawn, fork server) are workers of this program."""
        real = module.spawnv_passfds

        def spawnv_passfds(path, args, passfds):
            before = {key: os.environ.get(key) for key in _ENVIRONMENT}
            os.environ.update(_ENVIRONMENT)
            try:
                return real(path, args, passfds)
            finally:
                for key, value in before.items():
                    if value is None:
                        os.environ.pop(key, None)
                    else:
                        os.environ[key] = value

        module.spawnv_passfds = _as(real, spawnv_passfds)


class _Idle:
    """Stands for a session while the cost of a call is measured."""


def _cost(probe, tap):
    """The median of what the wrapper adds to a call that does nothing, in ns; its records go to a ring that goes."""
    folder, now = tap.folder, time.monotonic_ns

    def nothing(_session, _names, _feed):
        return None

    import tempfile

    with tempfile.TemporaryDirectory(dir=folder) as scratch:

        class Scratch:
            ring = probe.Ring(scratch, "hook")

        timed = _Wrapper(probe, Scratch, lambda _: "")
        call, idle = timed.call(nothing), _Idle()
        call(idle, None, {})
        costs = []
        for _ in range(CALIBRATION_CALLS // 100):
            start = now()
            for _ in range(100):
                call(idle, None, {})
            middle = now()
            for _ in range(100):
                nothing(idle, None, {})
            costs.append((2 * middle - start - now()) / 100)
    return sorted(costs)[len(costs) // 2]


def _begin():
    probe = _load("_edgetop_probe", os.path.join(os.path.dirname(HERE), "edgetop_probe.py"))
    _ENVIRONMENT.update({key: os.environ[key] for key in (probe.FOLDER, "PYTHONPATH") if key in os.environ})
    sys._edgetop_tap = os.environ[probe.FOLDER]  # noqa: SLF001  for `edgetop_probe` in this program
    tap = probe.Tap("hook")
    if tap.is_watched:
        sys.meta_path.insert(0, _Finder(probe, tap))
        if not os.environ.get(CHILDREN):
            _leave_no_trace()


def _leave_no_trace():
    """Programs that this one starts are none of edgetop's business."""
    os.environ.pop("EDGETOP_TAP", None)
    kept = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != HERE]
    if kept:
        os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        os.environ.pop("PYTHONPATH", None)


def _hand_on():
    """To the `sitecustomize` that would have been imported without this one."""
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_ENVIRONMENT = {}
if os.environ.get("EDGETOP_TAP"):
    with contextlib.suppress(Exception):
        _begin()
_hand_on()
