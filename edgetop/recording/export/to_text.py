"""Export as CSV, with a file for each table, or as JSON lines.

CSV has the columns of the session format. Text is quoted and otherwise unchanged (RFC 4180). A list is written as JSON,
and an unknown value as an empty cell.

JSON lines begin with the manifest. Then comes an object for each row, table after table, with the table's name in
`table`. Arrow makes the lines, since Python is too slow for the rows of a long session.
"""

import json
import math
from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from edgetop.files import write_file
from edgetop.recording.columns import SCHEMAS, to_arrow
from edgetop.recording.export.export_formats import NEW_MODE, Output, Selection
from edgetop.recording.session_folder import MANIFEST
from edgetop.session.manifest_codec import to_json


def _tables(selection: Selection, name: str) -> Iterator[pa.Table]:
    """Yield the rows of the table `name` as Arrow tables of limited size."""
    sensor_ids = [info.id for info in selection.recording.manifest.sensors]
    return (to_arrow(name, rows, sensor_ids) for rows in selection.recording.rows(name, selection.span))


def _json_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of lists as a column of JSON texts such as "[1,2]". A null stays null."""
    inside = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
    return pc.binary_join_element_wise("[", inside, "]", "")


def export_csv(selection: Selection, output: Output) -> None:
    if len(selection.tables) == 1:
        with output.stream(is_text=True) as file:
            _write_csv(selection, selection.tables[0], file)
        return
    with output.folder() as folder:
        manifest = json.dumps(to_json(selection.recording.manifest), indent=1)
        write_file(folder / MANIFEST, manifest, NEW_MODE)
        for name in selection.tables:
            with (folder / f"{name}.csv").open("xb") as file:
                _write_csv(selection, name, file)


def _write_csv(selection: Selection, name: str, file: BinaryIO) -> None:
    types = SCHEMAS[name].types
    kinds = [pa.string() if pa.types.is_dictionary(kind) or pa.types.is_list(kind) else kind for kind in types]
    schema = pa.schema(zip(SCHEMAS[name].names, kinds, strict=True))
    with csv.CSVWriter(file, schema) as writer:
        for table in _tables(selection, name):
            cells = [
                _json_lists(column) if pa.types.is_list(column.type) else column.cast(kind)
                for column, kind in zip(table.columns, kinds, strict=True)
            ]
            writer.write_table(pa.table(cells, schema))


def export_json(selection: Selection, output: Output) -> None:
    with output.stream(is_text=True) as file:
        head = {"table": "session", **to_json(selection.recording.manifest)}
        file.write(strict_json(head).encode() + b"\n")
        for name in selection.tables:
            for table in _tables(selection, name):
                for lines in _lines(name, table).chunks:
                    file.write(_text_of(lines))


def _lines(name: str, table: pa.Table) -> pa.ChunkedArray:
    parts: list[Any] = [f'{{"table":"{name}"']
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.name == "data":  # of events, which is JSON already
            texts = [strict_json(json.loads(text)) for text in column.to_pylist()]
            values = pa.chunked_array([texts], pa.string())
        elif pa.types.is_list(column.type):
            values = _json_lists(column)
        elif pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
            values = pa.chunked_array([_strings(chunk) for chunk in column.chunks], pa.string())
        else:
            values = column.cast(pa.string())
        parts += [f',"{field.name}":', pc.fill_null(values, "null")]
    return pc.binary_join_element_wise(*parts, "}\n", "")


def _strings(chunk: pa.Array) -> pa.Array:
    """Return the texts as JSON strings."""
    coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    return pa.array([json.dumps(text) for text in coded.dictionary.to_pylist()], pa.string()).take(coded.indices)


def strict_json(value: object) -> str:
    """Return a value as one line of JSON in ASCII, with null in place of NaN and infinities.

    >>> strict_json({"a": [1.5, float("nan")]})
    '{"a":[1.5,null]}'
    """
    return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text_of(lines: pa.StringArray) -> memoryview:
    """Return a view of the bytes of all lines together, which Arrow stores one after the other."""
    if not len(lines):
        return memoryview(b"")
    _, offsets, data = lines.buffers()
    ends = memoryview(offsets).cast("i")
    return memoryview(data)[ends[lines.offset] : ends[lines.offset + len(lines)]]
