"""The smaller messages of an ONNX file: tensors, their types, attributes of operators."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgetop.models import protobuf as wire
from edgetop.models.graph import Array, Dim, Shape, Tensor, count, size_bytes, small_value
from edgetop.models.limits import MAX_RANK, MAX_VALUE_ELEMENTS, PART_STEPS, Budget, MalformedError

# TensorProto.DataType
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128",
    16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz",
    21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip

# Types whose small constants are read, and the field that holds them where raw_data does not.
_READ_DTYPES = {"float32": 4, "int32": 5, "bool": 5, "int64": 7}

_RAW, _NAME, _EXTERNAL, _LOCATION = 9, 8, 13, 14

_MAX_ATTRIBUTE_BYTES = 2**16  # of lists of numbers that are read

# AttributeProto.AttributeType to what an attribute of that type is when its value is left out,
# as writers of proto3 leave out zeros.
_EMPTY: dict[int, Any] = {1: 0.0, 2: 0, 3: "", 6: (), 7: (), 8: ()}


@dataclass(frozen=True, slots=True)
class Constant:
    name: str
    tensor: Tensor
    external_file: str | None = None


@dataclass(slots=True)
class Attribute:
    name: str = ""
    value: Any = None  # int, float, str, a tuple of these, or a Constant
    reference: str = ""  # of a node in a function: the attribute of the call that it is
    graphs: list[memoryview] = field(default_factory=list)


def pair(data: memoryview, budget: Budget) -> tuple[str, str]:
    """Read a StringStringEntryProto: key and value."""
    texts = wire.singles(data, budget, {1: wire.text, 2: wire.text})
    return texts.get(1, ""), texts.get(2, "")


def read_tensor(data: memoryview, budget: Budget) -> Constant:
    """Read a TensorProto: dtype and shape, and its value where it is small."""
    name, dtype = "", None
    dims: list[int] = []
    contents: dict[int, list[int | memoryview]] = {}
    external: dict[str, str] = {}
    for number, value in wire.fields(data, budget):
        if number == 1:
            dims += wire.numbers(value, budget)
        elif number == 2:
            dtype = DTYPES.get(wire.whole(value))
        elif number == _NAME:
            name = wire.text(value, budget)
        elif number == _EXTERNAL:
            external.update([pair(wire.message(value), budget)])
        elif number in {_RAW, *_READ_DTYPES.values()}:
            parts = contents.setdefault(number, [])
            if len(parts) <= MAX_VALUE_ELEMENTS:  # with more of them it is too long to be read anyhow
                parts.append(value)
    shape = checked_shape(dims)
    small = _value(dtype, shape, contents, budget)
    tensor = Tensor(name, dtype, shape, is_constant=True, stored_bytes=size_bytes(shape, dtype), value=small)
    return Constant(name, tensor, external.get("location"))


def read_sparse(data: memoryview, budget: Budget) -> Constant:
    """A SparseTensorProto, by the name of its values; it stores its values and their indices."""
    parts: dict[int, Constant] = {}
    dims: list[int] = []
    for number, value in wire.fields(data, budget):
        if number in {1, 2}:
            parts[number] = read_tensor(wire.message(value), budget)
        elif number == 3:
            dims += wire.numbers(value, budget)
    if 1 not in parts:
        raise MalformedError("a sparse tensor without values")
    values = parts[1]
    stored = sum(part.tensor.stored_bytes or 0 for part in parts.values())
    tensor = replace(values.tensor, shape=checked_shape(dims), stored_bytes=stored, value=None)
    return replace(values, tensor=tensor)


def _value(
    dtype: str | None, shape: tuple[int, ...], contents: Mapping[int, Sequence[int | memoryview]], budget: Budget
) -> Array | None:
    elements = count(shape)
    if dtype not in _READ_DTYPES or elements is None or elements > MAX_VALUE_ELEMENTS:
        return None
    if _RAW in contents:
        raw = wire.message(contents[_RAW][-1])
        if len(raw) != size_bytes(shape, dtype):
            return None
        return small_value(np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")), dtype, shape)
    numbers: list[int] | list[float]
    typed = contents.get(_READ_DTYPES[dtype], [])
    if dtype == "float32":
        numbers = [number for part in typed for number in wire.reals(part, budget)]
    else:
        numbers = [number for part in typed for number in wire.numbers(part, budget)]
    return small_value(numbers, dtype, shape)


def checked_shape(dims: Sequence[int]) -> tuple[int, ...]:
    if len(dims) > MAX_RANK or any(dim < 0 for dim in dims):
        raise MalformedError("a tensor of impossible shape")
    return tuple(dims)


def read_info(data: memoryview, budget: Budget) -> tuple[str, str | None, Shape | None]:
    """A ValueInfoProto: name, dtype and shape; sequences, maps and optionals have neither of the latter."""
    known = wire.singles(data, budget, {1: wire.text, 2: wire.message})
    dtype_and_shape = wire.singles(known.get(2, memoryview(b"")), budget, {1: _tensor_type}).get(1, (None, None))
    return known.get(1, ""), *dtype_and_shape


def _tensor_type(value: int | memoryview, budget: Budget) -> tuple[str | None, Shape | None]:
    known = wire.singles(wire.message(value), budget, {1: wire.whole, 2: _dims})
    shape = known.get(2)
    if shape is not None and len(shape) > MAX_RANK:
        raise MalformedError("a tensor of impossible shape")
    return DTYPES.get(known.get(1, 0)), shape


def _dims(value: int | memoryview, budget: Budget) -> Shape:
    return tuple(_dim(wire.message(dim), budget) for _, dim in wire.fields(wire.message(value), budget))


def _dim(data: memoryview, budget: Budget) -> Dim:
    dim: Dim = None
    for number, value in wire.fields(data, budget):
        if number == 1:
            size = wire.signed(value)
            dim = size if size >= 0 else None
        elif number == 2:
            dim = wire.text(value, budget) or None
    return dim


_SINGLE_VALUES: dict[int, Callable[[int | memoryview, Budget], Any]] = {
    2: wire.real, 3: wire.signed, 4: wire.text, 5: lambda value, budget: read_tensor(wire.message(value), budget),
}  # fmt: skip


def read_attribute(data: memoryview, budget: Budget) -> Attribute:
    attribute = Attribute()
    kind = 0
    lists: dict[int, list[Any]] = {}
    for number, value in wire.fields(data, budget):
        if number == 1:
            attribute.name = wire.text(value, budget)
        elif number in _SINGLE_VALUES:
            attribute.value = _SINGLE_VALUES[number](value, budget)
        elif number in {6, 11}:
            budget.spend(PART_STEPS)
            attribute.graphs.append(wire.message(value))
        elif number in {7, 8, 9}:
            lists.setdefault(number, []).extend(_items(number, value, budget))
        elif number == 20:
            kind = wire.whole(value)
        elif number == 21:
            attribute.reference = wire.text(value, budget)
    if lists:
        attribute.value = tuple(lists[max(lists)])
    elif attribute.value is None:
        attribute.value = _EMPTY.get(kind)
    return attribute


def _items(number: int, value: int | memoryview, budget: Budget) -> Sequence[Any]:
    """Return the items of a repeated field; long lists, the weights of old models' operators, are not read."""
    if not isinstance(value, int) and len(value) > _MAX_ATTRIBUTE_BYTES:
        return ()
    if number == 9:
        return (wire.text(value, budget),)
    return wire.reals(value, budget) if number == 7 else wire.numbers(value, budget)


_CONSTANT_KINDS: dict[str, type] = {
    "value_int": int, "value_ints": int, "value_float": float, "value_floats": float,
    "value_string": str, "value_strings": str,
}  # fmt: skip


def constant_of(attributes: Mapping[str, Any]) -> Constant | None:
    """Return the value of a `Constant` node (onnx/docs/Operators.md); None where it has no supported one."""
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
