"""A log of NVIDIA's tegrastats: readings of a board, and no inference. A line: edgetop.sensors.tegrastats."""

import itertools
from array import array
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import numpy as np

from edgetop.imports.measured import MAX_NS, Numbers, Origin, SensorLog
from edgetop.sensors.protocol import sensor
from edgetop.sensors.rails import NOTES, role_of
from edgetop.sensors.tegrastats import Line, has_lines, parse_line, plan_of_lines
from edgetop.session.manifest import SensorInfo

ORIGIN = Origin(tool="tegrastats", runtime=None, provider="", way="")

NS = 1_000_000_000
MAX_SENSORS = 500
_SOURCE = "tegrastats"
_MEMORY_NOTES = {"mem/system-used": "RAM", "mem/system-swap": "SWAP"}


def is_text(text: str) -> bool:
    return has_lines(text)


class _Columns:
    """The values of all lines, by sensor: columns of line numbers and of values, since a day has two million."""

    def __init__(self) -> None:
        self.times: list[datetime | None] = []
        self.memory_mib = 0
        self.rails: set[str] = set()
        self._columns: dict[str, tuple[array[int], array[float]]] = {}

    def add(self, line: Line) -> None:
        """Raises ValueError where there are more sensors than a board has."""
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
        return SensorLog(
            sensors=tuple(_sensors(list(self._columns), frozenset(self.rails))),
            times_ns=tuple(t_ns[np.array(places, np.int64)] for places, _ in self._columns.values()),
            values=tuple(np.array(values, np.float64) for _, values in self._columns.values()),
            end_ns=int(t_ns[-1]),
            memory_bytes=self.memory_mib * 2**20,
            note=note,
        )


def read_text(text: str, interval_ns: int) -> SensorLog:
    """`interval_ns`: from one line to the next, where they have no time. Raises ValueError."""
    columns, passed_over = _Columns(), 0
    before: Line | None = None
    last = len(text) if text.endswith("\n") else text.rfind("\n") + 1
    for raw in text[:last].splitlines():
        line = parse_line(raw)
        if line is not None:
            columns.add(line)
            before = line
        else:
            passed_over += bool(raw.strip())
    if last < len(text):  # a last line without its end is whole where it lacks nothing that the one before it has
        line = parse_line(text[last:])
        if line is not None and (before is None or line.values.keys() == before.values.keys()):
            columns.add(line)
        else:
            passed_over += 1
    if not columns.times:
        raise ValueError("no line of it is whole")
    t_ns = _t_ns(columns.times, interval_ns)
    note = _how(columns.times[0], interval_ns) + (
        f"; {passed_over} line{'s' if passed_over != 1 else ''} of other text, or cut off, passed over"
        if passed_over
        else ""
    )
    return columns.log(t_ns, note)


def _how(began: datetime | None, interval_ns: int) -> str:
    if began is None:
        return f"its lines have no time: one each {interval_ns / 1e9:g} s is assumed"
    return f"its times are whole seconds, from {began:%Y-%m-%d %H:%M:%S} local time on"


def _t_ns(times: Sequence[datetime | None], interval_ns: int) -> Numbers:
    stamped = [time for time in times if time is not None]
    if 0 < len(stamped) < len(times):
        raise ValueError("it has lines with a time and lines without: of two logs")
    last_ns = (
        (stamped[-1] - stamped[0]) // timedelta(microseconds=1) * 1000 if stamped else (len(times) - 1) * interval_ns
    )
    if last_ns > MAX_NS:
        raise ValueError("it takes longer than a run can")
    return _of_seconds(stamped) if stamped else np.arange(len(times), dtype=np.int64) * interval_ns


def _of_seconds(times: Sequence[datetime]) -> Numbers:
    """Spread several lines of one second evenly over it."""
    for earlier, later in itertools.pairwise(times):
        if later < earlier:
            raise ValueError(f"its clock was set back at {later:%Y-%m-%d %H:%M:%S}: cut it there")
    seconds = np.array([int((time - times[0]).total_seconds()) for time in times], np.int64)
    _, first, counts = np.unique(seconds, return_index=True, return_counts=True)
    nth = np.arange(len(seconds)) - np.repeat(first, counts)
    of_seconds: Numbers = seconds * NS + nth * NS // np.repeat(counts, counts)
    return of_seconds


def _sensors(ids: Sequence[str], rails: frozenset[str]) -> Iterator[SensorInfo]:
    plan = plan_of_lines(rails)
    for name in ids:
        kind, _, label = name.partition("/")
        if kind == "power":
            note = NOTES.get(label)
            yield sensor(kind, label, _SOURCE, role=role_of(label, plan), accuracy="on-board-monitor", note=note)
        elif name == "load/cpu":
            yield sensor(kind, label, _SOURCE, note="of all cores together, 100 for each")
        else:
            yield sensor(kind, label, _SOURCE, note=_MEMORY_NOTES.get(name))
