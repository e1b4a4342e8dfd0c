"""Whether a load with a given rate asks for more than the engine can run, so that the queue grows without end.

A queue alone is no overload. A stall fills a queue that drains again, and random arrivals fill and empty a queue all
the time (M/G/1, L. Kleinrock, Queueing Systems, vol. 1, ch. 5). The time since the queue was last empty is divided into
thirds. There is an overload if the mean wait grew in each third by more than chance explains, which is two standard
deviations of the work done in a third. After one stall, the wait grows in only one third.

The wait is the mean over each second, or over each duty cycle if the load has cycles. It is computed from the sums of
the seconds, so a replay gives the same result.
"""

import math
from collections import deque
from dataclasses import dataclass, replace
from itertools import pairwise

from edgetop.frozen import frozen
from edgetop.session.load_settings import Load
from edgetop.session.seconds import NS, Seconds

# Shortest time for which a queue must have grown. Choice: two seconds for each third. Larger: an overload is seen
# late; smaller: a stall is one.
LEAST_S = 6
MAX_STEPS = 600
MAX_SPANS = 200
# Standard deviations of the work done by which the wait must grow in each third. Statistics: two, in three thirds,
# are chance once in some 80,000. Larger: an overload just above the limit is seen late; smaller: random arrivals are
# an overload.
DEVIATIONS = 2.0
# Least growth in seconds of wait per second. Choice: rates are declared to three digits. Larger: an overload by less
# is missed; smaller: the drift of a clock is one.
LEAST_GROWTH = 0.005
# Share of the longest wait below which the queue drains. Choice. Larger: a queue that fluctuates ends the overload;
# smaller: it goes on although the queue empties.
LIFTED_AT = 0.5


@frozen
class OverloadView:
    asked_hz: float  # Requested rate of all streams together.
    done_hz: float
    wait_ns: float  # Mean of the last second or duty cycle.
    is_over: bool  # Whether the queue has drained since.


@dataclass(slots=True)
class _Step:
    """Sums over one second or, if the load has duty cycles, over all seconds of one cycle."""

    number: int
    # Number of inferences, the sums of their waits and service times, and the sum of the squared service times.
    count: int = 0
    wait_s: float = 0.0
    busy_s: float = 0.0
    squares_s2: float = 0.0

    @property
    def mean_wait_s(self) -> float:
        return self.wait_s / self.count

    def add(self, other: "_Step") -> None:
        self.count += other.count
        self.wait_s += other.wait_s
        self.busy_s += other.busy_s
        self.squares_s2 += other.squares_s2


class Backlog:
    """Finds the overloads of a load that sets start times. In an overload, the queue grows without end."""

    def __init__(self) -> None:
        self._closed_until_ns = 0
        self._step = _Step(0)  # The step in progress.
        self._since_empty: deque[_Step] = deque(maxlen=MAX_STEPS)
        self._all = _Step(0)  # Sums since the queue was empty; the number is that of the first step.
        self._longest_s: float | None = None  # Longest wait of the present overload; None if there is none.
        self._last: OverloadView | None = None
        self._spans: deque[tuple[int, int | None]] = deque(maxlen=MAX_SPANS)

    @property
    def spans(self) -> tuple[tuple[int, int | None], ...]:
        """Return `(begin, end)`, two session times in ns, for each overload, the oldest first.

        `end` is None while the overload lasts.
        """
        return tuple(self._spans)

    def view(self) -> OverloadView | None:
        """Return the latest overload, or None if there was none."""
        return self._last

    def fold(self, seconds: Seconds, load: Load) -> None:
        if seconds.response is None or not load.is_paced or load.rate_hz is None:
            return
        step_ns = _step_ns(load)
        rows, response = seconds.rows, seconds.response.rows
        columns = (rows["t_ns"], rows["count"], rows["sum_ns"], rows["m2_ns2"], response["sum_ns"])
        for t_ns, count, sum_ns, m2_ns2, response_ns in zip(*(column.tolist() for column in columns), strict=True):
            if t_ns < self._closed_until_ns:  # A second may come twice.
                continue
            self._closed_until_ns = t_ns + NS
            if t_ns // step_ns != self._step.number:
                step, self._step = self._step, _Step(t_ns // step_ns)
                if step.count:
                    self._on_step(step, load.rate_hz, load)
            if count:
                squares = m2_ns2 + sum_ns * sum_ns / count
                self._step.add(_Step(0, count, (response_ns - sum_ns) / NS, sum_ns / NS, squares / NS**2))

    def _on_step(self, step: _Step, rate_hz: float, load: Load) -> None:
        wait_s = step.mean_wait_s
        if wait_s * rate_hz <= 1:  # By Little's law, less than one inference waits on average.
            self._begin_anew(step.number * _step_ns(load))
            return
        if not self._since_empty:
            self._all = _Step(step.number)
        self._since_empty.append(step)
        self._all.add(step)
        if self._longest_s is None:
            if not self._grows(load):
                return
            self._spans.append((self._all.number * _step_ns(load), None))
        elif wait_s < LIFTED_AT * self._longest_s:
            self._begin_anew(step.number * _step_ns(load))
            return
        self._longest_s = max(self._longest_s or 0.0, wait_s)
        steps = step.number + 1 - self._all.number
        done_hz = self._all.count / (steps * _step_ns(load) / NS)
        self._last = OverloadView(load.asked_hz or 0.0, done_hz, wait_s * NS, is_over=False)

    def _begin_anew(self, t_ns: int) -> None:
        if self._longest_s is not None:
            self._spans[-1] = (self._spans[-1][0], t_ns)
        self._since_empty.clear()
        self._longest_s = None
        if self._last is not None:
            self._last = replace(self._last, is_over=True)

    def _grows(self, load: Load) -> bool:
        held = self._since_empty
        span_s = (held[-1].number - held[0].number) * _step_ns(load) / NS
        if span_s < LEAST_S:
            return False
        ends = [held[(len(held) - 1) * k // 3].mean_wait_s for k in range(4)]
        return min(later - earlier for earlier, later in pairwise(ends)) > self._by_chance_s(span_s / 3, load)

    def _by_chance_s(self, span_s: float, load: Load) -> float:
        """Return by how many seconds the wait in one stream may grow by chance, without an overload.

        `span_s`: the length in s of the time in which the wait grew. The result is computed from the inferences that
        ran since the queue was last empty. In an overload, many of the inferences that the load requested have not run
        yet.
        """
        held_s = (self._since_empty[-1].number + 1 - self._all.number) * _step_ns(load) / NS
        served_hz = self._all.count / load.streams / held_s
        served = min(load.stream_hz or 0.0, served_hz) * span_s
        mean_s = self._all.busy_s / self._all.count
        spread_s2 = max(0.0, self._all.squares_s2 / self._all.count - mean_s * mean_s)
        of_one_s2 = spread_s2 + (mean_s * mean_s if load.is_random else 0.0)
        return max(DEVIATIONS * math.sqrt(served * of_one_s2), LEAST_GROWTH * span_s)


def _step_ns(load: Load) -> int:
    cycle_ns = max(0, load.duty_on_ns or 0) + max(0, load.duty_off_ns or 0)
    return max(1, -(-cycle_ns // NS)) * NS
