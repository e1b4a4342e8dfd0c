"""One wide Parquet table on a regular grid: a row a cell of time, a column a sensor.

Nothing is filled in: where a sensor was not read, or no inference was kept, there is a null.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.errors import InputError
from edgetop.formatting import count
from edgetop.recording.export import grid as grids
from edgetop.recording.export.grid import Figures, Grid
from edgetop.recording.export.protocol import Output, Selection
from edgetop.recording.packing import encodable
from edgetop.recording.rows import Span
from edgetop.session.batch import Batch, merge
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest, SensorInfo, to_json
from edgetop.session.records import response_ns
from edgetop.session.seconds import ABSENT, NS
from edgetop.session.wall_time import wall_time

MAX_ROWS = 100_000_000  # what asks for more has a time that cannot be true
WINDOW_CELLS = 2_000_000  # values held at once
WINDOW_S, RAW_WINDOW_S = 600, 10
LATE_NS = 10 * NS  # a slow sensor's reading may come after others of later times
ROW_GROUP_ROWS = 16_384

_FIXED = (
    ("t_ns", pa.int64(), "start of the row's time, ns of CLOCK_MONOTONIC since the session's origin"),
    ("utc", pa.timestamp("us", "UTC"), "the same by the wall clock, as it was set last"),
    ("count", pa.int64(), "inferences with ok and phase measure that started in it"),
    ("errors", pa.int64(), "inferences of phase measure that raised"),
    ("deadline_misses", pa.int64(), "response time above the declared deadline; null where none was declared"),
    ("latency_mean_ns", pa.float64(), "of service time: start to outputs ready"),
    ("latency_min_ns", pa.int64(), "the shortest"),
    ("latency_p50_ns", pa.int64(), "nearest rank; from histograms, within 1 %, where a row spans several seconds"),
    ("latency_p90_ns", pa.int64(), "the same"),
    ("latency_p99_ns", pa.int64(), "the same"),
    ("latency_max_ns", pa.int64(), "the longest"),
    ("events", pa.list_(pa.string()), "kinds of the events in it"),
    ("response_mean_ns", pa.float64(), "of response time: intended start to outputs ready; null under a closed load"),
    *(
        (f"response_{name}_ns", pa.int64(), "as latency_, of response time")
        for name in ("min", *grids.PERCENTILES, "max")
    ),
)
_HIGHEST = ("throttle", "cooling")  # kinds of sensors of which the mean would hide the limit


def export(selection: Selection, output: Output) -> None:
    recording = selection.recording
    grid = grids.grid_of(selection.hz)
    span = selection.bounds.in_steps_of(grid.seconds * NS)
    rows = (span.end_ns - span.begin_ns) // grid.cell_ns
    if rows > MAX_ROWS:
        raise InputError(f"{recording.folder}: that is {count(rows)} rows", "lower --hz, or cut with --end")
    wide = _Wide(recording.manifest, grid)
    is_fine = grid.per_second > 1
    batches = recording.play(inferences=is_fine, step_s=RAW_WINDOW_S if is_fine else WINDOW_S, span=span)
    with output.stream(is_text=False) as file, pq.ParquetWriter(file, wide.schema, compression="zstd") as writer:
        for table in _in_groups(wide.tables(batches, span)):
            writer.write_table(table)


def _in_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


class _Wide:
    def __init__(self, manifest: Manifest, grid: Grid) -> None:
        self._manifest = manifest
        self._grid = grid
        self._names = _sensor_columns(manifest.sensors)
        fields = [pa.field(name, kind, metadata={"meaning": text}) for name, kind, text in _FIXED]
        fields += [pa.field(n, pa.float64(), metadata=_about(manifest.sensors[i])) for n, i in self._names.items()]
        meanings = {f"meaning:{field.name}": field.metadata[b"meaning"] for field in fields}
        session = json.dumps(to_json(manifest))
        hz = f"{grid.per_second / grid.seconds:g}"
        self.schema = pa.schema(fields, {**meanings, "edgetop:session": session, "edgetop:hz": hz})
        self._utc = wall_time(manifest)

    def tables(self, batches: Iterator[Batch], span: Span) -> Iterator[pa.Table]:
        """A row for each cell of `span`, in tables of bounded size."""
        begin, end = (int(cell) for cell in self._grid.cell_of(np.array([span.begin_ns, span.end_ns])))
        waiting = Batch()
        for batch in batches:
            waiting = merge([waiting, replace(batch, restart=False)])
            done = max(begin, min(end, int(self._grid.cell_of(np.array([waiting.until_ns - LATE_NS]))[0])))
            done -= done % self._grid.per_second  # whole seconds, which are what tells whether inferences are missing
            yield from self._rows(waiting, begin, done)
            begin = max(begin, done)
            waiting = self._between(waiting, begin, 2**62)
        yield from self._rows(waiting, begin, end)

    def _rows(self, batch: Batch, begin: int, end: int) -> Iterator[pa.Table]:
        per_second = self._grid.per_second
        most = max(1, WINDOW_CELLS // (len(self._manifest.sensors) + len(_FIXED)) // per_second) * per_second
        for first in range(begin, end, most):
            last = min(end, first + most)
            yield self._table(self._between(batch, first, last), first, last)

    def _between(self, batch: Batch, begin: int, end: int) -> Batch:
        def held(t_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
            cell = self._grid.cell_of(t_ns)
            return (cell >= begin) & (cell < end)

        events = held(np.array([event.t_ns for event in batch.events], np.int64))
        return replace(
            batch,
            inferences=batch.inferences[held(batch.inferences["t_ns"])],
            seconds=batch.seconds.where(held(batch.seconds.rows["t_ns"])),
            readings=batch.readings[held(batch.readings["t_ns"])],
            events=tuple(event for event, is_held in zip(batch.events, events, strict=True) if is_held),
        )

    def _table(self, batch: Batch, begin: int, end: int) -> pa.Table:
        cells = end - begin
        t_ns = self._grid.start_ns(np.arange(begin, end))
        columns = {"t_ns": pa.array(t_ns), "utc": self._utc_of(t_ns), **self._latency(batch, begin, cells)}
        columns["events"] = pa.array(self._kinds(batch.events, begin, cells), pa.list_(pa.string()))
        highest = [info.kind in _HIGHEST for info in self._manifest.sensors]
        cell = self._grid.cell_of(batch.readings["t_ns"]) - begin
        values = grids.sensor_values(batch.readings, cell, cells, highest)
        for name, place in self._names.items():
            columns[name] = pa.array(values[place], mask=np.isnan(values[place]))
        return pa.table(columns, self.schema)

    def _utc_of(self, t_ns: npt.NDArray[np.int64]) -> pa.Array:
        if self._utc is None:
            return pa.nulls(len(t_ns), pa.timestamp("us", "UTC"))
        return pa.array(self._utc.microseconds(t_ns)).cast(pa.timestamp("us", "UTC"))

    def _latency(self, batch: Batch, begin: int, cells: int) -> dict[str, pa.Array]:
        second = self._grid.cell_of(batch.seconds.rows["t_ns"]) - begin
        response: Figures | None = None
        if self._grid.per_second == 1:
            figures = grids.from_seconds(batch.seconds, second, cells)
            if batch.seconds.response is not None:
                response = grids.from_seconds(batch.seconds.response, second, cells)
        else:
            cell = self._grid.cell_of(batch.inferences["t_ns"]) - begin
            fold = partial(grids.from_inferences, batch.inferences, cell, cells, self._manifest.load.deadline_ns)
            figures, response = fold(), fold(response_ns) if self._manifest.load.is_paced else None
            figures["present"] = self._is_whole(figures["count"], batch.seconds.rows["count"], second)
        there = figures["present"]
        columns = {name: pa.array(figures[name], mask=~there) for name in ("count", "errors")}
        misses = figures["deadline_misses"]
        columns["deadline_misses"] = pa.array(misses, mask=~there | (misses == ABSENT))
        return (
            columns
            | _times("latency", figures, there)
            | _times("response", response or figures, there & (response is not None))
        )

    def _is_whole(
        self, held: npt.NDArray[np.int64], counted: npt.NDArray[np.int32], second: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Of each cell, whether all inferences of its second were kept: not beyond --max-size, or in a gap."""
        each = self._grid.per_second
        kept = np.add.reduceat(held, np.arange(0, len(held), each))
        is_whole = np.zeros(len(kept), bool)
        is_whole[second // each] = kept[second // each] == counted
        return np.repeat(is_whole, each)[: len(held)]

    def _kinds(self, events: tuple[Event, ...], begin: int, cells: int) -> list[list[str]]:
        kinds: list[list[str]] = [[] for _ in range(cells)]
        for event in events:
            kinds[int(self._grid.cell_of(np.int64(event.t_ns))) - begin].append(event.kind)
        return kinds


def _times(name: str, figures: Figures, there: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Null in cells that are not there, or hold nothing."""
    some = there & (figures["count"] > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = figures["sum_ns"] / figures["count"]
    columns = {f"{name}_mean_ns": pa.array(mean, mask=~some)}
    for of in ("min", *grids.PERCENTILES, "max"):
        columns[f"{name}_{of}_ns"] = pa.array(figures[f"{of}_ns"], mask=~some)
    return columns


def _sensor_columns(sensors: tuple[SensorInfo, ...]) -> dict[str, int]:
    """Of each column its sensor's place. An id is `kind/label`; whatever else a file may say gets no fixed name."""
    names: dict[str, int] = {}
    for place, info in enumerate(sensors):
        names.setdefault(encodable(info.id if "/" in info.id else f"sensor/{info.id}"), place)
    return names


def _about(info: SensorInfo) -> dict[str, str]:
    how = "the highest of its readings" if info.kind in _HIGHEST else "the mean of its readings"
    about = {"meaning": f"{how} in the row's time, in {info.unit}", "unit": info.unit, "source": info.source}
    if info.role is not None:
        about["role"] = info.role
    if info.simulated:
        about["simulated"] = "true"
    return {key: encodable(text) for key, text in about.items()}
