"""Rolling and whole-session latency: exact in small windows, by mergeable histogram in large ones."""

import copy

import numpy as np
import numpy.typing as npt

from edgetop.analysis.late_starts import LateStarts, find_late_starts
from edgetop.analysis.latest import LatestInferences, LatestSeconds
from edgetop.analysis.slowdowns.signals import Signals
from edgetop.analysis.statistics import Counted, Statistics, Totals, as_response, of_inferences, that_ran
from edgetop.analysis.timeline import Axis, Points, Timeline
from edgetop.frozen import frozen
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.manifest import Load
from edgetop.session.records import measured
from edgetop.session.seconds import NS, SecondAggregator, Seconds, concatenate

RECENT_S, SLOW_RECENT_S, ENOUGH_RECENT = 10, 60, 11  # inferences: as many as settle a median
NEVER_NS = 2**62
RECENT_SECONDS = 601  # kept as histograms: the longest window, and the second in which it begins


@frozen
class StreamLatency:
    """The latency of one of several streams, for a table of them."""

    name: str
    window: Statistics | None  # None: nothing measured in it
    session: Statistics | None


@frozen
class LatencyView:
    """The latency of the only stream, or of one of several: of different models together there is none."""

    window_ns: int | None  # None: since the start, or the last reset
    window: Statistics | None  # None: nothing measured in it
    session: Statistics | None
    is_exact: bool  # the window's percentiles are exact, not to 1 %
    points: Points  # low: shortest, middle: p50, high: p99, top: longest
    buckets: histogram.Counts  # the window's histogram
    since_ns: int = 0  # after a reset: what started earlier does not count
    window_response: Statistics | None = None  # from the intended starts; None: nothing waits, or nothing was measured
    session_response: Statistics | None = None
    totals: Counted | None = None  # of all streams since the start of the session; None: nothing measured
    stream: str = ""  # the stream that the rest is of, in a session with several
    streams: tuple[StreamLatency, ...] = ()  # all of several, the busiest first


@frozen
class Recent:
    """The last seconds, by which the present is judged: the same live, in a replay and in a report."""

    p50_ns: float | None = None  # None: nothing was measured in them
    count: int = 0
    errors: int = 0
    misses: int = 0  # of the deadline; 0 too where there is none
    slow: int = 0  # of those, how many took longer than the deadline by themselves


