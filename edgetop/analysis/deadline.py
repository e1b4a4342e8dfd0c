"""The deadline of each inference: how often inferences missed it, why, and how much time is left before it."""

from collections.abc import Sequence
from dataclasses import replace

from edgetop.analysis.late_starts import NEAR_PERIOD, LateStarts
from edgetop.analysis.miss_risk import MissRisk
from edgetop.analysis.slowdowns.slow_inferences import SlowInference, TailPart, tail_parts
from edgetop.analysis.statistics import Statistics
from edgetop.frozen import frozen
from edgetop.session.load_settings import Load

# Share of inferences that must miss the deadline to be reported outside of the latency pane. Choice: one in ten
# thousand. Larger: rare misses of a long session pass; smaller: a single miss of a night is a verdict.
WORTH_REPORTING = 1e-4
TOO_SLOW = "too slow"


@frozen
class MissCause:
    """The reason why inferences missed the deadline, or why they still ran when the next inference was due.

    Times are rounded to three digits, so that an event about the cause is repeated only when a time changes visibly.
    """

    # TOO_SLOW at full speed, "slow" now, "waiting" for earlier ones, "scheduling", "unknown", or one of the causes of
    # slow inferences.
    name: str
    p50_ns: float  # of service time
    budget_ns: float  # how long an inference may take
    full_speed_ns: float | None = None  # p50 of the burst; None: unknown
    is_random: bool = False  # whether the arrivals of the load are random
    parts: tuple[TailPart, ...] = ()  # the slow inferences by their causes, most first
    starts_late: bool = False  # most are fast enough by themselves
    starts: LateStarts | None = None  # how they start late; None: unknown
    stream: str = ""  # the name of the stream that misses most, in a session with several


@frozen
class Late:
    """The figures of the inferences in a span of time in which the deadline was missed."""

    p50_ns: float  # of service time
    misses: int
    slow: int  # how many took longer than the deadline by themselves; the others waited
    tail: Sequence[SlowInference]  # the slowest of each second
    mean_ns: float = 0.0  # of service time; 0: unknown
    starts: LateStarts | None = None  # None: unknown


@frozen
class DeadlineView:
    deadline_ns: int
    misses: int
    count: int  # of inferences
    longest_run: int  # of successive misses, in the order of starts
    headroom_ns: float  # the time between p99 and the deadline, for pre- and post-processing; negative: none
    max_rate_hz: float | None  # of one stream: the highest whose period covers the p99 of service time
    since_ns: int | None = None  # when the present misses began; None: there are none
    cause: MissCause | None = None  # of the present misses, or of all of them; None: there are hardly any
    risk: MissRisk | None = None  # of a miss of one stream, in a report; None: not computed

    @property
    def ms(self) -> float:
        return round(self.deadline_ns / 1e6, 6)

    @property
    def miss_rate(self) -> float:
        return round(self.misses / self.count, 9)

    @property
    def is_missed(self) -> bool:
        return self.misses >= WORTH_REPORTING * self.count  # the rate is rounded


def view_deadline(
    load: Load,
    service: Statistics | None,
    response: Statistics | None,
    since_ns: int | None = None,
    cause: MissCause | None = None,
) -> DeadlineView | None:
    """Return how often the deadline was missed, and the headroom. The result is None without a deadline or inferences.

    `load`: the load, which contains the deadline. `service`: the service times, with the count of misses. `response`:
    the response times; None if the load has none. The headroom is the deadline minus the p99 response time, or minus
    the p99 service time if `response` is None. `since_ns`: the session time in ns at which the present misses began;
    None if there are none now. `cause`: why the misses occur; None if unknown.
    """
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
        cause=cause,
    )


def too_slow(p50_ns: float, budget_ns: float, full_speed_ns: float | None) -> MissCause | None:
    """Return the cause of the misses if the median inference alone takes longer than the budget, or else None.

    `p50_ns`: the median service time in ns. `budget_ns`: how long an inference may take, in ns. `full_speed_ns`: the
    median at the beginning of the session, at full speed; None if it is unknown. The cause is named `too slow` if the
    median was above the budget even at full speed, and `slow` if it was not.

    >>> too_slow(38.2e6, 33e6, 38e6).name, too_slow(38.2e6, 33e6, 28e6).name
    ('too slow', 'slow')
    """
    if p50_ns <= budget_ns:
        return None
    is_always = (full_speed_ns or 0.0) > budget_ns
    name = TOO_SLOW if is_always else "slow"
    return MissCause(name, three_digits(p50_ns), three_digits(budget_ns), _known(full_speed_ns))


def why_late(late: Late, load: Load, full_speed_ns: float | None) -> MissCause:
    """Return why inferences missed the deadline of the load.

    The name of the cause is "unknown" if no cause explains at least half of the slow inferences.

    `late`: the figures of the time with misses. `full_speed_ns`: the median service time at the beginning of the
    session, in ns; None if it is unknown.
    """
    deadline_ns = load.deadline_ns or 0
    if slow := too_slow(late.p50_ns, deadline_ns, full_speed_ns):
        return slow
    p50_ns, budget_ns = three_digits(late.p50_ns), three_digits(deadline_ns)
    known = MissCause("unknown", p50_ns, budget_ns, _known(full_speed_ns), load.is_random)
    if load.is_paced and late.slow * 2 < late.misses:  # no inference waits under a closed load
        return replace(known, name=_why_started_late(late, load), starts_late=True, starts=late.starts)
    parts = tail_parts([one for one in late.tail if one.latency_ns > deadline_ns])
    explains = bool(parts) and parts[0].cause != "unexplained" and parts[0].count * 2 >= sum(one.count for one in parts)
    name = parts[0].cause if explains else "unknown"
    return replace(known, name=name, parts=parts)


def _why_started_late(late: Late, load: Load) -> str:
    """Return why inferences started late: "waiting", "cpu-quota", "scheduling", or "unknown".

    How late they started is known only for a load at a fixed rate. For any other load, the result is "waiting" if the
    engine is nearly always busy, and "unknown" if not. `late`: the figures of the time with misses.
    """
    if late.starts is not None:
        return late.starts.cause()
    service_ns = max(late.p50_ns, late.mean_ns)
    return "waiting" if load.rate_hz and service_ns >= NEAR_PERIOD * 1e9 / load.rate_hz else "unknown"


def _known(ns: float | None) -> float | None:
    return None if ns is None else three_digits(ns)


def three_digits(value: float) -> float:
    """Return the value, rounded to three significant digits.

    >>> three_digits(38_043_266.9), three_digits(24.41)
    (38000000.0, 24.4)
    """
    return float(f"{value:.3g}")
