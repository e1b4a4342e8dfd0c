"""The verdict on a session in words: the present state in capitals, its reasons, and past problems."""

from collections.abc import Mapping

from edgetop import formatting
from edgetop.analysis import verdict_reasons as why
from edgetop.analysis.verdict import GATE_ENDED, ROTATED
from edgetop.analysis.verdict_data import Verdict
from edgetop.analysis.verdict_reasons import State
from edgetop.frozen import frozen
from edgetop.wording.ab_words import difference_words, turn_words
from edgetop.wording.clue_words import clue_words
from edgetop.wording.fault_words import fault_words
from edgetop.wording.gate_words import gate_words
from edgetop.wording.load_words import asked_rate, late_in_brief, late_words, overload_words
from edgetop.wording.memory_words import leak_ends, leak_rate
from edgetop.wording.slowdown_words import cause_words, streams_words

STATES: Mapping[State, str] = {
    **{state: state.value.replace("-", " ").upper() for state in State},
    State.THROTTLED_FROM_START: "THROTTLED FROM THE START",
    State.CONTENDED_FROM_START: "CONTENDED FROM THE START",
    State.GATE_EXCEEDED: "GATE",
    State.AB: "A/B",
}
ENDS: Mapping[str, str] = {
    "duration": "the duration is over",
    "runs": "all runs are done",
    "exit": "the program ended",
    "resolved": "the difference is known as well as was asked for",
    ROTATED: "the next session goes on",
    "user": "by the user",
    "signal": "by a signal",
    "writer-killed": "edgetop was killed",
    "power-loss": "the power was lost",
    "disk-full": "the disk was full",
    "engine-died": "cause unknown",
    GATE_ENDED: "a gate ended it",
}


def state_word(verdict: Verdict) -> str:
    """Return the present state of a session in capitals.

    >>> state_word(Verdict(State.MISSING_DEADLINE, "warning"))
    'MISSING DEADLINE'
    """
    return STATES[verdict.state]


def details(verdict: Verdict) -> tuple[str, ...]:
    """Return the reasons for the present state in words, such as `for 0:27`, the most important first.

    The change of p50 is left out.
    """
    return tuple(reason_words(reason) for reason in verdict.reasons)


def first(verdict: Verdict) -> str:
    """Return the present state with its reasons.

    >>> first(Verdict(State.THROTTLING, "critical", (why.LimitedBy("thermal"), why.Lasts(27 * 10**9)), p50_change=0.32))
    'THROTTLING: thermal, for 0:27, p50 +32 %'
    """
    name = "mean" if verdict.is_of_mean else "p50"
    change = () if verdict.p50_change is None else (f"{name} {formatting.signed_percent(verdict.p50_change)}",)
    said, begins = (*details(verdict), *change), _with_streams(verdict)
    return f"{begins}: {', '.join(said)}" if said else begins


def _with_streams(verdict: Verdict) -> str:
    """Return the present state, followed by the names of the models in this state if several models run.

    >>> _with_streams(Verdict(State.SLOWED, "warning", streams=("yolo.onnx", "cls.onnx")))
    'SLOWED yolo.onnx and cls.onnx'
    """
    return f"{state_word(verdict)} {streams_words(verdict.streams)}" if verdict.streams else state_word(verdict)


@frozen
class Headline:
    """The parts of the first line of a screen about a session, from the most important to the least."""

    state: str  # in capitals
    figure: str  # what proves the state; "" for nothing
    brief: str  # the figure in fewer words
    since: str  # since when the state holds; "" if it has no beginning
    causes: tuple[str, ...]
    evidence: tuple[str, ...]


def _change_words(verdict: Verdict) -> tuple[str, str]:
    """Return the change of the latency as a longer and a shorter text. Both are "" for a change of less than a percent.

    >>> _change_words(Verdict(State.SLOWED, "warning", p50_change=0.33, is_of_mean=True))
    ('mean 33 % slower', 'mean +33 %')
    """
    percent = round((verdict.p50_change or 0.0) * 100)
    if not percent:
        return "", ""
    name = "mean " if verdict.is_of_mean else ""  # p50, which stands beside it, then hardly changes
    return f"{name}{abs(percent)} % {'slower' if percent > 0 else 'faster'}", f"{name}{percent:+d} %"


_FROM_START = " FROM THE START"


