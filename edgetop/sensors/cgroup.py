"""Sensors of the engine's cgroup: memory in use, its peak and limit, memory left, OOM kills, and the CPU quota.

The real /proc/PID/cgroup names the cgroup, and /proc/self/mountinfo shows in which folder its files are. Limits of the
parent cgroups apply as well, so every level up to the mount point is read. The memory left is the least that any level
has left. Other processes may share that level. See Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and
scheduler/sched-bwc.rst.
"""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from edgetop.frozen import frozen
from edgetop.sensors.counters import FIRST, WENT_BACK, Rate, SumRate, bounded
from edgetop.sensors.memory_sensors import MIB
from edgetop.sensors.plausible import EVENTS_PER_CPU, most_cpus
from edgetop.sensors.process_table import HOST, parse_counters
from edgetop.sensors.root import File, Root, parse_int
from edgetop.sensors.sensor_protocol import (
    Found,
    Gap,
    Missing,
    Reader,
    SensorEvent,
    Values,
    attempt,
    gap_of,
    join,
    sensor,
)
from edgetop.session.event_kinds import LimitReached
from edgetop.session.manifest import SensorInfo

# A limit from which on there is none: version 1 then shows PAGE_COUNTER_MAX pages (include/linux/page_counter.h), which
# are 8 EiB on 64-bit and 8 TiB on 32-bit systems.
NO_LIMIT_FROM = 1 << 42

CPU_STAT = "cpu.stat"  # the same name in both versions
LONGEST_STALL_S = 10.0  # a stall counts when it ends; a period has a second at most (scheduler/sched-bwc.rst)
PERIODS_PER_S = 1000.0  # min_cfs_quota_period in kernel/sched/fair.c is 1 ms
QUIET_READINGS = 10  # an onset is reported again only after this many readings of 0

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


def cgroup_memory(root: Root, group: Group, now: Callable[[], float] = time.monotonic) -> Reader:
    """Return a reader of the memory in use of the engine's cgroup, which is the first one in `group`.

    The reader also gives the peak, the limit, the memory left and the OOM kills, if the kernel has files for them.
    `now` returns the present time in seconds.
    """
    files, own, most = group.files, group.folders[0], most_cpus(root) * EVENTS_PER_CPU
    infos: list[SensorInfo] = []
    parts: list[Callable[[], Values]] = []
    onset = Onset("memory-limit")

    def add(file: str, *sensors: tuple[str, str], read: Callable[[], Values]) -> None:
        source = f"{root.absolute(own)}/{file}"
        infos.extend(sensor(kind, label, source, note=_NOTES.get(label)) for kind, label in sensors)
        parts.append(read)

    held, peak, events = (root.file(f"{own}/{name}") for name in (files.current, files.peak, files.events))
    add(files.current, ("mem", "cgroup"), read=lambda: [_count(held) / MIB])
    if root.exists(peak.relative):
        add(files.peak, ("mem", "cgroup-peak"), read=lambda: [_count(peak) / MIB])
    levels = [
        (root.file(f"{each}/{name}"), root.file(f"{each}/{files.current}"))
        for each in group.folders
        for name in files.limits
    ]
    if limits := _limits(levels):
        name = min(limits, key=lambda one: one[0])[2].relative.rpartition("/")[2]
        add(name, ("mem", "cgroup-limit"), ("mem", "cgroup-left"), read=lambda: _tightest(levels))
    if root.exists(events.relative):
        kills = Rate()

        def read_kills() -> Values:
            count = parse_counters(events.read_text()).get("oom_kill")  # version 1 lacks it before Linux 4.13
            return [Gap("no oom_kill in the file") if count is None else kills.per_second(count, now(), most)]

        add(files.events, ("rate", "oom-kills"), read=read_kills)
    if hits := _limited(root, group):
        rates, highs = SumRate(), SumRate()

        def read_hits() -> Values:
            at_s, counts = now(), {name: _hits(file) for name, file in hits.items()}
            high = highs.per_second({name: count for name, (count, _) in counts.items()}, at_s, lambda *_: most)
            every = rates.per_second({name: sum(both) for name, both in counts.items()}, at_s, lambda *_: most)
            onset.checked(every, _ABOVE_HIGH if isinstance(high, float) and high > 0 else _AT_MAXIMUM)
            return [high, every] if has_high else [every]

        has_high = any(limit.relative.endswith(HIGH) for _, _, limit in _limits(levels))
        both = [("rate", "memory-high-hits"), ("rate", "memory-limit-hits")]
        add(files.hits, *both[not has_high :], read=read_hits)
    return Reader(
        tuple(infos), lambda: [value for part in parts for value in part()], name="cgroup memory", events=onset.events
    )


