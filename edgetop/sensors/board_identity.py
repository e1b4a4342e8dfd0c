"""The identity of the board: model, SoC, kernel, system, CPU. Serial numbers, host names and user names are never read.

Strings of the device tree end in NUL (Documentation/devicetree/usage-model.rst). On x86 the names come from
/sys/class/dmi/id. The SoC is the last entry of `compatible`, since `model` does not always name it (a CM3588's model
does not contain "RK3588").
"""

import os
import platform
import re
from collections.abc import Callable
from typing import Literal

from edgetop.sensors.clocks import policies
from edgetop.sensors.cpu_caches import read_caches
from edgetop.sensors.jetson import read_power_mode
from edgetop.sensors.memory_sensors import read_meminfo
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Reader, SensorEvent, Values
from edgetop.session.event_kinds import ClockSource, SettingChanged
from edgetop.session.manifest import Board

# What Qualcomm's own kernels write behind the name of the SoC: the kind of board (arch/arm64/boot/dts/qcom).
_FORM_FACTOR = re.compile(r"qcom,(mtp|cdp|qrd|hdk|idp|fluid|liquid|rumi|sim|sbc)")
# Names of ARM CPUs by part number, since /proc/cpuinfo has only the number (arch/arm64/include/asm/cputype.h).
_ARM_PARTS = {
    "0xd03": "Cortex-A53", "0xd04": "Cortex-A35", "0xd05": "Cortex-A55", "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72", "0xd09": "Cortex-A73", "0xd0a": "Cortex-A75", "0xd0b": "Cortex-A76",
    "0xd0d": "Cortex-A77", "0xd41": "Cortex-A78", "0xd42": "Cortex-A78AE", "0x004": "Carmel", "0x003": "Denver 2",
    "0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd44": "Cortex-X1", "0xd46": "Cortex-A510",
    "0xd47": "Cortex-A710", "0xd4b": "Cortex-A78C", "0xd4d": "Cortex-A715", "0xd80": "Cortex-A520",
    "0xd81": "Cortex-A720", "0xd83": "Neoverse-V3AE", "0xc07": "Cortex-A7", "0xc09": "Cortex-A9", "0xc0f": "Cortex-A15",
}  # fmt: skip

# Values of DMI fields that the maker of a mainboard did not fill in.
_UNFILLED = re.compile(
    r"to be filled by o\.e\.m\.?|default string|system (manufacturer|product name)|o\.e\.m\.?|none|not specified",
    re.IGNORECASE,
)

# First line of /etc/nv_tegra_release in NVIDIA's L4T, and the JetPack version of each L4T release.
_L4T = re.compile(r"# R(\d+) \(release\), REVISION: ([\d.]+)")
_JETPACKS = {"32": 4, "34": 5, "35": 5, "36": 6, "38": 7, "39": 7}


def read_board(root: Root) -> Board:
    """Return the board's model, SoC, kernel, CPU and the like. Fields that cannot be read are None."""
    memory_kib = read_meminfo(root).get("MemTotal")
    model = root.line("proc/device-tree/model") or _dmi(root, "sys_vendor", "product_name")
    compatible = [name for name in (root.line("proc/device-tree/compatible") or "").split("\0") if name]
    cpus = [name for name in root.names("sys/devices/system/cpu") if re.fullmatch(r"cpu\d+", name)]
    return Board(
        model=model or _dmi(root, "board_vendor", "board_name"),
        soc=next((name for name in reversed(compatible) if not _FORM_FACTOR.fullmatch(name)), None),
        kernel=root.line("proc/sys/kernel/osrelease"),
        os=_os(root),
        cpu=_cpu(root),
        cores=os.cpu_count() if root.is_host else len(cpus) or None,
        memory_bytes=memory_kib and memory_kib * 1024,
        power_mode=str(mode) if (mode := read_power_mode(root)) else None,
        governor=read_governor(root),
        caches=read_caches(root),
    )


def _dmi(root: Root, vendor: str, product: str) -> str | None:
    """Return the maker and the product of a PC, such as `LENOVO 20XW`, or None if the product has no name.

    `vendor` and `product` are names of files in /sys/class/dmi/id, such as `sys_vendor` and `product_name`. A mainboard
    that is sold alone has its names in `board_vendor` and `board_name`.
    """
    names = [root.line(f"sys/class/dmi/id/{name}") or "" for name in (vendor, product)]
    maker, model = ("" if _UNFILLED.fullmatch(name) else name for name in names)
    if names[1] and not model:
        return None
    return " ".join(name for name in (maker, model) if name) or None


def _os(root: Root) -> str | None:
    """Return the names of the distribution and of the vendor's system software, or None if neither is known.

    An example is `Ubuntu 22.04, L4T 36.4 (JetPack 6)`.
    """
    distribution = _fields(root, "etc/os-release").get("PRETTY_NAME")
    # Raspberry Pi OS calls itself Debian: pi-gen writes `Raspberry Pi reference 2024-11-19`.
    pi = re.match(r"Raspberry Pi reference (\S+)", root.line("etc/rpi-issue") or "")
    package = f"Raspberry Pi OS image {pi[1]}" if pi else _image(root, "Armbian") or _image(root, "Orange Pi")
    if l4t := _L4T.match(root.line("etc/nv_tegra_release") or ""):
        jetpack = _JETPACKS.get(l4t[1])
        package = f"L4T {l4t[1]}.{l4t[2]}" + (f" (JetPack {jetpack})" if jetpack else "")
    if distribution and package and package.split()[0] in distribution:
        package = None  # Armbian has its name in both files
    return ", ".join(name for name in (distribution, package) if name) or None


