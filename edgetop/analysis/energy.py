"""Power of the board and of its rails in the measured phase, energy of one inference, and battery life.

A rail is a supply line with a power sensor. Rails are never added up; the total is the sensor whose role is `total`.
The idle baseline is a phase before the warm-up, and is integrated in the same way. A sensor of role `peak` is no rail:
it reports the highest value behind each reading of another sensor.

Gross energy is the energy of a rail over the measured phase, divided by the number of inferences completed in the
phase. Net energy leaves out the power that the board draws while the loaded engine is idle. If the readings do not
support a figure, the figure is None, and an `EnergyUnknown` says why.
"""

import math
from dataclasses import replace
from typing import Literal, get_args

from edgetop.analysis.blocks import Mean
from edgetop.analysis.meter_errors import BoardEstimate, MeterError, MeterUnknown, board_estimate, meter_error
from edgetop.analysis.rail_energy import SensorIntegrals
from edgetop.analysis.statistics import Counted
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks, TrackView
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Battery, Manifest, Methodology, SensorInfo
from edgetop.session.phases import Phases

PART = "part"  # Role of a sensor that measures a part of the board.
PEAK = "peak"  # Role of a sensor that reports peaks, and the suffix of its id.
# Share of the idle baseline that is left out at its beginning. Choice: the loading has just ended. Larger: a short
# baseline has few readings; smaller: the loading raises it, and net energy is too low.
SETTLING = 0.1

ACCURACIES = ("external-shunt", "on-board-monitor", "firmware-estimate")  # The best first.

# Number of inferences for a figure of one. Choice: the borders of the phase then cost a percent. Larger: slow models
# have no figure; smaller: half an inference at a border counts.
LEAST_INFERENCES = 100
# Share of the measured phase that readings must cover. Choice. Larger: a sensor that fails at times gives no figure;
# smaller: the rest is guessed.
LEAST_COVERED = 0.8
# Half width of the 95 % interval, as a share of the figure, beyond which there is no figure. Choice. Larger: figures
# say nothing; smaller: short sessions have none.
WIDEST = 0.3
DUST = 1e-6  # Rounding error, as a share of the gross figure, where the board draws as much when idle.
# Share of the time in inferences from which power does not rise and fall in step with them. Choice. Larger: even
# readings of a busy load give no figure; smaller: readings in step with the load give a wrong one.
RESTS_BELOW = 0.9
# Number of readings in a period that show its shape. Choice: more than two (Nyquist), as loads are no sines. Larger:
# loads that are read well give no figure; smaller: readings in step with the load give a wrong one.
RESOLVING = 5
# Difference of two rates, as a share, below which they are the same. Choice. Larger: a battery's time is told for
# another rate; smaller: it needs an idle baseline without reason.
SAME_RATE = 0.01

_MEASURED, _IDLE = range(2)  # Phases.

UnknownCode = Literal[
    "no-total",  # no sensor measures the whole board
    "nothing-measured",
    "few-inferences",  # `count` inferences are fewer than LEAST_INFERENCES
    "little-covered",  # readings cover only `covered` of the measured phase
    "in-step",  # readings come evenly every `interval_s`, beside a load with a period of `period_ns`
    "few-readings",  # one every `interval_s`; None: there is only one
    "scattered",  # readings differ so much that the mean power has an interval wider than WIDEST
    "short-baseline",  # the idle baseline had too few readings
    "rough-net",  # the difference to the idle baseline has an interval wider than WIDEST
    "no-power",  # a battery that feeds a board which draws nothing
    "rough-rate",  # the power at the rate of the battery has an interval wider than WIDEST
    "rate-too-high",  # `rate_hz` cannot be kept up; the most is `most_hz`
    "other-rate",  # the session ran at another rate, without an idle baseline
]
UNKNOWN_CODES: tuple[UnknownCode, ...] = get_args(UnknownCode)


