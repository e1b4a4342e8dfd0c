"""Temperatures, fans, humidity and power of hwmon chips, each physical sensor once.

ABI: Documentation/hwmon/sysfs-interface.rst. Chips are found by their `name`. The kernel also shows thermal zones as
hwmon chips, whose names have underscores for the dashes of the zone's type (drivers/thermal/thermal_hwmon.c). These
are left out here. Labels of sensors of this module contain a colon, and labels of thermal zones do not.

Power is `power*_input`, or else `power*_average`, in µW. Jetson's INA3221 has no such file; `rails.py` reads its rails,
and says which chip measures a board's input.
Batteries are hwmon devices too (drivers/power/supply/power_supply_hwmon.c), but `power_supply.py` reads them, since it
knows the direction of the current.
"""

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from edgetop.sensors.plausible import air_c, celsius_of, consumed_w, humidity_pct, trip_c
from edgetop.sensors.rails import INPUT, NOTES, input_folder
from edgetop.sensors.root import CHIPS, COMPATIBLE, File, Root, is_compatible
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, attempt, attempt_all, distinct, sensor
from edgetop.sensors.thermal_zones import THERMAL, cooling_devices, read_celsius, zone_types
from edgetop.session.manifest import SensorInfo
from edgetop.session.meter import Meter
from edgetop.session.trips import CHIP_MARK

_INPUT = re.compile(r"(temp|fan|humidity)[0-9]+_input")
_POWER = re.compile(r"power([0-9]+)_(input|average)")
_CHIP_NOTES = {("k10temp", "Tctl"): "the value that steers the fans; on some CPUs above the die's temperature"}

FASTEST_S = 0.1  # update interval of power if the chip does not give one
# Chips whose firmware only estimates their own power (drivers/gpu/drm/amd/pm, drivers/hwmon/fam15h_power.c).
_ESTIMATES = ("amdgpu", "fam15h_power", "scmi_sensors")
# The highest values of monitor chips with 8 and 9 bits, which an unconnected input gives (lm-sensors/lm-sensors#461,
# frankcrawford/it87#59).
_OPEN_C = (127.0, 127.5)
# Mainboards' monitor chips. An input without a sensor may read any value, such as SYSTIN at 121 °C. The limit is a
# choice: no mainboard works with an input above it.
_SUPER_IO = re.compile(r"nct|it8|it9|w83|f71|f81|sch5|dme1737|pc87|lm[78]")
_WIRED_C = 115.0
_NO_FAN_RPM = 65535  # FAN_NOT_PRESENT in drivers/platform/x86/thinkpad_acpi.c: all bits of the register are set
# Chips that give the magnitude of power (drivers/hwmon/ina2xx.c, ina238.c); the sign of the current is the direction.
_SIGNED = re.compile(r"ina[0-9]+|isl28022|ltc294[57]")
_POWER_NUMBER = re.compile(r".*/power|_(input|average)$")
# Chips that rails.py reads.
_RAILS = ("ina3221", "ina3221x")


# Chips that measure the air, and not a part of the board: those with a humidity input, and thermometers of the same
# series without one (drivers/hwmon/sht3x.c). A 1-wire thermometer is on a cable (drivers/w1/slaves/w1_therm.c): a
# conversion takes up to 0.75 s, and before the first one it reads 85 °C (Maxim, DS18B20 data sheet).
ONE_WIRE, POWER_ON_C = "w1_slave_temp", 85.0
ONE_WIRE_CADENCE_S = 10.0
_AIR = re.compile(r"sht[0-9cw].*|sts[34].*|aht[0-9].*|hih6.*|htu[0-9].*|hs300.*|si70[0-9].*|cc2d.*|dht[12].*")


# Thermometers of one chip that makers put on boards and users connect to them (drivers/hwmon/lm75.c, tmp102.c ...).
_THERMOMETER = re.compile(
    r"lm75[a-z]*|tmp(102|103|108|112|117|75[a-z]*|1075|175|275)|mcp980[0-9x]|adt7[34][0-9]*|ds1621|pct2075|g751"
)