_AT_MAXIMUM = "the memory limit is reached: something of the engine must go before it gets more"
_ABOVE_HIGH = "memory.high is exceeded: the kernel takes memory back from the engine and makes it sleep meanwhile"
_QUOTA_USED_UP = "the CPU quota is used up: the engine waits for its next period"


class Onset:
    """Makes an event when a process begins to hit a limit.

    That is at the first value above 0, and at each value above 0 that follows at least `QUIET_READINGS` zeros.
    """

    def __init__(self, kind: Literal["cpu-quota", "memory-limit"]) -> None:
        self.events: list[SensorEvent] = []
        self._kind: Literal["cpu-quota", "memory-limit"] = kind
        self._quiet = QUIET_READINGS

    def checked(self, value: float | Gap, message: str) -> float | Gap:
        """Return `value` unchanged, and make an event with the text `message` if the limit begins to be hit.

        `value` is the newest reading: 0 if the limit was not hit, else above 0.
        """
        if not isinstance(value, Gap):
            if value > 0 and self._quiet >= QUIET_READINGS:
                self.events.append(SensorEvent(LimitReached(self._kind, round(value, 1)), message, "warning"))
            self._quiet = 0 if value > 0 else self._quiet + 1
        return value


def cpu_quota(
    root: Root, folders: Sequence[str], now: Callable[[], float] = time.monotonic, *, is_latent: bool = False
) -> Reader:
    """Return a reader of how much a CPU quota stops the engine.

    It reads two values: the percentage of quota periods in which the engine was stopped, and the ms per second for
    which it was stopped. `folders` are the folders, relative to `root`, of all cgroups that may have a quota: the
    engine's own and its parents. Each of these cgroups can stop the engine, and the reader gives the highest of their
    values. `now` returns the present time in seconds. `is_latent` says that there is no quota yet.
    """
    cpus = most_cpus(root)
    levels = [_Quota(root.file(f"{folder}/{CPU_STAT}"), cpus) for folder in folders]
    onset = Onset("cpu-quota")

    def read() -> Values:
        shares, stalls = zip(*(level.attempt_at(now(), is_only=len(levels) == 1) for level in levels), strict=True)
        return [onset.checked(_most(shares), _QUOTA_USED_UP), _most(stalls)]

    source = root.absolute(levels[0].file.relative)
    share = "share of its periods in which the engine waited for the next one"
    stall = "ms a second, for which the quota stopped its threads, of all CPUs together"
    infos = sensor("pressure", "cpu-quota", source, note=share), sensor("rate", "cpu-throttled", source, note=stall)
    return Reader(infos, read, name="cgroup CPU quota", events=onset.events, is_latent=is_latent)


# cpu_cfs_stat_show and cpu_extra_stat_show in kernel/sched/core.c; the latter only if the controller is enabled.
_OF_QUOTA = frozenset({"nr_periods", "nr_throttled", "throttled_usec", "throttled_time"})


