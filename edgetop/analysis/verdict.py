"""The verdict on a session: its present state, since when this state holds, and past troubles.

Only this module makes the verdict. The first line of the screen, `--headless`, the report, its JSON, the list of
sessions and `edgetop stop` show this one value, in the words of `edgetop.wording.verdict_words`. If there are several
troubles, the state is the most serious one. Of equally serious troubles, the cause comes before its effect: a board
that throttles is overloaded because it throttles. STEADY is a claim. It requires that there is no sign of trouble.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgetop.analysis.ab_figures import AbView
from edgetop.analysis.deadline import TOO_SLOW, WORTH_REPORTING, too_slow
from edgetop.analysis.progress import ProgressView, is_stalled
from edgetop.analysis.slowdowns.baseline import SLOWER_SHARE
from edgetop.analysis.slowdowns.signals import GRAVEST_FIRST, LIMITS
from edgetop.analysis.slowdowns.slowdown import Slowdown, is_throttling
from edgetop.analysis.slowdowns.throttles import ThrottleSpan, ThrottlesView
from edgetop.analysis.verdict_data import Evidence, Level, Verdict
from edgetop.analysis.verdict_reasons import (
    AbDifference,
    AbTurn,
    AwayFromBurst,
    BaselineDone,
    ClockNow,
    DiedOf,
    EndedAs,
    EndedBy,
    ExitStatus,
    FaultFound,
    FirstInference,
    GatesFailed,
    Lasts,
    LateBecause,
    Leaked,
    LeakRate,
    LimitedBy,
    MemoryFull,
    MemoryRose,
    MissedDeadline,
    MissedNow,
    NothingRecent,
    NotSeen,
    Overdue,
    Past,
    PowerNow,
    Queueing,
    Raised,
    Reason,
    Scatters,
    SlowedBy,
    State,
    TakenBy,
    TemperatureNow,
    Told,
    WarmupDone,
    WasOverloaded,
    WasSlowed,
    WasThrottled,
)  # fmt: skip
from edgetop.session.manifest import Watched

# Rise over the burst, as a share, below which a slowdown is over for now. Choice: half of a slowdown. Larger: one
# that goes on is shown as over; smaller: one that is over is still shown.
OVER = SLOWER_SHARE / 2
UNDISTURBED = (State.MEASURING, State.STEADY, State.UNSETTLED, State.RUNNING)  # no trouble was found


def judge(seen: Evidence) -> Verdict:
    progress = seen.progress
    if progress.phase == "over":
        return _final(seen)
    if progress.stopping:
        return Verdict(State.STOPPING, "neutral", (Told(progress.stopping),))
    if progress.phase in ("loading", "program") and progress.unseen and progress.is_unseen_wrong:
        return Verdict(State.NO_INFERENCE, "warning", (NotSeen(progress.unseen),))
    if progress.phase == "loading" and not seen.fault:
        return Verdict(State.LOADING, "neutral", (Told(seen.manifest.model.path),) if seen.manifest else ())
    if progress.phase in ("first", "idle", "warmup") and not _ceased(seen):
        return _preparing(seen)
    return replace(_measuring(seen), past=tuple(_past(seen)))


def _measuring(seen: Evidence) -> Verdict:
    """Return the verdict on the present or, if the session is over, on its last seconds."""
    found = sorted(_troubles(seen), key=lambda verdict: verdict.level != "critical") or [_steadiness(seen)]
    if seen.slowdowns.stop_ratio >= 1 + OVER:
        found = [replace(verdict, is_of_mean=True) for verdict in found]
    return replace(found[0], also=tuple(found[1:]))


def _troubles(seen: Evidence) -> Iterator[Verdict]:
    """Yield a verdict for each present trouble. Causes come before effects."""
    if seen.fault:
        yield Verdict(State.INTERNAL_ERROR, "warning", (FaultFound(seen.fault),))
    yield from _ceased(seen)
    if seen.recent.errors:
        yield Verdict(State.FAILING, "critical", (_raised(seen),))
    yield from _throttling(seen)
    if dropped := next((one.first for one in seen.events.lasting if one.first.kind == "provider-dropped"), None):
        why = seen.fallback.left_out if seen.fallback else ""
        reasons = (Told(dropped.message), Told(why)) if why else (Told(dropped.message),)
        yield Verdict(State.PROVIDER_DROPPED, "critical", reasons)
    yield from _broken_promises(seen)
    deadline = seen.deadline
    is_its_own = deadline and deadline.cause and deadline.cause.name == TOO_SLOW  # even without a slowdown
    yield from (*_missing(seen), *_slower(seen)) if is_its_own else (*_slower(seen), *_missing(seen))
    if seen.growth.is_leak and seen.growth.mib_per_h:
        full = () if seen.growth.hours_left is None else (MemoryFull(seen.growth),)
        measured_ns = seen.progress.measured_ns
        began_ns = None if measured_ns is None else seen.until_ns - measured_ns
        yield Verdict(State.LEAKING, "warning", (LeakRate(seen.growth), *full), since_ns=began_ns)


def _ceased(seen: Evidence) -> list[Verdict]:
    """Return a verdict if the recording has failed, and one if inferences have stopped, or else an empty list."""
    if seen.progress.phase == "over":
        return []
    verdicts = []
    if seen.recording_trouble:
        verdicts.append(Verdict(State.NOT_RECORDING, "critical", (Told(seen.recording_trouble),)))
    if is_stalled(seen.progress, seen.longest_ns, seen.manifest):
        verdicts.append(Verdict(State.STALLED, "critical", (Overdue(seen.progress.silent_ns or 0),)))
    return verdicts


def _raised(seen: Evidence) -> Raised:
    return Raised(seen.errors, (seen.session.count if seen.session else 0) + seen.errors)


def _throttling(seen: Evidence) -> Iterator[Verdict]:
    """Yield a verdict if the board slows itself down, as the board reports or as a slowdown shows.

    A report of the board is enough, even if the latency did not rise.
    """
    limited = next((slowdown for slowdown in _open_slowdowns(seen) if _is_unreported(slowdown, seen)), None)
    now = _in_force(seen) or limited
    board = tuple(_board_now(seen.throttles))
    if (now and now.cause == "power-cap") and seen.power_limit:
        board = (PowerNow(seen.power_limit.now_w, seen.power_limit.limit_w), *board)
    if limited and limited.from_start:
        reasons = (SlowedBy(limited), *board)
        yield Verdict(State.THROTTLED_FROM_START, "critical", reasons, since_ns=limited.start_ns)
    elif now:
        yield Verdict(
            State.THROTTLING,
            "critical",
            (LimitedBy(now.cause), _lasts(now.start_ns, seen), *board),
            p50_change=_shown_change(seen),
            since_ns=now.start_ns,
        )


def _open_slowdowns(seen: Evidence) -> list[Slowdown]:
    """Return the slowdowns that still continue. A slowdown from the start of the session comes first."""
    return [slowdown for slowdown in seen.slowdowns.slowdowns if slowdown.end_ns is None]


def _is_unreported(slowdown: Slowdown, seen: Evidence) -> bool:
    """Whether the slowdown is a throttling that the board does not report.

    The result is False if the board reported the end of a throttling after the slowdown began.
    """
    spans = seen.throttles.spans
    is_reported = any(span.end_ns is not None and span.end_ns >= slowdown.start_ns for span in spans)
    return is_throttling(slowdown) and (slowdown.from_start or not is_reported)


def _in_force(seen: Evidence) -> ThrottleSpan | None:
    """Return the most serious throttling at present or, if the session is over, at its end. None without throttling."""
    spans = [span for span in seen.throttles.spans if span.end_ns is None or span.end_ns >= seen.until_ns]
    return min(spans, key=lambda span: GRAVEST_FIRST.index(span.cause), default=None)


def _board_now(throttles: ThrottlesView) -> Iterator[Reason]:
    if throttles.clock_mhz is not None:
        yield ClockNow(throttles.clock, throttles.clock_mhz, throttles.best_mhz)
    if throttles.temp_c is not None:
        yield TemperatureNow(throttles.temp_c, throttles.trip_c)


def _change(seen: Evidence) -> float | None:
    """Return the change of p50 since the first steady 30 s as a share (0.1 is 10 % slower), or None if unknown."""
    burst, p50_ns = seen.slowdowns.burst, seen.judged_p50_ns
    return None if burst is None or p50_ns is None else p50_ns / burst.p50_ns - 1


def _felt_change(seen: Evidence) -> float | None:
    """Return by how much inferences are slower than in the first steady 30 s, as a share, or None if unknown.

    The share is that of p50. If the process was stopped in the last seconds, the time lost by these stops is added.
    """
    change = _change(seen)
    return None if change is None else (1 + change) * seen.slowdowns.stop_ratio - 1


def _shown_change(seen: Evidence) -> float | None:
    """Return the change of the latency that a verdict shows, as a share (0.1 is 10 % slower).

    The change is that from the burst, the first steady 30 s, to the last seconds, because p50 of the last seconds
    stands beside it. The list of slowdowns has the change over the whole slowdown. The result is None if the change is
    unknown, or if the inputs have another size than in the burst and no slowdown was found.
    """
    return None if not _open_slowdowns(seen) and seen.input_growth != 1 else _felt_change(seen)


def _lasts(begin_ns: int, seen: Evidence) -> Lasts:
    return Lasts(max(0, seen.until_ns - begin_ns))


def _slower(seen: Evidence) -> Iterator[Verdict]:
    """Yield a verdict if other programs take the CPU, and one for each slowdown that no limit of the board explains.

    `_throttling` yields the verdict on the slowdowns that a limit of the board explains.
    """
    slowdowns, others = _open_slowdowns(seen), seen.slowdowns.contended_now
    change = _felt_change(seen)
    if change is not None and change < OVER:  # over, or an interruption: now it is not slow
        # That of a language model's prefill has a stream, and `change` is about the tokens that follow.
        slowdowns = [slowdown for slowdown in slowdowns if slowdown.from_start or slowdown.streams]
    contended = next((slowdown for slowdown in slowdowns if slowdown.cause == "contention"), None)
    if contended:
        who = others or next(iter(contended.evidence), None)
        named = (TakenBy(who),) if who else ()
        if contended.from_start:
            yield Verdict(State.CONTENDED_FROM_START, "warning", named, since_ns=contended.start_ns)
        else:
            reasons, change = (*named, _lasts(contended.start_ns, seen)), _shown_change(seen)
            yield Verdict(State.CONTENDED, "warning", reasons, p50_change=change, since_ns=contended.start_ns)
    elif others:
        known = change if seen.slowdowns.is_settled else None  # before, others may have slowed the burst too
        yield Verdict(State.CONTENDED, "warning", (TakenBy(others),), p50_change=known)
    explained = (*LIMITS, "unknown") if _in_force(seen) else ()  # THROTTLING says it already
    for slowdown in slowdowns:
        if slowdown.cause not in ("contention", *explained) and not _is_unreported(slowdown, seen):
            reasons = (_lasts(slowdown.start_ns, seen), SlowedBy(slowdown))
            change = _shown_change(seen)
            yield Verdict(State.SLOWED, "warning", reasons, p50_change=change, since_ns=slowdown.start_ns)


def _broken_promises(seen: Evidence) -> Iterator[Verdict]:
    """Yield a verdict if the load asks for more than the engine can run, and one if a gate is certain to fail."""
    overload = seen.overload
    if overload and not overload.is_over:
        hz, p50_ns, burst = (
            seen.manifest.load.stream_hz if seen.manifest else None, seen.recent.p50_ns, seen.slowdowns.burst
        )  # fmt: skip
        # One inference may take longer than the time to the next.
        is_same = p50_ns == seen.judged_p50_ns  # the burst of a language model is of its tokens
        cause = too_slow(p50_ns, 1e9 / hz, burst.p50_ns if burst and is_same else None) if hz and p50_ns else None
        why = (LateBecause(cause),) if cause else ()
        begin_ns = seen.overload_ns
        lasts = () if begin_ns is None else (_lasts(begin_ns, seen),)
        reasons = (Queueing(overload.asked_hz, overload.done_hz), *why, *lasts)
        yield Verdict(State.OVERLOADED, "critical", reasons, since_ns=begin_ns)
    if failing := next((gate for gate in seen.gates if gate.fails_for_sure), None):
        yield Verdict(State.GATE_EXCEEDED, "critical", (GatesFailed((failing,)),))


def _missing(seen: Evidence) -> Iterator[Verdict]:
    deadline, recent = seen.deadline, seen.recent
    if deadline and recent.misses and recent.misses >= WORTH_REPORTING * recent.count:
        why = (LateBecause(deadline.cause),) if deadline.cause else ()
        lasts = () if deadline.since_ns is None else (_lasts(deadline.since_ns, seen),)
        reasons = (*why, MissedNow(recent.misses / recent.count), *lasts)
        yield Verdict(State.MISSING_DEADLINE, "warning", reasons, since_ns=deadline.since_ns)


def _steadiness(seen: Evidence) -> Verdict:
    """Return the verdict for a session without troubles. Its state is STEADY only if there is enough evidence."""
    slowdowns = seen.slowdowns
    if seen.progress.is_program:
        named = (Told(seen.manifest.model.path),) if seen.manifest else ()
        return Verdict(State.RUNNING, "good", named)
    if not slowdowns.is_settled:
        return Verdict(State.MEASURING, "neutral" if seen.progress.phase == "over" else "good")
    if slowdowns.is_too_scattered:
        return Verdict(State.UNSETTLED, "warning", (Scatters(slowdowns.scatter or 0.0),))
    change = _change(seen)
    if change is None:
        return Verdict(State.UNSETTLED, "warning", (NothingRecent(),))
    if abs((1 + change) / slowdowns.size_ratio - 1) > SLOWER_SHARE and not (change < 0 and seen.input_growth < 1):
        return Verdict(State.UNSETTLED, "warning", (AwayFromBurst(change),))
    measured_ns = seen.progress.measured_ns
    ends = [*(span.end_ns for span in seen.throttles.spans), *(slowdown.end_ns for slowdown in slowdowns.slowdowns)]
    ends.append(None if measured_ns is None else seen.until_ns - measured_ns)
    return Verdict(State.STEADY, "good", since_ns=max((end_ns for end_ns in ends if end_ns is not None), default=None))


def _preparing(seen: Evidence) -> Verdict:
    progress = seen.progress
    if progress.phase == "idle" and progress.idle_ns:
        done = BaselineDone(min(progress.idle_done_ns, progress.idle_ns), progress.idle_ns)
        return Verdict(State.IDLE_BASELINE, "neutral", (done,))
    if progress.phase == "first" or progress.warmup_runs is None:
        return Verdict(State.WARMING_UP, "neutral", (FirstInference(),))
    runs = WarmupDone(min(progress.warmup_done or 0, progress.warmup_runs), progress.warmup_runs)
    also = (Verdict(State.THROTTLING, "critical"),) if _in_force(seen) else ()
    return Verdict(State.WARMING_UP, "neutral", (runs,), also)


EXIT_STATUS = "exit-status-"  # how a program that was watched ended, before the number
GATE_ENDED = "slo"  # how a gate ends a session: `end_reason`
ROTATED = "rotated"  # the run goes on in the next session
FINAL: dict[str, tuple[State, Level]] = {
    "duration": (State.FINISHED, "good"),
    "runs": (State.FINISHED, "good"),
    "exit": (State.FINISHED, "good"),
    "resolved": (State.FINISHED, "good"),
    ROTATED: (State.FINISHED, "good"),
    "user": (State.STOPPED, "neutral"),
    "signal": (State.STOPPED, "neutral"),
    "writer-killed": (State.CUT_SHORT, "warning"),
    "power-loss": (State.CUT_SHORT, "warning"),
    "disk-full": (State.CUT_SHORT, "critical"),
}
DIED = "engine-died"  # how a session ends whose engine or watched program died
_UNTOLD: dict[str, State] = {DIED: State.ENGINE_DIED, GATE_ENDED: State.GATE_FAILED}


def _final(seen: Evidence) -> Verdict:
    """Return the verdict on a session that is over: how it ended, in which state, and its past troubles."""
    reason, end_error = seen.progress.end_reason or "", seen.progress.end_error
    failed = tuple(gate for gate in seen.gates if not gate.ok)
    if reason == GATE_ENDED or (failed and reason in ("duration", "runs", "resolved")):
        ended = Verdict(State.GATE_FAILED, "critical", (Told(end_error) if end_error else GatesFailed(failed),))
    else:
        ended = final_verdict(reason, end_error, seen.manifest.watched if seen.manifest else None)
    if reason == DIED and (rose := _memory_rose(seen)):
        ended = replace(ended, reasons=(*ended.reasons, rose))
    held, found = _measuring(seen), list(_past(seen))
    gist = next((trouble for trouble in found if not isinstance(trouble, Leaked)), None)
    past = found
    if failed and ended.state is not State.GATE_FAILED:
        past = [GatesFailed(failed[:1]), *found]
    past = past or [EndedAs(held.state, held.reasons[0] if held.reasons else None)]
    is_doubtful = ended.level == "good" and held.state not in (State.STEADY, State.MEASURING, State.RUNNING)
    return replace(
        ended,
        level="warning" if is_doubtful else ended.level,
        past=tuple(past),
        at_end=ended.state if ended.level == "critical" else held.state,
        at_end_because=() if ended.level == "critical" else held.reasons,
        since_ns=held.since_ns,
        gist=gist if ended.state in (State.FINISHED, State.STOPPED) else None,
    )


# Rise of the engine's memory that is reported with its death, as a share of what it held once it ran. Choice: heaps
# fluctuate by less. Larger: a leak that killed the engine is not named; smaller: usual growth is named.
ROSE = 0.3
_RUNNING_STAGES = ("steady", "first", "model")  # the last known one tells what the engine held once it ran


def _memory_rose(seen: Evidence) -> MemoryRose | None:
    """Return by how much the engine's memory had risen when the engine died, or None if it had not risen much."""
    rss, held = seen.rss, {one.stage: one.rss_mib for one in seen.stages}
    if rss is None or rss.value is None:
        return None
    begun = next((held[stage] for stage in _RUNNING_STAGES if stage in held), rss.min)
    if begun is None or rss.value < (1 + ROSE) * begun:
        return None
    return MemoryRose(begun, rss.value)


