"""Whether heat slows down the board now, from cooling devices that throttle and from the counters of Intel CPUs.

Devices and counters are read together, so that the sensor `throttle/thermal` always agrees with them.

Each CPU has two counters. One counts throttling events, and grows when an event begins. The other one has the time that
the events took, and grows when an event ends (drivers/thermal/intel/therm_throt.c). So a rise of either counter shows
throttling since the last read. CPUs of one core or package show the same values, so only one CPU of each core and
package is read. The file of an offline CPU is empty. AMD, ARM and most virtual machines have no such
counters.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from edgetop.frozen import frozen
from edgetop.sensors.counters import FIRST, LATE_S, WENT_BACK, bounded
from edgetop.sensors.plausible import INTERRUPTS
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, attempt, sensor
from edgetop.sensors.thermal_zones import THERMAL, cooling_devices
from edgetop.session.manifest import SensorInfo

CPUS = "sys/devices/system/cpu"
MS_PER_S = 1000.0
LONGEST_EVENT_S = 30 * 86_400.0  # choice: an event's time counts when it ends, and none lasts for a month
OFFLINE = Gap("its CPUs are offline")
UNREPORTED = "throttling cooling devices"  # reported as missing if a CPU may throttle without reporting it
_OF_A_PC = ("Processor", "intel_powerclamp")


class Counter:
    """One throttle counter, which several files show with the same value. The first file that can be read is used."""

    def __init__(self, root: Root, files: Sequence[str]) -> None:
        self._files = [root.file(file) for file in files]
        self._before: tuple[str, int] | None = None
        self.total: int | None = None  # None if it cannot be read now

    def advance(self, passed_s: float, most: float, late_s: float = LATE_S) -> int | Gap:
        """Return by how much the counter grew since the last call, or a gap if that is unknown.

        The last call was `passed_s` seconds ago. `most` is the highest possible growth per second. `late_s` is the
        longest delay of an update of the counter, in seconds.
        """
        before, self._before, self.total = self._before, None, None
        for file in self._files:
            total = attempt(file.read_int)
            if not isinstance(total, Gap):
                self._before, self.total = (file.relative, total), total
                break
        if self.total is None:
            return OFFLINE
        if before is None or self._before is None or before[0] != self._before[0]:  # another CPU's count
            return FIRST
        if self.total < before[1]:
            return WENT_BACK
        leap = bounded(self.total - before[1], passed_s, most, late_s) if passed_s > 0 else FIRST
        return leap if isinstance(leap, Gap) else self.total - before[1]


class Advance(NamedTuple):
    """How much a machine's throttle counters grew between two reads."""

    core_events: int | Gap
    package_events: int | Gap  # those of the cores if the CPU has no counters for packages
    throttled: bool | Gap  # whether an event has begun or ended


@frozen
class ThrottleCounts:
    """All throttle counters of one machine: events of each core and package, and the ms that throttling took."""

    cores: Sequence[Counter]
    packages: Sequence[Counter]
    times: Sequence[Counter]

    def advance(self, passed_s: float) -> Advance:
        """Return by how much the counters grew since the last call, which was `passed_s` seconds ago."""
        cores, packages = (
            [counter.advance(passed_s, INTERRUPTS) for counter in group] for group in (self.cores, self.packages)
        )
        times = [counter.advance(passed_s, MS_PER_S, LONGEST_EVENT_S) for counter in self.times]
        every = [*cores, *packages, *times]
        total = _sum(every)
        has_grown = any(not isinstance(value, Gap) and value > 0 for value in every)
        throttled = True if has_grown else total if isinstance(total, Gap) else False
        return Advance(_sum(cores), _sum(packages or cores), throttled)

    def ever(self) -> float | Gap:
        """Return 1 if a core or package has throttled since boot, 0 if none has, or a gap if that is unknown.

        The values of the last `advance` are used, so no file is read.
        """
        totals = [counter.total for counter in (*self.cores, *self.packages)]
        if any(totals):
            return 1.0
        return OFFLINE if None in totals else 0.0


