"""Watts: which of them a board can draw, and the mean of them between two reads of a counter of energy."""

from edgetop.sensors.protocol import Gap

FIRST = Gap("power needs a second reading of the energy counter")
MAX_BOARD_W = 10_000.0
MAX_W = 2000.0  # what no chip with such a counter draws: more is a counter that was set back


def plausible_w(watts: float) -> float | Gap:
    """The power, or a gap where no board can draw it."""
    return watts if abs(watts) <= MAX_BOARD_W else Gap(f"reads {watts:g} W, which no board draws")


class EnergyCounter:
    """Differences of a counter that grows and, where its range is known, wraps."""

    def __init__(self, range_j: float | None = None) -> None:
        """`range_j`: after so many joules it begins at 0 again; None: it never does."""
        self._range_j = range_j
        self._before: tuple[float, float] | None = None

    def watts(self, joules: float, at_s: float) -> float | Gap:
        """Mean power since the last call, or why it cannot be told."""
        before, self._before = self._before, (joules, at_s)
        if before is None or at_s <= before[1]:
            return FIRST
        grown_j, passed_s = joules - before[0], at_s - before[1]
        if self._range_j is not None:
            if passed_s > self._range_j / MAX_W:
                return Gap(
                    f"not read for {passed_s:.0f} s, in which the energy counter may have wrapped more than once"
                )
            grown_j += self._range_j if grown_j < 0 else 0
        if grown_j < 0 or grown_j / passed_s > MAX_W:
            return Gap("the energy counter was set back")
        return grown_j / passed_s
