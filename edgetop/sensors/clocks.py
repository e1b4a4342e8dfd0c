"""CPU clocks and the cap in force, per cpufreq policy.

ABI: Documentation/admin-guide/pm/cpufreq.rst. `scaling_cur_freq` is what the governor asked
for or the hardware reports; firmware caps (Raspberry Pi) are not in it. `cpuinfo_cur_freq` is
never read: on Tegra it measures the hardware and disturbs the policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from edgetop.sensors.protocol import Found, Gap, Missing, attempt, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

POLICIES = "sys/devices/system/cpu/cpufreq"
NO_TURBO = "sys/devices/system/cpu/intel_pstate/no_turbo"
CADENCE_S = 1.0
OFFLINE = Gap("its CPUs are offline")


@dataclass(frozen=True, slots=True)
class CpuClock:
    """The clock and the cap of one policy: the CPUs that change frequency together."""

    root: Root
    folder: str
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S

    @property
    def name(self) -> str:
        return self.sensors[0].id

    def read(self) -> Sequence[float | Gap]:
        # Of a policy without a CPU left every read is EBUSY, which explains nothing.
        if self.root.exists(f"{self.folder}/affected_cpus") and not self.root.line(f"{self.folder}/affected_cpus"):
            return [OFFLINE, OFFLINE]
        return [attempt(partial(self._mhz, name)) for name in ("scaling_cur_freq", "scaling_max_freq")]

    def _mhz(self, name: str) -> float | Gap:
        return self.root.read_int(f"{self.folder}/{name}") / 1000


def discover(root: Root) -> Found:
    policies = [f"{POLICIES}/{name}" for name in root.names(POLICIES) if name.startswith("policy")]
    clocks = tuple(CpuClock(root, folder, _sensors(root, folder)) for folder in policies)
    if clocks:
        return Found(clocks)
    return Found(missing=(Missing("CPU clocks", f"no cpufreq policy in {root.shown(POLICIES)}"),))


def _sensors(root: Root, folder: str) -> tuple[SensorInfo, ...]:
    label = f"cpu{folder.rpartition('policy')[2]}"
    max_mhz = _highest_mhz(root, folder)
    notes = [f"CPUs {cpus}"] if (cpus := root.line(f"{folder}/related_cpus")) else []
    notes += ["boost off"] if _boost_is_off(root, folder) else []
    note = ", ".join(notes) or None
    return (
        sensor("freq", label, root.shown(f"{folder}/scaling_cur_freq"), max=max_mhz, note=note),
        sensor("freqcap", label, root.shown(f"{folder}/scaling_max_freq"), max=max_mhz, note=note),
    )


def _highest_mhz(root: Root, folder: str) -> float | None:
    """Without boost, where it is off: drivers lower `cpuinfo_max_freq` then."""
    try:
        return root.read_int(f"{folder}/cpuinfo_max_freq") / 1000
    except (OSError, ValueError):
        return None


def _boost_is_off(root: Root, folder: str) -> bool:
    """By the policy's own switch, the one of all policies, or that of intel_pstate, which says it the other way."""
    switches = [root.line(f"{folder}/boost"), root.line(f"{POLICIES}/boost")]
    return "0" in switches or root.line(NO_TURBO) == "1"
