"""Profile TFLite models without a profiler: run each operator as a separate model, in a helper process.

This works with any version of tflite-runtime and LiteRT, and with the user's delegates and shapes. The result is called
an estimate. An operator that runs alone has its tensors in the caches and does not fuse with its neighbours. A delegate
may also accept an operator that runs alone and refuse it within the whole model.

A model of one operator is made from a .tflite file by changing a few numbers. A FlatBuffer consists of tables that
point forward to others (https://flatbuffers.dev/internals/). So the vector of operators can be shortened, its entries
can point to any operators, and new vectors of inputs and outputs can be appended. No data is moved, and only numpy is
needed. Fields: tensorflow/lite/schema/schema.fbs.
"""

from __future__ import annotations

import os
import statistics
import struct
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..engine_error import one_line
from ..inputs import bound
from . import Allowance, Profile, ProfilingError
from .interference import Interference, measured

_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")

_MODEL_SUBGRAPHS, _MODEL_SIGNATURES = 2, 7
_GRAPH_INPUTS, _GRAPH_OUTPUTS, _GRAPH_OPERATORS = 1, 2, 3
_OPERATOR_INPUTS, _OPERATOR_OUTPUTS = 1, 2

WARMUP_RUNS = 2
RUNS = 15
ENOUGH_RUNS, ENOUGH_NS = 3, 20_000_000  # a slow operator is run only this often, once it has run for this time
TRIES = 2  # attempts to time an operator undisturbed
UNDISTURBED = Interference(0, 0)


