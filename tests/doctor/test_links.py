"""Links of accelerators: slower than they can be, limited by the slot, or at rest."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgetop.doctor.check import Check, Facts
from edgetop.doctor.link_checks import check_links
from edgetop.sensors.board_identity import read_board
from edgetop.sensors.root import Root
from tests.support.trees import link, plant

BOARDS = Path(__file__).parents[1] / "boards"
PORT = "sys/devices/pci0000:00/0000:00:1c.0"
DEVICE = f"{PORT}/0000:01:00.0"
CORAL, HAILO, NVIDIA, NVME = ("0x1ac1", "0x089a"), ("0x1e60", "0x2864"), ("0x10de", "0x2684"), ("0x144d", "0xa808")


def checks(tmp_path: Path, files: Mapping[str, str]) -> list[Check]:
    root = plant(tmp_path, {"proc/stat": "cpu\n", **files})
    if DEVICE.rpartition("/")[0] in str(files):
        link(tmp_path, "sys/bus/pci/devices/0000:01:00.0", tmp_path / DEVICE)
    return check_links(Facts(root, read_board(root)))


def usb(vendor: str, product: str, speed: str) -> dict[str, str]:
    folder = "sys/bus/usb/devices/1-1"
    return {f"{folder}/idVendor": vendor, f"{folder}/idProduct": product, f"{folder}/speed": speed}


def pci(ids: tuple[str, str], now: str, can: str, slot: str, kind: str = "0x0b4000") -> dict[str, str]:
    """A device on a port; links are written as "8.0 GT/s PCIe x4"."""
    files = {f"{DEVICE}/vendor": ids[0], f"{DEVICE}/device": ids[1], f"{DEVICE}/class": kind}
    for folder, which, text in ((DEVICE, "current", now), (DEVICE, "max", can), (PORT, "max", slot)):
        speed, _, width = text.rpartition(" x")
        files |= {f"{folder}/{which}_link_speed": f"{speed}\n", f"{folder}/{which}_link_width": f"{width}\n"}
    return files


@pytest.mark.parametrize("ids", [("1a6e", "089a"), ("18d1", "9302")])
@pytest.mark.parametrize(
    ("speed", "status"), [("480\n", "warning"), ("12\n", "warning"), ("5000\n", "ok"), ("10000", "ok")]
)
def test_a_coral_belongs_on_usb_3(tmp_path: Path, ids: tuple[str, str], speed: str, status: str) -> None:
    (check,) = checks(tmp_path, usb(*ids, speed))
    assert (check.status, speed.strip() in check.found) == (status, True)
    assert ("USB 3 port" in (check.advice or "")) == (status == "warning")


@pytest.mark.parametrize(
    ("files", "status", "words"),
    [
        (pci(HAILO, "8.0 GT/s PCIe x4", "8.0 GT/s PCIe x4", "16.0 GT/s PCIe x4"), "ok", "its highest speed"),
        (pci(HAILO, "8.0 GT/s PCIe x1", "8.0 GT/s PCIe x4", "8.0 GT/s PCIe x1"), "ok", "all that the slot allows"),
        (pci(HAILO, "2.5 GT/s PCIe x4", "8.0 GT/s PCIe x4", "8.0 GT/s PCIe x4"), "warning", "it can run at 8 GT/s x4"),
        (pci(CORAL, "2.5 GT/s PCIe x1", "5.0 GT/s PCIe x1", "5.0 GT/s PCIe x1"), "warning", "Coral Edge TPU"),
        (pci(NVIDIA, "2.5 GT/s x16", "16.0 GT/s x16", "16.0 GT/s x16", "0x030000"), "ok", "falls while it rests"),
        (pci(NVIDIA, "2.5 GT/s x8", "16.0 GT/s x16", "16.0 GT/s x16", "0x030000"), "warning", "x8"),
        (pci(("0x9999", "0x1"), "8 GT/s x1", "8 GT/s x4", "8 GT/s x4", "0x120000"), "warning", "accelerator"),
    ],
)
def test_a_pcie_link_is_compared_with_both_its_ends(
    tmp_path: Path, files: dict[str, str], status: str, words: str
) -> None:
    (check,) = checks(tmp_path, files)
    assert (check.status, words in check.found) == (status, True), check


@pytest.mark.parametrize(
    "files",
    [
        {},
        usb("046d", "c52b", "12"),
        usb("18d1", "9302", "fast"),
        pci(NVME, "2.5 GT/s PCIe x1", "8.0 GT/s PCIe x4", "8.0 GT/s PCIe x4", "0x010802"),
        pci(HAILO, "Unknown x0", "Unknown x255", "8.0 GT/s PCIe x4"),
        pci(HAILO, "\x1b[2J x1", "8.0 GT/s PCIe x4", "8.0 GT/s PCIe x4"),
    ],
)
def test_other_devices_and_unknown_links_have_no_check(tmp_path: Path, files: dict[str, str]) -> None:
    assert not checks(tmp_path, files)


def test_a_pi_5_is_told_how_its_slot_gets_faster(tmp_path: Path) -> None:
    slow = pci(HAILO, "5.0 GT/s PCIe x1", "8.0 GT/s PCIe x4", "5.0 GT/s PCIe x1")
    (check,) = checks(tmp_path, slow | {"proc/device-tree/compatible": "raspberrypi,5-model-b\0brcm,bcm2712\0"})
    assert check.status == "ok"
    assert "dtparam=pciex1_gen=3" in (check.advice or "")


@pytest.mark.parametrize(
    ("board", "status", "words"),
    [
        ("raspberry-pi-4-coral", "ok", "Coral USB Accelerator (2-1) runs at USB 3 (5000 Mbit/s), its highest speed"),
        ("raspberry-pi-4-coral-usb2", "warning", "(1-1.4) runs at USB 2 (480 Mbit/s); it can run at USB 3"),
        ("raspberry-pi-5-coral", "ok", "Coral Edge TPU (0001:01:00.0) runs at 5 GT/s x1, its highest speed"),
        ("raspberry-pi-5-hailo", "ok", "all that the slot allows"),
    ],
)
def test_captured_links(board: str, status: str, words: str) -> None:
    root = Root(BOARDS / board / "tree")
    (check,) = check_links(Facts(root, read_board(root)))
    assert (check.status, words in check.found) == (status, True), check
