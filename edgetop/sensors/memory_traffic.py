"""The traffic of the memory in bytes per second and its clock, as the counters of the memory controller give them.

On many boards only perf events have them. A counter belongs to no thread, so an event counts the whole machine, on one
of the CPUs in the PMU's file `cpumask`. The kernel allows this at `perf_event_paranoid` 0 or less, or with CAP_PERFMON
(`perf_allow_cpu` in include/linux/perf_event.h). A captured board has no counts, so its traffic is missing.

Events, and how many bytes a count is:

- Rockchip (drivers/devfreq/event/rockchip-dfi.c, since Linux 6.7): PMU `rockchip_ddr`, `read-bytes` and `write-bytes`
  of all channels, and `cycles` of the first. On RK3588 with LPDDR4X, kernels without "rockchip-dfi: double count on
  RK3588" (2025) count half of the clock.
- Intel (arch/x86/events/intel/uncore_snb.c, uncore_snbep.c): `uncore_imc` with `data_reads` and `data_writes` up to
  Skylake and its kin, `uncore_imc_free_running_N` with `data_read` and `data_write` from Tiger Lake on, and a PMU
  `uncore_imc_N` for each channel of a server with `cas_count_read`, `cas_count_write` and `clockticks`. A server has
  its free-running counters beside these; they count the same traffic and are not read.
- AMD (arch/x86/events/amd/uncore.c): a PMU `amd_umc_N` for each channel, which lists no events. Their codes and the 64
  bytes of a command are in tools/perf/pmu-events/arch/x86/amdzen4, memory-controller.json and recommended.json.
"""

import errno
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgetop.frozen import frozen
from edgetop.sensors.clocks import has_memory_clock
from edgetop.sensors.core_pmus import FOLDER, PmuEvent, event_number
from edgetop.sensors.counters import FIRST
from edgetop.sensors.engine_counters import PARANOID, PARTIAL, UNCONFINED
from edgetop.sensors.perf_counting import COUNT, NOT_COUNTED, Calls, Count, KernelCalls, attributes
from edgetop.sensors.root import Root, parse_int
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Values, sensor
from edgetop.session.manifest import SensorInfo

TRAFFIC = "memory traffic"  # label of `Missing`
READ, WRITE, CLOCK, BUSY = "read", "write", "clock", "busy"
LOWER = "sudo sysctl kernel.perf_event_paranoid=0"
MOST_PMUS = 64  # choice: a server of two sockets has 24 channels
MOST_BYTES_PER_S = 4e12  # choice: a server of twelve channels of DDR5 moves 0.6 TB/s
MOST_MHZ = 20_000.0  # choice: DDR5 at 8,800 MT/s has a clock of 4,400 MHz
MIB = 2**20
UNITS = ("MiB", "MB")  # Rockchip calls 1,048,576 bytes a MB: its scale is 9.536743164e-07
_CPUS = re.compile(r"[0-9]{1,4}(?:[,-][0-9]{1,4})*")


@frozen
class _Kind:
    """One kind of memory controller: names of its PMUs, and the event of each figure.

    An event is the name of a file in the PMU's folder `events`, or its text, such as `event=0x0a,rdwrmask=0x1`.
    """

    pmus: "re.Pattern[str]"
    events: Mapping[str, str]  # by READ, WRITE, CLOCK and BUSY
    count_bytes: int | None = None  # bytes of a count; None: the files beside the event say it


_KINDS = (
    _Kind(re.compile(r"rockchip_ddr"), {READ: "read-bytes", WRITE: "write-bytes", CLOCK: "cycles"}),
    _Kind(
        re.compile(r"uncore_imc_[0-9]+"),
        {READ: "cas_count_read", WRITE: "cas_count_write", CLOCK: "clockticks"},
    ),
    _Kind(re.compile(r"uncore_imc"), {READ: "data_reads", WRITE: "data_writes"}),
    _Kind(re.compile(r"uncore_imc_free_running(?:_[0-9]+)?"), {READ: "data_read", WRITE: "data_write"}),
    _Kind(
        re.compile(r"amd_umc_[0-9]+"),
        {
            READ: "event=0x0a,rdwrmask=0x1", WRITE: "event=0x0a,rdwrmask=0x2", CLOCK: "event=0x00",
            BUSY: "event=0x14",
        },
        64,
    ),
)  # fmt: skip


