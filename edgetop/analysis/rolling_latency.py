"""Latency of the whole session and of its last seconds or minutes.

Figures of short times are exact. Figures of long times come from histograms, which are accurate to 1 %.
"""

import copy

import numpy as np
import numpy.typing as npt

from edgetop.analysis.late_starts import LateStarts, find_late_starts
from edgetop.analysis.latency_heat import HeatColumn, LatencyHeat
from edgetop.analysis.latest import LatestInferences, LatestSeconds
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.statistics import (
    SETTLED_COUNTS,
    Counted,
    Statistics,
    Totals,
    as_response,
    of_inferences,
    that_ran,
)
from edgetop.analysis.timeline import Axis, Points, Timeline
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.load_settings import Load
from edgetop.session.records import measured
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, concatenate

# Time that "now" covers, for a model with enough inferences in it. Choice: as long as an interruption. Larger: the
# verdict lags; smaller: it flickers.
RECENT_S = 10
# The same for a slow model or pace. Choice. Larger: the verdict on a slow model lags; smaller: few inferences decide
# it.
SLOW_RECENT_S = 60
ENOUGH_RECENT = SETTLED_COUNTS[0.50]
NEVER_NS = 2**62
# Seconds with a histogram: the longest window with the second in which it begins, and the usual span of a heat map.
RECENT_SECONDS = 900
LATEST_NS = 600 * NS


@frozen
class StreamLatency:
    """The latency of one stream: one row in a table of several streams."""

    name: str
    window: Statistics | None  # None if nothing was measured in the window.
    session: Statistics | None


@frozen
class LatencyView:
    """The latency of one stream, as the screen shows it.

    Latencies of different models together would mean nothing, so each stream has its own view.
    """

    window_ns: int | None  # None means since the start or the last reset.
    window: Statistics | None  # None if nothing was measured in the window.
    session: Statistics | None
    is_exact: bool  # Whether the window's percentiles are exact; otherwise they are accurate to 1 %.
    buckets: histogram.Counts  # Histogram of the window.
    since_ns: int = 0  # Time of the last reset; earlier inferences do not count.
    # Times from the intended starts; None under a closed load or if nothing was measured.
    window_response: Statistics | None = None
    session_response: Statistics | None = None
    totals: Counted | None = None  # Counts of all streams since the start of the session; None if nothing was measured.
    stream: str = ""  # Name of the stream that this view shows, in a session with several streams.
    streams: tuple[StreamLatency, ...] = ()  # One row for each of several streams, the busiest first.
    heat_is_response: bool = False  # Whether the heat map, and the figures beside it, are of response times.
    heat_is_of_tokens: bool = False  # Whether the heat map is of the times between tokens.


@frozen
class Recent:
    """A summary of the last seconds, from which the verdict on the present state is made.

    A live run, a replay and a report get the same summary.
    """

    p50_ns: float | None = None  # None if nothing was measured in them.
    count: int = 0
    errors: int = 0
    misses: int = 0  # Number of missed deadlines; 0 without a deadline.
    slow: int = 0  # Number of these misses whose service time alone exceeded the deadline.