class _Quota:
    """Follows the CPU quota of one cgroup: computes how often and for how long the quota stopped the group."""

    def __init__(self, file: File, cpus: int) -> None:
        """Begin to follow the file `cpu.stat` of a cgroup.

        `cpus` is the number of CPUs that the quota can stop at once.
        """
        self.file, self._cpus = file, cpus
        self._before: tuple[int, int, float] | None = None  # number of periods, of those in which it waited, and time
        self._stall = Rate(LONGEST_STALL_S)

    def attempt_at(self, at_s: float, *, is_only: bool) -> tuple[float | Gap, float | Gap]:
        """Return the two values of `read_at`. If the file cannot be read, return two gaps, so that other cgroups still
        count.

        `is_only` says that there is no other cgroup with a quota. OSError is then raised instead.
        """
        try:
            return self.read_at(at_s)
        except OSError as error:
            if is_only:
                raise
            return gap_of(error), gap_of(error)

    def read_at(self, at_s: float) -> tuple[float | Gap, float | Gap]:
        """Return `(percent of quota periods in which the group was stopped, ms per second for which it was stopped)`.

        Both values are about the time since the last read. Each may be a gap. `at_s` is the present time in seconds.
        """
        fields = parse_counters(self.file.read_text())
        if not fields.keys() & _OF_QUOTA:  # version 2 without the controller `cpu`, which may be enabled later
            fields.update(dict.fromkeys(_OF_QUOTA - {"throttled_time"}, 0))
        # Version 2 counts microseconds, version 1 nanoseconds.
        stalled_ms = fields.get("throttled_usec", 0) / 1e3 + fields.get("throttled_time", 0) / 1e6
        is_timed = "throttled_usec" in fields or "throttled_time" in fields
        stall = (
            self._stall.per_second(stalled_ms, at_s, 1e3 * self._cpus)
            if is_timed
            else Gap("no throttled time in the file")
        )
        if not {"nr_periods", "nr_throttled"} <= fields.keys():
            return Gap("no count of periods in the file"), stall
        last, self._before = self._before, (fields["nr_periods"], fields["nr_throttled"], at_s)
        if last is None or at_s <= last[2]:
            return FIRST, stall
        periods, waited = self._before[0] - last[0], self._before[1] - last[1]
        if periods < 0 or waited < 0:
            return WENT_BACK, stall
        if isinstance(leap := bounded(periods, at_s - last[2], PERIODS_PER_S, LONGEST_STALL_S), Gap):
            return leap, stall
        if waited > periods + 1:  # the file may be read between the two
            return Gap(f"it waited in {waited} of {periods} periods, which is impossible"), stall
        return (min(100 * waited / periods, 100.0) if periods else 0.0), stall


def _most(values: Sequence[float | Gap]) -> float | Gap:
    """Return the highest value. If it is 0 and another value is a gap, or if all are gaps, return the first gap.

    Groups without a quota always have 0, which says nothing about a group that could not be read.
    """
    gap = next((value for value in values if isinstance(value, Gap)), None)
    return max((value for value in values if not isinstance(value, Gap)), default=0.0) or (0.0 if gap is None else gap)


def _count(file: File) -> int:
    value = file.read_int()
    if value < 0:
        raise ValueError(f"{file.relative.rpartition('/')[2]} reads {value}")
    return value


def _limited(root: Root, group: Group) -> dict[str, File]:
    """Return a dict with an entry for each cgroup of `group` that has a memory limit.

    The key is the cgroup's folder. The value is the file that counts how often the limit was hit. For a parent of the
    engine's cgroup in version 2, this file is memory.events.local (since Linux 5.2), because memory.events also counts
    the hits of neighbouring cgroups.
    """
    found = {}
    for place, folder in enumerate(group.folders):
        limits = [(root.file(f"{folder}/{name}"),) * 2 for name in group.files.limits]
        name = f"{EVENTS}.local" if place and group.files.hits == EVENTS else group.files.hits
        if _limits(limits) and root.exists(f"{folder}/{name}"):
            found[folder] = root.file(f"{folder}/{name}")
    return found


def _hits(file: File) -> tuple[int, int]:
    """Return `(times that memory.high was exceeded, times that memory.max was reached)`, both since the cgroup began.

    `file` is the file with these counts, such as `memory.events`. In version 1 of cgroups the file has one number, the
    times that the limit was reached; the first number is then 0.
    """
    text = file.read_text()
    if " " not in text:
        return 0, parse_int(text)
    counts = parse_counters(text)
    return counts.get("high", 0), counts.get("max", 0)


