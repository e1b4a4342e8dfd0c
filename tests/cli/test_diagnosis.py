"""All checks together: on this machine, on every captured board, and on garbage."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.cli.board.diagnosis import OF_THIS_MACHINE, DoctorOptions, diagnose, examine
from edgetop.doctor.check import Facts
from edgetop.sensors.root import Root
from edgetop.sensors.survey import survey_board
from tests.support.trees import plant

BOARDS = Path(__file__).parents[1] / "boards"
NAMES = sorted(folder.parent.name for folder in BOARDS.glob("*/tree"))
STATUSES = {"ok", "warning", "problem"}


def facts_of(root: Root) -> Facts:
    survey = survey_board(root)
    survey.read_due()
    return Facts(
        root, survey.board, survey.rows, survey.missing, busy={}, recordings=Path("/tmp"), python=sys.executable
    )


@pytest.mark.parametrize("board", NAMES)
def test_a_captured_board_is_judged_without_asking_this_machine(board: str) -> None:
    diagnosis = diagnose(DoctorOptions(sysroot=BOARDS / board / "tree"))
    names = [check.name for check in diagnosis.checks]
    assert names[0] == "board"
    assert {check.status for check in diagnosis.checks} <= STATUSES
    assert len(set(names)) == len(names)
    assert not set(names) & set(OF_THIS_MACHINE)
    assert diagnosis.left_out == tuple(OF_THIS_MACHINE)


@pytest.mark.slow
def test_this_machine_is_asked_all_of_it() -> None:
    diagnosis = diagnose(DoctorOptions())
    checks = {check.name: check for check in diagnosis.checks}
    assert set(OF_THIS_MACHINE) <= set(checks)
    assert diagnosis.left_out == ()
    if not os.listdir("/sys/class/thermal"):  # noqa: PTH208
        assert checks["headroom"].found.startswith("unknown")


POLICY = "sys/devices/system/cpu/cpufreq/policy0"
FILES = (
    f"{POLICY}/scaling_governor", f"{POLICY}/scaling_driver", f"{POLICY}/scaling_available_governors",
    f"{POLICY}/scaling_min_freq", f"{POLICY}/scaling_max_freq", f"{POLICY}/cpuinfo_max_freq",
    "proc/meminfo", "proc/cpuinfo", "proc/1/cgroup",
    "proc/sys/vm/swappiness", "etc/nvpmodel.conf", "sys/firmware/acpi/platform_profile", "run/systemd/container",
    "sys/class/dmi/id/chassis_type", "proc/device-tree/compatible",
)  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(contents=st.dictionaries(st.sampled_from(FILES), st.binary(max_size=60)), declared=st.text(max_size=8))
def test_garbage_is_judged_and_never_acts(tmp_path_factory: pytest.TempPathFactory, contents, declared) -> None:  # type: ignore[no-untyped-def]
    root = plant(tmp_path_factory.mktemp("garbage"), contents)
    facts = replace(facts_of(root), governor=declared, power_mode=declared)
    for check in examine(facts):
        assert check.status in STATUSES
        assert not set(check.fix or "") & set("`\x1b\n")
