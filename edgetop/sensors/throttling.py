"""Whether heat is slowing the board now: cooling devices that throttle, and the counters of Intel CPUs.

All are read in one go, so that `throttle/thermal` says nothing that they do not.

drivers/thermal/intel/therm_throt.c: a count rises when an event begins, the time in it when it ends, so either shows
throttling since the last read. The counters are per CPU; those of one core, and of one package, are the same and are
taken once. An offline CPU's file is empty. AMD, ARM and most virtual machines have none of it.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edgetop.sensors.counters import FIRST, WENT_BACK
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, attempt, sensor
from edgetop.sensors.thermal_zones import THERMAL, cooling_devices
from edgetop.session.manifest import SensorInfo

CPUS = "sys/devices/system/cpu"
OFFLINE = Gap("its CPUs are offline")
UNREPORTED = "throttling cooling devices"  # what is missing where a CPU may throttle and report it to nobody
_OF_A_PC = ("Processor", "intel_powerclamp")


class Counter:
    """A growing number that several files hold; the first readable one counts."""

    def __init__(self, root: Root, files: Sequence[str]) -> None:
        self._files = [root.file(file) for file in files]
        self._before: tuple[str, int] | None = None
        self.total: int | None = None  # None: cannot be read now

    def advance(self) -> int | Gap:
        """Return the growth since the last call."""
        before, self._before, self.total = self._before, None, None
        for file in self._files:
            total = attempt(file.read_int)
            if not isinstance(total, Gap):
                self._before, self.total = (file.relative, total), total
                break
        if self.total is None:
            return OFFLINE
        if before is None or self._before is None or before[0] != self._before[0]:  # each CPU counts for itself
            return FIRST
        return self.total - before[1] if self.total >= before[1] else WENT_BACK


class Advance(NamedTuple):
    """The growth of the counters since the last call."""

    core_events: int | Gap
    package_events: int | Gap  # where a CPU has no counter of the package, those of its cores
    throttled: bool | Gap  # an event has begun or ended


@dataclass(frozen=True, slots=True)
class ThrottleCounts:
    """All throttle counters of a machine: events by core and by package, and the time in them."""

    cores: Sequence[Counter]
    packages: Sequence[Counter]
    times: Sequence[Counter]

    def advance(self) -> Advance:
        cores, packages, times = (
            [counter.advance() for counter in group] for group in (self.cores, self.packages, self.times)
        )
        every = [*cores, *packages, *times]
        total = _sum(every)
        has_grown = any(not isinstance(value, Gap) and value > 0 for value in every)
        throttled = True if has_grown else total if isinstance(total, Gap) else False
        return Advance(_sum(cores), _sum(packages or cores), throttled)

    def ever(self) -> float | Gap:
        """Whether any core or package has throttled since boot, by what was read last."""
        totals = [counter.total for counter in (*self.cores, *self.packages)]
        if any(totals):
            return 1.0
        return OFFLINE if None in totals else 0.0


def _sum(values: Sequence[int | Gap]) -> int | Gap:
    """Return the sum of what can be read; a gap where nothing can, or where a counter only begins its interval."""
    known = [value for value in values if not isinstance(value, Gap)]
    unknown = [value for value in values if isinstance(value, Gap) and value is not OFFLINE]
    return unknown[0] if unknown else sum(known) if known else OFFLINE


def find_counts(root: Root) -> ThrottleCounts | None:
    """None where the machine has no such counters."""
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
    # Where they are only those of ACPI, all at rest does not mean that nothing is slowed by heat: the CPUs of a PC see
    # to their temperature themselves, and but for Intel's counters report to nobody.
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
        advance = counts.advance()
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
    """1 where one holds; 0 only where all could be read and none does."""
    if any(not isinstance(claim, Gap) and claim > 0 for claim in claims):
        return 1.0
    return next((claim for claim in claims if isinstance(claim, Gap)), 0.0)