def _limits(levels: Sequence[tuple[File, File]]) -> list[tuple[int, File, File]]:
    """Return `(limit in bytes, file with the usage, file with the limit)` for each limit that is set.

    `levels` has `(file with the limit, file with the usage)` pairs, one for each cgroup. A limit that cannot be read
    counts as not set.
    """
    limits = []
    for limit, held in levels:
        value = attempt(partial(_count, limit))  # a gap for "max", which is not a number
        if not isinstance(value, Gap) and value < NO_LIMIT_FROM:
            limits.append((value, held, limit))
    return limits


def _tightest(levels: Sequence[tuple[File, File]]) -> Values:
    limits = _limits(levels)
    if not limits:
        return [Gap("no limit is set any more")] * 2
    left = [limit - _count(held) for limit, held, _ in limits]
    return [min(limit for limit, _, _ in limits) / MIB, max(0, min(left)) / MIB]


_NOTES = {
    "cgroup": "the engine's group, everything in it and the files it has cached included",
    "cgroup-limit": "the tightest on the way up",
    "memory-high-hits": "how often memory.high was exceeded, above which the kernel makes the engine sleep",
    "cgroup-left": "to the limit that is nearest, which others may share",
}


def discover_engine(pid: int, *, shares_process: bool, root: Root = HOST) -> Found:  # noqa: ARG001  unused
    try:
        memberships = root.read_text(f"proc/{pid}/cgroup")
        mounts = root.read_text("proc/self/mountinfo")
    except OSError as error:
        return Found(missing=(Missing("mem/cgroup", f"/proc/{pid}/cgroup: {error.strerror}"),))
    group = locate(root, memberships, mounts)
    memory = Found(missing=(group,)) if isinstance(group, Missing) else Found((cgroup_memory(root, group),))
    folders = (*folders_of(memberships, mounts, ""), *folders_of(memberships, mounts, "cpu"))
    limited = [folder for folder in folders if _has_quota(root, folder)]
    others = [folder for folder in folders if folder not in limited and _may_have_quota(root, folder)]
    if not (followed := [*limited, *others]):
        return memory
    return join([memory, Found((cpu_quota(root, followed, is_latent=not limited),))])


def _may_have_quota(root: Root, folder: str) -> bool:
    """Whether a CPU quota of this cgroup could be set later. The root cgroup of version 2 can have none."""
    files = ("cpu.max", "cgroup.type", "cpu.cfs_quota_us")  # cgroup.type: in each cgroup of version 2 but the root
    return root.exists(f"{folder}/{CPU_STAT}") and any(root.exists(f"{folder}/{name}") for name in files)


def _has_quota(root: Root, folder: str) -> bool:
    # Version 2: `max 100000`, or a number in place of `max`. Version 1: -1, or a number.
    newer, older = root.line(f"{folder}/cpu.max"), root.number(f"{folder}/cpu.cfs_quota_us")
    return (newer is not None and not newer.startswith("max")) or (older is not None and older > 0)


def folders_of(memberships: str, mounts: str, controller: str) -> tuple[str, ...]:
    """Return the folders of a process's cgroup and of its parents up to the mount point, the process's own first.

    Returns () if the hierarchy is not mounted. `memberships` is the text of the process's file `cgroup`, and `mounts`
    is the text of edgetop's `mountinfo`. `controller` is a controller of version 1, such as `memory`, or "" for version
    2.
    """
    path, mounted = _paths(memberships).get(controller), _mount(mounts, controller)
    return _levels(path, *mounted) or () if path is not None and mounted is not None else ()


def locate(root: Root, memberships: str, mounts: str) -> Group | Missing:
    """Return the cgroup that counts a process's memory, or the reason why there is none.

    `memberships` is the text of the process's file `cgroup`, `mounts` that of edgetop's `mountinfo`. If a system uses
    both versions of cgroups, version 1 is tried first.
    """
    for files, controller in ((V1, "memory"), (V2, "")):
        path, mounted = _paths(memberships).get(controller), _mount(mounts, controller)
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


def _paths(memberships: str) -> dict[str, str]:
    r"""Return the path of a process's cgroup by controller. The path of version 2 is under "".

    `memberships` has lines of the form `id:controllers:path` (cgroups(7)).

    >>> _paths("4:cpu,cpuacct:/a\n0::/b")
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
