"""Checks of the machine: permissions of devices, the disk for recordings, the clock, and the runtimes that load."""

import contextlib
import ctypes
import glob
import grp
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgetop.doctor.check import BOOTED, Check, Facts, ok, problem, unknown, warning
from edgetop.engines.spawn import CHILD
from edgetop.formatting import clean, size
from edgetop.frozen import frozen
from edgetop.installation import extra_command
from edgetop.paths import is_there
from edgetop.sensors.root import is_compatible
from edgetop.sensors.sensor_protocol import Missing
from edgetop.taps import perf

# Devices that the user may not open, and the group that may.

PERMISSIONS = "permissions"

# Device, purpose, and the group that usually owns it.
DEVICES = (
    ("/dev/i2c-*", "power monitors on I2C", "i2c"),
    ("/dev/vcio", "throttle flags and power of a Raspberry Pi (vcgencmd)", "video"),
    ("/run/jtop.sock", "jetson-stats", "jtop"),
    ("/dev/apex_*", "the Edge TPU", "apex"),
    ("/dev/dri/renderD*", "the GPU", "render"),
    ("/dev/nvhost-gpu", "the Jetson's GPU", "video"),
)
_ASKS_FOR_RIGHTS = re.compile(r"\b(chmod|usermod)\b")


def check_permissions(facts: Facts) -> list[Check]:
    """Check whether devices can be opened, and whether sensors such as RAPL can be read."""
    sensors = [missing for missing in facts.missing if missing.fix and _ASKS_FOR_RIGHTS.search(missing.fix)]
    return judge_permissions([*find_closed(), *sensors])


UPROBES = "uprobes"


def check_uprobes(_: Facts) -> list[Check]:
    """Return a check of whether `edgetop watch --pid` can work.

    The status of the check is always ok, because a benchmark needs no `watch --pid`.
    """
    if why := perf.why_not():
        return [ok(UPROBES, f"none: {why}", "edgetop watch -- COMMAND needs none")]
    return [ok(UPROBES, "edgetop watch --pid can watch programs that run already, as root")]


def judge_permissions(closed: Sequence[Missing]) -> list[Check]:
    """Return one check about the devices `closed`, which cannot be opened.

    The status of the check is at most a warning, because edgetop also measures without these devices.
    """
    if not closed:
        return [ok(PERMISSIONS, "every device found here can be opened")]
    finding = "; ".join(f"{clean(device.what)} ({device.why})" for device in closed)
    fixes = "; ".join(dict.fromkeys(device.fix or "" for device in closed))
    advice = "sensors are missing without them; a new group counts after the next login"
    return [warning(PERMISSIONS, f"may not be opened: {finding}", advice, fixes)]


def find_closed(
    devices: Sequence[tuple[str, str, str]] = DEVICES, may: Callable[[str, int], bool] = os.access
) -> Iterator[Missing]:
    """Yield the devices that the user is not allowed to open.

    Permissions are tested without opening a device, which could wake the hardware. `devices` has `(file name pattern,
    purpose, usual group)` for each kind of device. `may` tests permissions as access(2) does.
    """
    for pattern, purpose, usual in devices:
        closed = [path for path in sorted(glob.glob(pattern)) if not may(path, os.R_OK | os.W_OK)]  # noqa: PTH207
        if closed:
            group = usual
            with contextlib.suppress(OSError, KeyError):
                status = os.stat(closed[0])  # noqa: PTH116
                name = grp.getgrgid(status.st_gid).gr_name
                group = name if status.st_mode & 0o060 == 0o060 and name != "root" else usual
            yield Missing(", ".join(closed[:3]), purpose, f"sudo usermod -aG {group} $USER")


# The disk for recordings: the time that a flush takes, and the free space.
#
# The probe is a file without a name if the file system supports that (open(2), O_TMPFILE), so that nothing is left
# behind whatever happens. Otherwise its name is removed at once.

DISK = "disk"
BLOCK = bytes(64 * 1024)  # about as much as the journal writes at a time
FLUSHES = 10
BUDGET_S = 2.0
SLOW_S, VERY_SLOW_S = 0.1, 1.0
LITTLE_BYTES, TOO_LITTLE_BYTES = 1 << 30, 100 << 20
PASSING = {"tmpfs", "ramfs"}
REMOTE = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"}


@frozen
class Disk:
    folder: Path  # the folder of the recordings, or its nearest parent that exists
    file_system: str | None
    free_bytes: int
    flush_s: tuple[float, ...]  # times of writing and flushing 64 KiB


def check_disk(facts: Facts) -> list[Check]:
    folder = next(path for path in (facts.recordings, *facts.recordings.parents) if is_there(path) and path.is_dir())
    try:
        return [judge_disk(measure(folder, file_system(folder, facts.root.read_text("proc/self/mountinfo"))))]
    except OSError as error:
        finding = f"{clean(str(folder))} cannot be written: {error.strerror or error}"
        return [problem(DISK, finding, "record elsewhere with -o PATH", "export XDG_STATE_HOME=PATH")]


