"""Why inferences that are fast enough are late: they queue, or the engine wakes up late.

An inference queued only if the one before it in its stream was still running when it was due. If none was running, the
engine was to wake up at that time and did not: the kernel let it wait for a CPU, its CPU quota was used up, or its
timer was slow. Readings of those seconds say which; without them the cause is unknown.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.from_start import PRESSURE, WAIT
from edgetop.analysis.slowdowns.signals import (
    PRESSURE_PER_STALLED_MS,
    QUOTA,
    THROTTLED,
    Signals,
    beyond_quota,
    stalled_ms,
)
from edgetop.frozen import frozen
from edgetop.session.records import Inferences, response_ns
from edgetop.session.seconds import NS

# Mean service time divided by the period: from there on a queue is likely without single inferences. A choice: at 0.8
# most arrivals at random find one (M/D/1); a lower value calls a late wake-up a queue, a higher one hides queues.
NEAR_PERIOD = 0.8
# Of the lateness of a second, that a wait for a CPU must explain to be its cause. The same as for slow inferences.
PART = 0.25
LEAST_PRESSURE_PCT = 10.0  # where the kernel does not count the wait: as for the CPU pressure of a slowdown
# Twenty times the kernel's default timer slack of 50 us (prctl(2), PR_SET_TIMERSLACK): less is the timer, and an idle
# CPU that wakes up. A choice: a higher value blames the timer for waits that readings do not show.
TIMER_NS = 1_000_000


@frozen
class LateStarts:
    """The inferences that missed the deadline only because they started late. Figures have two digits."""

    queued_share: float  # of them: the one before was still running when they were due
    wait_ns: float  # median lateness of the others; of all where all queued
    lost_ms: float  # lateness of the others in each second that has some
    run_queue_ms: float | None = None  # a second, in which the engine waited for a CPU beyond its quota; None: unknown
    pressure_pct: float | None = None  # CPU pressure beyond its quota; None: unknown
    stalled_ms: float = 0.0  # a second, for which its CPU quota stopped it

    def cause(self) -> str:
        """Return "waiting", "cpu-quota", "scheduling", or "unknown"."""
        if self.queued_share > 0.5:
            return "waiting"
        if self.stalled_ms >= PART * self.lost_ms:
            return "cpu-quota"
        waited = self.pressure_pct is not None and self.pressure_pct >= LEAST_PRESSURE_PCT
        if self.run_queue_ms is not None:
            waited = self.run_queue_ms >= PART * self.lost_ms
        return "scheduling" if waited or self.wait_ns <= TIMER_NS else "unknown"


def find_late_starts(inferences: Inferences, deadline_ns: int, signals: Signals | None = None) -> LateStarts | None:
    """Return how inferences started late, by these single ones in order of start; None: none of them did.

    `signals`: what was read in their seconds.
    """
    is_queued = _are_queued(inferences)
    is_late = inferences["ok"] & (response_ns(inferences) > deadline_ns) & (inferences["latency_ns"] <= deadline_ns)
    if not is_late.any():
        return None
    woken = inferences[is_late & ~is_queued]
    counted = woken if len(woken) else inferences[is_late]
    seconds = np.unique(counted["t_ns"] // NS)
    lost_ms = float(counted["wait_ns"].sum()) / 1e6 / len(seconds)
    share, wait_ns = np.count_nonzero(is_late & is_queued) / np.count_nonzero(is_late), np.median(counted["wait_ns"])
    found = LateStarts(two_digits(share), two_digits(float(wait_ns)), two_digits(lost_ms))
    return found if signals is None else _with_readings(found, seconds, signals)


def _are_queued(inferences: Inferences) -> npt.NDArray[np.bool_]:
    """Return for which inferences one before them in their stream ended after they were due."""
    is_queued = np.zeros(len(inferences), np.bool_)
    for stream in np.unique(inferences["stream"]).tolist():
        places = np.flatnonzero(inferences["stream"] == stream)
        of = inferences[places]
        ends_ns = np.maximum.accumulate(of["t_ns"] + of["latency_ns"])
        is_queued[places[1:]] = ends_ns[:-1] > (of["t_ns"] - of["wait_ns"])[1:]
    return is_queued


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
    """
    >>> two_digits(38.04), two_digits(0.123)
    (38.0, 0.12)
    """
    return float(f"{value:.2g}")
