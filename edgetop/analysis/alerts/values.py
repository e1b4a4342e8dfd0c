"""The values that alert rules check, one per second, computed from sensors and from inferences."""

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from edgetop.analysis.alerts.alert_rules import Bools, Floats
from edgetop.analysis.energy import accuracy_rank
from edgetop.analysis.tracks import HOLD_S, LATE_S, SECONDS, Tracks, hold_last
from edgetop.session.seconds import NS, PERCENTILE_FIELDS, Seconds

# Time over which misses and errors are counted for alerts. Choice: isolated misses are then one span. Larger: an
# alert lasts after its end; smaller: rare misses come and go.
MINUTE_S = 60

Rows = npt.NDArray[np.void]
Ints = npt.NDArray[np.int64]
Piece = tuple[int, Mapping[str, Floats]]  # The first second, and each series' values from that second on.


LATENCY_SERIES = (*(name.removesuffix("_ns") for name in PERCENTILE_FIELDS), "mean", "max")


class SensorValues:
    """Computes one value per second from sensors, for alert rules to check. NaN means unknown.

    The series are `temp` (hottest zone, °C), `headroom` (°C to the nearest trip point), `power` (W) and `rss` (memory
    of the engine, MiB).
    """

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._next_s = 0
        self._places: dict[str, list[int]] = {}

    def register(self, wanted: Collection[str]) -> None:
        """Choose the sensors for each series in `wanted`, such as `temp`.

        Call this again when the board has more sensors.
        """
        infos = self._tracks.infos
        totals = [place for place, info in enumerate(infos) if info.kind == "power" and info.role == "total"]
        places = {
            "temp": [place for place, info in enumerate(infos) if info.kind == "temp"],
            "headroom": sorted(self._tracks.trips_c),
            "power": sorted(totals, key=lambda place: accuracy_rank(infos[place])),
            "rss": [place for place, info in enumerate(infos) if info.id == "mem/rss"],
        }
        self._places = {name: of for name, of in places.items() if name in wanted}

    def fold(self, ended_ns: int | None = None) -> Iterator[Piece]:
        """Yield `(first_s, values)` once, for all seconds that became complete since the last call, if there are any.

        `first_s`: the first of these seconds. `values`: for each series, such as `temp`, an array with one value per
        second. `ended_ns`: the end of the session in ns of session time; None if the session continues.
        """
        known_ns = self._tracks.until_ns
        until_s = known_ns // NS - LATE_S
        if ended_ns is not None:
            until_s = ended_ns // NS if known_ns >= ended_ns else min(until_s, ended_ns // NS)
        newest_s = self._tracks.newest_s
        begin, end = max(self._next_s, newest_s - SECONDS + 1), min(until_s, newest_s + HOLD_S + 1)
        self._next_s = max(self._next_s, until_s)
        if begin < end and self._places:
            yield begin, {name: self._series(name, places, begin, end) for name, places in self._places.items()}

    def _series(self, name: str, places: list[int], begin: int, end: int) -> Floats:
        values, _ = self._tracks.held(places, begin, end)
        if name == "headroom":
            trips = [self._tracks.trips_c[place] for place in places]
            return np.asarray(np.fmin.reduce(np.reshape(trips, (-1, 1)) - values, axis=0, initial=np.nan))
        if name == "power":  # Of several instruments, the best one that was read counts.
            return hold_last(values[::-1].T)[:, -1] if places else np.full(end - begin, np.nan)
        return np.asarray(np.fmax.reduce(values, axis=0, initial=np.nan))


class InferenceValues:
    """Computes latencies, misses and errors, one value per second, for alert rules to check.

    The series are percentiles such as `p99`, `mean` and `max` in ms; `misses` and `errors`, their numbers in the last
    minute; and `misses%` and `errors%`, these numbers in percent of the inferences of that minute.
    """

    def __init__(self, wanted: Collection[str] = LATENCY_SERIES) -> None:
        """Begin with no data.

        `wanted` has the names of the latency series to compute, such as `p99`. Misses and errors are always computed.
        """
        self.wanted = wanted
        self._next_s = 0
        self._minute: Ints = np.zeros((MINUTE_S - 1, 3), np.int64)
        self._last: dict[str, float] = {}

    def fold(self, seconds: Seconds) -> Iterator[Piece]:
        """Yield `(first_s, values)` for each run of successive seconds.

        `first_s`: the first session second of the run. `values`: for each series, such as `p99`, an array with one
        value per second. `seconds` must contain complete seconds only. Latencies are response times if the load has
        such times.
        """
        known = int(np.searchsorted(seconds.rows["t_ns"], self._next_s * NS))
        rows, timed = seconds.rows[known:], (seconds.response or seconds).rows[known:]
        if not len(rows):
            return
        second = rows["t_ns"] // NS
        self._next_s = int(second[-1]) + 1
        cuts = [0, *(np.flatnonzero(np.diff(second) != 1) + 1).tolist(), len(second)]
        for begin, end in pairwise(cuts):
            yield int(second[begin]), self._series(rows[begin:end], timed[begin:end])

    def _series(self, rows: Rows, timed: Rows) -> Mapping[str, Floats]:
        ran = timed["count"] > 0
        series = {}
        for name in (name for name in LATENCY_SERIES if name in self.wanted):
            ns = timed["sum_ns"] / np.maximum(timed["count"], 1) if name == "mean" else timed[f"{name}_ns"]
            series[name] = self._held(name, ns / 1e6, ran)
        counts = np.empty((len(rows), 3), np.int64)
        counts[:, 0] = np.maximum(rows["deadline_misses"], 0)
        counts[:, 1], counts[:, 2] = rows["errors"], rows["count"]
        known = np.concatenate([self._minute, counts])
        self._minute = known[1 - MINUTE_S :].copy()
        total = np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(known, axis=0)])
        sums = total[MINUTE_S:] - total[:-MINUTE_S]
        with np.errstate(invalid="ignore"):  # Nothing ran in that minute.
            shares = 100 * sums[:, 0] / sums[:, 2], 100 * sums[:, 1] / (sums[:, 1] + sums[:, 2])
        has_deadline = rows["deadline_misses"] >= 0
        series["misses"] = np.where(has_deadline, sums[:, 0].astype(np.float64), np.nan)
        series["misses%"] = np.where(has_deadline, shares[0], np.nan)
        series["errors"], series["errors%"] = sums[:, 1].astype(np.float64), shares[1]
        return series

    def _held(self, name: str, values: Floats, ran: Bools) -> Floats:
        """Return a copy of `values` in which a second without inferences has the last value before it.

        `values` and `ran` have one element per second; `ran` is True for a second with inferences. `name`: the series,
        such as `p99`, whose last value is stored for the next call.
        """
        before = np.concatenate([[self._last.get(name, math.nan)], np.where(ran, values, math.nan)])
        held = hold_last(before[None])[0, 1:]
        self._last[name] = float(held[-1])
        return held
