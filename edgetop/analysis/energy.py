"""Energy: the energy of one inference with its interval, and how long a battery lasts.

Gross is the power of a rail over the measured phase by the inferences completed in it, as MLPerf
Power counts (mlcommons/inference_policies, power_measurement.adoc); net leaves out what the board
draws while the loaded engine rests. If the readings do not suffice for a figure, a reason stands in its place.
"""

import math
from dataclasses import dataclass

from edgetop import formatting
from edgetop.analysis.blocks import Mean
from edgetop.analysis.power import PowerView, RailView
from edgetop.analysis.statistics import Statistics
from edgetop.session.manifest import Battery, Load, Manifest, Methodology

LEAST_INFERENCES = 100
LEAST_COVERED = 0.8  # of the measured phase, by readings
WIDEST = 0.3  # of the figure, to either side: beyond it there is no figure
DUST = 1e-6  # of the gross figure: what rounding leaves where the board draws as much at rest
RESTS_BELOW = 0.9  # of the time in inferences: an engine that rests makes the power rise and fall in step
RESOLVING = 5  # readings in a period, that show its course
SAME_RATE = 0.01


@dataclass(frozen=True, slots=True)
class CostView:
    """The energy of one inference on one rail, in J, with its 95 % interval, which covers precision only."""

    rail: RailView
    gross_j: Mean | None  # None: `reason` says why
    net_j: Mean | None  # None: no idle baseline, or no gross figure
    idle_w: Mean | None  # None: no idle baseline
    covered: float  # share of the measured phase in which there were readings
    reason: str
    net_reason: str = ""  # why there is no net figure, where an idle baseline was asked for or taken


@dataclass(frozen=True, slots=True)
class BatteryView:
    """How long a battery lasts, and for how many inferences; None: `reason` says why."""

    battery: Battery
    rate_hz: float | None
    hours: float | None
    inferences: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class EnergyView:
    total: CostView | None  # None: no sensor measures the whole board
    parts: tuple[CostView, ...]  # the other rails, never added up
    battery: BatteryView | None  # None: none was named

    @property
    def leading(self) -> CostView | None:
        """Return the total; without one, the part that draws most."""
        return self.total or max(self.parts, key=lambda cost: cost.rail.mean_w or 0.0, default=None)


def view_energy(
    power: PowerView,
    statistics: Statistics | None,
    measured_ns: int | None,
    manifest: Manifest | None,
    *,
    only_leading: bool = False,
) -> EnergyView:
    """`statistics` of the whole session; `measured_ns`: how long its measured phase has been.

    `only_leading`: of one rail, the total or the greatest part.
    """
    load = manifest.load if manifest else Load()
    methodology = manifest.methodology if manifest else Methodology()
    rested = methodology.idle_baseline_s is not None
    total = _cost(power.total, statistics, measured_ns, load, rested) if power.total else None
    rails = [rail for rail in power.rails if not only_leading or rail is power.leading]
    parts = tuple(_cost(rail, statistics, measured_ns, load, rested) for rail in rails)
    battery = methodology.battery
    return EnergyView(total, parts, _lasting(battery, total, statistics, load) if battery else None)


def _cost(rail: RailView, statistics: Statistics | None, measured_ns: int | None, load: Load, rested: bool) -> CostView:
    """`rested`: an idle baseline was asked for."""
    covered = min(1.0, rail.covered_s * 1e9 / measured_ns) if measured_ns else 0.0
    reason = _refusal(rail, covered, statistics, load)
    rate_hz = statistics.throughput_hz if statistics else None
    if reason or rail.precise is None or not rate_hz:
        return CostView(rail, None, None, rail.idle, covered, reason)
    gross = _each(rail.precise, rate_hz)
    if rail.idle is None:
        why = "the idle baseline had too few readings: 30s or more, or --hz" if rested else ""
        return CostView(rail, gross, None, None, covered, "", why)
    idle = _each(rail.idle, rate_hz)
    half = math.hypot(gross.half_width, idle.half_width)
    net = Mean(gross.value - idle.value, half, min(gross.batches, idle.batches))
    if is_rough(net) and half > DUST * gross.value:
        why = f"{_rough('what is left of the power without the idle baseline')}: make both longer, or --hz"
        return CostView(rail, gross, None, rail.idle, covered, "", why)
    return CostView(rail, gross, net, rail.idle, covered, "")


def is_rough(mean: Mean) -> bool:
    """Whether the interval is too wide to report the mean."""
    return mean.half_width > WIDEST * abs(mean.value)


def _rough(what: str) -> str:
    return f"{what} is not known to {formatting.percent(WIDEST)}"


