"""Power: the total and what it leaves out, its parts, and what to do where nothing tells."""

from collections.abc import Sequence
from functools import partial

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.blocks import Mean
from edgetop.analysis.power import BatteryView, CostView, RailView
from edgetop.formatting import UNKNOWN
from edgetop.ui.charts import bar
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.panes.sensor_series import Block, last, stacked, with_chart
from edgetop.ui.text import Column, Line, Piece, as_fits, line, table, wrapped

COLUMNS = (
    Column("rail", 16, right=False),
    Column("W", 7),
    Column("mean", 7),
    Column("max", 7),
    Column("by", 8, right=False),
    Column("", 12, right=False),
)
DETAIL_ROWS = 8  # of a pane that is alone, for the timeline of each rail
# Who measured, in a word: the whole name stands in the title.
BY = {"external-shunt": "shunt", "on-board-monitor": "monitor", "firmware-estimate": "estimate"}

ADVICE = (
    "wire an INA226 into the supply: edgetop run --i2c 1:0x40:ina226:0.002:5V-IN",
    "or give an instrument's log: edgetop run --power-log FILE --power-log-format ppk2 --power-volts 5V",
    "edgetop help power tells how",
)


def title(view: MonitorView, area: Area) -> str:
    leading, cost = view.power.leading, view.energy.leading
    if leading is None:
        return "no sensor"
    energy = f", {_mj(cost.gross_j)} mJ/inf" if cost and cost.gross_j else ""
    part = "" if view.power.total else ", a part of the board"
    return f"{last(view)}{_now(leading)} W{energy}   {_label(leading, area)}, {_accuracy(leading)}{part}"


def _label(rail: RailView, area: Area) -> str:
    return area.clean(rail.track.info.label)


def _accuracy(rail: RailView) -> str:
    return (rail.track.info.accuracy or "of unknown accuracy").replace("-", " ")


def one_line(view: MonitorView, area: Area) -> Line:
    power = view.power
    if power.leading is None:
        return as_fits(area.width, ("power    ", "dim"), (f"{UNKNOWN} no power sensor here: edgetop help power", "dim"))
    shown = [rail for rail in power.rails if rail is not power.leading]
    cost = view.energy.total
    return as_fits(
        area.width,
        ("power    ", "dim"),
        "" if power.total else "no total here, ",
        f"{last(view)}{_label(power.leading, area)} {_now(power.leading)} W",
        f" ({_accuracy(power.leading)})",
        f", mean {_watts(power.leading.mean_w)}",
        f", {_mj(cost.gross_j)} mJ/inf" if cost and cost.gross_j else "",
        *(f"  {_label(rail, area)} {_now(rail)}" for rail in shown),
    )


def _now(rail: RailView) -> str:
    return UNKNOWN if rail.track.is_lost else _watts(rail.track.value)


def _watts(value: float | None) -> str:
    return UNKNOWN if value is None else formatting.reading(value, "W")


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    power = view.power
    if power.leading is None:
        return _nothing(view, area)[: area.height]
    if view.sensor_series and area.height >= DETAIL_ROWS:
        return _detailed(view, area)
    return with_chart(view, power.points, "W", partial(_rows, view), area)


def _detailed(view: MonitorView, area: Area) -> list[Line]:
    """The pane alone: what an inference costs, and every rail with its own timeline, the total first."""
    power = view.power
    rails = [power.total, *power.rails] if power.total else list(power.rails)
    note = power.leading.track.info.note if power.leading else None
    said = wrapped(area.clean(note), area.width, "dim") if note else []
    cost = [*_energy(view, area), *said]
    blocks = [Block(_figures(rail, area), view.sensor_series.get(rail.track.info.id), "W") for rail in rails]
    sensor_series = stacked(view, blocks, area.resized(height=max(0, area.height - len(cost))))
    return [*cost, *sensor_series][: area.height]


def _figures(rail: RailView, area: Area) -> Line:
    name = f"{_label(rail, area):<{COLUMNS[0].cells}} "
    if rail.track.is_lost or rail.track.value is None:
        return line(name, (f"{UNKNOWN} {area.clean(rail.track.reason)}", "dim"))
    watts = f"  mean {_watts(rail.mean_w)}, max {_watts(rail.max_w)}{_peak(rail)}, {_accuracy(rail)}"
    return as_fits(area.width, name, f"{_watts(rail.track.value):>7} W", (watts, "dim"))


def _peak(rail: RailView) -> str:
    return "" if rail.peak_w is None else f" of means, peak {_watts(rail.peak_w)}"


