"""Measure with the kernel's counters how other processes disturb instrumented inferences.

The counters are read before and after each instrumented inference, outside its time:

- `ru_nivcsw` of getrusage(2) counts the involuntary context switches of a thread.
- The second number in /proc/PID/task/TID/schedstat is the time in ns in which a thread was ready to run but waited for
  a CPU (Documentation/scheduler/sched-stats.rst).
- `steal` in /proc/stat is the time in ticks in which a hypervisor ran another guest (proc(5)).
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

# An inference is disturbed if this share of its time was spent waiting by a process that was preempted, or was stolen.
DISTURBED = 0.02
# The same share without a preemption. It is larger, since a thread waits a little each time that it is woken for work.
DISTURBED_AWAKE = 0.20
BUSY = 0.05  # share of a longer time, spent waiting, from which its median is affected as well
# Assumed cost of a preemption if the kernel does not count waiting: the shortest time slice of common kernels.
SLICE_NS = 3_000_000
TASKS = "/proc/self/task"


class Interference(NamedTuple):
    preempted: int = 0  # involuntary switches of the engine's threads
    waited_ns: Optional[int] = None  # time that these threads waited for a CPU; None if the kernel does not count it

    def disturbs(self, run_ns: int) -> bool:
        """Whether an inference that took `run_ns` ns was disturbed too much to count."""
        if self.waited_ns is None:
            return self.preempted * SLICE_NS > DISTURBED * run_ns
        return self.waited_ns > (DISTURBED if self.preempted else DISTURBED_AWAKE) * run_ns


class InterferenceWatch:
    """Measures how much other processes disturb this process, from the creation of this object on."""

    def __init__(self) -> None:
        self._before = _counted()
        self._begin_ns = time.monotonic_ns()

    def measure(self) -> Tuple[int, Interference]:
        """Return (ns since this object was created, how much other processes disturbed this process since then)."""
        span_ns = time.monotonic_ns() - self._begin_ns
        (preempted_before, before), (preempted, after) = self._before, _counted()
        waited = None
        if before and after:
            # A thread that did not exist before counts from its beginning.
            waited = sum(max(0, ns - before.get(task, 0)) for task, ns in after.items())
        return span_ns, Interference(preempted - preempted_before, waited)

    def was_busy(self) -> bool:
        """Return True if other processes were so busy since this object was created that even a median is affected."""
        span_ns, interference = self.measure()
        lost_ns = interference.preempted * SLICE_NS if interference.waited_ns is None else interference.waited_ns
        return lost_ns > BUSY * span_ns


def measured(call: Callable[[], Any]) -> Tuple[Any, int, Interference]:
    """Return the result of `call`, its duration in ns, and how much other processes disturbed it."""
    watch = InterferenceWatch()
    result = call()
    return (result, *watch.measure())


def stolen_ns(path: str = "/proc/stat") -> Optional[int]:
    """Return the time in ns that a hypervisor gave to other guests since boot, for all CPUs together.

    Returns None if that is unknown. `path` is the path of the kernel's file.
    """
    try:
        with open(path, "rb") as file:
            return int(file.readline().split()[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _counted() -> Tuple[int, Dict[str, int]]:
    """Return how often threads were switched involuntarily, and how long each thread waited for a CPU.

    The second result is a dict of times in ns by thread id. It is {} if the kernel does not measure them. If the main
    thread runs the model, both results are for all threads of the process, because the runtime's own threads may be
    held up as well. If another thread runs the model, they are for that thread only.
    """
    is_main = threading.current_thread() is threading.main_thread()
    who = resource.RUSAGE_SELF if is_main else resource.RUSAGE_THREAD
    waited: Dict[str, int] = {}
    tasks = [str(threading.get_native_id())]
    if is_main:
        with contextlib.suppress(OSError):
            tasks = os.listdir(TASKS)
    for task in tasks:
        try:
            with open("%s/%s/schedstat" % (TASKS, task), "rb") as file:
                ran, ns = file.read().split()[:2]
        except (OSError, ValueError):
            continue  # it has ended meanwhile, or there is no such file
        if int(ran):  # "0 0 0" if the kernel does not count
            waited[task] = int(ns)
    return resource.getrusage(who).ru_nivcsw, waited
