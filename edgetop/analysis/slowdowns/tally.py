"""The figures of one signal before and during a slowdown, from which the cause of the slowdown is found."""

from dataclasses import dataclass

NEVER = -1  # a time that has not come


@dataclass(slots=True)
class Tally:
    """The figures of one signal before and during one slowdown. Times are in seconds of the session."""

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
        """Return the mean value of the signal during the slowdown.

        Raises ZeroDivisionError if the value was never known.
        """
        return self.sum_milli / self.known / 1000

    @property
    def mean_above_median(self) -> bool:
        """Whether the signal's mean during the slowdown is above its median before it. False if either is unknown."""
        return bool(self.known) and self.mean > self.median
