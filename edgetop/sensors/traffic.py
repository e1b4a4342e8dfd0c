"""The system's network and disk traffic, and the disk traffic of the engine.

Each byte counts once: at hardware interfaces and whole disks, but not at devices that are stacked on them (bridges,
VLANs, partitions, device mapper, loop) or that only use memory (loopback, zram). Hardware has a `device` in sysfs:
Documentation/ABI/testing/sysfs-class-net and sysfs-block. The kernel does not count the network traffic of processes.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence

from edgetop.sensors.counters import Most, Rate, SumRate
from edgetop.sensors.plausible import COPIED_PER_CPU, most_cpus, most_of_disk, most_of_link
from edgetop.sensors.process_table import HOST, SHARED_NOTE, parse_counters
from edgetop.sensors.root import Root, parse_int
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, sensor

NET_DEV, NET_CLASS = "proc/net/dev", "sys/class/net"
DISKSTATS, BLOCK = "proc/diskstats", "sys/block"

# Drivers whose chip counts fetch the counts every two seconds at most (drivers/net/ethernet/intel/igb, mellanox/mlx5).
# Disks count what is complete, a large transfer at its end.
LATE_S = 2.0
SLOWEST_LINK = 10e6 / 8  # bytes per second; below it no link's speed matters
LINK_CHECK_S = 60.0  # interval of reading a link's speed, since some drivers ask the chip for it

SECTOR_BYTES = 512  # whatever the disk's sectors are: Documentation/admin-guide/iostats.rst

# Names of virtual devices, used if sysfs does not show which devices are hardware.
_VIRTUAL_NET = re.compile(
    r"(ifb|dummy|docker|br|virbr|tun|tap|wg|bond|team|vnet)[-_\d]|lo$|veth|cali|flannel|cni|.*\.\d"
)
_VIRTUAL_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d")
_PARTITION = re.compile(r"((mmcblk|nvme)\d+(n\d+)?p\d+|(sd|vd|hd|xvd)[a-z]+\d+)")

Counts = Mapping[str, tuple[int, int]]  # bytes in and out, by device
Now = Callable[[], float]


def parse_net_dev(text: str) -> Counts:
    """Return `(bytes received, bytes sent)` of each network interface by name.

    `text` is the content of /proc/net/dev. Raises ValueError if a line is cut off.
    """
    lines = [line.rpartition(":") for line in text.splitlines()]
    return {name.strip(): _counts(rest.split(), 0, 8) for name, colon, rest in lines if colon}


def parse_diskstats(text: str) -> Counts:
    """Return `(bytes read, bytes written)` of each disk and partition by name.

    `text` is the content of /proc/diskstats. Raises ValueError if a line is cut off.
    """
    counts = {}
    for fields in filter(None, map(str.split, text.splitlines())):
        read, written = _counts(fields, 5, 9)
        counts[fields[2]] = read * SECTOR_BYTES, written * SECTOR_BYTES
    return counts


def _counts(fields: Sequence[str], *places: int) -> tuple[int, int]:
    if len(fields) <= max(places):
        raise ValueError(f"a line of {len(fields)} fields")
    first, second = (parse_int(fields[place]) for place in places)
    if min(first, second) < 0:
        raise ValueError(f"a count of {min(first, second)}")
    return first, second


def hardware_interfaces(root: Root, names: Sequence[str]) -> list[str]:
    """Return the network interfaces among `names` that are hardware.

    If sysfs shows none, as in a container, return those whose names are not typical of virtual interfaces.
    """
    hardware = [name for name in names if "device" in root.names(f"{NET_CLASS}/{name}")]
    return hardware or [name for name in names if not _VIRTUAL_NET.match(name)]


def whole_disks(root: Root, names: Sequence[str]) -> list[str]:
    if root.names(BLOCK):
        return [name for name in names if "device" in root.names(f"{BLOCK}/{name.replace('/', '!')}")]
    return [name for name in names if not _VIRTUAL_DISK.match(name) and not _PARTITION.fullmatch(name)]


# For each kind: file, labels of the two rates, parser of the file, and function that chooses the devices to count.
_KINDS: dict[str, tuple[str, tuple[str, str], Callable[[str], Counts], Callable[[Root, Sequence[str]], list[str]]]] = {
    "net": (NET_DEV, ("rx", "tx"), parse_net_dev, hardware_interfaces),
    "disk": (DISKSTATS, ("read", "write"), parse_diskstats, whole_disks),
}


class LinkSpeeds:
    """Knows the highest possible rate of each network interface in bytes per second. A link's speed may change."""

    def __init__(self, root: Root, now: Now) -> None:
        self._root, self._now = root, now
        self._known: dict[str, tuple[float, float]] = {}  # by name: bytes per second, and when it was read

    def most(self, name: str, rate: float) -> float:
        """Return the highest possible rate of an interface in bytes per second.

        `rate` is the present growth of the interface's counter in bytes per second. If it is higher than
        the known maximum, the link's speed is read again.
        """
        most, read_s = self._known.get(name, (0.0, 0.0))
        if most and (rate <= SLOWEST_LINK or (rate <= most and self._now() - read_s < LINK_CHECK_S)):
            return most
        most = most_of_link(self._root, name)
        self._known[name] = most, self._now()
        return most


