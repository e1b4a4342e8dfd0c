"""Bytes over the network and to and from disks: the system's, and the engine's own disk traffic.

Each byte is counted once: hardware interfaces and whole disks, not what is stacked on them
(bridges, VLANs, partitions, device mapper, loop) and not what never leaves the memory
(loopback, zram). What is hardware has a `device` in sysfs: Documentation/ABI/testing/
sysfs-class-net and sysfs-block. The kernel counts no network bytes per process.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgetop.sensors.numbers import parse_int
from edgetop.sensors.paging import read_counters
from edgetop.sensors.protocol import Found, Gap, Missing, join, sensor
from edgetop.sensors.rates import Rate, SumRate
from edgetop.sensors.root import Root

CADENCE_S = 1.0
NET_DEV, NET_CLASS = "proc/net/dev", "sys/class/net"
DISKSTATS, BLOCK = "proc/diskstats", "sys/block"

SECTOR_BYTES = 512  # whatever the disk's own are: Documentation/admin-guide/iostats.rst

# Of names where sysfs tells nothing: what is stacked on hardware, or is none.
_VIRTUAL_NET = re.compile(
    r"(ifb|dummy|docker|br|virbr|tun|tap|wg|bond|team|vnet)[-_\d]|lo$|veth|cali|flannel|cni|.*\.\d"
)
_VIRTUAL_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d")
_PARTITION = re.compile(r"((mmcblk|nvme)\d+(n\d+)?p\d+|(sd|vd|hd|xvd)[a-z]+\d+)")

Counts = Mapping[str, tuple[int, int]]  # of each device: bytes in and out


class Traffic:
    """Two rates, of counters that one file has for each device."""

    cadence_s = CADENCE_S

    def __init__(
        self,
        root: Root,
        name: str,
        file: str,
        labels: tuple[str, str],
        parse: Callable[[str], Counts],
        choose: Callable[[Root, Sequence[str]], list[str]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`choose`: of the devices in the file, those that count each byte once."""
        self.name = name
        self._root, self._file, self._parse, self._choose, self._now = root, file, parse, choose, now
        self._rates = SumRate(), SumRate()
        self._devices: tuple[str, ...] = ()  # in the file when it was chosen among them
        self._chosen: list[str] = []
        kind = name.split(maxsplit=1)[0]
        self.sensors = tuple(sensor(kind, label, root.shown(file)) for label in labels)

    def read(self) -> Sequence[float | Gap]:
        at_s = self._now()
        counts = self._parse(self._root.read_text(self._file))
        devices = tuple(counts)
        if devices != self._devices:  # one was plugged in or out
            self._devices, self._chosen = devices, self._choose(self._root, devices)
        if not self._chosen:
            return [Gap("no hardware device among those in the file")] * 2
        return [
            rate.per_second({name: counts[name][way] for name in self._chosen}, at_s)
            for way, rate in enumerate(self._rates)
        ]


def network(root: Root, now: Callable[[], float] = time.monotonic) -> Traffic:
    return Traffic(root, "net traffic", NET_DEV, ("rx", "tx"), read_net_dev, hardware_interfaces, now)


def disks(root: Root, now: Callable[[], float] = time.monotonic) -> Traffic:
    return Traffic(root, "disk traffic", DISKSTATS, ("read", "write"), read_diskstats, whole_disks, now)


def read_net_dev(text: str) -> Counts:
    """Bytes received and sent by each interface. Raises ValueError where a line of one is cut short."""
    counts = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(":")
        if colon:
            fields = rest.split()
            if len(fields) < 9:
                raise ValueError(f"a line of {len(fields)} fields")
            counts[name.strip()] = (_count(fields[0]), _count(fields[8]))
    return counts


def read_diskstats(text: str) -> Counts:
    """Bytes read from and written to each block device. Raises ValueError where a line is cut short."""
    counts = {}
    for line in text.splitlines():
        fields = line.split()
        if fields:
            if len(fields) < 10:
                raise ValueError(f"a line of {len(fields)} fields")
            counts[fields[2]] = (_count(fields[5]) * SECTOR_BYTES, _count(fields[9]) * SECTOR_BYTES)
    return counts


def _count(text: str) -> int:
    value = parse_int(text)
    if value < 0:
        raise ValueError(f"a count of {value}")
    return value


def hardware_interfaces(root: Root, names: Sequence[str]) -> list[str]:
    """Those with a device; in a container, where there is none, those that are not stacked on others."""
    hardware = [name for name in names if "device" in root.names(f"{NET_CLASS}/{name}")]
    return hardware or [name for name in names if not _VIRTUAL_NET.match(name)]


def whole_disks(root: Root, names: Sequence[str]) -> list[str]:
    if root.names(BLOCK):
        return [name for name in names if "device" in root.names(f"{BLOCK}/{name.replace('/', '!')}")]
    return [name for name in names if not _VIRTUAL_DISK.match(name) and not _PARTITION.fullmatch(name)]


class EngineDisk:
    """What the engine itself caused to be read from and written to disks (proc(5), /proc/PID/io)."""

    name = "engine disk traffic"
    cadence_s = CADENCE_S

    def __init__(
        self, pid: int, note: str | None = None, proc: Path = Path("/proc"), now: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = proc / str(pid) / "io"
        self._now = now
        self._rates = {"engine-read": Rate(), "engine-write": Rate()}
        self.sensors = tuple(sensor("disk", label, f"/proc/{pid}/io", note=note) for label in self._rates)

    def read(self) -> Sequence[float | Gap]:
        at_s = self._now()
        fields = read_counters(self._file.read_text("utf-8", "replace").replace(":", ""))
        counted = [fields.get("read_bytes"), fields.get("write_bytes")]
        return [
            Gap("no such count in the file") if count is None else rate.per_second(count, at_s)
            for count, rate in zip(counted, self._rates.values(), strict=True)
        ]


def discover(root: Root) -> Found:
    found = Found()
    for what, make, file in (("network traffic", network, NET_DEV), ("disk traffic", disks, DISKSTATS)):
        if root.exists(file):
            found = join([found, Found((make(root),))])
        else:
            found = join([found, Found(missing=(Missing(what, f"no {root.shown(file)}"),))])
    return found


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    engine = EngineDisk(pid, "edgetop's own included: the engine is a thread of it" if shares_process else None)
    try:
        engine.read()  # its first only begins an interval
    except OSError as error:
        return Found(missing=(Missing("engine disk traffic", f"/proc/{pid}/io: {error.strerror}"),))
    return Found((engine,))
