"""The verdict: what holds now, since when, and what was and is over.

It is judged here and nowhere else. The first line of the screen, `--headless`, the report, its JSON, the list of
sessions and `edgetop stop` print this one value. What holds now has the word; of several such things the gravest,
and of equally grave ones the cause before what comes of it: a board that throttles is overloaded because it
throttles. What is over is said in the past tense. `STEADY` is a claim: it is said only where nothing speaks against it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edgetop import formatting
from edgetop.analysis.deadline import TOO_SLOW, WORTH_TELLING, DeadlineView, too_slow
from edgetop.analysis.events import EventsView
from edgetop.analysis.gates import GateResult
from edgetop.analysis.growth import GrowthView, leak_ends, leak_rate
from edgetop.analysis.latency import Recent
from edgetop.analysis.load_words import overload_words
from edgetop.analysis.overload import OverloadView
from edgetop.analysis.progress import ProgressView
from edgetop.analysis.slowdowns.signals import LIMITS
from edgetop.analysis.slowdowns.slowdown import Slowdown, SlowdownsView, cause_words, is_throttling
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.throttles import GRAVEST_FIRST, ThrottleSpan, ThrottlesView
from edgetop.session.manifest import Manifest

Level = Literal["good", "neutral", "warning", "critical"]

NOW, MISSED = "now ", " missed"  # around a share of the last seconds, beside that of the whole session
STALLED_AFTER_NS = 5_000_000_000
STALLED_AFTER_LATENCIES = 10  # a slow model is not a stalled one
STEADY_WITHIN = 0.08  # of the burst's p50: from there on it is a slowdown
FROM_START = " FROM THE START"
SINCE_START = "since the start"
BEFORE = ", before measuring"

THROTTLING, THROTTLED_FROM_START = "THROTTLING", f"THROTTLED{FROM_START}"
CONTENDED, SLOWED = "CONTENDED", "SLOWED"
OVERLOADED, GATE_FAILED, MISSING, LEAKING = "OVERLOADED", "GATE FAILED", "MISSING DEADLINE", "LEAKING"
STEADY, UNSETTLED, MEASURING = "STEADY", "UNSETTLED", "MEASURING"


@dataclass(frozen=True, slots=True)
class Verdict:
    word: str  # "STEADY", "THROTTLING", "FINISHED" ...: enough on its own
    level: Level
    details: tuple[str, ...] = ()  # what there is to say of it, the most needed first
    also: tuple[str, ...] = ()  # what else holds now
    past: tuple[str, ...] = ()  # what was and is over, in the past tense
    p50_change: float | None = None  # of the last seconds to the burst, as a share; None: unknown, or nothing is slower
    since_ns: int | None = None  # when what `now` names began; None: unknown, or it has no beginning
    at_end: str = ""  # of a session that is over: the word that held when it ended
    brief: str = ""  # of a session that is over: the same in a few words, for a list

    @property
    def now(self) -> str:
        """The word of what holds now or, of a session that is over, of what held when it ended."""
        return self.at_end or self.word

    @property
    def words(self) -> str:
        """All of it in one line of text.

        >>> Verdict("FINISHED", "good", ("all runs are done",), past=("was throttled twice",)).words
        'FINISHED: all runs are done; was throttled twice'
        """
        return "; ".join((self.first, *(f"also {what}" for what in self.also), *self.past))

    @property
    def first(self) -> str:
        """The word with its details.

        >>> Verdict("THROTTLING", "critical", ("thermal", "for 0:27"), p50_change=0.32).first
        'THROTTLING: thermal, for 0:27, p50 +32 %'
        """
        change = () if self.p50_change is None else (f"p50 {formatting.signed_percent(self.p50_change)}",)
        details = (*self.details, *change)
        return f"{self.word}: {', '.join(details)}" if details else self.word


@dataclass(frozen=True, slots=True)
class Promises:
    """What was asked of the session, and how far it is kept."""

    overload: OverloadView | None = None
    deadline: DeadlineView | None = None
    gates: tuple[GateResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the verdict follows from, of the whole session whatever a screen shows of it."""

    progress: ProgressView
    until_ns: int  # now or, of a session that is over, when its last inference ended
    session: Statistics | None
    recent: Recent  # of the last seconds, up to now or to the end of the measurement
    errors: int  # how many inferences raised, in the whole session
    events: EventsView
    manifest: Manifest | None
    slowdowns: SlowdownsView
    throttles: ThrottlesView
    growth: GrowthView
    recording_trouble: str = ""  # why nothing is recorded just now
    promises: Promises = Promises()


