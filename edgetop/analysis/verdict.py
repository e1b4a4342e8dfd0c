"""The verdict: the present state, since when it holds, and past troubles.

Only this module judges it. The first line of the screen, `--headless`, the report, its JSON, the list of
sessions and `edgetop stop` print this one value. The word is the present state. Of several troubles it is the gravest,
and of equally grave ones the cause before its effect: a board that throttles is overloaded because it
throttles. Past troubles are in the past tense. `STEADY` is a claim: it needs the absence of any sign against it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from edgetop import formatting
from edgetop.analysis.deadline import TOO_SLOW, WORTH_REPORTING, overload_words, too_slow
from edgetop.analysis.faults import noting
from edgetop.analysis.memory_use import leak_ends, leak_rate
from edgetop.analysis.progress import is_stalled
from edgetop.analysis.session_gates import GateResult
from edgetop.analysis.slowdowns.baseline import SLOWER_SHARE
from edgetop.analysis.slowdowns.signals import LIMITS
from edgetop.analysis.slowdowns.slowdown import Slowdown, cause_words, is_throttling
from edgetop.analysis.slowdowns.throttles import GRAVEST_FIRST, ThrottleSpan, ThrottlesView

if TYPE_CHECKING:
    from edgetop.analysis.folds import Folds

Level = Literal["good", "neutral", "warning", "critical"]

NOW, MISSED = "now ", " missed"  # around a share of the last seconds, beside that of the whole session
OVER = SLOWER_SHARE / 2  # of the burst's p50: with less than this over it, a slowdown is over or interrupted
FROM_START = " FROM THE START"
SINCE_START = "since the start"
BEFORE, OF_THE_TIME = ", before measuring", " of the time"

THROTTLING, THROTTLED_FROM_START = "THROTTLING", f"THROTTLED{FROM_START}"
CONTENDED, SLOWED = "CONTENDED", "SLOWED"
OVERLOADED, GATE_FAILED, MISSING, LEAKING = "OVERLOADED", "GATE FAILED", "MISSING DEADLINE", "LEAKING"
STOPPING = "STOPPING"
STEADY, UNSETTLED, MEASURING = "STEADY", "UNSETTLED", "MEASURING"
FAULTY = "INTERNAL ERROR"


@dataclass(frozen=True, slots=True)
class Verdict:
    word: str  # "STEADY", "THROTTLING", "FINISHED" ...: enough on its own
    level: Level
    details: tuple[str, ...] = ()  # the most needed first
    also: tuple[str, ...] = ()  # other present troubles
    past: tuple[str, ...] = ()  # past troubles, in the past tense
    p50_change: float | None = None  # of the last seconds to the burst, as a share; None: unknown, or nothing is slower
    since_ns: int | None = None  # when the state of `now` began; None: unknown, or it has no beginning
    at_end: str = ""  # of a session that is over: the word that held when it ended
    brief: str = ""  # of a session that is over: the same in a few words, for a list

    @property
    def now(self) -> str:
        """Return the word of the present state or, if the session is over, of the state in which it ended."""
        return self.at_end or self.word

    @property
    def words(self) -> str:
        """Return the whole verdict in one line.

        >>> Verdict("FINISHED", "good", ("all runs are done",), past=("was throttled twice",)).words
        'FINISHED: all runs are done; was throttled twice'
        """
        return "; ".join((self.first, *(f"also {what}" for what in self.also), *self.past))

    @property
    def first(self) -> str:
        """Return the word with its details.

        >>> Verdict("THROTTLING", "critical", ("thermal", "for 0:27"), p50_change=0.32).first
        'THROTTLING: thermal, for 0:27, p50 +32 %'
        """
        change = () if self.p50_change is None else (f"p50 {formatting.signed_percent(self.p50_change)}",)
        details = (*self.details, *change)
        return f"{self.word}: {', '.join(details)}" if details else self.word


class Evidence:
    """The input of the verdict, of the whole session whatever part a screen shows."""

    def __init__(self, folds: "Folds", gates: tuple[GateResult, ...]) -> None:
        with noting() as failed:
            self._read(folds, gates)
        self.fault = folds.faults.words(failed)  # why something of it is not known; "": no fold of it has failed

    def _read(self, folds: "Folds", gates: tuple[GateResult, ...]) -> None:
        self.progress, self.manifest, self.gates = folds.progress.view(), folds.manifest, gates
        self.until_ns = folds.progress.measured_until_ns  # now or, of a session that is over, its end
        self.session = folds.statistics()
        self.recent = folds.latency.recent(self.until_ns)  # the last seconds up to that
        self.errors = folds.latency.errors  # how many inferences raised, in the whole session
        self.events, self.slowdowns = folds.events.view(), folds.slowdowns.view()
        self.throttles, self.growth = folds.throttles.view(), folds.growth_view()
        self.recording_trouble = folds.recording.trouble  # why nothing is recorded just now; "": it is
        self.overload, self.deadline = folds.backlog.view(), folds.deadline()


def judge(seen: Evidence) -> Verdict:
    progress = seen.progress
    if progress.phase == "over":
        return _final(seen)
    if progress.stopping:
        return Verdict(STOPPING, "neutral", (progress.stopping,))
    if progress.phase == "loading" and progress.unseen:
        _, _, why = progress.unseen.partition(": ")
        return Verdict("NO INFERENCE", "warning", (why or progress.unseen,))
    if progress.phase == "loading" and not seen.fault:
        return Verdict("LOADING", "neutral", (seen.manifest.model.path,) if seen.manifest else ())
    if progress.phase in ("first", "idle", "warmup") and not _ceased(seen):
        return _preparing(seen)
    return replace(_measuring(seen), past=tuple(words for words, _ in _past(seen)))


def _measuring(seen: Evidence) -> Verdict:
    """Return the present state while the session measures, or its state at the end."""
    first, *others = sorted(_troubles(seen), key=lambda verdict: verdict.level != "critical") or [_steadiness(seen)]
    also = tuple(_in_short(other, is_explained=not first.word.startswith("GATE")) for other in others)
    return replace(first, also=also)


def _in_short(verdict: Verdict, *, is_explained: bool) -> str:
    """Return the verdict in a few words. `is_explained`: the text before it says more."""
    if verdict.word == MISSING:
        *cause, share = (detail for detail in verdict.details if not detail.startswith("for "))
        why = "" if is_explained or not cause else f": {cause[0]}"
        return f"{MISSING} {share.removeprefix(NOW).removesuffix(MISSED)}{why}"
    return f"{LEAKING} {verdict.details[0]}" if verdict.word == LEAKING else verdict.word


def _troubles(seen: Evidence) -> Iterator[Verdict]:
    """Yield every present trouble, causes before effects."""
    if seen.fault:
        yield Verdict(FAULTY, "warning", (seen.fault,))
    yield from _ceased(seen)
    if seen.recent.errors:
        yield Verdict("FAILING", "critical", (_errors_words(seen),))
    yield from _throttling(seen)
    if dropped := next((event for event in seen.events.lasting if event.kind == "provider-dropped"), None):
        yield Verdict("PROVIDER DROPPED", "critical", (dropped.message,))
    yield from _broken_promises(seen)
    deadline = seen.deadline
    is_its_own = deadline and deadline.cause and deadline.cause.name == TOO_SLOW  # even without a slowdown
    yield from (*_missing(seen), *_slower(seen)) if is_its_own else (*_slower(seen), *_missing(seen))
    if rate := leak_rate(seen.growth):
        full = tuple(f"memory is {ends}" for ends in (leak_ends(seen.growth),) if ends)
        measured_ns = seen.progress.measured_ns
        began_ns = None if measured_ns is None else seen.until_ns - measured_ns
        yield Verdict(LEAKING, "warning", (f"{rate} {SINCE_START}", *full), since_ns=began_ns)


def _ceased(seen: Evidence) -> list[Verdict]:
    """Return the troubles of a recording or of inferences that have stopped."""
    if seen.progress.phase == "over":
        return []
    verdicts = []
    if seen.recording_trouble:
        verdicts.append(Verdict("NOT RECORDING", "critical", (seen.recording_trouble,)))
    if is_stalled(seen.progress, seen.session.max_ns if seen.session else None, seen.manifest):
        silent = formatting.duration(seen.progress.silent_ns or 0)
        verdicts.append(Verdict("STALLED", "critical", (f"an inference has not come back for {silent}",)))
    return verdicts


def _errors_words(seen: Evidence) -> str:
    count = (seen.session.count if seen.session else 0) + seen.errors
    return f"{seen.errors} of {count} inferences raised an error"


def _throttling(seen: Evidence) -> Iterator[Verdict]:
    """Yield a verdict if the board slows itself, by its own reports, whatever the latency does, or by its clocks."""
    limited = next((slowdown for slowdown in _open_slowdowns(seen) if _is_unreported(slowdown, seen)), None)
    now = _in_force(seen) or limited
    board = tuple(_board_now(seen.throttles))
    if limited and limited.from_start:
        details = (cause_words(limited), *board)
        yield Verdict(THROTTLED_FROM_START, "critical", details, since_ns=limited.start_ns)
    elif now:
        details = (now.cause, _lasts(now.start_ns, seen), *board)
        yield Verdict(THROTTLING, "critical", details, p50_change=_logged_change(seen), since_ns=now.start_ns)


def _open_slowdowns(seen: Evidence) -> list[Slowdown]:
    """Return the slowdowns that continue; one from the start comes first."""
    return [slowdown for slowdown in seen.slowdowns.slowdowns if slowdown.end_ns is None]


def _is_unreported(slowdown: Slowdown, seen: Evidence) -> bool:
    """Whether it is a throttling that the board does not report. One that it reports to be over is over."""
    spans = seen.throttles.spans
    is_reported = any(span.end_ns is not None and span.end_ns >= slowdown.start_ns for span in spans)
    return is_throttling(slowdown) and (slowdown.from_start or not is_reported)


def _in_force(seen: Evidence) -> ThrottleSpan | None:
    """Return the gravest throttling in force now or, if the session is over, at its end."""
    spans = [span for span in seen.throttles.spans if span.end_ns is None or span.end_ns >= seen.until_ns]
    return min(spans, key=lambda span: GRAVEST_FIRST.index(span.cause), default=None)


def _board_now(throttles: ThrottlesView) -> Iterator[str]:
    """Yield the clock with its best, and the temperature with its trip."""
    if throttles.clock_mhz is not None:
        best = "" if throttles.best_mhz is None else f" of {throttles.best_mhz:.0f}"
        yield f"{throttles.clock} {throttles.clock_mhz:.0f}{best} MHz".lstrip()
    if throttles.temp_c is not None:
        trip = "" if throttles.trip_c is None else f" of {throttles.trip_c:.0f}"
        yield f"{throttles.temp_c:.0f}{trip} C"


def _change(seen: Evidence) -> float | None:
    """Return the change of p50 from the burst to now, as a share; None: not known."""
    burst, p50_ns = seen.slowdowns.burst, seen.recent.p50_ns
    return None if burst is None or p50_ns is None else p50_ns / burst.p50_ns - 1


def _logged_change(seen: Evidence) -> float | None:
    """Return the change; during a slowdown it is the figure of the log, so that both agree."""
    change, slowdowns = _change(seen), _open_slowdowns(seen)
    ratio = slowdowns[-1].latency_ratio if slowdowns else None
    return change if ratio is None or change is None or change < OVER else ratio - 1


def _lasts(begin_ns: int, seen: Evidence) -> str:
    return f"for {formatting.stopwatch(max(0, seen.until_ns - begin_ns))}"


def _slower(seen: Evidence) -> Iterator[Verdict]:
    """Yield a verdict if others take the CPU, or if the model is slower for a cause other than the board's limits."""
    slowdowns, others = _open_slowdowns(seen), seen.slowdowns.contended_now
    change = _change(seen)
    if change is not None and change < OVER:  # over, or an interruption: now it is not slow
        slowdowns = [slowdown for slowdown in slowdowns if slowdown.from_start]
    contended = next((slowdown for slowdown in slowdowns if slowdown.cause == "contention"), None)
    if contended:
        who, is_new = others or next(iter(contended.evidence), ""), not contended.from_start
        details = tuple(filter(None, (who, _lasts(contended.start_ns, seen) if is_new else "")))
        logged, word = (_logged_change(seen), CONTENDED) if is_new else (None, CONTENDED + FROM_START)
        yield Verdict(word, "warning", details, p50_change=logged, since_ns=contended.start_ns)
    elif others:
        known = change if seen.slowdowns.is_settled else None  # before, others may have slowed the burst too
        yield Verdict(CONTENDED, "warning", (others,), p50_change=known)
    explained = (*LIMITS, "unknown") if _in_force(seen) else ()  # THROTTLING says it already
    for slowdown in slowdowns:
        if slowdown.cause not in ("contention", *explained) and not _is_unreported(slowdown, seen):
            details = (_lasts(slowdown.start_ns, seen), cause_words(slowdown))
            yield Verdict(SLOWED, "warning", details, p50_change=_logged_change(seen), since_ns=slowdown.start_ns)


