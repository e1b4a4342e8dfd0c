"""All that was found in a session up to some second: its baseline, and its slowdowns with their causes."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from edgetop.analysis.event_index import EventIndex
from edgetop.analysis.slowdowns.baseline import SLOWER, Baseline
from edgetop.analysis.slowdowns.causes import Cause
from edgetop.analysis.slowdowns.contention import Contention, now_words, read_taken
from edgetop.analysis.slowdowns.detector import Detector
from edgetop.analysis.slowdowns.from_start import OPENING_S, RELEASED_S, Limited, read_limits
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.slowdowns.span import CERTAIN, Span
from edgetop.analysis.slowdowns.stages import Stage, Stages, Then
from edgetop.analysis.slowdowns.windows import NEPER, WindowCutter, levels
from edgetop.session.seconds import NO_SECONDS, NS

KEPT = 500  # slowdowns, the latest

# Ten windows that lie 8 % higher are then told from fifty before with less than the certainty of a slowdown.
TOO_SCATTERED = 0.04

UNCAUSED = 21.0  # log-likelihood ratio that is wanted, less the surer a cause is
LIKELY = 0.6  # confidence in the cause of a stage that others follow

FLICKER_S = 2  # what comes and goes faster is in force all the time
LEAST_RATIO = math.exp(SLOWER / NEPER)

KEPT_ROWS = 512  # until there is a burst: it is found within three minutes

Rows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Slowdown:
    start_ns: int
    end_ns: int | None  # None: it goes on
    cause: Cause
    latency_ratio: float | None  # to the burst baseline; None: there is none
    confidence: float  # 0 to 1, of the cause
    evidence: tuple[str, ...]
    from_start: bool = False  # limited when the measurement began
    then: Then = ""  # what came at its end, where that was not the full speed


@dataclass(frozen=True, slots=True)
class SlowdownsView:
    burst: Baseline | None  # None: not known yet, or limited from the start
    burst_rows: Rows  # the seconds that it was made of
    is_settled: bool  # the burst is whole, and slowdowns are looked for
    slowdowns: tuple[Slowdown, ...]  # the latest KEPT, oldest first; what was so from the start before all
    total: int
    contended_now: str | None = None  # who or what takes the CPU that the engine would use; None: nothing
    scatter: float | None = None  # standard deviation of independent windows, in nepers; None: no burst yet

    @property
    def now(self) -> Slowdown | None:
        """The one that goes on; of two, that which began later."""
        return next((slowdown for slowdown in reversed(self.slowdowns) if slowdown.end_ns is None), None)

    @property
    def is_too_scattered(self) -> bool:
        """The latency scatters so much that half a minute could not tell whether it rose by 8 %."""
        return self.scatter is not None and self.scatter > TOO_SCATTERED


@dataclass(slots=True)
class Judgement:
    """Advances second by second; nothing in it depends on how many come at once."""

    until_s: int = 0
    opening_s: int | None = None  # the first second with a measured inference
    is_opened: bool = False  # it is known whether the board was limited from the start
    limited: Limited | None = None
    limited_to_s: int | None = None  # None: still
    contention: Contention = field(default_factory=Contention)
    is_anew: bool = False  # the detector was begun anew after a contention from the start
    detector: Detector = field(default_factory=Detector)
    cutter: WindowCutter = field(default_factory=WindowCutter)
    stages: Stages | None = None  # of the first span that the detector has
    closed: tuple[Slowdown, ...] = ()
    closed_count: int = 0
    waiting: Rows = field(default_factory=lambda: NO_SECONDS.rows)  # not given to the detector yet
    burst_rows: Rows = field(default_factory=lambda: NO_SECONDS.rows)

    def copy(self) -> "Judgement":
        return replace(
            self,
            detector=self.detector.copy(),
            cutter=self.cutter.copy(),
            limited=self.limited.copy() if self.limited else None,
            contention=self.contention.copy(),
            stages=self.stages.copy() if self.stages else None,
        )

    def advance(
        self,
        rows: Rows,
        until_s: int,
        signals: Signals,
    ) -> None:
        """Judge these seconds, which follow those before; `until_s`: where they end."""
        from_s, self.until_s = self.until_s, until_s
        rows = rows[rows["count"] > 0]
        if self.opening_s is None and len(rows):
            self.opening_s = int(rows["t_ns"][0]) // NS
        if self.opening_s is None:
            return
        self.waiting = np.concatenate([self.waiting, rows]) if len(self.waiting) else rows
        if not self.is_opened:
            if until_s < self.opening_s + OPENING_S:
                return
            self._open(signals)
            from_s = self.opening_s
        self.contention.count(read_taken(signals, from_s, until_s), from_s)
        if self.limited and self.limited_to_s is None:
            self._follow_limits(from_s, signals)
            if self.limited_to_s is None:
                return
        over_s = self.contention.over_s
        if over_s is not None and not self.is_anew:
            self._detect(over_s, signals)
            self._begin_anew(over_s, signals)
        # Where it is not sure yet whether others are gone, it is not known what to compare with.
        free_s = self.contention.free_s if self.contention.is_open else 0
        self._detect(until_s - free_s, signals)

    def _detect(self, until_s: int, signals: Signals) -> None:
        """In the seconds up to then that were not looked at yet."""
        due = int(np.searchsorted(self.waiting["t_ns"], until_s * NS))
        rows, self.waiting = self.waiting[:due], self.waiting[due:]
        if not self.is_anew:
            level = levels(rows["p50_ns"])
            self.contention.level_sum += int(level.sum())
            self.contention.level_count += len(level)
        is_settled = self.detector.baseline is not None
        self.detector.fold(*self.cutter.add(rows))
        if not is_settled:
            joined = np.concatenate([self.burst_rows, rows])
            self.burst_rows = _inside(joined, self.detector.baseline) if self.detector.baseline else joined[-KEPT_ROWS:]
        self._look(signals)

    def _begin_anew(self, from_s: int, signals: Signals) -> None:
        """Others are gone that were there from the start: only now is there a burst to compare with."""
        assert self.opening_s is not None
        self.is_anew = True
        self.contention.named = signals.events.competitors(self.opening_s, from_s)
        if self.detector.open:
            self.detector.open.end_s = from_s
            self._look(signals)
        self.detector, self.cutter, self.burst_rows = Detector(), WindowCutter(), NO_SECONDS.rows
        self.detector.ended_s = from_s

    def _open(self, signals: Signals) -> None:
        assert self.opening_s is not None
        self.is_opened = True
        limits = read_limits(signals, self.opening_s, self.opening_s + OPENING_S)
        if np.count_nonzero(limits.any) * 2 > OPENING_S:
            lead_s = limits.lead_s
            self.limited = Limited(self.opening_s + lead_s if lead_s else None)
            self.waiting = self.waiting[self.waiting["t_ns"] >= (self.opening_s + lead_s) * NS]

    def _follow_limits(self, from_s: int, signals: Signals) -> None:
        """Until nothing has been in force for so long that it is over."""
        assert self.limited is not None
        from_s = max(from_s, self.limited.from_s or 0)
        limits = read_limits(signals, from_s, self.until_s)
        released = self.limited.count(limits)
        free_from_s = (self.until_s if released is None else from_s + released) - self.limited.free_s
        is_limited = self.waiting["t_ns"] < free_from_s * NS
        level = levels(self.waiting["p50_ns"][is_limited])
        self.limited.level_sum += int(level.sum())
        self.limited.level_count += len(level)
        self.waiting = self.waiting[~is_limited]
        if released is not None:
            self.limited_to_s = from_s + released - RELEASED_S

    def _look(self, signals: Signals) -> None:
        """Gather the evidence of every span, and close those that are over."""
        while self.detector.spans:
            span = self.detector.spans[0]
            self.stages = self.stages or Stages.begun(span, signals)
            for over in self.stages.take(span.take_new(), signals):
                if _stands(span, over):
                    self._close(over, signals.events)
            if self.detector.pop_closed() is None:
                return
            later = self.detector.spans[0] if self.detector.spans else None
            if later and later.is_higher and self._believed(span, self.stages.now(signals)):
                later.start_s, later.rise_s = span.start_s, span.rise_s
                later.sure_s, later.is_proven = span.sure_s or later.sure_s, True
                continue
            for over in self._believed(span, self.stages.closed(span, signals)):
                self._close(over, signals.events)
            self.stages = None

    def _believed(self, span: Span, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        """None where the noise alone may have made it, and too little speaks for a cause."""
        surest = max((stage.finding.proof for stage in stages), default=0.0)
        was_sure = span.sure_s is not None and len(stages) > 1  # another level on top makes it look less like a step
        if not (span.is_proven or was_sure) and span.ratio < min(CERTAIN, UNCAUSED * (1 - surest)):
            return ()
        return tuple(stage for stage in stages if stage is stages[-1] or _stands(span, stage))

    def _close(self, stage: Stage, events: EventIndex) -> None:
        assert self.stages is not None
        self.closed = (*self.closed, _slowdown(stage, events, self.until_s, self.stages.sigma))[-KEPT:]
        self.closed_count += 1

    def view(self, signals: Signals) -> SlowdownsView:
        found = list(self.closed)
        total = self.closed_count
        if self.detector.open and self.stages:
            stages = self._believed(self.detector.open, self.stages.now(signals))
            now = [_slowdown(stage, signals.events, self.until_s, self.stages.sigma) for stage in stages]
            found += now
            total += len(now)
        first = self._limited_from_start(self.limited) if self.limited else []
        if self.contention.from_start:
            first.append(self._contended_from_start(signals.events))
        burst = None if self.limited and self.limited_to_s is None else self.detector.provisional()
        rows = _inside(self.burst_rows, burst) if burst else NO_SECONDS.rows
        contended_now = None
        if self.contention.is_now:
            contended_now = now_words(signals, self.until_s, *signals.events.competitor_now(self.until_s)) or "others"
        scatter = self.detector.noise.sigma if self.detector.baseline else None
        found = [*first, *found[max(0, len(found) + len(first) - KEPT) :]]
        is_settled = self.detector.baseline is not None
        return SlowdownsView(burst, rows, is_settled, tuple(found), total + len(first), contended_now, scatter)

    def _limited_from_start(self, limited: Limited) -> list[Slowdown]:
        """Nothing where it began later: then it is a slowdown if it was slower than the burst that came after it."""
        to_s = self.limited_to_s
        if to_s is None and limited.flags and limited.free_s > FLICKER_S:
            to_s = self.until_s - limited.free_s  # as far as is known now
        found = self._from_start(
            to_s, limited.cause, limited.level_sum, limited.level_count, limited.confidence,
            tuple(limited.sentences()),
        )  # fmt: skip
        if limited.from_s is None:
            return [found]
        is_slower = found.latency_ratio is not None and found.latency_ratio >= LEAST_RATIO
        return [replace(found, start_ns=limited.from_s * NS, from_start=False)] if is_slower else []

    def _contended_from_start(self, events: EventIndex) -> Slowdown:
        of, over_s = self.contention, self.contention.over_s
        assert self.opening_s is not None
        named = of.named if self.is_anew else events.competitors(self.opening_s, self.until_s)
        sentences = (named, *of.sentences()) if named else tuple(of.sentences())
        count = of.level_count if self.is_anew else 0
        return self._from_start(over_s, "contention", of.level_sum, count, of.confidence, sentences)

    def _from_start(
        self, to_s: int | None, cause: Cause, level_sum: int, count: int, confidence: float, sentences: tuple[str, ...]
    ) -> Slowdown:
        """`level_sum`: of so many medians of seconds; none where there is no burst to compare them with."""
        assert self.opening_s is not None
        ratio = None
        if self.detector.baseline and count:
            ratio = round(math.exp((level_sum / count - self.detector.baseline.level) / NEPER), 4)
        end_ns = None if to_s is None else to_s * NS
        return Slowdown(self.opening_s * NS, end_ns, cause, ratio, confidence, sentences, from_start=True)


def _inside(rows: Rows, burst: Baseline) -> Rows:
    return np.asarray(rows[(rows["t_ns"] >= burst.from_s * NS) & (rows["t_ns"] < burst.to_s * NS)])


def _stands(span: Span, stage: Stage) -> bool:
    """Whether a stage that others follow was one before them."""
    assert stage.end_s is not None
    is_sure = span.sure_s is not None and span.sure_s <= stage.end_s
    return is_sure or stage.finding.proof >= LIKELY


def _slowdown(stage: Stage, events: EventIndex, until_s: int, sigma: float) -> Slowdown:
    """`sigma`: how much windows scatter, in nepers."""
    finding, evidence = stage.best
    start_s = stage.start_s
    if sigma > TOO_SCATTERED:  # then the latency does not tell when it rose, but what proves the cause does
        start_s = min(evidence.begins_s(finding.cause, start_s), stage.end_s or until_s)
    sentences = finding.sentences
    if finding.cause == "contention":  # who it was, before all signs of it
        named = events.competitors(start_s, until_s if stage.end_s is None else stage.end_s)
        sentences = (named, *sentences) if named else sentences
    return Slowdown(
        start_ns=start_s * NS,
        end_ns=None if stage.end_s is None else stage.end_s * NS,
        cause=finding.cause,
        latency_ratio=round(math.exp(stage.level / NEPER), 4),
        confidence=finding.confidence,
        evidence=sentences,
        then=stage.then,
    )
