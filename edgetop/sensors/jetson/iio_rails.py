"""INA3221 rails by iio: JetPack 4.

`/sys/bus/i2c/drivers/ina3221x/BUS-ADDRESS/iio:deviceN/` holds `rail_name_N`,
`in_voltageN_input` (mV), `in_currentN_input` (mA) and `in_powerN_input` (mW), N from 0
(L4T 32, drivers/iio/adc/ina3221.c). Where a file names its unit (`32760 ma`), it is taken at
its word. Many boards let only root read them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from edgetop.sensors.jetson.chip import Chip
from edgetop.sensors.numbers import parse_int
from edgetop.sensors.protocol import Missing
from edgetop.sensors.root import Root

DRIVER = "sys/bus/i2c/drivers/ina3221x"
CHANNELS = (0, 1, 2)
NOT_CONNECTED = "NC"
WINDOW_S = 0.0  # the driver does not tell it

_VALUE = re.compile(r"([+-]?[0-9]+)(?:\s*m[vaw])?", re.IGNORECASE)
_UNITS = {"power": "mw", "voltage": "mv", "current": "ma"}


def parse_milli(text: str, quantity: str) -> float:
    """A number of thousandths as its unit. Raises ValueError where the file names another unit.

    >>> parse_milli("2104", "power"), parse_milli("436 ma", "current")
    (2.104, 0.436)
    """
    match = _VALUE.fullmatch(text.strip())
    if not match:
        raise ValueError(f"not a number: {text[:40]!r}")
    unit = text.strip()[match.end(1) :].strip().lower()
    if unit not in ("", _UNITS[quantity]):
        raise ValueError(f"not a {quantity}: {text[:40]!r}")
    return parse_int(match[1]) / 1000


@dataclass(frozen=True, slots=True)
class IioRail:
    root: Root
    folder: str
    channel: int
    label: str

    @property
    def source(self) -> str:
        return self.root.shown(self.path("power"))

    def path(self, quantity: str) -> str:
        return f"{self.folder}/in_{quantity}{self.channel}_input"

    def read(self) -> tuple[float, float, float]:
        watts, volts, amperes = (parse_milli(self.root.read_text(self.path(q)), q) for q in _UNITS)
        return watts, volts, amperes


def find(root: Root) -> tuple[list[Chip], list[Missing]]:
    """The chips, and what is missing where only root may read one."""
    chips, missing = [], []
    for folder in _folders(root):
        rails = _permitted(root, folder)
        if rails is None:
            why = f"only root may read the rails in {root.shown(folder)}"
            fix = f"sudo chmod a+r {root.shown(folder)}/rail_name_* {root.shown(folder)}/in_*"
            missing.append(Missing("power", why, fix))
        else:
            chips.append(Chip(rails, WINDOW_S))
    return chips, missing


def _permitted(root: Root, folder: str) -> tuple[IioRail, ...] | None:
    """The rails of a chip; None where they are root's alone."""
    try:
        rails = tuple(IioRail(root, folder, channel, label) for channel, label in _names(root, folder))
    except PermissionError:
        return None
    files = [rail.path(quantity) for rail in rails for quantity in _UNITS]
    return None if any(map(root.is_denied, files)) else rails


def _folders(root: Root) -> Iterator[str]:
    """One a chip: `iio:deviceN`, or `iio_device` on some kernels, which may be the same by another name."""
    for chip in root.names(DRIVER):
        entries = [name for name in root.names(f"{DRIVER}/{chip}") if name.startswith("iio")]
        named = [name for name in entries if root.exists(f"{DRIVER}/{chip}/{name}/rail_name_0")]
        yield from (f"{DRIVER}/{chip}/{name}" for name in named[:1])


def _names(root: Root, folder: str) -> Iterator[tuple[int, str]]:
    for channel in CHANNELS:
        try:
            label = root.read_text(f"{folder}/rail_name_{channel}").split("\n", 1)[0].strip()
        except PermissionError:
            raise
        except OSError:
            continue
        if label and label != NOT_CONNECTED:
            yield channel, label
