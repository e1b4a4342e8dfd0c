"""How much the medians of windows scatter while nothing happens, by which a change is told from chance."""

import math

import numpy as np

from edgetop.analysis.slowdowns.windows import ENOUGH, NEPER, Floats, Ints, Points, Windows, median, medians

KEPT = 320  # windows that the scatter is made of, the latest
EVERY = 32  # windows between two estimates
BLOCKS = (5, 12)  # windows: about as long as a change takes to be told
ENOUGH_BLOCKS = 10
LEAST = 0.003  # nepers: the latency of a table is good to a percent
_PER_MAD = 1 / (0.6745 * math.sqrt(2))  # of differences: Rousseeuw and Croux 1993, for the normal distribution
_OF_MEDIANS = 1.2533  # standard deviation of a median of many, in that of their mean
_OF_FIVE = 0.536  # standard deviation of the median of five, in those of one


class Noise:
    """The standard deviation, in nepers, that independent windows would have to scatter as the mean of some does."""

    def __init__(self) -> None:
        self.levels: Ints = np.empty(0, np.int64)
        self.since = 0
        self._sigma = LEAST
        self._due: Ints | None = None  # what the next estimate is made of, once somebody asks

    @property
    def sigma(self) -> float:
        """Estimated when it is asked for: few do, of a day."""
        if self._due is not None:
            self._sigma, self._due = max(LEAST, _estimate(self._due)), None
        return self._sigma

    @sigma.setter
    def sigma(self, told: float) -> None:
        self._sigma, self._due = told, None

    def copy(self) -> "Noise":
        other = Noise()
        other.levels, other.since = self.levels, self.since
        other._sigma, other._due = self._sigma, self._due
        return other

    def begin(self, windows: Windows, points: Points) -> None:
        """From the baseline, of which there is little."""
        self.levels = windows["level"]
        self.sigma = max(LEAST, 1.2 * _scatter(windows["level"]), _estimate(self.levels))
        if len(windows) < ENOUGH:
            self.sigma = max(LEAST, 1.2 * _OF_FIVE * _scatter(points["level"]))

    @property
    def wanted(self) -> int:
        """How many windows until the next estimate."""
        return EVERY - self.since

    def add(self, levels: Ints) -> None:
        """Windows in which nothing happened."""
        joined = np.concatenate([self.levels, levels])
        self.levels, since = joined[-KEPT:], self.since + len(levels)
        self.since = since % EVERY
        if since >= EVERY:
            self._due = joined[: len(joined) - self.since][-KEPT:]


def _scatter(levels: Ints | Floats) -> float:
    """Of successive levels, by the median of their differences: slow drift and single outliers do not enter."""
    if len(levels) < 2:
        return 0.0
    return median(np.abs(np.diff(levels))) * _PER_MAD / NEPER


def _estimate(levels: Ints) -> float:
    """That of neighbouring windows, or that of medians over blocks of them where the noise has a memory."""
    scatters = [_scatter(levels)]
    for size in BLOCKS:
        blocks = medians(levels[len(levels) % size :].reshape(-1, size))
        if len(blocks) >= ENOUGH_BLOCKS:
            scatters.append(_scatter(blocks) * math.sqrt(size) / _OF_MEDIANS)
    return max(scatters)