def is_connected(root: Root, folder: str, chip: str) -> bool:
    """Return whether a user has added this thermometer to the board.

    A thermometer counts as added if the device tree, which describes the board, has no node for it
    (Documentation/i2c/instantiating-devices.rst). On a Raspberry Pi every thermometer counts as added, since the board
    itself has none. On a PC none counts as added, since a PC has no device tree. `folder` is the chip's hwmon folder,
    and `chip` its name, such as `lm75`.
    """
    if not root.line(COMPATIBLE) or not _THERMOMETER.fullmatch(chip):
        return False
    has_node = root.exists(f"{folder}/of_node") or root.exists(f"{folder}/device/of_node")
    return is_compatible(root, "raspberrypi,") or (root.exists(f"{folder}/device") and not has_node)


def is_external(root: Root, folder: str, chip: str) -> bool:
    """Return whether a chip measures the air or a probe, instead of the board.

    `folder` is the chip's hwmon folder, and `chip` its name, such as `sht3x`.
    """
    if is_connected(root, folder, chip):
        return True
    has_humidity = any(name.startswith("humidity") and name.endswith("_input") for name in root.names(folder))
    return has_humidity or chip == ONE_WIRE or _AIR.fullmatch(chip) is not None


class Input(NamedTuple):
    """One input of a hwmon chip, which measures a temperature, a fan's speed or a humidity."""

    info: SensorInfo
    file: File  # has its raw value
    fault: File | None
    is_super_io: bool

    def value(self) -> float | Gap:
        """Return the present value in °C, revolutions per minute or percent, or a gap if it cannot be right.

        Raises OSError, or ValueError if the file has no number.
        """
        if self.fault and self.fault.line() == "1":
            return Gap("the chip reports a fault of this input")
        if self.info.kind in ("temp", "ambient"):
            celsius = read_celsius(self.file, _of_air if self.info.kind == "ambient" else celsius_of)
            is_open = not isinstance(celsius, Gap) and (celsius in _OPEN_C or (self.is_super_io and celsius > _WIRED_C))
            return Gap(f"reads {celsius:g} °C, as an input to which nothing is wired") if is_open else celsius
        if self.info.kind == "humidity":
            return humidity_pct(self.file.read_int() / 1000)
        rounds = self.file.read_int()
        return float(rounds) if 0 <= rounds < _NO_FAN_RPM else Gap(f"reads {rounds} rpm")

    def absence(self) -> str | None:
        """Return why no sensor is connected to this input, or None if one is connected.

        Nothing is connected if the chip reports a fault or an impossible value. If the read fails, the result is None
        too, because the chip may only be asleep.
        """
        value, number = attempt(self.value), attempt(self.file.read_int)
        return value.reason if isinstance(value, Gap) and not isinstance(number, Gap) else None


def _of_air(millidegrees: int) -> float | Gap:
    return air_c(millidegrees / 1000)


def discover(root: Root) -> Found:
    """Return readers of the temperatures, fans and humidities of all hwmon chips, and what cannot be read."""
    chips = dict(_chips(root))
    readers: list[Reader] = []
    missing: list[Missing] = []
    for (folder, chip), label in zip(chips.items(), distinct(list(chips.values())), strict=True):
        if chip == ONE_WIRE:
            why = "a 1-wire probe is read only if it is asked for, since each read takes a second"
            missing.append(Missing(f"ambient/{label}", why, f"edgetop run --ambient ambient/{label} ..."))
            continue
        absences = [(each, each.absence()) for each in _inputs(root, folder, chip, label)]
        missing += [Missing(each.info.id, reason) for each, reason in absences if reason]
        if wired := [each for each, reason in absences if not reason]:
            infos, reads = tuple(each.info for each in wired), [each.value for each in wired]
            readers.append(Reader(infos, partial(attempt_all, reads), name=f"hwmon {label}"))
    if not zone_types(root) and all(info.kind != "temp" for reader in readers for info in reader.sensors):
        why = f"no thermal zone in {root.absolute(THERMAL)}, no chip in {root.absolute(CHIPS)} that reports one"
        missing.append(Missing("temperature", why))
    return Found(tuple(readers), tuple(missing))