def traffic_reader(kind: str, root: Root, now: Now = time.monotonic) -> Reader:
    """Return a reader of two rates in bytes per second, of all hardware interfaces or whole disks together.

    With `kind` "net" the rates are of bytes received and sent, with "disk" of bytes read and written. `now` returns the
    present time in seconds.
    """
    path, labels, parse, choose = _KINDS[kind]
    file, rates = root.file(path), (SumRate(LATE_S), SumRate(LATE_S))
    most: Most = LinkSpeeds(root, time.monotonic).most if kind == "net" else lambda name, _: most_of_disk(name)
    devices: tuple[str, ...] = ()  # devices in the file when `chosen` was made
    chosen: list[str] = []

    def read() -> Values:
        nonlocal devices, chosen
        at_s, counts = now(), parse(file.read_text())
        if tuple(counts) != devices:  # a device was plugged in or removed
            devices = tuple(counts)
            chosen = choose(root, devices)
        if not chosen:
            return [Gap("no hardware device among those in the file")] * 2
        amounts = ({device: counts[device][way] for device in chosen} for way in range(2))
        return [rate.per_second(amount, at_s, most) for rate, amount in zip(rates, amounts, strict=True)]

    return Reader(tuple(sensor(kind, label, root.absolute(path)) for label in labels), read, name=f"{kind} traffic")


def discover(root: Root) -> Found:
    sources: list[Reader] = []
    missing: list[Missing] = []
    for kind, what in (("net", "network traffic"), ("disk", "disk traffic")):
        if root.exists(file := _KINDS[kind][0]):
            sources.append(traffic_reader(kind, root))
        else:
            missing.append(Missing(what, f"no {root.absolute(file)}"))
    return Found(tuple(sources), tuple(missing))


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    engine = engine_disk(pid, SHARED_NOTE if shares_process else None)
    try:
        engine.read()  # begins an interval
    except OSError as error:
        return Found(missing=(Missing("engine disk traffic", f"/proc/{pid}/io: {error.strerror}"),))
    return Found((engine,))


def engine_disk(pid: int, note: str | None = None, root: Root = HOST, now: Now = time.monotonic) -> Reader:
    """Return a reader of the bytes per second that the engine caused to be read from and written to disks.

    `pid` is the engine's process id (/proc/PID/io), `note` is the sensors' description, and `now` returns the present
    time in seconds.
    """
    file, rates = root.file(f"proc/{pid}/io"), {"read_bytes": Rate(), "write_bytes": Rate()}
    most = most_cpus(root) * COPIED_PER_CPU

    def read() -> Values:
        at_s = now()
        fields = parse_counters(file.read_text().replace(":", ""))
        return [
            rate.per_second(fields[name], at_s, most) if name in fields else Gap("no such count in the file")
            for name, rate in rates.items()
        ]

    labels = ("engine-read", "engine-write")
    infos = tuple(sensor("disk", label, f"/proc/{pid}/io", note=note) for label in labels)
    return Reader(infos, read, name="engine disk traffic")
