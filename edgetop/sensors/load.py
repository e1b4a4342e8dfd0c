"""CPU load, in percent of one core: the whole system, the engine, edgetop itself, and what was stolen.

Each is a difference of two readings, so the first read only begins the interval.
proc_stat(5) for the system, under the root; the real /proc for the two processes.
"""

import time
from collections.abc import Callable

from edgetop.sensors.counters import Rate
from edgetop.sensors.processes import HOST, TICK_S, own_threads, parse_cpu_ticks, parse_stat
from edgetop.sensors.protocol import Found, Gap, Missing, Reader, Values, sensor
from edgetop.sensors.root import File, Root
from edgetop.session import helper_load
from edgetop.session.manifest import SensorInfo


def discover(root: Root) -> Found:
    """All CPUs together, and what a hypervisor took from them."""
    if not root.exists("proc/stat"):
        return Found(missing=(Missing("system load", f"no {root.absolute('proc/stat')}"),))
    file, source = root.file("proc/stat"), root.absolute("proc/stat")
    busy, stolen = Rate(), Rate()

    def read() -> Values:
        now = time.monotonic()
        busy_ticks, stolen_ticks = parse_cpu_ticks(file.read_text())
        return [busy.percent(busy_ticks * TICK_S, now), stolen.percent(stolen_ticks * TICK_S, now)]

    infos = (sensor("load", "cpu", source, note="all cores together"), sensor("load", "steal", source))
    return Found((Reader(infos, read, name="system load"),))


def process_load(info: SensorInfo, cpu_seconds: Callable[[], float]) -> Reader:
    """CPU time of one process, taken from a callable that gives seconds."""
    rate = Rate()

    def read() -> Values:
        try:
            return [rate.percent(cpu_seconds(), time.monotonic())]
        except (FileNotFoundError, ProcessLookupError):
            return [Gap("the process is gone")]

    return Reader((info,), read)


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    """Engine and edgetop. `shares_process`: the engine is a thread, told apart by its threads."""
    note = "by threads: what Python started is edgetop, the rest is the engine" if shares_process else None
    own, engine = (
        sensor("load", "edgetop", "/proc/self/stat", note=note),
        sensor("load", "engine", f"/proc/{pid}/stat", note=note),
    )
    if shares_process:
        rest = process_load(engine, lambda: time.process_time() - _own_threads_s())
        return Found((rest, process_load(own, lambda: _own_threads_s() + helper_load.spent_s())))
    if not HOST.exists(f"proc/{pid}"):  # it ended as soon as it had begun
        return Found((process_load(own, _own_s),), (Missing(engine.id, "the process is gone"),))
    stat = HOST.file(f"proc/{pid}/stat")
    return Found((process_load(engine, lambda: cpu_s(stat)), process_load(own, _own_s)))


def cpu_s(stat: File) -> float:
    """CPU seconds of a process, by its /proc/PID/stat. Raises OSError where it is gone."""
    return parse_stat(stat.read_text()).cpu_ticks * TICK_S


def _own_s() -> float:
    return time.process_time() + helper_load.spent_s()


def _own_threads_s() -> float:
    """CPU seconds of the threads Python started, the engine's loop left out."""
    texts = (HOST.text(f"proc/self/task/{thread}/stat") for thread in own_threads())
    return sum(parse_stat(text).cpu_ticks * TICK_S for text in texts if text)
