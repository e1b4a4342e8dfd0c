"""Report the kernel's counters around inferences that took much longer than others.

Reading the counters takes some microseconds. So they are not read around every inference, and never within the timed
span. They are read whenever records are sent, every 20 ms, after each pause of the load of 20 ms or more, and again
after an inference that took longer than all earlier ones in the same tenth of a second. The difference between the last
two readings covers that inference and at most the 20 ms before it. Sources: getrusage(2);
Documentation/scheduler/sched-stats.rst for the time spent waiting for a CPU; `mm_account_fault` in mm/memory.c, which
counts a page fault as major if the thread slept for it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

from . import message_frames
from .placement import Placement

NEVER = 2**63 - 1
# The slowest inference of each window may be reported. Windows are shorter than a second, because this module does not
# know when a session's seconds begin.
WINDOW_NS = 100_000_000

# A threshold that rises after each reported window and falls after each other one settles so that a certain share of
# the windows is reported (Robbins and Monro 1951, A stochastic approximation method). At first that is two windows a
# second (MOST), later ENOUGH of all windows so far, and in long sessions one in 25 s (LEAST).
RISE = 1.05
ENOUGH = 60
MOST, LEAST = 0.2, 0.004


# Weight of an inference in the usual share of time in which nothing ran. Choice: the last fifty that were noted.
IDLE_WEIGHT = 0.02
# CPU time that may still be missing in the count of a thread that runs on another CPU, in ns: its count is renewed by
# the timer tick (`read_sum_exec_runtime` in kernel/sched/cputime.c). Most kernels of boards have 250 or 300 ticks a
# second.
TICK_NS = 4_000_000


class _Scheduled(NamedTuple):
    """For how long the loop's thread ran, and waited for a CPU, since it began."""

    ran_ns: int
    waited_ns: int


class _Counts(NamedTuple):
    """What the kernel counted up to a time. Unless stated otherwise, it is a count of all threads of the process."""

    t_ns: int
    preempted: int
    major_faults: int
    minor_faults: int
    loop_preempted: int  # of the loop's thread
    loop_major_faults: int  # of the loop's thread
    scheduled: Optional[_Scheduled]  # of the loop's thread; None if the kernel does not count
    migrations: Optional[int]
    cpu: int  # on which the loop's thread runs; -1 if unknown
    lost_cpus: int
    ran_ns: int


class _Usual:
    """The usual share of an inference's time in which the engine's threads, or one of them, used or awaited no CPU."""

    def __init__(self) -> None:
        self.share: Optional[float] = None  # None before the first inference

    def beyond(self, latency_ns: int, busy_ns: int) -> int:
        """Return for how many ns of an inference these threads used and awaited no CPU, beyond what is usual.

        An engine that waits for an accelerator rests in each inference, so only little of that counts. `latency_ns` is
        the time of the inference. `busy_ns` is for how long the threads ran or waited for a CPU, which may include some
        time before the inference.
        """
        share = max(0.0, 1 - busy_ns / max(latency_ns, 1))
        usual = share if self.share is None else self.share
        self.share = usual + IDLE_WEIGHT * (share - usual)
        return int(max(0.0, share - usual) * latency_ns)


class _Beside:
    """How much CPU time the runtime's other threads use while the loop's thread runs.

    A loop that spins until its workers are done runs all the time, so neither its sleep nor its waits show that a
    worker waited for a CPU or for a page. But then the workers run less than usual beside it.
    """

    def __init__(self) -> None:
        self.ratio: Optional[float] = None  # CPU time of the others divided by the loop's; None before the first

    def lacking(self, loop_ns: int, others_ns: int, cpus: int) -> int:
        """Return for how many ns the other threads did not run although they usually do, all of them together.

        `loop_ns` and `others_ns` are the CPU times of the loop's thread and of the others in the same span of time.
        `cpus` is the number of CPUs that they may use.
        """
        ratio = max(others_ns, 0) / max(loop_ns, 1)
        usual = ratio if self.ratio is None else self.ratio
        self.ratio = usual + IDLE_WEIGHT * (ratio - usual)
        expected = min(usual, cpus - 1)  # above that, they also ran in pauses of the load, when the loop did not
        return int(max(0.0, expected * (loop_ns - TICK_NS) - others_ns))


