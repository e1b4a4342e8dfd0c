"""All folds of a session together, and their views of the whole session: for reports, gates, alerts and screens."""

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from edgetop.analysis.ab_figures import AbFold, AbView
from edgetop.analysis.alerts.alert import AlertsView
from edgetop.analysis.alerts.alert_rules import AlertRule
from edgetop.analysis.alerts.alerts import Alerts, Findings
from edgetop.analysis.deadline import WORTH_REPORTING, DeadlineView, Late, MissCause, view_deadline, why_late
from edgetop.analysis.energy import EnergyView, PowerRails, PowerView, view_energy
from edgetop.analysis.event_index import Competitors
from edgetop.analysis.faults import Fault, Faults, aside, guarded, note
from edgetop.analysis.forecast.heat_forecast import Forecast, ForecastView
from edgetop.analysis.hotspots import Operators
from edgetop.analysis.memory_use import GrowthView, MemoryGrowth, MemoryStages, MemoryView, room, view_memory
from edgetop.analysis.operator_hints import BurstHints
from edgetop.analysis.overload import Backlog
from edgetop.analysis.precision import Precision, PrecisionView
from edgetop.analysis.program_frames import Frames
from edgetop.analysis.progress import Progress, RecordingState, is_stalled
from edgetop.analysis.recent_events import DerivedEvents, EventLog, EventsView
from edgetop.analysis.rolling_latency import RollingLatency
from edgetop.analysis.session_gates import Gate, parse_gate
from edgetop.analysis.slowdowns.baseline import Baseline
from edgetop.analysis.slowdowns.slowdowns import Slowdowns
from edgetop.analysis.slowdowns.tail import TailView
from edgetop.analysis.slowdowns.throttles import Throttles
from edgetop.analysis.statistics import Statistics
from edgetop.analysis.steady import SpanFigures, figures, sustained
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.tracks import Tracks
from edgetop.analysis.usage import OwnLoad, Usage, UsageFigures
from edgetop.session import histogram
from edgetop.session.batch import Batch
from edgetop.session.event_kinds import GateSet, ToolSummary
from edgetop.session.events import Event
from edgetop.session.manifest import Load, Manifest
from edgetop.session.phases import Phases
from edgetop.session.seconds import NO_SECONDS, NS

Made = TypeVar("Made", bound=Callable[["Folds"], Any])
Twin = TypeVar("Twin", bound="Folds")


class Feed(Protocol):
    def read(self) -> Batch | None: ...


def once(make: Made) -> Made:
    """Cache the result of a function of the folds until the next fold. If it fails, nothing is known."""
    name = f"figures: {make.__name__.strip('_')}"

    @wraps(make)
    def made(folds: "Folds") -> Any:
        with folds.lock:
            if make not in folds.made:
                folds.made[make] = folds.faults.attempt(name, lambda: make(folds), lambda: make(folds.twin()))
            value, failed = folds.made[make]
            if failed:
                note(failed)
            return value

    return cast("Made", made)


# Every fold, by the attribute of `Folds` that holds it.
FOLDS: dict[str, Any] = {
    "latency": RollingLatency, "progress": Progress, "tracks": Tracks, "own_load": OwnLoad, "operators": Operators,
    "power": PowerRails, "usage": Usage, "frames": Frames, "events": EventLog, "slowdowns": Slowdowns,
    "throttles": Throttles, "forecast": Forecast, "alerts": Alerts, "backlog": Backlog, "memory_stages": MemoryStages,
    "growth": MemoryGrowth, "precision": Precision, "competitors": Competitors, "burst_hints": BurstHints,
    "recording": RecordingState, "ab": AbFold,
}  # fmt: skip
ASK_PHASES = ("progress", "power", "slowdowns", "throttles", "forecast", "alerts", "growth")
READ_TRACKS = ("slowdowns", "throttles", "forecast", "alerts")  # the folds that look up readings
_READERS = {"tracks": READ_TRACKS, "progress": ("own_load",)}  # by fold, those that are fed what it knows


