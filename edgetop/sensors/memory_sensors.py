"""Sensors of memory: the engine's, edgetop's, the system's available memory, and memory that the GPU holds.

The figures of the engine and of edgetop come from the real /proc, those of the system from the board under the root.
Reading `smaps_rollup` is expensive (1.5 ms at 512 MB, with the target's mmap lock held), so PSS and USS are read ten
times less often. See proc(5) and Documentation/filesystems/proc.rst.

On a Jetson the GPU shares the board's memory, and its allocations are in no process's RSS. Without these allocations, a
model on the GPU seems to need no memory. On JetPack 4 and 5 the kernel shows the sum to everybody (`NvMapMemUsed` of
/proc/meminfo) and each process's part to root (debugfs, nvmap/iovmm/clients: nvidia-oot,
drivers/video/tegra/nvmap/nvmap_dev.c). CMA is the pool from which cameras, codecs and some NPUs allocate (`CmaTotal`,
`CmaFree`).
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial

from edgetop.sensors.counters import Rate
from edgetop.sensors.plausible import EVENTS_PER_CPU, most_cpus
from edgetop.sensors.process_table import HOST, SHARED_NOTE, everyone, parse_counters, parse_stat
from edgetop.sensors.root import Root, ThreadFiles
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, file_reader, sensor
from edgetop.session.manifest import SensorInfo

MIB = 1024 * 1024
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ROLLUP_CADENCE_S = 10.0
CLIENTS_CADENCE_S = 5.0  # the driver walks every handle of every client

MEMINFO, CLIENTS = "proc/meminfo", "sys/kernel/debug/nvmap/iovmm/clients"

# Fields of /proc/PID/status by label. The resident set is the sum of its three parts.
STATUS_FIELDS = {
    "rss": "VmRSS",
    "rss-anon": "RssAnon",
    "rss-file": "RssFile",
    "rss-shmem": "RssShmem",
    "rss-peak": "VmHWM",
    "swap": "VmSwap",
}

# Numbers have at most the digits of 64 bits, in ASCII, as in all files of the kernel.
_KIB_LINE = re.compile(r"^([^:\n]+):[ \t]*([0-9]{1,20}) kB[ \t]*$", re.MULTILINE)
# Example: user                         gpu_burn     7979   23525644K
_CLIENT = re.compile(r"\S+\s+.*?\s+([0-9]{1,10})\s+([0-9]{1,15})([KM]?)")
_UNIT_MIB = {"": 2**-20, "K": 2**-10, "M": 1.0}

Fields = Mapping[str, int]  # KiB by name
Wanted = dict[SensorInfo, Callable[[Fields], float | Gap]]


def parse_kib_fields(text: str) -> dict[str, int]:
    r"""Return the KiB in lines of the form `Name: 123 kB`, by name. Other lines are ignored.

    >>> parse_kib_fields("VmRSS:\t  2048 kB\nThreads:\t3\nName:\tx\n")
    {'VmRSS': 2048}
    """
    return {name: int(kib) for name, kib in _KIB_LINE.findall(text)}


def read_meminfo(root: Root) -> dict[str, int]:
    """Return the fields of /proc/meminfo in KiB by name, such as `MemTotal`. {} if the file cannot be read."""
    return parse_kib_fields(root.text(MEMINFO))


def kib_as_mib(key: str, fields: Fields) -> float | Gap:
    return fields[key] / 1024 if key in fields else Gap(f"no {key} in the file")


def taken_mib(total_key: str, free_key: str, fields: Fields) -> float | Gap:
    """Return the used part of a memory pool in MiB, or a gap if it is unknown.

    `fields` has KiB by name, as /proc/meminfo has them. `total_key` names the size of the pool, such as `SwapTotal`,
    and `free_key` its free part.

    >>> taken_mib("SwapTotal", "SwapFree", {"SwapTotal": 4096, "SwapFree": 1024})
    3.0
    """
    total, free = kib_as_mib(total_key, fields), kib_as_mib(free_key, fields)
    if isinstance(total, Gap) or isinstance(free, Gap):
        return total if isinstance(total, Gap) else free
    return total - free if free <= total else Gap(f"{free_key} is above {total_key}: {free:g} of {total:g} MiB")


def available_mib(fields: Fields) -> float | Gap:
    """Return the system's available memory in MiB, or a gap if it is unknown. `fields` has KiB by name.

    If the available memory is more than the whole memory, as a broken lxcfs reports, the result is also a gap.
    """
    available = kib_as_mib("MemAvailable", fields)
    if isinstance(available, Gap) or "MemTotal" not in fields or available <= fields["MemTotal"] / 1024:
        return available
    return Gap(f"MemAvailable is above MemTotal: {available:g} of {fields['MemTotal'] / 1024:g} MiB")


def unique_mib(fields: Fields) -> float | Gap:
    clean, dirty = (kib_as_mib(key, fields) for key in ("Private_Clean", "Private_Dirty"))
    if isinstance(clean, Gap) or isinstance(dirty, Gap):
        return clean if isinstance(clean, Gap) else dirty
    return clean + dirty


def _reader(name: str, root: Root, path: str, wanted: Wanted, cadence_s: float = 1.0) -> Reader:
    file, makers = root.file(path), tuple(wanted.values())

    def read() -> Values:
        fields = parse_kib_fields(file.read_text())
        return [make(fields) for make in makers]

    return Reader(tuple(wanted), read, cadence_s, name)


def discover(root: Root) -> Found:
    """Return a reader of the memory that is available without swapping, and of the swap in use."""
    source, fields = root.absolute(MEMINFO), read_meminfo(root)
    if not fields and not root.exists(MEMINFO):
        return Found(missing=(Missing("system memory", f"no {source}"),))
    available = sensor("mem", "system-available", f"{source} MemAvailable")
    wanted: Wanted = {available: available_mib}
    if {"SwapTotal", "SwapFree"} <= fields.keys():
        note = "in use by all processes together" if fields["SwapTotal"] else "the board has no swap"
        swap = sensor("mem", "system-swap", f"{source} SwapTotal", note=note)
        wanted[swap] = partial(taken_mib, "SwapTotal", "SwapFree")
    return Found((_reader("system memory", root, MEMINFO, wanted),))


def discover_pools(root: Root) -> Found:
    """Return a reader of the memory that the GPU's driver holds, and of the used part of CMA.

    CMA is the pool of contiguous memory for cameras, codecs and some NPUs. The result is empty if the kernel
    reports neither of the two.
    """
    source, fields = root.absolute(MEMINFO), read_meminfo(root)
    wanted: Wanted = {}
    if "NvMapMemUsed" in fields:
        note = "all processes together; in no resident set"
        held = sensor("mem", "system-accelerator", f"{source} NvMapMemUsed", note=note)
        wanted[held] = partial(kib_as_mib, "NvMapMemUsed")
    if fields.get("CmaTotal") and "CmaFree" in fields:
        cma = sensor("mem", "system-cma", f"{source} CmaTotal", note="taken of the contiguous pool")
        wanted[cma] = partial(taken_mib, "CmaTotal", "CmaFree")
    return Found((_reader("memory pools", root, MEMINFO, wanted),)) if wanted else Found()


def discover_engine(pid: int, *, shares_process: bool, root: Root = HOST) -> Found:
    """Return readers of the memory of the engine (process `pid`) and of edgetop.

    `shares_process` says that the engine is a thread of edgetop. Then both have the same memory, and only the readers
    of the engine are returned.
    """
    note = "edgetop's own memory included: the engine is a thread of it" if shares_process else None
    status, rollup = f"proc/{pid}/status", f"proc/{pid}/smaps_rollup"
    infos = [sensor("mem", label, f"/{status}", note=note) for label in STATUS_FIELDS]
    parts: Wanted = {info: partial(kib_as_mib, key) for info, key in zip(infos, STATUS_FIELDS.values(), strict=True)}
    sources = [_reader("engine memory", root, status, parts)]
    if not shares_process:
        sources.append(own_memory(pid))
    if not root.exists(rollup):
        return Found(tuple(sources), (Missing("mem/pss, mem/uss", f"/{rollup} needs Linux 4.14 or later"),))
    pss, uss = (sensor("mem", label, f"/{rollup}", note=note) for label in ("pss", "uss"))
    share: Wanted = {pss: partial(kib_as_mib, "Pss"), uss: unique_mib}
    return Found((*sources, _reader("engine memory share", root, rollup, share, ROLLUP_CADENCE_S)))


def own_memory(engine_pid: int | None) -> Reader:
    """Return a reader of the resident memory of edgetop and its helper processes, without the engine `engine_pid`."""
    is_listed = any(HOST.exists(f"proc/self/task/{task}/children") for task in HOST.names("proc/self/task"))
    own_pid = os.getpid()
    lists, statm = ThreadFiles(HOST, own_pid, "children"), HOST.file(f"proc/{own_pid}/statm")

    def children(pid: int) -> list[int]:
        if not is_listed:
            return searched_children(pid)
        return children_in(lists) if pid == own_pid else listed_children(pid)

    def read() -> Values:
        pids = [own_pid]
        for pid in pids:  # the list grows in the loop
            pids += [child for child in children(pid) if child != engine_pid]
        return [(held_bytes(statm.read_text()) + sum(map(resident_bytes, pids[1:]))) / MIB]

    info = sensor("mem", "edgetop", "/proc/self", note="edgetop and its helpers, without the engine")
    return Reader((info,), read, name="edgetop memory")


def listed_children(pid: int) -> list[int]:
    """Return the process ids of a process's children, from the list in /proc/PID/task/TID/children.

    [] if the process has ended. The list needs a kernel with CONFIG_PROC_CHILDREN (proc(5)).
    """
    return children_in(ThreadFiles(HOST, pid, "children"))


def children_in(lists: ThreadFiles) -> list[int]:
    """Return the process ids in the files `children` of all threads of a process. [] if the process has ended."""
    try:
        return [int(child) for _, text in lists.read_texts() for child in text.split()]
    except OSError:
        return []


def searched_children(pid: int) -> list[int]:
    """Return the process ids of a process's children, found by reading every process.

    With many processes this costs more than all other sensors.
    """
    return [child for child, stat in everyone() if stat.parent == pid]


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes, or 0 if it has just ended."""
    return held_bytes(HOST.text(f"proc/{pid}/statm"))


