"""Cooling devices: which of them slow the computation, and what their state is."""

from pathlib import Path

import pytest

from edgetop.sensors import thermal_zones
from edgetop.sensors.thermal_zones import CoolingDevice
from tests.support.trees import plant

DEVICE = "sys/class/thermal/cooling_device{}/{}"

THROTTLING = (
    "cpufreq-cpu0",
    "thermal-cpufreq-1",
    "devfreq-17000000.gpu",
    "devfreq-gpu-gpc-0",
    "thermal-devfreq-0",
    "idle-cpu0",
    "thermal-idle-0",
    "cpu-throttle-alert",
    "soc012-throttle-alert",
    "Processor",
    "intel_powerclamp",
    "38000000.gpu",
    "38500000.npu",
    "thermal-cpucore-0",
    "thermal-cpucore",
    "thermal-gpucore-0",
    "cpu-hotplug7",
    "cpu-balanced",
    "gpu-balanced",
    "emergency-balanced",
    "tegra_heavy",
)
HARMLESS = (
    "pwm-fan",
    "gpio-fan",
    "Fan",
    "hot-surface-alert",
    "tegra-dram",
    "CORE-floor",
    "CORE-cap",
    "cpu",
    "hotplug",
    "gpu-scaling0",
    "gpu-vmax",
    "dfll-cap",
    "dfll-floor",
    "TCC Offset",
    "iwlwifi",
    "LCD",
    "Processor Fan",
    "my-cpufreq-cpu0",
    "",
)


@pytest.mark.parametrize("cooling_type", THROTTLING)
def test_what_slows_the_computation_throttles(cooling_type: str) -> None:
    assert thermal_zones.throttles(cooling_type)


@pytest.mark.parametrize("cooling_type", HARMLESS)
def test_fans_warnings_and_voltages_do_not(cooling_type: str) -> None:
    assert not thermal_zones.throttles(cooling_type)


def devices(tree: Path, *types: str, **files: str) -> tuple[CoolingDevice, ...]:
    """One device of each type, the first with these files."""
    planted = {DEVICE.format(i, "type"): f"{cooling_type}\n" for i, cooling_type in enumerate(types)}
    return thermal_zones.cooling_devices(
        plant(tree, planted | {DEVICE.format(0, name): text for name, text in files.items()})
    )


def test_devices_of_one_type_are_told_apart(tmp_path: Path) -> None:
    assert [device.info.label for device in devices(tmp_path, *["Processor"] * 3)] == [
        "0-Processor",
        "1-Processor",
        "2-Processor",
    ]


def test_a_device_has_its_highest_state_and_a_throttles_flag(tmp_path: Path) -> None:
    (device,) = devices(tmp_path, "cpufreq-cpu4", cur_state="3\n", max_state="28\n")
    assert (device.info.id, device.info.throttles, device.info.max_state) == ("cooling/0-cpufreq-cpu4", True, 28)
    assert device.state() == 3.0


@pytest.mark.parametrize("text", ["", "many", "9" * 400])
def test_a_highest_state_that_is_no_number_is_not_known(tmp_path: Path, text: str) -> None:
    (device,) = devices(tmp_path, "pwm-fan", max_state=text)
    assert device.info.max_state is None


def test_idle_injection_at_rest_is_no_state_below_nothing(tmp_path: Path) -> None:
    (device,) = devices(tmp_path, "intel_powerclamp", cur_state="-1\n")
    assert device.state() == 0.0


@pytest.mark.parametrize("text", ["-1", "", "on"])
def test_what_is_no_state_is_an_error(tmp_path: Path, text: str) -> None:
    (device,) = devices(tmp_path, "cpufreq-cpu0", cur_state=text)
    with pytest.raises(ValueError, match="no"):
        device.state()


def test_a_device_without_a_type_is_passed_over(tmp_path: Path) -> None:
    assert devices(tmp_path, "", "pwm-fan")[0].type == "pwm-fan"
