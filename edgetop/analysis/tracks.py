"""The course of every sensor: its value now, its extremes, its mean, its timeline.

Quantities (heat, memory, cost) are views over these tracks; none keeps readings of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgetop.analysis.timeline import Axis, Points, Timeline
from edgetop.session.batch import Batch
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import FOLDED_AT_ONCE, Readings, Stretches, in_pieces
from edgetop.session.seconds import NS

BRIDGED_S = 5  # sources are read every 1 to 5 s, those of power at jittered times


@dataclass(frozen=True, slots=True)
class TrackView:
    """One sensor, as of now. `value` is the last one read, `age_s` and, as session time, `read_ns` say when."""

    info: SensorInfo
    value: float | None  # None: never read
    age_s: float | None
    min: float | None
    mean: float | None
    max: float | None
    count: int
    is_lost: bool  # its last read failed
    reason: str  # why it is lost, or why it was never read
    read_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MissingSensor:
    """Something this board does not tell."""

    what: str
    why: str
    fix: str  # the command that would change that, or nothing


class _Figures:
    """What is known of each sensor, by its place in the manifest. Readings are joined one by one, in their order."""

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

    def add(self, t_ns: npt.NDArray[np.int64], sensor: npt.NDArray[np.int64], value: npt.NDArray[np.float64]) -> None:
        np.minimum.at(self.min, sensor, value)
        np.maximum.at(self.max, sensor, value)
        np.add.at(self.sum, sensor, value)
        self.count += np.bincount(sensor, minlength=len(self.count))
        np.maximum.at(self.t_ns, sensor, t_ns)
        newest = t_ns == self.t_ns[sensor]
        self.value[sensor[newest]] = value[newest]  # of several at one time, the last

    def add_stretches(self, stretches: Stretches) -> None:
        sensor = stretches["sensor"]
        np.minimum.at(self.min, sensor, stretches["low"])
        np.maximum.at(self.max, sensor, stretches["high"])
        np.add.at(self.sum, sensor, stretches["mean"] * stretches["count"])
        np.add.at(self.count, sensor, stretches["count"])
        np.maximum.at(self.t_ns, sensor, stretches["until_ns"])
        newest = stretches["until_ns"] == self.t_ns[sensor]
        self.value[sensor[newest]] = stretches["last"][newest]


class Tracks:
    """Folds readings, and the events that say a sensor was lost or came back."""

    def __init__(self) -> None:
        self._infos: tuple[SensorInfo, ...] = ()
        self._kinds: tuple[str, ...] = ()
        self._places: dict[str, int] = {}
        self._figures = _Figures(0)
        self._timeline = Timeline(0)
        self._lost_because: dict[str, str] = {}  # by id, of sensors whose last read failed
        self._now_ns = 0
        self.missing: tuple[MissingSensor, ...] = ()
        self._seen: dict[tuple[str, ...], tuple[TrackView, ...]] = {}  # between two folds

    def fold(self, batch: Batch) -> None:
        self._seen = {}
        self._now_ns = max(self._now_ns, batch.until_ns)
        if batch.manifest is not None:
            self._know(batch.manifest.sensors)
        self._fold_stretches(batch.stretches[batch.stretches["sensor"] < len(self._infos)])
        if len(batch.readings) > FOLDED_AT_ONCE:
            is_known = batch.readings["sensor"] < len(self._infos)
            self._timeline.expect(int(batch.readings["t_ns"].max(where=is_known, initial=-1)) // NS)
        for piece in in_pieces(batch.readings):
            self._fold_readings(piece)
        for event in batch.events:
            what = event.source.removeprefix("sensor ")
            if event.kind == "sensor-missing":
                self.missing += (MissingSensor(what, event.message, str(event.data.get("fix") or "")),)
            elif event.kind == "sensor-lost":
                self._lost_because[what] = event.message
            elif event.kind == "sensor-back":
                self._lost_because.pop(what, None)

    def _know(self, infos: tuple[SensorInfo, ...]) -> None:
        self._infos = infos
        self._kinds = tuple(info.kind for info in infos)
        self._places = {info.id: place for place, info in enumerate(infos)}
        if len(infos) > len(self._figures.count):
            self._figures.grow(len(infos))
            self._timeline.grow(len(infos))

    def _fold_readings(self, readings: Readings) -> None:
        is_known = readings["sensor"] < len(self._infos)
        if not is_known.all():
            readings = readings[is_known]
        if not len(readings):
            return
        t_ns, sensor, value = (
            readings["t_ns"].astype(np.int64), readings["sensor"].astype(np.int64), readings["value"].astype(np.float64)
        )  # fmt: skip
        self._figures.add(t_ns, sensor, value)
        self._timeline.add(sensor, t_ns // NS, np.broadcast_to(value, (4, len(value))), np.ones(len(value)))

    def _fold_stretches(self, stretches: Stretches) -> None:
        if len(stretches):
            self._figures.add_stretches(stretches)
            figures = np.stack([stretches[name] for name in ("low", "mean", "high", "high")])
            begin, end = stretches["t_ns"] // NS, stretches["until_ns"] // NS
            self._timeline.cover(stretches["sensor"].astype(np.int64), begin, end, figures, stretches["count"])

    def views(self, *kinds: str) -> tuple[TrackView, ...]:
        """Every sensor of these kinds, or of all, in the manifest's order."""
        if kinds not in self._seen:
            self._seen[kinds] = (
                tuple(track for track, kind in zip(self.views(), self._kinds, strict=True) if kind in kinds)
                if kinds
                else tuple(self._all())
            )
        return self._seen[kinds]

    def one(self, sensor_id: str) -> TrackView | None:
        """None where the board has no such sensor."""
        place = self._places.get(sensor_id)
        return None if place is None else self.views()[place]

    def points(self, sensor_id: str, axis: Axis) -> Points | None:
        """Between two readings of one that is read at its own times, the former stands."""
        place = self._places.get(sensor_id)
        return None if place is None else self._timeline.points(axis, place).bridged(BRIDGED_S)

    def _all(self) -> Iterator[TrackView]:
        known = self._figures
        columns = (known.value, known.t_ns, known.min, known.max, known.sum, known.count)
        for info, value, t_ns, low, high, total, count in zip(
            self._infos, *map(np.ndarray.tolist, columns), strict=False
        ):
            is_lost, reason = info.id in self._lost_because, self._lost_because.get(info.id, "")
            if count:
                age_s = max(0.0, (self._now_ns - t_ns) / NS)
                yield TrackView(info, value, age_s, low, total / count, high, count, is_lost, reason, t_ns)
            else:
                yield TrackView(info, None, None, None, None, None, 0, is_lost, reason or "not read yet")
