"""The power mode that was asked for, whether it is in force, and whether the clocks are locked."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.sensors.jetson import PowerMode, discover_power_mode, read_power_mode
from edgetop.sensors.root import Root
from tests.support.nvpmodel import CONF
from tests.support.trees import plant

CPUFREQ = "sys/devices/system/cpu/cpufreq/policy0/"
GPU = "sys/class/devfreq/17000000.gpu/"

# 15 W, applied: the CPU's limit was moved to the nearest operating point above the mode's 1497.6 MHz.
APPLIED = {
    "proc/device-tree/compatible": "nvidia,p3767-0005\0nvidia,tegra234\0",
    "var/lib/nvpmodel/status": "pmode:0000\n",
    "etc/nvpmodel.conf": CONF,
    "sys/devices/system/cpu/cpu0/online": "1\n",
    "sys/devices/system/cpu/cpu4/online": "1\n",
    f"{CPUFREQ}related_cpus": "0 1 2 3\n",
    f"{CPUFREQ}cpuinfo_max_freq": "1728000\n",
    f"{CPUFREQ}scaling_min_freq": "729600\n",
    f"{CPUFREQ}scaling_max_freq": "1510400\n",
    f"{GPU}min_freq": "306000000\n",
    f"{GPU}max_freq": "612000000\n",
    f"{GPU}available_frequencies": "306000000 612000000 1020000000\n",
}
MAXN = {
    "var/lib/nvpmodel/status": "pmode:0002\n",
    f"{CPUFREQ}scaling_max_freq": "1728000\n",
    f"{GPU}max_freq": "1020000000\n",
}


def planted(tree: Path, *changes: Mapping[str, str]) -> Root:
    for files in (APPLIED, *changes):
        root = plant(tree, files)
    return root


def mode_of(tree: Path, *changes: Mapping[str, str]) -> PowerMode:
    mode = read_power_mode(planted(tree, *changes))
    assert mode is not None
    return mode


def test_the_mode_is_named_without_a_fork(tmp_path: Path) -> None:
    assert mode_of(tmp_path) == PowerMode(0, "15W", (), are_clocks_locked=False)


def test_jetpack_4_tells_the_fan_too(tmp_path: Path) -> None:
    assert mode_of(tmp_path, MAXN, {"var/lib/nvpmodel/status": "pmode:0002 fmode:quiet"}).name == "MAXN_SUPER"


def test_a_mode_without_limits_means_the_highest_there_is(tmp_path: Path) -> None:
    assert mode_of(tmp_path, MAXN).deviations == ()
    (deviation,) = mode_of(tmp_path, MAXN, {f"{GPU}max_freq": "612000000"}).deviations
    assert deviation == "GPU is limited to 612 MHz where the mode says 1020"


def test_a_mode_that_was_never_applied_is_found_out(tmp_path: Path) -> None:
    mode = mode_of(tmp_path, {f"{CPUFREQ}scaling_max_freq": "1728000", f"{GPU}max_freq": "1020000000"})
    assert mode.deviations == (
        "CPU_A78_0 is limited to 1728 MHz where the mode says 1497.6",
        "GPU is limited to 1020 MHz where the mode says 612",
    )
    assert str(mode) == "15W, limits differ from it"


def test_a_core_that_should_be_on_is_found_out(tmp_path: Path) -> None:
    (deviation,) = mode_of(tmp_path, {"sys/devices/system/cpu/cpu0/online": "0"}).deviations
    assert deviation == "CORE_0 is off where the mode has it on"


def test_what_cannot_be_compared_is_not_a_deviation(tmp_path: Path) -> None:
    gone = {f"{CPUFREQ}scaling_max_freq": "", f"{GPU}max_freq": "none", "sys/devices/system/cpu/cpu0/online": ""}
    assert mode_of(tmp_path, gone).deviations == ()


def test_a_deviation_is_told_with_the_way_to_apply_the_mode(tmp_path: Path) -> None:
    root = planted(tmp_path, {f"{GPU}max_freq": "1020000000"})
    (missing,) = discover_power_mode(root).missing
    assert "GPU is limited to 1020 MHz" in missing.why
    assert missing.fix == "sudo nvpmodel -m 0"


def test_a_mode_that_is_in_force_is_nothing_to_tell(tmp_path: Path) -> None:
    assert discover_power_mode(planted(tmp_path)).missing == ()


@pytest.mark.parametrize(
    ("cpu_min", "gpu_min", "are_locked"),
    [("1510400", "612000000", True), ("729600", "612000000", False), ("1510400", "306000000", False)],
)
def test_clocks_are_locked_where_every_minimum_is_its_maximum(
    tmp_path: Path, cpu_min: str, gpu_min: str, are_locked: bool
) -> None:
    mode = mode_of(tmp_path, {f"{CPUFREQ}scaling_min_freq": cpu_min, f"{GPU}min_freq": gpu_min})
    assert mode.are_clocks_locked is are_locked
    assert str(mode) == ("15W, clocks locked" if are_locked else "15W")


def test_other_devices_than_the_gpu_may_run_as_they_like(tmp_path: Path) -> None:
    changes = {f"{CPUFREQ}scaling_min_freq": "1510400", f"{GPU}min_freq": "612000000"}
    other = {"sys/class/devfreq/15340000.vic/min_freq": "115200000", "sys/class/devfreq/15340000.vic/max_freq": "1"}
    assert mode_of(tmp_path, changes, other).are_clocks_locked


def test_clocks_that_nobody_tells_are_not_called_locked(tmp_path: Path) -> None:
    root = plant(tmp_path, {name: APPLIED[name] for name in APPLIED if not name.startswith("sys/")})
    mode = read_power_mode(root)
    assert mode is not None
    assert not mode.are_clocks_locked


def test_without_its_configuration_a_mode_has_its_number(tmp_path: Path) -> None:
    assert str(mode_of(tmp_path, {"etc/nvpmodel.conf": ""})) == "mode 0"
    (tmp_path / "etc/nvpmodel.conf").unlink()
    assert str(mode_of(tmp_path, {"var/lib/nvpmodel/status": "pmode:0007"})) == "mode 7"


@pytest.mark.parametrize("status", ["", "pmode:", "mode:0002", "pmode:two", "pmode:99999"])
def test_a_status_that_tells_nothing_is_missing(tmp_path: Path, status: str) -> None:
    root = planted(tmp_path, {"var/lib/nvpmodel/status": status})
    assert read_power_mode(root) is None
    assert [missing.what for missing in discover_power_mode(root).missing] == ["power mode"]


def test_other_boards_have_no_such_mode(tmp_path: Path) -> None:
    root = planted(tmp_path, {"proc/device-tree/compatible": "rockchip,rk3588\0"})
    assert read_power_mode(root) is None
    assert discover_power_mode(root).missing == ()


CONTENTS = st.sampled_from(["", "0", "-1", "9" * 30, "²", "pmode:0000", "1 2 3", CONF]) | st.text(max_size=12)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from([name for name in APPLIED if "compatible" not in name]), CONTENTS))
def test_no_content_breaks_it(tmp_path_factory: pytest.TempPathFactory, files: dict[str, str]) -> None:
    encoded = {name: text.encode("utf-8", "replace") for name, text in files.items()}
    tree = tmp_path_factory.getbasetemp() / "mode"
    planted(tree)
    mode = read_power_mode(plant(tree, encoded))
    assert mode is None or (str(mode) and mode.number >= 0)
