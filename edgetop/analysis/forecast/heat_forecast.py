"""The heat forecast of a running session: the final temperature, and whether and when the board will throttle.

People act on a forecast, so an unsure result is replaced by the reason why it is unsure. The results are the same
however the data was divided into batches.
"""

from dataclasses import replace
from typing import Literal

import numpy as np

from edgetop.analysis.forecast.model import LEAST_RANGE_S, Estimate, Fitted, fit
from edgetop.analysis.forecast.steady_load import ALTERNATES_AT, History, Steady, is_fan
from edgetop.analysis.tracks import Floats, Ints, ReadingBlocks, Tracks, TracksReader
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.load_settings import Load
from edgetop.session.manifest import SensorInfo
from edgetop.session.phases import Phases
from edgetop.session.records import middles_ns
from edgetop.session.seconds import NS
from edgetop.session.trips import throttles_at_c

# Time of steady load before there is a forecast. Choice: a fast time constant of a board. Larger: the forecast comes
# late; smaller: the first rise decides it.
LEAST_S = 15
# Number of readings in it. Choice: twice the terms of the model. Larger: slow sensors have no forecast; smaller: the
# fit has no spread.
LEAST_BLOCKS = 12
# Number of the latest seconds that give the present temperature. Choice: sensors are read every 1 to 5 s. Larger: a
# zone at its trip is seen late; smaller: a sensor that is read seldom counts as unread.
NOW_BLOCKS = 5
# Distance to its trip at which a zone is there. Choice: the steps of sensors. Larger: a board that stays below is at
# its trip; smaller: a forecast is made of a board that throttles.
AT_TRIP_C = 0.5
# Probability from which a trip is announced. Choice: more likely than not, with a margin for what is not modelled.
# Larger: real trips come unannounced; smaller: healthy boards are warned.
WILL_REACH = 0.6
# Probability that the trip comes near its time from which it is announced. Choice. Larger: real trips come
# unannounced; smaller: the time is wrong.
SURE = 0.45
# Least rise so far, as a share of what is left to the trip, from which a trip is announced. Computed: a board has
# risen by a third of it after a quarter of the time, as the rise bends. Larger: real trips come unannounced; smaller:
# the first seconds of a board that has settled announce one.
ROSE = 0.3
# The same in degrees. Choice: the room and the load move the temperature of a board that has settled by as much.
# Larger: boards that begin near their trip trip unannounced; smaller: such a move announces a trip.
LEAST_ROSE_C = 2.0
# Distance to the trip below which the whole range must be for "will not throttle". Choice: a room changes by as much.
# Larger: cool boards get no answer; smaller: a warmer room breaks the promise.
CLEAR_C = 1.0
# Widest range of the steady temperature that is shown. Choice. Larger: ranges say nothing; smaller: the forecast is
# silent for longer.
KNOWN_C = 24.0
# The same near the trip. Choice. Larger: "near its trip" is said of what may be far; smaller: the forecast is silent
# for longer.
CLOSE_C = 4.0
# Share of the idle baseline that is left out at its beginning. Choice: the loading has heated the board. Larger: a
# short baseline has few readings; smaller: the resting temperature is too high.
IDLE_SETTLING = 0.5
# Temperature by which a resting board may still cool after its idle baseline. Choice: a heat sink cools for minutes.
# Larger: the remaining throughput is a wide range; smaller: it is promised too surely.
IDLE_C = 5.0
# Up to these ages of the measurement the forecast is made every second, two, four; then every eight.
PACES_S = ((32, 1), (64, 2), (128, 4))
SLOWEST_S = 8
# While a session runs, the forecast is made every four seconds at most: it costs a quarter of a refresh of the screen.
RUNNING_S = 4

# Why there is no forecast, or no answer whether the board will throttle.
Silence = Literal[
    "not-measured",
    "zone-unread",
    "trip-unknown",
    "throttling",
    "at-trip",
    "early",
    "fan-unsteady",
    "load-unsteady",
    "other-course",
    "near-trip",
]
ShareSilence = Literal["paced", "idle-unknown", "idle-hot"]  # why the remaining throughput is not known


