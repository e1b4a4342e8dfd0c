"""The state of the running session: its manifest, its phase, and the events that were not yet passed on.

The state turns the engine's messages into events and fields of the manifest. It also notices when the wall clock steps.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import timedelta

from edgetop import formatting
from edgetop.engines.child.literals import input_words, is_made_up, source_for
from edgetop.engines.engine_protocol import (
    BurstBegan,
    BurstTaken,
    Died,
    Ended,
    Failed,
    GarbageCollected,
    Loaded,
    LogLine,
    Message,
    Noted,
    OfVariant,
    PhaseBegan,
    ProfilerChosen,
    RecordsLost,
    SlowInference,
    StageMemory,
    Started,
    StreamsSeen,
    TurnsBegan,
)
from edgetop.engines.spec import EngineSpec
from edgetop.formatting import milliseconds
from edgetop.runner.inference_counts import InferenceCounts
from edgetop.runner.loaded_engine import fallback_words, loaded_variant, loading_warnings
from edgetop.runner.measured_ceilings import Kind, kind_of
from edgetop.runner.pending_events import PendingEvents
from edgetop.runner.surroundings import Surroundings
from edgetop.sensors.sensor_protocol import Missing
from edgetop.session import engine_events as noted  # the events that it adds to the session
from edgetop.session import event_kinds as kinds
from edgetop.session.ceilings import DTYPE, Ceilings
from edgetop.session.clock import Clock, anchor, both_times, format_utc
from edgetop.session.event_codec import decoded
from edgetop.session.events import Body, Event, Severity
from edgetop.session.generation_settings import Generation
from edgetop.session.manifest import (
    BackgroundProcess,
    ClockInfo,
    Lost,
    Manifest,
    SensorInfo,
    Variant,
    Watched,
    WatchedStream,
    lost_in_all,
)
from edgetop.session.median import median
from edgetop.session.operators import NEIGHBOURS, Burst, burst_of, counts_text, plain_ns
from edgetop.session.records import Inferences, join, measured

CLOCK_STEP = timedelta(seconds=0.1)
MOST_RECENT = 4_096  # inferences that are kept before all but the newest of them are dropped

_PHASES = {
    "program": "the program",
    "first": "first inference",
    "idle": "idle baseline",
    "warmup": "warm-up",
    "measure": "measurement",
}
# The stages of engines/child/own_memory.py, in words.
_STAGES = {
    "interpreter": "the interpreter started",
    "runtime": "the runtime imported",
    "model": "the model loaded",
    "first": "the first inference done",
    "steady": "the warm-up done",
}


class SessionState:
    def __init__(
        self,
        manifest: Manifest,
        spec: EngineSpec,
        clock: Clock,
        ceilings_for: Callable[[Kind], Ceilings | None] = lambda _: None,
    ) -> None:
        """Begin a session.

        `spec` describes the engine. `ceilings_for` returns the highest FLOP/s and bytes/s that were measured earlier
        under the given conditions, or None.
        """
        self.manifest = manifest
        self._ceilings_for = ceilings_for
        self._spec = spec
        self._clock = clock
        self._wall = both_times(clock)
        self._manifest_changed = True
        self._events = PendingEvents(clock, manifest.clock.origin_monotonic_ns)
        self._counts = InferenceCounts(spec.streams)
        self._bursts: list[Burst] = []
        self._last_burst: Burst | None = None
        self._recent: list[Inferences] = []  # the newest inferences, with which those of a burst are compared
        self._runs_before = 0  # measured inferences of earlier sessions of a rotation
        self._dependence_reported = False
        self._engine_ended_ns: int | None = None
        self.is_measuring = False
        self._measuring_since_ns = 0
        self.has_ended = False  # once set, further events are in no recording

    @property
    def profiles(self) -> bool:
        """Whether operators are timed in this session."""
        return self._spec.profile_every_ns > 0

    def now_ns(self) -> int:
        return self._events.now_ns()

    def time_left_s(self) -> float:
        """Return the seconds that are left to measure, or infinity if the session has no limit.

        A limit of inferences is converted at the present pace.
        """
        ran_ns, runs = self.now_ns() - self._measuring_since_ns, self._runs_before + self._counts.measured_runs
        left_ns = [math.inf]
        if self._spec.duration_ns:
            left_ns.append(self._spec.duration_ns - ran_ns)
        if self._spec.runs and runs:
            left_ns.append((self._spec.runs - runs) * ran_ns / runs)
        return max(0.0, min(left_ns) / 1e9)

    def add_event(self, body: Body, severity: Severity, source: str, message: str) -> None:
        """Add an event that happens now. May be called from any thread."""
        self._events.add(body, severity, source, message)

    def _engine_reached(self, monotonic_ns: int, body: Body, message: str) -> None:
        """Add an event of the engine that happened at `monotonic_ns` (CLOCK_MONOTONIC)."""
        self._events.add(body, "info", "engine", message, monotonic_ns=monotonic_ns)

    def add_events(self, events: tuple[Event, ...]) -> None:
        """Add events whose times are already in session time. May be called from any thread."""
        self._events.extend(events)

    def take_events(self) -> tuple[Event, ...]:
        return self._events.take()

    def take_bursts(self) -> tuple[Burst, ...]:
        bursts, self._bursts = self._bursts, []
        return tuple(bursts)

    def take_manifest(self) -> Manifest | None:
        """Return the session's description (manifest) if it has changed since the last call, else None."""
        changed, self._manifest_changed = self._manifest_changed, False
        return self.manifest if changed else None

    def _amend(self, **changes: object) -> None:
        self.manifest = replace(self.manifest, **changes)  # type: ignore[arg-type]
        self._manifest_changed = True

    def set_sha256(self, sha256: str, side: int) -> None:
        """Store the SHA-256 of a model's file. `side` is 1 for model B of an A/B session, else 0."""
        if side == 0:
            self._amend(model=replace(self.manifest.model, sha256=sha256))
        if ab := self.manifest.ab:
            variants = list(ab.variants)
            variants[side] = replace(variants[side], model=replace(variants[side].model, sha256=sha256))
            self._amend(ab=replace(ab, variants=tuple(variants)))

    def precision_known(self, dtype: str | None) -> None:
        if dtype is not None and self.manifest.model.precision is None:
            self._amend(model=replace(self.manifest.model, precision=dtype))

    def data_dependent(self, types: Mapping[str, int], inputs: Mapping[str, Collection[str]]) -> None:
        """Add a warning if the work of operators depends on the values of an input that edgetop generates.

        Later calls add no second warning. `types` has the number of such operators by type. `inputs` has, by type, the
        names of the inputs that matter; a type that is missing may depend on any input.
        """
        if self._dependence_reported or not types:
            return
        made_up = list(filter(is_made_up, self.manifest.load.input.split(", ")))
        if not made_up:
            return
        sources = self._spec.inputs
        made = {one: {name for name in names if is_made_up(source_for(name, sources))} for one, names in inputs.items()}
        types = {one: number for one, number in types.items() if made.get(one, one)}
        if not types:
            return
        self._dependence_reported = True
        deciding = sorted({name for one in types for name in made.get(one, ())})
        which = f" {', '.join(deciding[:3])}" if all(one in made for one in types) else ""
        named = ", ".join(f"{name} ({number})" if number > 1 else name for name, number in list(types.items())[:3])
        text = f"{' and '.join(sorted(made_up))} input{which}, but the work of {named} depends on what is in it"
        self.add_event(noted.DataDependent(", ".join(types)), "warning", "edgetop", text)

    def sensors_known(
        self, sensors: tuple[SensorInfo, ...], missing: tuple[Missing, ...], unset: tuple[str, ...] = ()
    ) -> None:
        """Put the sensors into the manifest, and report those that cannot be read.

        `unset` are the ids of sensors that the session lacks only because the limits are not set that they measure.
        """
        self._amend(sensors=sensors, unset_limits=unset)
        for gap in missing:
            self.add_event(kinds.SensorMissing(gap.fix), "info", f"sensor {gap.what}", gap.why)

    def take_records(self, records: Inferences) -> None:
        """Remember the newest inferences, to compare them with inferences whose operators are timed.

        `records` have times of the engine's clock. Call this before `engine_said` gets the messages of the same update.
        """
        if not self.profiles or not len(records):
            return
        if sum(map(len, self._recent)) > MOST_RECENT:  # joined now and then, since each time costs the same
            self._recent = [measured(join(self._recent))[-NEIGHBOURS:].copy()]
        self._recent.append(records)

    def take_surroundings(self, surroundings: Surroundings) -> None:
        """Store the measured conditions in the manifest: temperatures, scheduler, CPUs and other processes."""
        if not surroundings.take_change():
            return
        methodology = surroundings.methodology(self.manifest.methodology)
        constraints = surroundings.constraints(self.manifest.constraints)
        if (methodology, constraints) != (self.manifest.methodology, self.manifest.constraints):
            self._amend(methodology=methodology, constraints=constraints)

    def count_inferences(self, inferences: Inferences) -> None:
        """Add `inferences` to the counts of the session."""
        if not len(inferences):
            return
        is_watched = self.manifest.watched is not None
        self._counts.count(inferences, is_watched=is_watched)
        if self._counts.first_ns is not None and self.manifest.engine.first_ns is None:
            self._amend(engine=replace(self.manifest.engine, first_ns=self._counts.first_ns))
        if is_watched and self._counts.streams_are_due(self.now_ns()):
            self._write_streams()

    def watch_wall_clock(self) -> None:
        """Note a step of the wall clock, such as when NTP sets the clock after boot.

        A step adds an event, and a new pair of session time and wall-clock time in the manifest.
        """
        now = both_times(self._clock)
        step = now.offset - self._wall.offset
        # On a busy board, the reads of the two clocks can be far apart, which is no step.
        if abs(step) <= CLOCK_STEP + timedelta(microseconds=(now.apart_ns + self._wall.apart_ns) / 1000):
            return
        self._wall = now
        clock = self.manifest.clock
        self._amend(clock=replace(clock, anchors=(*clock.anchors, anchor(self._clock, self._events.origin_ns))))
        seconds = step.total_seconds()
        self.add_event(kinds.ClockStepped(seconds), "info", "system", f"the wall clock stepped by {seconds:+.1f} s")

    def engine_said(self, message: Message) -> None:  # noqa: C901, PLR0912  one case for each kind of message
        match message:
            case Started():
                text = f"Python {message.python}" if message.python else f"process {message.pid}"
                self.add_event(noted.EngineStarted(message.pid), "info", "engine", text)
            case StreamsSeen():
                self._streams_seen(message)
            case Loaded():
                self._loaded(message)
            case StageMemory():
                self._stage_reached(message)
            case PhaseBegan():
                self._phase_began(message)
            case LogLine():
                self.add_event(decoded(message.kind, message.data), message.severity, message.source, message.message)
            case Noted():
                self.add_event(message.body, message.severity, message.source, message.message)
            case RecordsLost():
                self._records_lost(message)
            case ProfilerChosen():
                self._profiler_chosen(message)
            case BurstBegan():
                began = kinds.Remark("profile-burst-begins")
                self._engine_reached(message.monotonic_ns, began, "instrumented inferences begin")
            case BurstTaken():
                self._burst_taken(message)
            case SlowInference():
                slow = noted.SlowInference(
                    message.latency_ns, message.span_ns, message.preempted, message.major_faults,
                    message.minor_faults, message.waited_ns, message.migrations, message.capacity,
                    message.lost_cpus or None, message.input, message.inputs, message.idle_ns or None,
                    message.slept_ns, message.loop_major_faults or None, message.loop_preempted or None,
                    message.lacking_ns or None,
                )  # fmt: skip
                text = f"{milliseconds(message.latency_ns)} ms, the slowest of its tenth of a second"
                self._engine_reached(message.monotonic_ns, slow, text)
            case GarbageCollected():
                body = noted.GarbageCollected(message.latency_ns, message.took_ns, message.after_ns, message.generation)
                text = f"{milliseconds(message.took_ns)} of {milliseconds(message.latency_ns)} ms were Python's"
                self._engine_reached(message.monotonic_ns, body, f"{text} garbage collection")
            case OfVariant():
                self._variant_said(message)
            case TurnsBegan():
                plan = message.plan
                plan = replace(plan, begin_ns=plan.begin_ns - self._events.origin_ns)
                if message.load:
                    text = f"load {message.load + 1} of {plan.loads}: turns begin"
                    self._engine_reached(message.plan.begin_ns, noted.LoadBegan(message.load, plan), text)
                else:
                    self._engine_reached(message.plan.begin_ns, noted.TurnsBegan(plan), "turns begin")
            case Failed():
                self.add_event(noted.EngineFailed(message.stage), "critical", "engine", message.message)
            case Died():
                source = "program" if self.manifest.watched else "engine"
                self.add_event(noted.EngineDied(message.last_words), "critical", source, message.cause)
            case Ended():
                self._engine_ended_ns = message.monotonic_ns - self._events.origin_ns

    def _records_lost(self, message: RecordsLost) -> None:
        count = message.count
        text = f"{formatting.quantity(count, 'inference', str)} not reported: {message.why}"
        self.add_event(noted.RecordsLost(count), "critical", "engine", text)
        lost = Lost(None, count, message.why)
        self._amend(lost=lost_in_all(self.manifest.lost, lost))

    def _streams_seen(self, seen: StreamsSeen) -> None:
        manifest, watched = self.manifest, self.manifest.watched or Watched(())
        before = watched.streams
        new = tuple(WatchedStream(name) for name in seen.names[len(before) :])
        rows = zip((*before, *new), seen.threads, seen.inputs, strict=True)
        streams = tuple(replace(stream, threads=threads, inputs=inputs) for stream, threads, inputs in rows)
        model = manifest.model if before else replace(manifest.model, path=seen.names[0] or manifest.model.path)
        self._amend(
            model=model,
            watched=replace(
                watched, sources=seen.sources, cost_ns=seen.cost_ns, streams=streams, deadline_ns=seen.deadline_ns
            ),
        )
        for number, stream in enumerate(new, len(before)):
            text = f"stream {number}: {stream.name or 'a model without a name'}"
            self.add_event(noted.StreamSeen(number), "info", "program", text)

    def _write_streams(self) -> None:
        """Store the present figures of each stream (a model or thread that runs inferences) in the manifest."""
        if watched := self.manifest.watched:
            self._amend(watched=self._counts.with_streams(watched))

    def _loaded(self, loaded: Loaded) -> None:
        if self._spec.inputs and (words := input_words(self._spec.inputs, [one.name for one in loaded.inputs])):
            self._amend(load=replace(self.manifest.load, input=words))
        self._amend(load=replace(self.manifest.load, arrays=loaded.input_steps))
        both = loaded_variant(Variant(self.manifest.model, self.manifest.engine), loaded)
        self._amend(engine=both.engine, model=both.model)
        if loaded.shows_tokens and self.manifest.generation is None:
            self._amend(generation=Generation(context=None, max_tokens=None))
        if generation := self.manifest.generation:
            context = generation.context or loaded.context
            self._amend(generation=replace(generation, context=context, buffers_mib=loaded.buffers))
        where = f"on {', '.join(loaded.providers)} " if loaded.providers else ""
        text = f"{loaded.runtime} {loaded.version} {where}({loaded.why})"
        self.add_event(kinds.Remark("engine-loaded"), "info", "engine", text)
        if self.profiles and (ceilings := self._ceilings_for(kind_of(self.manifest.board, loaded, self._spec))):
            text = f"{ceilings.flops_per_s / 1e9:.1f} GFLOP/s and {ceilings.bytes_per_s / 1e9:.1f} GB/s at most"
            body = noted.RooflineMeasured(
                ceilings.flops_per_s, ceilings.bytes_per_s, DTYPE, ceilings.measured_utc, ceilings.int8_flops_per_s
            )
            self.add_event(body, "info", "edgetop", f"{text}, as measured {ceilings.measured_utc}")
        for kind, severity, sentence in loading_warnings(loaded):
            self.add_event(kinds.Remark(kind), severity, "engine", sentence)

    def _variant_said(self, said: OfVariant) -> None:
        ab, message = self.manifest.ab, said.message
        if isinstance(message, StageMemory) or ab is None:
            return
        variants = list(ab.variants)
        variants[said.side] = loaded_variant(variants[said.side], message)
        self._amend(ab=replace(ab, variants=tuple(variants)))
        for kind, severity, sentence in loading_warnings(message) if said.side else ():
            self.add_event(kinds.Remark(kind), severity, "engine", f"B: {sentence}")

    def _stage_reached(self, memory: StageMemory) -> None:
        """Add an event with the memory of the engine at a stage, such as after loading."""
        when = _STAGES.get(memory.stage, memory.stage)
        anon_mib, file_mib = (None if kib is None else kib / 1024 for kib in (memory.anon_kib, memory.file_kib))
        arena_mib = None if memory.arena_bytes is None else memory.arena_bytes / 2**20
        body = noted.EngineMemory(memory.stage, memory.rss_kib / 1024, anon_mib, file_mib, arena_mib, memory.arena_from)
        text = f"{memory.rss_kib / 1024:.1f} MiB resident with {when}"
        self._engine_reached(memory.monotonic_ns, body, text)

    def _phase_began(self, message: PhaseBegan) -> None:
        spec = self._spec
        match message.phase:
            case "program":
                body = kinds.PhaseBegan("program")
            case "idle":
                body = kinds.PhaseBegan("idle", duration_ns=spec.idle_ns)
            case "warmup":
                body = kinds.PhaseBegan("warmup", spec.warmup_runs)
            case "measure":
                self.is_measuring, self._measuring_since_ns = True, message.monotonic_ns - self._events.origin_ns
                body = kinds.PhaseBegan("measure", spec.runs, spec.duration_ns)
            case _:
                body = kinds.PhaseBegan("first")
        self._engine_reached(message.monotonic_ns, body, f"{_PHASES[message.phase]} begins")

    def _profiler_chosen(self, message: ProfilerChosen) -> None:
        text = f"operators: {message.way}" if message.way else "operators are not profiled"
        why = f" ({message.reason})" if message.reason else ""
        body = noted.ProfilerChosen(message.way, message.reason, self._spec.profile_every_ns)
        self.add_event(body, "info", "engine", f"{text}{why}")
        if message.fallback is not None:
            self.add_event(message.fallback, "info", "engine", fallback_words(message.fallback))

    def _burst_taken(self, message: BurstTaken) -> None:
        last = self._last_burst
        number = 0 if last is None else last.number + 1
        plain = message.plain_ns
        if plain is None and not message.plain_disturbed and self._recent:
            plain = plain_ns(measured(join(self._recent)), message.monotonic_ns)
        self._last_burst = burst_of(message.monotonic_ns - self._events.origin_ns, number, message.operators, last)
        self._bursts.append(self._last_burst)
        body = noted.ProfileBurst(
            burst=number,
            duration_ns=message.duration_ns,
            runs=len(message.run_ns),
            run_ns=int(median(message.run_ns)),
            plain_ns=plain,
            left_out_runs=len(message.left_out_ns),
            disturbed_runs=len(message.run_ns) if message.disturbed else 0,
            preempted=message.preempted,
            waited_ns=message.waited_ns,
            stolen_ns=message.stolen_ns,
            threads=message.threads,
            slow_ns=message.slow_ns,
            usual_ns=message.usual_ns,
            longer=message.longer or None,
            longer_ns=message.longer_ns,
            longer_share=message.longer_share,
            counts=counts_text(message.counts) if message.counts else None,
        )
        runs = formatting.quantity(len(message.run_ns), "instrumented inference")
        text = f"{runs} in {message.duration_ns / 1e6:.0f} ms"
        self._engine_reached(message.monotonic_ns, body, text)

    def follow(self, name: str, session_id: str, origin_ns: int) -> None:
        """Continue as the next session of the same engine. Time 0 of that session is at `origin_ns` of CLOCK_MONOTONIC.

        Call this after the present session has ended and its events were taken. Events that were added since then
        belong to the next session.
        """
        before = self.manifest
        watched = before.watched
        if watched:
            streams = tuple(replace(stream, runs=0, p50_ns=None, p99_ns=None) for stream in watched.streams)
            watched = replace(watched, streams=streams, at_once_mean=None, at_once_max=None, outside_share=None)
        began = self._clock.utc() - timedelta(microseconds=(self._clock.monotonic_ns() - origin_ns) / 1000)
        methodology = replace(before.methodology, warmup_runs=None, measure_runs=None, background=(), stream_runs=())
        self._amend(
            id=session_id, name=name, state="live", end_reason=None, duration_ns=None, lost=None, followed_by=None,
            watched=watched, created_utc=format_utc(began), methodology=methodology,
            clock=ClockInfo(origin_ns, before.clock.boot_id, (anchor(self._clock, origin_ns),)),
        )  # fmt: skip
        self._measuring_since_ns -= self._events.follow(origin_ns)
        self._runs_before += self._counts.measured_runs
        self._counts = InferenceCounts(self._spec.streams, follows=True)
        self._last_burst = None
        self.has_ended = False
        text = f"goes on where {before.name} ended: the engine ran on"
        self._events.add(kinds.Rotated(before.id), "info", "edgetop", text, monotonic_ns=origin_ns)
        left_ns = None
        if self._spec.duration_ns is not None:  # rounded to seconds, as it is shown
            left_ns = round((self._spec.duration_ns + self._measuring_since_ns) / 1e9) * 10**9
        left = None if self._spec.runs is None else self._spec.runs - self._runs_before
        self._engine_reached(origin_ns, kinds.PhaseBegan("measure", left, left_ns), "measurement goes on")

    def followed_by(self, session_id: str) -> None:
        """Store in the manifest the id of the next session, in which the engine continues."""
        self._amend(followed_by=session_id)

    def ended(self, reason: str, background: tuple[BackgroundProcess, ...] = ()) -> None:
        """Add the last event of the session and complete the manifest.

        `reason` is why the session ended. `background` are the other processes that ran during the measured phase.
        """
        # A session ends with its last inference; the engine says that it is over some milliseconds later. Without a
        # measured inference, the engine's word is all there is.
        is_by_engine = not self._counts.measured_runs and self._engine_ended_ns is not None
        last_end_ns = self._engine_ended_ns if is_by_engine else self._counts.last_end_ns
        self._write_streams()
        self.has_ended = True
        over = kinds.SessionOver("ended", reason, last_end_ns, self._counts.warmup_runs, self._counts.warmup_ns)
        self.add_event(over, "info", "edgetop", f"session over: {reason}")
        methodology = replace(
            self.manifest.methodology,
            warmup_runs=self._counts.warmup_runs,
            measure_runs=self._counts.measured_runs,
            background=background,
            stream_runs=self._counts.stream_runs,
        )
        self._amend(state="finished", end_reason=reason, duration_ns=self.now_ns(), methodology=methodology)
