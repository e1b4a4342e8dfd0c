"""The power from the battery or the mains: the board's whole input, if a gauge measures it.

ABI: Documentation/ABI/testing/sysfs-class-power (µW, µV, µA). Drivers differ in the sign of the current, so only
`status` gives the direction. On mains, the gauge of the battery measures charging, not the board. A battery can
discharge although a supply is plugged in, if the charger is too weak. The battery then gives only a part of what the
board draws. USB-C ports are also listed (`ucsi-source-psy-*`), but their values were negotiated, not measured.
"""

from collections.abc import Sequence
from functools import partial

from edgetop.sensors.plausible import power_w
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, attempt, sensor
from edgetop.session.manifest import SensorInfo

SUPPLIES = "sys/class/power_supply"
FILES = ("status", "online", "power_now", "voltage_now", "current_now")
DISCHARGING = "Discharging"
BATTERIES = ("Battery", "UPS")  # values of `type` whose supply is charged, and feeds the board when it discharges

_BATTERY_NOTE = "all that the battery feeds, the screen included; gauges renew it every second to half a minute"
_PART_NOTE = "what the battery adds to {}; gauges renew it every second to half a minute"
_MAINS_NOTE = "what goes into the board and into its battery"


class Supply:
    """One battery or other power supply, with the files that the kernel has for it."""

    def __init__(self, root: Root, name: str) -> None:
        self.name, self.folder = name, f"{SUPPLIES}/{name}"
        self.kind, self.has = root.line(f"{self.folder}/type"), set(root.names(self.folder))
        self.is_measured = "power_now" in self.has or {"voltage_now", "current_now"} <= self.has
        self.files = {file: root.file(f"{self.folder}/{file}") for file in FILES}
        # A mouse's battery does not feed the board (`scope`: drivers/power/supply/power_supply_sysfs.c), nor does an
        # empty bay (`present` is 0).
        is_there = root.number(f"{self.folder}/present") != 0
        self.is_the_boards = is_there and root.line(f"{self.folder}/scope") != "Device"

    def watts(self) -> float:
        """Return the present power in W: `power_now`, or else voltage times current.

        Raises OSError or ValueError if that fails.
        """
        if "power_now" in self.has:
            return abs(self.files["power_now"].read_int()) / 1e6
        microvolts, microamperes = (self.files[name].read_int() for name in ("voltage_now", "current_now"))
        return microvolts / 1e6 * abs(microamperes) / 1e6


def discover(root: Root) -> Found:
    """Return readers of the power from those batteries and mains that measure it. The result is empty if none does."""
    supplies = [Supply(root, name) for name in root.names(SUPPLIES)]
    measured = [supply for supply in supplies if supply.is_measured]
    batteries = [supply for supply in measured if supply.kind in BATTERIES and supply.is_the_boards]
    others = [supply for supply in supplies if supply.kind not in BATTERIES and supply.is_the_boards]
    mains = tuple(
        _mains(root, supply, batteries) for supply in measured if supply.kind == "Mains" and "online" in supply.has
    )
    if not batteries:
        return Found(mains)
    # A battery counts only if it feeds the board when the run begins; on mains it is listed as missing.
    status = [supply.files["status"].line() or "?" for supply in batteries]
    if DISCHARGING not in status or "Charging" in status:
        says = ", ".join(f"{supply.name} {text}" for supply, text in zip(batteries, status, strict=True))
        if {"Unknown", "?"}.issuperset(status):
            return Found(
                mains, (Missing("battery power", f"{says}: its driver does not say whether it feeds the board"),)
            )
        why = f"{says}: on mains its gauge does not measure what the board draws"
        return Found(mains, (Missing("battery power", why, "unplug the mains before the run"),))
    where = ", ".join(root.absolute(supply.folder) for supply in batteries)
    if plugged := _plugged(others):
        info = _sensor("battery", where, _PART_NOTE.format(plugged), "part")
        return Found((Reader((info,), partial(_battery_power, batteries, ()), name="battery"), *mains))
    info = _sensor("battery", where, _BATTERY_NOTE)
    return Found((Reader((info,), partial(_battery_power, batteries, others), name="battery"), *mains))


def _plugged(supplies: Sequence[Supply]) -> str:
    """Return the names of the supplies that are plugged in, with commas, or "" if none is."""
    online = ((supply.name, attempt(supply.files["online"].read_int)) for supply in supplies)
    return ", ".join(name for name, number in online if not isinstance(number, Gap) and number > 0)


def _battery_power(batteries: Sequence[Supply], others: Sequence[Supply]) -> Values:
    """Return a list with one element: the power in W that all of `batteries` give together, or a gap.

    A gap is returned while a battery is charged, or while no battery feeds the board. `others` are the supplies that
    are no batteries. If one of these is plugged in, a gap is returned too, because the batteries then give only a part
    of what the board draws.
    """
    status = [supply.files["status"].read_text() for supply in batteries]
    feeding = [supply for supply, says in zip(batteries, status, strict=True) if says == DISCHARGING]
    if "Charging" in status or not feeding:
        return [Gap(f"{', '.join(status)}: does not measure what the board draws")]
    if plugged := _plugged(others):
        return [Gap(f"{plugged} is plugged in: the battery gives only a part of what the board draws")]
    watts = sum(supply.watts() for supply in feeding)
    return [power_w(watts)] if watts > 0 else [Gap(f"reads {watts:g} W while discharging")]


def _mains(root: Root, supply: Supply, batteries: Sequence[Supply]) -> Reader:
    def read() -> Values:
        if supply.files["online"].read_int() == 0:
            return [Gap("unplugged")]
        if any(battery.files["status"].line() == DISCHARGING for battery in batteries):
            return [Gap("a battery discharges too: this is only a part of what the board draws")]
        return [power_w(supply.watts())]

    return Reader((_sensor(supply.name.replace("/", "-"), root.absolute(supply.folder), _MAINS_NOTE),), read)


def _sensor(label: str, source: str, note: str, role: str = "total") -> SensorInfo:
    return sensor("power", label, source, role=role, accuracy="on-board-monitor", note=note)