@frozen
class ForecastView:
    sensor: SensorInfo | None = None  # the zone nearest to its trip
    trip_c: float | None = None  # at which it throttles
    steady_c: Estimate | None = None  # the final temperature at this load; None: not known
    will_throttle: bool | None = None  # None: not known, `silence` says why
    trip_in_s: Estimate | None = None  # from now; its range may end at infinity
    # When it throttles: the least and the most that remains of the throughput; None: `share_silence`.
    throughput_share: tuple[float, float] | None = None
    share_silence: ShareSilence | None = None
    fan_can_rise: bool = False  # a fan is below its highest state: it may still prevent the trip
    seen_s: int = 0  # how long the load has been steady
    silence: Silence | None = None


class Forecast(TracksReader):
    """Makes the heat forecast of a session from its readings of heat, load and cooling."""

    def __init__(
        self, tracks: Tracks | None = None, phases: Phases | None = None, *, warmer_c: float | None = None
    ) -> None:
        """Begin without data.

        `tracks` and `phases`: objects that already collect the readings of the sensors and the phases of the session;
        None for new objects. `warmer_c`: by how many °C the room of the forecast is warmer than the room of the
        session; None for the same room.
        """
        super().__init__(tracks)
        self._phases = phases or Phases()
        self._warmer_c = warmer_c
        self._history = History(self._tracks)
        self._board: str | None = None
        self._load = Load()
        self._began_ns: int | None = None
        self._idle_ns: tuple[int, int] | None = None  # the later part of the idle baseline
        self._idle: dict[int, tuple[int, int]] = {}  # by the sensor's place: thousandths of a degree, and how many
        self._judged: tuple[int, ForecastView] | None = None  # and as of which second
        self._from_s = 0  # from when on its time to the trip counts

    def fold_part(self, batch: Batch) -> None:
        if batch.manifest is not None:
            self._history = History(self._tracks, batch.manifest.sensors)
            self._board, self._load = batch.manifest.board.model, batch.manifest.load
            self._judged = None
        phases = self._phases
        phases.fold(batch.events)
        if phases.measured_from_ns != self._began_ns:
            self._began_ns, self._judged = phases.measured_from_ns, None
        if phases.idle_from_ns is not None and phases.idle_ns is not None:
            begin_ns = phases.idle_from_ns
            self._idle_ns = (begin_ns + round(IDLE_SETTLING * phases.idle_ns), begin_ns + phases.idle_ns)
        if len(batch.aggregates):
            past = batch.aggregates
            self._rest(past["sensor"], middles_ns(past), past["mean"], past["count"])
            self._forget_from(int(past["t_ns"].min()))
        if len(batch.readings):
            rows = batch.readings
            self._rest(rows["sensor"], rows["t_ns"], rows["value"])
            self._forget_from(int(rows["t_ns"].min()))

    def _forget_from(self, t_ns: int) -> None:
        """Drop the stored forecast if it covers `t_ns`, the session time in ns of the first new reading."""
        if self._judged and t_ns // NS < self._judged[0]:
            self._judged = None

    def _rest(self, sensor: Ints, t_ns: Ints, celsius: Floats, count: Ints | None = None) -> None:
        """Add temperatures of the resting board, from which its mean temperature at rest is computed.

        `sensor`, `t_ns` and `celsius`: arrays with an element for each temperature: index of the sensor, session time,
        and temperature in °C. `count`: how many readings each temperature is the mean of; None means one. Readings
        outside of the resting time are ignored.
        """
        if self._idle_ns is None or int(t_ns[0]) > self._idle_ns[1]:
            return
        inside = np.flatnonzero((t_ns >= self._idle_ns[0]) & (t_ns < self._idle_ns[1]))
        sensor, celsius = sensor[inside], celsius[inside]
        weight = np.ones(len(inside), np.int64) if count is None else count[inside]
        for place in sorted(set(sensor.tolist())):
            rows = sensor == place
            milli = np.rint(np.clip(celsius[rows], -1e6, 1e6) * 1000).astype(np.int64) * weight[rows]
            total, before = self._idle.get(place, (0, 0))
            self._idle[place] = total + int(milli.sum()), before + int(weight[rows].sum())

    def view(self, until_ns: int, *, is_over: bool = True) -> ForecastView:
        """Return the heat forecast as of the session time `until_ns`: now, or the end of the measured phase.

        `is_over`: whether the session is over. Otherwise, the forecast may be some seconds older.
        """
        if self._began_ns is None:
            return ForecastView(silence="not-measured")
        until_s = min(self._tracks.newest_s, until_ns // NS)
        age_s = until_s - self._began_ns // NS
        pace_s = next((pace for age, pace in PACES_S if age_s < age), SLOWEST_S)
        pace_s = pace_s if is_over else max(pace_s, RUNNING_S)
        as_of_s = until_s // pace_s * pace_s
        if self._judged is None or self._judged[0] != as_of_s:
            self._judged = as_of_s, self._judge(as_of_s)
        _, view = self._judged
        if view.trip_in_s is None:
            return view
        gone_s, trip = until_ns / NS - self._from_s, view.trip_in_s
        value_s, low_s, high_s = (max(0.0, at_s - gone_s) for at_s in (trip.value, trip.low, trip.high))
        return replace(view, trip_in_s=Estimate(value_s, low_s, max(high_s, value_s + LEAST_RANGE_S)))

    def _judge(self, as_of_s: int) -> ForecastView:
        began_s = (self._began_ns or 0) / NS
        now = self._history.blocks(0, as_of_s - NOW_BLOCKS, as_of_s)
        nearest = self._nearest(now)
        if isinstance(nearest, str):
            return ForecastView(silence=nearest)
        row, celsius, trip_c = nearest
        view = ForecastView(sensor=self._history.infos[row], trip_c=trip_c)
        if self._history.is_throttled(now).any():
            return replace(view, silence="throttling")
        if celsius > trip_c - AT_TRIP_C and self._warmer_c is None:
            return replace(view, silence="at-trip")
        span = self._history.steady_span(began_s, as_of_s)
        if span is None or span.length_s < LEAST_S:
            if as_of_s - began_s < 2 * LEAST_S:
                return replace(view, silence="early")
            whole = self._history.blocks(ALTERNATES_AT, began_s, as_of_s)
            is_fan_alone = self._history.only_cooling_changes(whole)
            return replace(view, silence="fan-unsteady" if is_fan_alone else "load-unsteady")
        return self._fitted(view, row, span, now)

    def _nearest(self, now: ReadingBlocks) -> tuple[int, float, float] | Silence:
        """Return the thermal zone that is nearest to its trip point, or the reason why there is none.

        The zone is a tuple `(index, temperature in °C, trip point in °C)`; the index is that of the zone in the history
        of readings. `now`: the latest readings.
        """
        has_trip, near = False, []
        for row, info in enumerate(self._history.infos):
            trip_c = throttles_at_c(info, self._board)
            if trip_c is None:
                continue
            has_trip, trip_c = True, trip_c - (self._warmer_c or 0.0)
            means = now.mean[row][~np.isnan(now.mean[row])]
            if len(means):
                near.append((trip_c - float(means.mean()), row, float(means.mean()), trip_c))
        if near:
            _, row, celsius, trip_c = min(near)
            return row, celsius, trip_c
        return "zone-unread" if has_trip else "trip-unknown"

    def _fitted(self, view: ForecastView, row: int, span: Steady, now: ReadingBlocks) -> ForecastView:
        blocks = self._history.blocks(span.level, span.from_s, span.until_s, row)
        read = blocks.count[0] > 0
        assert view.trip_c is not None
        early = replace(view, silence="early")
        if np.count_nonzero(read) < LEAST_BLOCKS:
            return early
        # A past that came in longer aggregates than these blocks is missing.
        self._from_s = from_s = (blocks.first + int(np.argmax(read))) * blocks.width_s
        early, t_s = replace(early, seen_s=span.until_s - from_s), blocks.mid_s[0][read] - from_s
        celsius, count = blocks.mean[0][read], blocks.count[0][read]
        fitted = fit(t_s, celsius, count, view.trip_c, all_alike=span.only_rose)
        if fitted is None:
            return replace(early, silence="other-course")
        weighed = self._weighed(early, fitted, is_rising=_is_rising(celsius, view.trip_c))
        if weighed.will_throttle:
            share, why = self._share(row, view.trip_c, fitted.steady_c)
            fans = (
                (info.max_state, now.mean[place][~np.isnan(now.mean[place])])
                for place, info in enumerate(self._history.infos)
                if is_fan(info) and info.max_state
            )
            can_rise = any(len(states) and states[-1] < max_state for max_state, states in fans)
            weighed = replace(weighed, throughput_share=share, share_silence=why, fan_can_rise=can_rise)
        return weighed

    def _weighed(self, view: ForecastView, fitted: Fitted, *, is_rising: bool) -> ForecastView:
        """Return `view` with those results of the fitted model that are sure enough to be reported.

        `is_rising`: whether the temperature rose enough for the board to be on its way to the trip point.
        """
        steady, trip_c = fitted.steady_c, view.trip_c
        assert trip_c is not None
        range_c = steady.high - steady.low
        if steady.high < trip_c - CLEAR_C and range_c <= KNOWN_C:
            return replace(view, steady_c=steady, will_throttle=False, silence=None)
        if is_rising and fitted.trip_share >= WILL_REACH and fitted.trip_sureness >= SURE:
            shown = steady if range_c <= KNOWN_C else None
            return replace(view, steady_c=shown, will_throttle=True, trip_in_s=fitted.trip_s, silence=None)
        if range_c <= CLOSE_C:
            return replace(view, steady_c=steady, silence="near-trip")
        return view

    def _share(
        self, row: int, trip_c: float, steady_c: Estimate
    ) -> tuple[tuple[float, float] | None, ShareSilence | None]:
        """Return `(shares, reason)`: the least and greatest share of throughput that remains while throttled.

        The shares are between 0 and 1. If they are unknown, `shares` is None and `reason` says why; otherwise, `reason`
        is None. `row` is the zone's index in the history of readings. `trip_c` is the zone's trip point, and `steady_c`
        its final temperature without throttling, in °C.

        The rise above the resting temperature is proportional to the power above the resting power. A clock reduced to
        half removes at least half of that power, because the load runs half of the time. It removes at most seven
        eighths, because power is C V^2 f and V falls with f (Burd and Brodersen 1995, Energy efficient CMOS
        microprocessor design).
        """
        total, count = self._idle.get(self._history.places[row], (0, 0))
        if self._load.mode != "closed":
            return None, "paced"
        if not count:
            return None, "idle-unknown"
        idle_c = total / count / 1000
        if idle_c >= trip_c - IDLE_C:
            return None, "idle-hot"
        least = (trip_c - idle_c) / max(steady_c.high - idle_c, trip_c - idle_c)
        rested_c = idle_c - IDLE_C
        most = (trip_c - rested_c) / max(steady_c.low - rested_c, trip_c - rested_c)
        return (least, most ** (1 / 3)), None


def _is_rising(celsius: Floats, trip_c: float) -> bool:
    """Whether the temperature rose so much that the board is on its way to the trip point of `trip_c` °C.

    `celsius`: mean temperatures in order of time. The mean of their first tenth is compared with that of their last
    tenth.
    """
    few = max(len(celsius) // 10, 1)
    first, last = float(celsius[:few].mean()), float(celsius[-few:].mean())
    return last - first >= max(LEAST_ROSE_C, ROSE * (trip_c - last))
