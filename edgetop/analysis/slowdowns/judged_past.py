"""Exports the state of the search for slowdowns to a remote viewer, and imports it there.

The viewer's data of the past is too coarse to find slowdowns in. A viewer that continues from the state, which has the
slowdowns found so far, finds the same slowdowns as the board itself. The export waits until each change of the latency
has been judged to be a slowdown or noise: the data of open questions need not be sent, and the state is small.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetop.analysis.event_index import EVIDENCE_S
from edgetop.analysis.slowdowns.baseline import Baseline
from edgetop.analysis.slowdowns.detector import INTERRUPTION_S, MAX_POINTS, MAX_WINDOWS, RISE_S, Detector
from edgetop.analysis.slowdowns.equal_size import LARGEST_LOG, export, imported
from edgetop.analysis.slowdowns.evidence import Evidence
from edgetop.analysis.slowdowns.from_start import CONTENDED_OPENING_S, RECENT_S, REPORTED, Contention, Limited
from edgetop.analysis.slowdowns.judgement import MAX_ROWS, Judgement
from edgetop.analysis.slowdowns.levels import ENOUGH, EVERY, LEAST_SIGMA, MAX_LEVELS, POINT, WINDOW, Noise, WindowCutter
from edgetop.analysis.slowdowns.serialization import FORM, require
from edgetop.analysis.slowdowns.signals import CAUSES, Cause, Channel
from edgetop.analysis.slowdowns.slow_span import CHECKED, Span
from edgetop.analysis.slowdowns.slowdown import MAX_SLOWDOWNS, Slowdown
from edgetop.analysis.slowdowns.stages import DEEPEST, Stage, Stages
from edgetop.analysis.slowdowns.stalls import SECOND_MS
from edgetop.frozen import frozen
from edgetop.session.seconds import NS, SECOND
from edgetop.session.typed_json import Document

VERSION = 10
SEARCHED_BACK_S = RISE_S + 5  # Seconds before the stored windows in which a beginning may be searched.
MAX_LEVEL = 100_000_000  # In millionths: a hundred nepers.


@frozen
class _Open:
    span: Span
    stage: Stage
    below: list[Stage]
    over: Stage | None


@frozen
class _State:
    version: int
    until_s: int
    opening_s: int
    limited: Limited | None
    limited_to_s: int | None
    baseline: Baseline | None
    ended_s: int
    levels: list[int]  # Levels from which the noise is estimated.
    since: int
    sigma: float
    closed: list[Slowdown]
    closed_count: int
    open: _Open | None
    contention: Contention
    is_anew: bool
    burst_size: float | None
    usual_lost_ms: float
    sizes: list[list[float]]  # what `equal_size.export` returns
    speed: float  # the last known one, as a logarithm


def is_quiet(judgement: Judgement) -> bool:
    """Whether `judgement`, the state of the search for slowdowns, can be exported now.

    True if each change of the latency so far has been judged to be a slowdown or noise.
    """
    detector, stages = judgement.detector, judgement.stages
    if not judgement.is_opened or len(judgement.waiting):
        return False
    if judgement.limited and judgement.limited_to_s is None:
        return True
    return detector.baseline is not None and detector.calm_from is None and (stages is None or stages.change is None)


def export_state(judgement: Judgement) -> Document:
    """Return the state of a search for slowdowns as a JSON document. Call it only if `is_quiet` is true."""
    detector, stages, span = judgement.detector, judgement.stages, judgement.detector.open
    assert judgement.opening_s is not None
    state = _State(
        VERSION, judgement.until_s, judgement.opening_s, judgement.limited, judgement.limited_to_s,
        detector.baseline, detector.ended_s, detector.noise.levels.tolist(), detector.noise.since,
        detector.noise.sigma, list(judgement.closed), judgement.closed_count,
        _Open(span, stages.stage, list(stages.below), stages.over) if span and stages else None,
        judgement.contention, judgement.is_anew, judgement.burst_size, judgement.usual_lost_ms,
        export(judgement.sizes), judgement.sizes.shift,
    )  # fmt: skip
    windows, points = detector.windows, detector.points
    if len(windows):  # Older points are not needed any more.
        points = points[points["second"] >= windows["begin_s"][0] - SEARCHED_BACK_S]
    tables = (judgement.burst_rows, windows, points, judgement.cutter.pending)
    return {"state": FORM.plain(state), "tables": [FORM.plain(table.tolist()) for table in tables]}


def import_state(
    document: Mapping[str, object], channels: tuple[Channel, ...], until_ns: int, unset: frozenset[Cause] = frozenset()
) -> Judgement:
    """Return the state of a search for slowdowns from `document`, a JSON document that `export_state` made.

    `channels` are the signals of the sensors, and `unset` the causes that are limits which are not set; the document
    does not contain them. `until_ns` is the present end of the session in ns. Raises ValueError if the document is
    impossible or from another version.
    """
    state = FORM.read(_State, document.get("state"), "a judgement")
    tables: Any = document.get("tables")  # what JSON gave
    until_s = state.until_s
    require(state.version == VERSION and isinstance(tables, list) and len(tables) == 4)
    require(0 <= state.opening_s <= until_s <= until_ns // NS and len(state.closed) <= MAX_SLOWDOWNS)
    require(state.closed_count >= len(state.closed) and state.sigma >= LEAST_SIGMA)
    require(len(state.levels) <= MAX_LEVELS and 0 <= state.since < EVERY)
    require(_are_levels(state.levels) and (state.baseline is None or state.baseline.error >= 0))
    require(state.ended_s == 0 or 0 < state.ended_s <= until_s - INTERRUPTION_S)
    require(state.limited_to_s is None or 0 <= state.limited_to_s <= until_s)
    require(state.burst_size is None or 0 <= state.burst_size < 2**53)
    require(abs(state.speed) <= LARGEST_LOG and 0 <= state.usual_lost_ms <= SECOND_MS)
    _check_contention(state.contention, state.opening_s, until_s)
    require(not state.is_anew or state.contention.over_s is not None)
    for slowdown in state.closed:
        require(slowdown.end_ns is not None and 0 <= slowdown.start_ns <= slowdown.end_ns <= until_s * NS)
        require(0 <= slowdown.confidence <= 1 and (slowdown.latency_ratio is None or slowdown.latency_ratio > 0))
        require(len(slowdown.considered) <= len(CAUSES) and all(0 <= of.share <= 1 for of in slowdown.considered))
    spans, stages = [], None
    if (given := state.open) is not None:
        _check_open(given, channels, until_s, unset)
        spans = [given.span]
        stages = Stages(given.span.sigma, given.span.slack_s, given.stage, tuple(given.below), given.over)
    return Judgement(
        until_s=until_s, opening_s=state.opening_s, is_opened=True, limited=state.limited,
        limited_to_s=state.limited_to_s, contention=state.contention, is_anew=state.is_anew,
        closed=tuple(state.closed), closed_count=state.closed_count,
        usual_lost_ms=state.usual_lost_ms, sizes=imported(state.sizes, state.speed),
        burst_rows=_table(tables[0], SECOND, MAX_ROWS, until_s * NS), burst_size=state.burst_size,
        cutter=WindowCutter(_table(tables[3], SECOND, ENOUGH, until_s * NS)),
        detector=Detector(
            baseline=state.baseline, ended_s=state.ended_s, spans=spans,
            noise=Noise(np.array(state.levels, np.int64), state.since, state.sigma),
            windows=_table(tables[1], WINDOW, MAX_WINDOWS, until_s),
            points=_table(tables[2], POINT, MAX_POINTS, until_s),
        ),
        stages=stages,
    )  # fmt: skip


def _check_contention(of: Contention, opening_s: int, until_s: int) -> None:
    require(set(of.sums) <= set(REPORTED) and all(of.counts.get(kind, 0) > 0 for kind in of.sums))
    require(0 <= of.contended_s <= of.seconds <= until_s and 0 <= of.free_s <= until_s)
    require(of.over_s is None or (of.from_start and opening_s <= of.over_s <= until_s))
    require(0 <= of.opening_s <= CONTENDED_OPENING_S and 0 <= of.recent < 1 << RECENT_S)
    require(abs(of.level_sum) <= max(of.level_count, 0) * MAX_LEVEL)


def _check_open(given: _Open, channels: tuple[Channel, ...], until_s: int, unset: frozenset[Cause]) -> None:
    """Check `given`, the slowdown that continued at the export, and add the signals `channels` and `unset` to it.

    `until_s` is the present end of the session in s. Raises ValueError if the slowdown is impossible.
    """
    span = given.span
    require(0 <= span.after_s <= span.start_s <= until_s and 0 <= span.rise_s <= span.start_s)
    require(0 <= span.slack_s <= until_s and 0 <= span.late_s <= until_s)
    require(span.end_s is None and not span.new_slow and span.sigma >= LEAST_SIGMA and span.slow > 0)
    require(_are_levels(span.recent) and _are_levels(span.first) and len(span.first) <= CHECKED)
    require(len(given.below) <= DEEPEST)
    require(all(until_s - EVIDENCE_S <= of.until_s <= until_s for of in given.stage.candidates) or not channels)
    for stage in (given.stage, *given.below, *([given.over] if given.over else [])):
        require(stage.slow > 0 and abs(stage.level_sum) <= stage.slow * MAX_LEVEL and _are_levels(stage.recent))
        require(len(stage.candidates) in (1, 2) and len(stage.recent) > 0)
        for evidence in stage.candidates:
            _check_evidence(evidence, len(channels))
            evidence.channels, evidence.unset = channels, unset


def _check_evidence(of: Evidence, channels: int) -> None:
    require(all(0 <= seconds <= of.seconds for seconds in (*of.explained.values(), of.stood)) and of.late_s >= 0)
    require(all(0 <= tally.beyond <= tally.known <= of.seconds for tally in of.tallies))
    require(len(of.tallies) == channels and set(of.explained) == set(CAUSES) and abs(of.floor) <= MAX_LEVEL)


# `rows` are what JSON gave.
def _table(rows: Any, dtype: np.dtype[np.void], most: int, until: int) -> npt.NDArray[np.void]:
    """Return `rows`, a list of lists of numbers from a JSON document, as an array of the type `dtype`.

    Raises ValueError if there are more than `most` rows or if a row is impossible. The first number of a row is its
    time. Times must be in order and before `until`, in the table's unit of time.
    """
    require(isinstance(rows, list) and len(rows) <= most)
    names = dtype.names or ()
    table = np.zeros(len(rows), dtype)
    for place, row in enumerate(rows):
        require(isinstance(row, list) and len(row) == len(names))
        require(all(type(value) in (int, float) for value in row))
        try:
            table[place] = tuple(row)
        except (TypeError, OverflowError):
            raise ValueError("impossible row") from None
    if "level" in names:
        require(_are_levels(table["level"].tolist()))
    time = table[names[0]]
    require(bool((np.diff(time) >= 0).all()) and bool(((time >= 0) & (time < until)).all()))
    if "end_s" in names:
        require(bool(((table["end_s"] > time) & (table["end_s"] <= until)).all()))
    return table


def _are_levels(levels: Iterable[int]) -> bool:
    return all(abs(level) <= MAX_LEVEL for level in levels)
