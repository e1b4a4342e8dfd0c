"""The conductor: a session from its first batch to its outcome, whatever the engine, disk or user does."""

import gc
import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetop.engines.engine_protocol import (
    BurstBegan,
    BurstTaken,
    Died,
    Ended,
    EngineUpdate,
    Failed,
    LogLine,
    PhaseBegan,
    ProfilerChosen,
    RecordsLost,
    Reloading,
    Started,
)
from edgetop.engines.spec import EngineSpec
from edgetop.errors import EXIT_ENGINE_DIED, EXIT_NOT_WRITTEN, EXIT_USAGE, InputError, RecordingError
from edgetop.recording.reader import Recording
from edgetop.recording.recorder import Recorder
from edgetop.recording.session_folder import read_manifest
from edgetop.runner.conductor import STOP_PATIENCE_NS, Conductor
from edgetop.runner.outcome import Outcome
from edgetop.runner.rotation import Rotation
from edgetop.runner.session_sensors import SessionSensors
from edgetop.runner.session_state import SessionState
from edgetop.sensors.sampler import Sampler
from edgetop.sensors.sensor_protocol import Found, Gap, Missing, Source, sensor
from edgetop.session.batch import Batch, merge
from edgetop.session.by_stream import ByStream
from edgetop.session.clock import SystemClock
from edgetop.session.event_codec import data_of, read_event
from edgetop.session.events import Event, Order
from edgetop.session.load_settings import Load
from edgetop.session.manifest import Manifest, Watched, WatchedStream
from edgetop.session.operators import Operator, burst_of
from edgetop.session.records import FIRST, WARMUP, Readings
from edgetop.session.second_aggregator import SecondAggregator
from tests.support.clocks import NS, ManualClock
from tests.support.scripted_engine import ScriptedEngine, inferences, said
from tests.support.sessions import begun
from tests.support.waiting import PATIENCE_S

ORIGIN = ManualClock().monotonic_ns()
MS = 1_000_000
MEASURING = PhaseBegan("measure", ORIGIN)
STARTED = Started(4_242, "3.11.7")
TWO_MODELS = Watched(("python3", "app.py"), streams=(WatchedStream("a.onnx"), WatchedStream("b.onnx")))
OVER = Ended("runs", ORIGIN + 5 * NS)


