"""Arrays from `.pb` files, each a TensorProto of ONNX, and the folders `test_data_set_N` of the ONNX model zoo.

Such a folder has `input_0.pb`, `input_1.pb` and so on, in the order of the model's inputs. A file may come from
anybody, so its sizes are checked before anything is allocated. Format:
https://github.com/onnx/onnx/blob/main/onnx/onnx.proto.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from .engine_error import EngineError, one_line
from .small_types import BY_ONNX_TYPE, SmallType, unpacked
from .wire import Wire, WireError, mapped

SUFFIX = ".pb"
DIMS, TYPE, FLOATS, INT32S, STRINGS, INT64S, NAME, RAW, DOUBLES, UINT64S, EXTERNAL = 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13
MAX_RANK = 32
MAX_VARINTS = 10_000_000  # numbers that are stored one by one; raw data has no such bound
MAX_TEXTS = 1_000_000
TEXT = 8  # TensorProto.STRING
_SET = re.compile(r"test_data_set_(\d{1,6})")
_INPUT = re.compile(r"input_(\d{1,6})\.pb")

# TensorProto.DataType with NumPy's name, and the field that holds the values if there are no raw data.
_TYPES = {
    1: ("float32", FLOATS), 2: ("uint8", INT32S), 3: ("int8", INT32S), 4: ("uint16", INT32S), 5: ("int16", INT32S),
    6: ("int32", INT32S), 7: ("int64", INT64S), 9: ("bool", INT32S), 10: ("float16", INT32S), 11: ("float64", DOUBLES),
    12: ("uint32", UINT64S), 13: ("uint64", UINT64S), 14: ("complex64", FLOATS), 15: ("complex128", DOUBLES),
}  # fmt: skip


class Stored:
    """A tensor from a file: its name, and its array. If NumPy lacks its type, the array holds the elements' bits."""

    def __init__(self, name: str, array: Any, small: Optional[SmallType] = None) -> None:
        self.name, self.array, self.small = name, array, small

    @property
    def labelled(self) -> Any:
        """The array. If NumPy lacks the element type, each element is a record with one field named after that type."""
        return self.array if self.small is None else self.array.view([(self.small.name, self.small.storage)])


def dtype_words(dtype: Any) -> str:
    """Return the name of an element type, such as "float32" or "bfloat16".

    `dtype` belongs to an array or to `Stored.labelled`.
    """
    return dtype.names[0] if dtype.names else str(dtype)


def read_tensor(path: str) -> Stored:
    """Return the tensor in a `.pb` file. Raises EngineError("input") if the file cannot be read as a tensor."""
    data = mapped(path)
    if data is None:
        raise EngineError("input", "%s: not a tensor file: it is empty, too large or cannot be read" % path)
    try:
        return _tensor(Wire(data), len(data))
    except (WireError, ValueError, UnicodeDecodeError, MemoryError) as error:
        raise EngineError("input", "%s: not a tensor of ONNX: %s" % (path, one_line(error))) from None


def _tensor(wire: Wire, size: int) -> Stored:
    spans: Dict[int, List[Tuple[int, int]]] = {}
    for number, span in wire.fields((0, size)):
        spans.setdefault(number, []).append(span)
    if EXTERNAL in spans:
        raise ValueError("its values are in another file")
    dims = _varints(wire, spans.get(DIMS, []), MAX_RANK)
    count = 1
    for dim in dims:
        if dim >= 2**31:
            raise ValueError("a size of %d" % dim)
        count *= dim
    kind = (_varints(wire, spans.get(TYPE, []), 1) or [0])[-1]
    name = "".join(bytes(wire.data[begin:end]).decode() for begin, end in spans.get(NAME, [])[-1:])
    if kind == TEXT:
        return Stored(name, _texts(wire, spans.get(STRINGS, []), count).reshape(dims))
    small = BY_ONNX_TYPE.get(kind)
    if small is None and kind not in _TYPES:
        raise ValueError("elements of type %d, which edgetop does not know" % kind)
    dtype, field = (small.storage, INT32S) if small else (np.dtype(_TYPES[kind][0]), _TYPES[kind][1])
    stored = (count + 1) // 2 if small and small.bits == 4 else count
    if RAW in spans:
        begin, end = spans[RAW][-1]
        if end - begin != stored * dtype.itemsize:
            raise ValueError("%d bytes for %d elements of %s" % (end - begin, count, small.name if small else dtype))
        flat = np.frombuffer(bytes(wire.data[begin:end]), dtype.newbyteorder("<")).astype(dtype)
    else:
        flat = _numbers(wire, spans.get(field, []), field, dtype, stored)
    if small and small.bits == 4:
        flat = unpacked(flat, count)
    return Stored(name, flat.reshape(dims), small)


