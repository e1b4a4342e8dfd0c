"""The pace: when each inference is due, at a rate, after a pause, or in the on part of a duty cycle; and the waiting.

Under a rate the load is open: starts are planned from the beginning of a phase, and one that
comes late delays none that is planned after it. What a record says it waited is counted from
the planned start, so that a stall is felt by every inference that should have begun in it, and
not by the one that stalled alone (G. Tene's "coordinated omission"; MLPerf's LoadGen counts
latency from the scheduled time in its Server scenario too, loadgen/issue_query_controller.cc).

The plan is arithmetic: however long the queue becomes, it takes no memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import select
import time
from typing import Any, Callable, Dict, Iterator, List, Optional

import numpy as np

NS = 1_000_000_000
DRAWN_AT_ONCE = 1024
NEVER = 2**63 - 1


class Duty:
    """A cycle of a working time and a resting time."""

    def __init__(self, on_ns: int, off_ns: int) -> None:
        self._on_ns = on_ns
        self._cycle_ns = on_ns + off_ns

    def spread(self, on_time_ns: int) -> int:
        """Return when so much working time is over, counted from the beginning of the first cycle."""
        cycles, rest = divmod(on_time_ns, self._on_ns)
        return cycles * self._cycle_ns + rest

    def earliest(self, t_ns: int) -> int:
        """`t_ns`, where it lies in the work, or else when work begins again."""
        cycles, rest = divmod(t_ns, self._cycle_ns)
        return t_ns if rest < self._on_ns else (cycles + 1) * self._cycle_ns


class Closed:
    """The next inference is begun when the one before it is done, after a pause, within the duty cycle.

    Nothing is meant to start while another runs, so nothing waits.
    """

    is_open = False

    def __init__(self, delay_ns: int = 0, duty: Optional[Duty] = None) -> None:
        self._delay_ns = delay_ns
        self._duty = duty
        self._begin_ns = 0

    def begin(self, now_ns: int) -> int:
        """Begin a phase, and return when its first inference is to start."""
        self._begin_ns = now_ns
        return now_ns

    def after(self, done_ns: int) -> int:
        """Return when the next inference is to start."""
        t_ns = done_ns + self._delay_ns
        return t_ns if self._duty is None else self._begin_ns + self._duty.earliest(t_ns - self._begin_ns)


class Open:
    """Inferences start as planned, or at once where their time is past."""

    is_open = True

    def __init__(self, starts_ns: Iterator[int], duty: Optional[Duty] = None) -> None:
        """`starts_ns`: ascending, from the beginning of a phase, without the rests of the duty cycle."""
        self._starts = starts_ns
        self._duty = duty
        self._begin_ns = 0

    def begin(self, now_ns: int) -> int:
        self._begin_ns = now_ns
        return self.after(now_ns)

    def after(self, done_ns: int) -> int:  # noqa: ARG002  the plan does not ask when anything was done
        start = next(self._starts)
        return self._begin_ns + (start if self._duty is None else self._duty.spread(start))

    def postpone(self, next_ns: int, from_ns: int, to_ns: int) -> int:
        """Move the plan by the time in which the engine, busy with a profile, kept the next inference from starting.

        So that one waits as long as it would have without the profile, and those behind it too.
        """
        delay_ns = max(0, to_ns - max(from_ns, next_ns))
        self._begin_ns += delay_ns
        return next_ns + delay_ns


class Turns:
    """Back to back within given spans of time alone: another engine has the time between them (an A/B session).

    An inference that would end after its span is not begun, by what the one before it took; the first of a span is.
    """

    is_open = False

    def __init__(self, turns: List[List[int]]) -> None:
        """`turns`: [from, until] in ns of CLOCK_MONOTONIC, ascending, none of them touching the next."""
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
    """Yield one start every 1/rate s. Each is computed from the first, so that no error adds up."""
    number = 0
    while True:
        yield first_ns + int(number * NS / rate_hz)
        number += 1


def poisson_starts(rate_hz: float, seed: List[int]) -> Iterator[int]:
    """A Poisson process: pauses between starts are exponential, of 1/rate on average."""
    random = np.random.RandomState(seed)
    last = 0.0
    while True:
        starts = last + np.cumsum(random.exponential(NS / rate_hz, DRAWN_AT_ONCE))
        last = float(starts[-1])
        for start in starts.tolist():
            yield int(start)


def replayed_starts(starts_ns: List[int]) -> Iterator[int]:
    """Yield the starts of another session in a loop. The last number is no start: there the loop begins again."""
    begin_ns = 0
    while True:
        for start in starts_ns[:-1]:
            yield begin_ns + start
        begin_ns += starts_ns[-1]


def pace_of(spec: Dict[str, Any], stream: int) -> Any:
    """Return the pace of one stream for one phase; None: back to back.

    Each stream has the whole rate. Their fixed plans are evenly apart, as cameras are that nobody synchronised;
    their Poisson plans are drawn from seeds of their own.
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


# Waiting for a point in time: asleep until shortly before it, then polling the clock.
# A sleep ends late, by the slack that the kernel allows itself (50 us by default, timerfd and
# prctl(2) PR_SET_TIMERSLACK) and by what it takes to wake up: microseconds on a busy core, several
# hundred from a deep idle state. So the sleep ends early by its recent lateness, and the rest is spent
# polling the clock. That rest is bounded, and with it the share of a core that it burns.

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
