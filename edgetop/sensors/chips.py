"""Monitoring chips and board identity, by content: what several sources look for in the same way.

ABI: Documentation/ABI/testing/sysfs-class-hwmon. The numbers of `hwmonN` move from boot to
boot, so a chip is known by the `name` its driver gives.
"""

from edgetop.sensors.root import Root

CHIPS = "sys/class/hwmon"
COMPATIBLE = "proc/device-tree/compatible"


def chips_named(root: Root, name: str) -> list[str]:
    """The folders of the chips of that name."""
    folders = (f"{CHIPS}/{entry}" for entry in root.names(CHIPS))
    return [folder for folder in folders if root.line(f"{folder}/name") == name]


def is_compatible(root: Root, prefix: str) -> bool:
    """Whether one of the board's `compatible` strings begins so (`nvidia,tegra`, `raspberrypi,`)."""
    return any(entry.startswith(prefix) for entry in (root.line(COMPATIBLE) or "").split("\0"))
