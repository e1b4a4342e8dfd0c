"""The power mode is judged against production's; MAXN is named as what cannot be sustained."""

from pathlib import Path

import pytest

from edgetop.doctor import setting_checks
from edgetop.doctor.check import Check
from edgetop.sensors.sensor_protocol import Missing
from edgetop.session.manifest import Board
from tests.support.facts import facts

# Of a Jetson Orin Nano with JetPack 6.2: MAXN is not mode 0 there.
CONF = """# comment < POWER_MODEL ID=9 NAME=COMMENT >
< POWER_MODEL ID=0 NAME=15W >
CPU_ONLINE CORE_0 1
< POWER_MODEL ID=1 NAME=25W >
< POWER_MODEL ID=2 NAME=MAXN_SUPER >
< POWER_MODEL ID=3 NAME=$(reboot) >
"""
PROFILE = "sys/firmware/acpi/platform_profile"


def judged(tree: Path, mode: str | None, declared: str | None = None, **more: object) -> Check:
    given = facts(tree, {"etc/nvpmodel.conf": CONF}, board=Board(power_mode=mode), power_mode=declared, **more)
    (check,) = setting_checks.check_power_mode(given)
    return check


@pytest.mark.parametrize("declared", ["25W", "25w", "MODE_25W", "1"])
def test_the_declared_mode_by_name_or_number_is_ok(tmp_path: Path, declared: str) -> None:
    assert judged(tmp_path, "25W", declared).status == "ok"


@pytest.mark.parametrize(("declared", "fix"), [("15W", "sudo nvpmodel -m 0"), ("0", "sudo nvpmodel -m 0")])
def test_another_mode_is_a_problem_with_its_command(tmp_path: Path, declared: str, fix: str) -> None:
    check = judged(tmp_path, "25W", declared)
    assert (check.status, check.fix) == ("problem", fix)


def test_a_mode_that_nobody_knows_gets_the_list(tmp_path: Path) -> None:
    check = judged(tmp_path, "25W", "40W")
    assert check.fix == "sudo nvpmodel -m ID  (0 15W, 1 25W, 2 MAXN_SUPER)"


@pytest.mark.parametrize("mode", ["MAXN", "MAXN_SUPER", "MODE_MAXN", "MAXN_SUPER, clocks locked"])
@pytest.mark.parametrize("declared", [None, "same"])
def test_maxn_cannot_be_sustained_declared_or_not(tmp_path: Path, mode: str, declared: str | None) -> None:
    check = judged(tmp_path, mode, mode.partition(",")[0] if declared else None)
    assert check.status == "warning"
    assert "cannot be sustained" in str(check.advice)


def test_a_mode_that_was_not_applied_is_a_problem(tmp_path: Path) -> None:
    why = Missing("power mode", "25W was asked for, but CPU_A78_0 is limited to 1510 MHz", "sudo nvpmodel -m 1")
    check = judged(tmp_path, "25W, limits differ from it", "25W", missing=(why,))
    assert (check.status, check.fix) == ("problem", "sudo nvpmodel -m 1")


def test_a_jetson_that_does_not_tell_is_unknown(tmp_path: Path) -> None:
    tegra = {"proc/device-tree/compatible": "nvidia,p3768\0nvidia,tegra234\0"}
    (check,) = setting_checks.check_power_mode(facts(tmp_path, tegra))
    assert check.found.startswith("unknown")


def test_without_modes_there_is_no_check_unless_declared(tmp_path: Path) -> None:
    assert setting_checks.check_power_mode(facts(tmp_path)) == []
    (check,) = setting_checks.check_power_mode(facts(tmp_path, power_mode="15W"))
    assert (check.status, check.found.startswith("unknown")) == ("warning", True)


@pytest.mark.parametrize(("profile", "status"), [("balanced", "ok"), ("performance", "ok"), ("low-power", "warning")])
def test_the_platform_profile_of_a_pc(tmp_path: Path, profile: str, status: str) -> None:
    (check,) = setting_checks.check_power_mode(facts(tmp_path, {PROFILE: f"{profile}\n"}))
    assert (check.status, check.found) == (status, profile)
    (check,) = setting_checks.check_power_mode(facts(tmp_path, {}, power_mode="custom"))
    assert (check.status, check.fix) == ("problem", f"echo custom | sudo tee /{PROFILE}")
