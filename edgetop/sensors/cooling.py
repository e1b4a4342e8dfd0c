"""Cooling devices: what the kernel can turn to get the heat down, and whether it slows the computation.

ABI: Documentation/ABI/testing/sysfs-class-thermal. A state above 0 alone says nothing: fans,
warnings of a hot surface, DRAM refresh and the voltage floors of older Jetsons are cooling
devices too. What slows the computation is told by the `type` that its driver gives it.
"""

import re

from edgetop.sensors.protocol import sensor
from edgetop.sensors.root import Root

DEVICES = "sys/class/thermal"
PREFIX = "cooling_device"

# In this order: drivers/thermal/{cpufreq,devfreq,cpuidle}_cooling.c, on older kernels numbered as in
# thermal-cpufreq-0; drivers/acpi/processor_thermal.c; drivers/thermal/intel/intel_powerclamp.c;
# drivers/gpu/drm/etnaviv/etnaviv_gpu.c, named by its device, which halves its clock with each state;
# NVIDIA's device trees of JetPack 5 to 7 (an alert for each block) and of JetPack 4 (the "balanced" steps
# of all clocks, and the heavy one of the hardware). Not among them: tegra-dram, CORE-floor, CORE-cap, the
# scaling of voltages with cold, and hot-surface-alert.
_THROTTLING = re.compile(
    r"(thermal-)?(cpu|dev|gpu)freq-.+"
    r"|(thermal-)?idle-.+"
    r"|Processor"
    r"|intel_powerclamp"
    r"|[0-9a-f]+\.gpu"
    r"|.+-throttle-alert"
    r"|(cpu|gpu|emergency)-balanced"
    r"|tegra_heavy"
)
_NOTES = {
    "TCC Offset": "how many degrees below TjMax the CPU throttles; above 0 at rest",
    "hot-surface-alert": "a warning of a surface too hot to touch",
}


def throttles(cooling_type: str) -> bool:
    """Whether a cooling device of this type slows the computation.

    >>> [throttles(t) for t in ("cpufreq-cpu0", "cpu-throttle-alert", "pwm-fan", "hot-surface-alert", "tegra-dram")]
    [True, True, False, False, False]
    """
    return _THROTTLING.fullmatch(cooling_type) is not None


class CoolingDevice:
    """One device, labelled by its number and its type: several have the same type."""

    def __init__(self, root: Root, name: str, kind: str) -> None:
        folder = f"{DEVICES}/{name}"
        self.type, self.throttles = kind, throttles(kind)
        self._file = root.file(f"{folder}/cur_state")
        self.info = sensor(
            "cooling",
            f"{name.removeprefix(PREFIX)}-{kind.replace('/', '-')}",
            root.absolute(f"{folder}/cur_state"),
            throttles=self.throttles,
            max_state=root.number(f"{folder}/max_state"),
            note=_NOTES.get(kind),
        )

    def state(self) -> float:
        """0: does nothing. Raises OSError, or ValueError where the file holds no state."""
        state = self._file.read_int()
        if state < 0 and self.type == "intel_powerclamp":
            return 0.0  # as older kernels have it while it injects no idle time
        if state < 0:
            raise ValueError(f"no state: {state}")
        return float(state)


def find(root: Root) -> tuple[CoolingDevice, ...]:
    """Every cooling device that tells its type."""
    devices = ((name, root.line(f"{DEVICES}/{name}/type")) for name in root.names(DEVICES) if name.startswith(PREFIX))
    return tuple(CoolingDevice(root, name, kind) for name, kind in devices if kind)
