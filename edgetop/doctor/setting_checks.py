"""Checks of the kind of board, and of the settings that determine its speed: governor, power mode, clocks."""

import re

from edgetop.doctor.check import Check, Facts, ok, problem, unknown, warning
from edgetop.formatting import clean
from edgetop.sensors.board_identity import read_emulator
from edgetop.sensors.clocks import policies
from edgetop.sensors.jetson import CONF, parse_modes
from edgetop.sensors.root import Root, is_compatible

# The kind of machine: board, workstation, container or virtual machine. Results from one kind do not hold for another.

BOARD = "board"

# Names of hypervisors in DMI (listed in systemd's src/basic/virt.c).
_HYPERVISORS = re.compile(
    r"QEMU|KVM|VMware|VMW|innotek|VirtualBox|Xen|Bochs|Parallels|BHYVE|Hyper-V|Virtual Machine|Apple Virtualization"
    r"|Amazon EC2|Google Compute Engine|OpenStack|DigitalOcean|Cloud Hypervisor|Firecracker", re.IGNORECASE
)  # fmt: skip
# SMBIOS specification (DSP0134), table "System enclosure or chassis types".
_WORKSTATIONS = {3: "a desktop", 4: "a desktop", 6: "a tower", 7: "a tower", 8: "a laptop", 9: "a laptop",
                 10: "a laptop", 11: "a handheld", 13: "an all-in-one", 14: "a laptop", 17: "a server", 23: "a server",
                 28: "a blade server", 30: "a tablet", 31: "a convertible", 32: "a detachable"}  # fmt: skip
_CARRY = "results do not carry over to a board: measure on the device you ship"


def check_place(facts: Facts) -> list[Check]:
    emulator = read_emulator(facts.root)
    named = f"an emulator ({clean(emulator)})" if emulator else None
    places = [place for place in (named, _machine(facts.root), _container(facts.root)) if place]
    finding = clean(facts.board.model or facts.board.cpu or "a board that does not say what it is")
    if places:
        return [warning(BOARD, f"{' in '.join(reversed(places))} ({finding})", _CARRY)]
    kind = _WORKSTATIONS.get(facts.root.number("sys/class/dmi/id/chassis_type") or 0)
    if kind:
        return [warning(BOARD, f"{kind} ({finding})", _CARRY)]
    if facts.board.model is None:
        return [unknown(BOARD, f"neither device tree nor DMI names it ({finding})", _CARRY)]
    return [ok(BOARD, finding)]


def _machine(root: Root) -> str | None:
    """Return the kind of a virtual machine, such as "a virtual machine (KVM)", or None on real hardware.

    Signs are the CPU's hypervisor bit (x86), DMI, Xen's folder, and QEMU's device tree (ARM).
    """
    flags = next((text for text in root.text("proc/cpuinfo").splitlines() if text.startswith("flags")), "")
    names = " ".join(root.line(f"sys/class/dmi/id/{name}") or "" for name in ("sys_vendor", "product_name"))
    compatible = root.line("proc/device-tree/compatible") or ""
    named = _HYPERVISORS.search(names)
    if named:
        return f"a virtual machine ({named[0]})"
    is_virtual = "hypervisor" in flags.split() or root.exists("sys/hypervisor/type") or "dummy-virt" in compatible
    return "a virtual machine" if is_virtual else None


def _container(root: Root) -> str | None:
    """Return the kind of a container, such as "a container (Docker)", or None outside of one.

    Signs are files of Docker, Podman and systemd-nspawn, and the cgroup of the first process.
    """
    for mark, name in ((".dockerenv", "Docker"), ("run/.containerenv", "Podman")):
        if root.exists(mark):
            return f"a container ({name})"
    if finding := root.line("run/systemd/container"):
        return f"a container ({clean(finding)})"
    match = re.search(r"\b(docker|lxc|kubepods|libpod|containerd)\b", root.text("proc/1/cgroup"))
    return f"a container ({match[1]})" if match else None


# The cpufreq governor (Documentation/admin-guide/pm/cpufreq.rst).

