"""CSV: a file a table, with the columns of the session format.

Text is quoted and otherwise left as it is (RFC 4180), so a name may hold commas and newlines.
Lists are JSON in a cell; a value that is not known is an empty cell.
"""

import json
from collections.abc import Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from edgetop.recording.columns import to_arrow
from edgetop.recording.export.protocol import Output, Selection
from edgetop.recording.files import MANIFEST
from edgetop.recording.reader import Recording
from edgetop.recording.rows import Span
from edgetop.recording.schema import SCHEMAS
from edgetop.session.manifest import to_json


def sound_tables(recording: Recording, name: str, span: Span) -> Iterator[pa.Table]:
    """In pieces of bounded size. What could not be read is told in `recording.problems`."""
    sensor_ids = [info.id for info in recording.manifest.sensors]
    for rows in recording.rows(name, span):
        yield to_arrow(name, rows, sensor_ids)


def export(selection: Selection, output: Output) -> None:
    if len(selection.tables) == 1:
        with output.stream(is_text=True) as file:
            _write(selection, selection.tables[0], file)
        return
    with output.folder() as folder:
        manifest = json.dumps(to_json(selection.recording.manifest), indent=1)
        (folder / MANIFEST).write_text(manifest, encoding="utf-8")
        for name in selection.tables:
            with (folder / f"{name}.csv").open("xb") as file:
                _write(selection, name, file)


def _write(selection: Selection, name: str, file: BinaryIO) -> None:
    schema = pa.schema([(field.name, _cell_type(field.type)) for field in SCHEMAS[name]])
    with csv.CSVWriter(file, schema) as writer:
        for table in sound_tables(selection.recording, name, selection.span):
            writer.write_table(pa.table([_cells(column) for column in table.columns], schema))


def _cell_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_dictionary(kind) or pa.types.is_list(kind) else kind


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_list(column.type):
        return json_lists(column)
    return column.cast(_cell_type(column.type))


def json_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Lists of numbers as JSON; null where there is none."""
    inside = pc.binary_join(column.cast(pa.list_(pa.string())), ",")
    return pc.binary_join_element_wise("[", inside, "]", "")
