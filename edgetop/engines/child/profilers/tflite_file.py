"""Models of one operator, cut from a .tflite file by changing a few of its numbers.

A FlatBuffer is tables that point forward to others (https://flatbuffers.dev/internals/), so
the vector of operators can be cut short and its places point to any of them, and vectors of inputs
and outputs can be added at the end. Nothing is moved, and nothing but numpy is needed.
Fields: tensorflow/lite/schema/schema.fbs.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Sequence, Tuple

from . import ProfilingError

_U16, _U32, _I32 = struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<i")

_MODEL_SUBGRAPHS, _MODEL_SIGNATURES = 2, 7
_GRAPH_INPUTS, _GRAPH_OUTPUTS, _GRAPH_OPERATORS = 1, 2, 3
_OPERATOR_INPUTS, _OPERATOR_OUTPUTS = 1, 2


class TfliteFile:
    """The first graph of a file, whose operators can be cut out."""

    def __init__(self, content: bytes) -> None:
        """Raises ProfilingError where it is no such file."""
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
            ]  # (inputs, outputs) of each, as numbers of tensors; -1 is an input that is left out
            self.inputs = self._numbers(self._graph, _GRAPH_INPUTS)
        except struct.error:
            raise ProfilingError("the file is no TFLite model that can be cut into operators") from None

    def cut(self, operators: Sequence[int], inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file of a model of these operators alone. `inputs`: the tensors that it is fed.

        operators: their numbers, rising, so that no pointer has to point back.
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
        """Where the table keeps the offset of a field; 0 where it has none and may."""
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
    """One operator of a file, with those before it that only unpack its constants."""

    def __init__(self, operators: List[int], inputs: List[int], outputs: Sequence[int]) -> None:
        self.operators = operators  # the last is the one
        self.inputs = inputs
        self.outputs = outputs


def parts(file: TfliteFile) -> List[Part]:
    """A part for each operator through which data flows from the inputs.

    What comes from constants alone, such as half-precision weights that are made floats, does
    not: delegates do that once, and take an operator only where its weights are constants.
    What has no inputs is the handle of a state, which is no constant.
    """
    flowing = set(file.inputs)
    unpacking: Dict[int, List[int]] = {}  # a tensor that comes from constants alone: the operators that make it
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
