"""Heat: temperatures and their distance to trip points, clocks and their caps, and the limits that are in force."""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks, TrackView
from edgetop.frozen import frozen
from edgetop.session.trips import zones_of_interest

GROUPED_FROM = 4  # Neighbouring CPUs of one kind share a row if there are at least this many, as on every PC.
STICKY = "-sticky"
# The firmware clock of a Raspberry Pi. Its kernel does not know how far the firmware lowers the clock.
FIRMWARE_CLOCK = "arm"
# Share of the highest clock below which a cap has fallen. Choice: drivers round to operating points. Larger: rounding
# is a cap; smaller: a cap by one step is not shown.
FELL = 0.97
_CPU = re.compile(r"cpu(\d+)")


@frozen
class ClockView:
    label: str
    mhz: TrackView  # The clock; in a group, that of the fastest CPU now.
    cap_mhz: float | None  # The present limit; in a group, the lowest one.
    max_mhz: float | None  # The highest clock of the hardware.
    best_mhz: float | None  # The highest clock in this session.


@frozen
class LimitView:
    """One limit that the board reports with a flag, such as a limit because of low voltage."""

    label: str
    is_in_force: bool | None  # None if unknown now.
    was_in_force: bool  # Whether it was in force at some time in this session.
    was_before: bool  # Whether it was in force after boot, before this session.


@frozen
class ThermalView:
    zones: tuple[TrackView, ...]  # Hottest first; unreadable zones last.
    hottest: TrackView | None  # The hottest zone of a computing unit, if known.
    clocks: tuple[ClockView, ...]
    limits: tuple[LimitView, ...]  # One for each flag that the board has.
    cooling: tuple[TrackView, ...]  # Devices that slow the computation now.
    reports_limits: bool  # Whether the board has a flag, or a cooling device that would throttle.
    # The firmware clock if there is one, else the clock whose cap fell, else the fastest one.
    leading: TrackView | None
    zone: TrackView | None  # The zone that came nearest to its trip point, else the hottest one.
    trip_c: float | None = None  # The trip point of `zone`.
    hottest_points: Points | None = None  # The timeline of `zone`.
    clock_points: Points | None = None  # The timeline of the leading clock.
    cap_points: Points | None = None  # The timeline of the leading clock's cap.


def view_thermal(tracks: Tracks, axis: Axis) -> ThermalView:
    zones = sorted(tracks.views("temp"), key=_heat, reverse=True)
    of_interest = {info.id for info in zones_of_interest(zone.info for zone in zones if _heat(zone) > _UNREAD)}
    hottest = next((zone for zone in zones if zone.info.id in of_interest), None)
    groups = tuple(_clock_groups(tracks.views("freq")))
    throttling = [track for track in tracks.views("cooling") if track.info.throttles]
    limits = tuple(_limits(tracks.views("throttle")))
    # The zone is chosen by its highest reading so far, which seldom changes. A chart that switched zones each second
    # would be unreadable.
    throttling_zones = (zone for zone in zones if zone.trip_c is not None and not zone.is_lost)
    zone = min(throttling_zones, key=lambda zone: (zone.trip_c or 0.0) - (zone.max or 0.0), default=hottest)
    view = ThermalView(
        zones=tuple(zones),
        hottest=hottest,
        clocks=tuple(_clock(tracks, group) for group in groups),
        limits=limits,
        cooling=tuple(track for track in throttling if (track.now or 0.0) > 0),
        reports_limits=bool(limits or throttling),
        leading=_leading(tracks, groups),
        zone=zone,
        trip_c=zone.trip_c if zone else None,
    )
    return along(view, tracks, axis)


def along(view: ThermalView, tracks: Tracks, axis: Axis, until_s: float | None = None) -> ThermalView:
    """Return a copy of `view` in which the timelines have another time axis, `axis`.

    `tracks`: the readings of all sensors. `until_s`: the session second at which the timelines end; None for now.
    """
    clock = view.leading.info if view.leading else None
    return replace(
        view,
        hottest_points=tracks.points(view.zone.info.id, axis, until_s) if view.zone else None,
        clock_points=tracks.points(clock.id, axis, until_s) if clock else None,
        cap_points=tracks.points(f"freqcap/{clock.label}", axis, until_s) if clock else None,
    )


