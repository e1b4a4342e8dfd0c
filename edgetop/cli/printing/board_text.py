"""The lines of the text report about the board: temperature, memory, power, and energy per inference."""

from collections.abc import Iterator

from edgetop import formatting
from edgetop.analysis.report_parts import CostFigures, EnergyFigures, PowerFigures, RailFigures
from edgetop.analysis.report_uncertainty import Uncertainty
from edgetop.analysis.session_report import Report
from edgetop.cli.printing.usage_text import program_memory
from edgetop.formatting import UNKNOWN, clean, or_unknown
from edgetop.wording.arena_words import arena_words
from edgetop.wording.energy_words import meter_name, meter_parts_words, meter_unknown_words, unknown_words


def heat_lines(report: Report) -> Iterator[str]:
    """Yield a line for each temperature sensor of the board, the hottest first."""
    zones = sorted(report.temperature.items(), key=lambda pair: -(pair[1].max or 0))
    for sensor, zone in zones:
        span = f"{_celsius(zone.min)} to {_celsius(zone.max)} °C"
        yield f"heat       {clean(sensor)} {span}, {_celsius(zone.end)} at the end"


def memory_lines(report: Report) -> Iterator[str]:
    memory, usage = report.memory, report.usage
    if report.session.watched and usage:
        yield f"memory     {program_memory(usage)}"
    else:
        yield f"memory     engine RSS {in_mib(memory.rss_end_mib)} at the end, {in_mib(memory.rss_peak_mib)} at most"
    if memory.growth_mib_per_h is not None and (interval := memory.growth_ci95_mib_per_h):
        word = "LEAKING" if memory.leak else "grows by"
        left = or_unknown(memory.hours_to_limit, lambda hours: formatting.duration(hours * 3600e9))
        full = "" if memory.hours_to_limit is None else f"; what is left lasts {left}"
        ends = f"(95 %: {interval[0]:.1f} to {interval[1]:.1f})"
        yield f"           {word} {memory.growth_mib_per_h:.1f} MiB/h {ends}{full}"
    if memory.accelerator_peak_mib is not None:
        yield f"           and {in_mib(memory.accelerator_peak_mib)} at most of GPU memory, which is not part of RSS"
    if memory.stages:
        stages = ", ".join(f"{clean(stage.stage)} {stage.rss_mib:.1f}" for stage in memory.stages)
        yield f"           by stage, MiB: {stages}"
    for stage in memory.stages or ():
        if stage.arena_mib is not None:
            yield f"           {arena_words(stage.arena_mib * 2**20, stage.arena_from)}"


def power_lines(power: PowerFigures) -> Iterator[str]:
    """Yield a line about the total power of the board.

    If no sensor measures the total power, yield a line for each rail (part of the board).
    """
    if power.total_sensor:
        yield f"power      {_watts(power, power.total_sensor)}"
        return
    for sensor, figures in power.rails.items():
        yield f"power      {_watts(figures, sensor)}; a part of the board"
    yield from _board_estimate(power)


def _watts(figures: PowerFigures | RailFigures, sensor: str) -> str:
    """Return the mean and the highest power of a sensor as text, and its peak if that is known.

    If the sensor's readings are means over some time, the text also says over how many seconds.
    """
    over = "" if figures.max_over_s is None else f" as a mean of {figures.max_over_s:.2g} s"
    peak = "" if figures.peak_w is None else f", peak {_in_w(figures.peak_w)} W"
    most = f"{UNKNOWN} at most" if figures.max_w is None else f"{_in_w(figures.max_w)} at most{over}{peak}"
    return f"{clean(sensor)} {_in_w(figures.mean_w)} W on average, {most} ({_accuracy(figures)})"


def _in_w(watts: float | None) -> str:
    return formatting.reading(watts, "W")


def _accuracy(figures: PowerFigures | RailFigures | EnergyFigures) -> str:
    return clean(figures.accuracy or "of unknown accuracy").replace("-", " ")


def _board_estimate(power: PowerFigures) -> Iterator[str]:
    if (board := power.board_estimate) and board.mean_w is not None:
        fit = ", fitted to other powers" if board.beyond_fit else ""
        about = f"about {_in_w(board.mean_w)} W ± {_in_w(board.residual_w)} W (one standard deviation)"
        yield f"           the whole board: {about}, an estimate from {clean(board.rail)}{fit}"


