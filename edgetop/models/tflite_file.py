"""Reads a TFLite file: the tables of tensorflow/lite/schema/schema.fbs that say what runs and on what.

Weights are stepped over; only small constants of whole numbers or floats, from which shapes
may follow, are read.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgetop.models import tflite_schema as schema
from edgetop.models.flatbuffer import Table, root
from edgetop.models.graph import OMITTED, Array, Graph, Model, Operator, Shape, Tensor, count, size_bytes, small_value
from edgetop.models.limits import (
    MAX_OPERATORS,
    MAX_RANK,
    MAX_TENSORS,
    MAX_VALUE_ELEMENTS,
    Budget,
    MalformedError,
)

_READ_DTYPES = {"int32", "int64", "float32", "bool"}


def read_tflite(data: memoryview) -> Model:
    """The model in the bytes of a .tflite file. Raises MalformedError."""
    if bytes(data[4:8]) != b"TFL3":
        raise MalformedError("no TFLite model")
    model = root(data, Budget())
    buffers = list(model.tables(4))
    codes = [_operator_code(table) for table in model.tables(1)]
    graphs = _GraphReader(codes, buffers).read(model)
    if not graphs:
        raise MalformedError("no graph")
    return Model(
        "tflite",
        graphs[0],
        subgraphs=tuple(graphs[1:]),
        version=model.scalar(0, "u32"),
        description=model.text(3),
        metadata=_metadata(model, buffers),
        signatures=tuple(table.text(2) for table in model.tables(7)),
    )


def _operator_code(table: Table) -> tuple[str, str]:
    """Name and domain. The older of the two fields holds what fits in 7 bits (schema.fbs, OperatorCode)."""
    code = max(table.scalar(0, "i8"), table.scalar(3, "i32"))
    if code == schema.CUSTOM:
        return table.text(1), "custom"
    return schema.OPERATORS[code] if 0 <= code < len(schema.OPERATORS) else f"BUILTIN_{code}", "tflite"


def _metadata(model: Table, buffers: list[Table]) -> dict[str, str]:
    """Names of the entries with their text where it is one that can be read, else how many bytes it has."""
    found = {}
    for entry in model.tables(6):
        number = entry.scalar(1, "u32")
        data = buffers[number].bytes_of(0) if number < len(buffers) else memoryview(b"")
        found[entry.text(0)] = _readable(data)
    return found


def _readable(data: memoryview) -> str:
    try:
        text = bytes(data[:1024]).rstrip(b"\0").decode()
    except UnicodeDecodeError:
        text = ""
    return text if text.isprintable() and text and len(data) <= 1024 else f"{len(data)} bytes"


class _GraphReader:
    """Reads the graphs of one file, which share operator codes and buffers."""

    def __init__(self, codes: list[tuple[str, str]], buffers: list[Table]) -> None:
        self._codes, self._buffers = codes, buffers
        self._tensors = self._operators = 0

    def read(self, model: Table) -> list[Graph]:
        return [self._graph(table) for table in model.tables(2)]

    def _graph(self, table: Table) -> Graph:
        self._tensors += table.length(0, 4)
        self._operators += table.length(3, 4)
        if self._tensors > MAX_TENSORS or self._operators > MAX_OPERATORS:
            raise MalformedError("more parts than any model has")
        tensors = tuple(self._tensor(tensor) for tensor in table.tables(0))
        operators = tuple(self._operator(op, position, tensors) for position, op in enumerate(table.tables(3)))
        inputs, outputs = (_places(table, field, tensors) for field in (1, 2))
        return Graph(table.text(4), tensors, operators, inputs, outputs)

    def _tensor(self, table: Table) -> Tensor:
        number = table.scalar(1, "u8")
        dtype = schema.DTYPES[number] if number < len(schema.DTYPES) else None
        stored = self._stored_bytes(table.scalar(2, "u32"))
        is_constant = stored > 0 and not table.scalar(5, "bool")
        shape = _shape(table)
        quantisation = table.table(4)
        return Tensor(
            table.text(3),
            dtype,
            shape,
            is_constant=is_constant,
            stored_bytes=stored if is_constant else None,
            value=self._value(table.scalar(2, "u32"), dtype, shape) if is_constant else None,
            is_quantised=quantisation is not None and quantisation.length(2, 4) > 0,
        )

    def _stored_bytes(self, number: int) -> int:
        """Of a buffer: within the FlatBuffer or, in files over 2 GB, behind it by offset and size."""
        if number >= len(self._buffers):
            raise MalformedError("a tensor of a buffer that is not there")
        buffer = self._buffers[number]
        size: int = buffer.scalar(2, "u64")
        return buffer.length(0) or (size if buffer.scalar(1, "u64") > 1 else 0)

    def _value(self, number: int, dtype: str | None, shape: Shape | None) -> Array | None:
        elements = count(shape)
        data = self._buffers[number].bytes_of(0)
        if dtype not in _READ_DTYPES or elements is None or elements > MAX_VALUE_ELEMENTS:
            return None
        if len(data) != size_bytes(shape, dtype):
            return None
        sizes = tuple(dim for dim in shape or () if isinstance(dim, int))
        return small_value(np.frombuffer(data, np.dtype(dtype).newbyteorder("<")), dtype, sizes)

    def _operator(self, table: Table, position: int, tensors: tuple[Tensor, ...]) -> Operator:
        number = table.scalar(0, "u32")
        if number >= len(self._codes):
            raise MalformedError("an operator of a kind that is not there")
        op_type, domain = self._codes[number]
        inputs, outputs = (_places(table, field, tensors) for field in (1, 2))
        named = [tensors[place].name for place in outputs if place != OMITTED]
        options = table.table(4)
        return Operator(
            position,
            named[0] if named else "",
            op_type,
            domain,
            inputs,
            outputs,
            _attributes(schema.OPTIONS.get(op_type, {}), options),
            _subgraphs(schema.SUBGRAPHS.get(op_type, ()), options),
        )


def _places(table: Table, field: int, tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    places = table.numbers(field)
    if any(not OMITTED <= place < len(tensors) for place in places):
        raise MalformedError("an operator on a tensor that is not there")
    return places


def _shape(table: Table) -> Shape | None:
    """Return the shape, with None for sizes that the model leaves open.

    An empty one without has_rank is a scalar's or unknown (schema.fbs, Tensor): of a tensor
    that an operator computes it is taken as unknown.
    """
    stored, signature = table.numbers(0), table.numbers(7)
    if len(stored) > MAX_RANK:
        raise MalformedError("a tensor of impossible shape")
    chosen = signature if len(signature) == len(stored) else stored
    return tuple(dim if dim >= 0 else None for dim in chosen)


def _attributes(fields: Mapping[str, tuple[int, str]], options: Table | None) -> dict[str, Any]:
    return {name: options.scalar(*field) if options else 0 for name, field in fields.items()}


def _subgraphs(known: tuple[int, ...], options: Table | None) -> tuple[int, ...]:
    """Places in `Model.subgraphs`, which leaves out the file's first graph."""
    numbers = [options.scalar(field, "i32") for field in known] if options is not None else []
    return tuple(number - 1 for number in numbers if number > 0)
