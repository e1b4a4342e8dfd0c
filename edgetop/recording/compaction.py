"""Journal into tables, in bounded steps: while a run goes on, at its end, and when it is recovered."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from edgetop.recording import columns, operator_columns, soundness
from edgetop.recording.journal import SegmentReader
from edgetop.recording.schema import SCHEMAS
from edgetop.recording.tables import ROW_GROUP_ROWS, Tables
from edgetop.session.batch import Batch
from edgetop.session.manifest import Load
from edgetop.session.records import NO_INFERENCES, Inferences, measured
from edgetop.session.seconds import NS, SecondAggregator, Seconds, concatenate

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


class MissingSeconds:
    """Makes the seconds anew that damaged frames held, of those of their inferences that others hold."""

    def __init__(self, load: Load, begin_ns: int | None) -> None:
        """`begin_ns`: where the seconds before the first batch end; None: not known, as the first row tells."""
        self._load = load
        self._begin_ns = begin_ns
        self._inferences: list[Inferences] = []

    def completed(self, batch: Batch) -> Batch:
        """The batch, with the seconds before its own that none had."""
        if batch.manifest is not None:
            self._load = batch.manifest.load
        if len(inferences := soundness.sound_inferences(batch.inferences)):
            self._inferences.append(inferences)
        seconds = soundness.sound_seconds(batch.seconds) if len(batch.seconds) else batch.seconds
        if not len(seconds):
            return batch
        first_ns, end_ns = int(seconds.rows["t_ns"][0]), int(seconds.rows["t_ns"][-1]) + NS
        if self._begin_ns is not None and first_ns > self._begin_ns:
            batch = replace(batch, seconds=concatenate([self._made(self._begin_ns, first_ns), batch.seconds]))
        self._begin_ns = end_ns
        while len(self._inferences) > 1 and self._inferences[1]["t_ns"][0] < end_ns:
            self._inferences.pop(0)
        return batch

    def _made(self, begin_ns: int, end_ns: int) -> Seconds:
        inferences = np.concatenate([NO_INFERENCES, *self._inferences])
        before = measured(inferences[inferences["t_ns"] < begin_ns])
        inside = inferences[(inferences["t_ns"] >= begin_ns) & (inferences["t_ns"] < end_ns)]
        made = []
        for second in np.unique(inside["t_ns"] // NS):  # where nothing is known, no row says that nothing was
            aggregator = SecondAggregator(
                self._load.deadline_ns, int(second), before[-1:], is_paced=self._load.is_paced
            )
            piece = inside[inside["t_ns"] // NS == second]
            made += [aggregator.add(piece), aggregator.close()]
            before = np.concatenate([before[-1:], measured(piece)])
        return concatenate(made)


def journal_rows(
    segment: SegmentReader, sensor_ids: Sequence[str], name: str, missing: MissingSeconds | None = None
) -> Iterator[pa.Table]:
    """The rows of one table, in pieces as they were journalled. `missing`: where frames are, for seconds."""
    wanted = {_FIELDS.get(name, name), "manifest", *(("inferences",) if missing else ())}
    for batch in segment.read(wanted):
        whole = missing.completed(batch) if missing else batch
        if batch.manifest is not None:
            sensor_ids = [info.id for info in batch.manifest.sensors]
        for kind, rows in table_rows(whole, sensor_ids):
            if kind == name:
                yield pa.Table.from_batches([rows])


def compact(
    segment: SegmentReader, source: str, tables: Tables, sensor_ids: Sequence[str], missing: MissingSeconds
) -> Iterator[None]:
    """Append a whole segment to the tables; a pause for other work after each row group.

    `source`: the name of the segment's file, `sensor_ids`: where it does not say them itself. Raises OSError.
    """
    waiting = {name: Waiting(schema) for name, schema in SCHEMAS.items()}
    for batch in map(missing.completed, segment.read()):
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
