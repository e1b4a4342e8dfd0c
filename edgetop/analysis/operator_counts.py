"""The events that the CPU and the kernel counted in each operator: cycles, instructions, cache misses, page faults.

The counts are from profiled inferences, in which the time of every n-th event was noted. For page faults, n is 1 and
the count is exact. For other events, the count is an estimate. Its interval has two parts: the number of noted events
varies by chance, and some profilers tell only roughly when operators began.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from edgetop.analysis.event_counts import EVENTS, EventFigures
from edgetop.analysis.operator_bounds import bound
from edgetop.analysis.operator_shares import Interval, Key
from edgetop.formatting import rounded
from edgetop.frozen import frozen
from edgetop.session.ceilings import Ceilings
from edgetop.session.operators import EventCounts, OperatorInfo

NORMAL_95 = 1.96  # Half width of a 95 % interval, in standard deviations.
MOST_OPERATORS = 20_000  # Limit of operators with counts: a runtime may invent any number of names.
CACHE_MISSES = "cache-misses"


@frozen
class OperatorEvents:
    """The events of one operator in one inference. The field names are keys of the report's JSON document.

    A field is None if the event was not counted.
    """

    cycles: float | None = None
    instructions: float | None = None
    ipc: float | None = None  # Instructions divided by cycles.
    cache_misses: float | None = None
    branch_misses: float | None = None
    page_faults: float | None = None
    bytes: float | None = None  # Fetched by cache misses, at least.
    ci95: Mapping[str, Interval] | None = None  # By key.
    by: str = "notes"  # Or "regression": estimated from the readings of the counters of whole inferences.

    @property
    def bytes_ci95(self) -> Interval | None:
        return (self.ci95 or {}).get("bytes")


class OperatorCounts:
    """Adds up the events of each operator over profiling rounds."""

    def __init__(self) -> None:
        self._runs: dict[str, int] = {}  # By event.
        self._every: dict[str, int] = {}  # By event: the largest number of events for which one note stood.
        self._sums: dict[Key, dict[str, list[int]]] = {}  # By operator and event: events, at least, at most.

    def add(self, infos: tuple[OperatorInfo, ...], counts: tuple[EventCounts, ...]) -> None:
        """Add a profiling round. `infos`: its operators in run order. `counts`: the events counted in them."""
        for of in counts:
            if not of.every or not of.runs or of.event not in EVENTS:
                continue
            self._runs[of.event] = self._runs.get(of.event, 0) + of.runs
            self._every[of.event] = max(of.every, self._every.get(of.event, 0))
            for place, *numbers in of.rows:
                if place < len(infos):
                    info = infos[place]
                    key = info.name, info.op_type, info.provider
                    if key in self._sums or len(self._sums) < MOST_OPERATORS:
                        sums = self._sums.setdefault(key, {}).setdefault(of.event, [0, 0, 0])
                        sums[:] = [old + new for old, new in zip(sums, numbers, strict=True)]

    @property
    def events(self) -> Mapping[str, int]:
        """Return n for each counted kind of event, by name: the profiler noted every n-th event of this kind."""
        return self._every

    def of(self, key: Key) -> OperatorEvents | None:
        """Return the mean events per inference of one operator, or None if nothing was counted in this session.

        `key` is the operator's name, type and provider. The byte counts are unset: `with_bytes` sets them.
        """
        if not self._runs:
            return None
        means: dict[str, float] = {}
        limits: dict[str, Interval] = {}
        for event, runs in self._runs.items():
            events, least, most = self._sums.get(key, {}).get(event, (0, 0, 0))
            every, name = self._every[event], EVENTS[event]
            # Notes come by chance, as in counts of rare events; a note of every event is no estimate.
            half = 0.0 if every == 1 else NORMAL_95 * every * math.sqrt(max(events / every, 1))
            means[name] = _figure(events / runs)
            limits[name] = (_figure(max(0.0, least - half) / runs), _figure((most + half) / runs))
        cycles, instructions = means.get("cycles"), means.get("instructions")
        ipc = _figure(instructions / cycles) if cycles and instructions is not None else None
        return OperatorEvents(ipc=ipc, ci95=limits, **means)  # type: ignore[arg-type]  # no text among its keys


def with_bytes(events: OperatorEvents | None, line_bytes: float | None) -> OperatorEvents | None:
    """Return `events` with the bytes that the cache misses fetched from memory.

    `line_bytes`: the bytes that one cache miss fetches; None if unknown. The bytes are then unknown, too.
    """
    misses = EVENTS[CACHE_MISSES]
    if events is None or not line_bytes or events.cache_misses is None or events.ci95 is None:
        return events
    low, high = events.ci95[misses]
    fetched = (_figure(low * line_bytes), _figure(high * line_bytes))
    return replace(events, bytes=_figure(events.cache_misses * line_bytes), ci95={**events.ci95, "bytes": fetched})


def line_bytes_of(figures: EventFigures | None) -> float | None:
    """Return the bytes that one cache miss fetches from memory, or None if unknown.

    The bytes are computed from the events that were counted in whole inferences.
    """
    return figures.bytes / figures.cache_misses if figures and figures.bytes and figures.cache_misses else None


@frozen
class Bound:
    """What limits the speed of an operator, and which bytes show this: counted bytes or those of the model's file."""

    what: str | None  # As `operator_bounds.bound` returns it.
    by: str | None  # "counted" or "file"; None if `what` is unknown.


def bound_of(
    flops: int | None, moved: int | None, events: OperatorEvents | None, calls: float, ns: float | None,
    ceilings: Ceilings | None,
) -> Bound:  # fmt: skip
    """Return what limits a call of an operator, and which bytes show it: counted bytes or those of the model's file.

    Counted bytes are used if both ends of their interval give the same limit. Otherwise, the bytes of the model's file
    are used. `flops`: the FLOPs of a call. `moved`: the bytes that a call moves according to the model's file.
    `events`: what was counted in an inference. `calls`: calls per inference. `ns`: the time of a call in ns.
    `ceilings`: the highest rates of the board. An unknown argument is None.
    """
    interval = events.bytes_ci95 if events else None
    if interval is not None and calls:
        low, high = (bound(flops, round(end / calls), ns, ceilings) for end in interval)
        if low == high and low is not None:
            return Bound(low, "counted")
    what = bound(flops, moved, ns, ceilings)
    return Bound(what, None if what is None else "file")


def _figure(value: float) -> float:
    return rounded(value) or 0.0
