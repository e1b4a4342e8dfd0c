"""Run an engine or a watched program in a cgroup of its own that limits its CPU time, memory or disk I/O (`--limit`).

If systemd runs the machine, the cgroup is a systemd scope (systemd-run(1)). Without systemd, the cgroup is made below
or beside the cgroup of edgetop, in the hierarchy of version 2, or of version 1 for a controller that version 2 lacks. A
command enters the cgroup and then executes the engine or program, so no part of it runs outside. See
Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and scheduler/sched-bwc.rst.

A cgroup outlives edgetop as long as a process is in it, such as a child that a program left behind. So each cgroup has
a guard: a small shell that waits for the end of edgetop, and then removes the cgroup as soon as it is empty. systemd
removes its scopes by itself.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from edgetop.errors import InputError
from edgetop.frozen import frozen
from edgetop.runner.engine_limit import Limit
from edgetop.sensors.cgroup_location import folders_of
from edgetop.sensors.process_table import HOST
from edgetop.sensors.root import Root

# kernel/sched/core.c: min_cfs_quota_period and max_cfs_quota_period
PERIODS_US, LEAST_QUOTA_US = (1_000, 1_000_000), 1_000
PROBE_TIMEOUT_S = 20.0
PREFIX = "edgetop-"  # a cgroup's name begins with this and edgetop's process id
BOOTED = "run/systemd/system"  # sd_booted(3)
_REMOVALS, _REMOVAL_PAUSE_S = 20, 0.05

# Arguments: a number n, the cgroup.procs files of n cgroups, a command. Enters the cgroups and executes the command.
_ENTER = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 97; shift; n=$((n - 1)); done; exec "$@"'
# Prints a limit (the file named by the argument) of the version 2 cgroup in which the shell runs.
_ALLOWED = 'g=$(sed -n s/^0:://p /proc/self/cgroup); for m in "" /unified; do cat /sys/fs/cgroup$m$g/$1; done 2>&-'
# Arguments: folders of cgroups. A process in the background, which is no child of edgetop, waits for the end of the
# input and then removes each cgroup, with those that the program made in it, as soon as it is empty.
_GUARD = """
clear() { for c in "$1"/*/; do [ ! -d "$c" ] || (clear "${c%/}"); done; rmdir "$1"; }
exec 3<&0; (read -r _; for g; do while [ -d "$g" ] && ! clear "$g"; do sleep 1; done; done) <&3 &
"""
CPUACCT = "cpuacct"  # controller of version 1 that counts CPU time
BLOCK = "sys/block"  # the whole disks; partitions are below them


@frozen
class Enclosure:
    """How to start a program in the cgroup that limits it. All fields are empty if the limit needs no cgroup."""

    way: str = ""  # how it is limited: "systemd scope", "cgroup v2", "cgroup v1"; "" without a cgroup
    prefix: tuple[str, ...] = ()  # put before a command, which then runs in the cgroup
    # The same in two parts, for a process that enters the cgroups itself: what is put before its command, and then the
    # files cgroup.procs that it writes its process id to.
    scope: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()


@contextlib.contextmanager
def enclosed(limit: Limit, root: Root = HOST) -> Iterator[Enclosure]:
    """Make a cgroup with this limit, and remove it at the end of the `with` block.

    The block gets an Enclosure, which says how to start a program in the cgroup. Raises InputError with advice if the
    cgroup cannot be made, or if the kernel cannot enforce every part of the limit. System files are read below `root`.
    """
    if not limit.needs_cgroup:
        yield Enclosure()
        return
    disks = hardware_disks(root) if limit.io_bytes_per_s is not None else []
    if scope := _scope(limit, disks, root):
        yield Enclosure("systemd scope", scope, scope)
        return
    folders, way = _make(limit, disks, root)
    guard = -1
    try:
        guard = _guard(folders)
        joins = tuple(f"{folder}/cgroup.procs" for folder in folders)
        prefix = ("/bin/sh", "-c", _ENTER, "sh", str(len(joins)), *joins)
        if (failure := _ran([*prefix, "true"])[1]) is not None:
            raise InputError(f"--limit: no process can be put into {folders[0]}: {failure}", _advice(root))
        yield Enclosure(way, prefix, cgroups=joins)
    finally:
        for folder in folders:
            _remove(folder)
        if guard >= 0:
            os.close(guard)


def _guard(folders: Sequence[Path]) -> int:
    """Start a small shell that removes the cgroups in `folders` when edgetop ends. Return a pipe's file descriptor.

    Closing the descriptor, as the kernel does when edgetop is killed, also makes the shell remove them. Raises OSError
    if the shell cannot be run, or CalledProcessError if it fails.
    """
    read, write = os.pipe()
    try:
        subprocess.run(  # noqa: S603  a shell of the system
            ["/bin/sh", "-c", _GUARD, "sh", *map(str, folders)],
            stdin=read,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # Ctrl+C must not reach it
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        os.close(write)
        raise
    finally:
        os.close(read)
    return write


def hardware_disks(root: Root) -> list[tuple[str, str]]:
    """Return name and number of each hardware disk, such as `("sda", "8:0")`, without partitions.

    System files are read below `root`. Raises InputError if there is no such disk.
    """
    named = ((name, root.line(f"{BLOCK}/{name}/dev")) for name in root.names(BLOCK))
    disks = [(name, number) for name, number in named if number and "device" in root.names(f"{BLOCK}/{name}")]
    if not disks:
        raise InputError("--limit io: this machine shows no disk whose traffic could be limited", "leave io= out")
    return disks


def refuse_without_io(root: Root = HOST) -> None:
    """Raise InputError if the kernel cannot limit all disk traffic of a cgroup."""
    # Cgroups of version 1 do not limit what the kernel writes later, from the page cache (cgroup-v1/blkio-
    # controller.rst).
    levels = folders_of(root.text("proc/self/cgroup"), root.text("proc/self/mountinfo"), "")
    if not levels or "io" not in root.text(f"{levels[-1]}/cgroup.controllers").split():
        text = "--limit io: the cgroups of this machine have no io.max, which only version 2 has"
        raise InputError(text, "boot with systemd.unified_cgroup_hierarchy=1, or leave io= out")


def _scope(limit: Limit, disks: Sequence[tuple[str, str]], root: Root) -> tuple[str, ...]:
    """Return the beginning of a command line that runs a program in a systemd scope with this limit.

    `disks` are the `(name, number)` pairs of the disks to limit. Return () if systemd does not run the machine, or if
    the limit would have no effect in a scope.
    """
    program = shutil.which("systemd-run")
    if not program or not root.exists(BOOTED):
        return ()
    properties, files = [], []
    if limit.memory_bytes is not None:
        properties += [f"MemoryMax={limit.memory_bytes}", f"MemorySwapMax={limit.swap_bytes}"]
        files.append(("memory.max", str(limit.memory_bytes - limit.memory_bytes % os.sysconf("SC_PAGE_SIZE"))))
    if limit.quota_us is not None:
        properties += [f"CPUQuota={limit.quota_pct:g}%", f"CPUQuotaPeriodSec={limit.period_us}us"]
        files.append(("cpu.max", f"{limit.quota_us} {limit.period_us}"))
    if (rate := limit.io_bytes_per_s) is not None:
        ways = ("IOReadBandwidthMax", "IOWriteBandwidthMax")
        properties += [f"{way}=/dev/{name.replace('!', '/')} {rate}" for name, _ in disks for way in ways]
        files.append(("io.max", f"{disks[0][1]} rbps={rate} wbps={rate}"))
    who = () if os.geteuid() == 0 else ("--user",)
    given = [word for each in properties for word in ("-p", each)]
    command = (program, *who, "--scope", "--quiet", "--collect", *given, "--")
    # A manager to which a controller is not delegated takes the property and does nothing.
    for name, value in files:
        lines = _ran([*command, "/bin/sh", "-c", _ALLOWED, "sh", name])[0].splitlines()
        if not any(line == value or line.startswith(f"{value} ") for line in lines):
            return ()
    return command


def _ran(command: Sequence[str]) -> tuple[str, str | None]:
    """Run a command that enters a cgroup. Return `(output, failure)`; `failure` says why it failed, or is None."""
    try:
        done = subprocess.run(  # noqa: S603  systemd-run or a shell of the system
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    failure = done.stderr.strip() or f"exit status {done.returncode}"
    return done.stdout.strip(), failure if done.returncode else None


def _make(limit: Limit, disks: Sequence[tuple[str, str]], root: Root) -> tuple[list[Path], str]:
    """Make cgroups with this limit. Return their folders and a text such as `cgroup v2`.

    `disks` are the `(name, number)` pairs of the disks to limit. If one of the cgroups cannot be made, no cgroup
    remains, and InputError is raised.
    """
    asked = (("memory", limit.memory_bytes), ("cpu", limit.quota_us), ("io", limit.io_bytes_per_s))
    wanted = {name for name, value in asked if value is not None}
    memberships, mounts = root.text("proc/self/cgroup"), root.text("proc/self/mountinfo")
    for controller in ("", "memory", "cpu", CPUACCT):
        for parent in folders_of(memberships, mounts, controller):
            _remove_abandoned(Path(root.real(parent)), root)
    levels = folders_of(memberships, mounts, "")
    newer = wanted & set(root.text(f"{levels[-1]}/cgroup.controllers").split()) if levels else set[str]()
    places = [("", newer, levels)] if newer else []
    if "io" in wanted:
        refuse_without_io(root)
    places += [(name, {name}, folders_of(memberships, mounts, name)) for name in sorted(wanted - newer)]
    made: list[Path] = []
    for controller, names, parents in places:
        if (folder := _first_made(limit, disks, root, names, parents, is_v1=bool(controller))) is None:
            for each in made:
                _remove(each)
            raise InputError(
                f"--limit: no cgroup can be made here that limits {' and '.join(sorted(names))}", _advice(root)
            )
        made.append(folder)
    if newer != wanted and (counts := _counting(limit, memberships, mounts, root)):
        made.append(counts)
    return made, "cgroup v2" if newer == wanted else "cgroup v1" if not newer else "cgroups v1 and v2"


def _counting(limit: Limit, memberships: str, mounts: str, root: Root) -> Path | None:
    """Make a cgroup of version 1 that limits nothing, and counts the CPU time of all processes in it.

    Return the cgroup's folder. Return None if no cgroup can be made, or if it is not needed because the cgroup with the
    CPU limit counts CPU time too.
    """
    parents = folders_of(memberships, mounts, CPUACCT)
    # Often the controllers `cpu` and `cpuacct` are in one hierarchy.
    is_joint = limit.quota_us is not None and parents == folders_of(memberships, mounts, "cpu")
    return None if is_joint else _first_made(limit, (), root, set(), parents, is_v1=True)


def _advice(root: Root) -> str:
    if root.exists(BOOTED) and os.geteuid():
        return (
            "sudo systemctl edit user@.service: [Service] Delegate=cpu memory io; then log in anew; or run it with sudo"
        )
    if os.geteuid():
        return "run it with sudo, or start it in a cgroup that is delegated to you"
    return "docker run --privileged --cgroupns=host, or a kernel with cgroup_enable=memory"


_numbers = itertools.count()


def _first_made(
    limit: Limit,
    disks: Sequence[tuple[str, str]],
    root: Root,
    controllers: set[str],
    parents: Sequence[str],
    *,
    is_v1: bool,
) -> Path | None:
    """Make a cgroup below the first of `parents` that allows it. Return its folder, or None if no parent allows it.

    `controllers` are the cgroup controllers that the limit needs, such as `memory`. `is_v1` says that they belong to
    version 1.
    """
    for parent in parents:
        above = Path(root.real(parent))
        folder = above / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            if not is_v1 and not controllers <= set(root.text(f"{parent}/cgroup.subtree_control").split()):
                # Fails with EBUSY if processes are in the parent: "no internal process" in cgroup-v2.rst
                (above / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in sorted(controllers)))
            folder.mkdir()
        except OSError:
            continue
        try:
            for name, value, is_needed in _settings(limit, disks, controllers, is_v1=is_v1):
                with contextlib.suppress(*(() if is_needed else (OSError,))):
                    (folder / name).write_text(value)
            return folder
        except OSError:
            _remove(folder)
    return None


def _settings(
    limit: Limit, disks: Sequence[tuple[str, str]], controllers: set[str], *, is_v1: bool
) -> Iterator[tuple[str, str, bool]]:
    """Yield `(file name, value to write, whether writing must succeed)` for each setting of the limit in a cgroup.

    `disks` are the `(name, number)` pairs of the disks to limit. `controllers` are the cgroup controllers that the
    limit needs, such as `memory`. `is_v1` says that the cgroup is of version 1.
    """
    memory, quota, period = str(limit.memory_bytes), str(limit.quota_us), str(limit.period_us)
    # Writing a setting of swap may fail, because some kernels do not count swap.
    both, has_swap = str((limit.memory_bytes or 0) + limit.swap_bytes), limit.swap_bytes > 0
    swap: tuple[tuple[str, str, bool], ...] = (("memory.memsw.limit_in_bytes", both, has_swap),)
    swap += () if has_swap else (("memory.swappiness", "0", False),)
    files = {
        ("memory", True): (("memory.limit_in_bytes", memory, True), *swap),
        ("memory", False): (("memory.max", memory, True), ("memory.swap.max", str(limit.swap_bytes), has_swap)),
        ("cpu", True): (("cpu.cfs_period_us", period, True), ("cpu.cfs_quota_us", quota, True)),
        ("cpu", False): (("cpu.max", f"{quota} {period}", True),),
    }
    for name in ("memory", "cpu"):
        yield from files[name, is_v1] if name in controllers else ()
    if "io" in controllers:
        rate = limit.io_bytes_per_s
        yield from (("io.max", f"{number} rbps={rate} wbps={rate}", True) for _, number in disks)


def _remove_abandoned(parent: Path, root: Root) -> None:
    """Remove the empty cgroups below the folder `parent` that a killed edgetop left behind."""
    for folder in parent.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not root.exists(f"proc/{pid}"):
            _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    """Remove a cgroup and the cgroups that its program made below it, except those with a process in them."""
    for place, _, _ in os.walk(folder, topdown=False):
        with contextlib.suppress(OSError):
            Path(place).rmdir()


def _remove(folder: Path) -> None:
    """Try several times to remove a cgroup. If it cannot be removed, a later run of edgetop removes it."""
    for _ in range(_REMOVALS):
        _remove_empty(folder)  # a killed engine stays in it for a moment
        if not folder.exists():
            return
        time.sleep(_REMOVAL_PAUSE_S)
