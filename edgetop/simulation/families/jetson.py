"""After a Jetson Orin Nano: its rails, its over-current counters, and a cooling device that lowers the clock.

`scaling_max_freq` follows the cooling device (drivers/thermal/cpufreq_cooling.c asks for a
frequency limit); what over-current protection does is in no clock (nvidia-oot, tegra23x-oc-event.c).
"""

from edgetop.simulation import families as common
from edgetop.simulation.families import HWMON, THERMAL, Files
from edgetop.simulation.machine import FAN_TRIPS, HARDWARE, Machine, Trip

_HARDWARE = HARDWARE["jetson"]
assert _HARDWARE.passive
_CRITICAL = ("critical", Trip(_HARDWARE.critical_c, 0.0))
_TRIPS = [("passive", _HARDWARE.passive), _CRITICAL, *common.ACTIVE_TRIPS]
_CPUFREQ, _ALERT, _FAN = range(3)  # the numbers of the cooling devices
_PWMFAN, _INA, _OC = range(3)  # of the hwmon chips
_RAILS = ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC")
_VOLTS = 5.0
_SHUNT_MICRO_OHM = 5000

# Zone 0 is bound to its passive trip's devices, then to the fan once for each active trip.
_BOUND = ((_CPUFREQ, 0), (_ALERT, 0), *((_FAN, 2 + level) for level in range(len(FAN_TRIPS))))

LINKS = {f"{THERMAL}/thermal_zone0/cdev{i}": f"../cooling_device{device}" for i, (device, _) in enumerate(_BOUND)}

FIXED: Files = {
    **common.device_tree("Virtual board, after a Jetson Orin Nano", "edgetop,virtual-board", "nvidia,tegra234"),
    "etc/nvpmodel.conf": "< POWER_MODEL ID=2 NAME=MAXN_SUPER >\n",
    "var/lib/nvpmodel/status": "pmode:0002\n",
    **common.zone(0, "cpu-thermal", _TRIPS),
    **common.zone(1, "soc0-thermal", [_CRITICAL]),
    **{f"{THERMAL}/thermal_zone0/cdev{i}_trip_point": f"{trip}\n" for i, (_, trip) in enumerate(_BOUND)},
    **common.cooling_device(_CPUFREQ, "cpufreq-cpu0", len(_HARDWARE.clocks_mhz) - 1),
    **common.cooling_device(_ALERT, "cpu-throttle-alert", 1),
    **common.cooling_device(_FAN, "pwm-fan", len(FAN_TRIPS)),
    **common.clocks(_HARDWARE, "tegra194", "schedutil", "0 1 2 3 4 5"),
    **common.chip_name(_PWMFAN, "pwmfan"),
    **common.chip_name(_INA, "ina3221"),
    **common.chip_name(_OC, "soctherm_oc"),
    **{f"{HWMON}/hwmon{_INA}/in{i}_label": f"{rail}\n" for i, rail in enumerate(_RAILS, 1)},
    **{f"{HWMON}/hwmon{_INA}/in{i}_enable": "1\n" for i, _ in enumerate(_RAILS, 1)},
    **{f"{HWMON}/hwmon{_INA}/shunt{i}_resistor": f"{_SHUNT_MICRO_OHM}\n" for i, _ in enumerate(_RAILS, 1)},
    f"{HWMON}/hwmon{_INA}/update_interval": "430\n",
    **{f"{HWMON}/hwmon{_OC}/oc{n}_throt_en": "1\n" for n in (1, 2, 3)},
    **{f"{HWMON}/hwmon{_OC}/oc{n}_event_cnt": "0\n" for n in (1, 2)},
}


def files(machine: Machine) -> Files:
    state = machine.cooling_state
    return {
        **common.temperature(0, machine.celsius),
        **common.temperature(1, machine.celsius - 1.5),
        **common.cooling_state(_CPUFREQ, state),
        **common.cooling_state(_ALERT, int(state > 0)),
        **common.cooling_state(_FAN, machine.fan),
        **common.clock(machine.clock_mhz, machine.clock_mhz),
        **common.fan(_PWMFAN, machine),
        **_rails(machine),
        f"{HWMON}/hwmon{_OC}/oc3_event_cnt": f"{machine.over_current_events:.0f}\n",
    }


def _rails(machine: Machine) -> Files:
    """Voltage in mV, current in mA; DDR and I/O are in VDD_IN and in no other rail."""
    cpu_w, soc_w = 0.5 + machine.cpu_w, 1.4 + 0.3 * machine.busy
    watts = (1.9 + 1.05 * (cpu_w + soc_w), cpu_w, soc_w)
    folder = f"{HWMON}/hwmon{_INA}"
    return {
        **{f"{folder}/in{i}_input": f"{_VOLTS * 1000:.0f}\n" for i, _ in enumerate(watts, 1)},
        **{f"{folder}/curr{i}_input": f"{w / _VOLTS * 1000:.0f}\n" for i, w in enumerate(watts, 1)},
    }
