"""What rules are about, as a value a second: of the sensors, and of the inferences."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgetop.analysis.alerts.rules import Bools, Floats
from edgetop.analysis.power import ACCURACIES
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import NO_READINGS, Readings, of_sensors
from edgetop.session.seconds import NS, PERCENTILE_FIELDS, Seconds

LATE_S = 4  # a reading may come so much later than others of its time
HOLD_S = 12  # a value stands for so long: sources are read every 1 to 5 s
MOST_AT_ONCE_S = 4_096
MINUTE_S = 60  # over which misses and errors are counted

Rows = npt.NDArray[np.void]
Ints = npt.NDArray[np.int64]
Piece = tuple[int, Mapping[str, Floats]]  # the first second, and of each series its values


LATENCY_SERIES = (*(name.removesuffix("_ns") for name in PERCENTILE_FIELDS), "mean", "max")
INFERENCE_SERIES = (*LATENCY_SERIES, "misses", "misses%", "errors", "errors%")
SENSOR_SERIES = ("temp", "headroom", "power", "rss")


class SensorValues:
    """Of each second: `temp`, `headroom` to the nearest trip, `power` and `rss`. NaN: not known."""

    def __init__(self, wanted: Collection[str] = SENSOR_SERIES) -> None:
        """`wanted`: of these; a day of readings costs as much as the rest of the analysis."""
        self._wanted = wanted
        self._infos: tuple[SensorInfo, ...] = ()
        self._waiting: Readings = NO_READINGS  # of seconds that are not complete
        self._last = np.empty(0)  # of each sensor, its last value and when that was
        self._last_s = np.empty(0)
        self._next_s = 0
        self.know(())

    def want(self, wanted: Collection[str]) -> None:
        self._wanted = wanted
        self.know(self._infos)

    def know(self, infos: Sequence[SensorInfo]) -> None:
        """The sensors as the manifest has them now: more than before, or the same."""
        self._infos = tuple(infos)
        of = {name: places for name, places in _places(infos).items() if name in self._wanted}
        self._places = sorted({place for places in of.values() for place in places})
        self._row_of = np.full(len(infos) + 1, -1)
        self._row_of[self._places] = np.arange(len(self._places))
        self._rows = {name: self._row_of[places] for name, places in of.items()}
        self._trips = np.array([(info.trips or {}).get("passive", np.nan) for info in infos])
        self._last, self._last_s = (
            np.concatenate([of_each, np.full(max(0, len(infos) - len(of_each)), nothing)])
            for of_each, nothing in ((self._last, np.nan), (self._last_s, -np.inf))
        )

    def fold(self, readings: Readings, until_ns: int, ended_ns: int | None = None) -> Iterator[Piece]:
        """The seconds that are complete, in order; where nothing was read for long, none.

        `ended_ns`: when the session was over, once that is known. Nothing comes late then, and nothing after it counts.
        """
        if ended_ns is None:
            until_s = until_ns // NS - LATE_S
            due = self._due(readings, until_s * NS)
        else:
            until_s = ended_ns // NS + 1
            due = self._due(readings, ended_ns + 1)
        second, done = due["t_ns"] // NS, 0
        while self._next_s < until_s:
            begin = self._next_s
            next_s = int(second[done]) if done < len(due) else until_s
            if next_s > begin + HOLD_S + 1:  # nothing stands for longer
                end, self._next_s = begin + HOLD_S + 1, next_s
            else:
                end = self._next_s = min(begin + MOST_AT_ONCE_S, until_s)
            until = int(np.searchsorted(second, end))
            if self._rows:
                yield begin, self._series(begin, end, due[done:until])
            done = until

    def _due(self, readings: Readings, until_ns: int) -> Readings:
        """What is wanted of seconds that are not yet told, in their order."""
        fresh = of_sensors(readings, self._places)
        fresh = fresh[fresh["t_ns"] >= self._next_s * NS]
        waiting = np.concatenate([self._waiting, fresh])
        is_due = waiting["t_ns"] < until_ns
        due: Readings = waiting[is_due]
        self._waiting = waiting[~is_due]
        return due[np.argsort(due["t_ns"], kind="stable")] if (np.diff(due["t_ns"]) < 0).any() else due

    def _series(self, begin: int, end: int, readings: Readings) -> Mapping[str, Floats]:
        held = self._held(begin, end, readings)
        series: dict[str, Floats] = {}
        for name, rows in self._rows.items():
            values = held[rows]
            if name == "headroom":
                series[name] = np.fmin.reduce(self._trips_of(rows) - values, axis=0, initial=np.nan)
            elif name == "power":
                series[name] = _first_known(values)
            else:
                series[name] = np.fmax.reduce(values, axis=0, initial=np.nan)
        return series

    def _trips_of(self, rows: Ints) -> Floats:
        return np.asarray(self._trips[np.array(self._places, np.intp)[rows], None])

    def _held(self, begin: int, end: int, readings: Readings) -> Floats:
        """What each wanted sensor read last, in each of these seconds. Shape (sensors, seconds)."""
        columns = np.arange(end - begin + 1)  # the first holds what was before
        values, when = (np.full((len(self._places), len(columns)), nothing) for nothing in (np.nan, -np.inf))
        values[:, 0], when[:, 0] = self._last[self._places], self._last_s[self._places]
        row, second = self._row_of[readings["sensor"]], readings["t_ns"] // NS
        values[row, second - begin + 1], when[row, second - begin + 1] = readings["value"], second
        newest = np.maximum.accumulate(np.where(np.isfinite(when), columns, 0), axis=1)
        values, when = np.take_along_axis(values, newest, axis=1), np.take_along_axis(when, newest, axis=1)
        self._last[self._places], self._last_s[self._places] = values[:, -1], when[:, -1]
        values[begin + columns - 1 - when > HOLD_S] = np.nan
        return np.asarray(values[:, 1:])


def _places(infos: Sequence[SensorInfo]) -> dict[str, list[int]]:
    """Of which sensors each series is made."""
    totals = [place for place, info in enumerate(infos) if info.kind == "power" and info.role == "total"]
    return {
        "temp": [place for place, info in enumerate(infos) if info.kind == "temp"],
        "headroom": [place for place, info in enumerate(infos) if "passive" in (info.trips or {})],
        "power": sorted(totals, key=lambda place: _rank(infos[place])),
        "rss": [place for place, info in enumerate(infos) if info.id == "mem/rss"],
    }


def _rank(info: SensorInfo) -> int:
    return ACCURACIES.index(info.accuracy) if info.accuracy in ACCURACIES else len(ACCURACIES)


def _first_known(values: Floats) -> Floats:
    """Of several instruments the best that was read."""
    known = np.full(values.shape[1], np.nan)
    for one in values:
        known = np.where(np.isnan(known), one, known)
    return known


class InferenceValues:
    """Of each second: percentiles, `mean` and `max` in ms; `misses` and `errors`, also in %, of the last minute."""

    def __init__(self, wanted: Collection[str] = INFERENCE_SERIES) -> None:
        self._wanted = wanted
        self._next_s = 0
        self._minute: Ints = np.zeros((MINUTE_S - 1, 3), np.int64)
        self._last: dict[str, float] = {}

    def want(self, wanted: Collection[str]) -> None:
        self._wanted = wanted

    def fold(self, seconds: Seconds) -> Iterator[Piece]:
        """Complete seconds. Response time counts where there is one."""
        known = int(np.searchsorted(seconds.rows["t_ns"], self._next_s * NS))
        rows, told = seconds.rows[known:], (seconds.response or seconds).rows[known:]
        if not len(rows):
            return
        second = rows["t_ns"] // NS
        self._next_s = int(second[-1]) + 1
        cuts = [0, *(np.flatnonzero(np.diff(second) != 1) + 1).tolist(), len(second)]
        for begin, end in pairwise(cuts):
            yield int(second[begin]), self._series(rows[begin:end], told[begin:end])

    def _series(self, rows: Rows, told: Rows) -> Mapping[str, Floats]:
        ran = told["count"] > 0
        series = {name: self._held(name, _latency(name, told), ran) for name in LATENCY_SERIES if name in self._wanted}
        counts = np.empty((len(rows), 3), np.int64)
        counts[:, 0] = np.maximum(rows["deadline_misses"], 0)
        counts[:, 1], counts[:, 2] = rows["errors"], rows["count"]
        sums = self._of_last_minute(counts)
        with np.errstate(invalid="ignore"):  # nothing ran in that minute
            shares = 100 * sums[:, 0] / sums[:, 2], 100 * sums[:, 1] / (sums[:, 1] + sums[:, 2])
        has_deadline = rows["deadline_misses"] >= 0
        series["misses"] = np.where(has_deadline, sums[:, 0].astype(np.float64), np.nan)
        series["misses%"] = np.where(has_deadline, shares[0], np.nan)
        series["errors"], series["errors%"] = sums[:, 1].astype(np.float64), shares[1]
        return series

    def _held(self, name: str, values: Floats, ran: Bools) -> Floats:
        """In a second in which nothing ran, what was before stands."""
        before = np.concatenate([[self._last.get(name, math.nan)], np.where(ran, values, math.nan)])
        newest = np.maximum.accumulate(np.where(np.isnan(before), 0, np.arange(len(before))))
        held: Floats = before[newest][1:]
        self._last[name] = float(held[-1])
        return held

    def _of_last_minute(self, counts: Ints) -> Ints:
        known = np.concatenate([self._minute, counts])
        self._minute = known[1 - MINUTE_S :].copy()
        total = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(known, axis=0)])
        sums: Ints = total[MINUTE_S:] - total[:-MINUTE_S]
        return sums


def _latency(name: str, rows: Rows) -> Floats:
    """In ms."""
    if name == "mean":
        return np.asarray(rows["sum_ns"] / np.maximum(rows["count"], 1) / 1e6)
    return np.asarray(rows[f"{name}_ns"] / 1e6)
