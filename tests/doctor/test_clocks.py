"""Clocks: free, locked, or held below what the chip can do."""

from pathlib import Path

from edgetop.doctor import setting_checks
from edgetop.doctor.check import Check
from edgetop.session.manifest import Board
from tests.support.facts import facts

TEGRA = {"proc/device-tree/compatible": "nvidia,tegra234\0"}


def judged(tree: Path, *limits: tuple[int, int, int], mode: str | None = None, **files: str) -> Check:
    planted = dict(TEGRA) if mode else {}
    for number, limit in enumerate(limits):
        names = ("scaling_min_freq", "scaling_max_freq", "cpuinfo_max_freq")
        folder = f"sys/devices/system/cpu/cpufreq/policy{number}"
        planted |= {f"{folder}/{name}": f"{khz}\n" for name, khz in zip(names, limit, strict=True)}
    (check,) = setting_checks.check_clocks(facts(tree, planted, board=Board(power_mode=mode)))
    return check


def test_free_clocks_are_ok(tmp_path: Path) -> None:
    check = judged(tmp_path, (600_000, 1_800_000, 1_800_000))
    assert (check.status, check.found) == ("ok", "free: policy0 600 to 1800 MHz")


def test_locked_clocks_are_a_warning_with_what_frees_them(tmp_path: Path) -> None:
    check = judged(tmp_path, (1_728_000,) * 3, (1_728_000,) * 3, mode="MAXN")
    assert (check.status, check.fix) == ("warning", "sudo jetson_clocks --restore")
    assert check.found == "locked: policy0 at 1728 MHz, policy1 at 1728 MHz"


def test_one_free_cluster_is_not_locked(tmp_path: Path) -> None:
    assert judged(tmp_path, (1_728_000,) * 3, (729_600, 1_728_000, 1_728_000)).status == "ok"


def test_a_cap_is_a_warning_unless_a_power_mode_explains_it(tmp_path: Path) -> None:
    capped = (600_000, 1_000_000, 1_800_000)
    check = judged(tmp_path, capped)
    assert (check.status, check.found) == ("warning", "held below their maximum: policy0 at 1000 of 1800 MHz")
    assert check.fix == "echo 1800000 | sudo tee /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq"
    assert judged(tmp_path, capped, mode="15W").status == "ok"


def test_limits_that_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    assert judged(tmp_path).found.startswith("unknown")
    garbage = {"sys/devices/system/cpu/cpufreq/policy1/scaling_min_freq": "many\n"}
    (check,) = setting_checks.check_clocks(facts(tmp_path, garbage))
    assert check.found.startswith("unknown")
