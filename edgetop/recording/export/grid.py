"""A regular grid over session time, and what lies in each of its cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.errors import InputError
from edgetop.session import histogram
from edgetop.session.records import MEASURE, Inferences, Readings, measured, response_ns
from edgetop.session.seconds import ABSENT, NS, QUANTILES, Seconds

MAX_PER_SECOND = 1_000
# Name, and its place in QUANTILES.
PERCENTILES = {"p50": 0, "p90": 1, "p99": 3}

Figures = dict[str, npt.NDArray[Any]]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grid:
    """Cells from session time 0 on: so many a second, or of so many seconds each."""

    per_second: int = 1
    seconds: int = 1

    @property
    def cell_ns(self) -> int:
        """Rounded down, where a second does not divide evenly."""
        return self.seconds * NS // self.per_second

    def cell_of(self, t_ns: Ints) -> Ints:
        second, rest = np.divmod(t_ns, NS)
        return np.asarray((second * self.per_second + rest * self.per_second // NS) // self.seconds)

    def start_ns(self, cell: Ints) -> Ints:
        """The first ns of a cell."""
        second, part = np.divmod(cell * self.seconds, self.per_second)
        return np.asarray(second * NS - (-part * NS // self.per_second))


def grid_of(hz: float) -> Grid:
    """Raises InputError where seconds and cells do not fit into one another."""
    if 1 <= hz <= MAX_PER_SECOND and hz == int(hz):
        return Grid(per_second=int(hz))
    if 0 < hz < 1 and abs(1 / hz - round(1 / hz)) < 1e-5 / hz:
        return Grid(seconds=round(1 / hz))
    whole = f"write a whole number up to {MAX_PER_SECOND}, or one of whole seconds: 0.5, 0.1"
    raise InputError(f"--hz {hz:g}: does not fit into seconds", whole)


def from_seconds(seconds: Seconds, cell: Ints, cells: int) -> Figures:
    """Latency figures of each cell from the rows of `seconds`, the cell of each given.

    A cell of several seconds has its percentiles from their histograms, within 1 %. ABSENT: not known.
    """
    rows = seconds.rows
    figures: Figures = {"present": np.bincount(cell, minlength=cells) > 0}
    for name in ("count", "errors", "sum_ns", "deadline_misses"):
        figures[name] = np.zeros(cells, np.int64)
        np.add.at(figures[name], cell, rows[name])
    if (rows["deadline_misses"] == ABSENT).any():
        figures["deadline_misses"][:] = ABSENT
    holds = rows["count"] > 0
    figures["min_ns"], figures["max_ns"] = np.full(cells, 2**62, np.int64), np.full(cells, ABSENT, np.int64)
    np.minimum.at(figures["min_ns"], cell[holds], rows["min_ns"][holds])
    np.maximum.at(figures["max_ns"], cell[holds], rows["max_ns"][holds])
    for name in PERCENTILES:
        figures[f"{name}_ns"] = np.full(cells, ABSENT, np.int64)
        figures[f"{name}_ns"][cell[holds]] = rows[f"{name}_ns"][holds]
    for shared in np.flatnonzero(np.bincount(cell[holds], minlength=cells) > 1):
        lowest, highest = int(figures["min_ns"][shared]), int(figures["max_ns"][shared])
        counts = seconds.where(cell == shared).histogram()
        quantiles = tuple(QUANTILES[place] for place in PERCENTILES.values())
        for name, value in zip(PERCENTILES, histogram.percentiles(counts, quantiles, lowest, highest), strict=True):
            figures[f"{name}_ns"][shared] = round(value)
    return figures


def service_ns(inferences: Inferences) -> Ints:
    return np.asarray(inferences["latency_ns"].astype(np.int64))


def from_inferences(
    inferences: Inferences,
    cell: Ints,
    cells: int,
    deadline_ns: int | None,
    time_ns: Callable[[Inferences], Ints] = service_ns,
) -> Figures:
    """The same from single inferences, exact. `time_ns`: which time of each."""
    failed = (inferences["phase"] == MEASURE) & ~inferences["ok"]
    figures: Figures = {"errors": np.bincount(cell[failed], minlength=cells)}
    counts = (inferences["phase"] == MEASURE) & inferences["ok"]
    counted, cell = measured(inferences), cell[counts]
    latency = time_ns(counted)
    order = np.lexsort((latency, cell))
    latency, cell = latency[order], cell[order]
    count = figures["count"] = np.bincount(cell, minlength=cells)
    figures["present"] = count >= 0
    figures["deadline_misses"] = np.full(cells, ABSENT, np.int64)
    if deadline_ns is not None:
        missed = response_ns(counted)[order] > deadline_ns
        figures["deadline_misses"] = np.bincount(cell[missed], minlength=cells)
    figures["sum_ns"] = np.zeros(cells, np.int64)
    np.add.at(figures["sum_ns"], cell, latency)
    first = np.cumsum(count) - count
    holds = count > 0
    ranks = {"min": np.zeros_like(count), "max": count - 1}
    for name, place in PERCENTILES.items():
        ranks[name] = np.clip(np.ceil(QUANTILES[place] * count - 1e-9).astype(np.int64) - 1, 0, None)
    for name, rank in ranks.items():
        figures[f"{name}_ns"] = np.full(cells, ABSENT, np.int64)
        figures[f"{name}_ns"][holds] = latency[(first + rank)[holds]]
    return figures


def sensor_values(readings: Readings, cell: Ints, cells: int, highest: Sequence[bool]) -> npt.NDArray[np.float64]:
    """For each sensor and cell the mean of its readings, or where `highest` says so the highest; NaN: not read.

    Shape (sensors, cells).
    """
    sensors = len(highest)
    place = readings["sensor"].astype(np.int64) * cells + cell
    count = np.bincount(place, minlength=sensors * cells)
    total = np.bincount(place, weights=readings["value"], minlength=sensors * cells)
    with np.errstate(invalid="ignore"):
        mean = (total / count).reshape(sensors, cells)
    most = np.full(sensors * cells, -np.inf)
    np.maximum.at(most, place, readings["value"])
    chosen = np.where(np.asarray(highest, bool)[:, None], most.reshape(sensors, cells), mean)
    chosen[count.reshape(sensors, cells) == 0] = np.nan
    return chosen