@frozen
class _Event:
    figure: str  # READ, WRITE, CLOCK or BUSY
    event: PmuEvent
    each: float  # bytes of a count; 1 for cycles


NO_CYCLE = Gap("no clock cycle was counted")


@frozen
class _Box:
    """One PMU of a memory controller."""

    name: str
    cpus: tuple[int, ...]  # one of each package
    events: tuple[_Event, ...]


@dataclass(slots=True)
class _Opened:
    figure: str
    each: float
    descriptor: int
    before: Count | None = None  # at the last read


class MemoryTraffic:
    """A source of what the memory controller counts: bytes per second read and written, and the memory's clock."""

    name = TRAFFIC
    cadence_s = 1.0

    def __init__(self, boxes: Sequence[_Box], calls: Calls, *, has_clock: bool) -> None:
        """Begin to count the events of `boxes`. Raises OSError if the kernel refuses to count.

        With `has_clock`, another source already gives the memory's clock, so it is no sensor of this source.
        """
        self._calls = calls
        self._opened: list[_Opened] = []
        self._lacking: set[str] = set()  # optional figures that a box cannot count
        try:
            for box in boxes:
                self._open(box)
        except OSError:
            self.close()
            raise
        known = {one.figure for one in self._opened} - self._lacking
        self._clocks = CLOCK in known and not has_clock
        self._loads = {CLOCK, BUSY} <= known
        source = f"/{FOLDER}/{_names([box.name for box in boxes])}, perf events"
        infos = [sensor("dram", way, source, note="all that uses the memory") for way in (READ, WRITE)]
        if self._clocks:
            infos.append(sensor("freq", "memory", source, note="cycles that its controller counts"))
        if self._loads:
            infos.append(sensor("load", "emc", source, note="share of the clock cycles in which data moves"))
        self.sensors: tuple[SensorInfo, ...] = tuple(infos)

    def _open(self, box: _Box) -> None:
        for cpu in box.cpus:
            for event in box.events:
                try:
                    descriptor = self._calls.open(attributes(event.event, 0), -1, -1, cpu)
                except OSError as error:
                    if event.figure in (READ, WRITE) or error.errno not in (errno.ENOSPC, *NOT_COUNTED):
                        raise
                    self._lacking.add(event.figure)
                    continue
                self._opened.append(_Opened(event.figure, event.each, descriptor))

    def read(self) -> Values:
        sums = dict.fromkeys((READ, WRITE, CLOCK, BUSY), 0.0)
        gap: Gap | None = None
        clocks = 0
        for one in self._opened:
            now, before = _counted(self._calls.read_count(one.descriptor)), one.before
            one.before = now
            value, enabled_ns, running_ns = (after - earlier for after, earlier in zip(now, before or now, strict=True))
            if enabled_ns <= 0:
                gap = FIRST
            elif running_ns < enabled_ns:
                gap = gap or PARTIAL
            else:
                sums[one.figure] += value * one.each / enabled_ns * 1e9
                clocks += one.figure == CLOCK and value > 0  # a channel without memory counts none
        if gap:
            return [gap] * len(self.sensors)
        values: list[float | Gap] = [_possible(sums[way], MOST_BYTES_PER_S, "B/s") for way in (READ, WRITE)]
        if self._clocks:
            values.append(_possible(sums[CLOCK] / clocks / 1e6, MOST_MHZ, "MHz") if clocks else NO_CYCLE)
        if self._loads:  # a slot is half of a clock cycle: umc_data_bus_utilization in recommended.json
            values.append(_possible(50 * sums[BUSY] / sums[CLOCK], 100.0, "%") if clocks else NO_CYCLE)
        return values

    def close(self) -> None:
        for one in self._opened:
            self._calls.close(one.descriptor)
        self._opened = []


def _counted(packed: bytes) -> Count:
    """Return a count as the kernel packs it. Raises OSError if the kernel no longer counts the event."""
    if len(packed) != COUNT.size:
        raise OSError(errno.ENODATA, "the kernel counts it no longer")
    return Count(*COUNT.unpack(packed))


def _possible(value: float, most: float, unit: str) -> float | Gap:
    return value if 0 <= value <= most else Gap(f"counted {value:.3g} {unit}; at most {most:g} are possible")


