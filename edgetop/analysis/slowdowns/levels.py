"""Cuts a session into windows with their median latency, and measures its scatter while nothing happens.

A window is a second, or several seconds with at least five inferences together. Windows are made from the rows of
seconds alone, which the recording of a whole day has too. For a second with up to four inferences, the latency of each
one follows from minimum, median, maximum and sum, so a window over several such seconds has its exact median.
"""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgetop.session.seconds import NS, SECOND

# Number of inferences in a window. Choice: two outliers do not move the median of five. Larger: slow models are
# judged late; smaller: outliers are slowdowns.
ENOUGH = 5

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Levels are whole millionths of a neper, so that sums of them are exact in any order.
NEPER = 1_000_000

WINDOW = np.dtype([("begin_s", "<i8"), ("end_s", "<i8"), ("level", "<i8")])
POINT = np.dtype([("second", "<i8"), ("level", "<i8")])  # One inference, or the median of a dense second.

Windows = npt.NDArray[np.void]
Points = npt.NDArray[np.void]

# The scatter of windows while nothing happens separates a change from chance.
MAX_LEVELS = 320  # The scatter is estimated from this many of the latest windows.
# Number of windows between two estimates of the noise. Choice: an estimate costs a sort of all windows. Larger: new
# noise is believed late, and reported; smaller: costs more time.
EVERY = 32
# Lengths of the blocks, in windows, of which the noise is estimated. Choice: about as long as it takes to detect a
# change. Larger: noise that lasts shorter is averaged out; smaller: noise that lasts longer is underestimated, and
# reported.
BLOCKS = (5, 12)
# Number of blocks that give an estimate. Choice. Larger: noise that lasts is known later; smaller: a few blocks widen
# the noise by chance.
ENOUGH_BLOCKS = 10
CORRELATIONS = np.linspace(0, 0.97, 30)[:, None]  # The correlations of successive windows that are tried.
# Number of calm windows with which a rise is compared. Choice. Larger: noise of long ago counts; smaller: how long
# noise lasts is not known.
CALM = 160
SIZES = (1, 2)  # Windows in a block; in larger blocks, uncorrelated noise averages out.
# Number of blocks before a rise that suffice to doubt it. Choice. Larger: a rise soon after the burst is believed
# without a comparison; smaller: chance before it decides.
LEAST_BLOCKS = 3
SURE = 1_000.0  # Greatest log-likelihood ratio that is returned.
# Least noise that is assumed, in nepers. Computed: the buckets of a histogram are up to 0.8 % wide, so a latency is
# good to a third of a percent. Larger: slight slowdowns are reported later; smaller: the grid of the histogram is
# taken for a change.
LEAST_SIGMA = 0.003
# Factor on the noise that the few windows of the burst show. Choice: half a minute shows too little of noise that
# lasts. Larger: early slowdowns are reported later; smaller: noise after the burst is reported.
EARLY_MARGIN = 1.2
# Number of standard deviations at which a window is cut when it is compared with noise. Statistics: one normal value
# in 370 is farther off. Larger: an outlier decides; smaller: a real rise is cut.
OUTLIER_SCATTERS = 3
_PER_MAD = 1 / (0.6745 * math.sqrt(2))  # For differences of a normal distribution: Rousseeuw and Croux 1993.
OF_MEDIANS = 1.2533  # Standard deviation of the median of many values, in standard deviations of their mean.
OF_FIVE = 0.536  # Standard deviation of the median of five values, in standard deviations of one.


@dataclass(slots=True)
class WindowCutter:
    """Cuts seconds into windows with at least five inferences each.

    A second with fewer inferences is joined with the next ones. If a second with five or more inferences follows before
    the joined seconds have five together, the joined seconds are dropped.
    """

    pending: npt.NDArray[np.void] = field(default_factory=lambda: np.empty(0, SECOND))

    def add(self, rows: npt.NDArray[np.void]) -> tuple[Windows, Points]:
        """Return the windows that these seconds complete, and the latencies in them.

        A window is a second, or several seconds with at least five inferences together. The results are arrays of the
        types WINDOW and POINT. `rows` must follow the rows of earlier calls.
        """
        rows = rows[rows["count"] > 0]
        if len(rows) and not len(self.pending) and (rows["count"] >= ENOUGH).all():
            windows, points = np.empty(len(rows), WINDOW), np.empty(len(rows), POINT)
            second = rows["t_ns"] // NS
            windows["begin_s"], windows["end_s"] = second, second + 1
            windows["level"] = levels(rows["p50_ns"])
            points["second"], points["level"] = second, windows["level"]
            return windows, points
        rows = np.concatenate([self.pending, rows], dtype=SECOND) if len(self.pending) else rows
        window, pending_from = _grouped(rows["count"].tolist())
        self.pending = rows[pending_from:]
        is_used = window >= 0
        return _cut(rows[:pending_from][is_used], window[is_used])


