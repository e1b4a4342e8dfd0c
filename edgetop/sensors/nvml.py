"""Power, temperature, clock, load and memory of discrete NVIDIA GPUs, read with NVML.

The `pynvml` module of the nvidia-ml-py package is optional. It is imported only if the kernel has NVIDIA's driver, and
never with a captured board. A Jetson's own GPU answers "Not Supported" to all calls; its power is in the board's rails.
NVML API reference: nvmlDeviceGetTotalEnergyConsumption counts mJ since the driver was loaded (Volta and later);
nvmlDeviceGetPowerUsage gives mW with an accuracy of 5 %. NVML gives the reasons for the present clocks as the bits of a
number ("NvmlClocksEventReasons"). Only the bits for heat and power count as limits here. Other bits say, for example,
that the GPU is idle or that the user set the clocks. The bit HwSlowdown does not count, since it "may be also reported
during PState or clock change".
"""

import importlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from edgetop.installation import extra_command
from edgetop.sensors.counters import EnergyCounter
from edgetop.sensors.plausible import trip_c
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, sensor
from edgetop.session.manifest import SensorInfo
from edgetop.session.meter import Meter

DRIVER = "proc/driver/nvidia/version"
FASTEST_S = 0.2  # some GPUs update their values only every 100 ms
# A read of the energy counter took 4.5 ms of CPU time on an H200. The counter has the energy since the last read, so a
# slower pace loses no energy.
ENERGY_FASTEST_S = 1.0

MIB = 2**20
_POWER_NOTE = "the GPU's whole card: not the board it is plugged into"

# The second is the name before driver 535; CUDA 14 will no longer have it.
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
# Name of a limit, its bits in the word of reasons (nvml.h, NvmlClocksEventReasons), and what sets them.
_LIMITS = (
    ("thermal", 0x20 | 0x40, "SwThermalSlowdown or HwThermalSlowdown"),
    ("power-limit", 0x04 | 0x80, "SwPowerCap or HwPowerBrakeSlowdown"),
)

Probe = Callable[[], float | Gap]


def discover(root: Root, load: Callable[[str], Any] = importlib.import_module) -> Found:
    """Return readers for the NVIDIA GPUs of this machine. `load` imports a module by name.

    Without NVIDIA's driver nothing is returned, not even a reason.
    """
    if not root.is_host or not root.exists(DRIVER):
        return Found()
    return discover_gpus(load)


def discover_gpus(load: Callable[[str], Any]) -> Found:
    """Return readers for the NVIDIA GPUs of this machine, or the reason why there are none.

    `load` imports a module by name.
    """

    def nothing(why: str, fix: str | None = None) -> Found:
        return Found(missing=(Missing("NVIDIA GPU", why, fix),))

    try:
        nvml = load("pynvml")
    except ImportError:
        return nothing("there is an NVIDIA driver, but not its Python bindings", extra_command("nvml"))
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError as error:
        return nothing(f"NVML: {error}")
    sources = [source for i, handle in enumerate(handles) for source in _sources(nvml, handle, i, len(handles) > 1)]
    if handles and not sources:
        return nothing("NVML supports nothing on this GPU; a Jetson's is part of the board's rails")
    return Found(tuple(sources))


