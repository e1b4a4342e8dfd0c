"""Finds the parts of a long power trace that have the shape of a session: where the load begins, pauses and ends."""

import math

import numpy as np
import numpy.typing as npt

from edgetop.session.seconds import NS

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Correlation of the mean power with the share of the time in inferences from which a part of the log is tried. Choice:
# a run without pauses, in noise as large as its power, has 0.7. Larger: the session's own run is not tried; smaller:
# parts of no run are tried, which takes time.
LEAST_LIKE = 0.4
MOST_PLACES = 6  # Parts of a log that are tried.
# Time before and after the session that should look like a rest, as a share of the session. Choice: enough to see where
# a load begins. Larger: a run close to another one is not tried; smaller: any part of a longer run looks like the
# session.
MARGIN = 0.05
# Distance of two parts of the log that are tried, as a share of the session. Choice: two runs cannot overlap. Larger: a
# short run close to a long one is not tried; smaller: one run is tried several times.
APART = 0.5
# Share of the time in inferences up to which even intervals make them look alike. Choice: a pause of a third. Larger:
# inferences back to back, of which each is a little longer or shorter, are moved; smaller: fast loads stay wrong.
MOST_BUSY = 2 / 3
BLURRED_PERIODS = 2  # Standard deviation, in intervals, of the Gaussian that leaves only the ends of the load.
# Least spread of the session's shape in the trace, as a part of its mean. Choice: a load of which a thousandth is
# outside. Larger: a long session is placed wrongly; smaller: noise decides.
LEAST_SPREAD = 0.03
# Longest offset that is searched in a window around the expected one, in inferences; at most SEARCHED_S.
SEARCHED_INFERENCES = 4.0
SEARCHED_S = 0.05  # Around each offset, this far is searched for the exact one.
MOST_COMPARED = 1 << 18  # Bins of the trace and of the session that are correlated.


