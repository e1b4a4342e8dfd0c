"""Memory: the engine's own, edgetop's own, and what the system has left.

The engine's and edgetop's figures are about real processes and come from the real /proc;
the system's come from the board under the root. `smaps_rollup` is dear (1.5 ms at 512 MB,
and it holds the target's mmap lock), so PSS and USS are read ten times less often.
proc(5); Documentation/filesystems/proc.rst.
"""

import contextlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from edgetop.sensors.protocol import Found, Gap, Missing, Source, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

MIB = 1024 * 1024
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CADENCE_S = 1.0
ROLLUP_CADENCE_S = 10.0
AVAILABLE, SWAP = "mem/system-available", "mem/system-swap"

# Of /proc/PID/status, by label. The resident set is the sum of its three parts.
STATUS_FIELDS = {
    "rss": "VmRSS",
    "rss-anon": "RssAnon",
    "rss-file": "RssFile",
    "rss-shmem": "RssShmem",
    "rss-peak": "VmHWM",
    "swap": "VmSwap",
}

# 64 bits, in ASCII: a number that no file of the kernel holds is no number.
_KIB_LINE = re.compile(r"([^:]+):\s*([0-9]{1,20}) kB\s*")


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Resident memory now and what it is made of, its peak, and what of the process is swapped out."""

    pid: int
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S
    name: str = "engine memory"

    def read(self) -> Sequence[float | Gap]:
        fields = read_kib_fields(Path(f"/proc/{self.pid}/status").read_text())
        return [kib_as_mib(fields, key) for key in STATUS_FIELDS.values()]


@dataclass(frozen=True, slots=True)
class EngineShare:
    """Proportional and unique set size: the engine's share of shared pages, and what is its alone."""

    pid: int
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = ROLLUP_CADENCE_S
    name: str = "engine memory share"

    def read(self) -> Sequence[float | Gap]:
        fields = read_kib_fields(Path(f"/proc/{self.pid}/smaps_rollup").read_text())
        return [kib_as_mib(fields, "Pss"), unique_mib(fields)]


@dataclass(frozen=True, slots=True)
class SystemMemory:
    """What a new program could still have without swapping, and what of all programs is swapped out."""

    root: Root
    sensors: tuple[SensorInfo, ...]
    cadence_s: float = CADENCE_S
    name: str = "system memory"

    def read(self) -> Sequence[float | Gap]:
        fields = read_kib_fields(self.root.read_text("proc/meminfo"))
        values = {AVAILABLE: kib_as_mib(fields, "MemAvailable"), SWAP: taken_mib(fields, "SwapTotal", "SwapFree")}
        return [values[info.id] for info in self.sensors]


class OwnMemory:
    """Resident memory of edgetop itself, its helpers included and the engine left out."""

    name = "edgetop memory"
    cadence_s = CADENCE_S

    def __init__(self, engine_pid: int | None) -> None:
        self._engine_pid = engine_pid
        is_listed = any(Path("/proc/self/task").glob("*/children"))
        self._children = listed_children if is_listed else searched_children
        self.sensors = (sensor("mem", "edgetop", "/proc/self", note="edgetop and its helpers, without the engine"),)

    def read(self) -> Sequence[float | Gap]:
        pids = [os.getpid()]
        for pid in pids:  # grows on the way
            pids += [child for child in self._children(pid) if child != self._engine_pid]
        return [sum(map(resident_bytes, pids)) / MIB]


def listed_children(pid: int) -> list[int]:
    """As the kernel lists them: proc(5), /proc/PID/task/TID/children, with CONFIG_PROC_CHILDREN."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread ended just now
            found += [int(child) for child in file.read_text().split()]
    return found


def searched_children(pid: int) -> list[int]:
    """Found among all processes there are: with many of them dearer than all other sensors together."""
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []


def resident_bytes(pid: int) -> int:
    """Of a process; nothing where it ended just now."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    """`shares_process`: the engine is a thread of edgetop, and its memory cannot be told apart."""
    note = "edgetop's own memory included: the engine is a thread of it" if shares_process else None
    status, rollup = f"/proc/{pid}/status", f"/proc/{pid}/smaps_rollup"
    sources: list[Source] = [
        EngineMemory(pid, tuple(sensor("mem", label, status, note=note) for label in STATUS_FIELDS))
    ]
    if not shares_process:
        sources.append(OwnMemory(pid))
    if not Path(rollup).exists():
        return Found(tuple(sources), (Missing("mem/pss, mem/uss", f"{rollup} needs Linux 4.14 or later"),))
    sources.append(EngineShare(pid, tuple(sensor("mem", label, rollup, note=note) for label in ("pss", "uss"))))
    return Found(tuple(sources))


def discover(root: Root) -> Found:
    source = root.shown("proc/meminfo")
    try:
        fields = read_kib_fields(root.read_text("proc/meminfo"))
    except OSError:
        return Found(missing=(Missing("system memory", f"no {source}"),))
    sensors = [sensor("mem", "system-available", f"{source} MemAvailable")]
    if {"SwapTotal", "SwapFree"} <= fields.keys():
        note = "in use by all processes together" if fields["SwapTotal"] else "the board has no swap"
        sensors.append(sensor("mem", "system-swap", f"{source} SwapTotal", note=note))
    return Found((SystemMemory(root, tuple(sensors)),))


def read_kib_fields(text: str) -> dict[str, int]:
    """`Name:   123 kB` lines as a mapping; lines of another shape are passed over.

    >>> read_kib_fields("VmRSS:\\t  2048 kB\\nThreads:\\t3\\nName:\\tx\\n")
    {'VmRSS': 2048}
    """
    matches = (_KIB_LINE.fullmatch(line) for line in text.splitlines())
    return {match[1]: int(match[2]) for match in matches if match}


def unique_mib(fields: dict[str, int]) -> float | Gap:
    clean, dirty = (kib_as_mib(fields, key) for key in ("Private_Clean", "Private_Dirty"))
    if isinstance(clean, Gap):
        return clean
    return dirty if isinstance(dirty, Gap) else clean + dirty


def kib_as_mib(fields: dict[str, int], key: str) -> float | Gap:
    return fields[key] / 1024 if key in fields else Gap(f"no {key} in the file")


def taken_mib(fields: dict[str, int], total_key: str, free_key: str) -> float | Gap:
    """What is in use of a pool whose size and free part the file has."""
    total, free = (kib_as_mib(fields, key) for key in (total_key, free_key))
    if isinstance(total, Gap):
        return total
    if isinstance(free, Gap):
        return free
    return total - free if free <= total else Gap(f"{free_key} is above {total_key}: {free:g} of {total:g} MiB")
