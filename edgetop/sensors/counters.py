"""Counters as their growth. The first reading only begins the interval.

A counter that went back (a reset, a new device) begins another interval.
"""

from collections.abc import Mapping

from edgetop.sensors.sensor_protocol import Gap

FIRST = Gap("a rate needs a second reading")
WENT_BACK = Gap("the counter went back")
FIRST_ENERGY = Gap("power needs a second reading of the energy counter")
MAX_BOARD_W = 10_000.0
MAX_COUNTED_W = 2000.0  # what no chip with a counter of energy draws: more is a counter that was set back


class Rate:
    """Growth per second of one counter."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None

    def per_second(self, amount: float, at_s: float) -> float | Gap:
        before, self._before = self._before, (amount, at_s)
        if before is None or at_s <= before[1]:
            return FIRST
        if amount < before[0]:
            return WENT_BACK
        return (amount - before[0]) / (at_s - before[1])

    def percent(self, seconds: float, at_s: float) -> float | Gap:
        """The share of the interval, where what is counted is seconds."""
        value = self.per_second(seconds, at_s)
        return value if isinstance(value, Gap) else 100 * value


class SumRate:
    """Growth per second of several counters together, of devices that may come and go.

    A device counts from its second reading on; a counter that went back makes a gap.
    """

    def __init__(self) -> None:
        self._before: tuple[Mapping[str, int], float] | None = None

    def per_second(self, amounts: Mapping[str, int], at_s: float) -> float | Gap:
        before, self._before = self._before, (dict(amounts), at_s)
        if before is None or at_s <= before[1]:
            return FIRST
        again = [name for name in amounts if name in before[0]]
        back = [name for name in again if amounts[name] < before[0][name]]
        if back:
            return Gap(f"the counter of {', '.join(back)} went back")
        if not again:
            return FIRST
        return sum(amounts[name] - before[0][name] for name in again) / (at_s - before[1])


class EnergyCounter:
    """Mean power, of a counter of joules that, where it has a range, begins anew."""

    def __init__(self, range_j: float | None = None) -> None:
        """`range_j`: after so many joules it begins at 0 again; None: it never does."""
        self._range_j = range_j
        self._before: tuple[float, float] | None = None

    def watts(self, joules: float, at_s: float) -> float | Gap:
        """Mean power since the last call, or why there is none."""
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


def plausible_w(watts: float) -> float | Gap:
    """The power, or a gap where no board can draw it."""
    return watts if abs(watts) <= MAX_BOARD_W else Gap(f"reads {watts:g} W, which no board draws")
