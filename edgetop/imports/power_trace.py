"""Read the log of a fast power meter: PPK2, Monsoon, Joulescope, Otii, or an oscilloscope, at up to 100 kHz.

A log may have billions of rows, so it is read in pieces. `edgetop.sensors.log_formats` describes the logs of PPK2 and
Monsoon. The logs of the other instruments begin with lines about the instrument. Their header is the first line that
names a time and a current, a voltage or a power. A line of units may follow the header.
"""

import contextlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgetop.captured_text import LeftOut, Separators, encoding_of, separators_of, whole_lines
from edgetop.files import open_regular
from edgetop.frozen import frozen
from edgetop.recording.csv_numbers import Flag, SkippedRows, number_columns
from edgetop.sensors.log_formats import STILL_ROWS, layout_of, still_words

Floats = npt.NDArray[np.float64]

NAMED = ("ppk2", "monsoon", "csv")  # formats of `--power-log`
LOOSE = ("joulescope", "otii", "oscilloscope")
FORMATS = (*NAMED, *LOOSE)
HEAD_BYTES = 64 * 1024
HEAD_LINES = 60
MOST_CELLS = 200
HIGH = 0.5  # A digital marker is 0 or 1.
ALL_SIGNALS = "d0-d7"  # column of a PPK2 with a character for each digital signal (exportChartAction.ts)

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "a": 1.0, "ma": 1e-3, "ua": 1e-6, "v": 1.0, "mv": 1e-3,
          "w": 1.0, "mw": 1e-3, "uw": 1e-6}  # fmt: skip