def offsets_of(watts: Floats, begin_s: float, bin_s: float, starts: Ints, lengths: Ints) -> tuple[list[float], float]:
    """Return `(offsets, bin_s)`: the offsets at which the mean power follows the share of the time in inferences.

    The first offset is that at which the product of both is largest. The others are those at which both have the same
    shape, however large the power is. All are in s. `watts` has the mean power in W in bins of `bin_s` seconds, or NaN;
    the first bin begins at the log time `begin_s`. `starts` and `lengths` of the inferences are in ns. The returned
    `bin_s` is the length of the compared bins, and so the precision of the offsets.
    """
    last_ns = float(starts[-1] + lengths[-1])
    joined = math.ceil(max(len(watts), last_ns / bin_s / NS) / MOST_COMPARED)
    bin_s = joined * bin_s
    bin_ns = bin_s * NS
    count = int(last_ns / bin_ns) + 2
    edges = np.arange(count + 1, dtype=np.float64) * bin_ns
    busy = np.diff(_busy_ns(edges, starts, lengths)) / bin_ns
    watts = np.where(np.isnan(watts), np.nanmedian(watts), watts)
    watts = watts[: len(watts) // joined * joined].reshape(-1, joined).mean(axis=1)
    size = 1 << (len(watts) + count - 1).bit_length()
    product = np.fft.rfft(busy - busy.mean(), size) * np.conj(np.fft.rfft(watts - watts.mean(), size))
    lag = int(np.argmax(np.fft.irfft(product, size)))
    lag -= size if lag > count else 0
    lags = [_by_the_ends(lag, busy, watts, starts / bin_ns, lengths / bin_ns)]
    for other in _alike(busy[int(starts[0] / bin_ns) :], watts, int(starts[0] / bin_ns)):
        if all(abs(other - one) * bin_s > SEARCHED_S for one in lags):
            lags.append(other)
    return [one * bin_s - begin_s for one in lags], bin_s


def even_interval(starts: Floats | Ints, lengths: Floats | Ints) -> float | None:
    """Return the time from one inference to the next if it is even and has a pause; else None.

    `starts` and `lengths`: start and latency of all inferences. The result has their unit.
    """
    if len(starts) < 2:
        return None
    intervals = np.diff(starts)
    period = float(np.median(intervals))
    uneven = float(np.quantile(np.abs(intervals - period), 0.9))
    return None if uneven > period / 4 or float(np.median(lengths)) > MOST_BUSY * period else period


def _by_the_ends(lag: int, busy: Floats, watts: Floats, starts: Floats, lengths: Floats) -> int:
    """Return the distance `lag` moved by the whole inferences that separate the ends of the session from the load's.

    Inferences at even intervals look alike, so bins that happen to fall well, or the drift of a clock, decide by how
    many of them `lag` is off. Means over some intervals only show where the load begins, pauses and ends. The distance
    stays as it is if the intervals are not even, or if the load does not begin or end in the trace. All arguments are
    in bins; `busy` and `watts` are those of `_alike`, from the session's time 0 on.
    """
    if (period := even_interval(starts, lengths)) is None:
        return lag
    size = 1 << (len(busy) + len(watts)).bit_length()
    blur = np.exp(-2 * (np.pi * BLURRED_PERIODS * period * np.fft.rfftfreq(size)) ** 2)  # a Gaussian's transform
    shape, power = np.fft.rfft(busy, size) * blur, np.conj(np.fft.rfft(watts - watts.mean(), size))
    product = np.fft.irfft(shape * power, size)
    # The variance of the shape in the trace at each distance: outside of the session, nothing runs.
    inside, blurred = np.conj(np.fft.rfft(np.ones(len(watts)), size)), np.fft.irfft(shape, size)
    mean, square = (np.fft.irfft(np.fft.rfft(of) * inside, size) / len(watts) for of in (blurred, blurred**2))
    spread = np.sqrt(np.maximum(square - mean**2, 0.0))
    tried = np.arange(1 - len(watts), len(busy))
    like = product[tried] / np.maximum(spread[tried], LEAST_SPREAD * float(busy.mean()))
    intervals = round((int(tried[np.argmax(like)]) - lag) / period)
    moved = lag + round(intervals * period)
    if not SEARCHED_INFERENCES < abs(intervals) < len(starts):  # As far as the session is long, there is another run.
        return lag
    # A part of a load has no ends. There, a slow rise of the power would move the session partly out of the trace.
    seen, seen_before = (float(busy[max(0, at) : max(0, at + len(watts))].sum()) for at in (moved, lag))
    return moved if seen >= seen_before - 1 else lag


def _alike(busy: Floats, watts: Floats, first: int) -> list[int]:
    """Return the possible distances of the session from the trace in bins, the best first.

    A bin of the trace plus the distance is the session's bin of the same time, so the distance is negative if the
    session begins after the trace. Only distances are returned at which the whole session lies in the trace. `busy` has
    the share of the time in inferences of each bin, from the first inference on, which is in bin `first` of the
    session. `watts` has the mean power of each bin of the trace.
    """
    margin = max(round(MARGIN * len(busy)), 2)
    shape = np.concatenate([np.zeros(margin), busy, np.zeros(margin)])
    span = len(shape)
    if span > len(watts) or not shape.any():
        return []
    shape = shape - shape.mean()
    size = 1 << (len(watts) + span).bit_length()
    product = np.fft.irfft(np.conj(np.fft.rfft(shape, size)) * np.fft.rfft(watts - watts.mean(), size), size)
    sums, squares = (
        np.concatenate([[0.0], np.cumsum(of)]) for of in (watts - watts.mean(), (watts - watts.mean()) ** 2)
    )
    count = len(watts) - span + 1
    mean = (sums[span:] - sums[:-span]) / span
    spread = np.sqrt(np.maximum((squares[span:] - squares[:-span]) / span - mean**2, 0.0))
    like = product[:count] / span / np.maximum(spread * shape.std(), 1e-9)
    found: list[int] = []
    while len(found) < MOST_PLACES and (best := int(np.argmax(like))) >= 0 and like[best] >= LEAST_LIKE:
        found.append(first - best - margin)
        reach = max(round(APART * len(busy)), 1)
        like[max(0, best - reach) : best + reach + 1] = -1.0
    return found


def _busy_ns(at_ns: Floats, starts: Ints, lengths: Ints) -> Floats:
    """Return, for each time in `at_ns`, how many ns inferences ran up to this time.

    `starts` and `lengths` are those of the inferences. All arguments are in ns.
    """
    before = np.concatenate([[0], np.cumsum(lengths)])
    place = np.searchsorted(starts, at_ns, side="right") - 1
    inside = np.maximum(place, 0)
    into = np.clip(at_ns - starts[inside], 0, lengths[inside])
    return np.where(place >= 0, before[inside] + into, 0.0)
