"""Run the engine in a cgroup of its own that limits its CPU time or memory, as on the target device (`--limit`).

If systemd runs the machine, the cgroup is a systemd scope (systemd-run(1)). Otherwise it is made below or beside the
cgroup of edgetop, in the hierarchy of version 2, or of version 1 for a controller that version 2 does not have. A
command enters the cgroup and then executes the engine, so that no part of the engine runs outside. No other process is
put into it. See Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and scheduler/sched-bwc.rst.
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
from edgetop.sensors.cgroup import folders_of
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


@frozen
class Enclosure:
    """The cgroup in which the engine runs, if any."""

    way: str = ""  # how it is limited: "systemd scope", "cgroup v2", "cgroup v1"; "" without a cgroup
    prefix: tuple[str, ...] = ()  # put before the command that starts the engine


@contextlib.contextmanager
def enclosed(limit: Limit, root: Root = HOST) -> Iterator[Enclosure]:
    """Provide a cgroup with this limit, and remove it at the end.

    Raises InputError, with advice, if no such cgroup can be made.
    """
    if limit.memory_bytes is None and limit.quota_pct is None:
        yield Enclosure()
        return
    if scope := _scope(limit, root):
        yield Enclosure("systemd scope", scope)
        return
    folders, way = _make(limit, root)
    try:
        joins = [f"{folder}/cgroup.procs" for folder in folders]
        prefix = ("/bin/sh", "-c", _ENTER, "sh", str(len(joins)), *joins)
        if (failure := _ran([*prefix, "true"])[1]) is not None:
            raise InputError(f"--limit: no process can be put into {folders[0]}: {failure}", _advice(root))
        yield Enclosure(way, prefix)
    finally:
        for folder in folders:
            _remove(folder)


def _scope(limit: Limit, root: Root) -> tuple[str, ...]:
    """Return the command that runs another one in a systemd scope with this limit, or () if the limit has no effect."""
    program = shutil.which("systemd-run")
    if not program or not root.exists(BOOTED):
        return ()
    properties, files = [], []
    if limit.memory_bytes is not None:
        properties += [f"MemoryMax={limit.memory_bytes}", "MemorySwapMax=0"]
        files.append(("memory.max", str(limit.memory_bytes - limit.memory_bytes % os.sysconf("SC_PAGE_SIZE"))))
    if limit.quota_us is not None:
        properties += [f"CPUQuota={limit.quota_pct:g}%", f"CPUQuotaPeriodSec={limit.period_us}us"]
        files.append(("cpu.max", f"{limit.quota_us} {limit.period_us}"))
    who = () if os.geteuid() == 0 else ("--user",)
    given = [word for each in properties for word in ("-p", each)]
    command = (program, *who, "--scope", "--quiet", "--collect", *given, "--")
    # A manager to which a controller is not delegated takes the property and does nothing.
    if all(_ran([*command, "/bin/sh", "-c", _ALLOWED, "sh", name])[0] == value for name, value in files):
        return command
    return ()


def _ran(command: Sequence[str]) -> tuple[str, str | None]:
    """Run a command that enters a cgroup. Return its output, and why it failed or None."""
    try:
        done = subprocess.run(  # noqa: S603  systemd-run or a shell of the system
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    failure = done.stderr.strip() or f"exit status {done.returncode}"
    return done.stdout.strip(), failure if done.returncode else None


def _make(limit: Limit, root: Root) -> tuple[list[Path], str]:
    """Make cgroups with this limit. Return their folders, and the cgroup version in words.

    Raises InputError if that fails, and removes what it made.
    """
    wanted = {name for name, value in (("memory", limit.memory_bytes), ("cpu", limit.quota_us)) if value is not None}
    memberships, mounts = root.text("proc/self/cgroup"), root.text("proc/self/mountinfo")
    for controller in ("", "memory", "cpu"):
        for parent in folders_of(memberships, mounts, controller):
            _remove_abandoned(Path(root.real(parent)), root)
    levels = folders_of(memberships, mounts, "")
    newer = wanted & set(root.text(f"{levels[-1]}/cgroup.controllers").split()) if levels else set[str]()
    places = [("", newer, levels)] if newer else []
    places += [(name, {name}, folders_of(memberships, mounts, name)) for name in sorted(wanted - newer)]
    made: list[Path] = []
    for controller, names, parents in places:
        if (folder := _first_made(limit, root, names, parents, is_v1=bool(controller))) is None:
            for each in made:
                _remove(each)
            raise InputError(
                f"--limit: no cgroup can be made here that limits {' and '.join(sorted(names))}", _advice(root)
            )
        made.append(folder)
    return made, "cgroup v2" if newer == wanted else "cgroup v1" if not newer else "cgroups v1 and v2"


def _advice(root: Root) -> str:
    if root.exists(BOOTED) and os.geteuid():
        return "sudo systemctl edit user@.service: [Service] Delegate=cpu memory; then log in anew; or run it with sudo"
    if os.geteuid():
        return "run it with sudo, or start it in a cgroup that is delegated to you"
    return "docker run --privileged --cgroupns=host, or a kernel with cgroup_enable=memory"


_numbers = itertools.count()


def _first_made(limit: Limit, root: Root, controllers: set[str], parents: Sequence[str], *, is_v1: bool) -> Path | None:
    """Make a cgroup below the first of `parents` that allows it, and return its folder, or None.

    The first parent is edgetop's own cgroup, the second is the cgroup above, and so on.
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
            for name, value, is_needed in _settings(limit, controllers, is_v1=is_v1):
                with contextlib.suppress(*(() if is_needed else (OSError,))):
                    (folder / name).write_text(value)
            return folder
        except OSError:
            _remove(folder)
    return None


def _settings(limit: Limit, controllers: set[str], *, is_v1: bool) -> Iterator[tuple[str, str, bool]]:
    """Yield each file to write, its value, and whether it is required. Only some kernels count swap."""
    memory, quota, period = str(limit.memory_bytes), str(limit.quota_us), str(limit.period_us)
    swap = ("memory.memsw.limit_in_bytes", memory, False), ("memory.swappiness", "0", False)
    files = {
        ("memory", True): (("memory.limit_in_bytes", memory, True), *swap),
        ("memory", False): (("memory.max", memory, True), ("memory.swap.max", "0", False)),
        ("cpu", True): (("cpu.cfs_period_us", period, True), ("cpu.cfs_quota_us", quota, True)),
        ("cpu", False): (("cpu.max", f"{quota} {period}", True),),
    }
    for name in ("memory", "cpu"):
        yield from files[name, is_v1] if name in controllers else ()


def _remove_abandoned(parent: Path, root: Root) -> None:
    """Remove the cgroups of killed edgetop processes, whose engines ended with them."""
    for folder in parent.glob(f"{PREFIX}*-*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdecimal() and not root.exists(f"proc/{pid}"):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _remove(folder: Path) -> None:
    """Remove a cgroup. If that fails, the next run removes it."""
    for _ in range(_REMOVALS):
        with contextlib.suppress(OSError):  # a killed engine stays in it for a moment
            folder.rmdir()
        if not folder.exists():
            return
        time.sleep(_REMOVAL_PAUSE_S)
