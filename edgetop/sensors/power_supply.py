"""What the battery gives, or the mains: the board's whole input power, where a gauge measures it.

ABI: Documentation/ABI/testing/sysfs-class-power (µW, µV, µA). The sign of the current is the
driver's own choice, so that `status` alone tells the direction. On mains the battery's gauge
tells of charging, not of the board. USB-C ports are also listed (`ucsi-source-psy-*`): what
they tell was negotiated, not measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edgetop.sensors.energy import plausible_w
from edgetop.sensors.protocol import Found, Gap, Missing, Source, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

SUPPLIES = "sys/class/power_supply"
CADENCE_S = 1.0

DISCHARGING = "Discharging"


@dataclass(frozen=True, slots=True)
class Batteries:
    """All of the board's batteries together: they feed it in turn or at once."""

    root: Root
    folders: tuple[str, ...]
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S
    name: str = "battery"

    def read(self) -> Sequence[float | Gap]:
        status = [self.root.read_text(f"{folder}/status") for folder in self.folders]
        feeding = [folder for folder, says in zip(self.folders, status, strict=True) if says == DISCHARGING]
        if "Charging" in status or not feeding:
            return [Gap(f"{', '.join(status)}: tells nothing of what the board draws")]
        watts = sum(supply_watts(self.root, folder) for folder in feeding)
        return [plausible_w(watts)] if watts > 0 else [Gap(f"reads {watts:g} W while discharging")]


@dataclass(frozen=True, slots=True)
class Mains:
    """What one supply that is not a battery puts into the board."""

    root: Root
    folder: str
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S

    @property
    def name(self) -> str:
        return self.sensors[0].id

    def read(self) -> Sequence[float | Gap]:
        if self.root.read_int(f"{self.folder}/online") == 0:
            return [Gap("unplugged")]
        return [plausible_w(supply_watts(self.root, self.folder))]


def supply_watts(root: Root, folder: str) -> float:
    """`power_now`, or voltage times current. Raises OSError or ValueError where it has neither."""
    if root.exists(f"{folder}/power_now"):
        return abs(root.read_int(f"{folder}/power_now")) / 1e6
    microvolts, microamperes = (root.read_int(f"{folder}/{name}") for name in ("voltage_now", "current_now"))
    return microvolts / 1e6 * abs(microamperes) / 1e6


def discover(root: Root) -> Found:
    """Nothing, and nothing missing, on a board that no gauge feeds."""
    measured = [(name, f"{SUPPLIES}/{name}") for name in root.names(SUPPLIES)]
    measured = [(name, folder) for name, folder in measured if _is_measured(root, folder)]
    kinds = [(name, folder, root.line(f"{folder}/type")) for name, folder in measured]
    batteries = [(name, folder) for name, folder, kind in kinds if kind == "Battery" and _is_the_boards(root, folder)]
    mains: list[Source] = [
        Mains(root, folder, (_sensor(name.replace("/", "-"), root.shown(folder), _MAINS_NOTE),))
        for name, folder, kind in kinds
        if kind == "Mains" and root.exists(f"{folder}/online")
    ]
    found = Found(tuple(mains))
    return _with_batteries(root, batteries, found) if batteries else found


def _with_batteries(root: Root, batteries: Sequence[tuple[str, str]], found: Found) -> Found:
    """A battery counts where it feeds the board as the run begins; on mains it is told as missing."""
    folders = tuple(folder for _, folder in batteries)
    status = [root.line(f"{folder}/status") or "?" for folder in folders]
    if DISCHARGING not in status or "Charging" in status:
        says = ", ".join(f"{name} {text}" for (name, _), text in zip(batteries, status, strict=True))
        why = f"{says}: on mains its gauge tells nothing of what the board draws"
        return Found(found.sources, (Missing("battery power", why, "unplug the mains before the run"),))
    where = ", ".join(root.shown(folder) for folder in folders)
    return Found((Batteries(root, folders, (_sensor("battery", where, _BATTERY_NOTE),)), *found.sources))


_BATTERY_NOTE = "all that the battery feeds, the screen included; gauges renew it every second to half a minute"
_MAINS_NOTE = "what goes into the board and into its battery"


def _sensor(label: str, source: str, note: str) -> SensorInfo:
    return sensor("power", label, source, role="total", accuracy="on-board-monitor", note=note)


def _is_measured(root: Root, folder: str) -> bool:
    files = ({"power_now"}, {"voltage_now", "current_now"})
    have = set(root.names(folder))
    return any(names <= have for names in files)


def _is_the_boards(root: Root, folder: str) -> bool:
    """Not that of a mouse (`scope`: drivers/power/supply/power_supply_sysfs.c)."""
    return root.line(f"{folder}/scope") != "Device"
