"""The stages of one slowdown: it may become much worse, for another cause, and better again before it is over.

The level alone makes no stage: a board that throttles does so in steps, and slows in ramps. A
further rise begins one where signals of another cause began with it; and one that rose so ends
where the level goes back towards what it rose from, for what explained that or for what is left.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from edgetop.analysis.slowdowns.causes import Cause
from edgetop.analysis.slowdowns.evidence import NEAR_S, Evidence, Onset
from edgetop.analysis.slowdowns.plain import NOT_EXPORTED
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.slowdowns.span import LEAST_S, SlowWindow, Span
from edgetop.analysis.slowdowns.verdict import Finding, find_cause
from edgetop.analysis.slowdowns.windows import NEPER

WORSE = round(np.log(1.12) * NEPER)  # over the level of a stage: much worse
SCATTERS = 3.0  # and by so many standard deviations of a window
CERTAIN = 8.0  # log-likelihood ratio, without the two slowest seconds: four standard deviations
MOSTLY = 0.6  # so many windows of a change are beyond its border
PATIENCE = 12  # windows after a rise is sure, in which a cause may still show
STRONG = 0.4  # the least confidence in another cause
INTERRUPTION_S = 10  # what is better for less belongs to the stage
RECENT, LEAST_RECENT, LEAST_SPARSE = 16, 3, 2  # windows that tell the level of a stage; sparse ones hold more time
STILL = 0.5  # of the time, that what a stage rose for must still be seen where it seems to go on
NAMED_FROM, NAMED_EVERY = 8, 64  # slow windows, after which a cause is remembered
LONGEST = 64  # windows of a change that is not decided
DEEPEST = 4  # stages that one may stand on

Then = Literal["", "slower", "faster"]


@dataclass(slots=True)
class Stage:
    """What has one cause."""

    start_s: int
    candidates: tuple[Evidence, ...]  # of what may explain it
    end_s: int | None = None
    then: Then = ""
    slow: int = 0  # windows
    slow_s: int = 0
    level_sum: int = 0
    recent: list[int] = field(default_factory=list)  # levels of the last windows
    named: Cause = "unknown"  # the cause that was found last
    unlooked: list[SlowWindow] = field(default_factory=list, metadata=NOT_EXPORTED)

    def copy(self) -> "Stage":
        candidates = tuple(evidence.copy() for evidence in self.candidates)
        return replace(self, candidates=candidates, recent=list(self.recent), unlooked=list(self.unlooked))

    @property
    def level(self) -> float:
        """Millionths of a neper over the baseline, on average."""
        return self.level_sum / self.slow if self.slow else 0.0

    @property
    def recent_level(self) -> int:
        return sorted(self.recent)[len(self.recent) // 2]

    def take(self, windows: Sequence[SlowWindow]) -> None:
        for window in windows:
            self.slow += 1
            self.slow_s += window.end_s - window.begin_s
            self.level_sum += window.level
        self.recent = [*self.recent, *(window.level for window in windows)][-RECENT:]
        self.unlooked += windows

    def look(self, signals: Signals) -> None:
        for evidence in self.candidates:
            evidence.look(self.unlooked, signals)
        self.unlooked = []

    def _judged(self, named: Cause) -> list[tuple[Finding, Evidence]]:
        of = self.candidates
        return [(find_cause(evidence, max(self.level - evidence.floor, 0) / NEPER, named), evidence) for evidence in of]

    @property
    def best(self) -> tuple[Finding, Evidence]:
        """What explains it best, the first of those that do so equally."""
        return self._best(self.named)

    def _best(self, named: Cause) -> tuple[Finding, Evidence]:
        return max(self._judged(named), key=lambda found: (found[0].cause != "unknown", found[0].confidence))

    @property
    def is_explained(self) -> bool:
        """By what speaks for a cause now, whatever was found before."""
        return self._best("unknown")[0].cause != "unknown"

    @property
    def finding(self) -> Finding:
        return self.best[0]

    def name(self, signals: Signals) -> None:
        """Remember the cause: at times that do not depend on how many windows come at once."""
        if self.slow >= NAMED_FROM and (self.slow & (self.slow - 1) == 0 or self.slow % NAMED_EVERY == 0):
            self.look(signals)
            found = self.finding.cause
            self.named = self.named if found == "unknown" else found


@dataclass(slots=True)
class Change:
    """Windows that lie beyond a border, as long as they do on the whole: Page's cumulative sum."""

    is_rise: bool
    level_before: int  # of the stage
    border: int
    windows: list[SlowWindow] = field(default_factory=list)
    sum: int = 0
    beyond: int = 0  # windows
    stage: Stage | None = None  # that it would begin
    since_sure: int = 0  # windows

    def copy(self) -> "Change":
        return replace(self, windows=list(self.windows), stage=self.stage.copy() if self.stage else None)

    @property
    def start_s(self) -> int:
        return self.windows[0].begin_s

    @property
    def lasts_s(self) -> int:
        return self.windows[-1].end_s - self.windows[0].begin_s

    def take(self, window: SlowWindow) -> None:
        reach = 2 * abs(self.border - self.level_before)
        gain = window.level - self.border if self.is_rise else self.border - window.level
        self.sum += min(max(gain, -reach), reach)
        self.windows.append(window)
        self.beyond += gain > 0

    @property
    def is_mostly_beyond(self) -> bool:
        return self.beyond >= MOSTLY * len(self.windows)

    def is_sure_rise(self, sigma: float) -> bool:
        """Also without those that a blip of two seconds could have made slow."""
        if self.lasts_s < LEAST_S or len(self.windows) < _least(self.windows[-1]) or not self.is_mostly_beyond:
            return False
        is_dense = all(window.end_s - window.begin_s == 1 for window in self.windows)
        levels = sorted(window.level for window in self.windows)[: len(self.windows) - (2 if is_dense else 0)]
        rise = sum(levels) / len(levels) - self.level_before
        first = _lower_median([window.level for window in self.windows[:LEAST_RECENT]])
        return (
            min(rise, first - self.level_before) >= WORSE
            and len(levels) * rise**2 >= CERTAIN * 2 * (sigma * NEPER) ** 2
        )


