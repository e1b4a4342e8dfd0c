"""The kernel's thermal zones, with the temperatures at which they really throttle, and its cooling devices.

ABI: Documentation/ABI/testing/sysfs-class-thermal. Zones are found by their `type`, since their numbers change from
boot to boot. A read may fail permanently (power-gated blocks of a Jetson give EAGAIN: prometheus/node_exporter#3071) or
give an impossible temperature; both are gaps with a reason.

The kernel uses cooling devices to lower the temperature. A state above 0 alone does not mean throttling, since fans,
warnings of a hot surface, DRAM refresh and the voltage floors of older Jetsons are cooling devices too. The `type` that
the driver sets shows whether a device slows down the computation.
"""

import errno
import re
from collections.abc import Callable, Mapping
from functools import partial

from edgetop.sensors.plausible import MIN_CRITICAL_C, celsius_of, trip_c, zone_c
from edgetop.sensors.root import File, Root, chips_named
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Source, Values, distinct, sensor

THERMAL = "sys/class/thermal"
PREFIX = "cooling_device"

# Types of cooling devices that slow down the computation. Sources, in this order:
# drivers/thermal/{cpufreq,devfreq,cpuidle}_cooling.c (older kernels number them: thermal-cpufreq-0);
# drivers/acpi/processor_thermal.c; drivers/thermal/intel/intel_powerclamp.c; drivers/gpu/drm/etnaviv/etnaviv_gpu.c (a
# GPU or NPU named by its device, whose clock is halved with each state); Amlogic's
# drivers/amlogic/thermal/{cpu,gpu}core_cooling.c (numbered or not) and Qualcomm's drivers/thermal/qcom/cpu_hotplug.c,
# whose state is the number of cores taken away; NVIDIA's device trees of JetPack 5 to 7 (an alert for each block) and
# of JetPack 4 (the "balanced" steps of all clocks, and the hardware's heavy one). Not included are tegra-dram,
# CORE-floor, CORE-cap, the voltage scaling at low temperatures, and hot-surface-alert.
_THROTTLING = re.compile(
    r"(thermal-)?(cpu|dev|gpu)freq-.+"
    r"|(thermal-)?idle-.+"
    r"|Processor"
    r"|intel_powerclamp"
    r"|[0-9a-f]+\.[gn]pu"
    r"|thermal-[cg]pucore(-.+)?"
    r"|cpu-hotplug.+"
    r"|.+-throttle-alert"
    r"|(cpu|gpu|emergency)-balanced"
    r"|tegra_heavy"
)
_NOTES = {
    "TCC Offset": "how many degrees below TjMax the CPU throttles; above 0 at rest",
    "hot-surface-alert": "a warning of a surface too hot to touch",
}


def throttles(cooling_type: str) -> bool:
    """Return whether a cooling device of this type slows the computation down. A fan, for example, does not.

    >>> [throttles(t) for t in ("cpufreq-cpu0", "cpu-throttle-alert", "pwm-fan", "hot-surface-alert", "tegra-dram")]
    [True, True, False, False, False]
    """
    return _THROTTLING.fullmatch(cooling_type) is not None


class CoolingDevice:
    """One of the kernel's cooling devices: a fan, or a limit on a clock.

    The sensor's label has the device's number and type, since several devices may have the same type.
    """

    def __init__(self, root: Root, name: str, kind: str) -> None:
        folder = f"{THERMAL}/{name}"
        self.type, self.throttles = kind, throttles(kind)
        self._file = root.file(f"{folder}/cur_state")
        label, source = f"{name.removeprefix(PREFIX)}-{kind.replace('/', '-')}", root.absolute(self._file.relative)
        more = {"throttles": self.throttles, "max_state": root.number(f"{folder}/max_state"), "note": _NOTES.get(kind)}
        self.info = sensor("cooling", label, source, **more)

    def state(self) -> float:
        """Return the device's present state: 0 if it does nothing, and higher the more it cools.

        Raises OSError, or ValueError if the file is invalid.
        """
        state = self._file.read_int()
        if state < 0 and self.type == "intel_powerclamp":
            return 0.0  # older kernels show a negative state while it injects no idle time
        if state < 0:
            raise ValueError(f"no state: {state}")
        return float(state)


