"""Why inferences start late although they are fast enough: they queue, or the engine wakes up late.

An inference queued if, at its intended start, the previous inference of its stream was still running. If none was
running, the engine woke up late: it waited for a CPU, its CPU quota was used up, or its timer was slow. The sensors'
readings in the seconds with late starts show which of the three causes it was. Without readings, the cause is unknown.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.counted_causes import PART
from edgetop.analysis.slowdowns.from_start import PRESSURE, WAIT
from edgetop.analysis.slowdowns.signals import (
    LEAST_PRESSURE_PCT,
    PRESSURE_PER_STALLED_MS,
    QUOTA,
    THROTTLED,
    Signals,
    beyond_quota,
    stalled_ms,
)
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.load_settings import Load
from edgetop.session.seconds import NS, Seconds

# Mean service time divided by the period from which a queue is likely if arrivals are uneven. Choice: at 0.8 most
# random arrivals find one (M/D/1). Larger: queues are missed; smaller: a late wake-up is called a queue.
NEAR_PERIOD = 0.8
# Share of the late inferences that must have queued for "calls wait for earlier ones". Choice: most. Larger: a queue
# is called scheduling; smaller: a few overlaps hide late wake-ups.
MOSTLY_QUEUED = 0.5
# Mean lateness up to which the timer of the engine is the cause. Kernel: twenty times the default timer slack of 50
# us (prctl(2), PR_SET_TIMERSLACK). Larger: the timer is blamed for waits that readings do not show; smaller: an idle
# CPU that wakes up has no cause.
TIMER_NS = 1_000_000


@frozen
class LateStarts:
    """How late inferences started in the seconds in which deadlines were missed. Figures have two digits."""

    queued_share: float  # inferences due while the one before was running, divided by those late only by their start
    wait_ns: float  # mean lateness of all
    lost_ms: float  # lateness in each second, of all together
    run_queue_ms: float | None = None  # a second, in which the engine waited for a CPU beyond its quota; None: unknown
    pressure_pct: float | None = None  # CPU pressure beyond its quota; None: unknown
    stalled_ms: float = 0.0  # a second, for which its CPU quota stopped it

    def cause(self) -> str:
        """Return the cause: "waiting" (inferences queued), "cpu-quota", "scheduling", or "unknown"."""
        if self.queued_share > MOSTLY_QUEUED:
            return "waiting"
        if self.stalled_ms >= PART * self.lost_ms:
            return "cpu-quota"
        waited = self.pressure_pct is not None and self.pressure_pct >= LEAST_PRESSURE_PCT
        if self.run_queue_ms is not None:
            waited = self.run_queue_ms >= PART * self.lost_ms
        return "scheduling" if waited or self.wait_ns <= TIMER_NS else "unknown"


def find_late_starts(seconds: Seconds, load: Load, signals: Signals | None = None) -> LateStarts | None:
    """Return how late inferences started, or None if no inference started late.

    The result is also None without a deadline, or if the load does not request inferences at a fixed rate. At a fixed
    rate, an inference queues if the response time of the previous inference is longer than the time between two
    requests. `seconds`: the seconds to examine. `signals`: the sensors' readings; None if there are none.
    """
    if seconds.response is None or load.mode != "fixed" or not load.rate_hz or not load.deadline_ns:
        return None
    seconds = seconds.where(seconds.rows["deadline_misses"] > 0)
    late = int(seconds.rows["deadline_misses"].sum()) - histogram.count_above(seconds.histogram(), load.deadline_ns)
    if late <= 0 or seconds.response is None:
        return None
    queued = histogram.count_above(seconds.response.histogram(), round(1e9 / load.rate_hz))
    rows = seconds.rows
    lost_ns = int(seconds.response.rows["sum_ns"].sum() - rows["sum_ns"].sum())
    found = LateStarts(
        queued_share=two_digits(min(1.0, queued / late)),
        wait_ns=two_digits(lost_ns / max(1, int(rows["count"].sum()))),
        lost_ms=two_digits(lost_ns / 1e6 / len(rows)),
    )
    return found if signals is None else _with_readings(found, rows["t_ns"] // NS, signals)


def _with_readings(found: LateStarts, seconds: npt.NDArray[np.int64], signals: Signals) -> LateStarts:
    ids = (WAIT, PRESSURE, THROTTLED, QUOTA)
    rows = {info.id: row for row, info in enumerate(signals.infos) if info.id in ids}
    if not rows:
        return found
    first_s = int(seconds[0])
    held, _ = signals.held(first_s, int(seconds[-1]) + 1, list(rows.values()))
    unknown = np.full(len(seconds), np.nan)
    read = dict(zip(rows, held[:, seconds - first_s], strict=True))
    values = {name: read.get(name, unknown) for name in ids}
    stalled = stalled_ms(values[THROTTLED], values[QUOTA])
    return replace(
        found,
        run_queue_ms=_mean(beyond_quota(values[WAIT], stalled)),
        pressure_pct=_mean(beyond_quota(values[PRESSURE], stalled, PRESSURE_PER_STALLED_MS)),
        stalled_ms=_mean(stalled) or 0.0,
    )


def _mean(values: npt.NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return two_digits(float(known.mean())) if len(known) else None


def two_digits(value: float) -> float:
    """Return the value, rounded to two significant digits.

    >>> two_digits(38.04), two_digits(0.123)
    (38.0, 0.12)
    """
    return float(f"{value:.2g}")
