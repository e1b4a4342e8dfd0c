"""Time the inferences of a program that uses ncnn. The Python hook loads this file when the program imports ncnn.

An inference of ncnn is several calls: an extractor takes the inputs, and then computes each output that the program
extracts. The inference lasts from the first input to the last output. It is over when all outputs of the net are
extracted. If the program extracts only some outputs, it is over when the program deletes the extractor or gives it the
next input.
"""

import atexit
import os
import sys
import time
import weakref

FAILED = -1  # what a call that raised counts as; ncnn returns 0 for success


def wrap(module, make, like):
    """Wrap the classes of `module`, which is ncnn's Python module.

    `make(describe, threads, feed)` returns the hook's `_Wrapper` with these parameters. `like(real, timed)` returns
    `timed` with the name of `real`.
    """
    timed = _Timed(make(_describe, _threads, (2, "mat")))
    net, extractor = module.Net, module.Extractor
    wrapped = [
        (net, "load_param", timed.load_param),
        (net, "load_model", timed.load_model),
        (net, "create_extractor", timed.create),
        (extractor, "input", timed.input),
        (extractor, "extract", timed.extract),
        (extractor, "clear", timed.end),
        (extractor, "__exit__", timed.end),
    ]
    for cls, name, how in wrapped:
        real = getattr(cls, name, None)
        if real is not None:
            setattr(cls, name, like(real, how(real)))
    atexit.register(timed.end_all)


def _describe(known):
    """Return a text that describes a net: runtime, version, device and path of the param file, with TABs between."""
    version = str(getattr(sys.modules.get("ncnn"), "__version__", ""))
    return "\t".join(("ncnn", version, known.device, os.path.abspath(known.path) if known.path else ""))


def _threads(net, _options):
    try:
        return int(net.opt.num_threads)
    except Exception:
        return -1


class _Net:
    """What is known of a net. ncnn's own objects take no attributes."""

    def __init__(self):
        self.path, self.device, self.outputs, self.load_ns = "", "CPU", None, 0

    def learn(self, net):
        """Read the device and the outputs of the loaded `net`.

        If ncnn does not list the outputs, the attribute `outputs` stays None.
        """
        if getattr(net.opt, "use_vulkan_compute", False):
            self.device = "Vulkan"
        try:
            indexes = net.output_indexes()
            self.outputs = frozenset(indexes), dict(zip(net.output_names(), indexes))
        except Exception:  # an old version
            self.outputs = None


class _Inference:
    """What is known of the inference that an extractor makes. Times are in ns; 0 if not known yet."""

    __slots__ = ("end", "inputs", "is_over", "left", "net", "ok", "start")

    def __init__(self, net):
        self.net, self.is_over = net, False
        self.begin(0)

    def begin(self, start):
        self.start, self.end, self.ok, self.inputs = start, 0, 1, []
        self.left = set(self.net.outputs[0]) if self.net.outputs else None


class _Timed:
    """The timed versions of ncnn's functions. Each method returns one; `real` is the function of ncnn."""

    def __init__(self, wrapper):
        self._wrapper, self._now = wrapper, time.monotonic_ns
        self._nets, self._inferences = {}, {}  # (weak reference, notes) by the address of a net or of an extractor
        self._unknown = _Net()  # the net of extractors that are not made by `create_extractor`

    def _net(self, net):
        found = self._nets.get(id(net))
        if found is None:
            address = id(net)
            found = weakref.ref(net, lambda _: self._nets.pop(address, None)), _Net()
            self._nets[address] = found
        return found[1]

    def _inference(self, extractor, net=None):
        address = id(extractor)
        found = self._inferences.get(address)
        if found is None:
            found = weakref.ref(extractor, lambda _: self._gone(address)), _Inference(net or self._unknown)
            self._inferences[address] = found
        return found[1]

    def _gone(self, address):
        """Record the inference of an extractor that the program has deleted."""
        try:
            self._record(self._inferences.pop(address)[1])
        except Exception:  # noqa: S110  nothing of this may reach the program
            pass

    def load_param(self, real):
        now = self._now

        def timed(net, *args, **options):
            start = now()
            result = real(net, *args, **options)
            try:
                known = self._net(net)
                known.load_ns = start
                vars(known).pop("_edgetop", None)  # it is another session if the net was used before
                path = args[0] if args else options.get("protopath")
                known.path = path if isinstance(path, str) else ""
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return result

        return timed

    def load_model(self, real):
        now = self._now

        def timed(net, *args, **options):
            start = now()
            result = real(net, *args, **options)
            end = now()
            try:
                known = self._net(net)
                known.learn(net)
                state = self._wrapper._state(known)  # noqa: SLF001
                if state is not None:
                    self._wrapper.loaded(state, known.load_ns or start, end, net, options)
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return result

        return timed

    def create(self, real):
        def timed(net, *args, **options):
            extractor = real(net, *args, **options)
            try:
                self._inference(extractor, self._net(net))
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return extractor

        return timed

    def input(self, real):
        now = self._now

        def timed(extractor, *args, **options):
            try:
                inference = self._inference(extractor)
                if inference.end or not inference.start:
                    self._record(inference)
                    inference.begin(now())
                    inference.is_over = False
                if len(args) > 1:
                    inference.inputs.append((args[0], _shape(args[1])))
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return real(extractor, *args, **options)

        return timed

    def extract(self, real):
        now = self._now

        def timed(extractor, *args, **options):
            start = now()
            try:
                result = real(extractor, *args, **options)
            except Exception:
                self._extracted(extractor, start, now(), FAILED, args)
                raise
            end = now()
            self._extracted(extractor, start, end, result, args)
            return result

        return timed

    def _extracted(self, extractor, start, end, result, args):
        """Note that an output was computed from `start` to `end`, in ns. `result` is what `extract` returned."""
        try:
            inference = self._inference(extractor)
            if inference.is_over:  # ncnn keeps what it has computed: this is no new inference
                return
            inference.start, inference.end = inference.start or start, end
            status = result[0] if isinstance(result, tuple) else result
            if status != 0:
                inference.ok = 0
            if inference.left:
                name = args[0] if args else None
                inference.left.discard(inference.net.outputs[1].get(name, name))
                if not inference.left:
                    self._record(inference)
        except Exception:  # noqa: S110  nothing of this may reach the program
            pass

    def end(self, real):
        def timed(extractor, *args, **options):
            try:
                inference = self._inference(extractor)
                self._record(inference)
                inference.is_over = False
            except Exception:  # noqa: S110  nothing of this may reach the program
                pass
            return real(extractor, *args, **options)

        return timed

    def end_all(self):
        """Record all inferences that have an output. Python calls this when the program ends."""
        for address in list(self._inferences):
            self._gone(address)

    def _record(self, inference):
        """Record an inference and mark it as over. Without an extracted output, do nothing."""
        start, end, inputs = inference.start, inference.end, inference.inputs
        if not end:
            return
        begin = self._now()
        inference.is_over = True
        ok = inference.ok
        inference.begin(0)
        state = self._wrapper._state(inference.net)  # noqa: SLF001
        if state is None:
            return
        flags, state.flags = state.flags, 0
        shapes = [shape for _, shape in inputs]
        if inputs and shapes != state.shapes:
            flags |= self._wrapper._reshaped(state, dict(inputs), shapes, start, end)  # noqa: SLF001
        state.ring.put(start, end, state.number, 1, ok, flags)
        self._wrapper.costs(self._now() - begin)


def _shape(mat):
    """Return the sizes of a Mat, such as (3, 224, 224) for channels, height and width."""
    return (mat.c, mat.h, mat.w)[3 - min(mat.dims, 3) :]