def cooling_devices(root: Root) -> tuple[CoolingDevice, ...]:
    """Return the board's cooling devices. Those without a type are left out."""
    devices = ((name, root.line(f"{THERMAL}/{name}/type")) for name in root.names(THERMAL) if name.startswith(PREFIX))
    return tuple(CoolingDevice(root, name, kind) for name, kind in devices if kind)


# Reasons why zones of these types do not measure anything.
_NOT_SENSORS = {
    # INT3400_FAKE_TEMP in drivers/thermal/intel/int340x_thermal/int3400_thermal.c
    "INT3400 Thermal": "its driver makes up a constant 20 °C",
    # NVIDIA's 4.9 kernels
    "thermal-fan-est": "computed from other zones to steer the fan",
}
# NVIDIA's 4.9 kernels give this zone a constant instead of a sensor (tegrastats prints PMIC@50C or PMIC@100C).
_PLACEHOLDERS_C = {"PMIC-Die": (50.0, 100.0)}

# What drivers mean by these errors. Wireless cards of x86 machines give ENODATA or EIO while they are down.
_REASONS = {
    errno.EAGAIN: "EAGAIN: what it measures is powered off, or its sensor is not ready",
    errno.ENODATA: "ENODATA: no reading while what it measures is down",
    errno.EIO: "EIO: the sensor gives no valid sample",
}


def read_celsius(file: File, judged: Callable[[int], float | Gap] = celsius_of) -> float | Gap:
    """Return the temperature in °C from a file of thousandths of a degree, or a gap if it cannot be right.

    `judged` takes the number in the file, and returns the temperature or a gap. The errors EAGAIN, ENODATA and EIO also
    become gaps, because they mean that the sensor gives no value now. Raises OSError for other errors, and ValueError
    if the file has no number.
    """
    try:
        return judged(file.read_int())
    except OSError as error:
        if error.errno in _REASONS:
            return Gap(_REASONS[error.errno])
        raise


def discover(root: Root) -> Found:
    types = zone_types(root)
    zones: list[Source] = []
    missing: list[Missing] = []
    for (folder, zone_type), label in zip(types.items(), distinct(list(types.values())), strict=True):
        if zone_type in _NOT_SENSORS:
            missing.append(Missing(f"temp/{label}", _NOT_SENSORS[zone_type]))
        elif not (zone_type == "x86_pkg_temp" and _has_coretemp(root)):
            zones.append(_zone(root, folder, zone_type, label))
    return Found(tuple(zones), tuple(missing))


def _zone(root: Root, folder: str, zone_type: str, label: str) -> Reader:
    mode, temp, trips = root.file(f"{folder}/mode"), root.file(f"{folder}/temp"), _trips(root, folder)
    judged = partial(zone_c, critical_c=trips.get("critical"))

    def read() -> Values:
        # A disabled zone still has its file, but its driver may have switched the sensor off and repeat the last value
        # (drivers/thermal/{imx,rockchip}_thermal.c).
        if mode.line() == "disabled":
            return [Gap("the zone is disabled: its sensor may be off")]
        value = read_celsius(temp, judged)
        if value in _PLACEHOLDERS_C.get(zone_type, ()):
            return [Gap(f"reads {value:g} °C for ever: a placeholder of this kernel, no sensor")]
        return [value]

    return Reader((sensor("temp", label, root.absolute(temp.relative), trips=trips or None),), read)


def zone_types(root: Root) -> dict[str, str]:
    """Return the type of each thermal zone by folder, such as `{"sys/class/thermal/thermal_zone0": "cpu-thermal"}`.

    Colons in a type become dashes, since labels of hwmon sensors are recognised by a colon.
    """
    folders = [f"{THERMAL}/{name}" for name in root.names(THERMAL) if name.startswith("thermal_zone")]
    types = ((folder, root.line(f"{folder}/type")) for folder in folders)
    return {folder: zone_type.replace(":", "-") for folder, zone_type in types if zone_type}


