"""Whether heat slows the board now: what cooling devices and counters say together."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetop.sensors import throttling
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant

DEVICE = "sys/class/thermal/cooling_device{}/{}"
COUNT = "sys/devices/system/cpu/cpu0/thermal_throttle/{}_throttle_count"


def plant_devices(tree: Path, **states: str) -> Root:
    """A device of each type at its state; a dash in a type is written as two underscores."""
    files: dict[str, str] = {}
    for i, (cooling_type, state) in enumerate(states.items()):
        files[DEVICE.format(i, "type")] = cooling_type.replace("__", "-")
        files[DEVICE.format(i, "cur_state")] = state
    return plant(tree, files)


def plant_counts(tree: Path, core: int, package: int) -> Root:
    return plant(tree, {COUNT.format("core"): f"{core}\n", COUNT.format("package"): f"{package}\n"})


def read(root: Root) -> dict[str, float | Gap]:
    (limits,) = throttling.discover(root).sources
    return dict(zip([info.id for info in limits.sensors], limits.read(), strict=True))


@pytest.mark.parametrize(("cpu", "gpu", "now"), [("0", "0", 0.0), ("3", "0", 1.0), ("0", "1", 1.0)])
def test_one_throttling_device_at_work_is_enough(tmp_path: Path, cpu: str, gpu: str, now: float) -> None:
    root = plant_devices(tmp_path, cpufreq__cpu0=cpu, devfreq__gpu=gpu)
    assert read(root) == {
        "throttle/thermal": now,
        "cooling/0-cpufreq-cpu0": float(cpu),
        "cooling/1-devfreq-gpu": float(gpu),
    }


@pytest.mark.parametrize("harmless", ["pwm__fan", "hot__surface__alert", "tegra__dram", "gpu__scaling0"])
def test_what_slows_nothing_never_counts(tmp_path: Path, harmless: str) -> None:
    assert read(plant_devices(tmp_path, cpufreq__cpu0="0", **{harmless: "4"}))["throttle/thermal"] == 0.0


def test_an_unreadable_device_is_a_gap_unless_another_throttles(tmp_path: Path) -> None:
    root = plant_devices(tmp_path, cpufreq__cpu0="x", cpufreq__cpu4="0", pwm__fan="y")
    flags = read(root)
    assert isinstance(flags["throttle/thermal"], Gap)
    assert isinstance(flags["cooling/0-cpufreq-cpu0"], Gap)
    assert flags["cooling/1-cpufreq-cpu4"] == 0.0
    assert read(plant_devices(tmp_path, cpufreq__cpu0="x", cpufreq__cpu4="2"))["throttle/thermal"] == 1.0


def test_a_fan_that_cannot_be_read_leaves_nothing_open(tmp_path: Path) -> None:
    assert read(plant_devices(tmp_path, cpufreq__cpu0="0", pwm__fan="y"))["throttle/thermal"] == 0.0


def test_fans_alone_say_nothing_about_throttling(tmp_path: Path) -> None:
    root = plant_devices(tmp_path, pwm__fan="2")
    assert read(root) == {"cooling/0-pwm-fan": 2.0}
    assert [missing.what for missing in throttling.discover(root).missing] == ["throttling cooling devices"]


def test_acpi_devices_at_rest_do_not_prove_full_speed(tmp_path: Path) -> None:
    root = plant_devices(tmp_path, Processor="0", intel_powerclamp="-1")
    assert read(root) == {"cooling/0-Processor": 0.0, "cooling/1-intel_powerclamp": 0.0}
    assert throttling.discover(root).missing
    plant_counts(tmp_path, 0, 0)
    assert "throttle/thermal" in read(root)
    assert not throttling.discover(root).missing


def limits(root: Root, *seconds: float) -> Iterator[list[float | Gap]]:
    """What is read at these times: the flag now and since boot, and events a second of packages and cores."""
    times = iter(seconds)
    source = throttling.discover(root, lambda: next(times)).sources[0]
    assert [info.id for info in source.sensors[:4]] == [
        "throttle/thermal", "throttle/thermal-sticky", "rate/thermal-events", "rate/core-thermal-events",
    ]  # fmt: skip
    for _ in seconds:
        yield list(source.read()[:4])


def test_counters_are_told_as_rates_and_as_a_flag(tmp_path: Path) -> None:
    reads = limits(plant_counts(tmp_path, 0, 0), 0.0, 2.0, 4.0)
    first, boot, *rates = next(reads)
    assert isinstance(first, Gap)
    assert boot == 0.0
    assert all(isinstance(rate, Gap) for rate in rates)
    plant_counts(tmp_path, 6, 3)
    assert next(reads) == [1.0, 1.0, 1.5, 3.0]
    assert next(reads) == [0.0, 1.0, 0.0, 0.0]


def test_what_was_counted_since_boot_is_sticky_and_not_of_now(tmp_path: Path) -> None:
    reads = limits(plant_counts(tmp_path, 3, 8), 0.0, 1.0)
    assert next(reads)[1] == 1.0
    assert next(reads) == [0.0, 1.0, 0.0, 0.0]


def test_a_device_at_work_counts_beside_a_still_counter(tmp_path: Path) -> None:
    plant_counts(tmp_path, 0, 0)
    assert [flags[0] for flags in limits(plant_devices(tmp_path, Processor="3"), 0.0, 1.0)] == [1.0, 1.0]