def judge(seen: Evidence) -> Verdict:
    progress = seen.progress
    if progress.phase == "over":
        return _final(seen)
    if progress.phase == "loading":
        return Verdict("LOADING", "neutral", (seen.manifest.model.path,) if seen.manifest else ())
    if progress.phase in ("first", "idle", "warmup") and not _ceased(seen):
        return _preparing(seen)
    return _measuring(seen)


def _measuring(seen: Evidence) -> Verdict:
    """What holds now, while it measures or at its end."""
    first, *others = sorted(_troubles(seen), key=lambda verdict: verdict.level != "critical") or [_steadiness(seen)]
    also = tuple(_in_short(other, is_explained=not first.word.startswith("GATE")) for other in others)
    return replace(first, also=also, past=tuple(_past(seen)))


def _in_short(verdict: Verdict, *, is_explained: bool) -> str:
    """`is_explained`: by what is told before it."""
    if verdict.word == MISSING:
        *cause, share = (detail for detail in verdict.details if not detail.startswith("for "))
        why = "" if is_explained or not cause else f": {cause[0]}"
        return f"{MISSING} {share.removeprefix(NOW).removesuffix(MISSED)}{why}"
    return f"{LEAKING} {verdict.details[0]}" if verdict.word == LEAKING else verdict.word


def _troubles(seen: Evidence) -> Iterator[Verdict]:
    """Everything that is wrong now, causes before what comes of them."""
    yield from _ceased(seen)
    yield from _failing(seen)
    yield from _throttling(seen)
    yield from _dropped(seen)
    yield from _not_kept(seen)
    deadline = seen.promises.deadline
    is_its_own = deadline and deadline.cause and deadline.cause.name == TOO_SLOW  # whatever else slows it
    yield from (*_missing(seen), *_slower(seen)) if is_its_own else (*_slower(seen), *_missing(seen))
    if rate := leak_rate(seen.growth):
        full = tuple(f"memory is {ends}" for ends in (leak_ends(seen.growth),) if ends)
        measured_ns = seen.progress.measured_ns
        began_ns = None if measured_ns is None else seen.until_ns - measured_ns
        yield Verdict(LEAKING, "warning", (f"{rate} {SINCE_START}", *full), since_ns=began_ns)


def _ceased(seen: Evidence) -> list[Verdict]:
    """What does not go on: the recording, or the inferences."""
    if seen.progress.phase == "over":
        return []
    found = []
    if seen.recording_trouble:
        found.append(Verdict("NOT RECORDING", "critical", (seen.recording_trouble,)))
    if is_stalled(seen.progress, seen.session.max_ns if seen.session else None, seen.manifest):
        silent = formatting.duration(seen.progress.silent_ns or 0)
        found.append(Verdict("STALLED", "critical", (f"an inference has not come back for {silent}",)))
    return found


def _failing(seen: Evidence) -> Iterator[Verdict]:
    if seen.recent.errors:
        yield Verdict("FAILING", "critical", (_errors_words(seen),))


def _dropped(seen: Evidence) -> Iterator[Verdict]:
    dropped = [event for event in seen.events.lasting if event.kind == "provider-dropped"]
    if dropped:
        yield Verdict("PROVIDER DROPPED", "critical", (dropped[0].message,))


def _errors_words(seen: Evidence) -> str:
    count = (seen.session.count if seen.session else 0) + seen.errors
    return f"{seen.errors} of {count} inferences raised an error"


def _throttling(seen: Evidence) -> Iterator[Verdict]:
    """What the board does to itself: by what it says, whatever the latency does, or by what its clocks show."""
    now = _in_force(seen)
    limited = [slowdown for slowdown in _going_on(seen) if _is_of_the_board(slowdown, seen)]
    if limited and limited[0].from_start:
        details = (cause_words(limited[0]), *_board_now(seen.throttles))
        yield Verdict(THROTTLED_FROM_START, "critical", details, since_ns=limited[0].start_ns)
    elif now:
        details = (now.cause, *_lasts(now.start_ns, seen), *_board_now(seen.throttles))
        yield Verdict(THROTTLING, "critical", details, p50_change=_told_change(seen), since_ns=now.start_ns)
    elif limited:
        details = (limited[0].cause, *_lasts(limited[0].start_ns, seen), *_board_now(seen.throttles))
        yield Verdict(THROTTLING, "critical", details, p50_change=_told_change(seen), since_ns=limited[0].start_ns)


