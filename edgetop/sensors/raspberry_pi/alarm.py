"""The kernel's under-voltage alarm, debounced.

`in0_lcrit_alarm` of the chip `rpi_volt` says whether the input was too low at any time since
the driver's last poll, 2 s ago (drivers/hwmon/raspberrypi-hwmon.c). It is seen to flicker
on supplies whose voltage is steady, so only three polls in a row count.
"""

from collections import deque
from collections.abc import Sequence

from edgetop.sensors.chips import chips_named
from edgetop.sensors.protocol import Found, Gap, sensor
from edgetop.sensors.root import Root

CHIP = "rpi_volt"
CADENCE_S = 2.0  # the driver's own
IN_A_ROW = 3


class UnderVoltageAlarm:
    """1 where the alarm was up in each of the last three reads."""

    cadence_s = CADENCE_S

    def __init__(self, root: Root, path: str, label: str) -> None:
        self._root, self._path = root, path
        self._last: deque[bool] = deque(maxlen=IN_A_ROW)
        note = f"the input was too low in each of the last {IN_A_ROW} polls, {CADENCE_S:g} s apart"
        self.sensors = (sensor("throttle", label, root.shown(path), note=note),)
        self.name = self.sensors[0].id

    def read(self) -> Sequence[float | Gap]:
        try:
            self._last.append(self._is_up())
        except (OSError, ValueError):
            self._last.clear()  # what is not known is no part of a row
            raise
        return [float(len(self._last) == IN_A_ROW and all(self._last))]

    def _is_up(self) -> bool:
        alarm = self._root.read_int(self._path)
        if alarm not in (0, 1):
            raise ValueError(f"{alarm} is neither 0 nor 1")
        return alarm == 1


def discover(root: Root, *, has_flags: bool) -> Found:
    """`has_flags`: the throttle word tells `throttle/under-voltage` better, and the alarm stands beside it."""
    label = "under-voltage-alarm" if has_flags else "under-voltage"
    paths = [f"{folder}/in0_lcrit_alarm" for folder in chips_named(root, CHIP)]
    return Found(tuple(UnderVoltageAlarm(root, path, label) for path in paths[:1] if root.exists(path)))
