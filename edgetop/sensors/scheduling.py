"""How the engine's threads fared with the scheduler: how long they waited for a CPU, and how often one was taken.

Both speak of what others do to the engine, where a load figure speaks only of what it does itself.
Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat` (of a thread: time on the CPU, time
waited for one in ns, timeslices); proc_pid_status(5), `nonvoluntary_ctxt_switches`.
"""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetop.sensors.numbers import parse_int
from edgetop.sensors.protocol import Found, Gap, sensor
from edgetop.sensors.rates import SumRate

CADENCE_S = 1.0
SWITCHES = "nonvoluntary_ctxt_switches:"
UNCOUNTED = Gap("this kernel keeps no account of it (CONFIG_SCHED_INFO)")


class EngineScheduling:
    name = "engine scheduling"
    cadence_s = CADENCE_S

    def __init__(
        self,
        pid: int,
        own_threads: Callable[[], set[int]] = set,
        proc: Path = Path("/proc"),
        now: Callable[[], float] = time.monotonic,
        note: str | None = "of all its threads together",
    ) -> None:
        """`own_threads`: which of the process's threads are not the engine's."""
        self._tasks = proc / str(pid) / "task"
        self._own_threads = own_threads
        self._now = now
        self._waited, self._switched = SumRate(), SumRate()
        source = f"/proc/{pid}/task/*"
        self.sensors = (
            sensor("rate", "run-queue-wait", f"{source}/schedstat", note=f"ms a second, {note}"),
            sensor("rate", "involuntary-switches", f"{source}/status", note=note),
        )

    def read(self) -> Sequence[float | Gap]:
        at_s, own = self._now(), {str(tid) for tid in self._own_threads()}
        waited: dict[str, int] = {}
        switched: dict[str, int] = {}
        is_counted = False
        for folder in self._tasks.iterdir():
            if folder.name in own:
                continue
            try:
                schedstat, status = ((folder / name).read_text("ascii", "replace") for name in ("schedstat", "status"))
            except (FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
                continue
            ran_ns, waited_ns = parse_schedstat(schedstat)
            is_counted |= ran_ns > 0  # sched_info_on() in kernel/sched/stats.h: else the file holds "0 0 0"
            waited[folder.name] = waited_ns
            switched[folder.name] = parse_switches(status)
        wait_ns = self._waited.per_second(waited, at_s)
        switches = self._switched.per_second(switched, at_s)
        wait_ms = wait_ns if isinstance(wait_ns, Gap) else wait_ns / 1e6
        return [wait_ms if is_counted else UNCOUNTED, switches]


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
    for line in status.splitlines():
        if line.startswith(SWITCHES):
            return parse_int(line.removeprefix(SWITCHES).strip())
    raise ValueError("no count of involuntary switches in the file")


def _own_threads() -> set[int]:
    """What Python started here, the engine's loop left out."""
    return {thread.native_id or 0 for thread in threading.enumerate() if thread.name != "engine"}


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    if not shares_process:
        return Found((EngineScheduling(pid),))
    note = "of the process's threads that Python did not start, and of the engine's loop"
    return Found((EngineScheduling(pid, _own_threads, note=note),))