def final_verdict(end_reason: str, end_error: str | None = None, watched: Watched | None = None) -> Verdict:
    """Return the verdict on how a session ended, from its manifest alone.

    `end_reason`: the reason why it ended, such as "duration". `end_error`: the error that killed the engine, or the
    gate that ended the session; None if unknown. `watched`: the watched program; None if no program was watched.
    """
    name = watched.name if watched else ""
    if end_reason == DIED and watched:
        return Verdict(State.PROGRAM_DIED, "critical", (DiedOf(name, end_error) if end_error else EndedBy(DIED),))
    told: Reason = Told(end_error) if end_error else EndedBy(end_reason)
    if end_reason in FINAL:
        state, level = FINAL[end_reason]
        return Verdict(state, level, (EndedBy(end_reason),))
    if end_reason.startswith(EXIT_STATUS):
        return Verdict(State.ENDED, "warning", (ExitStatus(end_reason.removeprefix(EXIT_STATUS), name),))
    return Verdict(_UNTOLD.get(end_reason, State.ENDED), "critical", (told,))


def with_ab(verdict: Verdict, view: AbView | None, progress: ProgressView) -> Verdict:
    """Return the verdict on an A/B session: `verdict` with the difference between A and B.

    The difference is the first reason. If the session still runs and has a problem, the difference is one more entry of
    `also` instead. `view`: the comparison of A and B. If it is None (any other session), or if nothing was measured
    yet, `verdict` is returned unchanged.
    """
    if view is None or progress.phase not in ("measure", "over"):
        return verdict
    difference = AbDifference(view.ratios["p50"], view.smallest["p50"])
    if progress.phase == "over":
        is_plain = verdict.at_end in UNDISTURBED
        return replace(
            verdict,
            reasons=(difference, *verdict.reasons),
            past=() if is_plain else verdict.past,
            gist=difference if difference.ratio else verdict.gist,
            level="good" if is_plain and verdict.level == "warning" else verdict.level,
        )
    if verdict.state in UNDISTURBED:
        return Verdict(
            State.AB, "neutral", (difference, AbTurn(view.turn(progress.now_ns))), verdict.also, verdict.past
        )
    return replace(verdict, also=(Verdict(State.AB, "neutral", (difference,)), *verdict.also))


