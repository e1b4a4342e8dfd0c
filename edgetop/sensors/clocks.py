"""The clocks of CPU, GPU, NPU and memory controller, and the highest clocks that are allowed now (caps).

The CPU's clocks come from cpufreq, all other clocks from devfreq. Two clocks are often readable only by root: Tegra's
memory controller, which may be in debugfs alone, and the uncore of Intel's processors (mesh, last-level cache and
memory controller; Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst).

ABI: Documentation/admin-guide/pm/cpufreq.rst (kHz) and Documentation/ABI/testing/sysfs-class-devfreq (Hz).
`scaling_cur_freq` is the clock that the governor asked for or that the hardware reports; caps of the firmware
(Raspberry Pi) are not in it. `cpuinfo_cur_freq` is never read, since on Tegra it measures the hardware and disturbs the
policy. devfreq's `max_freq` is the lowest of the limits that the user, the power mode and a cooling device set
(drivers/thermal/devfreq_cooling.c). Video codecs and buses are left out.
"""

import re
from collections.abc import Iterator
from functools import partial

from edgetop.sensors.root import File, Root, is_compatible, parse_int
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, attempt_all, distinct, sensor
from edgetop.session.manifest import SensorInfo

POLICIES = "sys/devices/system/cpu/cpufreq"
NO_TURBO = "sys/devices/system/cpu/intel_pstate/no_turbo"
DEVFREQ = "sys/class/devfreq"
UNCORE = "sys/devices/system/cpu/intel_uncore_frequency"
DEBUG = "sys/kernel/debug"
OFFLINE = Gap("its CPUs are offline")

# Files with the clock of Tegra's memory controller (EMC) in Hz: of the BPMP from TX2 on; of the clock framework and the
# bandwidth manager on the Nano (bwmgr_mc.c, fops_debugfs_emc_rate); of devfreq on Thor (jetson_stats,
# jtop/core/memory.py, read_emc). The files with its highest clock stand beside them under these names.
EMC_CLOCK = (
    f"{DEBUG}/bpmp/debug/clk/emc/rate",
    f"{DEBUG}/clk/emc/clk_rate",
    f"{DEBUG}/tegra_bwmgr/emc_rate",
    f"{DEBUG}/clk/override.emc/clk_rate",
    f"{DEVFREQ}/bwmgr/cur_freq",
)
_HIGHEST = {"rate": "max_rate", "clk_rate": "clk_max_rate", "emc_rate": "emc_max_rate"}

# Kinds of devfreq devices by their names without the address. Examples: 17000000.gpu, 17000000.ga10b (JetPack 5),
# 17000000.gv11b (Xavier), gpu-gpc-0 (Thor), fb000000.gpu (RK3588), 13000000.mali; fdab0000.npu; dmc (Rockchip),
# 3d400000.memory-controller (i.MX8M: drivers/devfreq/imx8m-ddrc.c), bwmgr (Thor: jetson_stats, jtop/core/memory.py).
_KINDS = (
    (re.compile(r"gpu|g[vamp]\d+b|mali|gpu-gpc-\d+"), "gpu"),
    (re.compile(r"npu"), "npu"),
    (re.compile(r"dmc|memory-controller|emc|external-memory-controller|bwmgr"), "memory"),
)


def discover(root: Root) -> Found:
    clocks = tuple(_policy(root, folder) for folder in policies(root))
    missing = () if clocks else (Missing("CPU clocks", f"no cpufreq policy in {root.absolute(POLICIES)}"),)
    kinds = [(name, kind) for name in root.names(DEVFREQ) if (kind := device_kind(name))]
    labels = distinct([kind for _, kind in kinds])
    devices = [_device(root, name, label) for (name, _), label in zip(kinds, labels, strict=True)]
    memory = () if any(kind == "memory" for _, kind in kinds) else tuple(_tegra_memory(root))
    uncore = _uncore(root)
    return Found((*clocks, *devices, *memory, *uncore.sources), (*missing, *uncore.missing))


def _uncore(root: Root) -> Found:
    """Return sensors for the clock and the highest allowed clock of each uncore domain.

    The uncore is what an Intel processor has beside its cores: mesh, last-level cache and memory controller. A domain
    is a processor package or a part of it.
    """
    folders = [f"{UNCORE}/{name}" for name in root.names(UNCORE)]
    folders = [folder for folder in folders if root.exists(f"{folder}/current_freq_khz")]
    if any(root.is_denied(f"{folder}/current_freq_khz") for folder in folders):
        why = f"the uncore's clock is reported in {root.absolute(UNCORE)}, which only root may read"
        return Found(missing=(Missing("freq/uncore", why, "start edgetop with sudo"),))
    sources = []
    for folder, label in zip(folders, distinct(["uncore"] * len(folders)), strict=True):
        now, cap = (root.file(f"{folder}/{name}") for name in ("current_freq_khz", "max_freq_khz"))
        highest_khz = root.number(f"{folder}/initial_max_freq_khz")
        infos = _sensors(label, now, cap, highest_khz and highest_khz / 1000, folder.rpartition("/")[2])
        sources.append(Reader(infos, partial(attempt_all, [partial(_mhz, file, "kHz") for file in (now, cap)])))
    return Found(tuple(sources))


