"""What the measured phase took of the board: the engine's CPU and memory, and bytes over the network and from disks.

Loads and rates are means since the reading before, so that their integral over the phase is all there was.
"""

from dataclasses import dataclass

import numpy as np

from edgetop.analysis.rail_energy import Integral, RailEnergy
from edgetop.session.batch import Batch
from edgetop.session.records import of_sensors

CPU, MEMORY = "load/engine", "mem/rss"
# The kernel counts no network bytes per process (edgetop.sensors.traffic): those are the board's.
BYTES = {
    "net_rx_bytes": "net/rx", "net_tx_bytes": "net/tx",
    "block_read_bytes": "disk/engine-read", "block_write_bytes": "disk/engine-write",
}  # fmt: skip
LEAST_COVERED = 0.5  # of the phase, by readings, for a count of bytes


@dataclass(frozen=True, slots=True)
class UsageView:
    """None: the board does not tell, or the phase was too short for its sensors."""

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
        """The measured phase begins."""
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
        """`until_ns`: the end of the measured phase, or now."""
        found = {name: sums.until(until_ns) for name, sums in self._sums.items()}
        return UsageView(
            *_mean_and_peak(found[CPU]),
            *_mean_and_peak(found[MEMORY]),
            {key: _count(found[name]) for key, name in BYTES.items()},
        )


def _mean_and_peak(sums: Integral) -> tuple[float | None, float | None]:
    mean = sums.energy_j / sums.covered_s if sums.covered_s else None
    return mean, float(sums.highest_w) if np.isfinite(sums.highest_w) else None


def _count(sums: Integral) -> int | None:
    """A rate for as long as it was not read was as it was while it was read."""
    covered = sums.covered_s * 1e9 / sums.length_ns if sums.length_ns else 0.0
    return round(sums.energy_j / min(covered, 1.0)) if covered >= LEAST_COVERED else None
