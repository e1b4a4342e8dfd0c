"""A watched application as a whole: the processes that it consists of, their memory and CPU, and that of its threads.

The process that is watched and all that descend from it, from the real /proc. proc_pid_statm(5), proc_pid_task(5).
"""

import contextlib
import time
from collections.abc import Callable, Sequence

from edgetop.sensors.competitors import Competitors
from edgetop.sensors.counters import Rate, SumRate
from edgetop.sensors.memory import MIB, resident_bytes
from edgetop.sensors.processes import HOST, TICK_S, Family, parse_stat, percent_by_name
from edgetop.sensors.protocol import Found, Gap, SensorEvent, Values, sensor
from edgetop.sensors.root import Root
from edgetop.sensors.scheduling import waited_by_thread

THREADS_S = 60.0  # after 10 s, and then each minute, an event tells which threads took the CPU
FIRST_THREADS_S = 10.0
SHOWN, LEAST_PCT = 6, 1.0  # of a core


class Application:
    name = "application"
    cadence_s = 1.0

    def __init__(
        self, pid: int, root: Root = HOST, now: Callable[[], float] = time.monotonic, family: Family | None = None
    ) -> None:
        self._pid, self._root, self._now = pid, root, now
        self._family = family or Family(pid, root, now)
        self._pids: list[int] = [pid]
        self._cpu, self._waited = Rate(), SumRate()
        self._threads: dict[tuple[int, str], tuple[str, int]] = {}  # by process and number: name, and ticks used
        self._threads_s = now()
        self._threads_due_s = self._threads_s + FIRST_THREADS_S
        self._events: list[SensorEvent] = []
        source = f"/proc/{pid} and its descendants"
        self.sensors = (
            sensor("mem", "application", source, note="all its processes; what they share counts in each"),
            sensor("load", "application", source, note="all its processes, percent of one core"),
            sensor("rate", "children-run-queue-wait", source, note="ms a second, of the processes that it started"),
        )

    def read(self) -> Values:
        at_s, stats = self._now(), self._family.stats()
        if not stats:
            return [Gap("the application has ended")] * 3
        self._pids = list(stats)
        if not self._threads or at_s >= self._threads_due_s:
            self._look_at_threads(at_s)
        cpu = self._cpu.percent(self._family.used_ticks() * TICK_S, at_s)
        memory = sum(resident_bytes(pid) for pid in self._pids) / MIB
        return [memory, cpu, self._children_waited_ms(at_s)]

    def _children_waited_ms(self, at_s: float) -> float | Gap:
        """A second, for a CPU."""
        waited: dict[str, int] = {}
        for pid in self._pids:
            if pid != self._pid:
                with contextlib.suppress(OSError, ValueError):
                    waited |= waited_by_thread(pid, self._root)
        per_s = self._waited.per_second(waited, at_s)
        if not waited:
            return 0.0
        return per_s if isinstance(per_s, Gap) else per_s / 1e6

    def _look_at_threads(self, at_s: float) -> None:
        before, self._threads = self._threads, self._thread_ticks()
        span_s, self._threads_s = at_s - self._threads_s, at_s
        if not before or span_s <= 0:
            return
        self._threads_due_s = at_s + THREADS_S
        percent = percent_by_name(before, self._threads, span_s)
        most = sorted((one for one in percent.items() if one[1] >= LEAST_PCT), key=lambda one: -one[1])[:SHOWN]
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


def discover(pid: int) -> Found:
    """With those that compete with it: who belongs to it is asked once for both."""
    family = Family(pid)
    return Found((Application(pid, family=family), Competitors(pid, family=family)))
