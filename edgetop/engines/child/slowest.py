"""Report the kernel's counters around inferences that took much longer than others.

Reading the counters takes some microseconds. So they are not read around every inference, and never within the timed
span. They are read whenever records are sent, every 20 ms, and again after an inference that took longer than all
earlier ones in the same tenth of a second. The difference between the two readings covers that inference and at most
the 20 ms before it. Sources: getrusage(2); Documentation/scheduler/sched-stats.rst for the time spent waiting for a
CPU.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from typing import Any, Callable, Dict, Optional, Tuple

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

# Time in ns, preemptions, major faults, minor faults, ns waited, migrations, CPU, CPUs that were taken away, and the ns
# that threads ran.
Counted = Tuple[int, int, int, int, Optional[int], Optional[int], int, int, int]


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
        self._before: Counted = (0, 0, 0, 0, None, None, -1, 0, 0)
        self._usual_idle: Optional[float] = None  # usual share of an inference in which no thread ran
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
        self._placement.settle(self._before[6])
        if now_ns // WINDOW_NS != self._window:
            self._report()
            self._window = now_ns // WINDOW_NS
        return self._slow_ns()

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
        waited = None if now[4] is None or before[4] is None else now[4] - before[4]
        self._candidate = {
            "t_ns": start_ns,
            "latency_ns": done_ns - start_ns,
            "span_ns": done_ns - before[0],
            "preempted": now[1] - before[1],
            "major_faults": now[2] - before[2],
            "minor_faults": now[3] - before[3],
            "waited_ns": waited,
            "migrations": self._migrations(before, now),
            "capacity": self._placement.capacity(now[6]),
            "lost_cpus": max(before[7], now[7]),
            "input": number,
            "inputs": inputs,
            "idle_ns": self._idle_ns(done_ns - start_ns, (waited or 0) + now[8] - before[8]),
        }
        return self._slow_ns()

    def _idle_ns(self, latency_ns: int, busy_ns: int) -> int:
        """Return for how many ns of an inference the engine neither ran nor waited for a CPU, beyond what is usual.

        An engine that waits for an accelerator is idle in each inference, so only little of that counts. `latency_ns`
        is the time of the inference. `busy_ns` is for how long threads ran or waited for a CPU, which may include some
        time before the inference.
        """
        idle = max(0.0, 1 - busy_ns / max(latency_ns, 1))
        usual = idle if self._usual_idle is None else self._usual_idle
        self._usual_idle = usual + IDLE_WEIGHT * (idle - usual)
        return int(max(0.0, idle - usual) * latency_ns)

    def _migrations(self, before: Counted, now: Counted) -> Optional[int]:
        """Return how often threads moved to another CPU between the counts `before` and `now`, or None if unknown.

        If the kernel does not count moves, the result is 1 if this thread is on another CPU than before, else 0.
        """
        if before[5] is not None and now[5] is not None:
            return max(now[5] - before[5], 0)
        return int(now[6] != before[6]) if min(now[6], before[6]) >= 0 else None

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

    def _count(self, now_ns: int) -> Counted:
        usage = resource.getrusage(self._who)
        waited: Optional[int] = None
        if self._fd >= 0:
            with contextlib.suppress(OSError, ValueError, IndexError):
                ran, waited_text = os.pread(self._fd, 64, 0).split()[:2]
                waited = int(waited_text) if int(ran) else None  # "0 0 0" if the kernel does not count
        placement = self._placement
        counts = usage.ru_nivcsw, usage.ru_majflt, usage.ru_minflt
        ran_ns = int((usage.ru_utime + usage.ru_stime) * 1e9)
        return (now_ns, *counts, waited, placement.migrations(), placement.cpu(), placement.lost_cpus(), ran_ns)