def _going_on(seen: Evidence) -> list[Slowdown]:
    """What was so from the start first."""
    return [slowdown for slowdown in seen.slowdowns.slowdowns if slowdown.end_ns is None]


def _is_of_the_board(slowdown: Slowdown, seen: Evidence) -> bool:
    """Whether it is a throttling of which the board says nothing. What it says to be over is over."""
    spans = seen.throttles.spans
    is_told = any(span.end_ns is not None and span.end_ns >= slowdown.start_ns for span in spans)
    return is_throttling(slowdown) and (slowdown.from_start or not is_told)


def _in_force(seen: Evidence) -> ThrottleSpan | None:
    """The gravest throttling that is in force now or, of a session that is over, was when it ended."""
    spans = [span for span in seen.throttles.spans if span.end_ns is None or span.end_ns >= seen.until_ns]
    return min(spans, key=lambda span: GRAVEST_FIRST.index(span.cause), default=None)


def _board_now(throttles: ThrottlesView) -> Iterator[str]:
    """The clock of what it could be, and the hottest zone of its trip."""
    if throttles.clock_mhz is not None:
        best = "" if throttles.best_mhz is None else f" of {throttles.best_mhz:.0f}"
        yield f"{throttles.clock} {throttles.clock_mhz:.0f}{best} MHz".lstrip()
    if throttles.temp_c is not None:
        trip = "" if throttles.trip_c is None else f" of {throttles.trip_c:.0f}"
        yield f"{throttles.temp_c:.0f}{trip} C"


def _change(seen: Evidence) -> float | None:
    """Of p50 now to the burst's, as a share; None where either is unknown."""
    burst, p50_ns = seen.slowdowns.burst, seen.recent.p50_ns
    return None if burst is None or p50_ns is None else p50_ns / burst.p50_ns - 1


def _told_change(seen: Evidence) -> float | None:
    """As the log has it while a slowdown goes on: one slowdown has one figure, wherever it is told."""
    change, going_on = _change(seen), _going_on(seen)
    ratio = going_on[-1].latency_ratio if going_on else None
    return change if ratio is None or change is None or change < STEADY_WITHIN / 2 else ratio - 1


def _lasts(begin_ns: int | None, seen: Evidence) -> Iterator[str]:
    """For how long: the log has when it began."""
    if begin_ns is not None:
        yield f"for {formatting.stopwatch(max(0, seen.until_ns - begin_ns))}"


def _slower(seen: Evidence) -> Iterator[Verdict]:
    """What others do to the engine, and what is slower for another cause than the board's."""
    going_on, others = _going_on(seen), seen.slowdowns.contended_now
    change = _change(seen)
    if change is not None and change < STEADY_WITHIN / 2:  # over, or an interruption: now it is not slow
        going_on = [slowdown for slowdown in going_on if slowdown.from_start]
    contended = next((slowdown for slowdown in going_on if slowdown.cause == "contention"), None)
    if contended:
        word = CONTENDED + (FROM_START if contended.from_start else "")
        who = others or next(iter(contended.evidence), "")
        since, told = ((), None) if contended.from_start else (_lasts(contended.start_ns, seen), _told_change(seen))
        details = tuple(filter(None, (who, *since)))
        yield Verdict(word, "warning", details, p50_change=told, since_ns=contended.start_ns)
    elif others:
        known = change if seen.slowdowns.is_settled else None  # else the burst is what others left of it
        yield Verdict(CONTENDED, "warning", (others,), p50_change=known)
    explained = (*LIMITS, "unknown") if _in_force(seen) else ()  # THROTTLING says it already
    for slowdown in going_on:
        if slowdown.cause not in ("contention", *explained) and not _is_of_the_board(slowdown, seen):
            details, told = (*_lasts(slowdown.start_ns, seen), cause_words(slowdown)), _told_change(seen)
            yield Verdict(SLOWED, "warning", details, p50_change=told, since_ns=slowdown.start_ns)