class RollingLatency:
    """Computes the latency in the measured phase, from individual inferences and from rows for whole seconds."""

    def __init__(self, since_ns: int = 0) -> None:
        """Begin without data. Inferences before the session time `since_ns`, a whole second in ns, are ignored."""
        self.load = Load()  # The load in the session's manifest.
        self._since_ns = since_ns
        self._totals = Totals()
        self._response = Totals()
        self._recent = LatestSeconds(RECENT_SECONDS)
        self._latest = LatestInferences(since_ns)
        self._closed_until_ns = since_ns
        self._began_ns: int | None = since_ns or None
        self._timeline = Timeline()
        self._heat, self._response_heat = LatencyHeat(), LatencyHeat()
        # Times between the tokens of a language model. The heat map shows them instead of latencies of requests.
        self._token_heat, self._recent_tokens = LatencyHeat(), LatestSeconds(RECENT_SECONDS)
        self._has_tokens = False
        self._open: Seconds | None = None  # Statistics of the incomplete second, made once between two folds.
        self._whole: Totals | None = None  # Totals with the incomplete second.
        # Cached figures, by the end of the span and whether they are response times.
        self._figures: dict[tuple[int, bool], Statistics | None] = {}

    def began(self, t_ns: int) -> None:
        """Begin the measured phase at the session time `t_ns`, in ns."""
        self._began_ns = max(t_ns, self._since_ns)

    def successor(self) -> "RollingLatency":
        """Return an empty object for a stream that begins now.

        The new object ignores individual inferences, so pass it the rows for whole seconds.
        """
        other = RollingLatency(self._since_ns)
        other.load = self.load
        other.forget_single()
        if self._began_ns is not None:
            other.began(self._began_ns)
        return other

    def of_seconds(self) -> "RollingLatency":
        """Return a copy that ignores individual inferences from now on, and uses only the rows for whole seconds."""
        other = copy.deepcopy(self)
        other.forget_single()
        return other

    def forget_single(self) -> None:
        """Drop all individual inferences and ignore later ones, so that only the rows for whole seconds are used."""
        self._latest = LatestInferences(NEVER_NS)
        self._open = self._whole = None
        self._figures = {}

    def fold(self, batch: Batch) -> None:
        self._open = self._whole = None
        self._figures = {}
        if len(batch.inferences):
            self._latest.keep(batch.inferences)
        if len(batch.seconds):
            begin = batch.seconds.rows["t_ns"]
            ends = np.concatenate([[self._closed_until_ns], begin[:-1] + NS])
            # A row that is not later than all rows before it is a repetition, and counts once.
            self._fold_seconds(batch.seconds.where(begin >= np.maximum.accumulate(ends)))
        self._latest.drop_old()

    def _fold_seconds(self, seconds: Seconds) -> None:
        if not len(seconds):
            return
        rows = seconds.rows
        self._closed_until_ns = int(rows["t_ns"][-1]) + NS
        self._totals.add(seconds)
        if seconds.response is not None:
            self._response.add(seconds.response)
            self._response_heat.fold(seconds.response)
        self._heat.fold(seconds)
        if seconds.tokens is not None:
            self._has_tokens |= bool(seconds.tokens.itl.rows["count"].any())
            self._token_heat.fold(seconds.tokens.itl)
            self._recent_tokens.keep(seconds.tokens.itl)
        self._latest.compare(seconds)
        self._recent.keep(seconds)
        rows = that_ran(rows)
        figures = np.stack([rows[name] for name in ("min_ns", "p50_ns", "p99_ns", "max_ns")]).astype(np.float64)
        track = np.zeros(len(rows), np.int64)
        self._timeline.add(track, rows["t_ns"] // NS, figures, rows["count"].astype(np.float64))

    def view(self, window_ns: int | None, now_ns: int, *, service: bool = False) -> LatencyView:
        """Return the latency figures for the screen, without the timelines, which `points` and `heat` return.

        `window_ns`: the figures cover this many ns before now, at most ten minutes; None for all of the time since the
        start or the last reset. `now_ns`: the present session time in ns. `service`: whether the heat map shows service
        times although the load sets start times.
        """
        session, response = self.statistics(now_ns), self.response(now_ns)
        window, window_response, buckets, is_exact = session, response, self.buckets, False
        if window_ns is not None:
            window, window_response, buckets, is_exact = self._window(window_ns, now_ns)
        return LatencyView(
            window_ns, window, session, is_exact, buckets, self._since_ns, window_response, response,
            heat_is_response=self.load.is_paced and not service,
            heat_is_of_tokens=self._has_tokens,
        )  # fmt: skip

    def window(self, window_ns: int | None, now_ns: int) -> Statistics | None:
        """Return the latency statistics of the last `window_ns` ns, or None if nothing was measured in this time.

        `window_ns` is None for all of the time since the start or the last reset. `now_ns`: the present session time in
        ns.
        """
        return self.statistics(now_ns) if window_ns is None else self._window(window_ns, now_ns)[0]

    def recent(self, now_ns: int) -> Recent:
        """Return a summary of the last RECENT_S seconds or, if they have too few inferences, of SLOW_RECENT_S seconds.

        `now_ns`: the present session time in ns. The summary is computed only from the rows for whole seconds, because
        every reader of a session has these rows: a run, its replay and a remote screen get the same result.
        """
        found = Recent()
        for window_s in (RECENT_S, SLOW_RECENT_S):
            found = self._summed(now_ns - window_s * NS)
            if found.count >= ENOUGH_RECENT:
                break
        return found

    def _summed(self, since_ns: int) -> Recent:
        seconds = concatenate([self._recent.since(since_ns), self._open_part()])
        rows, p50_ns = that_ran(seconds.rows), None
        if len(rows):
            extremes_ns = int(rows["min_ns"].min()), int(rows["max_ns"].max())
            p50_ns = histogram.percentiles(seconds.histogram(), (0.50,), *extremes_ns)[0]
        misses = int(np.maximum(seconds.rows["deadline_misses"], 0).sum())
        slow = histogram.count_above(seconds.histogram(), self.load.deadline_ns) if misses else 0
        return Recent(p50_ns, int(rows["count"].sum()), int(seconds.rows["errors"].sum()), misses, slow)

    def late_starts(self, signals: Signals, since_ns: int = 0) -> LateStarts | None:
        """Return how late inferences started, or None if this is unknown or if no inference started late.

        `signals`: the sensors' readings. `since_ns`: a session time in ns. Inferences before this time, or more than
        ten minutes ago, are left out.
        """
        if not self.load.is_paced or self.load.deadline_ns is None:
            return None
        since_ns = max(since_ns, self._closed_until_ns - LATEST_NS)
        return find_late_starts(concatenate([self._recent.since(since_ns), self._open_part()]), self.load, signals)

    def latest_rows(self) -> npt.NDArray[np.void]:
        """Return the rows of the last ten minutes up to the last complete second, without their histograms.

        There is one row per second.
        """
        rows = self._recent.rows()
        return rows[rows["t_ns"] > rows["t_ns"][-1] - LATEST_NS] if len(rows) else rows

    def points(self, axis: Axis) -> Points:
        """Return the timeline of the latency, with its minimum (low), p50 (middle), p99 (high) and maximum (top)."""
        return self._timeline.points(axis)

    def heat(self, axis: Axis, *, service: bool = False) -> tuple[HeatColumn, ...]:
        """Return the distribution of latency over time, as one column for each step of the time axis.

        Columns without inferences are left out. `service`: True for service times; False for response times, or for
        service times if the load sets no start times. For a language model, the times between tokens are shown instead.
        """
        if self._has_tokens:
            return self._token_heat.columns(axis, self._recent_tokens, RECENT_SECONDS - 1, NO_SECONDS)
        unfinished = self._open_part()
        if self.load.is_paced and not service:
            response = unfinished.response if unfinished.response is not None else NO_SECONDS
            return self._response_heat.columns(axis, self._recent, RECENT_SECONDS - 1, response, of_response=True)
        return self._heat.columns(axis, self._recent, RECENT_SECONDS - 1, unfinished)

    def statistics(self, end_ns: int) -> Statistics | None:
        """Return the latency statistics up to the session time `end_ns`, in ns, or None if nothing was measured."""
        if (end_ns, False) not in self._figures:
            self._figures[end_ns, False] = self._all().statistics(self._span_ns(end_ns))
        return self._figures[end_ns, False]

    def response(self, end_ns: int) -> Statistics | None:
        """Return the statistics of response times up to the session time `end_ns`, in ns.

        The result is None if the load sets no start times, or if nothing was measured.
        """
        if not self.load.is_paced:
            return None
        if (end_ns, True) not in self._figures:
            self._figures[end_ns, True] = self._all_responses().statistics(self._span_ns(end_ns))
        return self._figures[end_ns, True]

    @property
    def buckets(self) -> histogram.Counts:
        """Return the latency histogram of the whole session."""
        return self._all().buckets

    @property
    def response_buckets(self) -> histogram.Counts:
        """Return the histogram of response times. It is empty if the load sets no start times."""
        return self._all_responses().buckets

    @property
    def errors(self) -> int:
        """Return the number of inferences that failed. It is known even if no inference succeeded."""
        return self._all().errors

    def _all(self) -> Totals:
        if self._whole is None:
            self._whole = self._totals.plus(self._open_part())
        return self._whole

    def _all_responses(self) -> Totals:
        begun = self._open_part().response
        return self._response if begun is None else self._response.plus(begun)

    def _span_ns(self, now_ns: int) -> int | None:
        return None if self._began_ns is None else max(now_ns - self._began_ns, 1)

    def _window(
        self, window_ns: int, now_ns: int
    ) -> tuple[Statistics | None, Statistics | None, histogram.Counts, bool]:
        """Return `(service, response, buckets, is_exact)` for the last `window_ns` ns of the session.

        `service` and `response` are the statistics of service times and of response times; None if there are none.
        `buckets` is the histogram of the service times. `is_exact` says whether percentiles are exact instead of
        accurate to 1 %. `now_ns`: the present session time in ns.
        """
        began = self._began_ns or 0
        since = max(now_ns - window_ns, began)
        if since >= self._latest.complete_from_ns:
            inferences, span_ns = self._latest.since(since), max(now_ns - since, 1)
            buckets = histogram.count_buckets(measured(inferences)["latency_ns"].astype(np.int64))
            waited = of_inferences(as_response(inferences), span_ns) if self.load.is_paced else None
            return of_inferences(inferences, span_ns), waited, buckets, True
        since = max(since // NS * NS, began)  # A second counts as a whole.
        seconds = concatenate([self._recent.since(since), self._open_part()])
        service, response = Totals(), Totals()
        service.add(seconds)
        if seconds.response is not None:
            response.add(seconds.response)
        span_ns = max(now_ns - since, 1)
        return service.statistics(span_ns), response.statistics(span_ns), service.buckets, False

    def _open_part(self) -> Seconds:
        """Return a row for the present, incomplete second, with the same statistics as a complete second has."""
        if self._open is None:
            inferences = self._latest.since(self._closed_until_ns)
            first = inferences["t_ns"][0] if len(inferences) else self._closed_until_ns
            load = self.load
            aggregator = SecondAggregator(load.deadline_ns, int(first // NS), is_paced=load.is_paced)
            self._open = concatenate([aggregator.add(inferences), aggregator.close()])
        return self._open
