"""Turn readings of a counter into its growth per second. The first reading gives no value, since a rate needs two.

A reading also gives no value if the counter went back (a reset, a new device), or if it leapt: it grew faster than is
possible (`plausible.py`), as the steal counter of some guests does.
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
    """Return the growth per second of a counter, or a gap if the counter leapt: it grew faster than is possible.

    `grown` is the counter's growth in `passed_s` seconds. `most` is the highest possible growth per second; the result
    is never higher. `late_s` is the longest delay of an update of the counter, in seconds. `name` is the counter's name
    for the gap's text.

    >>> bounded(5.0, 10.0, most=1.0)
    0.5
    """
    if grown > MARGIN * most * (passed_s + late_s):
        of = f" of {name}" if name else ""
        return Gap(f"the counter{of} leapt by {grown:g} in {passed_s:.3g} s; at most {most:g} a second is possible")
    return min(grown / passed_s, float(most))


class Rate:
    """Computes the growth of one counter per second."""

    def __init__(self, late_s: float = LATE_S) -> None:
        """Begin without a reading. `late_s` is the longest delay of an update of the counter, in seconds."""
        self._before: tuple[float, float] | None = None
        self._late_s = late_s

    def per_second(self, amount: float, at_s: float, most: float) -> float | Gap:
        """Return the growth per second since the last call, or a gap if it is unknown, as in the first call.

        `amount` is the counter's value now, `at_s` is the present time in seconds, and `most` is the highest possible
        growth per second.
        """
        before, self._before = self._before, (amount, at_s)
        if before is None or at_s <= before[1]:
            return FIRST
        if amount < before[0]:
            return WENT_BACK
        return bounded(amount - before[0], at_s - before[1], most, self._late_s)

    def percent(self, seconds: float, at_s: float, cpus: int) -> float | Gap:
        """Return the growth of a counter of seconds, such as CPU time, as a percentage of the time since the last call.

        Returns a gap if the percentage is unknown. `seconds` is the counter's value now, and `at_s` the present time in
        seconds. `cpus` is the number of CPUs that can count at once. The result is at most 100 * `cpus`.
        """
        value = self.per_second(seconds, at_s, cpus)
        return value if isinstance(value, Gap) else 100 * value


class SumRate:
    """Computes the growth per second of several counters together, one for each device. Devices may come and go.

    A device counts from its second reading on. If a counter went back or leapt, the result is a gap.
    """

    def __init__(self, late_s: float = LATE_S) -> None:
        """Begin without readings. `late_s` is the longest delay of an update of a counter, in seconds."""
        self._before: tuple[Mapping[str, int], float] | None = None
        self._late_s = late_s

    def per_second(self, amounts: Mapping[str, int], at_s: float, most: Most) -> float | Gap:
        """Return the growth of all counters together per second since the last call, or a gap if it is unknown.

        `amounts` has each counter's value now, by device, and `at_s` is the present time in seconds. `most` takes a
        device and its growth per second, and returns the highest growth per second that is possible.
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
    """Computes the mean power from a counter of joules, which may begin at 0 again at the end of its range."""

    def __init__(self, range_j: float | None = None) -> None:
        """Begin without a reading.

        `range_j` is the number of joules after which the counter begins at 0 again, or None if it never does.
        """
        self._range_j = range_j
        self._before: tuple[float, float] | None = None

    def watts(self, joules: float, at_s: float) -> float | Gap:
        """Return the mean power in W since the last call, or a gap if it is unknown, as in the first call.

        `joules` is the counter's value now, and `at_s` the present time in seconds.
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