def discover_one_wire(root: Root) -> Found:
    """Return readers of the thermometers on the 1-wire bus.

    `discover` leaves them out, because each read takes a second.
    """
    chips = dict(_chips(root))
    labels = zip(chips.items(), distinct(list(chips.values())), strict=True)
    return Found(tuple(_one_wire(root, folder, label) for (folder, chip), label in labels if chip == ONE_WIRE))


def _one_wire(root: Root, folder: str, label: str) -> Reader:
    file = root.file(f"{folder}/temp1_input")

    def read() -> Values:
        celsius = read_celsius(file, _of_air)
        return [Gap("reads 85 °C, as before the first conversion") if celsius == POWER_ON_C else celsius]

    info = sensor("ambient", label, root.absolute(file.relative), note="a probe on 1-wire")
    return Reader((info,), read, ONE_WIRE_CADENCE_S)


def _chips(root: Root) -> Iterator[tuple[str, str]]:
    """Yield `(folder, name)` of each hwmon chip. Chips that only mirror a thermal zone are left out."""
    mirrors = {_underscored(zone_type) for zone_type in zone_types(root).values()}
    for name in root.names(CHIPS):
        folder = f"{CHIPS}/{name}"
        chip = root.line(f"{folder}/name")
        # The link to the device is reliable. Without it (captures, some kernels) only the name is left.
        device = (root.resolve(f"{folder}/device") or "").rpartition("/")[2]
        if chip and not device.startswith("thermal_zone") and _underscored(chip) not in mirrors:
            yield folder, chip.replace(":", "-")


def _underscored(name: str) -> str:
    return name.replace("-", "_")


def _inputs(root: Root, folder: str, chip: str, label: str) -> Iterator[Input]:
    files = [name for name in root.names(folder) if _INPUT.fullmatch(name)]
    prefixes = [name.removesuffix("_input") for name in files]
    texts = [root.line(f"{folder}/{prefix}_label") or prefix for prefix in prefixes]
    names = distinct([f"{label}{CHIP_MARK}{text}" for text in texts])
    devices = cooling_devices(root) if chip == "coretemp" else ()
    offsets = [attempt(device.state) for device in devices if device.type == "TCC Offset"]
    tcc_offset_c = sum(offset for offset in offsets if not isinstance(offset, Gap))
    is_super_io = _SUPER_IO.match(chip) is not None
    for prefix, text, name in zip(prefixes, texts, names, strict=True):
        if chip == "k10temp" and text == "Tctl" and "Tdie" in texts:
            continue  # Tctl is Tdie on another scale (Documentation/hwmon/k10temp.rst)
        kind = prefix.rstrip("0123456789")
        kind = "ambient" if kind == "temp" and is_external(root, folder, chip) else kind
        trips = _trips(root.file(f"{folder}/{prefix}_crit"), chip, tcc_offset_c) if kind == "temp" else None
        note = _CHIP_NOTES.get((chip, text))
        file, fault = root.file(f"{folder}/{prefix}_input"), root.file(f"{folder}/{prefix}_fault")
        info = sensor(kind, name, root.absolute(file.relative), trips=trips or None, note=note)
        yield Input(info, file, fault if root.exists(fault.relative) else None, is_super_io)