@frozen
class EnergyUnknown:
    """The reason why an energy figure is unknown: a code, and the figures that the sentence about it contains.

    `edgetop.wording.energy_words` makes the sentence.
    """

    code: UnknownCode
    count: int | None = None
    covered: float | None = None
    interval_s: float | None = None
    period_ns: float | None = None
    rate_hz: float | None = None
    most_hz: float | None = None


@frozen
class RailView:
    """The figures of one power sensor over the measured phase so far. A figure is None if there are no readings."""

    track: TrackView
    mean_w: float | None
    max_w: float | None
    energy_j: float
    covered_s: float  # Part of the phase that readings cover.
    precise: Mean | None = None  # Mean in W with its 95 % interval; None if unknown or not requested.
    idle: Mean | None = None  # Mean of the idle baseline in W, with its 95 % interval.
    interval_s: float | None = None  # Median interval of the latest readings; None with fewer than two.
    peak_w: float | None = None  # Highest value behind readings that are means; None if the sensor reports none.
    is_even: bool = False  # Whether readings come at even intervals, and so show a load in step at one phase only.
    meter: MeterError | MeterUnknown = MeterUnknown("no-meter")  # By how much the mean may be off.
    meter_net: MeterError | MeterUnknown = MeterUnknown("no-meter")  # Of the mean less that of idle.
    board: BoardEstimate | None = None  # Power of the board that follows from the mean; None if there is no fit.


@frozen
class PowerView:
    total: RailView | None  # None if no sensor measures the whole board.
    rails: tuple[RailView, ...]  # The other rails, in the order of the manifest.
    leading: RailView | None  # The total; without it the greatest sum; without both the greatest part.
    points: Points | None  # Timeline of the leading rail.

    @property
    def board(self) -> RailView | None:
        """Return the rail that stands for the power of the whole board, or None if there is no such rail.

        The result is the total rail or, without a total rail, a sum of rails that the board's chips report. The note of
        its sensor says what such a sum leaves out.
        """
        return None if self.leading is None or self.leading.track.info.role == PART else self.leading


@frozen
class CostView:
    """The energy of one inference on one rail, in J, with its 95 % interval.

    The interval covers only the scatter of the readings. The errors of the power meter are in `rail.meter` and
    `rail.meter_net`, in W.
    """

    rail: RailView
    covered: float  # Share of the measured phase with readings.
    gross_j: Mean | None = None  # None if unknown; `reason` says why.
    net_j: Mean | None = None  # None without an idle baseline or a gross figure.
    reason: EnergyUnknown | None = None
    net_reason: EnergyUnknown | None = None  # Why an idle baseline gave no net figure.
    rate_hz: float | None = None  # Rate of inferences, by which a power in W becomes the energy of an inference in J.


@frozen
class BatteryView:
    """How many hours a battery lasts, and for how many inferences. If a figure is None, `reason` says why."""

    battery: Battery
    rate_hz: float | None
    hours: float | None
    inferences: float | None
    reason: EnergyUnknown | None


@frozen
class EnergyView:
    total: CostView | None  # None if no sensor measures the whole board.
    parts: tuple[CostView, ...]  # The other rails, which are never added up.
    battery: BatteryView | None  # None if the session names no battery.

    @property
    def leading(self) -> CostView | None:
        """Return the cost of an inference on the total rail or, without a total rail, on the best other rail.

        A sum of rails is better than a single part of the board. Of several parts, the part that draws most is taken.
        The result is None if there is no rail.
        """
        return self.total or max(self.parts, key=lambda cost: _weight(cost.rail), default=None)


def _averages(info: SensorInfo) -> bool | None:
    return bool(info.averages) if info.kind == "power" else None