def _each(power_w: Mean, rate_hz: float) -> Mean:
    """Convert power to J per inference."""
    return Mean(power_w.value / rate_hz, power_w.half_width / rate_hz, power_w.batches)


def _refusal(rail: RailView, covered: float, statistics: Statistics | None, load: Load) -> str:
    """Return why there is no figure; "" if there is one."""
    if statistics is None or not statistics.throughput_hz:
        return "nothing was measured yet"
    if statistics.count < LEAST_INFERENCES:
        return f"{statistics.count} inferences are too few: it takes {LEAST_INFERENCES}"
    return _unknown_power(rail, covered, statistics, load)


def _unknown_power(rail: RailView, covered: float, statistics: Statistics, load: Load) -> str:
    """Return why the mean power is not known; "" if it is."""
    if covered < LEAST_COVERED:
        return f"readings cover only {formatting.percent(covered)} of the measured phase"
    if in_step := _in_step(rail, statistics, load):
        return in_step
    if rail.precise is None:
        return f"too few readings, one {_every(rail.interval_s)}: run longer, or ask for more with --hz"
    if is_rough(rail.precise):
        return f"readings scatter by more than {formatting.percent(WIDEST)}: run longer, or ask for more with --hz"
    return ""


def _every(seconds: float | None) -> str:
    return "only" if seconds is None else f"every {formatting.span(seconds * 1e9)}"


def _in_step(rail: RailView, statistics: Statistics, load: Load) -> str:
    """Return why readings in step with the load are no basis; "" if they are not: they always see the same phase.

    If 30 of each 100 ms are busy and readings come evenly at 10 Hz, the energy is wrong by half.
    """
    rate_hz = statistics.throughput_hz or 0.0
    busy = statistics.mean_ns / 1e9 * rate_hz / max(load.streams, 1)
    is_resolved = rail.interval_s is not None and RESOLVING * rail.interval_s * rate_hz <= 1
    if not rail.is_even or rail.track.info.averages or load.is_random or busy >= RESTS_BELOW or is_resolved:
        return ""
    period = formatting.milliseconds(1e9 / rate_hz)
    return (
        f"read evenly {_every(rail.interval_s)} beside a load that rests every {period} ms: at which phase is not known"
    )


def _lasting(battery: Battery, total: CostView | None, statistics: Statistics | None, load: Load) -> BatteryView:
    ran_hz = statistics.throughput_hz if statistics else None
    if total is None or total.rail.mean_w is None or statistics is None or not ran_hz:
        why = "nothing was measured yet" if total else "no sensor here tells what the whole board draws"
        return BatteryView(battery, battery.rate_hz, None, None, why)
    rate_hz = battery.rate_hz or ran_hz
    unknown = _unknown_power(total.rail, total.covered, statistics, load)
    ran_w = total.rail.precise
    if unknown or ran_w is None:
        return BatteryView(battery, rate_hz, None, None, unknown)
    if abs(rate_hz - ran_hz) <= SAME_RATE * ran_hz:
        return _lasts(battery, ran_w, rate_hz, total.reason)
    most_hz = max(ran_hz, 1e9 * load.streams / statistics.mean_ns)
    if rate_hz > most_hz:
        why = f"{formatting.rate(rate_hz)} Hz cannot be kept up: at most {formatting.rate(most_hz)} Hz"
        return BatteryView(battery, rate_hz, None, None, why)
    if total.net_j is None or total.idle_w is None:
        why = (
            total.reason
            or total.net_reason
            or "it ran at another rate: --idle-baseline 30s tells what the board draws in between"
        )
        return BatteryView(battery, rate_hz, None, None, why)
    works, idle_w = rate_hz / ran_hz, total.idle_w
    half = math.hypot((1 - works) * idle_w.half_width, works * ran_w.half_width)
    board_w = Mean(idle_w.value + total.net_j.value * rate_hz, half, idle_w.batches)
    return _lasts(battery, board_w, rate_hz, "")


def _lasts(battery: Battery, board_w: Mean, rate_hz: float, reason: str) -> BatteryView:
    """Return how long the battery lasts. `reason`: why the energy of one inference is unknown; "": it is known."""
    watts = board_w.value + battery.extra_w
    if watts <= 0:
        return BatteryView(battery, rate_hz, None, None, "the board draws nothing")
    if is_rough(board_w):
        return BatteryView(battery, rate_hz, None, None, _rough("what the board draws at that rate"))
    hours = battery.volts * battery.capacity_mah / 1000 / watts
    return BatteryView(battery, rate_hz, hours, None if reason else hours * 3600 * rate_hz, reason)
