"""Exports of recordings, and recordings that hold what the recorder does not write yet."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.recording.columns import OPERATORS
from edgetop.recording.export.export_formats import TABLES, NamedOutput, Selection, load
from edgetop.recording.reader import Recording
from edgetop.recording.rows import WHOLE, Span


def export(
    folder: Path, form: str, path: Path, span: Span = WHOLE, tables: tuple[str, ...] = TABLES, hz: float = 1.0
) -> list[str]:
    """What could not be read of the recording in `folder`."""
    recording = Recording(folder)
    load(form)(Selection(recording, span, tables, hz), NamedOutput(path))
    return recording.problems


def put_operators(folder: Path, rows: Sequence[tuple[object, ...]]) -> None:
    """Rows in the order of the columns; of those that are left out at their ends nothing is known."""
    whole = [(*row, *[None] * (len(OPERATORS) - len(row))) for row in rows]
    columns = [
        pa.array(column).cast(field.type) for column, field in zip(zip(*whole, strict=True), OPERATORS, strict=True)
    ]
    pq.write_table(pa.table(columns, schema=OPERATORS), folder / "operators.parquet")
