"""The fold: readings and phases in; where the temperature goes, and whether the board will throttle, out.

It is silent, with its reason, wherever it cannot know: what it tells is acted upon.
"""

from dataclasses import dataclass, replace

import numpy as np

from edgetop.analysis.forecast.load import ALTERNATES_AT, Drives, History, Steady, is_fan, steady_span
from edgetop.analysis.forecast.model import LEAST_RANGE_S, Estimate, Fitted, fit
from edgetop.analysis.tracks import Floats, Ints, ReadingBlocks, Tracks, TracksReader
from edgetop.session.batch import Batch
from edgetop.session.manifest import Load, SensorInfo
from edgetop.session.records import middles_ns
from edgetop.session.seconds import NS
from edgetop.session.trips import throttles_at_c

LEAST_S, LEAST_BLOCKS = 15, 12  # of steady load
NOW_BLOCKS = 5  # that tell how warm it is now
AT_TRIP_C = 0.5
WILL_REACH, SURE = 0.6, 0.45  # probabilities from which on the trip and its time are told
CLEAR_C = 1.0  # by which the whole range is below the trip where it will not be reached
KNOWN_C, CLOSE_C = 24.0, 4.0  # ranges of the steady temperature within which it is told, and told beside the trip
IDLE_SETTLING = 0.5  # of the idle baseline, left out at its beginning
IDLE_C = 5.0  # by which a board that rests may still cool after it
# Up to these ages of the measurement everything is judged every second, two, four; then every eight.
PACES_S = ((32, 1), (64, 2), (128, 4))
SLOWEST_S = 8


@dataclass(frozen=True, slots=True)
class ForecastView:
    sensor: SensorInfo | None = None  # the zone nearest to where it throttles
    trip_c: float | None = None  # where that is
    steady_c: Estimate | None = None  # what it goes to at this load; None: not known
    will_throttle: bool | None = None  # None: not known, `reason` says why
    trip_in_s: Estimate | None = None  # from now; its range may end at infinity
    # Where it will throttle: the least and the most that is left of the throughput then; None: `share_reason`.
    throughput_share: tuple[float, float] | None = None
    share_reason: str = ""
    fan_can_rise: bool = False  # a fan is below its highest state: it may yet hold the trip off
    seen_s: int = 0  # how long the load has been steady
    reason: str = ""


