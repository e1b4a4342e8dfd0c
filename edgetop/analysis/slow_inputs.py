"""Finds input arrays with which inferences take longer, from the reports of slow inferences.

A session may use several input arrays in turn. The engine reports the slowest inference of each tenth of a second, with
the number of its input array. If slowness does not depend on the input, each array is reported as often as any other.
An array that is reported far more often takes longer itself: its values decide how much work there is, or they are
denormal numbers, with which some CPUs are slow.
"""

import math
from dataclasses import dataclass, field

from edgetop.session.engine_events import SlowInference

# Number of reports of an array from which it may be a cause. Choice: fewer may be chance. Larger: an array is named
# late; smaller: a disturbed inference names one.
LEAST_REPORTS = 5
# Least ratio of an array's share of the reports to its share of the inferences. Choice. Larger: several slow arrays
# hide each other; smaller: an array is named for a trifle.
MORE_OFTEN = 2.0
# Probability below which it is no chance. Choice: one of a thousand sessions, as a disturbance may come in step with
# the arrays. Larger: arrays are named by chance; smaller: they are named after many more inferences.
CHANCE = 0.001
MOST_INPUTS = 4096  # arrays that are told apart


@dataclass(slots=True)
class SlowInputs:
    """Counts the reports of slow inferences by the number of their input array."""

    _counts: dict[int, int] = field(default_factory=dict)
    _reports: int = 0
    _inputs: int = 0  # number of arrays

    def add(self, slow: SlowInference) -> None:
        number, inputs = slow.input, slow.inputs
        if number is None or inputs is None or not 0 <= number < inputs <= MOST_INPUTS:
            return
        self._inputs = max(self._inputs, inputs)
        self._reports += 1
        self._counts[number] = self._counts.get(number, 0) + 1

    def is_slow(self, number: int) -> bool:
        """Whether slow inferences with input array `number`, from 0, are reported more often than chance explains.

        The probability is bounded by Chernoff (1952, A measure of asymptotic efficiency for tests of a hypothesis based
        on the sum of observations, Annals of Mathematical Statistics 23), and multiplied by the number of arrays.
        """
        count = self._counts.get(number, 0)
        if count < LEAST_REPORTS or self._inputs < 2:
            return False
        often, usual = count / self._reports, 1 / self._inputs
        if often < min(MORE_OFTEN * usual, 1.0):
            return False
        entropy = often * math.log(often / usual)
        entropy += (1 - often) * math.log((1 - often) / (1 - usual)) if often < 1 else 0.0
        return self._inputs * math.exp(-self._reports * entropy) < CHANCE
