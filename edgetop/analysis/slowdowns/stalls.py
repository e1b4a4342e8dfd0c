"""Finds how much the inferences of a second lost while their process was stopped, by its CPU quota or by other load.

A CPU quota stops a process for tens of milliseconds in each period, and a scheduler gives its CPU to other programs for
a few milliseconds at a time. If an inference is shorter than that, the stops hit few inferences, and hard: the median
latency of the second stays, while its mean rises and fewer inferences are done. In such a second, the mean tells how
slow the model is.
"""

import math

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.baseline import SLOWER
from edgetop.analysis.slowdowns.from_start import WAIT, read_taken
from edgetop.analysis.slowdowns.levels import ENOUGH, NEPER
from edgetop.analysis.slowdowns.signals import QUOTA, STALLS_MS, THROTTLED, Signals, stalled_ms
from edgetop.analysis.tracks import Floats
from edgetop.session.seconds import NS

_LEAST = math.exp(SLOWER / NEPER)  # a smaller difference between mean and median makes no slowdown


def felt_p50_ns(rows: npt.NDArray[np.void], signals: Signals) -> npt.NDArray[np.int64]:
    """Return the latency of each second of `rows` in ns, with which it is compared with other seconds.

    It is the median latency or, in seconds in which the process was stopped, the mean latency, as far as the stops
    explain that the mean is above the median. `signals` gives the times of the stops.
    """
    p50_ns = rows["p50_ns"]
    mean_ns = rows["sum_ns"] / np.maximum(rows["count"], 1)
    above = (rows["count"] >= ENOUGH) & (mean_ns >= _LEAST * p50_ns)
    if not above.any():
        return np.asarray(p50_ns)
    second = rows["t_ns"][above] // NS
    begin_s, end_s = int(second[0]), int(second[-1]) + 1
    lost_ms = _lost_ms(signals, begin_s, end_s)[second - begin_s]
    most_ns = p50_ns[above] * (1000 / np.maximum(1000 - lost_ms, 1))  # at 1000 ms, the mean alone decides
    felt_ns = p50_ns.copy()
    felt_ns[above] = np.minimum(mean_ns[above], most_ns)
    return np.asarray(felt_ns)


def _lost_ms(signals: Signals, begin_s: int, end_s: int) -> Floats:
    """Return for how many ms of each second the process was stopped; 0 if for less than 30 ms.

    The result is infinite where it was stopped for an unknown time. The seconds are those from `begin_s` to `end_s`.
    """
    rows = {info.id: row for row, info in enumerate(signals.infos) if info.id in (QUOTA, THROTTLED)}
    unknown = np.full(end_s - begin_s, np.nan)
    held, _ = signals.held(begin_s, end_s, list(rows.values()))
    throttled, quota = (held[list(rows).index(name)] if name in rows else unknown for name in (THROTTLED, QUOTA))
    by_quota = stalled_ms(throttled, quota)
    by_quota = np.where(by_quota >= STALLS_MS, by_quota, 0.0)
    taken = read_taken(signals, begin_s, end_s)
    waited = np.nan_to_num(taken.values[WAIT], nan=np.inf)
    return np.asarray(by_quota + np.where(taken.is_contended, waited, 0.0))