def _broken_promises(seen: Evidence) -> Iterator[Verdict]:
    """Yield a verdict if the load is too high, or if a gate fails already."""
    overload = seen.overload
    if overload and not overload.is_over:
        hz, p50_ns, burst = (
            seen.manifest.load.stream_hz if seen.manifest else None, seen.recent.p50_ns, seen.slowdowns.burst
        )  # fmt: skip
        # One inference may take longer than the time to the next.
        cause = too_slow(p50_ns, 1e9 / hz, burst.p50_ns if burst else None) if hz and p50_ns else None
        details = (overload_words(overload.asked_hz, overload.done_hz), *([cause.brief] if cause else []))
        yield Verdict(OVERLOADED, "critical", details)
    if failing := next((gate for gate in seen.gates if gate.fails_for_sure), None):
        yield Verdict("GATE", "critical", (failing.reason,))


def _missing(seen: Evidence) -> Iterator[Verdict]:
    deadline, recent = seen.deadline, seen.recent
    if deadline and recent.misses and recent.misses >= WORTH_REPORTING * recent.count:
        why = (deadline.cause.brief,) if deadline.cause else ()
        share = formatting.fine_percent(recent.misses / recent.count)
        lasts = () if deadline.since_ns is None else (_lasts(deadline.since_ns, seen),)
        details = (*why, f"{NOW}{share}{MISSED}", *lasts)
        yield Verdict(MISSING, "warning", details, since_ns=deadline.since_ns)