class RollingLatency:
    """Folds seconds and single inferences. Only phase `measure` counts."""

    def __init__(self, since_ns: int = 0) -> None:
        """`since_ns`: what started earlier does not count; a whole second."""
        self.load = Load()  # as the session's manifest says
        self._since_ns = since_ns
        self._totals = Totals()
        self._response = Totals()
        self._recent = LatestSeconds(RECENT_SECONDS)
        self._latest = LatestInferences(since_ns)
        self._closed_until_ns = since_ns
        self._began_ns: int | None = since_ns or None
        self._timeline = Timeline()
        self._open: Seconds | None = None  # summarised once between two folds,
        self._whole: Totals | None = None  # as are what it adds to and, by their ends, the figures of that
        self._figures: dict[tuple[int, bool], Statistics | None] = {}  # of the service or the response times

    def began(self, t_ns: int) -> None:
        """Begin the measured phase."""
        self._began_ns = max(t_ns, self._since_ns)

    def successor(self) -> "RollingLatency":
        """Return an empty one for a stream that begins now. It is fed seconds alone, no single inferences."""
        other = RollingLatency(self._since_ns)
        other.load = self.load
        other.forget_single()
        if self._began_ns is not None:
            other.began(self._began_ns)
        return other

    def of_seconds(self) -> "RollingLatency":
        """Return a copy that is fed seconds alone, no single inferences."""
        other = copy.deepcopy(self)
        other.forget_single()
        return other

    def forget_single(self) -> None:
        """Drop the single inferences, and take none from now on."""
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
            # A row that is not later than all before it has come again: it counts once.
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
        self._latest.compare(seconds)
        self._recent.keep(seconds)
        rows = that_ran(rows)
        figures = np.stack([rows[name] for name in ("min_ns", "p50_ns", "p99_ns", "max_ns")]).astype(np.float64)
        track = np.zeros(len(rows), np.int64)
        self._timeline.add(track, rows["t_ns"] // NS, figures, rows["count"].astype(np.float64))

    def view(self, window_ns: int | None, now_ns: int, axis: Axis) -> LatencyView:
        """`window_ns`: at most ten minutes, or None for everything since the start or the last reset."""
        session, response = self.statistics(now_ns), self.response(now_ns)
        window, window_response, buckets, is_exact = session, response, self.buckets, False
        if window_ns is not None:
            window, window_response, buckets, is_exact = self._window(window_ns, now_ns)
        return LatencyView(
            window_ns, window, session, is_exact, self.points(axis), buckets, self._since_ns,
            window_response, response,
        )  # fmt: skip

    def window(self, window_ns: int | None, now_ns: int) -> Statistics | None:
        """Return the statistics of the window. `window_ns` as for `view`."""
        return self.statistics(now_ns) if window_ns is None else self._window(window_ns, now_ns)[0]

    def recent(self, now_ns: int) -> Recent:
        """Sum up the last RECENT_S seconds or, for a slow model or pace, the last minute.

        Made from rows of seconds alone, which every feed has: single inferences would make a replay or a remote
        screen say something else than the run.
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
        """Return how inferences since then started late, as far as single ones are stored; None: none of those did."""
        if not self.load.is_paced or self.load.deadline_ns is None:
            return None
        return find_late_starts(self._latest.since(since_ns), self.load.deadline_ns, signals)

    def latest_rows(self) -> npt.NDArray[np.void]:
        """Return the rows of the last ten minutes, up to the last complete second."""
        rows = self._recent.rows()
        return rows[rows["t_ns"] > rows["t_ns"][-1] - 600 * NS] if len(rows) else rows

    def points(self, axis: Axis) -> Points:
        return self._timeline.points(axis)

    def statistics(self, end_ns: int) -> Statistics | None:
        """Return the statistics of the whole session up to `end_ns`."""
        if (end_ns, False) not in self._figures:
            self._figures[end_ns, False] = self._all().statistics(self._span_ns(end_ns))
        return self._figures[end_ns, False]

    def response(self, end_ns: int) -> Statistics | None:
        """Return the statistics of response times up to `end_ns`; None under a closed load."""
        if not self.load.is_paced:
            return None
        if (end_ns, True) not in self._figures:
            self._figures[end_ns, True] = self._all_responses().statistics(self._span_ns(end_ns))
        return self._figures[end_ns, True]

    @property
    def buckets(self) -> histogram.Counts:
        """Return the histogram of the whole session."""
        return self._all().buckets

    @property
    def response_buckets(self) -> histogram.Counts:
        """Return the histogram of response times; it is empty under a closed load."""
        return self._all_responses().buckets

    @property
    def errors(self) -> int:
        """Return the number of failed inferences, also where none has succeeded."""
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
        """Return the window's service and response times, histogram of service time, and whether they are exact."""
        began = self._began_ns or 0
        since = max(now_ns - window_ns, began)
        if since >= self._latest.complete_from_ns:
            inferences, span_ns = self._latest.since(since), max(now_ns - since, 1)
            buckets = histogram.count_buckets(measured(inferences)["latency_ns"].astype(np.int64))
            waited = of_inferences(as_response(inferences), span_ns) if self.load.is_paced else None
            return of_inferences(inferences, span_ns), waited, buckets, True
        since = max(since // NS * NS, began)  # a second counts as a whole
        seconds = concatenate([self._recent.since(since), self._open_part()])
        service, response = Totals(), Totals()
        service.add(seconds)
        if seconds.response is not None:
            response.add(seconds.response)
        span_ns = max(now_ns - since, 1)
        return service.statistics(span_ns), response.statistics(span_ns), service.buckets, False

    def _open_part(self) -> Seconds:
        """Summarise the incomplete second as the conductor will summarise it."""
        if self._open is None:
            inferences = self._latest.since(self._closed_until_ns)
            first = inferences["t_ns"][0] if len(inferences) else self._closed_until_ns
            load = self.load
            aggregator = SecondAggregator(load.deadline_ns, int(first // NS), is_paced=load.is_paced)
            self._open = concatenate([aggregator.add(inferences), aggregator.close()])
        return self._open
