"""Waiting for a point in time: asleep until shortly before it, then polling the clock.

A sleep ends late, by the slack that the kernel allows itself (50 us by default, timerfd and
prctl(2) PR_SET_TIMERSLACK) and by what it takes to wake up: microseconds on a busy core, several
hundred from a deep idle state. So the sleep ends early by its recent lateness, and the rest is spent
polling the clock. That rest is bounded, and with it the share of a core that it burns.
"""

from __future__ import annotations

import contextlib
import ctypes
import select
import time
from typing import Any, Callable

SLICE_NS = 50_000_000  # a stop is noticed within it
FIRST_MARGIN_NS = 150_000
MIN_MARGIN_NS = 40_000
MAX_MARGIN_NS = 500_000
PR_SET_TIMERSLACK = 29  # linux/prctl.h
SLACK_NS = 1_000


def sharpen_timers() -> None:
    """Have the kernel end the sleeps of this thread when they are over, not up to 50 us later."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux: the margin makes up for it
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0)


def yield_cpu() -> None:
    """Let other threads run, without sleeping: `time.sleep(0)` arms a timer, and takes 65 us of Python 3.11."""
    select.select((), (), (), 0)


class Waiter:
    """Waits until points in time. Each thread has its own."""

    def __init__(
        self,
        control: Any,
        clock: Callable[[], int] = time.monotonic_ns,
        sleep: Callable[[float], None] = time.sleep,
        spin: Callable[[], None] = yield_cpu,
    ) -> None:
        self._control = control
        self._clock, self._sleep, self._spin = clock, sleep, spin
        self.margin_ns = FIRST_MARGIN_NS

    def until(self, t_ns: int) -> bool:
        """Return at `t_ns`, or at once where it is past. False: a stop was requested before."""
        clock = self._clock
        left_ns = t_ns - clock()
        while left_ns > self.margin_ns:
            if self._control.stop_requested:
                return False
            sleep_ns = min(left_ns - self.margin_ns, SLICE_NS)
            self._sleep(sleep_ns / 1e9)
            before_ns, left_ns = left_ns, t_ns - clock()
            self._learn(before_ns - left_ns - sleep_ns)
        while clock() < t_ns:
            self._spin()
        return True

    def _learn(self, late_ns: int) -> None:
        """Adapt the margin: at once to a late end, slowly to punctual ones, so that it covers 99 of 100 sleeps.

        A sleep that ends later than any timer was held up by another process on the core, which no margin mends.
        """
        if late_ns > MAX_MARGIN_NS:
            return
        wanted_ns = late_ns * 5 // 4
        if wanted_ns < self.margin_ns:
            wanted_ns = self.margin_ns - (self.margin_ns - wanted_ns) // 32
        self.margin_ns = min(max(wanted_ns, MIN_MARGIN_NS), MAX_MARGIN_NS)
