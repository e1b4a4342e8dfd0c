"""Which of this board's devices the user may not open, and the group that would change it."""

import glob
import grp
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edgetop.doctor.check import Check, ok, warning
from edgetop.doctor.facts import Facts
from edgetop.formatting import clean

NAME = "permissions"

# Device, what it is for, the group that owns it where the distribution follows its vendor.
DEVICES = (
    ("/dev/i2c-*", "power monitors on I2C", "i2c"),
    ("/dev/vcio", "throttle flags and power of a Raspberry Pi (vcgencmd)", "video"),
    ("/run/jtop.sock", "jetson-stats", "jtop"),
    ("/dev/apex_*", "the Edge TPU", "apex"),
    ("/dev/dri/renderD*", "the GPU", "render"),
    ("/dev/nvhost-gpu", "the Jetson's GPU", "video"),
)
_ASKS_FOR_RIGHTS = re.compile(r"\b(chmod|usermod)\b")


@dataclass(frozen=True, slots=True)
class Closed:
    """Something that is there and may not be opened."""

    path: str  # or the name of a sensor
    purpose: str  # or why it cannot be read
    fix: str


def check(facts: Facts) -> list[Check]:
    """Devices, and sensors that discovery found closed: RAPL, the rails of older Jetsons."""
    sensors = [Closed(m.what, m.why, m.fix) for m in facts.missing if m.fix and _ASKS_FOR_RIGHTS.search(m.fix)]
    return judge([*find_closed(), *sensors])


def judge(closed: Sequence[Closed]) -> list[Check]:
    """One check for all: a warning, since a measurement is possible without them."""
    if not closed:
        return [ok(NAME, "every device found here can be opened")]
    told = "; ".join(f"{clean(device.path)} ({device.purpose})" for device in closed)
    fixes = "; ".join(dict.fromkeys(device.fix for device in closed))
    advice = "sensors are missing without them; a new group counts after the next login"
    return [warning(NAME, f"may not be opened: {told}", advice, fixes)]


def find_closed(
    devices: Sequence[tuple[str, str, str]] = DEVICES, may: Callable[[str, int], bool] = os.access
) -> Iterator[Closed]:
    """`may`: access(2). Nothing is opened: some devices wake up what they stand for."""
    for pattern, purpose, usual in devices:
        closed = [path for path in sorted(glob.glob(pattern)) if not may(path, os.R_OK | os.W_OK)]  # noqa: PTH207
        if closed:
            group = _group_of(closed[0]) or usual
            yield Closed(", ".join(closed[:3]), purpose, f"sudo usermod -aG {group} $USER")


def _group_of(path: str) -> str | None:
    """The group whose members may open it; None where only root may."""
    try:
        status = os.stat(path)  # noqa: PTH116
        name = grp.getgrgid(status.st_gid).gr_name
    except (OSError, KeyError):
        return None
    return name if status.st_mode & 0o060 == 0o060 and name != "root" else None
