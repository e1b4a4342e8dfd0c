"""The analysis of a session: all its results, its verdict, and the views that a screen reads.

Each part of a view is computed when it is first read. A part that nobody reads costs nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, TypeVar

from edgetop.analysis import session_report
from edgetop.analysis.ab_figures import AbView
from edgetop.analysis.energy import PowerView
from edgetop.analysis.faults import Fault, UnavailableError
from edgetop.analysis.findings import Finding
from edgetop.analysis.folds import Folds
from edgetop.analysis.heat import along, view_thermal
from edgetop.analysis.latency_heat import HeatColumn
from edgetop.analysis.notices import notices_now
from edgetop.analysis.power_limit import PowerLimit, power_limit
from edgetop.analysis.precision import UNJUDGED, PrecisionView
from edgetop.analysis.program_frames import FramesView
from edgetop.analysis.report_operators import operator_energies, operator_events
from edgetop.analysis.rolling_latency import LatencyView, RollingLatency, StreamLatency
from edgetop.analysis.slowdowns.from_start import OTHERS
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.steady import SpanFigures
from edgetop.analysis.streams import StreamView
from edgetop.analysis.timeline import Axis, Lens, Points
from edgetop.analysis.token_figures import GenerationView
from edgetop.session.batch import Batch
from edgetop.session.seconds import NS, QUANTILES

PLAIN = Lens()

T = TypeVar("T")


class Analysis(Folds):
    """All results of one session, with its verdict and its gates (the conditions of `--fail-if`)."""

    gate_results = session_report.gate_results
    verdict = session_report.verdict
    shows_service = False  # whether the distribution over time is of service times although inferences are paced
    chosen_stream = ""  # the stream whose latency is shown, by its name; "": the busiest

    @classmethod
    def of(cls, batches: Iterable[Batch]) -> "Analysis":
        """Return an analysis that has taken `batches`, such as all batches of a recording."""
        analysis = cls()
        for batch in batches:
            analysis.fold(batch)
        return analysis

    def view(self, window_ns: int | None, lens: Lens = PLAIN, kinds: Sequence[str] = ()) -> "MonitorView":
        """Return everything that a screen shows at the present moment.

        `window_ns`: the latency figures cover this many ns before now; None for all of the time since the last reset.
        `lens`: the part of the session that timelines show. `kinds`: kinds of sensors, such as "temp". Each sensor of
        these kinds gets a timeline.
        """
        return MonitorView(self, window_ns, lens, kinds)

    def latency_view(self, window_ns: int | None) -> LatencyView:
        """Return the latency figures since the last reset.

        With several streams (models or inferences that run side by side), the figures are those of the stream that the
        user chose. `window_ns`: the figures cover this many ns before now; None for all of the time since the reset.
        """
        now_ns, (latency, name) = self.progress.measured_until_ns, self._shown()
        view = replace(latency.view(window_ns, now_ns, service=self.shows_service), totals=self.totals(), stream=name)
        if not name:
            return view
        shown = StreamLatency(name, view.window, view.session)
        rows = (
            shown if of.name == name else StreamLatency(of.name, of.shown_window(window_ns), of.shown_statistics)
            for of in self.stream_views()
        )
        return replace(view, streams=tuple(rows))

    def latency_points(self, axis: Axis) -> Points:
        """Return the timeline of the latency that the screen shows. `axis`: its time axis."""
        return self._shown()[0].points(axis)

    def latency_heat(self, axis: Axis) -> tuple[HeatColumn, ...]:
        """Return the columns of the heat map that the screen shows. Columns without inferences are left out.

        `axis`: the time axis of the heat map.
        """
        return self._shown()[0].heat(axis, service=self.shows_service)

    def shown_latency(self) -> tuple[RollingLatency, str]:
        """Return `(latency, name)`: the latency that charts of the whole session show, and the name of its stream.

        With several streams, it is the busiest stream. With only one stream, the name is "".
        """
        views = self.stream_views()
        return views[0].latency, views[0].name if len(views) > 1 else ""

    def _shown(self) -> tuple[RollingLatency, str]:
        """Return `(latency, name)`: the latency since the last reset that the screen shows, and the name of its stream.

        With several streams, it is the stream that the user chose. With only one stream, the name is "".
        """
        views = self.stream_views()
        if len(views) == 1:
            return self._since_reset or self.latency if not self.has_streams else views[0].shown_latency, ""
        shown = next((view for view in views if view.name == self.chosen_stream), views[0])
        return shown.shown_latency, shown.name

    def shown_spans(self) -> tuple[SpanFigures | None, SpanFigures | None]:
        """Return `(burst, sustained)`: the first and the last steady span of the stream that the screen shows.

        Each is None if it is unknown. The sustained span may be some seconds older than the other figures on the
        screen.
        """
        shown = self._shown_stream()
        return shown.burst, shown.sustained_lately

    def settled_of_spans(self) -> tuple[frozenset[float], ...]:
        """Return for each of `shown_spans` the percentiles for which it has enough inferences, such as {0.5, 0.9}."""
        shown = self._shown_stream()
        return tuple(
            frozenset(of for of in QUANTILES if span is not None and shown.is_span_settled(span, of))
            for span in self.shown_spans()
        )

    def _shown_stream(self) -> StreamView:
        """Return the stream that the screen shows, which the user may have chosen."""
        views, (_, name) = self.stream_views(), self._shown()
        return next((view for view in views if view.name == name), views[0])

    def choose_stream(self) -> str:
        """Let the screen show the next stream, and return that stream's name.

        The result is "" if the session has only one stream.
        """
        names = [view.name for view in sorted(self.stream_views(), key=lambda view: view.number)]
        if len(names) == 1:
            return ""
        _, shown = self._shown()
        self.chosen_stream = names[(names.index(shown) + 1) % len(names)]
        return self.chosen_stream

    def along(self, view: "MonitorView", lens: Lens, kinds: Sequence[str] = ()) -> "MonitorView":
        """Return a copy of `view`, an earlier frozen view, in which the timelines show another part of the session.

        `lens`: that part. No timeline goes beyond the time of `view`. `kinds`: kinds of sensors, such as "temp". Each
        sensor of these kinds gets a timeline.
        """
        with self.lock:
            return self.faults.attempt("view: along", lambda: self._along(view, lens, kinds), lambda: view)[0]

    def _along(self, view: "MonitorView", lens: Lens, kinds: Sequence[str]) -> "MonitorView":
        now_s, leading = view.progress.now_ns / NS, view.power.leading
        axis = lens.axis(now_s, whole=view.latency.window_ns is None)
        power = self.tracks.points(leading.track.info.id, axis, now_s) if leading else None
        return view.replaced(
            axis=axis,
            latency_points=self.latency_points(axis).until(now_s // 1),
            latency_heat=tuple(column for column in self.latency_heat(axis) if column.to_s <= now_s + axis.column_s),
            thermal=along(view.thermal, self.tracks, axis, now_s),
            power=replace(view.power, points=power),
            memory=replace(view.memory, rss_points=self.tracks.points("mem/rss", axis, now_s)),
            burst_marks=self.operators.marks(axis).until(now_s),
            sensor_series=self.sensor_series(axis, kinds, now_s),
        )


class _Part(Generic[T]):
    """A descriptor for one part of a `MonitorView`, which computes the part when it is first read, and stores it."""

    def __init__(self, make: "Callable[[MonitorView], T]") -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._figure = name, f"view: {name}"

    def __get__(self, view: "MonitorView", owner: type) -> T:
        faults, name = view.analysis.faults, self._name
        with view.analysis.lock:
            made, failed = faults.attempt(self._figure, lambda: self._make(view), lambda: self._make(view.unknown()))
            vars(view)[name] = made
            if failed:
                view.unavailable = {**view.unavailable, name: faults.behind(failed)}
        return made


class MonitorView:
    """Everything that a screen shows at one moment. Each part is computed when it is first read.

    A part shows all batches that were folded before it was first read, even those after the view was made. Call
    `freeze` to keep all parts at the present moment.
    """

    analysis: Analysis
    window_ns: int | None
    axis: Axis
    kinds: Sequence[str]

    verdict = _Part(lambda view: view.analysis.verdict())
    latency = _Part(lambda view: view.analysis.latency_view(view.window_ns))
    latency_points = _Part(lambda view: view.analysis.latency_points(view.axis))
    latency_heat = _Part(lambda view: view.analysis.latency_heat(view.axis))
    thermal = _Part(lambda view: view_thermal(view.analysis.tracks, view.axis))
    # The CPU use of other processes; None without a sensor.
    others_points: "_Part[Points | None]" = _Part(lambda view: view.analysis.tracks.points(OTHERS, view.axis))
    forecast = _Part(lambda view: view.analysis.forecast_view())
    power: "_Part[PowerView]" = _Part(lambda view: view.analysis.power_view(view.axis))
    power_limit: "_Part[PowerLimit | None]" = _Part(
        lambda view: power_limit(view.analysis.tracks, view.analysis.manifest)
    )
    energy = _Part(lambda view: view.analysis.energy_view(view.power, only_leading=True))
    memory = _Part(lambda view: view.analysis.memory_view(view.axis))
    counters = _Part(lambda view: view.analysis.event_figures())  # What was counted for an inference.
    operators = _Part(lambda view: view.analysis.operators.view())
    operator_energies = _Part(lambda view: operator_energies(view.analysis))
    operator_events = _Part(lambda view: operator_events(view.analysis))
    # The times at which operators were profiled.
    burst_marks = _Part(lambda view: view.analysis.operators.marks(view.axis))
    slowdowns = _Part(lambda view: view.analysis.slowdowns_view())
    tail = _Part(lambda view: view.analysis.tail())
    events = _Part(lambda view: view.analysis.events_view())
    sensors = _Part(lambda view: view.analysis.tracks.views())
    missing = _Part(lambda view: view.analysis.tracks.missing)
    notices = _Part(lambda view: notices_now(view.analysis))
    precision = _Part(lambda view: view.analysis.precision_view())  # The precision of the whole session's percentiles.
    own_load = _Part(lambda view: view.analysis.tracks.one("load/edgetop"))  # The CPU that edgetop itself uses.
    own_memory = _Part(lambda view: view.analysis.tracks.one("mem/edgetop"))
    recording_paused = _Part(lambda view: view.analysis.recording.is_paused)
    deadline = _Part(lambda view: view.analysis.deadline())  # The deadline over the whole session.
    gates = _Part(lambda view: view.analysis.gate_results())  # The results of the gates if the session ended now.
    alerts = _Part(lambda view: view.analysis.alerts_view())
    frames: "_Part[FramesView | None]" = _Part(lambda view: view.analysis.frames.view())
    generation: "_Part[GenerationView | None]" = _Part(lambda view: view.analysis.generation.view())
    ab: "_Part[AbView | None]" = _Part(lambda view: view.analysis.ab_view())
    throttles = _Part(lambda view: view.analysis.throttles.view())
    burst = _Part(lambda view: view.analysis.burst())
    settled_of_spans = _Part(lambda view: view.analysis.settled_of_spans())
    spans = _Part(lambda view: view.analysis.shown_spans())  # the burst and the sustained span of the shown stream
    # By sensor id, for the requested kinds.
    sensor_series = _Part(lambda view: view.analysis.sensor_series(view.axis, view.kinds))

    def __init__(self, analysis: Analysis, window_ns: int | None, lens: Lens, kinds: Sequence[str]) -> None:
        self.analysis = analysis
        self.window_ns, self.kinds = window_ns, kinds
        # Parts that an internal error of edgetop makes unavailable, each with the error.
        self.unavailable: Mapping[str, Fault] = {}
        self.manifest = analysis.manifest  # None until the first batch.
        self.progress = analysis.progress.view()
        self.axis = lens.axis(self.progress.now_ns / NS, whole=window_ns is None)

    def show_notices(self, notices: Sequence[Finding]) -> None:
        """Replace the notices of the view by `notices`."""
        vars(self)["notices"] = tuple(notices)

    def precision_of(self, window: Statistics | None) -> PrecisionView:
        """Return the precision of the percentiles of `window`, the figures of a part of the session.

        It is known if the window has all inferences of the session, and UNJUDGED otherwise.
        """
        totals = self.latency.totals
        return self.precision if window and totals and window.count == totals.count else UNJUDGED

    def is_settled(self, window: Statistics, quantile: float) -> bool:
        """Whether `window`, the figures of a part of the session, has enough inferences to trust the percentile."""
        return self.precision_of(window).is_settled(quantile, window)

    def unknown(self) -> "MonitorView":
        """Return a view whose parts are all empty, as for a session without data."""
        return MonitorView(self.analysis.twin(), self.window_ns, PLAIN, ())

    def fault_of(self, parts: Iterable[str]) -> Fault | None:
        """Return the internal error that makes one of these parts unavailable, or None if all parts are available.

        `parts`: names of attributes of the view, such as "thermal".
        """
        try:
            for name in parts:
                getattr(self, name)
        except UnavailableError as error:
            return error.fault
        return next((self.unavailable[name] for name in parts if name in self.unavailable), None)

    def freeze(self) -> "MonitorView":
        """Compute every part now, and return the view itself. Later batches no longer change it."""
        with self.analysis.lock:
            for name in PARTS:
                self.fault_of((name,))
        return self

    def replaced(self, **parts: object) -> "MonitorView":
        """Return a copy of the view in which some parts are replaced.

        For example, `view.replaced(memory=memory)` has another memory part.
        """
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), **parts)
        return twin


PARTS = tuple(name for name, part in vars(MonitorView).items() if isinstance(part, _Part))
