"""The load that other processes put on NVIDIA GPUs, read with NVML.

A GPU divides its time among the processes that use it, so an inference on the GPU may wait while the CPU does not.
NVML API reference: nvmlDeviceGetProcessUtilization returns samples of the share of the time in which kernels of a
process ran (`smUtil`, in percent). The driver keeps a few samples of each process and takes one about every 0.2 to 1 s.
NVML counts processes by the ids that the host has, so in a container the engine cannot be told from others.
"""

import importlib
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from edgetop.sensors.nvml import DRIVER
from edgetop.sensors.process_table import HOST
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, SensorEvent, sensor
from edgetop.session.event_kinds import GpuCompeting

NAME = "load/gpu-others"
CADENCE_S = 2.0
MOST_PCT = 100
NAMED_PCT = 10.0  # load of other processes from which the largest is named
AGAIN_S = 30.0  # time after which the same name is reported again
# What /proc/self/ns/pid is outside of containers: PROC_PID_INIT_INO of include/linux/proc_ns.h.
OF_HOST = "pid:[4026531836]"
IN_CONTAINER = "in a container, the process ids of NVML are unknown"


class _Usage:
    """Reads the load that processes other than the engine and edgetop put on one GPU."""

    def __init__(self, nvml: Any, handle: Any, ours: frozenset[int]) -> None:
        """Prepare to read. `ours` are the process ids of the engine and of edgetop.

        `nvml` is the module `pynvml`, and `handle` is its handle of the GPU.
        """
        self._nvml, self._handle, self._ours = nvml, handle, ours
        self._since_us = 0  # time of the last sample, as NVML counts
        self.largest = (0, 0.0)  # process with the highest load at the last call, and this load in percent

    def load_pct(self) -> float | Gap:
        """Return the load that processes other than the engine and edgetop put on the GPU, in percent.

        The load is that since the last call. At the first call the result is a gap.
        """
        is_first, self.largest = self._since_us == 0, (0, 0.0)
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._since_us)
        except self._nvml.NVMLError as error:
            # No sample: nothing used the GPU. Without samples, pynvml raises an error even for success.
            if error.value in (self._nvml.NVML_SUCCESS, self._nvml.NVML_ERROR_NOT_FOUND):
                return 0.0
            return Gap(f"NVML: {error}")
        fresh = [one for one in samples if one.timeStamp > self._since_us and 0 <= one.smUtil <= MOST_PCT and one.pid]
        self._since_us = max((int(one.timeStamp) for one in fresh), default=self._since_us)
        if is_first:  # samples of a time before the session
            return Gap("the first reading")
        loads: dict[int, list[int]] = {}
        for one in fresh:
            if one.pid not in self._ours:
                loads.setdefault(int(one.pid), []).append(int(one.smUtil))
        means = {pid: sum(load) / len(load) for pid, load in loads.items()}
        self.largest = max(means.items(), key=lambda one: (one[1], -one[0]), default=self.largest)
        return min(float(sum(means.values())), float(MOST_PCT))


class _Names:
    """Makes an event that names the process which uses a GPU most, if others use it enough to slow the engine."""

    def __init__(self, root: Root, now: Callable[[], float]) -> None:
        self.events: list[SensorEvent] = []
        self._root, self._now = root, now
        self._reported = "", float("-inf")  # name, and when, in s

    def note(self, load_pct: float, largest: tuple[int, float]) -> None:
        """Note the load of all other processes on a GPU, and the largest of them as (process id, percent)."""
        pid, percent = largest
        if load_pct < NAMED_PCT or not pid:
            return
        name, at_s = self._root.line(f"proc/{pid}/comm") or f"process {pid}", self._now()
        if name != self._reported[0] or at_s - self._reported[1] >= AGAIN_S:
            self._reported = name, at_s
            text = f"other processes took the GPU: {name} {percent:.0f} %"
            self.events.append(SensorEvent(GpuCompeting(name, round(percent, 1)), text))


def discover_engine(pid: int, root: Root, load: Callable[[str], Any] = importlib.import_module) -> Found:
    """Return a source of the load that processes other than the engine (`pid`) and edgetop put on the GPU.

    With several GPUs, the sensor has the load of the GPU that these processes use most. Without NVIDIA's driver, the
    result is empty. `load` imports a module by name.
    """
    if not root.is_host or not root.exists(DRIVER):
        return Found()
    return discover_on_gpus(pid, load, str(Path("/proc/self/ns/pid").readlink()))


def discover_on_gpus(
    pid: int,
    load: Callable[[str], Any],
    namespace: str,
    root: Root = HOST,
    now: Callable[[], float] = time.monotonic,
) -> Found:
    """Return what `discover_engine` returns on a machine with NVIDIA's driver.

    `namespace` is the name of this process's namespace of process ids, such as `pid:[4026531836]`. `root` has the files
    of processes, and `now` returns the present time in seconds.
    """
    try:
        nvml = load("pynvml")
        nvml.nvmlInit()
    except Exception:  # noqa: BLE001  missing, or of any error: the board's sensors say why
        return Found()
    if namespace != OF_HOST:
        return Found(missing=(Missing(NAME, IN_CONTAINER),))
    ours = frozenset((pid, os.getpid()))
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        return Found(missing=(Missing(NAME, f"NVML: {error}"),))
    usages = [_Usage(nvml, handle, ours) for handle in handles if _is_supported(nvml, handle)]
    if not usages:
        return Found(missing=(Missing(NAME, "this GPU does not report the load of single processes"),))
    info = sensor("load", "gpu-others", "NVML", note="of processes other than the engine and edgetop")
    names = _Names(root, now)
    read = partial(_most, usages, names)
    return Found((Reader((info,), read, CADENCE_S, "other processes on the GPU", events=names.events),))


def _most(usages: list[_Usage], names: _Names) -> list[float | Gap]:
    read = [usage.load_pct() for usage in usages]
    known = [(value, usage.largest) for value, usage in zip(read, usages, strict=True) if isinstance(value, float)]
    if not known:
        return [read[0]]
    load_pct, largest = max(known)
    names.note(load_pct, largest)
    return [load_pct]


def _is_supported(nvml: Any, handle: Any) -> bool:
    try:
        nvml.nvmlDeviceGetProcessUtilization(handle, 0)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound, nvml.NVMLError_NoPermission):
        return False
    except nvml.NVMLError:
        return True
    return True
