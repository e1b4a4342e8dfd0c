"""Time the inferences of a program that uses OpenVINO. The Python hook loads this file when the program imports it.

All requests of a compiled model are one session. A call of `InferRequest.infer` is an inference, which is also what
`CompiledModel.__call__` and `infer_new_request` make. An asynchronous inference lasts as long as OpenVINO says:
`InferRequest.latency` is the time from its start in the runtime to its end. The latency is read when the program learns
that the inference has ended: from `wait`, by its callback, or when it starts the same request again.
"""

import os
import sys
import time
import weakref
from _thread import get_ident

MOST_NAMES = 1_000  # models whose names are kept
COST_EACH = 16  # measure the cost of one asynchronous inference in 16


def wrap(module, make, like):
    """Wrap the classes of `module`, which is OpenVINO's Python API.

    `make(describe, threads, feed)` returns the hook's `_Wrapper` with these parameters. `like(real, timed)` returns
    `timed` with the name of `real`.
    """
    wrapper = make(_describe, _threads, (1, "inputs"))
    _Timed(module, wrapper).wrap(like)


def _describe(compiled):
    """Return a text that describes a compiled model: runtime, version, devices and path or name, with TABs between."""
    if not hasattr(compiled, "create_infer_request"):  # a request that was not made by `create_infer_request`
        compiled = compiled.get_compiled_model()
    path = getattr(compiled, "_edgetop_model", "")
    version = str(getattr(sys.modules.get("openvino"), "__version__", "")).split("-")[0]
    try:
        devices = ",".join(str(one).strip("()") for one in compiled.get_property("EXECUTION_DEVICES"))
    except Exception:  # not every device has it
        devices = ""
    name = os.path.abspath(path) if path else str(compiled.get_property("NETWORK_NAME"))
    return f"openvino\t{version}\t{devices}\t{name}"


def _threads(compiled, _options):
    """Return how many threads a compiled model uses, or -1 if its device does not say."""
    try:
        return int(compiled.get_property("INFERENCE_NUM_THREADS"))
    except Exception:
        return -1