def _steadiness(seen: Evidence) -> Verdict:
    """Return the verdict if there is no trouble; "STEADY" only with enough evidence."""
    slowdowns = seen.slowdowns
    if not slowdowns.is_settled:
        return Verdict(MEASURING, "neutral" if seen.progress.phase == "over" else "good")
    if slowdowns.is_too_scattered:
        doubt = f"latency scatters by {formatting.whole_percent(slowdowns.scatter or 0.0)} from second to second"
        return Verdict(UNSETTLED, "warning", (doubt,))
    change = _change(seen)
    if change is None:
        return Verdict(UNSETTLED, "warning", ("nothing was measured in the last minute",))
    if abs(change) > SLOWER_SHARE:
        way = "above" if change > 0 else "below"
        doubt = f"p50 is {formatting.whole_percent(abs(change))} {way} that of the burst"
        return Verdict(UNSETTLED, "warning", (doubt,))
    measured_ns = seen.progress.measured_ns
    ends = [*(span.end_ns for span in seen.throttles.spans), *(slowdown.end_ns for slowdown in slowdowns.slowdowns)]
    ends.append(None if measured_ns is None else seen.until_ns - measured_ns)
    return Verdict(STEADY, "good", since_ns=max((end_ns for end_ns in ends if end_ns is not None), default=None))


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


