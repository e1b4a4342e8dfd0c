"""Temperatures and fans of hwmon chips, each physical sensor once.

ABI: Documentation/hwmon/sysfs-interface.rst. Chips are found by their `name`. The kernel
mirrors thermal zones here (drivers/thermal/thermal_hwmon.c, with every dash of the type an
underscore): those are left to the zones. Labels hold a colon, which those of zones never do.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from edgetop.sensors import cooling
from edgetop.sensors.labels import distinct
from edgetop.sensors.protocol import Found, Gap, Missing, attempt, sensor
from edgetop.sensors.root import Root
from edgetop.sensors.thermal import HWMON, ZONES, read_celsius, zone_types
from edgetop.session.manifest import SensorInfo

CADENCE_S = 1.0
_INPUT = re.compile(r"(temp|fan)[0-9]+_input")


@dataclass(frozen=True, slots=True)
class Input:
    """One temperature or fan of a chip: the files `PREFIX_input`, `PREFIX_fault` ..."""

    root: Root
    prefix: str
    info: SensorInfo
    tells_faults: bool

    def value(self) -> float | Gap:
        """Degrees Celsius, or rounds a minute. Raises OSError, or ValueError where there is no number."""
        if self.tells_faults and self.root.line(f"{self.prefix}_fault") == "1":
            return Gap("the chip reports a fault of this input")
        if self.info.kind == "temp":
            return read_celsius(self.root, f"{self.prefix}_input")
        rounds = self.root.read_int(f"{self.prefix}_input")
        return float(rounds) if rounds >= 0 else Gap(f"reads {rounds} rpm")

    def absence(self) -> str | None:
        """Why there is nothing to measure here, where the chip answers with a fault or with what no sensor reads."""
        value, number = attempt(self.value), attempt(partial(self.root.read_int, f"{self.prefix}_input"))
        return value.reason if isinstance(value, Gap) and not isinstance(number, Gap) else None


@dataclass(frozen=True, slots=True)
class HwmonChip:
    """Every temperature and fan of one chip."""

    name: str
    inputs: tuple[Input, ...]
    cadence_s: float = CADENCE_S

    @property
    def sensors(self) -> tuple[SensorInfo, ...]:
        return tuple(found.info for found in self.inputs)

    def read(self) -> Sequence[float | Gap]:
        return [attempt(found.value) for found in self.inputs]


def discover(root: Root) -> Found:
    chips = dict(_chips(root))
    labels = distinct(list(chips.values()))
    every = (
        HwmonChip(f"hwmon {label}", tuple(_inputs(root, folder, chip, label)))
        for (folder, chip), label in zip(chips.items(), labels, strict=True)
    )
    wired = [_wired(chip) for chip in every]
    found = tuple(chip for chip, _ in wired if chip.inputs)
    missing = tuple(missing for _, unwired in wired for missing in unwired)
    if zone_types(root) or any(info.kind == "temp" for chip in found for info in chip.sensors):
        return Found(found, missing)
    why = f"no thermal zone in {root.shown(ZONES)}, no chip in {root.shown(HWMON)} that tells one"
    return Found(found, (*missing, Missing("temperature", why)))


def _wired(chip: HwmonChip) -> tuple[HwmonChip, tuple[Missing, ...]]:
    """The chip without the inputs to which nothing is wired. One whose read fails may have been asleep, and stays."""
    reasons = {found.info.id: found.absence() for found in chip.inputs}
    missing = tuple(Missing(sensor_id, reason) for sensor_id, reason in reasons.items() if reason)
    return replace(chip, inputs=tuple(found for found in chip.inputs if not reasons[found.info.id])), missing


def _chips(root: Root) -> Iterator[tuple[str, str]]:
    """The name of each chip that mirrors no thermal zone, by folder."""
    zones = zone_types(root)
    mirrors = {_underscored(zone_type) for zone_type in zones.values()}
    for name in root.names(HWMON):
        folder = f"{HWMON}/{name}"
        chip = root.line(f"{folder}/name")
        # The link to its device tells for certain; captures and kernels without it are judged by the name.
        device = (root.resolve(f"{folder}/device") or "").rpartition("/")[2]
        if chip and not device.startswith("thermal_zone") and _underscored(chip) not in mirrors:
            yield folder, chip.replace(":", "-")


def _underscored(name: str) -> str:
    return name.replace("-", "_")


def _inputs(root: Root, folder: str, chip: str, label: str) -> Iterator[Input]:
    files = [name for name in root.names(folder) if _INPUT.fullmatch(name)]
    prefixes = [name.removesuffix("_input") for name in files]
    texts = [root.line(f"{folder}/{prefix}_label") or prefix for prefix in prefixes]
    names = distinct([f"{label}:{text}" for text in texts])
    tcc_offset_c = _tcc_offset_c(root) if chip == "coretemp" else 0.0
    for prefix, text, name in zip(prefixes, texts, names, strict=True):
        if chip == "k10temp" and text == "Tctl" and "Tdie" in texts:
            continue  # the same sensor on a scale of its own (Documentation/hwmon/k10temp.rst)
        kind = "temp" if prefix.startswith("temp") else "fan"
        trips = _trips(root, f"{folder}/{prefix}", chip, tcc_offset_c) if kind == "temp" else None
        note = _NOTES.get((chip, text))
        info = sensor(kind, name, root.shown(f"{folder}/{prefix}_input"), trips=trips or None, note=note)
        yield Input(root, f"{folder}/{prefix}", info, root.exists(f"{folder}/{prefix}_fault"))


_NOTES = {("k10temp", "Tctl"): "the value that steers the fans; on some CPUs above the die's temperature"}


def _trips(root: Root, prefix: str, chip: str, tcc_offset_c: float) -> Mapping[str, float]:
    """At which temperature the chip throttles or is shut down, where its driver tells."""
    crit = attempt(partial(read_celsius, root, f"{prefix}_crit"))
    if isinstance(crit, Gap) or crit <= 0:
        return {}
    if chip == "coretemp":
        # TjMax: "at this temperature, protection mechanism will perform actions to forcibly cool down the
        # processor" (Documentation/hwmon/coretemp.rst), lowered by drivers/thermal/intel/intel_tcc_cooling.c.
        return {"passive": crit - tcc_offset_c}
    if chip == "k10temp":  # "the threshold at which the processor will throttle itself" (its document)
        return {"passive": crit}
    return {"critical": crit}


def _tcc_offset_c(root: Root) -> float:
    offsets = [attempt(device.state) for device in cooling.find(root) if device.type == "TCC Offset"]
    return sum(offset for offset in offsets if not isinstance(offset, Gap))