GOVERNOR = "governor"
DYNAMIC = {"schedutil", "ondemand", "conservative", "interactive"}
FILE = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
# Drivers that, in their active mode, scale the clock themselves under both of their governors.
SELF_SCALING = {"intel_pstate", "amd-pstate-epp", "amd_pstate_epp"}


def check_governor(facts: Facts) -> list[Check]:
    found = {folder: facts.root.line(f"{folder}/scaling_governor") for folder in policies(facts.root)}
    if not found or None in found.values():
        why = "cpufreq does not report it; firmware or a hypervisor sets the clocks" if not found else "unreadable"
        advice = "clocks may change without a trace; compare the spread of several runs"
        return [unknown(GOVERNOR, why, advice)]
    names = sorted({name for name in found.values() if name})
    finding = " and ".join(names)
    declared = facts.governor
    if declared is None:
        return [_undeclared(facts.root, names, finding, next(iter(found)))]
    if names == [declared]:
        return [ok(GOVERNOR, f"{finding}, as declared")]
    differs = f"{finding}, but {declared} is declared"
    offered = {word for folder in policies(facts.root) for word in _offered(facts.root, folder)}
    if offered and declared not in offered:
        return [problem(GOVERNOR, differs, f"this kernel offers {', '.join(sorted(offered))}")]
    return [problem(GOVERNOR, differs, "measure under the governor that production runs", _echo(declared, FILE))]


def _offered(root: Root, folder: str) -> list[str]:
    return (root.line(f"{folder}/scaling_available_governors") or "").split()


def _echo(word: str, file: str) -> str:
    """Return a shell command that writes `word` to `file` as root. Special characters are removed from the word."""
    plain = "".join(c for c in word if c.isalnum() or c in "_-")
    return f"echo {plain} | sudo tee {file}"


def _undeclared(root: Root, names: list[str], finding: str, folder: str) -> Check:
    drives_itself = root.line(f"{folder}/scaling_driver") in SELF_SCALING
    if set(names) <= DYNAMIC or (drives_itself and names == ["powersave"]):
        return ok(GOVERNOR, finding, "if production runs another, say so with --governor NAME")
    if names == ["performance"]:
        advice = "right only if production runs so too: then say --governor performance"
        return warning(GOVERNOR, finding, advice, _usual(root, folder))
    if "powersave" in names and not drives_itself:
        return warning(GOVERNOR, f"{finding}: the clock stays at its lowest", "declare it if production runs so",
                       _usual(root, folder))  # fmt: skip
    if "userspace" in names:
        advice = "the clock stays where a program put it; declare it if production runs so"
        return warning(GOVERNOR, finding, advice, _usual(root, folder))
    return warning(GOVERNOR, finding, "not a governor that is known here: say --governor NAME if production runs it")


def _usual(root: Root, folder: str) -> str | None:
    """Return the command that sets a usual CPU governor, such as schedutil, or None if the kernel offers none.

    `folder` is the folder of the CPU's clock settings.
    """
    usual = [name for name in ("schedutil", "ondemand", "powersave") if name in _offered(root, folder)]
    return _echo(usual[0], FILE) if usual else None


# The power mode of a Jetson (nvpmodel), or the platform profile of a PC (sysfs-platform_profile).
#
# MAXN lifts all limits; NVIDIA's guide calls it unconstrained. Over-current and heat throttle the module instead, so
# figures measured in this mode are not reliable (docs.nvidia.com/jetson, Platform Power and Performance, "Supported
# Modes and Power Efficiency").

POWER_MODE = "power-mode"
PROFILE = "sys/firmware/acpi/platform_profile"


def check_power_mode(facts: Facts) -> list[Check]:
    """Check the power mode. Return [] if the board has no power modes and none was declared."""
    profile = facts.root.line(PROFILE)
    mode = facts.board.power_mode or profile
    if mode is not None:
        return [_judge_mode(facts, mode, is_profile=facts.board.power_mode is None)]
    if is_compatible(facts.root, "nvidia,tegra"):
        return [unknown(POWER_MODE, "nvpmodel does not report which mode is set", "ask it as root", "sudo nvpmodel -q")]
    if facts.power_mode is not None:
        why = f"this board names no power mode, and {facts.power_mode} is declared"
        return [unknown(POWER_MODE, why, "--power-mode is for boards that have them")]
    return []


