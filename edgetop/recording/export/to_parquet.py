"""Export of a recording as one wide Parquet table, with a row for each step of time and a column for each sensor.

All steps (cells) have the same length. Without a reading or an inference in a cell, the value is null.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from edgetop.errors import InputError
from edgetop.formatting import count, quantity
from edgetop.frozen import frozen
from edgetop.recording.export.export_formats import Output, Selection
from edgetop.recording.packing import encodable
from edgetop.recording.reader import Recording
from edgetop.recording.rows import WHOLE, Span, within
from edgetop.session import histogram
from edgetop.session.batch import Batch, merge
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.manifest_codec import to_json
from edgetop.session.records import MEASURE, Inferences, Readings, measured, response_ns
from edgetop.session.seconds import ABSENT, NS, QUANTILES, Seconds

MAX_PER_SECOND = 1_000
MAX_ROWS = 100_000_000  # A session with more rows contains an impossible time.
MAX_EMPTY_ROWS = 2_000_000  # More rows without data also come from an impossible time: three weeks at 1 Hz.
CUT = "lower --hz, or cut with --end"
WINDOW_CELLS = 2_000_000  # values held at once
WINDOW_S, RAW_WINDOW_S = 600, 10
LATE_NS = 10 * NS  # the reading of a slow sensor may come after others of later times
ROW_GROUP_ROWS = 16_384
PERCENTILES = {"p50": 0, "p90": 1, "p99": 3}  # by their places in QUANTILES
_TIMES = ("min", *PERCENTILES, "max")

Figures = dict[str, npt.NDArray[Any]]
Ints = npt.NDArray[np.int64]

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
    *((f"response_{name}_ns", pa.int64(), "as latency_, of response time") for name in _TIMES),
)
_HIGHEST = ("throttle", "cooling")  # kinds of sensors whose mean would hide the limit


@frozen
class Grid:
    """A division of session time into cells of equal length, from time 0 on.

    Either a second has `per_second` cells, or a cell has `seconds` seconds.
    """

    per_second: int = 1
    seconds: int = 1

    @property
    def cell_ns(self) -> int:
        """The length of a cell in ns, rounded down if a second cannot be divided evenly."""
        return self.seconds * NS // self.per_second

    def cell_of(self, t_ns: Ints | int) -> Ints:
        second, rest = np.divmod(t_ns, NS)
        return np.asarray((second * self.per_second + rest * self.per_second // NS) // self.seconds)

    def start_ns(self, cell: Ints | int) -> Ints:
        """Return the session time in ns at which a cell begins. Cells are counted from 0."""
        second, part = np.divmod(cell * self.seconds, self.per_second)
        return np.asarray(second * NS - (-part * NS // self.per_second))


def grid_of(hz: float) -> Grid:
    """Return a grid with `hz` cells per second, such as 10 or 0.5.

    Raises InputError unless `hz` is a whole number up to MAX_PER_SECOND, or 1 divided by a whole number.
    """
    if 1 <= hz <= MAX_PER_SECOND and hz == int(hz):
        return Grid(per_second=int(hz))
    if 0 < hz < 1 and abs(1 / hz - round(1 / hz)) < 1e-5 / hz:
        return Grid(seconds=round(1 / hz))
    whole = f"write a whole number up to {MAX_PER_SECOND}, or one of whole seconds: 0.5, 0.1"
    raise InputError(f"--hz {hz:g}: does not fit into seconds", whole)


def from_seconds(seconds: Seconds, cell: Ints, cells: int) -> Figures:
    """Return the latency figures of cells (steps of time), by name, such as "p99_ns", each with `cells` values.

    `cell` has the cell number of each row of `seconds`. Unknown values are ABSENT. If a cell spans several seconds, its
    percentiles come from histograms and have up to 1 % error.
    """
    rows = seconds.rows
    figures: Figures = {"present": np.bincount(cell, minlength=cells) > 0}
    for name in ("count", "errors", "sum_ns", "deadline_misses"):
        figures[name] = np.zeros(cells, np.int64)
        np.add.at(figures[name], cell, rows[name])
    if (rows["deadline_misses"] == ABSENT).any():
        figures["deadline_misses"][:] = ABSENT
    filled = rows["count"] > 0
    figures["min_ns"], figures["max_ns"] = np.full(cells, 2**62, np.int64), np.full(cells, ABSENT, np.int64)
    np.minimum.at(figures["min_ns"], cell[filled], rows["min_ns"][filled])
    np.maximum.at(figures["max_ns"], cell[filled], rows["max_ns"][filled])
    for name in PERCENTILES:
        figures[f"{name}_ns"] = np.full(cells, ABSENT, np.int64)
        figures[f"{name}_ns"][cell[filled]] = rows[f"{name}_ns"][filled]
    for shared in np.flatnonzero(np.bincount(cell[filled], minlength=cells) > 1):
        lowest, highest = int(figures["min_ns"][shared]), int(figures["max_ns"][shared])
        counts = seconds.where(cell == shared).histogram()
        quantiles = tuple(QUANTILES[place] for place in PERCENTILES.values())
        for name, value in zip(PERCENTILES, histogram.percentiles(counts, quantiles, lowest, highest), strict=True):
            figures[f"{name}_ns"][shared] = round(value)
    return figures


def from_inferences(
    inferences: Inferences,
    cell: Ints,
    cells: int,
    deadline_ns: int | None,
    time_ns: Callable[[Inferences], npt.NDArray[Any]] = lambda inferences: inferences["latency_ns"],
) -> Figures:
    """Return the exact latency figures of cells (steps of time), by name, such as "p99_ns", each with `cells` values.

    `cell` has the cell number of each inference. `time_ns` returns the latency of each inference in ns, or another time
    (such as the response time) to use instead.
    """
    failed = (inferences["phase"] == MEASURE) & ~inferences["ok"]
    figures: Figures = {"errors": np.bincount(cell[failed], minlength=cells)}
    counts = (inferences["phase"] == MEASURE) & inferences["ok"]
    counted, cell = measured(inferences), cell[counts]
    latency = time_ns(counted).astype(np.int64)
    order = np.lexsort((latency, cell))
    latency, cell = latency[order], cell[order]
    number = figures["count"] = np.bincount(cell, minlength=cells)
    figures["present"] = number >= 0
    figures["deadline_misses"] = np.full(cells, ABSENT, np.int64)
    if deadline_ns is not None:
        missed = response_ns(counted)[order] > deadline_ns
        figures["deadline_misses"] = np.bincount(cell[missed], minlength=cells)
    figures["sum_ns"] = np.zeros(cells, np.int64)
    np.add.at(figures["sum_ns"], cell, latency)
    first, filled = np.cumsum(number) - number, number > 0
    ranks = {"min": np.zeros_like(number), "max": number - 1}
    for name, place in PERCENTILES.items():
        ranks[name] = np.clip(np.ceil(QUANTILES[place] * number - 1e-9).astype(np.int64) - 1, 0, None)
    for name, rank in ranks.items():
        figures[f"{name}_ns"] = np.full(cells, ABSENT, np.int64)
        figures[f"{name}_ns"][filled] = latency[(first + rank)[filled]]
    return figures


def sensor_values(readings: Readings, cell: Ints, cells: int, highest: Sequence[bool]) -> npt.NDArray[np.float64]:
    """Return the mean reading of each sensor in each cell (step of time), as an array of shape (sensors, cells).

    The value is NaN without a reading. `cell` has the cell number of each reading. `highest` says for each sensor
    whether the highest reading is returned in place of the mean.
    """
    sensors = len(highest)
    place = readings["sensor"].astype(np.int64) * cells + cell
    number = np.bincount(place, minlength=sensors * cells)
    total = np.bincount(place, weights=readings["value"], minlength=sensors * cells)
    with np.errstate(invalid="ignore"):
        mean = (total / number).reshape(sensors, cells)
    most = np.full(sensors * cells, -np.inf)
    np.maximum.at(most, place, readings["value"])
    chosen = np.where(np.asarray(highest, bool)[:, None], most.reshape(sensors, cells), mean)
    chosen[number.reshape(sensors, cells) == 0] = np.nan
    return chosen


def export(selection: Selection, output: Output) -> None:
    recording = selection.recording
    grid = grid_of(selection.hz)
    span = selection.bounds.in_steps_of(grid.seconds * NS)
    rows = (span.end_ns - span.begin_ns) // grid.cell_ns
    if rows > MAX_ROWS:
        raise InputError(f"{recording.folder}: that is {quantity(rows, 'row')}", CUT)
    if rows > MAX_EMPTY_ROWS and rows - (filled := _most_filled(recording, grid)) > MAX_EMPTY_ROWS:
        message = f"{recording.folder}: that is {quantity(rows, 'row')}, and it has data for {count(filled)} at most"
        raise InputError(message, CUT)
    wide = _Wide(recording.manifest, grid)
    is_fine = grid.per_second > 1
    batches = recording.play(inferences=is_fine, step_s=RAW_WINDOW_S if is_fine else WINDOW_S, span=span)
    with output.stream(is_text=False) as file, pq.ParquetWriter(file, wide.schema, compression="zstd") as writer:
        waiting: list[pa.Table] = []
        for table in wide.tables(batches, span):
            waiting.append(table)
            if sum(map(len, waiting)) >= ROW_GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


def _most_filled(recording: Recording, grid: Grid) -> int:
    """Return an upper bound of the number of cells with data, from the sizes of the recording's tables."""
    data = sum(piece.rows for name in ("seconds", "readings", "events") for piece in recording.pieces(name))
    return data * grid.per_second  # single inferences lie in seconds


