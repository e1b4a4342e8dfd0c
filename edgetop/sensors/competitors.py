"""Memory and CPU use of a watched program as a whole, and the load of other processes.

The program consists of the watched process and all its descendants. The load of all other processes together is read
every time. The load of each process by name needs a read of every process, about 10 us each. So loads by name are read
only from time to time, and each second while other processes use much CPU. All data comes from the real /proc:
proc_pid_statm(5), proc_pid_task(5).
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from edgetop.sensors.counters import Rate, SumRate, bounded
from edgetop.sensors.cpu_load import LONGEST_WAIT_S, NS, waited_by_thread
from edgetop.sensors.memory_sensors import MIB, resident_bytes
from edgetop.sensors.plausible import most_cpus
from edgetop.sensors.process_table import (
    HOST,
    SEARCH_S,
    TICK_S,
    Everyone,
    Family,
    Use,
    count_cpus,
    parse_cpu_ticks,
    parse_stat,
    percent_by_name,
    split_processes,
    why_unseen,
)
from edgetop.sensors.root import File, Root
from edgetop.sensors.sensor_protocol import Found, Gap, Reader, SensorEvent, Values, sensor
from edgetop.session.event_kinds import Competing, MemoryTaken, ThreadsUsed

MUCH_PCT = 30.0  # load of other processes, in percent of a core, from which their names are read
EVERY_S = 10.0  # interval of reading names below that load, so that there is something to compare with
CLOSE_READS = 10  # above that load, names are read each second this many times, and then at this interval
CLOSE_EVERY_S = 5.0
AGAIN_S = 30.0  # time after which the same names are reported again
LEAST_PCT, SHOWN = 5.0, 3  # least load of a process to be named, in percent of a core, and most names

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / MIB
GREW_MIB, GREW_AGAIN = 64.0, 1.25  # least rise of a program's memory that is reported, and the factor for a next report

HIDDEN = "(processes that cannot be seen)"  # the name in a survey for all of them together

THREADS_S = 60.0  # interval of events that name the threads which took the CPU; the first comes after 10 s
FIRST_THREADS_S = 10.0
THREADS_LEAST_PCT, THREADS_SHOWN = 1.0, 6


class Competitors:
    name = "other processes"
    cadence_s = 1.0

    def __init__(
        self,
        pid: int,
        root: Root = HOST,
        now: Callable[[], float] = time.monotonic,
        own: int | None = None,
        family: Family | None = None,
    ) -> None:
        """Prepare to measure all processes except the engine, edgetop, and the processes that these two have started.

        `pid` is the engine's process id, and `own` is edgetop's process id (by default the id of this process).
        `family` is only given for a watched program, and finds the descendants that belong to the program. `now`
        returns the present time in seconds.
        """
        self._root, self._everybody = root, Everyone(root)
        self._now = now
        self._family, own = family, os.getpid() if own is None else own
        self._ours = {pid, own}
        self._stat = root.file("proc/stat")
        self._own_stats = [root.file(f"proc/{each}/stat") for each in ({own} if family else self._ours)]
        self._started: dict[int, File] = {}  # stat of processes that edgetop and the engine have started, as last seen
        self._rate = Rate()
        self._cpus = 1  # the most that were online so far
        self._seen: Use = {}
        self._seen_at_s: float | None = None
        self._began: set[str] = set()  # names whose processes all began between the last two looks
        self._taken: dict[str, float] = {}  # by name: percent of a core times seconds, since the survey began
        self._survey_began_s: float | None = None
        self._survey_ticks = 0  # ticks of other processes when the survey began
        self.unseen = why_unseen(root)
        self._lock = threading.Lock()  # surveys and reads come from different threads
        self._close_reads = 0
        self._memory = _Memory()
        self._reported: tuple[tuple[str, ...], float] = ((), 0.0)
        self._events: list[SensorEvent] = []
        self._ticks = 0  # ticks of other processes so far
        self._read_at_s: float | None = None
        self._has_found = False  # whether processes that edgetop has started were found since the last read
        self.sensors = (sensor("load", "others", "/proc/stat", note="all but the engine and edgetop"),)

    def begin_survey(self) -> None:
        with self._lock:
            self._survey_began_s = self._now()
            self._measure(self._survey_began_s)
            self._taken, self._survey_ticks = {}, self._count()

    def survey(self) -> Sequence[tuple[str, float]]:
        """Return `(process name, mean percent of a core)` for the time since `begin_survey`, the greatest first.

        At most three names with at least 5 % are returned. If this user cannot see all processes, the CPU time that no
        visible process used is listed under the name `HIDDEN`.
        """
        with self._lock:
            at_s = self._now()
            self._measure(at_s)
            span_s = at_s - (at_s if self._survey_began_s is None else self._survey_began_s)
            if span_s <= 0:
                return []
            taken = {name: percent_s / span_s for name, percent_s in self._taken.items()}
            if self.unseen:
                every = bounded((self._count() - self._survey_ticks) * TICK_S, span_s, self._cpus)
                taken[HIDDEN] = 0.0 if isinstance(every, Gap) else 100 * every - sum(taken.values())
            return _most(taken)

    def read(self) -> Values:
        with self._lock:
            return [self._load()]

    def _load(self) -> float | Gap:
        at_s = self._now()
        ticks = self._count()
        top: list[tuple[str, float]] = []
        if self._is_look_due(ticks, at_s):  # before the load is told, since edgetop may have started a process
            top = self._measure(at_s)
            ticks = self._count()
        if not self._has_found:
            # The kernel counts processes and CPUs separately, so the difference may go back by a few ticks. Only if a
            # process of edgetop was found that had counted as another one, it goes back by more, which is one gap.
            ticks = max(self._ticks, ticks)
        self._ticks, self._read_at_s, self._has_found = ticks, at_s, False
        others = self._rate.percent(ticks * TICK_S, at_s, self._cpus)
        if isinstance(others, float) and others >= MUCH_PCT and top:
            names = tuple(name for name, _ in top)
            if names != self._reported[0] or at_s - self._reported[1] >= AGAIN_S:
                self._reported = names, at_s
                text = f"other processes took the CPU, of a core: {_words(top)}"
                began = names[0] in self._began or None
                self._events.append(SensorEvent(Competing(names[0], round(top[0][1], 1), began), text))
        return others

    def _count(self) -> int:
        """Return the CPU ticks that all processes except the engine's and edgetop's have used since boot."""
        text = self._stat.read_text()
        self._cpus = max(self._cpus, count_cpus(text))
        busy, _ = parse_cpu_ticks(text)  # stolen time belongs to no process here
        ours = self._family.used_ticks() if self._family else 0
        for file in (*self._own_stats, *self._started.values()):
            with contextlib.suppress(OSError):  # it has ended, and its ticks are those of whoever started it
                stat = parse_stat(file.read_text())
                ours += stat.cpu_ticks + stat.ended_ticks
        return busy - ours

    def _is_look_due(self, ticks: int, at_s: float) -> bool:
        """Return True if the CPU use of other processes by name must be read now, which takes long.

        It is read from time to time, and more often while other processes take much CPU. `ticks` are the CPU ticks of
        other processes so far, and `at_s` is the present time in seconds.
        """
        if self._read_at_s is None or self._seen_at_s is None or at_s <= self._read_at_s:
            return True
        is_much = 100 * (ticks - self._ticks) * TICK_S / (at_s - self._read_at_s) >= MUCH_PCT
        if not is_much:
            self._close_reads = 0
        patience_s = (0.0 if self._close_reads < CLOSE_READS else CLOSE_EVERY_S) if is_much else EVERY_S
        is_due = at_s - self._seen_at_s >= patience_s
        self._close_reads += is_much and is_due
        return is_due

    def take_events(self) -> Sequence[SensorEvent]:
        notices, self._events = self._events, []
        return notices

    def _measure(self, at_s: float) -> list[tuple[str, float]]:
        """Return `(process name, percent of a core)` for the time since the last call, the greatest first.

        Names below `LEAST_PCT` are left out. `at_s` is the present time in seconds.
        """
        before, span_s = self._seen, at_s - (self._seen_at_s or 0.0)
        ours = self._ours | set(self._family.stats()) if self._family else self._ours
        started, self._seen, pages = split_processes(ours, self._everybody)
        self._seen_at_s = at_s
        self._events.extend(self._memory.news(pages, at_s))
        if self._family is None:
            self._has_found |= not self._started.keys() >= set(started)
            self._started = {pid: self._root.file(f"proc/{pid}/stat") for pid in started}
        used = percent_by_name(before, self._seen, span_s, self._cpus) if before else {}
        self._began = {name for name, _ in self._seen.values()} - {
            self._seen[process][0] for process in self._seen.keys() & before.keys()
        }
        for name, percent in used.items():
            self._taken[name] = self._taken.get(name, 0.0) + percent * span_s
        return _most(used)


class _Memory:
    """Makes an event when another program than the watched one holds much more memory than at the first reading."""

    def __init__(self) -> None:
        self._begun: Mapping[str, int] | None = None  # pages by name at the first look
        self._reported: tuple[str, float, float] = ("", 0.0, float("-inf"))  # name, rise in MiB, and when, in s

    def news(self, pages: Mapping[str, int], at_s: float) -> Iterator[SensorEvent]:
        """Yield an event that names the program whose memory has risen most since the first call, or nothing.

        The rise must be at least `GREW_MIB`. If the last event named the same program, the rise must also be
        `GREW_AGAIN` times the reported one. Events are at least `AGAIN_S` seconds apart. `pages` has each program's
        resident memory in pages, by name. `at_s` is the present time in seconds.
        """
        if self._begun is None:
            self._begun = dict(pages)
        rises = {name: (held - self._begun.get(name, 0)) * PAGE_MIB for name, held in pages.items()}
        name = max(rises, key=lambda name: (rises[name], name), default="")
        last, last_mib, last_s = self._reported
        least = max(GREW_MIB, last_mib * GREW_AGAIN if name == last else 0.0)
        if not name or rises[name] < least or at_s - last_s < AGAIN_S:
            return
        self._reported = name, rises[name], at_s
        body = MemoryTaken(name, round(pages[name] * PAGE_MIB, 1), round(rises[name], 1))
        yield SensorEvent(body, f"{name} took {_mib(rises[name])} more memory, it holds {_mib(pages[name] * PAGE_MIB)}")


def _mib(mib: float) -> str:
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


def _most(percent: Mapping[str, float], least: float = LEAST_PCT, shown: int = SHOWN) -> list[tuple[str, float]]:
    """Return `(process name, percent of a core)` pairs from `percent`, the greatest first.

    Names below `least` percent are left out. At most `shown` pairs are returned.
    """
    top = sorted(percent.items(), key=lambda pair: (-pair[1], pair[0]))
    return [(name, taken) for name, taken in top if taken >= least][:shown]


def _words(most: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {percent:.0f} %" for name, percent in most)


def application(
    pid: int, root: Root = HOST, now: Callable[[], float] = time.monotonic, family: Family | None = None
) -> Reader:
    """Return a reader of the memory and the CPU use of a watched program with all its descendants.

    It also reads how long the descendants waited for a CPU, in ms per second. `pid` is the program's process id,
    `family` finds its descendants, and `now` returns the present time in seconds.
    """
    family = family or Family(pid, root, now)
    # The CPU time of a child that is found late counts at once.
    cpu, waited, cpus = Rate(SEARCH_S), SumRate(LONGEST_WAIT_S), most_cpus(root)
    threads = _Threads(root, now())
    events: list[SensorEvent] = []

    def read() -> Values:
        at_s, pids = now(), list(family.stats())
        if not pids:
            return [Gap("the application has ended")] * 3
        events.extend(threads.news(pids, at_s))
        load = cpu.percent(family.used_ticks() * TICK_S, at_s, cpus)
        memory = sum(map(resident_bytes, pids)) / MIB
        waited_ns: dict[str, int] = {}
        for child in pids:
            if child != pid:
                with contextlib.suppress(OSError, ValueError):
                    waited_ns |= waited_by_thread(child, root)
        wait_ns = waited.per_second(waited_ns, at_s, lambda *_: NS)
        wait_ms = 0.0 if not waited_ns else wait_ns if isinstance(wait_ns, Gap) else wait_ns / 1e6
        return [memory or Gap("the application has ended"), load, wait_ms]  # an ended process has no memory

    source = f"/proc/{pid} and its descendants"
    infos = (
        sensor("mem", "application", source, note="all its processes; what they share counts in each"),
        sensor("load", "application", source, note="all its processes, percent of one core"),
        sensor("rate", "children-run-queue-wait", source, note="ms a second, of the processes that it started"),
    )
    return Reader(infos, read, name="application", events=events)


class _Threads:
    """Makes an event once a minute that lists the CPU use of a program's threads by name."""

    def __init__(self, root: Root, at_s: float) -> None:
        self._root, self._cpus = root, most_cpus(root)
        self._used: Use = {}  # by process and thread: name, and ticks used
        self._used_s, self._due_s = at_s, at_s + FIRST_THREADS_S

    def news(self, pids: Sequence[int], at_s: float) -> Iterator[SensorEvent]:
        """Yield an event that lists the busiest threads of the processes `pids`, or nothing if it is too early.

        The first event comes after `FIRST_THREADS_S` seconds, and later ones every `THREADS_S` seconds. `at_s` is the
        present time in seconds.
        """
        if self._used and at_s < self._due_s:
            return
        before, self._used = self._used, _threads_of(pids, self._root)
        span_s, self._used_s = at_s - self._used_s, at_s
        if not before or span_s <= 0:
            return
        self._due_s = at_s + THREADS_S
        if most := _most(percent_by_name(before, self._used, span_s, self._cpus), THREADS_LEAST_PCT, THREADS_SHOWN):
            body = ThreadsUsed(len(pids), {f"thread {name}": round(pct, 1) for name, pct in most})
            yield SensorEvent(body, f"CPU by thread, of a core: {_words(most)}")


def _threads_of(pids: Sequence[int], root: Root) -> Use:
    found = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for tid in root.entries(f"proc/{pid}/task"):
                with contextlib.suppress(OSError, ValueError):
                    stat = parse_stat(root.read_text(f"proc/{pid}/task/{tid}/stat"))
                    found[pid, tid] = stat.name, stat.cpu_ticks
    return found


def discover(pid: int, *, is_program: bool) -> Found:
    """Return a source of the CPU use of all processes except the engine (process `pid`) and edgetop.

    `is_program` says that the engine is a watched program. Then a reader of the program's memory and CPU use is
    returned too.
    """
    if not is_program:
        return Found((Competitors(pid),))
    family = Family(pid)  # shared, so that processes are searched only once
    return Found((application(pid, family=family), Competitors(pid, family=family)))
