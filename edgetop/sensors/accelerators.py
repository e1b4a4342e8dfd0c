"""The load of the GPU, the NPU and the memory controller in percent, if the board reports it.

Every vendor has its own files. Tegra's integrated GPU reports permille, Rockchip's devices report `load@frequency`, the
RKNPU driver has a text in debugfs, and amdgpu reports percent. For Tegra's memory controller (EMC), debugfs has two
figures: its activity in kHz and its clock in Hz. The load is the activity divided by the clock.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from edgetop.sensors.clocks import DEBUG, DEVFREQ, EMC_CLOCK
from edgetop.sensors.root import Root, is_compatible, parse_int
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, attempt, distinct, file_reader, join, sensor

DRM, PLATFORM = "sys/class/drm", "sys/devices/platform"
RKNPU_DEBUG, RKNPU_MODULE = f"{DEBUG}/rknpu/load", "sys/module/rknpu"
# The same text, which everybody may read, in kernels with CONFIG_ROCKCHIP_RKNPU_PROC_FS (rknpu_debugger.c).
RKNPU_PROC = "proc/rknpu/load"

# Names of the devices of Tegra's GPUs: gpu.0, a link that every JetPack has; or an address with a name: 57000000.gpu
# (Nano), 17000000.gp10b (TX2), .gv11b (Xavier), .ga10b (Orin, JetPack 5), .gpu (Orin, JetPack 6 and 7); or gpu-gpc-0
# (Thor). Sources: jetson_stats, jtop/core/gpu.py, find_igpu, and jtop/core/thor_gpu.py, which looks for `load` there;
# nicolargo/glances#3580 for JetPack 7.
_TEGRA_GPU = re.compile(r"gpu\.[0-9]+|gpu-gpc-[0-9]+|[0-9a-f]+\.(?:gpu|g[mpva][0-9]+b)")
# Folders of these devices: JetPack 4; 5; 6 and 7; the last two with the older kernels of the Nano and TX2.
_TEGRA_FOLDERS = ("sys/devices", PLATFORM, f"{PLATFORM}/bus@0", f"{PLATFORM}/host1x", "sys/devices/host1x")

# Files with the activity of Tegra's memory controller: a running mean in kHz of the EMC's clock. JetPack 4 and 5:
# /sys/kernel/actmon_avg_activity, which everybody may read (NVIDIA's drivers/platform/tegra/actmon_common.c,
# avgactv_show and actmon_dev_avg_freq_get), and the same in debugfs. JetPack 6: counts per ms of the same register
# (nvidia-oot, tegra-cactmon-mc-all.c, central_actmon_mc_all_get).
_EMC_ACTIVITY = (
    "sys/kernel/actmon_avg_activity/mc_all",
    f"{DEBUG}/tegra_central_actmon/mc_all/avg_activity",
    f"{DEBUG}/tegra_actmon/emc/avg_activity",
    f"{DEBUG}/cactmon/mc_all",
)
# With newer kernels only the BPMP's firmware reports the activity. No public source gives its unit.
_EMC_FIRMWARE = f"{DEBUG}/bpmp/debug/actmon/mc_all_avg_activity"
# Labels of Rockchip's devfreq devices by the end of their names: fb000000.gpu, fdab0000.npu, dmc.
_ROCKCHIP = {"gpu": "gpu", "npu": "npu", "dmc": "emc"}


def permille(text: str) -> float:
    """Return a GPU's load in percent. `text` is what Tegra's file `load` contains: a number from 0 to 1000.

    Source: nvgpu, gk20a_load_show.

    >>> permille("77")
    7.7
    """
    return _within(parse_int(text.strip()), 1000) / 10


def percent(text: str) -> float:
    """Return a load in percent from the text of amdgpu's `gpu_busy_percent` (Documentation/gpu/amdgpu/thermal.rst).

    Raises ValueError if the text is no number from 0 to 100.
    """
    return _within(parse_int(text.strip()), 100)


def share_of_clock(activity_khz: str, clock_hz: str) -> float:
    """Return the load of Tegra's memory controller in percent: its activity divided by its clock.

    `activity_khz` and `clock_hz` are the texts of the files with the activity in kHz and the clock in Hz. Raises
    ValueError if the activity is greater than the clock, or if the clock is 0. tegrastats computes the load in the same
    way.

    >>> share_of_clock("661230", "2133000000")
    31.0
    """
    busy_khz, hertz = (parse_int(text.strip()) for text in (activity_khz, clock_hz))
    if not 0 <= busy_khz * 1000 <= hertz or not hertz:
        raise ValueError(f"its activity reads {busy_khz} kHz, of a clock of {hertz / 1000:g} kHz")
    return busy_khz * 100_000 / hertz


def load_at_clock(text: str) -> float:
    """Return the load in percent from the text of the file `load` of a Rockchip device.

    >>> load_at_clock("72@800000000Hz")
    72.0
    """
    load, at, clock = text.strip().partition("@")
    if not at or not clock.endswith("Hz"):
        raise ValueError(f"not a load at a clock: {text[:40]!r}")
    return _within(parse_int(load), 100)


_CORE = re.compile(r"(?:Core[0-9]+|NPU load):\s*([0-9]{1,20})%")


def rknpu_load(text: str) -> float:
    """Return the load of Rockchip's NPU in percent, as the mean over its cores (rknpu_debugger.c).

    `text` is what the driver's file contains. Older drivers give one figure for all cores.

    >>> rknpu_load("NPU load:  Core0: 90%, Core1:  0%, Core2:  0%,"), rknpu_load("NPU load:  37%")
    (30.0, 37.0)
    """
    loads = [_within(int(match[1]), 100) for match in _CORE.finditer(text)]
    if not text.startswith("NPU load:") or len(loads) != max(1, text.count("Core")):
        raise ValueError(f"not a load of NPU cores: {text[:40]!r}")
    return sum(loads) / len(loads)


def _within(value: int, most: int) -> float:
    if not 0 <= value <= most:
        raise ValueError(f"reads {value}, which is not within 0 and {most}")
    return float(value)


def discover(root: Root) -> Found:
    tegra = (_tegra_gpu(root), _tegra_emc(root)) if is_compatible(root, "nvidia,tegra") else ()
    found = join([*tegra, _rockchip(root), _drm(root)])
    # Several devices of a kind get numbers.
    readers = [source for source in found.sources if isinstance(source, Reader)]
    labels = distinct([reader.sensors[0].label for reader in readers])
    infos = [replace(reader.sensors[0], id=f"load/{label}") for reader, label in zip(readers, labels, strict=True)]
    sources = (replace(reader, sensors=(info,), name=info.id) for reader, info in zip(readers, infos, strict=True))
    return Found(tuple(sources), found.missing)


def _source(root: Root, label: str, file: str, parse: Callable[[str], float], note: str | None = None) -> Found:
    return Found((file_reader(root, file, sensor("load", label, root.absolute(file), note=note), parse),))


def _tegra_gpu(root: Root) -> Found:
    names = [name for name in root.names(DEVFREQ) if _TEGRA_GPU.fullmatch(name)]
    devices = [f"{DEVFREQ}/{name}{place}" for name in names for place in ("/device", "")]
    for folder in _TEGRA_FOLDERS:
        devices += [f"{folder}/{name}" for name in root.names(folder) if _TEGRA_GPU.fullmatch(name)]
    files = [f"{device}/load" for device in devices if root.exists(f"{device}/load")]
    if not files:
        return Found(missing=(Missing("load/gpu", "the GPU's driver has no file `load`"),))
    # These may be several names of one device: take the first whose content is valid.
    sources = [_source(root, "gpu", file, permille) for file in files]
    return next((found for found in sources if not isinstance(attempt(found.sources[0].read), Gap)), sources[0])


def _tegra_emc(root: Root) -> Found:
    activity, clock = (next(filter(root.exists, files), None) for files in (_EMC_ACTIVITY, EMC_CLOCK))
    is_denied = any(file and root.is_denied(file) for file in (activity, clock))
    if activity and clock and not is_denied:
        note = f"activity of the memory controller by its clock, {root.absolute(clock)}"
        load = sensor("load", "emc", root.absolute(activity), note=note)
        files = (root.file(activity), root.file(clock))
        return Found((Reader((load,), lambda: [share_of_clock(*(file.read_text() for file in files))]),))
    fix = "run beside it, as root: sudo tegrastats (EMC_FREQ)"
    if not root.names(DEBUG) or is_denied:
        what = "the memory controller's clock is" if activity else "the memory controller's activity and clock are"
        why, fix = f"{what} reported in {root.absolute(DEBUG)}, which only root may read", "start edgetop with sudo"
    elif clock and root.exists(_EMC_FIRMWARE):
        why = f"the firmware reports its activity in {root.absolute(_EMC_FIRMWARE)}, in an unknown unit"
    else:
        why = f"the kernel does not report the memory controller's {'clock' if activity else 'activity'}"
    return Found(missing=(Missing("load/emc", why, fix),))


def _rockchip(root: Root) -> Found:
    """Return the load sensors of a Rockchip board's GPU, NPU and memory controller.

    For the NPU, the driver's own file in debugfs or procfs is preferred to the driver's file in devfreq.
    """
    own = next((file for file in (RKNPU_DEBUG, RKNPU_PROC) if root.exists(file)), None)
    parts = []
    for name in root.names(DEVFREQ):
        label, file = _ROCKCHIP.get(name.rpartition(".")[2]), f"{DEVFREQ}/{name}/load"
        if label is not None and root.exists(file) and not (label == "npu" and own):
            parts.append(_source(root, label, file, load_at_clock))
    npus = [name for name in root.names(DEVFREQ) if name.endswith(".npu")]
    if own:
        parts.append(_source(root, "npu", own, rknpu_load, "mean over its cores"))
    elif (npus or root.exists(RKNPU_MODULE)) and not any(root.exists(f"{DEVFREQ}/{name}/load") for name in npus):
        why = f"the RKNPU driver reports it in {root.absolute(RKNPU_DEBUG)}, which only root may read"
        parts.append(Found(missing=(Missing("load/npu", why, "start edgetop with sudo"),)))
    return join(parts)


def _drm(root: Root) -> Found:
    """Return the load sensors of AMD's GPUs. For Intel's GPUs, return the reason why there is no such sensor."""
    cards = [f"{DRM}/{name}" for name in root.names(DRM) if re.fullmatch(r"card[0-9]+", name)]
    files = [f"{card}/device/gpu_busy_percent" for card in cards]
    parts = [_source(root, "gpu", file, percent) for file in files if root.exists(file)]
    files = [f"{card}/device/mem_busy_percent" for card in cards]  # amdgpu's memory controller
    parts += [_source(root, "gpu-memory", file, percent) for file in files if root.exists(file)]
    if any(root.names(f"{card}/gt") for card in cards):  # i915's own folder
        why = "the i915 driver reports it as perf events only"
        parts.append(Found(missing=(Missing("load/gpu", why, "sudo intel_gpu_top"),)))
    return join(parts)
