"""CPU load, in percent of one core: the whole system, the engine, edgetop itself, and what was stolen.

Each is a difference of two readings, so the first read only begins the interval.
proc_stat(5) for the system, under the root; the real /proc for the two processes.
"""

import os
import threading
import time
from collections.abc import Callable, Sequence

import psutil

from edgetop.sensors.numbers import parse_int
from edgetop.sensors.protocol import Found, Gap, Missing, sensor
from edgetop.sensors.rates import Rate
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

CADENCE_S = 1.0


class SystemLoad:
    """All CPUs together, and what a hypervisor took from them."""

    name = "system load"
    cadence_s = CADENCE_S

    def __init__(self, root: Root) -> None:
        self._root = root
        self._busy, self._steal = Rate(), Rate()
        source = root.shown("proc/stat")
        self.sensors = (sensor("load", "cpu", source, note="all cores together"), sensor("load", "steal", source))

    def read(self) -> Sequence[float | Gap]:
        now = time.monotonic()
        name, *fields = self._root.read_text("proc/stat").split("\n", 1)[0].split() or [""]
        if name != "cpu" or len(fields) < 8:
            raise ValueError("no whole cpu line at its head")
        ticks = [parse_int(field) for field in fields]
        # user nice system idle iowait irq softirq steal; guest time is in user already.
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        busy = sum(ticks[:3]) + sum(ticks[5:7])
        return [self._busy.percent(busy * tick_s, now), self._steal.percent(ticks[7] * tick_s, now)]


class ProcessLoad:
    """CPU time of one process, taken from a callable that gives seconds."""

    cadence_s = CADENCE_S

    def __init__(self, info: SensorInfo, cpu_seconds: Callable[[], float]) -> None:
        self.name = info.id
        self.sensors = (info,)
        self._cpu_seconds = cpu_seconds
        self._rate = Rate()

    def read(self) -> Sequence[float | Gap]:
        try:
            return [self._rate.percent(self._cpu_seconds(), time.monotonic())]
        except psutil.Error:
            return [Gap("the process is gone")]


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    """Engine and edgetop. `shares_process`: the engine is a thread, told apart by its threads."""
    note = "by threads: what Python started is edgetop, the rest is the engine" if shares_process else None
    own, engine = (
        sensor("load", "edgetop", "/proc/self/stat", note=note),
        sensor("load", "engine", f"/proc/{pid}/stat", note=note),
    )
    if shares_process:
        return Found(
            (ProcessLoad(engine, lambda: time.process_time() - _own_threads_s()), ProcessLoad(own, _own_threads_s))
        )
    try:
        process = psutil.Process(pid)
    except psutil.Error:  # it ended as soon as it had begun
        return Found((ProcessLoad(own, time.process_time),), (Missing(engine.id, "the process is gone"),))
    return Found((ProcessLoad(engine, lambda: _cpu_s(process)), ProcessLoad(own, time.process_time)))


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _own_threads_s() -> float:
    """CPU seconds of the threads Python started, the engine's loop left out."""
    own = {thread.native_id for thread in threading.enumerate() if thread.name != "engine"}
    return sum(float(t.user_time + t.system_time) for t in psutil.Process().threads() if t.id in own)


def discover(root: Root) -> Found:
    if root.exists("proc/stat"):
        return Found((SystemLoad(root),))
    return Found(missing=(Missing("system load", f"no {root.shown('proc/stat')}"),))
