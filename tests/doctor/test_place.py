"""A board, or something from which results do not carry over to one."""

from pathlib import Path

import pytest

from edgetop.doctor import setting_checks
from edgetop.doctor.check import Check
from edgetop.session.manifest import Board
from tests.support.facts import facts
from tests.support.trees import link

DMI = "sys/class/dmi/id/"

CASES = {
    "a board by its device tree": ({}, "Raspberry Pi 5", "ok", "Raspberry Pi 5"),
    "a mini PC": ({f"{DMI}chassis_type": "35\n"}, "Intel NUC", "ok", "Intel NUC"),
    "a laptop": ({f"{DMI}chassis_type": "10\n"}, "ThinkPad", "warning", "a laptop (ThinkPad)"),
    "a server": ({f"{DMI}chassis_type": "23\n"}, "PowerEdge", "warning", "a server (PowerEdge)"),
    "nothing that names it": ({}, None, "warning", "unknown: neither"),
    "kvm by the cpu": ({"proc/cpuinfo": "flags\t\t: fpu hypervisor sse\n"}, None, "warning", "a virtual machine"),
    "a flag that only looks so": ({"proc/cpuinfo": "flags\t\t: hypervisorx\n"}, "Board", "ok", "Board"),
    "qemu by its name": ({f"{DMI}sys_vendor": "QEMU\n"}, "QEMU", "warning", "a virtual machine (QEMU)"),
    "qemu on arm": ({"proc/device-tree/compatible": "linux,dummy-virt\0"}, "x", "warning", "a virtual machine"),
    "xen": ({"sys/hypervisor/type": "xen\n"}, "x", "warning", "a virtual machine"),
    "docker on a board": ({".dockerenv": ""}, "Raspberry Pi 5", "warning", "a container (Docker) (Raspberry Pi 5)"),
    "podman": ({"run/.containerenv": ""}, "x", "warning", "a container (Podman)"),
    "nspawn": ({"run/systemd/container": "systemd-nspawn\n"}, "x", "warning", "a container (systemd-nspawn)"),
    "kubernetes": ({"proc/1/cgroup": "0::/kubepods.slice/x\n"}, "x", "warning", "a container (kubepods)"),
    "a container in a machine": (
        {".dockerenv": "", f"{DMI}product_name": "VMware7,1\n"}, "VMware7,1", "warning",
        "a container (Docker) in a virtual machine (VMware)",
    ),
}  # fmt: skip


def judged(tree: Path, files: dict[str, str], model: str | None) -> Check:
    (check,) = setting_checks.check_place(facts(tree, files, board=Board(model=model)))
    return check


@pytest.mark.parametrize("case", CASES)
def test_where_this_is(tmp_path: Path, case: str) -> None:
    files, model, status, found = CASES[case]
    check = judged(tmp_path, files, model)
    assert check.status == status
    assert check.found.startswith(found)


def test_under_an_emulator_it_is_no_board(tmp_path: Path) -> None:
    link(tmp_path, "proc/thread-self/exe", "/usr/bin/qemu-aarch64")
    check = judged(tmp_path, {}, "Raspberry Pi 5")
    assert (check.status, check.found) == ("warning", "an emulator (qemu-aarch64) (Raspberry Pi 5)")


def test_a_name_cannot_act(tmp_path: Path) -> None:
    assert "\x1b" not in judged(tmp_path, {"run/systemd/container": "\x1b[31m\n"}, "\x1b[32m").found
