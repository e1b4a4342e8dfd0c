"""Counters as rates. A counter is cumulative: what is told is its growth between two readings.

So the first reading only begins the interval, and one that went back (a reset, a device
that came anew) begins another.
"""

from collections.abc import Mapping

from edgetop.sensors.protocol import Gap

FIRST = Gap("a rate needs a second reading")
WENT_BACK = Gap("the counter went back")


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

    A device counts from its second reading on; one of which the counter went back makes a gap.
    """

    def __init__(self) -> None:
        self._before: tuple[Mapping[str, int], float] | None = None

    def per_second(self, amounts: Mapping[str, int], at_s: float) -> float | Gap:
        before, self._before = self._before, (dict(amounts), at_s)
        if before is None or at_s <= before[1]:
            return FIRST
        known = [name for name in amounts if name in before[0]]
        back = [name for name in known if amounts[name] < before[0][name]]
        if back:
            return Gap(f"the counter of {', '.join(back)} went back")
        if not known:
            return FIRST
        return sum(amounts[name] - before[0][name] for name in known) / (at_s - before[1])