def _has_coretemp(root: Root) -> bool:
    """Return whether hwmon has the temperature of the CPU package too.

    A thermal zone and hwmon then read the same register (drivers/thermal/intel/x86_pkg_temp_thermal.c,
    drivers/hwmon/coretemp.c), but only hwmon has the temperature at which the CPU throttles.
    """
    chips = chips_named(root, "coretemp")
    labels = [f"{chip}/{name}" for chip in chips for name in root.names(chip) if name.endswith("_label")]
    return any((root.line(label) or "").startswith(("Package id", "Physical id")) for label in labels)


def _trips(root: Root, folder: str) -> Mapping[str, float]:
    """Return the lowest temperatures in °C at which a thermal zone throttles ("passive") and shuts down ("critical").

    A passive temperature counts only if it is bound to a cooling device that throttles.
    """
    names = root.names(folder)
    devices = [name for name in names if name.startswith("cdev") and name.endswith("_trip_point")]
    types = [root.line(f"{folder}/{name.removesuffix('_trip_point')}/type") or "" for name in devices]
    bound = {root.line(f"{folder}/{name}") for name, kind in zip(devices, types, strict=True) if throttles(kind)}
    trips: dict[str, float] = {}
    for name in names:
        if not (name.startswith("trip_point_") and name.endswith("_type")):
            continue
        number = name.removeprefix("trip_point_").removesuffix("_type")
        trip_type, milli = root.line(f"{folder}/{name}"), root.number(f"{folder}/trip_point_{number}_temp")
        if trip_type is None or (celsius := trip_c(milli)) is None:
            continue
        counts = celsius >= MIN_CRITICAL_C if trip_type == "critical" else trip_type == "passive" and number in bound
        if counts:
            trips[trip_type] = min(celsius, trips.get(trip_type, celsius))
    return trips


# Temperature, trips and throttling of the Edge TPU on PCIe (Coral Dev Board, M.2 and Mini PCIe cards). It is not a
# thermal zone; its driver has its own class (google/gasket-driver, src/apex_driver.c). On USB the chip reports no
# temperature. While it is shut down it reads -90 °C.

APEX = "sys/class/apex"
EDGE_TPU_NOTE = "its temperature is at the trip at which its driver halves the clock"


def discover_edge_tpus(root: Root) -> Found:
    folders = [f"{APEX}/{name}" for name in root.names(APEX)]
    return Found(tuple(_edge_tpu(root, folder) for folder in folders if root.exists(f"{folder}/temp")))


def _edge_tpu(root: Root, folder: str) -> Reader:
    file, number = root.file(f"{folder}/temp"), folder.rpartition("_")[2].replace("/", "-")
    source, trips = root.absolute(file.relative), _edge_tpu_trips(root, folder)
    temperature = sensor("temp", f"apex:{number}", source, trips=trips or None)
    if (trip_c := trips.get("passive")) is None:
        return Reader((temperature,), lambda: [read_celsius(file)])

    def read() -> Values:
        celsius = read_celsius(file)
        return [celsius, celsius if isinstance(celsius, Gap) else float(celsius >= trip_c)]

    return Reader((temperature, sensor("throttle", f"edge-tpu:{number}", source, note=EDGE_TPU_NOTE)), read)


def _edge_tpu_trips(root: Root, folder: str) -> Mapping[str, float]:
    """Return the temperatures in °C at which an Edge TPU halves its clock ("passive") and shuts down ("critical").

    The clock is halved at each of three trip points; "passive" is the lowest of them. hw_temp_warn2 shuts the chip down
    if it is enabled. A temperature is left out if the driver does not check it: without polling (temp_poll_interval 0),
    no trip point is checked.
    """
    polls = root.number(f"{folder}/temp_poll_interval") or 0
    points = [root.number(f"{folder}/trip_point{number}_temp") for number in range(3)] if polls > 0 else []
    is_guarded = root.line(f"{folder}/hw_temp_warn2_en") == "1"
    trips = {
        "passive": min((point for point in points if point and trip_c(point)), default=None),
        "critical": root.number(f"{folder}/hw_temp_warn2") if is_guarded else None,
    }
    return {name: celsius for name, milli in trips.items() if (celsius := trip_c(milli)) is not None}