def _not_kept(seen: Evidence) -> Iterator[Verdict]:
    """Whether the load is carried, and each gate passed so far."""
    overload = seen.promises.overload
    if overload and not overload.is_over:
        details = (overload_words(overload.asked_hz, overload.done_hz), *_beyond_its_period(seen))
        yield Verdict(OVERLOADED, "critical", details)
    failed = [gate for gate in seen.promises.gates if gate.fails_for_sure]
    if failed:
        yield Verdict("GATE", "critical", (failed[0].reason,))


def _beyond_its_period(seen: Evidence) -> Iterator[str]:
    """Whether one inference takes longer than the time to the next."""
    hz, p50_ns, burst = (
        seen.manifest.load.stream_hz if seen.manifest else None,
        seen.recent.p50_ns,
        seen.slowdowns.burst,
    )
    cause = too_slow(p50_ns, 1e9 / hz, burst.p50_ns if burst else None) if hz and p50_ns else None
    if cause:
        yield cause.brief


def _missing(seen: Evidence) -> Iterator[Verdict]:
    deadline, recent = seen.promises.deadline, seen.recent
    if deadline and recent.misses and recent.misses >= WORTH_TELLING * recent.count:
        why = (deadline.cause.brief,) if deadline.cause else ()
        share = formatting.fine_percent(recent.misses / recent.count)
        details = (*why, f"{NOW}{share}{MISSED}", *_lasts(deadline.since_ns, seen))
        yield Verdict(MISSING, "warning", details, since_ns=deadline.since_ns)


def _steadiness(seen: Evidence) -> Verdict:
    """Where nothing is wrong: whether that may be called steady."""
    slowdowns = seen.slowdowns
    if not slowdowns.is_settled:
        return Verdict(MEASURING, "neutral" if seen.progress.phase == "over" else "good")
    if slowdowns.is_too_scattered:
        doubt = f"latency scatters by {formatting.whole_percent(slowdowns.scatter or 0.0)} from second to second"
        return Verdict(UNSETTLED, "warning", (doubt,))
    change = _change(seen)
    if change is None:
        return Verdict(UNSETTLED, "warning", ("nothing was measured in the last minute",))
    if abs(change) > STEADY_WITHIN:
        way = "above" if change > 0 else "below"
        return Verdict(
            UNSETTLED, "warning", (f"p50 is {formatting.whole_percent(abs(change))} {way} that of the burst",)
        )
    return Verdict(STEADY, "good", since_ns=_steady_since_ns(seen))


def _steady_since_ns(seen: Evidence) -> int | None:
    """Since the last trouble, or else since measuring began."""
    found: Iterable[ThrottleSpan | Slowdown] = (*seen.throttles.spans, *seen.slowdowns.slowdowns)
    ends = [span.end_ns for span in found if span.end_ns is not None]
    measured_ns = seen.progress.measured_ns
    return max([*ends, *([] if measured_ns is None else [seen.until_ns - measured_ns])], default=None)


def _preparing(seen: Evidence) -> Verdict:
    progress = seen.progress
    if progress.phase == "idle" and progress.idle_ns:
        done_ns = min(progress.idle_done_ns, progress.idle_ns)
        done = f"{done_ns / 1e9:.0f} of {progress.idle_ns / 1e9:.0f} s, in which nothing runs"
        return Verdict("IDLE BASELINE", "neutral", (done,))
    if progress.phase == "first" or progress.warmup_runs is None:
        return Verdict("WARMING UP", "neutral", ("first inference",))
    done = f"{min(progress.warmup_done or 0, progress.warmup_runs)} of {progress.warmup_runs}"
    also = (THROTTLING,) if _in_force(seen) else ()
    return Verdict("WARMING UP", "neutral", (done,), also)


def is_stalled(progress: ProgressView, longest_ns: int | None, manifest: Manifest | None) -> bool:
    """`longest_ns`: of the latencies so far; None: there was none."""
    if progress.silent_ns is None or progress.phase not in ("warmup", "measure"):
        return False
    first_ns = manifest.engine.first_ns if manifest else None
    usual = first_ns or 0 if longest_ns is None else longest_ns
    rest_ns = manifest.load.longest_rest_ns if manifest else 0
    return progress.silent_ns > max(STALLED_AFTER_NS, STALLED_AFTER_LATENCIES * usual) + rest_ns