def _judge_mode(facts: Facts, mode: str, *, is_profile: bool) -> Check:
    name = mode.partition(",")[0]
    modes = {} if is_profile else parse_modes(facts.root.text(CONF)).modes
    # Only plain names may become part of a command that a user may paste.
    ids = {each.name: str(number) for number, each in modes.items() if re.fullmatch(r"[\w-]+", each.name)}
    declared = facts.power_mode
    # A mode is declared by its name in any case, or by its number.
    if declared is not None and _plain(declared) not in {_plain(name), ids.get(name, name)}:
        fix = _echo(declared, f"/{PROFILE}") if is_profile else _set_mode(declared, ids)
        return problem(
            POWER_MODE, f"{mode}, but {declared} is declared", "measure in the mode that production runs", fix
        )
    if _plain(name).startswith("MAXN"):
        advice = "no limit is set, so over-current and heat throttle it: it cannot be sustained. Use a mode in watts"
        return warning(POWER_MODE, mode, advice, _set_mode("", ids))
    trouble = next((missing for missing in facts.missing if missing.what == "power mode"), None)
    if trouble is not None:
        return problem(POWER_MODE, mode, trouble.why, trouble.fix)
    if is_profile and name in ("low-power", "quiet", "cool"):
        advice = "the firmware holds the board below what it could do; declare it if production runs so"
        return warning(POWER_MODE, mode, advice, _echo("balanced", f"/{PROFILE}"))
    if declared is None:
        return ok(POWER_MODE, mode, "if production runs another, say so with --power-mode NAME")
    return ok(POWER_MODE, f"{mode}, as declared")


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).upper().removeprefix("MODE")


def _set_mode(declared: str, ids: dict[str, str]) -> str:
    known = {_plain(name): number for name, number in ids.items()} | {number: number for number in ids.values()}
    if _plain(declared) in known:
        return f"sudo nvpmodel -m {known[_plain(declared)]}"
    listed = ", ".join(f"{number} {name}" for name, number in ids.items())
    return f"sudo nvpmodel -m ID  ({listed or 'see /etc/nvpmodel.conf for the ids'})"


# Whether clocks are free, locked (as by jetson_clocks), or limited below the chip's maximum.

CLOCKS = "clocks"
_LIMITS = ("scaling_min_freq", "scaling_max_freq", "cpuinfo_max_freq")
SLACK = 0.98  # a limit may be this far below the maximum, since drivers move it to the nearest operating point


def check_clocks(facts: Facts) -> list[Check]:
    numbers = {place: [facts.root.number(f"{place}/{name}") or 0 for name in _LIMITS] for place in policies(facts.root)}
    known = [(folder, low, high, top) for folder, (low, high, top) in numbers.items() if low and high]
    if not known or len(known) < len(numbers):
        return [unknown(CLOCKS, "cpufreq does not report the limits of every CPU")]
    if all(low == high for _, low, high, _ in known):
        finding = ", ".join(f"{_name(folder)} at {low / 1000:.0f} MHz" for folder, low, _, _ in known)
        advice = "right only if production locks them too; another nvpmodel run or a reboot frees them silently"
        fix = "sudo jetson_clocks --restore" if is_compatible(facts.root, "nvidia,tegra") else None
        return [warning(CLOCKS, f"locked: {finding}", advice, fix)]
    held = [(folder, high, top) for folder, _, high, top in known if top and high < top * SLACK]
    if held and facts.board.power_mode is None:
        limited = (f"{_name(folder)} at {high / 1000:.0f} of {top / 1000:.0f} MHz" for folder, high, top in held)
        advice = "heat or somebody limits them; declare it in a note if production runs so"
        fix = "; ".join(f"echo {top} | sudo tee /{folder}/scaling_max_freq" for folder, _, top in held)
        return [warning(CLOCKS, f"held below their maximum: {', '.join(limited)}", advice, fix)]
    finding = ", ".join(f"{_name(folder)} {low / 1000:.0f} to {high / 1000:.0f} MHz" for folder, low, high, _ in known)
    return [ok(CLOCKS, f"free: {finding}")]


def _name(folder: str) -> str:
    return folder.rpartition("/")[2]
