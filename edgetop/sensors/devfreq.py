"""Clocks and caps of what computes beside the CPU: GPU, NPU, and the memory controller.

ABI: Documentation/ABI/testing/sysfs-class-devfreq, in Hz. `max_freq` is the limit in force: the user's, the
power mode's and that of a cooling device (drivers/thermal/devfreq_cooling.c). Video codecs and buses are left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from edgetop.sensors.labels import distinct
from edgetop.sensors.numbers import parse_int
from edgetop.sensors.protocol import Found, Gap, attempt, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

DEVFREQ = "sys/class/devfreq"
CADENCE_S = 1.0

# By the name of the device, without its address: 17000000.gpu, 17000000.ga10b (JetPack 5), 17000000.gv11b (Xavier),
# gpu-gpc-0 (Thor), fb000000.gpu (RK3588), 13000000.mali; fdab0000.npu; dmc (Rockchip), 3d400000.memory-controller
# (i.MX8M: drivers/devfreq/imx8m-ddrc.c), bwmgr (Thor: jetson_stats, jtop/core/memory.py).
_KINDS = (
    (re.compile(r"gpu|g[vamp]\d+b|mali|gpu-gpc-\d+"), "gpu"),
    (re.compile(r"npu"), "npu"),
    (re.compile(r"dmc|memory-controller|emc|external-memory-controller|bwmgr"), "memory"),
)


@dataclass(frozen=True, slots=True)
class DeviceClock:
    """The clock of one device and the limit in force."""

    root: Root
    folder: str
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S

    @property
    def name(self) -> str:
        return self.sensors[0].id

    def read(self) -> Sequence[float | Gap]:
        return [attempt(partial(self._mhz, name)) for name in ("cur_freq", "max_freq")]

    def _mhz(self, name: str) -> float | Gap:
        hertz = self.root.read_int(f"{self.folder}/{name}")
        return hertz / 1e6 if hertz >= 0 else Gap(f"reads {hertz} Hz")


def discover(root: Root) -> Found:
    kinds = ((name, _kind(name)) for name in root.names(DEVFREQ))
    devices = [(f"{DEVFREQ}/{name}", kind) for name, kind in kinds if kind]
    labels = distinct([kind for _, kind in devices])
    return Found(
        tuple(
            DeviceClock(root, folder, _sensors(root, folder, label))
            for (folder, _), label in zip(devices, labels, strict=True)
        )
    )


def _kind(name: str) -> str | None:
    """
    >>> [_kind(name) for name in ("17000000.ga10b", "fdab0000.npu", "dmc", "15340000.vic", "gpu-nvd-0")]
    ['gpu', 'npu', 'memory', None, None]
    """
    device = name.partition(".")[2] or name
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(device)), None)


def _sensors(root: Root, folder: str, label: str) -> tuple[SensorInfo, ...]:
    note = folder.rpartition("/")[2]
    max_mhz = _highest_mhz(root, folder)
    return (
        sensor("freq", label, root.shown(f"{folder}/cur_freq"), max=max_mhz, note=note),
        sensor("freqcap", label, root.shown(f"{folder}/max_freq"), max=max_mhz, note=note),
    )


def _highest_mhz(root: Root, folder: str) -> float | None:
    steps = (root.line(f"{folder}/available_frequencies") or "").split()
    try:
        return max((parse_int(step) / 1e6 for step in steps), default=None)
    except ValueError:
        return None
