"""The formats of power logs: PPK2, Monsoon, NVIDIA's tegrastats, or a CSV with named columns.

PPK2: nRF Connect's power profiler (pc-nrfconnect-ppk, src/actions/exportChartAction.ts):
`Timestamp(ms),Current(uA)` and, as chosen, digital channels. It has no voltage.
Monsoon: PyMonsoon (Monsoon/sampleEngine.py): `Time(ms),Main(mA),...,Main Voltage(V),` with a
comma at the end of every line. Its time is in seconds, whatever the header says
(time.time() less the start), and with NumPy 2 its values are printed as `np.float64(812.3)`.
"""

import re
from collections.abc import Callable, Sequence

TEGRASTATS = "tegrastats"
INTERVAL_S = 1.0  # from one line of tegrastats to the next, where nothing else is given (--interval 1000)
FORMATS = ("ppk2", "monsoon", "csv", TEGRASTATS)

_SCALES = {"": 1.0, "m": 1e-3, "u": 1e-6}
# What a column is called, by its unit.
_NAMES = {
    "s": ("time", "timestamp", "t", "elapsed"),
    "w": ("power", "p", "watts"),
    "a": ("current", "i", "amps", "amperes"),
    "v": ("voltage", "v", "u", "volts"),
}
_COLUMN = re.compile(r"([a-z]+)[ _]*[(\[_ ]\s*([mu]?)([swav])\s*[)\]]?")
_NUMPY = re.compile(r"np\.float(?:64|32)\((.*)\)")

Column = tuple[int, float]  # the place in a row, and the factor to s, W, A or V
# Seconds of the log and watts of a row; None where it does not hold both as finite numbers. Rows come in their order.
Sample = Callable[[str], tuple[float, float] | None]


def _columns(time: Column, factors: Sequence[Column], volts: float = 1.0) -> Sample:
    """`factors`: their product is the power; with `volts`, the current."""

    def sample(line: str) -> tuple[float, float] | None:
        cells = line.split(",")
        if "(" in line or "_" in line:
            cells = [_plain(cell) for cell in cells]
        try:
            seconds, watts = float(cells[time[0]]) * time[1], 1.0
            for place, scale in factors:
                watts = watts * float(cells[place]) * scale
        except (ValueError, IndexError):
            return None
        watts *= volts
        is_finite = abs(seconds) < 1e12 and abs(watts) < 1e6  # false for what is not a number, too
        return (seconds, watts) if is_finite else None

    return sample


def _plain(cell: str) -> str:
    """
    >>> _plain("np.float64(812.3)"), _plain("1_0")
    ('812.3', '')
    """
    match = _NUMPY.fullmatch(cell.strip())
    text = match[1] if match else cell
    return "" if "_" in text else text  # Python's notation, which is in nobody's log


def columns_of(log_format: str, header: str, volts: float | None) -> Sample:
    """Return the reader of a log's rows by its first line. `volts` stands in for voltages.

    Raises ValueError saying what the header lacks.
    """
    return _LAYOUTS[log_format]([name.strip().lower() for name in header.lstrip("\ufeff").split(",")], volts)


def _ppk2(names: Sequence[str], volts: float | None) -> Sample:
    time, current = _at(names, "timestamp(ms)", 1e-3), _at(names, "current(ua)", 1e-6)
    if volts is None:
        raise ValueError("a PPK2 log has no voltage: say it with --power-volts")
    return _columns(time, [current], volts)


def _monsoon(names: Sequence[str], volts: float | None) -> Sample:
    factors = [_at(names, "main(ma)", 1e-3), *([_at(names, "main voltage(v)", 1.0)] if volts is None else [])]
    seconds = next((i for i, name in enumerate(names) if name in ("time(ms)", "time(s)")), None)
    if seconds is None:
        raise ValueError("no column Time(ms) or Time(s) in its first line")
    return _columns((seconds, 1.0), factors, 1.0 if volts is None else volts)


def _csv(names: Sequence[str], volts: float | None) -> Sample:
    found: dict[str, Column] = {}
    for place, name in enumerate(names):
        if (match := _COLUMN.fullmatch(name)) and match[1] in _NAMES[match[3]]:
            found.setdefault(match[3], (place, _SCALES[match[2]]))
    time, power, current, voltage = (found.get(unit) for unit in "swav")
    if time is None:
        raise ValueError("no column of time in its first line: name it time_s or time_ms")
    if power is None and current is None:
        raise ValueError("no column of power or current in its first line: name it power_w, power_mw or current_ma")
    if power is None and voltage is None and volts is None:
        raise ValueError("it has current and no voltage: add a column voltage_v, or say it with --power-volts")
    if power is not None or volts is None:
        return _columns(time, [power] if power is not None else [column for column in (current, voltage) if column])
    return _columns(time, [current] if current else [], volts)


_LAYOUTS = {"ppk2": _ppk2, "monsoon": _monsoon, "csv": _csv}


def _at(names: Sequence[str], wanted: str, scale: float) -> Column:
    if wanted not in names:
        raise ValueError(f"no column {wanted} in its first line")
    return names.index(wanted), scale
