"""Time the inferences of a Python program that `edgetop watch` starts. Python imports this file at its start.

It wraps the calls of ONNX Runtime, LiteRT, tflite-runtime, OpenVINO, ncnn and llama-cpp-python when the program imports
them, and runs the program's own `sitecustomize`. Its errors never reach the program. A program that imports no runtime
has the same modules loaded as without edgetop. So this file imports only modules that the interpreter has loaded
itself. The module that writes calls is loaded together with a runtime.
"""

import os
import sys
import time
from _frozen_importlib import module_from_spec
from _frozen_importlib_external import PathFinder, spec_from_file_location

HERE = os.path.dirname(os.path.abspath(__file__))
TAP = "EDGETOP_TAP"  # folder for rings
CHILDREN = "EDGETOP_TAP_CHILDREN"  # if set, programs that this one starts are watched as well
SAMPLE_NS, SAMPLE_CALLS, SPREAD = 20_000_000, 8, 32  # least time and calls to the next sampled call, and how many more
FIRST_COST_AT, COSTS_KEPT = 8, 9
CALM_CALLS, SURE_LOOKS = 7, 32  # after 32 equal input shapes, check only one call in eight, since checks are slow
SESSIONS_NAMED = 8  # sessions of one model with their own name; further ones share a name


def _load(name, path):
    spec = spec_from_file_location(name, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _session_name(session):
    """Return a text that describes a session: runtime, version, providers and path of the model, with TABs between."""
    version = sys.modules["onnxruntime"].__version__
    path = getattr(session, "_model_path", None) or ""
    return "\t".join(("onnxruntime", version, ",".join(session.get_providers()), os.path.abspath(path) if path else ""))


def _interpreter_name(runtime, package):
    def name(session):
        path = getattr(getattr(session, "_interpreter", None), "_edgetop_model", "")  # of a signature's runner
        path = getattr(session, "_edgetop_model", path)
        version = str(getattr(sys.modules.get(package), "__version__", ""))
        return "\t".join((runtime, version, "", os.path.abspath(path) if path else ""))

    return name


def _threads(session, options):
    """Return how many threads a session uses: 0 for the runtime's default, -1 if unknown.

    `options` are the keyword arguments with which the program created it.
    """
    try:
        return int(session.get_session_options().intra_op_num_threads)
    except Exception:
        given = options.get("num_threads")
    return given if isinstance(given, int) else -1


class _SessionState:
    """Notes about one runtime session of the program. The object is stored as an attribute of that session."""

    __slots__ = ("calm", "flags", "number", "record", "ring", "same", "shapes", "text")

    def __init__(self, tap, ring, text, flags):
        self.ring, self.text, self.number, self.flags, self.shapes = ring, text, ring.name(text), flags, None
        # `calm` sets for how many calls the shapes of inputs are not checked.
        self.record, self.calm = ring.recorder(self.number, tap)
        self.same = 0  # number of successive checks that found the same shapes

    def __reduce__(self):
        return (type(None), ())  # a copy of a session gets its own


def _waiting():
    """Return a function that returns how long its thread has waited for a CPU so far, in ns.

    Return None if the kernel does not report this time, or if the program has not loaded ctypes (NumPy loads it). The
    function reads with ctypes, since Python's own calls would release the GIL, and the program might wait to get it
    back.
    """
    ctypes = sys.modules.get("ctypes")
    if ctypes is None:
        return None
    library, room = ctypes.PyDLL(None), 64
    begin, read, end = library.open, library.read, library.close
    flags = os.O_RDONLY | os.O_CLOEXEC

    def waited():
        file, text = begin(b"/proc/thread-self/schedstat", flags), ctypes.create_string_buffer(room)
        if file < 0:
            return None
        length = read(file, text, room)
        end(file)
        return int(text.raw[:length].split()[1])

    try:
        return waited if waited() is not None else None
    except Exception:
        return None


class _Look:
    """Does the work that not every call needs: it reports costs, and chooses the calls whose CPU time is measured.

    Several threads may change the counters of this object at the same time. At worst, it then chooses another call.
    """

    def __init__(self, wrapper):
        self._wrapper, self._turn, self._due, self._random = wrapper, 0, 0, 0
        self.left = 0  # the sampled call is this many calls away; 0: it is not chosen yet

    def after(self, start, end, args, options, *, is_recorded):
        try:
            if is_recorded:
                self._turn += CALM_CALLS
                self._wrapper.costs(time.monotonic_ns() - end)
                return
            self._wrapper.note(start, end, 1, args, options)
            self._turn += 1
            if self._turn == FIRST_COST_AT:
                self._wrapper.costs(time.monotonic_ns() - end, is_first=True)
            if self._turn >= SAMPLE_CALLS and end >= self._due:
                # A program calls its models in turns. With equal distances, one model would have all samples.
                self._random = (25_173 * self._random + 13_849) % 65_536
                self._turn, self._due, self.left = 0, end + SAMPLE_NS, 1 + self._random * SPREAD // 65_536
        except Exception:  # noqa: S110  nothing of this may reach the program
            pass


class _Wrapper:
    """Makes timed versions of the methods of one class of a runtime."""

    def __init__(self, probe, tap, describe, threads=_threads, feed=(2, "input_feed")):
        """Prepare to time the calls of sessions.

        `probe` is the module of the probe, and `tap` the object that holds the file for calls. `describe(session)`
        returns the text that names a session, as `_session_name` does. `threads(session, options)` returns a session's
        number of threads. `feed` says where a call has its inputs: (index of the positional argument or None, keyword).
        """
        self._probe, self._tap, self._describe, self._threads, self._feed = probe, tap, describe, threads, feed
        self._sessions = {}  # number of sessions so far, by model
        self._costs_ns = []  # recent costs of calls that are not sampled
        self._samples_ns = []  # recent costs of sampled calls

    def _state(self, session):
        """Return the notes about a session, or None if nobody watches.

        The notes are created at the session's first call. A forked child creates them again, with the same name.
        """
        ring, state = self._tap.ring, getattr(session, "_edgetop", None)
        if ring is None or (state is not None and state.ring is ring):
            return state
        text = state.text if state is not None else self._text(session)
        state = _SessionState(self._tap, ring, text, self._probe.FIRST)
        try:
            session._edgetop = state  # noqa: SLF001
        except Exception:  # noqa: S110  a class with slots: it is described again each time
            pass
        return state

    def _text(self, session):
        try:
            text = self._describe(session)
        except Exception:
            text = "\t\t\t"
        others = self._sessions[text] = self._sessions.get(text, 0) + 1
        return f"{text}#{others}" if 1 < others <= SESSIONS_NAMED else text

    def call(self, real):
        """Return a timed version of `real`, a method that runs inferences.

        A call that KeyboardInterrupt or SystemExit interrupts is not recorded.
        """
        now, note, sample, look = time.monotonic_ns, self.note, self._sampled(real), _Look(self)

        def timed(*args, **options):
            if look.left > 0:
                look.left -= 1
                if not look.left:
                    return sample(args, options)
            start = now()
            try:
                result = real(*args, **options)
            except Exception:
                note(start, now(), 0, args, options)
                raise
            end = now()
            try:
                calm = args[0]._edgetop.record(start, end)  # noqa: SLF001
            except Exception:  # the first call of the session
                calm = -1
            if calm < 1:
                look.after(start, end, args, options, is_recorded=calm == 0)
            return result

        return _like(real, timed)

    def _sampled(self, real):
        """Return a version of `real` that also measures its thread's CPU time and how long the thread waited for a CPU.

        This costs up to 0.2 ms if calls are rare, which would change the result at 20 calls a second. So only one call
        in 24 is measured in this way.
        """
        now, cpu, waited, note = time.monotonic_ns, time.thread_time_ns, _waiting(), self.note

        def before():
            try:
                return (waited() if waited else None), cpu()
            except Exception:
                return None

        def used(since, start, end):
            """Return (CPU time of the call in us, 1 + its wait for a CPU in us), or None if they cannot be read.

            The second number is 0 if the wait is unknown.
            """
            try:
                cpu_us = min(cpu() - since[1], end - start) // 1000
                after = waited() if since[0] is not None else None
                return cpu_us, 0 if after is None else (after - since[0]) // 1000 + 1
            except Exception:
                return None

        def timed(args, options):
            entered = now()
            since = before()
            start = now()
            try:
                result = real(*args, **options)
            except Exception:
                note(start, now(), 0, args, options)
                raise
            end = now()
            note(start, end, 1, args, options, used(since, start, end))
            _keep(self._samples_ns, start - entered + now() - end)
            return result

        return timed

    def costs(self, took_ns, *, is_first=False):
        """Report how many ns it takes to time a call in this program. `took_ns` is the newest measurement.

        Medians of recent measurements are reported, because the program may lose its CPU or the GIL between two reads
        of the clock. With `is_first`, the call does nothing if there is a measurement already.
        """
        try:
            if is_first and self._costs_ns:
                return
            _keep(self._costs_ns, took_ns)
            sample_ns = _median(self._samples_ns) // (SAMPLE_CALLS + SPREAD // 2) if self._samples_ns else 0
            self._tap.made.has_cost(_median(self._costs_ns) + sample_ns)
        except Exception:  # noqa: S110  nothing of this may reach the program
            pass

    def note(self, start, end, ok, args, options, used=None):
        """Record a call from `start` to `end`, in ns. `ok` is 0 if the call failed, else 1.

        `args` and `options` are the call's positional and keyword arguments. `used` is (CPU time in us, 1 + wait for a
        CPU in us), or None if these were not measured.
        """
        try:
            state = getattr(args[0], "_edgetop", None)
            if state is None or state.ring is not self._tap.made:
                state = self._state(args[0])
                if state is None:
                    return
            flags = state.flags
            if flags:
                state.flags = 0
            place, word = self._feed
            feed = args[place] if len(args) > place else options.get(word)
            state.calm(CALM_CALLS)
            if type(feed) is not dict and hasattr(feed, "shape"):
                feed = {"": feed}
            if type(feed) is dict:
                flags |= self._shape_flag(state, feed, start, end)
            cpu_us = 0
            if used:
                cpu_us, waited_us = used
                flags |= min(waited_us, self._probe.MOST_WAITED) << self._probe.WAITED_SHIFT
            state.ring.put(start, end, state.number, 1, ok, flags, cpu_us)
        except Exception:  # noqa: S110  nothing of this may reach the program
            pass

    def _shape_flag(self, state, feed, start, end):
        """Return RESHAPED if the inputs in `feed` have other shapes than at the last check, else 0.

        `state` has the notes about the session. `feed` has the inputs by name. The call ran from `start` to `end`, in
        ns. At first, every call is checked. When the shapes have been the same for a while, one call in eight is
        checked.
        """
        try:
            shapes = [value.shape for value in feed.values()]
        except AttributeError:  # such as for a list
            return 0
        if shapes == state.shapes:
            state.same += 1
            state.calm(CALM_CALLS if state.same >= SURE_LOOKS else 0)
            return 0
        state.same = 0
        state.calm(0)
        return self._reshaped(state, feed, shapes, start, end)

    def _reshaped(self, state, feed, shapes, start, end):
        """Report how many elements the inputs have. Return RESHAPED, or 0 if it is the session's first call.

        `state` has the notes about the session. `feed` has the inputs by name, and `shapes` their shapes. The call ran
        from `start` to `end`, in ns. At the first call, the inputs' names and shapes are reported too.
        """
        before = state.shapes
        if not all(isinstance(shape, tuple) for shape in shapes):
            return 0
        state.shapes = shapes
        state.ring.put(start, end, state.number, self._probe.SIZE, number=self._probe.elements(shapes))
        if before is not None:
            return self._probe.RESHAPED
        names = (getattr(name, "any_name", name) for name in feed)  # OpenVINO's ports are keys too
        sizes = ("%s %s" % (name, "x".join(map(str, shape))) for name, shape in zip(names, shapes) if shape)
        name = state.ring.name("\t\t\t" + ", ".join(sizes).strip())
        state.ring.put(1, 1, name, self._probe.INPUTS, number=state.number)
        return 0

    def callback(self, real):
        """Return a timed version of `real`, the method `run_async` of ONNX Runtime's sessions.

        The inference ends when ONNX Runtime calls the program's callback.
        """
        now, state_of, call = time.monotonic_ns, self._state, self._probe.CALL

        def timed(session, output_names, input_feed, callback, *args, **options):
            start = now()

            def ended(results, user_data, error):
                end = now()
                try:
                    state = state_of(session)
                    if state is not None:
                        state.ring.put(start, end, state.number, call, 0 if error else 1, state.flags)
                        state.flags = 0
                except Exception:  # noqa: S110  nothing of this may reach the program
                    pass
                return callback(results, user_data, error)

            return real(session, output_names, input_feed, ended, *args, **options)

        return _like(real, timed)

    def load(self, real):
        """Return a timed version of `real`, the constructor of a class, which loads the model."""
        now = time.monotonic_ns

        def timed(session, *args, **options):
            start = now()
            real(session, *args, **options)
            end = now()
            try:
                model = args[0] if args else options.get("model_path") or options.get("path_or_bytes")
                if isinstance(model, (str, os.PathLike)):
                    session._edgetop_model = os.fspath(model)  # noqa: SLF001
                state = self._state(session)
                if state is not None:
                    self.loaded(state, start, end, session, options)
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass

        return _like(real, timed)

    def loaded(self, state, start, end, session, options):
        """Report that a session was loaded from `start` to `end`, in ns.

        `state` has the notes about the session. `options` are the keyword arguments with which the program created it.
        """
        threads = self._threads(session, options)
        state.ring.put(start, end, state.number, self._probe.LOAD, number=threads + 1)


def _keep(last, value):
    last.append(value)
    del last[:-COSTS_KEPT]


def _median(values):
    return sorted(values)[len(values) // 2]


def _like(real, timed):
    """Return `timed` with the name and documentation of `real`."""
    timed.__wrapped__ = real
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        if hasattr(real, name):
            setattr(timed, name, getattr(real, name))
    return timed


_RUN = ("run", "run_with_iobinding", "run_with_ort_values", "run_with_ortvaluevector")
_LITERT, _TFLITE = _interpreter_name("litert", "ai_edge_litert"), _interpreter_name("tflite-runtime", "tflite_runtime")
_INTERPRETER = {"Interpreter": {"__init__": "load", "invoke": "call"}, "SignatureRunner": {"__call__": "call"}}

# The names of runtimes, and the wrappers for the methods of their classes, by module.
RUNTIMES = {
    "onnxruntime.capi.onnxruntime_inference_collection": (
        _session_name,
        {"InferenceSession": {"__init__": "load", **dict.fromkeys(_RUN, "call"), "run_async": "callback"}},
    ),
    "ai_edge_litert.interpreter": (_LITERT, _INTERPRETER),
    "ai_edge_litert.compiled_model": (
        _LITERT, {"CompiledModel": {"__init__": "load", "run_by_index": "call", "run_by_name": "call"}},
    ),
    "tflite_runtime.interpreter": (_TFLITE, _INTERPRETER),
}  # fmt: skip
# The files that wrap the classes of further runtimes, by module. Old versions of OpenVINO have the second name.
FILES = {
    "openvino._ov_api": "openvino_calls",
    "openvino.runtime.ie_api": "openvino_calls",
    "ncnn.ncnn": "ncnn_calls",
    "llama_cpp.llama_cpp": "llama_calls",
}


class _Finder:
    """Import hook that wraps a runtime's classes right after the program has imported the runtime's module."""

    def __init__(self):
        self._probe = self._tap = None

    def find_spec(self, name, path=None, target=None):
        if name == "multiprocessing.util":
            return self._after(name, path, self._watch_workers)
        if name in RUNTIMES or name in FILES:
            return self._after(name, path, self._wrap)
        return None

    @staticmethod
    def _after(name, path, action):
        try:
            spec = PathFinder.find_spec(name, path)
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                try:
                    action(name, module)
                except Exception:  # noqa: S110  nothing of this may reach the program
                    pass

            spec.loader.exec_module = exec_module
        except Exception:  # the module does not exist, or is loaded in a way that cannot be wrapped
            return None
        return spec

    def _wrap(self, name, module):
        if self._probe is None:
            self._probe = _load("_edgetop_probe", os.path.join(os.path.dirname(HERE), "edgetop_probe.py"))
            self._tap = self._probe.Tap("hook")
        if name in FILES:
            path = os.path.join(os.path.dirname(HERE), FILES[name] + ".py")
            _load("_edgetop_" + FILES[name], path).wrap(module, self._wrapper, _like)
            return
        describe, classes = RUNTIMES[name]
        for class_name, methods in classes.items():
            wrapper, cls = _Wrapper(self._probe, self._tap, describe), getattr(module, class_name, None)
            for method, how in methods.items():
                real = getattr(cls, method, None)
                if real is not None and cls is not None:
                    setattr(cls, method, getattr(wrapper, how)(real))

    def _wrapper(self, describe, threads, feed):
        return _Wrapper(self._probe, self._tap, describe, threads, feed)

    @staticmethod
    def _watch_workers(_name, module):
        """Make sure that worker processes which `multiprocessing` starts by spawn or fork server are watched too."""
        real = module.spawnv_passfds

        def spawnv_passfds(path, args, passfds):
            return _in_hook_environment(real, path, args, passfds)

        module.spawnv_passfds = _like(real, spawnv_passfds)


def _in_hook_environment(function, *args):
    """Call `function(*args)`, which starts a program, and return its result.

    Meanwhile, the environment has the variables that make Python load this file.
    """
    before = {key: os.environ.get(key) for key in (*_ENVIRONMENT, "PYTHONPATH")}
    os.environ.update(_with_tap(os.environ))
    try:
        return function(*args)
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _with_tap(environment):
    paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path and path != HERE]
    return {**environment, **_ENVIRONMENT, "PYTHONPATH": os.pathsep.join([HERE, *paths])}


def _stay_over_exec():
    """Keep watching this process when it executes another program. Processes that it forks are not watched."""
    pid, execv, execve = os.getpid(), os.execv, os.execve

    def timed_execv(path, args):
        if os.getpid() != pid:
            return execv(path, args)
        return _in_hook_environment(execv, path, args)

    def timed_execve(path, args, env):
        try:
            watched = _with_tap(env) if os.getpid() == pid else env
        except Exception:  # invalid arguments, which execve reports itself
            watched = env
        return execve(path, args, watched)

    os.execv, os.execve = _like(execv, timed_execv), _like(execve, timed_execve)


def _begin():
    _ENVIRONMENT[TAP] = sys._edgetop_tap = os.environ[TAP]  # noqa: SLF001  for `edgetop_probe` in this program
    sys.meta_path.insert(0, _Finder())
    if not os.environ.get(CHILDREN):
        _clean_environment()
        _stay_over_exec()


def _clean_environment():
    """Remove the variables that make Python load this file, so that programs which this one starts are not watched."""
    os.environ.pop(TAP, None)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != HERE]
    if paths:
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        os.environ.pop("PYTHONPATH", None)


def _write_lines():
    """Make Python write each printed line at once, as on a terminal, if edgetop hides the output behind its screen."""
    if os.environ.pop("EDGETOP_LINES", ""):
        try:
            sys.stdout.reconfigure(line_buffering=True)
        except Exception:  # noqa: S110  there is none
            pass


def _run_own_sitecustomize():
    """Run the program's own `sitecustomize`, which Python would have imported without this file.

    If there is none, raise the ImportError that Python's `site` expects, so that this file does not stay in
    `sys.modules`.
    """
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != HERE]
    sys.path_importer_cache.pop(HERE, None)
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        raise ImportError("the program has none", name="sitecustomize")
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_ENVIRONMENT = {}  # variables that load this file, besides PYTHONPATH
if os.environ.get(TAP):
    try:
        _begin()
    except Exception:  # noqa: S110  nothing of this may reach the program
        pass
_write_lines()
_run_own_sitecustomize()
