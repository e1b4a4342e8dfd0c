"""CPU load, in percent of one core: the whole system, the engine, edgetop itself, and what was stolen; and the waits.

Each is a difference of two readings, so the first read only begins the interval.
proc_stat(5) for the system, under the root; the real /proc for the two processes.
"""

import contextlib
import re
import time
from collections.abc import Callable

from edgetop.sensors.counters import Rate, SumRate
from edgetop.sensors.process_table import HOST, TICK_S, own_threads, parse_cpu_ticks, parse_stat
from edgetop.sensors.root import File, Root, parse_int
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, sensor
from edgetop.session import helper_load
from edgetop.session.manifest import SensorInfo


def discover(root: Root) -> Found:
    """Discover the load of all CPUs together, and the time that a hypervisor took from them."""
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
    """Engine and edgetop. `shares_process`: the engine is a thread, separated by its threads."""
    note = "by threads: what Python started is edgetop, the rest is the engine" if shares_process else None
    own = sensor("load", "edgetop", "/proc/self/stat", note=note)
    engine = sensor("load", "engine", f"/proc/{pid}/stat", note=note)
    if shares_process:
        rest = process_load(engine, lambda: time.process_time() - _own_threads_s())
        return Found((rest, process_load(own, lambda: _own_threads_s() + helper_load.spent_s())))
    edgetop = process_load(own, lambda: time.process_time() + helper_load.spent_s())
    if not HOST.exists(f"proc/{pid}"):  # it ended as soon as it had begun
        return Found((edgetop,), (Missing(engine.id, "the process is gone"),))
    stat = HOST.file(f"proc/{pid}/stat")
    return Found((process_load(engine, lambda: cpu_s(stat)), edgetop))


def cpu_s(stat: File) -> float:
    """CPU seconds of a process, by its /proc/PID/stat. Raises OSError where it is gone."""
    return parse_stat(stat.read_text()).cpu_ticks * TICK_S


def _own_threads_s() -> float:
    """CPU seconds of the threads Python started, the engine's loop left out."""
    texts = (HOST.text(f"proc/self/task/{thread}/stat") for thread in own_threads())
    return sum(parse_stat(text).cpu_ticks * TICK_S for text in texts if text)


# Pressure stall information: in what share of the time something had to wait for CPU, memory or I/O.
# Documentation/accounting/psi.rst. Shares are made of the totals, not of the kernel's averages over 10 s and more, so
# that they belong to the interval they are shown for.

FOLDER = "proc/pressure"
SINCE = (4, 20)

# "full" of the CPU is undefined for the whole system and always 0.
_STALLS = {"cpu": ("some",), "memory": ("some", "full"), "io": ("some", "full")}
_LINE = re.compile(r"(some|full) .*\btotal=(\S+)")


def discover_pressure(root: Root, now_s: Callable[[], float] = time.monotonic) -> Found:
    sources = []
    for resource in _STALLS:
        try:
            root.read_text(f"{FOLDER}/{resource}")
        except OSError:  # EOPNOTSUPP where the kernel has it switched off (psi_show in kernel/sched/psi.c)
            continue
        sources.append(_resource(root, resource, now_s))
    if sources:
        return Found(tuple(sources))
    version = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", root.line("proc/sys/kernel/osrelease") or "")
    if version and (int(version[1]), int(version[2])) < SINCE:
        return Found(missing=(Missing("pressure", "needs Linux {}.{} or later".format(*SINCE)),))
    why = f"no {root.absolute(FOLDER)}: switched off in this kernel, as in those of Raspberry Pi OS"
    return Found(missing=(Missing("pressure", why, "add psi=1 to the kernel's command line and reboot"),))


