"""The pynvml module with a GPU or two in it: its names, its classes of errors, what they look like as text."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml


@dataclass
class FakeGpu:
    """What each call gives, by its name; a number of pynvml's errors where it fails."""

    answers: dict[str, Any] = field(default_factory=dict)
    fails: dict[str, int] = field(default_factory=dict)


def discrete() -> FakeGpu:
    return FakeGpu(
        {
            "nvmlDeviceGetPowerUsage": 71_250,
            "nvmlDeviceGetTotalEnergyConsumption": 5_000_000,
            "nvmlDeviceGetTemperature": 43,
            "nvmlDeviceGetClockInfo": 1980,
            "nvmlDeviceGetMaxClockInfo": 2100,
            "nvmlDeviceGetUtilizationRates": 37,
            "nvmlDeviceGetMemoryInfo": 2 * 2**30,
            "nvmlDeviceGetProcessUtilization": (),
            "nvmlDeviceGetCurrentClocksEventReasons": 0x1,  # of an idle GPU, as an H100 gives it
            "nvmlDeviceGetTemperatureThreshold": {0: 95, 1: 89, 2: 95, 3: 87},  # of an H100
        }
    )


def jetsons() -> FakeGpu:
    """Of an Orin: it is there, and supports nothing."""
    return FakeGpu(fails=dict.fromkeys(discrete().answers, pynvml.NVML_ERROR_NOT_SUPPORTED))


class FakeNvml:
    """The module. `init_fails`: a number of pynvml's errors."""

    def __init__(self, *gpus: FakeGpu, init_fails: int | None = None) -> None:
        self.gpus = gpus
        self._init_fails = init_fails

    def __getattr__(self, name: str) -> Any:
        if name.startswith("nvmlDeviceGet"):
            return self._call(name)
        return getattr(pynvml, name)  # constants and errors are the module's own

    def nvmlInit(self) -> None:
        if self._init_fails is not None:
            raise pynvml.NVMLError(self._init_fails)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def _call(self, name: str) -> Callable[..., Any]:
        assert callable(getattr(pynvml, name))  # a call that the real module has

        def call(gpu: FakeGpu, *which: int) -> Any:
            if name in gpu.fails or name not in gpu.answers:
                raise pynvml.NVMLError(gpu.fails.get(name, pynvml.NVML_ERROR_NOT_SUPPORTED))
            value = gpu.answers[name]
            if name == "nvmlDeviceGetProcessUtilization":
                fresh = [one for one in value if one.timeStamp > which[0]]
                if not fresh:
                    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
                return fresh
            if isinstance(value, dict):
                return value[which[0]]
            return {
                "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=value, memory=12),
                "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=value, free=0, total=0),
            }.get(name, value)

        return call
