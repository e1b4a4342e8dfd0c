"""A slowdown, the list of all slowdowns of a session, and the events made from it.

The events are not recorded. They are computed again whenever the recording is analysed.
"""

from collections.abc import Iterator
from dataclasses import field
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgetop.analysis.derived_event import DerivedEvent
from edgetop.analysis.slowdowns.baseline import Baseline
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.refusal import Refusal
from edgetop.analysis.slowdowns.signals import LIMITS, Cause
from edgetop.frozen import frozen
from edgetop.session.event_kinds import Remark, SlowdownBegan
from edgetop.session.seconds import NO_SECONDS

MAX_SLOWDOWNS = 500  # The latest are stored.
# Scatter, in nepers, from which the latency is too noisy to be called steady. Computed: ten windows of the smallest
# slowdown after fifty windows are then not certain enough to be one. Larger: "steady" is said of what cannot be
# known; smaller: models that scatter are never steady.
TOO_SCATTERED = 0.04

Then = Literal["", "slower", "faster"]

Rows = npt.NDArray[np.void]


@frozen
class Slowdown:
    start_ns: int
    end_ns: int | None  # None while it continues.
    cause: Cause
    # Compared with the burst, of the median latency or, where the process was stopped, the mean. None without a burst.
    latency_ratio: float | None
    confidence: float  # Confidence in the cause, from 0 to 1.
    evidence: tuple[Clue, ...]
    from_start: bool = False  # Whether the board was limited when the measurement began.
    then: Then = ""  # What followed; "" means full speed.
    considered: tuple[Refusal, ...] = ()  # The other causes and why each was refused; () if limited from the start.
    # In a session with several streams: those that slowed, the one that slowed most first.
    streams: tuple[str, ...] = ()


@frozen
class SlowdownsView:
    burst: Baseline | None  # None if not known yet, or if the board was limited from the start.
    burst_rows: Rows  # The seconds that the burst consists of.
    is_settled: bool  # Whether the burst is complete, so that slowdowns are detected.
    slowdowns: tuple[Slowdown, ...]  # The latest MAX_SLOWDOWNS, oldest first. Slowdowns from the start come first.
    total: int
    contended_now: Clue | None = None  # What takes the CPU that the engine needs now; None if nothing does.
    scatter: float | None = None  # Standard deviation of independent windows, in nepers; None before the burst.
    # By which ratio inputs that are larger than in the burst explain the latency now. This is no slowdown.
    size_ratio: float = 1.0
    burst_size: float | None = None  # Mean number of elements in the inputs of the burst; None if unknown.
    # The last seconds at equal size of the inputs; empty if all inputs have one size, or if sizes are unknown.
    equal_rows: Rows = field(default_factory=lambda: NO_SECONDS.rows)
    # By which ratio stops of the process, by its CPU quota or other load, raised the mean latency of the last 10 s.
    stop_ratio: float = 1.0

    @property
    def now(self) -> Slowdown | None:
        """Return the slowdown that continues, or None. Of several, return the slowdown that began last."""
        return next((slowdown for slowdown in reversed(self.slowdowns) if slowdown.end_ns is None), None)

    @property
    def is_too_scattered(self) -> bool:
        """Whether the latency scatters so much that a slowdown of 8 % cannot be found within half a minute."""
        return self.scatter is not None and self.scatter > TOO_SCATTERED


def is_throttling(slowdown: Slowdown) -> bool:
    """Whether the board slowed itself: because of heat, power or voltage, or by a limit from the start."""
    return slowdown.cause in LIMITS or (slowdown.from_start and slowdown.cause != "contention")


def slowdown_events(view: SlowdownsView) -> Iterator[DerivedEvent]:
    """Yield an event for each beginning and each end of a slowdown, the newest slowdown first.

    The end of a slowdown comes before its beginning.
    """
    for slowdown in reversed(view.slowdowns):
        if slowdown.end_ns is not None:
            yield DerivedEvent(slowdown.end_ns, Remark("slowdown-ended"), "info", about=slowdown)
        yield DerivedEvent(slowdown.start_ns, SlowdownBegan(slowdown.cause), "warning", about=slowdown)
