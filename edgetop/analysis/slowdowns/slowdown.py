"""A slowdown, all slowdowns of a session, and their events.

The events are derived, not recorded: each analysis of the recording derives them again.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.slowdowns.baseline import Baseline
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.signals import LIMITS, Cause
from edgetop.frozen import frozen
from edgetop.session.event_kinds import Remark, SlowdownBegan

MAX_SLOWDOWNS = 500  # the latest
# At this scatter ten windows of the least slowdown differ from fifty before with less than the certainty of a slowdown.
TOO_SCATTERED = 0.04

Then = Literal["", "slower", "faster"]

Rows = npt.NDArray[np.void]


@frozen
class Slowdown:
    start_ns: int
    end_ns: int | None  # None: it continues
    cause: Cause
    latency_ratio: float | None  # to the burst baseline; None: there is none
    confidence: float  # in the cause, 0 to 1
    evidence: tuple[Clue, ...]
    from_start: bool = False  # limited when the measurement began
    then: Then = ""  # what followed, if not full speed
    streams: tuple[str, ...] = ()  # in a session with several, those that slowed, the one that slowed most first


@frozen
class SlowdownsView:
    burst: Baseline | None  # None: not known yet, or limited from the start
    burst_rows: Rows  # the seconds that it was made of
    is_settled: bool  # the burst is complete, and slowdowns are detected
    slowdowns: tuple[Slowdown, ...]  # the latest MAX_SLOWDOWNS, oldest first; those from the start come first
    total: int
    contended_now: Clue | None = None  # who or what takes the CPU that the engine would use; None: nothing
    scatter: float | None = None  # standard deviation of independent windows, in nepers; None: no burst yet

    @property
    def now(self) -> Slowdown | None:
        """Return the slowdown that continues; of two, the later one. None: there is none."""
        return next((slowdown for slowdown in reversed(self.slowdowns) if slowdown.end_ns is None), None)

    @property
    def is_too_scattered(self) -> bool:
        """Whether the latency scatters so much that half a minute cannot show a rise by SLOWER_SHARE."""
        return self.scatter is not None and self.scatter > TOO_SCATTERED


def is_throttling(slowdown: Slowdown) -> bool:
    """Whether the board slows itself, by the cause of the slowdown."""
    return slowdown.cause in LIMITS or (slowdown.from_start and slowdown.cause != "contention")


def slowdown_events(view: SlowdownsView) -> Iterator[DerivedEvent]:
    """Yield an event for each beginning and end, the newest first."""
    for slowdown in reversed(view.slowdowns):
        if slowdown.end_ns is not None:
            yield DerivedEvent(slowdown.end_ns, Remark("slowdown-ended"), "info", about=slowdown)
        yield DerivedEvent(slowdown.start_ns, SlowdownBegan(slowdown.cause), "warning", about=slowdown)
