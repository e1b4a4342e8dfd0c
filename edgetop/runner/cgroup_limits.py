"""Limits as on the device: the engine alone in a cgroup of its own, with a quota of CPU time or of memory.

If systemd runs the machine, the limit is a scope of it (systemd-run(1)), else a cgroup of its own, below or beside that
of edgetop, of version 2, or of version 1 if that has the controller. A command enters the cgroup and executes the
engine, so that nothing of the engine runs outside. Nothing else is ever put there.
Documentation/admin-guide/cgroup-v2.rst; cgroup-v1/memory.rst; scheduler/sched-bwc.rst.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetop.errors import InputError
from edgetop.sensors.cgroup import folders_of
from edgetop.sensors.process_table import HOST
from edgetop.sensors.root import Root

DEFAULT_PERIOD_US = 100_000  # sched-bwc.rst
PERIODS_US, LEAST_QUOTA_US = (1_000, 1_000_000), 1_000  # kernel/sched/core.c: min_cfs_quota_period and its opposite
PROBE_TIMEOUT_S = 20.0
PREFIX = "edgetop-"  # of a folder's name; edgetop's process id follows
BOOTED = "run/systemd/system"  # sd_booted(3)
_REMOVALS, _REMOVAL_PAUSE_S = 20, 0.05

# Enters each of the cgroups of which the files come first, and becomes the command that follows them.
_ENTER = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 97; shift; n=$((n - 1)); done; exec "$@"'
# Prints what the cgroup of version 2 that it runs in allows.
_ALLOWED = 'g=$(sed -n s/^0:://p /proc/self/cgroup); for m in "" /unified; do cat /sys/fs/cgroup$m$g/$1; done 2>&-'


@dataclass(frozen=True, slots=True)
class Limit:
    """What the engine may use of the machine. None: all of it."""

    cpus: int | None = None  # affinity, and threads where none are asked for
    memory_bytes: int | None = None  # no swap beyond it
    quota_pct: float | None = None  # of a CPU's time; 100: one CPU
    period_us: int = DEFAULT_PERIOD_US  # in which the quota is given

    @property
    def is_any(self) -> bool:
        """Whether anything is limited."""
        return any(value is not None for value in (self.cpus, self.memory_bytes, self.quota_pct))

    @property
    def quota_us(self) -> int | None:
        """CPU time in each period."""
        return None if self.quota_pct is None else round(self.quota_pct / 100 * self.period_us)


@dataclass(frozen=True, slots=True)
class Enclosure:
    """The cgroup in which the engine runs, if any."""

    way: str = ""  # "systemd scope", "cgroup v2", "cgroup v1"; "": no cgroup of its own
    prefix: tuple[str, ...] = ()  # of the command that starts it


@contextlib.contextmanager
def enclosed(limit: Limit, root: Root = HOST) -> Iterator[Enclosure]:
    """A cgroup with that limit, removed at the end. Raises InputError where none can be had, with what would help."""
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
    """The command that starts one of systemd with that limit in force; (): there is none to be had."""
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
    """Run a command that enters a cgroup. Return what it printed, and why it failed; None: it did not."""
    try:
        done = subprocess.run(  # noqa: S603  systemd-run or a shell of the system
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    failure = done.stderr.strip() or f"exit status {done.returncode}"
    return done.stdout.strip(), failure if done.returncode else None


def _make(limit: Limit, root: Root) -> tuple[list[Path], str]:
    """Folders with that limit, and of which version they are. Raises InputError; what was made is removed then."""
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
    """The innermost that can be made: below the cgroup of edgetop or, where that may have none, beside it."""
    for parent in parents:
        above = Path(root.real(parent))
        folder = above / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            if not is_v1 and not controllers <= set(root.text(f"{parent}/cgroup.subtree_control").split()):
                # Refused with EBUSY where processes are in it: "no internal process" of cgroup-v2.rst
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
    """File, value, and whether the limit is none without it. Swap is counted by some kernels only."""
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
    """The next run removes what cannot be removed now."""
    for _ in range(_REMOVALS):
        with contextlib.suppress(OSError):  # an engine that was killed is in it until it is all gone
            folder.rmdir()
        if not folder.exists():
            return
        time.sleep(_REMOVAL_PAUSE_S)


def joined(limits: Sequence[Mapping[str, float]]) -> Limit:
    """Combine several `--limit` options. Raises ValueError where one resource is limited twice."""
    fields: dict[str, float] = {}
    for each in limits:
        if both := each.keys() & fields.keys():
            raise ValueError(f"{min(both).partition('_')[0]} is limited twice")
        fields.update(each)
    return Limit(**fields)  # type: ignore[arg-type]
