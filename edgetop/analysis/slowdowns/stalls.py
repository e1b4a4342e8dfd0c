"""Finds how much the inferences of a second lost while their process was stopped, by its CPU quota or by other load.

A CPU quota stops a process for tens of milliseconds in each period, and a scheduler gives its CPU to other programs for
a few milliseconds at a time. If an inference is shorter than that, the stops make a few inferences much slower: the
median latency of the second stays, while its mean rises and fewer inferences are done. In such a second, the mean tells
how slow the model is.
"""

import math

import numpy as np
import numpy.typing as npt

from edgetop.analysis.slowdowns.baseline import LENGTH_S, SLOWER
from edgetop.analysis.slowdowns.from_start import WAIT, read_taken
from edgetop.analysis.slowdowns.levels import ENOUGH, NEPER
from edgetop.analysis.slowdowns.signals import QUOTA, STALLS_MS, THROTTLED, Signals, stalled_ms
from edgetop.analysis.tracks import Floats
from edgetop.session.seconds import NS

SECOND_MS = 1000.0
_LEAST = math.exp(SLOWER / NEPER)  # a smaller difference between mean and median makes no slowdown


def with_felt(rows: npt.NDArray[np.void], signals: Signals, usual_ms: float) -> npt.NDArray[np.void]:
    """Return the seconds `rows` with a median latency that includes the effect of stops of the process.

    It is the median of the second. If the process was stopped for longer than usual, and if these stops explain why the
    mean is above the median, the latency is higher, up to the mean. `signals` gives the times of the stops. `usual_ms`
    is for how many ms of a second the process is usually stopped.
    """
    p50_ns = rows["p50_ns"]
    mean_ns = rows["sum_ns"] / np.maximum(rows["count"], 1)
    above = (rows["count"] >= ENOUGH) & (mean_ns >= _LEAST * p50_ns)
    if not above.any():
        return rows
    runs_ms = np.maximum(SECOND_MS - lost_ms(rows[above], signals), 1)  # at 1 ms, the mean alone decides
    ratio = np.maximum(max(SECOND_MS - usual_ms, 1) / runs_ms, 1)
    felt = rows.copy()
    felt["p50_ns"][above] = np.minimum(mean_ns[above], p50_ns[above] * ratio)
    return np.asarray(felt)


def lost_ms(rows: npt.NDArray[np.void], signals: Signals) -> Floats:
    """Return for how many ms of each second of `rows` the process was stopped by its CPU quota or by other processes.

    Stops by the quota of less than 30 ms a second count as 0. A stop of unknown length counts as 1000 ms.
    """
    if not len(rows):
        return np.empty(0)
    pauses = np.flatnonzero(np.diff(rows["t_ns"]) > LENGTH_S * NS) + 1  # which may last for years
    return np.concatenate([_lost_ms(part["t_ns"] // NS, signals) for part in np.split(rows, pauses)])


def _lost_ms(second: npt.NDArray[np.int64], signals: Signals) -> Floats:
    begin_s, end_s = int(second[0]), int(second[-1]) + 1
    places = {info.id: row for row, info in enumerate(signals.infos) if info.id in (QUOTA, THROTTLED)}
    unknown = np.full(end_s - begin_s, np.nan)
    held, _ = signals.held(begin_s, end_s, list(places.values()))
    known = dict(zip(places, held, strict=True))
    by_quota = stalled_ms(known.get(THROTTLED, unknown), known.get(QUOTA, unknown))
    by_quota = np.where(by_quota >= STALLS_MS, by_quota, 0.0)
    taken = read_taken(signals, begin_s, end_s)
    waited = np.nan_to_num(taken.values[WAIT], nan=SECOND_MS)
    lost = by_quota + np.where(taken.is_contended, waited, 0.0)
    return np.asarray(np.minimum(lost, SECOND_MS)[second - begin_s])
