"""Divides a slowdown into parts with different causes, called stages.

A slowdown may become much worse for another cause, and better again before it is over. A board that throttles slows in
steps and ramps, so a change of the latency alone is no new stage. A further rise begins a stage only if signals of
another cause began with it. The stage ends when the latency returns towards the earlier one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edgetop.analysis.slowdowns.cause_finding import Finding, find_cause
from edgetop.analysis.slowdowns.detector import AS_SLOW_PART, BLIP_S, INTERRUPTION_S, LEAST_S, MOSTLY, REST_CERTAIN
from edgetop.analysis.slowdowns.evidence import NEAR_S, Evidence, Onset
from edgetop.analysis.slowdowns.levels import NEPER
from edgetop.analysis.slowdowns.serialization import fork
from edgetop.analysis.slowdowns.signals import Cause, Signals
from edgetop.analysis.slowdowns.slow_span import SlowWindow, Span
from edgetop.analysis.slowdowns.slowdown import Then
from edgetop.session.typed_json import NOT_EXPORTED

# Least further rise that may have a cause of its own. Choice: half more than a slowdown, as a limit slows in steps.
# Larger: a second cause is missed; smaller: a board that throttles in ramps changes its cause.
WORSE = round(np.log(1.12) * NEPER)
# Standard deviations of a window by which a further rise must exceed the level before. Statistics: one normal value
# in 370 is farther off. Larger: a second cause is missed in noise; smaller: noise splits a slowdown.
SCATTERS = 3.0
# Number of windows after a sure rise in which its cause may still show. Choice: sensors are read every 1 to 10 s.
# Larger: a later change is taken for the cause; smaller: a cause that is read seldom is missed.
PATIENCE = 12
# Least confidence in another cause that splits a slowdown. Choice. Larger: a second cause is missed; smaller: a
# coincidence splits a slowdown.
STRONG = 0.4
# Number of the latest windows that give the level of a stage. Choice. Larger: the level lags behind a ramp; smaller:
# noise moves it.
RECENT = 16
# Number of windows that give it at least. Choice: the median of three survives one outlier. Larger: a second cause
# soon after the first is missed; smaller: an outlier is a level.
LEAST_RECENT = 3
# The same for sparse windows, which cover more time. Choice. Larger: a second cause of a slow model is missed;
# smaller: one window is a level.
LEAST_SPARSE = 2
# Share of the time in which the cause of a stage must still show so that the stage goes on. Choice. Larger: a stage
# ends while its cause flickers; smaller: it goes on after its cause is over.
STILL = 0.5
NAMED_FROM, NAMED_EVERY = 8, 64  # Numbers of slow windows after which the cause is stored.
# Most slow seconds that a hiccup of less than two seconds makes, with noise beside it. Choice: it touches three, and
# noise as many again. Larger: short slowdowns of unknown cause are missed if they are uneven; smaller: a hiccup is a
# slowdown.
MOST_OF_HICCUP_S = 6
LONGEST = 64  # Most windows of an undecided change.
DEEPEST = 4  # Most stages below another one.


@dataclass(slots=True)
class Stage:
    """A part of a slowdown with its own cause."""

    start_s: int
    candidates: list[Evidence]  # The best one explains the stage.
    end_s: int | None = None
    then: Then = ""
    slow: int = 0  # Number of windows.
    slow_s: int = 0
    level_sum: int = 0
    recent: list[int] = field(default_factory=list)  # Levels of the last windows.
    named: Cause = "unknown"  # Last known cause.
    pending: list[SlowWindow] = field(default_factory=list, metadata=NOT_EXPORTED)  # Windows without evidence so far.

    @property
    def level(self) -> float:
        """Return by how much the mean latency is above the baseline.

        The result is the natural logarithm of (mean latency / baseline), times a million.
        """
        return self.level_sum / self.slow if self.slow else 0.0

    @property
    def recent_level(self) -> int:
        return sorted(self.recent)[len(self.recent) // 2]

    def add(self, windows: Sequence[SlowWindow]) -> None:
        self.slow += len(windows)
        self.slow_s += sum(window.end_s - window.begin_s for window in windows)
        self.level_sum += sum(window.level for window in windows)
        self.recent = [*self.recent, *(window.level for window in windows)][-RECENT:]
        self.pending += windows

    def collect(self, signals: Signals) -> None:
        """Collect evidence of causes in the slow seconds that were added since the last call."""
        for evidence in self.candidates:
            evidence.collect(self.pending, signals)
        self.pending = []

    def best(self, named: Cause | None = None) -> tuple[Finding, Evidence]:
        """Return the most probable cause, and the evidence for this cause.

        `named` is the cause that is preferred if it is nearly as probable as the most probable cause. None means the
        last known cause.
        """
        named = self.named if named is None else named
        found = [(find_cause(one, max(self.level - one.floor, 0) / NEPER, named), one) for one in self.candidates]
        return max(found, key=lambda each: (each[0].cause != "unknown", each[0].confidence))

    @property
    def finding(self) -> Finding:
        return self.best()[0]

    def name(self, signals: Signals) -> None:
        """Find the cause and store it in the attribute `named`, but only after certain numbers of slow windows.

        The numbers are fixed, so that the result is the same however the seconds were divided into batches.
        """
        if self.slow >= NAMED_FROM and (self.slow & (self.slow - 1) == 0 or self.slow % NAMED_EVERY == 0):
            self.collect(signals)
            cause = self.finding.cause
            self.named = self.named if cause == "unknown" else cause


@dataclass(slots=True)
class Change:
    """A new change of the latency during a slowdown. Later seconds will show whether the change lasts.

    `sum` is Page's cumulative sum: it adds up how far the latency of each window (of about a second) is above `border`
    for a rise, or below it for a fall.
    """

    is_rise: bool
    level_before: int  # Level of the stage before the change.
    border: int
    windows: list[SlowWindow] = field(default_factory=list)
    sum: int = 0
    beyond: int = 0  # Number of windows beyond the border.
    stage: Stage | None = None  # The stage that the change would begin.
    since_sure: int = 0  # Number of windows since the change was sure.

    @property
    def start_s(self) -> int:
        return self.windows[0].begin_s

    @property
    def lasts_s(self) -> int:
        return self.windows[-1].end_s - self.windows[0].begin_s

    def add(self, window: SlowWindow) -> None:
        reach = 2 * abs(self.border - self.level_before)
        gain = window.level - self.border if self.is_rise else self.border - window.level
        self.sum += min(max(gain, -reach), reach)
        self.windows.append(window)
        self.beyond += gain > 0

    @property
    def is_mostly_beyond(self) -> bool:
        return self.beyond >= MOSTLY * len(self.windows)

    def is_sure_rise(self, sigma: float) -> bool:
        """Whether the latency surely rose, even without the two slowest seconds.

        `sigma` is the usual scatter: the standard deviation of the natural logarithm of the latency.
        """
        if self.lasts_s < LEAST_S or len(self.windows) < _least(self.windows[-1]) or not self.is_mostly_beyond:
            return False
        is_dense = all(window.end_s - window.begin_s == 1 for window in self.windows)
        levels = sorted(window.level for window in self.windows)[: len(self.windows) - (BLIP_S if is_dense else 0)]
        rise = sum(levels) / len(levels) - self.level_before
        first = _lower_median([window.level for window in self.windows[:LEAST_RECENT]]) - self.level_before
        return min(rise, first) >= WORSE and len(levels) * rise**2 >= REST_CERTAIN * 2 * (sigma * NEPER) ** 2


@dataclass(slots=True)
class Stages:
    """Divides one slowdown into parts with different causes.

    `add` gets the slow seconds of the slowdown, in order of time.
    """

    sigma: float
    slack_s: int
    stage: Stage
    below: tuple[Stage, ...] = ()  # The stages below the present one; they do not advance.
    over: Stage | None = None  # The stage before, until it is sure that it is over.
    change: Change | None = None

    @classmethod
    def begun(cls, span: Span, signals: Signals) -> "Stages":
        onset = Onset(span.start_s, span.rise_s, span.slack_s, span.after_s, span.late_s)
        return cls(span.sigma, span.slack_s, Stage(span.start_s, [Evidence.begun(onset, signals)]))

    def add(self, windows: Sequence[SlowWindow], signals: Signals) -> Iterator[Stage]:
        """Add the next slow seconds of the slowdown, and yield the parts of it that are surely over."""
        for window in windows:
            over = self._step(window, signals)
            self.stage.name(signals)
            if over:
                *sure, self.over = _rejoined(self.over, over)
                yield from sure
        self.stage.collect(signals)

    def now(self, signals: Signals) -> tuple[Stage, ...]:
        """Return the parts of the slowdown that `add` has not yielded, the present one last."""
        stage = fork(self.stage)
        if self.change:
            stage.add(self.change.windows)
        stage.collect(signals)
        return _rejoined(self.over, stage)

    def closed(self, span: Span, signals: Signals) -> tuple[Stage, ...]:
        """Return the remaining parts of a slowdown that is over. A last part that is too short is left out.

        `span` has the times of the slowdown.
        """
        *over, last = self.now(signals)
        assert span.end_s is not None
        if _is_short(span, last, span.end_s, is_only=not over):
            return tuple(replace(stage, end_s=span.end_s, then="") for stage in over)
        return (*over, replace(last, end_s=span.end_s))

    def ended(self, span: Span, end_s: int, signals: Signals) -> tuple[Stage, ...]:
        """Return the parts of a slowdown in which the measurement ended, in the session second `end_s`.

        A last part that is too short is left out, as in a slowdown that is over, unless its cause is known: it might
        have lasted. `span` has the times of the slowdown.
        """
        *over, last = self.now(signals)
        if last.finding.cause == "unknown" and _is_short(span, last, end_s, is_only=not over):
            return tuple(replace(stage, end_s=None, then="") for stage in over)
        return (*over, last)

    def _step(self, window: SlowWindow, signals: Signals) -> Stage | None:
        """Add one window (about a second) of the slowdown. Return the part of the slowdown that ended, or None."""
        self.change = self.change or self._begun(window)
        change = self.change
        if change is None:
            self.stage.add([window])
            return None
        change.add(window)
        if change.sum <= 0 or len(change.windows) > LONGEST:
            self._dismiss()
            return None
        return self._rises(change, signals) if change.is_rise else self._eases(change, signals)

    def _begun(self, window: SlowWindow) -> Change | None:
        if len(self.stage.recent) < _least(window):
            return None
        rise = max(int(WORSE // 2), round(SCATTERS / 2 * self.sigma * NEPER))
        latest = _lower_median(self.stage.recent[-LEAST_RECENT:])  # This makes a difference during a ramp.
        if not self.below and window.level <= latest + rise:
            return None
        level = self.stage.recent_level
        so_far = max(level, latest)
        border = so_far + rise
        # An earlier change belongs to the same rise.
        if window.level > border and window.begin_s > self.stage.start_s + NEAR_S + self.slack_s:
            return Change(True, so_far, border)
        if self.below and window.level < (border := (level + self.below[-1].recent_level) // 2):
            return Change(False, level, border)
        return None

    def _dismiss(self) -> None:
        """Drop the undecided change of the latency: it begins no new part of the slowdown.

        If the change lasted, later windows are compared with the latency after it.
        """
        assert self.change is not None
        change, self.change = self.change, None
        if change.stage or len(change.windows) > LONGEST:
            self.stage.recent = []
        self.stage.add(change.windows)

    def _rises(self, change: Change, signals: Signals) -> Stage | None:
        if change.stage is None:
            if not change.is_sure_rise(self.sigma):
                return None
            onset = Onset(change.start_s, change.start_s, self.slack_s)
            change.stage = Stage(change.start_s, [Evidence.begun(onset, signals, change.level_before)])
            change.stage.add(change.windows)
        else:
            change.stage.add(change.windows[-1:])
            change.since_sure += 1
        change.stage.collect(signals)
        self.stage.collect(signals)
        finding = change.stage.finding
        if finding.cause not in ("unknown", self.stage.finding.cause) and finding.confidence >= STRONG:
            return self._turn(change.stage, (*self.below, self.stage)[-DEEPEST:], "slower")
        if change.since_sure >= PATIENCE:
            self._dismiss()
        return None

    def _eases(self, change: Change, signals: Signals) -> Stage | None:
        is_better = change.is_mostly_beyond and change.windows[-1].level < change.border
        if change.lasts_s < INTERRUPTION_S or not is_better:
            return None
        self.stage.collect(signals)
        _, lower = self.below[-1].best()
        finding, upper = self.stage.best()
        stage = Stage(change.start_s, [evidence.resumed(change.start_s) for evidence in (lower, upper)])
        stage.add(change.windows)
        stage.collect(signals)
        cause, rose = finding.cause, stage.candidates[1]
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


def _is_short(span: Span, last: Stage, end_s: int, *, is_only: bool) -> bool:
    """Whether the last part of a slowdown, or all of it, is too short to be reported.

    `span` has the times of the slowdown, which lasted until the session second `end_s`. `last` is its last part, and
    `is_only` says that it has no other one.
    """
    # A blip of two seconds touches three windows.
    if min(span.slow_s, end_s - span.start_s) <= LEAST_S:
        return True
    if is_only:
        return _is_hiccup(span) and last.finding.cause == "unknown"
    return min(last.slow_s, end_s - last.start_s) <= LEAST_S


def _is_hiccup(span: Span) -> bool:
    """Whether a slow time that is over may be only a hiccup of less than two seconds, with noise beside it.

    A hiccup slows up to three successive seconds. The result is True if the slow time is short, and if all of its other
    seconds are clearly less slow.
    """
    if span.slow_s > MOST_OF_HICCUP_S or span.slow != span.slow_s:  # windows of several seconds are judged one by one
        return False
    level, touched = np.array(span.recent), BLIP_S + 1
    first = int(np.argmax(np.convolve(level, np.ones(touched), "valid"))) if len(level) > touched else 0
    rest = np.delete(level, slice(first, first + touched))
    return not len(rest) or bool(rest.max() < AS_SLOW_PART * np.sort(level)[-BLIP_S:].mean())


def _least(window: SlowWindow) -> int:
    return LEAST_RECENT if window.end_s - window.begin_s == 1 else LEAST_SPARSE


def _lower_median(levels: list[int]) -> int:
    return sorted(levels)[(len(levels) - 1) // 2]


def _rejoined(before: Stage | None, stage: Stage) -> tuple[Stage, ...]:
    """Return two successive parts of a slowdown as `(before, stage)`, or as one part that joins both.

    The parts are joined if the later part, `stage`, is slower and has no known cause. If `before` is None, return
    `(stage,)`.
    """
    if before is None:
        return (stage,)
    if before.then != "slower" or stage.best("unknown")[0].cause != "unknown":
        return (before, stage)
    joined = replace(fork(before), end_s=stage.end_s, then=stage.then)
    joined.slow, joined.slow_s = before.slow + stage.slow, before.slow_s + stage.slow_s
    joined.level_sum = before.level_sum + stage.level_sum
    return (joined,)