def held_bytes(statm: str) -> int:
    """Return the resident memory in bytes from the text of /proc/PID/statm, or 0 if the text is empty."""
    fields = statm.split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


def discover_engine_on_gpu(pid: int, root: Root) -> Found:
    """Return a reader of the GPU memory of process `pid`, or nothing if the board does not show it to this user.

    A captured board gives nothing, since its processes do not run here.
    """
    return Found((nvmap_client(root, pid),)) if root.is_host and has_clients(root) else Found()


def nvmap_client(root: Root, pid: int) -> Reader:
    info = accelerator_sensor(root.absolute(CLIENTS))
    return file_reader(root, CLIENTS, info, partial(client_mib, pid=pid), CLIENTS_CADENCE_S)


def accelerator_sensor(source: str) -> SensorInfo:
    return sensor("mem", "accelerator", source, note="the engine's part of the GPU's memory; in no resident set")


def has_clients(root: Root) -> bool:
    """Return whether this user can read the GPU memory of each process.

    On many systems only root is allowed to read this memory in debugfs.
    """
    return root.text(CLIENTS).startswith("CLIENT")


def client_mib(text: str, pid: int) -> float:
    r"""Return the GPU memory of process `pid` in MiB.

    `text` is the table of processes that NVIDIA's driver has in debugfs. Returns 0 for a process that is not listed,
    since the driver lists a process only after its first allocation. Raises ValueError if the text is no such table, or
    if a line that cannot be parsed might be this process's.

    >>> client_mib("CLIENT  PROCESS  PID  SIZE\nuser  gpu burn  7979  2048K\ntotal  2048K\n", 7979)
    2.0
    """
    head, *lines = text.splitlines() or [""]
    if head.split()[:1] != ["CLIENT"]:
        raise ValueError(f"not a table of clients: {head[:40]!r}")
    clients = [line.strip() for line in lines if line.split()[:1] not in ([], ["total"])]
    matches = [_CLIENT.fullmatch(line) for line in clients]
    own = [match for match in matches if match and int(match[1]) == pid]
    if not own and not all(matches):
        raise ValueError("a line of the table is not understood")
    return sum(int(match[2]) * _UNIT_MIB[match[3]] for match in own)