EXIT_STATUS = "exit-status-"  # how a program that was watched ended, before the number
GATE_ENDED = "slo"  # how a gate ends a session: `end_reason`
ROTATED = "rotated"  # the run goes on in the next session
_FINAL: dict[str, tuple[str, Level, str]] = {
    "duration": ("FINISHED", "good", "the duration is over"),
    "runs": ("FINISHED", "good", "all runs are done"),
    "exit": ("FINISHED", "good", "the program ended"),
    "resolved": ("FINISHED", "good", "the difference is known as well as was asked for"),
    ROTATED: ("FINISHED", "good", "the next session goes on"),
    "user": ("STOPPED", "neutral", "by the user"),
    "signal": ("STOPPED", "neutral", "by a signal"),
    "writer-killed": ("CUT SHORT", "warning", "edgetop was killed"),
    "power-loss": ("CUT SHORT", "warning", "the power was lost"),
    "disk-full": ("CUT SHORT", "critical", "the disk was full"),
}


def _final(seen: Evidence) -> Verdict:
    """Return how it ended, its state then, and its past troubles."""
    reason, end_error = seen.progress.end_reason or "", seen.progress.end_error
    failed = [gate.reason for gate in seen.gates if not gate.ok]
    if reason == GATE_ENDED or (failed and reason in ("duration", "runs", "resolved")):
        ended = Verdict(GATE_FAILED, "critical", (end_error or "; ".join(failed),))
    else:
        ended = final_verdict(reason, end_error)
    held, found = _measuring(seen), list(_past(seen))
    past = [words for words, _ in found]
    if failed and ended.word != GATE_FAILED:
        past.insert(0, f"gate failed: {failed[0]}")
    if not past and held.word == MEASURING:
        past = ["too short to say whether it is steady"]
    elif not past:
        past = [f"{held.word.lower()}: {held.details[0]}" if held.details else held.word.lower()]
    level: Level = "warning" if ended.level == "good" and held.word not in (STEADY, MEASURING) else ended.level
    at_end = ended.word if ended.level == "critical" else held.word
    brief = ended.word.lower()  # how it ended only if that was not as planned
    if ended.word in ("FINISHED", "STOPPED"):
        plain = "too short to tell" if at_end == MEASURING else at_end.lower()
        brief = next((in_brief for _, in_brief in found if in_brief), plain)
    return replace(ended, level=level, past=tuple(past), at_end=at_end, since_ns=held.since_ns, brief=brief)


