"""Clocks of GPU, NPU and memory controller, with the caps in force."""

from pathlib import Path

import pytest

from edgetop.sensors import clocks
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Gap
from tests.support.trees import plant


def plant_device(tree: Path, name: str, **files: str) -> Root:
    content = {"cur_freq": "306000000\n", "max_freq": "918000000\n", **files}
    return plant(tree, {f"sys/class/devfreq/{name}/{file}": text for file, text in content.items()})


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("17000000.gpu", "gpu"),
        ("17000000.ga10b", "gpu"),
        ("17000000.gv11b", "gpu"),
        ("57000000.gpu", "gpu"),
        ("gpu-gpc-0", "gpu"),
        ("fb000000.gpu", "gpu"),
        ("fdab0000.npu", "npu"),
        ("dmc", "memory"),
        ("3d400000.memory-controller", "memory"),
    ],
)
def test_what_computes_is_known_by_the_name_of_its_device(tmp_path: Path, name: str, label: str) -> None:
    (source,) = clocks.discover(plant_device(tmp_path, name)).sources
    assert [info.id for info in source.sensors] == [f"freq/{label}", f"freqcap/{label}"]
    assert source.sensors[0].note == name


@pytest.mark.parametrize("name", ["15340000.vic", "gpu-nvd-0", "154c0000.nvenc", "1d84000.ufshc", "npu-bus"])
def test_codecs_and_buses_are_left_out(tmp_path: Path, name: str) -> None:
    assert clocks.discover(plant_device(tmp_path, name)).sources == ()


def test_hertz_become_megahertz(tmp_path: Path) -> None:
    root = plant_device(tmp_path, "17000000.gpu", available_frequencies="306000000 612000000 1020000000\n")
    (source,) = clocks.discover(root).sources
    assert source.read() == [306.0, 918.0]
    assert [info.max for info in source.sensors] == [1020.0, 1020.0]


@pytest.mark.parametrize("steps", ["", "some\n", "1 2 x"])
def test_the_highest_clock_is_not_known_where_the_steps_are_not(tmp_path: Path, steps: str) -> None:
    (source,) = clocks.discover(plant_device(tmp_path, "17000000.gpu", available_frequencies=steps)).sources
    assert source.sensors[0].max is None


def test_a_cap_is_read_though_the_clock_is_not(tmp_path: Path) -> None:
    (source,) = clocks.discover(plant_device(tmp_path, "17000000.gpu", cur_freq="-5\n")).sources
    clock, cap = source.read()
    assert isinstance(clock, Gap)
    assert cap == 918.0


def test_two_of_a_kind_are_told_apart(tmp_path: Path) -> None:
    plant_device(tmp_path, "a0000.gpu")
    sources = clocks.discover(plant_device(tmp_path, "b0000.gpu")).sources
    assert [source.name for source in sources] == ["freq/gpu", "freq/gpu-2"]


# The uncore of Intel's processors.

UNCORE = "sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00"
FILES = {"current_freq_khz": "1800000\n", "max_freq_khz": "2400000\n", "initial_max_freq_khz": "2400000\n"}


def test_the_uncore_has_a_clock_and_a_cap(tmp_path: Path) -> None:
    (source,) = clocks.discover(plant(tmp_path, {f"{UNCORE}/{name}": text for name, text in FILES.items()})).sources
    assert [(info.id, info.max) for info in source.sensors] == [("freq/uncore", 2400.0), ("freqcap/uncore", 2400.0)]
    assert source.read() == [1800.0, 2400.0]


def test_two_dies_are_told_apart(tmp_path: Path) -> None:
    dies = (UNCORE, UNCORE.replace("die_00", "die_01"))
    found = clocks.discover(plant(tmp_path, {f"{die}/{name}": text for die in dies for name, text in FILES.items()}))
    assert [source.sensors[0].id for source in found.sources] == ["freq/uncore", "freq/uncore-2"]
