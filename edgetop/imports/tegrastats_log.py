"""Parse a log of NVIDIA's tegrastats. It has only sensor readings. `edgetop.sensors.tegrastats` parses each line."""

import itertools
from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime

import numpy as np

from edgetop.captured_text import LeftOut
from edgetop.imports.captured_page import Page
from edgetop.imports.measured import MAX_NS, Numbers, Origin, SensorLog
from edgetop.sensors.rails import NOTES, plan_of, role_of
from edgetop.sensors.sensor_protocol import sensor
from edgetop.sensors.tegrastats import Line, parse_line
from edgetop.session.manifest import SensorInfo

ORIGIN = Origin("tegrastats", None)

NS = 1_000_000_000
MAX_SENSORS = 500
_NOTES = {"load/cpu": "of all cores together, 100 for each", "mem/system-used": "RAM", "mem/system-swap": "SWAP"}


class _Columns:
    """Collects the values of each sensor over all lines of a log: an array of line numbers and an array of values.

    Arrays save memory: a day has two million values.
    """

    def __init__(self) -> None:
        self.times: list[datetime | None] = []
        self.memory_mib = 0
        self.rails: set[str] = set()
        self._columns: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, line: Line) -> None:
        """Add the values of the next line. Raises ValueError if there are more than `MAX_SENSORS` sensors."""
        place = len(self.times)
        self.times.append(line.time)
        self.memory_mib = self.memory_mib or line.memory_mib
        for name, value in line.values.items():
            if name not in self._columns:
                self._columns[name] = array("q"), array("d")
                if len(self._columns) > MAX_SENSORS:
                    raise ValueError(f"it has more than {MAX_SENSORS} sensors")
            places, values = self._columns[name]
            places.append(place)
            values.append(value)
        self.rails |= line.rails

    def log(self, t_ns: Numbers, note: str) -> SensorLog:
        times_ns = tuple(t_ns[np.array(places, np.int64)] for places, _ in self._columns.values())
        values = tuple(np.array(values, np.float64) for _, values in self._columns.values())
        sensors = tuple(_sensors(list(self._columns), frozenset(self.rails)))
        return SensorLog(sensors, times_ns, values, int(t_ns[-1]), self.memory_mib * 2**20, note)


def read_log(page: Page, interval_ns: int) -> SensorLog:
    """Return the sensor readings in a log of tegrastats.

    `interval_ns` is the time from one line to the next. It is used if the lines have no time stamps. Raises ValueError
    if no line is whole, or if time stamps go back.
    """
    text, columns = page.text, _Columns()
    parts = {"not understood": _Parts(), "left out, as their value cannot be": _Parts()}
    before: Line | None = None
    place = 0
    last = len(text) if text.endswith("\n") else text.rfind("\n") + 1
    for raw in text[:last].split("\n"):
        begin, place = place, place + len(raw) + 1
        if (line := parse_line(raw)) is not None:
            page.know(begin, begin + len(raw))
            columns.add(line)
            for told, part in zip(parts.values(), (line.unknown, line.impossible), strict=True):
                told.add(part)
            before = line
    if last < len(text):  # a last line without newline counts if it has the same values as the line before
        line = parse_line(text[last:])
        if line is not None and (before is None or line.values.keys() == before.values.keys()):
            page.know(last, len(text))
            columns.add(line)
    if not columns.times:
        raise ValueError("no line of it is whole")
    page.notes += [
        LeftOut(told.count, len(columns.times), "lines", f"have parts {why}", told.first).words
        for why, told in parts.items()
        if told.count
    ]
    t_ns, began = _t_ns(columns.times, interval_ns), columns.times[0]
    note = f"its lines have no time: one each {interval_ns / 1e9:g} s is assumed"
    if began is not None:
        note = f"its times are whole seconds, from {began:%Y-%m-%d %H:%M:%S} local time on"
    return columns.log(t_ns, note)


class _Parts:
    """Counts the lines of a log that have words of one kind, such as unknown words.

    Keeps the words of the first such line, for a message.
    """

    def __init__(self) -> None:
        self.count, self.first = 0, ""  # the number of lines that have such parts, and those of the first one

    def add(self, parts: str) -> None:
        if parts:
            self.count += 1
            self.first = self.first or parts


def _t_ns(times: Sequence[datetime | None], interval_ns: int) -> Numbers:
    """Return the time of each line, in ns after the first line.

    Lines of the same second are spread evenly over that second. `times` has the time stamp of each line, or None for a
    line without one. `interval_ns` is the time from one line to the next, used if no line has a stamp. Raises
    ValueError if only some lines have stamps, or if the stamps go back.
    """
    stamped = [time for time in times if time is not None]
    if 0 < len(stamped) < len(times):
        raise ValueError("it has lines with a time and lines without: of two logs")
    last_ns = int((stamped[-1] - stamped[0]).total_seconds()) * NS if stamped else (len(times) - 1) * interval_ns
    if last_ns > MAX_NS:
        raise ValueError("it takes longer than a run can")
    if not stamped:
        return np.arange(len(times), dtype=np.int64) * interval_ns
    for earlier, later in itertools.pairwise(stamped):
        if later < earlier:
            raise ValueError(f"its clock was set back at {later:%Y-%m-%d %H:%M:%S}: cut it there")
    seconds = np.array([int((time - stamped[0]).total_seconds()) for time in stamped], np.int64)
    _, first, counts = np.unique(seconds, return_index=True, return_counts=True)
    nth = np.arange(len(seconds)) - np.repeat(first, counts)
    t_ns: Numbers = seconds * NS + nth * NS // np.repeat(counts, counts)
    return t_ns


def _sensors(ids: Sequence[str], rails: frozenset[str]) -> Iterator[SensorInfo]:
    plan = plan_of(set(rails))
    for name in ids:
        kind, _, label = name.partition("/")
        note = (NOTES if kind == "power" else _NOTES).get(label if kind == "power" else name)
        more = {"role": role_of(label, plan), "accuracy": "on-board-monitor"} if kind == "power" else {}
        yield sensor(kind, label, ORIGIN.tool, note=note, **more)
