"""Cooling devices: what the kernel can turn to get the heat down, and whether it slows the computation.

ABI: Documentation/ABI/testing/sysfs-class-thermal. A state above 0 alone says nothing: fans,
warnings of a hot surface, DRAM refresh and the voltage floors of older Jetsons are cooling
devices too. What slows the computation is told by the `type` that its driver gives it.
"""

import re
from dataclasses import dataclass

from edgetop.sensors.protocol import sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

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


def throttles(cooling_type: str) -> bool:
    """Whether a cooling device of this type slows the computation.

    >>> [throttles(t) for t in ("cpufreq-cpu0", "cpu-throttle-alert", "pwm-fan", "hot-surface-alert", "tegra-dram")]
    [True, True, False, False, False]
    """
    return _THROTTLING.fullmatch(cooling_type) is not None


@dataclass(frozen=True, slots=True)
class CoolingDevice:
    root: Root
    folder: str
    type: str
    label: str

    @property
    def throttles(self) -> bool:
        return throttles(self.type)

    @property
    def info(self) -> SensorInfo:
        return sensor(
            "cooling",
            self.label,
            self.root.shown(f"{self.folder}/cur_state"),
            throttles=self.throttles,
            max_state=_max_state(self.root, self.folder),
            note=_NOTES.get(self.type),
        )

    def state(self) -> float:
        """0: does nothing. Raises OSError, or ValueError where the file holds no state."""
        state = self.root.read_int(f"{self.folder}/cur_state")
        if state < 0 and self.type == "intel_powerclamp":
            return 0.0  # as older kernels have it while it injects no idle time
        if state < 0:
            raise ValueError(f"no state: {state}")
        return float(state)


_NOTES = {
    "TCC Offset": "how many degrees below TjMax the CPU throttles; above 0 at rest",
    "hot-surface-alert": "a warning of a surface too hot to touch",
}


def find(root: Root) -> tuple[CoolingDevice, ...]:
    """Every cooling device that tells its type, labelled by its number and that: several have the same type."""
    devices = ((name, root.line(f"{DEVICES}/{name}/type")) for name in root.names(DEVICES) if name.startswith(PREFIX))
    return tuple(
        CoolingDevice(root, f"{DEVICES}/{name}", kind, f"{name.removeprefix(PREFIX)}-{kind.replace('/', '-')}")
        for name, kind in devices
        if kind
    )


def _max_state(root: Root, folder: str) -> int | None:
    try:
        return root.read_int(f"{folder}/max_state")
    except (OSError, ValueError):
        return None