def _names(pmus: Sequence[str]) -> str:
    return pmus[0] if len(pmus) == 1 else f"{pmus[0]} to {pmus[-1]}"


def discover(root: Root, open_calls: Callable[[], Calls] = KernelCalls) -> Found:
    """Return a source of the memory's traffic and clock, or the reason why they cannot be counted.

    On a board whose kernel counts no traffic, nothing is returned. `open_calls` returns the object that makes the
    system calls.
    """
    boxes = _boxes(root)
    if not boxes:
        return Found()
    if not root.is_host and open_calls is KernelCalls:
        return Found(missing=(Missing(TRAFFIC, "it is counted on the board only, and not in a capture"),))
    try:
        return Found((MemoryTraffic(boxes, open_calls(), has_clock=has_memory_clock(root)),))
    except OSError as error:
        return Found(missing=(_refused(error, root),))


def _refused(error: OSError, root: Root) -> Missing:
    if error.errno == errno.ENOSYS:
        return Missing(TRAFFIC, "this kernel has no perf events (CONFIG_PERF_EVENTS)")
    if error.errno in (errno.EACCES, errno.EPERM):
        level = root.number(PARANOID)
        if level is not None and level > 0:
            return Missing(TRAFFIC, f"perf_event_paranoid is {level}, which allows counting it to root only", LOWER)
        return Missing(TRAFFIC, "counting it is not allowed, as in a container", UNCONFINED)
    what = "the kernel does not count it" if error.errno in NOT_COUNTED else "it cannot be counted"
    return Missing(TRAFFIC, f"{what}: {error.strerror or error}")


def _boxes(root: Root) -> list[_Box]:
    """Return the PMUs that count the traffic of the memory, all of the first kind that this kernel has."""
    names = root.names(FOLDER)
    for kind in _KINDS:
        boxes = [box for name in names if kind.pmus.fullmatch(name) and (box := _box(root, name, kind))]
        if boxes:
            return boxes[:MOST_PMUS]
    return []


def _box(root: Root, name: str, kind: _Kind) -> _Box | None:
    """Return a PMU with its events, or None if it does not count bytes that are read and written."""
    number, cpus = root.number(f"{FOLDER}/{name}/type"), _cpus(root.line(f"{FOLDER}/{name}/cpumask") or "")
    if number is None or not cpus:
        return None
    events = tuple(_events(root, name, number, kind))
    return _Box(name, cpus, events) if {READ, WRITE} <= {one.figure for one in events} else None


def _events(root: Root, name: str, number: int, kind: _Kind) -> Iterator[_Event]:
    for figure, wanted in kind.events.items():
        text = wanted if "=" in wanted else root.line(f"{FOLDER}/{name}/events/{wanted}")
        config = None if text is None else event_number(root, name, text)
        if config is None:
            continue
        each: float | None = 1.0
        if figure in (READ, WRITE):
            each = kind.count_bytes or _count_bytes(root, f"{FOLDER}/{name}/events/{wanted}")
        if each is not None:
            yield _Event(figure, PmuEvent(wanted, number, config), each)


def _count_bytes(root: Root, event: str) -> float | None:
    """Return how many bytes one count of an event stands for, or None if the files beside the event do not say it.

    `event` is the event's file. The files `EVENT.scale` and `EVENT.unit` turn a count into MiB
    (Documentation/ABI/testing/sysfs-bus-event_source-devices-events).
    """
    try:
        scale = float(root.line(f"{event}.scale") or "")
    except ValueError:
        return None
    if root.line(f"{event}.unit") not in UNITS or not 0 < scale < 1:
        return None
    return float(round(scale * MIB)) or None


def _cpus(text: str) -> tuple[int, ...]:
    """Return the CPUs of a list such as `0,28` or `0-1`; () for anything else.

    >>> _cpus("0,28"), _cpus("4"), _cpus("2-3"), _cpus("all")
    ((0, 28), (4,), (2, 3), ())
    """
    if not _CPUS.fullmatch(text):
        return ()
    found: list[int] = []
    for span in text.split(","):
        low, *high = (parse_int(number) for number in span.split("-"))
        found += range(low, (high[-1] if high else low) + 1)
    return tuple(found)
