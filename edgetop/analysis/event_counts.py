"""What the CPU and the kernel counted during an inference: cycles, instructions, cache misses, migrations.

Each reading is the mean number of events per second since the previous reading. So the sum over the measured phase
contains every event.
"""

from dataclasses import field

from edgetop.analysis.rail_energy import Integral, SensorIntegrals
from edgetop.analysis.tracks import MissingSensor
from edgetop.formatting import rounded
from edgetop.frozen import OMIT, frozen
from edgetop.session.batch import Batch
from edgetop.session.manifest import SensorInfo
from edgetop.session.seconds import NS

# Figures by the label of their sensor, and how the document calls them.
EVENTS = {
    "cycles": "cycles", "instructions": "instructions", "cache-misses": "cache_misses",
    "branch-misses": "branch_misses", "context-switches": "context_switches", "migrations": "migrations",
    "page-faults": "page_faults", "missed-bytes": "bytes", "cache-references": "cache_references",
    "stalled-cycles": "stalled_cycles", "bus-accesses": "bus_accesses",
}  # fmt: skip
RAN_MS = "task-clock"
_SENSORS = frozenset(f"rate/{label}" for label in (*EVENTS, RAN_MS))
# What is counted is told of as missing under these names (edgetop.sensors.engine_counters).
RARE_DIGITS = 6  # decimals of a number of events in an inference: one migration in a long run is no zero
_MISSING = ("counters", "CPU counters")
# Share of the measured phase that readings must cover. Choice. Larger: short sessions have no counts; smaller: counts
# are extrapolated from a few readings.
LEAST_COVERED = 0.5


@frozen
class EventFigures:
    """The mean number of events of each kind, such as cycles, that the CPU and the kernel counted in an inference.

    A field is None if the event was not counted, or was counted in less than half of the measured phase. The field
    names are keys of the report's JSON document.
    """

    cycles: float | None = None
    instructions: float | None = None
    ipc: float | None = None  # Instructions divided by cycles.
    cache_misses: float | None = None
    branch_misses: float | None = None
    context_switches: float | None = None
    migrations: float | None = None
    page_faults: float | None = None
    bytes: float | None = None  # Fetched by cache misses, at least.
    clock_mhz: float | None = None  # Cycles divided by the time on a CPU.
    cache_references: float | None = field(default=None, metadata=OMIT)
    stalled_cycles: float | None = field(default=None, metadata=OMIT)
    bus_accesses: float | None = field(default=None, metadata=OMIT)
    # What limits the whole model, from the bytes that were counted; None if the ceilings or the FLOPs are unknown.
    bound: str | None = field(default=None, metadata=OMIT)
    why: tuple[str, ...] = ()  # Why events were not counted, as recorded.


class EventCounts:
    """Adds up the events that the CPU and the kernel counted for the engine's threads over the measured phase."""

    def __init__(self) -> None:
        self._integrals = SensorIntegrals(_averages)

    def began(self, t_ns: int) -> None:
        self._integrals.began(t_ns)

    def fold(self, batch: Batch) -> None:
        self._integrals.fold(batch)

    def figures(
        self, until_ns: int, measured_ns: int | None, inferences: int, missing: tuple[MissingSensor, ...]
    ) -> EventFigures | None:
        """Return how many events of each kind an inference caused on average, or None if the session has no counters.

        `until_ns`: the session time in ns at which the measured phase ends, or now. `measured_ns`: the length of the
        measured phase in ns. `inferences`: the number of inferences in the phase. `missing`: the sensors that could not
        be read, each with the reason.
        """
        why = tuple(one.why for one in missing if one.what.startswith(_MISSING))
        rates = {label: _rate(self._of(label, until_ns)) for label in (*EVENTS, RAN_MS)}
        if not why and all(rate is None for rate in rates.values()):
            return None
        seconds = (measured_ns or 0) / NS
        of_one = {
            name: None
            if (rate := rates[label]) is None or not inferences
            else rounded(rate * seconds / inferences, RARE_DIGITS)
            for label, name in EVENTS.items()
        }
        cycles, instructions, ran_ms = rates["cycles"], rates["instructions"], rates[RAN_MS]
        return EventFigures(
            **of_one,
            ipc=rounded(instructions / cycles) if cycles and instructions is not None else None,
            clock_mhz=rounded(cycles / ran_ms / 1e3) if cycles and ran_ms else None,
            bound=None,
            why=why,
        )

    def _of(self, label: str, until_ns: int) -> Integral | None:
        """Return the integral of the counter for the event `label`, such as "cycles", or None without such a counter.

        `until_ns`: the session time in ns at which the integral ends.
        """
        integrals = self._integrals.by_id.get(f"rate/{label}")
        return integrals[0].until(until_ns) if integrals else None


def _averages(info: SensorInfo) -> bool | None:
    return True if info.id in _SENSORS else None


def _rate(sums: Integral | None) -> float | None:
    """Return the mean number of events per second, or None if readings cover less than half of the measured phase."""
    if sums is None:
        return None
    covered = sums.covered_s * NS / sums.length_ns if sums.length_ns else 0.0
    return sums.mean_w if covered >= LEAST_COVERED else None
