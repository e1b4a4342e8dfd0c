"""What the processor's energy counters (RAPL) tell of its domains, as watts.

ABI: Documentation/power/powercap/powercap.rst. `energy_uj` counts up and begins anew at
`max_energy_range_uj`; since Linux 5.10 it is readable by root alone (CVE-2020-8694, commit
949dd0104c49). AMD's processors are under the name of Intel's too. A package holds its core
and uncore, the platform (psys) holds the packages: nothing here is ever added up.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from edgetop.sensors.energy import EnergyCounter
from edgetop.sensors.protocol import Found, Gap, Missing, Source, sensor
from edgetop.sensors.root import Root
from edgetop.session.manifest import SensorInfo

ZONES = "sys/class/powercap"
CADENCE_S = 1.0
FASTEST_S = 0.05  # the counters are renewed about every ms (Intel SDM vol. 3B, RAPL interfaces): 2 % of that
STILL = Gap("the energy counter stands still")  # as one does that the processor has not, or a captured board's

_NOTES = {
    "package": "one processor package with its cores and integrated graphics: not the board, not its memory",
    "core": "cores alone, within the package",
    "uncore": "integrated graphics, within the package",
    "dram": "memory, beside the package",
    "psys": "the platform as the maker wired it; without what is lost in the power supply",
}


@dataclass(frozen=True, slots=True)
class RaplDomain:
    """Mean power of one domain since the last read."""

    root: Root
    folder: str
    sensors: tuple[SensorInfo, ...]
    counter: EnergyCounter
    may_rest: bool = False  # graphics may: it draws nothing while it is off
    now_s: Callable[[], float] = field(default=time.monotonic)
    cadence_s: float = CADENCE_S
    fastest_s: float = FASTEST_S

    @property
    def name(self) -> str:
        return self.sensors[0].id

    def read(self) -> Sequence[float | Gap]:
        watts = self.counter.watts(self.root.read_int(f"{self.folder}/energy_uj") / 1e6, self.now_s())
        return [STILL if watts == 0 and not self.may_rest else watts]


@dataclass(frozen=True, slots=True)
class _Zone:
    folder: str
    name: str  # "package-0", "core", "psys" ...
    parent: str | None  # of a subzone, the name of the zone it is in


def discover(root: Root) -> Found:
    """Nothing, and nothing missing, on a board without such counters."""
    zones = list(_zones(root))
    names = [zone.name for zone in zones]
    sources: list[Source] = []
    refused: list[str] = []
    for zone in zones:
        try:
            root.read_int(f"{zone.folder}/energy_uj")
        except PermissionError:
            refused.append(zone.name)
            continue
        except (OSError, ValueError):
            pass  # its reads tell
        alone = names.count(zone.name) == 1
        label = zone.name if alone or zone.parent is None else f"{zone.parent}-{zone.name}"
        counter = EnergyCounter(_range_j(root, zone))
        sources.append(
            RaplDomain(root, zone.folder, (_sensor(root, zone, label),), counter, may_rest=zone.name == "uncore")
        )
    return Found(tuple(sources), _missing(root, refused))


def _missing(root: Root, refused: list[str]) -> tuple[Missing, ...]:
    if not refused:
        return ()
    why = f"energy_uj in {root.shown(ZONES)} is readable by root alone ({', '.join(refused)})"
    return (Missing("processor power", why, f"sudo chmod a+r {root.shown(ZONES)}/*/energy_uj"),)


def _zones(root: Root) -> Iterator[_Zone]:
    """Every domain once: where the memory-mapped interface tells of one that the registers tell too, these count."""
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


def _range_j(root: Root, zone: _Zone) -> float | None:
    try:
        microjoules = root.read_int(f"{zone.folder}/max_energy_range_uj")
    except (OSError, ValueError):
        return None
    return microjoules / 1e6 if microjoules > 0 else None


def _sensor(root: Root, zone: _Zone, label: str) -> SensorInfo:
    return sensor(
        "power",
        label,
        root.shown(f"{zone.folder}/energy_uj"),
        role="total" if zone.name == "psys" else "part",
        accuracy="firmware-estimate",
        averages=True,
        note=_NOTES.get(zone.name.partition("-")[0]),
    )
