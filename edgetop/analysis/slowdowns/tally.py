"""The figures of one signal before and during a slowdown, from which evidence is made."""

from dataclasses import dataclass

NEVER = -1  # a time that has not come


@dataclass(slots=True)
class Tally:
    """The figures of one channel (signal) before and during one slowdown."""

    median: float  # before; NaN: not known
    threshold: float  # beyond it the signal counts; NaN: there is none
    was_beyond: bool  # before the slowdown already
    last_read_s: int  # the last second in which it was read
    before_s: int = NEVER  # when it was last read before `first_s`
    first_s: int = NEVER  # since when it was beyond
    beyond: int = 0  # slow seconds in which it was beyond
    known: int = 0  # slow seconds in which its value was known
    sum_milli: int = 0  # of the values over those, in whole thousandths: the same in any order
    most: float = float("nan")  # the farthest value in the direction that counts

    @property
    def mean(self) -> float:
        """Return the mean over the slow seconds. Raises ZeroDivisionError if it was never read in them."""
        return self.sum_milli / self.known / 1000

    @property
    def mean_above_median(self) -> bool:
        """Whether the mean over the slow seconds is higher than the usual value. False if one of the two is unknown."""
        return bool(self.known) and self.mean > self.median