class _Wide:
    """Builds the wide table of one recording: a row for each step of time, and a column for each sensor."""

    def __init__(self, manifest: Manifest, grid: Grid) -> None:
        self._manifest = manifest
        self._grid = grid
        self._columns: dict[str, int] = {}  # the place of each column's sensor
        for place, info in enumerate(manifest.sensors):
            # An id is `kind/label`; any other content of a file gets no name of a fixed column.
            self._columns.setdefault(encodable(info.id if "/" in info.id else f"sensor/{info.id}"), place)
        fields = [pa.field(name, kind, metadata={"meaning": text}) for name, kind, text in _FIXED]
        fields += [pa.field(n, pa.float64(), metadata=_about(manifest.sensors[i])) for n, i in self._columns.items()]
        meanings = {f"meaning:{field.name}": field.metadata[b"meaning"] for field in fields}
        session = json.dumps(to_json(manifest))
        hz = f"{grid.per_second / grid.seconds:g}"
        self.schema = pa.schema(fields, {**meanings, "edgetop:session": session, "edgetop:hz": hz})
        self._utc = manifest.wall_time()

    def tables(self, batches: Iterator[Batch], span: Span) -> Iterator[pa.Table]:
        """Yield the rows for all cells of `span`, in tables of limited size.

        `batches` are the session's data in order.
        """
        begin, end = (int(self._grid.cell_of(t_ns)) for t_ns in (span.begin_ns, span.end_ns))
        waiting = Batch()
        for batch in batches:
            waiting = merge([waiting, replace(batch, restart=False)])
            done = max(begin, min(end, int(self._grid.cell_of(waiting.until_ns - LATE_NS))))
            done -= done % self._grid.per_second  # whole seconds, which show whether inferences are missing
            yield from self._rows(waiting, begin, done)
            begin = max(begin, done)
            waiting = self._between(waiting, begin)
        yield from self._rows(waiting, begin, end)

    def _rows(self, batch: Batch, begin: int, end: int) -> Iterator[pa.Table]:
        per_second = self._grid.per_second
        most = max(1, WINDOW_CELLS // (len(self._manifest.sensors) + len(_FIXED)) // per_second) * per_second
        for first in range(begin, end, most):
            last = min(end, first + most)
            yield self._table(self._between(batch, first, last), first, last)

    def _between(self, batch: Batch, begin: int, end: int | None = None) -> Batch:
        end_ns = WHOLE.end_ns if end is None else int(self._grid.start_ns(end))
        span = Span(int(self._grid.start_ns(begin)), end_ns)
        fields = ("inferences", "seconds", "readings", "events")
        return replace(batch, **{name: within(span, getattr(batch, name)) for name in fields})

    def _table(self, batch: Batch, begin: int, end: int) -> pa.Table:
        cells, grid = end - begin, self._grid
        t_ns = grid.start_ns(np.arange(begin, end))
        utc = pa.nulls(cells) if self._utc is None else pa.array(self._utc.microseconds(t_ns))
        columns = {"t_ns": pa.array(t_ns), "utc": utc.cast(pa.timestamp("us", "UTC"))}
        columns |= self._latency(batch, begin, cells)
        kinds: list[list[str]] = [[] for _ in range(cells)]
        for event in batch.events:
            kinds[int(grid.cell_of(event.t_ns)) - begin].append(event.kind)
        columns["events"] = pa.array(kinds, pa.list_(pa.string()))
        highest = [info.kind in _HIGHEST for info in self._manifest.sensors]
        values = sensor_values(batch.readings, grid.cell_of(batch.readings["t_ns"]) - begin, cells, highest)
        for name, place in self._columns.items():
            columns[name] = pa.array(values[place], mask=np.isnan(values[place]))
        return pa.table(columns, self.schema)

    def _latency(self, batch: Batch, begin: int, cells: int) -> dict[str, pa.Array]:
        second = self._grid.cell_of(batch.seconds.rows["t_ns"]) - begin
        response: Figures | None = None
        if self._grid.per_second == 1:
            figures = from_seconds(batch.seconds, second, cells)
            if batch.seconds.response is not None:
                response = from_seconds(batch.seconds.response, second, cells)
        else:
            cell = self._grid.cell_of(batch.inferences["t_ns"]) - begin
            fold = partial(from_inferences, batch.inferences, cell, cells, self._manifest.load.deadline_ns)
            figures, response = fold(), fold(response_ns) if self._manifest.load.is_paced else None
            figures["present"] = self._is_complete(figures["count"], batch.seconds.rows["count"], second)
        present = figures["present"]
        columns = {name: pa.array(figures[name], mask=~present) for name in ("count", "errors")}
        misses = figures["deadline_misses"]
        columns["deadline_misses"] = pa.array(misses, mask=~present | (misses == ABSENT))
        return (
            columns
            | _times("latency", figures, present)
            | _times("response", response or figures, present & (response is not None))
        )

    def _is_complete(self, found: Ints, counted: npt.NDArray[np.int32], second: Ints) -> npt.NDArray[np.bool_]:
        """Return, for each cell (step of time), whether all inferences of its second were recorded.

        `found` has the number of recorded inferences in each cell. For each row of the table of seconds, `counted` has
        the number of inferences, and `second` the number of the second's first cell.
        """
        # Inferences may be missing because of `--max-size` or a failed disk.
        each = self._grid.per_second
        recorded = np.add.reduceat(found, np.arange(0, len(found), each))
        is_complete = np.zeros(len(recorded), bool)
        is_complete[second // each] = recorded[second // each] == counted
        return np.repeat(is_complete, each)[: len(found)]


def _times(name: str, figures: Figures, present: npt.NDArray[np.bool_]) -> dict[str, pa.Array]:
    """Return the Arrow columns of latency or response times, by column name.

    `name` is "latency" or "response". `figures` has one value for each cell (step of time), and `present` says which
    cells have such times. Other cells, and cells without an inference, are null.
    """
    filled = present & (figures["count"] > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = figures["sum_ns"] / figures["count"]
    columns = {f"{name}_mean_ns": pa.array(mean, mask=~filled)}
    return columns | {f"{name}_{of}_ns": pa.array(figures[f"{of}_ns"], mask=~filled) for of in _TIMES}


def _about(info: SensorInfo) -> dict[str, str]:
    how = "the highest of its readings" if info.kind in _HIGHEST else "the mean of its readings"
    about = {"meaning": f"{how} in the row's time, in {info.unit}", "unit": info.unit, "source": info.source}
    if info.role is not None:
        about["role"] = info.role
    if info.simulated:
        about["simulated"] = "true"
    return {key: encodable(text) for key, text in about.items()}
