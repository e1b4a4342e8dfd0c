"""The power pane: the power of the board and of its parts, or advice if there is no power sensor."""

import math
from collections.abc import Sequence
from functools import partial

from edgetop import formatting
from edgetop.analysis.analysis import MonitorView
from edgetop.analysis.blocks import Mean
from edgetop.analysis.energy import BatteryView, CostView, RailView
from edgetop.analysis.meter_errors import BoardEstimate, MeterError, MeterUnknown
from edgetop.formatting import UNKNOWN, reading
from edgetop.ui.charts import bar
from edgetop.ui.panes.pane import Area, Drawing
from edgetop.ui.panes.sensor_series import Block, last, stacked, with_chart
from edgetop.ui.text import Column, Line, Piece, as_fits, line, table, wrapped
from edgetop.wording.energy_words import meter_name, unknown_words
from edgetop.wording.sensor_words import missing_words, no_reading_words

COLUMNS = (
    Column("rail", 16, right=False), Column("W", 7), Column("mean", 7), Column("max", 7),
    Column("by", 8, right=False), Column("", 12, right=False),
)  # fmt: skip
LABEL_CELLS = 12
DETAIL_ROWS = 8  # from this height on, a pane that is alone shows a timeline per rail
# Short names of the kinds of accuracy; the title has the whole name.
BY = {"external-shunt": "shunt", "on-board-monitor": "monitor", "firmware-estimate": "estimate"}

ADVICE = (
    "wire an INA226 into the supply: edgetop run --i2c 1:0x40:ina226:0.002:5V-IN",
    "or read the log of an instrument: edgetop run --power-log FILE --power-log-format ppk2 --power-volts 5V",
    "see edgetop help power",
)

_watts = partial(reading, unit="W")


def title(view: MonitorView, area: Area) -> str:
    leading, cost = view.power.leading, view.energy.leading
    if leading is None:
        return "no sensor"
    energy = f", {_mj(cost.gross_j)} mJ/inf" if cost and cost.gross_j else ""
    part = "" if view.power.total else ", a part of the board"
    label = area.clean(leading.track.info.label)
    return f"{last(view)}{_watts(leading.track.now)} W{energy}   {label}, {_accuracy(leading)}{part}"


def _accuracy(rail: RailView) -> str:
    return (rail.track.info.accuracy or "of unknown accuracy").replace("-", " ")


def one_line(view: MonitorView, area: Area) -> Line:
    power = view.power
    if power.leading is None:
        return as_fits(area.width, ("power    ", "dim"), (f"{UNKNOWN} no power sensor here: edgetop help power", "dim"))
    shown = [rail.track for rail in power.rails if rail is not power.leading]
    leading, cost = power.leading.track, view.energy.total
    return as_fits(
        area.width,
        ("power    ", "dim"),
        "" if power.total else "no total here, ",
        f"{last(view)}{area.clean(leading.info.label)} {_watts(leading.now)} W",
        f" ({_accuracy(power.leading)})",
        f", mean {_watts(power.leading.mean_w)}",
        f", {_mj(cost.gross_j)} mJ/inf" if cost and cost.gross_j else "",
        *(f"  {area.clean(track.info.label)} {_watts(track.now)}" for track in shown),
    )


def body(view: MonitorView, area: Area) -> Sequence[Line]:
    """Return the lines of the pane: the total power, its parts, and the energy of an inference.

    If there is room, a note says what the total leaves out.
    """
    power = view.power
    if power.leading is None:
        return _nothing(view, area)[: area.height]
    rails = [power.total, *power.rails] if power.total else list(power.rails)
    note = power.leading.track.info.note

    def said(room: Area) -> list[Line]:
        return wrapped(room.clean(note), room.width, "dim") if note else []

    def rows(room: Area) -> list[Line]:
        lines = table(COLUMNS, [_cells(rail, power.total, room) for rail in rails], room.width)
        lines = [*lines, *_energy(view, room)][: room.height]
        return [*lines, *said(room)[: max(0, room.height - len(lines))]]

    if view.sensor_series and area.height >= DETAIL_ROWS:  # the pane alone: every rail with its own timeline
        blocks = [Block(_figures(rail, area), view.sensor_series.get(rail.track.info.id), "W") for rail in rails]
        return stacked(view, blocks, area, [*_energy(view, area), *said(area)])
    return with_chart(view, power.points, "W", rows, area)


def _figures(rail: RailView, area: Area) -> Line:
    name = f"{area.clean(rail.track.info.label):<{COLUMNS[0].cells}} "
    if rail.track.now is None:
        return line(name, (f"{UNKNOWN} {area.clean(no_reading_words(rail.track))}", "dim"))
    peak = "" if rail.peak_w is None else f" of means, peak {_watts(rail.peak_w)}"
    watts = f"  mean {_watts(rail.mean_w)}, max {_watts(rail.max_w)}{peak}, {_accuracy(rail)}"
    return as_fits(area.width, name, f"{_watts(rail.track.now):>7} W", (watts, "dim"))


