"""The resources used in the measured phase: CPU and memory of the engine, and bytes over the network and from disks.

Each reading of a load or a rate is the mean since the previous reading. So the sum over the phase misses nothing.
"""

from dataclasses import field

import numpy as np

from edgetop.analysis.rail_energy import Integral, RailEnergy, SensorIntegrals
from edgetop.formatting import rounded, rounded_ms
from edgetop.frozen import OMIT, frozen
from edgetop.session.batch import Batch
from edgetop.session.event_kinds import ProgramEnded
from edgetop.session.events import Event
from edgetop.session.manifest import SensorInfo
from edgetop.session.records import NO_READINGS, Readings, of_sensors
from edgetop.session.seconds import NS

MOST_EARLY = 256  # Readings of edgetop's own CPU use that are stored until the measured phase is known to have begun.
CPU, MEMORY, OWN = "load/engine", "mem/rss", "load/edgetop"
PROGRAM_CPU, PROGRAM_MEMORY = "load/application", "mem/application"  # of a watched program with all its children
LIMIT = "mem/cgroup-limit"
HIGH_WATER = "mem/rss-peak"  # The kernel's maximum since the process began, because readings miss short peaks.
# The kernel counts no network bytes per process (edgetop.sensors.traffic), so these are the board's.
BYTES = {
    "net_rx_bytes": "net/rx", "net_tx_bytes": "net/tx",
    "block_read_bytes": "disk/engine-read", "block_write_bytes": "disk/engine-write",
}  # fmt: skip
# Share of the measured phase that readings must cover for a count of bytes. Choice. Larger: short sessions have no
# count; smaller: a count is extrapolated from a few readings.
LEAST_COVERED = 0.5
# Share by which several processes together must exceed the largest of them to count as the peak. Choice: a shell that
# waits for the program is nothing. Larger: workers of a program are missing; smaller: what they share counts twice.
TOGETHER = 0.05


@frozen
class UsageFigures:
    """The resources used in the measured phase, which lasted `total_time_ms`.

    The field names are keys of the report's JSON document. For a watched program, the figures cover its whole run, with
    all its children. A figure is None if the board does not report it, or if the phase was too short for its sensors.
    """

    cpu_mean_pct: float | None  # 100 is one core.
    cpu_peak_pct: float | None  # Highest reading; each is the mean over a second.
    mem_mean_mib: float | None
    # The kernel's maximum, which includes loading the model; without it, the highest reading.
    mem_peak_mib: float | None
    net_rx_bytes: int | None
    net_tx_bytes: int | None
    block_read_bytes: int | None
    block_write_bytes: int | None
    total_time_ms: float | None
    mem_limit_mib: float | None = field(default=None, metadata=OMIT)  # The tightest limit of the cgroup.
    cgroup_peak_mib: float | None = field(default=None, metadata=OMIT)  # Of a cgroup of its own, by the kernel.
    # True if the bytes over the network are those of its container, and not those of the whole board.
    net_of_container: bool | None = field(default=None, metadata=OMIT)


def _averages(info: SensorInfo) -> bool | None:
    return info.kind != "mem" if info.id in _WANTED else None


_WANTED = frozenset((CPU, MEMORY, HIGH_WATER, PROGRAM_CPU, PROGRAM_MEMORY, LIMIT, *BYTES.values()))


