"""JSON lines: the manifest first, then an object a row, table after table.

Each object says in `table` what it is a row of; keys are the columns of the session format.
Lines are put together by Arrow, since a long session has more of them than Python can.
"""

import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from edgetop.recording.export.protocol import Output, Selection
from edgetop.recording.export.to_csv import json_lists, sound_tables
from edgetop.session.manifest import to_json

DATA = "data"  # the column of events that holds JSON already


def export(selection: Selection, output: Output) -> None:
    with output.stream(is_text=True) as file:
        head = {"table": "session", **to_json(selection.recording.manifest)}
        file.write(strict_json(head).encode() + b"\n")
        for name in selection.tables:
            for table in sound_tables(selection.recording, name, selection.span):
                for lines in _lines(name, table).chunks:
                    file.write(_text_of(lines))


def _lines(name: str, table: pa.Table) -> pa.ChunkedArray:
    parts: list[Any] = [f'{{"table":"{name}"']
    for field, column in zip(table.schema, table.columns, strict=True):
        values = _data(column) if field.name == DATA else _values(column)
        parts += [f',"{field.name}":', pc.fill_null(values, "null")]
    return pc.binary_join_element_wise(*parts, "}\n", "")


def _values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(column.type):
        return json_lists(column)
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        return pa.chunked_array([_strings(chunk) for chunk in column.chunks], pa.string())
    return column.cast(pa.string())


def _strings(chunk: pa.Array) -> pa.Array:
    """What occurs often is escaped once."""
    coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    return pa.array([json.dumps(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def _data(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([[strict_json(json.loads(text)) for text in column.to_pylist()]], pa.string())


def strict_json(value: object) -> str:
    """In one line and in ASCII; numbers that JSON has not (NaN, infinities) are null."""
    return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text_of(lines: pa.StringArray) -> memoryview:
    """The values as they lie in memory, one behind the other (the Arrow columnar format, variable-size binary)."""
    if not len(lines):
        return memoryview(b"")
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]
