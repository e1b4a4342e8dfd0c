"""Memory that is not in any process's resident set: the GPU's on Jetson, and contiguous memory.

On Jetson the GPU shares the board's memory and its allocations are in no RSS: without this,
a model on the GPU seems to need none. The kernel tells the sum to everybody on JetPack 4 and
5 (`NvMapMemUsed` of /proc/meminfo) and each process's part to root
(debugfs, nvmap/iovmm/clients: nvidia-oot, drivers/video/tegra/nvmap/nvmap_dev.c). CMA is the
pool that cameras, codecs and some NPUs take theirs from (`CmaTotal`, `CmaFree`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgetop.sensors.memory import kib_as_mib, read_kib_fields, taken_mib
from edgetop.sensors.protocol import Found, Gap, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

CADENCE_S = 1.0
CLIENTS_CADENCE_S = 5.0  # the driver walks every handle of every client

MEMINFO, CLIENTS = "proc/meminfo", "sys/kernel/debug/nvmap/iovmm/clients"

# user                         gpu_burn     7979   23525644K
_CLIENT = re.compile(r"\S+\s+.*?\s+([0-9]{1,10})\s+([0-9]{1,15})([KM]?)")
_UNIT_MIB = {"": 2**-20, "K": 2**-10, "M": 1.0}


@dataclass(frozen=True, slots=True)
class SharedPools:
    """What of the board's memory the GPU's driver holds, and what is taken of CMA."""

    root: Root
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S
    name: str = "memory pools"

    def read(self) -> Sequence[float | Gap]:
        fields = read_kib_fields(self.root.read_text(MEMINFO))
        values = {
            "mem/system-accelerator": kib_as_mib(fields, "NvMapMemUsed"),
            "mem/system-cma": taken_mib(fields, "CmaTotal", "CmaFree"),
        }
        return [values[info.id] for info in self.sensors]


@dataclass(frozen=True, slots=True)
class NvmapClient:
    """The engine's part of the GPU's memory."""

    root: Root
    pid: int
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CLIENTS_CADENCE_S
    name: str = "mem/accelerator"

    def read(self) -> Sequence[float | Gap]:
        return [client_mib(self.root.read_text(CLIENTS), self.pid)]


def client_mib(text: str, pid: int) -> float:
    """What one process holds: nothing where it is in no line, since its first allocation makes one.

    Raises ValueError where this is no table of clients, or it may be in a line that is not understood.

    >>> client_mib("CLIENT  PROCESS  PID  SIZE\\nuser  gpu burn  7979  2048K\\ntotal  2048K\\n", 7979)
    2.0
    """
    head, *lines = text.splitlines() or [""]
    if head.split()[:1] != ["CLIENT"]:
        raise ValueError(f"not a table of clients: {head[:40]!r}")
    clients = [line.strip() for line in lines if line.split()[:1] not in ([], ["total"])]
    matches = [_CLIENT.fullmatch(line) for line in clients]
    own = [match for match in matches if match and int(match[1]) == pid]
    if not own and not all(matches):
        raise ValueError("a line of the table is not understood")
    return sum(int(match[2]) * _UNIT_MIB[match[3]] for match in own)


def is_readable(root: Root) -> bool:
    """Whether each process's part is told: debugfs is root's alone."""
    try:
        return root.read_text(CLIENTS).startswith("CLIENT")
    except OSError:
        return False


def discover(root: Root) -> Found:
    try:
        fields = read_kib_fields(root.read_text(MEMINFO))
    except OSError:
        return Found()  # told as missing by what reads the rest of it
    source = root.shown(MEMINFO)
    sensors = []
    if "NvMapMemUsed" in fields:
        note = "all processes together; in no resident set"
        sensors.append(sensor("mem", "system-accelerator", f"{source} NvMapMemUsed", note=note))
    if fields.get("CmaTotal") and "CmaFree" in fields:
        sensors.append(sensor("mem", "system-cma", f"{source} CmaTotal", note="taken of the contiguous pool"))
    return Found((SharedPools(root, tuple(sensors)),)) if sensors else Found()


def discover_engine(pid: int, root: Root) -> Found:
    """Nothing in a captured board: its processes are not ours."""
    if not root.is_host or not is_readable(root):
        return Found()
    return Found((NvmapClient(root, pid, (accelerator_sensor(root.shown(CLIENTS)),)),))


def accelerator_sensor(source: str) -> SensorInfo:
    return sensor("mem", "accelerator", source, note="the engine's part of the GPU's memory; in no resident set")
