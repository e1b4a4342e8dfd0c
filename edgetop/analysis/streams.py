"""The streams of a session: the models of a watched program, or the two sides of an A/B session.

Percentiles over the latencies of two models together mean nothing: they would move if only the mix of calls changed. So
each stream has its own latency, baseline, slowdowns, slow inferences and deadline. Throughput, errors and misses are
added up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from edgetop.analysis.deadline import WORTH_REPORTING, DeadlineView, Late, MissCause, view_deadline, why_late
from edgetop.analysis.faults import noted
from edgetop.analysis.input_shapes import InputSizes
from edgetop.analysis.miss_risk import miss_risk
from edgetop.analysis.precision import Precision, PrecisionView
from edgetop.analysis.prefill_slowdowns import PrefillSlowdowns, with_prefill
from edgetop.analysis.rolling_latency import NEVER_NS, SLOW_RECENT_S, Recent, RollingLatency
from edgetop.analysis.slowdowns.baseline import Baseline
from edgetop.analysis.slowdowns.equal_position import EqualPosition
from edgetop.analysis.slowdowns.equal_size import recent_p50_ns
from edgetop.analysis.slowdowns.slow_inferences import SlowInference, TailView, explained_by_others, tail_of
from edgetop.analysis.slowdowns.slowdown import MAX_SLOWDOWNS, Slowdown, SlowdownsView
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.analysis.statistics import Counted, Statistics
from edgetop.analysis.steady import STEP_S, SpanFigures, figures, sustained
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.records import NO_INFERENCES
from edgetop.session.seconds import NO_SECONDS, NS, Seconds

# Time within which slowdowns of several streams begin together and have one cause. Choice: a beginning is accurate to
# a few seconds, and two models rarely slow down within ten seconds for different reasons. Larger: two events are one;
# smaller: one event is reported for each model.
ONE_ONSET_NS = 10 * NS
RECENT_NS = SLOW_RECENT_S * NS


@dataclass(slots=True)
class StreamFolds:
    """The parts of the analysis that are kept for one stream (a model of the session).

    The object of each stream is given every batch of the session.
    """

    latency: RollingLatency
    slowdowns: Slowdowns
    precision: Precision
    responses: Precision  # Of response times, if they have a deadline.
    since_reset: RollingLatency | None = None  # Latency since the user's last reset; None if there was none.
    burst: tuple[Baseline | None, SpanFigures | None] = (None, None)  # Cached burst with its figures.
    # Cached last steady span, with the beginning of the step and the burst for which it was computed.
    held: tuple[tuple[int, Baseline | None] | None, SpanFigures | None] = (None, None)
    positions: EqualPosition | None = None  # Of a language model, whose tokens are judged instead of its requests.
    prefill: PrefillSlowdowns | None = None  # Of a language model.
    # Of the tokens of a language model, if `slowdowns` are those of its batches; None if they are those of its tokens.
    decode: Slowdowns | None = None

    def fold(self, batch: Batch, seconds: Seconds, *, has_latency: bool) -> None:
        """Take the stream's part of a batch, for all parts of the analysis except the stream's slowdowns.

        `seconds`: the stream's rows, one for each second. `has_latency`: whether to update the latency too. Pass False
        if the stream shares the latency of the whole session.
        """
        self.precision.fold(seconds)
        if seconds.response is not None and self.latency.load.deadline_ns is not None:
            self.responses.fold(seconds.response)
        if has_latency:
            for latency in self.latencies():
                latency.fold(replace(batch, seconds=seconds, inferences=NO_INFERENCES))

    def latencies(self) -> Iterator[RollingLatency]:
        yield self.latency
        if self.since_reset:
            yield self.since_reset

    @property
    def has_tokens(self) -> bool:
        """Whether times between two tokens of a request are known."""
        return self.positions is not None and self.positions.usual_ns is not None

    @property
    def only_prefill(self) -> PrefillSlowdowns | None:
        """The slowdowns of processing prompts if no request generated more than one token, or else None."""
        prefill = None if self.has_tokens or self.decode is not None else self.prefill
        return prefill if prefill is not None and len(prefill.rows) else None

    def slowdowns_view(self) -> SlowdownsView:
        """Return the slowdowns of the stream. For a language model, slowdowns of processing prompts are included."""
        if self.only_prefill:
            return self.only_prefill.view()
        own = (self.slowdowns if self.decode is None or not self.has_tokens else self.decode).view()
        return with_prefill(own, self.prefill.view()) if self.prefill is not None and len(self.prefill.rows) else own

    def burst_figures(self) -> SpanFigures | None:
        """Return the figures of the burst, the first steady 30 s, or None if they are not known yet."""
        view = self.slowdowns_view()
        if self.burst[0] != view.burst:
            found = figures(view.burst_rows, view.burst.from_s, view.burst.to_s) if view.burst else None
            self.burst = view.burst, found
        return self.burst[1]


@frozen
class Moment:
    """A session time, for which the figures of streams are computed."""

    until_ns: int  # The present or, if the session is over, its end.
    is_over: bool


class StreamView:
    """The figures of one stream over the whole session. Each figure is computed when it is first read.

    If a session has many streams, a view may be some seconds older than the data (`folds.VIEWED_AT_ONCE`).
    """

    def __init__(
        self, number: int, name: str, folds: StreamFolds, moment: Moment, missing_since_ns: int | None = None
    ) -> None:
        """Create the view of a stream.

        `number` and `name` are unique in the session. `folds`: the stream's parts of the analysis. `moment`: the
        session time to show. `missing_since_ns`: the session time in ns since which the stream misses its deadline;
        None if it does not miss the deadline now.
        """
        self.number, self.name = number, name
        self._folds, self._moment, self._missing_since_ns = folds, moment, missing_since_ns
        self._windows: dict[int, Statistics | None] = {}  # By length in ns.

    @property
    def second(self) -> int:
        """The session second for which the figures are computed."""
        return self._moment.until_ns // NS

    @noted
    def statistics(self) -> Statistics | None:
        return self._folds.latency.statistics(self._moment.until_ns)

    @noted
    def response(self) -> Statistics | None:
        """The statistics of response times, or None if the load sets no start times or nothing was measured."""
        return self._folds.latency.response(self._moment.until_ns)

    @noted
    def recent(self) -> Recent:
        """A summary of the last seconds, from which the verdict on the present state is made."""
        return self._folds.latency.recent(self._moment.until_ns)

    @noted
    def judged_p50_ns(self) -> float | None:
        """The median latency of the last seconds in ns, for comparison with the first steady 30 s of the session.

        None if nothing was measured. If inputs vary in size, the median is converted to one size. The time of a token
        is converted to one position in the context.
        """
        positions, prefill = self._folds.positions, self._folds.only_prefill
        if prefill is not None:
            return recent_p50_ns(prefill.judged_rows(), self._moment.until_ns)
        if positions is not None and len(positions.rows):
            return positions.recent_p50_ns(self._moment.until_ns)
        if len(rows := self.slowdowns.equal_rows):
            return recent_p50_ns(rows, self._moment.until_ns)
        return self.recent.p50_ns

    @noted
    def slowdowns(self) -> SlowdownsView:
        return self._folds.slowdowns_view()

    @noted
    def precision(self) -> PrecisionView:
        """The precision of the percentiles. During the measurement, it may be some seconds old."""
        latency = self._folds.latency
        return self._folds.precision.view(self.statistics, latency.buckets, is_final=self._moment.is_over)

    @property
    def latency(self) -> RollingLatency:
        return self._folds.latency

    @property
    def shown_latency(self) -> RollingLatency:
        """The latency since the user's last reset, or since the start without a reset."""
        return self._folds.since_reset or self._folds.latency

    @noted
    def shown_statistics(self) -> Statistics | None:
        """The latency statistics since the user's last reset, or None if nothing was measured."""
        return self.shown_latency.statistics(self._moment.until_ns)

    def shown_window(self, window_ns: int | None) -> Statistics | None:
        """Return the latency statistics of the last part of the time since the user's last reset.

        `window_ns`: the length of this part in ns; None for all of the time since the reset. The result is None if
        nothing was measured.
        """
        if window_ns is None:
            return self.shown_statistics
        if window_ns not in self._windows:
            self._windows[window_ns] = self.shown_latency.window(window_ns, self._moment.until_ns)
        return self._windows[window_ns]

    @noted
    def burst(self) -> SpanFigures | None:
        return self._folds.burst_figures()

    @noted
    def sustained(self) -> SpanFigures | None:
        return self._sustained(None)

    @noted
    def sustained_lately(self) -> SpanFigures | None:
        """The last steady span, or None if no span was steady.

        While the session runs, the span is computed every ten seconds, because it takes too long for each refresh of a
        screen.
        """
        if self._moment.is_over:
            return self.sustained
        until_s = (self.second // STEP_S - 1) * STEP_S  # its seconds are complete, however batches were cut
        key = until_s, self.slowdowns.burst
        if self._folds.held[0] != key:
            self._folds.held = key, self._sustained(until_s)
        return self._folds.held[1]

    def _sustained(self, until_s: int | None) -> SpanFigures | None:
        """Return the figures of the last steady span, or None if there is none.

        `until_s`: only seconds before this session second are examined; None for all seconds.
        """
        view = self.slowdowns
        is_early = view.burst is None and not any(slowdown.from_start for slowdown in view.slowdowns)
        positions, prefill = self._folds.positions, self._folds.only_prefill
        if prefill is not None:
            return None if is_early else sustained(prefill.judged_rows(), view.burst)
        rows = positions.rows if positions is not None and len(positions.rows) else view.equal_rows
        rows = rows if len(rows) else self._folds.latency.latest_rows()
        if until_s is not None:
            rows = rows[rows["t_ns"] < until_s * NS]
        return None if is_early else sustained(rows, view.burst)

    def is_span_settled(self, span: SpanFigures, quantile: float) -> bool:
        """Whether `span`, a steady span of this stream, has enough inferences to trust the percentile.

        `quantile`: the percentile as a share, such as 0.99. If the stream has too few independent inferences for it, a
        span that is most of the stream has too few as well. A span of a language model is one of tokens or prompts,
        of which the precision of its requests says nothing.
        """
        is_of_tokens = self._folds.has_tokens or self._folds.only_prefill is not None
        if is_of_tokens or self.statistics is None or 2 * span.count <= self.statistics.count:
            return span.is_settled(quantile)
        return span.is_settled(quantile) and self.precision.is_settled(quantile, self.statistics)

    @noted
    def input_sizes(self) -> InputSizes | None:
        """The input sizes in the first steady 30 s and in the last steady span, or None if one of them is unknown."""
        return self._sizes(self.sustained.from_s, self.sustained.to_s) if self.sustained else None

    def _sizes(self, from_s: int, to_s: int) -> InputSizes | None:
        in_burst = self.slowdowns.burst_size
        later = self._folds.slowdowns.signals.input_size(from_s, to_s) if in_burst else None
        return None if not in_burst or later is None else InputSizes(in_burst, later)

    @property
    def input_growth(self) -> float:
        """Return the size of the inputs in the last seconds divided by their size in the first steady 30 s.

        The result is 1.0 if a size is unknown, if the sizes hardly differ, or if latencies are converted to one size.
        """
        if len(self.slowdowns.equal_rows):  # The latency that is judged is converted to one size.
            return 1.0
        until_s = self._moment.until_ns // NS
        sizes = self._sizes(until_s - SLOW_RECENT_S, until_s)
        return sizes.later / sizes.burst if sizes and sizes.differ else 1.0

    @noted
    def drift_ratio(self) -> float | None:
        """The p50 of the last steady span divided by the p50 of the first steady 30 s, such as 1.2 for 20 % slower.

        Both are for inputs of the same size. None if the ratio is unknown, or if inputs changed in size and the sizes
        of individual calls are unknown.
        """
        burst, held, sizes = self.burst, self.sustained, self.input_sizes
        is_comparable = burst and held and (len(self.slowdowns.equal_rows) or not (sizes and sizes.differ))
        return round(held.p50_ns / burst.p50_ns, 4) if is_comparable and burst and held else None

    @noted
    def tail(self) -> TailView:
        """The slowest inferences of the whole session, and of the last ten minutes."""
        p50_ns = self.statistics.percentile_ns(0.50) if self.statistics else None
        return self._folds.slowdowns.tail(p50_ns, None if self._folds.decode is None else self.slowdowns.slowdowns)

    @noted
    def deadline(self) -> DeadlineView | None:
        """How often the stream missed its deadline; None without a deadline or without inferences."""
        load = self._folds.latency.load
        if load.deadline_ns is None:
            return None
        return view_deadline(load, self.statistics, self.response, self._missing_since_ns, self._miss_cause())

    @noted
    def deadline_with_risk(self) -> DeadlineView | None:
        """How often the stream missed its deadline, with the probability that an inference misses it.

        None without a deadline or without inferences. The probability takes some milliseconds to compute.
        """
        deadline = self.deadline
        if deadline is None:
            return None
        felt = self._folds.precision if self.response is None else self._folds.responses
        is_slowed = bool(self.slowdowns.slowdowns)
        risk = miss_risk(felt.histograms(), deadline.deadline_ns, deadline.misses, is_slowed=is_slowed)
        return replace(deadline, risk=risk)

    def _miss_cause(self) -> MissCause | None:
        """Return the cause of the present misses of the deadline or, if there are none, of those in the whole session.

        The result is None if hardly any inference missed its deadline.
        """
        whole, recent, latency = self.statistics, self.recent, self._folds.latency
        load = latency.load
        if not whole or not load.deadline_ns or (whole.misses or 0) < WORTH_REPORTING * whole.count:
            return None
        since_ns = self._missing_since_ns
        if since_ns is not None and recent.misses and recent.p50_ns and not self._moment.is_over:
            tail = [one for one in self.tail.recent if one.t_ns >= since_ns]
            starts = latency.late_starts(
                self._folds.slowdowns.signals, max(since_ns, self._moment.until_ns - RECENT_NS)
            )
            late = Late(recent.p50_ns, recent.misses, recent.slow, tail, starts=starts)
        else:
            slow = histogram.count_above(latency.buckets, load.deadline_ns)
            starts = latency.late_starts(self._folds.slowdowns.signals)
            late = Late(whole.percentile_ns(0.50), whole.misses or 0, slow, self.tail.slowest, whole.mean_ns, starts)
        burst = self.slowdowns.burst
        return why_late(late, load, burst.p50_ns if burst else None)

    def parts(self, count: int) -> list[histogram.Counts]:
        """Return the latency histograms of `count` successive parts of the session, which are about equally long.

        Each histogram has the number of inferences in each latency bucket. The list is empty if the session is too
        short.
        """
        return self._folds.precision.parts(count)

    @noted
    def busy_ns(self) -> float:
        """The total time of the stream's inferences in ns. The busiest stream is the stream with the greatest total."""
        return self.statistics.mean_ns * self.statistics.count if self.statistics else 0.0


def join_slowdowns(views: Sequence[StreamView]) -> SlowdownsView:
    """Return the slowdowns of all streams as slowdowns of the session.

    Slowdowns that begin together are joined to one slowdown, which has the most certain of their causes, and the
    latency ratio of the stream that slowed down most.
    """
    ordered = sorted(
        ((slowdown, view.name) for view in views for slowdown in view.slowdowns.slowdowns),
        key=lambda pair: (not pair[0].from_start, pair[0].start_ns, pair[1]),
    )
    groups: list[list[tuple[Slowdown, str]]] = []
    for slowdown, name in ordered:
        last = groups[-1] if groups else None
        if last and _is_same(last, slowdown, name):
            last.append((slowdown, name))
        else:
            groups.append([(slowdown, name)])
    joined = [_joined(group) for group in groups]
    all_views = [view.slowdowns for view in views]
    return SlowdownsView(
        burst=None,
        burst_rows=NO_SECONDS.rows,
        is_settled=any(view.is_settled for view in all_views),
        slowdowns=tuple(joined[-MAX_SLOWDOWNS:]),
        total=max([len(joined), *(view.total for view in all_views)]),
        contended_now=next((view.contended_now for view in all_views if view.contended_now), None),
    )


def _is_same(group: list[tuple[Slowdown, str]], slowdown: Slowdown, name: str) -> bool:
    first = group[0][0]
    is_near = slowdown.start_ns - first.start_ns <= ONE_ONSET_NS
    if slowdown.cause == first.cause != "unknown":  # In a ramp, each stream passes the border at another time.
        began_ns = min((clue.at_s * NS for clue in slowdown.evidence if clue.at_s is not None), default=NEVER_NS)
        is_near |= abs(began_ns - first.start_ns) <= ONE_ONSET_NS
    return is_near and slowdown.from_start == first.from_start and name not in {other for _, other in group}


def _joined(group: list[tuple[Slowdown, str]]) -> Slowdown:
    has_mix = any(slowdown.cause == "mix" for slowdown, _ in group)
    # A change of the mix slows some models. It explains nothing if a model that it does not concern slowed with them.
    surest = max(
        (slowdown for slowdown, _ in group),
        key=lambda one: (one.cause not in ("mix", "unknown"), has_mix == (one.cause == "unknown"), one.confidence),
    )
    by_ratio = sorted(group, key=lambda pair: -(pair[0].latency_ratio or 0.0))
    ends = [slowdown.end_ns for slowdown, _ in group]
    return replace(
        surest,
        start_ns=min(slowdown.start_ns for slowdown, _ in group),
        end_ns=None if None in ends else max(end_ns for end_ns in ends if end_ns is not None),
        latency_ratio=by_ratio[0][0].latency_ratio,
        streams=tuple(name for _, name in by_ratio),
    )


def join_tails(views: Sequence[StreamView]) -> TailView:
    """Return the slowest inferences of all streams together. Each inference has the name of its stream."""
    slowdowns = sorted((one for view in views for one in view.slowdowns.slowdowns), key=lambda one: one.start_ns)

    def named(found: SlowInference, stream: str) -> SlowInference:
        return replace(explained_by_others(found, slowdowns), stream=stream)

    slowest = [named(one, view.name) for view in views for one in view.tail.slowest]
    recent = [named(one, view.name) for view in views for one in view.tail.recent]
    return tail_of(slowest, recent)


def join_deadlines(views: Sequence[StreamView], counted: Counted) -> DeadlineView | None:
    """Return how the session met its deadline: the misses of all streams, and the least headroom of any stream.

    `counted`: the counts over all streams. The result is None if no stream has a deadline.
    """
    found = [(view.deadline, view.name) for view in views if view.deadline]
    if not found:
        return None
    worst, name = max(found, key=lambda pair: (pair[0].misses, -pair[0].headroom_ns))
    cause = worst.cause and replace(worst.cause, stream=name)
    return replace(
        worst, misses=counted.misses or 0, count=counted.count, longest_run=counted.longest_miss_run or 0,
        headroom_ns=min(deadline.headroom_ns for deadline, _ in found), max_rate_hz=None, cause=cause,
        since_ns=min((deadline.since_ns for deadline, _ in found if deadline.since_ns is not None), default=None),
    )  # fmt: skip
