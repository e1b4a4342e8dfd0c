"""The energy of a power rail: the integral of one sensor's readings over one phase of the session.

The integral is computed by the trapezoidal rule on the session's monotonic clock. At the beginning and the end of the
phase, readings are interpolated linearly. A reading that is the mean since the previous reading stands for all of the
time in between. Such a sensor misses nothing. Only how much of its first and last reading belongs to the phase is
uncertain. If readings are missing for more than a few intervals, this time is left out of the energy and of the mean.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from edgetop.analysis.blocks import Blocks, Floats, Ints, Mean, batch_mean
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import of_sensors
from edgetop.session.seconds import NS

# Longest gap between readings that is bridged, in usual intervals. Choice: jitter and one failed read make three.
# Larger: power in a gap is guessed; smaller: one failed read costs coverage.
BRIDGED_CADENCES = 4
LEARNED_INTERVALS = 8  # a sensor's cadence is the middle one of so many first intervals
# Longest gap that is bridged at all. Choice: readings that are rarer do not describe a phase. Larger: power in a gap
# is guessed; smaller: meters that are read every few minutes give no figure.
MOST_BRIDGED_NS = 600 * NS
KEPT_READINGS = 512  # one by one, so that either end of the phase may come to be known late
SETTLED_AT_ONCE = 64
BATCH_READINGS = 4  # at least, in each batch of which the precision is made: two batches share one at their border
# Spread of the middle half of the intervals, as a share, below which readings are even. Computed: intervals drawn
# from half to one and a half spread by 0.5. Larger: readings that edgetop spreads count as even, and give no figure;
# smaller: even ones with jitter give a wrong figure.
EVEN = 0.1
STRIPS_AT_ONCE = 4096  # each of which may lie in some hundred seconds
NEVER_NS = int(np.iinfo(np.int64).max)  # the begin and the end of a phase of which they are not known
MOST_W = 1e6  # beyond it no number is a board's, whatever a recording holds


@dataclass(slots=True)
class Integral:
    """The energy of one power rail over a span of time, with its mean, highest and lowest power."""

    energy_j: float
    covered_s: float
    highest_w: float  # -inf: none
    blocks: Blocks  # nJ, ns
    range_w: tuple[float, float] = (np.inf, -np.inf)  # of all readings that count, those across the ends too
    length_ns: int = 0  # of the phase, gaps and all

    @property
    def mean_w(self) -> float | None:
        return self.energy_j / self.covered_s if self.covered_s else None

    @property
    def peak_w(self) -> float | None:
        return float(self.highest_w) if np.isfinite(self.highest_w) else None


class RailEnergy:
    """Integrates the power readings of one sensor over one phase of the session."""

    def __init__(self, *, averages: bool = False) -> None:
        """Begin without readings. `averages`: whether each reading is the mean since the previous reading."""
        self._averages = averages
        self._t_ns: Ints = np.empty(0, np.int64)  # Times of the latest readings, which are not settled yet.
        self._watts: Floats = np.empty(0)
        self._first_ns: Ints = np.empty(0, np.int64)  # Times of the first readings.
        self._bridged_ns = 0  # Longest time between two readings that is no gap; it follows from the first readings.
        self._began_ns = self._ended_ns = NEVER_NS
        self._settled = Integral(0.0, 0.0, -np.inf, Blocks(2))
        # A number of the latest readings, and the integral up to the last of them.
        self._ahead: tuple[int, Integral] | None = None
        self._intervals: tuple[float | None, bool] | None = None  # None if it must be computed anew.

    def began(self, t_ns: int) -> None:
        if self._began_ns != NEVER_NS:  # The phase begins again.
            self._settled = Integral(0.0, 0.0, -np.inf, Blocks(2))
        self._began_ns, self._ahead = t_ns, None

    def ended(self, t_ns: int) -> None:
        """End the phase at the session time `t_ns`, in ns.

        Of the readings after the end, only the first is kept, to interpolate the power at the end.
        """
        self._ended_ns, self._intervals, self._ahead = t_ns, None, None
        self._t_ns, self._watts = self._wanted(self._t_ns, self._watts)

    def add(self, t_ns: Ints, watts: Floats) -> None:
        """Add readings. `t_ns`: their session times in ns. `watts`: their values in W.

        A reading that is not later than all earlier readings is ignored.
        """
        is_past = self._ended_ns != NEVER_NS and len(self._t_ns) > 0 and int(self._t_ns[-1]) > self._ended_ns
        if is_past and len(self._first_ns) > LEARNED_INTERVALS:
            return
        self._intervals = None
        newest = self._t_ns[-1:] if len(self._t_ns) else np.array([-1], np.int64)
        later = t_ns > np.maximum.accumulate(np.concatenate([newest, t_ns]))[:-1]
        t_ns, watts = t_ns[later], watts[later]
        self._t_ns, self._watts = self._wanted(np.concatenate([self._t_ns, t_ns]), np.concatenate([self._watts, watts]))
        if (wanted := LEARNED_INTERVALS + 1 - len(self._first_ns)) > 0:
            self._first_ns = np.concatenate([self._first_ns, t_ns[:wanted]])
            self._bridged_ns, self._ahead = _bridged_ns(self._first_ns), None
        if len(self._t_ns) > KEPT_READINGS + SETTLED_AT_ONCE:
            self._settle(len(self._t_ns) - KEPT_READINGS)

    def add_aggregate(self, t_ns: int, until_ns: int, mean_w: float, high_w: float, last_w: float) -> None:
        """Add a span of time of which only a summary is known, instead of individual readings.

        The span must begin after the last reading that was added. `t_ns` and `until_ns`: its start and end in ns.
        `mean_w`, `high_w` and `last_w`: the mean, the highest and the last power in W. The mean stands for the whole
        span, because gaps within the span are not visible.
        """
        self._intervals = None
        self._settle(len(self._t_ns))
        begin_ns, end_ns = max(t_ns, self._began_ns), min(until_ns, self._ended_ns)
        if begin_ns < end_ns:
            flat = np.array([mean_w])
            self._settled = _with(self._settled, _Strips(np.array([begin_ns]), np.array([end_ns]), flat, flat), high_w)
        self._t_ns, self._watts, self._ahead = np.array([until_ns], np.int64), np.array([last_w]), None

    def _wanted(self, t_ns: Ints, watts: Floats) -> tuple[Ints, Floats]:
        """Return `(t_ns, watts)` up to the first reading after the end of the phase, without later readings."""
        if self._ended_ns == NEVER_NS:
            return t_ns, watts
        count = int(np.searchsorted(t_ns, self._ended_ns, side="right")) + 1
        return t_ns[:count], watts[:count]

    def _settle(self, count: int) -> None:
        """Add the oldest `count` readings to the sums that never change again, and drop these readings."""
        self._settled = self._joined(slice(count + 1), slice(count), NEVER_NS, self._settled)
        self._t_ns, self._watts = self._t_ns[count:].copy(), self._watts[count:].copy()  # not views of a whole day
        if self._ahead is not None:
            self._ahead = (self._ahead[0] - count, self._ahead[1]) if self._ahead[0] > count else None

    def until(self, until_ns: int) -> Integral:
        """Return the energy of the phase from its start to the session time `until_ns`, in ns.

        The next call must have the same or a later time.
        """
        end_ns = min(until_ns, self._ended_ns)
        read = int(np.searchsorted(self._t_ns, end_ns, side="right"))
        done, power = self._ahead if self._ahead and self._ahead[0] <= read else (0, self._settled)
        if read > done:
            power = self._joined(slice(max(done - 1, 0), read), slice(done, read), end_ns, power)
            self._ahead = read, power
        if 0 < read < len(self._t_ns):
            power = self._joined(slice(read - 1, read + 1), slice(0), end_ns, power)
        return replace(power, length_ns=max(0, end_ns - self._began_ns))

    def precise(self, power: Integral) -> Mean | None:
        """Return the mean power in W with its 95 % interval, or None if there are too few readings.

        `power`: the integral that `until` returned.
        """
        interval_s = None if self._began_ns == NEVER_NS else self.intervals()[0]
        if interval_s is None:
            return None
        sums = power.blocks.sums()
        lacking = max(0.0, power.length_ns - float(sums[:, 1].sum()))
        low_w, high_w = power.range_w  # they bound the error of the readings that straddle the ends of the phase
        at_ends = interval_s * max(high_w - low_w, 0.0) / math.sqrt(2) * NS if self._averages else None
        return batch_mean(sums[:, 0], sums[:, 1], BATCH_READINGS * interval_s * NS, lacking, at_ends)

    def intervals(self) -> tuple[float | None, bool]:
        """Return `(median, is_even)`: the median time in s between the latest readings, and whether it hardly varies.

        The median is None if there are fewer than two readings.
        """
        if self._intervals is None:
            self._intervals = _spacing(np.diff(self._t_ns[-KEPT_READINGS:]) / NS)
        return self._intervals

    def _joined(self, line: slice, points: slice, until_ns: int, settled: Integral) -> Integral:
        """Return the integral `settled` with more readings added, up to the session time `until_ns`, in ns.

        `line`: the indexes of the readings between which the power is integrated. `points`: the indexes of the readings
        from which the highest power is taken.
        """
        if self._began_ns == NEVER_NS:
            return settled
        end_ns = min(until_ns, self._ended_ns)
        t_ns, watts = self._t_ns[points], self._watts[points]
        inside = (t_ns >= self._began_ns) & (t_ns <= end_ns)
        watts_along = self._watts[line]
        at_begins = watts_along[1:] if self._averages else watts_along[:-1]
        strips = _strips(self._t_ns[line], at_begins, watts_along[1:], self._began_ns, end_ns, self._bridged_ns)
        return _with(settled, strips, float(watts[inside].max(initial=-np.inf)))


class SensorIntegrals:
    """Integrates the readings of several sensors, over one or several phases of the session."""

    def __init__(self, averages: Callable[[SensorInfo], bool | None], phases: int = 1) -> None:
        """Begin without readings.

        `averages` is called with each sensor. It returns None to leave the sensor out, and True if the sensor's
        readings are means since the previous reading. `phases`: the number of phases.
        """
        self._averages = averages
        self._began_ns, self._ended_ns = [NEVER_NS] * phases, [NEVER_NS] * phases
        self._places: dict[int, str] = {}  # of the sensors in the manifest
        self.by_id: dict[str, tuple[RailEnergy, ...]] = {}  # one for each phase

    def began(self, t_ns: int, phase: int = 0) -> None:
        self._began_ns[phase] = t_ns
        for integrals in self.by_id.values():
            integrals[phase].began(t_ns)

    def ended(self, t_ns: int, phase: int) -> None:
        """End a phase at the session time `t_ns`, in ns. `phase`: the number of the phase, from 0.

        If the phase was ended before, nothing changes.
        """
        if self._ended_ns[phase] == NEVER_NS:
            self._ended_ns[phase] = t_ns
            for integrals in self.by_id.values():
                integrals[phase].ended(t_ns)

    def fold(self, batch: Batch) -> None:
        if batch.manifest is not None:
            wanted = ((place, info, self._averages(info)) for place, info in enumerate(batch.manifest.sensors))
            self._places = {
                place: self._known(info, averages) for place, info, averages in wanted if averages is not None
            }
        for t_ns, until_ns, place, _, _, *figures in batch.aggregates.tolist():
            for integral in self.by_id.get(self._places.get(place, ""), ()):
                integral.add_aggregate(t_ns, until_ns, *figures)
        readings = of_sensors(batch.readings, self._places) if len(batch.readings) else batch.readings
        for place, name in self._places.items() if len(readings) else ():
            rows = readings[readings["sensor"] == place]
            if len(rows):
                t_ns, values = rows["t_ns"].astype(np.int64), rows["value"].astype(np.float64)
                for integral in self.by_id[name]:
                    integral.add(t_ns, values)

    def _known(self, info: SensorInfo, averages: bool) -> str:
        """Prepare to integrate the readings of the sensor `info` over each phase, and return the sensor's id.

        `averages`: whether each reading is the mean since the previous reading.
        """
        if info.id not in self.by_id:
            self.by_id[info.id] = tuple(RailEnergy(averages=averages) for _ in self._began_ns)
            for integral, began_ns, ended_ns in zip(self.by_id[info.id], self._began_ns, self._ended_ns, strict=True):
                integral.began(began_ns)
                integral.ended(ended_ns)
        return info.id


def _bridged_ns(first_ns: Ints) -> int:
    intervals = np.sort(np.diff(first_ns))
    cadence_ns = int(intervals[(len(intervals) - 1) // 2]) if len(intervals) else 0
    return min(BRIDGED_CADENCES * cadence_ns, MOST_BRIDGED_NS)


def _with(settled: Integral, strips: "_Strips", highest_w: float) -> Integral:
    blocks = settled.blocks.copy()
    for second, sums in strips.by_second():
        blocks.add(second, sums)
    return Integral(
        _added(settled.energy_j, strips.joules),
        _added(settled.covered_s, strips.seconds),
        max(settled.highest_w, highest_w),
        blocks,
        (
            min(settled.range_w[0], float(strips.at_right_w.min(initial=np.inf))),
            max(settled.range_w[1], float(strips.at_right_w.max(initial=-np.inf))),
        ),
    )


def _spacing(intervals: Floats) -> tuple[float | None, bool]:
    if not len(intervals):
        return None, False
    ordered = np.sort(intervals)  # numpy's quantile takes twenty times as long for so few
    low, middle, high = ordered[[len(ordered) // 4, len(ordered) // 2, (3 * len(ordered) - 1) // 4]].tolist()
    return middle, high - low < EVEN * middle


@frozen
class _Strips:
    """The trapezoids below the lines between successive readings.

    The fields are arrays with an entry for each trapezoid: its start and end in ns, and the power in W at its start and
    end.
    """

    left_ns: Ints
    right_ns: Ints
    at_left_w: Floats
    at_right_w: Floats

    @property
    def seconds(self) -> Floats:
        return np.asarray((self.right_ns - self.left_ns) / NS)

    @property
    def joules(self) -> Floats:
        return (self.at_left_w + self.at_right_w) / 2 * self.seconds

    def by_second(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield the energy of each second, from trapezoids that are cut at whole seconds.

        Each yielded pair has two arrays with a row for each piece of a trapezoid. The first array has the piece's
        session second. The second array has two columns: the piece's energy in nJ, and its length in ns.
        """
        for begin in range(0, len(self.left_ns), STRIPS_AT_ONCE):
            part = slice(begin, begin + STRIPS_AT_ONCE)
            yield _cut(self.left_ns[part], self.right_ns[part], self.at_left_w[part], self.at_right_w[part])


