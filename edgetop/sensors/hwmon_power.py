"""Power that a hwmon chip tells by itself: `power*_input`, or `power*_average` where there is no other.

ABI: Documentation/hwmon/sysfs-interface.rst, in µW. Jetson's INA3221 has no such file: its
rails are read elsewhere. Batteries come as hwmon devices too
(drivers/power/supply/power_supply_hwmon.c): these are read where their direction is known.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgetop.sensors.energy import plausible_w
from edgetop.sensors.protocol import Found, Gap, Source, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

CHIPS = "sys/class/hwmon"
CADENCE_S = 1.0
FASTEST_S = 0.1  # where the chip does not tell its update interval

_POWER = re.compile(r"power([0-9]+)_(input|average)")

# What the firmware of a chip says of the chip itself (drivers/gpu/drm/amd/pm, drivers/hwmon/fam15h_power.c).
_ESTIMATES = ("amdgpu", "fam15h_power", "scmi_sensors")
# Measured elsewhere by a module of its own.
_NOT_HERE = ("ina3221", "ina3221x")


@dataclass(frozen=True, slots=True)
class HwmonPower:
    root: Root
    path: str
    sensors: tuple[SensorInfo, ...]
    fastest_s: float
    cadence_s: float = CADENCE_S

    @property
    def name(self) -> str:
        return self.sensors[0].id

    def read(self) -> Sequence[float | Gap]:
        return [plausible_w(self.root.read_int(self.path) / 1e6)]


def discover(root: Root) -> Found:
    sources: list[Source] = []
    taken: set[str] = set()
    for chip in root.names(CHIPS):
        folder = f"{CHIPS}/{chip}"
        chip_name = root.line(f"{folder}/name") or chip
        if chip_name in _NOT_HERE or _is_power_supply(root, folder, chip_name):
            continue
        fastest_s = _update_interval_s(root, folder)
        for number, file in _power_files(root, folder):
            label = _label(root, folder, chip_name, number, taken)
            info = sensor(
                "power",
                label,
                root.shown(f"{folder}/{file}"),
                role="part",
                accuracy="firmware-estimate" if chip_name in _ESTIMATES else "on-board-monitor",
                note=f"{chip_name}, averaged by the chip" if file.endswith("_average") else chip_name,
            )
            cadence_s = max(CADENCE_S, fastest_s)
            sources.append(HwmonPower(root, f"{folder}/{file}", (info,), fastest_s, cadence_s))
    return Found(tuple(sources))


def _power_files(root: Root, folder: str) -> Iterator[tuple[str, str]]:
    """Number and file of each power that the chip tells, once."""
    matches = [match for name in root.names(folder) if (match := _POWER.fullmatch(name))]
    files = {match[1]: match[0] for match in matches}
    files |= {match[1]: match[0] for match in matches if match[2] == "input"}
    yield from files.items()


def _label(root: Root, folder: str, chip_name: str, number: str, taken: set[str]) -> str:
    """What the board calls it, else the chip's name; told apart by a number where that is taken."""
    named = root.line(f"{folder}/power{number}_label") or root.line(f"{folder}/label") or chip_name
    plain = named.replace("/", "-")
    candidates = itertools.chain([plain], (f"{plain}-{i}" for i in itertools.count(2)))
    label = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(label)
    return label


def _is_power_supply(root: Root, folder: str, chip_name: str) -> bool:
    if "/power_supply/" in f"/{root.resolve(f'{folder}/device') or ''}":
        return True
    return chip_name in {name.replace("-", "_") for name in root.names("sys/class/power_supply")}


def _update_interval_s(root: Root, folder: str) -> float:
    try:
        milliseconds = root.read_int(f"{folder}/update_interval")
    except (OSError, ValueError):
        return FASTEST_S
    return milliseconds / 1000 if 0 < milliseconds < 60_000 else FASTEST_S