@dataclass(slots=True)
class Stages:
    """Folds the slow windows of one slowdown, in their order."""

    sigma: float
    slack_s: int
    stage: Stage
    below: tuple[Stage, ...] = ()  # on which it stands; never advanced
    over: Stage | None = None  # the one before, as long as it is not sure that it was over
    change: Change | None = None

    @classmethod
    def begun(cls, span: Span, signals: Signals) -> "Stages":
        onset = Onset(span.start_s, span.rise_s, span.slack_s, span.after_s)
        first = Stage(span.start_s, (Evidence.begun(onset, signals),))
        return cls(span.sigma, span.slack_s, first)

    @property
    def _rise(self) -> int:
        """So much over the level of the stage a rise begins."""
        return max(int(WORSE // 2), round(SCATTERS / 2 * self.sigma * NEPER))

    def copy(self) -> "Stages":
        return replace(self, stage=self.stage.copy(), change=self.change.copy() if self.change else None)

    def take(self, windows: Sequence[SlowWindow], signals: Signals) -> Iterator[Stage]:
        """The stages that are over for sure."""
        for window in windows:
            over = self._step(window, signals)
            self.stage.name(signals)
            if over:
                *sure, self.over = _rejoined(self.over, over)
                yield from sure
        self.stage.look(signals)

    def now(self, signals: Signals) -> tuple[Stage, ...]:
        """What was not told yet, with what is not decided."""
        stage = self.stage.copy()
        if self.change:
            stage.take(self.change.windows)
        stage.look(signals)
        return _rejoined(self.over, stage)

    def closed(self, span: Span, signals: Signals) -> tuple[Stage, ...]:
        """The same of a slowdown that is over; none where it was none."""
        *over, last = self.now(signals)
        assert span.end_s is not None
        if span.is_short or (over and min(last.slow_s, span.end_s - last.start_s) <= LEAST_S):
            return tuple(replace(stage, end_s=span.end_s, then="") for stage in over)
        return (*over, replace(last, end_s=span.end_s))

    def _step(self, window: SlowWindow, signals: Signals) -> Stage | None:
        """One window; the stage that is over, where one is."""
        self.change = self.change or self._begun(window)
        change = self.change
        if change is None:
            self.stage.take([window])
            return None
        change.take(window)
        if change.sum <= 0 or len(change.windows) > LONGEST:
            self._dismiss()
            return None
        return self._rises(change, signals) if change.is_rise else self._eases(change, signals)

    def _begun(self, window: SlowWindow) -> Change | None:
        if len(self.stage.recent) < _least(window):
            return None
        latest = _lower_median(self.stage.recent[-LEAST_RECENT:])  # in the course of a ramp
        if not self.below and window.level <= latest + self._rise:
            return None
        level = self.stage.recent_level
        so_far = max(level, latest)
        border = so_far + self._rise
        # What comes sooner belongs to the same rise.
        if window.level > border and window.begin_s > self.stage.start_s + NEAR_S + self.slack_s:
            return Change(True, so_far, border)
        if self.below and window.level < (border := (level + self.below[-1].recent_level) // 2):
            return Change(False, level, border)
        return None

    def _dismiss(self) -> None:
        """It is no other stage; where it lasted, this is the level of the stage from now on."""
        assert self.change is not None
        change, self.change = self.change, None
        if change.stage or len(change.windows) > LONGEST:
            self.stage.recent = []
        self.stage.take(change.windows)

    def _rises(self, change: Change, signals: Signals) -> Stage | None:
        if change.stage is None:
            if not change.is_sure_rise(self.sigma):
                return None
            onset = Onset(change.start_s, change.start_s, self.slack_s)
            change.stage = Stage(change.start_s, (Evidence.begun(onset, signals, change.level_before),))
            change.stage.take(change.windows)
        else:
            change.stage.take(change.windows[-1:])
            change.since_sure += 1
        change.stage.look(signals)
        self.stage.look(signals)
        finding = change.stage.finding
        if finding.cause not in ("unknown", self.stage.finding.cause) and finding.confidence >= STRONG:
            below = (*self.below, self.stage)[-DEEPEST:]
            return self._turn(change.stage, below, "slower")
        if change.since_sure >= PATIENCE:
            self._dismiss()
        return None

    def _eases(self, change: Change, signals: Signals) -> Stage | None:
        is_better = change.is_mostly_beyond and change.windows[-1].level < change.border
        if change.lasts_s < INTERRUPTION_S or not is_better:
            return None
        self.stage.look(signals)
        before, upper = self.below[-1].best[1], self.stage.best
        stage = Stage(change.start_s, tuple(evidence.resumed(change.start_s) for evidence in (before, upper[1])))
        stage.take(change.windows)
        stage.look(signals)
        cause, rose = upper[0].cause, stage.candidates[1]
        holds = cause == "unknown" or rose.explained[cause] >= STILL * rose.seconds
        if holds and stage.finding.cause == cause:
            self.below = self.below[:-1]
            self._dismiss()
            return None
        return self._turn(stage, self.below[:-1], "faster")

    def _turn(self, stage: Stage, below: tuple[Stage, ...], then: Then) -> Stage:
        over = replace(self.stage, end_s=stage.start_s, then=then)
        self.stage, self.below, self.change = stage, below, None
        return over


def _least(window: SlowWindow) -> int:
    return LEAST_RECENT if window.end_s - window.begin_s == 1 else LEAST_SPARSE


def _lower_median(levels: list[int]) -> int:
    return sorted(levels)[(len(levels) - 1) // 2]


def _rejoined(before: Stage | None, stage: Stage) -> tuple[Stage, ...]:
    """Both; or one, where what rose is no longer explained by what it rose with."""
    if before is None:
        return (stage,)
    if before.then != "slower" or stage.is_explained:
        return (before, stage)
    joined = replace(before.copy(), end_s=stage.end_s, then=stage.then)
    joined.slow, joined.slow_s = before.slow + stage.slow, before.slow_s + stage.slow_s
    joined.level_sum = before.level_sum + stage.level_sum
    return (joined,)
