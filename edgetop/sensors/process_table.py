"""Processes and the CPUs' time as the kernel has them, parsed once for all that need it.

proc_pid_stat(5), proc_stat(5), proc_pid_task(5).
"""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from edgetop.sensors.root import Root, parse_int

HOST = Root()  # the real one, whatever board the sensors read
SEARCH_S = 5.0  # between two searches for processes that began
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SHARED_NOTE = "edgetop's own included: the engine is a thread of it"

# Of the fields after the command's name, which may hold spaces and brackets itself.
_PARENT, _MAJOR_FAULTS, _USER, _SYSTEM, _USER_OF_ENDED, _SYSTEM_OF_ENDED, _BEGAN = 1, 9, 11, 12, 13, 14, 19
_WHOLE = (_PARENT, _MAJOR_FAULTS, _USER, _SYSTEM, _USER_OF_ENDED, _SYSTEM_OF_ENDED)

_COUNTER = re.compile(r"^(\S+)[ \t]+([0-9]{1,20})$", re.MULTILINE)


class Stat(NamedTuple):
    """Some of /proc/PID/stat."""

    name: str  # `comm`: 15 characters, and no command line, which can hold what nobody wants in a recording
    parent: int
    major_faults: int
    cpu_ticks: int  # used by itself
    began: str  # with its number it names a process: numbers are used again
    ended_ticks: int = 0  # used by children that have ended, and by theirs


def parse_stat(text: str) -> Stat:
    """Raises ValueError where this is no /proc/PID/stat.

    >>> parse_stat("7 (a) b) S 1 7 7 0 -1 4194560 900 0 12 0 5 3 0 0 20 0 1 0 4711").major_faults
    12
    """
    head, _, rest = text.rpartition(")")
    fields = rest.split(maxsplit=_BEGAN + 1)
    if len(fields) <= _BEGAN:
        raise ValueError("no whole /proc/PID/stat")
    parent, faults, *ticks = (parse_int(fields[place]) for place in _WHOLE)
    return Stat(head.partition("(")[2], parent, faults, sum(ticks[:2]), fields[_BEGAN], sum(ticks[2:]))


def everyone(root: Root = HOST) -> Iterator[tuple[int, Stat]]:
    """Every process that can be read: a few µs each."""
    for name in root.entries("proc"):
        if name.isdigit():
            try:
                yield int(name), parse_stat(root.read_text(f"proc/{name}/stat"))
            except (OSError, ValueError):  # it ended meanwhile, or is another's business
                continue


class Family:
    """A process and all that descend from it, those included whose parents have ended meanwhile.

    Its members are searched every few seconds: that costs about 10 us for each process of the board.
    """

    def __init__(self, pid: int, root: Root = HOST, now: Callable[[], float] = time.monotonic) -> None:
        self._root, self._now = root, now
        self._members: dict[int, str] = {pid: ""}  # when each began
        self._searched_s = float("-inf")
        self._used_ticks = 0

    def stats(self) -> dict[int, Stat]:
        """Return the state of each living process of the group, by process id."""
        if self._now() - self._searched_s >= SEARCH_S:
            self._searched_s = self._now()
            self._search()
        found = {}
        for pid, began in self._members.items():
            with contextlib.suppress(OSError, ValueError):  # it has ended
                stat = parse_stat(self._root.read_text(f"proc/{pid}/stat"))
                if began in ("", stat.began):
                    found[pid] = stat
        return found

    def _search(self) -> None:
        children: dict[int, list[int]] = {}
        living: dict[int, str] = {}
        for pid, stat in everyone(self._root):
            living[pid] = stat.began
            children.setdefault(stat.parent, []).append(pid)
        found = [pid for pid, began in self._members.items() if began in ("", living.get(pid))]
        for pid in found:  # grows on the way
            found += [child for child in children.get(pid, ()) if child not in self._members]
        self._members = {pid: living.get(pid, "") for pid in found}

    def used_ticks(self) -> int:
        """Return the CPU ticks of all its processes so far; ended ones count for their parents. It never decreases."""
        used = sum(stat.cpu_ticks + stat.ended_ticks for stat in self.stats().values())
        self._used_ticks = max(self._used_ticks, used)
        return self._used_ticks


Use = Mapping[tuple[int, str], tuple[str, int]]  # by number and begin: the name, and the ticks used since then


def used_by_others(ours: set[int], root: Root = HOST) -> Use:
    """Return the CPU use, in ticks, of every process except these and the ones that they started themselves."""
    others = ((pid, stat) for pid, stat in everyone(root) if pid not in ours and stat.parent not in ours)
    return {(pid, stat.began): (stat.name, stat.cpu_ticks) for pid, stat in others}


def percent_by_name(before: Use, after: Use, span_s: float) -> dict[str, float]:
    """Return the CPU use between two surveys, in percent of a core; a process that is new counts in full."""
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
