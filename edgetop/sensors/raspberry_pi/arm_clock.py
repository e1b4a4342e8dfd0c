"""The clock the ARM cores really run at, as the firmware measures it.

Linux does not know: a cap of the firmware is not in `scaling_cur_freq` nor in
`scaling_max_freq` (raspberrypi/documentation, frequency-management.adoc).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgetop.sensors.protocol import Found, Gap, sensor
from edgetop.sensors.raspberry_pi.firmware import CADENCE_S, COMMAND, ask, missing
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

QUESTION = ("measure_clock", "arm")
FASTEST = "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq"
NOTE = "measured by the firmware: its caps are not in freq/cpu0"

_ANSWER = re.compile(r"frequency\([0-9]{1,4}\)=([0-9]{1,12})")


def parse(answer: str) -> float:
    """MHz.

    >>> parse("frequency(48)=1800457088")
    1800.457088
    """
    match = _ANSWER.fullmatch(answer.strip())
    if not match or int(match[1]) == 0:  # 0: the firmware has no such clock
        raise ValueError(f"not a clock: {answer[:40]!r}")
    return int(match[1]) / 1e6


@dataclass(frozen=True, slots=True)
class ArmClock:
    root: Root
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S
    name: str = "freq/arm"

    def read(self) -> Sequence[float | Gap]:
        return [parse(ask(self.root, *QUESTION))]


def discover(root: Root) -> Found:
    try:
        parse(ask(root, *QUESTION))
    except (OSError, ValueError) as error:
        return Found(missing=(missing("freq/arm", error),))
    info = sensor("freq", "arm", " ".join((COMMAND, *QUESTION)), max=_fastest_mhz(root), note=NOTE)
    return Found((ArmClock(root, (info,)),))


def _fastest_mhz(root: Root) -> float | None:
    try:
        return root.read_int(FASTEST) / 1000
    except (OSError, ValueError):
        return None
