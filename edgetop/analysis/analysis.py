"""All folds together: what a screen, a report or a gate asks."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from edgetop.analysis.advice import Advice
from edgetop.analysis.alerts.alert import NO_ALERTS, AlertsView
from edgetop.analysis.alerts.alerts import Alerts
from edgetop.analysis.alerts.events import DerivedEvents
from edgetop.analysis.alerts.rules import AlertRule
from edgetop.analysis.alerts.watch import alerts_from
from edgetop.analysis.cost import OwnLoad
from edgetop.analysis.deadline import DeadlineView, view_deadline
from edgetop.analysis.energy import EnergyView, view_energy
from edgetop.analysis.events import EventLog, EventsView
from edgetop.analysis.forecast.forecast import Forecast, ForecastView
from edgetop.analysis.gates import Gate, GateResult, parse_gate
from edgetop.analysis.growth import GrowthView, MemoryGrowth
from edgetop.analysis.latency import LatencyView, RollingLatency
from edgetop.analysis.lens import Lens
from edgetop.analysis.memory import MemoryStages, MemoryView, room, view_memory
from edgetop.analysis.operators import Operators, OperatorsView
from edgetop.analysis.overload import Backlog, OverloadView
from edgetop.analysis.power import PowerRails, PowerView
from edgetop.analysis.precision import Precision, PrecisionView
from edgetop.analysis.progress import Progress, ProgressView
from edgetop.analysis.recording_state import RecordingState
from edgetop.analysis.report import gate_results
from edgetop.analysis.sensor_series import sensor_series, view_along
from edgetop.analysis.slowdowns.judgement import SlowdownsView
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.steady import SpanFigures, SteadyState, figures
from edgetop.analysis.tail import TailView
from edgetop.analysis.thermal import ThermalView, view_thermal
from edgetop.analysis.throttles import NO_THROTTLES, Throttles, ThrottlesView
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import MissingSensor, Tracks, TrackView
from edgetop.analysis.usage import Usage, UsageView
from edgetop.analysis.verdict import Evidence, Promises, Verdict, judge
from edgetop.session.batch import Batch
from edgetop.session.events import Event, JsonValue, Notice
from edgetop.session.manifest import Manifest
from edgetop.session.seconds import NS


@dataclass(frozen=True, slots=True)
class MonitorView:
    """Everything a screen shows, frozen at one moment."""

    manifest: Manifest | None  # None: nothing has come yet
    progress: ProgressView
    verdict: Verdict
    latency: LatencyView
    thermal: ThermalView
    forecast: ForecastView
    power: PowerView
    energy: EnergyView
    memory: MemoryView
    operators: OperatorsView
    burst_marks: Points  # where along the axis operators were profiled
    slowdowns: SlowdownsView
    tail: TailView
    events: EventsView
    sensors: tuple[TrackView, ...]
    missing: tuple[MissingSensor, ...]
    notices: tuple[Notice, ...]
    precision: PrecisionView  # of the whole session's percentiles
    own_load: TrackView | None  # what edgetop itself costs
    own_memory: TrackView | None
    recording_paused: bool
    deadline: DeadlineView | None = None  # of the whole session
    gates: tuple[GateResult, ...] = ()  # as they stand now
    alerts: AlertsView = NO_ALERTS
    throttles: ThrottlesView = NO_THROTTLES
    sensor_series: Mapping[str, Points] = field(
        default_factory=dict
    )  # along the same axis, of sensors by id, as asked for


PLAIN = Lens()


T = TypeVar("T")


class Analysis:
    def __init__(self, rules: tuple[AlertRule, ...] = ()) -> None:
        """`rules`: the viewer's own, beside those of the session."""
        self._rules = rules
        self._forget()

    def _forget(self) -> None:
        self.manifest: Manifest | None = None
        self.latency = RollingLatency()
        self._since_reset: RollingLatency | None = None
        self.progress = Progress()
        self.tracks = Tracks()
        self.own_load = OwnLoad()
        self.operators = Operators()
        self.power = PowerRails()
        self.usage = Usage()
        self.events = EventLog()
        self.slowdowns = Slowdowns(self.tracks)
        self.throttles = Throttles()
        self.steady = SteadyState()
        self.forecast = Forecast(self.tracks)
        self.alerts = Alerts(self._rules, self.tracks)
        self._derived_events = DerivedEvents()
        self.backlog = Backlog()
        self.gates: tuple[Gate, ...] = ()
        self.memory_stages = MemoryStages()
        self.growth = MemoryGrowth()
        self.precision = Precision()
        self._advice = Advice()
        self.told: Mapping[str, JsonValue] = {}  # what a tool printed of inferences that are not here
        self._spans: tuple[SlowdownsView, SpanFigures | None, SpanFigures | None] | None = None
        self.recording = RecordingState()
        self._made: dict[str, Any] = {}  # what several parts of a view ask for, between two folds

    def fold(self, batch: Batch) -> None:
        self._made = {}
        if batch.restart:
            self._forget()
        if batch.known is not None:
            vars(self).update(batch.known)
        if batch.manifest is not None:
            self.manifest = batch.manifest
            self.latency.load = batch.manifest.load
            if self._since_reset:
                self._since_reset.load = batch.manifest.load
        self.events.fold(batch.events)
        self.memory_stages.fold(batch.events)
        self.growth.fold(batch)
        self.progress.fold(batch)
        for event in batch.events:
            self._on_event(event)
        self.latency.fold(batch)
        self.backlog.fold(batch.seconds, self.latency.load)
        if self._since_reset:
            self._since_reset.fold(batch)
        for part in self.tracks.parts(batch):
            self.slowdowns.fold(part)
            self.alerts.fold(part)
        self.operators.fold(batch)
        self.own_load.fold(batch, self.progress.began_measuring_ns)
        self.power.fold(batch)
        self.usage.fold(batch)
        self.throttles.fold(batch)
        self.steady.fold(batch)
        self.precision.fold(batch.seconds)
        self._advice.fold(batch)
        self.forecast.fold(batch)

    def known(self) -> Mapping[str, Any]:
        """All that is known, which changes with the next fold: from a copy, one with the same rules can go on."""
        return {name: part for name, part in vars(self).items() if name != "_rules"}

    def twin(self) -> "Analysis":
        """One that knows nothing yet, with the same rules."""
        return Analysis(self._rules)

    def _on_event(self, event: Event) -> None:
        if event.kind == "phase" and event.data.get("phase") == "measure":
            self.latency.began(event.t_ns)
            self.power.began(event.t_ns)
            self.usage.began(event.t_ns)
            if self._since_reset:
                self._since_reset.began(event.t_ns)
        elif event.kind == "gate":
            with contextlib.suppress(ValueError):  # of another version, or another program
                self.gates = (*self.gates, parse_gate(str(event.data.get("expr"))))
        elif event.kind == "tool-summary":
            self.told = event.data
        else:
            self.recording.on_event(event)

    def reset(self) -> None:
        """Begin the latency statistics of the views anew, at the next whole second.

        The whole session's, which reports tell, go on; so does the recording.
        """
        now_ns = self.progress.view().now_ns
        self._since_reset = RollingLatency(since_ns=(now_ns // NS + 1) * NS)
        self._since_reset.load = self.latency.load

    def statistics(self) -> Statistics | None:
        """Latency of the whole session."""
        return self.latency.statistics(self.progress.measured_until_ns)

    def _once(self, name: str, make: Callable[[], T]) -> T:
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def response(self) -> Statistics | None:
        """The same from the intended starts; None under a closed load."""
        return self.latency.response(self.progress.measured_until_ns)

    def deadline(self) -> DeadlineView | None:
        """How the whole session did by the deadline that was declared."""
        load = self.latency.load
        return None if load.deadline_ns is None else view_deadline(load, self.statistics(), self.response())

    def overload(self) -> OverloadView | None:
        """The last time at which a queue grew without end."""
        return self.backlog.view()

    def power_view(self, axis: Axis | None = None) -> PowerView:
        """Power over the measured phase of the whole session, with its timeline along `axis`."""
        return self.power.view(self.tracks, axis, self.progress.measured_until_ns)

    def usage_view(self) -> UsageView:
        """What the measured phase of the whole session took of the board."""
        return self.usage.view(self.progress.measured_until_ns)

    def energy_view(self, power: PowerView) -> EnergyView:
        """What an inference costs, by `power` of the whole session."""
        return view_energy(power, self.statistics(), self.progress.view().measured_ns, self.manifest)

    def tail(self) -> TailView:
        """The slowest inferences of the whole session, and of the last ten minutes."""
        statistics = self.statistics()
        return self.slowdowns.tail(statistics.percentile_ns(0.50) if statistics else None)

    def forecast_view(self) -> ForecastView:
        """Where the temperature goes at this load, as of now or of the end of the measured phase."""
        return self.forecast.view(self.progress.measured_until_ns)

    def growth_view(self) -> GrowthView:
        """How the engine's memory grew over the measured phase."""
        return self._once("growth", lambda: self.growth.view(self.progress.measured_until_ns, self.memory_left_mib()))

    def alerts_view(self) -> AlertsView:
        """Of the whole session, whatever the views begin at."""
        growth, throttles = self.growth_view(), self.throttles_view()
        return alerts_from(self.alerts, self.progress, self.slowdowns, throttles, self.backlog, growth, self.manifest)

    def memory_left_mib(self) -> float | None:
        """To the limit of the engine's cgroup or of the board's memory, whichever is nearer; None: not known."""
        left = room(self.tracks)
        return None if left is None or left.is_lost else left.value

    def notices(self) -> tuple[Notice, ...]:
        """For reports: of the whole session, the operators' too."""
        return self._advice.in_report(self)

    def spans(self) -> tuple[SpanFigures | None, SpanFigures | None]:
        """The burst, and what was sustained."""
        view = self.slowdowns.view()
        if self._spans is None or self._spans[0] is not view:
            burst = figures(view.burst_rows, view.burst.from_s, view.burst.to_s) if view.burst else None
            self._spans = view, burst, self.steady.sustained(view.burst)
        return self._spans[1:]

    def throttles_view(self) -> ThrottlesView:
        """When the board was slowed, by what it says itself."""
        return self.throttles.view()

    def precision_view(self) -> PrecisionView:
        """How well the percentiles of the whole session are known."""
        return self._once("precision", lambda: self.precision.view(self.statistics(), self.latency.buckets))

    def view(self, window_ns: int | None, lens: Lens = PLAIN, kinds: Sequence[str] = ()) -> MonitorView:
        """`lens`: which part of the session the timelines show. `kinds`: of sensors whose courses are wanted each."""
        progress = self.progress.view()
        axis = lens.axis(progress.now_ns / NS, whole=window_ns is None)
        slowdowns = self.slowdowns.view()
        throttles, alerts = self.throttles_view(), self.alerts_view()
        events = self._derived_events.joined(self.events.view(), slowdowns, throttles, alerts)
        latency = (self._since_reset or self.latency).view(window_ns, self.progress.measured_until_ns, axis)
        power, growth = self.power_view(axis), self.growth_view()
        board = self.manifest.board if self.manifest else None
        verdict, promises = self.verdict(), self.promises()
        return MonitorView(
            manifest=self.manifest,
            progress=progress,
            verdict=verdict,
            latency=latency,
            thermal=view_thermal(self.tracks, axis),
            forecast=self.forecast_view(),
            power=power,
            energy=self.energy_view(power),
            memory=view_memory(
                self.tracks, board.memory_bytes if board else None, axis, self.memory_stages.views(), growth
            ),
            operators=self.operators.view(),
            burst_marks=self.operators.marks(axis),
            slowdowns=slowdowns,
            tail=self.tail(),
            events=events,
            sensors=self.tracks.views(),
            missing=self.tracks.missing,
            notices=self._advice.on_screen(self),
            precision=self.precision_view(),
            own_load=self.tracks.one("load/edgetop"),
            own_memory=self.tracks.one("mem/edgetop"),
            recording_paused=self.recording.is_paused,
            deadline=promises.deadline,
            gates=promises.gates,
            alerts=alerts,
            throttles=throttles,
            sensor_series=sensor_series(self.tracks, axis, kinds),
        )

    def along(self, view: MonitorView, lens: Lens, kinds: Sequence[str] = ()) -> MonitorView:
        """A view of earlier with its timelines through another lens, and nothing in them that came later."""
        return view_along(self, view, lens, kinds)

    def latency_of(self, view: LatencyView) -> RollingLatency:
        """That which gave this view: of the whole session, or since the last reset."""
        return self._since_reset if self._since_reset and view.since_ns else self.latency

    def promises(self) -> Promises:
        """What was asked of the session, and how far it is kept up to now."""
        return self._once("promises", lambda: Promises(self.backlog.view(), self.deadline(), gate_results(self)))

    def verdict(self) -> Verdict:
        """Of the whole session up to now: the one that screen, report, list and hooks print."""
        return self._once("verdict", self._judged)

    def _judged(self) -> Verdict:
        seen = Evidence(
            progress=self.progress.view(),
            session=self.statistics(),
            until_ns=self.progress.measured_until_ns,
            recent=self.latency.recent(self.progress.measured_until_ns),
            errors=self.latency.errors,
            events=self.events.view(),
            manifest=self.manifest,
            slowdowns=self.slowdowns.view(),
            throttles=self.throttles_view(),
            growth=self.growth_view(),
            recording_trouble=self.recording.trouble,
            promises=self.promises(),
        )
        return judge(seen)