def _nothing(view: MonitorView, area: Area) -> list[Line]:
    lines = wrapped(f"{UNKNOWN} no sensor here measures the board's power", area.width)
    for missing in view.missing:
        if "power" in missing.what:
            fix = f" ({missing.fix})" if missing.fix else ""
            text = area.clean(f"{missing.what}: {missing.why}{fix}")
            lines += wrapped(text, area.width, "dim")
    for advice in ADVICE:
        lines += wrapped(advice, area.width, "dim")
    return lines


def _rows(view: MonitorView, area: Area) -> list[Line]:
    """The total first, then its parts; what the leading one leaves out, where there is room to say it."""
    power = view.power
    rails = [power.total, *power.rails] if power.total else list(power.rails)
    lines = table(COLUMNS, [_cells(rail, power.total, area) for rail in rails], area.width)
    lines = [*lines, *_energy(view, area)][: area.height]
    note = power.leading.track.info.note if power.leading else None
    said = wrapped(area.clean(note), area.width, "dim") if note else []
    return [*lines, *said[: max(0, area.height - len(lines))]]


LABEL_CELLS = 12


def _energy(view: MonitorView, area: Area) -> list[Line]:
    """Return the energy of an inference on the leading rail, or why it is unknown, and the battery life."""
    cost, lines = view.energy.leading, []
    if cost:
        lines += _cost(cost, view.energy.total is cost, area)
    if view.energy.battery:
        text = f"{'battery':<{LABEL_CELLS}}{_lasts(view.energy.battery)}"
        lines += wrapped(text, area.width)
    return lines


def _cost(cost: CostView, is_total: bool, area: Area) -> list[Line]:
    label = f"{'energy':<{LABEL_CELLS}}"
    if cost.gross_j is None:
        return wrapped(f"{label}{UNKNOWN} {cost.reason}", area.width, "dim")
    whose = "" if is_total else " a part"
    gross = f"{_mj(cost.gross_j)} +-{_half(cost.gross_j)} mJ"
    accuracy = area.clean(_accuracy(cost.rail))
    said = (f" an inference{whose}", ("  95 %, precision only", "dim"), (f"; accuracy: {accuracy}", "dim"))
    lines = [as_fits(area.width, (label, "dim"), gross, *said)]
    if cost.net_j and cost.rail.idle:
        net = f"{_mj(cost.net_j)} +-{_half(cost.net_j)} mJ"
        idle = (f"  idle {_watts(cost.rail.idle.value)} W", "dim")
        lines.append(as_fits(area.width, (f"{'  net':<{LABEL_CELLS}}", "dim"), net, idle))
    elif cost.net_reason:
        lines += wrapped(f"{'  net':<{LABEL_CELLS}}{UNKNOWN} {cost.net_reason}", area.width, "dim")
    return lines


def _mj(mean: Mean) -> str:
    return formatting.millijoules(mean.value * 1e3)


def _half(mean: Mean) -> str:
    return formatting.millijoules(mean.half_width * 1e3, 2)


def _lasts(battery: BatteryView) -> str:
    if battery.hours is None or battery.rate_hz is None:
        return f"{UNKNOWN} {battery.reason}"
    inferences = "" if battery.inferences is None else f", {formatting.count(battery.inferences)} inferences"
    return f"{battery.hours:.1f} h at {formatting.rate(battery.rate_hz)}/s{inferences}"


def _cells(rail: RailView, total: RailView | None, area: Area) -> list[Piece]:
    name, by = _label(rail, area), BY.get(rail.track.info.accuracy or "", UNKNOWN)
    if rail.track.is_lost or rail.track.value is None:
        reason = area.clean(rail.track.reason)
        return [(name, "dim"), UNKNOWN, _watts(rail.mean_w), _watts(rail.max_w), (reason, "dim")]
    figures = [_watts(value) for value in (rail.track.value, rail.mean_w, rail.max_w)]
    return [name, *figures, (by, "dim"), (_share(rail, total, area), "graph")]


def _share(rail: RailView, total: RailView | None, area: Area) -> str:
    """Draw a rail's present share of the total power as a bar; "" for the total itself, and where it is unknown."""
    whole = total.track.value if total and not total.track.is_lost else None
    if rail is total or not whole or rail.track.value is None:
        return ""
    return bar(rail.track.value / whole, COLUMNS[-1].cells, area.characters)


POWER = Drawing("power", title, body, line=one_line, details=("power",), unit="W")