def _trips(crit: File, chip: str, tcc_offset_c: float) -> Mapping[str, float]:
    """Return the °C at which a chip throttles, as `{"passive": 95.0}`, or shuts down, as `{"critical": 95.0}`.

    {} if the driver does not report the limit. `crit` is the file with the chip's limit, and `chip` the chip's name,
    such as `coretemp`. `tcc_offset_c` is how far below its limit an Intel CPU throttles.
    """
    raw = attempt(crit.read_int)
    if isinstance(raw, Gap) or (celsius := trip_c(raw)) is None:
        return {}
    if chip == "coretemp":
        # TjMax: "at this temperature, protection mechanism will perform actions to forcibly cool down the
        # processor" (Documentation/hwmon/coretemp.rst), lowered by drivers/thermal/intel/intel_tcc_cooling.c.
        return {"passive": celsius - tcc_offset_c}
    if chip == "k10temp":  # "the threshold at which the processor will throttle itself" (its document)
        return {"passive": celsius}
    return {"critical": celsius}


def discover_power(root: Root) -> Found:
    """Return readers of the power that hwmon chips report. Batteries and the INA3221 chips of a Jetson are left out."""
    supplies = {_underscored(name) for name in root.names("sys/class/power_supply")}
    input_chip = input_folder(root)
    named: list[tuple[str, str, str]] = []  # (the board's name for it or else the chip's, chip, file)
    for entry in root.names(CHIPS):
        folder = f"{CHIPS}/{entry}"
        chip = root.line(f"{folder}/name") or entry
        is_power_supply = "/power_supply/" in f"/{root.resolve(f'{folder}/device') or ''}" or chip in supplies
        if chip in _RAILS or is_power_supply:
            continue
        matches = [match for name in root.names(folder) if (match := _POWER.fullmatch(name))]
        files = {match[1]: match[0] for match in matches}
        files |= {match[1]: match[0] for match in matches if match[2] == "input"}
        for number, file in files.items():
            name = root.line(f"{folder}/power{number}_label") or root.line(f"{folder}/label") or chip
            name = INPUT if folder == input_chip else name
            named.append((name, chip, f"{folder}/{file}"))
    labels = distinct([name for name, _, _ in named])
    pairs = zip(labels, named, strict=True)
    return Found(tuple(_power(root, label, chip, path, input_chip) for label, (_, chip, path) in pairs))


def _power(root: Root, label: str, chip: str, path: str, input_chip: str | None) -> Reader:
    accuracy = "firmware-estimate" if chip in _ESTIMATES else "on-board-monitor"
    note = f"{chip}, averaged by the chip" if path.endswith("_average") else chip
    folder, role = path.rpartition("/")[0], "part"
    if folder == input_chip:
        role, note = "total", f"{chip}: {NOTES[INPUT]}"
    info = sensor(
        "power", label, root.absolute(path), role=role, accuracy=accuracy, note=note, meter=_meter(root, folder, chip)
    )
    milliseconds = root.number(f"{folder}/update_interval") or 0
    fastest_s = milliseconds / 1000 if 0 < milliseconds < 60_000 else FASTEST_S
    file, current = root.file(path), root.file(f"{folder}/curr{_POWER_NUMBER.sub('', path)}_input")
    is_signed = _SIGNED.fullmatch(chip) is not None and root.exists(current.relative)

    def read() -> Values:
        watts = file.read_int() / 1e6
        return [consumed_w(math.copysign(watts, current.read_int()) if is_signed else watts)]

    return Reader((info,), read, max(1.0, fastest_s), fastest_s=fastest_s)


def _meter(root: Root, folder: str, chip: str) -> Meter:
    """Return a power chip's shunt in ohms and the present voltage of its bus, as far as they are known.

    `shunt_resistor` has microohms, and `in1_input` has the mV of the bus (Documentation/hwmon/ina2xx.rst, ina238.rst,
    ltc2945.rst). The LTC2945 has no file `shunt_resistor`, so its shunt is unknown.
    """
    microohms, millivolts = (root.number(f"{folder}/{name}") for name in ("shunt_resistor", "in1_input"))
    return Meter(chip, microohms / 1e6 if microohms else None, volts=millivolts / 1000 if millivolts else None)
