"""CPU load in percent of one core, and waits for the CPU.

There is the load of the system, of the engine and of edgetop, and the time that a hypervisor took (stolen time). Each
value is the difference of two readings, so the first read gives no value. The system's data comes from proc_stat(5)
under the root, the engine's and edgetop's from the real /proc.
"""

import contextlib
import re
import time
from collections.abc import Callable

from edgetop.sensors.counters import Rate, SumRate
from edgetop.sensors.plausible import EVENTS_PER_CPU, most_cpus
from edgetop.sensors.process_table import HOST, TICK_S, count_cpus, own_threads, parse_cpu_ticks, parse_stat
from edgetop.sensors.root import File, Root, ThreadFiles, parse_int
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, sensor
from edgetop.session import helper_load
from edgetop.session.manifest import SensorInfo


def discover(root: Root, now_s: Callable[[], float] = time.monotonic) -> Found:
    """Return a reader of the load of all CPUs together, and of the time that a hypervisor took from them.

    Both are in percent of one core. `now_s` returns the present time in seconds.
    """
    if not root.exists("proc/stat"):
        return Found(missing=(Missing("system load", f"no {root.absolute('proc/stat')}"),))
    file, source = root.file("proc/stat"), root.absolute("proc/stat")
    busy, stolen = Rate(), Rate()
    cpus = 1  # the most that were online so far

    def read() -> Values:
        nonlocal cpus
        now, text = now_s(), file.read_text()
        cpus = max(cpus, count_cpus(text))
        busy_ticks, stolen_ticks = parse_cpu_ticks(text)
        return [busy.percent(busy_ticks * TICK_S, now, cpus), stolen.percent(stolen_ticks * TICK_S, now, cpus)]

    infos = (sensor("load", "cpu", source, note="all cores together"), sensor("load", "steal", source))
    return Found((Reader(infos, read, name="system load"),))


def process_load(
    info: SensorInfo, cpu_seconds: Callable[[], float], now_s: Callable[[], float] = time.monotonic
) -> Reader:
    """Return a reader of a process's CPU load in percent of one core.

    `info` describes the sensor. `cpu_seconds` returns the CPU time in seconds that the process has used so far, and
    `now_s` the present time in seconds.
    """
    rate, cpus = Rate(), most_cpus(HOST)

    def read() -> Values:
        try:
            return [rate.percent(cpu_seconds(), now_s(), cpus)]
        except (FileNotFoundError, ProcessLookupError):
            return [Gap("the process is gone")]

    return Reader((info,), read)


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    """Return readers of the CPU load of the engine (process `pid`) and of edgetop.

    `shares_process` says that the engine is a thread of edgetop. Then the threads that Python has started count as
    edgetop, and all other threads as the engine.
    """
    note = "by threads: what Python started is edgetop, the rest is the engine" if shares_process else None
    own = sensor("load", "edgetop", "/proc/self/stat", note=note)
    engine = sensor("load", "engine", f"/proc/{pid}/stat", note=note)
    if shares_process:
        rest = process_load(engine, lambda: time.process_time() - _own_threads_s())
        return Found((rest, process_load(own, lambda: _own_threads_s() + helper_load.spent_s())))
    edgetop = process_load(own, lambda: time.process_time() + helper_load.spent_s())
    if not HOST.exists(f"proc/{pid}"):  # it ended at once
        return Found((edgetop,), (Missing(engine.id, "the process is gone"),))
    stat = HOST.file(f"proc/{pid}/stat")
    return Found((process_load(engine, lambda: cpu_s(stat)), edgetop))


def cpu_s(stat: File) -> float:
    """Return the CPU time in seconds that a process has used. `stat` is the file /proc/PID/stat.

    Raises OSError if the process is gone.
    """
    return parse_stat(stat.read_text()).cpu_ticks * TICK_S


def _own_threads_s() -> float:
    """Return the CPU time in seconds of the threads that Python has started, without the thread of the engine."""
    texts = (HOST.text(f"proc/self/task/{thread}/stat") for thread in own_threads())
    return sum(parse_stat(text).cpu_ticks * TICK_S for text in texts if text)


