"""Which sensors tell that something slows the board now: from which value on, and for which cause.

A flag since boot tells of the past, a fan that turns slows nothing: neither is a signal. A zone at the
trip at which it throttles and a cap of a clock are signals together only: heat lowered the cap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgetop.analysis.slowdowns.signals import AT_TRIP_C, SET, Cause, cause_of_count, cause_of_flag, is_flag
from edgetop.analysis.tracks import Bools, Floats
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.trips import OVER_CURRENT_PERCENT, trips_c, zones_of_interest

COUNTED = 1e-9  # of a rate: something was counted
_LEAST_COUNTS = {
    "rate/thermal-events": COUNTED, "rate/core-thermal-events": COUNTED, "pressure/over-current": OVER_CURRENT_PERCENT
}  # fmt: skip


def least_in_force(info: SensorInfo) -> float | None:
    """From which value on this sensor says that something slows the board now; None: it never says so."""
    if is_flag(info) or (info.kind == "cooling" and info.throttles):
        return SET
    return _LEAST_COUNTS.get(info.id)


def cause_of(info: SensorInfo) -> Cause | None:
    """Of a signal; None: it does not say why."""
    return "thermal" if info.kind == "cooling" else cause_of_flag(info) or cause_of_count(info.id)


@dataclass(frozen=True, slots=True)
class Board:
    """The sensors that matter, by their places in the manifest."""

    infos: tuple[SensorInfo, ...]
    least: Floats  # of signals and zones: from which value on they are in force; NaN: neither
    is_signal: Bools
    is_flag: Bools
    is_cap: Bools
    trips_c: dict[int, float]  # of the zones that have one
    zones: tuple[int, ...]  # whose heat is told: those with a trip, where there is one
    clocks: tuple[int, ...]  # of the CPUs that run the model, most likely
    clock: str  # what they are called in words
    clock_caps: tuple[int, ...]  # the caps of those
    is_of_spans: Bools  # what spans are made of


def board_of(manifest: Manifest) -> Board:
    infos = manifest.sensors
    trips = trips_c(manifest)
    least = np.array([np.nan if (value := least_in_force(info)) is None else value for info in infos], np.float64)
    is_signal = ~np.isnan(least)
    for place, trip_c in trips.items():
        least[place] = trip_c + AT_TRIP_C
    clocks, clock = _clocks(infos)
    labels = {infos[place].label for place in clocks} | ({"cpu0"} if clock == "cpu" else set())
    caps = tuple(place for place, info in enumerate(infos) if info.kind == "freqcap" and info.label in labels)
    zones = tuple(trips) or tuple(map(infos.index, zones_of_interest(infos)))
    is_cap = np.array([info.kind == "freqcap" for info in infos], np.bool_)
    return Board(
        infos=infos,
        least=least,
        is_signal=is_signal,
        is_flag=np.array([is_flag(info) for info in infos], np.bool_),
        is_cap=is_cap,
        trips_c=trips,
        zones=zones,
        clocks=clocks,
        clock=clock,
        clock_caps=caps,
        is_of_spans=~np.isnan(least) | is_cap,
    )


def _clocks(infos: Sequence[SensorInfo]) -> tuple[tuple[int, ...], str]:
    """What the firmware tells of the clock of a Raspberry Pi, else the fastest kind of CPU, else the fastest clock."""
    places = [place for place, info in enumerate(infos) if info.kind == "freq"]
    told = [place for place in places if infos[place].label == "arm"]
    if told:
        return tuple(told), "cpu"
    cpus = [place for place in places if infos[place].label.startswith("cpu")]
    places = cpus or places
    if not places:
        return (), ""
    highest = max(infos[place].max or 0.0 for place in places)
    fastest = [place for place in places if (infos[place].max or 0.0) == highest]
    return (tuple(fastest), "cpu") if cpus else ((fastest[0],), infos[fastest[0]].label)
