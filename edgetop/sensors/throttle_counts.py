"""How often Intel CPUs have throttled: counters of each core and of the package, since boot.

drivers/thermal/intel/therm_throt.c: a count rises when an event begins, the time in it when
it ends, so either tells of throttling since the last look. The counters are kept per CPU; those
of one core, and of one package, tell of the same thing and are taken once. An offline CPU's
file is empty. AMD, ARM and most virtual machines have none of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from edgetop.sensors.protocol import Gap, attempt
from edgetop.sensors.rates import FIRST
from edgetop.sensors.root import Root

CPUS = "sys/devices/system/cpu"
OFFLINE = Gap("its CPUs are offline")


class Counter:
    """One growing number that several files tell; the first that can be read counts."""

    def __init__(self, root: Root, files: Sequence[str]) -> None:
        self._root = root
        self._files = tuple(files)
        self._before: tuple[str, int] | None = None
        self.total: int | None = None  # None: cannot be read now

    def advance(self) -> int | Gap:
        """By how much it has grown since the last look."""
        before, (file, self.total) = self._before, self._look()
        self._before = None if self.total is None else (file, self.total)
        if self.total is None:
            return OFFLINE
        if before is None or before[0] != file:  # each CPU counts for itself
            return FIRST
        return self.total - before[1] if self.total >= before[1] else Gap("the counter went back")

    def _look(self) -> tuple[str, int | None]:
        for file in self._files:
            total = attempt(partial(self._root.read_int, file))
            if not isinstance(total, Gap):
                return file, total
        return "", None


@dataclass(frozen=True, slots=True)
class Advance:
    """What has happened since the look before."""

    core_events: int | Gap
    package_events: int | Gap  # where a CPU has no counter of the package, those of its cores
    throttled: bool | Gap  # an event has begun or ended


class ThrottleCounts:
    """All counters of a machine."""

    def __init__(self, cores: Sequence[Counter], packages: Sequence[Counter], times: Sequence[Counter]) -> None:
        self._cores, self._packages, self._times = tuple(cores), tuple(packages), tuple(times)

    def advance(self) -> Advance:
        cores, packages, times = (
            [counter.advance() for counter in group] for group in (self._cores, self._packages, self._times)
        )
        return Advance(_sum(cores), _sum(packages or cores), _any([*cores, *packages, *times]))

    def ever(self) -> bool | Gap:
        """Whether any core or package has throttled since boot, by what was read last."""
        totals = [counter.total for counter in (*self._cores, *self._packages)]
        if any(totals):
            return True
        return OFFLINE if None in totals else False


def _sum(values: Sequence[int | Gap]) -> int | Gap:
    """Of what can be read; a gap where nothing can, or where one counter only begins its interval."""
    known = [value for value in values if not isinstance(value, Gap)]
    unknown = [value for value in values if isinstance(value, Gap) and value is not OFFLINE]
    return unknown[0] if unknown else sum(known) if known else OFFLINE


def _any(values: Sequence[int | Gap]) -> bool | Gap:
    total = _sum(values)
    has_grown = any(not isinstance(value, Gap) and value > 0 for value in values)
    return True if has_grown else total if isinstance(total, Gap) else False


def find(root: Root) -> ThrottleCounts | None:
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
    if not folders:
        return None
    return ThrottleCounts(
        _counters(root, cores.values(), "core_throttle_count"),
        _counters(root, packages.values(), "package_throttle_count"),
        (
            *_counters(root, cores.values(), "core_throttle_total_time_ms"),
            *_counters(root, packages.values(), "package_throttle_total_time_ms"),
        ),
    )


def _counters(root: Root, groups: Iterable[Sequence[str]], name: str) -> list[Counter]:
    """A counter for each group of CPUs that has this file."""
    files = ([f"{folder}/thermal_throttle/{name}" for folder in folders] for folders in groups)
    there = ([file for file in group if root.exists(file)] for group in files)
    return [Counter(root, group) for group in there if group]
