"""Sensors of the engine's cgroup: memory in use, its peak and limit, memory left, OOM kills, and the CPU quota.

Limits of the parent cgroups apply as well, so every level up to the mount point is read. The memory left is the least
that any level has left. Other processes may share that level. The engine may be moved to another cgroup while it runs,
and a limit may be set then: this is looked for every few seconds. See Documentation/admin-guide/cgroup-v2.rst,
cgroup-v1/memory.rst and scheduler/sched-bwc.rst.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

from edgetop.sensors.cgroup_location import CPU_STAT, EVENTS, HIGH, Group, folders_of, locate, paths_of
from edgetop.sensors.counters import FIRST, WENT_BACK, Rate, SumRate, bounded
from edgetop.sensors.memory_sensors import MIB
from edgetop.sensors.plausible import EVENTS_PER_CPU, most_cpus
from edgetop.sensors.process_table import HOST, parse_counters
from edgetop.sensors.root import File, Root, parse_int
from edgetop.sensors.sensor_protocol import (
    Change,
    Found,
    Gap,
    Missing,
    Reader,
    SensorEvent,
    Values,
    attempt,
    gap_of,
    sensor,
)
from edgetop.session.event_kinds import LimitReached, Remark
from edgetop.session.manifest import SensorInfo

# A limit from which on there is none: version 1 then shows PAGE_COUNTER_MAX pages (include/linux/page_counter.h), which
# are 8 EiB on 64-bit and 8 TiB on 32-bit systems.
NO_LIMIT_FROM = 1 << 42

LONGEST_STALL_S = 10.0  # a stall counts when it ends; a period has a second at most (scheduler/sched-bwc.rst)
PERIODS_PER_S = 1000.0  # min_cfs_quota_period in kernel/sched/fair.c is 1 ms
LOOK_S = 5.0  # interval of looks whether the engine was moved to another cgroup, or a limit of its memory was set
# Sensors of limits, which are in a session only if the limit is set. The first one identifies their source.
LIMIT = ("mem/cgroup-limit", "mem/cgroup-left", "rate/memory-limit-hits")
OVER_HIGH = ("rate/memory-high-hits",)
QUOTA = ("pressure/cpu-quota", "rate/cpu-throttled")
NOT_COUNTED = Gap("the engine's present cgroup does not count this")
PF_EXITING = 0x4  # of a process that ends: include/linux/sched.h
_FLAGS = 6  # place of the flags after the name in proc_pid_stat(5)
QUIET_READINGS = 10  # an onset is reported again only after this many readings of 0


def memory_in_use(root: Root, group: Group, now: Callable[[], float] = time.monotonic) -> Reader:
    """Return a reader of the memory in use of the engine's cgroup, which is the first one in `group`.

    Where the files exist, the reader also gives the peak and the OOM kills. `now` returns the present time in seconds.
    """
    files, own, most = group.files, group.folders[0], most_cpus(root) * EVENTS_PER_CPU
    infos: list[SensorInfo] = []
    reads: list[Callable[[], float | Gap]] = []

    def add(file: str, kind: str, label: str, read: Callable[[], float | Gap]) -> None:
        infos.append(sensor(kind, label, f"{root.absolute(own)}/{file}", note=_NOTES.get(label)))
        reads.append(read)

    held, peak, events = (root.file(f"{own}/{name}") for name in (files.current, files.peak, files.events))
    add(files.current, "mem", "cgroup", lambda: _count(held) / MIB)
    if root.exists(peak.relative):
        add(files.peak, "mem", "cgroup-peak", lambda: _count(peak) / MIB)
    if root.exists(events.relative):
        kills = Rate()

        def read_kills() -> float | Gap:
            count = parse_counters(events.read_text()).get("oom_kill")  # version 1 lacks it before Linux 4.13
            return Gap("no oom_kill in the file") if count is None else kills.per_second(count, now(), most)

        add(files.events, "rate", "oom-kills", read_kills)
    return Reader(tuple(infos), lambda: [read() for read in reads], name="cgroup memory")


def memory_limit(root: Root, group: Group, now: Callable[[], float] = time.monotonic) -> Reader:
    """Return a reader of the engine's tightest memory limit, the memory left, and how often a limit was reached.

    Its sensors are `LIMIT`, the last one only if a file counts that. Without a limit they have no values. `now` returns
    the present time in seconds.
    """
    most, onset, levels = most_cpus(root) * EVENTS_PER_CPU, Onset("memory-limit"), _levels_of(root, group)
    set_now = _limits(levels)
    place = min(set_now, key=lambda one: one[0])[2] if set_now else levels[0][0]
    hits, rates, highs = _limited(root, group), SumRate(), SumRate()

    def read() -> Values:
        limit, left = _tightest(levels)
        if not hits:
            return [limit, left]
        at_s, counts = now(), {name: _hits(file) for name, file in hits.items()}
        high = highs.per_second({name: count for name, (count, _) in counts.items()}, at_s, lambda *_: most)
        every = rates.per_second({name: sum(both) for name, both in counts.items()}, at_s, lambda *_: most)
        onset.checked(every, _ABOVE_HIGH if isinstance(high, float) and high > 0 else _AT_MAXIMUM)
        return [limit, left, every]

    sources = (place.relative, place.relative, f"{group.folders[0]}/{group.files.hits}")
    infos = _infos(root, LIMIT, sources)[: 3 if hits else 2]
    return Reader(infos, read, name="cgroup memory limit", events=onset.events)


def memory_high(root: Root, group: Group, now: Callable[[], float] = time.monotonic) -> Reader:
    """Return a reader of how often memory.high was exceeded, which only version 2 of cgroups has.

    Its sensors are `OVER_HIGH`. `now` returns the present time in seconds.
    """
    most, hits, rates = most_cpus(root) * EVENTS_PER_CPU, _limited(root, group), SumRate()

    def read() -> Values:
        counts = {name: _hits(file)[0] for name, file in hits.items()}
        return [rates.per_second(counts, now(), lambda *_: most) if hits else Gap("memory.high is not set any more")]

    infos = _infos(root, OVER_HIGH, (f"{group.folders[0]}/{group.files.hits}",))
    return Reader(infos, read, name="cgroup memory.high")


def _infos(root: Root, ids: Sequence[str], files: Sequence[str]) -> tuple[SensorInfo, ...]:
    """Return the descriptions of sensors with these ids. `files` are their sources, relative to `root`."""
    pairs = zip((one.split("/") for one in ids), files, strict=True)
    return tuple(sensor(kind, label, root.absolute(file), note=_NOTES.get(label)) for (kind, label), file in pairs)


def _levels_of(root: Root, group: Group) -> list[tuple[File, File]]:
    """Return a pair of files for each limit of each cgroup in `group`: that of the limit, and that of the usage."""
    return [
        (root.file(f"{each}/{name}"), root.file(f"{each}/{group.files.current}"))
        for each in group.folders
        for name in group.files.limits
    ]


def _set_limits(levels: Sequence[tuple[File, File]]) -> set[tuple[str, ...]]:
    """Return which of `LIMIT` and `OVER_HIGH` have a limit now. `levels` are the files that `_levels_of` returns."""
    limits = [limit.relative for _, _, limit in _limits(levels)]
    return {LIMIT for _ in limits} | {OVER_HIGH for name in limits if name.endswith(f"/{HIGH}")}


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

    infos = _infos(root, QUOTA, [levels[0].file.relative] * 2)
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
    "cpu-quota": "share of its periods in which the engine waited for the next one",
    "cpu-throttled": "ms a second, for which the quota stopped its threads, of all CPUs together",
    "cgroup": "the engine's group, everything in it and the files it has cached included",
    "cgroup-limit": "the tightest on the way up",
    "memory-high-hits": "how often memory.high was exceeded, above which the kernel makes the engine sleep",
    "cgroup-left": "to the limit that is nearest, which others may share",
}


def discover_engine(
    pid: int,
    *,
    shares_process: bool,  # noqa: ARG001  unused
    root: Root = HOST,
    now: Callable[[], float] = time.monotonic,
) -> Found:
    """Return readers of the memory and the limits of the cgroups of the process `pid`, and a watch for changes."""
    try:
        memberships = root.read_text(f"proc/{pid}/cgroup")
        found = _found(root, memberships, {}, now)
    except OSError as error:
        return Found(missing=(Missing("mem/cgroup", f"/proc/{pid}/cgroup: {error.strerror}"),))
    return replace(found, watches=(_Watch(root, pid, memberships, found, now),))


Known = dict[str, tuple[SensorInfo, ...]]  # the sensors of each source by the id of its first one


def _found(root: Root, memberships: str, known: Known, now: Callable[[], float]) -> Found:
    """Return readers of the cgroups of a process. Raises OSError if the mounts cannot be read.

    `memberships` is the text of the process's file `cgroup`. `known` has the sensors that the session has already. For
    them there is always a reader, if only one that says why there is no value.
    """
    mounts = root.read_text("proc/self/mountinfo")
    group, readers, unset = locate(root, memberships, mounts), list[Reader](), list[str]()
    missing: tuple[Missing, ...] = ()
    if isinstance(group, Missing):
        missing = (group,)
    else:
        readers.append(memory_in_use(root, group, now))
        is_set = _set_limits(_levels_of(root, group))
        for ids, make in ((LIMIT, memory_limit), (OVER_HIGH, memory_high)):
            readers += [make(root, group, now)] if ids in is_set or ids[0] in known else []
            unset += ids if ids not in is_set else ()
    folders = (*folders_of(memberships, mounts, ""), *folders_of(memberships, mounts, "cpu"))
    limited = [folder for folder in folders if _has_quota(root, folder)]
    followed = [*limited, *(each for each in folders if each not in limited and _may_have_quota(root, each))]
    readers += [cpu_quota(root, followed, now, is_latent=not limited)] if followed else []
    unset += QUOTA if folders and not limited else ()
    sources = {reader.sensors[0].id: reader for reader in readers}
    kept = (_with_sensors(reader, known.get(first, reader.sensors)) for first, reader in sources.items())
    gone = (_without(infos, group, knows_quota=bool(folders)) for first, infos in known.items() if first not in sources)
    return Found((*kept, *gone), missing, tuple(unset))


def _with_sensors(reader: Reader, infos: tuple[SensorInfo, ...]) -> Reader:
    """Return a reader with the sensors `infos`, which has gaps for those that `reader` lacks."""
    ids = [info.id for info in reader.sensors]
    if ids == [info.id for info in infos]:
        return reader

    def read() -> Values:
        values = dict(zip(ids, reader.read(), strict=True))
        return [values.get(info.id, NOT_COUNTED) for info in infos]

    return replace(reader, sensors=infos, read=read)


def _without(infos: tuple[SensorInfo, ...], group: Group | Missing, *, knows_quota: bool) -> Reader:
    """Return a reader of sensors that have no values in the engine's present cgroup.

    Those of a CPU quota have 0 if `knows_quota`: it is known that there is none.
    """
    if infos[0].id == QUOTA[0] and knows_quota:
        return Reader(infos, lambda: [0.0] * len(infos))
    why = Gap(group.why) if isinstance(group, Missing) else NOT_COUNTED
    return Reader(infos, lambda: [why] * len(infos))


class _Watch:
    """Looks every few seconds whether a process was moved to another cgroup, or a limit of its memory was set."""

    def __init__(self, root: Root, pid: int, memberships: str, found: Found, now: Callable[[], float]) -> None:
        """Begin to watch the process `pid`, for which there are the sources of `found` and this text of `cgroup`."""
        self._root, self._now, self._looked_s = root, now, now()
        self._cgroup, self._stat = root.file(f"proc/{pid}/cgroup"), root.file(f"proc/{pid}/stat")
        self._follow(memberships)
        self._known: Known = {}
        self._learn(found)

    def __call__(self) -> Change | None:
        """Return other sources for the sensors if anything has changed since the last call, else None."""
        at_s = self._now()
        if at_s - self._looked_s < LOOK_S:
            return None
        self._looked_s = at_s
        with suppress(OSError):
            memberships = self._cgroup.read_text()
            before, after = (_counted(text) for text in (self._memberships, memberships))
            if before == after:
                return self._changed(None) if self._is_limited_anew() else None
            if not self._is_ending():
                self._follow(memberships)
                return self._changed(_move_words(before, after))
        return None

    def _is_limited_anew(self) -> bool:
        if LIMIT[0] in self._known and OVER_HIGH[0] in self._known:
            return False
        return any(ids[0] not in self._known for ids in _set_limits(self._levels))

    def _follow(self, memberships: str) -> None:
        """Watch the limits of the cgroups in `memberships`, the text of the process's file `cgroup`."""
        group = locate(self._root, memberships, self._root.text("proc/self/mountinfo"))
        self._memberships = memberships
        self._levels = _levels_of(self._root, group) if isinstance(group, Group) else []

    def _is_ending(self) -> bool:
        """Whether the process ends, or has ended. Version 1 then shows it in the root (proc_cgroup_show, cgroup.c)."""
        fields = self._stat.read_text().rpartition(")")[2].split()
        return len(fields) <= _FLAGS or not fields[_FLAGS].isdecimal() or bool(int(fields[_FLAGS]) & PF_EXITING)

    def _changed(self, moved: str | None) -> Change:
        """Return the sources after a change. `moved` says in words where the process was moved, or is None."""
        found = _found(self._root, self._memberships, self._known, self._now)
        self._learn(found)
        return Change(found, SensorEvent(Remark("cgroup-moved"), moved) if moved else None)

    def _learn(self, found: Found) -> None:
        self._known |= {source.sensors[0].id: source.sensors for source in found.sources}