EXIT_STATUS = "exit-status-"  # how a program that was watched ended, before the number
GATE_ENDED = "slo"  # how a gate ends a session: `end_reason`
_FINAL: dict[str, tuple[str, Level, str]] = {
    "duration": ("FINISHED", "good", "the duration is over"),
    "runs": ("FINISHED", "good", "all runs are done"),
    "exit": ("FINISHED", "good", "the program ended"),
    "resolved": ("FINISHED", "good", "the difference is known as well as was asked for"),
    "rotated": ("FINISHED", "good", "the next session goes on"),
    "user": ("STOPPED", "neutral", "by the user"),
    "signal": ("STOPPED", "neutral", "by a signal"),
    "writer-killed": ("CUT SHORT", "warning", "edgetop was killed"),
    "power-loss": ("CUT SHORT", "warning", "the power was lost"),
    "disk-full": ("CUT SHORT", "critical", "the disk was full"),
}


def _final(seen: Evidence) -> Verdict:
    """How it ended, what held then, and what was true of it before."""
    reason, end_error = seen.progress.end_reason or "", seen.progress.end_error
    failed = [gate.reason for gate in seen.promises.gates if not gate.ok]
    if reason == GATE_ENDED or (failed and reason in ("duration", "runs", "resolved")):
        ended = Verdict(GATE_FAILED, "critical", (end_error or "; ".join(failed),))
    else:
        ended = final_verdict(reason, end_error)
    held = _measuring(seen)
    past = list(_past(seen))
    if failed and ended.word != GATE_FAILED:
        past.insert(0, f"gate failed: {failed[0]}")
    if not past:
        past = [_steadiness_words(held)]
    level: Level = "warning" if ended.level == "good" and held.word not in (STEADY, MEASURING) else ended.level
    died = ended.level == "critical"
    ended = replace(ended, level=level, past=tuple(past), at_end=ended.word if died else held.word)
    return replace(ended, since_ns=held.since_ns, brief=_brief(seen, ended))


def _steadiness_words(held: Verdict) -> str:
    """Of a session of which nothing else is to be said."""
    if held.word == MEASURING:
        return "too short to say whether it is steady"
    return f"{held.word.lower()}: {held.details[0]}" if held.details else held.word.lower()


def final_verdict(end_reason: str, end_error: str | None = None) -> Verdict:
    """How a session that is over ended, which its manifest is enough for.

    `end_error`: what the engine died of or which gate ended it, if known.
    """
    if end_reason in _FINAL:
        word, level, text = _FINAL[end_reason]
        return Verdict(word, level, (text,))
    if end_reason == GATE_ENDED:
        return Verdict(GATE_FAILED, "critical", (end_error or "a gate ended it",))
    if end_reason == "engine-died":
        return Verdict("ENGINE DIED", "critical", (end_error or "cause unknown",))
    if end_reason.startswith(EXIT_STATUS):
        return Verdict(
            "ENDED", "warning", (f"the program ended with exit status {end_reason.removeprefix(EXIT_STATUS)}",)
        )
    return Verdict("ENDED", "critical", (end_error or end_reason,))


def _past(seen: Evidence) -> Iterator[str]:
    """What was and is over, the gravest first. Of a session that is over: all that was true of it."""
    is_over = seen.progress.phase == "over"
    throttled = _throttled_before(seen, is_over=is_over)
    if throttled:
        times, share, causes = throttled
        when = BEFORE if _is_before_measuring(seen) else _of_the_time(share)
        yield f"was throttled {_times(times)}{when} ({', '.join(causes)})"
    overload = seen.promises.overload
    if overload and (is_over or overload.is_over):
        yield f"was overloaded: {overload_words(overload.asked_hz, overload.done_hz)}"
    slowed = _slowed_before(seen, is_over=is_over)
    for word, slowdowns in slowed.items():
        if word == CONTENDED:
            because = next((slowdown.evidence[0] for slowdown in slowdowns if slowdown.evidence), "")
        else:
            because = ", ".join(dict.fromkeys(slowdown.cause for slowdown in slowdowns))
        because = "unknown cause" if because == "unknown" else because
        how_often = f"{_times(len(slowdowns))}{_of_the_time(_share(seen, slowdowns))}"
        yield f"was {word.lower()} {how_often}{f' ({because})' if because else ''}"
    if seen.errors and (is_over or not seen.recent.errors):
        yield _errors_words(seen)
    deadline = seen.promises.deadline
    if deadline and deadline.is_missed:
        is_told = throttled or slowed or overload or not deadline.cause or (not is_over and seen.recent.misses)
        why = "" if is_told or not deadline.cause else f" ({deadline.cause.words})"
        rate = formatting.fine_percent(deadline.miss_rate)
        yield f"missed its deadline of {deadline.deadline_ns / 1e6:g} ms: {rate}{why}"
    if is_over and (rate := leak_rate(seen.growth)):
        yield f"leaked {rate}"


