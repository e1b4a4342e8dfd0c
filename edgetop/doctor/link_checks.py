"""Checks whether accelerators on USB and PCIe run at the highest speed and width of their links.

A Coral on a USB 2 port is several times slower, and reports no problem. Speeds of USB are in Mbit/s
(Documentation/ABI/stable/sysfs-bus-usb). A PCIe device and the port above it each report the present and the highest
speed and width of the link (Documentation/ABI/testing/sysfs-bus-pci). The link cannot exceed the lower of the two
highest values.
"""

import re
from collections.abc import Iterator

from edgetop.doctor.check import Check, Facts, ok, warning
from edgetop.formatting import clean
from edgetop.frozen import frozen
from edgetop.sensors.npus import EDGE_TPU_ON_USB, USB, usb_ids
from edgetop.sensors.root import Root, is_compatible

LINKS = "links"
PCI = "sys/bus/pci/devices"
# Raspberry Pi documentation, "PCIe Gen 3.0".
PI_SETTING = "the slot of a Raspberry Pi 5 runs at 8 GT/s with dtparam=pciex1_gen=3 in /boot/firmware/config.txt"
SUPER_SPEED = 5000  # Mbit/s: USB 3

# Accelerators on USB that are made for USB 3, by vendor and product. Coral: coral.ai, "USB Accelerator datasheet".
# Movidius: OpenVINO's 97-myriad-usbboot.rules.
_USB = {
    **dict.fromkeys(EDGE_TPU_ON_USB, "Coral USB Accelerator"),
    ("03e7", "2485"): "Intel Movidius MyriadX",
    ("03e7", "f63b"): "Intel Movidius MyriadX",
}
# Accelerators on PCIe whose class does not say so, by vendor and product (pci-ids.ucw.cz); "" is for every product.
_PCI = {
    ("1ac1", "089a"): "Coral Edge TPU",
    ("1e60", ""): "Hailo",
}
_GPU, _ACCELERATOR = "0x03", "0x12"  # classes of PCI devices: display, and processing accelerator
_SPEED = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,2})?) GT/s")


@frozen
class Link:
    name: str
    now: str
    can: str  # what the device can have; "" if that is unknown
    is_slower: bool  # than both ends of the link can have
    limited_by: str = ""  # the end that keeps it below what the device can have
    rests: bool = False  # whether its speed may be low because it rests


def check_links(facts: Facts) -> list[Check]:
    """Return a check for each accelerator on USB or PCIe, or [] if the board has no such accelerator."""
    setting = PI_SETTING if is_compatible(facts.root, "brcm,bcm2712") else None
    return [_judged(link, setting) for link in (*_usb(facts.root), *_pci(facts.root))]


def _judged(link: Link, setting: str | None) -> Check:
    """Return the check of a link. `setting` is a sentence on how the board's slot gets faster, or None."""
    if link.is_slower:
        finding = f"{link.name} runs at {link.now}; it can run at {link.can}"
        if "Mbit" in link.now:
            return warning(LINKS, finding, "plug it into a USB 3 port, with its own short cable and no USB 2 hub")
        return warning(
            LINKS, finding, setting or "seat it again, and look for the slot's speed in the firmware's settings"
        )
    if link.limited_by:
        return ok(
            LINKS,
            f"{link.name} runs at {link.now}, all that {link.limited_by} allows; it can run at {link.can}",
            setting,
        )
    rests = "; its speed falls while it rests" if link.rests else ""
    return ok(LINKS, f"{link.name} runs at {link.now}{'' if link.rests else ', its highest speed'}{rests}")


def _usb(root: Root) -> Iterator[Link]:
    for device in root.names(USB):
        name, speed = _USB.get(usb_ids(root, device)), root.number(f"{USB}/{device}/speed")
        if name is not None and speed is not None:
            yield Link(f"{name} ({device})", _mbits(speed), _mbits(SUPER_SPEED), speed < SUPER_SPEED)


def _mbits(speed: int) -> str:
    return f"USB {3 if speed >= SUPER_SPEED else 2} ({speed} Mbit/s)"


def _pci(root: Root) -> Iterator[Link]:
    for address in root.names(PCI):
        folder = f"{PCI}/{address}"
        named = _named(root, folder)
        now, most = _link(root, folder, "current"), _link(root, folder, "max")
        if named is None or now is None or most is None:
            continue
        port = (root.resolve(folder) or "").rpartition("/")[0]
        above = _link(root, port, "max") if port else None
        possible = most if above is None else (min(most[0], above[0]), min(most[1], above[1]))
        rests = (root.line(f"{folder}/class") or "").startswith(_GPU)  # GPUs lower the speed, never the width
        is_slower = now[1] < possible[1] or (now[0] < possible[0] and not rests)
        limited = "the slot" if not is_slower and possible != most else ""
        yield Link(f"{clean(named)} ({clean(address)})", _words(now), _words(most), is_slower, limited, rests)


def _named(root: Root, folder: str) -> str | None:
    """Return the name of an accelerator, or None for another device. `folder` is the folder of a PCI device."""
    vendor, device = ((root.line(f"{folder}/{name}") or "").removeprefix("0x").lower() for name in ("vendor", "device"))
    kind = root.line(f"{folder}/class") or ""
    known = _PCI.get((vendor, device)) or _PCI.get((vendor, ""))
    if known is not None:
        return known
    return "accelerator" if kind.startswith(_ACCELERATOR) else "GPU" if kind.startswith(_GPU) else None


def _link(root: Root, folder: str, which: str) -> tuple[float, int] | None:
    """Return a link's speed in GT/s and its width in lanes, or None if it is unknown.

    `which` is "current" or "max". A device inside a processor has no link, and reads 0 lanes or 255.
    """
    match = _SPEED.match(root.line(f"{folder}/{which}_link_speed") or "")
    lanes = root.number(f"{folder}/{which}_link_width") or 0
    return (float(match[1]), lanes) if match and 1 <= lanes <= 32 else None


def _words(link: tuple[float, int]) -> str:
    return f"{link[0]:g} GT/s x{link[1]}"