def headline(verdict: Verdict, now_ns: int) -> Headline:  # noqa: C901, PLR0912  a place for each reason
    """Return the parts of the first line of a screen. `now_ns` is the present time of the session in ns.

    >>> headline(Verdict(State.LEAKING, "warning", (why.LimitedBy("thermal"), why.Lasts(9**10))), 0)
    Headline(state='LEAKING', figure='', brief='', since='for 0:03', causes=('thermal',), evidence=())
    """
    state, from_start, _ = state_word(verdict).partition(_FROM_START)
    state += " RUNNING" if verdict.state is State.AB else ""  # a comparison in progress looks like one that is over
    figure, brief = _change_words(verdict)
    since = from_start.strip().lower()
    if verdict.state is State.STEADY and verdict.since_ns is not None:
        since = f"for {formatting.stopwatch(now_ns - verdict.since_ns)}"
    causes: list[str] = []
    evidence = []
    for reason in verdict.reasons:
        match reason:
            case why.Lasts():
                since = reason_words(reason)
            case why.ClockNow() | why.TemperatureNow():
                evidence.append(reason_words(reason))
            case why.MissedNow(share):
                figure = brief = f"{formatting.fine_percent(share)}"
            case why.Overdue(ns):
                since = f"for {formatting.duration(ns)}"
                causes.append("an inference has not come back")
            case why.LeakRate(growth):
                figure = brief = leak_rate(growth)
                since = "since the start"
            case why.TakenBy(clue) if clue.kind == "process-now":
                causes.append(f"by {clue.name}")
                evidence.append(f"it takes {clue.value or 0.0:.0f} % of a core")
            case why.Queueing(asked_hz, done_hz):
                figure, brief = reason_words(reason), f"{formatting.rate(done_hz)} of {asked_rate(asked_hz)} Hz"
            case why.SlowedBy(slowdown) if slowdown.evidence and slowdown.evidence[0].kind == "process-memory":
                taker = slowdown.evidence[0]
                causes += [slowdown.cause, f"by {taker.name}"]
                evidence.append(f"it took {formatting.size((taker.usual or 0.0) * 2**20)}")
            case why.BaselineDone() | why.WarmupDone():
                figure = brief = reason_words(reason)
            case why.Raised(errors, count):
                figure = brief = f"{errors} of {formatting.quantity(count, 'inference')}"
                causes.append("raised an error")
            case why.Scatters(share):
                figure, brief = reason_words(reason), f"scatters by {formatting.whole_percent(share)}"
            case why.AwayFromBurst(change):
                figure = brief = f"p50 {formatting.signed_percent(change)}"
                causes.append("against that of the burst")
            case _:
                causes.append(reason_words(reason))
    if verdict.streams:  # after the cause, which matters more and takes fewer columns
        causes.insert(1, streams_words(verdict.streams))
    if verdict.state is State.ENGINE_DIED:
        causes.append(f"after {formatting.elapsed(now_ns)}")
    return Headline(state, figure, brief, since, tuple(causes), tuple(evidence))


def also(verdict: Verdict) -> tuple[str, ...]:
    """Return the present problems other than the state itself, each in a few words.

    For example: `LEAKING 12 MiB/h since the start`.
    """
    is_explained = verdict.state is not State.GATE_EXCEEDED
    return tuple(_in_short(other, is_explained=is_explained) for other in verdict.also)


def _in_short(verdict: Verdict, *, is_explained: bool) -> str:
    """Return the state in a few words.

    For missed deadlines, the reason follows, unless the reader knows the reason already (`is_explained`).
    """
    if verdict.state is State.MISSING_DEADLINE:
        share = next(one.share for one in verdict.reasons if isinstance(one, why.MissedNow))
        because = next((reason_words(one) for one in verdict.reasons if isinstance(one, why.LateBecause)), "")
        return f"{_with_streams(verdict)} {formatting.fine_percent(share)}" + (
            "" if is_explained or not because else f": {because}"
        )
    if verdict.state is State.LEAKING:
        return f"{state_word(verdict)} {reason_words(verdict.reasons[0])}"
    return reason_words(verdict.reasons[0]) if verdict.state is State.AB else _with_streams(verdict)


def past(verdict: Verdict) -> tuple[str, ...]:
    """Return the problems that are over, in words in the past tense, such as `was throttled 2 times (thermal)`."""
    return tuple(past_words(trouble) for trouble in verdict.past)


