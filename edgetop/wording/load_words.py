"""How inferences arrive, their deadline, and why the deadline is missed, in words."""

from edgetop import formatting
from edgetop.analysis.deadline import TOO_SLOW, MissCause
from edgetop.analysis.late_starts import TIMER_NS, LateStarts
from edgetop.session.load_settings import Load
from edgetop.wording.tail_words import TAIL_CAUSES, tail_words


def late_words(cause: MissCause) -> str:
    """Return why deadlines are missed, as a sentence for the log and the report.

    >>> late_words(MissCause(TOO_SLOW, 38.2e6, 33e6, 38e6))
    'the model needs 38.2 ms and has 33 ms: too slow, at full speed too'
    >>> late_words(MissCause("slow", 38.2e6, 33e6, 28e6))
    'the model needs 38.2 ms and has 33 ms: too slow now, at full speed it needs 28 ms'
    >>> late_words(MissCause("slow", 38.2e6, 33e6))
    'the model needs 38.2 ms and has 33 ms'
    >>> late_words(MissCause("waiting", 10e6, 33e6, is_random=True))
    'p50 of 10 ms fits, but calls start late: they wait for earlier ones, as arrivals come at random'
    >>> late_words(MissCause("unknown", 10e6, 33e6))
    'p50 of 10 ms fits, but some calls take longer, cause unknown'
    >>> starts = LateStarts(0.0, 24e6, 310.0, run_queue_ms=280.0)
    >>> late_words(MissCause("scheduling", 10e6, 33e6, starts_late=True, starts=starts))
    'p50 of 10 ms fits, but calls start 24 ms late while none is running: they wait for a CPU (run-queue wait 280 ms/s)'
    >>> late_words(MissCause("unknown", 10e6, 33e6, starts_late=True))
    'p50 of 10 ms fits, but calls start late, cause unknown: a queue cannot be proven'
    """
    needs, fits = _ms(cause.p50_ns), f"p50 of {_ms(cause.p50_ns)} ms fits, but"
    match cause.name:
        case "too slow":
            return f"the model needs {needs} ms and has {_ms(cause.budget_ns)} ms: too slow, at full speed too"
        case "slow":
            full_ns = cause.full_speed_ns
            now = "" if full_ns is None else f": too slow now, at full speed it needs {_ms(full_ns)} ms"
            return f"the model needs {needs} ms and has {_ms(cause.budget_ns)} ms{now}"
        case "waiting":
            at_random = ", as arrivals come at random" if cause.is_random else ""
            return f"{fits} calls start late: they wait for earlier ones{at_random}"
        case _ if cause.starts_late:
            return f"{fits} {_late_start_words(cause.name, cause.starts)}"
        case "unknown" if len(cause.parts) < 2:
            return f"{fits} some calls take longer, cause unknown"
        case _:
            return f"{fits} some calls take longer: {tail_words(cause.parts)}"


def _late_start_words(cause: str, starts: LateStarts | None) -> str:
    if starts is None:
        return "calls start late, cause unknown: a queue cannot be proven"
    late = f"calls start {_ms(starts.wait_ns)} ms late while none is running"
    if cause == "cpu-quota":
        return f"{late}: its CPU quota is used up"
    if cause != "scheduling":
        return f"{late}, cause unknown"
    if starts.wait_ns <= TIMER_NS:
        return f"{late}: its timer is slow"
    waited = f"CPU pressure {starts.pressure_pct or 0.0:.0f} %"
    if starts.run_queue_ms is not None:
        waited = f"run-queue wait {starts.run_queue_ms:.0f} ms/s"
    return f"{late}: they wait for a CPU ({waited})"


def late_in_brief(cause: MissCause) -> str:
    """Return why deadlines are missed, in a few words for the first line of a screen.

    >>> late_in_brief(MissCause(TOO_SLOW, 38.2e6, 33e6, 38e6)), late_in_brief(MissCause("waiting", 10e6, 33e6))
    ('needs 38.2 of 33 ms', 'calls wait for earlier ones')
    """
    if cause.name in (TOO_SLOW, "slow"):
        return f"needs {_ms(cause.p50_ns)} of {_ms(cause.budget_ns)} ms"
    if cause.name == "waiting":
        return "calls wait for earlier ones"
    if cause.name == "scheduling":
        return "calls wake up late"
    if cause.starts_late:
        return "calls start late: CPU quota used up" if cause.name == "cpu-quota" else "calls start late, cause unknown"
    if cause.name == "unknown":
        return "some calls slow, cause unknown"
    who = cause.parts[0].who[0][0] if cause.parts[0].who else "another process"
    return f"slow calls: {TAIL_CAUSES[cause.name][1].format(who=who)}"


def _ms(ns: float) -> str:
    return f"{ns / 1e6:.3g}" if ns < 999.5e6 else f"{ns / 1e6:.0f}"


def load_words(load: Load) -> str:
    """Return how inferences arrive, in words. Return "" for the usual way: back to back, one at a time.

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
        words.append(f"{asked_rate(load.rate_hz)} Hz {how}{each}")
    elif load.delay_ns:
        words.append(f"{formatting.span(load.delay_ns)} after each inference{each}")
    elif each:
        words.append(f"back to back{each}")
    if load.duty_on_ns and load.duty_off_ns:
        words.append(f"{formatting.span(load.duty_on_ns)} on and {formatting.span(load.duty_off_ns)} off")
    return ", ".join(words)


def headroom_words(headroom_ms: float) -> str:
    """Return how far p99 is below or above the deadline. `headroom_ms` is the deadline minus p99, in ms.

    >>> headroom_words(8.1), headroom_words(-2)
    ('p99 leaves 8.100 ms', 'p99 exceeds it by 2.000 ms')
    """
    ms = formatting.milliseconds(abs(headroom_ms) * 1e6)
    return f"p99 leaves {ms} ms" if headroom_ms >= 0 else f"p99 exceeds it by {ms} ms"


def max_rate_words(max_rate_hz: float) -> str:
    """Return the highest rate that the engine can serve, in words.

    >>> max_rate_words(41.23)
    'fits up to 41.2 Hz'
    """
    return f"fits up to {formatting.rate(max_rate_hz)} Hz"


def asked_rate(asked_hz: float) -> str:
    """Return the requested rate as text.

    >>> asked_rate(30.0), asked_rate(0.1), asked_rate(33.333333), asked_rate(100_000.0)
    ('30', '0.1', '33.33', '100 k')
    """
    return f"{asked_hz:.4g}" if asked_hz < 9_999.5 else formatting.count(asked_hz)


def overload_words(asked_hz: float, done_hz: float) -> str:
    """Return the requested rate and the achieved rate in words.

    >>> overload_words(30.0, 24.07)
    '30 Hz asked, 24.1 Hz done'
    """
    return f"{asked_rate(asked_hz)} Hz asked, {formatting.rate(done_hz)} Hz done"


_UNSEEN = {
    "hidepid": "processes of other users are hidden here: /proc has the option hidepid",
    "container": "processes outside this container cannot be seen",
}


def unseen_words(why: str | None) -> str:
    """Return why some other processes cannot be seen, or "" if all processes can be seen.

    `why` is the code in `Methodology.background_unseen`, or None.

    >>> unseen_words("container")
    'processes outside this container cannot be seen'
    """
    return "" if why is None else _UNSEEN.get(why, "not all processes can be seen")
