"""What the measured phase used: the engine's CPU and memory, and bytes over the network and from disks.

Loads and rates are means since the reading before, so that their integral over the phase is all there was.
"""

from dataclasses import dataclass

import numpy as np

from edgetop.analysis.rail_energy import Integral, RailEnergy
from edgetop.session.batch import Batch
from edgetop.session.records import of_sensors
from edgetop.session.seconds import NS

CPU, MEMORY, OWN = "load/engine", "mem/rss", "load/edgetop"
# The kernel counts no network bytes per process (edgetop.sensors.traffic): those are the board's.
BYTES = {
    "net_rx_bytes": "net/rx", "net_tx_bytes": "net/tx",
    "block_read_bytes": "disk/engine-read", "block_write_bytes": "disk/engine-write",
}  # fmt: skip
LEAST_COVERED = 0.5  # of the phase, by readings, for a count of bytes


@dataclass(frozen=True, slots=True)
class UsageView:
    """None: the board does not report it, or the phase was too short for its sensors."""

    cpu_mean_pct: float | None  # 100: one core
    cpu_peak_pct: float | None  # of a reading, which is the mean of a second
    mem_mean_mib: float | None
    mem_peak_mib: float | None
    bytes: dict[str, int | None]  # by the keys of BYTES


class Usage:
    """Folds the readings of those sensors over the measured phase."""

    def __init__(self) -> None:
        self._sums = {name: RailEnergy(averages=name != MEMORY) for name in (CPU, MEMORY, *BYTES.values())}
        self._places: dict[int, str] = {}

    def began(self, t_ns: int) -> None:
        """Begin the measured phase."""
        for sums in self._sums.values():
            sums.began(t_ns)

    def fold(self, batch: Batch) -> None:
        if batch.manifest is not None:
            self._places = {
                place: info.id for place, info in enumerate(batch.manifest.sensors) if info.id in self._sums
            }
        for t_ns, until_ns, place, _, _, *figures in batch.stretches.tolist():
            if place in self._places:
                self._sums[self._places[place]].add_stretch(t_ns, until_ns, *figures)
        readings = of_sensors(batch.readings, self._places)
        for place, name in self._places.items():
            rows = readings[readings["sensor"] == place]
            if len(rows):
                self._sums[name].add(rows["t_ns"].astype(np.int64), rows["value"].astype(np.float64))

    def view(self, until_ns: int) -> UsageView:
        """Return the usage. `until_ns`: the end of the measured phase, or now."""
        found = {name: sums.until(until_ns) for name, sums in self._sums.items()}
        return UsageView(
            found[CPU].mean_w,
            found[CPU].peak_w,
            found[MEMORY].mean_w,
            found[MEMORY].peak_w,
            {key: _count(found[name]) for key, name in BYTES.items()},
        )


class OwnLoad:
    """The mean of `load/edgetop` over the measured phase, in percent of one core."""

    def __init__(self) -> None:
        self._sensor: int | None = None
        self._sum = 0.0
        self._count = 0

    @property
    def mean(self) -> float | None:
        """Return the mean; None: the measured phase was too short for a reading."""
        return self._sum / self._count if self._count else None

    @property
    def count(self) -> int:
        """Return the number of readings."""
        return self._count

    def fold(self, batch: Batch, measuring_since_ns: int | None) -> None:
        if batch.manifest is not None:
            ids = [info.id for info in batch.manifest.sensors]
            self._sensor = ids.index(OWN) if OWN in ids else None
        if self._sensor is None or measuring_since_ns is None:
            return
        readings = of_sensors(batch.readings, (self._sensor,))
        # A reading is the mean of the second before it.
        readings = readings[readings["t_ns"] >= measuring_since_ns + NS]
        self._sum += float(readings["value"].sum())
        self._count += len(readings)


def _count(sums: Integral) -> int | None:
    """Return the count from a rate; time without readings counts at the mean rate. None: under half was read."""
    covered = sums.covered_s * 1e9 / sums.length_ns if sums.length_ns else 0.0
    return round(sums.energy_j / min(covered, 1.0)) if covered >= LEAST_COVERED else None
