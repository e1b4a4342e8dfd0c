"""Sources whose sensors say of themselves that they are simulated."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgetop.sensors.pace import fastest
from edgetop.sensors.protocol import Found, Gap, Source
from edgetop.session.manifest import SensorInfo


@dataclass(frozen=True, slots=True)
class Marked:
    source: Source
    sensors: tuple[SensorInfo, ...]

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def cadence_s(self) -> float:
        return self.source.cadence_s

    @property
    def fastest_s(self) -> float:
        return fastest(self.source)

    def read(self) -> Sequence[float | Gap]:
        return self.source.read()


def marked(found: Found) -> Found:
    """The sources alone: what a virtual board has not, nobody can mend."""
    sources = [Marked(source, tuple(replace(s, simulated=True) for s in source.sensors)) for source in found.sources]
    return Found(tuple(sources))
