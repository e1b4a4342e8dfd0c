"""The verdict: the one line that says in words how the session is doing.

Of several things that hold at once the gravest gives the word, and of equally grave ones the cause before what
comes of it: a board that throttles is overloaded because it throttles. The others stand beside it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.events import EventsView
from edgetop.analysis.gates import GateResult
from edgetop.analysis.growth import GrowthView, leak_rate
from edgetop.analysis.load_words import misses_words, overload_words
from edgetop.analysis.overload import OverloadView
from edgetop.analysis.progress import ProgressView
from edgetop.analysis.slowdowns.judgement import SlowdownsView
from edgetop.analysis.slowdowns.words import FROM_START, SLOWED, THROTTLED, since, word
from edgetop.analysis.statistics import Statistics
from edgetop.session.manifest import Manifest

Level = Literal["good", "neutral", "warning", "critical"]

STALLED_AFTER_NS = 5_000_000_000
STALLED_AFTER_LATENCIES = 10  # a slow model is not a stalled one

OVERLOADED, GATE_FAILED, MISSES, LEAKING = "OVERLOADED", "GATE FAILED", "MISSES", "LEAKING"
GRAVEST_FIRST = (FROM_START, THROTTLED, OVERLOADED, GATE_FAILED, SLOWED, MISSES, LEAKING)


@dataclass(frozen=True, slots=True)
class Verdict:
    word: str  # "MEASURING", "WARMING UP" ...: enough on its own
    level: Level
    silent_ns: int | None = None  # with STALLED
    reason: str = ""  # in words, where there is more to say
    also: str = ""  # a warning that stands beside it


@dataclass(frozen=True, slots=True)
class Promises:
    """What was asked of the session, and how far it is kept."""

    overload: OverloadView | None = None
    deadline: DeadlineView | None = None
    gates: tuple[GateResult, ...] = ()


KEPT = Promises()


def judge(
    progress: ProgressView,
    session: Statistics | None,
    errors: int,
    events: EventsView,
    manifest: Manifest | None,
    slowdowns: SlowdownsView,
    recording_trouble: str = "",
    promises: Promises = KEPT,
) -> Verdict:
    """`session`: of the whole session, whatever the views begin at; `errors`: how many inferences raised in it.

    `recording_trouble`: why nothing is recorded just now.
    """
    if progress.phase == "over":
        final = _final(progress, promises)
        return replace(final, also=", ".join(_remembered(final, slowdowns, promises)))
    if recording_trouble:
        return Verdict("NOT RECORDING", "critical", reason=recording_trouble)
    if progress.phase == "loading":
        return Verdict("LOADING", "neutral", reason=manifest.model.path if manifest else "")
    if is_stalled(progress, session.max_ns if session else None, manifest):
        return Verdict("STALLED", "critical", progress.silent_ns, "an inference has not come back")
    if progress.phase in ("first", "idle", "warmup"):
        return _preparing(progress)
    count = session.count if session else 0
    return _measuring([*_broken(count, errors, events), *_slower(slowdowns), *_not_kept(promises)], slowdowns)


def _measuring(found: list[Verdict], slowdowns: SlowdownsView) -> Verdict:
    if not found:
        return Verdict("STEADY" if slowdowns.is_settled else "MEASURING", "good")
    first, *others = sorted(found, key=lambda verdict: verdict.level != "critical")
    return replace(first, also=", ".join(verdict.word for verdict in others))


def _broken(count: int, errors: int, events: EventsView) -> Iterator[Verdict]:
    dropped = [event for event in events.lasting if event.kind == "provider-dropped"]
    if dropped:
        yield Verdict("PROVIDER DROPPED", "critical", reason=dropped[0].message)
    if errors:
        yield Verdict("FAILING", "critical", reason=f"{errors} of {count + errors} inferences raised an error")


def _slower(slowdowns: SlowdownsView) -> Iterator[Verdict]:
    if slowdowns.now:
        what = word(slowdowns.now)
        yield Verdict(what, "warning" if what == SLOWED else "critical", reason=since(slowdowns.now))


def _not_kept(promises: Promises) -> Iterator[Verdict]:
    """Whether the load is carried, each gate passed so far and the deadline met."""
    overload, deadline = promises.overload, promises.deadline
    if overload and not overload.is_over:
        yield Verdict(OVERLOADED, "critical", reason=overload_words(overload.asked_hz, overload.done_hz))
    failed = [gate for gate in promises.gates if gate.fails_for_sure]
    if failed:
        yield Verdict("GATE", "critical", reason=failed[0].reason)
    if deadline and deadline.is_missed:
        words = misses_words(deadline.miss_rate, deadline.deadline_ns / 1e6)
        yield Verdict(MISSES, "warning", reason=words)


def _preparing(progress: ProgressView) -> Verdict:
    if progress.phase == "idle" and progress.idle_ns:
        done_ns = min(progress.idle_done_ns, progress.idle_ns)
        told = f"{done_ns / 1e9:.0f} of {progress.idle_ns / 1e9:.0f} s, in which nothing runs"
        return Verdict("IDLE BASELINE", "neutral", reason=told)
    if progress.phase == "first" or progress.warmup_runs is None:
        return Verdict("WARMING UP", "neutral", reason="first inference")
    told = f"{min(progress.warmup_done or 0, progress.warmup_runs)}/{progress.warmup_runs}"
    return Verdict("WARMING UP", "neutral", reason=told)


def is_stalled(progress: ProgressView, longest_ns: int | None, manifest: Manifest | None) -> bool:
    """`longest_ns`: of the latencies so far; None: there was none."""
    if progress.silent_ns is None or progress.phase not in ("warmup", "measure"):
        return False
    first_ns = manifest.engine.first_ns if manifest else None
    usual = first_ns or 0 if longest_ns is None else longest_ns
    rest_ns = manifest.load.longest_rest_ns if manifest else 0
    return progress.silent_ns > max(STALLED_AFTER_NS, STALLED_AFTER_LATENCIES * usual) + rest_ns


def with_leak(verdict: Verdict, growth: GrowthView) -> Verdict:
    """The verdict with the warning beside it that memory is lost, where it is."""
    rate = leak_rate(growth)
    also = [verdict.also, f"{LEAKING} {rate}" if rate else ""]
    return replace(verdict, also=", ".join(filter(None, also)))


GATE_ENDED = "slo"  # how a gate ends a session: `end_reason`
_FINAL = {
    "duration": ("FINISHED", "good", "the duration is over"),
    "runs": ("FINISHED", "good", "all runs are done"),
    "user": ("STOPPED", "neutral", "by the user"),
    "signal": ("STOPPED", "neutral", "by a signal"),
    "writer-killed": ("CUT SHORT", "warning", "edgetop was killed"),
    "power-loss": ("CUT SHORT", "warning", "the power was lost"),
}


def _final(progress: ProgressView, promises: Promises) -> Verdict:
    reason = progress.end_reason or ""
    failed = [gate.reason for gate in promises.gates if not gate.ok]
    if reason == GATE_ENDED or (failed and reason in ("duration", "runs")):
        return Verdict(GATE_FAILED, "critical", reason=progress.end_error or "; ".join(failed))
    return final_verdict(reason, progress.end_error)


def _remembered(final: Verdict, slowdowns: SlowdownsView, promises: Promises) -> list[str]:
    """What was true of a session at some time, where that may have passed by its end."""
    words = {word(slowdown) for slowdown in slowdowns.slowdowns}
    if promises.overload:
        words.add(OVERLOADED)
    if any(not gate.ok for gate in promises.gates):
        words.add(GATE_FAILED)
    if promises.deadline and promises.deadline.is_missed:
        words.add(MISSES)
    return in_order(words - {final.word})


def in_order(words: Collection[str]) -> list[str]:
    """The words that are true of a session, the gravest first, on the screen and in the report."""
    return [what for what in GRAVEST_FIRST if what in words and (what != THROTTLED or FROM_START not in words)]


def final_verdict(end_reason: str, end_error: str | None = None) -> Verdict:
    """Of a session that is over, which its manifest is enough for.

    `end_error`: what the engine died of or which gate ended it, if known.
    """
    if end_reason in _FINAL:
        word, level, text = _FINAL[end_reason]
        return Verdict(word, level, reason=text)  # type: ignore[arg-type]
    if end_reason == GATE_ENDED:
        return Verdict(GATE_FAILED, "critical", reason=end_error or "a gate ended it")
    if end_reason == "engine-died":
        return Verdict("ENGINE DIED", "critical", reason=end_error or "cause unknown")
    return Verdict("ENDED", "critical", reason=end_error or end_reason)