def file_system(folder: Path, mountinfo: str) -> str | None:
    """Return the type of the file system that holds a folder, such as `ext4`, or None if it is unknown.

    `mountinfo` is the text of /proc/self/mountinfo (proc_pid_mountinfo(5)).
    """
    best: tuple[int, str | None] = (-1, None)
    real = folder.resolve()
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.partition(" ")[0]
        if len(fields) > 4 and kind:
            mount = Path(fields[4].replace("\\040", " "))
            if real.is_relative_to(mount) and len(mount.parts) >= best[0]:
                best = (len(mount.parts), kind)
    return best[1]


def measure(folder: Path, kind: str | None, now_s: Callable[[], float] = time.monotonic) -> Disk:
    """Return the free space on the disk of `folder`, and how many seconds each flush of a block took.

    At most 640 KiB are written, within about two seconds. `kind` is the type of the file system, such as `ext4`, and is
    returned as well. Raises OSError if the folder cannot be written to.
    """
    flushes: list[float] = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
        begin = before = now_s()
        while len(flushes) < FLUSHES and before - begin < BUDGET_S:
            probe.write(BLOCK)
            os.fsync(probe.fileno())
            after = now_s()
            flushes.append(after - before)
            before = after
    status = os.statvfs(folder)
    return Disk(folder, kind, status.f_bavail * status.f_frsize, tuple(flushes))


def judge_disk(disk: Disk) -> Check:
    median, longest = statistics.median(disk.flush_s), max(disk.flush_s)
    kind = clean(disk.file_system or "file system unknown")
    finding = (
        f"{clean(str(disk.folder))} ({kind}), {size(disk.free_bytes)} free, "
        f"a flush takes {median * 1e3:.1f} ms, {longest * 1e3:.1f} at most"
    )
    troubles = (
        (disk.free_bytes < TOO_LITTLE_BYTES, problem, "a recording would end early: make room, or record elsewhere"),
        (median > VERY_SLOW_S, problem, "the recording would fall behind, and disturb a model that reads this disk"),
        (disk.file_system in PASSING, warning, "recordings are in memory: gone at the next boot, taken from the model"),
        (disk.free_bytes < LITTLE_BYTES, warning, "little for hours at high rates: --no-raw, or record elsewhere"),
        (median > SLOW_S, warning, "a slow card: record elsewhere if the model reads from it as it runs"),
        (disk.file_system in REMOTE, warning, "recordings cross the network: a local disk disturbs less"),
    )
    worst = next(((status, advice) for holds, status, advice in troubles if holds), None)
    if worst is None:
        return ok(DISK, finding)
    status, advice = worst
    return status(DISK, finding, f"{advice} (-o PATH for one run)", "export XDG_STATE_HOME=PATH")


# Whether a daemon keeps the wall clock synchronised. The UTC times of a recording depend on it, durations do not.
#
# The kernel answers without privileges, and in containers too: adjtimex(2) without a mode only reads, and STA_UNSYNC
# (include/uapi/linux/timex.h) is set until a daemon clears it.

CLOCK_SYNC = "clock-sync"
STA_UNSYNC = 0x0040


