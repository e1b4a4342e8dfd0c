"""The conductor runs a session, on a thread of its own.

The conductor takes a step every 0.75 s, more often if there is much data or a program is watched, and at once when a
throttle signal changes. In each step, it collects the engine's inferences and the sensors' readings into a batch,
passes the batch to the recorder and to the screen, and decides whether the session is over.
"""

import contextlib
import gc
import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from edgetop.engines.engine_protocol import (
    Died,
    Ended,
    Engine,
    EngineUpdate,
    Failed,
    Loaded,
    Message,
    OfVariant,
    PhaseBegan,
    Reloading,
    Sampled,
    Started,
    join_updates,
)
from edgetop.errors import EdgetopError, EngineDiedError, InputError, RecordingError
from edgetop.runner.model_file import ModelFiles
from edgetop.runner.outcome import BatchSink, Derived, Outcome, failure_of, internal_error
from edgetop.runner.rotation import Recorder, Rotation
from edgetop.runner.session_sensors import SessionSensors
from edgetop.runner.session_state import SessionState
from edgetop.runner.surroundings import Surroundings
from edgetop.session.batch import Batch
from edgetop.session.clock import Clock
from edgetop.session.event_kinds import AnalysisFailed, Remark
from edgetop.session.events import Event, Order
from edgetop.session.records import NO_INFERENCES, NO_READINGS, NO_REQUESTS, Inferences, Readings, copied, last_end_ns
from edgetop.session.second_aggregator import SecondAggregator
from edgetop.session.seconds import NS
from edgetop.session.token_aggregator import TokenAggregator

if TYPE_CHECKING:
    from edgetop.models.inspection import RuntimeShapes

# Pause between two steps. A step costs much the same however little is new, but a killed run loses all data since its
# last step, which must be less than a second, also on a busy board.
TICK_S = 0.75
PROGRAM_TICK_S = 0.5  # the same of a watched program, whose calls are sampled at each step
BUSY_TICK_S, BUSY_INFERENCES = 0.25, 2_000  # pause after a step with more inferences than this
END_TICK_S = 0.05  # shortest pause when the end is due, so that it is noticed in time
OPENING_TICK_S = 0.02  # pause until the first inferences are measured, so that the screen shows them at once
OPENING_NS = 5_000_000_000  # the pause is longer after this time: a watched program may never run an inference
MOST_AHEAD_NS = 3_600_000_000_000  # starts of inferences are cut to this time after now
LATE_NS = 2_000_000_000  # records that waited longer than this in the engine are reported as late
STOP_PATIENCE_NS = 10_000_000_000  # time for the running inference to end; then the engine is killed


