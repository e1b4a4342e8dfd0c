"""What was judged of a session up to some moment, for a viewer to whom the past before it comes too coarse to judge.

The moment is a quiet one: no change is half decided. So little has to be handed over
that a viewer who goes on from it finds what the board itself does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.analysis.event_index import EVIDENCE_S
from edgetop.analysis.slowdowns import noise
from edgetop.analysis.slowdowns.baseline import Baseline
from edgetop.analysis.slowdowns.causes import CAUSES, Channel
from edgetop.analysis.slowdowns.contention import OPENING_S, RECENT_S, TOLD, Contention
from edgetop.analysis.slowdowns.detector import INTERRUPTION_S, KEPT_POINTS, KEPT_WINDOWS, RISE_S
from edgetop.analysis.slowdowns.evidence import Evidence
from edgetop.analysis.slowdowns.from_start import Limited
from edgetop.analysis.slowdowns.judgement import KEPT, KEPT_ROWS, Judgement, Slowdown
from edgetop.analysis.slowdowns.plain import built, plain
from edgetop.analysis.slowdowns.span import CHECKED, Span
from edgetop.analysis.slowdowns.stages import DEEPEST, Stage, Stages
from edgetop.analysis.slowdowns.windows import ENOUGH, POINT, WINDOW
from edgetop.session.seconds import NS, SECOND

VERSION = 3
LOOKED_BACK_S = RISE_S + 5  # behind the windows that are kept
MOST_LEVEL = 100_000_000  # a hundred nepers


@dataclass(frozen=True, slots=True)
class _Open:
    span: Span
    stage: Stage
    below: list[Stage]
    over: Stage | None


@dataclass(frozen=True, slots=True)
class _ExportedState:
    version: int
    until_s: int
    opening_s: int
    limited: Limited | None
    limited_to_s: int | None
    baseline: Baseline | None
    ended_s: int
    levels: list[int]  # of the noise
    since: int
    sigma: float
    closed: list[Slowdown]
    closed_count: int
    open: _Open | None
    contention: Contention
    is_anew: bool


def is_quiet(judgement: Judgement) -> bool:
    """Whether it can be handed over as it is."""
    detector, stages = judgement.detector, judgement.stages
    if not judgement.is_opened or len(judgement.waiting):
        return False
    if judgement.limited and judgement.limited_to_s is None:
        return True
    is_decided = stages is None or stages.change is None
    return detector.baseline is not None and detector.calm_from is None and is_decided


def export_state(judgement: Judgement) -> dict[str, Any]:
    """Of a quiet one, as a JSON document."""
    detector, stages, span = judgement.detector, judgement.stages, judgement.detector.open
    assert judgement.opening_s is not None
    going_on = None
    if span and stages:
        going_on = _Open(span, stages.stage, list(stages.below), stages.over)
    state = _ExportedState(
        VERSION, judgement.until_s, judgement.opening_s, judgement.limited, judgement.limited_to_s,
        detector.baseline, detector.ended_s, detector.noise.levels.tolist(), detector.noise.since,
        detector.noise.sigma, list(judgement.closed), judgement.closed_count, going_on,
        judgement.contention, judgement.is_anew,
    )  # fmt: skip
    windows, points = detector.kept_windows, detector.kept_points
    if len(windows):  # none before is looked at again
        points = points[points["second"] >= windows["begin_s"][0] - LOOKED_BACK_S]
    tables = (judgement.burst_rows, windows, points, judgement.cutter.pending)
    return {"state": plain(state), "tables": [plain(table.tolist()) for table in tables]}


def import_state(document: Mapping[str, Any], channels: tuple[Channel, ...], until_ns: int) -> Judgement:
    """What was handed over, to go on from. Raises ValueError where it cannot be true, or is of another version.

    `until_ns`: how far the session has come.
    """
    state = built(_ExportedState, document.get("state"))
    tables: Any = document.get("tables")
    _require(state.version == VERSION and isinstance(tables, list) and len(tables) == 4)
    _require(0 <= state.opening_s <= state.until_s <= until_ns // NS and len(state.closed) <= KEPT)
    _require(state.closed_count >= len(state.closed) and state.sigma >= noise.LEAST)
    _require(len(state.levels) <= noise.KEPT and 0 <= state.since < noise.EVERY)
    _require(_are_levels(state.levels) and (state.baseline is None or state.baseline.error >= 0))
    _require(state.ended_s == 0 or 0 < state.ended_s <= state.until_s - INTERRUPTION_S)
    _require(state.limited_to_s is None or 0 <= state.limited_to_s <= state.until_s)
    _require(_is_contention(state.contention, state.opening_s, state.until_s))
    _require(not state.is_anew or state.contention.over_s is not None)
    _require(all(_is_over(slowdown, state.until_s) for slowdown in state.closed))
    judgement = Judgement(
        until_s=state.until_s, opening_s=state.opening_s, is_opened=True, limited=state.limited,
        limited_to_s=state.limited_to_s, contention=state.contention, is_anew=state.is_anew,
        closed=tuple(state.closed), closed_count=state.closed_count,
    )  # fmt: skip
    detector = judgement.detector
    detector.baseline, detector.ended_s = state.baseline, state.ended_s
    detector.noise.levels = np.array(state.levels, np.int64)
    detector.noise.since = state.since
    detector.noise.restore(state.sigma)
    judgement.burst_rows = _table(tables[0], SECOND, KEPT_ROWS, state.until_s * NS)
    judgement.cutter.pending = _table(tables[3], SECOND, ENOUGH, state.until_s * NS)
    detector.kept_windows = _table(tables[1], WINDOW, KEPT_WINDOWS, state.until_s)
    detector.kept_points = _table(tables[2], POINT, KEPT_POINTS, state.until_s)
    if state.open:
        detector.spans = [_span(state.open.span, state.until_s)]
        judgement.stages = _stages(state.open, channels, state.until_s)
    return judgement


def _is_contention(of: Contention, opening_s: int, until_s: int) -> bool:
    are_sums = set(of.sums) <= set(TOLD) and all(of.counts.get(kind, 0) > 0 for kind in of.sums)
    is_counted = 0 <= of.contended_s <= of.seconds <= until_s and 0 <= of.free_s <= until_s
    is_ended = of.over_s is None or (of.from_start and opening_s <= of.over_s <= until_s)
    is_opened = 0 <= of.opening_s <= OPENING_S and 0 <= of.recent < 1 << RECENT_S
    return (
        are_sums and is_counted and is_ended and is_opened and abs(of.level_sum) <= max(of.level_count, 0) * MOST_LEVEL
    )


def _is_over(slowdown: Slowdown, until_s: int) -> bool:
    is_in_time = slowdown.end_ns is not None and 0 <= slowdown.start_ns <= slowdown.end_ns <= until_s * NS
    return (
        is_in_time and 0 <= slowdown.confidence <= 1 and (slowdown.latency_ratio is None or slowdown.latency_ratio > 0)
    )


def _span(span: Span, until_s: int) -> Span:
    _require(0 <= span.after_s <= span.start_s <= until_s and 0 <= span.rise_s <= span.start_s)
    _require(0 <= span.slack_s <= until_s)
    _require(span.end_s is None and not span.new_slow and span.sigma >= noise.LEAST and span.slow > 0)
    _require(_are_levels(span.recent) and _are_levels(span.first) and len(span.first) <= CHECKED)
    return span


def _stages(given: _Open, channels: tuple[Channel, ...], until_s: int) -> Stages:
    _require(len(given.below) <= DEEPEST)
    _require(all(until_s - EVIDENCE_S <= of.looked_s <= until_s for of in given.stage.candidates) or not channels)
    for stage in (given.stage, *given.below, *([given.over] if given.over else [])):
        _require(stage.slow > 0 and abs(stage.level_sum) <= stage.slow * MOST_LEVEL and _are_levels(stage.recent))
        _require(len(stage.candidates) in (1, 2) and len(stage.recent) > 0)
        for evidence in stage.candidates:
            _require(_is_evidence(evidence, len(channels)))
            evidence.channels = channels
    span = given.span
    return Stages(span.sigma, span.slack_s, given.stage, tuple(given.below), given.over)


def _is_evidence(of: Evidence, channels: int) -> bool:
    is_counted = all(0 <= seconds <= of.seconds for seconds in (*of.explained.values(), of.stood))
    are_tallied = all(0 <= tally.beyond <= tally.known <= of.seconds for tally in of.tallies)
    are_whole = len(of.tallies) == channels and set(of.explained) == set(CAUSES)
    return is_counted and are_tallied and are_whole and abs(of.floor) <= MOST_LEVEL


def _table(rows: Any, dtype: np.dtype[np.void], most: int, until: int) -> npt.NDArray[np.void]:
    """Times that are in order and before `until`, levels that can be."""
    _require(isinstance(rows, list) and len(rows) <= most)
    names = dtype.names or ()
    table = np.zeros(len(rows), dtype)
    for place, row in enumerate(rows):
        _require(isinstance(row, list) and len(row) == len(names))
        _require(all(type(value) in (int, float) for value in row))
        try:
            table[place] = tuple(row)
        except (TypeError, OverflowError):
            raise ValueError("a row that cannot be") from None
    if "level" in names:
        _require(_are_levels(table["level"].tolist()))
    time = table[names[0]]
    _require(bool((np.diff(time) >= 0).all()) and bool(((time >= 0) & (time < until)).all()))
    if "end_s" in names:
        _require(bool(((table["end_s"] > time) & (table["end_s"] <= until)).all()))
    return table


def _are_levels(levels: Iterable[int]) -> bool:
    return all(abs(level) <= MOST_LEVEL for level in levels)


def _require(claim: bool) -> None:
    if not claim:
        raise ValueError("a judgement that cannot be true")
