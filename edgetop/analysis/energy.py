"""Power: the total rail and its parts over the measured phase; the energy of one inference; how long a battery lasts.

Rails are never added up; the total is the one reading whose role that is. The idle baseline,
a phase before the warm-up, is integrated in the same way. A sensor of role `peak` gives the highest
value behind each reading of another: it is no rail.

Gross is the power of a rail over the measured phase by the inferences completed in it, as MLPerf
Power counts (mlcommons/inference_policies, power_measurement.adoc); net leaves out what the board
draws while the loaded engine rests. If the readings do not suffice for a figure, a reason stands in its place.
"""

import math
from dataclasses import replace

from edgetop import formatting
from edgetop.analysis.blocks import Mean
from edgetop.analysis.rail_energy import SensorIntegrals
from edgetop.analysis.statistics import Counted
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks, TrackView
from edgetop.frozen import frozen
from edgetop.session.batch import Batch
from edgetop.session.manifest import Battery, Load, Manifest, Methodology, SensorInfo
from edgetop.session.phases import Phases

PART = "part"  # of sensors: the role of what feeds a part of the board
PEAK = "peak"  # of sensors: a role, and how the id ends of that which has it
# Share of the idle baseline that is left out at its beginning. Choice: the loading has just ended. Larger: a short
# baseline has few readings; smaller: the loading raises it, and net energy is too low.
SETTLING = 0.1

ACCURACIES = ("external-shunt", "on-board-monitor", "firmware-estimate")  # the best first

# Number of inferences for a figure of one. Choice: the borders of the phase then cost a percent. Larger: slow models
# have no figure; smaller: half an inference at a border counts.
LEAST_INFERENCES = 100
# Share of the measured phase that readings must cover. Choice. Larger: a sensor that fails at times gives no figure;
# smaller: the rest is guessed.
LEAST_COVERED = 0.8
# Half width of the 95 % interval, as a share of the figure, beyond which there is no figure. Choice. Larger: figures
# say nothing; smaller: short sessions have none.
WIDEST = 0.3
DUST = 1e-6  # of the gross figure: what rounding leaves where the board draws as much at rest
# Share of the time in inferences from which power does not rise and fall in step with them. Choice. Larger: even
# readings of a busy load give no figure; smaller: readings in step with the load give a wrong one.
RESTS_BELOW = 0.9
# Number of readings in a period that show its shape. Choice: more than two (Nyquist), as loads are no sines. Larger:
# loads that are read well give no figure; smaller: readings in step with the load give a wrong one.
RESOLVING = 5
# Difference of two rates, as a share, below which they are the same. Choice. Larger: a battery's time is told for
# another rate; smaller: it needs an idle baseline without reason.
SAME_RATE = 0.01

_MEASURED, _IDLE = range(2)  # phases


@frozen
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


@frozen
class PowerView:
    total: RailView | None  # None: no sensor here measures the whole board
    rails: tuple[RailView, ...]  # the others, in the manifest's order
    leading: RailView | None  # the total; else the greatest rail that is no part, or of the parts the greatest
    points: Points | None  # its timeline

    @property
    def board(self) -> RailView | None:
        """Return what stands for the power of the board: the total, or the sum that the board's own chips report.

        The note of the sensor says what a sum leaves out. A part never stands for the board.
        """
        return None if self.leading is None or self.leading.track.info.role == PART else self.leading


@frozen
class CostView:
    """The energy of one inference on one rail, in J, with its 95 % interval, which covers precision only."""

    rail: RailView
    covered: float  # share of the measured phase in which there were readings
    gross_j: Mean | None = None  # None: `reason` says why
    net_j: Mean | None = None  # None: no idle baseline, or no gross figure
    reason: str = ""
    net_reason: str = ""  # why there is no net figure, where an idle baseline was asked for or taken


@frozen
class BatteryView:
    """How long a battery lasts, and for how many inferences; None: `reason` says why."""

    battery: Battery
    rate_hz: float | None
    hours: float | None
    inferences: float | None
    reason: str


@frozen
class EnergyView:
    total: CostView | None  # None: no sensor measures the whole board
    parts: tuple[CostView, ...]  # the other rails, never added up
    battery: BatteryView | None  # None: none was named

    @property
    def leading(self) -> CostView | None:
        """Return the total; without one, the part that draws most."""
        return self.total or max(self.parts, key=lambda cost: _weight(cost.rail), default=None)


def _averages(info: SensorInfo) -> bool | None:
    return bool(info.averages) if info.kind == "power" else None


