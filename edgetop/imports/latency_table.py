"""Parse a table of latencies, one inference per row, as scripts write them: CSV with any separator.

The first row names the columns, with their units: `latency_ms`, `duration (us)`, `inferenceTime[s]`. If a name has no
unit, the user gives the column as `NAME:UNIT`. If the table has no names, the user gives the column's number. A column
of times says when each inference began. Times are numbers since any moment, or dates such as
`2026-11-27T12:24:35.123Z`.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import partial

import numpy as np

from edgetop.captured_text import LeftOut, Separators, separators_of
from edgetop.formatting import quantity
from edgetop.frozen import frozen
from edgetop.imports.captured_page import Page
from edgetop.imports.measured import MAX_NS, Numbers, Origin, Times

ORIGIN = Origin("CSV", "unknown (imported from CSV)")

_NS = {"ns": 1, "us": 1000, "ms": 1_000_000, "s": 1_000_000_000}
_LONG = {"µs": "us", "μs": "us", "usec": "us", "msec": "ms", "sec": "s", "secs": "s", "seconds": "s", "nsec": "ns"}
_LONG |= {"milliseconds": "ms", "millis": "ms", "microseconds": "us", "micros": "us", "nanoseconds": "ns"}
_WORDS = "|".join(sorted((*_NS, *_LONG), key=len, reverse=True))
_UNIT = re.compile(rf"^(.+?)(?:[ _.,/-]+(?:in[ _])?|[ _]*[(\[] *)({_WORDS})[ )\]]*$", re.IGNORECASE)
_WITH_UNIT = re.compile(rf"(.*[0-9.]) ?({_WORDS})", re.IGNORECASE)
# Cells of rows below a table that sum it up.
_SUMMARY = re.compile(
    r"(?:avg|average|mean|median|min|minimum|max|maximum|std|stdev|stddev|var|variance|sum|total|count|overall|summary"
    r"|p ?[0-9]{1,3}(?:\.[0-9]+)?|[0-9.]+ ?%(?:ile)?|[0-9.]+(?:th)? percentile|percentile.*)(?:[ _(:].*)?",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"^(.*[a-z])(Ns|Us|Ms)$")
_LATENCY = re.compile(r"latency|latencies|inference|infer|duration|elapsed|response", re.IGNORECASE)
_TIME = re.compile(
    r"(?:start|begin|began|t|ts|time|timestamp|date|datetime)(?:[ _-]?(?:time|stamp|at))?", re.IGNORECASE
)
_DATE = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?(Z|[+-][0-9:]{4,6})?"
)

LOOKED_AT = 1000  # rows that show the resolution of the times, and in which the first row of numbers must be
HEADER_ROWS = 60  # rows among which the names of the columns are looked for
SHOWN, MOST_ROWS = 20, 0.8  # rows that show whether a text is a table, and the share of them that must be rows of it
MANY = 12  # columns that an error message lists


@frozen
class Columns:
    """The user's choice of columns in a latency table, each as `NAME`, `NAME:UNIT`, or a number from 1.

    A column that is None is found by the names in the file.
    """

    latency: str | None = None
    time: str | None = None


def header_of(text: str, asked: str | None = None) -> tuple[int, Separators, list[str], list[str]]:
    """Return `(number, separators, names, cells)` for the row that names the columns of a table.

    `number` is the row's line number, from 1. `separators` splits a row into cells. `names` are the names of the
    columns. `cells` are the cells of the first row of numbers below the names, or [] if there is no such row.

    The row may stand below lines of other programs. It must name a column of latencies, and a number must stand below
    that name. `asked` is the name of the column of latencies, or None if the user chose none. With None, a row that
    names the unit too is preferred. If no row is found, the first line is returned that is not blank and no comment.
    `number` is 0 if the text has no such line either.
    """
    rows = list(itertools.islice(_rows(text), LOOKED_AT))
    for wants in (_candidates, _unitless) if asked is None else (partial(_asked, asked),):
        for place, (number, line) in enumerate(rows[:HEADER_ROWS]):
            separators = separators_of(line)
            names = separators.cells(line)
            if not (wanted := wants(names)):
                continue
            below = _first_cells(rows[place + 1 :], separators, len(names))
            if any(_amount(below[each], separators) for each in wanted if each < len(below)):
                return number, separators, names, below
    number, line = rows[0] if rows else (0, "")
    separators = separators_of(line)
    names = separators.cells(line)
    return number, separators, names, _first_cells(rows[1:], separators, len(names))


def _asked(asked: str, names: Sequence[str]) -> list[int]:
    """Return a list with the position (from 0) of the column that the user chose by name, or [] if none is so named."""
    if asked.partition(":")[0].isdecimal():  # the number of a column, in a table that may have no names
        return []
    try:
        return [_find(names, asked)[0]]
    except ValueError:
        return []


def is_table(text: str, *, has_numbers: bool = False) -> bool:
    """Return whether a text is a table of latencies: whether a row names a column of latencies.

    If `has_numbers` is True, a row of numbers must follow the name of a column. A name without a unit, such as
    `latency`, counts only if a number stands below it and if blanks do not separate the columns.
    """
    _, separators, names, below = header_of(text)
    if candidates := _candidates(names):
        return not has_numbers or any(place < len(below) for place in candidates)
    is_split = separators.cell is not None or len(names) == 1
    return is_split and any(_amount(below[place], separators) for place in _unitless(names) if place < len(below))


def why_no_table(text: str) -> str:
    """Return why a table of numbers is no table of latencies, and which option helps, as one sentence.

    Call it only if `is_table(text)` is False. Return "" if the text is no table of numbers.
    """
    rows = list(itertools.islice(_rows(text), SHOWN + 1))
    if len(rows) < 2:
        return ""
    separators = separators_of(rows[0][1])
    names = separators.cells(rows[0][1])
    below = [separators.cells(line) for _, line in rows[1:]]
    numbers = [
        cells for cells in below if len(cells) == len(names) and any(_amount(cell, separators) for cell in cells)
    ]
    if len(numbers) < len(below) * MOST_ROWS or (separators.cell is None and len(names) > 1):
        return ""
    if _is_number(separators, names[0]):
        return "a table without names of columns: choose one with its unit, such as --latency-column 1:ms"
    lone = next((name for name in names if _split(name)[1] and not _split(name)[0]), None)
    advice = f"{names[-1]}:ms" if lone is None else lone
    return f"no column is named as a latency ({_listed(names)}): choose one, such as --latency-column {advice}"


def _first_cells(rows: Sequence[tuple[int, str]], separators: Separators, width: int) -> list[str]:
    """Return the cells of the first row that has `width` cells and a number in one of them, or [] if there is none.

    `rows` are the rows below the names of the columns, as pairs of a line's number and the line.
    """
    for _, line in rows:
        cells = separators.cells(line)
        if len(cells) == width and any(_amount(cell, separators) for cell in cells):
            return cells
    return []


def _unitless(names: Sequence[str]) -> list[int]:
    """Return the positions (from 0) of the columns that are named as latencies but have no unit in the name."""
    return [place for place, name in enumerate(names) if _LATENCY.search(name) and _split(name)[1] is None]


def _amount(cell: str, separators: Separators) -> tuple[float, str | None] | None:
    """Return `(number, unit)` for a cell such as `10.5 ms`, or None if the cell is no number.

    The unit is None if the cell has none.
    """
    match = _WITH_UNIT.fullmatch(cell)
    try:
        number = separators.number(match[1] if match else cell)
    except ValueError:
        return None
    return number, None if match is None else _LONG.get(match[2].lower(), match[2].lower())


def read_table(page: Page, columns: Columns) -> Times:
    """Return the inferences in a table. `columns` names the columns that the user chose.

    Rows that cannot be used are left out, and notes in `page` count them. Raises ValueError if a column or its unit is
    missing or ambiguous, or if no latency remains.
    """
    header, separators, names, below = header_of(page.text, columns.latency)
    latency, unit = _latency_column(names, columns.latency, below, separators)
    time = _readable_time(_time_column(names, columns.time, latency), names, below, separators, columns, page)
    is_named = not _is_number(separators, names[latency])
    starts: list[int] = []
    latencies: list[int] = []
    bad, none = _Rows(), _Rows()
    decimals = 0
    for number, line, cells in _cells_below(page.text, header if is_named else 0, separators, names):
        try:
            value = _latency_ns(cells, latency, unit, separators)
            start = time[1](cells[time[0]], separators) if time else 0
        except (ValueError, IndexError):
            bad.add(number, line)
            continue
        if not 0.5 <= value <= MAX_NS:
            none.add(number, line)
            continue
        if len(latencies) < LOOKED_AT:
            digits = re.split(r"[.,]", cells[latency])[-1] if re.search(r"[.,]", cells[latency]) else ""
            decimals = max(decimals, len(digits) if digits.isdecimal() else 0)
        latencies.append(round(value))
        starts.append(start)
    total = len(latencies) + bad.count + none.count
    page.notes += bad.notes(total, "not understood") + none.notes(total, "left out, as no inference takes such a time")
    if not latencies:
        raise ValueError(f"column {names[latency]!r} has no latency")
    latency_ns = np.array(latencies, np.int64)
    step_ns = max(_NS[unit] / 10**decimals, 1.0)
    unused = [name for place, name in enumerate(names) if place not in (latency, time[0] if time else None) and name]
    if unused and is_named:
        page.notes.append(LeftOut(len(unused), len(names), "columns", "not read", unused[0]).words)
    start_ns = _checked(np.array(starts, np.int64) if time else None, names, time, page)
    if start_ns is None:
        ends_ns = np.cumsum(latency_ns)
        if ends_ns[-1] > MAX_NS:
            raise ValueError("its inferences take longer than a run can")
        return Times(ends_ns - latency_ns, latency_ns, int(ends_ns[-1]), None, step_ns, {}, has_starts=False)
    order = np.argsort(start_ns, kind="stable")
    start_ns, latency_ns = start_ns[order] - start_ns[order[0]], latency_ns[order]
    end_ns = int((start_ns + latency_ns).max())
    if end_ns > MAX_NS:
        raise ValueError("it takes longer than a run can")
    return Times(start_ns, latency_ns, end_ns, None, step_ns, {})


def _cells_below(
    text: str, header: int, separators: Separators, names: Sequence[str]
) -> Iterator[tuple[int, str, list[str]]]:
    """Yield `(number, line, cells)` for each line of a text, without the line that names the columns.

    `cells` is [] if the line is no row of the table: it stands above the names, or has more or fewer cells than names.
    `header` is the number of the line with the names, from 1, or 0 if the table has none. `names` are these names.
    Raises ValueError if a line repeats the names, as when two runs were written to one file.
    """
    for number, line in _rows(text):
        cells = separators.cells(line)
        if header and cells == names:
            if number > header:
                raise ValueError(f"row {number} names the columns again: of two runs, keep one in a file")
            continue
        yield number, line, cells if number > header and len(cells) == len(names) else []


def _latency_ns(cells: Sequence[str], place: int, unit: str, separators: Separators) -> float:
    """Return the latency in ns in one row. Raises ValueError or IndexError if the row has none.

    A row that begins with a word such as `mean` or `total` sums up other rows, so it has no latency. `cells` are the
    row's cells. `place` is the position of the latency's cell, from 0. `unit` is the column's unit. It is used if the
    cell has no unit.
    """
    amount = _amount(cells[place], separators)
    if amount is None or _SUMMARY.fullmatch(cells[0]):
        raise ValueError("no latency")
    return amount[0] * _NS[amount[1] or unit]


class _Rows:
    """Counts rows that are left out of a latency table, and keeps the first of them for a message."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""

    def add(self, number: int, line: str) -> None:
        self.count += 1
        self.first = self.first or f"row {number}: {line}"

    def notes(self, total: int, why: str) -> list[str]:
        return [LeftOut(self.count, total, "rows", why, self.first).words] if self.count else []


