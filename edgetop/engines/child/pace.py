"""Plan when each inference starts, and wait for it. Starts follow a rate, a pause or a duty cycle.

With a rate the load is open: starts are planned from the beginning of a phase, and a late start does not delay the
starts planned after it. The wait in a record counts from the planned start. So a stall shows in every inference that
should have begun during it, and not only in the one that stalled (G. Tene's "coordinated omission"; MLPerf's LoadGen
also counts latency from the scheduled time in its Server scenario, loadgen/issue_query_controller.cc).

The plan is computed, not stored, so it takes no memory however long the queue becomes.
"""

from __future__ import annotations

import contextlib
import ctypes
import select
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np

NS = 1_000_000_000
DRAWN_AT_ONCE = 1024
NEVER = 2**63 - 1


class Duty:
    """A duty cycle: a time of work followed by a time of rest, in ns, again and again."""

    def __init__(self, on_ns: int, off_ns: int) -> None:
        self._on_ns = on_ns
        self._cycle_ns = on_ns + off_ns

    def spread(self, on_time_ns: int) -> int:
        """Return the time at which the cycles have worked for `on_time_ns` ns in total.

        All times are in ns from the beginning of the first cycle.

        >>> Duty(10, 90).spread(25)
        205
        """
        cycles, rest = divmod(on_time_ns, self._on_ns)
        return cycles * self._cycle_ns + rest

    def earliest(self, t_ns: int) -> int:
        """Return `t_ns` if it lies in working time, else the time at which work begins again.

        >>> Duty(10, 90).earliest(5), Duty(10, 90).earliest(50)
        (5, 100)
        """
        cycles, rest = divmod(t_ns, self._cycle_ns)
        return t_ns if rest < self._on_ns else (cycles + 1) * self._cycle_ns


class Closed:
    """Plans each inference to start when the previous one is done, after a pause and within the duty cycle.

    No inference is planned to start while another one runs. So no inference waits.
    """

    is_open = False

    def __init__(self, delay_ns: int = 0, duty: Optional[Duty] = None) -> None:
        self._delay_ns = delay_ns
        self._duty = duty
        self._begin_ns = 0

    def begin(self, now_ns: int) -> int:
        """Begin a phase, such as the warm-up. Return the time in ns at which its first inference should start."""
        self._begin_ns = now_ns
        return now_ns

    def after(self, done_ns: int) -> int:
        """Return the time in ns at which the next inference should start. The previous one was done at `done_ns`."""
        t_ns = done_ns + self._delay_ns
        return t_ns if self._duty is None else self._begin_ns + self._duty.earliest(t_ns - self._begin_ns)


class Open:
    """Plans inferences at given times, whether or not the previous one is done. A late inference starts at once."""

    is_open = True

    def __init__(self, starts_ns: Iterator[int], duty: Optional[Duty] = None) -> None:
        """Plan inferences at the ascending times `starts_ns`, in ns from the beginning of a phase of the run.

        With a duty cycle, `starts_ns` count only its working time.
        """
        self._starts = starts_ns
        self._duty = duty
        self._begin_ns = 0

    def begin(self, now_ns: int) -> int:
        self._begin_ns = now_ns
        return self.after(now_ns)

    def after(self, done_ns: int) -> int:  # noqa: ARG002  starts do not depend on ends
        start = next(self._starts)
        return self._begin_ns + (start if self._duty is None else self._duty.spread(start))

    def postpone(self, next_ns: int, from_ns: int, to_ns: int) -> int:
        """Return the new start of the next inference, in ns, after operators were profiled from `from_ns` to `to_ns`.

        `next_ns` was the planned start. The whole plan is moved by the time for which profiling delayed that inference.
        So no inference waits longer because of profiling.
        """
        delay_ns = max(0, to_ns - max(from_ns, next_ns))
        self._begin_ns += delay_ns
        return next_ns + delay_ns


class Turns:
    """Plans inferences back to back within given spans of time. Another engine runs between these spans.

    An inference does not begin if it would end after its span. Each inference is assumed to take as long as the
    previous one. The first inference of a span always begins.
    """

    is_open = False

    def __init__(self, turns: List[List[int]]) -> None:
        """Plan inferences within the spans `turns`, each given as [from, until] in ns of CLOCK_MONOTONIC.

        The spans are in ascending order, with gaps between them.
        """
        self._turns = turns
        self._place = self._start_ns = 0

    def begin(self, now_ns: int) -> int:
        self._place = 0
        return self._next(now_ns, 0)

    def after(self, done_ns: int) -> int:
        return self._next(done_ns, done_ns - self._start_ns)

    def _next(self, t_ns: int, took_ns: int) -> int:
        while self._place < len(self._turns) and t_ns + took_ns > self._turns[self._place][1]:
            self._place += 1
            took_ns = 0
        if self._place == len(self._turns):
            return NEVER
        self._start_ns = max(t_ns, self._turns[self._place][0])
        return self._start_ns


def fixed_starts(rate_hz: float, first_ns: int = 0) -> Iterator[int]:
    """Yield a start in ns every 1/`rate_hz` seconds, from `first_ns` on. Rounding errors do not add up."""
    number = 0
    while True:
        yield first_ns + int(number * NS / rate_hz)
        number += 1


