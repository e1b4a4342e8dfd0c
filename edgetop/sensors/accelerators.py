"""How busy the GPU, the NPU and the memory controller are, in percent, where the board tells.

Found by what their files say, since every vendor has its own: Tegra's integrated GPU in
permille, Rockchip's devfreq devices as `load@frequency`, the RKNPU driver in debugfs, amdgpu
in percent. On Tegra the load of the memory controller is not told: its activity counter is in
cycles per ms of a clock whose ratio to the EMC's differs between boards (nvidia-oot, driver
tegra-cactmon-mc-all, central_actmon_mc_all_get).
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from edgetop.sensors.numbers import parse_int
from edgetop.sensors.protocol import Found, Gap, Missing, join, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

CADENCE_S = 1.0

DEVFREQ, DRM, PLATFORM = "sys/class/devfreq", "sys/class/drm", "sys/devices/platform"
RKNPU_DEBUG, RKNPU_MODULE = "sys/kernel/debug/rknpu/load", "sys/module/rknpu"
COMPATIBLE = "proc/device-tree/compatible"

# Tegra's GPUs by what their device is called: Nano, TX2, Xavier, Orin.
_TEGRA_GPU = re.compile(r".*\.(gpu|gm20b|gp10b|gv11b|ga10b)")
# Rockchip's devices by what their devfreq device is called: fb000000.gpu, fdab0000.npu, dmc.
_ROCKCHIP = {"gpu": "gpu", "npu": "npu", "dmc": "emc"}


@dataclass(frozen=True, slots=True)
class AcceleratorLoad:
    """One file and how it is read."""

    root: Root
    file: str
    sensors: tuple[SensorInfo, ...]
    parse: Callable[[str], float]
    cadence_s: float = CADENCE_S

    @property
    def name(self) -> str:
        return self.sensors[0].id

    def read(self) -> Sequence[float | Gap]:
        return [self.parse(self.root.read_text(self.file))]


def permille(text: str) -> float:
    """Tegra's `load`, 0 to 1000 (nvgpu, gk20a_load_show).

    >>> permille("77")
    7.7
    """
    return _within(parse_int(text.strip()), 1000) / 10


def percent(text: str) -> float:
    """amdgpu's `gpu_busy_percent` (Documentation/gpu/amdgpu/thermal.rst)."""
    return _within(parse_int(text.strip()), 100)


def load_at_clock(text: str) -> float:
    """Rockchip's devfreq `load`.

    >>> load_at_clock("72@800000000Hz")
    72.0
    """
    load, at, clock = text.strip().partition("@")
    if not at or not clock.endswith("Hz"):
        raise ValueError(f"not a load at a clock: {text[:40]!r}")
    return _within(parse_int(load), 100)


_CORE = re.compile(r"(?:Core[0-9]+|NPU load):\s*([0-9]{1,20})%")


def rknpu_load(text: str) -> float:
    """The mean over the NPU's cores; older drivers tell one figure (RKNPU driver, rknpu_debugger.c).

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
    found = [_tegra(root), _devfreq(root), _rknpu(root), _amdgpu(root), _intel(root)]
    return _numbered(join(found))


def _source(root: Root, label: str, file: str, parse: Callable[[str], float], note: str | None = None) -> Found:
    return Found((AcceleratorLoad(root, file, (sensor("load", label, root.shown(file), note=note),), parse),))


def _tegra(root: Root) -> Found:
    if not is_tegra(root):
        return Found()
    emc = Missing(
        "load/emc",
        "the kernel tells no share of the memory controller's time on Tegra",
        "run beside it, as root: sudo tegrastats (EMC_FREQ)",
    )
    candidates = [
        "sys/devices/gpu.0/load",  # JetPack 4
        f"{PLATFORM}/gpu.0/load",  # JetPack 5 and later
        *(f"{PLATFORM}/{name}/load" for name in root.names(PLATFORM) if _TEGRA_GPU.fullmatch(name)),
        *(f"{PLATFORM}/bus@0/{name}/load" for name in root.names(f"{PLATFORM}/bus@0") if _TEGRA_GPU.fullmatch(name)),
    ]
    file = next((file for file in candidates if root.exists(file)), None)  # several names of one device
    if file is None:
        return Found(missing=(Missing("load/gpu", "its driver has no file `load`"), emc))
    return join([_source(root, "gpu", file, permille), Found(missing=(emc,))])


def _devfreq(root: Root) -> Found:
    """Rockchip's. The NPU's is left to its driver where that tells: see _rknpu."""
    found = []
    for name in root.names(DEVFREQ):
        label = _ROCKCHIP.get(name.rpartition(".")[2])
        file = f"{DEVFREQ}/{name}/load"
        if label is None or not root.exists(file) or (label == "npu" and root.exists(RKNPU_DEBUG)):
            continue
        found.append(_source(root, label, file, load_at_clock))
    return join(found)


def _rknpu(root: Root) -> Found:
    if root.exists(RKNPU_DEBUG):
        return _source(root, "npu", RKNPU_DEBUG, rknpu_load, "mean over its cores")
    npus = [name for name in root.names(DEVFREQ) if name.endswith(".npu")]
    if not (npus or root.exists(RKNPU_MODULE)) or any(root.exists(f"{DEVFREQ}/{name}/load") for name in npus):
        return Found()
    why = f"the RKNPU driver tells it in {root.shown(RKNPU_DEBUG)}, which only root may read"
    return Found(missing=(Missing("load/npu", why, "start edgetop with sudo"),))


def _amdgpu(root: Root) -> Found:
    files = [f"{card}/device/gpu_busy_percent" for card in _cards(root)]
    return join([_source(root, "gpu", file, percent) for file in files if root.exists(file)])


def _intel(root: Root) -> Found:
    if not any(root.names(f"{card}/gt") for card in _cards(root)):  # i915's own folder
        return Found()
    return Found(missing=(Missing("load/gpu", "the i915 driver tells it as perf events alone", "sudo intel_gpu_top"),))


def _cards(root: Root) -> list[str]:
    return [f"{DRM}/{name}" for name in root.names(DRM) if re.fullmatch(r"card[0-9]+", name)]


def _numbered(found: Found) -> Found:
    """Several devices of a kind are told apart by a number."""
    count: dict[str, int] = {}
    sources = []
    for source in found.sources:
        assert isinstance(source, AcceleratorLoad)
        (info,) = source.sensors
        number = count[info.id] = count.get(info.id, 0) + 1
        sources.append(source if number == 1 else replace(source, sensors=(replace(info, id=f"{info.id}-{number}"),)))
    return Found(tuple(sources), found.missing)


def is_tegra(root: Root) -> bool:
    """Whether the board is a Jetson, or another with NVIDIA's SoC."""
    try:
        return "nvidia,tegra" in root.read_text(COMPATIBLE)
    except OSError:
        return False
