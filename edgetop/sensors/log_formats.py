"""The formats of power logs: PPK2, Monsoon, NVIDIA's tegrastats, or a CSV file with named columns.

PPK2 (nRF Connect's power profiler, pc-nrfconnect-ppk, src/actions/exportChartAction.ts) has `Timestamp(ms),Current(uA)`
and optional digital channels, but no voltage. Monsoon (PyMonsoon, Monsoon/sampleEngine.py) has
`Time(ms),Main(mA),...,Main Voltage(V),` with a comma at the end of every line. Its time is in seconds although the
header says ms (time.time() less the start), and with NumPy 2 its values are printed as `np.float64(812.3)`.
"""

import re
from collections.abc import Callable, Sequence

TEGRASTATS = "tegrastats"
INTERVAL_S = 1.0  # default interval of tegrastats' lines (--interval 1000)
FORMATS = ("ppk2", "monsoon", "csv", TEGRASTATS)

_SCALES = {"": 1.0, "m": 1e-3, "u": 1e-6}
# Names of columns by unit.
_NAMES = {
    "s": ("time", "timestamp", "t", "elapsed"),
    "w": ("power", "p", "watts"),
    "a": ("current", "i", "amps", "amperes"),
    "v": ("voltage", "v", "u", "volts"),
}
_COLUMN = re.compile(r"([a-z]+)[ _]*[(\[_ ]\s*([mu]?)([swav])\s*[)\]]?")
_NUMPY = re.compile(r"np\.float(?:64|32)\((.*)\)")

Column = tuple[int, float]  # place in a row, and factor to s, W, A or V
# Takes a row and returns (seconds of the log, watts), or None unless both are finite numbers. Called in order of rows.
Sample = Callable[[str], tuple[float, float] | None]


def _columns(time: Column, factors: Sequence[Column], volts: float = 1.0) -> Sample:
    """Return a function that reads time and power from a row. The power is the product of `factors` and `volts`."""

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
        is_finite = abs(seconds) < 1e12 and abs(watts) < 1e6  # also false for NaN
        return (seconds, watts) if is_finite else None

    return sample


def _plain(cell: str) -> str:
    """Return a cell without NumPy's wrapper. A number with underscores, which only Python accepts, becomes "".

    >>> _plain("np.float64(812.3)"), _plain("1_0")
    ('812.3', '')
    """
    match = _NUMPY.fullmatch(cell.strip())
    text = match[1] if match else cell
    return "" if "_" in text else text


def columns_of(log_format: str, header: str, volts: float | None) -> Sample:
    """Return a function that reads the rows of a log with this first line.

    `volts` is used in place of the log's voltages. Raises ValueError, which says what the first line lacks.
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
