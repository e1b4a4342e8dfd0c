"""Chips by their name, boards by what they are compatible with."""

from pathlib import Path

import pytest

from edgetop.sensors.root import Root, chips_named, is_compatible
from tests.support.trees import plant


def test_chips_are_found_by_their_name_wherever_they_are(tmp_path: Path) -> None:
    names = {"hwmon10": "ina3221", "hwmon2": "ina3221", "hwmon3": "pwmfan", "hwmon4": "ina3221x"}
    root = plant(tmp_path, {f"sys/class/hwmon/{folder}/name": f"{name}\n" for folder, name in names.items()})
    assert chips_named(root, "ina3221") == ["sys/class/hwmon/hwmon2", "sys/class/hwmon/hwmon10"]


def test_a_chip_whose_name_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "sys/class/hwmon/hwmon0/name").mkdir(parents=True)
    assert chips_named(Root(tmp_path), "ina3221") == []


@pytest.mark.parametrize(("prefix", "expected"), [("nvidia,tegra", True), ("tegra", False), ("raspberrypi,", False)])
def test_any_of_the_names_may_tell_the_board(tmp_path: Path, prefix: str, expected: bool) -> None:
    root = plant(tmp_path, {"proc/device-tree/compatible": "nvidia,p3768-0000\0nvidia,tegra234\0"})
    assert is_compatible(root, prefix) is expected


def test_without_a_device_tree_nothing_is_compatible(tmp_path: Path) -> None:
    assert not is_compatible(Root(tmp_path), "raspberrypi,")