def _resource(root: Root, resource: str, now_s: Callable[[], float]) -> Reader:
    """The share of time in which some task, or all of them at once, waited for it."""
    file = root.file(f"{FOLDER}/{resource}")
    rates = {kind: Rate() for kind in _STALLS[resource]}

    def read() -> Values:
        text, at_s = file.read_text(), now_s()
        totals = {match[1]: match[2] for match in map(_LINE.match, text.splitlines()) if match}
        return [
            _share(rate.percent(parse_int(totals[kind]) / 1e6, at_s))
            if kind in totals
            else Gap(f"no {kind} line in the file")
            for kind, rate in rates.items()
        ]

    infos = tuple(sensor("pressure", f"{resource}-{kind}", root.absolute(file.relative)) for kind in rates)
    return Reader(infos, read, name=f"{resource} pressure")


def _share(percent: float | Gap) -> float | Gap:
    """Two clocks measure the interval, so that a share may come out a little above the whole; more is no share."""
    if isinstance(percent, Gap):
        return percent
    return min(percent, 100.0) if percent <= 110 else Gap("the total grew faster than time")


# How the engine's threads fared with the scheduler: how long they waited for a CPU, and how often one was taken.
# Both are about what others do to the engine, where a load figure is about what it does itself.
# Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat` (of a thread: time on the CPU, time
# waited for one in ns, timeslices); proc_pid_status(5), `nonvoluntary_ctxt_switches`.

_SWITCHES = re.compile(r"^nonvoluntary_ctxt_switches:(.*)$", re.MULTILINE)
UNCOUNTED = Gap("this kernel keeps no account of it (CONFIG_SCHED_INFO)")


def discover_engine_scheduling(pid: int, *, shares_process: bool) -> Found:
    if not shares_process:
        return Found((engine_scheduling(pid),))
    note = "of the process's threads that Python did not start, and of the engine's loop"
    return Found((engine_scheduling(pid, own_threads, note=note),))


def engine_scheduling(
    pid: int,
    others: Callable[[], set[int]] = set,
    root: Root = HOST,
    now: Callable[[], float] = time.monotonic,
    note: str = "of all its threads together",
) -> Reader:
    """`others`: which of the process's threads are not the engine's."""
    tasks = f"proc/{pid}/task"
    waiting, switching = SumRate(), SumRate()

    def read() -> Values:
        at_s, left_out = now(), {str(tid) for tid in others()}
        waited: dict[str, int] = {}
        switched: dict[str, int] = {}
        is_counted = False
        for tid in root.entries(tasks):
            if tid in left_out:
                continue
            try:
                schedstat, status = (root.read_text(f"{tasks}/{tid}/{name}") for name in ("schedstat", "status"))
            except (FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
                continue
            ran_ns, waited[tid] = parse_schedstat(schedstat)
            is_counted |= ran_ns > 0  # sched_info_on() in kernel/sched/stats.h: else the file holds "0 0 0"
            if (match := _SWITCHES.search(status)) is None:
                raise ValueError("no count of involuntary switches in the file")
            switched[tid] = parse_int(match[1].strip())
        wait_ns = waiting.per_second(waited, at_s)
        wait_ms = wait_ns if isinstance(wait_ns, Gap) else wait_ns / 1e6
        return [wait_ms if is_counted else UNCOUNTED, switching.per_second(switched, at_s)]

    infos = (
        sensor("rate", "run-queue-wait", f"/{tasks}/*/schedstat", note=f"ms a second, {note}"),
        sensor("rate", "involuntary-switches", f"/{tasks}/*/status", note=note),
    )
    return Reader(infos, read, name="engine scheduling")


def waited_by_thread(pid: int, root: Root = HOST) -> dict[str, int]:
    """Return how long, in ns, each thread of a process waited for a CPU. Raises OSError if the process has ended."""
    waited = {}
    for tid in root.entries(f"proc/{pid}/task"):
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            _, waited[tid] = parse_schedstat(root.read_text(f"proc/{pid}/task/{tid}/schedstat"))
    return waited


def parse_schedstat(text: str) -> tuple[int, int]:
    """Time on the CPU and time waited for one, in ns. Raises ValueError where it is no schedstat.

    >>> parse_schedstat("93082621 8240005 59")
    (93082621, 8240005)
    """
    fields = text.split()
    if len(fields) < 3:
        raise ValueError("no schedstat of three numbers")
    return parse_int(fields[0]), parse_int(fields[1])
