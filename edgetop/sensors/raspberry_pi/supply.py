"""What the power supply of a Pi 5 has agreed to deliver, as the bootloader negotiated it.

A property of the device tree, big-endian and in mA: 5000 is a USB-PD contract, 3000 the
default without one (raspberrypi/documentation, power supplies of the Pi 5).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edgetop.sensors.protocol import Found, Gap, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

PROPERTY = "proc/device-tree/chosen/power/max_current"
CADENCE_S = 60.0  # it is settled at boot
NOTE = "what the supply agreed to at boot: 5 A is a USB-PD contract, 3 A is none"


@dataclass(frozen=True, slots=True)
class SupplyContract:
    root: Root
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S
    name: str = "current/supply-limit"

    def read(self) -> Sequence[float | Gap]:
        cells = self.root.read_bytes(PROPERTY)
        if len(cells) != 4:
            raise ValueError(f"{len(cells)} bytes where a 32-bit number should be")
        return [int.from_bytes(cells, "big") / 1000]


def discover(root: Root) -> Found:
    if not root.exists(PROPERTY):
        return Found()
    info = sensor("current", "supply-limit", root.shown(PROPERTY), note=NOTE)
    return Found((SupplyContract(root, (info,)),))
