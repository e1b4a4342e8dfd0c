"""The governor is judged against production's, and performance is never demanded."""

from pathlib import Path

import pytest

from edgetop.doctor import setting_checks
from edgetop.doctor.check import Check
from tests.support.facts import facts

ALL = "performance powersave ondemand schedutil userspace"


def judged(
    tree: Path, *governors: str, declared: str | None = None, driver: str = "cpufreq-dt", offered: str = ALL
) -> Check:
    files = {}
    for number, name in enumerate(governors):
        folder = f"sys/devices/system/cpu/cpufreq/policy{number * 4}"
        files |= {
            f"{folder}/scaling_governor": f"{name}\n",
            f"{folder}/scaling_driver": f"{driver}\n",
            f"{folder}/scaling_available_governors": f"{offered}\n",
        }
    (check,) = setting_checks.check_governor(facts(tree, files, governor=declared))
    return check


@pytest.mark.parametrize("name", ["schedutil", "ondemand", "conservative"])
def test_a_governor_that_follows_the_load_is_ok(tmp_path: Path, name: str) -> None:
    assert judged(tmp_path, name, name).status == "ok"


@pytest.mark.parametrize("name", ["performance", "powersave", "userspace", "frob"])
def test_one_that_does_not_is_a_warning_until_it_is_declared(tmp_path: Path, name: str) -> None:
    assert judged(tmp_path, name).status == "warning"
    assert judged(tmp_path, name, declared=name, offered=f"{ALL} frob").status == "ok"


def test_powersave_of_intel_pstate_follows_the_load(tmp_path: Path) -> None:
    assert judged(tmp_path, "powersave", driver="intel_pstate", offered="performance powersave").status == "ok"


def test_a_governor_other_than_declared_is_a_problem_with_a_fix(tmp_path: Path) -> None:
    check = judged(tmp_path, "performance", declared="schedutil")
    assert check.status == "problem"
    assert check.fix == "echo schedutil | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor"


def test_one_cluster_that_differs_is_enough(tmp_path: Path) -> None:
    check = judged(tmp_path, "schedutil", "performance", declared="schedutil")
    assert (check.status, check.found) == ("problem", "performance and schedutil, but schedutil is declared")


def test_a_governor_that_the_kernel_lacks_has_no_command(tmp_path: Path) -> None:
    check = judged(tmp_path, "schedutil", declared="interactive")
    assert (check.status, check.fix) == ("problem", None)
    assert check.advice == "this kernel offers ondemand, performance, powersave, schedutil, userspace"


@pytest.mark.parametrize("name", ["schedutil", "performance", "powersave", "userspace", "frob"])
def test_performance_is_never_demanded(tmp_path: Path, name: str) -> None:
    assert "echo performance" not in str(judged(tmp_path, name).fix)


def test_without_cpufreq_it_is_unknown(tmp_path: Path) -> None:
    (check,) = setting_checks.check_governor(facts(tmp_path, governor="schedutil"))
    assert (check.status, check.found.startswith("unknown")) == ("warning", True)