def _sources(nvml: Any, handle: Any, index: int, is_one_of_many: bool) -> list[Reader]:
    number = str(index) if is_one_of_many else ""
    where = f"/dev/nvidia{index} (NVML)"
    try:
        max_mhz = float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_GRAPHICS))
    except nvml.NVMLError:
        max_mhz = None
    limits = _trips(nvml, handle)
    power = sensor(
        "power", f"gpu{number}", where, role="part", accuracy="on-board-monitor", note=_POWER_NOTE, meter=Meter("nvml"),
        max=_limit_w(nvml, handle),
    )  # fmt: skip
    temperature = partial(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
    clock = partial(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_GRAPHICS)
    state: list[tuple[SensorInfo, Probe]] = [
        (sensor("temp", f"gpu{number}", where, trips=limits or None), temperature),
        (sensor("freq", f"gpu{number}", where, max=max_mhz), clock),
        (
            sensor("freq", f"gpu{number}-memory", where),
            partial(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
        ),
        (sensor("load", f"gpu{number}", where), lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        (sensor("load", f"gpu{number}-memory", where), lambda: nvml.nvmlDeviceGetUtilizationRates(handle).memory),
        (sensor("mem", f"accelerator{number}", where), lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / MIB),
    ]
    watts, fastest_s = _power_probe(nvml, handle)
    found = [_reader(nvml, f"power of GPU {index}", [(power, watts)], fastest_s)] if watts else []
    supported = [(info, probe) for info, probe in state if _is_supported(nvml, probe)]
    supported += _flags(nvml, handle, f"gpu{number}", where)
    return [*found, _reader(nvml, f"GPU {index}", supported)] if supported else found


def _trips(nvml: Any, handle: Any) -> dict[str, float]:
    """Return the temperatures in °C at which the GPU begins to throttle ("passive") and shuts down ("critical").

    A temperature that NVML does not report is left out. The GPU throttles from the lower of two limits: GPU_MAX, where
    the driver begins, and SLOWDOWN, where the hardware does. `nvml` is the module `pynvml`, and `handle` is its handle
    of the GPU.
    """

    def limit(name: str) -> float | None:
        try:
            return trip_c(1000 * nvml.nvmlDeviceGetTemperatureThreshold(handle, getattr(nvml, name)))
        except nvml.NVMLError:
            return None

    throttling = [limit("NVML_TEMPERATURE_THRESHOLD_GPU_MAX"), limit("NVML_TEMPERATURE_THRESHOLD_SLOWDOWN")]
    passive = min((celsius for celsius in throttling if celsius is not None), default=None)
    trips = {"passive": passive, "critical": limit("NVML_TEMPERATURE_THRESHOLD_SHUTDOWN")}
    return {name: celsius for name, celsius in trips.items() if celsius is not None}


def _limit_w(nvml: Any, handle: Any) -> float | None:
    """Return the power in W that the GPU may draw (nvmlDeviceGetEnforcedPowerLimit, in mW), or None if unknown.

    `nvml` is the module `pynvml`, and `handle` is its handle of the GPU.
    """
    try:
        limit_mw = float(nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    except (nvml.NVMLError, AttributeError):
        return None
    return limit_mw / 1e3 if limit_mw > 0 else None


def _flags(nvml: Any, handle: Any, name: str, where: str) -> list[tuple[SensorInfo, Probe]]:
    """Return two `(sensor, function that reads it)` pairs: whether heat slows the GPU down now, and whether power does.

    [] if NVML does not report this. `nvml` is the module `pynvml`, and `handle` is its handle of the GPU. `name` is the
    GPU's name, such as `gpu0`, and `where` is the sensors' source.
    """
    for function in _REASONS:
        ask = getattr(nvml, function, None)
        if ask is not None and _is_supported(nvml, lambda ask=ask: ask(handle)):  # type: ignore[misc]
            return [
                (sensor("throttle", f"{name}-{label}", where, note=note), partial(_is_set, ask, handle, bits))
                for label, bits, note in _LIMITS
            ]
    return []


def _is_set(ask: Callable[[Any], int], handle: Any, bits: int) -> float:
    return float(bool(ask(handle) & bits))


def _reader(nvml: Any, name: str, probes: Sequence[tuple[SensorInfo, Probe]], fastest_s: float = FASTEST_S) -> Reader:
    def one(probe: Probe) -> float | Gap:
        try:
            value = probe()
        except nvml.NVMLError as error:
            return Gap(f"NVML: {error}")
        return value if isinstance(value, Gap) else float(value)

    infos = tuple(info for info, _ in probes)
    return Reader(infos, lambda: [one(probe) for _, probe in probes], name=name, fastest_s=fastest_s)


def _power_probe(nvml: Any, handle: Any) -> tuple[Probe | None, float]:
    """Return a function that reads the power in W, and the shortest interval in seconds at which it should be read.

    The function is None if NVML does not measure the power of this GPU. If the GPU has an energy counter, the power is
    computed from it. So no peak between two reads is missed. `nvml` is the module `pynvml`, and `handle` is its handle
    of the GPU.
    """
    if _is_supported(nvml, lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle)):
        counter = EnergyCounter()
        energy = nvml.nvmlDeviceGetTotalEnergyConsumption
        return (lambda: counter.watts(energy(handle) / 1e3, time.monotonic())), ENERGY_FASTEST_S
    if _is_supported(nvml, lambda: nvml.nvmlDeviceGetPowerUsage(handle)):
        return (lambda: float(nvml.nvmlDeviceGetPowerUsage(handle) / 1e3)), FASTEST_S
    return None, FASTEST_S


def _is_supported(nvml: Any, probe: Callable[[], Any]) -> bool:
    """Return False if NVML says that the GPU does not support the call that `probe` makes, else True.

    A call that fails for another reason counts as supported, because it may work later. `nvml` is the module `pynvml`.
    """
    try:
        probe()
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return False
    except nvml.NVMLError:
        return True
    return True
