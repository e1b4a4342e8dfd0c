"""Makes the files of a simulated board: those that the kernel and firmware of its board family provide.

ABI: Documentation/ABI/testing/sysfs-class-thermal, Documentation/admin-guide/pm/cpufreq.rst,
Documentation/hwmon/sysfs-interface.rst.
"""

from collections.abc import Callable, Mapping, Sequence

from edgetop.frozen import frozen
from edgetop.simulation.board_physics import FAN_TRIPS, HARDWARE, Hardware, Machine, Trip

Files = Mapping[str, str | bytes]

THERMAL = "sys/class/thermal"
HWMON = "sys/class/hwmon"
ZONE = f"{THERMAL}/thermal_zone0"
POLICY = "sys/devices/system/cpu/cpufreq/policy0"
ACTIVE_TRIPS = [("active", trip) for trip in FAN_TRIPS]


@frozen
class Family:
    links: Mapping[str, str]  # path -> target
    fixed: Files  # files that never change
    files: Callable[[Machine], Files]  # makes the files that depend on the state of the machine


def _device_tree(model: str, *compatible: str) -> Files:
    """Return the files of a device tree by path. `model` is the board's name, such as `Raspberry Pi 5`.

    `compatible`: the texts of the property with this name, such as `brcm,bcm2712`. Texts in the files end in NUL
    (Documentation/devicetree/usage-model.rst).
    """
    base = "proc/device-tree"
    return {f"{base}/model": f"{model}\0", f"{base}/compatible": "".join(f"{name}\0" for name in compatible)}


def _zone(number: int, zone_type: str, trips: Sequence[tuple[str, Trip]]) -> Files:
    files = {"type": zone_type, "mode": "enabled", "policy": "step_wise", "available_policies": "step_wise"}
    for i, (kind, trip) in enumerate(trips):
        files[f"trip_point_{i}_type"] = kind
        files[f"trip_point_{i}_temp"] = f"{round(trip.celsius * 1000)}"
        files[f"trip_point_{i}_hyst"] = f"{round(trip.hysteresis_c * 1000)}"
    return {f"{THERMAL}/thermal_zone{number}/{name}": f"{text}\n" for name, text in files.items()}


def _temperature(number: int, celsius: float) -> Files:
    return {f"{THERMAL}/thermal_zone{number}/temp": f"{round(celsius * 1000)}\n"}


def _cooling_devices(types: Mapping[str, int]) -> Files:
    """Return the files of cooling devices by path.

    `types` has the highest state of each device by its type, such as "pwm-fan".
    """
    files: dict[str, str] = {}
    for number, (device_type, max_state) in enumerate(types.items()):
        files[f"{THERMAL}/cooling_device{number}/type"] = f"{device_type}\n"
        files[f"{THERMAL}/cooling_device{number}/max_state"] = f"{max_state}\n"
    return files


def _cooling_states(*states: int) -> Files:
    return {f"{THERMAL}/cooling_device{number}/cur_state": f"{state}\n" for number, state in enumerate(states)}


def _chips(*names: str) -> Files:
    return {f"{HWMON}/hwmon{number}/name": f"{name}\n" for number, name in enumerate(names)}


def _clocks(hardware: Hardware, driver: str, governor: str, cpus: str) -> Files:
    khz = [f"{clock * 1000:.0f}" for clock in hardware.clocks_mhz]
    files = {
        "affected_cpus": cpus, "related_cpus": cpus, "scaling_driver": driver, "scaling_governor": governor,
        "scaling_available_frequencies": " ".join(khz), "scaling_min_freq": khz[0], "cpuinfo_min_freq": khz[0],
        "cpuinfo_max_freq": khz[-1],
    }  # fmt: skip
    return {f"{POLICY}/{name}": f"{text}\n" for name, text in files.items()}


def _clock(mhz: float) -> Files:
    return {f"{POLICY}/{name}": f"{mhz * 1000:.0f}\n" for name in ("scaling_cur_freq", "scaling_max_freq")}


def _fan(machine: Machine) -> Files:
    """Return the files of the fan by path. The fan is a pwmfan and the first hwmon chip."""
    return {
        f"{HWMON}/hwmon0/pwm1": f"{255 * machine.fan // len(FAN_TRIPS)}\n",
        f"{HWMON}/hwmon0/fan1_input": f"{machine.fan_rpm}\n",
    }


