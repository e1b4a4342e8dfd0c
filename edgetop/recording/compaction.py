"""Journal into tables, in bounded steps: while a run goes on, at its end, and when it is recovered."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from edgetop.recording import columns, operator_columns
from edgetop.recording.journal import SegmentReader
from edgetop.recording.schema import SCHEMAS
from edgetop.recording.tables import ROW_GROUP_ROWS, Tables
from edgetop.session.batch import Batch

# A row of `seconds` holds a histogram, so rows alone do not bound what waits for its row group.
ROW_GROUP_BYTES = 8 * 1024 * 1024
# Each piece costs kilobytes beside its rows, and a second brings few rows.
MAX_PIECES = 64
_FIELDS = {"operators": "bursts"}  # of a batch, where it is not named as its table


def table_rows(batch: Batch, sensor_ids: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """What of a batch goes into which table."""
    if len(batch.inferences):
        yield "inferences", columns.inferences_to_arrow(batch.inferences)
    known = (batch.readings["sensor"] < len(sensor_ids)) & ~np.isnan(batch.readings["value"])
    if known.any():
        yield "readings", columns.readings_to_arrow(batch.readings[known], sensor_ids)
    if batch.events:
        yield "events", columns.events_to_arrow(batch.events)
    if len(batch.seconds):
        yield "seconds", columns.seconds_to_arrow(batch.seconds)
    if batch.bursts:
        yield "operators", operator_columns.bursts_to_arrow(batch.bursts)


def journal_rows(segment: SegmentReader, sensor_ids: Sequence[str], name: str) -> Iterator[pa.Table]:
    """The rows of one table, in pieces as they were journalled."""
    for batch in segment.read((_FIELDS.get(name, name), "manifest")):
        if batch.manifest is not None:
            sensor_ids = [info.id for info in batch.manifest.sensors]
        for _, rows in table_rows(batch, sensor_ids):
            yield pa.Table.from_batches([rows])


def compact(segment: SegmentReader, source: str, tables: Tables, sensor_ids: Sequence[str]) -> Iterator[None]:
    """Append a whole segment to the tables; a pause for other work after each row group.

    `source`: the name of the segment's file, `sensor_ids`: where it does not say them itself. Raises OSError.
    """
    waiting = {name: Waiting(schema) for name, schema in SCHEMAS.items()}
    for batch in segment.read():
        if batch.manifest is not None:
            sensor_ids = [info.id for info in batch.manifest.sensors]
        for name, rows in table_rows(batch, sensor_ids):
            waiting[name].add(rows)
            for group in waiting[name].full():
                tables.append(name, group, source)
                yield
    for name, rest in waiting.items():
        for group in rest.rest():
            tables.append(name, group, source)
            yield


class Waiting:
    """Rows of one table on their way into row groups."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._pieces: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._pieces.append(rows)
        self._rows += len(rows)
        self._bytes += rows.nbytes
        if len(self._pieces) >= MAX_PIECES:
            self._pieces = self._joined().to_batches()

    def full(self) -> Iterator[pa.Table]:
        """Row groups of the size that they should have."""
        if self._bytes >= ROW_GROUP_BYTES:
            yield from self.rest()
        elif self._rows >= ROW_GROUP_ROWS:
            table, whole = self._joined(), self._rows // ROW_GROUP_ROWS * ROW_GROUP_ROWS
            self._forget()
            for offset in range(0, whole, ROW_GROUP_ROWS):
                yield table.slice(offset, ROW_GROUP_ROWS)
            for piece in table.slice(whole).to_batches():
                self.add(piece)

    def rest(self) -> Iterator[pa.Table]:
        if self._rows:
            table = self._joined()
            self._forget()
            for offset in range(0, len(table), ROW_GROUP_ROWS):
                yield table.slice(offset, ROW_GROUP_ROWS)

    def _joined(self) -> pa.Table:
        return pa.Table.from_batches(self._pieces, self._schema).unify_dictionaries().combine_chunks()

    def _forget(self) -> None:
        self._pieces, self._rows, self._bytes = [], 0, 0
