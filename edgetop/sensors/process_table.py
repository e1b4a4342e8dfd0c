"""Parse the kernel's files about processes and CPU time: proc_pid_stat(5), proc_stat(5), proc_pid_task(5)."""

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from edgetop.sensors.counters import bounded
from edgetop.sensors.root import File, Root, parse_int
from edgetop.sensors.sensor_protocol import Gap

HOST = Root()  # the real root, whatever board the sensors read
SEARCH_S = 5.0  # interval of searches for new processes
LIST_S, MOST_LISTED = 0.5, 256  # interval of reads of lists of children, and most threads whose lists are read
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
# Number of a root's open files up to which files of processes stay open: the rest of `root.MAX_OPEN` is for others.
MOST_OPEN = 120
SHARED_NOTE = "edgetop's own included: the engine is a thread of it"

# The fields after the command's name, which may itself contain spaces and brackets: the state, parent, 7 others, major
# faults, another, user and system time, the same of ended descendants, 4 others, start time, another, resident pages.
_NUMBER = r"([+-]?[0-9]{1,20})"
_FIELDS = re.compile(
    rf" \S+ {_NUMBER}(?: \S+){{7}} {_NUMBER} \S+ {_NUMBER} {_NUMBER} {_NUMBER} {_NUMBER}"
    rf"(?: \S+){{4}} (\S+)(?: \S+ {_NUMBER}(?!\S))?"
)

_COUNTER = re.compile(r"^(\S+)[ \t]+([0-9]{1,20})$", re.MULTILINE)
MAX_CPUS = 8192  # largest NR_CPUS that arch/x86/Kconfig allows; fewer elsewhere


class Stat(NamedTuple):
    """One process's values from its file /proc/PID/stat, as far as they are used here."""

    name: str  # `comm`, of at most 15 characters; not the command line, which may contain private data
    parent: int
    major_faults: int
    cpu_ticks: int  # used by the process itself
    began: str  # start time; it tells processes apart whose number was reused
    ended_ticks: int = 0  # used by descendants that have ended
    resident_pages: int = 0  # in memory now; 0 if the kernel does not report it


def parse_stat(text: str) -> Stat:
    """Return some fields in the text of /proc/PID/stat. Raises ValueError if the text is something else.

    >>> parse_stat("7 (a) b) S 1 7 7 0 -1 4194560 900 0 12 0 5 3 0 0 20 0 1 0 4711").major_faults
    12
    """
    end = text.rfind(")")
    match = _FIELDS.match(text, end + 1)
    if end < 0 or match is None:
        raise ValueError("no whole /proc/PID/stat")
    parent, faults, user, system, user_of_ended, system_of_ended, began, pages = match.groups("0")
    ended_ticks, held = int(user_of_ended) + int(system_of_ended), max(0, int(pages))
    return Stat(
        text[text.find("(") + 1 : end], int(parent), int(faults), int(user) + int(system), began, ended_ticks, held
    )


def everyone(root: Root = HOST) -> Iterator[tuple[int, Stat]]:
    """Yield `(process id, fields of its /proc/PID/stat)` for every process that can be read, about 10 µs for each."""
    return Everyone(root).read_stats()


class Everyone:
    """The processes of a machine, to be read again and again: the files of most of them stay open in between."""

    def __init__(self, root: Root = HOST) -> None:
        self._root = root
        self._files: dict[str, File] = {}  # by process id

    def read_stats(self) -> Iterator[tuple[int, Stat]]:
        """Yield `(process id, fields of its /proc/PID/stat)` for every process that can be read, some µs for each."""
        before, self._files = self._files, {}
        for name in self._root.entries("proc"):
            if not name.isdigit():
                continue
            file = before.get(name) or self._root.file(f"proc/{name}/stat")
            try:
                stat = parse_stat(file.read_text())
            except (OSError, ValueError):  # it has ended meanwhile, or may not be read
                continue
            if name in before or self._root.open_files <= MOST_OPEN:
                self._files[name] = file
            yield int(name), stat


# Inode number of the first PID namespace, constant since Linux 3.8 (PROC_PID_INIT_INO, include/linux/proc_ns.h).
_FIRST_NAMESPACE = "pid:[4026531836]"
_HIDEPID = re.compile(r"\bhidepid=(?!0\b|off\b)\w+")
Unseen = Literal["hidepid", "container"]


def why_unseen(root: Root = HOST) -> Unseen | None:
    """Return why this user cannot see all processes of the machine, or None if all can be seen.

    "hidepid": this option of /proc hides the processes of other users (Documentation/filesystems/proc.rst, "Mount
    Options"). It does not hide them from root, nor from a group that the option names. "container": a container shows
    only its own processes (pid_namespaces(7)).
    """
    for line in root.text("proc/self/mountinfo").splitlines():
        is_proc = line.split(" ")[4:5] == ["/proc"]
        if is_proc and _HIDEPID.search(line) and not root.text("proc/1/stat"):
            return "hidepid"
    namespace = root.link("proc/self/ns/pid")
    return "container" if namespace and namespace != _FIRST_NAMESPACE else None


