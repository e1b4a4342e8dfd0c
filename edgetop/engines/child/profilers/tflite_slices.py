"""TFLite where no profiler can be had: each operator in a model of its own, in a helper process.

Any version of either runtime can do it, with delegates and shapes of the user's. It is an
estimate, and is called one: an operator by itself finds its tensors in the caches, fuses with
no neighbour, and a delegate may take it alone that does not take it among others.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any, Dict, Iterable, List, Optional, Tuple

from ..errors import one_line
from ..shapes import bound
from . import Allowance, Profile, ProfilingError
from .interference import Interference, measured
from .tflite_file import Part, TfliteFile, parts

WARMUP_RUNS = 2
RUNS = 15
ENOUGH_RUNS, ENOUGH_NS = 3, 20_000_000  # of one operator that takes long
TRIES = 2  # of an operator that others disturb
UNDISTURBED = Interference(0, 0)


class Slice:
    """One operator: what it is called, who runs it, and what its model is made of."""

    def __init__(self, part: Part, name: str, arrays: List[Any]) -> None:
        """`arrays`: what its inputs held in a real inference."""
        self.part = part
        self.name = name
        self.arrays = arrays
        self.op_type = self.provider = ""


class Service:
    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        """Raises ProfilingError where the model cannot be cut."""
        self._spec = spec
        self._adapter = adapter
        bound(self._adapter, dict(spec, profile_every_ns=0))
        with open(spec["model"], "rb") as model:
            self._file = TfliteFile(model.read())
        self._slices: List[Slice] = []
        failed = self._cut()
        self._adapter.interpreter = None  # what has run is not needed again
        if not self._slices:
            raise ProfilingError("none of the operators can be run by itself: %s" % "; ".join(failed[:1]))
        self.way = "estimate (isolated): each operator run by itself in a helper process"
        if failed:
            text = "%s; %d of %d cannot be run so and are left out (%s)"
            self.way = text % (self.way, len(failed), len(failed) + len(self._slices), one_line("; ".join(failed), 200))

    def _cut(self) -> List[str]:
        """Make the slices, and return why others cannot be run."""
        whole = self._with_all_tensors()
        names = {detail["index"]: detail["name"] for detail in whole.get_tensor_details()}
        failed = []
        for part in parts(self._file):
            name = (names.get(part.outputs[0]) if part.outputs else "") or "operator:%d" % part.operators[-1]
            try:
                slice_ = Slice(part, name, [whole.get_tensor(tensor) for tensor in part.inputs])
                self._identify(slice_)
                self._slices.append(slice_)
            except Exception as error:  # the runtime's own: what has a state, for one, cannot be run apart
                failed.append("%s: %s" % (name, one_line(error, 80)))
        return failed

    def _with_all_tensors(self) -> Any:
        """An interpreter that has run the model once, of which every tensor can be read."""
        runtime = self._adapter.import_runtime()
        whole = runtime.Interpreter(
            model_path=self._spec["model"],
            experimental_preserve_all_tensors=True,
            **self._adapter.resolver(has_default=False),
        )
        run_with(whole, self._adapter.input_arrays())
        return whole

    def _identify(self, slice_: Slice) -> None:
        """What it is, and who runs it: a delegate of the user's, the one that is the runtime's default, or the CPU."""
        tried: List[Tuple[Optional[bool], str]] = [(None, "XNNPACK")]  # and where that is left out, nobody
        if self._spec["delegates"]:
            tried.insert(0, (False, short_path(self._spec["delegates"][0][0])))
        slice_.provider = "CPU"
        for has_default, provider in tried:
            names = _operators(self._opened(slice_, has_default=has_default))
            slice_.op_type = names[len(slice_.part.operators) - 1]
            if "DELEGATE" in names:
                slice_.provider = provider
                break

    def _opened(self, slice_: Slice, *, has_default: Optional[bool] = None) -> Any:
        runtime = self._adapter.import_runtime()
        part = slice_.part
        interpreter = runtime.Interpreter(
            model_content=self._file.cut(part.operators, part.inputs, part.outputs),
            num_threads=self._spec["threads"] or None,
            experimental_delegates=self._adapter.load_delegates() or None,
            **self._adapter.resolver(has_default=has_default),
        )
        run_with(interpreter, slice_.arrays)
        return interpreter

    def make_ready(self) -> None:
        """Do nothing: a burst opens one operator's model at a time."""

    def burst(self, allowance: Allowance) -> Profile:
        """Runs of the medians of the operators, as many as each operator had at least."""
        allowance.takes_another()
        timed = [_timed(self._opened(slice_).invoke) for slice_ in self._slices]
        interference = Interference(sum(of.preempted for _, of in timed), _sum(of.waited_ns for _, of in timed))
        profile = Profile()
        for _ in range(min(len(times) for times, _ in timed)):
            took = [int(statistics.median(times)) for times, _ in timed]
            profile.begin_run(sum(took), interference)
            for slice_, ns in zip(self._slices, took):
                profile.add(slice_.name, slice_.op_type, slice_.provider, ns)
        return profile


def run_with(interpreter: Any, arrays: List[Any]) -> None:
    """Give the inputs their shapes and contents, and run it once."""
    details = interpreter.get_input_details()
    for detail, array in zip(details, arrays):
        if list(detail["shape"]) != list(array.shape):
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, arrays):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()


def _timed(invoke: Any) -> Tuple[List[int], Interference]:
    """How long the operator took each time, and what others took from it: from the least disturbed of some tries."""
    for _ in range(WARMUP_RUNS - 1):
        invoke()
    tries = []
    for _ in range(TRIES):
        times, ns, interference = measured(lambda: _times(invoke))
        tries.append((times, interference if interference.disturbs(ns) else UNDISTURBED))
        if tries[-1][1] is UNDISTURBED:
            break
    return tries[-1]


def _times(invoke: Any) -> List[int]:
    times: List[int] = []
    while len(times) < ENOUGH_RUNS or (len(times) < RUNS and sum(times) < ENOUGH_NS):
        begin = time.monotonic_ns()
        invoke()
        times.append(time.monotonic_ns() - begin)
    return times


def _sum(waits: Iterable[Optional[int]]) -> Optional[int]:
    known = list(waits)
    return None if None in known else sum(ns or 0 for ns in known)


def _operators(interpreter: Any) -> Tuple[str, ...]:
    return tuple(str(operator["op_name"]) for operator in interpreter._get_ops_details())  # noqa: SLF001


def short_path(path: str) -> str:
    """
    >>> short_path("/usr/lib/libedgetpu.so.1")
    'edgetpu'
    """
    name = os.path.basename(path).split(".")[0]
    return name[3:] if name.startswith("lib") else name
