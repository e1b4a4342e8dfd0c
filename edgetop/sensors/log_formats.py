"""The formats of power logs: PPK2, Monsoon, NVIDIA's tegrastats, or a CSV with named columns.

PPK2: nRF Connect's power profiler (pc-nrfconnect-ppk, src/actions/exportChartAction.ts):
`Timestamp(ms),Current(uA)` and, as chosen, digital channels. It has no voltage.
Monsoon: PyMonsoon (Monsoon/sampleEngine.py): `Time(ms),Main(mA),...,Main Voltage(V),` with a
comma at the end of every line. Its time is in seconds, whatever the header says
(time.time() less the start), and with NumPy 2 its values are printed as `np.float64(812.3)`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

TEGRASTATS = "tegrastats"
INTERVAL_S = 1.0  # from one line of tegrastats to the next, where nothing else is given (--interval 1000)
FORMATS = ("ppk2", "monsoon", "csv", TEGRASTATS)

_SCALES = {
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "w": 1.0, "mw": 1e-3, "uw": 1e-6,
    "a": 1.0, "ma": 1e-3, "ua": 1e-6, "v": 1.0, "mv": 1e-3,
}  # fmt: skip
_QUANTITY = {"s": "time", "w": "power", "a": "current", "v": "voltage"}
_NAMES = {
    "time": ("time", "timestamp", "t", "elapsed"),
    "power": ("power", "p", "watts"),
    "current": ("current", "i", "amps", "amperes"),
    "voltage": ("voltage", "v", "u", "volts"),
}
_COLUMN = re.compile(r"([a-z]+)[ _]*[(\[_ ]\s*([mu]?[swav])\s*[)\]]?")
_NUMPY = re.compile(r"np\.float(?:64|32)\((.*)\)")


@dataclass(frozen=True, slots=True)
class Column:
    place: int
    scale: float  # to s, W, A or V


class Layout(Protocol):
    """Reads the rows of one log, which must be given in their order."""

    @property
    def has_head(self) -> bool:
        """Whether the first line only names the columns."""

    def sample(self, line: str) -> tuple[float, float] | None:
        """Seconds of the log and watts; None of a row that does not hold both as finite numbers."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of time and power in a row."""

    time: Column
    power: Column | None  # None: current times voltage
    current: Column | None
    voltage: Column | None  # None: `volts`
    volts: float | None
    has_head: bool = True

    def sample(self, line: str) -> tuple[float, float] | None:
        cells = line.split(",")
        if "(" in line or "_" in line:
            cells = [_plain(cell) for cell in cells]
        try:
            seconds = float(cells[self.time.place]) * self.time.scale
            watts = self._watts(cells)
        except (ValueError, IndexError):
            return None
        is_finite = abs(seconds) < 1e12 and abs(watts) < 1e6  # false for what is not a number, too
        return (seconds, watts) if is_finite else None

    def _watts(self, cells: Sequence[str]) -> float:
        if self.power is not None:
            return float(cells[self.power.place]) * self.power.scale
        assert self.current is not None
        amperes = float(cells[self.current.place]) * self.current.scale
        if self.voltage is not None:
            return amperes * float(cells[self.voltage.place]) * self.voltage.scale
        assert self.volts is not None
        return amperes * self.volts


def _plain(cell: str) -> str:
    """
    >>> _plain("np.float64(812.3)"), _plain("1_0")
    ('812.3', '')
    """
    match = _NUMPY.fullmatch(cell.strip())
    text = match[1] if match else cell
    return "" if "_" in text else text  # Python's notation, which is in nobody's log


def layout(log_format: str, header: str, volts: float | None, interval_s: float = INTERVAL_S) -> Layout:
    """Return the layout of a log by its first line.

    `volts` stands in for voltages, `interval_s` for times that tegrastats leaves out.
    Raises ValueError saying what the header lacks.
    """
    if log_format == TEGRASTATS:
        from edgetop.sensors.tegrastats import power_log  # noqa: PLC0415  --help needs none of it

        return power_log(header, volts, interval_s)
    return _LAYOUTS[log_format]([name.strip().lower() for name in header.lstrip("\ufeff").split(",")], volts)


def _ppk2(names: Sequence[str], volts: float | None) -> Columns:
    time, current = _at(names, "timestamp(ms)", 1e-3), _at(names, "current(ua)", 1e-6)
    if volts is None:
        raise ValueError("a PPK2 log has no voltage: say it with --power-volts")
    return Columns(time, None, current, None, volts)


def _monsoon(names: Sequence[str], volts: float | None) -> Columns:
    current = _at(names, "main(ma)", 1e-3)
    voltage = _at(names, "main voltage(v)", 1.0) if volts is None else None
    seconds = next((i for i, name in enumerate(names) if name in ("time(ms)", "time(s)")), None)
    if seconds is None:
        raise ValueError("no column Time(ms) or Time(s) in its first line")
    return Columns(Column(seconds, 1.0), None, current, voltage, volts)


def _csv(names: Sequence[str], volts: float | None) -> Columns:
    found: dict[str, Column] = {}
    for place, name in enumerate(names):
        match = _COLUMN.fullmatch(name)
        quantity = _QUANTITY[match[2][-1]] if match else ""
        if match and match[1] in _NAMES[quantity] and quantity not in found:
            found[quantity] = Column(place, _SCALES[match[2]])
    time, power, current, voltage = (found.get(key) for key in ("time", "power", "current", "voltage"))
    if time is None:
        raise ValueError("no column of time in its first line: name it time_s or time_ms")
    if power is None and current is None:
        raise ValueError("no column of power or current in its first line: name it power_w, power_mw or current_ma")
    if power is None and voltage is None and volts is None:
        raise ValueError("it has current and no voltage: add a column voltage_v, or say it with --power-volts")
    return Columns(time, power, current, voltage if volts is None else None, volts)


_LAYOUTS: dict[str, Callable[[Sequence[str], float | None], Columns]] = {
    "ppk2": _ppk2,
    "monsoon": _monsoon,
    "csv": _csv,
}


def _at(names: Sequence[str], wanted: str, scale: float) -> Column:
    if wanted not in names:
        raise ValueError(f"no column {wanted} in its first line")
    return Column(names.index(wanted), scale)