def _sum(values: Sequence[int | Gap]) -> int | Gap:
    """Return the sum of `values`, without those that are the gap `OFFLINE` because the counter's CPU is offline.

    Returns the first other gap in `values` if there is one, or `OFFLINE` if all CPUs are offline.
    """
    known = [value for value in values if not isinstance(value, Gap)]
    unknown = [value for value in values if isinstance(value, Gap) and value is not OFFLINE]
    return unknown[0] if unknown else sum(known) if known else OFFLINE


def find_counts(root: Root) -> ThrottleCounts | None:
    """Return the throttle counters of a machine, or None if it has none."""
    cpus = [name for name in root.names(CPUS) if name.startswith("cpu") and name[3:].isdigit()]
    folders = [f"{CPUS}/{cpu}" for cpu in cpus if root.exists(f"{CPUS}/{cpu}/thermal_throttle")]
    cores: dict[tuple[str, str], list[str]] = {}
    packages: dict[str, list[str]] = {}
    for folder in folders:
        package = root.line(f"{folder}/topology/physical_package_id") or "0"
        core = root.line(f"{folder}/topology/core_id") or folder
        cores.setdefault((package, core), []).append(folder)
        packages.setdefault(package, []).append(folder)

    def counters(groups: Iterable[Sequence[str]], name: str) -> list[Counter]:
        files = ([f"{folder}/thermal_throttle/{name}" for folder in group] for group in groups)
        present = ([file for file in group if root.exists(file)] for group in files)
        return [Counter(root, group) for group in present if group]

    if not folders:
        return None
    times = [
        *counters(cores.values(), "core_throttle_total_time_ms"),
        *counters(packages.values(), "package_throttle_total_time_ms"),
    ]
    core_counts = counters(cores.values(), "core_throttle_count")
    return ThrottleCounts(core_counts, counters(packages.values(), "package_throttle_count"), times)


def discover(root: Root, now_s: Callable[[], float] = time.monotonic) -> Found:
    devices, counts = cooling_devices(root), find_counts(root)
    # If the only cooling devices are those of ACPI, state 0 does not mean that heat slows nothing down: the CPUs of a
    # PC throttle by themselves and, except in Intel's counters, do not report it.
    reports = counts is not None or any(device.throttles and device.type not in _OF_A_PC for device in devices)
    flags = _flags(root, counts) if reports else ()
    before_s: float | None = None

    def read() -> Values:
        nonlocal before_s
        states = [attempt(device.state) for device in devices]
        throttling = [state for device, state in zip(devices, states, strict=True) if device.throttles]
        if counts is None:
            return [_any(throttling), *states] if flags else states
        at_s = now_s()
        passed_s, before_s = 0.0 if before_s is None else at_s - before_s, at_s
        advance = counts.advance(passed_s)
        rates = [
            events if isinstance(events, Gap) else events / passed_s if passed_s > 0 else FIRST
            for events in (advance.package_events, advance.core_events)
        ]
        return [_any([*throttling, advance.throttled]), counts.ever(), *rates, *states]

    infos = (*flags, *(device.info for device in devices))
    sources = (Reader(infos, read, name="thermal limits"),) if infos else ()
    if flags:
        return Found(sources)
    why = f"none in {root.absolute(THERMAL)} that all throttling goes through, and no CPU that counts its own"
    return Found(sources, (Missing(UNREPORTED, why),))


def _flags(root: Root, counts: ThrottleCounts | None) -> tuple[SensorInfo, ...]:
    note, counters = "a cooling device that throttles is at work", root.absolute(CPUS)
    if counts is None:
        return (sensor("throttle", "thermal", root.absolute(THERMAL), note=note),)
    note += ", or the CPU has counted throttling since the last look"
    return (
        sensor("throttle", "thermal", counters, note=note),
        sensor("throttle", "thermal-sticky", counters, note="the CPU has counted throttling since boot"),
        sensor("rate", "thermal-events", counters, note="package_throttle_count, each package once"),
        sensor("rate", "core-thermal-events", counters, note="core_throttle_count, each core once"),
    )


def _any(claims: Values) -> float | Gap:
    """Return 1 if any of `claims` says that heat slows the board down, which a value above 0 does.

    If none does, return the first gap in `claims`, or 0 if there is no gap.
    """
    if any(not isinstance(claim, Gap) and claim > 0 for claim in claims):
        return 1.0
    return next((claim for claim in claims if isinstance(claim, Gap)), 0.0)
