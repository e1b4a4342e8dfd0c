"""Interference in instrumented inferences, by the kernel's own counters: evidence, not a guess from the times.

Asked before and after each instrumented inference, outside of its time. `ru_nivcsw` of getrusage(2) counts how often
a thread was taken off its CPU against its will; the second number of /proc/PID/task/TID/schedstat is the time in ns
in which a thread could have run and waited for a CPU (Documentation/scheduler/sched-stats.rst); `steal` in /proc/stat
is the time in which a hypervisor ran somebody else, in ticks (proc(5)).
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

DISTURBED = 0.02  # of an inference's time, waited by a process that was preempted, or stolen from the system
# A thread that sleeps until there is work waits a little each time it is woken: without being preempted, it takes this.
DISTURBED_AWAKE = 0.20
BUSY = 0.05  # of a longer time, waited
# What a preemption costs at least where the kernel keeps no account of waiting: the shortest slice of common kernels.
SLICE_NS = 3_000_000
TASKS = "/proc/self/task"


class Interference(NamedTuple):
    preempted: int = 0  # involuntary switches of the engine's threads
    waited_ns: Optional[int] = None  # of all these threads; None: the kernel keeps no account

    def disturbs(self, run_ns: int) -> bool:
        """Whether an inference that took this long was disturbed too much to count."""
        if self.waited_ns is None:
            return self.preempted * SLICE_NS > DISTURBED * run_ns
        return self.waited_ns > (DISTURBED if self.preempted else DISTURBED_AWAKE) * run_ns


class InterferenceWatch:
    """Measures the interference of other processes from its creation on."""

    def __init__(self) -> None:
        self._before = _counted()
        self._begin_ns = time.monotonic_ns()

    def measure(self) -> Tuple[int, Interference]:
        """Return the ns since the creation, and the interference in them."""
        span_ns = time.monotonic_ns() - self._begin_ns
        (preempted_before, before), (preempted, after) = self._before, _counted()
        waited = None
        if before and after:
            # A thread that was not there before counts from its beginning.
            waited = sum(max(0, ns - before.get(task, 0)) for task, ns in after.items())
        return span_ns, Interference(preempted - preempted_before, waited)

    def was_busy(self) -> bool:
        """Whether other processes took so much that the median of this time is affected too."""
        span_ns, interference = self.measure()
        lost_ns = interference.preempted * SLICE_NS if interference.waited_ns is None else interference.waited_ns
        return lost_ns > BUSY * span_ns


def measured(call: Callable[[], Any]) -> Tuple[Any, int, Interference]:
    """Return the result of the call, how many ns it took, and the interference."""
    watch = InterferenceWatch()
    result = call()
    return (result, *watch.measure())


def stolen_ns(path: str = "/proc/stat") -> Optional[int]:
    """Return the time stolen so far on all CPUs together; None: not known."""
    try:
        with open(path, "rb") as file:
            return int(file.readline().split()[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _counted() -> Tuple[int, Dict[str, int]]:
    """Involuntary switches, and what each thread has waited; none where the kernel keeps no account.

    The runtime's own threads can be what is held up. They are this process's alone where its main thread runs the
    model; in a thread of the app only that thread can be distinguished.
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
        if int(ran):  # "0 0 0" where the kernel keeps no account
            waited[task] = int(ns)
    return resource.getrusage(who).ru_nivcsw, waited