class PowerRails:
    """Integrates the power of every rail (supply line) over time, from the readings of its power sensor."""

    def __init__(self, phases: Phases | None = None) -> None:
        self._phases = phases or Phases()
        self._idle_from_ns: int | None = None  # Start of the idle baseline that the integrals were given.
        self._integrals = SensorIntegrals(_averages, phases=2)

    def began(self, t_ns: int) -> None:
        """Begin the measured phase at the session time `t_ns`, in ns."""
        self._integrals.began(t_ns, _MEASURED)

    def fold(self, batch: Batch) -> None:
        phases = self._phases
        phases.fold(batch.events)
        if phases.idle_from_ns is not None and phases.idle_from_ns != self._idle_from_ns:
            self._idle_from_ns = phases.idle_from_ns
            self._integrals.began(phases.idle_from_ns + round(SETTLING * (phases.idle_ns or 0)), _IDLE)
        if phases.idle_until_ns is not None:
            self._integrals.ended(phases.idle_until_ns, _IDLE)
        self._integrals.fold(batch)

    def view(self, tracks: Tracks, axis: Axis | None, until_ns: int, *, is_each_precise: bool = True) -> PowerView:
        """Return the power of every rail.

        `tracks`: the readings of all sensors. `axis`: the time axis of the timeline; None for no timeline. `until_ns`:
        the session time in ns at which the measured phase ends, or now. `is_each_precise`: True gives every rail its
        confidence interval; False gives one only to the leading rail. The leading rail is the total; without a total,
        the greatest sum of rails; without both, the greatest rail.
        """
        volts = {track.info.label: track.mean for track in tracks.views("volt")}
        rails = [
            self._rail(track, until_ns, volts.get(track.info.label))
            for track in tracks.views("power")
            if track.info.role != PEAK
        ]
        totals = [rail for rail in rails if rail.track.info.role == "total"]
        total = min(totals, key=_trust, default=None)
        leading = total or max(rails, key=_weight, default=None)
        precise = {
            id(rail): self._precise(rail, until_ns, volts.get(rail.track.info.label))
            for rail in rails
            if is_each_precise or rail is leading
        }
        others = tuple(precise.get(id(rail), rail) for rail in rails if rail is not total)
        leading, total = (rail and precise[id(rail)] for rail in (leading, total))
        points = tracks.points(leading.track.info.id, axis) if leading and axis else None
        return PowerView(total, others, leading, points)

    def _rail(self, track: TrackView, until_ns: int, volts: float | None) -> RailView:
        by_id = self._integrals.by_id
        power, peak = by_id[track.info.id][_MEASURED].until(until_ns), by_id.get(f"{track.info.id}-{PEAK}")
        return RailView(
            track=track,
            mean_w=power.mean_w,
            max_w=power.peak_w,
            energy_j=power.energy_j,
            covered_s=power.covered_s,
            peak_w=peak[_MEASURED].until(until_ns).peak_w if peak else None,
            meter=meter_error(track.info, power.mean_w, volts),
            board=board_estimate(track.info, power.mean_w),
        )

    def _precise(self, rail: RailView, until_ns: int, volts: float | None) -> RailView:
        """Return the rail with the confidence intervals of its means up to the session time `until_ns`, in ns.

        `volts`: the mean voltage of the rail in V; None if no sensor measures it.
        """
        info = rail.track.info
        integrals = self._integrals.by_id[info.id]
        precise, idle = (integral.precise(integral.until(until_ns)) for integral in integrals)
        interval_s, is_even = integrals[_MEASURED].intervals()
        meter_net = meter_error(info, rail.mean_w, volts, idle.value) if idle else rail.meter_net
        return replace(rail, precise=precise, idle=idle, interval_s=interval_s, is_even=is_even, meter_net=meter_net)


def _weight(rail: RailView) -> tuple[bool, float]:
    """Return a sort key for the rails of a board without a total rail. The leading rail has the greatest key.

    A sum of rails has a greater key than any single part of the board. Of two parts, the part that draws more power has
    the greater key.
    """
    return rail.track.info.role != PART, rail.mean_w or rail.track.value or 0.0


def _trust(rail: RailView) -> tuple[bool, bool, int]:
    """Return a sort key for several total rails. The rail with the lowest key is used.

    Rails with readings come first; among these, the rail with the most accurate instrument.
    """
    return not rail.covered_s, not rail.track.count, accuracy_rank(rail.track.info)


