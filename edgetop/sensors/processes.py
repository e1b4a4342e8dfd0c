"""What the kernel tells of processes and of its CPUs' time, parsed once for all that need it.

proc_pid_stat(5), proc_stat(5), proc_pid_task(5).
"""

import os
import re
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from edgetop.sensors.root import Root, parse_int

HOST = Root()  # the real one, whatever board the sensors read
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SHARED_NOTE = "edgetop's own included: the engine is a thread of it"

# Of the fields after the command's name, which may hold spaces and brackets itself.
_PARENT, _MAJOR_FAULTS, _USER, _SYSTEM, _BEGAN = 1, 9, 11, 12, 19

_COUNTER = re.compile(r"^(\S+)[ \t]+([0-9]{1,20})$", re.MULTILINE)


class Stat(NamedTuple):
    """Some of /proc/PID/stat."""

    name: str  # `comm`: 15 characters, and no command line, which can hold what nobody wants in a recording
    parent: int
    major_faults: int
    cpu_ticks: int  # used by itself
    began: str  # with its number it names a process: numbers are used again


def parse_stat(text: str) -> Stat:
    """Raises ValueError where this is no /proc/PID/stat.

    >>> parse_stat("7 (a) b) S 1 7 7 0 -1 4194560 900 0 12 0 5 3 0 0 20 0 1 0 4711").major_faults
    12
    """
    head, _, rest = text.rpartition(")")
    fields = rest.split(maxsplit=_BEGAN + 1)
    if len(fields) <= _BEGAN:
        raise ValueError("no whole /proc/PID/stat")
    parent, faults, user, system = (parse_int(fields[place]) for place in (_PARENT, _MAJOR_FAULTS, _USER, _SYSTEM))
    return Stat(head.partition("(")[2], parent, faults, user + system, fields[_BEGAN])


def everyone(root: Root = HOST) -> Iterator[tuple[int, Stat]]:
    """Every process that can be looked at: a few µs each."""
    for name in root.entries("proc"):
        if name.isdigit():
            try:
                yield int(name), parse_stat(root.read_text(f"proc/{name}/stat"))
            except (OSError, ValueError):  # it ended meanwhile, or is another's business
                continue


Use = Mapping[tuple[int, str], tuple[str, int]]  # by number and begin: the name, and the ticks used since then


def used_by_others(ours: set[int], root: Root = HOST) -> Use:
    """What every process has used but these, and those that they started themselves."""
    others = ((pid, stat) for pid, stat in everyone(root) if pid not in ours and stat.parent not in ours)
    return {(pid, stat.began): (stat.name, stat.cpu_ticks) for pid, stat in others}


def percent_by_name(before: Use, after: Use, span_s: float) -> dict[str, float]:
    """Of a core, what was used between the two. Of a process that began meanwhile: all that it used."""
    percent: dict[str, float] = {}
    for process, (name, ticks) in after.items():
        grown = ticks - before.get(process, (name, 0))[1]
        if grown > 0 and span_s > 0:
            percent[name] = percent.get(name, 0.0) + 100 * grown * TICK_S / span_s
    return percent


def parse_cpu_ticks(stat: str) -> tuple[int, int]:
    """Ticks in which any CPU did something, and that a hypervisor took. Raises ValueError where it is no /proc/stat."""
    name, *fields = stat.split("\n", 1)[0].split() or [""]
    if name != "cpu" or len(fields) < 8:
        raise ValueError("no whole cpu line at its head")
    ticks = [parse_int(field) for field in fields]
    # user nice system idle iowait irq softirq steal; guest time is in user already.
    return sum(ticks[:3]) + sum(ticks[5:7]), ticks[7]


def parse_counters(text: str) -> dict[str, int]:
    """`name 123` lines as a mapping; lines of another shape are passed over.

    >>> parse_counters("pswpin 12\\nnr_dirty -\\n")
    {'pswpin': 12}
    """
    return {name: int(count) for name, count in _COUNTER.findall(text)}


def own_threads() -> set[int]:
    """The threads that Python started here, the engine's loop left out."""
    return {thread.native_id or 0 for thread in threading.enumerate() if thread.name != "engine"}