class _Timed:
    """The timed versions of OpenVINO's functions. Each method returns one; `real` is the function of OpenVINO."""

    def __init__(self, module, wrapper):
        self._module, self._wrapper, self._now = module, wrapper, time.monotonic_ns
        self._paths = {}  # path of the file by the name of a model that was read; "" if several files have that name
        self._turn = 0

    def wrap(self, like):
        core, queue = self._module.Core, self._module.AsyncInferQueue
        compiled, request = self._module.CompiledModel, self._module.InferRequest
        self._request_of = queue.__mro__[1].__getitem__  # the request itself, without the Python object around it
        wrapped = [
            (core, "read_model", self.read),
            (core, "compile_model", self.compile),
            (core, "import_model", self.compile),
            (compiled, "create_infer_request", self.create),
            (request, "__init__", self.copied),
            (request, "infer", self._wrapper.call),
            (request, "start_async", self.start),
            (request, "wait", self.wait),
            (request, "wait_for", self.wait),
            (request, "set_callback", self.callback),
            (queue, "__init__", self.queue),
            (queue, "get_idle_request_id", self.idle),
            (queue, "start_async", self.queue_start),
            (queue, "wait_all", self.wait_all),
            (queue, "set_callback", self.queue_callback),
        ]
        for cls, name, how in wrapped:
            real = getattr(cls, name, None)
            if real is not None:
                setattr(cls, name, like(real, how(real)))

    # Models

    def read(self, real):
        def timed(core, *args, **options):
            result = real(core, *args, **options)
            try:
                path = args[0] if args else options.get("model")
                if isinstance(path, (str, os.PathLike)):
                    result._edgetop_model = path = os.path.abspath(os.fspath(path))  # noqa: SLF001
                    name = result.friendly_name
                    if len(self._paths) < MOST_NAMES:
                        self._paths[name] = path if self._paths.get(name, path) == path else ""
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return result

        return timed

    def compile(self, real):
        now, state_of, load = self._now, self._wrapper._state, self._wrapper.loaded  # noqa: SLF001

        def timed(core, *args, **options):
            start = now()
            result = real(core, *args, **options)
            end = now()
            try:
                model = args[0] if args else options.get("model")
                if isinstance(model, (str, os.PathLike)):
                    path = os.fspath(model)
                    path = "" if path.lstrip().startswith("<") else path  # the text of an IR
                else:  # a model that was read may have been changed or copied since
                    path = getattr(model, "_edgetop_model", "") or self._paths.get(result.get_property("NETWORK_NAME"))
                result._edgetop_model = path or ""  # noqa: SLF001
                state = state_of(result)
                if state is not None:
                    load(state, start, end, result, options)
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return result

        return timed

    def create(self, real):
        state_of = self._wrapper._state  # noqa: SLF001

        def timed(compiled, *args, **options):
            request = real(compiled, *args, **options)
            try:
                request._edgetop = state_of(compiled)  # noqa: SLF001
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return request

        return timed

    def copied(self, real):
        """Return a timed version of `real`, which makes an `InferRequest` from another one.

        Both are the same request of OpenVINO, so the new object gets the notes of the other one.
        """

        def timed(request, *args, **options):
            real(request, *args, **options)
            try:
                state = getattr(args[0] if args else options.get("other"), "_edgetop", None)
                if state is not None:
                    request._edgetop = state  # noqa: SLF001
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass

        return timed

    # Asynchronous inferences

    def start(self, real):
        now = self._now

        def timed(request, *args, **options):
            try:
                own = vars(request)
                # Of a request that starts again, the inference before has ended. If its callback was not called, it
                # has failed.
                self._settle(request, ok=0 if "_edgetop_calls_back" in own else 1)
                started = own["_edgetop_started"] = [now()]
            except Exception:
                return real(request, *args, **options)
            try:
                result = real(request, *args, **options)
            except BaseException:
                own.pop("_edgetop_started", None)
                raise
            started[0] = now()
            return result

        return timed

    def wait(self, real):
        now = self._now

        def timed(request, *args, **options):
            try:
                has_ended = real(request, *args, **options)
            except Exception:
                end = now()
                try:
                    self._settle(request, ok=0, end=end)
                except Exception:  # noqa: S110  nothing of this may reach the program
                    pass
                raise
            if has_ended is not False:  # `wait` returns None, and `wait_for` whether the inference has ended
                try:
                    self._settle(request)
                except Exception:  # noqa: S110  nothing of this may reach the program
                    pass
            return has_ended

        return timed

    def _settle(self, request, ok=1, end=0):
        """Record the asynchronous inference of `request`, if there is one that is not recorded yet.

        `ok` is 0 if it failed, else 1. `end` is the time in ns at which it had ended; 0 stands for now.
        """
        started = vars(request).pop("_edgetop_started", None)
        if started is not None:
            self._put(request, request, end or self._now(), started[0], ok)

    def _put(self, session, request, end, started=0, ok=1):
        """Record an inference of `session`. `request.latency` says how long it lasted.

        `end` is a time at which it had ended. `started` is the time at which it was started, 0 if unknown. If `started`
        is known, the end is computed from the latency; else the inference ends at `end`. `ok` is 0 if it failed, else
        1. Times are in ns.
        """
        begin = self._now()
        state = self._wrapper._state(session)  # noqa: SLF001
        if state is None:
            return
        lasted = round(request.latency * 1e6) if ok else 0
        if started and (not ok or lasted <= 0):
            start = min(started, end)
        else:
            end = min(end, started + lasted) if started else end
            start = end - max(lasted, 0)
        flags, state.flags = state.flags, 0
        state.ring.put(start, end, state.number, 1, ok, flags)
        self._turn += 1
        if self._turn % COST_EACH == COST_EACH // 2:
            self._wrapper.costs(self._now() - begin)

    def callback(self, real):
        now = self._now

        def timed(request, *args, **options):
            try:
                args, options = self._replaced(args, options, of_request(weakref.ref(request)))
                vars(request)["_edgetop_calls_back"] = True
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return real(request, *args, **options)

        def of_request(refer):
            def ours(callback):
                def ended(*given, **named):
                    end = now()
                    try:
                        request = refer()
                        if request is not None and vars(request).pop("_edgetop_started", None) is not None:
                            self._put(request, request, end)
                    except Exception:  # noqa: S110  nothing of this may reach the program
                        pass
                    return callback(*given, **named)

                return ended

            return ours

        return timed

    @staticmethod
    def _replaced(args, options, ours):
        """Return the arguments (`args`, `options`) of `set_callback` with `ours(callback)` in place of the callback."""
        callback = args[0] if args else options.get("callback")
        if not callable(callback):
            return args, options
        return ((ours(callback), *args[1:]), options) if args else (args, {**options, "callback": ours(callback)})

    # Queues of requests

    def queue(self, real):
        def timed(queue, *args, **options):
            real(queue, *args, **options)
            try:
                compiled = args[0] if args else options.get("model")
                state = self._wrapper._state(compiled)  # noqa: SLF001
                queue._edgetop_slots = _Slots()  # noqa: SLF001
                queue._edgetop = state  # noqa: SLF001
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass

        return timed

    def idle(self, real):
        def timed(queue, *args, **options):
            place = real(queue, *args, **options)
            try:
                slots = queue._edgetop_slots  # noqa: SLF001
                self._settle_slot(queue, slots, place)
                slots.chosen[get_ident()] = place
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return place

        return timed

    def queue_start(self, real):
        now = self._now

        def timed(queue, *args, **options):
            result = real(queue, *args, **options)
            started = now()
            try:
                slots = queue._edgetop_slots  # noqa: SLF001
                place = slots.chosen.pop(get_ident(), None)
                if place is not None and not slots.calls_back:
                    slots.started[place] = started
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return result

        return timed

    def wait_all(self, real):
        def timed(queue, *args, **options):
            result = real(queue, *args, **options)
            try:
                slots = queue._edgetop_slots  # noqa: SLF001
                for place in sorted(slots.started):
                    self._settle_slot(queue, slots, place)
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return result

        return timed

    def _settle_slot(self, queue, slots, place):
        started = slots.started.pop(place, None)
        if started is not None:
            self._put(queue, self._request_of(queue, place), self._now(), started)

    def queue_callback(self, real):
        now = self._now

        def timed(queue, *args, **options):
            try:
                args, options = self._replaced(args, options, of_queue(weakref.ref(queue)))
                queue._edgetop_slots.calls_back = True  # noqa: SLF001
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return real(queue, *args, **options)

        def of_queue(refer):
            def ours(callback):
                def ended(request, *given, **named):
                    end = now()
                    try:
                        queue = refer()
                        if queue is not None:
                            self._put(queue, request, end)
                    except Exception:  # noqa: S110  nothing of this may reach the program
                        pass
                    return callback(request, *given, **named)

                return ended

            return ours

        return timed


class _Slots:
    """Notes about the requests of one `AsyncInferQueue`. Each request is known by its number in the queue."""

    def __init__(self):
        self.chosen = {}  # number of the idle request that a thread has got, by thread
        self.started = {}  # when a request was started, in ns, by its number
        self.calls_back = False  # whether the program has set a callback, which then reports each inference