class Conductor:
    def __init__(
        self,
        engine: Engine,
        sensors: SessionSensors,
        recorder: Recorder | None,
        feed: BatchSink,
        session_state: SessionState,
        clock: Clock,
        *,
        derived: Callable[[], Derived] = lambda: lambda _: (),
        rotation: Rotation | None = None,
        measure_shapes: "Callable[[], RuntimeShapes | None]" = lambda: None,
    ) -> None:
        """Prepare a session. Nothing runs until `start` is called.

        `recorder` stores each batch, and `feed` passes each batch to the screen; without a recorder, nothing is
        recorded. `derived` is called once for each session. It returns a function that finds events, such as
        throttling, in a batch, and these events are added to the batch. `rotation` provides the next sessions
        (`--rotate`), or is None. `measure_shapes` asks the runtime for tensor shapes that do not follow from the
        model's file.
        """
        self._engine = engine
        self._sensors = sensors
        self._recorder = recorder
        self._feed = feed
        self._state = session_state
        self._clock = clock
        self._make_derived = derived
        self._derived: Derived | None = None  # made with the first batch, since making it may take time
        self._rotation = rotation
        self._model_files = ModelFiles(session_state, measure_shapes)
        self._surroundings = Surroundings()
        self._aggregator = self._seconds()
        self._stop_reason: str | None = None
        self._stop_since_ns: int | None = None
        self._is_urgent = False  # the user asked for the end twice
        self._lets_go = False  # whether a watched program goes on when this session ends
        self._recording_paused = False
        self._profile_asked = False
        self._longest_tick_s = PROGRAM_TICK_S if engine.isolation == "program" else TICK_S
        self._tick_s = OPENING_TICK_S
        self._updates: list[EngineUpdate] = []  # updates since the last step
        self._poll_due_ns = 0  # on CLOCK_MONOTONIC
        self._is_engine_over = False
        self._asked_ns = 0  # when the engine was last polled and had nothing more to send
        self._is_late = False  # whether records wait in the engine for too long
        self._reached_ns = 0  # on CLOCK_MONOTONIC; every later record is of an inference that began after this time
        self._wake = threading.Event()
        self._has_sign_changed = False  # whether a sign of throttling has changed since the last step
        self._thread = threading.Thread(target=self._conduct, name="conductor", daemon=True)
        self.outcome: Outcome | None = None
        self.began_measuring = threading.Event()  # set when measuring begins or the session is over

    # The methods up to the next comment may be called from any thread.

    def start(self) -> None:
        """Start the engine, the sensors and the conductor's thread.

        Raises InputError if the engine cannot be started.
        """
        try:
            self._engine.start()
        except BaseException:
            self._engine.close()
            if self._recorder:
                self._recorder.discard()
            self._feed.close()
            raise
        self._sensors.start(self._on_throttling)
        self._thread.start()

    def _on_throttling(self) -> None:
        self._has_sign_changed = True
        self._wake.set()

    def stop(self, reason: str = "user") -> None:
        """Request the end of the session. `reason` is recorded. Only the reason of the first call counts."""
        self._stop_reason = self._stop_reason or reason
        self._wake.set()

    def hurry(self) -> None:
        """End the engine or program at once. Call this if it still runs after `stop`."""
        self._is_urgent = True
        self._wake.set()

    def let_go(self, reason: str) -> None:
        """Request the end of the session, but let a watched program continue. `reason` is recorded."""
        self._lets_go = self._engine.isolation == "program"
        self.stop(reason)

    @property
    def is_stopping(self) -> bool:
        return self._stop_reason is not None

    def order(self, order: Order) -> None:
        """Execute an order of the user: stop, mark, profile, pause or resume recording."""
        if order.do == "stop":
            self.stop()
        elif order.do == "mark":
            self._state.add_event(Remark("mark"), "info", "user", order.note or "mark")
        elif order.do == "profile":
            self._profile_asked = True
        elif self._recorder and self._recording_paused != (order.do == "pause"):
            self._recording_paused = order.do == "pause"
            if self._recording_paused:
                self._state.add_event(Remark("recording-paused"), "warning", "user", "recording paused: a gap begins")
            else:
                self._state.add_event(Remark("recording-resumed"), "warning", "user", "recording goes on")
        self._wake.set()

    def join(self, timeout_s: float | None = None) -> Outcome | None:
        """Wait for the end of the session. Return its outcome, or None if `timeout_s` seconds passed first."""
        self._thread.join(timeout_s)
        return self.outcome

    # All that follows runs on the conductor's thread.

    def _conduct(self) -> None:
        try:
            self.step()
            while self.outcome is None:
                self._wait()
                self.step()
        except Exception as error:  # noqa: BLE001  a defect must not lose the recording or leave an engine running
            with contextlib.suppress(Exception):  # for example MemoryError
                self._state.add_event(Remark("internal-error"), "critical", "edgetop", traceback.format_exc(limit=-3))
            self._end("internal-error", internal_error(error))
        finally:
            self.began_measuring.set()

    def _wait(self) -> None:
        """Wait until the next step is due.

        Meanwhile, collect the engine's records often enough that the engine's buffer cannot overflow.
        """
        due_ns = self._clock.monotonic_ns() + int(self._tick_s * NS)
        while self._poll_due_ns < due_ns and not self._is_engine_over:
            if self._wake.wait(max(0, self._poll_due_ns - self._clock.monotonic_ns()) / NS):
                break
            self._poll()
        else:
            self._wake.wait(0 if self._is_engine_over else max(0, due_ns - self._clock.monotonic_ns()) / NS)
        self._wake.clear()

    def _poll(self) -> None:
        update, now_ns = self._engine.poll(), self._clock.monotonic_ns()
        self._updates.append(update)
        self._poll_due_ns = now_ns + int(min(update.poll_within_s, 2 * self._longest_tick_s) * NS)
        self._is_engine_over |= any(isinstance(message, Failed | Died | Ended) for message in update.messages)

    def step(self) -> None:
        """Process the data since the last step. End the session if it is over."""
        state = self._state
        # Sensors first, then the engine: if a sensor noticed that the engine has ended, the update says so as well.
        is_urgent, self._has_sign_changed = self._has_sign_changed, False  # before the readings are taken
        readings, sensor_events = self._sensors.drain()
        asked_ns = state.now_ns()
        self._poll()
        update, self._updates = join_updates(self._updates), []
        self._watch_backlog(asked_ns, is_behind=update.is_behind)
        if self._stop_reason and self._stop_since_ns is None:
            self._stop_since_ns = self._clock.monotonic_ns()
            if not self._lets_go:
                self._engine.stop()
        elif self._is_urgent and self._stop_reason:
            self._is_urgent = False
            self._engine.stop()
        asked, self._profile_asked = self._profile_asked, False
        if asked and state.is_measuring:
            self._engine.profile()
        state.take_records(update.records)
        samples = [message for message in update.messages if isinstance(message, Sampled)]
        readings = self._sensors.with_samples(readings, samples)
        if any(isinstance(message, Reloading) for message in update.messages):
            self._sensors.engine_reloads()
        sensor_events = self._sensors.of_one_engine(sensor_events)
        for message in update.messages:
            self._handle(message)
            if isinstance(message, Failed | Died | Ended):
                self._finish(update, readings, sensor_events, message)
                return
        if state.is_measuring and not self.began_measuring.is_set():
            self.began_measuring.set()
            gc.freeze()  # all objects made so far stay; collecting them would take 50 ms each time
        batch = self._batch(update, readings, sensor_events)
        self._hand_on(replace(batch, is_urgent=True) if is_urgent else batch)
        self._rotate_if_due()
        self._choose_tick(len(update.records))
        self._end_if_overdue()

    def _choose_tick(self, inferences: int) -> None:
        """Choose the pause until the next step. `inferences` is the number of inferences in this step."""
        if self.began_measuring.is_set():
            tick_s = BUSY_TICK_S if inferences > BUSY_INFERENCES else self._longest_tick_s
            self._tick_s = min(tick_s, max(self._state.time_left_s(), END_TICK_S))
        elif self._state.now_ns() > OPENING_NS:
            self._tick_s = self._longest_tick_s

    def _watch_backlog(self, asked_ns: int, *, is_behind: bool) -> None:
        """Add an event when edgetop falls seconds behind the engine, and another event when it has caught up.

        `asked_ns` is the session time at which edgetop asked the engine for records. `is_behind` says that the engine
        has more records than it returned.
        """
        if not is_behind:
            self._asked_ns = asked_ns
        if is_behind and not self._is_late and asked_ns - self._asked_ns > LATE_NS:
            self._is_late = True
            text = "edgetop does not keep up: what it shows is some seconds old"
            self._state.add_event(Remark("records-late"), "info", "edgetop", text)
        elif self._is_late and not is_behind:
            self._is_late = False
            self._state.add_event(Remark("records-on-time"), "info", "edgetop", "edgetop has caught up")

    def _end_if_overdue(self) -> None:
        """End the session if the engine was told to stop and still runs after `STOP_PATIENCE_NS`.

        A watched program gets as long as it needs, and after `let_go` it runs on when the session ends.
        """
        state, since_ns = self._state, self._stop_since_ns
        if since_ns is None or not self._stop_reason:
            return
        if self._engine.isolation == "program":
            if self._lets_go:
                self._end(self._stop_reason)
        elif self._clock.monotonic_ns() - since_ns > STOP_PATIENCE_NS:
            text = f"killed: the inference in hand did not end within {STOP_PATIENCE_NS // 10**9} s"
            state.add_event(Remark("engine-killed"), "warning", "edgetop", text)
            self._end(self._stop_reason)

    def _handle(self, message: Message) -> None:
        state = self._state
        state.engine_said(message)
        match message:
            case Started():  # has the engine's own pid, since `--engine-python` may be a wrapper
                self._surroundings.watch_engine(message.pid, self._sensors.of_engine(message.pid))
            case PhaseBegan("measure" | "program" as phase):
                t_ns = message.monotonic_ns - state.manifest.clock.origin_monotonic_ns
                self._surroundings.began(t_ns, may_begin_anew=phase == "program")
            case Loaded():
                self._model_files.begin(message.inputs)
                if message.shows_tokens and isinstance(self._aggregator, SecondAggregator):
                    self._aggregator = TokenAggregator(self._aggregator)  # before the first inference
            case OfVariant(side=side, message=Loaded()) if side:
                self._model_files.begin_other()

    def _rotate_if_due(self) -> None:
        """End this session and begin the next one, if the next one's recording is ready.

        All data so far belongs to this session. Time 0 of the next session is before every inference that is still to
        come.
        """
        state, recorder, rotation = self._state, self._recorder, self._rotation
        if rotation is None or self._recording_paused or self.is_stopping or not state.is_measuring:
            return
        following = rotation.ready(state.now_ns(), state.manifest)
        if following is None:
            return
        assert recorder
        recorder.prepare_end()
        state.followed_by(following.session_id)
        # The last batch of this session is recorded but not shown: the screen gets the first batch of the next session
        # instead.
        last = self._with_derived(self._last_batch("rotated"))
        if news := recorder.write(last):  # events about the recording itself
            recorder.write(Batch(last.until_ns, events=news))
        manifest, before_ns = state.manifest, state.manifest.clock.origin_monotonic_ns
        origin_ns = max(self._reached_ns, before_ns)
        state.follow(following.name, following.session_id, origin_ns)
        rotation.finish(recorder, manifest)
        self._sensors.follow(origin_ns - before_ns)
        self._recorder, self._derived, self._is_late = following.recorder, None, False
        self._aggregator = self._seconds()
        self._surroundings = self._surroundings.follow()
        following.taken()
        first = Batch(state.now_ns(), events=state.take_events(), manifest=state.take_manifest(), restart=True)
        self._hand_on(first)

    def _seconds(self) -> SecondAggregator | TokenAggregator:
        manifest = self._state.manifest
        load = manifest.load
        plain = SecondAggregator(load.deadline_ns, is_paced=load.is_paced, split_by=manifest.split_by)
        return plain if manifest.generation is None else TokenAggregator(plain)

    def _finish(
        self, update: EngineUpdate, readings: Readings, events: tuple[Event, ...], last: Failed | Died | Ended
    ) -> None:
        self._hand_on(self._batch(update, readings, self._sensors.without_engine(events)))
        if isinstance(last, Ended):
            self._end(self._stop_reason or last.reason)
        elif isinstance(last, Failed) and last.is_input_error:
            self._end("input-error", InputError(last.message, last.advice))
        else:
            cause = last.message if isinstance(last, Failed) else last.cause
            if isinstance(last, Died):
                when = " while it was loading the model" if last.loading else ""
                words = f"; its last words: {last.last_words}" if last.last_words else ""
                cause += f"{when}{words}"
            self._end("engine-died", EngineDiedError(f"the engine died: {cause}"))

    def _batch(self, update: EngineUpdate, readings: Readings, sensor_events: tuple[Event, ...]) -> Batch:
        state = self._state
        inferences = self._on_session_clock(update.records)
        tokens, requests = (self._shifted(rows) for rows in (update.tokens, update.requests))
        state.count_inferences(inferences)
        state.watch_wall_clock()
        self._model_files.report()
        self._surroundings.take_readings(readings, state.manifest.sensors)
        state.take_surroundings(self._surroundings)
        events = (*state.take_events(), *sensor_events)
        ends_ns = [last_end_ns(inferences)] if len(inferences) else []
        return Batch(
            # Not now, since nothing is known about the time after the poll, which on a busy machine may be long ago.
            until_ns=max([self._asked_ns, *(event.t_ns for event in events), *ends_ns]),
            inferences=inferences,
            requests=requests,
            seconds=self._aggregator.add(inferences)
            if isinstance(self._aggregator, SecondAggregator)
            else self._aggregator.add(inferences, tokens, requests),
            readings=readings,
            events=events,
            bursts=self._model_files.work.joined_to(state.take_bursts()),
            manifest=state.take_manifest(),
        )

    def _on_session_clock(self, records: Inferences) -> Inferences:
        if not len(records):
            return records
        manifest = self._state.manifest
        # A single stream has no inference in progress after its last end. Several streams may have one in progress that
        # began after the last known start.
        is_many = (
            manifest.load.streams > 1 or manifest.watched or (manifest.generation and manifest.generation.parallel > 1)
        )
        self._reached_ns = max(self._reached_ns, int(records["t_ns"].max()) if is_many else last_end_ns(records))
        inferences = copied(records)
        inferences["t_ns"] -= manifest.clock.origin_monotonic_ns
        # Times from watched programs may be wrong. A time far in the future would make a row for each second until
        # then.
        np.clip(inferences["t_ns"], 0, self._state.now_ns() + MOST_AHEAD_NS, out=inferences["t_ns"])
        return inferences

    def _shifted(self, rows: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """Return the rows of a language model's tokens or requests, with their times converted to session time."""
        if not len(rows):
            return rows
        shifted = copied(rows)
        shifted["t_ns"] -= self._state.manifest.clock.origin_monotonic_ns
        return shifted

    def _with_derived(self, batch: Batch) -> Batch:
        """Return the batch with added events, such as throttling, which are derived from its data.

        If that fails once, an event says so, and no more events are added.
        """
        try:
            self._derived = self._derived or self._make_derived()
            derived = self._derived(batch)
        except Exception as error:  # noqa: BLE001  a defect of the analysis must not cost the recording
            self._derived, derived = _derive_nothing, ()
            text = f"throttling and turns are recorded no more as events: {internal_error(error)}"
            trace = traceback.format_exc(limit=-3)
            self._state.add_event(AnalysisFailed(trace), "warning", "edgetop", text)
        return replace(batch, events=(*batch.events, *derived)) if derived else batch

    def _hand_on(self, batch: Batch) -> None:
        batch = recorded = self._with_derived(batch)
        if self._recording_paused:  # events are still recorded, and so are seconds, of which none may be missing
            nothing = {"inferences": NO_INFERENCES, "requests": NO_REQUESTS, "readings": NO_READINGS}
            recorded = replace(batch, **nothing, bursts=())  # type: ignore[arg-type]  # fields of their own types
        self._feed.put(batch)
        if self._recorder:  # last, since its thread would begin to wait for the GIL
            self._state.add_events(self._recorder.write(recorded))

    def _end(self, reason: str, error: EdgetopError | None = None) -> None:
        """Close everything and set the outcome. If a step of the closing fails, the other steps are still done.

        `reason` is recorded. `error` is the error that ended the session, or None.
        """
        steps: list[Callable[[], object]] = [
            self._sensors.stop,
            self._close_engine,
            partial(self._hand_on_last, reason),
        ]
        if self._recorder:
            self._recorder.prepare_end()
            # A session in which nothing ran leaves no recording.
            steps.append(self._recorder.discard if isinstance(error, InputError) else self._finish_recording)
        if self._rotation:
            steps.append(self._rotation.close)
        failures = [failure_of(step) for step in steps]
        self.outcome = Outcome(reason, next(filter(None, [error, *failures]), None))
        self._feed.close()

    def _close_engine(self) -> None:
        if goes_on := self._engine.close():
            self._state.add_event(Remark("program-unwatched"), "critical", "edgetop", goes_on)

    def _hand_on_last(self, reason: str) -> None:
        self._model_files.finish()
        last = self._last_batch(reason)
        self._hand_on(last)
        if news := self._state.take_events():  # from the recorder: it has failed, or works again
            self._hand_on(Batch(until_ns=last.until_ns, events=news))

    def _last_batch(self, reason: str) -> Batch:
        self._state.ended(reason, self._surroundings.background())
        return Batch(
            until_ns=self._state.manifest.duration_ns or 0,  # a replay ends at this time
            seconds=self._aggregator.close(),
            events=self._state.take_events(),
            manifest=self._state.take_manifest(),
        )

    def _finish_recording(self) -> None:
        assert self._recorder
        manifest, lost = self._state.manifest, None
        try:
            lost = self._recorder.finish(manifest)
        except RecordingError as error:
            lost = error.lost
            raise
        finally:
            if lost:  # tell viewers as well
                self._feed.put(Batch(manifest.duration_ns or 0, manifest=replace(manifest, lost=lost)))


def _derive_nothing(_: Batch) -> tuple[Event, ...]:
    return ()