class TfliteFile:
    """A .tflite file, from which models of single operators can be made. Only its first graph is used."""

    def __init__(self, content: bytes) -> None:
        """Parse the file. `content` is its bytes. Raises ProfilingError if it is not a .tflite file."""
        self._content = content
        try:
            model = self._follow(0)
            self._signatures = self._pointer(model, _MODEL_SIGNATURES, is_optional=True)
            graphs = self._follow(self._pointer(model, _MODEL_SUBGRAPHS))
            self._graph = self._follow(graphs + 4)
            self._operators = self._follow(self._pointer(self._graph, _GRAPH_OPERATORS))
            count = self._read(_U32, self._operators)
            places = [self._follow(self._operators + 4 + 4 * i) for i in range(count)]
            self.operators = [
                (self._numbers(place, _OPERATOR_INPUTS), self._numbers(place, _OPERATOR_OUTPUTS)) for place in places
            ]  # (inputs, outputs) of each operator, as numbers of tensors; -1 is an omitted input
            self.inputs = self._numbers(self._graph, _GRAPH_INPUTS)
        except struct.error:
            raise ProfilingError("the file is no TFLite model that can be cut into operators") from None

    def cut(self, operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """Return the bytes of a .tflite file that has only the given operators, inputs and outputs.

        `operators` are numbers of operators, ascending, so that no pointer has to point backwards. `inputs` and
        `outputs` are numbers of tensors.
        """
        cut = bytearray(self._content)
        cut += b"\0" * (-len(cut) % 4)
        if self._signatures:
            _U32.pack_into(cut, self._follow(self._signatures), 0)
        first = self._operators + 4
        _U32.pack_into(cut, self._operators, len(operators))
        for place, number in enumerate(operators):
            _U32.pack_into(cut, first + 4 * place, self._follow(first + 4 * number) - (first + 4 * place))
        for field, tensors in ((_GRAPH_INPUTS, inputs), (_GRAPH_OUTPUTS, outputs)):
            pointer = self._pointer(self._graph, field)
            _U32.pack_into(cut, pointer, len(cut) - pointer)
            cut += struct.pack("<I%di" % len(tensors), len(tensors), *tensors)
        return bytes(cut)

    def _read(self, kind: struct.Struct, place: int) -> Any:
        if place < 0:
            raise struct.error
        return kind.unpack_from(self._content, place)[0]

    def _follow(self, place: int) -> int:
        return place + int(self._read(_U32, place))

    def _pointer(self, table: int, field: int, *, is_optional: bool = False) -> int:
        """Return the byte position of the field number `field` of the table at position `table`.

        `is_optional` says that the field may be absent. Returns 0 in that case.
        """
        fields = table - self._read(_I32, table)
        entry = 4 + 2 * field
        offset = self._read(_U16, fields + entry) if entry < self._read(_U16, fields) else 0
        if not offset and not is_optional:
            raise struct.error
        return table + offset if offset else 0

    def _numbers(self, table: int, field: int) -> Tuple[int, ...]:
        pointer = self._pointer(table, field, is_optional=True)
        if not pointer:
            return ()
        vector = self._follow(pointer)
        return struct.unpack_from("<%di" % self._read(_U32, vector), self._content, vector + 4)


class Part:
    """One operator that is run as a separate model, with the operators that unpack its constants."""

    def __init__(self, operators: List[int], inputs: List[int], outputs: Sequence[int]) -> None:
        self.operators = operators  # numbers of operators; the last one is timed, the others unpack its constants
        self.inputs = inputs
        self.outputs = outputs
        self.arrays: List[Any] = []  # its inputs in a real inference
        self.name = self.op_type = self.provider = ""


def parts(file: TfliteFile) -> List[Part]:
    """Return what can be run as a separate model: each operator that depends on the model's inputs.

    An operator that depends only on constants, such as the conversion of half-precision weights to floats, is added to
    each part that needs its result. Delegates run it once, and take an operator only if its weights are constants. An
    operator without any input reads a state, so its result does not count as a constant.
    """
    flowing = set(file.inputs)
    unpacking: Dict[int, List[int]] = {}  # operators that make a tensor from constants only
    found = []
    for number, (inputs, outputs) in enumerate(file.operators):
        before = sorted({other for tensor in inputs for other in unpacking.get(tensor, ())})
        fed = [tensor for tensor in dict.fromkeys(inputs) if tensor in flowing]
        if fed or not inputs:
            flowing.update(outputs)
        if fed:
            found.append(Part([*before, number], fed, outputs))
        elif inputs:
            unpacking.update({tensor: [*before, number] for tensor in outputs})
    return found


class Service:
    def __init__(self, spec: Dict[str, Any], adapter: Any) -> None:
        """Make a model of each operator. Raises ProfilingError if no operator can be run alone.

        `spec` has the fields of `EngineSpec` by name. `adapter` is the adapter of the runtime.
        """
        self._spec = spec
        self._adapter = adapter
        bound(self._adapter, dict(spec, profile_every_ns=0))
        with open(spec["model"], "rb") as model:
            self._file = TfliteFile(model.read())
        self._parts: List[Part] = []
        failed = self._cut()
        self._adapter.interpreter = None  # it is not needed again
        if not self._parts:
            raise ProfilingError("none of the operators can be run by itself: %s" % "; ".join(failed[:1]))
        self.way = "estimate (isolated): each operator run by itself in a helper process"
        if failed:
            text = "%s; %d of %d cannot be run so and are left out (%s)"
            self.way = text % (self.way, len(failed), len(failed) + len(self._parts), one_line("; ".join(failed), 200))

    def _cut(self) -> List[str]:
        """Make a model of each operator.

        Return a line for each operator that cannot be run alone, such as "conv1: REASON".
        """
        # This interpreter runs the model once and keeps all tensors, so that they can be read.
        whole = self._adapter.import_runtime().Interpreter(
            model_path=self._spec["model"],
            experimental_preserve_all_tensors=True,
            **self._adapter.resolver(has_default=False),
        )
        run_with(whole, self._adapter.input_arrays())
        names = {detail["index"]: detail["name"] for detail in whole.get_tensor_details()}
        failed = []
        for part in parts(self._file):
            part.name = (names.get(part.outputs[0]) if part.outputs else "") or "operator:%d" % part.operators[-1]
            try:
                part.arrays = [whole.get_tensor(tensor) for tensor in part.inputs]
                self._identify(part)
                self._parts.append(part)
            except Exception as error:  # of any type; for example, an operator with a state cannot be run alone
                failed.append("%s: %s" % (part.name, one_line(error, 80)))
        return failed

    def _identify(self, part: Part) -> None:
        """Set the operator's type, and its provider: the user's delegate, "XNNPACK" (the default delegate) or "CPU"."""
        tried: List[Tuple[Optional[bool], str]] = [(None, "XNNPACK")]
        if self._spec["delegates"]:
            tried.insert(0, (False, short_path(self._spec["delegates"][0][0])))
        part.provider = "CPU"
        for has_default, provider in tried:
            operators = self._opened(part, has_default=has_default)._get_ops_details()  # noqa: SLF001
            names = [str(operator["op_name"]) for operator in operators]
            part.op_type = names[len(part.operators) - 1]
            if "DELEGATE" in names:
                part.provider = provider
                break

    def _opened(self, part: Part, *, has_default: Optional[bool] = None) -> Any:
        interpreter = self._adapter.import_runtime().Interpreter(
            model_content=self._file.cut(part.operators, part.inputs, part.outputs),
            num_threads=self._spec["threads"] or None,
            experimental_delegates=self._adapter.load_delegates() or None,
            **self._adapter.resolver(has_default=has_default),
        )
        run_with(interpreter, part.arrays)
        return interpreter

    def make_ready(self) -> None:
        """Do nothing, since `burst` opens the model of one operator at a time."""

    def burst(self, allowance: Allowance) -> Dict[str, Any]:
        """Time all operators, and return the result of `Profile.describe`.

        The result has several runs, but they are all alike: an operator's time is always the median of its times.
        """
        allowance.takes_another()
        timed = [_timed(self._opened(part).invoke) for part in self._parts]
        waits = [lost.waited_ns for _, lost in timed if lost.waited_ns is not None]
        waited_ns = sum(waits) if len(waits) == len(timed) else None
        interference = Interference(sum(lost.preempted for _, lost in timed), waited_ns)
        profile = Profile()
        for _ in range(min(len(times) for times, _ in timed)):
            took = [int(statistics.median(times)) for times, _ in timed]
            profile.begin_run(sum(took), interference)
            for part, ns in zip(self._parts, took):
                profile.add(part.name, part.op_type, part.provider, ns)
        return profile.describe()


def run_with(interpreter: Any, arrays: List[Any]) -> None:
    """Give an interpreter the shapes of `arrays`, then run it once with these arrays as inputs."""
    details = interpreter.get_input_details()
    for detail, array in zip(details, arrays):
        if list(detail["shape"]) != list(array.shape):
            interpreter.resize_tensor_input(detail["index"], array.shape)
    interpreter.allocate_tensors()
    for detail, array in zip(details, arrays):
        interpreter.set_tensor(detail["index"], array)
    interpreter.invoke()


def _timed(invoke: Any) -> Tuple[List[int], Interference]:
    """Return an operator's times in ns, and how much other processes disturbed them. `invoke` runs the operator once.

    If other processes disturb the timing, it is repeated, at most TRIES times in all. The last times are returned.
    """
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


def short_path(path: str) -> str:
    """Return the short name of a delegate's library.

    >>> short_path("/usr/lib/libedgetpu.so.1")
    'edgetpu'
    """
    name = os.path.basename(path).split(".")[0]
    return name[3:] if name.startswith("lib") else name
