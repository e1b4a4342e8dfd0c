"""The load and its declared deadline: how often it was missed, why, and the headroom; the same words everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgetop import formatting
from edgetop.analysis.slowdowns.tail import CAUSES, SlowInference, tail_parts, tail_words
from edgetop.analysis.statistics import Statistics
from edgetop.session.manifest import Load

WORTH_REPORTING = 1e-4  # of inferences: rarer misses are shown in the latency pane alone
TOO_SLOW = "too slow"


@dataclass(frozen=True, slots=True)
class MissCause:
    name: str  # TOO_SLOW at full speed, "slow" now, "waiting", "unknown", or one of the causes of slow inferences
    brief: str  # for the first line of a screen
    words: str  # for the log and the report


@dataclass(frozen=True, slots=True)
class Late:
    """The inferences of a time in which the deadline was missed."""

    p50_ns: float  # of service time
    misses: int
    slow: int  # how many took longer than the deadline by themselves; the others waited
    tail: Sequence[SlowInference]  # the slowest of each second


@dataclass(frozen=True, slots=True)
class DeadlineView:
    deadline_ns: int
    misses: int
    count: int  # of inferences
    longest_run: int  # of successive misses, in the order of starts
    headroom_ns: float  # the time between p99 and the deadline, for pre- and post-processing; negative: none
    max_rate_hz: float | None  # of one stream: the highest whose period covers the p99 of service time
    since_ns: int | None = None  # when the present misses began; None: there are none
    cause: MissCause | None = None  # of the present misses, or of all of them; None: there are hardly any

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
    """Return the misses of the deadline, by response times if the load has them. None: no deadline or no data."""
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
    """The cause if an inference alone takes longer than it may; `full_speed_ns`: p50 of the burst, None: not known.

    >>> too_slow(38.2e6, 33e6, 38e6).words
    'the model needs 38.2 ms and has 33 ms: too slow, at full speed too'
    >>> too_slow(38.2e6, 33e6, 28e6).words
    'the model needs 38.2 ms and has 33 ms: too slow now, at full speed it needs 28 ms'
    """
    if p50_ns <= budget_ns:
        return None
    needs, has = _ms(p50_ns), _ms(budget_ns)
    words, is_always = f"the model needs {needs} ms and has {has} ms", (full_speed_ns or 0.0) > budget_ns
    if is_always:
        words += ": too slow, at full speed too"
    elif full_speed_ns is not None:
        words += f": too slow now, at full speed it needs {_ms(full_speed_ns)} ms"
    return MissCause(TOO_SLOW if is_always else "slow", f"needs {needs} of {has} ms", words)


def why_late(late: Late, deadline_ns: int, full_speed_ns: float | None, *, at_random: bool) -> MissCause:
    """Return the cause of the misses; "unknown" without evidence of a cause."""
    slow = too_slow(late.p50_ns, deadline_ns, full_speed_ns)
    if slow:
        return slow
    fits = f"p50 of {_ms(late.p50_ns)} ms fits, but"
    if late.slow * 2 < late.misses:
        words = f"{fits} calls start late: they wait for earlier ones{', as arrivals come at random' * at_random}"
        return MissCause("waiting", "calls wait for earlier ones", words)
    parts = tail_parts([one for one in late.tail if one.latency_ns > deadline_ns])
    if not parts or parts[0].cause == "unexplained":
        return MissCause("unknown", "some calls slow, cause unknown", f"{fits} some calls take longer, cause unknown")
    who = parts[0].who[0][0] if parts[0].who else ""
    brief = CAUSES[parts[0].cause][1].format(who=who or "another process")
    return MissCause(parts[0].cause, f"slow calls: {brief}", f"{fits} some calls take longer: {tail_words(parts)}")


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3g}"


def load_words(load: Load) -> str:
    """Describe the arrival of inferences; "" where they come back to back, one at a time.

    >>> load_words(Load(mode="poisson", rate_hz=30.0, streams=2, duty_on_ns=2 * 10**9, duty_off_ns=8 * 10**9))
    '30 Hz at random in each of 2 streams, 2s on and 8s off'
    >>> load_words(Load(mode="replayed", rate_hz=28.4))
    '28.4 Hz as in another session'
    >>> load_words(Load(delay_ns=5 * 10**8))
    '500ms after each inference'
    """
    words = []
    each = f" in each of {load.streams} streams" if load.streams > 1 else ""
    if load.rate_hz is not None:
        how = {"poisson": "at random", "replayed": "as in another session"}.get(load.mode, "evenly")
        words.append(f"{_hz(load.rate_hz)} Hz {how}{each}")
    elif load.delay_ns:
        words.append(f"{formatting.span(load.delay_ns)} after each inference{each}")
    elif each:
        words.append(f"back to back{each}")
    if load.duty_on_ns and load.duty_off_ns:
        words.append(f"{formatting.span(load.duty_on_ns)} on and {formatting.span(load.duty_off_ns)} off")
    return ", ".join(words)


def _hz(asked_hz: float) -> str:
    """Format the requested rate.

    >>> _hz(30.0), _hz(0.1), _hz(33.333333), _hz(100_000.0)
    ('30', '0.1', '33.33', '100 k')
    """
    return f"{asked_hz:.4g}" if asked_hz < 9_999.5 else formatting.count(asked_hz)


def overload_words(asked_hz: float, done_hz: float) -> str:
    """
    >>> overload_words(30.0, 24.07)
    '30 Hz asked, 24.1 Hz done'
    """
    return f"{_hz(asked_hz)} Hz asked, {formatting.rate(done_hz)} Hz done"


def headroom_words(headroom_ms: float) -> str:
    """Describe the time between p99 and the deadline.

    >>> headroom_words(8.1), headroom_words(-2)
    ('p99 leaves 8.100 ms', 'p99 exceeds it by 2.000 ms')
    """
    ms = formatting.milliseconds(abs(headroom_ms) * 1e6)
    return f"p99 leaves {ms} ms" if headroom_ms >= 0 else f"p99 exceeds it by {ms} ms"


def max_rate_words(max_rate_hz: float) -> str:
    """
    >>> max_rate_words(41.23)
    'fits up to 41.2 Hz'
    """
    return f"fits up to {formatting.rate(max_rate_hz)} Hz"
