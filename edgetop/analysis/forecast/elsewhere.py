"""The heat forecast for another ambient temperature: whether and when the board would throttle, and by how much.

Under the same load and in the same enclosure, a board is warmer by as much as its surroundings are (Incropera et al.,
chapter 5: the equations are about the rise above ambient). So the fitted model is reused, and the trip point is lowered
by as much as the other room is warmer. Leakage and convection change with the temperature, so the range of each result
is widened by a share of this difference. If the session is not suitable, the result is a reason instead of a forecast.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from edgetop.analysis.forecast.heat_forecast import Forecast, ForecastView, ShareSilence, Silence
from edgetop.analysis.forecast.model import Estimate
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.manifest import Manifest, SensorInfo
from edgetop.session.phases import Phases
from edgetop.session.seconds import NS
from edgetop.session.trips import trips_c

# Farthest room for which a forecast is made. Choice: beyond it leakage and convection change the board. Larger:
# forecasts are wrong; smaller: a hot summer cannot be asked for.
FARTHEST_C = 15.0
# Error of a change of the room, as a share. Choice: for leakage that grows with heat, and for convection. Larger:
# ranges say nothing; smaller: they hold less often than nine times in ten.
ERROR_SHARE = 0.1


# Why a session does not suffice: it declares no ambient temperature, or no enclosure, or one that is too far away.
Unsuitable = Literal["no-ambient", "no-enclosure", "too-far"]


@frozen
class Elsewhere:
    """The heat forecast of a board in a room of `ambient_c` °C.

    Each range contains the true value in nine of ten cases.
    """

    ambient_c: float
    measured_at_c: float
    sensor: SensorInfo | None = None
    trip_c: float | None = None
    steady_c: Estimate | None = None  # under the same load without throttling
    throttles: bool | None = None  # None: `silence` says why
    trip_after_s: Estimate | None = None  # from when the load begins on a board as warm as its room
    share: tuple[float, float] | None = None  # the remaining throughput; None: `share_silence`
    share_silence: ShareSilence | None = None
    fan_can_rise: bool = False
    silence: Silence | None = None


class UnsuitableError(ValueError):
    """Raised if a session does not allow a forecast for another ambient temperature."""

    def __init__(self, reason: Unsuitable, measured_c: float | None = None) -> None:
        """Store the reason, such as `no-ambient`.

        `measured_c` is the ambient temperature in °C that the session declares, or None if it declares none.
        """
        super().__init__(reason, measured_c)
        self.reason, self.measured_c = reason, measured_c


def elsewhere(batches: Iterable[Batch], manifest: Manifest, ambient_c: float, until_ns: int) -> Elsewhere:
    """Return the heat forecast of the board for a room of `ambient_c` °C.

    `batches`: the data of a session; if the board throttled, only up to the beginning of the throttling. `manifest`
    describes the session. `until_ns`: the session time in ns for which the forecast is made, which is the end of this
    data. Raises UnsuitableError if the session does not allow a forecast, for example because it declares no ambient
    temperature.
    """
    measured_c = manifest.methodology.ambient_c
    if measured_c is None:
        raise UnsuitableError("no-ambient")
    if not manifest.methodology.enclosure:
        raise UnsuitableError("no-enclosure", measured_c)
    change_c = ambient_c - measured_c
    if abs(change_c) > FARTHEST_C:
        raise UnsuitableError("too-far", measured_c)
    error_c = ERROR_SHARE * abs(change_c)
    shifts = (change_c - error_c, change_c, change_c + error_c)
    folds, crossings = [Forecast(warmer_c=shift) for shift in shifts], _Crossings(manifest, shifts)
    for batch in batches:
        for fold in folds:
            fold.fold(batch)
        crossings.fold(batch)
    cool, middle, hot = views = [fold.view(until_ns) for fold in folds]
    steady = middle.steady_c
    result = Elsewhere(
        ambient_c, measured_c, middle.sensor,
        trip_c=None if middle.trip_c is None else round(middle.trip_c + change_c, 3),
        steady_c=steady and Estimate(
            steady.value + change_c, steady.low + change_c - error_c, steady.high + change_c + error_c
        ),
    )  # fmt: skip
    answers = {view.will_throttle for view in views}
    if answers == {False}:
        return replace(result, throttles=False, share=(1.0, 1.0))
    if answers == {True}:
        return _throttled(result, views, crossings, until_ns)
    return replace(result, silence=next((view.silence for view in (middle, cool, hot) if view.silence), "near-trip"))


def _throttled(result: Elsewhere, views: Sequence[ForecastView], crossings: "_Crossings", until_ns: int) -> Elsewhere:
    """Return `result` with the time until the board throttles, and with the share of throughput that then remains.

    `views`: three forecasts, for the least, the expected and the greatest change of the ambient temperature.
    `crossings`: when the trip point was reached for each of these changes. `until_ns`: the session time of the
    forecasts.
    """
    assert result.sensor is not None
    gone_s, times = (until_ns - crossings.began_ns) / NS, []
    for place, view in enumerate(views):
        seen_s = crossings.first_s(result.sensor.id, place)
        trip = view.trip_in_s or Estimate(math.inf, math.inf, math.inf)
        ahead = Estimate(gone_s + trip.value, gone_s + trip.low, gone_s + trip.high)
        times.append(ahead if seen_s is None else Estimate(seen_s, seen_s, seen_s))
    shares = [view.throughput_share for view in views if view.throughput_share]
    return replace(
        result,
        throttles=True,
        trip_after_s=Estimate(times[1].value, min(one.low for one in times), max(one.high for one in times)),
        share=(min(low for low, _ in shares), max(high for _, high in shares)) if len(shares) == len(views) else None,
        share_silence=views[1].share_silence,
        fan_can_rise=views[1].fan_can_rise,
    )


class _Crossings:
    """Finds when each thermal zone first reached its trip point, lowered by each of several differences.

    Only readings of the measured phase are used. `shifts`: the differences in °C.
    """

    def __init__(self, manifest: Manifest, shifts: tuple[float, ...]) -> None:
        self._trips = {place: (manifest.sensors[place].id, trip) for place, trip in trips_c(manifest).items()}
        self._shifts = shifts
        self._first: dict[tuple[str, int], int] = {}
        self._phases = Phases()

    @property
    def began_ns(self) -> int:
        """Return the session time in ns at which the measured phase began, or 0 if it has not begun."""
        return self._phases.measured_from_ns or 0

    def fold(self, batch: Batch) -> None:
        self._phases.fold(batch.events)
        rows = batch.readings[batch.readings["t_ns"] >= self.began_ns]
        for place, (name, trip_c) in self._trips.items() if self._phases.measured_from_ns is not None else ():
            of_zone = rows[rows["sensor"] == place]
            for number, shift in enumerate(self._shifts):
                over = np.flatnonzero(of_zone["value"] >= trip_c - shift)
                if len(over) and (name, number) not in self._first:
                    self._first[name, number] = int(of_zone["t_ns"][over[0]])

    def first_s(self, zone: str, number: int) -> float | None:
        """Return after how many seconds of load a zone first reached its lowered trip point, or None if it never did.

        `zone`: the id of the zone's sensor, such as `temp/cpu-thermal`. `number`: the index in `shifts` of the
        difference that lowers the trip point.
        """
        t_ns = self._first.get((zone, number))
        return None if t_ns is None else (t_ns - self.began_ns) / NS