def energy_lines(report: Report) -> Iterator[str]:
    """Yield lines about the energy of an inference, or the reason why it is unknown.

    If no sensor measures the total power, yield the energy of each rail (part of the board).
    """
    energy, power, battery = report.energy, report.power, report.session.methodology.battery
    if report.ab or not (power.total_sensor or power.rails):  # one value for two variants would mean nothing
        return
    if energy.gross_mj is not None:
        yield from _gross(energy)
        if energy.net_mj is not None and power.idle_w is not None:
            yield from _net(energy, power.idle_w)
        elif energy.net_reason:
            yield f"           net energy not known: {unknown_words(energy.net_reason)}"
    elif energy.run_j is not None:
        yield f"energy     {formatting.plain(energy.run_j)} J in the whole run; accuracy: {_accuracy(energy)}"
    elif power.total_sensor:
        yield f"energy     not known: {unknown_words(energy.reason) or UNKNOWN}"
    for sensor, cost in energy.rails.items():
        if cost.gross_mj is not None and not power.total_sensor:
            yield f"energy     {clean(sensor)} {_cost(cost)}; a part of the board"
    if battery:
        yield f"battery    {battery.volts:g} V, {battery.capacity_mah:g} mAh: {_lasts(energy)}"


def _gross(energy: EnergyFigures) -> Iterator[str]:
    """Yield lines with the energy of an inference, its 95 % interval, and the errors of readings and meter, in mJ."""
    error = energy.uncertainty
    if error is None or error.total_mj is None:
        yield f"energy     {_cost(energy)}; 95 %, precision only; accuracy: {_accuracy(energy)}"
        if error and error.meter:
            yield f"           the error of the meter is not in it: {clean(meter_unknown_words(error.unknown))}"
        return
    gross, total = formatting.millijoules(energy.gross_mj or 0), formatting.millijoules(error.total_mj, 2)
    readings, meter = (formatting.millijoules(of or 0, 2) for of in (error.statistical_mj, error.meter_mj))
    yield f"energy     {gross} ± {total} mJ an inference; 95 %: readings {readings}, {_meter(error)} {meter}"
    yield f"           of the meter: {meter_parts_words(error)}"


def _net(energy: EnergyFigures, idle_w: float) -> Iterator[str]:
    """Yield a line with the net energy of an inference. `idle_w` is the power of the idle board in W."""
    error, net = energy.net_uncertainty, f"net of an idle board's {_in_w(idle_w)} W"
    if error is None or error.total_mj is None:
        yield f"           {formatting.millijoules(energy.net_mj or 0)} ± {_half(energy.net_ci95_mj)} mJ {net}"
        return
    half, readings, meter = (
        formatting.millijoules(of or 0, 2) for of in (error.total_mj, error.statistical_mj, error.meter_mj)
    )
    parts = f"readings {readings}, {_meter(error)} {meter}"
    yield f"           {formatting.millijoules(energy.net_mj or 0)} ± {half} mJ {net}; 95 %: {parts}"


def _meter(error: Uncertainty) -> str:
    return clean(meter_name(error.meter))


def _cost(cost: CostFigures) -> str:
    return f"{formatting.millijoules(cost.gross_mj or 0)} ± {_half(cost.ci95_mj)} mJ an inference"


def _half(interval: tuple[float, float] | None) -> str:
    return UNKNOWN if interval is None else formatting.millijoules((interval[1] - interval[0]) / 2, 2)


def _lasts(energy: EnergyFigures) -> str:
    if energy.hours_per_charge is None or energy.battery_rate_hz is None:
        return unknown_words(energy.battery_reason) or UNKNOWN
    inferences = energy.inferences_per_charge
    more = "" if inferences is None else f", {formatting.quantity(inferences, 'inference')}"
    return f"{energy.hours_per_charge:.1f} h at {formatting.rate(energy.battery_rate_hz)}/s{more}"


def _celsius(value: float | None) -> str:
    return or_unknown(value, "{:.1f}".format)


def in_mib(value: float | None) -> str:
    return or_unknown(value, "{:.1f} MiB".format)
