"""What the CPU and the kernel count of the engine's threads: cycles, instructions, cache misses, migrations.

Each event is a sensor `rate/EVENT`. Its reading is the number of events per second since the reading before. The
reading is a gap if the CPU did not count all the time.
"""

import errno
import time
from collections.abc import Callable, Sequence

from edgetop.sensors.core_pmus import EVENTS, CorePmu, core_pmus, line_bytes
from edgetop.sensors.counters import FIRST
from edgetop.sensors.perf_counting import KERNEL_EVENTS, Calls, Grown, KernelCalls, ThreadCounters
from edgetop.sensors.plausible import most_cpus
from edgetop.sensors.process_table import HOST
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Values, sensor
from edgetop.session.manifest import SensorInfo

# By label of `Missing`.
COUNTERS, CPU_COUNTERS = "counters", "CPU counters"
PARANOID = "proc/sys/kernel/perf_event_paranoid"
LOWER = "sudo sysctl kernel.perf_event_paranoid=1"
# The filter of a container's system calls is the usual reason (docs.docker.com/engine/security/seccomp).
UNCONFINED = "docker run --cap-add PERFMON --security-opt seccomp=unconfined ..."
# Reads in a row that were not counted all the time, after which the last event is left out. Choice: another program
# may use the counters for a moment.
PARTIAL_READS = 3
MOST_HZ_OF_EVENTS = 100e9  # choice: no core counts an event more often in a second
PARTIAL = Gap("the CPU counted it only part of the time")
NO_ROOM = Gap("the CPU has too few counters for it")
NO_PMU = "the kernel has no counters of this CPU, as in most virtual machines"


class EngineCounters:
    """A source that reads what the CPU and the kernel count of a process's threads, as rates per second."""

    name = "engine counters"
    cadence_s = 1.0

    def __init__(self, counters: ThreadCounters, pmus: Sequence[CorePmu], root: Root, now: Callable[[], float]) -> None:
        pid = counters.pid
        self._counters, self._now, self._cpus = counters, now, most_cpus(root)
        self._names = [event for event in EVENTS if event in counters.events]
        self._names += [event.name for event in KERNEL_EVENTS if event.name in counters.events]
        self._kinds = [pmu.name for pmu in pmus] if len(pmus) > 1 else []
        self._line_bytes = line_bytes(root, pmus) if "cache-misses" in self._names else None
        lines = f"{self._line_bytes} for each cache miss; what is prefetched or written back is not in it"
        fetched = (sensor("rate", "missed-bytes", _source(pid, "", pmus), note=lines),) if self._line_bytes else ()
        self._at_s: float | None = None
        self._partial_reads = 0
        self.sensors: tuple[SensorInfo, ...] = (
            *(sensor("rate", name, _source(pid, name, pmus), note=self._note(name, pmus)) for name in self._names),
            *fetched,
            *(sensor("load", f"on-{kind}", _source(pid, "", pmus), note="of one core") for kind in self._kinds),
        )

    def _note(self, name: str, pmus: Sequence[CorePmu]) -> str | None:
        parts = []
        if name == "task-clock":
            parts.append("ms a second on a CPU")
        if name.startswith("cache-") and pmus:
            parts.append(f"of {pmus[0].cache}")
        if self._counters.excludes_kernel and name != "task-clock":
            parts.append("in user space")
        return ", ".join(parts) or None

    def read(self) -> Values:
        at_s, grown = self._now(), self._counters.grown()
        before_s, self._at_s = self._at_s, at_s
        if before_s is None or at_s <= before_s:
            return [FIRST] * len(self.sensors)
        passed_s = at_s - before_s
        values = [self._rate(name, grown, passed_s) for name in self._names]
        if self._line_bytes:
            misses = values[self._names.index("cache-misses")]
            values.append(misses if isinstance(misses, Gap) else misses * self._line_bytes)
        on_kinds = [grown.ran_ns.get(kind, 0) / 1e7 / passed_s for kind in self._kinds]
        self._partial_reads = self._partial_reads + 1 if PARTIAL in values else 0
        if self._partial_reads >= PARTIAL_READS and self._counters.leave_out_last():
            self._partial_reads, self._at_s = 0, None  # all begin anew
        return [*values, *on_kinds]

    def _rate(self, name: str, grown: Grown, passed_s: float) -> float | Gap:
        if name not in self._counters.events:
            return NO_ROOM
        if name not in grown.counts:
            return PARTIAL
        rate = grown.counts[name] / passed_s
        if not 0 <= rate <= MOST_HZ_OF_EVENTS * self._cpus:
            return Gap(f"{rate:.3g} a second, which no CPU counts")
        return rate / 1e6 if name == "task-clock" else rate  # ns to ms

    def close(self) -> None:
        self._counters.close()


def _source(pid: int, name: str, pmus: Sequence[CorePmu]) -> str:
    of_cpu = name in EVENTS or not name
    return f"/proc/{pid}/task, perf events of {' and '.join(pmu.name for pmu in pmus) if of_cpu else 'the kernel'}"


def discover_engine(
    pid: int,
    *,
    shares_process: bool,
    is_program: bool = False,
    root: Root = HOST,
    calls: Calls | None = None,
    now: Callable[[], float] = time.monotonic,
) -> Found:
    """Return a source of what the CPU and the kernel count of the threads of process `pid`, and what cannot be counted.

    With `is_program`, the processes that these threads start count too. With `shares_process`, the engine is a thread
    of edgetop, and nothing is counted. `calls` makes the system calls, and `now` returns the present time in seconds.
    """
    if shares_process:
        return Found(missing=(Missing(COUNTERS, "the engine is a thread of edgetop", "use --isolation process"),))
    pmus = core_pmus(root)
    try:
        counters = ThreadCounters(pid, pmus, root, calls or KernelCalls(), with_processes=is_program)
    except OSError as error:
        return Found(missing=(_refused(error, root),))
    source = EngineCounters(counters, pmus, root, now)
    return Found((source,), tuple(_lacking(counters, pmus)))


def _refused(error: OSError, root: Root) -> Missing:
    why = error.strerror or str(error)
    if error.errno == errno.ENOSYS:
        return Missing(COUNTERS, "this kernel has no perf events (CONFIG_PERF_EVENTS)")
    if error.errno not in (errno.EACCES, errno.EPERM):
        return Missing(COUNTERS, why)
    level = root.number(PARANOID)
    if level is not None and level > 2:  # 3 or 4, of distributions, allow it to nobody but root
        return Missing(COUNTERS, f"perf_event_paranoid is {level}, which allows them to root only", LOWER)
    return Missing(COUNTERS, "not allowed, as in a container or for another user's process", UNCONFINED)


def _lacking(counters: ThreadCounters, pmus: Sequence[CorePmu]) -> list[Missing]:
    if not pmus:
        return [Missing(CPU_COUNTERS, NO_PMU)]
    missing = []
    if counters.excludes_kernel:
        missing.append(
            Missing(f"{CPU_COUNTERS} of the kernel's side", "perf_event_paranoid allows user space only", LOWER)
        )
    for pmu in pmus:
        listed = [event.name for event in pmu.events]
        without = [event for event in EVENTS if event not in listed or (pmu.name, event) in counters.lacking]
        if without:
            missing.append(Missing(f"{CPU_COUNTERS} of {pmu.name}", f"it does not count {', '.join(without)}"))
    return missing