class Slowest:
    """Reports the slowest inferences of one thread. Create it and use it in that thread."""

    def __init__(
        self,
        outlet: Any,
        schedstat: str = "/proc/thread-self/schedstat",
        place: Optional[Callable[[], Tuple[int, int]]] = None,
    ) -> None:
        """Begin to watch this thread. `schedstat` is the file in which the kernel counts the waits of this thread.

        `place` returns the number, from 0, of the input array that the newest inference got, and the number of arrays.
        `place` is None if there is one array.
        """
        self._outlet, self._place = outlet, place
        # The runtime's own threads may have been held up. If the main thread runs the loop, all threads of the process
        # are the runtime's. In another thread (of edgetop, or beside other streams) only that thread can be counted.
        is_main = threading.current_thread() is threading.main_thread()
        self._who = resource.RUSAGE_SELF if is_main else resource.RUSAGE_THREAD
        self._fd = -1
        with contextlib.suppress(OSError):
            self._fd = os.open(schedstat, os.O_RDONLY | os.O_CLOEXEC)
        self._placement = Placement(is_main=is_main)
        self._before = _Counts(0, 0, 0, 0, 0, 0, None, None, -1, 0, 0)
        self._beside = _Beside()
        self._idle, self._slept = _Usual(), _Usual()  # of all threads, and of the loop's thread
        self._window = -1
        self._candidate: Optional[Dict[str, Any]] = None  # slowest inference of this window
        self._windows = 0
        self._threshold_ns = 0.0

    def close(self) -> None:
        """Report the slowest inference that has not been reported yet, and close the file of counters."""
        self._report()
        if self._fd >= 0:
            os.close(self._fd)

    def checkpoint(self, now_ns: int) -> int:
        """Read the counters between two inferences. Return the latency in ns above which `note` must be called.

        `now_ns` is the present time.
        """
        self._before = self._count(now_ns)
        self._placement.settle(self._before.cpu)
        if now_ns // WINDOW_NS != self._window:
            self._report()
            self._window = now_ns // WINDOW_NS
        return self._slow_ns()

    def rested(self, now_ns: int) -> None:
        """Read the counters after a pause, so that what happened in it does not count. `now_ns` is the present time."""
        self._before = self._count(now_ns)

    def note(self, start_ns: int, done_ns: int) -> int:
        """Note an inference that is the slowest so far in the present tenth of a second.

        It ran from the time `start_ns` to `done_ns`. Return the latency in ns above which `note` must be called again.
        """
        now, before = self._count(done_ns), self._before
        self._before = now
        if start_ns // WINDOW_NS != self._window:  # the window has ended since the last checkpoint
            self._report()
            self._window = start_ns // WINDOW_NS
        number, inputs = (None, None) if self._place is None else self._place()
        latency_ns = done_ns - start_ns
        scheduled = _grown(before.scheduled, now.scheduled)
        waited_ns = scheduled.waited_ns if scheduled else 0
        ran_ns = now.ran_ns - before.ran_ns
        self._candidate = {
            "t_ns": start_ns,
            "latency_ns": latency_ns,
            "span_ns": done_ns - before.t_ns,
            "preempted": now.preempted - before.preempted,
            "loop_preempted": now.loop_preempted - before.loop_preempted,
            "major_faults": now.major_faults - before.major_faults,
            "minor_faults": now.minor_faults - before.minor_faults,
            "loop_major_faults": now.loop_major_faults - before.loop_major_faults,
            "waited_ns": waited_ns if scheduled else None,
            "migrations": self._migrations(before, now),
            "capacity": self._placement.capacity(now.cpu),
            "lost_cpus": max(before.lost_cpus, now.lost_cpus),
            "input": number,
            "inputs": inputs,
            "idle_ns": self._idle.beyond(latency_ns, waited_ns + ran_ns),
            "slept_ns": self._slept.beyond(latency_ns, waited_ns + scheduled.ran_ns) if scheduled else None,
            "lacking_ns": self._lacking_ns(scheduled, ran_ns),
        }
        return self._slow_ns()

    def _lacking_ns(self, scheduled: Optional[_Scheduled], ran_ns: int) -> Optional[int]:
        """Return for how many ns other threads did not run beside the loop although they usually do; None if unknown.

        `scheduled` has the times of the loop's thread. `ran_ns` is the CPU time of all threads.
        """
        if scheduled is None or self._who != resource.RUSAGE_SELF:
            return None
        return self._beside.lacking(scheduled.ran_ns, ran_ns - scheduled.ran_ns, self._placement.cpus())

    def _migrations(self, before: _Counts, now: _Counts) -> Optional[int]:
        """Return how often threads moved to another CPU between the counts `before` and `now`, or None if unknown.

        If the kernel does not count moves, the result is 1 if this thread is on another CPU than before, else 0.
        """
        if before.migrations is not None and now.migrations is not None:
            return max(now.migrations - before.migrations, 0)
        return int(now.cpu != before.cpu) if min(now.cpu, before.cpu) >= 0 else None

    def _slow_ns(self) -> int:
        return max(int(self._threshold_ns), self._candidate["latency_ns"] if self._candidate else 0)

    def _report(self) -> None:
        """Send the slowest inference of the last tenth of a second, if there is one, and adapt the threshold."""
        slowest, self._candidate = self._candidate, None
        self._windows += 1
        if slowest is None:
            share = min(MOST, max(LEAST, ENOUGH / self._windows))
            self._threshold_ns *= RISE ** (-share / (1 - share))
            return
        self._threshold_ns = self._threshold_ns * RISE if self._threshold_ns else slowest["latency_ns"] / RISE
        self._outlet.send(message_frames.SLOW, slowest)

    def _count(self, now_ns: int) -> _Counts:
        usage, of_loop = resource.getrusage(self._who), resource.getrusage(resource.RUSAGE_THREAD)
        scheduled: Optional[_Scheduled] = None
        if self._fd >= 0:
            with contextlib.suppress(OSError, ValueError):
                ran_ns, waited_ns = map(int, os.pread(self._fd, 64, 0).split()[:2])
                # The file is "0 0 0" if the kernel does not count, and its first number may be a tick late.
                scheduled = _Scheduled(time.thread_time_ns(), waited_ns) if ran_ns else None
        placement = self._placement
        counts = usage.ru_nivcsw, usage.ru_majflt, usage.ru_minflt, of_loop.ru_nivcsw, of_loop.ru_majflt
        all_ran_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
        return _Counts(
            now_ns, *counts, scheduled, placement.migrations(), placement.cpu(), placement.lost_cpus(), all_ran_ns
        )


def _grown(before: Optional[_Scheduled], now: Optional[_Scheduled]) -> Optional[_Scheduled]:
    """Return by how much the counts of a thread have grown, or None if one of both is unknown."""
    if before is None or now is None:
        return None
    return _Scheduled(now.ran_ns - before.ran_ns, now.waited_ns - before.waited_ns)