def _leading(tracks: Tracks, groups: Sequence[tuple[TrackView, ...]]) -> TrackView | None:
    """Return the clock that the screen shows, or None if there is no clock.

    The result is the firmware's clock. Without this clock, it is the clock whose cap fell furthest. If no cap fell, it
    is the clock with the highest mean in the group with the highest frequency. `groups`: the clocks of each group.
    `tracks`: the readings of all sensors.
    """
    clocks = [clock for group in groups for clock in group]
    firmware = next((clock for clock in clocks if clock.info.label == FIRMWARE_CLOCK), None)
    capped = min(clocks, key=lambda clock: _lowest_cap(tracks, clock), default=None)
    if firmware or (capped and _lowest_cap(tracks, capped) < FELL):
        return firmware or capped
    fastest = max(groups, key=lambda group: max(clock.info.max or clock.max or 0.0 for clock in group), default=())
    return max(fastest, key=lambda clock: clock.mean or 0.0, default=None)


def _lowest_cap(tracks: Tracks, clock: TrackView) -> float:
    """Return the lowest cap of the clock so far, as a share (0 to 1) of the clock's highest frequency."""
    cap = tracks.one(f"freqcap/{clock.info.label}")
    highest = max((mhz for mhz in (clock.info.max, cap and cap.max) if mhz), default=0.0)
    return cap.min / highest if cap and cap.min is not None and highest else 1.0


_UNREAD = -1000.0


def _heat(zone: TrackView) -> float:
    return _UNREAD if zone.now is None else zone.now


def headroom_c(zone: TrackView) -> float | None:
    """Return by how many °C the zone is below the trip point at which it throttles.

    The result is None if the zone has no such trip point, or no present reading.
    """
    return None if zone.now is None or zone.trip_c is None else zone.trip_c - zone.now


def _clock_groups(clocks: Sequence[TrackView]) -> Iterator[tuple[TrackView, ...]]:
    """Yield groups of clocks.

    The clocks of four or more neighbouring CPUs of one kind are one group. Every other clock is a group by itself.
    """

    def cpu_mhz(clock: TrackView) -> float | None:  # CPUs of one kind have the same highest clock.
        return clock.info.max if _CPU.fullmatch(clock.info.label) else None

    for is_cpu, run in itertools.groupby(clocks, key=cpu_mhz):
        group = tuple(run)
        if is_cpu and len(group) >= GROUPED_FROM:
            yield group
        else:
            yield from ((clock,) for clock in group)


def _clock(tracks: Tracks, group: Sequence[TrackView]) -> ClockView:
    caps = [tracks.one(f"freqcap/{clock.info.label}") for clock in group]
    caps_mhz = [cap.now for cap in caps if cap and cap.now is not None]
    fastest = max(group, key=lambda clock: -1.0 if clock.now is None else clock.now)
    label = group[0].info.label
    if len(group) > 1:
        label = f"{label}-{group[-1].info.label.removeprefix('cpu')}"
    return ClockView(
        label=label,
        mhz=fastest,
        cap_mhz=min(caps_mhz, default=None),
        max_mhz=fastest.info.max,
        best_mhz=max((clock.max for clock in group if clock.max is not None), default=None),
    )


def _limits(flags: Sequence[TrackView]) -> Iterator[LimitView]:
    """Yield the state of each limit. Each limit has two flags: one for now, and one for the time since boot."""
    by_label = {flag.info.label: flag for flag in flags}
    for label in dict.fromkeys(label.removesuffix(STICKY) for label in by_label):
        now, sticky = by_label.get(label), by_label.get(label + STICKY)
        was_set = _was_set(sticky)
        was_before = was_set and sticky is not None and sticky.min is not None and sticky.min >= 1
        yield LimitView(
            label=label,
            is_in_force=None if now is None or now.now is None else now.now >= 1,
            was_in_force=_was_set(now) or (was_set and not was_before),
            was_before=was_before,
        )


def _was_set(flag: TrackView | None) -> bool:
    return flag is not None and flag.max is not None and flag.max >= 1
