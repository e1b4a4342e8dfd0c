"""Estimates the events that the CPU counts in each operator, if the profiler does not say when operators ran.

The events of a profiled inference can then not be divided among operators. But each reading of a counter covers a
different mixture of operators. This is the method of `edgetop.analysis.operator_energy`, with the number of events in
place of the energy.
"""

from collections.abc import Mapping, Sequence

from edgetop.analysis.event_counts import EVENTS
from edgetop.analysis.operator_counts import OperatorEvents
from edgetop.analysis.operator_energy import PhasePower
from edgetop.analysis.operator_shares import Interval, Key, OperatorView, key_of
from edgetop.formatting import rounded
from edgetop.session.batch import Batch

COUNTED = ("cycles", "instructions", "cache-misses", "branch-misses")
# In `PhasePower` a reading in W and a time in ns make mJ. A reading in events per second makes a thousandth of it.
PER_MJ = 1e-3


class PhaseCounts:
    """Estimates the events of each operator in an inference, from the readings of the CPU's counters."""

    def __init__(self) -> None:
        self._by_event = {event: PhasePower(f"rate/{event}") for event in COUNTED}

    def fold(self, batch: Batch) -> None:
        for phases in self._by_event.values():
            phases.fold(batch)

    def view(self, operators: Sequence[OperatorView]) -> Mapping[Key, OperatorEvents]:
        """Return the estimated events of operators, as a dict by `(name, type, provider)`.

        Operators that cannot be told apart from their neighbours are left out. `operators`: all operators in the order
        in which they run.
        """
        means: dict[int, dict[str, float]] = {}
        limits: dict[int, dict[str, Interval]] = {}
        for event, phases in self._by_event.items():
            for group in phases.view(operators).groups:
                if group.first == group.last:
                    low, high = group.ci95_mj
                    means.setdefault(group.first, {})[EVENTS[event]] = _figure(group.energy_mj)
                    limits.setdefault(group.first, {})[EVENTS[event]] = (_figure(max(low, 0.0)), _figure(high))
        found = {}
        for place, figures in means.items():
            cycles, instructions = figures.get("cycles"), figures.get("instructions")
            ipc = rounded(instructions / cycles) if cycles and instructions is not None else None
            events = OperatorEvents(ipc=ipc, ci95=limits[place], by="regression", **figures)
            found[key_of(operators[place])] = events
        return found


def _figure(value: float) -> float:
    return rounded(value * PER_MJ) or 0.0
