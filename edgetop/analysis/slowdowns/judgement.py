"""The state of the search for slowdowns up to some second: the baseline, and the slowdowns found, with their causes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edgetop.analysis.event_index import FAR_BACK_S
from edgetop.analysis.slowdowns.baseline import SLOWER, Baseline, baseline_of, partial_baseline
from edgetop.analysis.slowdowns.clue import Clue
from edgetop.analysis.slowdowns.detector import Detector
from edgetop.analysis.slowdowns.equal_size import RECENT_S, EqualSize
from edgetop.analysis.slowdowns.evidence import BEFORE_S
from edgetop.analysis.slowdowns.from_start import (
    LIMITED_OPENING_S,
    MOST_CONFIDENCE,
    RELEASED_S,
    Contention,
    Limited,
    taken_now,
)
from edgetop.analysis.slowdowns.levels import NEPER, WindowCutter, levels
from edgetop.analysis.slowdowns.refusal import find_refusals
from edgetop.analysis.slowdowns.serialization import fork
from edgetop.analysis.slowdowns.signals import GPU_OF_OTHERS, Cause, Signals
from edgetop.analysis.slowdowns.slow_span import CERTAIN, Span
from edgetop.analysis.slowdowns.slowdown import MAX_SLOWDOWNS, TOO_SCATTERED, Rows, Slowdown, SlowdownsView
from edgetop.analysis.slowdowns.stages import Stage, Stages
from edgetop.analysis.slowdowns.stalls import lost_ms, with_felt
from edgetop.analysis.slowdowns.throttle_spans import FLICKER_S
from edgetop.session.median import median
from edgetop.session.seconds import NO_SECONDS, NS, SECOND
from edgetop.session.typed_json import NOT_EXPORTED

# Log-likelihood ratio that a slowdown without a cause needs. A known cause lowers it, by its confidence, to that of a
# certain slowdown. Choice: half more. Larger: real slowdowns that no sensor explains are missed; smaller: noise is
# reported as a slowdown of unknown cause.
UNCAUSED = 21.0
# Confidence in the cause of one stage from which the other stages of an uncertain slowdown are believed too. Choice.
# Larger: a rise before a proven cause is missed; smaller: noise before a doubtful cause is reported.
LIKELY = 0.6
# Least time of a slowdown by the mix. Choice: the mix of many programs changes from second to second. Larger: a short
# change that slows a model is missed; smaller: chance in models with few calls is a slowdown.
MIX_LASTS_S = 10
LEAST_RATIO = math.exp(SLOWER / NEPER)
MAX_ROWS = 512  # Most rows stored before there is a burst, which is found within three minutes.


@dataclass(slots=True)
class Judgement:
    """The state of the search for slowdowns. `advance` continues the search with the next seconds of the session.

    The state is the same however the seconds were divided into batches.
    """

    until_s: int = 0
    opening_s: int | None = None  # First second with a measured inference.
    is_opened: bool = False  # Whether it is known if the board was limited from the start.
    limited: Limited | None = None
    limited_to_s: int | None = None  # When that limitation ended; None while it continues.
    contention: Contention = field(default_factory=Contention)
    is_anew: bool = False  # Whether the detector was restarted after a contention from the start.
    detector: Detector = field(default_factory=Detector)
    cutter: WindowCutter = field(default_factory=WindowCutter)
    stages: Stages | None = None  # Stages of the detector's first span.
    closed: tuple[Slowdown, ...] = ()
    closed_count: int = 0
    waiting: Rows = field(default_factory=lambda: NO_SECONDS.rows)  # Rows that the detector has not seen yet.
    burst_rows: Rows = field(default_factory=lambda: NO_SECONDS.rows)
    sizes: EqualSize = field(default_factory=EqualSize)
    burst_size: float | None = None  # Mean number of elements in the inputs of the burst; None if unknown.
    usual_lost_ms: float = 0.0  # For how many ms of a second the process was stopped in the burst.
    # The last seconds in which it was stopped for longer: session second, and latency felt divided by the median.
    stopped: list[tuple[int, float]] = field(default_factory=list, metadata=NOT_EXPORTED)

    def copy(self) -> "Judgement":
        _ = self.detector.noise.sigma  # Computed here once, so that no copy computes it again.
        return fork(self)

    def advance(self, rows: Rows, until_s: int, signals: Signals) -> None:
        """Search the next seconds for slowdowns, up to the session second `until_s`.

        `rows` are these seconds. `signals` gives the values of the sensors.
        """
        from_s, self.until_s = self.until_s, until_s
        rows = self.sizes.judged(rows, signals.sized)
        rows = rows[rows["count"] > 0]
        if self.opening_s is None and len(rows):
            self.opening_s = int(rows["t_ns"][0]) // NS
        if self.opening_s is None:
            return
        self.waiting = np.concatenate([self.waiting, rows], dtype=SECOND) if len(self.waiting) else rows
        if not self.is_opened:
            if until_s < self.opening_s + LIMITED_OPENING_S:
                return
            self.is_opened, from_s = True, self.opening_s
            self.limited = Limited.at_opening(signals, self.opening_s)
            if self.limited and self.limited.from_s is not None:
                self.waiting = self.waiting[self.waiting["t_ns"] >= self.limited.from_s * NS]
        self.contention.count(signals, from_s, until_s)
        if self.limited and self.limited_to_s is None:
            self._follow_limits(self.limited, from_s, signals)
            if self.limited_to_s is None:
                return
        over_s = self.contention.over_s
        if over_s is not None and not self.is_anew:
            self._detect(over_s, signals)
            self._begin_anew(self.opening_s, over_s, signals)
        # While other processes may still take the CPU, there is nothing to compare with.
        free_s = self.contention.free_s if self.contention.is_open else 0
        self._detect(until_s - free_s, signals)

    def _detect(self, until_s: int, signals: Signals) -> None:
        """Search the seconds in `waiting` before the session second `until_s` for slowdowns."""
        due = int(np.searchsorted(self.waiting["t_ns"], until_s * NS))
        rows, self.waiting = self.waiting[:due], self.waiting[due:]
        if not self.is_anew:
            level = levels(rows["p50_ns"])
            self.contention.level_sum += int(level.sum())
            self.contention.level_count += len(level)
        place, felt = 0, rows if self.detector.baseline else with_felt(rows, signals, 0.0)
        # One by one, so that it makes no difference how many seconds come with the one that completes the burst.
        while self.detector.baseline is None and place < len(rows):
            self._build_burst(rows[place : place + 1], felt[place : place + 1], signals)
            place += 1
        if place < len(rows):
            self.detector.fold(*self.cutter.add(self._felt(rows[place:], signals)))
        self._explain(signals)

    def _build_burst(self, row: Rows, felt: Rows, signals: Signals) -> None:
        """Add the second `row` to those from which the burst (the first steady 30 s) is found.

        `felt` is the same second with a latency that is higher if the process was stopped. The burst is found in this
        latency, so it ends before stops begin, and begins after stops end. Once the burst is found, the time for which
        the process was stopped in it counts as usual, and all seconds from the burst on are compared anew.
        """
        detector, ended_s = self.detector, self.detector.ended_s
        self.burst_rows = np.concatenate([self.burst_rows, row])[-MAX_ROWS:]
        detector.fold(*self.cutter.add(felt))
        if (burst := detector.baseline) is None:
            return
        rows = self._rows_since(burst.from_s)
        self.burst_rows = _inside(rows, burst)
        self.burst_size = signals.input_size(burst.from_s, burst.to_s)
        lost = lost_ms(self.burst_rows, signals)
        self.usual_lost_ms = median(lost) if len(lost) else 0.0
        if (with_felt(rows, signals, 0.0)["p50_ns"] == rows["p50_ns"]).all():
            return
        cutter = WindowCutter()
        windows, points = cutter.add(self._felt(rows, signals))
        of_burst = points[points["second"] < burst.to_s]
        if len(of_burst):  # else its few inferences are in no window any more
            self.cutter = cutter
            self.detector = Detector(ended_s=ended_s, end_s=detector.end_s, windows=windows, points=points)
            self.detector.compare_with(baseline_of(of_burst))

    def _rows_since(self, from_s: int) -> Rows:
        """Return the seconds of `burst_rows` from the session second `from_s` on, as they were measured."""
        return np.asarray(self.burst_rows[self.burst_rows["t_ns"] >= from_s * NS])

    def _partial_burst(self) -> Baseline | None:
        """Return the burst of a measurement in which none was found yet, or None if it is shorter than 5 s."""
        points = self.detector.points
        if not len(points):
            return None
        return partial_baseline(WindowCutter().add(self._rows_since(int(points["second"][0])))[1])

    def _felt(self, rows: Rows, signals: Signals) -> Rows:
        """Return `rows` with a higher median latency in seconds in which the process was stopped unusually long."""
        felt = with_felt(rows, signals, self.usual_lost_ms)
        places = np.flatnonzero(felt["p50_ns"] > rows["p50_ns"])
        ratios = (felt["p50_ns"] / rows["p50_ns"])[places].tolist()
        new = zip((rows["t_ns"][places] // NS).tolist(), ratios, strict=True)
        self.stopped = [*self.stopped, *new][-RECENT_S:]
        return felt

    @property
    def stop_ratio(self) -> float:
        """Return the factor by which stops of the process made its inferences slower in the last 10 s; 1.0 for none."""
        extra = sum(ratio - 1 for second, ratio in self.stopped if second >= self.until_s - RECENT_S)
        return 1 + extra / RECENT_S

    def _begin_anew(self, opening_s: int, from_s: int, signals: Signals) -> None:
        """Restart the search for slowdowns after other processes took the CPU from the start.

        The usual latency can be measured only now. `opening_s` is the first second in which other processes took the
        CPU, and `from_s` the first second in which they no longer did. `signals` gives the values of the sensors.
        """
        self.is_anew = True
        self.contention.named = _process(signals, opening_s, from_s)
        if self.detector.open:
            self.detector.open.end_s = from_s
            self._explain(signals)
        self.detector, self.cutter, self.burst_rows = Detector(ended_s=from_s), WindowCutter(), NO_SECONDS.rows
        self.usual_lost_ms = 0.0

    def _follow_limits(self, limited: Limited, from_s: int, signals: Signals) -> None:
        """Count the seconds in which a limit of the board is in force, from `from_s` on, until the limitation is over.

        The limitation is over when no limit has been in force for some seconds. `signals` gives the values of the
        sensors.
        """
        from_s = max(from_s, limited.from_s or 0)
        released = limited.count(signals, from_s, self.until_s)
        free_from_s = (self.until_s if released is None else from_s + released) - limited.free_s
        is_limited = self.waiting["t_ns"] < free_from_s * NS
        level = levels(self.waiting["p50_ns"][is_limited])
        limited.level_sum += int(level.sum())
        limited.level_count += len(level)
        self.waiting = self.waiting[~is_limited]
        if released is not None:
            self.limited_to_s = from_s + released - RELEASED_S

    def _explain(self, signals: Signals) -> None:
        """Collect the evidence for each slow time that the detector found, and store the slowdowns that are over."""
        while self.detector.spans:
            span = self.detector.spans[0]
            self.stages = self.stages or Stages.begun(span, signals)
            windows, span.new_slow = span.new_slow, []
            over = [stage for stage in self.stages.add(windows, signals) if _stands(span, stage)]
            self._close(over, self.stages, signals)
            if span.end_s is None:
                return
            self.detector.spans.pop(0)
            later = self.detector.spans[0] if self.detector.spans else None
            if later and later.is_higher and _believed(span, self.stages.now(signals)):
                later.start_s, later.rise_s = span.start_s, span.rise_s
                later.sure_s, later.is_proven = span.sure_s or later.sure_s, True
                continue
            self._close(_believed(span, self.stages.closed(span, signals)), self.stages, signals)
            self.stages = None

    def _close(self, over: list[Stage], stages: Stages, signals: Signals) -> None:
        found = [_slowdown(stage, signals, self.until_s, stages.sigma) for stage in over]
        closed = [slowdown for slowdown in found if _is_reported(slowdown, self.until_s, signals)]
        self.closed = (*self.closed, *closed)[-MAX_SLOWDOWNS:]
        self.closed_count += len(closed)

    def view(self, signals: Signals) -> SlowdownsView:
        slowdowns, size_ratio = list(self.closed), 1.0
        if self.detector.open and self.stages:
            span, has_ended = self.detector.open, self.detector.end_s < float("inf")
            parts = self.stages.ended(span, self.until_s, signals) if has_ended else self.stages.now(signals)
            stages = _believed(span, parts)
            found = [_slowdown(stage, signals, self.until_s, self.stages.sigma) for stage in stages]
            slowdowns += [slowdown for slowdown in found if _is_reported(slowdown, self.until_s, signals)]
            if found and found[-1].cause == "inputs":
                size_ratio = found[-1].latency_ratio or 1.0
        first = self._limited_from_start(self.limited, signals) if self.limited else []
        if self.contention.from_start:
            first.append(self._contended_from_start(signals))
        total = self.closed_count + len(slowdowns) - len(self.closed) + len(first)
        latest = (*first, *slowdowns[max(0, len(slowdowns) + len(first) - MAX_SLOWDOWNS) :])
        burst = self.detector.baseline or self._partial_burst()
        if self.limited and self.limited_to_s is None:
            burst = None
        rows = _inside(self.burst_rows, burst) if burst else NO_SECONDS.rows
        contended_now = None
        if self.contention.is_now:
            contended_now = taken_now(signals, self.until_s, *signals.events.competitor_now(self.until_s))
        is_settled = self.detector.baseline is not None
        scatter = self.detector.noise.sigma if is_settled else None
        return SlowdownsView(
            burst, rows, is_settled, latest, total, contended_now, scatter, size_ratio,
            self.burst_size, self.sizes.rows, self.stop_ratio,
        )  # fmt: skip

    def _limited_from_start(self, limited: Limited, signals: Signals) -> list[Slowdown]:
        """Return the limitation of the board as a list with one slowdown, or an empty list if it is not reported.

        A limitation that began after the start is reported only if the model was slower during it than after it. So is
        a limitation that is over, in a session with several streams, because the stream may have begun long after the
        session.
        """
        to_s = self.limited_to_s
        if to_s is None and limited.flags and limited.free_s > FLICKER_S:
            to_s = self.until_s - limited.free_s  # As far as it is known now.
        slowdown = self._from_start(
            to_s, limited.cause, limited.level_sum, limited.level_count, limited.confidence, tuple(limited.clues())
        )
        if limited.from_s is None:
            is_known = len(signals.names) > 1 and to_s is not None and slowdown.latency_ratio is not None
            return [] if is_known and (slowdown.latency_ratio or 0.0) < LEAST_RATIO else [slowdown]
        is_slower = slowdown.latency_ratio is not None and slowdown.latency_ratio >= LEAST_RATIO
        return [replace(slowdown, start_ns=limited.from_s * NS, from_start=False)] if is_slower else []

    def _contended_from_start(self, signals: Signals) -> Slowdown:
        contention = self.contention
        named = contention.named if self.is_anew else _process(signals, self.opening_s or 0, self.until_s)
        clues = (named, *contention.clues()) if named else tuple(contention.clues())
        count = contention.level_count if self.is_anew else 0
        confidence = round(MOST_CONFIDENCE * min(1.0, contention.share), 2)
        return self._from_start(contention.over_s, "contention", contention.level_sum, count, confidence, clues)

    def _from_start(
        self, to_s: int | None, cause: Cause, level_sum: int, count: int, confidence: float, clues: tuple[Clue, ...]
    ) -> Slowdown:
        """Return a slowdown that began at the start and ended at the session second `to_s` (None: it continues).

        The latency ratio is computed from `level_sum`: the sum, over `count` seconds, of the natural logarithm of the
        median latency in ns, times a million. The ratio is unknown if `count` is 0. `cause`, `confidence` (0..1) and
        `clues` (observations) become fields of the slowdown.
        """
        ratio = None
        if self.detector.baseline and count:
            ratio = round(math.exp((level_sum / count - self.detector.baseline.level) / NEPER), 4)
        end_ns = None if to_s is None else to_s * NS
        return Slowdown((self.opening_s or 0) * NS, end_ns, cause, ratio, confidence, clues, from_start=True)


def _process(signals: Signals, start_s: int, end_s: int) -> Clue | None:
    """Return an observation on the process with the highest CPU use between two session seconds, or None.

    The result is None if no process was reported.
    """
    most = signals.events.competitors(start_s, end_s)
    return Clue("process", most[0], value=most[1]) if most else None


def _contenders(clues: Sequence[Clue], signals: Signals, start_s: int, end_s: int) -> list[Clue]:
    """Return an observation on the process that took most of the CPU, and on that which took most of the GPU.

    `clues` is the evidence of a contention: it says whether the CPU or the GPU was taken. The one that it names first
    comes first. A process that was not reported between the session seconds `start_s` and `end_s` is left out.
    """
    found: list[Clue | None] = []
    for of_gpu in dict.fromkeys(clue.name == GPU_OF_OTHERS for clue in clues if not clue.also):
        if of_gpu:
            most = signals.events.gpu_competitor(start_s, end_s)
            found.append(Clue("process-gpu", most[0], value=most[1]) if most else None)
        else:
            found.append(_process(signals, start_s, end_s))
    return [clue for clue in found if clue]


def _is_reported(slowdown: Slowdown, until_s: int, signals: Signals) -> bool:
    """Whether the slowdown is shown to users. `until_s` is the present session second.

    A slowdown because of larger inputs is not shown. A slowdown because of another mix of models is not shown if it
    lasts only seconds. A slowdown of unknown cause is not shown if the context of a language model is longer than ever
    before, which `signals` says.
    """
    begin_s, end_s = slowdown.start_ns // NS, until_s if slowdown.end_ns is None else slowdown.end_ns // NS
    lasts_s = end_s - begin_s
    if slowdown.cause == "unknown" and signals.positions.is_new(begin_s, end_s):
        return False
    return slowdown.cause != "inputs" and not (slowdown.cause == "mix" and lasts_s < MIX_LASTS_S)


def _between(signals: Signals, start_s: int, end_s: int) -> Clue | None:
    """Return an observation on the other stream that took more time than before between the calls of this stream.

    Of several other streams, the stream whose time rose most is named. The result is None if this stream has no calls
    in the slowdown. `signals` has the calls of all streams. `start_s` and `end_s`: the session seconds in which the
    slowdown begins and ends.
    """
    before_s, during_s = (start_s - BEFORE_S, start_s), (max(start_s, end_s - FAR_BACK_S), end_s)
    found = signals.mix.risen(signals.number, before_s, during_s)
    if found is None:
        return None
    name = signals.names[found.number] if found.number < len(signals.names) else f"stream {found.number}"
    return Clue("between", name, value=found.during, usual=found.before)


def _inside(rows: Rows, burst: Baseline) -> Rows:
    return np.asarray(rows[(rows["t_ns"] >= burst.from_s * NS) & (rows["t_ns"] < burst.to_s * NS)])


def _believed(span: Span, stages: tuple[Stage, ...]) -> list[Stage]:
    """Return the parts of a slow time that are sure enough to be reported.

    `stages` are the parts. The list is empty if noise may explain the slow time and no part has a well proven cause.
    """
    surest = max((stage.finding.proof for stage in stages), default=0.0)
    # A further level makes the span look less like a single step.
    was_sure = span.sure_s is not None and len(stages) > 1
    if not (span.is_proven or was_sure) and span.ratio < min(CERTAIN, UNCAUSED * (1 - surest)):
        return []
    return [stage for stage in stages if stage is stages[-1] or _stands(span, stage)]


def _stands(span: Span, stage: Stage) -> bool:
    """Whether a part of a slow time is reported even if the rest of the slow time may be noise.

    True if it was certain by the end of this part that the slow time is more than noise, or if the cause of this part
    is well proven. Call it only if other parts follow this part.
    """
    assert stage.end_s is not None
    return (span.sure_s is not None and span.sure_s <= stage.end_s) or stage.finding.proof >= LIKELY


def _slowdown(stage: Stage, signals: Signals, until_s: int, sigma: float) -> Slowdown:
    """Return the slowdown to report for `stage`, one part of a slow time with its own cause.

    `signals` gives the values of the sensors. `until_s` is the present session second. `sigma` is the usual scatter:
    the standard deviation of the natural logarithm of the latency.
    """
    finding, evidence = stage.best()
    start_s, clues = stage.start_s, finding.clues
    # Latency is so noisy, or inferences are so few, that the signals of the cause date the beginning better.
    if sigma > TOO_SCATTERED or evidence.late_s:
        start_s = min(evidence.begins_s(finding.cause, start_s), stage.end_s or until_s)
    if finding.cause == "contention":  # The name of the process comes first.
        named = _contenders(clues, signals, start_s, until_s if stage.end_s is None else stage.end_s)
        clues = (*named, *clues)
    if finding.cause == "memory-pressure":
        taken = signals.events.memory_taker(start_s, until_s if stage.end_s is None else stage.end_s)
        if taken:
            clues = (Clue("process-memory", taken.name, "MiB", float(taken.rss_mib), float(taken.grew_mib)), *clues)
    if finding.cause == "mix":
        between = _between(signals, start_s, until_s if stage.end_s is None else stage.end_s)
        clues = (between, *clues[1:]) if between else clues  # It tells more than the share of all others.
    return Slowdown(
        start_ns=start_s * NS,
        end_ns=None if stage.end_s is None else stage.end_s * NS,
        cause=finding.cause,
        latency_ratio=round(math.exp(stage.level / NEPER), 4),
        confidence=finding.confidence,
        evidence=clues,
        then=stage.then,
        considered=find_refusals(evidence, max(stage.level - evidence.floor, 0) / NEPER, finding.cause),
    )