def words(verdict: Verdict) -> str:
    """Return everything that the verdict says, in one line: present state, other problems, and past problems.

    >>> words(Verdict(State.FINISHED, "good", (why.EndedBy("runs"),), past=(why.WasThrottled(2, ("thermal",), None),)))
    'FINISHED: all runs are done; was throttled 2 times (thermal)'
    """
    return "; ".join((first(verdict), *(f"also {what}" for what in also(verdict)), *past(verdict)))


def evidence(verdict: Verdict) -> tuple[str, ...]:
    """Return what proves the state that `now` returns, in words, the most important first.

    >>> evidence(Verdict(State.THROTTLING, "critical", (why.LimitedBy("thermal"), why.TemperatureNow(85.2, 85.0))))
    ('thermal', '85 of 85 C')
    """
    return tuple(reason_words(reason) for reason in verdict.now_because if not isinstance(reason, why.Lasts))


def now(verdict: Verdict) -> str:
    """Return the present state in capitals. For a session that is over, return the state in which it ended."""
    return STATES[verdict.now]


def brief(verdict: Verdict) -> str:
    """Return how a session went in a few words, such as `throttled 6x, 22 %`, for a list of sessions.

    Return "" while the session still runs.
    """
    if verdict.at_end is None:
        return ""
    if isinstance(verdict.gist, why.AbDifference):
        return reason_words(verdict.gist)
    if verdict.state not in (State.FINISHED, State.STOPPED):
        return state_word(verdict).lower()
    if verdict.gist is not None:
        return past_in_brief(verdict.gist)
    in_brief = {State.MEASURING: "too short to tell", State.RUNNING: "no inference"}
    return in_brief.get(verdict.at_end) or now(verdict).lower()


def reason_words(reason: why.Reason) -> str:  # noqa: C901, PLR0911, PLR0912  a sentence for each reason
    """Return one reason for the present state in words, such as `for 0:27`."""
    match reason:
        case why.Told(text):
            return text
        case why.NotSeen(message):  # the state says already that none was seen
            return message.partition(": ")[2] or message
        case why.Lasts(ns):
            return f"for {formatting.stopwatch(ns)}"
        case why.LimitedBy(cause):
            return cause
        case why.SlowedBy(slowdown):
            return cause_words(slowdown)
        case why.TakenBy(clue):
            return clue_words(clue)
        case why.ClockNow(name, mhz, best_mhz):
            best = "" if best_mhz is None else f" of {best_mhz:.0f}"
            return f"{name} {mhz:.0f}{best} MHz".lstrip()
        case why.TemperatureNow(celsius, trip_c):
            trip = "" if trip_c is None else f" of {trip_c:.0f}"
            return f"{celsius:.0f}{trip} C"
        case why.PowerNow(watts, limit_w):
            return f"limit {limit_w:g} W" if watts is None else f"{watts:.1f} of {limit_w:g} W"
        case why.LateBecause(cause=miss):
            return late_in_brief(miss)
        case why.MissedNow(share):
            return f"now {formatting.fine_percent(share)} missed"
        case why.LeakRate(growth):
            return f"{leak_rate(growth)} since the start"
        case why.MemoryFull(growth):
            return f"memory is {leak_ends(growth)}"
        case why.MemoryRose(from_mib, to_mib):
            return f"its memory rose from {formatting.size(from_mib * 2**20)} to {formatting.size(to_mib * 2**20)}"
        case why.Overdue(ns):
            return f"an inference has not come back for {formatting.duration(ns)}"
        case why.Raised(errors, count):
            return f"{errors} of {formatting.quantity(count, 'inference')} raised an error"
        case why.Queueing(asked_hz, done_hz):
            return overload_words(asked_hz, done_hz)
        case why.Scatters(share):
            return f"latency scatters by {formatting.whole_percent(share)} from second to second"
        case why.NothingRecent():
            return "nothing was measured in the last minute"
        case why.AwayFromBurst(change):
            way = "above" if change > 0 else "below"
            return f"p50 is {formatting.whole_percent(abs(change))} {way} that of the burst"
        case why.BaselineDone(done_ns, asked_ns):
            return f"{done_ns / 1e9:.0f} of {asked_ns / 1e9:.0f} s, in which nothing runs"
        case why.FirstInference():
            return "first inference"
        case why.WarmupDone(runs, asked):
            return f"{runs} of {asked}"
        case why.EndedBy(end):
            return ENDS.get(end, end)
        case why.ExitStatus(status, program):
            return f"the program ended with exit status {status}{f' ({program})' if program else ''}"
        case why.DiedOf(program, cause):
            return f"{program} was {cause}" if cause.startswith("killed ") else f"{program}: {cause}"
        case why.GatesFailed(results):
            return "; ".join(gate_words(result) for result in results)
        case why.FaultFound(fault):
            return fault_words(fault)
        case why.AbDifference(ratio, smallest):
            return difference_words(ratio, smallest)
        case why.AbTurn(turn):
            return turn_words(turn)