def _counted(memberships: str) -> dict[str, str]:
    """Return the paths of the cgroups that count and limit memory and CPU time, by controller; "" is version 2."""
    return {name: path for name, path in paths_of(memberships).items() if name in ("", "memory", "cpu")}


def _move_words(before: dict[str, str], after: dict[str, str]) -> str:
    changed = {name: path for name, path in after.items() if before.get(name) != path}
    moves = dict.fromkeys(f"{before.get(name, '-')} to {path}" for name, path in changed.items())
    return f"the engine was moved to another cgroup: from {', from '.join(moves)}"


def _may_have_quota(root: Root, folder: str) -> bool:
    """Whether a CPU quota of this cgroup could be set later. The root cgroup of version 2 can have none."""
    files = ("cpu.max", "cgroup.type", "cpu.cfs_quota_us")  # cgroup.type: in each cgroup of version 2 but the root
    return root.exists(f"{folder}/{CPU_STAT}") and any(root.exists(f"{folder}/{name}") for name in files)


def _has_quota(root: Root, folder: str) -> bool:
    # Version 2: `max 100000`, or a number in place of `max`. Version 1: -1, or a number.
    newer, older = root.line(f"{folder}/cpu.max"), root.number(f"{folder}/cpu.cfs_quota_us")
    return (newer is not None and not newer.startswith("max")) or (older is not None and older > 0)
