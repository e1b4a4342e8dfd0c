"""The formats of power logs: PPK2, Monsoon, NVIDIA's tegrastats, or a CSV file with named columns.

PPK2 (nRF Connect's power profiler, pc-nrfconnect-ppk, src/actions/exportChartAction.ts) has `Timestamp(ms),Current(uA)`
and optional digital channels, but no voltage. Monsoon (PyMonsoon, Monsoon/sampleEngine.py) has
`Time(ms),Main(mA),...,Main Voltage(V),` with a comma at the end of every line. Its time is in seconds although the
header says ms (time.time() less the start), and with NumPy 2 its values are printed as `np.float64(812.3)`.

Cells are separated by commas, semicolons, tabs or blanks; the first line shows which (`edgetop.captured_text`).
"""

import math
import re
from collections.abc import Callable, Sequence

from edgetop.captured_text import Separators, separators_of

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
Column = tuple[int, float]  # place in a row, and factor to s, W, A or V
# Takes a row and returns (seconds of the log, watts), or None unless both are finite numbers. Called in order of rows.
Sample = Callable[[str], tuple[float, float] | None]


# Rows with the same time from which a log's clock stands still. The rows of a packet of PyMonsoon share their time, and
# those of a millisecond where it is the resolution: 100 at the 100,000 samples a second of a PPK2.
STILL_ROWS = 200


def still_words(seconds: float, since: int, row: int) -> str:
    """Return a sentence which says that a log's time does not advance from row `since` to row `row`.

    `seconds` is the time in s that all these rows have.
    """
    return f"its time stands still: {seconds:g} s from row {since} to row {row}"


def _columns(separators: Separators, time: Column, factors: Sequence[Column], volts: float = 1.0) -> Sample:
    """Return a function that takes a row of a log and returns `(time in s, power in W)`.

    The function returns None for a row that lacks the time or the power. `time` and the elements of `factors` are
    pairs: a column's position (from 0), and the number that converts the column's values to s, W, A or V. The power is
    the product of all columns in `factors`, multiplied by `volts`. `separators` splits a row into cells. The function
    raises ValueError if the log's time stands still.
    """
    is_plain = separators.cell == ","
    before_s, row, since = math.nan, 1, 1  # the last row's time; its number in the file; the first row of that time

    def sample(line: str) -> tuple[float, float] | None:
        nonlocal before_s, row, since
        row += 1
        try:
            if is_plain and not ("(" in line or "_" in line or '"' in line):
                cells = line.split(",")
                seconds, watts = float(cells[time[0]]) * time[1], 1.0
                for place, scale in factors:
                    watts = watts * float(cells[place]) * scale
            else:
                cells = separators.cells(line)
                seconds, watts = separators.number(cells[time[0]]) * time[1], 1.0
                for place, scale in factors:
                    watts = watts * separators.number(cells[place]) * scale
        except (ValueError, IndexError):
            return None
        watts *= volts
        if not (abs(seconds) < 1e12 and abs(watts) < 1e6):  # also false for NaN
            return None
        if seconds != before_s:
            before_s, since = seconds, row
        elif row - since >= STILL_ROWS:
            raise ValueError(still_words(seconds, since, row))
        return seconds, watts

    return sample


def columns_of(log_format: str, header: str, volts: float | None) -> Sample:
    """Return a function that takes a row of a log and returns `(time in s, power in W)`.

    The function returns None for a row that lacks the time or the power. `log_format` is "ppk2", "monsoon" or "csv".
    `header` is the log's first line, with the names of the columns. If `volts` is not None, it replaces the log's
    voltages. Raises ValueError with a message that says which column is lacking.
    """
    plain = header.lstrip("\ufeff")
    separators = separators_of(plain)
    names = [name.lower() for name in separators.cells(plain)]
    time, factors, constant = _LAYOUTS[log_format](names, volts)
    return _columns(separators, time, factors, constant)


# The column of the time, those whose product is the power, and a constant factor.
_Layout = tuple[Column, Sequence[Column], float]


def _ppk2(names: Sequence[str], volts: float | None) -> _Layout:
    time, current = _at(names, "timestamp(ms)", 1e-3), _at(names, "current(ua)", 1e-6)
    if volts is None:
        raise ValueError("a PPK2 log has no voltage: say it with --power-volts")
    return time, [current], volts


def _monsoon(names: Sequence[str], volts: float | None) -> _Layout:
    factors = [_at(names, "main(ma)", 1e-3), *([_at(names, "main voltage(v)", 1.0)] if volts is None else [])]
    seconds = next((i for i, name in enumerate(names) if name in ("time(ms)", "time(s)")), None)
    if seconds is None:
        raise ValueError("no column Time(ms) or Time(s) in its first line")
    return (seconds, 1.0), factors, 1.0 if volts is None else volts


def _csv(names: Sequence[str], volts: float | None) -> _Layout:
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
        return time, [power] if power is not None else [column for column in (current, voltage) if column], 1.0
    return time, [current] if current else [], volts


_LAYOUTS = {"ppk2": _ppk2, "monsoon": _monsoon, "csv": _csv}


def layout_of(log_format: str, names: Sequence[str], volts: float | None) -> _Layout:
    """Return `(time, factors, constant)`, which say how a row gives its time in s and its power in W.

    `time` and the elements of `factors` are pairs: a column's position (from 0), and the number that converts the
    column's values to s, W, A or V. The power is the product of all columns in `factors`, multiplied by `constant`.

    `log_format` is "ppk2", "monsoon" or "csv". `names` are the columns' names in lower case. If `volts` is not None, it
    replaces the log's voltages. Raises ValueError with a message that says which column is lacking.

    >>> layout_of("csv", ["time_ms", "power_mw"], None)
    ((0, 0.001), [(1, 0.001)], 1.0)
    """
    return _LAYOUTS[log_format](names, volts)


def _at(names: Sequence[str], wanted: str, scale: float) -> Column:
    if wanted not in names:
        raise ValueError(f"no column {wanted} in its first line")
    return names.index(wanted), scale