class PowerRails:
    """Folds the readings of every sensor of power."""

    def __init__(self, phases: Phases | None = None) -> None:
        self._phases = phases or Phases()
        self._idle_from_ns: int | None = None  # of which the integrals know
        self._integrals = SensorIntegrals(_averages, phases=2)

    def began(self, t_ns: int) -> None:
        """Begin the measured phase."""
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

        `axis`: that of the timeline; None for no timeline. `until_ns`: the end of the measured phase, or now.
        `is_each_precise`: whether to compute the confidence interval of every rail, or of the leading rail alone.
        """
        rails = [self._rail(track, until_ns) for track in tracks.views("power") if track.info.role != PEAK]
        totals = [rail for rail in rails if rail.track.info.role == "total"]
        total = min(totals, key=_trust, default=None)
        leading = total or max(rails, key=_weight, default=None)
        precise = {id(rail): self._precise(rail, until_ns) for rail in rails if is_each_precise or rail is leading}
        others = tuple(precise.get(id(rail), rail) for rail in rails if rail is not total)
        leading, total = (of and precise[id(of)] for of in (leading, total))
        points = tracks.points(leading.track.info.id, axis) if leading and axis else None
        return PowerView(total, others, leading, points)

    def _rail(self, track: TrackView, until_ns: int) -> RailView:
        by_id = self._integrals.by_id
        power, peak = by_id[track.info.id][_MEASURED].until(until_ns), by_id.get(f"{track.info.id}-{PEAK}")
        return RailView(
            track=track,
            mean_w=power.mean_w,
            max_w=power.peak_w,
            energy_j=power.energy_j,
            covered_s=power.covered_s,
            peak_w=peak[_MEASURED].until(until_ns).peak_w if peak else None,
        )

    def _precise(self, rail: RailView, until_ns: int) -> RailView:
        """Add the interval of the mean, which is expensive to compute."""
        integrals = self._integrals.by_id[rail.track.info.id]
        precise, idle = (of.precise(of.until(until_ns)) for of in integrals)
        interval_s, is_even = integrals[_MEASURED].intervals()
        return replace(rail, precise=precise, idle=idle, interval_s=interval_s, is_even=is_even)


def _weight(rail: RailView) -> tuple[bool, float]:
    """Return the sort key of rails without a total: a sum comes before the parts, then the one that draws most."""
    return rail.track.info.role != PART, rail.mean_w or rail.track.value or 0.0


def _trust(rail: RailView) -> tuple[bool, bool, int]:
    """Return the sort key of totals; the lowest is used: one with readings, by the best instrument."""
    return not rail.covered_s, not rail.track.count, accuracy_rank(rail.track.info)


def accuracy_rank(info: SensorInfo) -> int:
    return ACCURACIES.index(info.accuracy) if info.accuracy in ACCURACIES else len(ACCURACIES)


def view_energy(
    power: PowerView,
    statistics: Counted | None,
    measured_ns: int | None,
    manifest: Manifest | None,
    *,
    only_leading: bool = False,
) -> EnergyView:
    """`statistics` of the whole session; `measured_ns`: how long its measured phase has been.

    `only_leading`: of one rail, the total or the greatest part.
    """
    load, methodology = (manifest.load, manifest.methodology) if manifest else (Load(), Methodology())
    rested = methodology.idle_baseline_s is not None

    def cost(rail: RailView) -> CostView:
        covered = min(1.0, rail.covered_s * 1e9 / measured_ns) if measured_ns else 0.0
        return _cost(rail, covered, statistics, load, rested)

    total, battery = cost(power.total) if power.total else None, methodology.battery
    parts = tuple(cost(rail) for rail in power.rails if not only_leading or rail is power.leading)
    return EnergyView(total, parts, _lasting(battery, total, statistics, load) if battery else None)


def _cost(rail: RailView, covered: float, statistics: Counted | None, load: Load, rested: bool) -> CostView:
    """`rested`: an idle baseline was asked for."""
    if statistics is None or not (rate_hz := statistics.throughput_hz):
        return CostView(rail, covered, reason="nothing was measured yet")
    if statistics.count < LEAST_INFERENCES:
        few = f"{statistics.count} inferences are too few: it takes {LEAST_INFERENCES}"
        return CostView(rail, covered, reason=few)
    unknown = _unknown_power(rail, covered, statistics, load)
    if unknown or rail.precise is None:
        return CostView(rail, covered, reason=unknown)
    gross = _each(rail.precise, rate_hz)
    if rail.idle is None:
        why = "the idle baseline had too few readings: 30s or more, or --hz" if rested else ""
        return CostView(rail, covered, gross, net_reason=why)
    idle = _each(rail.idle, rate_hz)
    half = math.hypot(gross.half_width, idle.half_width)
    net = Mean(gross.value - idle.value, half, min(gross.batches, idle.batches))
    if is_rough(net) and half > DUST * gross.value:
        why = f"{_rough('what is left of the power without the idle baseline')}: make both longer, or --hz"
        return CostView(rail, covered, gross, net_reason=why)
    return CostView(rail, covered, gross, net)


def is_rough(mean: Mean) -> bool:
    """Whether the interval is too wide to report the mean."""
    return mean.half_width > WIDEST * abs(mean.value)


def _rough(what: str) -> str:
    return f"{what} is not known to {formatting.percent(WIDEST)}"


def _each(power_w: Mean, rate_hz: float) -> Mean:
    """Convert power to J per inference."""
    return Mean(power_w.value / rate_hz, power_w.half_width / rate_hz, power_w.batches)


def _unknown_power(rail: RailView, covered: float, statistics: Counted, load: Load) -> str:
    """Return why the mean power is not known; "" if it is."""
    if covered < LEAST_COVERED:
        return f"readings cover only {formatting.percent(covered)} of the measured phase"
    every = "only" if rail.interval_s is None else f"every {formatting.span(rail.interval_s * 1e9)}"
    if _is_in_step(rail, statistics, load):
        period = formatting.milliseconds(1e9 / (statistics.throughput_hz or 0.0))
        return f"read evenly {every} beside a load that rests every {period} ms: at which phase is not known"
    if rail.precise is None:
        return f"too few readings, one {every}: run longer, or read more often (edgetop run --hz)"
    if is_rough(rail.precise):
        widest = formatting.percent(WIDEST)
        return f"readings scatter by more than {widest}: run longer, or read more often (edgetop run --hz)"
    return ""


def _is_in_step(rail: RailView, statistics: Counted, load: Load) -> bool:
    """Whether readings may be in step with the load, and so always see the same phase of it.

    If 30 of each 100 ms are busy and readings come evenly at 10 Hz, the energy is wrong by half.
    """
    rate_hz = statistics.throughput_hz or 0.0
    busy = statistics.mean_ns / 1e9 * rate_hz / max(load.streams, 1)
    is_resolved = rail.interval_s is not None and RESOLVING * rail.interval_s * rate_hz <= 1
    sees_all = rail.track.info.averages or load.is_random or busy >= RESTS_BELOW or is_resolved
    return rail.is_even and not sees_all


def _lasting(battery: Battery, total: CostView | None, statistics: Counted | None, load: Load) -> BatteryView:
    ran_hz = statistics.throughput_hz if statistics else None
    if total is None or total.rail.mean_w is None or statistics is None or not ran_hz:
        why = "nothing was measured yet" if total else "no sensor here tells what the whole board draws"
        return BatteryView(battery, battery.rate_hz, None, None, why)
    rate_hz = battery.rate_hz or ran_hz
    board_w, reason = _board_w(total, statistics, load, ran_hz, rate_hz)
    watts = board_w.value + battery.extra_w if board_w else 0.0
    hours = inferences = None
    if board_w and watts <= 0:
        reason = "the board draws nothing"
    elif board_w and is_rough(board_w):
        reason = _rough("what the board draws at that rate")
    elif board_w:
        hours = battery.volts * battery.capacity_mah / 1000 / watts
        inferences = None if reason else hours * 3600 * rate_hz
    return BatteryView(battery, rate_hz, hours, inferences, reason)


def _board_w(
    total: CostView, statistics: Counted, load: Load, ran_hz: float, rate_hz: float
) -> tuple[Mean | None, str]:
    """Return the board's power in W at a rate (None: unknown), and why that or the energy of one inference is unknown.

    `ran_hz`: the rate at which it was measured.
    """
    unknown = _unknown_power(total.rail, total.covered, statistics, load)
    ran_w, idle_w = total.rail.precise, total.rail.idle
    if unknown or ran_w is None:
        return None, unknown
    if abs(rate_hz - ran_hz) <= SAME_RATE * ran_hz:
        return ran_w, total.reason
    most_hz = max(ran_hz, 1e9 * load.streams / statistics.mean_ns)
    if rate_hz > most_hz:
        return None, f"{formatting.rate(rate_hz)} Hz cannot be kept up: at most {formatting.rate(most_hz)} Hz"
    if total.net_j is None or idle_w is None:
        unasked = "it ran at another rate: edgetop run --idle-baseline 30s tells what the board draws in between"
        return None, total.reason or total.net_reason or unasked
    works = rate_hz / ran_hz
    half = math.hypot((1 - works) * idle_w.half_width, works * ran_w.half_width)
    return Mean(idle_w.value + total.net_j.value * rate_hz, half, idle_w.batches), ""
