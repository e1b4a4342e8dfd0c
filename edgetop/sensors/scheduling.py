"""How the engine's threads fared with the scheduler: how long they waited for a CPU, and how often one was taken.

Both speak of what others do to the engine, where a load figure speaks only of what it does itself.
Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat` (of a thread: time on the CPU, time
waited for one in ns, timeslices); proc_pid_status(5), `nonvoluntary_ctxt_switches`.
"""

import contextlib
import re
import time
from collections.abc import Callable

from edgetop.sensors.counters import SumRate
from edgetop.sensors.processes import HOST, own_threads
from edgetop.sensors.protocol import Found, Gap, Reader, Values, sensor
from edgetop.sensors.root import Root, parse_int

_SWITCHES = re.compile(r"^nonvoluntary_ctxt_switches:(.*)$", re.MULTILINE)
UNCOUNTED = Gap("this kernel keeps no account of it (CONFIG_SCHED_INFO)")


def discover_engine(pid: int, *, shares_process: bool) -> Found:
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
            switched[tid] = parse_switches(status)
        wait_ns = waiting.per_second(waited, at_s)
        wait_ms = wait_ns if isinstance(wait_ns, Gap) else wait_ns / 1e6
        return [wait_ms if is_counted else UNCOUNTED, switching.per_second(switched, at_s)]

    infos = (
        sensor("rate", "run-queue-wait", f"/{tasks}/*/schedstat", note=f"ms a second, {note}"),
        sensor("rate", "involuntary-switches", f"/{tasks}/*/status", note=note),
    )
    return Reader(infos, read, name="engine scheduling")


def waited_by_thread(pid: int, root: Root = HOST) -> dict[str, int]:
    """How long each thread of a process has waited for a CPU, in ns. Raises OSError where the process has ended."""
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


def parse_switches(status: str) -> int:
    """How often a CPU was taken away. Raises ValueError where the status does not tell."""
    if match := _SWITCHES.search(status):
        return parse_int(match[1].strip())
    raise ValueError("no count of involuntary switches in the file")
