"""The scatter of windows' medians while nothing happens, which separates a change from chance."""

import math
from dataclasses import dataclass, field

import numpy as np

from edgetop.analysis.slowdowns.windows import ENOUGH, NEPER, Floats, Ints, Points, Windows, median, medians

MAX_LEVELS = 320  # windows that the scatter is estimated from, the latest
EVERY = 32  # windows between two estimates
BLOCKS = (5, 12)  # windows: about as long as the detection of a change takes
ENOUGH_BLOCKS = 10
CORRELATIONS = np.linspace(0, 0.97, 30)[:, None]  # of successive windows: the candidates
CALM = 160  # windows that a rise is compared with
SIZES = (1, 2)  # windows in a block; in larger ones noise without correlation averages out
LEAST_BLOCKS = 3  # before a rise
SURE = 1_000.0  # the greatest log-likelihood ratio
LEAST = 0.003  # nepers: the latency of a table is good to a percent
_PER_MAD = 1 / (0.6745 * math.sqrt(2))  # of differences: Rousseeuw and Croux 1993, for the normal distribution
_OF_MEDIANS = 1.2533  # standard deviation of a median of many, in that of their mean
OF_FIVE = 0.536  # standard deviation of the median of five, in those of one


@dataclass(slots=True)
class Noise:
    """The noise of windows, as the standard deviation, in nepers, of independent windows with the same effect."""

    levels: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    since: int = 0  # windows since the last estimate
    _sigma: float = LEAST
    _due: Ints | None = None  # levels of the next estimate, which is made on demand: in a day few are needed

    @property
    def sigma(self) -> float:
        if self._due is not None:
            self.restore(_estimate(self._due))
        return self._sigma

    def restore(self, sigma: float) -> None:
        """Continue from an earlier estimate."""
        self._sigma, self._due = max(LEAST, sigma), None

    def begin(self, windows: Windows, points: Points) -> None:
        """Estimate the noise from the few windows of the baseline."""
        self.levels = windows["level"]
        if len(windows) < ENOUGH:
            self.restore(1.2 * OF_FIVE * _scatter(points["level"]))
        else:
            self.restore(max(1.2 * _scatter(self.levels), _estimate(self.levels)))

    def drop(self, count: int) -> None:
        """Forget the last windows: they turned out to belong to a slowdown."""
        self.levels = self.levels[: max(len(self.levels) - count, 0)]

    def rise_ratio(self, before: Ints, rise: Ints) -> float:
        """Return the log-likelihood ratio of a step to the levels of `rise` over correlated noise that continues.

        `before`: levels between the calm ones and the rise.
        """
        calm = np.concatenate([self.levels, before])[-CALM:]
        return min(_rise_ratio(calm, rise, size) for size in SIZES)

    @property
    def wanted(self) -> int:
        """Return how many windows are missing until the next estimate."""
        return EVERY - self.since

    def add(self, levels: Ints) -> None:
        """Add the levels of windows in which nothing happened."""
        joined = np.concatenate([self.levels, levels])
        self.levels, since = joined[-MAX_LEVELS:], self.since + len(levels)
        self.since = since % EVERY
        if since >= EVERY:
            self._due = joined[: len(joined) - self.since][-MAX_LEVELS:]


def _rise_ratio(calm: Ints, rise: Ints, size: int) -> float:
    """Return the log-likelihood ratio of a step from `calm` to `rise`, over blocks of `size` windows.

    The noise is an autoregression of order one. SURE if there are too few blocks.
    """
    calm, rise = calm[len(calm) % size :], rise[: len(rise) // size * size]
    if len(calm) < LEAST_BLOCKS * size or not len(rise):
        return SURE
    level = np.concatenate([_trimmed(calm), _trimmed(rise)]).reshape(-1, size).mean(axis=1) / NEPER
    step = np.arange(len(level)) >= len(calm) // size
    new, of_step = level[1:] - CORRELATIONS * level[:-1], step[1:] - CORRELATIONS * step[:-1]
    new, of_step = new - new.mean(axis=1, keepdims=True), of_step - of_step.mean(axis=1, keepdims=True)
    height = (new * of_step).sum(axis=1) / (of_step**2).sum(axis=1)
    least = len(level) * LEAST**2
    without = (new**2).sum(axis=1) + least
    having = ((new - height[:, None] * of_step) ** 2).sum(axis=1) + least
    best = int(np.argmin(having))
    ratio = len(level) / 2 * math.log(float(without.min() / having[best]))
    return min(ratio, SURE) if height[best] > 0 else 0.0


def _trimmed(levels: Ints) -> Floats:
    """Limit single outliers."""
    middle = median(levels)
    reach = 3 * 1.4826 * median(np.abs(levels - middle)) + 1
    return np.asarray(np.clip(levels, middle - reach, middle + reach), np.float64)


def _scatter(levels: Ints | Floats) -> float:
    """Return the scatter of successive levels from the median of their differences, which drift hardly affects."""
    return median(np.abs(np.diff(levels))) * _PER_MAD / NEPER if len(levels) > 1 else 0.0


def _estimate(levels: Ints) -> float:
    """Return the scatter of windows or, if it is larger, of medians over blocks of them, for correlated noise."""
    scatters = [_scatter(levels)]
    for size in BLOCKS:
        blocks = medians(levels[len(levels) % size :].reshape(-1, size))
        if len(blocks) >= ENOUGH_BLOCKS:
            scatters.append(_scatter(blocks) * math.sqrt(size) / _OF_MEDIANS)
    return max(scatters)