def _numbers(wire: Wire, spans: List[Tuple[int, int]], field: int, dtype: Any, count: int) -> Any:
    """Return the numbers of a tensor as an array of type `dtype`. Raises ValueError if there are not `count`.

    `field` is the number of the TensorProto's field that has them, such as FLOATS. `spans` are the positions of this
    field's parts in the file.
    """
    if field in (FLOATS, DOUBLES):
        text = b"".join(bytes(wire.data[begin:end]) for begin, end in spans)
        flat = np.frombuffer(text, "<f4" if field == FLOATS else "<f8")
        flat = flat.view("<c8" if field == FLOATS else "<c16") if dtype.kind == "c" else flat
        given = flat.astype(dtype)
    else:
        wide = np.array(_varints(wire, spans, MAX_VARINTS), np.uint64)
        # A float16 is stored as its bits, and a negative number as 64 bits of two's complement.
        given = wide.astype(np.uint16).view(dtype) if dtype == np.float16 else wide.astype(np.int64).astype(dtype)
    if len(given) != count:
        raise ValueError("%d values for %d elements" % (len(given), count))
    return given


def _varints(wire: Wire, spans: List[Tuple[int, int]], most: int) -> List[int]:
    found: List[int] = []
    for begin, end in spans:
        position = begin
        while position < end:
            if len(found) >= most:
                raise ValueError("more than %d numbers" % most)
            value, position = wire.varint(position, end)
            found.append(value)
    return found


def _texts(wire: Wire, spans: List[Tuple[int, int]], count: int) -> Any:
    if len(spans) != count or count > MAX_TEXTS:
        raise ValueError("%d texts for %d elements" % (len(spans), count))
    array = np.empty(count, object)
    array[:] = [bytes(wire.data[begin:end]).decode() for begin, end in spans]
    return array


def data_sets(folder: str) -> List[str]:
    """Return [`folder`] if it has test data itself, else the paths of its folders `test_data_set_N`, sorted by N."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    if any(_INPUT.fullmatch(name) for name in names):
        return [folder]
    numbers = sorted(int(found[1]) for found in map(_SET.fullmatch, names) if found)
    return [path for path in (os.path.join(folder, "test_data_set_%d" % one) for one in numbers) if os.path.isdir(path)]


def file_of_input(folder: str, name: str, place: int) -> str:
    """Return the path of the file for one input of the model, in a folder of test data.

    `name` is the input's name, and `place` its number, counted from 0. The file whose tensor has the input's name is
    taken, else the file with the input's number. Raises EngineError("input") if there is no such file.
    """
    files = sorted(
        (int(found[1]), os.path.join(folder, found[0])) for found in map(_INPUT.fullmatch, os.listdir(folder)) if found
    )
    named = [path for _, path in files if _name_of(path) == name]
    path = named[0] if len(named) == 1 else dict(files).get(place)
    if path is None:
        text = "%s: no input_%d.pb, which the input %s would have" % (folder, place, name)
        raise EngineError("input", text, "give the other inputs with --input NAME=SOURCE")
    return path


def _name_of(path: str) -> str:
    data = mapped(path)
    if data is None:
        return ""
    wire = Wire(data)
    try:
        return "".join(bytes(data[b:e]).decode("utf-8", "replace") for b, e in wire.inside((0, len(data)), NAME))
    except WireError:
        return ""
