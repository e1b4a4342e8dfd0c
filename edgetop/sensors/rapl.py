"""Power of the processor's parts, from its energy counters (RAPL).

ABI: Documentation/power/powercap/powercap.rst. `energy_uj` counts up and begins at 0 again after `max_energy_range_uj`.
Since Linux 5.10 only root may read it (CVE-2020-8694, commit 949dd0104c49). AMD's processors appear under Intel's names
too. A package includes its core and uncore, and the platform (psys) includes the packages. So their powers are never
added up.
"""

import time
from collections.abc import Callable, Iterator

from edgetop.frozen import frozen
from edgetop.sensors.counters import EnergyCounter
from edgetop.sensors.root import Root
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Reader, Values, sensor
from edgetop.session.meter import Meter

ZONES = "sys/class/powercap"
FASTEST_S = 0.05  # the counters are updated about every ms (Intel SDM vol. 3B, RAPL interfaces), 2 % of this time
LONG_TERM = "long_term"  # name of the limit of the mean power
MOST_CONSTRAINTS = 3  # long_term, short_term and peak_power
MOST_LIMIT_UW = 1e9  # choice: a larger limit is none, since no processor draws 1 kW
STILL = Gap("the energy counter stands still")  # of a domain that the processor lacks, or of a captured board

_NOTES = {
    "package": "one processor package with its cores and integrated graphics: not the board, not its memory",
    "core": "cores alone, within the package",
    "uncore": "integrated graphics, within the package",
    "dram": "memory, beside the package",
    "psys": "the platform as the maker wired it; without what is lost in the power supply",
}


@frozen
class _Zone:
    folder: str
    name: str  # "package-0", "core", "psys" ...
    parent: str | None  # name of the zone that contains this one; None at the top


def discover(root: Root, now_s: Callable[[], float] = time.monotonic) -> Found:
    """Return readers of the power of the processor's parts, from its energy counters (RAPL).

    On a board without these counters nothing is returned. If only root may read them, the reason is returned.
    """
    zones = list(_zones(root))
    refused = [zone.name for zone in zones if root.is_denied(f"{zone.folder}/energy_uj")]
    names = [zone.name for zone in zones]
    sources = []
    for zone in zones:
        alone = names.count(zone.name) == 1
        label = zone.name if alone or zone.parent is None else f"{zone.parent}-{zone.name}"
        if zone.name not in refused:
            sources.append(_domain(root, zone, label, now_s))
    if not refused:
        return Found(tuple(sources))
    why = f"energy_uj in {root.absolute(ZONES)} is readable by root alone ({', '.join(refused)})"
    fix = f"sudo chmod a+r {root.absolute(ZONES)}/*/energy_uj"
    return Found(tuple(sources), (Missing("processor power", why, fix),))


def _domain(root: Root, zone: _Zone, label: str, now_s: Callable[[], float]) -> Reader:
    range_uj = root.number(f"{zone.folder}/max_energy_range_uj") or 0
    file, counter = root.file(f"{zone.folder}/energy_uj"), EnergyCounter(range_uj / 1e6 if range_uj > 0 else None)
    may_rest = zone.name == "uncore"  # graphics draws no power while it is off

    def read() -> Values:
        watts = counter.watts(file.read_int() / 1e6, now_s())
        return [STILL if watts == 0 and not may_rest else watts]

    role, note = "total" if zone.name == "psys" else "part", _NOTES.get(zone.name.partition("-")[0])
    source, accuracy = root.absolute(file.relative), "firmware-estimate"
    info = sensor(
        "power", label, source, role=role, accuracy=accuracy, averages=True, note=note, meter=Meter("rapl"),
        max=_limit_w(root, zone.folder),
    )  # fmt: skip
    return Reader((info,), read, fastest_s=FASTEST_S)


def _limit_w(root: Root, folder: str) -> float | None:
    """Return the power in W that the zone in `folder` may draw for long, or None if no limit is set.

    The limit is the constraint with the name `long_term` (powercap.rst, "constraints"). 0 means no limit.
    """
    for n in range(MOST_CONSTRAINTS):
        if root.line(f"{folder}/constraint_{n}_name") == LONG_TERM:
            limit_uw = root.number(f"{folder}/constraint_{n}_power_limit_uw") or 0
            return limit_uw / 1e6 if 0 < limit_uw < MOST_LIMIT_UW else None
    return None


def _zones(root: Root) -> Iterator[_Zone]:
    """Yield each part of the processor that has an energy counter, once.

    A part may have one counter in the CPU's registers and another in the memory-mapped interface. Then the one in the
    registers is used.
    """
    folders = [name for name in root.names(ZONES) if ":" in name]
    seen: set[tuple[str | None, str]] = set()
    for folder in sorted(folders, key=lambda name: name.startswith("intel-rapl-mmio")):
        path = f"{ZONES}/{folder}"
        name = root.line(f"{path}/name")
        if name is None or not root.exists(f"{path}/energy_uj"):
            continue
        parent = root.line(f"{ZONES}/{folder.rpartition(':')[0]}/name") if folder.count(":") > 1 else None
        if (parent, name) not in seen:
            seen.add((parent, name))
            yield _Zone(path, name.replace("/", "-"), parent and parent.replace("/", "-"))
