"""What board this is, from whatever of it the tree tells."""

from pathlib import Path

import pytest

from edgetop.sensors.board_identity import read_board
from edgetop.sensors.root import Root
from edgetop.session.manifest import Board
from tests.support.trees import link, plant


def board_of(tree: Path, **files: str) -> Board:
    return read_board(plant(tree, {name.replace("__", "/"): text for name, text in files.items()}))


def test_a_device_tree_names_board_and_chip(tmp_path: Path) -> None:
    root = plant(
        tmp_path,
        {
            "proc/device-tree/model": "FriendlyElec CM3588\0",
            "proc/device-tree/compatible": "friendlyelec,cm3588\0rockchip,rk3588\0",
        },
    )
    board = read_board(root)
    assert (board.model, board.soc) == ("FriendlyElec CM3588", "rockchip,rk3588")


@pytest.mark.parametrize(
    ("vendor", "product", "model"),
    [("Intel Corporation", "NUC11TNKi5", "Intel Corporation NUC11TNKi5"), (None, "NUC", "NUC"), ("ACME", "\n", "ACME")],
)
def test_without_a_device_tree_the_firmware_names_the_board(
    tmp_path: Path, vendor: str | None, product: str, model: str
) -> None:
    names = {"sys_vendor": vendor, "product_name": product}
    root = plant(tmp_path, {f"sys/class/dmi/id/{name}": f"{text}\n" for name, text in names.items() if text})
    board = read_board(root)
    assert (board.model, board.soc) == (model, None)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"', "Debian GNU/Linux 12 (bookworm)"),
        ("PRETTY_NAME='Buildroot 2024.02'", "Buildroot 2024.02"),
        ("PRETTY_NAME=Alpine", "Alpine"),
        ('PRETTY_NAME="L4T=36"', "L4T=36"),
        ('PRETTY_NAME=""', None),
        ("# PRETTY_NAME", None),
        ('NAME="Yocto"', None),
    ],
)
def test_the_system_is_named_by_its_pretty_name(tmp_path: Path, line: str, name: str | None) -> None:
    assert board_of(tmp_path, **{"etc__os-release": f'ID=x\nVERSION="a=b"\n{line}\n'}).os == name


L4T = "# R{} (release), REVISION: {}, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: Wed Jan  8 01:49:37 UTC 2025"
ARMBIAN = 'BOARD=orangepi5\nBOARD_NAME="Orange Pi 5"\nVERSION=25.8.1\nBRANCH=current\n'
UBUNTU = 'PRETTY_NAME="Ubuntu 22.04.5 LTS"'


@pytest.mark.parametrize(
    ("release", "file", "text", "name"),
    [
        (UBUNTU, "nv_tegra_release", L4T.format(36, "4.3"), "Ubuntu 22.04.5 LTS, L4T 36.4.3 (JetPack 6)"),
        (UBUNTU, "nv_tegra_release", L4T.format(32, "7.1"), "Ubuntu 22.04.5 LTS, L4T 32.7.1 (JetPack 4)"),
        (UBUNTU, "nv_tegra_release", L4T.format(99, "1.0"), "Ubuntu 22.04.5 LTS, L4T 99.1.0"),
        (UBUNTU, "nv_tegra_release", "garbage", "Ubuntu 22.04.5 LTS"),
        ("", "nv_tegra_release", L4T.format(35, "6.1"), "L4T 35.6.1 (JetPack 5)"),
        (
            "PRETTY_NAME='Debian GNU/Linux 12 (bookworm)'",
            "rpi-issue",
            "Raspberry Pi reference 2025-05-13\nGenerated using pi-gen, stage4",
            "Debian GNU/Linux 12 (bookworm), Raspberry Pi OS image 2025-05-13",
        ),
        ("PRETTY_NAME='Armbian 25.8.1 bookworm'", "armbian-release", ARMBIAN, "Armbian 25.8.1 bookworm"),
        ("PRETTY_NAME='Debian 12'", "armbian-release", ARMBIAN, "Debian 12, Armbian 25.8.1"),
        ("PRETTY_NAME='Debian 12'", "orangepi-release", "VERSION=1.0.8", "Debian 12, Orange Pi 1.0.8"),
    ],
)
def test_the_board_support_package_is_told_beside_the_system(
    tmp_path: Path, release: str, file: str, text: str, name: str
) -> None:
    assert board_of(tmp_path, **{"etc__os-release": release, f"etc__{file}": text}).os == name


