"""Memory of the engine's cgroup: what it holds, its peak, its limit and how far that is, and kills.

Which one it is stands in the real /proc/PID/cgroup, and where its files are in
/proc/PID/mountinfo. A limit anywhere above it counts too, so every level up to the mount is
read; what is told as left is that of the tightest level, whose memory others may share.
Documentation/admin-guide/cgroup-v2.rst; Documentation/admin-guide/cgroup-v1/memory.rst.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetop.sensors.memory import MIB
from edgetop.sensors.paging import read_counters
from edgetop.sensors.protocol import Found, Gap, Missing, Source, sensor
from edgetop.sensors.rates import Rate
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

CADENCE_S = 1.0

# v1 has no word for "no limit": it shows PAGE_COUNTER_MAX pages (include/linux/page_counter.h), which
# are 8 EiB on 64 bits and 8 TiB on 32.
NO_LIMIT_FROM = 1 << 42

_OFF = Missing(
    "mem/cgroup",
    "the kernel's memory cgroups are off",
    "take cgroup_disable=memory off the kernel's command line and reboot; "
    "on Raspberry Pi OS add cgroup_enable=memory to /boot/firmware/cmdline.txt",
)


@dataclass(frozen=True, slots=True)
class Files:
    """How a version of cgroups names its files."""

    current: str
    peak: str
    limit: str
    events: str  # holds a line `oom_kill N`


V1 = Files("memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes", "memory.oom_control")
V2 = Files("memory.current", "memory.peak", "memory.max", "memory.events")


@dataclass(frozen=True, slots=True)
class Group:
    """The engine's own group and those it lies in, the innermost first; folders relative to the root."""

    files: Files
    folders: tuple[str, ...]


