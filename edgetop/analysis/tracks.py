"""The readings of every sensor: latest value, extremes, mean, timeline, and the last value in each recent second.

Heat, memory and overhead are computed from these readings. Slowdowns, alerts and the forecast look up the last half
hour of readings here, and store none of their own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.analysis.timeline import Axis, Points, Timeline
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.event_kinds import Remark, SensorMissing
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import FOLDED_AT_ONCE, Aggregates, Readings, in_pieces
from edgetop.session.seconds import NS
from edgetop.session.trips import trips_c

BRIDGED_S = 5  # Shorter gaps are filled: sources are read every 1 to 5 s, power sensors at random intervals.
# Time for which a reading is valid. Choice: slow sensors are read every 5 s, and one reading may fail. Larger: a lost
# sensor explains what came after; smaller: one failed reading ends a throttle.
HOLD_S = 12
LATE_S = 4  # A reading may arrive this much later than other readings of its time.
SECONDS = 2_048  # Seconds whose values can be looked up.
FOLDED_AT_ONCE_S = 512  # Long batches are folded in parts of this length.
LARGEST = 1e30  # Larger values, as in a damaged file, are reduced to this limit.

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def hold_last(values: Floats, most: int | None = None) -> Floats:
    """Return a copy of `values` in which each NaN is replaced by the last number to its left in the same row.

    `most`: the largest distance of this number, in columns; None for any distance.
    """
    column = np.arange(values.shape[1])
    last = np.maximum.accumulate(np.where(np.isnan(values), 0, column), axis=1)
    held = values[np.arange(len(values))[:, np.newaxis], last]
    if most is not None:
        held[column - last > most] = np.nan
    return held


# Any: a ring of floats or of integers.
def _grown(ring: npt.NDArray[Any], sensors: int, known: Ints, empty: float) -> npt.NDArray[Any]:
    """Return a ring with room for `sensors` sensors. `known` are the rows in use, where new sensors get `empty`."""
    grown = np.empty((len(ring), sensors), ring.dtype)
    grown[known, : ring.shape[1]] = ring[known]
    grown[known, ring.shape[1] :] = empty
    return grown


@frozen
class ReadingBlocks:
    """Mean readings of sensors in successive blocks of time, as arrays of shape (sensors, blocks).

    A mean is NaN if nothing was read in the block.
    """

    width_s: int
    first: int  # Number of the first block, which begins at `first * width_s`.
    mean: Floats
    mid_s: Floats  # Mean time of the readings in s since the session's origin; NaN if it was not requested.
    count: Floats


@frozen
class TrackView:
    """The state of one sensor: its last reading, and figures over the whole session.

    `value` is the last reading, `read_ns` its session time in ns, and `age_s` its age in s.
    """

    info: SensorInfo
    value: float | None  # None if it was never read.
    age_s: float | None
    min: float | None
    mean: float | None
    max: float | None
    count: int
    is_lost: bool  # Whether its last read failed.
    reason: str  # Why its last read failed; "" if it did not fail or was never tried.
    read_ns: int | None = None
    trip_c: float | None = None  # For a zone: the temperature at which it throttles; None if unknown.

    @property
    def now(self) -> float | None:
        """Return the last reading, or None if the sensor was never read or could not be read the last time."""
        return None if self.is_lost else self.value


@frozen
class MissingSensor:
    """A quantity that this board does not measure, with the reason."""

    what: str
    why: str
    fix: str  # Command that would change that; "" if there is none.


class _Figures:
    """The figures of each sensor, as arrays by the sensor's place in the manifest.

    Readings are added one by one, in order, so that sums do not depend on batches.
    """

    def __init__(self, tracks: int) -> None:
        self.value = np.full(tracks, np.nan)
        self.t_ns = np.full(tracks, np.iinfo(np.int64).min)
        self.min = np.full(tracks, np.inf)
        self.max = np.full(tracks, -np.inf)
        self.sum = np.zeros(tracks)
        self.count = np.zeros(tracks, np.int64)

    def grow(self, tracks: int) -> None:
        more = _Figures(tracks - len(self.count))
        for name, values in vars(self).items():
            setattr(self, name, np.concatenate([values, getattr(more, name)]))

    def add(self, sensor: Ints, t_ns: Ints, low: Floats, high: Floats, total: Floats, last: Floats) -> None:
        np.minimum.at(self.min, sensor, low)
        np.maximum.at(self.max, sensor, high)
        np.add.at(self.sum, sensor, total)
        np.maximum.at(self.t_ns, sensor, t_ns)
        newest = t_ns == self.t_ns[sensor]
        self.value[sensor[newest]] = last[newest]  # Of several readings at one time, the last counts.


class Tracks:
    """Stores what is known of all sensors: their readings, and whether a sensor was lost or came back."""

    def __init__(self, *, has_timeline: bool = True) -> None:
        """Begin without sensors.

        `has_timeline`: whether to store timelines too. The methods `points` and `blocks` need them.
        """
        self.infos: tuple[SensorInfo, ...] = ()
        self.trips_c: dict[int, float] = {}  # Trip temperatures by the zone's place in the manifest.
        self._has_timeline = has_timeline
        self._kinds: tuple[str, ...] = ()
        self._places: dict[str, int] = {}
        self._figures = _Figures(0)
        self._timeline = Timeline(0, has_top=False)
        # Rings with one row per second: each sensor's last value (NaN if nothing was read), and its time within the
        # second. A second is cleared before it is used, so that future seconds take no memory.
        self._last = np.empty((SECONDS, 0))
        self._last_ms = np.empty((SECONDS, 0), np.int16)
        self.newest_s = -1  # Newest second with a reading.
        self.until_ns = 0  # All readings up to this time are known, except late ones.
        # Readings up to this second came as aggregates; the longest aggregate in s.
        self._coarse_until_s, self._coarse_s = -1, 0
        self._lost_because: dict[str, str] = {}  # By sensor id, for sensors whose last read failed.
        self._now_ns = 0
        self.missing: tuple[MissingSensor, ...] = ()
        self._views: dict[tuple[str, ...], tuple[TrackView, ...]] = {}  # Cached until the next fold.

    def fold(self, batch: Batch) -> None:
        for _ in self.parts(batch):
            pass

    def parts(self, batch: Batch) -> Iterator[Batch]:
        """Store a batch, and yield it in parts of a few minutes, each right after its readings were stored.

        Code that looks up the readings of each second must do so after each part, because only recent seconds are
        stored. Seconds and readings are divided among the parts. Everything else is in the first part.
        """
        self._views = {}
        self._now_ns = max(self._now_ns, batch.until_ns)
        if batch.manifest is not None:
            self._register(batch.manifest.sensors)
            self.trips_c = trips_c(batch.manifest)
        self._fold_aggregates(batch.aggregates[batch.aggregates["sensor"] < len(self.infos)])
        for event in batch.events:
            what = event.source.removeprefix("sensor ")
            match event.body:
                case SensorMissing(fix):
                    self.missing += (MissingSensor(what, event.message, fix or ""),)
                case Remark("sensor-lost"):
                    self._lost_because[what] = event.message
                case Remark("sensor-back"):
                    self._lost_because.pop(what, None)
        if len(batch.readings) > FOLDED_AT_ONCE:
            is_known = batch.readings["sensor"] < len(self.infos)
            self._timeline.expect(int(batch.readings["t_ns"].max(where=is_known, initial=-1)) // NS)
        cuts = _cuts(batch.readings)
        if not cuts:
            self._fold_readings(batch.readings, batch.until_ns)
            yield batch
            return
        row = 0
        for begin, end in zip([0, *cuts], [*cuts, None], strict=True):
            until_ns = batch.until_ns if end is None else int(batch.readings["t_ns"][end]) // NS * NS
            self._fold_readings(batch.readings[begin:end], until_ns)
            upto = len(batch.seconds) if end is None else batch.seconds.before(until_ns)
            seconds, row = batch.seconds.between(row, upto), upto
            part = Batch(batch.until_ns) if begin else batch
            yield replace(part, seconds=seconds, readings=batch.readings[begin:end])

    def _register(self, infos: tuple[SensorInfo, ...]) -> None:
        self.infos = infos
        self._kinds = tuple(info.kind for info in infos)
        self._places = {info.id: place for place, info in enumerate(infos)}
        if len(infos) > self._last.shape[1]:
            self._figures.grow(len(infos))
            if self._has_timeline:
                self._timeline.grow(len(infos))
            known = np.arange(max(0, self.newest_s - SECONDS + 1), self.newest_s + 1) % SECONDS
            self._last = _grown(self._last, len(infos), known, np.nan)
            self._last_ms = _grown(self._last_ms, len(infos), known, 0)

    def _fold_readings(self, readings: Readings, until_ns: int) -> None:
        for piece in in_pieces(readings):
            is_known = piece["sensor"] < len(self.infos)
            known = piece if is_known.all() else piece[is_known]
            if not len(known):
                continue
            t_ns, sensor = known["t_ns"].astype(np.int64), known["sensor"].astype(np.int64)
            second = t_ns // NS
            value = np.clip(known["value"].astype(np.float64), -LARGEST, LARGEST)
            self._figures.count += np.bincount(sensor, minlength=len(self._figures.count))
            self._figures.add(sensor, t_ns, value, value, value, value)
            if self._has_timeline:
                self._timeline.add(sensor, second, np.broadcast_to(value, (3, len(value))), np.ones(len(value)))
            newest = max(self.newest_s, int(second.max()))
            cleared = np.arange(max(self.newest_s + 1, newest - SECONDS + 1), newest + 1) % SECONDS
            self._last[cleared], self._last_ms[cleared] = np.nan, 0
            self.newest_s = newest
            fresh = (second > newest - SECONDS) & (second >= 0)
            place = second[fresh] % SECONDS, sensor[fresh]
            self._last[place], self._last_ms[place] = value[fresh], t_ns[fresh] // 1_000_000 % 1_000
        self.until_ns = max(self.until_ns, until_ns)

    def _fold_aggregates(self, aggregates: Aggregates) -> None:
        if len(aggregates):
            sensor, until_ns, count = (aggregates[name] for name in ("sensor", "until_ns", "count"))
            np.add.at(self._figures.count, sensor, count)
            total = aggregates["mean"] * count
            self._figures.add(sensor, until_ns, aggregates["low"], aggregates["high"], total, aggregates["last"])
            begin, end = aggregates["t_ns"] // NS, until_ns // NS
            if self._has_timeline:
                figures = np.stack([aggregates[name] for name in ("low", "mean", "high")])
                self._timeline.cover(sensor.astype(np.int64), begin, end, figures, count)
            self._coarse_until_s = max(self._coarse_until_s, int(end.max()))
            self._coarse_s = max(self._coarse_s, int((end - begin).max()) + 1)

    def read(self, places: Sequence[int], begin_s: int, end_s: int) -> Floats:
        """Return the last reading of each sensor in each second, as an array of shape (sensors, seconds).

        `places`: places of the sensors in the manifest. `begin_s` and `end_s`: the first session second, and the second
        after the last. A second without a reading is NaN.
        """
        second = np.arange(begin_s, end_s)
        inside = (second > self.newest_s - SECONDS) & (second <= self.newest_s) & (second >= 0)
        return np.where(inside, self._last[second % SECONDS, np.array(places, np.int64)[:, None]], np.nan)

    def held(self, places: Sequence[int], begin_s: int, end_s: int) -> tuple[Floats, Bools]:
        """Return two arrays by sensor (row) and second (column): the valid value, and whether the sensor was read.

        A reading stays valid for HOLD_S seconds; afterwards the value is NaN. `places`: places of the sensors in the
        manifest. `begin_s` and `end_s`: the first session second, and the second after the last.
        """
        values = self.read(places, begin_s - HOLD_S, end_s)
        return hold_last(values, HOLD_S)[:, HOLD_S:], ~np.isnan(values[:, HOLD_S:])

    def blocks(
        self, places: Sequence[int], width_s: int, from_s: float, until_s: int, most: int, *, timed: bool = True
    ) -> ReadingBlocks:
        """Return the mean readings in the latest `most` complete blocks of time before `until_s`.

        `places`: places of the sensors in the manifest. `width_s`: the length of a block in s, a power of two.
        `from_s`: earlier session seconds are left out. `timed`: whether blocks also have the mean time of their
        readings. In the distant past of a long session, seconds are merged, so blocks may be longer than `width_s`.
        """
        is_coarse = width_s * most > SECONDS
        if is_coarse:
            width_s = max(width_s, self._timeline.coarse_width_s)
        if width_s <= self._coarse_s:  # An aggregate that long shows no change within a block.
            from_s = max(from_s, self._coarse_until_s + 1)
        newest = self.newest_s // width_s
        end = min(until_s // width_s, newest + 1)
        first = min(max(0, newest - most + 1, -int(-from_s // width_s)), end)
        begin_s, end_s = first * width_s, end * width_s
        rows = np.array(places, np.int64)
        sums, weights = self._timeline.sums(rows, begin_s, end_s, coarse=is_coarse)
        each_s = self._timeline.coarse_width_s if is_coarse else 1
        shape = (len(places), end - first, width_s // each_s)
        count = weights.reshape(shape).sum(axis=2)
        with np.errstate(invalid="ignore"):
            mean = sums.reshape(shape).sum(axis=2) / count
            if not timed:
                return ReadingBlocks(width_s, first, mean, np.full_like(mean, np.nan), count)
            middle_s = np.broadcast_to(np.arange(begin_s, end_s, each_s) + each_s / 2, sums.shape)
            if not is_coarse:
                second = np.arange(begin_s, end_s)
                was_read = ~np.isnan(self.read(places, begin_s, end_s))
                read_s = second + self._last_ms[second % SECONDS, rows[:, None]] / 1_000
                middle_s = np.where(was_read, read_s, middle_s)
            mid_s = (middle_s * weights).reshape(shape).sum(axis=2) / count
        return ReadingBlocks(width_s, first, mean, mid_s, count)

    def views(self, *kinds: str) -> tuple[TrackView, ...]:
        """Return the state of every sensor of these kinds, such as "temp", in the manifest's order.

        Without `kinds`, return all sensors.
        """
        if kinds not in self._views:
            self._views[kinds] = (
                tuple(track for track, kind in zip(self.views(), self._kinds, strict=True) if kind in kinds)
                if kinds
                else tuple(self._all())
            )
        return self._views[kinds]

    def one(self, sensor_id: str) -> TrackView | None:
        """Return the state of one sensor, or None if the board lacks it.

        `sensor_id`: for example "temp/cpu-thermal".
        """
        place = self._places.get(sensor_id)
        return None if place is None else self.views()[place]

    def points(self, sensor_id: str, axis: Axis, until_s: float | None = None) -> Points | None:
        """Return the timeline of a sensor, or None if there is no such sensor.

        `sensor_id`: for example "temp/cpu-thermal". `until_s`: the session second at which the timeline ends, for a
        screen that is paused; None for now. Short holes are filled with the value before the hole.
        """
        place = self._places.get(sensor_id)
        if place is None:
            return None
        points = self._timeline.points(axis, place).bridged(BRIDGED_S)
        return points if until_s is None else points.until(until_s)

    def _all(self) -> Iterator[TrackView]:
        known = self._figures
        columns = (known.value, known.t_ns, known.min, known.max, known.sum, known.count)
        rows = zip(self.infos, *map(np.ndarray.tolist, columns), strict=False)
        for place, (info, value, t_ns, low, high, total, count) in enumerate(rows):
            trip_c = self.trips_c.get(place)
            is_lost, reason = info.id in self._lost_because, self._lost_because.get(info.id, "")
            if count:
                age_s = max(0.0, (self._now_ns - t_ns) / NS)
                yield TrackView(info, value, age_s, low, total / count, high, count, is_lost, reason, t_ns, trip_c)
            else:
                yield TrackView(info, None, None, None, None, None, 0, is_lost, reason, None, trip_c)


class TracksReader:
    """Base class for parts of the analysis that look up sensor readings."""

    def __init__(self, tracks: Tracks | None = None) -> None:
        """Look up readings in `tracks`, or in a new object if it is None.

        The owner of `tracks` must pass each part of a batch to `tracks` first.
        """
        self._has_own_tracks = tracks is None
        self._tracks = tracks or Tracks()

    def fold(self, batch: Batch) -> None:
        for part in self._tracks.parts(batch) if self._has_own_tracks else (batch,):
            self.fold_part(part)

    def fold_part(self, batch: Batch) -> None:
        raise NotImplementedError


def _cuts(readings: Readings) -> list[int]:
    """Return the positions at which to cut readings into parts of at most FOLDED_AT_ONCE_S seconds."""
    cuts: list[int] = []
    begin, newest_ns = 0, int(readings["t_ns"][0]) if len(readings) else 0
    for piece in in_pieces(readings):
        times = np.maximum.accumulate(np.append(newest_ns, piece["t_ns"]))
        cuts += (begin + np.flatnonzero(np.diff(times // (FOLDED_AT_ONCE_S * NS)))).tolist()
        begin, newest_ns = begin + len(piece), int(times[-1])
    return cuts