class Sink:
    """Keeps what a feed would be given."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.is_closed = False

    def put(self, batch: Batch) -> None:
        assert not self.is_closed, "put after the end"
        self.batches.append(batch)

    def close(self) -> None:
        assert not self.is_closed, "closed twice"
        self.is_closed = True

    @property
    def all(self) -> Batch:
        return merge(self.batches)

    def events(self, *kinds: str) -> list[Event]:
        return [event for event in self.all.events if not kinds or event.kind in kinds]


class MemoryRecorder:
    """Keeps batches in memory; fails as a disk would from the batch on that a test names."""

    def __init__(self, fails_at: int | None = None, error: Exception | None = None) -> None:
        self.batches: list[Batch] = []
        self.finished: Manifest | None = None
        self.is_discarded = False
        self._fails_at = fails_at
        self._error = error or RecordingError("/x: cannot be recorded: No space left on device")

    def write(self, batch: Batch) -> tuple[Event, ...]:
        assert self.finished is None, "written after the end"
        self.batches.append(batch)
        if self._fails_at != len(self.batches) - 1:
            return ()
        if not isinstance(self._error, RecordingError):
            raise self._error
        return (read_event(batch.until_ns, "recording-failed", "critical", "edgetop", str(self._error)),)

    def finish(self, manifest: Manifest) -> None:
        self.finished = manifest
        if self._fails_at is not None:
            raise self._error

    def prepare_end(self) -> None:
        """Nothing to prepare."""

    def discard(self) -> None:
        self.is_discarded = True

    @property
    def all(self) -> Batch:
        return merge(self.batches)


class Session:
    """A conductor with all around it, on a clock that the test moves."""

    def __init__(
        self,
        *updates: EngineUpdate,
        engine: ScriptedEngine | None = None,
        recorder: Any = None,
        sampler: Any = None,
        load: Load | None = None,
        watched: Watched | None = None,
        engine_sensors: Callable[[int], Found] = lambda _: Found(),
        board: Found | None = None,
        clock: Any = None,
        derived: Callable[[Batch], tuple[Event, ...]] = lambda _: (),
        profile_every_ns: int = 0,
        rotation: Rotation | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        manifest = replace(begun(self.clock, load=load), watched=watched)
        origin = manifest.clock.origin_monotonic_ns
        self.engine = engine or ScriptedEngine(*updates)
        self.sink = Sink()
        self.session_state = SessionState(
            manifest, EngineSpec("model.onnx", "onnx", profile_every_ns=profile_every_ns), self.clock
        )
        self.conductor = Conductor(
            engine=self.engine,
            sensors=SessionSensors(
                sampler or Sampler((), self.clock, origin), board or Found(), engine_sensors, self.session_state
            ),
            recorder=recorder,
            feed=self.sink,
            session_state=self.session_state,
            clock=self.clock,
            derived=lambda: derived,
            rotation=rotation,
        )

    def step(self, count: int = 1, after_s: float = 0.25) -> None:
        for _ in range(count):
            self.clock.advance(after_s)
            self.conductor.step()

    def play(self) -> Outcome:
        """Step until the session is over."""
        for _ in range(100):
            if self.conductor.outcome:
                return self.conductor.outcome
            self.step()
        raise AssertionError("the session does not end")

    def run(self) -> Outcome:
        """Start its thread, and wait for the end."""
        self.conductor.start()
        outcome = self.conductor.join(PATIENCE_S)
        assert outcome
        return outcome


def recorder_in(folder: Path) -> Recorder:
    return Recorder(folder / "session.edgetop", begun(ManualClock()))


# What came from the engine.


def test_inferences_are_put_on_the_sessions_clock() -> None:
    records = inferences([ORIGIN + 5 * MS, ORIGIN + 9 * MS], [2 * MS, 3 * MS])
    records.flags.writeable = False  # as they come from the pipe
    session = Session(said(records=records))
    session.step()
    given = session.sink.all.inferences
    assert given["t_ns"].tolist() == [5 * MS, 9 * MS]
    assert given["latency_ns"].tolist() == [2 * MS, 3 * MS]
    assert records["t_ns"][0] == ORIGIN + 5 * MS


def test_each_batch_says_until_when_it_goes() -> None:
    session = Session()
    session.step(3)
    assert [batch.until_ns for batch in session.sink.batches] == [250 * MS, 500 * MS, 750 * MS]


class HeldUp(ScriptedEngine):
    """Others take the CPU from edgetop itself, right after it has asked for news."""

    clock: ManualClock

    def poll(self) -> EngineUpdate:
        update = super().poll()
        self.clock.advance(6)
        return update


def test_what_came_while_edgetop_hung_is_not_missing() -> None:
    engine = HeldUp()
    session = Session(engine=engine)
    engine.clock = session.clock
    session.step()
    assert session.sink.batches[-1].until_ns == 250 * MS


def test_the_manifest_comes_first_and_with_each_change() -> None:
    session = Session(said(), said(), said(records=inferences([ORIGIN], phase=FIRST)), said())
    session.step(4)
    assert [batch.manifest is not None for batch in session.sink.batches] == [True, False, True, False]


def test_what_the_engine_says_becomes_events_in_its_order() -> None:
    lines = [LogLine("info", "engine stdout", f"line {i}") for i in range(3)]
    session = Session(said(*lines, RecordsLost(9)), said(MEASURING, OVER))
    session.play()
    kinds = [event.kind for event in session.sink.events()]
    assert kinds == ["log", "log", "log", "records-lost", "phase", "ended"]
    assert [event.message for event in session.sink.events("log")] == ["line 0", "line 1", "line 2"]


def test_what_follows_from_a_batch_is_recorded_with_it(tmp_path: Path) -> None:
    def derived(batch: Batch) -> tuple[Event, ...]:
        told = [event.kind for event in batch.events]
        return (read_event(batch.until_ns, "throttle-begin", "warning", "analysis", "hot"),) if "phase" in told else ()

    session = Session(said(MEASURING), said(OVER), recorder=recorder_in(tmp_path), derived=derived)
    session.play()
    assert [event.kind for event in session.sink.events()] == ["phase", "throttle-begin", "ended"]
    assert "throttle-begin" in [
        event.kind for batch in Recording(tmp_path / "session.edgetop").play() for event in batch.events
    ]


def test_an_error_in_what_is_derived_does_not_cost_the_recording(tmp_path: Path) -> None:
    def derived(_: Batch) -> tuple[Event, ...]:
        raise LookupError("on purpose")

    session = Session(said(MEASURING), said(OVER), recorder=recorder_in(tmp_path), derived=derived)
    session.play()
    (failed,) = session.sink.events("analysis-failed")
    assert "internal error: LookupError: on purpose" in failed.message
    recorded = [event.kind for batch in Recording(tmp_path / "session.edgetop").play() for event in batch.events]
    assert recorded == ["phase", "analysis-failed", "ended"]


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.integers(1, 700 * MS), min_size=1, max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=8),
)
def test_seconds_do_not_depend_on_how_records_arrive(steps: list[int], cuts: list[int]) -> None:
    starts = ORIGIN + np.cumsum(steps)
    records = inferences(starts, 1000 + np.arange(len(starts)) % 7)
    pieces = np.split(records, sorted(min(cut, len(records)) for cut in cuts))
    session = Session(*(said(records=piece) for piece in pieces), said(OVER))
    session.play()
    given_out = session.sink.all
    records["t_ns"] -= ORIGIN
    aggregator = SecondAggregator()
    whole, last = aggregator.add(records), aggregator.close()
    assert given_out.inferences.tolist() == records.tolist()
    assert given_out.seconds.rows.tolist() == [*whole.rows.tolist(), *last.rows.tolist()]


def test_the_last_second_is_given_though_it_is_not_full() -> None:
    session = Session(said(records=inferences([ORIGIN + 100 * MS, ORIGIN + 200 * MS])), said(OVER))
    session.play()
    assert session.sink.all.seconds.rows["count"].tolist() == [2]


def test_a_deadline_is_counted_in_the_seconds() -> None:
    records = inferences([ORIGIN, ORIGIN + MS], [2 * MS, 4 * MS])
    session = Session(said(records=records), said(OVER), load=Load(deadline_ns=3 * MS))
    session.play()
    assert session.sink.all.seconds.rows["deadline_misses"].tolist() == [1]


@pytest.mark.parametrize(("watched", "numbers"), [(TWO_MODELS, [0, 1]), (None, [0])])
def test_the_models_of_a_watched_program_are_told_apart_in_the_seconds(
    watched: Watched | None, numbers: list[int]
) -> None:
    records = inferences([ORIGIN, ORIGIN + MS, ORIGIN + 2 * MS], [2 * MS, 4 * MS, 6 * MS])
    records["stream"] = [0, 1, 0]
    session = Session(said(records=records), said(OVER), watched=watched)
    session.play()
    assert ByStream(session.sink.all.seconds).numbers == numbers


# How a session ends.


@pytest.mark.parametrize("reason", ["runs", "duration"])
def test_a_session_that_comes_to_its_end_is_kept(tmp_path: Path, reason: str) -> None:
    session = Session(said(MEASURING), said(Ended(reason, ORIGIN + NS)), recorder=recorder_in(tmp_path))
    assert session.play() == Outcome(reason, None)
    manifest = read_manifest(tmp_path / "session.edgetop")
    assert (manifest.state, manifest.end_reason) == ("finished", reason)


@pytest.mark.parametrize("stage", ["start", "runtime", "model", "input", "first"])
def test_unusable_input_leaves_no_recording(tmp_path: Path, stage: str) -> None:
    failed = Failed(stage, "model.onnx: cannot be read", "give another")
    session = Session(said(), said(failed), recorder=recorder_in(tmp_path))
    outcome = session.play()
    assert outcome.end_reason == "input-error"
    assert isinstance(outcome.error, InputError)
    assert outcome.error.exit_code == EXIT_USAGE
    assert str(outcome.error) == "model.onnx: cannot be read (give another)"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (Failed("inference", "10 inferences in a row failed"), "the engine died: 10 inferences in a row failed"),
        (Failed("engine", "invalid data from the engine"), "the engine died: invalid data from the engine"),
        (Died("killed by SIGKILL", loading=False), "the engine died: killed by SIGKILL"),
        (
            Died("killed by SIGSEGV", loading=True, last_words="Segmentation fault"),
            "the engine died: killed by SIGSEGV while it was loading the model; its last words: Segmentation fault",
        ),
    ],
)
def test_an_engine_that_dies_leaves_the_recording(tmp_path: Path, last: Failed | Died, words: str) -> None:
    records = inferences([ORIGIN + MS, ORIGIN + 2 * MS])
    session = Session(said(MEASURING), said(last, records=records), recorder=recorder_in(tmp_path))
    outcome = session.play()
    assert outcome.end_reason == "engine-died"
    assert outcome.error
    assert (str(outcome.error), outcome.error.exit_code) == (words, EXIT_ENGINE_DIED)
    recording = Recording(tmp_path / "session.edgetop")
    assert recording.manifest.end_reason == "engine-died"
    assert len(merge(list(recording.play(inferences=True))).inferences) == 2


def test_at_the_end_everything_is_closed_and_nothing_comes_after() -> None:
    session = Session(said(OVER))
    session.play()
    assert session.engine.calls == ["close"]
    assert session.sink.is_closed
    assert session.sink.batches[-1].events[-1].kind == "ended"


def test_the_last_manifest_tells_the_whole_session() -> None:
    warmup, measured = inferences([ORIGIN + 2, ORIGIN + 3], phase=WARMUP), inferences([ORIGIN + 4])
    recorder = MemoryRecorder()
    session = Session(
        said(records=inferences([ORIGIN + 1], 40 * MS, FIRST)),
        said(MEASURING, records=np.concatenate([warmup, measured])),
        said(OVER),
        recorder=recorder,
    )
    session.play()
    manifest = recorder.finished
    assert manifest
    assert manifest == session.sink.all.manifest
    assert (manifest.state, manifest.end_reason, manifest.duration_ns) == ("finished", "runs", 750 * MS)
    assert (manifest.methodology.warmup_runs, manifest.methodology.measure_runs) == (2, 1)
    assert manifest.engine.first_ns == 40 * MS


# Stop.


def test_a_stop_asks_the_engine_once_and_waits_for_its_end() -> None:
    engine = ScriptedEngine(when_stopped=[said(), said(), said(Ended("stop", ORIGIN + NS))])
    session = Session(engine=engine)
    session.step(2)
    session.conductor.stop()
    session.conductor.stop()
    assert session.play() == Outcome("user", None)
    assert engine.calls == ["stop", "close"]


def test_the_first_reason_to_stop_counts() -> None:
    session = Session(engine=ScriptedEngine(when_stopped=[said(Ended("stop", ORIGIN))]))
    session.conductor.stop("signal")
    session.conductor.stop("user")
    assert session.play() == Outcome("signal", None)


def test_a_stop_before_anything_was_measured_ends_in_order() -> None:
    recorder = MemoryRecorder()
    engine = ScriptedEngine(when_stopped=[said(Ended("stop", ORIGIN))])
    session = Session(engine=engine, recorder=recorder)
    session.conductor.stop()
    assert session.play() == Outcome("user", None)
    assert recorder.finished
    assert recorder.finished.methodology.measure_runs == 0
    assert len(recorder.all.seconds) == 0


def test_an_engine_that_does_not_end_is_killed_without_loss() -> None:
    engine, recorder = ScriptedEngine(), MemoryRecorder()
    session = Session(engine=engine, recorder=recorder)
    session.conductor.stop()
    session.step(after_s=0)
    session.step(after_s=STOP_PATIENCE_NS / NS)
    assert session.conductor.outcome is None
    engine._updates.append(said(records=inferences([ORIGIN + NS])))
    session.step(after_s=0.001)
    assert session.conductor.outcome == Outcome("user", None)
    assert engine.calls == ["stop", "close"]
    assert [event.kind for event in session.sink.events()] == ["engine-killed", "ended"]
    assert recorder.all.inferences["t_ns"].tolist() == [NS]
    assert recorder.all.seconds.rows["count"].sum() == 1
    assert recorder.finished
    assert recorder.finished.methodology.measure_runs == 1


def test_a_watched_program_has_its_own_time_to_end_and_is_hurried_once_for_each_request() -> None:
    engine = ScriptedEngine(isolation="program")
    session = Session(engine=engine)
    session.conductor.stop()
    session.step(4, after_s=STOP_PATIENCE_NS / NS)
    assert (session.conductor.outcome, engine.calls) == (None, ["stop"])
    session.conductor.hurry()
    session.step(3)
    assert engine.calls == ["stop", "stop"]


@pytest.mark.parametrize("fails", [ValueError("a defect"), MemoryError()])
def test_a_watched_program_outlives_an_error_of_ours_and_the_recording_says_so(fails: Exception) -> None:
    engine, recorder = ScriptedEngine(isolation="program", fails=fails, goes_on="it goes on"), MemoryRecorder()
    session = Session(engine=engine, recorder=recorder)
    assert session.run().end_reason == "internal-error"
    assert engine.calls == ["start", "close"]  # and no stop
    assert [event.message for event in recorder.all.events if event.kind == "program-unwatched"] == ["it goes on"]


def test_a_watched_program_is_let_go_with_its_last_inferences() -> None:
    engine = ScriptedEngine(said(records=inferences([ORIGIN + MS])), isolation="program", goes_on="it goes on")
    session = Session(engine=engine)
    session.conductor.let_go("signal")
    session.step()
    assert session.conductor.outcome == Outcome("signal", None)
    assert engine.calls == ["close"]
    assert len(session.sink.all.inferences) == 1
    assert session.sink.events("program-unwatched")


def test_an_engine_that_is_no_program_is_stopped_when_it_is_let_go() -> None:
    engine = ScriptedEngine()
    session = Session(engine=engine)
    session.conductor.let_go("signal")
    session.step()
    assert engine.calls == ["stop"]


def test_an_engine_that_ends_at_the_last_moment_has_ended() -> None:
    engine = ScriptedEngine()
    session = Session(engine=engine)
    session.conductor.stop()
    session.step()
    engine._updates.append(said(Ended("stop", ORIGIN)))
    session.step(after_s=60)
    assert session.conductor.outcome == Outcome("user", None)
    assert [event.kind for event in session.sink.events()] == ["ended"]


def test_an_engine_that_dies_of_a_stop_has_died() -> None:
    session = Session(engine=ScriptedEngine(when_stopped=[said(Died("killed by SIGABRT", loading=False))]))
    session.conductor.stop()
    assert session.play().end_reason == "engine-died"


# Bursts of instrumented inferences.

BURST = BurstTaken(ORIGIN + NS, 20 * MS, (5 * MS, 7 * MS, 6 * MS), (Operator("conv1", "Conv", "CPU", 3, 17 * MS),))


def test_bursts_are_recorded_and_shown_with_an_event_each() -> None:
    recorder = MemoryRecorder()
    session = Session(said(MEASURING, BURST), said(BURST), said(OVER), recorder=recorder)
    session.play()
    expected = tuple(burst_of(NS, number, BURST.operators) for number in (0, 1))
    assert session.sink.all.bursts == recorder.all.bursts == expected
    first, second = session.sink.events("profile-burst")
    assert (first.t_ns, first.severity) == (NS, "info")
    assert data_of(first.body) == {
        "burst": 0,
        "duration_ns": 20 * MS,
        "runs": 3,
        "run_ns": 6 * MS,
        "plain_ns": None,
        "left_out_runs": 0,
        "disturbed_runs": 0,
        "preempted": 0,
        "waited_ns": None,
        "stolen_ns": None,
    }
    assert second.body.burst == 1
    assert len(session.sink.all.inferences) == 0


def test_a_bursts_event_has_its_neighbours_and_disturbances() -> None:
    before, after = (inferences([ORIGIN + at + i for i in range(30)]) for at in (NS // 2, 2 * NS))
    before["latency_ns"], after["latency_ns"] = 3 * MS, 9 * MS
    taken = replace(BURST, left_out_ns=(8 * MS, 9 * MS), disturbed=True, preempted=2, waited_ns=5 * MS, stolen_ns=0)
    session = Session(
        said(MEASURING, records=before), said(taken, replace(BURST, plain_disturbed=True), records=after), said(OVER),
        profile_every_ns=NS,
    )  # fmt: skip
    session.play()
    first, second = session.sink.events("profile-burst")
    told = {
        name: getattr(first.body, name)
        for name in ("plain_ns", "left_out_runs", "disturbed_runs", "preempted", "waited_ns")
    }
    assert told == {
        "plain_ns": 3 * MS, "left_out_runs": 2, "disturbed_runs": 3, "preempted": 2, "waited_ns": 5 * MS,
    }  # fmt: skip
    assert second.body.plain_ns is None


def test_a_bursts_neighbours_may_have_come_in_many_updates() -> None:
    updates = [inferences([ORIGIN + NS // 2 + 2_000 * step + i for i in range(2_000)]) for step in range(8)]
    for step, records in enumerate(updates):
        records["latency_ns"] = (1 + step) * MS
    updates[-1]["ok"] = False
    taken = said(BURST, records=inferences([ORIGIN + 2 * NS], 9 * MS))
    session = Session(
        said(MEASURING), *(said(records=each) for each in updates), taken, said(OVER), profile_every_ns=NS
    )
    session.play()
    (event,) = session.sink.events("profile-burst")
    assert event.body.plain_ns == 7 * MS


def test_a_long_burst_is_an_event_when_it_begins() -> None:
    session = Session(said(MEASURING, BurstBegan(ORIGIN + NS)), said(OVER))
    session.play()
    (event,) = session.sink.events("profile-burst-begins")
    assert event.t_ns == NS


def test_how_operators_are_profiled_is_an_event() -> None:
    session = Session(said(ProfilerChosen("", "no such library")), said(ProfilerChosen("runs", "too old")), said(OVER))
    session.play()
    nothing, something = session.sink.events("profiler")
    assert nothing.message == "operators are not profiled (no such library)"
    assert something.message == "operators: runs (too old)"
    assert data_of(something.body) == {"way": "runs", "reason": "too old", "every_ns": 0}


def test_a_burst_can_be_asked_for_while_inferences_are_measured() -> None:
    session = Session(said(STARTED), said(MEASURING))
    session.conductor.order(Order("profile"))
    session.step(2)
    assert "profile" not in session.engine.calls
    session.conductor.order(Order("profile"))
    session.step(2)
    assert session.engine.calls.count("profile") == 1


def test_a_paused_recording_has_no_bursts_but_their_events() -> None:
    recorder = MemoryRecorder()
    session = Session(said(MEASURING), said(BURST), recorder=recorder)
    session.step()
    session.conductor.order(Order("pause"))
    session.step()
    assert recorder.all.bursts == ()
    assert "profile-burst" in [event.kind for event in recorder.all.events]
    assert len(session.sink.all.bursts) == 1


# Marks and pauses.


def test_a_mark_is_an_event_of_its_moment() -> None:
    session = Session()
    session.step()
    session.conductor.order(Order("mark", "[fan] on"))
    session.step()
    (mark,) = session.sink.events("mark")
    assert (mark.t_ns, mark.source, mark.message) == (250 * MS, "user", "[fan] on")


def second_of(number: int) -> EngineUpdate:
    return said(records=inferences([ORIGIN + number * NS + i * MS for i in range(3)]))


def test_a_paused_recording_has_a_gap_and_the_screen_none() -> None:
    recorder = MemoryRecorder()
    session = Session(*(second_of(i) for i in range(6)), said(OVER), recorder=recorder)
    session.step(2)
    session.conductor.order(Order("pause"))
    session.step(2)
    session.conductor.order(Order("resume"))
    session.play()
    kept, shown = recorder.all, session.sink.all
    assert sorted({t // NS for t in kept.inferences["t_ns"].tolist()}) == [0, 1, 4, 5]
    assert len(shown.inferences) == 18
    assert kept.seconds.rows.tolist() == shown.seconds.rows.tolist()
    assert kept.events == shown.events
    told = [(event.kind, event.t_ns) for event in kept.events if event.kind.startswith("recording")]
    assert told == [("recording-paused", 500 * MS), ("recording-resumed", 1000 * MS)]


def test_a_session_that_ends_while_paused_records_its_end() -> None:
    recorder = MemoryRecorder()
    session = Session(second_of(0), said(OVER), recorder=recorder)
    session.conductor.order(Order("pause"))
    session.play()
    assert [event.kind for event in recorder.all.events] == ["recording-paused", "ended"]
    assert recorder.finished
    assert len(recorder.all.inferences) == 0


def test_a_pause_is_reported_once_and_only_when_recording() -> None:
    for recorder, expected in ((MemoryRecorder(), 1), (None, 0)):
        session = Session(recorder=recorder)
        session.conductor.order(Order("resume"))
        session.conductor.order(Order("pause"))
        session.conductor.order(Order("pause"))
        session.step()
        assert len(session.sink.events("recording-paused")) == expected
        assert session.sink.events("recording-resumed") == []


# Trouble.


def test_a_disk_that_fails_is_told_once_and_the_run_goes_on() -> None:
    recorder = MemoryRecorder(fails_at=1)
    session = Session(*(second_of(i) for i in range(5)), said(OVER), recorder=recorder)
    outcome = session.play()
    assert outcome.end_reason == "runs"
    assert isinstance(outcome.error, RecordingError)
    assert outcome.error.exit_code == EXIT_NOT_WRITTEN
    (told,) = session.sink.events("recording-failed")
    assert told.severity == "critical"
    assert "No space left" in told.message
    assert len(session.sink.all.inferences) == 15


def test_a_disk_that_fails_only_at_the_end_is_the_outcome() -> None:
    session = Session(said(OVER), recorder=MemoryRecorder(fails_at=99))
    outcome = session.play()
    assert outcome.end_reason == "runs"
    assert isinstance(outcome.error, RecordingError)


def test_the_engines_death_is_the_graver_error() -> None:
    session = Session(said(), said(Died("killed", loading=False)), recorder=MemoryRecorder(fails_at=0))
    error = session.play().error
    assert error
    assert error.exit_code == EXIT_ENGINE_DIED


def test_a_wall_clock_that_steps_gives_an_anchor() -> None:
    session = Session(said(records=inferences([ORIGIN + MS])), said(records=inferences([ORIGIN + 2 * MS])), said(OVER))
    session.step()
    session.clock.step_wall(-7200)
    session.play()
    batch = session.sink.all
    assert batch.inferences["t_ns"].tolist() == [MS, 2 * MS]
    (step,) = session.sink.events("clock-step")
    assert step.t_ns == 500 * MS
    assert batch.manifest
    assert [anchor.t_ns for anchor in batch.manifest.clock.anchors] == [0, 500 * MS]
    assert [b.until_ns for b in session.sink.batches] == sorted(b.until_ns for b in session.sink.batches)


class BrokenSampler:
    """A sampler with a defect, from some drain on."""

    sensors = ()

    def __init__(self, good_drains: int) -> None:
        self._good_drains = good_drains
        self.is_stopped = False

    def add(self, sources: Sequence[Source]) -> None:
        pass

    def start(self, on_throttling: Callable[[], object]) -> None:
        self.on_throttling = on_throttling

    def stop(self) -> None:
        self.is_stopped = True

    def drain(self) -> tuple[Readings, tuple[Event, ...]]:
        self._good_drains -= 1
        if self._good_drains < 0:
            raise ZeroDivisionError("a defect")
        return Sampler((), SystemClock(), 0).drain()


def test_the_batch_after_a_change_of_throttling_is_urgent() -> None:
    sampler = BrokenSampler(good_drains=4)
    session = Session(said(), said(), said(), said(OVER), sampler=sampler)
    session.conductor._sensors.start(session.conductor._on_throttling)
    session.step()
    sampler.on_throttling()
    session.step(2)
    assert [batch.is_urgent for batch in session.sink.batches] == [False, True, False]


def test_a_defect_of_ours_ends_the_session_in_order(tmp_path: Path) -> None:
    sampler = BrokenSampler(good_drains=1)
    recorder = recorder_in(tmp_path)
    session = Session(said(records=inferences([ORIGIN + MS])), recorder=recorder, sampler=sampler)
    outcome = session.run()
    assert outcome.end_reason == "internal-error"
    assert "ZeroDivisionError" in str(outcome.error)
    assert session.engine.calls == ["start", "close"]
    assert sampler.is_stopped
    assert session.sink.is_closed
    (event,) = session.sink.events("internal-error")
    assert "a defect" in event.message
    played = merge(list(Recording(tmp_path / "session.edgetop").play(inferences=True)))
    assert played.inferences["t_ns"].tolist() == [MS]
    assert [event.kind for event in played.events] == ["internal-error", "ended"]


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_defective_recorder_does_not_keep_a_session_alive(fails_at: int) -> None:
    recorder = MemoryRecorder(fails_at, ValueError("a defect"))
    session = Session(said(), said(OVER), recorder=recorder)
    outcome = session.run()
    assert "a defect" in str(outcome.error)
    assert recorder.finished
    assert session.engine.calls == ["start", "close"]
    assert session.sink.is_closed
    assert session.sink.events("ended")


def test_an_engine_that_cannot_close_leaves_a_whole_recording() -> None:
    recorder = MemoryRecorder()
    engine = ScriptedEngine(said(OVER), fails_to_close=OSError(9, "Bad file descriptor"))
    session = Session(engine=engine, recorder=recorder)
    outcome = session.run()
    assert outcome.end_reason == "runs"
    assert "Bad file descriptor" in str(outcome.error)
    assert recorder.finished
    assert recorder.finished.end_reason == "runs"
    assert session.sink.is_closed


# Start.


class Still:
    """A source whose one value never changes."""

    cadence_s = 0.01

    def __init__(self, label: str, value: float | Gap) -> None:
        self.name = f"temp/{label}"
        self.sensors = (sensor("temp", label, "here"),)
        self._value = value

    def read(self) -> Sequence[float | Gap]:
        return [self._value]


def test_engine_sensors_come_with_its_pid_and_the_boards_at_once() -> None:
    asked: list[int] = []

    def engine_sensors(pid: int) -> Found:
        asked.append(pid)
        return Found((Still("engine", 2.0),), (Missing("mem/pss", "too old"),))

    board = Found((Still("board", 1.0),), (Missing("power", "no rail"),))
    session = Session(
        said(), said(STARTED), said(OVER), engine_sensors=engine_sensors, board=board, clock=SystemClock()
    )
    session.run()
    known = [[info.id for info in batch.manifest.sensors] for batch in session.sink.batches if batch.manifest]
    assert asked == [STARTED.pid]
    assert known[:2] == [["temp/board"], ["temp/board", "temp/engine"]]
    assert [event.source for event in session.sink.events("sensor-missing")] == ["sensor power", "sensor mem/pss"]


def test_readings_and_what_befalls_sensors_come_with_the_batches() -> None:
    engine = ScriptedEngine(when_stopped=[said(Ended("stop", ORIGIN))])
    board = Found((Still("a", 1.0), Still("b", 2.0), Still("c", Gap("off"))))
    session = Session(engine=engine, board=board, clock=SystemClock())
    session.conductor.start()
    while len({batch.until_ns for batch in session.sink.batches if len(batch.readings)}) < 3:
        assert session.conductor.join(0.01) is None
    session.conductor.stop()
    session.conductor.join(PATIENCE_S)
    readings = session.sink.all.readings
    assert set(readings[["sensor", "value"]].tolist()) == {(0, 1.0), (1, 2.0)}
    assert all(0 <= t <= session.sink.all.until_ns for t in readings["t_ns"].tolist())
    assert [(event.source, event.message) for event in session.sink.events("sensor-lost")] == [("sensor temp/c", "off")]


class Late(Still):
    """A latent source whose third value is above 0."""

    is_latent = True

    def __init__(self) -> None:
        super().__init__("late", 0.0)
        self._values = itertools.chain([0.0, 0.0], itertools.repeat(3.0))

    def read(self) -> Sequence[float | Gap]:
        return [next(self._values)]


def test_a_latent_sensor_is_in_the_manifest_with_its_first_reading() -> None:
    engine = ScriptedEngine(when_stopped=[said(Ended("stop", ORIGIN))])
    session = Session(engine=engine, board=Found((Late(), Still("a", 1.0))), clock=SystemClock())
    session.conductor.start()
    while not any(3.0 in batch.readings["value"] for batch in session.sink.batches):
        assert session.conductor.join(0.01) is None
    session.conductor.stop()
    session.conductor.join(10)
    known: tuple[str, ...] = ()
    values: dict[str, list[float]] = {}
    for batch in session.sink.batches:
        known = tuple(info.id for info in batch.manifest.sensors) if batch.manifest else known
        for _, place, value in batch.readings.tolist():
            values.setdefault(known[place], []).append(value)
    assert known == ("temp/a", "temp/late")
    assert values["temp/late"][:2] == [0.0, 3.0]


class BereftSampler(BrokenSampler):
    """Finds a sensor of the engine and one of the board lost, once the engine has been polled."""

    def __init__(self, engine: "Vanishing") -> None:
        super().__init__(good_drains=99)
        self._engine = engine

    def drain(self) -> tuple[Readings, tuple[Event, ...]]:
        readings, _ = super().drain()
        lost = ("temp/engine", "temp/board") if self._engine.polls else ()
        return readings, tuple(
            read_event(0, "sensor-lost", "warning", f"sensor {name}", "no such process") for name in lost
        )


class Vanishing(ScriptedEngine):
    """Its process is gone as soon as it has been polled; the next poll knows."""

    polls = 0

    def poll(self) -> EngineUpdate:
        self.polls += 1
        return super().poll()


@pytest.mark.parametrize("last", [Ended("runs", ORIGIN), Died("killed by SIGKILL", loading=False)])
def test_sensors_of_an_ended_engine_are_not_lost(last: Ended | Died) -> None:
    engine = Vanishing(said(STARTED), said(last))
    of_engine, of_board = Found((Still("engine", 1.0),)), Found((Still("board", 1.0),))
    session = Session(engine=engine, sampler=BereftSampler(engine), engine_sensors=lambda _: of_engine, board=of_board)
    session.run()
    assert [event.source for event in session.sink.events("sensor-lost")] == ["sensor temp/board"]


class ReplacedSampler(BrokenSampler):
    """Finds a sensor of the engine lost while it reloads, and back later."""

    def __init__(self) -> None:
        super().__init__(good_drains=99)
        self._kinds = iter(["", "sensor-lost", "", "sensor-back", "sensor-lost", "sensor-back"])

    def drain(self) -> tuple[Readings, tuple[Event, ...]]:
        readings, _ = super().drain()
        kind = next(self._kinds, "")
        return readings, (read_event(0, kind, "warning", "sensor temp/engine", "gone"),) if kind else ()


def test_sensors_of_an_engine_that_is_replaced_are_not_lost() -> None:
    """When it is lost or back later, that is told."""
    updates = (said(STARTED), said(Reloading()), said(STARTED), said(), said(), said(), said(OVER))
    of_engine = Found((Still("engine", 1.0),), (Missing("mem/pss", "too old"),))
    session = Session(*updates, sampler=ReplacedSampler(), engine_sensors=lambda _: of_engine)
    session.run()
    assert [len(session.sink.events(kind)) for kind in ("sensor-lost", "sensor-back", "sensor-missing")] == [1, 1, 1]


def test_an_engine_that_cannot_be_started_leaves_nothing_behind(tmp_path: Path) -> None:
    engine = ScriptedEngine(refuses=InputError("--engine-python /nope: cannot be run"))
    session = Session(engine=engine, recorder=recorder_in(tmp_path))
    with pytest.raises(InputError, match="/nope"):
        session.conductor.start()
    assert list(tmp_path.iterdir()) == []
    assert session.sink.is_closed


def test_a_discovery_that_fails_leaves_no_engine_behind() -> None:
    def engine_sensors(pid: int) -> Found:
        raise ProcessLookupError(3, f"no process {pid}")

    session = Session(said(STARTED), engine_sensors=engine_sensors)
    assert session.run().end_reason == "internal-error"
    assert session.engine.calls == ["start", "close"]


@pytest.mark.parametrize("updates", [(said(MEASURING),), (said(), said(OVER))])
def test_waiting_for_the_measurement_ends_with_the_session(updates: Sequence[EngineUpdate]) -> None:
    engine = ScriptedEngine(*updates, when_stopped=[said(Ended("stop", ORIGIN))])
    session = Session(engine=engine)
    assert not session.conductor.began_measuring.is_set()
    session.conductor.start()
    assert session.conductor.began_measuring.wait(PATIENCE_S)
    session.conductor.stop()
    assert session.conductor.join(PATIENCE_S)


def test_from_the_measurement_on_the_heap_is_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frozen: list[bool] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(True))
    session = Session(said(STARTED), said(MEASURING), said(), said(OVER))
    assert frozen == []
    session.run()
    assert frozen == [True]


def test_a_stop_from_another_thread_ends_the_session() -> None:
    engine = ScriptedEngine(said(MEASURING), when_stopped=[said(Ended("stop", ORIGIN))])
    session = Session(engine=engine)
    session.conductor.start()
    assert session.conductor.began_measuring.wait(PATIENCE_S)
    threading.Thread(target=session.conductor.stop).start()
    assert session.conductor.join(PATIENCE_S) == Outcome("user", None)
    assert session.conductor.join(0) == Outcome("user", None)


# An engine that fills its buffer faster than steps come.


def full_fast(*messages: Any, starts_ns: Sequence[int] = (), is_behind: bool = False) -> EngineUpdate:
    return EngineUpdate(inferences(starts_ns), messages, poll_within_s=0.001, is_behind=is_behind)


def test_a_buffer_that_fills_fast_is_emptied_between_the_steps() -> None:
    starts = [ORIGIN + number * MS for number in range(200)]
    updates = [full_fast(starts_ns=[start]) for start in starts]
    session = Session(full_fast(MEASURING), *updates, said(OVER), clock=SystemClock())
    session.run()
    assert len(session.sink.all.inferences) == len(starts)
    assert sum(len(batch.inferences) > 0 for batch in session.sink.batches) <= len(starts) / 10


def test_the_end_is_seen_between_the_steps() -> None:
    session = Session(full_fast(MEASURING), full_fast(OVER), clock=SystemClock())
    assert session.run() == Outcome("runs", None)


def test_what_is_still_in_a_full_buffer_is_not_missing() -> None:
    session = Session(
        said(MEASURING), full_fast(starts_ns=[ORIGIN + 10 * MS], is_behind=True), full_fast(is_behind=True), said()
    )
    session.step(4)
    assert [batch.until_ns for batch in session.sink.batches] == [250 * MS, 250 * MS, 250 * MS, 1000 * MS]
    assert not session.sink.events("records-late")


def test_an_engine_that_is_long_not_kept_up_with_is_reported_once() -> None:
    behind = [full_fast(starts_ns=[ORIGIN + number * MS], is_behind=True) for number in range(20)]
    session = Session(said(MEASURING), *behind, said())
    session.step(22)
    late, on_time = session.sink.events("records-late", "records-on-time")
    assert (late.kind, late.t_ns, on_time.kind, on_time.t_ns) == (
        "records-late",
        2500 * MS,
        "records-on-time",
        5500 * MS,
    )
