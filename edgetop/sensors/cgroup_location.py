"""Finds the cgroups of a process: the folders in which the kernel counts and limits its memory and CPU time.

The real /proc/PID/cgroup names the cgroup, and /proc/self/mountinfo shows where its files are: that of a process in a
container shows where they are in the container. See Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import re

from edgetop.frozen import frozen
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Missing

CPU_STAT = "cpu.stat"  # the same name in both versions

_OFF = Missing(
    "mem/cgroup",
    "the kernel's memory cgroups are off",
    "take cgroup_disable=memory off the kernel's command line and reboot; "
    "on Raspberry Pi OS add cgroup_enable=memory to /boot/firmware/cmdline.txt",
)


@frozen
class Files:
    """The names of the memory files in a cgroup's folder. `V1` and `V2` are for the two versions of cgroups."""

    current: str
    peak: str
    limits: tuple[str, ...]  # the lowest of them counts
    events: str  # has a line `oom_kill N`
    hits: str  # has the number of times that a limit was reached: a number, or lines `high N` and `max N`


V1 = Files(
    current="memory.usage_in_bytes", peak="memory.max_usage_in_bytes", limits=("memory.limit_in_bytes",),
    events="memory.oom_control", hits="memory.failcnt",
)  # fmt: skip
# Above memory.high the kernel reclaims the group's memory and lets its threads sleep for up to two seconds at a time
# (mem_cgroup_handle_over_high in mm/memcontrol.c), so the group does not get more.
HIGH, EVENTS = "memory.high", "memory.events"
V2 = Files("memory.current", "memory.peak", ("memory.max", HIGH), EVENTS, EVENTS)


@frozen
class Group:
    """A chain of cgroups: the engine's own first, then each parent up to the mount point of the hierarchy.

    `folders` are the cgroups' folders relative to the board's root, and `files` are the names of the files in each
    folder.
    """

    files: Files
    folders: tuple[str, ...]


def folders_of(memberships: str, mounts: str, controller: str) -> tuple[str, ...]:
    """Return the folders of a process's cgroup and of its parents up to the mount point, the process's own first.

    Returns () if the hierarchy is not mounted. `memberships` is the text of the process's file `cgroup`, and `mounts`
    is the text of edgetop's `mountinfo`. `controller` is a controller of version 1, such as `memory`, or "" for version
    2.
    """
    path, mounted = paths_of(memberships).get(controller), _mount(mounts, controller)
    return _levels(path, *mounted) or () if path is not None and mounted is not None else ()


def locate(root: Root, memberships: str, mounts: str) -> Group | Missing:
    """Return the cgroup that counts a process's memory, or the reason why there is none.

    `memberships` is the text of the process's file `cgroup`, `mounts` that of edgetop's `mountinfo`. If a system uses
    both versions of cgroups, version 1 is tried first.
    """
    for files, controller in ((V1, "memory"), (V2, "")):
        path, mounted = paths_of(memberships).get(controller), _mount(mounts, controller)
        if path is None or mounted is None:
            continue
        folders = _levels(path, *mounted)
        if folders is None:
            return Missing("mem/cgroup", f"the engine's cgroup {path} is not mounted here")
        accounting = [folder for folder in folders if root.exists(f"{folder}/{files.current}")]
        if accounting:  # a group without these files is accounted for in the next one above
            return Group(files, tuple(accounting))
    why, mounted = "no cgroup of the engine accounts memory", _mount(mounts, "")
    if mounted is None:
        return _OFF if _mount(mounts, "memory") is None else Missing("mem/cgroup", why)
    if "memory" not in root.text(f"{mounted[1]}/cgroup.controllers").split():
        return _OFF
    fix = "start edgetop in a group that does: systemd-run --user --scope -p MemoryAccounting=yes edgetop ..."
    return Missing("mem/cgroup", why, fix)


def paths_of(memberships: str) -> dict[str, str]:
    r"""Return the path of a process's cgroup by controller. The path of version 2 is under "".

    `memberships` has lines of the form `id:controllers:path` (cgroups(7)).

    >>> paths_of("4:cpu,cpuacct:/a\n0::/b")
    {'cpu': '/a', 'cpuacct': '/a', '': '/b'}
    """
    paths = {}
    for line in memberships.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdigit() and path.startswith("/") and "\0" not in path:
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _mount(mounts: str, controller: str) -> tuple[str, str] | None:
    """Return `(cgroup, mount point)` of a controller's first mount, or None if the controller is not mounted.

    `cgroup` is the path, in the hierarchy, of the cgroup whose folder is the mount point. `mounts` is the text of
    /proc/self/mountinfo (proc(5)). `controller` is "" for version 2.
    """
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")  # kinds: type, source, super options
        if len(fields) < 6 or len(kinds) < 3 or "\0" in _unescaped(line):
            continue
        if (kinds[0] == "cgroup2") if not controller else (kinds[0] == "cgroup" and controller in kinds[2].split(",")):
            return _unescaped(fields[3]), _unescaped(fields[4]).lstrip("/")
    return None


def _unescaped(path: str) -> str:
    r"""Return a path with its octal escapes decoded. The kernel writes a blank as `\040`.

    >>> _unescaped(r"/a\040b")
    '/a b'
    """
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _levels(path: str, mounted_root: str, mount_point: str) -> tuple[str, ...] | None:
    """Return the folder of a cgroup, then the folder of each parent up to the mount point.

    Returns None if the cgroup lies outside the mount. `path` is the cgroup's path in its hierarchy. `mounted_root` is
    the path, in the same hierarchy, of the cgroup that is mounted at the folder `mount_point`.

    >>> _levels("/a/b", "/", "sys/fs/cgroup")
    ('sys/fs/cgroup/a/b', 'sys/fs/cgroup/a', 'sys/fs/cgroup')
    """
    parts, base = path.strip("/").split("/"), mounted_root.strip("/")
    parts = [part for part in parts if part]
    above = base.split("/") if base else []
    if ".." in parts or parts[: len(above)] != above:
        return None
    below = parts[len(above) :]
    return tuple("/".join([mount_point, *below[:depth]]) for depth in range(len(below), -1, -1))
