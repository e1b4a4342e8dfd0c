"""A watched application as a whole: the processes that it consists of, their memory and CPU, and that of its threads.

The process that is watched and all that descend from it, from the real /proc. Which ones these are is looked up every
few seconds: that costs about 10 us for each process of the board. proc_pid_statm(5), proc_pid_task(5).
"""

import contextlib
import time
from collections.abc import Callable, Sequence

from edgetop.sensors.counters import SumRate
from edgetop.sensors.memory import MIB, resident_bytes
from edgetop.sensors.processes import HOST, TICK_S, everyone, parse_stat
from edgetop.sensors.protocol import Found, Gap, SensorEvent, Values, sensor
from edgetop.sensors.root import Root

LOOK_S = 5.0  # for processes that began
THREADS_S = 60.0  # after 10 s, and then each minute, an event tells which threads took the CPU
FIRST_THREADS_S = 10.0
SHOWN, LEAST_PCT = 6, 1.0  # of a core


class Application:
    name = "application"
    cadence_s = 1.0

    def __init__(self, pid: int, root: Root = HOST, now: Callable[[], float] = time.monotonic) -> None:
        self._pid, self._root, self._now = pid, root, now
        self._pids: list[int] = [pid]
        self._cpu = SumRate()
        self._looked_s = float("-inf")
        self._threads: dict[tuple[int, str], tuple[str, int]] = {}  # by process and number: name, and ticks used
        self._threads_s = now()
        self._threads_due_s = self._threads_s + FIRST_THREADS_S
        self._events: list[SensorEvent] = []
        source = f"/proc/{pid} and its descendants"
        self.sensors = (
            sensor("mem", "application", source, note="all its processes; what they share counts in each"),
            sensor("load", "application", source, note="all its processes, percent of one core"),
        )

    def read(self) -> Values:
        at_s = self._now()
        if at_s - self._looked_s >= LOOK_S:
            self._pids, self._looked_s = family(self._pid, self._root), at_s
        ticks = {}
        for pid in self._pids:
            with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
                stat = parse_stat(self._root.read_text(f"proc/{pid}/stat"))
                ticks[f"{pid} {stat.began}"] = stat.cpu_ticks
        if not ticks:
            return [Gap("the application has ended")] * 2
        if not self._threads or at_s >= self._threads_due_s:
            self._look_at_threads(at_s)
        cpu = self._cpu.per_second(ticks, at_s)
        memory = sum(resident_bytes(pid) for pid in self._pids) / MIB
        return [memory, cpu if isinstance(cpu, Gap) else 100 * cpu * TICK_S]

    def _look_at_threads(self, at_s: float) -> None:
        before, self._threads = self._threads, self._thread_ticks()
        span_s, self._threads_s = at_s - self._threads_s, at_s
        if not before or span_s <= 0:
            return
        self._threads_due_s = at_s + THREADS_S
        percent: dict[str, float] = {}
        for thread, (name, ticks) in self._threads.items():
            grown = ticks - before.get(thread, (name, 0))[1]
            percent[name] = percent.get(name, 0.0) + 100 * grown * TICK_S / span_s
        most = sorted(((name, pct) for name, pct in percent.items() if pct >= LEAST_PCT), key=lambda one: -one[1])[
            :SHOWN
        ]
        if most:
            text = ", ".join(f"{name} {pct:.0f} %" for name, pct in most)
            data = {"processes": len(self._pids), **{f"thread {name}": round(pct, 1) for name, pct in most}}
            self._events.append(SensorEvent("threads", f"CPU by thread, of a core: {text}", data))

    def _thread_ticks(self) -> dict[tuple[int, str], tuple[str, int]]:
        found = {}
        for pid in self._pids:
            with contextlib.suppress(OSError):
                for tid in self._root.entries(f"proc/{pid}/task"):
                    with contextlib.suppress(OSError, ValueError):
                        stat = parse_stat(self._root.read_text(f"proc/{pid}/task/{tid}/stat"))
                        found[pid, tid] = stat.name, stat.cpu_ticks
        return found

    def take_events(self) -> Sequence[SensorEvent]:
        events, self._events = self._events, []
        return events


def family(pid: int, root: Root = HOST) -> list[int]:
    """The process and all that descend from it, by number."""
    children: dict[int, list[int]] = {}
    for other, stat in everyone(root):
        children.setdefault(stat.parent, []).append(other)
    found = [pid]
    for one in found:  # grows on the way
        found += children.get(one, ())
    return sorted(found)


def discover(pid: int) -> Found:
    return Found((Application(pid),))
