"""Memory pressure as traffic: pages swapped in and out, and major faults, which wait for a disk.

The system's come from vmstat under the root; the engine's faults from the real /proc.
proc(5): `pswpin`, `pswpout` (pages) and `pgmajfault` of /proc/vmstat, field 12 of /proc/PID/stat.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgetop.sensors.numbers import parse_int
from edgetop.sensors.protocol import Found, Gap, Missing, sensor
from edgetop.sensors.rates import Rate
from edgetop.sensors.root import Root

CADENCE_S = 1.0

VMSTAT = "proc/vmstat"
COUNTERS = {"swap-in": "pswpin", "swap-out": "pswpout", "system-major-faults": "pgmajfault"}
NOTES = {"swap-in": "pages", "swap-out": "pages"}

_MAJOR_FAULTS = 9  # of the fields after the command's name, which may hold spaces and brackets itself


class SystemPaging:
    name = "system paging"
    cadence_s = CADENCE_S

    def __init__(self, root: Root, now: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._now = now
        self._rates = {label: Rate() for label in COUNTERS}
        source = root.shown(VMSTAT)
        self.sensors = tuple(
            sensor("rate", label, f"{source} {key}", note=NOTES.get(label)) for label, key in COUNTERS.items()
        )

    def read(self) -> Sequence[float | Gap]:
        at_s = self._now()
        fields = read_counters(self._root.read_text(VMSTAT))
        return [
            self._rates[label].per_second(fields[key], at_s) if key in fields else Gap(f"no {key} in the file")
            for label, key in COUNTERS.items()
        ]


class EngineFaults:
    """Major faults of the engine: each one is an inference that waited for a disk."""

    name = "engine major faults"
    cadence_s = CADENCE_S

    def __init__(
        self, pid: int, note: str | None = None, proc: Path = Path("/proc"), now: Callable[[], float] = time.monotonic
    ) -> None:
        self._file = proc / str(pid) / "stat"
        self._now = now
        self._rate = Rate()
        self.sensors = (sensor("rate", "major-faults", f"/proc/{pid}/stat", note=note),)

    def read(self) -> Sequence[float | Gap]:
        at_s = self._now()
        return [self._rate.per_second(major_faults(self._file.read_text("utf-8", "replace")), at_s)]


def major_faults(stat: str) -> int:
    """Raises ValueError where this is no /proc/PID/stat.

    >>> major_faults("7 (a) b) S 1 7 7 0 -1 4194560 900 0 12 0 5 3")
    12
    """
    fields = stat.rpartition(")")[2].split()
    if len(fields) <= _MAJOR_FAULTS:
        raise ValueError("no count of major faults in the file")
    return parse_int(fields[_MAJOR_FAULTS])


def read_counters(text: str) -> dict[str, int]:
    """`name 123` lines as a mapping; lines of another shape are passed over.

    >>> read_counters("pswpin 12\\nnr_dirty -\\n")
    {'pswpin': 12}
    """
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and _is_count(pair[1])}


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 20


def discover(root: Root) -> Found:
    if root.exists(VMSTAT):
        return Found((SystemPaging(root),))
    return Found(missing=(Missing("swap traffic", f"no {root.shown(VMSTAT)}"),))


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    note = "edgetop's own included: the engine is a thread of it" if shares_process else None
    return Found((EngineFaults(pid, note),))