class Folds:
    """Folds batches, on any thread. An error in a fold or in a figure is one of `faults`, and the others go on.

    Folding holds `lock`, and so does every function that reads several folds. A caller that needs several
    results of one moment must hold it too.
    """

    latency: RollingLatency
    progress: Progress
    tracks: Tracks
    own_load: OwnLoad
    operators: Operators
    power: PowerRails
    usage: Usage
    frames: Frames
    events: EventLog
    slowdowns: Slowdowns
    throttles: Throttles
    forecast: Forecast
    alerts: Alerts
    backlog: Backlog
    memory_stages: MemoryStages
    growth: MemoryGrowth
    precision: Precision
    competitors: Competitors
    burst_hints: BurstHints
    recording: RecordingState
    ab: AbFold

    def __init__(self, rules: tuple[AlertRule, ...] = ()) -> None:
        """`rules`: the alert rules of the viewer, in addition to those of the session."""
        self._rules = rules
        self.lock = threading.RLock()
        self.folds = 0  # so far: a painter can see whether there is anything new
        self.made: dict[Any, Any] = {}  # since the last fold, with what failed of all that it was made of
        self.on_fault: Callable[[Fault], None] | None = None  # is called with each fault when data is folded next
        self._forget()

    def _forget(self) -> None:
        self.manifest: Manifest | None = None
        self.faults = Faults()
        self.phases = Phases()
        tracks = FOLDS["tracks"]()
        for name, kind in FOLDS.items():
            given: tuple[Any, ...] = (self._rules,) if name == "alerts" else ()
            given += (tracks,) if name in READ_TRACKS else ()
            given += (self.phases,) if name in ASK_PHASES else ()
            fold = tracks if name == "tracks" else kind(*given)
            setattr(self, name, guarded(name, fold, self.faults, _READERS.get(name, ())))
        self._since_reset: RollingLatency | None = None
        self._derived_events = DerivedEvents()
        self.gates: tuple[Gate, ...] = ()
        self.tool_summary: ToolSummary | None = None  # what a tool printed of inferences that are not here
        self._burst: tuple[Baseline | None, SpanFigures | None] = (None, None)
        self._reported: frozenset[str] = frozenset()  # faults

    def catch_up(self, feed: Feed) -> None:
        """Fold the next batch of the feed, if there is one. Any thread may call this."""
        with self.lock:
            batch = feed.read()
            if batch is not None:
                self.fold(batch)
            self._report_faults()

    def _report_faults(self) -> None:
        for fault in self.faults.distinct if self.on_fault else ():
            if self.on_fault and fault.name not in self._reported:
                self._reported |= {fault.name}
                self.on_fault(fault)

    def fold(self, batch: Batch) -> None:
        with self.lock:
            self.folds += 1
            self.made = {}
            self._fold(batch)

    def _fold(self, batch: Batch) -> None:
        if batch.restart:
            self._forget()
        if batch.checkpoint is not None:
            vars(self).update(batch.checkpoint)
        if batch.manifest is not None:
            self.manifest, self.faults.session = batch.manifest, batch.manifest.name
            self.latency.load = batch.manifest.load
            if self._since_reset:
                self._since_reset.load = batch.manifest.load
        self.faults.now_ns = max(self.faults.now_ns, batch.until_ns)
        self._fold_phases(batch)
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
        in_turns = self.manifest is not None and self.manifest.ab is not None
        for part in self.tracks.parts(batch):
            # The turns of two models are no slowdowns of one model.
            self.slowdowns.fold(replace(part, seconds=NO_SECONDS) if in_turns else part)
            self.throttles.fold(part)
            self.alerts.fold(part)
        self.operators.fold(batch)
        self.own_load.fold(batch, self.progress.began_measuring_ns)
        self.power.fold(batch)
        self.usage.fold(batch)
        self.frames.fold(batch)
        self.precision.fold(batch.seconds)
        self.forecast.fold(batch)

    def _fold_phases(self, batch: Batch) -> None:
        before_ns = self.phases.measured_from_ns
        self.phases.fold(batch.events)
        began_ns = self.phases.measured_from_ns
        if began_ns is not None and began_ns != before_ns:
            self.latency.began(began_ns)
            self.power.began(began_ns)
            self.usage.began(began_ns)
            if self._since_reset:
                self._since_reset.began(began_ns)

    def _on_event(self, event: Event) -> None:
        match event.body:
            case GateSet(expr):
                with contextlib.suppress(ValueError):  # of another version, or another program
                    self.gates = (*self.gates, parse_gate(expr))
            case ToolSummary() as summary:
                self.tool_summary = summary
            case _:
                self.recording.on_event(event)
                self.ab.on_event(event)
                self.competitors.on_event(event)

    def checkpoint(self) -> Mapping[str, Any]:
        """Return the state, which the next fold changes: other folds with the same rules can continue from a copy."""
        return {name: part for name, part in vars(self).items() if name not in _NOT_OF_SESSION}

    def twin(self: Twin) -> Twin:  # noqa: PYI019  Python 3.10 has no Self
        """Return new folds with the same rules and an empty state."""
        return type(self)(self._rules)

    def reset(self) -> None:
        """Restart the latency statistics of the views at the next whole second.

        The statistics of the whole session, which reports print, and the recording continue.
        """
        with self.lock:
            now_ns = self.progress.view().now_ns
            since_reset = RollingLatency(since_ns=(now_ns // NS + 1) * NS)
            self._since_reset = guarded("latency since the reset", since_reset, self.faults)
            self._since_reset.load = self.latency.load

    # Of the whole session up to now, for every printer.

    def statistics(self) -> Statistics | None:
        """Return the latency statistics of the whole session."""
        return self.latency.statistics(self.progress.measured_until_ns)

    def response(self) -> Statistics | None:
        """Return the response times of the whole session; None under a closed load."""
        return self.latency.response(self.progress.measured_until_ns)

    @once
    def deadline(self) -> DeadlineView | None:
        """Return how the whole session met its deadline."""
        load = self.latency.load
        if load.deadline_ns is None:
            return None
        statistics, response = self.statistics(), self.response()
        with aside():
            since_ns = next((span.begin_ns for span in self.alerts.missing()[-1:] if span.end_ns is None), None)
            cause = self._miss_cause(load, since_ns)
        return view_deadline(load, statistics, response, since_ns, cause)

    def _miss_cause(self, load: Load, since_ns: int | None) -> MissCause | None:
        """Return the cause of the misses of the last seconds or, where there are none, of the whole session."""
        whole, recent = self.statistics(), self.latency.recent(self.progress.measured_until_ns)
        if not whole or not load.deadline_ns or (whole.misses or 0) < WORTH_REPORTING * whole.count:
            return None
        if since_ns is not None and recent.misses and recent.p50_ns and self.progress.view().phase != "over":
            tail = [one for one in self.tail().recent if one.t_ns >= since_ns]
            late = Late(recent.p50_ns, recent.misses, recent.slow, tail)
        else:
            slow = histogram.count_above(self.latency.buckets, load.deadline_ns)
            late = Late(whole.percentile_ns(0.50), whole.misses or 0, slow, self.tail().slowest)
        burst = self.slowdowns.view().burst
        return why_late(late, load.deadline_ns, burst.p50_ns if burst else None, at_random=load.is_random)

    def power_view(self, axis: Axis | None = None) -> PowerView:
        """Return the power over the measured phase; with an axis, also the timeline of the leading rail along it."""
        return self.power.view(self.tracks, axis, self.progress.measured_until_ns, is_each_precise=axis is None)

    def usage_figures(self) -> UsageFigures | None:
        """Return what the measured phase used of the board; None: nothing was measured."""
        return self.usage.figures(self.progress.measured_until_ns, self.progress.view().measured_ns)

    def energy_view(self, power: PowerView, *, only_leading: bool = False) -> EnergyView:
        """Return the energy of an inference, from the `power` of the whole session."""
        measured_ns = self.progress.view().measured_ns
        return view_energy(power, self.statistics(), measured_ns, self.manifest, only_leading=only_leading)

    @once
    def ab_view(self) -> AbView | None:
        """Return the comparison of an A/B session; None: it is none, or its turns have not begun."""
        return self.ab.view(self.manifest)

    @once
    def tail(self) -> TailView:
        """Return the slowest inferences of the whole session, and of the last ten minutes."""
        statistics = self.statistics()
        return self.slowdowns.tail(statistics.percentile_ns(0.50) if statistics else None)

    @once
    def forecast_view(self) -> ForecastView:
        """Return the forecast of the temperature at this load, from now or from the end of the measured phase."""
        return self.forecast.view(self.progress.measured_until_ns)

    @once
    def growth_view(self) -> GrowthView:
        """Return the growth of the engine's memory over the measured phase."""
        is_over = self.progress.view().phase == "over"  # then nothing is filled any more
        return self.growth.view(self.progress.measured_until_ns, None if is_over else self.memory_left_mib())

    @once
    def precision_view(self) -> PrecisionView:
        """Return the precision of the session's percentiles; some seconds old while it is measured."""
        is_final = self.progress.view().phase == "over"
        return self.precision.view(self.statistics(), self.latency.buckets, is_final=is_final)

    @once
    def alerts_view(self) -> AlertsView:
        """Return the alerts of the whole session, wherever the views begin. Those of a failed fold are missing."""
        with aside():
            findings = self._findings()
        return self.alerts.view(findings, self.faults.distinct)

    def _findings(self) -> Findings:
        now, stalls = self.progress.view(), tuple(self.alerts.stalls.spans)
        deadline = self.deadline()
        is_open = is_stalled(now, self.alerts.stalls.longest_ns or None, self.manifest)
        going_on = (now.now_ns - (now.silent_ns or 0), None)
        return Findings(
            slowdowns=self.slowdowns.view().slowdowns,
            throttles=self.throttles.view(),
            overload=self.backlog.view(),
            overloads=self.backlog.spans,
            stalls=(*stalls, going_on) if is_open else stalls,
            growth=self.growth_view(),
            began_measuring_ns=self.progress.began_measuring_ns,
            why_missed=deadline.cause if deadline else None,
        )

    def memory_left_mib(self) -> float | None:
        """Return the MiB to the limit of the cgroup or of the board's memory, whichever is nearer; None: unknown."""
        left = room(self.tracks)
        return None if left is None or left.is_lost else left.value

    @once
    def spans(self) -> tuple[SpanFigures | None, SpanFigures | None]:
        """Return the figures of the burst and of the sustained span; None: not known."""
        view = self.slowdowns.view()
        is_early = view.burst is None and not any(slowdown.from_start for slowdown in view.slowdowns)
        return self.burst(), None if is_early else sustained(self.latency.latest_rows(), view.burst)

    def burst(self) -> SpanFigures | None:
        """Return the figures of the burst; None: not known yet."""
        view = self.slowdowns.view()
        if self._burst[0] != view.burst:
            burst = figures(view.burst_rows, view.burst.from_s, view.burst.to_s) if view.burst else None
            self._burst = view.burst, burst
        return self._burst[1]

    @property
    def providers(self) -> tuple[str, ...]:
        return self.manifest.engine.preferred if self.manifest else ()

    def memory_view(self, axis: Axis) -> MemoryView:
        """Return the memory of the engine and the board, with the timeline along `axis`."""
        whole = self.manifest.board.memory_bytes if self.manifest else None
        with aside():
            stages, growth = self.memory_stages.views(), self.growth_view()
        return view_memory(self.tracks, whole, axis, stages, growth)

    def events_view(self) -> EventsView:
        """Return the recorded events with those that analysis derives."""
        with aside():
            derived = self.slowdowns.view(), self.throttles.view(), self.alerts_view()
        return self._derived_events.joined(self.events.view(), *derived)

    def sensor_series(self, axis: Axis, kinds: Sequence[str], until_s: float | None = None) -> dict[str, Points]:
        """Return the timelines of all sensors of these kinds, by sensor id; up to `until_s` if given."""
        ids = [track.info.id for track in self.tracks.views(*kinds)] if kinds else []
        each = ((sensor_id, self.tracks.points(sensor_id, axis, until_s)) for sensor_id in ids)
        return {sensor_id: points for sensor_id, points in each if points is not None}


_NOT_OF_SESSION = frozenset({"_rules", "lock", "made", "folds", "on_fault"})
