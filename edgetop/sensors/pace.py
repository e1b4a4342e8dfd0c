"""How often power is read: at jittered intervals, and never faster than there is news.

A load that repeats with the period of its sampling is always seen at the same phase: of
100 ms of which 30 are busy, sampled evenly at 10 Hz, the energy is wrong by half, however
long the run; with intervals drawn at random from half to one and a half of it, the error
shrinks with time (Bilinskis and Mikelsons, Randomized Signal Processing, 1992).
"""

from dataclasses import dataclass

from edgetop.sensors.protocol import Found, Source, Values
from edgetop.session.manifest import SensorInfo

JITTER = 0.5  # of the cadence, to either side


@dataclass(frozen=True, slots=True)
class Paced:
    """A source of power, read every `cadence_s` on average, and never again before `fastest_s` have passed."""

    source: Source
    cadence_s: float
    fastest_s: float

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def sensors(self) -> tuple[SensorInfo, ...]:
        return self.source.sensors

    @property
    def interval_s(self) -> tuple[float, float]:
        return max((1 - JITTER) * self.cadence_s, self.fastest_s), (1 + JITTER) * self.cadence_s

    def read(self) -> Values:
        return self.source.read()


def paced(found: Found, hz: float | None = None) -> Found:
    """The same, with every source of power at jittered intervals: `hz` times a second, or at its own cadence."""
    return Found(tuple(_paced(source, hz) for source in found.sources), found.missing)


def _paced(source: Source, hz: float | None) -> Source:
    if all(info.kind != "power" for info in source.sensors):
        return source
    fastest_s = fastest(source)
    return Paced(source, max(1 / hz if hz else source.cadence_s, fastest_s), fastest_s)


def fastest(source: Source) -> float:
    """How soon another read of it may tell anything new: `fastest_s` where it has one, else its cadence."""
    return float(getattr(source, "fastest_s", 0.0) or source.cadence_s)