# A board like a Jetson Orin Nano: its rails, its over-current counters, and a cooling device that lowers the clock.
# `scaling_max_freq` follows the cooling device (drivers/thermal/cpufreq_cooling.c requests a frequency limit).
# Over-current protection does not show in any clock (nvidia-oot, tegra23x-oc-event.c).

_JETSON = HARDWARE["jetson"]
assert _JETSON.passive
_JETSON_CRITICAL = ("critical", Trip(_JETSON.critical_c, 0.0))
_CPUFREQ, _ALERT, _FAN = range(3)  # the numbers of the cooling devices
_INA, _OC = 1, 2  # numbers of the hwmon chips
_RAILS = {1: "VDD_IN", 2: "VDD_CPU_GPU_CV", 3: "VDD_SOC"}  # rails by channel of the chip
_VOLTS = 5.0
_SHUNT_MICRO_OHM = 5000

# Zone 0 is bound to the devices of its passive trip, and then to the fan once for each active trip.
_BOUND = ((_CPUFREQ, 0), (_ALERT, 0), *((_FAN, 2 + level) for level in range(len(FAN_TRIPS))))


def _jetson_files(machine: Machine) -> Files:
    """Return the files of the Jetson that change, by path. Voltages are in mV, and currents in mA.

    The rails of CPU and SoC together have less power than VDD_IN, which also supplies DDR and I/O.
    """
    state = machine.cooling_state
    cpu_w, soc_w = 0.5 + machine.cpu_w, 1.4 + 0.3 * machine.busy
    rails = dict(zip(_RAILS, (1.9 + 1.05 * (cpu_w + soc_w), cpu_w, soc_w), strict=True))
    ina = f"{HWMON}/hwmon{_INA}"
    return {
        **_temperature(0, machine.celsius),
        **_temperature(1, machine.celsius - 1.5),
        **_cooling_states(state, int(state > 0), machine.fan),
        **_clock(machine.clock_mhz),
        **_fan(machine),
        **{f"{ina}/in{channel}_input": f"{_VOLTS * 1000:.0f}\n" for channel in rails},
        **{f"{ina}/curr{channel}_input": f"{w / _VOLTS * 1000:.0f}\n" for channel, w in rails.items()},
        f"{HWMON}/hwmon{_OC}/oc3_event_cnt": f"{machine.over_current_events:.0f}\n",
    }


_JETSON_FAMILY = Family(
    links={f"{ZONE}/cdev{i}": f"../cooling_device{device}" for i, (device, _) in enumerate(_BOUND)},
    fixed={
        **_device_tree("Virtual board, after a Jetson Orin Nano", "edgetop,virtual-board", "nvidia,tegra234"),
        "etc/nvpmodel.conf": "< POWER_MODEL ID=2 NAME=MAXN_SUPER >\n",
        "var/lib/nvpmodel/status": "pmode:0002\n",
        **_zone(0, "cpu-thermal", [("passive", _JETSON.passive), _JETSON_CRITICAL, *ACTIVE_TRIPS]),
        **_zone(1, "soc0-thermal", [_JETSON_CRITICAL]),
        **{f"{ZONE}/cdev{i}_trip_point": f"{trip}\n" for i, (_, trip) in enumerate(_BOUND)},
        **_cooling_devices({
            "cpufreq-cpu0": len(_JETSON.clocks_mhz) - 1, "cpu-throttle-alert": 1, "pwm-fan": len(FAN_TRIPS)
        }),
        **_clocks(_JETSON, "tegra194", "schedutil", "0 1 2 3 4 5"),
        **_chips("pwmfan", "ina3221", "soctherm_oc"),
        **{f"{HWMON}/hwmon{_INA}/in{i}_label": f"{rail}\n" for i, rail in _RAILS.items()},
        **{f"{HWMON}/hwmon{_INA}/in{i}_enable": "1\n" for i in _RAILS},
        **{f"{HWMON}/hwmon{_INA}/shunt{i}_resistor": f"{_SHUNT_MICRO_OHM}\n" for i in _RAILS},
        f"{HWMON}/hwmon{_INA}/update_interval": "430\n",
        **{f"{HWMON}/hwmon{_OC}/oc{n}_throt_en": "1\n" for n in (1, 2, 3)},
        **{f"{HWMON}/hwmon{_OC}/oc{n}_event_cnt": "0\n" for n in (1, 2)},
    },
    files=_jetson_files,
)  # fmt: skip