_COMMENT = re.compile(r"^#\s*(?:header\s*=)?\s*")
_UNIT = re.compile(r"[(\[]\s*([a-zµ]{1,2})\s*[)\]]|_([a-z]{1,2})$")  # as in `current (ma)` and `current_ma`
_TIME_UNITS = {"second": 1.0, "seconds": 1.0, "sec": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_WORDS = {
    "time": ("time", "second", "x-axis", "x"),
    "current": ("current",),
    "voltage": ("voltage",),
    "power": ("power",),
}


@frozen
class Scale:
    """One column of an oscilloscope's log, with the factor that turns its values into A, V or W."""

    name: str
    factor: float


@frozen
class TraceSpec:
    """The log of one power meter, as the user describes it on the command line."""

    path: Path
    format: str
    volts: float | None = None  # voltage of the supply if the log has none, or to replace the log's
    columns: Mapping[str, Scale] | None = None  # by quantity: "current", "voltage" or "power"
    marker: str | None = None  # name of a digital column


@frozen
class _Layout:
    encoding: str
    begin: int  # byte of the first row
    width: int
    separators: Separators
    header: int  # number of the line that names the columns, from 1
    time: tuple[int, float]
    begin_s: float  # added to the time of each row
    factors: Sequence[tuple[int, float]]
    constant: float
    marker: Flag | None


@frozen
class Piece:
    """Successive samples of a power log: their times in s on the log's own clock, and their power in W.

    `marked` says for each sample whether the digital marker was set. It is None if the log has no marker.
    """

    t_s: Floats
    watts: Floats
    marked: npt.NDArray[np.bool_] | None = None


class PowerTrace:
    """The log of one power meter, which can be read several times."""

    def __init__(self, spec: TraceSpec) -> None:
        """Read the beginning of the log, to find its columns. `spec` is the user's description of the log.

        Raises OSError, or ValueError with a message that says what the log lacks.
        """
        self._spec = spec
        self._layout = _find_layout(spec)
        self.notes: tuple[str, ...] = ()  # what the last complete `pieces` left out

    @property
    def has_marker(self) -> bool:
        return self._layout.marker is not None

    @property
    def reversing(self) -> str:
        """The option of `edgetop trace` that reverses the sign of the power, such as `--current-column 2:-0.001`."""
        factors, constant = self._layout.factors, self._layout.constant
        place, factor = factors[0]
        quantity = "power" if len(factors) == 1 and constant != self._spec.volts else "current"
        return f"--{quantity}-column {place + 1}:{-factor:g}"

    def pieces(self) -> Iterator[Piece]:
        """Yield all samples of the log, in pieces of successive rows.

        Rows without a number, with an impossible power, or with a time before an earlier row's time are left out. When
        all is read, `notes` says how many. Rows with the same time are spread evenly up to the next time. Raises
        OSError, or ValueError if too many successive rows have the same time.
        """
        layout, skipped, back, used = self._layout, SkippedRows(), SkippedRows(), 0
        places = [layout.time[0], *(place for place, _ in layout.factors)]
        newest_s, still = -np.inf, _Still(layout.header)
        for columns in number_columns(
            self._spec.path, layout.begin, layout.width, places, skipped, encoding=layout.encoding,
            separator=layout.separators.cell or " ", has_comma=layout.separators.has_comma,
            flag=layout.marker,
        ):  # fmt: skip
            t_s = columns[0] * layout.time[1] + layout.begin_s
            watts = np.full(len(columns[0]), layout.constant)
            for values, (_, factor) in zip(columns[1:], layout.factors, strict=False):
                watts = watts * (values * factor)
            highest = np.maximum.accumulate(np.where(np.isfinite(t_s), t_s, -np.inf))
            known = (np.abs(watts) < 1e6) & (np.abs(t_s) < 1e12) & (t_s >= highest) & (t_s >= newest_s)
            if len(unused := np.flatnonzero(~known)):
                back.add(len(unused), f"{columns[0][unused[0]]:g}")
            still.add(t_s[known])
            used += int(known.sum())
            known &= t_s > newest_s
            if not known.any():
                continue
            newest_s = float(t_s[known][-1])
            marked = columns[-1][known] > HIGH if layout.marker is not None else None
            yield Piece(_spread(t_s[known]), watts[known], marked)
        total = used + skipped.count + back.count
        left = [
            LeftOut(rows.count, total, "rows", f"left out, {why}", rows.first)
            for rows, why in ((skipped, "without numbers"), (back, "whose time goes back or whose power cannot be"))
        ]
        self.notes = tuple(one.words for one in left if one.count)


class _Still:
    """Raises an error if too many successive rows of a log have the same time.

    `row` is the line number of the log's header, from which rows are numbered.
    """

    def __init__(self, row: int) -> None:
        self._row, self._since, self._last_s = row, row + 1, -np.inf

    def add(self, t_s: Floats) -> None:
        """Add the times of the next rows, in s. They must not decrease.

        Raises ValueError if more than STILL_ROWS successive rows have the same time.
        """
        if not len(t_s):
            return
        changes = self._row + 1 + np.flatnonzero(np.diff(t_s, prepend=self._last_s))
        begins = np.concatenate([[self._since], changes])
        self._row += len(t_s)
        lengths = np.diff(begins, append=self._row + 1)
        longest = int(lengths.argmax())
        if lengths[longest] > STILL_ROWS:
            since = int(begins[longest])
            first = self._row - len(t_s) + 1
            seconds = float(t_s[max(since - first, 0)])
            raise ValueError(still_words(seconds, since, since + int(lengths[longest]) - 1))
        self._since, self._last_s = int(begins[-1]), float(t_s[-1])


def _spread(t_s: Floats) -> Floats:
    """Return times in s that increase: equal times are spread evenly up to the next greater time.

    PyMonsoon writes equal times, because it stamps whole packets of samples.
    """
    firsts = np.flatnonzero(np.diff(t_s, prepend=-np.inf) > 0)
    if len(firsts) == len(t_s) or len(firsts) < 2:
        return t_s
    slope = (t_s[firsts[-1]] - t_s[firsts[-2]]) / (firsts[-1] - firsts[-2])
    after = t_s[firsts[-1]] + slope * (len(t_s) - firsts[-1])
    places = np.append(firsts, len(t_s))
    return np.asarray(np.interp(np.arange(len(t_s)), places, np.append(t_s[firsts], after)))


def _find_layout(spec: TraceSpec) -> _Layout:
    with os.fdopen(open_regular(spec.path), "rb") as file:
        head = file.read(HEAD_BYTES)
    encoding, begin = encoding_of(head)
    lines = list(itertools.islice(whole_lines(head[begin:], encoding), HEAD_LINES))
    first_error = None
    for number, (text, size) in enumerate(lines):
        begin += size
        line = _COMMENT.sub("", text.strip("\r\n"))
        separators = separators_of(line)
        names = [name.lower() for name in separators.cells(line)]
        try:
            time, factors, constant = _columns(spec, names)
        except ValueError as error:
            first_error = first_error or error
            if spec.format in NAMED and not spec.columns:
                break
            continue
        if len(names) > MOST_CELLS:
            raise ValueError(f"it has {len(names)} columns, more than {MOST_CELLS}")
        needed = [time[0], *(place for place, _ in factors)]
        begin_s, width = 0.0, len(names)
        for later, more in lines[number + 1 : number + 4]:
            cells = separators.cells(later)
            if _has_numbers(later, separators, needed):
                width = len(cells)
                break
            time, begin_s = _with_units(names, cells, separators, time, begin_s)
            begin += more
        marker = None if spec.marker is None else _flag(names, spec.marker)
        return _Layout(
            encoding, begin, width, separators, number + 1, time, begin_s, factors, constant, marker
        )  # fmt: skip
    raise first_error or ValueError("it has no whole line")


def _with_units(
    names: Sequence[str], cells: Sequence[str], separators: Separators, time: tuple[int, float], begin_s: float
) -> tuple[tuple[int, float], float]:
    """Return `(time, begin_s)`, corrected by the line of units that stands below the names of the columns.

    `time` is `(position from 0, factor to s)` of the column of times, and `begin_s` is added to each time. `names` are
    the columns' names in lower case, and `cells` are the cells of the line of units.

    An oscilloscope of Rigol numbers its samples in the column `X`. Its line of units has the first time in s below
    `Start`, and the time between samples in s below `Increment`.
    """
    below = dict(zip(names, cells, strict=False))
    if names[time[0]] == "x" and {"start", "increment"} <= below.keys():
        with contextlib.suppress(ValueError):
            start_s, step_s = (separators.number(below[name]) for name in ("start", "increment"))
            return (time[0], step_s), start_s
    unit = cells[time[0]].strip("()[] ").lower().replace("µ", "u") if time[0] < len(cells) else ""
    if time[1] == 1.0 and unit in _TIME_UNITS:
        return (time[0], _TIME_UNITS[unit]), begin_s
    return time, begin_s


def _has_numbers(line: str, separators: Separators, places: Sequence[int]) -> bool:
    cells = separators.cells(line)
    try:
        return all(separators.number(cells[place]) is not None for place in places)
    except (ValueError, IndexError):
        return False


def _place(names: Sequence[str], wanted: str) -> int:
    """Return the position of a column, from 0. `wanted` is its name or its number, from 1.

    Raises ValueError if no column, or more than one, has this name.
    """
    if names.count(wanted.lower()) > 1:
        raise ValueError(f"several columns are named {wanted}: name one by its number, from 1 to {len(names)}")
    if wanted.lower() in names:
        return names.index(wanted.lower())
    if wanted.isdecimal() and 0 < int(wanted) <= len(names):
        return int(wanted) - 1
    raise ValueError(f"no column {wanted} in its first line")


def _flag(names: Sequence[str], wanted: str) -> Flag:
    """Return the column of the digital signal `wanted`, such as `D3`. Raises ValueError if the log lacks it.

    A PPK2 may have all signals in one column `D0-D7`. The result then also says which character is the signal.
    """
    number = re.fullmatch(r"d([0-7])", wanted.lower())
    if number and wanted.lower() not in names and ALL_SIGNALS in names:
        return Flag(names.index(ALL_SIGNALS), int(number[1]))
    return Flag(_place(names, wanted))


def _columns(spec: TraceSpec, names: Sequence[str]) -> tuple[tuple[int, float], Sequence[tuple[int, float]], float]:
    """Return `(time, factors, constant)`, which say how a row gives its time in s and its power in W.

    `time` is `(position from 0, factor to s)` of the column of times. `factors` has `(position, factor)` of one or two
    columns. The power is the product of these columns' values, these factors and `constant`. `spec` is the user's
    description of the log. `names` are the columns' names in lower case. Raises ValueError if a column is missing.
    """
    if spec.format in NAMED and not spec.columns:
        return layout_of(spec.format, names, spec.volts)
    found = {quantity: _loose(names, quantity) for quantity in _WORDS}
    if spec.format in NAMED:
        with contextlib.suppress(ValueError):  # What the format lacks may be among the columns that the user names.
            found["time"], factors, _ = layout_of(spec.format, names, spec.volts)
            if len(factors) > 1:
                found["current"], found["voltage"] = factors
    for quantity, scale in (spec.columns or {}).items():
        found[quantity] = _place(names, scale.name), scale.factor
    time, power, current, voltage = (found[name] for name in ("time", "power", "current", "voltage"))
    if time is None:
        raise ValueError("no column of time in its first lines")
    if power is not None and (spec.volts is None or "power" in (spec.columns or {})):
        return time, [power], 1.0
    if current is None:
        raise ValueError("no column of power or current: name it with --current-column NAME:AMPERES")
    if spec.volts is None and voltage is None:
        raise ValueError("it has current and no voltage: say it with --power-volts")
    return time, [current, voltage] if spec.volts is None and voltage else [current], spec.volts or 1.0


def _loose(names: Sequence[str], quantity: str) -> tuple[int, float] | None:
    """Return `(position from 0, factor)` of the first column that measures `quantity`, or None if none does.

    `quantity` is "time", "current", "voltage" or "power". The factor converts the column's values to s, A, V or W.
    `names` are the columns' names in lower case, such as `current (ma)`.
    """
    for place, name in enumerate(names):
        words = name.replace("_", " ").split()
        is_named = any(word in name for word in _WORDS[quantity]) if quantity != "time" else bool(words) and any(
            words[0].startswith(word) if len(word) > 1 else words[0] == word for word in _WORDS["time"]
        )  # fmt: skip
        if is_named:
            unit = _UNIT.search(name)
            return place, _UNITS.get((unit[1] or unit[2]).replace("µ", "u"), 1.0) if unit else 1.0
    return None