def _past(seen: Evidence) -> Iterator[Past]:
    """Yield the past troubles, the most serious first. If the session is over, its last troubles are past, too."""
    is_over, overload = seen.progress.phase == "over", seen.overload
    if seen.fault and is_over:
        yield FaultFound(seen.fault)
    throttled = _throttled_before(seen, is_over=is_over)
    if throttled:
        yield throttled
    if overload and (is_over or overload.is_over):
        yield WasOverloaded(overload.asked_hz, overload.done_hz)
    slowed = _slowed_before(seen, is_over=is_over)
    yield from slowed
    if seen.errors and (is_over or not seen.recent.errors):
        yield _raised(seen)
    deadline = seen.deadline
    if deadline and deadline.is_missed:
        is_explained = bool(throttled or slowed or overload or (not is_over and seen.recent.misses))
        yield MissedDeadline(deadline.ms, deadline.miss_rate, deadline.cause, is_explained)
    if is_over and seen.growth.is_leak and seen.growth.mib_per_h:
        yield Leaked(seen.growth)


def _throttled_before(seen: Evidence, *, is_over: bool) -> WasThrottled | None:
    """Return the past throttling, or None if there was none.

    Throttling is taken from the board's own reports. Without such reports, it is taken from the slowdowns that
    throttling caused. `is_over`: whether the session is over, so that a throttling at its end is past, too.
    """
    throttles = seen.throttles
    found: Sequence[ThrottleSpan | Slowdown]
    found = spans = [span for span in throttles.spans if is_over or span.end_ns is not None]
    times, share = throttles.total - (len(throttles.spans) - len(spans)), throttles.share
    if not spans:
        found = by_clock = [one for one in _slowdowns_before(seen, is_over=is_over) if is_throttling(one)]
        times, share = len(by_clock), _share(seen, by_clock)
    if not found:
        return None
    # It may have throttled in the warm-up, or earlier, alone.
    is_before = bool(throttles.spans) and throttles.measured_ns > 0 and not throttles.measured_total
    return WasThrottled(times, tuple(dict.fromkeys(one.cause for one in found)), share, is_before)


