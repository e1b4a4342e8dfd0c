"""Board, workstation, container or virtual machine: results do not carry over from one to another."""

import re

from edgetop.doctor.check import Check, ok, unknown, warning
from edgetop.doctor.facts import Facts, number
from edgetop.formatting import clean
from edgetop.sensors.root import Root

NAME = "board"

# What hypervisors call themselves in DMI (systemd's src/basic/virt.c lists them).
_HYPERVISORS = re.compile(
    r"QEMU|KVM|VMware|VMW|innotek|VirtualBox|Xen|Bochs|Parallels|BHYVE|Hyper-V|Virtual Machine|Apple Virtualization"
    r"|Amazon EC2|Google Compute Engine|OpenStack|DigitalOcean|Cloud Hypervisor|Firecracker", re.IGNORECASE
)  # fmt: skip
# SMBIOS specification (DSP0134), table "System enclosure or chassis types".
_WORKSTATIONS = {3: "a desktop", 4: "a desktop", 6: "a tower", 7: "a tower", 8: "a laptop", 9: "a laptop",
                 10: "a laptop", 11: "a handheld", 13: "an all-in-one", 14: "a laptop", 17: "a server", 23: "a server",
                 28: "a blade server", 30: "a tablet", 31: "a convertible", 32: "a detachable"}  # fmt: skip
_CARRY = "results do not carry over to a board: measure on the device you ship"


def check(facts: Facts) -> list[Check]:
    places = [place for place in (_machine(facts.root), _container(facts.root)) if place]
    told = clean(facts.board.model or facts.board.cpu or "a board that does not say what it is")
    if places:
        return [warning(NAME, f"{' in '.join(reversed(places))} ({told})", _CARRY)]
    kind = _WORKSTATIONS.get(number(facts.root, "sys/class/dmi/id/chassis_type") or 0)
    if kind:
        return [warning(NAME, f"{kind} ({told})", _CARRY)]
    if facts.board.model is None:
        return [unknown(NAME, f"neither device tree nor DMI names it ({told})", _CARRY)]
    return [ok(NAME, told)]


def _machine(root: Root) -> str | None:
    """By the CPU's hypervisor bit (x86), DMI, Xen's own folder, or QEMU's device tree (ARM)."""
    flags = next((text for text in _cpuinfo(root) if text.startswith("flags")), "")
    names = " ".join(root.line(f"sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name"))
    compatible = root.line("proc/device-tree/compatible") or ""
    named = _HYPERVISORS.search(names)
    if named:
        return f"a virtual machine ({named[0]})"
    is_virtual = "hypervisor" in flags.split() or root.exists("sys/hypervisor/type") or "dummy-virt" in compatible
    return "a virtual machine" if is_virtual else None


def _cpuinfo(root: Root) -> list[str]:
    try:
        return root.read_text("proc/cpuinfo").splitlines()
    except OSError:
        return []


def _container(root: Root) -> str | None:
    """By the marks that Docker, Podman and systemd-nspawn leave, or the cgroup of the first process."""
    for mark, name in ((".dockerenv", "Docker"), ("run/.containerenv", "Podman")):
        if root.exists(mark):
            return f"a container ({name})"
    if told := root.line("run/systemd/container"):
        return f"a container ({clean(told)})"
    try:
        groups = root.read_text("proc/1/cgroup")
    except OSError:
        return None
    match = re.search(r"\b(docker|lxc|kubepods|libpod|containerd)\b", groups)
    return f"a container ({match[1]})" if match else None