def poisson_starts(rate_hz: float, seed: List[int]) -> Iterator[int]:
    """Yield random starts in ns, with exponential pauses of 1/`rate_hz` seconds on average (a Poisson process).

    `seed` seeds the random numbers.
    """
    random = np.random.RandomState(seed)
    last = 0.0
    while True:
        starts = last + np.cumsum(random.exponential(NS / rate_hz, DRAWN_AT_ONCE))
        last = float(starts[-1])
        for start in starts.tolist():
            yield int(start)


def replayed_starts(starts_ns: List[int]) -> Iterator[int]:
    """Yield the recorded starts of another session, in ns, again and again.

    The last number in `starts_ns` is not a start: it is the length of one repetition.

    >>> from itertools import islice
    >>> list(islice(replayed_starts([0, 3, 10]), 4))
    [0, 3, 10, 13]
    """
    begin_ns = 0
    while True:
        for start in starts_ns[:-1]:
            yield begin_ns + start
        begin_ns += starts_ns[-1]


class SharedPlan:
    """Gives the starts of one plan to several parallel loops. Each start goes to the first loop that is free.

    Each loop calls `begin` and `after` as it does for a plan of its own.
    """

    is_open = True

    def __init__(self, plan: Any) -> None:
        """Share `plan`, an `Open` object, among parallel loops."""
        self._plan, self._lock, self._has_begun = plan, threading.Lock(), False

    def begin(self, now_ns: int) -> int:
        with self._lock:
            start = self._plan.after(now_ns) if self._has_begun else self._plan.begin(now_ns)
            self._has_begun = True
            return int(start)

    def after(self, done_ns: int) -> int:
        with self._lock:
            return int(self._plan.after(done_ns))


def pace_of(spec: Dict[str, Any], stream: int) -> Any:
    """Return an object that plans the starts of a phase, such as the warm-up, or None to run back to back.

    `stream` is the number, from 0, of this loop among parallel loops. `spec` has the fields of `EngineSpec` by name.
    Each of the parallel loops has the whole rate in `spec`. The fixed starts of parallel loops are shifted against each
    other, like the pictures of cameras that are not synchronised. Poisson starts have another seed in each loop.
    """
    if spec.get("turns"):
        return Turns(spec["turns"])
    duty = Duty(*spec["duty_ns"]) if spec.get("duty_ns") else None
    rate_hz = spec.get("rate_hz")
    if rate_hz is None:
        delay_ns = spec.get("delay_ns") or 0
        return Closed(delay_ns, duty) if delay_ns or duty else None
    if spec.get("starts_ns"):
        return Open(replayed_starts(spec["starts_ns"]), duty)
    if spec.get("arrivals") == "poisson":
        return Open(poisson_starts(rate_hz, [spec["seed"], stream]), duty)
    return Open(fixed_starts(rate_hz, int(stream * NS / rate_hz / spec.get("streams", 1))), duty)


# To wait for a point in time, sleep until shortly before it and then poll the clock. A sleep ends late: by the slack
# that the kernel allows itself (50 us by default, prctl(2) PR_SET_TIMERSLACK) and by the time to wake up, which is
# microseconds on a busy core and several hundred from a deep idle state. So the sleep ends early by a margin that
# follows its recent lateness. The margin is bounded, and with it the share of a core that polling takes.

SLICE_NS = 50_000_000  # longest single sleep, so that a stop is noticed in time
FIRST_MARGIN_NS = 150_000
MIN_MARGIN_NS = 40_000
MAX_MARGIN_NS = 500_000
PR_SET_TIMERSLACK = 29  # linux/prctl.h
SLACK_NS = 1_000


def sharpen_timers() -> None:
    """Make the kernel end the sleeps of this thread on time. By default they may end up to 50 us later."""
    with contextlib.suppress(OSError, AttributeError):  # not Linux: the margin covers the lateness
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, SLACK_NS, 0, 0, 0)


def yield_cpu() -> None:
    """Let other threads run, without sleeping. `time.sleep(0)` would set a timer and take 65 us in Python 3.11."""
    select.select((), (), (), 0)


class Waiter:
    """Waits until points in time, and learns how late sleeps end. Each thread needs a Waiter of its own."""

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
        """Wait until the time `t_ns`. If that time is past, do not wait.

        Return False if a stop was requested during the wait, else True.
        """
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
        """Adapt the margin after a sleep that ended `late_ns` ns late.

        The margin is how long before the wanted time a sleep is set to end. It grows at once and shrinks slowly, so it
        suffices for 99 of 100 sleeps. A sleep that ended more than MAX_MARGIN_NS late is ignored: another process had
        the core, and no margin helps against that.
        """
        if late_ns > MAX_MARGIN_NS:
            return
        wanted_ns = late_ns * 5 // 4
        if wanted_ns < self.margin_ns:
            wanted_ns = self.margin_ns - (self.margin_ns - wanted_ns) // 32
        self.margin_ns = min(max(wanted_ns, MIN_MARGIN_NS), MAX_MARGIN_NS)
