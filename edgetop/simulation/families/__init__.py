"""The files of each family of boards, as its kernel and firmware have them, made from the state of the machine.

A family is a module with `LINKS` (path -> where it leads), `FIXED` (what never changes) and `files(machine)`. What
all have in common is here: a thermal zone, a fan, a clock. ABI: Documentation/ABI/testing/sysfs-class-thermal,
Documentation/admin-guide/pm/cpufreq.rst, Documentation/hwmon/sysfs-interface.rst.
"""

from collections.abc import Mapping, Sequence

from edgetop.simulation.machine import FAN_TRIPS, Hardware, Machine, Trip

Files = Mapping[str, str | bytes]

THERMAL = "sys/class/thermal"
HWMON = "sys/class/hwmon"
POLICY = "sys/devices/system/cpu/cpufreq/policy0"
ACTIVE_TRIPS = [("active", trip) for trip in FAN_TRIPS]


def device_tree(model: str, *compatible: str) -> Files:
    """Strings that end in NUL (Documentation/devicetree/usage-model.rst)."""
    base = "proc/device-tree"
    return {f"{base}/model": f"{model}\0", f"{base}/compatible": "".join(f"{name}\0" for name in compatible)}


def zone(number: int, zone_type: str, trips: Sequence[tuple[str, Trip]]) -> Files:
    folder = f"{THERMAL}/thermal_zone{number}"
    files = {"type": zone_type, "mode": "enabled", "policy": "step_wise", "available_policies": "step_wise"}
    for i, (kind, trip) in enumerate(trips):
        files[f"trip_point_{i}_type"] = kind
        files[f"trip_point_{i}_temp"] = milli(trip.celsius)
        files[f"trip_point_{i}_hyst"] = milli(trip.hysteresis_c)
    return {f"{folder}/{name}": f"{text}\n" for name, text in files.items()}


def cooling_device(number: int, device_type: str, max_state: int) -> Files:
    folder = f"{THERMAL}/cooling_device{number}"
    return {f"{folder}/type": f"{device_type}\n", f"{folder}/max_state": f"{max_state}\n"}


def cooling_state(number: int, state: int) -> Files:
    return {f"{THERMAL}/cooling_device{number}/cur_state": f"{state}\n"}


def temperature(number: int, celsius: float) -> Files:
    return {f"{THERMAL}/thermal_zone{number}/temp": f"{milli(celsius)}\n"}


def milli(value: float) -> str:
    return f"{round(value * 1000)}"


def clocks(hardware: Hardware, driver: str, governor: str, cpus: str) -> Files:
    khz = [f"{clock * 1000:.0f}" for clock in hardware.clocks_mhz]
    files = {
        "affected_cpus": cpus,
        "related_cpus": cpus,
        "scaling_driver": driver,
        "scaling_governor": governor,
        "scaling_available_frequencies": " ".join(khz),
        "scaling_min_freq": khz[0],
        "cpuinfo_min_freq": khz[0],
        "cpuinfo_max_freq": khz[-1],
    }
    return {f"{POLICY}/{name}": f"{text}\n" for name, text in files.items()}


def clock(now_mhz: float, limit_mhz: float) -> Files:
    khz = {"scaling_cur_freq": now_mhz, "scaling_max_freq": limit_mhz}
    return {f"{POLICY}/{name}": f"{mhz * 1000:.0f}\n" for name, mhz in khz.items()}


def fan(chip: int, machine: Machine) -> Files:
    folder = f"{HWMON}/hwmon{chip}"
    return {
        f"{folder}/pwm1": f"{255 * machine.fan // len(FAN_TRIPS)}\n",
        f"{folder}/fan1_input": f"{machine.fan_rpm}\n",
    }


def chip_name(chip: int, name: str) -> Files:
    return {f"{HWMON}/hwmon{chip}/name": f"{name}\n"}