def _nothing(view: MonitorView, area: Area) -> list[Line]:
    why = [area.clean(missing_words(missing)) for missing in view.missing if "power" in missing.what]
    lines = wrapped(f"{UNKNOWN} no sensor measures the power of this board", area.width)
    return [*lines, *(row for text in (*why, *ADVICE) for row in wrapped(text, area.width, "dim"))]


def _energy(view: MonitorView, area: Area) -> list[Line]:
    """Return lines on the energy of an inference, or why it is unknown, and on how long the battery lasts."""
    cost, battery = view.energy.leading, view.energy.battery
    lines = _cost(cost, view.energy.total is cost, area) if cost else []
    return [*lines, *wrapped(f"{'battery':<{LABEL_CELLS}}{_lasts(battery)}", area.width)] if battery else lines


def _cost(cost: CostView, is_total: bool, area: Area) -> list[Line]:
    label, board = f"{'energy':<{LABEL_CELLS}}", cost.rail.board
    about = f"{'  board':<{LABEL_CELLS}}{_board_words(board)}" if board else ""
    estimate = wrapped(about, area.width, "dim") if board else []
    if cost.gross_j is None:
        return [*wrapped(f"{label}{UNKNOWN} {unknown_words(cost.reason)}", area.width, "dim"), *estimate]
    whose = "" if is_total else " a part"
    meter = cost.rail.meter
    half = _whole_half(cost.gross_j, meter, cost.rate_hz)
    if isinstance(meter, MeterError) and cost.rate_hz:
        meter_mj = meter.total_w / cost.rate_hz * 1e3
        name = area.clean(meter_name(meter.meter.kind))
        parts = f"readings {_half(cost.gross_j)}, {name} {formatting.millijoules(meter_mj, 2)}"
        said = [f"  95 %: {parts}"]
    else:
        accuracy = area.clean(_accuracy(cost.rail))
        said = ["  95 %, precision only", f"; accuracy: {accuracy}"]
    pieces: list[Piece] = [f" an inference{whose}", *((text, "dim") for text in said)]
    lines = [as_fits(area.width, (label, "dim"), f"{_mj(cost.gross_j)} +-{half} mJ", *pieces)]
    if cost.net_j and cost.rail.idle:
        net = f"{_mj(cost.net_j)} +-{_whole_half(cost.net_j, cost.rail.meter_net, cost.rate_hz)} mJ"
        idle = (f"  idle {_watts(cost.rail.idle.value)} W", "dim")
        lines.append(as_fits(area.width, (f"{'  net':<{LABEL_CELLS}}", "dim"), net, idle))
    elif cost.net_reason:
        lines += wrapped(f"{'  net':<{LABEL_CELLS}}{UNKNOWN} {unknown_words(cost.net_reason)}", area.width, "dim")
    return [*lines, *estimate]


def _board_words(board: BoardEstimate) -> str:
    beyond = ", fitted to other powers" if board.is_beyond else ""
    return f"about {_watts(board.watts)} W +-{_watts(board.residual_w)} (one sd), estimated from this sum{beyond}"


def _mj(mean: Mean) -> str:
    return formatting.millijoules(mean.value * 1e3)


def _half(mean: Mean) -> str:
    return formatting.millijoules(mean.half_width * 1e3, 2)


def _whole_half(mean: Mean, meter: MeterError | MeterUnknown, rate_hz: float | None) -> str:
    """Return half the width of the 95 % interval of an energy, as a text in mJ.

    `mean` is the energy of an inference in J. `meter` is the error of the power meter in W, and `rate_hz` is the number
    of inferences per second. If one of these two is unknown, the interval leaves out the meter's error.
    """
    if not isinstance(meter, MeterError) or not rate_hz:
        return _half(mean)
    return formatting.millijoules(math.hypot(mean.half_width, meter.total_w / rate_hz) * 1e3, 2)


def _lasts(battery: BatteryView) -> str:
    if battery.hours is None or battery.rate_hz is None:
        return f"{UNKNOWN} {unknown_words(battery.reason)}"
    inferences = "" if battery.inferences is None else f", {formatting.quantity(battery.inferences, 'inference')}"
    return f"{battery.hours:.1f} h at {formatting.rate(battery.rate_hz)}/s{inferences}"


def _cells(rail: RailView, total: RailView | None, area: Area) -> list[Piece]:
    """Return the cells of a row of the table. The last cell is a bar: the share of `total` that the rail takes.

    A rail is a supply line with a power sensor. `total` is the rail of the whole board, or None. The row of `total` has
    no bar.
    """
    name, by = area.clean(rail.track.info.label), BY.get(rail.track.info.accuracy or "", UNKNOWN)
    figures = [_watts(value) for value in (rail.track.now, rail.mean_w, rail.max_w)]
    if rail.track.now is None:
        return [(name, "dim"), *figures, (area.clean(no_reading_words(rail.track)), "dim")]
    whole = total.track.now if total and total is not rail else None
    share = bar(rail.track.now / whole, COLUMNS[-1].cells, area.characters) if whole else ""
    return [name, *figures, (by, "dim"), (share, "graph")]


POWER = Drawing("power", title, body, line=one_line, details=("power",), unit="W", parts=("power",))
