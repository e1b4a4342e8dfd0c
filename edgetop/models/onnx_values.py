"""Read the small parts (messages) of an ONNX file: tensors, their types, and attributes of operators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgetop.frozen import frozen
from edgetop.models import protobuf as wire
from edgetop.models.graph import Array, Dim, Shape, Tensor, may_be_read, size_bytes, small_value, stored_value
from edgetop.models.reading_limits import MAX_RANK, MAX_VALUE_ELEMENTS, PART_STEPS, Budget, MalformedError

# TensorProto.DataType
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
    16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz",
    21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip

# Fields that contain the values of a type if raw_data does not.
_TYPED = {"float32": 4, "int32": 5, "bool": 5, "int64": 7}
_RAW = 9
_CONTENTS = {_RAW, *_TYPED.values()}

MAX_DIGITS = 19  # of a position in a file
_MAX_ATTRIBUTE_BYTES = 2**16  # longer lists of numbers are not read

# Value of an omitted attribute, by AttributeProto.AttributeType: writers of proto3 omit zeros.
_EMPTY: dict[int, Any] = {1: 0.0, 2: 0, 3: "", 6: (), 7: (), 8: ()}


@frozen
class Constant:
    name: str
    tensor: Tensor
    external_file: str | None = None
    external_end: int | None = None  # bytes that the external file must have for this tensor; None if unknown


@dataclass(slots=True)
class Attribute:
    name: str
    value: Any  # int, float, str, a tuple of these, or a Constant; None for other types
    reference: str  # in a function: name of the call's attribute that gives the value
    graphs: list[memoryview]


def pair(value: wire.Value, budget: Budget) -> tuple[str, str]:
    """Return the key and the value of a StringStringEntryProto. `budget` limits the work."""
    texts = wire.read(value, budget, {1: wire.text, 2: wire.text})
    return texts.get(1, ""), texts.get(2, "")


def _unread(value: wire.Value, _: Budget) -> wire.Value:
    return value


_TENSOR: dict[int, wire.Reader] = {2: wire.whole, 8: wire.text}
_TENSOR_LISTS: dict[int, wire.Reader] = {1: wire.numbers, 13: pair, **dict.fromkeys(_CONTENTS, _unread)}


def read_tensor(value: wire.Value, budget: Budget) -> Constant:
    """Return the constant in a TensorProto: name, dtype and shape, and its elements if there are few.

    `value` is a view of the message's bytes, and `budget` limits the work.
    """
    # A tensor with more contents is too long to be read.
    known = wire.read(value, budget, _TENSOR, _TENSOR_LISTS, most=MAX_VALUE_ELEMENTS + 1)
    dtype, shape = DTYPES.get(known.get(2, 0)), checked_shape([dim for dims in known[1] for dim in dims])
    small, stored = _value(dtype, shape, known, budget), size_bytes(shape, dtype)
    tensor = Tensor(known.get(8, ""), dtype, shape, is_constant=True, stored_bytes=stored, value=small)
    beside = dict(known[13])
    return Constant(tensor.name, tensor, beside.get("location"), _end(beside, stored))


def _end(beside: Mapping[str, str], stored_bytes: int | None) -> int | None:
    """Return the position in bytes at which a tensor ends in its external file, or None if it is unknown.

    `beside` has the keys `offset` and `length` (onnx/docs/ExternalData.md). Without a length, `stored_bytes` is used.
    """
    offset, length = beside.get("offset", "0"), beside.get("length", str(stored_bytes))
    if not (offset.isdecimal() and length.isdecimal() and max(len(offset), len(length)) < MAX_DIGITS):
        return None
    return int(offset) + int(length)


def read_sparse(value: wire.Value, budget: Budget) -> Constant:
    """Return the constant in a SparseTensorProto, named as the tensor with its values.

    `value` is a view of the message's bytes, and `budget` limits the work. The constant's stored size includes the
    indices.
    """
    known = wire.read(value, budget, {1: read_tensor, 2: read_tensor}, {3: wire.numbers})
    values: Constant | None = known.get(1)
    if values is None:
        raise MalformedError("a sparse tensor without values")
    stored = sum(part.tensor.stored_bytes or 0 for part in (values, known.get(2)) if part)
    shape = checked_shape([dim for dims in known[3] for dim in dims])
    return replace(values, tensor=replace(values.tensor, shape=shape, stored_bytes=stored, value=None))


def _value(dtype: str | None, shape: tuple[int, ...], contents: Mapping[int, Any], budget: Budget) -> Array | None:
    if dtype is None or not may_be_read(dtype, shape):
        return None
    if _RAW in contents:
        return stored_value(wire.message(contents[_RAW][-1]), dtype, shape)
    read: Any = wire.reals if dtype == "float32" else wire.numbers
    typed = contents.get(_TYPED[dtype], [])
    return small_value([number for part in typed for number in read(part, budget)], dtype, shape)


def checked_shape(dims: Sequence[int]) -> tuple[int, ...]:
    if len(dims) > MAX_RANK or any(dim < 0 for dim in dims):
        raise MalformedError("a tensor of impossible shape")
    return tuple(dims)


def read_info(value: wire.Value, budget: Budget) -> tuple[str, str | None, Shape | None]:
    """Return the name, dtype and shape of a ValueInfoProto. Dtype and shape are None for sequences, maps and optionals.

    `value` is a view of the message's bytes, and `budget` limits the work.
    """
    known = wire.read(value, budget, {1: wire.text, 2: wire.message})
    dtype_and_shape = wire.read(known.get(2, memoryview(b"")), budget, {1: _tensor_type}).get(1, (None, None))
    return known.get(1, ""), *dtype_and_shape


def _tensor_type(value: wire.Value, budget: Budget) -> tuple[str | None, Shape | None]:
    known = wire.read(value, budget, {1: wire.whole, 2: _dims})
    shape = known.get(2)
    if shape is not None and len(shape) > MAX_RANK:
        raise MalformedError("a tensor of impossible shape")
    return DTYPES.get(known.get(1, 0)), shape


def _dims(value: wire.Value, budget: Budget) -> Shape:
    return tuple(_dim(dim, budget) for _, dim in wire.fields(value, budget))


def _dim(value: wire.Value, budget: Budget) -> Dim:
    dim: Dim = None
    for number, part in wire.fields(value, budget):
        if number == 1:
            size = wire.signed(part)
            dim = size if size >= 0 else None
        elif number == 2:
            dim = wire.text(part, budget) or None
    return dim


def _listed(read: Callable[[wire.Value, Budget], Sequence[Any]]) -> wire.Reader:
    """Return a function that reads a list as `read` does, but gives () for a long list, such as weights."""

    def reader(value: wire.Value, budget: Budget) -> Sequence[Any]:
        return () if not isinstance(value, int) and len(value) > _MAX_ATTRIBUTE_BYTES else read(value, budget)

    return reader


def _graph(value: wire.Value, budget: Budget) -> memoryview:
    budget.spend(PART_STEPS)
    return wire.message(value)


_LISTS: dict[int, wire.Reader] = {
    7: _listed(wire.reals),
    8: _listed(wire.numbers),
    9: _listed(lambda part, budget: (wire.text(part, budget),)),
}
_VALUES: dict[int, wire.Reader] = {2: wire.real, 3: wire.signed, 4: wire.text, 5: read_tensor}
_HOLDERS = (*_VALUES, *_LISTS)
_ATTRIBUTE: dict[int, wire.Reader] = {1: wire.text, 20: wire.whole, 21: wire.text, **_VALUES}
_ATTRIBUTE_LISTS: dict[int, wire.Reader] = {6: _graph, 11: _graph, **_LISTS}


def read_attribute(message: wire.Value, budget: Budget) -> Attribute:
    known = wire.read(message, budget, _ATTRIBUTE, _ATTRIBUTE_LISTS)
    value: Any = _EMPTY.get(known.get(20, 0))
    for number in _HOLDERS:
        if number in known:
            value = known[number]
    if isinstance(value, list):  # parts, each with one or more items
        value = tuple(item for items in value for item in items)
    return Attribute(known.get(1, ""), value, known.get(21, ""), known[6] + known[11])


_CONSTANT_KINDS: dict[str, type] = {
    "value_int": int, "value_ints": int, "value_float": float, "value_floats": float,
    "value_string": str, "value_strings": str,
}  # fmt: skip


def constant_of(attributes: Mapping[str, Any]) -> Constant | None:
    """Return the value of a `Constant` node, or None if its type is not supported.

    `attributes` are the attributes of the node by name, such as `value_ints` (onnx/docs/Operators.md).
    """
    for name, value in attributes.items():
        if name == "value" and isinstance(value, Constant):
            return value
        kind = _CONSTANT_KINDS.get(name)
        items = value if isinstance(value, tuple) else (value,)
        if kind is None or not all(isinstance(item, kind) for item in items):
            continue
        shape = (len(items),) if isinstance(value, tuple) else ()
        if kind is str:
            return Constant("", Tensor("", "string", shape, is_constant=True))
        array = np.asarray(value, "int64" if kind is int else "float32")
        tensor = Tensor("", array.dtype.name, shape, is_constant=True, stored_bytes=array.nbytes, value=array)
        return Constant("", tensor)
    return None