class _Timex(ctypes.Structure):
    """The C struct `timex` up to its field `status`. The kernel writes the other fields into `tail`."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),  # µs
        ("esterror", ctypes.c_long),  # µs
        ("status", ctypes.c_int),
        ("tail", ctypes.c_byte * 256),
    )


def check_clock(facts: Facts) -> list[Check]:
    try:
        return [judge_clock(*read_status(), has_systemd=facts.root.exists(BOOTED))]
    except OSError as error:
        return [unknown(CLOCK_SYNC, f"the kernel does not report it: {error.strerror}")]


def read_status() -> tuple[int, float]:
    """Return `(status bits, maximum error in s)` of the kernel's clock. Raises OSError if the kernel does not tell."""
    timex = _Timex()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.adjtimex(ctypes.byref(timex)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return timex.status, timex.maxerror / 1e6


def judge_clock(status: int, error_s: float, *, has_systemd: bool) -> Check:
    if status & STA_UNSYNC:
        advice = "durations are right all the same; the times of day of a recording may be wrong, and may jump"
        fix = "sudo timedatectl set-ntp true" if has_systemd else "sudo chronyd  (or another NTP daemon)"
        return warning(CLOCK_SYNC, "not synchronised: no daemon keeps the clock, says the kernel", advice, fix)
    return ok(CLOCK_SYNC, f"synchronised, {error_s * 1e3:.0f} ms off at most")


# The inference runtimes that are installed and load, and what they can run on. They are imported in a process of their
# own: here they would stay in memory, and some start threads.

RUNTIMES = "runtimes"
TIMEOUT_S = 60.0  # a cold start from a slow SD card
SUFFIX = "ExecutionProvider"
ELSEWHERE = {"Azure"}  # in the wheels of PyPI; it runs nothing here


def check_runtimes(facts: Facts) -> list[Check]:
    try:
        inventory = read_inventory(facts.python)
    except (OSError, ValueError) as error:
        advice = "name an interpreter that works with --engine-python"
        return [problem(RUNTIMES, f"{clean(facts.python)} cannot be asked: {clean(str(error))}", advice)]
    return judge_runtimes(inventory, facts)


def read_inventory(python: str, timeout_s: float = TIMEOUT_S) -> dict[str, Any]:
    """Return which Python, NumPy and runtimes the interpreter `python` has.

    The dict has the keys "python" (its version), "numpy", "runtimes" (versions, providers and errors by the runtime's
    name) and "plugins". Raises OSError or ValueError if the interpreter cannot be asked within `timeout_s` seconds.
    """
    try:
        done = subprocess.run(  # noqa: S603  the user's own interpreter and our own file
            [python, str(CHILD), "--inventory"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, start_new_session=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"it said nothing for {timeout_s:g} s") from None
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    try:
        inventory = json.loads(lines[-1] if lines else "")  # runtimes may print lines before it
        return {key: inventory[key] for key in ("python", "numpy", "runtimes", "plugins")}
    except (ValueError, KeyError, TypeError):
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ValueError(words[-1] if words else f"exit status {done.returncode}") from None


def judge_runtimes(inventory: dict[str, Any], facts: Facts) -> list[Check]:
    runtimes: dict[str, Any] = inventory["runtimes"]
    loads = {name: found for name, found in runtimes.items() if not found["error"]}
    broken = {name: found["error"] for name, found in runtimes.items() if found["error"]}
    finds = []
    for name, found in loads.items():
        providers = ", ".join(_local(found["providers"]))
        where = f" on {clean(providers)}" if providers else ""
        finds.append(f"{name} {clean(str(found['version'] or ''))}".rstrip() + where)
    finds += (f"{name} cannot be used: {clean(error)}" for name, error in broken.items())
    finding = f"{'; '.join(finds) or 'none'} (Python {clean(str(inventory['python']))})"
    if inventory["numpy"] is None or inventory["numpy"]["error"]:
        command = f"{shlex.quote(clean(facts.python))} -m pip install numpy"
        return [problem(RUNTIMES, f"no numpy that loads for {clean(facts.python)}", None, command)]
    if not loads:
        advice = "another interpreter can be named with --engine-python"
        return [problem(RUNTIMES, finding, advice, _runtime_command(facts.python, broken))]
    if broken:
        fix = _runtime_command(facts.python, broken) if _needed(broken) else None
        return [warning(RUNTIMES, finding, "reinstall what cannot be used, or remove it", fix)]
    # On a Jetson, an ONNX Runtime without GPU support measures the CPU, which few users intend.
    onnx = loads.get("onnxruntime")
    if onnx and is_compatible(facts.root, "nvidia,tegra") and _local(onnx["providers"]) == ["CPU"]:
        advice = "this wheel has no GPU build: JetPack's Python has one (jetson-ai-lab), named with --engine-python"
        return [warning(RUNTIMES, finding, advice, "edgetop doctor --engine-python /usr/bin/python3")]
    return [ok(RUNTIMES, finding)]


def _needed(broken: dict[str, str]) -> str | None:
    """Return the requirement that a runtime lacks, such as `numpy<2`, or None if no error names a requirement.

    `broken` has the error of each runtime that cannot be imported, by the runtime's name.
    """
    found = (re.search(r"\bneeds (numpy[<>=][0-9.]+)", error) for error in broken.values())
    return next((match[1] for match in found if match), None)


def _runtime_command(python: str, broken: dict[str, str]) -> str:
    """Return the command that installs a runtime that can be imported, for the interpreter `python`.

    `broken` has the error of each runtime that cannot be imported, by the runtime's name.
    """
    pip = f"{shlex.quote(clean(python))} -m pip install"
    if needed := _needed(broken):
        # edgetop's own Python records with pyarrow, which refuses NumPy 1 from version 26 on.
        arrow = " 'pyarrow<26'" if python == sys.executable and needed == "numpy<2" else ""
        return f"{pip} '{needed}'{arrow}"
    if python == sys.executable:
        return f"{extra_command('onnx')}  or  {extra_command('tflite')}"
    return f"{pip} onnxruntime  or  {pip} ai-edge-litert"


def _local(providers: list[str]) -> list[str]:
    return [name for provider in providers if (name := provider.removesuffix(SUFFIX)) not in ELSEWHERE]
