"""Accelerators that no other module reads: NPUs of Intel, AMD and Rockchip, Hailo's modules, and Edge TPUs.

Intel's driver (drivers/accel/ivpu/ivpu_sysfs.c) counts the time in which jobs ran. It wants at most one read per
second, because the submission of jobs has to wait during a read. The clock is 0 while the NPU is suspended; files with
clocks exist since Linux 6.17. No file has its temperature, or says that it is throttled.

AMD's driver (drivers/accel/amdxdna/amdxdna_sysfs.c) has only names and versions in files.

The driver `rocket` of Linux 6.18 for Rockchip's NPU (drivers/accel/rocket) has no file of its own. Its device in
/sys/class/accel is no core; the cores are bound to the driver (rocket_drv.c, "Facade device"). A core stays powered for
50 ms after a job (rocket_core.c, rocket_core_init), so the kernel's time with power is not its load.

The driver of Edge TPUs on PCIe has no load either (google/gasket-driver, src/apex_driver.c; thermal_zones.py reads its
temperature). On USB, no kernel driver is bound to an Edge TPU, and its runtime reports nothing.

Hailo's driver has only the address of the device in files (hailo-ai/hailort-drivers, linux/pcie/src/sysfs.c). The
command `hailortcli measure-power` prints a reading of the monitor that M.2 modules have (hailo-ai/hailort,
hailortcli/power_measurement_command.cpp); other modules refuse it. The temperature is only in HailoRT's API.
"""

import re
import time
from collections.abc import Callable

from edgetop.sensors.counters import Rate
from edgetop.sensors.root import Root, parse_int, run_command
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, attempt, gap_of, join, sensor
from edgetop.sensors.thermal_zones import APEX

ACCEL, HAILO = "sys/class/accel", "sys/class/hailo_chardev"
ROCKET, USB = "sys/bus/platform/drivers/rocket", "sys/bus/usb/devices"
# Vendor and product of an Edge TPU on USB: before its runtime has loaded the firmware, and after it.
EDGE_TPU_ON_USB = (("1a6e", "089a"), ("18d1", "9302"))
_DRIVER = re.compile(r"^DRIVER=([\w-]{1,32})$", re.MULTILINE)
HAILO_COMMAND = ("hailortcli", "measure-power")
HAILO_CADENCE_S = 10.0  # the command opens the device, and takes CPU time from the model
MOST_MHZ = 100_000
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")  # of a device on PCIe
_HAILO_POWER = re.compile(r"Current power consumption \(W\): ([0-9]{1,4}(?:\.[0-9]{1,9})?)\s")


def discover(root: Root) -> Found:
    devices = [f"{ACCEL}/{name}/device" for name in root.names(ACCEL)]
    intel = [device for device in devices if root.exists(f"{device}/npu_busy_time_us")]
    parts = [_intel(root, device, "npu" if not place else f"npu-{place + 1}") for place, device in enumerate(intel)]
    amd = [device for device in devices if root.exists(f"{device}/vbnv")]
    if amd:
        why = "the amdxdna driver reports neither load, clock nor temperature in files"
        parts.append(Found(missing=(Missing("load/npu", why, "xrt-smi examine"),)))
    if any(name.endswith(".npu") for name in root.names(ROCKET)):
        why = "the rocket driver reports neither load nor clock; cores stay powered for 50 ms after a job"
        parts.append(Found(missing=(Missing("load/npu", why),)))
    others = [_DRIVER.search(root.text(f"{device}/uevent")) for device in devices if device not in (*intel, *amd)]
    for driver in dict.fromkeys(found[1] for found in others if found):
        why = f"no file of the driver {driver} is known that reports it"
        parts.append(Found(missing=(Missing("load/npu", why),)))
    return join([*parts, _hailo(root), _edge_tpus(root)])


def _edge_tpus(root: Root) -> Found:
    """Return what Edge TPUs do not report, with reasons."""
    why = "the driver of Edge TPUs does not report it"
    missing = [
        Missing(f"load/edge-tpu:{name.removeprefix('apex_')}", why)
        for name in root.names(APEX)
        if root.exists(f"{APEX}/{name}/temp")
    ]
    on_usb = [name for name in root.names(USB) if usb_ids(root, name) in EDGE_TPU_ON_USB]
    why = "an Edge TPU on USB reports neither load nor temperature"
    missing += [Missing(f"load/edge-tpu:{name}", why) for name in on_usb]
    return Found(missing=tuple(missing))


