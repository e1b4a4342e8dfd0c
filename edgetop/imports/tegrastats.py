"""A log of NVIDIA's tegrastats: readings of a board, and no inference. A line: edgetop.sensors.tegrastats."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from edgetop.imports.measured import MAX_NS, Numbers, Origin, SensorLog
from edgetop.sensors.jetson.plans import NOTES, role_of
from edgetop.sensors.protocol import sensor
from edgetop.sensors.tegrastats import Line, has_lines, parse_line, plan_of_lines
from edgetop.session.manifest import SensorInfo

ORIGIN = Origin(tool="tegrastats", runtime=None, provider="", way="")

NS = 1_000_000_000
MAX_SENSORS = 500
_SOURCE = "tegrastats"
_MEMORY_NOTES = {"mem/system-used": "RAM", "mem/system-swap": "SWAP"}


def is_text(text: str) -> bool:
    return has_lines(text)


def read_text(text: str, interval_ns: int) -> SensorLog:
    """`interval_ns`: from one line to the next, where they have no time. Raises ValueError."""
    raw = [line for line in text.splitlines() if line.strip()]
    lines = [line for line in map(parse_line, raw) if line is not None]
    if len(lines) > 1 and not text.endswith("\n") and lines[-1].values.keys() != lines[-2].values.keys():
        lines.pop()  # cut off: what it lacks was to come
    if not lines:
        raise ValueError("no line of it is whole")
    t_ns = _with_times(lines) if lines[0].time else _without(lines, interval_ns)
    passed_over = len(raw) - len(lines)
    told = _how(lines, interval_ns) + (f"; {_lines(passed_over)} passed over" if passed_over else "")
    ids = list(dict.fromkeys(name for line in lines for name in line.values))
    if len(ids) > MAX_SENSORS:
        raise ValueError(f"it has {len(ids)} sensors, more than a board can")
    rails = frozenset[str]().union(*(line.rails for line in lines))
    columns = [_column(name, lines, t_ns) for name in ids]
    return SensorLog(
        sensors=tuple(_sensors(ids, rails)),
        times_ns=tuple(times for times, _ in columns),
        values=tuple(values for _, values in columns),
        end_ns=int(t_ns[-1]),
        memory_bytes=lines[0].memory_mib * 2**20,
        told=told,
    )


def _lines(number: int) -> str:
    return f"{number} line{'s' if number != 1 else ''} of other text, or cut off,"


def _how(lines: Sequence[Line], interval_ns: int) -> str:
    began = lines[0].time
    if began is None:
        return f"its lines have no time: one each {interval_ns / 1e9:g} s is assumed"
    return f"its times are whole seconds, from {began:%Y-%m-%d %H:%M:%S} local time on"


def _with_times(lines: Sequence[Line]) -> Numbers:
    """Of several lines in one second, each at its part of it."""
    groups: list[tuple[datetime, int]] = []
    for line in lines:
        if line.time is None:
            raise ValueError("it has lines with a time and lines without: of two logs")
        if groups and line.time < groups[-1][0]:
            raise ValueError(f"its clock was set back at {line.time:%Y-%m-%d %H:%M:%S}: cut it there")
        if groups and line.time == groups[-1][0]:
            groups[-1] = (line.time, groups[-1][1] + 1)
        else:
            groups.append((line.time, 1))
    if (groups[-1][0] - groups[0][0]) > timedelta(microseconds=MAX_NS // 1000):
        raise ValueError("it takes longer than a run can")
    begun = groups[0][0]
    parts = [
        int((time - begun).total_seconds()) * NS + np.arange(number, dtype=np.int64) * NS // number
        for time, number in groups
    ]
    return np.concatenate(parts)


def _without(lines: Sequence[Line], interval_ns: int) -> Numbers:
    if any(line.time for line in lines):
        raise ValueError("it has lines with a time and lines without: of two logs")
    if len(lines) * interval_ns > MAX_NS:
        raise ValueError("it takes longer than a run can")
    return np.arange(len(lines), dtype=np.int64) * interval_ns


def _column(name: str, lines: Sequence[Line], t_ns: Numbers) -> tuple[Numbers, npt.NDArray[np.float64]]:
    """When a sensor was told, and what; nothing where a line leaves it out."""
    places = [place for place, line in enumerate(lines) if name in line.values]
    return t_ns[places], np.array([lines[place].values[name] for place in places], np.float64)


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