def accuracy_rank(info: SensorInfo) -> int:
    """Return the rank of the sensor's accuracy: 0 for the best instrument, more for less accurate instruments."""
    return ACCURACIES.index(info.accuracy) if info.accuracy in ACCURACIES else len(ACCURACIES)


def view_energy(
    power: PowerView,
    statistics: Counted | None,
    measured_ns: int | None,
    manifest: Manifest | None,
    *,
    only_leading: bool = False,
) -> EnergyView:
    """Return the energy of one inference on each rail (supply line), and how long the battery lasts.

    `power`: the power of the rails. `statistics`: the inferences of the whole session. `measured_ns`: the length of the
    measured phase in ns. `manifest`: the load, the idle baseline and the battery of the session. `only_leading`: True
    returns only the leading rail: the total; without a total, the greatest sum of rails; without both, the greatest
    rail.
    """
    load, methodology = (manifest.load, manifest.methodology) if manifest else (Load(), Methodology())
    has_baseline = methodology.idle_baseline_s is not None

    def cost(rail: RailView) -> CostView:
        covered = min(1.0, rail.covered_s * 1e9 / measured_ns) if measured_ns else 0.0
        return _cost(rail, covered, statistics, load, has_baseline=has_baseline)

    total, battery = cost(power.total) if power.total else None, methodology.battery
    parts = tuple(cost(rail) for rail in power.rails if not only_leading or rail is power.leading)
    return EnergyView(total, parts, _view_battery(battery, total, statistics, load) if battery else None)


def _cost(rail: RailView, covered: float, statistics: Counted | None, load: Load, *, has_baseline: bool) -> CostView:
    """Return the energy of one inference on the power rail `rail`.

    `covered`: the share of the measured phase, 0 to 1, that the rail's readings cover. `statistics`: the inferences of
    the session. `load`: the load. `has_baseline`: whether the user asked for an idle baseline.
    """
    if statistics is None or not (rate_hz := statistics.throughput_hz):
        return CostView(rail, covered, reason=EnergyUnknown("nothing-measured"))
    if statistics.count < LEAST_INFERENCES:
        return CostView(rail, covered, reason=EnergyUnknown("few-inferences", count=statistics.count))
    unknown = _why_power_is_unknown(rail, covered, statistics, load)
    if unknown or rail.precise is None:
        return CostView(rail, covered, reason=unknown)
    gross = _energy_each(rail.precise, rate_hz)
    if rail.idle is None:
        reason = EnergyUnknown("short-baseline") if has_baseline else None
        return CostView(rail, covered, gross, net_reason=reason, rate_hz=rate_hz)
    idle = _energy_each(rail.idle, rate_hz)
    half = math.hypot(gross.half_width, idle.half_width)
    net = Mean(gross.value - idle.value, half, min(gross.batches, idle.batches))
    if is_rough(net) and half > DUST * gross.value:
        return CostView(rail, covered, gross, net_reason=EnergyUnknown("rough-net"), rate_hz=rate_hz)
    return CostView(rail, covered, gross, net, rate_hz=rate_hz)


def is_rough(mean: Mean) -> bool:
    """Whether the interval of the mean is too wide to report the mean."""
    return mean.half_width > WIDEST * abs(mean.value)


def _energy_each(power_w: Mean, rate_hz: float) -> Mean:
    """Return the energy of one inference in J. `power_w`: the mean power in W. `rate_hz`: inferences per second."""
    return Mean(power_w.value / rate_hz, power_w.half_width / rate_hz, power_w.batches)


