"""What is here and may not be opened, with the group that would change it."""

import grp
import os
from pathlib import Path

import pytest

from edgetop.doctor import machine_checks
from edgetop.doctor.machine_checks import find_closed, judge_permissions
from edgetop.sensors.sensor_protocol import Missing
from tests.support.facts import facts


def test_nothing_closed_is_ok(tmp_path: Path) -> None:
    (tmp_path / "i2c-1").write_text("")
    assert list(find_closed([(f"{tmp_path}/i2c-*", "monitors", "i2c"), ("/nowhere/x", "y", "z")])) == []
    assert judge_permissions([])[0].status == "ok"


def test_all_that_is_closed_is_told_with_its_commands_once() -> None:
    fix = "sudo usermod -aG i2c $USER"
    (check,) = judge_permissions([Missing("/dev/i2c-1", "monitors", fix), Missing("/dev/\x1bi2c", "others", fix)])
    assert (check.status, check.fix) == ("warning", fix)
    assert r"/dev/\x1bi2c (others)" in check.found


def test_only_sensors_that_lack_nothing_but_a_right_count(tmp_path: Path) -> None:
    chmod = "sudo chmod a+r /sys/class/powercap/*/energy_uj"
    missing = (
        Missing("processor power", "for root alone since Linux 5.10", chmod),
        Missing("pressure", "off in this kernel", "add psi=1 to the kernel's command line"),
        Missing("temperature", "no thermal zone"),
    )
    (check,) = machine_checks.check_permissions(facts(tmp_path, missing=missing))
    assert check.status == "warning"
    assert "processor power (for root alone since Linux 5.10)" in check.found
    assert chmod in str(check.fix)
    assert "pressure" not in check.found


@pytest.mark.parametrize("mode", [0o660, 0o640, 0o600])
def test_the_group_named_is_one_that_may_open_it(tmp_path: Path, mode: int) -> None:
    gid = 1 if os.getuid() == 0 else os.getgid()  # any but root's: "daemon" is 1 on every Linux
    path = tmp_path / "i2c-1"
    path.write_text("")
    os.chown(path, -1, gid)
    path.chmod(mode)
    (device,) = find_closed([(f"{tmp_path}/i2c-*", "monitors", "i2c")], may=lambda path, mode: False)
    group = grp.getgrgid(gid).gr_name if mode == 0o660 else "i2c"
    assert device == Missing(f"{tmp_path}/i2c-1", "monitors", f"sudo usermod -aG {group} $USER")


def test_what_may_be_read_but_not_written_is_closed(tmp_path: Path) -> None:
    (tmp_path / "i2c-1").write_text("")
    devices = [(f"{tmp_path}/i2c-*", "monitors", "i2c")]
    assert len(list(find_closed(devices, may=lambda path, mode: not mode & os.W_OK))) == 1