def usb_ids(root: Root, device: str) -> tuple[str, str]:
    """Return vendor and product of a device on USB as hexadecimal digits, each "" if unknown.

    `device` is the name of its folder in sysfs, such as "1-1.4".
    """
    vendor, product = (root.line(f"{USB}/{device}/{name}") or "" for name in ("idVendor", "idProduct"))
    return vendor.lower(), product.lower()


def _intel(root: Root, device: str, label: str, clock_s: Callable[[], float] = time.monotonic) -> Found:
    """Return the sensors of one of Intel's NPUs: its load and, if its driver has them, its clock and its used memory.

    `device` is the folder of the device and `label` names it. `clock_s` returns the present time in seconds.
    """
    busy, rate = root.file(f"{device}/npu_busy_time_us"), Rate()
    load = sensor("load", label, root.absolute(busy.relative), note="share of the time in which jobs ran")

    def read_load() -> Values:
        return [rate.percent(busy.read_int() / 1e6, clock_s(), 1)]

    sources = [Reader((load,), read_load)]
    now, highest = f"{device}/npu_current_frequency_mhz", root.number(f"{device}/npu_max_frequency_mhz")
    if root.exists(now):
        clock, note = root.file(now), "0 while the NPU is suspended"
        most = float(highest) if highest and 0 < highest <= MOST_MHZ else None
        info = sensor("freq", label, root.absolute(now), max=most, note=note)
        sources.append(Reader((info,), lambda: [_mhz(clock.read_text())]))
    memory = f"{device}/npu_memory_utilization"
    if root.exists(memory):
        used = root.file(memory)
        info = sensor("mem", label, root.absolute(memory), note="memory of all programs that use the NPU")
        sources.append(Reader((info,), lambda: [used.read_int() / 2**20]))
    return Found(tuple(sources))


def _mhz(text: str) -> float:
    value = parse_int(text.strip())
    if not 0 <= value <= MOST_MHZ:
        raise ValueError(f"reads {value} MHz, which no clock has")
    return float(value)


def hailo_watts(text: str) -> float:
    r"""Return the power in W that `hailortcli measure-power` printed. Raises ValueError if it printed none.

    >>> hailo_watts("Current power consumption (W): 1.5432\n")
    1.5432
    """
    found = _HAILO_POWER.search(f"{text}\n")
    if found is None:
        raise ValueError(f"{' '.join(HAILO_COMMAND)} printed no power: {text.strip()[:80]!r}")
    return float(found[1])


def _hailo(root: Root) -> Found:
    """Return a reader of the power of each Hailo module that can measure it, and what cannot be read, with reasons."""
    names = root.names(HAILO)
    return join([_hailo_module(root, name, is_only=len(names) == 1) for name in names])


def _hailo_module(root: Root, name: str, *, is_only: bool) -> Found:
    """Return the reader of one module's power, and what cannot be read, with reasons.

    `name` is the module's folder in sysfs. `is_only` says that the board has no other module. If it has, `hailortcli`
    gets the module's address (hailortcli/common.cpp, add_device_options).
    """
    why = "HailoRT's driver has no file for it; it is only in HailoRT's API"
    missing = [Missing(f"temp/{name}", why), Missing(f"load/{name}", why)]
    address = root.line(f"{HAILO}/{name}/device_id") or ""
    command = HAILO_COMMAND if is_only else (*HAILO_COMMAND, "-s", address)
    first: Values | float | Gap = Gap("the command needs its address, which device_id does not have")
    if is_only or _ADDRESS.fullmatch(address):
        first = attempt(lambda: _ask(root, command))
    if isinstance(first, Gap):
        return Found(missing=(*missing, Missing(f"power/{name}", first.reason)))

    def read() -> Values:
        return [_ask(root, command)]

    note = "the module's own monitor"
    info = sensor("power", name, " ".join(command), role="part", accuracy="on-board-monitor", note=note)
    return Found((Reader((info,), read, HAILO_CADENCE_S, fastest_s=HAILO_CADENCE_S),), tuple(missing))


def _ask(root: Root, command: tuple[str, ...]) -> float | Gap:
    try:
        output = run_command(root, *command)
    except FileNotFoundError:
        return Gap("there is no hailortcli")
    except OSError as error:
        return gap_of(error)
    if output.exit_status != 0:
        return Gap(f"{' '.join(command)} ended with status {output.exit_status}: this module has no monitor?")
    return hailo_watts(output.text)