def _why_power_is_unknown(rail: RailView, covered: float, statistics: Counted, load: Load) -> EnergyUnknown | None:
    """Return the reason why the mean power of the power rail `rail` is unknown, or None if it is known.

    `covered`: the share of the measured phase, 0 to 1, that the rail's readings cover. `statistics`: the inferences of
    the session. `load`: the load.
    """
    if covered < LEAST_COVERED:
        return EnergyUnknown("little-covered", covered=covered)
    if _is_in_step(rail, statistics, load):
        period_ns = 1e9 / (statistics.throughput_hz or 0.0)
        return EnergyUnknown("in-step", interval_s=rail.interval_s, period_ns=period_ns)
    if rail.precise is None:
        return EnergyUnknown("few-readings", interval_s=rail.interval_s)
    return EnergyUnknown("scattered") if is_rough(rail.precise) else None


def _is_in_step(rail: RailView, statistics: Counted, load: Load) -> bool:
    """Whether the mean of the readings may be wrong, because all of them fall on the same point of the load's period.

    For example, if the board is busy for 30 ms of every 100 ms, and readings come evenly at 10 Hz, the energy may be
    wrong by half. `statistics`: the inferences of the session.
    """
    rate_hz = statistics.throughput_hz or 0.0
    busy = statistics.mean_ns / 1e9 * rate_hz / max(load.streams, 1)
    is_resolved = rail.interval_s is not None and RESOLVING * rail.interval_s * rate_hz <= 1
    sees_all = rail.track.info.averages or load.is_random or busy >= RESTS_BELOW or is_resolved
    return rail.is_even and not sees_all


def _view_battery(battery: Battery, total: CostView | None, statistics: Counted | None, load: Load) -> BatteryView:
    ran_hz = statistics.throughput_hz if statistics else None
    if total is None or total.rail.mean_w is None or statistics is None or not ran_hz:
        reason = EnergyUnknown("nothing-measured" if total else "no-total")
        return BatteryView(battery, battery.rate_hz, None, None, reason)
    rate_hz = battery.rate_hz or ran_hz
    board_w, unknown = _board_w(total, statistics, load, ran_hz, rate_hz)
    watts = board_w.value + battery.extra_w if board_w else 0.0
    hours = inferences = None
    if board_w and watts <= 0:
        unknown = EnergyUnknown("no-power")
    elif board_w and is_rough(board_w):
        unknown = EnergyUnknown("rough-rate")
    elif board_w:
        hours = battery.volts * battery.capacity_mah / 1000 / watts
        inferences = None if unknown else hours * 3600 * rate_hz
    return BatteryView(battery, rate_hz, hours, inferences, unknown)


def _board_w(
    total: CostView, statistics: Counted, load: Load, ran_hz: float, rate_hz: float
) -> tuple[Mean | None, EnergyUnknown | None]:
    """Return `(power, reason)`: the board's power in W at the rate `rate_hz`, and the reason why a figure is unknown.

    `power` is None if it is unknown. `reason` says why the power, or the energy of one inference from which the power
    is computed, is unknown. It is None if both are known. `total`: the measured energy and power of the whole board.
    `statistics`: the inferences of the session. `load`: how inferences were requested, such as at a fixed rate.
    `ran_hz`: the rate of the session, at which the power was measured. `rate_hz`: the rate for which the power is
    wanted. Both are in inferences per second.
    """
    unknown = _why_power_is_unknown(total.rail, total.covered, statistics, load)
    ran_w, idle_w = total.rail.precise, total.rail.idle
    if unknown or ran_w is None:
        return None, unknown
    if abs(rate_hz - ran_hz) <= SAME_RATE * ran_hz:
        return ran_w, total.reason
    most_hz = max(ran_hz, 1e9 * load.streams / statistics.mean_ns)
    if rate_hz > most_hz:
        return None, EnergyUnknown("rate-too-high", rate_hz=rate_hz, most_hz=most_hz)
    if total.net_j is None or idle_w is None:
        return None, total.reason or total.net_reason or EnergyUnknown("other-rate")
    works = rate_hz / ran_hz
    half = math.hypot((1 - works) * idle_w.half_width, works * ran_w.half_width)
    return Mean(idle_w.value + total.net_j.value * rate_hz, half, idle_w.batches), None