@pytest.mark.parametrize(
    ("names", "model"),
    [
        ({"sys_vendor": "To Be Filled By O.E.M.", "product_name": "To Be Filled By O.E.M."}, "ASRock B550M Pro4"),
        ({"sys_vendor": "System manufacturer", "product_name": "System Product Name"}, "ASRock B550M Pro4"),
        ({"sys_vendor": "ACME", "product_name": "Default string"}, "ASRock B550M Pro4"),
        ({"sys_vendor": "Default string", "product_name": "N100-PC"}, "N100-PC"),
        ({}, "ASRock B550M Pro4"),
    ],
)
def test_a_mainboard_names_what_its_maker_has_not_filled_in(tmp_path: Path, names: dict[str, str], model: str) -> None:
    board = {"board_vendor": "ASRock", "board_name": "B550M Pro4"}
    root = plant(tmp_path, {f"sys/class/dmi/id/{name}": f"{text}\n" for name, text in (names | board).items()})
    assert read_board(root).model == model


def test_a_system_that_is_described_through_a_link_is_named(tmp_path: Path) -> None:
    root = plant(tmp_path, {"usr/lib/os-release": "PRETTY_NAME=Linked\n"})
    link(tmp_path, "etc/os-release", "../usr/lib/os-release")
    assert read_board(root).os == "Linked"


@pytest.mark.parametrize(
    ("lines", "cpu"),
    [
        (["model name\t: Intel(R) Core(TM) i5-1135G7 @ 2.40GHz"] * 2, "Intel(R) Core(TM) i5-1135G7 @ 2.40GHz"),
        (["CPU part\t: 0xd05", "CPU part\t: 0xd0b", "CPU part\t: 0xd05"], "Cortex-A55 + Cortex-A76"),
        (["CPU part\t: 0xfff"], "ARM part 0xfff"),
        (["model name\t: ARMv8 Processor rev 1 (v8l)", "CPU part\t: 0xd42"], "Cortex-A78AE"),
        (["model name\t: ARMv8 Processor rev 1 (v8l)", "CPU part\t: 0xfff"], "ARMv8 Processor rev 1 (v8l)"),
        (["uarch\t\t: sifive,u74-mc"], "sifive,u74-mc"),
        (["Serial\t\t: 10000000abcdef01"], None),
    ],
)
def test_the_cpu_is_named_by_name_or_by_part(tmp_path: Path, lines: list[str], cpu: str | None) -> None:
    assert board_of(tmp_path, proc__cpuinfo="\n".join(lines)).cpu == cpu


@pytest.mark.parametrize(
    ("program", "cpu"),
    [("/usr/libexec/qemu-binfmt/qemu-arm", "Cortex-A76 under qemu-arm"), ("/usr/bin/python3.11", "Cortex-A76")],
)
def test_a_cpu_that_is_emulated_is_called_so(tmp_path: Path, program: str, cpu: str) -> None:
    link(tmp_path, "proc/thread-self/exe", program)
    assert board_of(tmp_path, proc__cpuinfo="CPU part\t: 0xd0b").cpu == cpu


def test_the_cores_are_the_boards_and_not_this_machines(tmp_path: Path) -> None:
    names = [f"cpu{number}" for number in range(93)] + ["cpufreq", "cpuidle"]
    assert read_board(plant(tmp_path, {f"sys/devices/system/cpu/{name}/x": "" for name in names})).cores == 93


@pytest.mark.parametrize(
    ("line", "size"), [("MemTotal: 1024 kB", 1048576), ("MemTotal: ² kB", None), (f"MemTotal: {'9' * 400} kB", None)]
)
def test_memory_is_told_in_bytes_or_not_at_all(tmp_path: Path, line: str, size: int | None) -> None:
    assert board_of(tmp_path, proc__meminfo=line).memory_bytes == size


def test_clusters_with_governors_of_their_own_are_told(tmp_path: Path) -> None:
    governors = {0: "ondemand", 4: "performance", 6: "ondemand"}
    folder = "sys/devices/system/cpu/cpufreq"
    root = plant(tmp_path, {f"{folder}/policy{n}/scaling_governor": f"{name}\n" for n, name in governors.items()})
    assert read_board(root).governor == "ondemand, performance"


def test_of_an_empty_tree_nothing_is_known(tmp_path: Path) -> None:
    assert read_board(Root(tmp_path)) == Board()


def test_this_machine_has_cores_and_a_kernel() -> None:
    board = read_board(Root())
    assert board.cores
    assert board.kernel
    assert board.memory_bytes
