"""Joins the verdicts on the streams of a session to the verdict on the session.

The session has the most serious state of any stream, and names the streams in this state. A stream without troubles is
ignored if it hardly runs, or if the program does not call it at present.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from edgetop.analysis.verdict import UNDISTURBED
from edgetop.analysis.verdict_data import Level, Verdict
from edgetop.analysis.verdict_reasons import (
    EndedAs,
    FaultFound,
    GatesFailed,
    Leaked,
    MissedDeadline,
    NothingRecent,
    OfStreams,
    Past,
    Raised,
    State,
    WasOverloaded,
    WasSlowed,
    WasThrottled,
)
from edgetop.frozen import frozen

# Share of the time of all inferences below which a stream is too rare to make the session unsettled. Choice: at a
# twentieth of the time, a stream that doubles its latency costs the program as much as noise does. Larger: a real
# model is ignored; smaller: a model that hardly runs keeps the session unsettled.
MINOR_SHARE = 0.05
LEVELS: tuple[Level, ...] = ("critical", "warning", "neutral", "good")
# States of single streams. All other states are those of the board or the session, and so of all streams.
OF_STREAM = frozenset(
    {
        State.FAILING, State.CONTENDED_FROM_START, State.CONTENDED, State.SLOWED, State.MISSING_DEADLINE,
        State.THROTTLED_FROM_START, State.THROTTLING, State.UNSETTLED,
    }
)  # fmt: skip
# The most serious first. In `State`, states before these come before a measurement, and those behind them after it.
_STATES = list(State)
_ORDER = [*_STATES[_STATES.index(State.INTERNAL_ERROR) :], State.UNSETTLED, State.MEASURING, State.STEADY]
_ORDER += [state for state in State if state not in _ORDER]
_PAST = (GatesFailed, FaultFound, WasThrottled, WasOverloaded, WasSlowed, Raised, MissedDeadline, Leaked, EndedAs)


@frozen
class Judged:
    """The verdict on one stream, with the stream's name and its share (0 to 1) of the time of all inferences."""

    name: str
    share: float  # Share of the time of all inferences.
    verdict: Verdict


def join_verdicts(judged: Sequence[Judged]) -> Verdict:
    """Return the verdict on the whole session from the verdicts on its streams.

    Raises ValueError if `judged` is empty.
    """
    relevant = [one for one in judged if not _is_ignored(one)] or [max(judged, key=lambda one: one.share)]
    first, *others = _by_gravity(relevant)
    past = sorted(_past(relevant), key=lambda one: _PAST.index(type(_trouble(one))))
    gists = [one.verdict.gist for one in relevant if one.verdict.gist is not None]
    troubles = (one for one in past if not isinstance(_trouble(one), GatesFailed | Leaked | EndedAs))
    ends = [one.verdict for one in relevant if one.verdict.at_end is not None]
    gravest = min(ends, key=lambda verdict: _ORDER.index(verdict.now), default=None)
    return replace(
        first,
        also=tuple(others),
        past=tuple(past),
        at_end=gravest.at_end if gravest else None,
        at_end_because=gravest.at_end_because if gravest else (),
        level=min((one.verdict.level for one in relevant), key=LEVELS.index),
        gist=next(troubles, None) if gists else None,
    )


def _is_ignored(one: Judged) -> bool:
    verdict = one.verdict
    if (verdict.at_end or verdict.state) not in UNDISTURBED or verdict.also:
        return False
    is_idle = any(isinstance(reason, NothingRecent) for reason in verdict.reasons)
    ended_idle = any(isinstance(past, EndedAs) and isinstance(past.reason, NothingRecent) for past in verdict.past)
    has_past = any(not isinstance(past, EndedAs) for past in verdict.past)
    return not has_past and (one.share < MINOR_SHARE or is_idle or ended_idle)


def _by_gravity(judged: Sequence[Judged]) -> list[Verdict]:
    """Return one verdict for each present state, the most serious first, with the names of its streams."""
    found: dict[State, list[tuple[str, Verdict]]] = {}
    for one in judged:
        for verdict in (replace(one.verdict, also=()), *one.verdict.also):
            found.setdefault(verdict.state, []).append((one.name, verdict))
    if len(found) > 1:  # Streams without trouble are not named beside a stream with trouble.
        troubles = {state: of for state, of in found.items() if state not in UNDISTURBED}
        doubts = {state: found[state] for state in (State.UNSETTLED, State.MEASURING) if state in found}
        found = troubles or dict(list((doubts or found).items())[:1])
    joined = [_joined(state, of) for state, of in found.items()]
    return sorted(joined, key=lambda verdict: (LEVELS.index(verdict.level), _ORDER.index(verdict.state)))


def _joined(state: State, of: Sequence[tuple[str, Verdict]]) -> Verdict:
    """Return one verdict for several streams in the same state: that of the stream that slowed down most.

    `of`: `(name, verdict)` for each of these streams. The result has their names if the state is one of OF_STREAM,
    which concern single streams and not the board.
    """
    ordered = sorted(of, key=lambda pair: -(pair[1].p50_change or 0.0))
    begins = [verdict.since_ns for _, verdict in of if verdict.since_ns is not None]
    names = tuple(dict.fromkeys(name for name, _ in ordered)) if state in OF_STREAM else ()
    return replace(ordered[0][1], streams=names, since_ns=min(begins, default=None))


def _past(judged: Sequence[Judged]) -> Iterator[Past]:
    """Yield the troubles that are over.

    A trouble of the whole board is yielded once. A trouble of certain streams has the names of these streams.
    """
    pairs = [(one.name, past) for one in judged for past in one.verdict.past]
    is_troubled = any(not isinstance(past, EndedAs) for _, past in pairs)
    ends = {past.state for _, past in pairs if isinstance(past, EndedAs)}
    same: dict[object, list[tuple[str, Past]]] = {}
    for name, past in pairs:
        if isinstance(past, WasSlowed):  # Slowdowns of one cause count as one, however long each stream was slow.
            same.setdefault((past.state, past.causes, past.who), []).append((name, past))
        elif not isinstance(past, EndedAs):
            same.setdefault(past, []).append((name, past))
        elif not is_troubled:
            same.setdefault(past if len(ends) > 1 else past.state, []).append((name, past))
    for found in same.values():
        past = found[0][1]
        if isinstance(past, EndedAs) and len(ends) == 1:
            yield EndedAs(past.state)
        elif isinstance(past, WasSlowed | MissedDeadline | Raised | EndedAs):
            yield OfStreams(tuple(name for name, _ in found), past)
        else:
            yield past


def _trouble(past: Past) -> Past:
    return past.trouble if isinstance(past, OfStreams) else past