# Paging: pages swapped in and out, and major faults, which wait for a disk. The system's counts come from
# /proc/vmstat under the root (`pswpin`, `pswpout` and `pgmajfault`, proc(5)), the engine's faults from the real /proc
# (field 12 of /proc/PID/stat).

VMSTAT = "proc/vmstat"
COUNTERS = {"swap-in": "pswpin", "swap-out": "pswpout", "system-major-faults": "pgmajfault"}
NOTES = {"swap-in": "pages", "swap-out": "pages"}

Now = Callable[[], float]


def discover_paging(root: Root) -> Found:
    if root.exists(VMSTAT):
        return Found((system_paging(root),))
    return Found(missing=(Missing("swap traffic", f"no {root.absolute(VMSTAT)}"),))


def system_paging(root: Root, now: Now = time.monotonic) -> Reader:
    file, source = root.file(VMSTAT), root.absolute(VMSTAT)
    rates, most = {label: Rate() for label in COUNTERS}, most_cpus(root) * EVENTS_PER_CPU

    def read() -> Values:
        at_s = now()
        fields = parse_counters(file.read_text())
        return [
            rates[label].per_second(fields[key], at_s, most) if key in fields else Gap(f"no {key} in the file")
            for label, key in COUNTERS.items()
        ]

    infos = (sensor("rate", label, f"{source} {key}", note=NOTES.get(label)) for label, key in COUNTERS.items())
    return Reader(tuple(infos), read, name="system paging")


def discover_engine_faults(pid: int, *, shares_process: bool) -> Found:
    return Found((engine_faults(pid, SHARED_NOTE if shares_process else None),))


def engine_faults(pid: int, note: str | None = None, root: Root = HOST, now: Now = time.monotonic) -> Reader:
    """Return a reader of the engine's major page faults per second. Each fault makes an inference wait for a disk.

    `note` is the sensor's description, and `now` returns the present time in seconds.
    """
    file, rate, most = root.file(f"proc/{pid}/stat"), Rate(), most_cpus(root) * EVENTS_PER_CPU

    def read() -> Values:
        at_s = now()
        return [rate.per_second(parse_stat(file.read_text()).major_faults, at_s, most)]

    info = sensor("rate", "major-faults", f"/proc/{pid}/stat", note=note)
    return Reader((info,), read, name="engine major faults")