class Forecast(TracksReader):
    """Folds what tells of heat, load and cooling."""

    def __init__(self, tracks: Tracks | None = None, warmer_c: float | None = None) -> None:
        """`warmer_c`: in a room that is so much warmer, a board is as much nearer to where it throttles."""
        super().__init__(tracks)
        self._warmer_c = warmer_c
        self._history = History(self._tracks)
        self._drives = Drives(())
        self._board: str | None = None
        self._load = Load()
        self._began_ns: int | None = None
        self._idle_ns: tuple[int, int] | None = None  # the later part of the idle baseline
        self._idle: dict[int, tuple[int, int]] = {}  # by the sensor's place: thousandths of a degree, and how many
        self._judged: tuple[int, ForecastView, float | None] | None = None  # as of when; and when that counts from, s

    def fold_part(self, batch: Batch) -> None:
        if batch.manifest is not None:
            self._history.register(batch.manifest.sensors)
            self._drives = Drives(self._history.infos)
            self._board, self._load = batch.manifest.board.model, batch.manifest.load
            self._judged = None
        for event in batch.events:
            if event.kind == "phase":
                self._on_event(event.data.get("phase"), event.t_ns, event.data.get("duration_ns"))
        if len(batch.stretches):
            past = batch.stretches
            self._rest(past["sensor"], middles_ns(past), past["mean"], past["count"])
            self._forget_from(int(past["t_ns"].min()))
        if len(batch.readings):
            rows = batch.readings
            self._rest(rows["sensor"], rows["t_ns"], rows["value"])
            self._forget_from(int(rows["t_ns"].min()))

    def _forget_from(self, t_ns: int) -> None:
        """Something came of that time: what was judged of a later one is no longer true."""
        if self._judged and t_ns // NS < self._judged[0]:
            self._judged = None

    def _on_event(self, phase: object, t_ns: int, duration_ns: object) -> None:
        if phase == "measure":
            self._began_ns, self._judged = t_ns, None
        elif phase == "idle" and isinstance(duration_ns, int):
            self._idle_ns = (t_ns + round(IDLE_SETTLING * duration_ns), t_ns + duration_ns)

    def _rest(self, sensor: Ints, t_ns: Ints, celsius: Floats, count: Ints | None = None) -> None:
        """What the zones were while nothing ran. `count`: of readings that each is the mean of; None: of one."""
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

    def view(self, until_ns: int) -> ForecastView:
        """As of the end of the measured phase, or of now."""
        if self._began_ns is None:
            return ForecastView(reason="nothing is measured yet")
        until_s = min(self._tracks.newest_s, until_ns // NS)
        age_s = until_s - self._began_ns // NS
        pace_s = next((pace for age, pace in PACES_S if age_s < age), SLOWEST_S)
        as_of_s = until_s // pace_s * pace_s
        if self._judged is None or self._judged[0] != as_of_s:
            self._judged = (as_of_s, *self._judge(as_of_s))
        _, view, from_s = self._judged
        if view.trip_in_s is None or from_s is None:
            return view
        gone_s, trip = until_ns / NS - from_s, view.trip_in_s
        value_s, low_s, high_s = (max(0.0, at_s - gone_s) for at_s in (trip.value, trip.low, trip.high))
        return replace(view, trip_in_s=Estimate(value_s, low_s, max(high_s, value_s + LEAST_RANGE_S)))

    def _judge(self, as_of_s: int) -> tuple[ForecastView, float | None]:
        """With the time to the trip from the second value on."""
        began_s = (self._began_ns or 0) / NS
        now = self._history.blocks(0, as_of_s - NOW_BLOCKS, as_of_s)
        found = self._nearest(now)
        if isinstance(found, str):
            return ForecastView(reason=found), None
        row, celsius, trip_c = found
        view = ForecastView(sensor=self._history.infos[row], trip_c=trip_c)
        if self._drives.is_throttled(now).any():
            return replace(view, reason="it is throttling now"), None
        if celsius > trip_c - AT_TRIP_C and self._warmer_c is None:
            return replace(view, reason="it is where it throttles"), None
        span = steady_span(self._history, self._drives, began_s, as_of_s)
        if span is None or span.length_s < LEAST_S:
            if as_of_s - began_s < 2 * LEAST_S:
                return replace(view, reason="too early to tell"), None
            whole = self._history.blocks(ALTERNATES_AT, began_s, as_of_s)
            what = "fan" if self._drives.only_cooling_changes(whole) else "load"
            return replace(view, reason=f"the {what} is not steady"), None
        return self._fitted(view, row, span, now)

    def _nearest(self, now: ReadingBlocks) -> tuple[int, float, float] | str:
        """The zone nearest to where it throttles: its row, how warm it is, and where that is. Or why there is none."""
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
        return "its zone is not read now" if has_trip else "nothing tells at what temperature this board throttles"

    def _fitted(
        self, view: ForecastView, row: int, span: Steady, now: ReadingBlocks
    ) -> tuple[ForecastView, float | None]:
        blocks = self._history.blocks(span.level, span.from_s, span.until_s, row)
        read = blocks.count[0] > 0
        assert view.trip_c is not None
        early = replace(view, reason="too early to tell")
        if np.count_nonzero(read) < LEAST_BLOCKS:
            return early, None
        # Of a past that came in longer stretches than these blocks there is nothing: it begins with what is known.
        from_s = (blocks.first + int(np.argmax(read))) * blocks.width_s
        early, t_s = replace(early, seen_s=span.until_s - from_s), blocks.mid_s[0][read] - from_s
        celsius, count = blocks.mean[0][read], blocks.count[0][read]
        fitted = fit(t_s, celsius, count, view.trip_c, all_alike=span.only_rose)
        if fitted is None:
            return replace(early, reason="the temperature does not go the way of a steady load"), None
        weighed = self._weighed(early, fitted)
        if weighed.will_throttle:
            share, why = self._share(row, view.trip_c, fitted.steady_c)
            weighed = replace(weighed, throughput_share=share, share_reason=why, fan_can_rise=self._fan_can_rise(now))
        return weighed, float(from_s)

    def _weighed(self, view: ForecastView, fitted: Fitted) -> ForecastView:
        """With what is sure enough to be reported."""
        steady, trip_c = fitted.steady_c, view.trip_c
        assert trip_c is not None
        range_c = steady.high - steady.low
        if steady.high < trip_c - CLEAR_C and range_c <= KNOWN_C:
            return replace(view, steady_c=steady, will_throttle=False, reason="")
        if fitted.trip_share >= WILL_REACH and fitted.trip_sureness >= SURE:
            shown = steady if range_c <= KNOWN_C else None
            return replace(view, steady_c=shown, will_throttle=True, trip_in_s=fitted.trip_s, reason="")
        if range_c <= CLOSE_C:
            return replace(view, steady_c=steady, reason="too near to where it throttles to tell")
        return view

    def _share(self, row: int, trip_c: float, steady_c: Estimate) -> tuple[tuple[float, float] | None, str]:
        """How much of the throughput is left where the trip holds the temperature.

        In a steady state what is above the temperature at rest goes as the power above that at rest. A clock
        that is halved takes half of that power away at least (the load runs half of the time), and seven eighths at
        most (C V^2 f with V as f: Burd and Brodersen 1995, Energy efficient CMOS microprocessor design).
        """
        total, count = self._idle.get(self._history.places[row], (0, 0))
        if self._load.mode != "closed":
            return None, "the load is paced: what it leaves idle is lost first"
        if not count:
            return None, "not known what it is at rest: --idle-baseline 30s"
        idle_c = total / count / 1000
        if idle_c >= trip_c - IDLE_C:
            return None, "at rest it was as hot"
        least = (trip_c - idle_c) / max(steady_c.high - idle_c, trip_c - idle_c)
        rested_c = idle_c - IDLE_C
        most = (trip_c - rested_c) / max(steady_c.low - rested_c, trip_c - rested_c)
        return (least, most ** (1 / 3)), ""

    def _fan_can_rise(self, now: ReadingBlocks) -> bool:
        for row, info in enumerate(self._history.infos):
            states = now.mean[row][~np.isnan(now.mean[row])]
            if is_fan(info) and info.max_state and len(states) and states[-1] < info.max_state:
                return True
        return False