def _cut(left: Ints, right: Ints, at_left: Floats, at_right: Floats) -> tuple[Ints, Ints]:
    pieces = (right - 1) // NS - left // NS + 1
    strip = np.repeat(np.arange(len(left)), pieces)
    nth = np.arange(len(strip)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    second = left[strip] // NS + nth
    begin, end = np.maximum(left[strip], second * NS), np.minimum(right[strip], (second + 1) * NS)
    low, high = (np.minimum(np.maximum(watts, -MOST_W), MOST_W) for watts in (at_left, at_right))
    slope = ((high - low) / (right - left))[strip]
    middle_w = low[strip] + slope * ((begin + end) / 2 - left[strip])
    sums = np.empty((len(second), 2), np.int64)
    sums[:, 0], sums[:, 1] = np.rint(middle_w * (end - begin)), end - begin  # 1 W for 1 ns is 1 nJ
    return second, sums


def _strips(t_ns: Ints, low: Floats, high: Floats, from_ns: int, to_ns: int, bridged_ns: int) -> _Strips:
    """Return the trapezoids below the lines between successive readings, within `from_ns` to `to_ns`.

    `t_ns`: the times of the readings. `low` and `high`: the power in W at the start and the end of each line.
    `bridged_ns`: the longest time between two readings in ns. A longer time is a gap and gets no trapezoid.
    """
    begin, end = t_ns[:-1], t_ns[1:]
    left, right = np.maximum(begin, from_ns), np.minimum(end, to_ns)
    counts = (right > left) & (end - begin <= bridged_ns)
    slope = (high - low) / (end - begin)
    at_left, at_right = low + slope * (left - begin), low + slope * (right - begin)
    return _Strips(left[counts], right[counts], at_left[counts], at_right[counts])


def _added(start: float, values: Floats) -> float:
    """Return the sum of `start` and all `values`.

    The values are added one by one, so that the result does not depend on how readings were cut into batches.
    """
    return float(np.add.accumulate(np.concatenate(([start], values)))[-1])