class Family:
    """A process and all its descendants, including those whose parents have ended.

    Every few seconds, all processes are searched for descendants, which takes about 10 us for each process of the
    board. In between, the kernel's lists of children are read more often. So a new child is found soon, and its CPU
    time counts in the seconds in which it was used.
    """

    def __init__(self, pid: int, root: Root = HOST, now: Callable[[], float] = time.monotonic) -> None:
        self._root, self._now, self._everybody = root, now, Everyone(root)
        self._members: dict[int, str] = {pid: ""}  # start time by process id; "" if unknown
        self._searched_s = self._listed_s = float("-inf")
        self._used_ticks = 0

    def stats(self) -> dict[int, Stat]:
        """Return the fields of /proc/PID/stat of each living process of the family, by process id."""
        if self._now() - self._searched_s >= SEARCH_S:
            self._searched_s = self._listed_s = self._now()
            self._search()
        elif self._now() - self._listed_s >= LIST_S:
            self._listed_s = self._now()
            self._add_children()
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
        for pid, stat in self._everybody.read_stats():
            living[pid] = stat.began
            children.setdefault(stat.parent, []).append(pid)
        found = [pid for pid, began in self._members.items() if began in ("", living.get(pid))]
        for pid in found:  # the list grows in the loop
            found += [child for child in children.get(pid, ()) if child not in self._members]
        self._members = {pid: living.get(pid, "") for pid in found}

    def _add_children(self) -> None:
        """Add the children that the kernel lists for each thread.

        The lists need a kernel with CONFIG_PROC_CHILDREN (proc_tid_children(5)).
        """
        found, listed = list(self._members), 0
        for pid in found:  # the list grows in the loop
            for task in self._root.names(f"proc/{pid}/task"):
                listed += 1
                if listed > MOST_LISTED:
                    return
                names = self._root.text(f"proc/{pid}/task/{task}/children").split()
                for child in (int(name) for name in names if name.isdigit()):
                    if child not in self._members:
                        self._members[child] = self._began(child)
                        found.append(child)

    def _began(self, pid: int) -> str:
        try:
            return parse_stat(self._root.read_text(f"proc/{pid}/stat")).began
        except (OSError, ValueError):  # it has ended
            return ""

    def used_ticks(self) -> int:
        """Return the CPU ticks that all processes of the family have used so far. The result never decreases.

        Ticks of processes that have ended are included, since the kernel adds them to their parents.
        """
        used = sum(stat.cpu_ticks + stat.ended_ticks for stat in self.stats().values())
        self._used_ticks = max(self._used_ticks, used)
        return self._used_ticks


Use = Mapping[tuple[int, str], tuple[str, int]]  # by (process id, start time): name, and ticks used


def split_processes(ours: set[int], everybody: Everyone) -> tuple[list[int], Use, dict[str, int]]:
    """Return `(children, use, pages)`, which describe all processes but ours. `ours` are the ids of our processes.

    `children` are the ids of the other processes whose parent is one of ours. All remaining processes are in `use` and
    `pages`. `use` has `(name, CPU ticks used so far)` by `(process id, start time)`. `pages` has the resident memory in
    pages by process name; processes of one name are added up.
    """
    started, others = [], {}
    pages: dict[str, int] = {}
    for pid, stat in everybody.read_stats():
        if pid in ours:
            continue
        if stat.parent in ours:
            started.append(pid)
        else:
            others[pid, stat.began] = stat.name, stat.cpu_ticks
            pages[stat.name] = pages.get(stat.name, 0) + stat.resident_pages
    return started, others, pages


def percent_by_name(before: Use, after: Use, span_s: float, cpus: int) -> dict[str, float]:
    """Return how much CPU processes used between two readings, in percent of a core, by process name.

    `before` and `after` are the readings, `span_s` seconds apart. Each has `(name, CPU ticks used so far)` by
    `(process id, start time)`. All ticks of a process that is only in `after` count. A process that used more than
    `cpus` CPUs can give is left out, because its counter must be wrong.
    """
    percent: dict[str, float] = {}
    for process, (name, ticks) in after.items():
        used = bounded((ticks - before.get(process, (name, 0))[1]) * TICK_S, span_s, cpus) if span_s > 0 else 0.0
        if not isinstance(used, Gap) and used > 0:
            percent[name] = percent.get(name, 0.0) + 100 * used
    return percent


def parse_cpu_ticks(stat: str) -> tuple[int, int]:
    """Return `(busy ticks, ticks that a hypervisor took)`, each of all CPUs together since boot.

    `stat` is the text of /proc/stat. Raises ValueError if it is something else.
    """
    name, *fields = stat.partition("\n")[0].split() or [""]
    if name != "cpu" or len(fields) < 8:
        raise ValueError("no whole cpu line at its head")
    ticks = [parse_int(field) for field in fields]
    # Fields: user nice system idle iowait irq softirq steal. Guest time is included in user.
    return sum(ticks[:3]) + sum(ticks[5:7]), ticks[7]


def busy_s(root: Root = HOST) -> float:
    """Return how many seconds the CPUs have been busy since boot, added up over all CPUs.

    Raises OSError or ValueError.
    """
    return parse_cpu_ticks(root.read_text("proc/stat"))[0] * TICK_S


def count_cpus(stat: str) -> int:
    """Return the number of CPUs that are online, or `MAX_CPUS` if the text names none.

    `stat` is the text of /proc/stat.
    """
    return stat.count("\ncpu") or MAX_CPUS  # all but the first line, which is of all CPUs together


def parse_counters(text: str) -> dict[str, int]:
    r"""Return the numbers in lines of the form `name 123`, by name. Other lines are ignored.

    >>> parse_counters("pswpin 12\nnr_dirty -\n")
    {'pswpin': 12}
    """
    return {name: int(count) for name, count in _COUNTER.findall(text)}


def own_threads() -> set[int]:
    """Return the system's ids of the threads that Python has started in this process, without the engine's thread."""
    return {thread.native_id or 0 for thread in threading.enumerate() if thread.name != "engine"}