def past_words(trouble: why.Past, *, of_several: bool = False) -> str:  # noqa: C901, PLR0911  a sentence for each
    """Return one past problem in the past tense. `of_several`: whether several models had the problem, for the grammar.

    >>> past_words(why.OfStreams(("det.onnx", "cls.onnx"), why.MissedDeadline(33, 0.02, None)))
    'det.onnx and cls.onnx missed their deadline of 33 ms: 2.0 %'
    """
    was, its = ("were", "their") if of_several else ("was", "its")
    match trouble:
        case why.WasThrottled(times, causes, share, is_before_measuring):
            when = _BEFORE if is_before_measuring else _of_the_time(share)
            return f"was throttled {_times(times)}{when} ({', '.join(causes)})"
        case why.WasSlowed(state, times, share, causes, who):
            because = clue_words(who) if who else ", ".join(causes)
            because = "unknown cause" if because == "unknown" else because
            return f"{was} {STATES[state].lower()} {_times(times)}{_of_the_time(share)}{because and f' ({because})'}"
        case why.WasOverloaded(asked_hz, done_hz):
            return f"was overloaded: {overload_words(asked_hz, done_hz)}"
        case why.MissedDeadline(deadline_ms, share, cause, is_explained):
            because = f" ({late_words(cause)})" if cause and not is_explained else ""
            return f"missed {its} deadline of {deadline_ms:g} ms: {formatting.fine_percent(share)}{because}"
        case why.Leaked(growth):
            return f"leaked {leak_rate(growth)}"
        case why.GatesFailed():
            return f"gate failed: {reason_words(trouble)}"
        case why.EndedAs(State.MEASURING):
            return "too short to say whether it is steady"
        case why.EndedAs(State.RUNNING):
            return "no inference was seen"
        case why.EndedAs(state, reason):
            return STATES[state].lower() + ("" if reason is None else f": {reason_words(reason)}")
        case why.OfStreams(names, own):
            is_sentence = isinstance(own, why.WasSlowed | why.MissedDeadline)
            return f"{streams_words(names)}{'' if is_sentence else ':'} {past_words(own, of_several=len(names) > 1)}"
        case why.FaultFound() | why.Raised():
            return reason_words(trouble)


def past_in_brief(trouble: why.Past) -> str:  # noqa: PLR0911  as above
    """Return one past problem in a few words.

    >>> past_in_brief(why.WasThrottled(6, ("thermal",), 0.22))
    'throttled 6x, 22 %'
    """
    match trouble:
        case why.WasThrottled(times, _, share, is_before_measuring):
            return f"throttled {times}x{_BEFORE if is_before_measuring else _share(share)}"
        case why.WasSlowed(state, times, share):
            return f"{STATES[state].lower()} {times}x{_share(share)}"
        case why.WasOverloaded():
            return "overloaded"
        case why.Raised(errors):
            return formatting.quantity(errors, "error")
        case why.MissedDeadline(_, share, cause):
            return f"missed {formatting.fine_percent(share)}{f', {cause.name}' if cause else ''}"
        case why.FaultFound():
            return STATES[State.INTERNAL_ERROR].lower()
        case why.OfStreams(names, own):
            return f"{streams_words(names)} {past_in_brief(own)}"
        case _:
            return past_words(trouble)


_BEFORE = ", before measuring"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _share(share: float | None) -> str:
    return "" if share is None else f", {formatting.whole_percent(share)}"


def _of_the_time(share: float | None) -> str:
    return "" if share is None else f"{_share(share)} of the time"
