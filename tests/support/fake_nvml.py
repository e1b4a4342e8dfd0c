"""The pynvml module with a GPU or two in it: its names, its classes of errors, what they look like as text."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml


@dataclass
class FakeGpu:
    """What each call gives, by its name; a number of pynvml's errors where it fails."""

    answers: dict[str, float] = field(default_factory=dict)
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

        def call(gpu: FakeGpu, *_: int) -> Any:
            if name in gpu.fails:
                raise pynvml.NVMLError(gpu.fails[name])
            value = gpu.answers[name]
            return {
                "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=value, memory=12),
                "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=value, free=0, total=0),
            }.get(name, value)

        return call