def _throttled_before(seen: Evidence, *, is_over: bool) -> tuple[int, float | None, list[str]] | None:
    """How often, for which share of the measurement, and why; None: never.

    By what the board says of itself or, where it says nothing, by the slowdowns that its clocks explain.
    """
    spans = [span for span in seen.throttles.spans if is_over or span.end_ns is not None]
    if spans:
        going_on = len(seen.throttles.spans) - len(spans)
        times = seen.throttles.total - going_on
        return times, seen.throttles.share, list(dict.fromkeys(span.cause for span in spans))
    by_clock = [s for s in seen.slowdowns.slowdowns if is_throttling(s) and (is_over or s.end_ns is not None)]
    if not by_clock:
        return None
    return len(by_clock), _share(seen, by_clock), list(dict.fromkeys(s.cause for s in by_clock))


def _is_before_measuring(seen: Evidence) -> bool:
    """Whether the board was throttled in nothing but the warm-up, or what came before it."""
    throttles = seen.throttles
    return bool(throttles.spans) and throttles.measured_ns > 0 and not throttles.measured_total


def _slowed_before(seen: Evidence, *, is_over: bool) -> dict[str, list[Slowdown]]:
    found: dict[str, list[Slowdown]] = {}
    for slowdown in seen.slowdowns.slowdowns:
        if not is_throttling(slowdown) and (is_over or slowdown.end_ns is not None):
            found.setdefault(CONTENDED if slowdown.cause == "contention" else SLOWED, []).append(slowdown)
    return found


def _share(seen: Evidence, slowdowns: Sequence[Slowdown]) -> float | None:
    measured_ns, now_ns = seen.progress.measured_ns, seen.until_ns
    if not measured_ns:
        return None
    total_ns = sum((now_ns if s.end_ns is None else s.end_ns) - s.start_ns for s in slowdowns)
    return min(1.0, max(0.0, total_ns / measured_ns))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _of_the_time(share: float | None) -> str:
    return "" if share is None else f", {formatting.whole_percent(share)} of the time"


def _brief(seen: Evidence, ended: Verdict) -> str:
    """`throttled 6x, 22 %`: for a list, how it ended only where that was not as planned."""
    if ended.word not in ("FINISHED", "STOPPED"):
        return ended.word.lower()
    held = "too short to tell" if ended.at_end == MEASURING else ended.at_end.lower()
    return next(_findings_in_brief(seen), held)


def _findings_in_brief(seen: Evidence) -> Iterator[str]:
    """The gravest first."""
    if throttled := _throttled_before(seen, is_over=True):
        times, share, _ = throttled
        yield f"throttled {times}x{BEFORE if _is_before_measuring(seen) else _share_in_brief(share)}"
    if seen.promises.overload:
        yield "overloaded"
    for word, slowdowns in _slowed_before(seen, is_over=True).items():
        yield f"{word.lower()} {len(slowdowns)}x{_share_in_brief(_share(seen, slowdowns))}"
    if seen.errors:
        yield f"{seen.errors} errors"
    if seen.promises.deadline and seen.promises.deadline.is_missed:
        deadline = seen.promises.deadline
        why = f", {deadline.cause.name}" if deadline.cause else ""
        yield f"missed {formatting.fine_percent(deadline.miss_rate)}{why}"


def _share_in_brief(share: float | None) -> str:
    return "" if share is None else f", {formatting.whole_percent(share)}"
