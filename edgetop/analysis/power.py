"""Power: the total rail and its parts, their mean and energy over the measured phase.

Rails are never added up; the total is the one reading whose role that is. The idle baseline,
a phase before the warm-up, is integrated in the same way. A sensor of role `peak` gives the highest
value behind each reading of another: it is no rail.
"""

from dataclasses import dataclass, replace

import numpy as np

from edgetop.analysis.blocks import Mean
from edgetop.analysis.rail_energy import RailEnergy
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks, TrackView
from edgetop.session.batch import Batch
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.records import of_sensors

PEAK = "peak"  # of sensors: a role, and how the id ends of that which has it
SETTLING = 0.1  # of the idle baseline, left out at its beginning: the loading has just ended

ACCURACIES = ("external-shunt", "on-board-monitor", "firmware-estimate")  # the best first


@dataclass(frozen=True, slots=True)
class RailView:
    """One power sensor. Its figures are of the measured phase so far; None: it had no reading there."""

    track: TrackView
    mean_w: float | None
    max_w: float | None
    energy_j: float
    covered_s: float  # of the phase, how long there were readings
    precise: Mean | None = None  # the mean in W with its 95 % interval; None: too few readings, or not asked for
    idle: Mean | None = None  # the same of the idle baseline
    interval_s: float | None = None  # between two readings, of the latest the middle one; None: under two
    peak_w: float | None = None  # the highest value behind the readings, where those are means; None: not reported
    is_even: bool = False  # they come at even intervals: a load in step with them would be seen at one phase only


@dataclass(frozen=True, slots=True)
class PowerView:
    total: RailView | None  # None: no sensor here measures the whole board
    rails: tuple[RailView, ...]  # the others, in the manifest's order
    leading: RailView | None  # the total, or of the rails the greatest
    points: Points | None  # the course of that one


class _Phase:
    """One phase of the session, with the energy of each power sensor over it."""

    def __init__(self) -> None:
        self.rails: dict[int, RailEnergy] = {}  # by place in the manifest
        self._began_ns: int | None = None
        self._ended_ns: int | None = None

    def began(self, t_ns: int) -> None:
        self._began_ns = t_ns
        for rail in self.rails.values():
            rail.began(t_ns)

    def ended(self, t_ns: int, *, even_if_it_never_began: bool = False) -> None:
        if self._ended_ns is not None or (self._began_ns is None and not even_if_it_never_began):
            return
        self._ended_ns = t_ns
        for rail in self.rails.values():
            rail.ended(t_ns)

    def register(self, place: int, *, averages: bool) -> None:
        """Register the power sensor at that place."""
        if place in self.rails:
            return
        rail = self.rails[place] = RailEnergy(averages=averages)
        if self._began_ns is not None:
            rail.began(self._began_ns)
        if self._ended_ns is not None:
            rail.ended(self._ended_ns)


class PowerRails:
    """Folds the readings of every sensor of power."""

    def __init__(self) -> None:
        self._measured, self._idle = _Phase(), _Phase()
        self._places: dict[str, int] = {}

    def began(self, t_ns: int) -> None:
        """Begin the measured phase."""
        self._measured.began(t_ns)

    def fold(self, batch: Batch) -> None:
        if batch.manifest is not None:
            self._know(batch.manifest)
        for event in batch.events:
            if event.kind in ("phase", "ended", "recovered"):
                self._on_event(event)
        for stretch in batch.stretches.tolist():
            self._add_stretch(*stretch)
        if not len(batch.readings):
            return
        readings = of_sensors(batch.readings, self._measured.rails)
        for place, rail in self._measured.rails.items():
            rows = readings[readings["sensor"] == place]
            if len(rows):
                t_ns, watts = rows["t_ns"].astype(np.int64), rows["value"].astype(np.float64)
                rail.add(t_ns, watts)
                self._idle.rails[place].add(t_ns, watts)

    def _know(self, manifest: Manifest) -> None:
        for place, info in enumerate(manifest.sensors):
            if info.kind == "power":
                self._places[info.id] = place
                for phase in (self._measured, self._idle):
                    phase.register(place, averages=bool(info.averages))

    def _add_stretch(self, t_ns: int, until_ns: int, place: int, *of_watts: float) -> None:
        for phase in (self._measured, self._idle):
            if place in phase.rails:
                _, _, mean_w, high_w, last_w = of_watts
                phase.rails[place].add_stretch(t_ns, until_ns, mean_w, high_w, last_w)

    def _on_event(self, event: Event) -> None:
        """Note the begin and the end of the idle baseline."""
        if event.data.get("phase") != "idle":
            self._idle.ended(event.t_ns, even_if_it_never_began=event.data.get("phase") == "measure")
        else:
            asked_ns = event.data.get("duration_ns")
            settling = SETTLING * asked_ns if isinstance(asked_ns, int) else 0.0
            self._idle.began(event.t_ns + round(settling))

    def view(self, tracks: Tracks, axis: Axis | None, until_ns: int, *, is_each_precise: bool = True) -> PowerView:
        """Return the power of every rail. `until_ns`: the end of the measured phase, or now.

        Without an axis there is no timeline. `is_each_precise`: compute the interval for each rail, not for one alone.
        """
        rails = [self._rail(track, until_ns) for track in tracks.views("power") if track.info.role != PEAK]
        totals = [rail for rail in rails if rail.track.info.role == "total"]
        total = min(totals, key=_trust, default=None)
        leading = total or max(rails, key=lambda rail: rail.mean_w or rail.track.value or 0.0, default=None)
        precise = {id(rail): self._precise(rail, until_ns) for rail in rails if is_each_precise or rail is leading}
        others = tuple(precise.get(id(rail), rail) for rail in rails if rail is not total)
        leading, total = (of and precise[id(of)] for of in (leading, total))
        points = tracks.points(leading.track.info.id, axis) if leading and axis else None
        return PowerView(total, others, leading, points)

    def _rail(self, track: TrackView, until_ns: int) -> RailView:
        place = self._places[track.info.id]
        power = self._measured.rails[place].until(until_ns)
        peak = self._places.get(f"{track.info.id}-{PEAK}")
        return RailView(
            track=track,
            mean_w=power.mean_w,
            max_w=power.peak_w,
            energy_j=power.energy_j,
            covered_s=power.covered_s,
            peak_w=None if peak is None else self._measured.rails[peak].until(until_ns).peak_w,
        )

    def _precise(self, rail: RailView, until_ns: int) -> RailView:
        """Add the interval of the mean, which is expensive to compute."""
        place = self._places[rail.track.info.id]
        measured, idle = self._measured.rails[place], self._idle.rails[place]
        precise, at_rest = (of.precise(of.until(until_ns)) for of in (measured, idle))
        interval_s, is_even = measured.intervals()
        return replace(rail, precise=precise, idle=at_rest, interval_s=interval_s, is_even=is_even)


def _trust(rail: RailView) -> tuple[bool, bool, int]:
    """Return the sort key of totals; the lowest is used: one with readings, by the best instrument."""
    return not rail.covered_s, not rail.track.count, accuracy_rank(rail.track.info)


def accuracy_rank(info: SensorInfo) -> int:
    return ACCURACIES.index(info.accuracy) if info.accuracy in ACCURACIES else len(ACCURACIES)
