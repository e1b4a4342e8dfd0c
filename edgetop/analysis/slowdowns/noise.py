"""How much the medians of windows scatter while nothing happens, by which a change is told from chance."""

import math
from dataclasses import dataclass

import numpy as np

from edgetop.analysis.slowdowns.windows import ENOUGH, NEPER, Floats, Ints, Points, Windows, median, medians

KEPT = 320  # windows that the scatter is made of, the latest
EVERY = 32  # windows between two estimates
BLOCKS = (5, 12)  # windows: about as long as a change takes to be told
ENOUGH_BLOCKS = 10
CHANCE = 2.0  # standard deviations that a correlation may be higher than it was seen
ENOUGH_FOR_MEMORY = 20  # windows, by which a correlation is told
MOST_MEMORY = 0.95  # correlation from one window to the next: what keeps still longer is drift
LEAST = 0.003  # nepers: the latency of a table is good to a percent
_PER_MAD = 1 / (0.6745 * math.sqrt(2))  # of differences: Rousseeuw and Croux 1993, for the normal distribution
_OF_MEDIANS = 1.2533  # standard deviation of a median of many, in that of their mean
OF_FIVE = 0.536  # standard deviation of the median of five, in those of one


@dataclass(frozen=True, slots=True)
class Memory:
    """Noise that keeps a part of where it was, from one window to the next: an autoregression of order one."""

    spread: float = LEAST  # standard deviation of single windows, in nepers
    correlation: float = 0.0

    def of_means(self, count: Ints) -> Floats:
        """The standard deviation of the mean of so many successive windows."""
        kept = self.correlation
        share = ((1 + kept) / (1 - kept) - 2 * kept * (1 - kept**count) / (count * (1 - kept) ** 2)) / count
        return np.asarray(self.spread * np.sqrt(share), np.float64)


class Noise:
    """The standard deviation, in nepers, that independent windows would have to scatter as the mean of some does."""

    def __init__(self) -> None:
        self.levels: Ints = np.empty(0, np.int64)
        self.since = 0
        self._sigma, self._memory = LEAST, Memory()
        self._due: Ints | None = None  # what the next estimate is made of, once somebody asks

    def _estimate(self) -> None:
        """When it is asked for: few do, of a day."""
        if self._due is not None:
            levels, self._due = self._due, None
            self.restore(max(LEAST, _estimate(levels)), memory_of(levels))

    @property
    def sigma(self) -> float:
        self._estimate()
        return self._sigma

    @property
    def memory(self) -> Memory:
        self._estimate()
        return self._memory

    def restore(self, sigma: float, memory: Memory) -> None:
        """As it was estimated before."""
        self._sigma, self._memory, self._due = sigma, memory, None

    def of_means(self, count: Ints) -> Floats:
        """The standard deviation of the mean of so many successive windows, in nepers."""
        return np.maximum(self.sigma / np.sqrt(count), self.memory.of_means(count))

    def copy(self) -> "Noise":
        self._estimate()  # once, not again in every copy
        other = Noise()
        other.levels, other.since = self.levels, self.since
        other._sigma, other._memory = self._sigma, self._memory
        return other

    def begin(self, windows: Windows, points: Points) -> None:
        """From the baseline, of which there is little."""
        self.levels = windows["level"]
        if len(windows) < ENOUGH:
            sigma = max(LEAST, 1.2 * OF_FIVE * _scatter(points["level"]))
            self.restore(sigma, Memory(sigma))
        else:
            self.restore(max(LEAST, 1.2 * _scatter(self.levels), _estimate(self.levels)), memory_of(self.levels))

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


def memory_of(levels: Ints) -> Memory:
    """Of so few windows the correlation comes out too low (Marriott and Pope 1954, Biometrika 41), and by chance."""
    size, middle = len(levels), median(levels)
    if size < ENOUGH_FOR_MEMORY:  # of a slow model, too: its windows are seconds apart
        return Memory(max(LEAST, _scatter(levels)))
    reach = 3 * 1.4826 * median(np.abs(levels - middle)) + 1
    off = np.clip(levels - middle, -reach, reach)
    seen = float(np.dot(off[1:], off[:-1]) / max(float(np.dot(off, off)), 1.0))
    chance = CHANCE * math.sqrt(max(1 - seen**2, 0.0) / size)
    correlation = min(max(seen + (1 + 4 * seen) / size + chance, 0.0), MOST_MEMORY)
    # Of differences it is that of what is new in each window, nearly.
    return Memory(max(LEAST, _scatter(levels) / math.sqrt(1 - correlation)), correlation)