def final_verdict(end_reason: str, end_error: str | None = None) -> Verdict:
    """Return how a finished session ended, by its manifest alone.

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
        status = end_reason.removeprefix(EXIT_STATUS)
        return Verdict("ENDED", "warning", (f"the program ended with exit status {status}",))
    return Verdict("ENDED", "critical", (end_error or end_reason,))


def _past(seen: Evidence) -> Iterator[tuple[str, str]]:
    """Yield past troubles, the gravest first, in words and in brief ("": not brief); if the session is over, all."""
    is_over, overload = seen.progress.phase == "over", seen.overload
    if seen.fault and is_over:
        yield seen.fault, FAULTY.lower()
    throttled = _throttled_before(seen, is_over=is_over)
    yield from throttled
    if overload and (is_over or overload.is_over):
        yield f"was overloaded: {overload_words(overload.asked_hz, overload.done_hz)}", "overloaded"
    slowed = _slowed_before(seen, is_over=is_over)
    yield from slowed
    if seen.errors and (is_over or not seen.recent.errors):
        yield _errors_words(seen), f"{seen.errors} errors"
    deadline = seen.deadline
    if deadline and deadline.is_missed:
        is_explained = throttled or slowed or overload or (not is_over and seen.recent.misses)
        why = "" if is_explained or not deadline.cause else f" ({deadline.cause.words})"
        rate = formatting.fine_percent(deadline.miss_rate)
        in_brief = f"missed {rate}{f', {deadline.cause.name}' if deadline.cause else ''}"
        yield f"missed its deadline of {deadline.ms:g} ms: {rate}{why}", in_brief
    if is_over and (rate := leak_rate(seen.growth)):
        yield f"leaked {rate}", ""


def _throttled_before(seen: Evidence, *, is_over: bool) -> list[tuple[str, str]]:
    """Return past throttling, as `_past` does: by the board's reports or, without any, by slowdowns."""
    throttles = seen.throttles
    found: Sequence[ThrottleSpan | Slowdown]
    found = spans = [span for span in throttles.spans if is_over or span.end_ns is not None]
    times, share = throttles.total - (len(throttles.spans) - len(spans)), throttles.share
    if not spans:
        found = by_clock = [one for one in _slowdowns_before(seen, is_over=is_over) if is_throttling(one)]
        times, share = len(by_clock), _share(seen, by_clock)
    if not found:
        return []
    # It may have throttled in the warm-up, or earlier, alone.
    is_before_measuring = throttles.spans and throttles.measured_ns > 0 and not throttles.measured_total
    when = BEFORE if is_before_measuring else _of_the_time(share)
    causes = ", ".join(dict.fromkeys(one.cause for one in found))
    return [(f"was throttled {_times(times)}{when} ({causes})", f"throttled {times}x{when.removesuffix(OF_THE_TIME)}")]


def _slowed_before(seen: Evidence, *, is_over: bool) -> list[tuple[str, str]]:
    found: dict[str, list[Slowdown]] = {}
    for slowdown in _slowdowns_before(seen, is_over=is_over):
        if not is_throttling(slowdown):
            found.setdefault(CONTENDED if slowdown.cause == "contention" else SLOWED, []).append(slowdown)
    pairs = []
    for word, slowdowns in found.items():
        if word == CONTENDED:
            because = next((slowdown.evidence[0] for slowdown in slowdowns if slowdown.evidence), "")
        else:
            because = ", ".join(dict.fromkeys(slowdown.cause for slowdown in slowdowns))
        because = "unknown cause" if because == "unknown" else because
        times, when = len(slowdowns), _of_the_time(_share(seen, slowdowns))
        words = f"was {word.lower()} {_times(times)}{when}{f' ({because})' if because else ''}"
        pairs.append((words, f"{word.lower()} {times}x{when.removesuffix(OF_THE_TIME)}"))
    return pairs


def _slowdowns_before(seen: Evidence, *, is_over: bool) -> list[Slowdown]:
    return [slowdown for slowdown in seen.slowdowns.slowdowns if is_over or slowdown.end_ns is not None]


def _share(seen: Evidence, slowdowns: Sequence[Slowdown]) -> float | None:
    measured_ns, now_ns = seen.progress.measured_ns, seen.until_ns
    if not measured_ns:
        return None
    total_ns = sum((now_ns if s.end_ns is None else s.end_ns) - s.start_ns for s in slowdowns)
    return min(1.0, max(0.0, total_ns / measured_ns))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _of_the_time(share: float | None) -> str:
    return "" if share is None else f", {formatting.whole_percent(share)}{OF_THE_TIME}"