class Usage:
    """Adds up the resources used in the measured phase, from the readings of the sensors."""

    def __init__(self) -> None:
        self._integrals = SensorIntegrals(_averages)
        self._counted: ProgramEnded | None = None  # what the kernel counted for the watched program
        self.began, self.fold = self._integrals.began, self._integrals.fold

    def on_event(self, event: Event) -> None:
        if isinstance(event.body, ProgramEnded):
            self._counted = event.body

    def of_program(self, until_ns: int, length_ns: int, limit_bytes: int | None = None) -> UsageFigures:
        """Return the resources that a watched program used, together with all its children.

        `until_ns`: the session time in ns up to which readings are used. `length_ns`: how long the program has been
        watched, in ns. `limit_bytes`: the memory limit that edgetop has set for the program; None if there is none.
        (For a program of less than a second, a reading of the limit would come too late.) Totals that the kernel
        counted are used instead of sums of readings, which miss the last second and short peaks.
        """
        counted = self._counted or ProgramEnded(length_ns)
        readings = {name: self._of(name, until_ns) for name in (*_WANTED, *BYTES.values())}
        cpu, memory = readings[PROGRAM_CPU], readings[PROGRAM_MEMORY]
        mean_pct = cpu.mean_w if counted.cpu_ns is None else 100 * counted.cpu_ns / max(1, counted.total_ns)
        marks = [readings[HIGH_WATER].peak_w, readings[MEMORY].peak_w, counted.rss_peak_mib]
        largest = max((mib for mib in marks if mib is not None), default=None)
        together = memory.peak_w if counted.pss_peak_mib is None else counted.pss_peak_mib
        is_several = together is not None and together > (largest or 0.0) * (1 + TOGETHER)
        limit_mib = readings[LIMIT].peak_w
        if limit_mib is None and limit_bytes is not None:
            limit_mib = limit_bytes / 2**20
        rx, tx, read, written = (_count(readings[sensor]) for sensor in BYTES.values())
        return UsageFigures(
            rounded(mean_pct),
            rounded(cpu.peak_w if cpu.peak_w is None or mean_pct is None else max(cpu.peak_w, mean_pct)),
            rounded(memory.mean_w if counted.pss_mean_mib is None else counted.pss_mean_mib),
            rounded(together if is_several else largest),
            rx if counted.net_rx_bytes is None else counted.net_rx_bytes,
            tx if counted.net_tx_bytes is None else counted.net_tx_bytes,
            read if counted.read_bytes is None else counted.read_bytes,
            written if counted.write_bytes is None else counted.write_bytes,
            rounded_ms(counted.total_ns),
            mem_limit_mib=rounded(limit_mib),
            cgroup_peak_mib=rounded(counted.cgroup_peak_mib),
            net_of_container=True if counted.net_rx_bytes is not None else None,
        )

    def _of(self, sensor: str, until_ns: int) -> Integral:
        return self._integrals.by_id.get(sensor, (RailEnergy(),))[0].until(until_ns)

    def figures(self, until_ns: int, measured_ns: int | None) -> UsageFigures | None:
        """Return the resources used, or None if nothing was measured.

        `until_ns`: the session time in ns at which the measured phase ends, or now. `measured_ns`: the length of the
        phase in ns; None before it begins.
        """
        if not measured_ns:
            return None
        sensors = (CPU, MEMORY, HIGH_WATER, *BYTES.values())
        cpu, memory, high_water, *traffic = (self._of(name, until_ns) for name in sensors)
        rx, tx, read, written = map(_count, traffic)
        peaks_mib = [peak for peak in (memory.peak_w, high_water.peak_w) if peak is not None]
        return UsageFigures(
            rounded(cpu.mean_w),
            rounded(cpu.peak_w),
            rounded(memory.mean_w),
            rounded(max(peaks_mib, default=None)),
            rx,
            tx,
            read,
            written,
            rounded_ms(measured_ns),
            mem_limit_mib=rounded(self._of(LIMIT, until_ns).peak_w),
        )


class OwnLoad:
    """Computes the mean CPU use of edgetop itself in the measured phase, in percent of one core."""

    def __init__(self) -> None:
        self._sensor: int | None = None
        self._sum = 0.0
        self._early: Readings = NO_READINGS  # Read before the beginning of the measured phase was known.
        self.count = 0  # Number of readings.

    @property
    def mean(self) -> float | None:
        """Return the mean in percent of one core, or None if the measured phase was too short for a reading."""
        return self._sum / self.count if self.count else None

    def fold(self, batch: Batch, measuring_since_ns: int | None) -> None:
        if batch.manifest is not None:
            ids = [info.id for info in batch.manifest.sensors]
            self._sensor = ids.index(OWN) if OWN in ids else None
        if self._sensor is None:
            return
        # Of a watched program, the first inferences are held back, and so is the news that the phase has begun.
        readings = np.concatenate([self._early, of_sensors(batch.readings, (self._sensor,))])
        self._early = readings[-MOST_EARLY:] if measuring_since_ns is None else NO_READINGS
        if measuring_since_ns is None:
            return
        # A reading is the mean over the second before it.
        readings = readings[readings["t_ns"] >= measuring_since_ns + NS]
        self._sum += float(readings["value"].sum())
        self.count += len(readings)


def _count(sums: Integral) -> int | None:
    """Return a number of bytes, computed from the integral of a rate in bytes/s. Gaps in the readings add nothing.

    None if readings cover less than half of the phase.
    """
    covered = sums.covered_s * 1e9 / sums.length_ns if sums.length_ns else 0.0
    return round(sums.energy_j) if covered >= LEAST_COVERED else None