def has_memory_clock(root: Root) -> bool:
    """Return True if a file of the kernel gives this user the clock of the memory controller."""
    is_listed = any(device_kind(name) == "memory" for name in root.names(DEVFREQ))
    return is_listed or any(root.exists(file) and not root.is_denied(file) for file in EMC_CLOCK)


def _tegra_memory(root: Root) -> Iterator[Reader]:
    """Yield a reader of the clock of Tegra's memory controller, if this user may read the clock in debugfs."""
    if not is_compatible(root, "nvidia,tegra"):
        return
    found = next((file for file in EMC_CLOCK if root.exists(file) and not root.is_denied(file)), None)
    if found is not None:
        folder, _, name = found.rpartition("/")
        highest_hz = root.number(f"{folder}/{_HIGHEST[name]}") if name in _HIGHEST else None
        info = sensor("freq", "memory", root.absolute(found), max=highest_hz and highest_hz / 1e6, note="EMC")
        yield Reader((info,), partial(attempt_all, [partial(_mhz, root.file(found), "Hz")]))


def policies(root: Root) -> list[str]:
    """Return the folders of the cpufreq policies, such as `sys/devices/system/cpu/cpufreq/policy0`.

    A policy has CPUs that change their frequency together.
    """
    return [f"{POLICIES}/{name}" for name in root.names(POLICIES) if name.startswith("policy")]


def _policy(root: Root, folder: str) -> Reader:
    names = ("scaling_cur_freq", "scaling_max_freq", "affected_cpus")
    now, cap, cpus = (root.file(f"{folder}/{name}") for name in names)
    has_cpus = root.exists(cpus.relative)
    clocks = [partial(_mhz, file, "kHz") for file in (now, cap)]

    def read() -> Values:
        # All files of a policy without online CPUs give EBUSY, which explains nothing.
        return [OFFLINE, OFFLINE] if has_cpus and not cpus.line() else attempt_all(clocks)

    highest_khz = root.number(f"{folder}/cpuinfo_max_freq")  # lower if boost is off
    notes = [f"CPUs {related}"] if (related := root.line(f"{folder}/related_cpus")) else []
    # Boost has a switch for the policy, for all policies, or an inverted one of intel_pstate.
    switches = [root.line(f"{folder}/boost"), root.line(f"{POLICIES}/boost")]
    notes += ["boost off"] if "0" in switches or root.line(NO_TURBO) == "1" else []
    label = f"cpu{folder.rpartition('policy')[2]}"
    return Reader(_sensors(label, now, cap, highest_khz and highest_khz / 1000, ", ".join(notes) or None), read)


def device_kind(name: str) -> str | None:
    """Return the kind of a devfreq device by its name: "gpu", "npu" or "memory", or None for other devices.

    >>> [device_kind(name) for name in ("17000000.ga10b", "fdab0000.npu", "dmc", "15340000.vic", "gpu-nvd-0")]
    ['gpu', 'npu', 'memory', None, None]
    """
    device = name.partition(".")[2] or name
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(device)), None)


def _device(root: Root, name: str, label: str) -> Reader:
    now, cap = root.file(f"{DEVFREQ}/{name}/cur_freq"), root.file(f"{DEVFREQ}/{name}/max_freq")
    try:
        steps = (root.line(f"{DEVFREQ}/{name}/available_frequencies") or "").split()
        highest_mhz = max((parse_int(step) / 1e6 for step in steps), default=None)
    except ValueError:
        highest_mhz = None
    infos = _sensors(label, now, cap, highest_mhz, name)
    return Reader(infos, partial(attempt_all, [partial(_mhz, file, "Hz") for file in (now, cap)]))


def _mhz(file: File, unit: str) -> float | Gap:
    value = file.read_int()
    return value / (1e6 if unit == "Hz" else 1e3) if value >= 0 else Gap(f"reads {value} {unit}")


def _sensors(label: str, now: File, cap: File, highest_mhz: float | None, note: str | None) -> tuple[SensorInfo, ...]:
    absolute = now.root.absolute
    return (
        sensor("freq", label, absolute(now.relative), max=highest_mhz, note=note),
        sensor("freqcap", label, absolute(cap.relative), max=highest_mhz, note=note),
    )
