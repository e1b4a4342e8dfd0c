"""Memory pressure as traffic: pages swapped in and out, and major faults, which wait for a disk.

The system's come from vmstat under the root; the engine's faults from the real /proc.
proc(5): `pswpin`, `pswpout` (pages) and `pgmajfault` of /proc/vmstat, field 12 of /proc/PID/stat.
"""

import time
from collections.abc import Callable

from edgetop.sensors.counters import Rate
from edgetop.sensors.processes import HOST, SHARED_NOTE, parse_counters, parse_stat
from edgetop.sensors.protocol import Found, Gap, Missing, Reader, Values, sensor
from edgetop.sensors.root import Root

VMSTAT = "proc/vmstat"
COUNTERS = {"swap-in": "pswpin", "swap-out": "pswpout", "system-major-faults": "pgmajfault"}
NOTES = {"swap-in": "pages", "swap-out": "pages"}

Now = Callable[[], float]


def discover(root: Root) -> Found:
    if root.exists(VMSTAT):
        return Found((system_paging(root),))
    return Found(missing=(Missing("swap traffic", f"no {root.absolute(VMSTAT)}"),))


def system_paging(root: Root, now: Now = time.monotonic) -> Reader:
    file, source = root.file(VMSTAT), root.absolute(VMSTAT)
    rates = {label: Rate() for label in COUNTERS}

    def read() -> Values:
        at_s = now()
        fields = parse_counters(file.read_text())
        return [
            rates[label].per_second(fields[key], at_s) if key in fields else Gap(f"no {key} in the file")
            for label, key in COUNTERS.items()
        ]

    infos = (sensor("rate", label, f"{source} {key}", note=NOTES.get(label)) for label, key in COUNTERS.items())
    return Reader(tuple(infos), read, name="system paging")


def discover_engine(pid: int, *, shares_process: bool) -> Found:
    return Found((engine_faults(pid, SHARED_NOTE if shares_process else None),))


def engine_faults(pid: int, note: str | None = None, root: Root = HOST, now: Now = time.monotonic) -> Reader:
    """Major faults of the engine: each one is an inference that waited for a disk."""
    file, rate = root.file(f"proc/{pid}/stat"), Rate()

    def read() -> Values:
        at_s = now()
        return [rate.per_second(parse_stat(file.read_text()).major_faults, at_s)]

    info = sensor("rate", "major-faults", f"/proc/{pid}/stat", note=note)
    return Reader((info,), read, name="engine major faults")
