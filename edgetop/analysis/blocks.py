"""Sums over a limited number of time blocks, and the precision of a mean computed from these sums.

A session may last a week, but the memory of an analysis is fixed. So a block is one second long at first; when there
are too many blocks, neighbours are joined in pairs. The sums are whole numbers, so the result does not depend on how
the session was cut into batches.
"""

import math

import numpy as np
import numpy.typing as npt

from edgetop.frozen import frozen

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

MOST_BLOCKS = 128

# Upper limit of batches in a run: more than thirty say little more about its variance, and are more correlated
# (Schmeiser 1982, Batch size effects in the analysis of simulation output, Operations Research 30(3)).
MOST_BATCHES = 30
LEAST_BATCHES = 5

# Student's t, 97.5 %, for 2 to 19 degrees of freedom. Successive differences of n batches have two degrees of freedom
# for each three batches.
T_975 = (
    4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110,
    2.101, 2.093,
)  # fmt: skip
LEAST_FREEDOM = 2


class Blocks:
    """Sums of several columns of whole numbers in successive blocks of time. All blocks have the same length."""

    def __init__(self, columns: int) -> None:
        self._sums: Ints = np.zeros((MOST_BLOCKS, columns), np.int64)
        self._first = 0  # Number of the first block; meaningless while there are no blocks.
        self._used = 0
        self._doublings = 0

    @property
    def width_s(self) -> int:
        """Return the length of a block in seconds."""
        return 1 << self._doublings

    @property
    def first_s(self) -> int:
        """Return the session second in which the first block begins."""
        return self._first << self._doublings

    def add(self, second: Ints, values: Ints) -> None:
        """Add each row of `values` to the sums of the time block that contains its session second, given in `second`.

        Rows from before the first time block are dropped.
        """
        if not self._used and len(second):
            self._first = int(second.min())
        recent = second >= self.first_s
        if not recent.all():
            second, values = second[recent], values[recent]
        if not len(second):
            return
        while (int(second.max()) >> self._doublings) - self._first >= MOST_BLOCKS:
            self._join()
        place = (second >> self._doublings) - self._first
        if len(place) == 1:  # as in most refreshes of a screen
            self._sums[place[0]] += values[0]
            self._used = max(self._used, int(place[0]) + 1)
            return
        # numpy takes three times as long to add all columns at once.
        for column, added in zip(self._sums.T, values.T, strict=True):
            np.add.at(column, place, added)
        self._used = max(self._used, int(place.max()) + 1)

    def _join(self) -> None:
        """Make all blocks twice as long: add up blocks 2n and 2n + 1 to the new block n."""
        first, self._first, self._doublings = self._first, self._first >> 1, self._doublings + 1
        number = (first + np.arange(MOST_BLOCKS) >> 1) - self._first
        joined = np.zeros_like(self._sums)
        np.add.at(joined, number, self._sums)
        self._sums = joined
        self._used = int(number[self._used - 1]) + 1 if self._used else 0

    def sums(self) -> Ints:
        """Return the sums as an array with one row for each time block, in order of time.

        Blocks without values have a row, too. The array shares its memory with this object, so do not store it.
        """
        return self._sums[: self._used]

    def copy(self) -> "Blocks":
        twin = Blocks(self._sums.shape[1])
        twin._sums, twin._first = self._sums.copy(), self._first
        twin._used, twin._doublings = self._used, self._doublings
        return twin


@frozen
class Mean:
    """A mean over time, with half the width of its 95 % confidence interval."""

    value: float
    half_width: float
    batches: int


def batch_mean(
    amount: Ints, weight: Ints, least_weight: float, lacking: float = 0.0, at_ends: float | None = None
) -> Mean | None:
    """Return the sum of `amount` divided by the sum of `weight`, with its 95 % interval, or None without enough blocks.

    `amount` and `weight` have one entry for each time block, in order of time: for a mean power, the energy and the
    duration. Neighbouring blocks are joined to batches with about equal sums of `weight`, at least `least_weight`.
    `lacking`: the weight of the time in which nothing was read. It widens the interval, because the mean in this time
    is unknown. `at_ends`: None if each reading is a sample at a point in time. If each reading is the mean since the
    previous reading, `at_ends` is the uncertainty of the amount at the beginning and the end of the measured time. The
    interval then follows only from `at_ends` and `lacking`.

    For samples, the interval follows from the differences between successive batches. The scatter of all batches would
    also contain slow changes, which the readings show and which are no error (von Neumann 1941, Distribution of the
    ratio of the mean square successive difference, Annals of Mathematical Statistics 12(4); for samples in systematic
    order Wolter 2007, Introduction to Variance Estimation, 8.2). Readings may be correlated, because batches are long
    compared with the correlation.
    """
    whole = float(weight.sum())
    count = min(MOST_BATCHES, len(weight), int(whole / least_weight)) if least_weight > 0 else 0
    if count < LEAST_BATCHES:
        return None
    middle = np.cumsum(weight) - weight / 2
    batch = np.minimum((middle * count / whole).astype(np.int64), count - 1)
    amounts, weights = (np.bincount(batch, column, count) for column in (amount, weight))
    amounts, weights = amounts[weights > 0], weights[weights > 0]
    count = len(weights)
    if count < LEAST_BATCHES:
        return None
    value, means = float(amounts.sum() / whole), amounts / weights
    variance = 0.0
    if at_ends is None:
        noise = (means[1:] - means[:-1]) ** 2 * count / (whole * (1 / weights[1:] + 1 / weights[:-1]))
        variance = float(noise.mean()) / count
    if lacking:
        variance += (lacking / (whole + lacking)) ** 2 * float(means.var(ddof=1))
    sampled = T_975[(2 * count - 2) // 3 - LEAST_FREEDOM] * math.sqrt(variance)
    return Mean(value, math.hypot(sampled, (at_ends or 0.0) / whole), count)