def _slowed_before(seen: Evidence, *, is_over: bool) -> list[WasSlowed]:
    found: dict[State, list[Slowdown]] = {}
    for slowdown in _slowdowns_before(seen, is_over=is_over):
        if not is_throttling(slowdown):
            state = State.CONTENDED if slowdown.cause == "contention" else State.SLOWED
            found.setdefault(state, []).append(slowdown)
    troubles = []
    for state, slowdowns in found.items():
        times, share = len(slowdowns), _share(seen, slowdowns)
        if state is State.CONTENDED:
            who = next((slowdown.evidence[0] for slowdown in slowdowns if slowdown.evidence), None)
            troubles.append(WasSlowed(state, times, share, who=who))
        else:
            causes = tuple(dict.fromkeys(slowdown.cause for slowdown in slowdowns))
            troubles.append(WasSlowed(state, times, share, causes))
    return troubles


def _slowdowns_before(seen: Evidence, *, is_over: bool) -> list[Slowdown]:
    return [slowdown for slowdown in seen.slowdowns.slowdowns if is_over or slowdown.end_ns is not None]


def _share(seen: Evidence, slowdowns: Sequence[Slowdown]) -> float | None:
    measured_ns, now_ns = seen.progress.measured_ns, seen.until_ns
    if not measured_ns:
        return None
    total_ns = sum((now_ns if s.end_ns is None else s.end_ns) - s.start_ns for s in slowdowns)
    return min(1.0, max(0.0, total_ns / measured_ns))