def _grouped(counts: list[int]) -> tuple[Ints, int]:
    """Return the number of each row's window (-1 if dropped), and the index of the first row of an incomplete window.

    `counts` has the number of inferences in each row. A window has at least five inferences.

    >>> _grouped([6, 2, 3, 1])
    (array([0, 1, 1]), 3)
    """
    window = np.full(len(counts), -1, np.int64)
    number = first = held = 0
    for place, count in enumerate(counts):
        if count >= ENOUGH:
            first, held = place, count
        else:
            held += count
        if held >= ENOUGH:
            window[first : place + 1] = number
            number, first, held = number + 1, place + 1, 0
    return window[:first], first


def _cut(rows: npt.NDArray[np.void], window: Ints) -> tuple[Windows, Points]:
    if not len(rows):
        return np.empty(0, WINDOW), np.empty(0, POINT)
    first = np.flatnonzero(np.diff(window, prepend=-1))
    last = np.append(first[1:], len(rows)) - 1
    windows = np.empty(len(first), WINDOW)
    second = rows["t_ns"] // NS
    windows["begin_s"], windows["end_s"] = second[first], second[last] + 1
    place, latency_ns = known_latencies(rows)
    points = np.empty(len(place), POINT)
    points["second"], points["level"] = second[place], levels(latency_ns)
    order = np.lexsort((points["level"], window[place]))
    begin = np.searchsorted(window[place], np.arange(len(first)))
    size = np.diff(np.append(begin, len(place)))
    windows["level"] = points["level"][order][begin + (size - 1) // 2]
    return windows, points


def known_latencies(rows: npt.NDArray[np.void]) -> tuple[Ints, Ints]:
    """Return two arrays with an element for each inference: the index of its row, and its latency in ns.

    A row with five inferences or more has only one element, its median.
    """
    count, low, high = rows["count"], rows["min_ns"], rows["max_ns"]
    third = rows["sum_ns"] - low - high - rows["p50_ns"]
    has_ends = (count > 1) & (count < ENOUGH)
    is_known = np.stack([has_ends, (count != 2) & (count > 0), count == 4, has_ends])
    latency = np.stack([low, rows["p50_ns"], third, high])
    place = np.broadcast_to(np.arange(len(rows)), latency.shape)
    return place.T[is_known.T], latency.T[is_known.T]


def levels(latency_ns: npt.NDArray[np.int64]) -> Ints:
    """Return the natural logarithms of latencies in ns, times a million, as whole numbers.

    >>> levels(np.array([1, 1_000_000])).tolist()
    [0, 13815511]
    """
    return np.asarray(np.rint(np.log(np.maximum(latency_ns, 1)) * NEPER).astype(np.int64))


def median(values: Ints | Floats) -> float:
    """Return the median of `values`. `numpy.median` is ten times slower for the few values of a window."""
    return float(medians(values[np.newaxis])[0])


def medians(rows: Ints | Floats) -> Floats:
    """Return the median of each row of a matrix.

    >>> medians(np.array([[1, 2, 9], [4, 4, 4]])).tolist()
    [2.0, 4.0]
    """
    ordered, size = np.sort(rows, axis=1), rows.shape[1]
    return np.asarray((ordered[:, (size - 1) // 2] + ordered[:, size // 2]) / 2, np.float64)


@dataclass(slots=True)
class Noise:
    """The scatter of the latency from second to second, outside of slowdowns.

    The scatter is a standard deviation of the natural logarithm of the latency. It is increased if successive seconds
    are correlated, so that a test for independent values stays valid.
    """

    levels: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    since: int = 0  # Number of windows since the last estimate.
    _sigma: float = LEAST_SIGMA
    _due: Ints | None = None  # Levels for the next estimate, which is made on demand, because a whole day needs few.

    @property
    def sigma(self) -> float:
        if self._due is not None:
            self.restore(_estimate(self._due))
        return self._sigma

    def restore(self, sigma: float) -> None:
        """Continue with an earlier estimate `sigma` of the scatter, a standard deviation of natural logarithms."""
        self._sigma, self._due = max(LEAST_SIGMA, sigma), None

    def begin(self, windows: Windows, points: Points) -> None:
        """Estimate the scatter of the latency from the first steady 30 s.

        `windows` has the median latencies of this time, and `points` its individual latencies.
        """
        self.levels = windows["level"]
        if len(windows) < ENOUGH:
            self.restore(EARLY_MARGIN * OF_FIVE * _scatter(points["level"]))
        else:
            self.restore(max(EARLY_MARGIN * _scatter(self.levels), _estimate(self.levels)))

    def drop(self, count: int) -> None:
        """Forget the last `count` latencies, which turned out to belong to a slowdown."""
        self.levels = self.levels[: max(len(self.levels) - count, 0)]

    def rise_ratio(self, before: Ints, rise: Ints) -> float:
        """Return how surely the latency rose: the log-likelihood ratio of a step against correlated noise.

        `rise` has the latencies after the step. `before` has the latencies just before the step that `add` has not been
        given yet. Each is the natural logarithm of a latency, times a million.
        """
        calm = np.concatenate([self.levels, before])[-CALM:]
        return min(_rise_ratio(calm, rise, size) for size in SIZES)

    @property
    def wanted(self) -> int:
        """Return how many more latencies must be added until the scatter is estimated again."""
        return EVERY - self.since

    def add(self, levels: Ints) -> None:
        """Add latencies from a time without a slowdown. Each is a natural logarithm, times a million."""
        joined = np.concatenate([self.levels, levels])
        self.levels, since = joined[-MAX_LEVELS:], self.since + len(levels)
        self.since = since % EVERY
        if since >= EVERY:
            self._due = joined[: len(joined) - self.since][-MAX_LEVELS:]


def _rise_ratio(calm: Ints, rise: Ints, size: int) -> float:
    """Return a log-likelihood ratio: how much likelier a rise of latency from `calm` to `rise` is than no change.

    `calm` and `rise` have natural logarithms of latencies, times a million. They are averaged over blocks of `size`
    latencies, and the noise of the blocks is modelled as an autoregression of order one. The result is 0 if latency
    fell, and the constant SURE, which is the greatest, if there are too few latencies to compare.
    """
    calm, rise = calm[len(calm) % size :], rise[: len(rise) // size * size]
    if len(calm) < LEAST_BLOCKS * size or not len(rise):
        return SURE
    level = np.concatenate([_trimmed(calm), _trimmed(rise)]).reshape(-1, size).mean(axis=1) / NEPER
    step = np.arange(len(level)) >= len(calm) // size
    new, of_step = level[1:] - CORRELATIONS * level[:-1], step[1:] - CORRELATIONS * step[:-1]
    new, of_step = new - new.mean(axis=1, keepdims=True), of_step - of_step.mean(axis=1, keepdims=True)
    height = (new * of_step).sum(axis=1) / (of_step**2).sum(axis=1)
    least = len(level) * LEAST_SIGMA**2
    without = (new**2).sum(axis=1) + least
    having = ((new - height[:, None] * of_step) ** 2).sum(axis=1) + least
    best = int(np.argmin(having))
    ratio = len(level) / 2 * math.log(float(without.min() / having[best]))
    return min(ratio, SURE) if height[best] > 0 else 0.0


def _trimmed(levels: Ints) -> Floats:
    """Return `levels` with outliers moved nearer to the median."""
    middle = median(levels)
    reach = OUTLIER_SCATTERS * 1.4826 * median(np.abs(levels - middle)) + 1
    return np.asarray(np.clip(levels, middle - reach, middle + reach), np.float64)


def _scatter(levels: Ints | Floats) -> float:
    """Return the standard deviation of the natural logarithm of the latency.

    `levels` has these logarithms, times a million. The median of their successive differences is used, because slow
    drift has hardly any effect on this median.
    """
    return median(np.abs(np.diff(levels))) * _PER_MAD / NEPER if len(levels) > 1 else 0.0


def _estimate(levels: Ints) -> float:
    """Return the scatter of the natural logarithm of the latency, larger if successive latencies are correlated.

    `levels` has these logarithms, times a million. Medians over blocks of successive values scatter more if the values
    are correlated, and so show the correlation.
    """
    scatters = [_scatter(levels)]
    for size in BLOCKS:
        blocks = medians(levels[len(levels) % size :].reshape(-1, size))
        if len(blocks) >= ENOUGH_BLOCKS:
            scatters.append(_scatter(blocks) * math.sqrt(size) / OF_MEDIANS)
    return max(scatters)
