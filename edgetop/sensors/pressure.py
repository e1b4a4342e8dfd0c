"""Pressure stall information: in what share of the time something had to wait for CPU, memory or I/O.

Documentation/accounting/psi.rst. Shares are made of the totals, not of the kernel's averages over 10 s
and more, so that they belong to the interval they are shown for.
"""

import re
import time
from collections.abc import Callable

from edgetop.sensors.counters import Rate
from edgetop.sensors.protocol import Found, Gap, Missing, Reader, Values, sensor
from edgetop.sensors.root import Root, parse_int

FOLDER = "proc/pressure"
SINCE = (4, 20)

# "full" of the CPU is undefined for the whole system and always 0.
_KINDS = {"cpu": ("some",), "memory": ("some", "full"), "io": ("some", "full")}
_LINE = re.compile(r"(some|full) .*\btotal=(\S+)")


def discover(root: Root, now_s: Callable[[], float] = time.monotonic) -> Found:
    sources = []
    for resource in _KINDS:
        try:
            root.read_text(f"{FOLDER}/{resource}")
        except OSError:  # EOPNOTSUPP where the kernel has it switched off (psi_show in kernel/sched/psi.c)
            continue
        sources.append(_resource(root, resource, now_s))
    if sources:
        return Found(tuple(sources))
    if _linux_version(root) < SINCE:
        return Found(missing=(Missing("pressure", "needs Linux {}.{} or later".format(*SINCE)),))
    why = f"no {root.absolute(FOLDER)}: switched off in this kernel, as in those of Raspberry Pi OS"
    return Found(missing=(Missing("pressure", why, "add psi=1 to the kernel's command line and reboot"),))


def _resource(root: Root, resource: str, now_s: Callable[[], float]) -> Reader:
    """The share of time in which some task, or all of them at once, waited for it."""
    file = root.file(f"{FOLDER}/{resource}")
    rates = {kind: Rate() for kind in _KINDS[resource]}

    def read() -> Values:
        text, at_s = file.read_text(), now_s()
        totals = {match[1]: match[2] for match in map(_LINE.match, text.splitlines()) if match}
        return [
            _share(rate.percent(parse_int(totals[kind]) / 1e6, at_s))
            if kind in totals
            else Gap(f"no {kind} line in the file")
            for kind, rate in rates.items()
        ]

    infos = tuple(sensor("pressure", f"{resource}-{kind}", root.absolute(file.relative)) for kind in rates)
    return Reader(infos, read, name=f"{resource} pressure")


def _share(percent: float | Gap) -> float | Gap:
    """Two clocks measure the interval, so that a share may come out a little above the whole; more is no share."""
    if isinstance(percent, Gap) or percent <= 110:
        return percent if isinstance(percent, Gap) else min(percent, 100.0)
    return Gap("the total grew faster than time")


def _linux_version(root: Root) -> tuple[int, int]:
    """Of a kernel that does not tell, one that has it."""
    match = re.match(r"([0-9]{1,4})\.([0-9]{1,4})", root.line("proc/sys/kernel/osrelease") or "")
    return (int(match[1]), int(match[2])) if match else SINCE
