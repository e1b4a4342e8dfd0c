"""What to try against a problem, in a few words for the second line of a screen."""

from collections.abc import Mapping

from edgetop.analysis import verdict_reasons as why
from edgetop.analysis.deadline import TOO_SLOW
from edgetop.analysis.verdict_data import Verdict
from edgetop.analysis.verdict_reasons import State
from edgetop.formatting import rate, size
from edgetop.wording.ab_words import choice_words
from edgetop.wording.memory_words import leak_ends

_OF_CAUSE: Mapping[str, str] = {
    "thermal": "cool the board, or lower the load",
    "power-cap": "a higher power mode, or less load",
    "under-voltage": "a stronger supply, a better cable",
    "cpu-quota": "a higher CPU quota for its cgroup",
    "memory-pressure": "free memory, or a smaller model",
    "clock-change": "fixed clocks (edgetop doctor)",
    "contention": "stop the other program, or pin CPUs",
}
_CONTENDED = (State.CONTENDED, State.CONTENDED_FROM_START)
_LEAK = "look for a leak, or give more memory"
_MORE_MEMORY = "more memory, or a smaller model"
_OF_STATE: Mapping[State, str] = {
    State.STALLED: "see its last events (5), or stop it (Q)",
    State.FAILING: "see its errors in the events (5)",
    State.ENGINE_DIED: "see its last events (5)",
    State.NOT_RECORDING: "free disk space, or record elsewhere",
}


def remedy_words(verdict: Verdict) -> str:
    """Return what to try against the present problem. Return "" if there is no problem, or no known remedy.

    >>> remedy_words(Verdict(State.THROTTLING, "critical", (why.LimitedBy("thermal"),)))
    'cool the board, or lower the load'
    >>> remedy_words(Verdict(State.STEADY, "good"))
    ''
    """
    reasons = (*verdict.reasons, verdict.gist) if isinstance(verdict.gist, why.AbDifference) else verdict.reasons
    leaks = [reason for reason in reasons if isinstance(reason, why.MemoryRose)]  # says more than how it died
    found = (_of_reason(reason, verdict.state) for reason in (*leaks, *reasons))
    if words := next(filter(None, found), ""):
        return words
    return _OF_CAUSE["contention"] if verdict.state in _CONTENDED else _OF_STATE.get(verdict.state, "")


def _of_reason(reason: why.Reason, state: State) -> str:  # noqa: C901, PLR0911  a text for each reason
    match reason:
        case why.LimitedBy(cause):
            return _OF_CAUSE.get(cause, "")
        case why.SlowedBy(slowdown) if slowdown.evidence and slowdown.evidence[0].kind == "process-memory":
            taker = slowdown.evidence[0]
            return f"end {taker.name} (it took {size((taker.usual or 0.0) * 2**20)})"
        case why.SlowedBy(slowdown):
            return _OF_CAUSE.get(slowdown.cause, "")
        case why.TakenBy(clue) if clue.kind in ("process", "process-now"):
            return f"stop {clue.name}, or pin CPUs"
        case why.Queueing(_, done_hz):
            return f"at most {rate(done_hz)} Hz, or a faster model"
        case why.MemoryFull(growth) if state is State.LEAKING:
            return f"a restart (memory is {leak_ends(growth)})"
        case why.MemoryRose():
            return _LEAK
        case why.DiedOf(_, cause) if "memory" in cause:
            return _MORE_MEMORY
        case why.Told(text) if state is State.ENGINE_DIED and "out of memory" in text:
            return _MORE_MEMORY
        case why.LateBecause(cause=miss) if miss.name == TOO_SLOW:
            return "a longer deadline, or a faster model"
        case why.AbDifference(ratio):
            so_far = " so far" if state is State.AB and ratio and ratio.verdict != "unknown" else ""
            return f"{choice_words(ratio)}{so_far}"
    return ""
