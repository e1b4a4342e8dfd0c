"""Discrete NVIDIA GPUs: what they tell, what they do not support, and machines without one."""

import importlib
from pathlib import Path

import pynvml
import pytest

from edgetop.installation import extra_command
from edgetop.sensors import nvml
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, fastest
from tests.support.fake_nvml import FakeGpu, FakeNvml, discrete, jetsons
from tests.support.trees import plant


def found(*gpus: FakeGpu, **more: int) -> Found:
    return nvml.discover_gpus(lambda _: FakeNvml(*gpus, **more))


def read(of: Found) -> dict[str, float | Gap]:
    return {
        info.id: value
        for source in of.sources
        for info, value in zip(source.sensors, source.read(), strict=True)
    }  # fmt: skip


def test_a_gpu_tells_power_heat_clock_load_and_memory() -> None:
    gpu = discrete()
    del gpu.answers["nvmlDeviceGetTotalEnergyConsumption"]
    gpu.fails["nvmlDeviceGetTotalEnergyConsumption"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    of = found(gpu)
    assert read(of) == {
        "power/gpu": 71.25, "temp/gpu": 43.0, "freq/gpu": 1980.0, "load/gpu": 37.0, "mem/accelerator": 2048.0,
        "throttle/gpu-thermal": 0.0, "throttle/gpu-power-limit": 0.0,
        "freq/gpu-memory": 1980.0, "load/gpu-memory": 12.0,
    }  # fmt: skip
    infos = {info.id: info for source in of.sources for info in source.sensors}
    assert infos["freq/gpu"].max == 2100.0
    assert (infos["power/gpu"].role, infos["power/gpu"].accuracy) == ("part", "on-board-monitor")


def test_power_comes_from_the_energy_counter_where_there_is_one() -> None:
    gpu = discrete()
    of = found(gpu)
    assert isinstance(read(of)["power/gpu"], Gap)  # a difference needs two
    gpu.answers["nvmlDeviceGetTotalEnergyConsumption"] += 0.5
    watts = read(of)["power/gpu"]
    assert isinstance(watts, float)
    assert watts > 0
    assert watts != 71.25


def test_power_is_a_source_of_its_own_so_that_its_rate_is_too() -> None:
    assert [[info.kind for info in source.sensors] for source in found(discrete()).sources] == [
        ["power"], ["temp", "freq", "freq", "load", "load", "mem", "throttle", "throttle"],
    ]  # fmt: skip


def test_the_energy_counter_is_read_at_most_once_a_second() -> None:
    """A read of it is expensive, and its differences lose nothing. A plain reading of the power is cheap."""
    gpu = discrete()
    counted = found(gpu).sources[0]
    gpu.fails["nvmlDeviceGetTotalEnergyConsumption"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert [fastest(source) for source in (counted, found(gpu).sources[0])] == [1.0, 0.2]


REASONS = "nvmlDeviceGetCurrentClocksEventReasons"


@pytest.mark.parametrize(
    ("reasons", "limits"),
    [
        (pynvml.nvmlClocksEventReasonSwThermalSlowdown, {"thermal"}),
        (pynvml.nvmlClocksEventReasonHwThermalSlowdown | pynvml.nvmlClocksEventReasonHwSlowdown, {"thermal"}),
        (pynvml.nvmlClocksEventReasonSwPowerCap, {"power-limit"}),
        (pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, {"power-limit"}),
        (pynvml.nvmlClocksEventReasonGpuIdle | pynvml.nvmlClocksEventReasonApplicationsClocksSetting, set()),
        (pynvml.nvmlClocksEventReasonHwSlowdown, set()),  # "may be also reported during PState or clock change"
    ],
)
def test_only_heat_and_power_limit_a_gpu(reasons: int, limits: set[str]) -> None:
    gpu = discrete()
    gpu.answers[REASONS] = reasons
    values = read(found(gpu))
    assert {name for name in ("thermal", "power-limit") if values[f"throttle/gpu-{name}"]} == limits


def test_a_driver_before_535_has_the_older_name_of_the_limits() -> None:
    gpu = discrete()
    gpu.answers["nvmlDeviceGetCurrentClocksThrottleReasons"] = gpu.answers.pop(REASONS) | 0x4
    gpu.fails[REASONS] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
    assert read(found(gpu))["throttle/gpu-power-limit"] == 1.0


def test_a_gpu_that_reports_no_limits_has_no_flags() -> None:
    gpu = discrete()
    gpu.fails |= dict.fromkeys((REASONS, "nvmlDeviceGetCurrentClocksThrottleReasons"), pynvml.NVML_ERROR_NOT_SUPPORTED)
    assert not {name for name in read(found(gpu)) if name.startswith("throttle/")}


def test_a_gpu_throttles_from_the_lower_of_its_two_limits() -> None:
    def trips(gpu: FakeGpu) -> object:
        return next(info for one in found(gpu).sources for info in one.sensors if info.kind == "temp").trips

    gpu = discrete()
    assert trips(gpu) == {"passive": 87.0, "critical": 95.0}
    gpu.fails["nvmlDeviceGetTemperatureThreshold"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    assert trips(gpu) is None


def test_two_gpus_are_told_apart() -> None:
    ids = set(read(found(discrete(), discrete())))
    assert {"power/gpu0", "power/gpu1", "load/gpu0", "mem/accelerator1"} <= ids


def test_what_is_not_supported_is_left_out() -> None:
    gpu = discrete()
    gpu.fails |= dict.fromkeys(("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMaxClockInfo"), 3)
    of = found(gpu)
    assert "load/gpu" not in read(of)
    assert next(info for source in of.sources for info in source.sensors if info.kind == "freq").max is None


def test_a_jetsons_own_gpu_is_missing_in_one_line() -> None:
    of = found(jetsons())
    assert of.sources == ()
    (missing,) = of.missing
    assert "Jetson" in missing.why


def test_a_gpu_that_is_lost_is_a_gap_of_each_of_its_sensors() -> None:
    gpu = discrete()
    of = found(gpu)
    gpu.fails |= dict.fromkeys(gpu.answers, pynvml.NVML_ERROR_GPU_IS_LOST)
    assert set(read(of).values()) == {Gap("NVML: GPU is lost")}


@pytest.mark.parametrize(
    ("number", "words"),
    [(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"), (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared")],
)
def test_a_silent_driver_is_missing_in_its_own_words(number: int, words: str) -> None:
    of = found(discrete(), init_fails=number)
    assert of.sources == ()
    (missing,) = of.missing
    assert words in missing.why


def test_missing_bindings_are_listed_with_the_extra() -> None:
    def load(name: str) -> object:
        raise ImportError(name)

    (missing,) = nvml.discover_gpus(load).missing
    assert missing.fix == extra_command("nvml")


def test_without_the_driver_or_captured_nothing_is_asked(tmp_path: Path) -> None:
    def load(name: str) -> object:
        raise AssertionError(name)

    root = plant(tmp_path, {nvml.DRIVER: "NVRM version: 535\n"})
    assert nvml.discover(root, load) == Found()
    if not Path("/", nvml.DRIVER).exists():
        assert nvml.discover(Root(), load) == Found()


def test_the_real_bindings_say_what_this_machine_has() -> None:
    """Here, most likely, that there is no library: as one line, whatever it is."""
    of = nvml.discover_gpus(importlib.import_module)
    assert of.sources or len(of.missing) == 1 or of == Found()
