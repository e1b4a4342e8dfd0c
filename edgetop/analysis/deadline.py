"""The deadline that was declared: how often it was missed, and what is left of it."""

from dataclasses import dataclass

from edgetop.analysis.statistics import Statistics
from edgetop.session.manifest import Load

# From here on misses are what the session is about; rarer ones stand in the latency pane.
WORTH_TELLING = 1e-4


@dataclass(frozen=True, slots=True)
class DeadlineView:
    deadline_ns: int
    misses: int
    count: int  # of inferences
    longest_run: int  # of successive misses, in the order of starts
    headroom_ns: float  # what p99 leaves for capture and pre- and post-processing; negative: nothing
    max_rate_hz: float | None  # of one stream: the highest whose period covers the p99 of service time
    since_ns: int | None = None  # when the misses that go on began; None: they do not

    @property
    def miss_rate(self) -> float:
        return self.misses / self.count

    @property
    def is_missed(self) -> bool:
        return self.miss_rate >= WORTH_TELLING


def view_deadline(
    load: Load, service: Statistics | None, response: Statistics | None, since_ns: int | None = None
) -> DeadlineView | None:
    """None without a deadline, or where nothing was measured. Response times count where the load has them."""
    if load.deadline_ns is None or service is None or service.misses is None:
        return None
    p99_ns = service.percentile_ns(0.99)
    felt_ns = p99_ns if response is None else response.percentile_ns(0.99)
    return DeadlineView(
        deadline_ns=load.deadline_ns,
        misses=service.misses,
        count=service.count,
        longest_run=service.longest_miss_run or 0,
        headroom_ns=load.deadline_ns - felt_ns,
        max_rate_hz=1e9 / p99_ns if p99_ns else None,
        since_ns=since_ns,
    )