# A board like a Raspberry Pi 5: its firmware limits the clock, and cpufreq does not show that.
# Answers of the firmware are files in `commands/`, as in a captured board.

_PI = HARDWARE["raspberry-pi"]
_VOLT = 1  # the number of the hwmon chip

# Bits of the firmware's throttle word (raspberrypi/documentation, get_throttled).
_UNDER_VOLTAGE, _THROTTLED = 1 << 0, 1 << 2
_HAS_OCCURRED = 16  # the flag "has occurred" is this many bits higher

# Current in A and voltage in V of all rails except the core, as on a Pi 5 under load.
_PMIC_RAILS = {
    "3V7_WL_SW": (0.094, 3.700),
    "3V3_SYS": (0.088, 3.310),
    "1V8_SYS": (0.181, 1.805),
    "DDR_VDD2": (0.225, 1.105),
    "DDR_VDDQ": (0.067, 0.601),
    "1V1_SYS": (0.176, 1.110),
    "0V8_SW": (0.377, 0.801),
}


def _pi_files(machine: Machine) -> Files:
    flags = _UNDER_VOLTAGE | _THROTTLED
    now, ever = machine.is_under_voltage, machine.is_under_voltage or machine.was_under_voltage
    word = flags * now | (flags << _HAS_OCCURRED) * ever  # current flags, and above them the flags since boot
    return {
        **_temperature(0, machine.celsius),
        **_cooling_states(machine.fan),
        **_clock(_PI.fastest_mhz),
        **_fan(machine),
        f"{HWMON}/hwmon{_VOLT}/in0_lcrit_alarm": f"{int(machine.is_under_voltage)}\n",
        "commands/vcgencmd_get_throttled": f"throttled={word:#x}\n",
        "commands/vcgencmd_measure_clock_arm": f"frequency(0)={machine.clock_mhz * 1e6:.0f}\n",
        "commands/vcgencmd_pmic_read_adc": _pmic(machine),
    }


def _pmic(machine: Machine) -> str:
    """Return the text that `vcgencmd pmic_read_adc` prints on a Raspberry Pi: a line for each current and voltage."""
    low_v, high_v = machine.hardware.volts
    core_v = low_v if machine.is_under_voltage else high_v
    rails = {**_PMIC_RAILS, "VDD_CORE": ((1.2 + machine.cpu_w) / core_v, core_v)}
    currents = [f"{name + '_A':>12} current({i})={a:.8f}A" for i, (name, (a, _)) in enumerate(rails.items())]
    volts = {**{name: v for name, (_, v) in rails.items()}, "EXT5V": machine.supply_v}
    voltages = [f"{name + '_V':>12} volt({i})={v:.8f}V" for i, (name, v) in enumerate(volts.items(), len(rails))]
    return "".join(f"{line}\n" for line in (*currents, *voltages))


_PI_FAMILY = Family(
    links={f"{ZONE}/cdev{i}": "../cooling_device0" for i, _ in enumerate(FAN_TRIPS)},
    fixed={
        **_device_tree(
            "Virtual board, after a Raspberry Pi 5", "edgetop,virtual-board", "raspberrypi,5-model-b", "brcm,bcm2712"
        ),
        "proc/device-tree/chosen/power/max_current": (3000).to_bytes(4, "big"),
        **_zone(0, "cpu-thermal", [("critical", Trip(_PI.critical_c, 0.0)), *ACTIVE_TRIPS]),
        **{f"{ZONE}/cdev{i}_trip_point": f"{1 + i}\n" for i, _ in enumerate(FAN_TRIPS)},
        **_cooling_devices({"pwm-fan": len(FAN_TRIPS)}),
        **_clocks(_PI, "cpufreq-dt", "ondemand", "0 1 2 3"),
        **_chips("pwmfan", "rpi_volt"),
    },
    files=_pi_files,
)

FAMILIES: Mapping[str, Family] = {"jetson": _JETSON_FAMILY, "raspberry-pi": _PI_FAMILY}