# Pressure stall information: the share of time in which tasks waited for CPU, memory or I/O
# (Documentation/accounting/psi.rst). It is computed from the totals, and not from the kernel's averages over 10 s or
# more, so that it belongs to the interval for which it is shown.

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
        except OSError:  # EOPNOTSUPP if it is switched off in the kernel (psi_show in kernel/sched/psi.c)
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
    """Return a reader of the percentage of time in which at least one task waited for a resource.

    For "memory" and "io", the reader also has the percentage of time in which all tasks waited at once. `resource` is
    "cpu", "memory" or "io". `now_s` returns the present time in seconds.
    """
    file = root.file(f"{FOLDER}/{resource}")
    rates = {kind: Rate() for kind in _STALLS[resource]}

    def read() -> Values:
        text, at_s = file.read_text(), now_s()
        totals = {match[1]: match[2] for match in map(_LINE.match, text.splitlines()) if match}
        return [
            rate.percent(parse_int(totals[kind]) / 1e6, at_s, cpus=1)
            if kind in totals
            else Gap(f"no {kind} line in the file")
            for kind, rate in rates.items()
        ]

    infos = tuple(sensor("pressure", f"{resource}-{kind}", root.absolute(file.relative)) for kind in rates)
    return Reader(infos, read, name=f"{resource} pressure")


# How long the engine's threads waited for a CPU, and how often they were preempted. Both show what other processes do
# to the engine, while its load shows what it does itself. Sources: Documentation/scheduler/sched-stats.rst,
# `/proc/PID/schedstat` (of a thread: ns on the CPU, ns waited for a CPU, timeslices); proc_pid_status(5),
# `nonvoluntary_ctxt_switches`.

_SWITCHES = re.compile(r"\nnonvoluntary_ctxt_switches:(.*)")
# A thread's wait counts when it gets a CPU, in whole. A fair scheduler lets no thread wait for so many seconds.
LONGEST_WAIT_S = 60.0
NS = 1e9  # a thread waits for 10^9 ns a second at most
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
    """Return a reader of how long the engine's threads waited for a CPU, and of how often they were interrupted.

    The waits are in ms per second, and the interruptions (involuntary context switches) are per second. `others`
    returns the ids of threads of process `pid` that are not the engine's. `note` is the sensors' description.
    """
    tasks = f"proc/{pid}/task"
    schedstats, statuses = ThreadFiles(root, pid, "schedstat"), ThreadFiles(root, pid, "status")
    waiting, switching = SumRate(LONGEST_WAIT_S), SumRate()

    def read() -> Values:
        at_s, left_out = now(), {str(tid) for tid in others()}
        waited: dict[str, int] = {}
        switched: dict[str, int] = {}
        is_counted = False
        threads = [tid for tid in root.entries(tasks) if tid not in left_out]
        for tid, text in statuses.read_texts(threads):
            if (match := _SWITCHES.search(text)) is None:
                raise ValueError("no count of involuntary switches in the file")
            switched[tid] = parse_int(match[1].strip())
        for tid, text in schedstats.read_texts(threads):
            ran_ns, waited[tid] = parse_schedstat(text)
            is_counted |= ran_ns > 0  # the file has "0 0 0" without accounting (sched_info_on, kernel/sched/stats.h)
        wait_ns = waiting.per_second(waited, at_s, lambda *_: NS)
        wait_ms = wait_ns if isinstance(wait_ns, Gap) else wait_ns / 1e6
        return [wait_ms if is_counted else UNCOUNTED, switching.per_second(switched, at_s, lambda *_: EVENTS_PER_CPU)]

    infos = (
        sensor("rate", "run-queue-wait", f"/{tasks}/*/schedstat", note=f"ms a second, {note}"),
        sensor("rate", "involuntary-switches", f"/{tasks}/*/status", note=note),
    )
    return Reader(infos, read, name="engine scheduling")


def waited_by_thread(pid: int, root: Root = HOST) -> dict[str, int]:
    """Return how many ns each thread of a process has waited for a CPU so far, by thread id.

    Raises OSError if the process has ended.
    """
    waited = {}
    for tid in root.entries(f"proc/{pid}/task"):
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            _, waited[tid] = parse_schedstat(root.read_text(f"proc/{pid}/task/{tid}/schedstat"))
    return waited


def parse_schedstat(text: str) -> tuple[int, int]:
    """Return `(ns on a CPU, ns waited for a CPU)` from the text of a thread's file schedstat.

    Raises ValueError if the text has another form.

    >>> parse_schedstat("93082621 8240005 59")
    (93082621, 8240005)
    """
    fields = text.split()
    if len(fields) < 3:
        raise ValueError("no schedstat of three numbers")
    return parse_int(fields[0]), parse_int(fields[1])