def _fields(root: Root, relative: str) -> dict[str, str]:
    """Return the values in a file with lines `KEY=value`, by key. Quotes around a value are removed.

    `relative` is the file's path below the root, such as `etc/os-release`.
    """
    lines = (line.partition("=") for line in root.text(relative).splitlines())
    return {key: value.strip("\"'") for key, _, value in lines}


def _image(root: Root, name: str) -> str | None:
    """Return the name and version of a system image, such as `Armbian 24.2`, or None if the board does not run it.

    `name` is `Armbian` or `Orange Pi`. Both have a release file of the same form (armbian/build).
    """
    version = _fields(root, f"etc/{name.lower().replace(' ', '')}-release").get("VERSION")
    return f"{name} {version}" if version else None


def _cpu(root: Root) -> str | None:
    if not root.exists("proc/cpuinfo"):
        return platform.machine() if root.is_host else None
    lines = (line.partition(":") for line in root.text("proc/cpuinfo").splitlines())
    values = [(key.strip(), value.strip()) for key, _, value in lines]
    parts = [value for key, value in values if key == "CPU part"]
    # On ARM use the part, since the model name of 32-bit and NVIDIA's kernels is only "ARMv8 Processor rev 1 (v8l)".
    found = [_ARM_PARTS[part] for part in parts if part in _ARM_PARTS]
    found = found or [value for key, value in values if key in ("model name", "uarch")]  # uarch: RISC-V
    found = found or [f"ARM part {part}" for part in parts]
    name = " + ".join(dict.fromkeys(name for name in found if name)) or None
    emulator = read_emulator(root)
    return f"{name} under {emulator}" if name and emulator else name


def read_emulator(root: Root) -> str | None:
    """Return the emulator that runs this process, such as `qemu-aarch64`, or None on a real CPU.

    QEMU's user emulation shows the emulated CPU in /proc/cpuinfo, and the emulated program in /proc/self. But
    /proc/thread-self leads to QEMU itself (linux-user/syscall.c, is_proc_myself; seen with 10.0).
    """
    try:
        program = os.readlink(root.real("proc/thread-self") + "/exe")  # noqa: PTH115  a path here is text
    except OSError:
        return None
    name = os.path.basename(program)  # noqa: PTH119
    return name if name.startswith("qemu-") else None


def read_governor(root: Root) -> str | None:
    """Return the name of the CPU's frequency governor, such as `schedutil`, or None if the kernel reports none.

    If the clusters of the CPU have different governors, the result has all their names, separated by commas.
    """
    found = [root.line(f"{folder}/scaling_governor") for folder in policies(root)]
    return ", ".join(dict.fromkeys(name for name in found if name)) or None


# A reader without sensors watches the settings that decide the board's speed. Its events say when the governor, the
# power mode or the set of online CPUs changes, and whether the kernel's clock source is slow to read.

CADENCE_S = 10.0

CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
# Clock sources that processes read without a system call (vDSO): arch/x86/include/asm/vdso/clocksource.h,
# drivers/clocksource/arm_arch_timer.c, drivers/clocksource/timer-riscv.c. Other ones take a microsecond or more at each
# end of an inference, and some (jiffies, acpi_pm) count in coarse steps.
FAST_CLOCKS = frozenset(
    {"tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "riscv_clocksource", "timebase", "tod"}
)


# The CPUs that run threads, such as `0-3` or `0,2-3` (Documentation/ABI/testing/sysfs-devices-system-cpu).
ONLINE = "sys/devices/system/cpu/online"

_Setting = tuple[Literal["governor-changed", "power-mode-changed", "cpus-changed"], str, Callable[[Root], str | None]]
_WATCHED: tuple[_Setting, ...] = (
    ("governor-changed", "the governor", read_governor),
    # Only the name of the mode: limits that differ from those of the mode may also be due to heat.
    ("power-mode-changed", "the power mode", lambda root: mode.name if (mode := read_power_mode(root)) else None),
    ("cpus-changed", "the set of online CPUs", lambda root: root.line(ONLINE)),
)


def discover_settings(root: Root) -> Found:
    """Return a reader that has no sensors and only makes events.

    An event says that a setting changed (the CPU's governor, the power mode or the set of online CPUs), or that the
    kernel's clock source is slow to read. The result is empty if the board shows none of these.
    """
    if not root.line(CLOCK) and not any(read_setting(root) is not None for _, _, read_setting in _WATCHED):
        return Found()
    events: list[SensorEvent] = []
    values: dict[str, str] = {}
    is_clock_checked = False

    def read() -> Values:
        nonlocal is_clock_checked
        for kind, what, read_setting in _WATCHED:
            if (value := read_setting(root)) is None:
                continue
            before, values[kind] = values.get(kind), value
            if before is not None and before != value:
                text = f"{what} changed from {before} to {value}"
                events.append(SensorEvent(SettingChanged(kind, before, value), text, "warning"))
        clock = None if is_clock_checked else root.line(CLOCK)
        is_clock_checked = True
        if clock is not None and clock not in FAST_CLOCKS:
            text = f"the kernel counts time by {clock}, which is slow to read: short inferences look longer"
            events.append(SensorEvent(ClockSource(clock), text, "warning"))
        return []

    return Found((Reader((), read, CADENCE_S, "settings", events=events),))
