"""After a Raspberry Pi 5: its firmware limits the clock, and cpufreq knows nothing of it.

What the firmware would answer lies in `commands/`, as in a captured board.
"""

from edgetop.simulation import families as common
from edgetop.simulation.families import HWMON, THERMAL, Files
from edgetop.simulation.machine import FAN_TRIPS, HARDWARE, Machine, Trip

_HARDWARE = HARDWARE["raspberry-pi"]
_FAN = 0  # the number of the cooling device
_PWMFAN, _VOLT = range(2)  # of the hwmon chips

# Of the firmware's throttle word (raspberrypi/documentation, get_throttled).
_UNDER_VOLTAGE, _THROTTLED = 1 << 0, 1 << 2
_HAS_OCCURRED = 16  # bits up

# A, V of each rail but the core's, as a Pi 5 at work has them.
_RAILS = {
    "3V7_WL_SW": (0.094, 3.700),
    "3V3_SYS": (0.088, 3.310),
    "1V8_SYS": (0.181, 1.805),
    "DDR_VDD2": (0.225, 1.105),
    "DDR_VDDQ": (0.067, 0.601),
    "1V1_SYS": (0.176, 1.110),
    "0V8_SW": (0.377, 0.801),
}

LINKS = {f"{THERMAL}/thermal_zone0/cdev{i}": f"../cooling_device{_FAN}" for i, _ in enumerate(FAN_TRIPS)}

FIXED: Files = {
    **common.device_tree(
        "Virtual board, after a Raspberry Pi 5", "edgetop,virtual-board", "raspberrypi,5-model-b", "brcm,bcm2712"
    ),
    "proc/device-tree/chosen/power/max_current": (3000).to_bytes(4, "big"),
    **common.zone(0, "cpu-thermal", [("critical", Trip(_HARDWARE.critical_c, 0.0)), *common.ACTIVE_TRIPS]),
    **{f"{THERMAL}/thermal_zone0/cdev{i}_trip_point": f"{1 + i}\n" for i, _ in enumerate(FAN_TRIPS)},
    **common.cooling_device(_FAN, "pwm-fan", len(FAN_TRIPS)),
    **common.clocks(_HARDWARE, "cpufreq-dt", "ondemand", "0 1 2 3"),
    **common.chip_name(_PWMFAN, "pwmfan"),
    **common.chip_name(_VOLT, "rpi_volt"),
}


def files(machine: Machine) -> Files:
    fastest_mhz = machine.hardware.fastest_mhz
    return {
        **common.temperature(0, machine.celsius),
        **common.cooling_state(_FAN, machine.fan),
        **common.clock(fastest_mhz, fastest_mhz),
        **common.fan(_PWMFAN, machine),
        f"{HWMON}/hwmon{_VOLT}/in0_lcrit_alarm": f"{int(machine.is_under_voltage)}\n",
        "commands/vcgencmd_get_throttled": f"throttled={_throttle_word(machine):#x}\n",
        "commands/vcgencmd_measure_clock_arm": f"frequency(0)={machine.clock_mhz * 1e6:.0f}\n",
        "commands/vcgencmd_pmic_read_adc": _pmic(machine),
    }


def _throttle_word(machine: Machine) -> int:
    """What holds now, and above it what has held since the beginning."""
    flags = _UNDER_VOLTAGE | _THROTTLED
    now, ever = machine.is_under_voltage, machine.is_under_voltage or machine.was_under_voltage
    return flags * now | (flags << _HAS_OCCURRED) * ever


def _pmic(machine: Machine) -> str:
    """As `vcgencmd pmic_read_adc` prints it: currents, then voltages."""
    low_v, high_v = machine.hardware.volts
    core_v = low_v if machine.is_under_voltage else high_v
    rails = {**_RAILS, "VDD_CORE": ((1.2 + machine.cpu_w) / core_v, core_v)}
    currents = [f"{name + '_A':>12} current({i})={a:.8f}A" for i, (name, (a, _)) in enumerate(rails.items())]
    volts = {**{name: v for name, (_, v) in rails.items()}, "EXT5V": machine.supply_v}
    voltages = [f"{name + '_V':>12} volt({i})={v:.8f}V" for i, (name, v) in enumerate(volts.items(), len(rails))]
    return "".join(f"{line}\n" for line in (*currents, *voltages))