class CgroupMemory:
    """Held and, where the files are there, the peak, the limit with what is left, and kills."""

    name = "cgroup memory"
    cadence_s = CADENCE_S

    def __init__(self, root: Root, group: Group, now: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._group = group
        self._now = now
        self._kills = Rate()
        own = group.folders[0]
        self._parts: list[Callable[[], Sequence[float | Gap]]] = []
        self.sensors: tuple[SensorInfo, ...] = ()
        self._add(("mem", "cgroup", group.files.current), read=lambda: [self._mib(own, group.files.current)])
        if root.exists(f"{own}/{group.files.peak}"):
            self._add(("mem", "cgroup-peak", group.files.peak), read=lambda: [self._mib(own, group.files.peak)])
        if self._limits():
            pair = (("mem", "cgroup-limit", group.files.limit), ("mem", "cgroup-left", group.files.limit))
            self._add(*pair, read=self._tightest)
        if root.exists(f"{own}/{group.files.events}"):
            self._add(("rate", "oom-kills", group.files.events), read=lambda: [self._oom_kills(own)])

    def _add(self, *what: tuple[str, str, str], read: Callable[[], Sequence[float | Gap]]) -> None:
        shown = self._root.shown(self._group.folders[0])
        self.sensors = (
            *self.sensors,
            *(sensor(kind, label, f"{shown}/{file}", note=_NOTES.get(label)) for kind, label, file in what),
        )
        self._parts.append(read)

    def read(self) -> Sequence[float | Gap]:
        return [value for part in self._parts for value in part()]

    def _mib(self, folder: str, file: str) -> float:
        return self._count(folder, file) / MIB

    def _count(self, folder: str, file: str) -> int:
        value = self._root.read_int(f"{folder}/{file}")
        if value < 0:
            raise ValueError(f"{file} reads {value}")
        return value

    def _limits(self) -> list[tuple[int, str]]:
        """In bytes, of each level that has one. A level whose limit cannot be read has none."""
        limits = []
        for folder in self._group.folders:
            try:
                value = self._count(folder, self._group.files.limit)  # "max" is no number
            except (OSError, ValueError):
                continue
            if value < NO_LIMIT_FROM:
                limits.append((value, folder))
        return limits

    def _tightest(self) -> Sequence[float | Gap]:
        limits = self._limits()
        if not limits:
            return [Gap("no limit is set any more")] * 2
        left = [limit - self._count(folder, self._group.files.current) for limit, folder in limits]
        return [min(limits)[0] / MIB, max(0, min(left)) / MIB]

    def _oom_kills(self, folder: str) -> float | Gap:
        file = f"{folder}/{self._group.files.events}"
        kills = read_counters(self._root.read_text(file)).get("oom_kill")
        if kills is None:  # v1 before Linux 4.13
            return Gap("no oom_kill in the file")
        return self._kills.per_second(kills, self._now())


_NOTES = {
    "cgroup": "the engine's group, everything in it and the files it has cached included",
    "cgroup-limit": "the tightest on the way up",
    "cgroup-left": "to the limit that is nearest, which others may share",
}


def discover_engine(pid: int, *, shares_process: bool, host: Root | None = None) -> Found:  # noqa: ARG001  a group holds processes
    root = host or Root()
    try:
        memberships = root.read_text(f"proc/{pid}/cgroup")
        mounts = root.read_text(f"proc/{pid}/mountinfo")
    except OSError as error:
        return Found(missing=(Missing("mem/cgroup", f"/proc/{pid}/cgroup: {error.strerror}"),))
    found = locate(root, memberships, mounts)
    if isinstance(found, Missing):
        return Found(missing=(found,))
    source: Source = CgroupMemory(root, found)
    return Found((source,))


def locate(root: Root, memberships: str, mounts: str) -> Group | Missing:
    """The group that accounts the memory of the process these two files are about.

    On a hybrid system the memory controller may be in either hierarchy: version 1 says so by name.
    """
    paths = _paths(memberships)
    for files, path, mounted in ((V1, paths.get("memory"), _v1_mount(mounts)), (V2, paths.get(""), _v2_mount(mounts))):
        if path is None or mounted is None:
            continue
        folders = _levels(path, *mounted)
        if folders is None:
            return Missing("mem/cgroup", f"the engine's cgroup {path} is not mounted here")
        accounting = [folder for folder in folders if root.exists(f"{folder}/{files.current}")]
        if accounting:  # a group without files of its own is accounted in the next one above
            return Group(files, tuple(accounting))
    return _why_none(root, mounts)


def _why_none(root: Root, mounts: str) -> Missing:
    mounted = _v2_mount(mounts)
    if mounted is None:
        return _OFF if _v1_mount(mounts) is None else Missing("mem/cgroup", "no cgroup of the engine accounts memory")
    try:
        controllers = root.read_text(f"{mounted[1]}/cgroup.controllers").split()
    except OSError:
        controllers = []
    if "memory" not in controllers:
        return _OFF
    return Missing(
        "mem/cgroup",
        "no cgroup of the engine accounts memory",
        "start edgetop in a group that does: systemd-run --user --scope -p MemoryAccounting=yes edgetop ...",
    )


def _paths(memberships: str) -> dict[str, str]:
    """By controller; that of version 2 by the empty name. Lines are `id:controllers:path` (cgroups(7))."""
    paths = {}
    for line in memberships.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdigit() and path.startswith("/") and "\0" not in path:
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _v1_mount(mounts: str) -> tuple[str, str] | None:
    return next((m[:2] for m in _mounts(mounts) if m[2] == "cgroup" and "memory" in m[3].split(",")), None)


def _v2_mount(mounts: str) -> tuple[str, str] | None:
    return next((m[:2] for m in _mounts(mounts) if m[2] == "cgroup2"), None)


def _mounts(text: str) -> list[tuple[str, str, str, str]]:
    """Root within the hierarchy, mount point, type and super options (proc(5), mountinfo)."""
    found = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if len(fields) >= 6 and len(kinds) >= 3 and "\0" not in _unescaped(line):
            found.append((_unescaped(fields[3]), _unescaped(fields[4]).lstrip("/"), kinds[0], kinds[2]))
    return found


def _unescaped(path: str) -> str:
    r"""Blanks in paths are octal escapes.

    >>> _unescaped(r"/a\040b")
    '/a b'
    """
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _levels(path: str, mounted_root: str, mount_point: str) -> tuple[str, ...] | None:
    """The folders from the group's own up to the mount. None where the group lies outside of it."""
    parts, base = path.strip("/").split("/"), mounted_root.strip("/")
    parts = [part for part in parts if part]
    above = base.split("/") if base else []
    if ".." in parts or parts[: len(above)] != above:
        return None
    below = parts[len(above) :]
    return tuple("/".join([mount_point, *below[:depth]]) for depth in range(len(below), -1, -1))