def _rows(text: str) -> Iterator[tuple[int, str]]:
    """Yield `(number, line)` for each line that is not blank and no comment. Numbers begin with 1."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.startswith("#"):
            yield number, line


def _is_number(separators: Separators, cell: str) -> bool:
    try:
        separators.number(cell)
    except ValueError:
        return False
    return True


def _split(name: str) -> tuple[str, str | None]:
    """Return `(name without unit, unit)` for a column's name. The unit is None if the name has none.

    >>> _split("latency_ms"), _split("Duration (µs)"), _split("inferenceTimeMs"), _split("latency"), _split("ms")
    (('latency', 'ms'), ('Duration', 'us'), ('inferenceTime', 'ms'), ('latency', None), ('', 'ms'))
    """
    if (unit := _LONG.get(name.lower(), name.lower())) in _NS:
        return "", unit
    if match := _CAMEL.match(name) or _UNIT.match(name):
        unit = match[2].lower()
        return match[1], _LONG.get(unit, unit)
    return name, None


def _candidates(names: Sequence[str]) -> list[int]:
    """Return the positions (from 0) of the columns that are named as latencies with a unit, such as `latency_ms`."""
    return [place for place, name in enumerate(names) if (parts := _split(name))[1] and _LATENCY.search(parts[0])]


def _latency_column(
    names: Sequence[str], asked: str | None, below: Sequence[str], separators: Separators
) -> tuple[int, str]:
    """Return `(position from 0, unit)` of the column of latencies. Raises ValueError if it is ambiguous or has no unit.

    `names` are the columns' names. `asked` is the column that the user chose, or None. `below` has the cells of the
    first row of numbers, which may contain the unit.
    """

    def unit_below(place: int) -> str | None:
        amount = _amount(below[place], separators) if place < len(below) else None
        return amount[1] if amount else None

    if asked is not None:
        place, unit = _find(names, asked)
        unit = unit or unit_below(place)
        if unit is None:
            raise ValueError(f"column {names[place]!r} does not name its unit: --latency-column {asked}:ms")
        return place, unit
    found = _candidates(names)
    unitless = [] if found else _unitless(names)
    if len(unitless) == 1:
        (place,) = unitless
        if unit := unit_below(place):
            return place, unit
        raise ValueError(f"column {names[place]!r} does not name its unit: --latency-column {names[place]}:ms")
    if len(found) != 1:
        what = "several columns may be latencies" if found else "no column is named as a latency with a unit"
        raise ValueError(f"{what}: choose one with --latency-column ({_listed(names)})")
    return found[0], str(_split(names[found[0]])[1])


_Time = tuple[int, Callable[[str, Separators], int]]


def _time_column(names: Sequence[str], asked: str | None, latency: int) -> _Time | None:
    """Return `(position from 0, function)` for the column of start times, or None if there is none.

    The function reads a cell of that column as ns. `names` are the columns' names. `asked` is the column that the user
    chose, or None. `latency` is the position of the column of latencies.
    """
    if asked is not None:
        place, unit = _find(names, asked)
        return place, _number_in(unit) if unit else _date
    for place, name in enumerate(names):
        plain, unit = _split(name)
        if place != latency and _TIME.fullmatch(plain):
            return place, _number_in(unit) if unit else _date
    return None


def _readable_time(
    time: _Time | None, names: Sequence[str], below: Sequence[str], separators: Separators, columns: Columns, page: Page
) -> _Time | None:
    """Return the column of start times, or None if its first cell cannot be read. A note in `page` then says why.

    `time` is the column, or None if there is none. `names` are the columns' names, and `below` the cells of the first
    row of numbers. Raises ValueError instead if the user chose the column.
    """
    if not time or not (why := _why_no_time(names[time[0]], time, below, separators)):
        return time
    if columns.time is not None:
        raise ValueError(why)
    page.notes.append(f"times not used: {why}")
    return None


def _why_no_time(name: str, time: _Time, below: Sequence[str], separators: Separators) -> str:
    """Return why a column has no times that can be read, or "" if it has. `below` is the first row of numbers."""
    cell = below[time[0]] if time[0] < len(below) else ""
    try:
        time[1](cell, separators)
    except ValueError:
        if _amount(cell, separators):
            return f"column {name!r} does not name its unit: --time-column {name}:s"
        return f"column {name!r} has no number and no date: {cell[:40]!r}" if cell else ""
    return ""


def _find(names: Sequence[str], asked: str) -> tuple[int, str | None]:
    """Return `(position from 0, unit)` of the column that the user chose. The unit is None if it is unknown.

    `names` are the columns' names. `asked` is what the user wrote: a name such as `latency` or `latency:ms`, or a
    number from 1. Raises ValueError if there is no such column.
    """
    name, _, unit = asked.rpartition(":")
    unit = _LONG.get(unit, unit)
    if not name or unit not in _NS:
        name, unit = asked, ""
    lower = [each.lower() for each in names]
    if name.lower() in lower:
        place = lower.index(name.lower())
    elif name.isdecimal() and 0 < int(name) <= len(names):
        place = int(name) - 1
    else:
        raise ValueError(f"no column {name!r}: it has {_listed(names)}")
    return place, unit or _split(names[place])[1]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return ", ".join(name[:40] or "-" for name in names[:MANY]) + more


def _number_in(unit: str) -> Callable[[str, Separators], int]:
    scale = _NS[unit]

    def read(cell: str, separators: Separators) -> int:
        text = cell.replace(",", ".") if separators.has_comma else cell
        try:
            ns = Decimal(text) * scale  # exact: nanoseconds since 1970 have more digits than a float
        except InvalidOperation:
            raise ValueError from None
        if not ns.is_finite() or abs(ns) > 2**63 - 1:
            raise ValueError
        return round(ns)

    return read


def _date(cell: str, _: Separators) -> int:
    match = _DATE.fullmatch(cell)
    if match is None:
        raise ValueError
    zone = {"Z": "+00:00", None: "+00:00"}.get(match[4], match[4]) or ""
    if len(zone) == 5 and ":" not in zone:
        zone = f"{zone[:3]}:{zone[3:]}"
    seconds = datetime.fromisoformat(f"{match[1]}T{match[2]}{zone}").timestamp()
    return round(seconds) * _NS["s"] + int((match[3] or "").ljust(9, "0"))


def _checked(start_ns: Numbers | None, names: Sequence[str], time: _Time | None, page: Page) -> Numbers | None:
    """Return the start times as they were given, or None if the table has none or all of them are equal.

    If times stand still or go back, a note is added to `page`. `start_ns` has the start times in ns, and `names` the
    columns' names. `time` is `(position from 0, function)` of the column of times, as `_time_column` returns it.
    """
    if start_ns is None or time is None:
        return None
    name, steps = names[time[0]], np.diff(start_ns)
    if len(start_ns) > 1 and not steps.any():
        page.notes.append(f"column {name!r} not used: its time stands still")
        return None
    for is_so, what in ((steps == 0, "stands still"), (steps < 0, "goes back")):
        if is_so.any():
            first = int(np.flatnonzero(is_so)[0]) + 2
            page.notes.append(
                f"column {name!r}: its time {what} in {quantity(int(is_so.sum()), 'row')}, first at inference {first}"
            )
    return start_ns
