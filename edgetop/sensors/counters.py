"""Turn counters into rates. The first reading only begins an interval.

A counter that went back (a reset, a new device) begins another interval, and so does one that leapt: it grew faster
than is possible (`plausible.py`), as the steal counter of some guests does.
"""

from collections.abc import Callable, Mapping

from edgetop.sensors.sensor_protocol import Gap

FIRST = Gap("a rate needs a second reading")
WENT_BACK = Gap("the counter went back")
FIRST_ENERGY = Gap("power needs a second reading of the energy counter")
MAX_COUNTED_W = 2000.0  # no chip with an energy counter draws more; a higher value means that the counter was reset

LATE_S = 0.1  # a counter may be renewed this long after the time that it counts, since ticks are counted at their end
MARGIN = 1.1  # two clocks measure the interval

# Takes the name of a counter and its rate, and returns the highest rate per second that is possible.
Most = Callable[[str, float], float]


def bounded(grown: float, passed_s: float, most: float, late_s: float = LATE_S, name: str = "") -> float | Gap:
    """Return the growth per second of a counter that grew by `grown` in `passed_s` seconds, or a gap if it leapt.

    `most` is the highest possible growth per second, and the highest result. The counter has leapt if it grew by more
    than its lateness (`late_s`, in seconds) and the difference of two clocks explain. `name` is its name in the gap's
    text.
    """
    if grown > MARGIN * most * (passed_s + late_s):
        of = f" of {name}" if name else ""
        return Gap(f"the counter{of} leapt by {grown:g} in {passed_s:.3g} s; at most {most:g} a second is possible")
    return min(grown / passed_s, float(most))


class Rate:
    """The growth of a counter per second."""

    def __init__(self, late_s: float = LATE_S) -> None:
        """`late_s`: by how many seconds an update of the counter may come after the time that it counts."""
        self._before: tuple[float, float] | None = None
        self._late_s = late_s

    def per_second(self, amount: float, at_s: float, most: float) -> float | Gap:
        """Return the growth per second since the last call, or a gap.

        `amount` is the counter's value at the time `at_s`, in seconds, and `most` the highest possible growth per
        second.
        """
        before, self._before = self._before, (amount, at_s)
        if before is None or at_s <= before[1]:
            return FIRST
        if amount < before[0]:
            return WENT_BACK
        return bounded(amount - before[0], at_s - before[1], most, self._late_s)

    def percent(self, seconds: float, at_s: float, cpus: int) -> float | Gap:
        """Return the growth of a counter of seconds as a percentage of the time since the last call, or a gap.

        `seconds` is the value of the counter at the time `at_s`, in seconds. `cpus` is the number of CPUs that can
        count at the same time.
        """
        value = self.per_second(seconds, at_s, cpus)
        return value if isinstance(value, Gap) else 100 * value


class SumRate:
    """The growth per second of several counters together, whose devices may come and go.

    A device counts from its second reading on. If a counter went back or leapt, the result is a gap.
    """

    def __init__(self, late_s: float = LATE_S) -> None:
        """`late_s`: by how many seconds an update of a counter may come after the time that it counts."""
        self._before: tuple[Mapping[str, int], float] | None = None
        self._late_s = late_s

    def per_second(self, amounts: Mapping[str, int], at_s: float, most: Most) -> float | Gap:
        """Return the growth of all counters together per second since the last call, or a gap.

        `amounts` are the counters' values by device at the time `at_s`, in seconds. `most` returns the highest possible
        rate of a device.
        """
        before, self._before = self._before, (dict(amounts), at_s)
        if before is None or at_s <= before[1]:
            return FIRST
        again = [name for name in amounts if name in before[0]]
        back = [name for name in again if amounts[name] < before[0][name]]
        if back:
            return Gap(f"the counter of {', '.join(back)} went back")
        if not again:
            return FIRST
        passed_s, total = at_s - before[1], 0.0
        for name in again:
            grown = amounts[name] - before[0][name]
            rate = bounded(grown, passed_s, most(name, grown / passed_s), self._late_s, name)
            if isinstance(rate, Gap):
                return rate
            total += rate
        return total


class EnergyCounter:
    """Turns a counter of joules into the mean power. At the end of its range, the counter may begin at 0 again."""

    def __init__(self, range_j: float | None = None) -> None:
        """`range_j` is the number of joules after which the counter begins at 0 again; None if it never does."""
        self._range_j = range_j
        self._before: tuple[float, float] | None = None

    def watts(self, joules: float, at_s: float) -> float | Gap:
        """Return the mean power in W since the last call, or a gap.

        `joules` is the value of the counter at the time `at_s`, in seconds.
        """
        before, self._before = self._before, (joules, at_s)
        if before is None or at_s <= before[1]:
            return FIRST_ENERGY
        grown_j, passed_s = joules - before[0], at_s - before[1]
        if self._range_j is not None:
            if passed_s > self._range_j / MAX_COUNTED_W:
                why = f"not read for {passed_s:.0f} s, in which the energy counter may have wrapped more than once"
                return Gap(why)
            grown_j += self._range_j if grown_j < 0 else 0
        if grown_j < 0 or grown_j / passed_s > MAX_COUNTED_W:
            return Gap("the energy counter was set back")
        return grown_j / passed_s
