"""All folds of a session, and their results over the whole session, for reports, gates, alerts and screens.

A fold is a part of the analysis that takes the batches of a session one by one.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from edgetop.analysis.ab_figures import AbFold, AbView
from edgetop.analysis.alerts.alert import AlertsView
from edgetop.analysis.alerts.alert_rules import AlertRule
from edgetop.analysis.alerts.alerts import Alerts, Findings
from edgetop.analysis.checkpoints import Checkpoints
from edgetop.analysis.deadline import DeadlineView
from edgetop.analysis.energy import EnergyView, PowerRails, PowerView, view_energy
from edgetop.analysis.event_counts import EventCounts, EventFigures
from edgetop.analysis.event_index import Competitors
from edgetop.analysis.faults import Fault, Faults, UnavailableError, aside, guarded, note
from edgetop.analysis.forecast.heat_forecast import Forecast, ForecastView
from edgetop.analysis.hotspots import Operators
from edgetop.analysis.input_shapes import InputShapes
from edgetop.analysis.memory_use import GrowthView, MemoryGrowth, MemoryStages, MemoryView, room, view_memory
from edgetop.analysis.operator_energy import PhasePower
from edgetop.analysis.operator_hints import BurstHints
from edgetop.analysis.operator_regression import PhaseCounts
from edgetop.analysis.overload import Backlog
from edgetop.analysis.precision import UNJUDGED, Precision, PrecisionView
from edgetop.analysis.prefill_slowdowns import PrefillSlowdowns, prompts_of
from edgetop.analysis.program_frames import Frames
from edgetop.analysis.progress import Progress, RecordingState, is_stalled
from edgetop.analysis.recent_events import DerivedEvents, EventLog, EventsView
from edgetop.analysis.rolling_latency import RollingLatency
from edgetop.analysis.session_gates import Gate, parse_gate
from edgetop.analysis.slowdowns.equal_position import EqualPosition
from edgetop.analysis.slowdowns.mix import Mix
from edgetop.analysis.slowdowns.slow_inferences import TailView
from edgetop.analysis.slowdowns.slowdown import SlowdownsView
from edgetop.analysis.slowdowns.slowdowns import Slowdowns, judged_stream
from edgetop.analysis.slowdowns.throttles import Throttles
from edgetop.analysis.statistics import MOST_JUDGED, Counted, Statistics
from edgetop.analysis.steady import SpanFigures
from edgetop.analysis.stream_names import stream_names
from edgetop.analysis.streams import (
    Moment,
    StreamFolds,
    StreamView,
    join_deadlines,
    join_slowdowns,
    join_tails,
)
from edgetop.analysis.timeline import Axis, Points
from edgetop.analysis.token_energy import TokenEnergy
from edgetop.analysis.token_figures import GenerationFold
from edgetop.analysis.tracks import Tracks
from edgetop.analysis.usage import OwnLoad, Usage, UsageFigures
from edgetop.session.batch import Batch
from edgetop.session.by_stream import ByStream
from edgetop.session.event_kinds import GateSet, ToolSummary
from edgetop.session.events import Event
from edgetop.session.manifest import Manifest
from edgetop.session.phases import Phases
from edgetop.session.seconds import NO_SECONDS, NS, Seconds, emptied

Made = TypeVar("Made", bound=Callable[["Folds"], object])
Twin = TypeVar("Twin", bound="Folds")


class Feed(Protocol):
    def read(self) -> Batch | None: ...


def once(make: Made) -> Made:
    """Return a version of a method of `Folds` that caches its result until the next batch.

    If the method raises an error, the version returns what the method returns for an empty session.
    """
    name = f"figures: {make.__name__.strip('_')}"

    @wraps(make)
    def made(folds: "Folds") -> object:
        with folds.lock:
            if make not in folds.made:
                folds.made[make] = folds.faults.attempt(name, lambda: make(folds), lambda: make(folds.twin()))
            value, failed = folds.made[make]
            if failed:
                note(failed)
            return value

    return cast("Made", made)


# Every fold, by the attribute of `Folds` that holds it.
FOLDS: dict[str, Callable[..., object]] = {
    "latency": RollingLatency, "progress": Progress, "tracks": Tracks, "own_load": OwnLoad, "operators": Operators,
    "power": PowerRails, "usage": Usage, "frames": Frames, "events": EventLog, "slowdowns": Slowdowns,
    "throttles": Throttles, "forecast": Forecast, "alerts": Alerts, "backlog": Backlog, "memory_stages": MemoryStages,
    "growth": MemoryGrowth, "precision": Precision, "responses": Precision, "competitors": Competitors,
    "burst_hints": BurstHints,
    "recording": RecordingState, "ab": AbFold, "mix": Mix, "shapes": InputShapes,
    "generation": GenerationFold, "positions": EqualPosition, "decode": Slowdowns, "prefill": PrefillSlowdowns,
    "phase_power": PhasePower,
    "event_counts": EventCounts, "phase_counts": PhaseCounts,
    "token_energy": TokenEnergy,
}  # fmt: skip
ASK_PHASES = ("progress", "power", "slowdowns", "decode", "prefill", "throttles", "forecast", "alerts", "growth")
READ_TRACKS = ("slowdowns", "decode", "prefill", "throttles", "forecast", "alerts")  # the folds that look up readings
# Number of streams whose views are made anew each second, because a view takes some ms of CPU. With more streams, they
# take turns, so the screen may show a state some seconds late. At the end of a session all views are made anew.
VIEWED_AT_ONCE = 2
OF_STREAMS = ("slowdowns", "precision", "responses")  # the folds that each stream has
_READERS = {"tracks": READ_TRACKS, "progress": ("own_load",)}  # by fold, those that are fed what it knows


class Folds:
    """All folds of a session. A fold is a part of the analysis that takes the batches of a session one by one.

    An error in one fold or figure is added to `faults`, and the rest continues. Batches may come from several threads.
    `lock` is held while a batch is folded, and by every function that reads several folds. A caller that needs several
    results of the same moment must hold `lock` too.
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
    throttles: Throttles
    forecast: Forecast
    alerts: Alerts
    backlog: Backlog
    memory_stages: MemoryStages
    growth: MemoryGrowth
    competitors: Competitors
    burst_hints: BurstHints
    recording: RecordingState
    ab: AbFold
    mix: Mix
    shapes: InputShapes
    generation: GenerationFold
    positions: EqualPosition
    decode: Slowdowns  # of the tokens of a watched program; those of an engine are judged as its stream
    prefill: PrefillSlowdowns
    phase_power: PhasePower
    event_counts: EventCounts
    phase_counts: PhaseCounts
    token_energy: TokenEnergy

    def __init__(self, rules: tuple[AlertRule, ...] = ()) -> None:
        """Create folds without data. `rules`: the user's own alert rules, in addition to the rules of the session."""
        self._rules = rules
        self.lock = threading.RLock()
        self.folds = 0  # Number of folds so far: a painter compares it to see whether there is new data.
        # Results made since the last fold, each with the failed parts that it depends on.
        self.made: dict[object, tuple[object, frozenset[str]]] = {}
        self.on_fault: Callable[[Fault], None] | None = None  # Called with each new fault when data is folded next.
        self._checkpoints = Checkpoints()
        self._forget()

    def _forget(self) -> None:
        self.manifest: Manifest | None = None
        self.faults = Faults()
        self.phases = Phases()
        self._bare_tracks = FOLDS["tracks"]()
        for name in FOLDS:
            if name not in OF_STREAMS:
                setattr(self, name, self._begin(name))
        # By stream number. A session with one stream shares its latency with that stream.
        self.streams = {0: StreamFolds(self.latency, *(self._begin(name) for name in OF_STREAMS))}
        self.streams[0].slowdowns.count_calls_by(self.mix)
        self.streams[0].positions = self.positions
        self.streams[0].slowdowns.judge_tokens_by(self.positions)
        self._since_reset: RollingLatency | None = None
        self._stream_views: dict[int, StreamView] = {}  # By stream number.
        self._derived_events = DerivedEvents()
        self.gates: tuple[Gate, ...] = ()
        # The figures that another tool printed about inferences that are not in the recording.
        self.tool_summary: ToolSummary | None = None
        self._reported: frozenset[str] = frozenset()  # Names of the faults that were already reported.

    def _begin(self, name: str) -> Any:  # a fold of the class in FOLDS
        """Return a new fold in a `Guard`, which catches its errors. `name` is a key of FOLDS, such as "latency"."""
        given: tuple[object, ...] = (self._rules,) if name == "alerts" else ()
        given += (self._bare_tracks,) if name in READ_TRACKS else ()
        given += (self.phases,) if name in ASK_PHASES else ()
        fold = self._bare_tracks if name == "tracks" else FOLDS[name](*given)
        return guarded(name, fold, self.faults, _READERS.get(name, ()))

    def catch_up(self, feed: Feed) -> None:
        """Read the next batch from the feed, if there is one, and pass it to all folds. Any thread may call this."""
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
        if batch.resumes_ns is not None:
            vars(self).update(self._checkpoints.load(batch.resumes_ns))
        if batch.manifest is not None:
            self._fold_manifest(batch.manifest)
        self.faults.now_ns = max(self.faults.now_ns, batch.until_ns)
        self._fold_phases(batch)
        self.events.fold(batch.events)
        self.memory_stages.fold(batch.events)
        self.growth.fold(batch)
        self.progress.fold(batch)
        for event in batch.events:
            self._on_event(event)
        streams = ByStream(batch.seconds)
        self._begin_streams(streams)
        self.latency.fold(batch)
        if self._since_reset:
            self._since_reset.fold(batch)
        self.backlog.fold(batch.seconds, self.latency.load)
        for part in self.tracks.parts(batch):
            of_part = streams if part.seconds is batch.seconds else ByStream(part.seconds)
            self._judge(part, of_part)
            self.alerts.fold(part, of_part)
        self.operators.fold(batch)
        self.own_load.fold(batch, self.progress.began_measuring_ns)
        self.power.fold(batch)
        self.phase_power.fold(batch)
        self.usage.fold(batch)
        self.event_counts.fold(batch)
        self.phase_counts.fold(batch)
        self.frames.fold(batch)
        self.shapes.fold(batch)
        self.generation.fold(batch.seconds)
        self.token_energy.fold(batch)
        for number, stream in self.streams.items():
            stream.fold(batch, streams.of(number), has_latency=self.has_streams)
        self.forecast.fold(batch)

    def _judge(self, part: Batch, streams: ByStream) -> None:
        """Pass a part of a batch to the folds that find slowdowns and throttling. `streams`: its seconds by stream."""
        in_turns = self.manifest is not None and self.manifest.ab is not None
        self.mix.fold(part.seconds)
        # A token takes longer the more tokens are before it.
        tokens = self._at_equal_position(part.seconds) if self.generates else None
        is_apart = tokens is not None and self.decode_is_apart
        for number, stream in self.streams.items():
            # The alternation between two models is no slowdown of a model.
            seconds = NO_SECONDS if in_turns else streams.of(number)
            if tokens is not None and not is_apart:
                seconds = tokens
            judged = judged_stream(part.judged, number)
            stream.slowdowns.fold(replace(part, seconds=seconds, judged=judged))
        if tokens is not None and is_apart:
            self.decode.fold(replace(part, seconds=tokens, judged=None))
        self.prefill.fold(part)
        self.throttles.fold(part if tokens is None or is_apart else replace(part, seconds=tokens))

    def _at_equal_position(self, seconds: Seconds) -> Seconds:
        """Return a copy of `seconds` in which the times per token are converted to one position in the context.

        If the part of the analysis that converts them has failed, the copy has no inferences.
        """
        with contextlib.suppress(UnavailableError):
            judged: Seconds = self.positions.judged(seconds)
            return judged
        return replace(emptied(seconds), response=None, tokens=None)

    @property
    def generates(self) -> bool:
        """Whether tokens of a language model are known, so that these are judged instead of inferences."""
        return self.manifest is not None and self.manifest.generation is not None

    @property
    def decode_is_apart(self) -> bool:
        """Whether tokens are judged beside the inferences of stream 0: a watched program may generate none."""
        return self.manifest is not None and self.manifest.watched is not None

    @property
    def has_streams(self) -> bool:
        """Whether the session has several streams, for example several models. Their latencies are kept apart."""
        return len(self.streams) > 1

    def _begin_streams(self, streams: ByStream) -> None:
        """Create folds for each stream that has none yet, up to MOST_JUDGED streams.

        `streams`: the new seconds, divided by stream.
        """
        for number in streams.numbers:
            if number in self.streams or len(self.streams) >= MOST_JUDGED:
                continue
            first = self.streams[0]
            if not self.has_streams:  # Until now, all data was that of the first stream.
                first.latency = guarded("latency", self.latency.of_seconds(), self.faults)
                first.since_reset = self._since_reset.of_seconds() if self._since_reset else None
            latency = guarded("latency", self.latency.successor(), self.faults)
            stream = StreamFolds(latency, *(self._begin(name) for name in OF_STREAMS))
            stream.since_reset = self._since_reset.successor() if self._since_reset else None
            stream.slowdowns.join(first.slowdowns, number)
            self.streams[number] = stream

    def _latencies(self) -> Iterator[RollingLatency]:
        yield self.latency
        if self.has_streams:
            yield from (latency for stream in self.streams.values() for latency in stream.latencies())
        if self._since_reset:
            yield self._since_reset

    def _fold_manifest(self, manifest: Manifest) -> None:
        self.manifest, self.faults.session = manifest, manifest.name
        if self.generates and self.streams[0].prefill is None:
            self.prefill.join(self.streams[0].slowdowns, prompts_of(manifest))
            self.streams[0].prefill = self.prefill
            if self.decode_is_apart:
                self.decode.join(self.streams[0].slowdowns, 0, of_tokens=True)
                self.streams[0].decode = self.decode
        for latency in self._latencies():
            latency.load = manifest.load

    def _fold_phases(self, batch: Batch) -> None:
        before_ns, used_before_ns = self.phases.measured_from_ns, self.phases.used_from_ns
        self.phases.fold(batch.events)
        began_ns = self.phases.measured_from_ns
        if began_ns is not None and began_ns != before_ns:
            for latency in self._latencies():
                latency.began(began_ns)
            self.power.began(began_ns)
        used_ns = self.phases.used_from_ns
        if used_ns is not None and used_ns != used_before_ns:
            self.usage.began(used_ns)
            self.event_counts.began(used_ns)

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
                self.usage.on_event(event)

    def save_checkpoint(self, at_ns: int, ahead: "Folds") -> None:
        """Save the state of `ahead`, from which these folds can continue later, after a jump in a replay.

        `ahead`: other folds of the same session, which have taken all data up to the session time `at_ns`, in ns.
        """
        state = {name: part for name, part in vars(ahead).items() if name not in _NOT_OF_SESSION}
        self._checkpoints.save(at_ns, state)

    def twin(self: Twin) -> Twin:  # noqa: PYI019  Python 3.10 has no Self
        """Return new folds without data, but with the same alert rules of the user."""
        return type(self)(self._rules)

    def reset(self) -> None:
        """Restart the latency statistics on the screen at the next whole second.

        The recording continues, and so do the statistics of the whole session, which reports print.
        """
        with self.lock:
            now_ns = self.progress.view().now_ns
            self._since_reset = self._from(now_ns)
            for stream in self.streams.values() if self.has_streams else ():
                stream.since_reset = self._from(now_ns)
                stream.since_reset.forget_single()
            self._stream_views = {}

    def _from(self, now_ns: int) -> RollingLatency:
        """Return empty latency statistics that begin with the next whole second.

        `now_ns`: the present session time in ns.
        """
        latency = guarded("latency-since-reset", RollingLatency((now_ns // NS + 1) * NS), self.faults)
        latency.load = self.latency.load
        return latency

    # What follows covers the whole session up to now, and is used by all printers.

    @once
    def stream_views(self) -> tuple[StreamView, ...]:
        """Return the views of all streams in which something was measured, the busiest stream first.

        If nothing was measured in any stream, the result contains only the first stream.
        """
        moment = Moment(self.progress.measured_until_ns, self.progress.view().phase == "over")
        with aside():
            missing = self.alerts.missing_since()
        names, second = stream_names(self.manifest), moment.until_ns // NS
        turns = -(-len(self.streams) // VIEWED_AT_ONCE)  # seconds until every stream has been viewed anew
        views = []
        for number, folds in self.streams.items():
            view = self._stream_views.get(number)
            if view is None or moment.is_over or (second + number) % turns == 0 or second - view.second >= turns:
                name = names[number] if number < len(names) else f"stream {number}"
                view = self._stream_views[number] = StreamView(number, name, folds, moment, missing.get(number))
            views.append(view)
        ran = [view for view in views if view.statistics]
        return tuple(sorted(ran, key=lambda view: (-view.busy_ns, view.number))) or (views[0],)

    @property
    def only_stream(self) -> StreamView | None:
        """Return the stream if the session has exactly one, or None if it has several."""
        views = self.stream_views()
        return views[0] if len(views) == 1 else None

    def totals(self) -> Counted | None:
        """Return the totals over all inferences and streams of the session, or None if nothing was measured."""
        return self.latency.statistics(self.progress.measured_until_ns)

    def statistics(self) -> Statistics | None:
        """Return the latency statistics of the whole session.

        The result is None if nothing was measured or if there are several streams.
        """
        only = self.only_stream
        return only.statistics if only else None

    def response(self) -> Statistics | None:
        """Return the response times of the whole session.

        The result is None if the load sets no start times, or if the session has several streams.
        """
        only = self.only_stream
        return only.response if only else None

    @once
    def slowdowns_view(self) -> SlowdownsView:
        """Return the slowdowns of all streams.

        The result contains the burst (the first steady 30 s) only if the session has one stream.
        """
        only = self.only_stream
        return only.slowdowns if only else join_slowdowns(self.stream_views())

    @once
    def deadline(self) -> DeadlineView | None:
        """Return how often the whole session missed its deadline, and the headroom.

        The result is None if there is no deadline or nothing was measured.
        """
        only, totals = self.only_stream, self.totals()
        if only:
            return only.deadline
        return join_deadlines(self.stream_views(), totals) if totals else None

    def power_view(self, axis: Axis | None = None) -> PowerView:
        """Return the power of all rails over the measured phase.

        `axis`: the time axis for a timeline of the leading rail's power. Only the leading rail then gets confidence
        intervals. None for no timeline, but confidence intervals for every rail. The leading rail is the total; without
        a total, the greatest sum of rails; without both, the greatest rail.
        """
        return self.power.view(self.tracks, axis, self.progress.measured_until_ns, is_each_precise=axis is None)

    def usage_figures(self) -> UsageFigures | None:
        """Return the use of CPU, memory, network and disks, or None if nothing was measured.

        The figures cover the measured phase. For a watched program, they cover its whole run.
        """
        if (began_ns := self.phases.program_from_ns) is not None:
            now_ns = self.progress.view().now_ns if self.phases.over_ns is None else self.phases.over_ns
            limit_bytes = self.manifest.constraints.memory_bytes if self.manifest else None
            return self.usage.of_program(now_ns, max(0, now_ns - began_ns), limit_bytes)
        return self.usage.figures(self.progress.measured_until_ns, self.progress.view().measured_ns)

    def event_figures(self) -> EventFigures | None:
        """Return what the CPU and the kernel counted for one inference, or None if the session has no counters."""
        totals = self.totals()
        began_ns, until_ns = self.phases.used_from_ns, self.progress.measured_until_ns
        measured_ns = None if began_ns is None else max(0, until_ns - began_ns)
        count = totals.count if totals else 0
        return self.event_counts.figures(until_ns, measured_ns, count, self.tracks.missing)

    def energy_view(self, power: PowerView, *, only_leading: bool = False) -> EnergyView:
        """Return the energy of one inference, over the whole session.

        `power`: the power of the rails. `only_leading`: True returns only the leading rail: the total; without a total,
        the greatest sum of rails; without both, the greatest rail.
        """
        measured_ns = self.progress.view().measured_ns
        return view_energy(power, self.totals(), measured_ns, self.manifest, only_leading=only_leading)

    @once
    def ab_view(self) -> AbView | None:
        """Return the comparison of A and B, or None without an A/B session or before its first turn."""
        return self.ab.view(self.manifest)

    @once
    def tail(self) -> TailView:
        """Return the slowest inferences of the whole session and of the last ten minutes."""
        only = self.only_stream
        return only.tail if only else join_tails(self.stream_views())

    @once
    def forecast_view(self) -> ForecastView:
        """Return the forecast of the temperature at this load, as of now or as of the end of the measured phase."""
        is_over = self.progress.view().phase == "over"
        return self.forecast.view(self.progress.measured_until_ns, is_over=is_over)

    @once
    def growth_view(self) -> GrowthView:
        """Return how the engine's memory grew over the measured phase."""
        is_over = self.progress.view().phase == "over"  # After the end, memory cannot fill up any more.
        left_mib = None if is_over else self.memory_left_mib()
        return self.growth.view(self.progress.measured_until_ns, left_mib, is_over=is_over)

    @once
    def precision_view(self) -> PrecisionView:
        """Return the precision of the percentiles of the whole session.

        During the measurement, the result may be some seconds old. With several streams, the result is UNJUDGED, which
        has no figures.
        """
        only = self.only_stream
        return only.precision if only else UNJUDGED

    @once
    def alerts_view(self) -> AlertsView:
        """Return the alerts of the whole session. The user's reset of the latency statistics does not affect them.

        If a part of the analysis failed, the alerts that need this part are missing.
        """
        with aside():
            findings = self._findings()
        return self.alerts.view(findings, self.faults.distinct)

    def _findings(self) -> Findings:
        now, stalls, views = self.progress.view(), tuple(self.alerts.stalls.spans), self.stream_views()
        missed = ((view.number, view.deadline.cause) for view in views if view.deadline and view.deadline.cause)
        is_open = is_stalled(now, self.alerts.stalls.longest_ns or None, self.manifest)
        going_on = (now.now_ns - (now.silent_ns or 0), None)
        return Findings(
            slowdowns=self.slowdowns_view().slowdowns,
            throttles=self.throttles.view(),
            overload=self.backlog.view(),
            overloads=self.backlog.spans,
            stalls=(*stalls, going_on) if is_open else stalls,
            growth=self.growth_view(),
            began_measuring_ns=self.progress.began_measuring_ns,
            why_missed=dict(missed),
            names={view.number: view.name for view in views} if len(views) > 1 else {},
        )

    def memory_left_mib(self) -> float | None:
        """Return how much memory can still be allocated, in MiB, or None if unknown.

        The limit is the cgroup's memory limit or the board's memory, whichever is nearer.
        """
        left = room(self.tracks)
        return None if left is None or left.is_lost else left.value

    @once
    def spans(self) -> tuple[SpanFigures | None, SpanFigures | None]:
        """Return `(burst, sustained)`: the figures of the first steady 30 s and of the last steady span of the session.

        Each is None if it is unknown, or if the session has several streams.
        """
        only = self.only_stream
        return (only.burst, only.sustained) if only else (None, None)

    def burst(self) -> SpanFigures | None:
        """Return the figures of the burst, the first steady 30 s.

        The result is None if they are unknown or if there are several streams.
        """
        only = self.only_stream
        return only.burst if only else None

    @property
    def providers(self) -> tuple[str, ...]:
        return self.manifest.engine.preferred if self.manifest else ()

    def memory_view(self, axis: Axis) -> MemoryView:
        """Return the memory of the engine and the board. `axis`: the time axis of the memory timeline."""
        whole = self.manifest.board.memory_bytes if self.manifest else None
        with aside():
            stages, growth = self.memory_stages.views(), self.growth_view()
        return view_memory(self.tracks, whole, axis, stages, growth)

    def events_view(self) -> EventsView:
        """Return the recorded events together with the events that the analysis found, such as slowdowns."""
        with aside():
            derived = self.slowdowns_view(), self.throttles.view(), self.alerts_view()
        return self._derived_events.joined(self.events.view(), *derived)

    def sensor_series(self, axis: Axis, kinds: Sequence[str], until_s: float | None = None) -> dict[str, Points]:
        """Return the timelines of all sensors of these kinds, as a dict by sensor id.

        `axis`: the time axis. `kinds`: kinds of sensors, such as "temp". `until_s`: the session second at which the
        timelines end; None for now.
        """
        ids = [track.info.id for track in self.tracks.views(*kinds)] if kinds else []
        each = ((sensor_id, self.tracks.points(sensor_id, axis, until_s)) for sensor_id in ids)
        return {sensor_id: points for sensor_id, points in each if points is not None}


_NOT_OF_SESSION = frozenset({"_rules", "lock", "made", "folds", "on_fault", "_stream_views", "_checkpoints"})
